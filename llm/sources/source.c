#include "source.h"

#include "gguf.h"
#include "hf.h"
#include "synth.h"

#include "../base/str.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char synth_prefix[] = "synth:";

/* By what the file begins with, not by its name. */
static clv_status open_file(const char *path, llm_source **out)
{
    clv_file_map map = {0};
    CLV_TRY(clv_file_map_open(path, &map));
    bool gguf = map.size >= 4 && memcmp(map.data, "GGUF", 4) == 0;
    bool empty = map.size == 0;
    clv_file_map_close(&map);
    if (gguf)
        return llm_source_open_gguf(path, out);
    return clv_error(CLV_ERR_FORMAT,
                     "%s: %s; give a GGUF file or the directory of a Hugging "
                     "Face model (config.json, model.safetensors)",
                     path, empty ? "the file is empty" : "not a GGUF file");
}

/* The GGUF files of a directory and whether it has weights as Hugging Face's
 * have. */
typedef struct listing {
    uint32_t n_gguf;
    char gguf[NAME_MAX + 1]; /* one of them */
    bool safetensors;
} listing;

/* Of a split model, which is opened by its first part: "-00002-of-00003.gguf"
 */
static bool is_later_part(const char *name, size_t length)
{
    enum { END = 20 };
    unsigned number, count;
    return length > END &&
           sscanf(name + length - END, "-%5u-of-%5u.gguf", &number, &count) ==
               2 &&
           number > 1;
}

static clv_status list(const char *dir, listing *out)
{
    DIR *stream = opendir(dir);
    if (!stream)
        return clv_error(CLV_ERR_IO, "%s: cannot read the directory: %s", dir,
                         strerror(errno));
    *out = (listing){0};
    for (struct dirent *e; (e = readdir(stream));) {
        const size_t n = strlen(e->d_name);
        if (n > 5 && !strcmp(e->d_name + n - 5, ".gguf") &&
            !is_later_part(e->d_name, n)) {
            snprintf(out->gguf, sizeof out->gguf, "%s", e->d_name);
            out->n_gguf++;
        }
        out->safetensors |= !strncmp(e->d_name, "model", 5) &&
                            strstr(e->d_name, ".safetensors");
    }
    closedir(stream);
    return CLV_OK;
}

/* A directory whose weights are in one GGUF file, or in the parts of a split
 * one, stands for that file. */
static clv_status open_directory(const char *dir, llm_source **out)
{
    listing l;
    CLV_TRY(list(dir, &l));
    if (l.safetensors || !l.n_gguf)
        return llm_source_open_hf(dir, out);
    if (l.n_gguf > 1)
        return clv_error(CLV_ERR_INVALID,
                         "%s: holds %u GGUF files; give the one to load", dir,
                         (unsigned)l.n_gguf);
    char *path = llm_path_join(dir, l.gguf);
    const clv_status status = path ? open_file(path, out) : llm_no_memory(dir);
    free(path);
    return status;
}

clv_status llm_source_open(const char *path, clv_progress_fn progress,
                           void *progress_ctx, llm_source **out)
{
    struct stat info;
    size_t n = sizeof synth_prefix - 1;
    if (strncmp(path, synth_prefix, n) == 0)
        return llm_source_open_synth(path + n, progress, progress_ctx, out);
    if (stat(path, &info)) {
        int reason = errno;
        return clv_error(reason == ENOENT ? CLV_ERR_NOT_FOUND : CLV_ERR_IO,
                         "%s: %s; give a GGUF file, a Hugging Face directory "
                         "or synth:NAME",
                         path, strerror(reason));
    }
    if (S_ISDIR(info.st_mode))
        return open_directory(path, out);
    if (!S_ISREG(info.st_mode))
        return clv_error(CLV_ERR_INVALID,
                         "%s: neither a file nor a directory; give a GGUF file "
                         "or a Hugging Face directory",
                         path);
    return open_file(path, out);
}

static clv_status each_map(const llm_source *source, llm_map_fn visit)
{
    return source->each_map ? source->each_map(source, visit) : CLV_OK;
}

clv_status llm_source_hold_files(const llm_source *source,
                                 const clv_model_params *params)
{
    if (params->lock && !source->each_map)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "made-up weights are in no file that could be locked "
                         "in memory; do not lock them");
    if (params->copy)
        CLV_TRY(each_map(source, llm_map_copy));
    return params->lock ? each_map(source, clv_file_map_lock) : CLV_OK;
}

clv_status llm_source_check(const llm_source *source, clv_status status)
{
    const clv_status damage = each_map(source, clv_file_map_check);
    return damage ? damage : status;
}

void llm_source_hold(llm_source *source)
{
    atomic_fetch_add(&source->holders, 1);
}

void llm_source_destroy(llm_source *source)
{
    if (source && atomic_fetch_sub(&source->holders, 1) == 0)
        source->destroy(source);
}
