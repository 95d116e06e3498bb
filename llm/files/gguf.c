#include "gguf_internal.h"
#include "ranges.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "model files are mapped as they are, little-endian");

enum {
    MAX_KV = 1 << 16,
    MAX_TENSORS = 1 << 20,
    MAX_PARTS = 9999,
    MIN_KV_SIZE = 8 + 1 + 4 + 1,             /* key, type, value */
    MIN_TENSOR_SIZE = 8 + 1 + 4 + 8 + 4 + 8, /* name, rank, dim, type, offset */
    DEFAULT_ALIGNMENT = 32,
    LEAST_ALIGNMENT = 8,
};

/* ------------------------------------------------------------------------ */
/* Reading forward                                                          */

typedef struct reader {
    const uint8_t *data;
    uint64_t size, pos;
    const char *path;
} reader;

/* Sets *out to the next n bytes and moves past them. */
static clv_status take(reader *r, uint64_t n, const char *what,
                       const uint8_t **out)
{
    if (n > r->size - r->pos)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: %s at byte %" PRIu64 " runs past the end of the "
                         "file (%" PRIu64 " bytes); download it again",
                         r->path, what, r->pos, r->size);
    *out = r->data + r->pos;
    r->pos += n;
    return CLV_OK;
}

static clv_status take_number(reader *r, const char *what, void *out,
                              size_t size)
{
    const uint8_t *at = NULL;
    CLV_TRY(take(r, size, what, &at));
    memcpy(out, at, size);
    return CLV_OK;
}

static clv_status take_u32(reader *r, const char *what, uint32_t *out)
{
    return take_number(r, what, out, sizeof *out);
}

static clv_status take_u64(reader *r, const char *what, uint64_t *out)
{
    return take_number(r, what, out, sizeof *out);
}

static clv_status take_str(reader *r, const char *what, llm_str *out)
{
    uint64_t size = 0;
    const uint8_t *at = NULL;
    CLV_TRY(take_u64(r, what, &size));
    CLV_TRY(take(r, size, what, &at));
    *out = (llm_str){(const char *)at, size};
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Settings                                                                 */

static clv_status bad_type(const reader *r, llm_str key, const char *of,
                           uint32_t type)
{
    return clv_error(CLV_ERR_FORMAT,
                     "%s: key '%s' has %stype %" PRIu32 "%s; download the file "
                     "again or convert the model again",
                     r->path, llm_str_show(key).text, of, type,
                     type == LLM_GGUF_ARRAY
                         ? ", arrays in arrays, which no model setting is"
                         : ", the format ends at 12");
}

/* Moves past a value of a type, which belongs to key. */
static clv_status skip_value(reader *r, llm_str key, uint32_t type,
                             uint64_t count, const char *what, const char *of)
{
    const uint8_t *at = NULL;
    llm_str text;
    uint64_t bytes;
    const uint32_t size = llm_gguf_scalar_size(type);
    if (type == LLM_GGUF_STRING) {
        for (uint64_t i = 0; i < count; i++)
            CLV_TRY(take_str(r, what, &text));
        return CLV_OK;
    }
    if (!size)
        return bad_type(r, key, of, type);
    if (__builtin_mul_overflow(count, size, &bytes))
        bytes = UINT64_MAX;
    return take(r, bytes, what, &at);
}

static clv_status skip_array(reader *r, llm_str key)
{
    uint32_t type = 0;
    uint64_t count = 0;
    CLV_TRY(take_u32(r, "an array", &type));
    CLV_TRY(take_u64(r, "an array", &count));
    return skip_value(r, key, type, count, "an array", "items of ");
}

static clv_status parse_kv(reader *r, llm_gguf_kv *kv)
{
    CLV_TRY(take_str(r, "a key", &kv->key));
    CLV_TRY(take_u32(r, "a key's type", &kv->type));
    if (kv->key.size == 0)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: the key before byte %" PRIu64 " has no name; "
                         "download the file again",
                         r->path, r->pos);
    const uint64_t begin = r->pos;
    CLV_TRY(kv->type == LLM_GGUF_ARRAY
                ? skip_array(r, kv->key)
                : skip_value(r, kv->key, kv->type, 1, "a key's value", ""));
    kv->data = r->data + begin;
    kv->size = r->pos - begin;
    return CLV_OK;
}

static clv_status parse_settings(llm_gguf *g, reader *r)
{
    g->kv = calloc(g->n_kv + 1, sizeof *g->kv);
    g->keys = calloc(g->n_kv + 1, sizeof *g->keys);
    if (!g->kv || !g->keys)
        return llm_no_memory(r->path);
    for (uint64_t i = 0; i < g->n_kv; i++) {
        CLV_TRY(parse_kv(r, &g->kv[i]));
        g->keys[i] = (llm_name){g->kv[i].key, i};
    }
    uint64_t twice;
    if (!llm_names_sort(g->keys, g->n_kv, &twice))
        return clv_error(CLV_ERR_FORMAT,
                         "%s: key '%s' occurs twice; convert the model again",
                         r->path, llm_str_show(g->kv[twice].key).text);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* Tensors                                                                  */

static clv_status bad_tensor(const reader *r, llm_str name, const char *what)
{
    return clv_error(CLV_ERR_FORMAT,
                     "%s: tensor '%s' %s; download the file again or convert "
                     "the model again",
                     r->path, llm_str_show(name).text, what);
}

static clv_status parse_dims(reader *r, llm_gguf_tensor *t)
{
    if (t->rank < 1 || t->rank > 4)
        return bad_tensor(r, t->name, "has not 1 to 4 dimensions");
    for (uint32_t i = 0; i < t->rank; i++) {
        uint64_t dim = 0;
        CLV_TRY(take_u64(r, "a tensor's shape", &dim));
        if (dim < 1 || dim > INT64_MAX)
            return bad_tensor(r, t->name, "has an empty or endless dimension");
        t->dims[t->rank - 1 - i] = (int64_t)dim;
    }
    return CLV_OK;
}

static clv_status tensor_size(const reader *r, llm_gguf_tensor *t)
{
    llm_gguf_type_info type;
    if (!llm_gguf_type_find(t->type, &type))
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: tensor '%s' has unknown type %" PRIu32
                         ", supported: %s; use a file in one of these",
                         r->path, llm_str_show(t->name).text, t->type,
                         llm_gguf_supported_types().text);
    t->dtype = type.dtype;
    if (t->dims[t->rank - 1] % type.elements)
        return bad_tensor(r, t->name, "has rows that are not whole blocks");
    uint64_t size = (uint64_t)t->dims[t->rank - 1] / type.elements;
    bool overflow = __builtin_mul_overflow(size, type.bytes, &size);
    for (uint32_t i = 0; i + 1 < t->rank; i++)
        overflow |= __builtin_mul_overflow(size, (uint64_t)t->dims[i], &size);
    if (overflow)
        return bad_tensor(r, t->name, "has a size past 64 bits");
    t->size = size;
    return CLV_OK;
}

static clv_status parse_tensor(reader *r, llm_gguf_tensor *t, uint64_t *offset)
{
    CLV_TRY(take_str(r, "a tensor's name", &t->name));
    CLV_TRY(take_u32(r, "a tensor's rank", &t->rank));
    if (t->name.size == 0)
        return bad_tensor(r, t->name, "has no name");
    CLV_TRY(parse_dims(r, t));
    CLV_TRY(take_u32(r, "a tensor's type", &t->type));
    CLV_TRY(take_u64(r, "a tensor's offset", offset));
    return tensor_size(r, t);
}

static clv_status get_alignment(const llm_gguf *g, uint64_t *out)
{
    uint32_t alignment = DEFAULT_ALIGNMENT;
    CLV_TRY(llm_gguf_opt(get_u32, g, "general.alignment", &alignment));
    if (alignment < LEAST_ALIGNMENT || (alignment & (alignment - 1)))
        return clv_error(CLV_ERR_FORMAT,
                         "%s: general.alignment is %" PRIu32 ", not a power "
                         "of two of at least %d; convert the model again",
                         g->path, alignment, LEAST_ALIGNMENT);
    *out = alignment;
    return CLV_OK;
}

/* r stands at the end of the header. */
static clv_status place_tensors(llm_gguf *g, const reader *r,
                                const uint64_t *offsets)
{
    uint64_t alignment = 0;
    CLV_TRY(get_alignment(g, &alignment));
    uint64_t start = (r->pos + alignment - 1) / alignment * alignment;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        llm_gguf_tensor *t = &g->tensors[i];
        uint64_t begin, end;
        if (offsets[i] % alignment)
            return bad_tensor(r, t->name, "has an offset that is not aligned");
        if (__builtin_add_overflow(start, offsets[i], &begin) ||
            __builtin_add_overflow(begin, t->size, &end))
            return bad_tensor(r, t->name, "ends past 64 bits");
        if (end > r->size)
            return clv_error(CLV_ERR_FORMAT,
                             "%s: tensor '%s' ends at byte %" PRIu64
                             ", the file at %" PRIu64 "; download it again",
                             r->path, llm_str_show(t->name).text, end, r->size);
        t->data = r->data + begin;
    }
    return CLV_OK;
}

static clv_status check_overlaps(const llm_gguf *g, const reader *r)
{
    llm_range *ranges = calloc(g->n_tensors + 1, sizeof *ranges);
    if (!ranges)
        return llm_no_memory(r->path);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const uint64_t begin = (uint64_t)(g->tensors[i].data - r->data);
        ranges[i] = (llm_range){begin, begin + g->tensors[i].size, i};
    }
    const llm_range *found = llm_ranges_sort(ranges, g->n_tensors);
    const uint64_t index = found ? found->index : 0;
    free(ranges);
    return found ? bad_tensor(r, g->tensors[index].name,
                              "begins inside another tensor")
                 : CLV_OK;
}

static clv_status index_tensors(llm_gguf *g)
{
    free(g->names);
    g->names = calloc(g->n_tensors + 1, sizeof *g->names);
    if (!g->names)
        return llm_no_memory(g->path);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        g->names[i] = (llm_name){g->tensors[i].name, i};
    uint64_t twice;
    if (!llm_names_sort(g->names, g->n_tensors, &twice))
        return clv_error(
            CLV_ERR_FORMAT,
            "%s: tensor '%s' occurs twice; convert the model again", g->path,
            llm_str_show(g->tensors[twice].name).text);
    return CLV_OK;
}

static clv_status parse_tensors(llm_gguf *g, reader *r)
{
    uint64_t *offsets = calloc(g->n_tensors + 1, sizeof *offsets);
    g->tensors = calloc(g->n_tensors + 1, sizeof *g->tensors);
    clv_status status = offsets && g->tensors ? CLV_OK : llm_no_memory(r->path);
    for (uint64_t i = 0; i < g->n_tensors && !status; i++)
        status = parse_tensor(r, &g->tensors[i], &offsets[i]);
    if (!status)
        status = place_tensors(g, r, offsets);
    free(offsets);
    if (!status)
        status = check_overlaps(g, r);
    return status ? status : index_tensors(g);
}

/* ------------------------------------------------------------------------ */
/* One file                                                                 */

static clv_status parse_magic(reader *r)
{
    uint32_t version = 0;
    if (r->size < 4 || memcmp(r->data, "GGUF", 4))
        return clv_error(CLV_ERR_FORMAT,
                         "%s: not a GGUF file (it does not begin with 'GGUF')",
                         r->path);
    r->pos = 4;
    CLV_TRY(take_u32(r, "the version", &version));
    if (version >= 1u << 24)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: a big-endian GGUF file, only little-endian ones "
                         "are read; convert its byte order",
                         r->path);
    if (version != 2 && version != 3)
        return clv_error(CLV_ERR_VERSION,
                         "%s: GGUF version %" PRIu32 ", supported: 2 and 3; "
                         "convert the model again",
                         r->path, version);
    return CLV_OK;
}

static clv_status check_count(const reader *r, const char *what, uint64_t n,
                              uint64_t most, uint64_t least_size)
{
    if (n > most)
        return clv_error(CLV_ERR_LIMIT,
                         "%s: %" PRIu64 " %s, at most %" PRIu64
                         " are read; download the file again",
                         r->path, n, what, most);
    if (n > (r->size - r->pos) / least_size)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: %" PRIu64 " %s do not fit a file of %" PRIu64
                         " bytes; download it again",
                         r->path, n, what, r->size);
    return CLV_OK;
}

static clv_status parse(llm_gguf *g, const void *data, uint64_t size)
{
    reader r = {data, size, 0, g->path};
    CLV_TRY(parse_magic(&r));
    CLV_TRY(take_u64(&r, "the tensor count", &g->n_tensors));
    CLV_TRY(take_u64(&r, "the key count", &g->n_kv));
    CLV_TRY(check_count(&r, "keys", g->n_kv, MAX_KV, MIN_KV_SIZE));
    CLV_TRY(
        check_count(&r, "tensors", g->n_tensors, MAX_TENSORS, MIN_TENSOR_SIZE));
    CLV_TRY(parse_settings(g, &r));
    return parse_tensors(g, &r);
}

static clv_status create(const char *path, llm_gguf **out)
{
    llm_gguf *g = calloc(1, sizeof *g);
    if (g)
        g->path = strdup(path);
    if (!g || !g->path) {
        free(g);
        return llm_no_memory(path);
    }
    *out = g;
    return CLV_OK;
}

/* On failure *out is to be closed. */
static clv_status open_one(const char *path, llm_gguf **out)
{
    CLV_TRY(create(path, out));
    CLV_TRY(clv_file_map_open(path, &(*out)->map));
    return parse(*out, (*out)->map.data, (*out)->map.size);
}

/* ------------------------------------------------------------------------ */
/* Models split over several files                                          */

static clv_status get_split(const llm_gguf *g, uint32_t *number,
                            uint32_t *count)
{
    *number = 0;
    *count = 1;
    CLV_TRY(llm_gguf_opt(get_u32, g, "split.count", count));
    CLV_TRY(llm_gguf_opt(get_u32, g, "split.no", number));
    if (*count > MAX_PARTS)
        return clv_error(CLV_ERR_LIMIT,
                         "%s: split into %" PRIu32 " files, at most %d are "
                         "read; download it again",
                         g->path, *count, MAX_PARTS);
    return CLV_OK;
}

/* The path of part number (from 0), made from that of part `of`: *out is the
 * caller's. */
static clv_status part_path(const llm_gguf *g, uint32_t of, uint32_t number,
                            uint32_t count, char **out)
{
    char suffix[40];
    size_t n =
        (size_t)snprintf(suffix, sizeof suffix,
                         "-%05" PRIu32 "-of-%05" PRIu32 ".gguf", of + 1, count);
    size_t length = strlen(g->path);
    if (length < n || strcmp(g->path + length - n, suffix))
        return clv_error(CLV_ERR_INVALID,
                         "%s: part %" PRIu32 " of %" PRIu32 " of a split "
                         "model, but its name does not end in '%s'; give the "
                         "files the names they were published under",
                         g->path, of + 1, count, suffix);
    char *path = strdup(g->path);
    if (!path)
        return llm_no_memory(g->path);
    snprintf(suffix, sizeof suffix, "-%05" PRIu32 "-of-%05" PRIu32 ".gguf",
             number + 1, count);
    memcpy(path + length - n, suffix, n);
    *out = path;
    return CLV_OK;
}

static clv_status append_tensors(llm_gguf *g, const llm_gguf *part)
{
    const uint64_t n = g->n_tensors + part->n_tensors;
    llm_gguf_tensor *tensors = realloc(g->tensors, (n + 1) * sizeof *tensors);
    if (!tensors)
        return llm_no_memory(g->path);
    memcpy(tensors + g->n_tensors, part->tensors,
           part->n_tensors * sizeof *tensors);
    g->tensors = tensors;
    g->n_tensors = n;
    return CLV_OK;
}

static clv_status open_part(llm_gguf *g, uint32_t number, uint32_t count)
{
    char *path = NULL;
    uint32_t its_number = 0, its_count = 0;
    CLV_TRY(part_path(g, 0, number, count, &path));
    llm_gguf **part = &g->parts[g->n_parts++]; /* closed with the whole */
    clv_status status = open_one(path, part);
    free(path);
    if (status)
        return status;
    CLV_TRY(get_split(*part, &its_number, &its_count));
    if (its_number != number || its_count != count)
        return clv_error(
            CLV_ERR_FORMAT,
            "%s: says it is part %" PRIu32 " of %" PRIu32
            ", expected part %" PRIu32 " of %" PRIu32 "; download it again",
            (*part)->path, its_number + 1, its_count, number + 1, count);
    return append_tensors(g, *part);
}

static clv_status open_parts(llm_gguf *g)
{
    uint32_t number = 0, count = 1, total;
    CLV_TRY(get_split(g, &number, &count));
    if (number)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: says it is part %" PRIu32 ", expected the first; "
                         "download it again",
                         g->path, number + 1);
    if (count < 2)
        return CLV_OK;
    g->parts = calloc(count - 1, sizeof *g->parts);
    if (!g->parts)
        return llm_no_memory(g->path);
    for (uint32_t i = 1; i < count; i++)
        CLV_TRY(open_part(g, i, count));
    total = (uint32_t)g->n_tensors;
    CLV_TRY(llm_gguf_opt(get_u32, g, "split.tensors.count", &total));
    if (total != g->n_tensors)
        return clv_error(CLV_ERR_FORMAT,
                         "%s: its %" PRIu32 " files hold %" PRIu64
                         " tensors, not %" PRIu32 "; download them again",
                         g->path, count, g->n_tensors, total);
    return index_tensors(g);
}

/* ------------------------------------------------------------------------ */

static clv_status finish(llm_gguf *g, clv_status status, llm_gguf **out)
{
    if (status)
        llm_gguf_close(g);
    else
        *out = g;
    return status;
}

/* Opens a file; of a split model the first in place of another one. */
static clv_status open_first(const char *path, llm_gguf **out)
{
    uint32_t number = 0, count = 1;
    char *first = NULL;
    CLV_TRY(open_one(path, out));
    CLV_TRY(get_split(*out, &number, &count));
    if (number == 0 || count < 2)
        return CLV_OK;
    CLV_TRY(part_path(*out, number, 0, count, &first));
    llm_gguf_close(*out);
    *out = NULL;
    const clv_status status = open_one(first, out);
    free(first);
    return status;
}

clv_status llm_gguf_open(const char *path, llm_gguf **out)
{
    llm_gguf *g = NULL;
    clv_status status = open_first(path, &g);
    if (!status)
        status = open_parts(g);
    const clv_status damage = g ? llm_gguf_check(g) : CLV_OK;
    return finish(g, damage ? damage : status, out);
}

static clv_status check_whole(const llm_gguf *g)
{
    uint32_t number = 0, count = 1;
    CLV_TRY(get_split(g, &number, &count));
    if (count > 1)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "%s: part of a split model, which can only be read "
                         "from files",
                         g->path);
    return CLV_OK;
}

clv_status llm_gguf_open_memory(const void *data, uint64_t size,
                                const char *name, llm_gguf **out)
{
    llm_gguf *g = NULL;
    CLV_TRY(create(name, &g));
    clv_status status = parse(g, data, size);
    return finish(g, status ? status : check_whole(g), out);
}

void llm_gguf_close(llm_gguf *g)
{
    if (!g)
        return;
    for (uint32_t i = 0; i < g->n_parts; i++)
        llm_gguf_close(g->parts[i]);
    free(g->parts);
    free(g->names);
    free(g->keys);
    free(g->tensors);
    free(g->kv);
    clv_file_map_close(&g->map);
    free(g->path);
    free(g);
}

clv_status llm_gguf_each_map(const llm_gguf *g, llm_map_fn visit)
{
    CLV_TRY(visit(&g->map, g->path));
    for (uint32_t i = 0; i < g->n_parts; i++)
        if (g->parts[i])
            CLV_TRY(llm_gguf_each_map(g->parts[i], visit));
    return CLV_OK;
}

clv_status llm_gguf_check(const llm_gguf *g)
{
    return llm_gguf_each_map(g, clv_file_map_check);
}

const char *llm_gguf_path(const llm_gguf *g)
{
    return g->path;
}

uint64_t llm_gguf_tensor_count(const llm_gguf *g)
{
    return g->n_tensors;
}

const llm_gguf_tensor *llm_gguf_tensor_at(const llm_gguf *g, uint64_t index)
{
    return index < g->n_tensors ? &g->tensors[index] : NULL;
}

const llm_gguf_tensor *llm_gguf_find(const llm_gguf *g, const char *name)
{
    const llm_name *found =
        llm_names_find(g->names, g->n_tensors, llm_str_of(name));
    return found ? &g->tensors[found->index] : NULL;
}
