#include "ref.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAST_OP CLV_OP_MATMUL_EXPERTS /* of those that it has */

static const char *const memory_names[REF_MEMORY_COUNT] = {
    [REF_MEMORY_COHERENT] = "coherent",
    [REF_MEMORY_SHADOW] = "shadow",
    [REF_MEMORY_LOCAL] = "local",
    [REF_MEMORY_SHARED] = "shared",
};

typedef struct reader {
    const clv_host_api *host;
    uint32_t device;
    clv_status status; /* the first failure */
} reader;

static const char *text_of(const reader *r, const char *name)
{
    char key[32];
    snprintf(key, sizeof key, "%s%" PRIu32, name, r->device);
    const char *value = r->host->option(r->host->host, key);
    return value ? value : "";
}

static void malformed(reader *r, const char *name, const char *need)
{
    if (r->status)
        return;
    r->status = clv_fail(r->host, CLV_ERR_INVALID,
                         REF_NAME ".%s%" PRIu32 " is '%.40s', it must be %s",
                         name, r->device, text_of(r, name), need);
}

static bool read_bool(const reader *r, const char *name)
{
    const char *value = text_of(r, name);
    return !strcmp(value, "on") || !strcmp(value, "true") ||
           !strcmp(value, "yes") || !strcmp(value, "1");
}

/* The range is the option's; the host checked it. */
static uint64_t read_count(const reader *r, const char *name)
{
    return strtoull(text_of(r, name), NULL, 10);
}

/* The next item of "a,b,c"; false at the end. */
static bool next_item(const char **text, char *item, size_t size)
{
    if (!**text)
        return false;
    size_t n = strcspn(*text, ",");
    snprintf(item, size, "%.*s", (int)(n < size ? n : size - 1), *text);
    *text += n + ((*text)[n] == ',');
    return true;
}

static uint32_t find_name(const char *const *names, uint32_t n,
                          const char *item)
{
    uint32_t i = 0;
    while (i < n && !(names[i] && !strcmp(names[i], item)))
        i++;
    return i;
}

static void read_ops(reader *r, ref_settings *out)
{
    const char *text = text_of(r, "ops");
    char item[32];
    bool all = !strcmp(text, "all");
    for (uint32_t op = 1; op <= LAST_OP; op++)
        out->takes[op] = all;
    if (all || !strcmp(text, "none"))
        return;
    while (next_item(&text, item, sizeof item)) {
        uint32_t op = 1;
        while (op <= LAST_OP && strcmp(clv_op_name(op), item))
            op++;
        if (op > LAST_OP)
            malformed(r, "ops", "all, none, or names of ops");
        else
            out->takes[op] = true;
    }
}

static void read_memory(reader *r, ref_settings *out)
{
    const char *text = text_of(r, "memory");
    char item[32];
    while (next_item(&text, item, sizeof item)) {
        uint32_t kind = find_name(memory_names, REF_MEMORY_COUNT, item);
        if (kind == REF_MEMORY_COUNT || out->n_memory == REF_MEMORY_COUNT) {
            malformed(r, "memory", "of coherent, shadow, local, shared");
            return;
        }
        out->memory[out->n_memory++] = kind;
    }
    if (!out->n_memory)
        malformed(r, "memory", "at least one memory type");
}

/* Up to max whole numbers; how many there were. */
static uint32_t read_numbers(reader *r, const char *name, int64_t *out,
                             uint32_t max)
{
    const char *text = text_of(r, name);
    char item[32], *end;
    uint32_t n = 0;
    while (next_item(&text, item, sizeof item)) {
        long long value = strtoll(item, &end, 10);
        if (end == item || *end || value < 0 || n == max) {
            malformed(r, name, "a short list of numbers");
            return 0;
        }
        out[n++] = value;
    }
    return n;
}

static void read_limit(reader *r, const char *name, clv_axis_limit *out)
{
    int64_t v[3] = {0};
    uint32_t n = read_numbers(r, name, v, 3);
    if (n && n != 3)
        malformed(r, name, "min,max,multiple");
    *out = (clv_axis_limit){v[0], v[1], v[2]};
}

/* layout: what it is called where the device takes what it prefers. */
static ref_layouts read_layouts(reader *r, const char *name, const char *layout)
{
    const char *const names[] = {"linear", layout, "fickle"};
    char need[64];
    uint32_t n = find_name(names, 3, text_of(r, name));
    snprintf(need, sizeof need, "linear, %s or fickle", layout);
    if (n == 3)
        malformed(r, name, need);
    return (ref_layouts){.prefers = n > 0, .fickle = n == 2};
}

static void read_import(reader *r, ref_settings *out)
{
    const char *const names[] = {"on", "mapped", "off"};
    const uint32_t n = find_name(names, 3, text_of(r, "import"));
    if (n == 3)
        malformed(r, "import", "on, mapped or off");
    out->pointers = n == 0   ? CLV_HANDLE_HOST_POINTER
                    : n == 1 ? CLV_HANDLE_MAPPED_POINTER
                             : 0;
    out->descriptors = n < 2 ? CLV_HANDLE_OPAQUE_FD : 0;
}

static uint32_t read_alignment(reader *r, const char *name)
{
    uint32_t n = (uint32_t)read_count(r, name);
    if (n & (n - 1))
        malformed(r, name, "a power of two");
    return n;
}

clv_status ref_settings_read(const clv_host_api *host, uint32_t device,
                             ref_settings *out)
{
    reader r = {host, device, CLV_OK};
    memset(out, 0, sizeof *out);
    read_ops(&r, out);
    read_memory(&r, out);
    read_import(&r, out);
    out->import_writable = read_bool(&r, "import_writable");
    out->max_buffer = read_count(&r, "max_buffer");
    out->memory_size = read_count(&r, "memory_size");
    out->repacks = read_bool(&r, "repacks");
    out->n_static = read_numbers(&r, "static", out->statics, REF_MAX_STATIC);
    for (uint32_t i = 0; i < out->n_static; i++)
        if (out->statics[i] <= (i ? out->statics[i - 1] : 0))
            malformed(&r, "static", "positive and ascending");
    read_limit(&r, "rows", &out->rows);
    read_limit(&r, "sequence", &out->sequence);
    read_limit(&r, "channels", &out->channels);
    out->pointer_align = read_alignment(&r, "align");
    out->stride_align = read_alignment(&r, "stride_align");
    out->states = read_layouts(&r, "states", "weights");
    out->weights = read_layouts(&r, "weights", "private");
    out->split = read_bool(&r, "split");
    out->in_place = read_bool(&r, "in_place");
    out->variants = read_bool(&r, "variants");
    out->hide = read_bool(&r, "hide");
    out->queue_depth = (uint32_t)read_count(&r, "queue_depth");
    out->copy_queues = (uint32_t)read_count(&r, "copy_queues");
    out->max_programs = (uint32_t)read_count(&r, "max_programs");
    out->progress = read_bool(&r, "progress");
    out->flag_wait = read_bool(&r, "flag_wait");
    out->is_virtual = read_bool(&r, "virtual");
    out->tick_ns = (uint32_t)read_count(&r, "tick_ns");
    out->trace_nodes = (uint32_t)read_count(&r, "trace_nodes");
    out->trace_fused = (uint32_t)read_count(&r, "trace_fused");
    out->fail_after = (uint32_t)read_count(&r, "fail_after");
    out->delay_us = (uint32_t)read_count(&r, "delay_us");
    snprintf(out->driver, sizeof out->driver, REF_NAME " %.32s",
             text_of(&r, "driver"));
    snprintf(out->name, sizeof out->name, "%.63s", text_of(&r, "name"));
    if (!out->queue_depth || out->queue_depth > REF_MAX_DEPTH)
        malformed(&r, "queue_depth", "1..64");
    if (out->copy_queues >= REF_MAX_QUEUES)
        malformed(&r, "copy_queues", "0..2");
    if (!out->tick_ns)
        malformed(&r, "tick_ns", "at least 1");
    return r.status;
}
