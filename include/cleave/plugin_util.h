/*
 * cleave/plugin_util.h - small helpers for backend plugins
 *
 * Not part of the ABI: functions that a plugin compiles into itself, or does
 * without. They need plugin.h and GNU C.
 */
#ifndef CLEAVE_PLUGIN_UTIL_H_
#define CLEAVE_PLUGIN_UTIL_H_

#include <cleave/plugin_format.h>
#include <cleave/plugin_layout.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------ */
/* Structs                                                                  */

/* Element i of an array of structs that lie stride bytes apart. */
static inline void *clv_at(const void *array, uint32_t i, uint32_t stride)
{
    return (char *)(uintptr_t)array + (size_t)i * stride;
}

/* Whether no extension in the struct's chain is both unknown and required; for
 * a plugin that knows none. theirs begins with a clv_header. */
static inline int clv_chain_known(const void *theirs)
{
    const clv_header *node = (const clv_header *)theirs;
    while ((node = (const clv_header *)node->next))
        if (node->struct_type & CLV_STRUCT_REQUIRED)
            return 0;
    return 1;
}

/* Copies a struct of the host's into one of our size; what it lacks is zero. */
static inline void clv_read(void *own, size_t size, const void *theirs)
{
    uint32_t has = ((const clv_header *)theirs)->struct_size;
    memset(own, 0, size);
    memcpy(own, theirs, has < size ? has : size);
}

/* Fills a struct of the host's behind its header, as far as both reach. */
static inline void clv_write(void *theirs, const void *own, size_t size)
{
    uint32_t capacity = ((const clv_header *)theirs)->struct_size;
    if (capacity < size)
        size = capacity;
    if (size > sizeof(clv_header))
        memcpy((char *)theirs + sizeof(clv_header),
               (const char *)own + sizeof(clv_header),
               size - sizeof(clv_header));
}

/* Elements and bytes of a block along the last dimension; 1 element but for I4
 * and the block types. False for a type that is not known. */
static inline int clv_block(uint32_t dtype, int64_t *elements, int64_t *bytes)
{
    const clv_format *f = clv_format_of(dtype);
    *elements = f ? f->elements : 1;
    *bytes = f ? f->bytes : 0;
    return f != NULL;
}

/* Alignment of a known type's elements; of a block, its scale's. */
static inline uint32_t clv_align(uint32_t dtype)
{
    return clv_format_of(dtype)->align;
}

/* Dimension d of a tensor, with these values of symbols; NULL: their upper
 * bounds. */
static inline int64_t clv_dim(const clv_tensor_desc *t, uint32_t d,
                              const int64_t *symbols)
{
    return symbols && t->symbols[d] ? symbols[t->symbols[d] - 1] : t->dims[d];
}

/* Whether the strides of a linear tensor follow from its dimensions. */
static inline int clv_is_dense(const clv_tensor_desc *t)
{
    int64_t any = 0;
    for (uint32_t d = 0; d < t->rank; d++)
        any |= t->strides[d];
    return !any;
}

/* Bytes an index step of each dimension of a linear tensor, with these values
 * of symbols; of a block type's last dimension, those of a block. */
static inline void clv_strides(const clv_tensor_desc *t, const int64_t *symbols,
                               int64_t strides[CLV_MAX_RANK])
{
    int64_t elements, bytes, n;
    const int dense = clv_is_dense(t);
    clv_block(t->dtype, &elements, &bytes);
    for (uint32_t d = t->rank; d-- > 0;) {
        strides[d] = dense ? bytes : t->strides[d];
        n = clv_dim(t, d, symbols);
        bytes *= d + 1 == t->rank ? (n + elements - 1) / elements : n;
    }
}

/* Bytes from the tensor's first to its last, with these values of symbols; in a
 * layout by axes with all padding, 0 where it is none. */
static inline uint64_t clv_tensor_size(const clv_tensor_desc *t,
                                       const int64_t *symbols)
{
    int64_t elements, size, strides[CLV_MAX_RANK];
    clv_block(t->dtype, &elements, &size);
    if (t->layout != CLV_LAYOUT_LINEAR && t->layout != CLV_LAYOUT_PRIVATE) {
        uint32_t axes[CLV_MAX_RANK];
        clv_layout_map map;
        return clv_layout_of(t, &map, axes)
                   ? (uint64_t)map.n_elements * (uint64_t)size
                   : 0;
    }
    clv_strides(t, symbols, strides);
    for (uint32_t d = t->rank; d-- > 0;) {
        int64_t n = clv_dim(t, d, symbols);
        if (!n)
            return 0;
        if (d == t->rank - 1)
            n = (n + elements - 1) / elements;
        size += (n - 1) * strides[d];
    }
    return (uint64_t)size;
}

/* A row of clv_plugin_api.options: CLV_OPTION(INT, PLUGIN, "threads", "0",
 * .min = 0, .max = 64, .help = "..."). In C, not C++. */
#define CLV_OPTION(type_, scope_, key_, default_, ...)                         \
    {                                                                          \
        .header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},               \
        .scope = CLV_SCOPE_##scope_, .type = CLV_OPTION_##type_, .key = key_,  \
        .default_value = default_, __VA_ARGS__                                 \
    }

/* ------------------------------------------------------------------------ */
/* The host                                                                 */

/* set_error with a format. Returns status. */
__attribute__((format(printf, 3, 4))) static inline clv_status
clv_fail(const clv_host_api *host, clv_status status, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return host->set_error(host->host, status, 0, text);
}

/* log with a format. */
__attribute__((format(printf, 3, 4))) static inline void
clv_log(const clv_host_api *host, uint32_t level, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    host->log(host->host, level, NULL, 0, text);
}

/* UNSUPPORTED, with the error set, unless clv_chain_known(). */
static inline clv_status clv_check_chain(const clv_host_api *host,
                                         const void *theirs)
{
    return clv_chain_known(theirs)
               ? CLV_OK
               : clv_fail(host, CLV_ERR_UNSUPPORTED,
                          "a required extension is not known here; use a newer "
                          "plugin");
}

static inline clv_status clv_no_memory(const clv_host_api *host, uint64_t size)
{
    return clv_fail(host, CLV_ERR_NO_MEMORY,
                    "no memory for %llu bytes; close other programs or use a "
                    "smaller model",
                    (unsigned long long)size);
}

/* Zeroed, at a multiple of 64; NULL, with the error set, when out of memory.
 * host->free() releases it. */
static inline void *clv_new(const clv_host_api *host, uint64_t size)
{
    void *block = host->alloc(host->host, size ? size : 1, 64);
    if (block)
        return memset(block, 0, (size_t)size);
    clv_no_memory(host, size);
    return NULL;
}

/* NULL is legal. */
static inline void clv_free(const clv_host_api *host, void *block)
{
    if (block)
        host->free(host->host, block);
}

/* ------------------------------------------------------------------------ */
/* Devices                                                                  */

/* clv_device_info.uuid of the host's processors, all of them or some, whoever
 * drives them: two plugins that offer them offer the same hardware. */
#define CLV_UUID_HOST "cleave:host-cpus" /* 16 bytes */

/* What struct clv_plugin_device begins with in a plugin that uses the slots of
 * plugin_memory.h or plugin_queue.h. */
typedef struct clv_device_base {
    const clv_host_api *host;
    struct clv_queue *queue; /* plugin_queue.h */
} clv_device_base;

static inline const clv_device_base *clv_base(const clv_plugin_device *dev)
{
    return (const clv_device_base *)(const void *)dev;
}

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_UTIL_H_ */
