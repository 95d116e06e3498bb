#include "safetensors.h"

#include "../base/json.h"
#include "../base/str.h"
#include "ranges.h"

#include <cleave/plugin_format.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_HEADER = 100 << 20, MAX_TENSORS = 1 << 20 };

static const struct {
    const char *name;
    uint32_t size;
} others[] = {
    /* types that have no clv_dtype */
    {"F64", 8}, {"I64", 8}, {"I16", 2},  {"U64", 8},     {"U32", 4},
    {"U16", 2}, {"U8", 1},  {"BOOL", 1}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
};

/* One mapped file and the names its tensors point to. */
typedef struct shard {
    char *path;
    clv_file_map map;
    llm_json *header;
} shard;

struct llm_safetensors {
    char *path;
    shard *shards;
    uint64_t n_shards;
    llm_safetensors_tensor *tensors;
    llm_name *names;
    uint64_t n_tensors;
};

/* ------------------------------------------------------------------------ */
/* Tensors of a header                                                      */

static clv_status bad_tensor(const char *path, const char *name,
                             const char *what)
{
    return clv_error(CLV_ERR_FORMAT,
                     "%s: tensor '%s' %s; download the file again", path,
                     llm_str_show(llm_str_of(name)).text, what);
}

static clv_status parse_type(const char *path, const llm_json *item,
                             llm_safetensors_tensor *t, uint32_t *element)
{
    const char *type = llm_json_string(item, "dtype");
    if (!type)
        return bad_tensor(path, t->name, "has no dtype");
    for (uint32_t i = 1; i < CLV_DTYPE_COUNT; i++) {
        const clv_format *f = clv_format_of(i);
        if (f->safetensors_name && strcmp(f->safetensors_name, type) == 0) {
            t->type = f->safetensors_name;
            t->dtype = i;
            *element = f->bytes;
            return CLV_OK;
        }
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(others[i].name, type) == 0) {
            t->type = others[i].name;
            t->dtype = CLV_DTYPE_NONE;
            *element = others[i].size;
            return CLV_OK;
        }
    }
    return clv_error(CLV_ERR_UNSUPPORTED,
                     "%s: tensor '%s' has dtype '%s', weights may be F32, F16 "
                     "or BF16",
                     path, llm_str_show(llm_str_of(t->name)).text,
                     llm_str_show(llm_str_of(type)).text);
}

static clv_status parse_shape(const char *path, const llm_json *item,
                              llm_safetensors_tensor *t)
{
    const llm_json *shape = llm_json_member(item, "shape");
    if (!llm_json_is(shape, LLM_JSON_ARRAY))
        return bad_tensor(path, t->name, "has no shape");
    t->count = 1;
    for (llm_json_each e = llm_json_begin(shape); llm_json_next(&e);) {
        uint64_t n;
        if (t->rank == LLM_SAFETENSORS_MAX_RANK)
            return bad_tensor(path, t->name, "has more than 8 dimensions");
        if (!llm_json_u64(e.value, &n))
            return bad_tensor(path, t->name, "has a shape that is not numbers");
        if (__builtin_mul_overflow(t->count, n, &t->count))
            return bad_tensor(path, t->name, "has a size past 64 bits");
        t->dims[t->rank++] = (int64_t)n;
    }
    return CLV_OK;
}

static clv_status parse_range(const char *path, const llm_json *item,
                              const uint8_t *data, uint64_t size,
                              llm_safetensors_tensor *t, llm_range *where)
{
    const llm_json *range = llm_json_member(item, "data_offsets");
    uint64_t begin, end;
    if (!llm_json_is(range, LLM_JSON_ARRAY) || llm_json_count(range) != 2 ||
        !llm_json_u64(llm_json_at(range, 0), &begin) ||
        !llm_json_u64(llm_json_at(range, 1), &end))
        return bad_tensor(path, t->name, "has no data_offsets");
    if (begin > end || end - begin != t->size)
        return bad_tensor(path, t->name,
                          "has data_offsets that do not match its shape");
    if (end > size)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: tensor '%s' ends at byte %" PRIu64 " of the "
                         "data, the file at %" PRIu64 "; download it again",
                         path, llm_str_show(llm_str_of(t->name)).text, end,
                         size);
    t->data = data + begin;
    where->begin = begin;
    where->end = end;
    return CLV_OK;
}

static clv_status align(const char *path, llm_safetensors_tensor *t,
                        uint32_t element)
{
    if ((uintptr_t)t->data % element == 0 || t->size == 0)
        return CLV_OK;
    t->copy = malloc(t->size);
    if (!t->copy)
        return clv_error(CLV_ERR_NO_MEMORY,
                         "%s: no memory for %" PRIu64 " bytes of tensor '%s'",
                         path, t->size, llm_str_show(llm_str_of(t->name)).text);
    t->data = memcpy(t->copy, t->data, t->size);
    return CLV_OK;
}

static clv_status parse_tensor(const char *path, llm_str name,
                               const llm_json *item, const uint8_t *data,
                               uint64_t size, llm_safetensors_tensor *t,
                               llm_range *where)
{
    uint32_t element = 1;
    t->name = name.data;
    if (strlen(name.data) != name.size)
        return bad_tensor(path, t->name, "has a NUL character in its name");
    if (!llm_json_is(item, LLM_JSON_OBJECT))
        return bad_tensor(path, t->name, "is not described by an object");
    CLV_TRY(parse_type(path, item, t, &element));
    CLV_TRY(parse_shape(path, item, t));
    if (__builtin_mul_overflow(t->count, element, &t->size))
        return bad_tensor(path, t->name, "has a size past 64 bits");
    CLV_TRY(parse_range(path, item, data, size, t, where));
    return align(path, t, element);
}

static clv_status grow(llm_safetensors *st, uint64_t more)
{
    const uint64_t n = st->n_tensors + more;
    if (n > MAX_TENSORS)
        return clv_error(CLV_ERR_LIMIT,
                         "%s: %" PRIu64 " tensors, at most %d are read",
                         st->path, n, MAX_TENSORS);
    llm_safetensors_tensor *tensors =
        realloc(st->tensors, (n + 1) * sizeof *tensors);
    if (!tensors)
        return llm_no_memory(st->path);
    memset(tensors + st->n_tensors, 0, more * sizeof *tensors);
    st->tensors = tensors;
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Files                                                                    */

static clv_status parse_header(const char *path, const uint8_t *data,
                               uint64_t size, uint64_t *header, llm_json **out)
{
    if (size < 8)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: %" PRIu64 " bytes are no safetensors file; "
                         "download it again",
                         path, size);
    memcpy(header, data, 8);
    if (*header > MAX_HEADER || *header > size - 8)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: not a safetensors file: a header of %" PRIu64
                         " bytes in a file of %" PRIu64 "; download it again",
                         path, *header, size);
    return llm_json_parse(data + 8, *header, path, out);
}

/* The tensors fill the data, without holes and without sharing bytes: a file of
 * which that is not true is damaged, or hides something. */
static clv_status check_ranges(const char *path, uint64_t size,
                               llm_range *ranges,
                               const llm_safetensors_tensor *tensors,
                               uint64_t n)
{
    uint64_t end = 0;
    const llm_range *overlap = llm_ranges_sort(ranges, n);
    if (overlap)
        return bad_tensor(path, tensors[overlap->index].name,
                          "begins inside another tensor");
    for (uint64_t i = 0; i < n; i++) {
        if (ranges[i].begin != end)
            return bad_tensor(path, tensors[ranges[i].index].name,
                              "begins behind bytes that no tensor has");
        end = ranges[i].end;
    }
    if (end == size)
        return CLV_OK;
    return clv_error(CLV_ERR_FORMAT,
                     "%s: %" PRIu64 " bytes behind the last tensor; download "
                     "it again",
                     path, size - end);
}

static clv_status parse_tensors(llm_safetensors *st, const shard *s,
                                const char *path, const uint8_t *data,
                                uint64_t size, llm_range *ranges)
{
    const uint64_t first = st->n_tensors;
    uint64_t n = 0;
    for (llm_json_each e = llm_json_begin(s->header); llm_json_next(&e);) {
        if (!strcmp(e.key.data, "__metadata__"))
            continue;
        ranges[n].index = n;
        CLV_TRY(parse_tensor(path, e.key, e.value, data, size,
                             &st->tensors[st->n_tensors++], &ranges[n]));
        n++;
    }
    return check_ranges(path, size, ranges, st->tensors + first, n);
}

/* Adds the tensors of one file. */
static clv_status add(llm_safetensors *st, shard *s, const char *path,
                      const uint8_t *data, uint64_t size)
{
    uint64_t header = 0;
    CLV_TRY(parse_header(path, data, size, &header, &s->header));
    const uint64_t n = llm_json_count(s->header);
    CLV_TRY(grow(st, n));
    llm_range *ranges = calloc(n + 1, sizeof *ranges);
    if (!ranges)
        return llm_no_memory(path);
    clv_status status = parse_tensors(st, s, path, data + 8 + header,
                                      size - 8 - header, ranges);
    free(ranges);
    return status;
}

static clv_status add_file(llm_safetensors *st, const char *path)
{
    shard *s = &st->shards[st->n_shards++];
    s->path = strdup(path);
    if (!s->path)
        return llm_no_memory(path);
    CLV_TRY(clv_file_map_open(path, &s->map));
    clv_status status = add(st, s, path, s->map.data, s->map.size);
    const clv_status damage = clv_file_map_check(&s->map, path);
    return damage ? damage : status;
}

static clv_status index_names(llm_safetensors *st)
{
    st->names = calloc(st->n_tensors + 1, sizeof *st->names);
    if (!st->names)
        return llm_no_memory(st->path);
    for (uint64_t i = 0; i < st->n_tensors; i++)
        st->names[i] = (llm_name){llm_str_of(st->tensors[i].name), i};
    uint64_t twice;
    if (!llm_names_sort(st->names, st->n_tensors, &twice))
        return bad_tensor(st->path, st->tensors[twice].name, "occurs twice");
    return CLV_OK;
}

static clv_status create(const char *path, uint64_t n_shards,
                         llm_safetensors **out)
{
    llm_safetensors *st = calloc(1, sizeof *st);
    if (st) {
        st->path = strdup(path);
        st->shards = calloc(n_shards + 1, sizeof *st->shards);
    }
    if (!st || !st->path || !st->shards) {
        llm_safetensors_close(st);
        return llm_no_memory(path);
    }
    *out = st;
    return CLV_OK;
}

static clv_status finish(llm_safetensors *st, clv_status status,
                         llm_safetensors **out)
{
    if (status)
        llm_safetensors_close(st);
    else
        *out = st;
    return status;
}

clv_status llm_safetensors_open(const char *path, llm_safetensors **out)
{
    llm_safetensors *st = NULL;
    CLV_TRY(create(path, 1, &st));
    clv_status status = add_file(st, path);
    return finish(st, status ? status : index_names(st), out);
}

clv_status llm_safetensors_open_memory(const void *data, uint64_t size,
                                       const char *name, llm_safetensors **out)
{
    llm_safetensors *st = NULL;
    CLV_TRY(create(name, 1, &st));
    st->n_shards = 1;
    clv_status status = add(st, &st->shards[0], name, data, size);
    return finish(st, status ? status : index_names(st), out);
}

/* ------------------------------------------------------------------------ */
/* Directories                                                              */

static int compare_strings(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A shard lies beside its index: a name that leads elsewhere is refused. */
static bool plain_name(const char *name)
{
    return *name && *name != '.' && !strchr(name, '/');
}

/* The files the index names, each once. *out, but not the strings, is the
 * caller's. */
static clv_status list_shards(const char *path, const llm_json *index,
                              const char ***out, uint64_t *count)
{
    const llm_json *map = llm_json_member(index, "weight_map");
    const uint64_t n = llm_json_count(map);
    if (!llm_json_is(map, LLM_JSON_OBJECT) || n < 1)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: has no weight_map; download it again", path);
    const char **files = calloc(n, sizeof *files);
    if (!files)
        return llm_no_memory(path);
    uint64_t total = 0, unique = 0;
    for (llm_json_each e = llm_json_begin(map); llm_json_next(&e);) {
        const char *file = llm_json_text(e.value);
        if (!file || !plain_name(file)) {
            free(files);
            return clv_error(CLV_ERR_FORMAT,
                             "%s: the weight_map entry of '%s' is no file name "
                             "in the same directory; download it again",
                             path, llm_str_show(e.key).text);
        }
        files[total++] = file;
    }
    qsort(files, total, sizeof *files, compare_strings);
    for (uint64_t i = 0; i < total; i++)
        if (i == 0 || strcmp(files[i], files[unique - 1]))
            files[unique++] = files[i];
    *out = files;
    *count = unique;
    return CLV_OK;
}

/* Every tensor the index names must be in one of the files. */
static clv_status check_index(const llm_safetensors *st, const char *path,
                              const llm_json *index)
{
    const llm_json *map = llm_json_member(index, "weight_map");
    for (llm_json_each e = llm_json_begin(map); llm_json_next(&e);)
        if (!llm_safetensors_find(st, e.key.data))
            return clv_error(CLV_ERR_FORMAT,
                             "%s: tensor '%s' is in none of the files; "
                             "download them again",
                             path, llm_str_show(e.key).text);
    return CLV_OK;
}

static clv_status open_shards(const char *dir, const char *index_path,
                              const llm_json *index, llm_safetensors **out)
{
    const char **files = NULL;
    uint64_t n = 0;
    llm_safetensors *st = NULL;
    clv_status status = list_shards(index_path, index, &files, &n);
    if (!status)
        status = create(dir, n, &st);
    for (uint64_t i = 0; i < n && !status; i++) {
        char *path = llm_path_join(dir, files[i]);
        status = path ? add_file(st, path) : CLV_ERR_NO_MEMORY;
        free(path);
    }
    free(files);
    if (!status)
        status = index_names(st);
    if (!status)
        status = check_index(st, index_path, index);
    return finish(st, status, out);
}

static clv_status no_weights(const char *dir)
{
    return clv_error(CLV_ERR_NOT_FOUND,
                     "%s: holds neither model.safetensors nor "
                     "model.safetensors.index.json; give the directory of a "
                     "Hugging Face model or a GGUF file",
                     dir);
}

clv_status llm_safetensors_open_dir(const char *dir, llm_safetensors **out)
{
    char *single = llm_path_join(dir, "model.safetensors");
    char *several = llm_path_join(dir, "model.safetensors.index.json");
    llm_json *index = NULL;
    clv_status status;
    if (!single || !several)
        status = CLV_ERR_NO_MEMORY;
    else if (access(single, F_OK) == 0)
        status = llm_safetensors_open(single, out);
    else if (access(several, F_OK))
        status = no_weights(dir);
    else if (!(status = llm_json_load(several, &index)))
        status = open_shards(dir, several, index, out);
    llm_json_free(index);
    free(several);
    free(single);
    return status;
}

void llm_safetensors_close(llm_safetensors *st)
{
    if (!st)
        return;
    for (uint64_t i = 0; i < st->n_tensors; i++)
        free(st->tensors[i].copy);
    for (uint64_t i = 0; i < st->n_shards; i++) {
        llm_json_free(st->shards[i].header);
        clv_file_map_close(&st->shards[i].map);
        free(st->shards[i].path);
    }
    free(st->shards);
    free(st->tensors);
    free(st->names);
    free(st->path);
    free(st);
}

/* ------------------------------------------------------------------------ */

clv_status llm_safetensors_each_map(const llm_safetensors *st, llm_map_fn visit)
{
    for (uint64_t i = 0; i < st->n_shards; i++)
        CLV_TRY(visit(&st->shards[i].map, st->shards[i].path));
    return CLV_OK;
}

clv_status llm_safetensors_check(const llm_safetensors *st)
{
    return llm_safetensors_each_map(st, clv_file_map_check);
}

const char *llm_safetensors_path(const llm_safetensors *st)
{
    return st->path;
}

uint64_t llm_safetensors_count(const llm_safetensors *st)
{
    return st->n_tensors;
}

const llm_safetensors_tensor *llm_safetensors_at(const llm_safetensors *st,
                                                 uint64_t index)
{
    return index < st->n_tensors ? &st->tensors[index] : NULL;
}

const llm_safetensors_tensor *llm_safetensors_find(const llm_safetensors *st,
                                                   const char *name)
{
    const llm_name *found =
        llm_names_find(st->names, st->n_tensors, llm_str_of(name));
    return found ? &st->tensors[found->index] : NULL;
}
