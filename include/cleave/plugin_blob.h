/*
 * cleave/plugin_blob.h - graphs as serialised programs, for backend plugins
 *
 * For plugins whose program follows from its graph in no time, so that the
 * graph stands for it: program_serialize writes a heading and the graph,
 * program_validate, program_load and program_key compare. A program is loaded
 * for the graph that it was made of only, so that the bytes are compared and
 * never believed. Not part of the ABI: functions that a plugin compiles into
 * itself, or does without. They need POSIX.
 *
 * maker: a hash over build, driver, device and options. Graphs are copies by
 * clv_graph_copy().
 */
#ifndef CLEAVE_PLUGIN_BLOB_H_
#define CLEAVE_PLUGIN_BLOB_H_

#include <cleave/plugin_node.h>

#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CLV_MAX_BLOB ((uint64_t)1 << 26) /* bytes */

/* FNV-1a of 64 bits; begin with CLV_HASH_START. */
#define CLV_HASH_START 0xcbf29ce484222325ull
static inline uint64_t clv_hash(uint64_t h, const void *data, uint64_t size)
{
    const uint8_t *bytes = (const uint8_t *)data;
    for (uint64_t i = 0; i < size; i++)
        h = (h ^ bytes[i]) * 0x100000001b3ull;
    return h;
}

/* text NULL: as "". */
static inline uint64_t clv_hash_text(uint64_t h, const char *text)
{
    return clv_hash(h, text ? text : "", text ? strlen(text) + 1 : 1);
}

static inline uint64_t clv_hash_graph(uint64_t h, const clv_subgraph *g)
{
    h = clv_hash(h, g->symbols, g->n_symbols * sizeof *g->symbols);
    h = clv_hash(h, g->tensors, g->n_tensors * sizeof *g->tensors);
    return clv_hash(h, g->nodes, g->n_nodes * sizeof *g->nodes);
}

typedef struct clv_blob_heading {
    uint64_t plugin;   /* hash of its name and this format's */
    uint64_t checksum; /* of all that follows */
    uint64_t maker;
    uint32_t n_tensors, n_nodes, n_symbols, reserved;
} clv_blob_heading;

static inline clv_blob_heading clv_blob_head(const char *plugin, uint64_t maker,
                                             const clv_subgraph *g)
{
    const size_t rest = offsetof(clv_blob_heading, maker);
    clv_blob_heading head;
    memset(&head, 0, sizeof head);
    head.plugin = clv_hash_text(clv_hash_text(CLV_HASH_START, "1"), plugin);
    head.maker = maker;
    head.n_tensors = g->n_tensors;
    head.n_nodes = g->n_nodes;
    head.n_symbols = g->n_symbols;
    head.checksum =
        clv_hash_graph(clv_hash(CLV_HASH_START, (const char *)&head + rest,
                                sizeof head - rest),
                       g);
    return head;
}

/* program_serialize, without a message. */
static inline clv_status
clv_blob_write(const char *plugin, uint64_t maker, const clv_subgraph *g,
               clv_status (*write)(void *ctx, const void *data, uint64_t size),
               void *ctx)
{
    const clv_blob_heading head = clv_blob_head(plugin, maker, g);
    const struct {
        const void *data;
        uint64_t size;
    } parts[] = {{&head, sizeof head},
                 {g->symbols, g->n_symbols * sizeof *g->symbols},
                 {g->tensors, g->n_tensors * sizeof *g->tensors},
                 {g->nodes, g->n_nodes * sizeof *g->nodes}};
    for (uint32_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].size)
            CLV_TRY(write(ctx, parts[i].data, parts[i].size));
    return CLV_OK;
}

/* Its bytes, which clv_free() releases, in *size: fewer than it says where a
 * file is short. NULL with CLV_OK: it has none that could be a program. */
static inline clv_status clv_blob_read(const clv_host_api *host,
                                       const clv_blob *given, uint8_t **out,
                                       uint64_t *size)
{
    clv_blob from;
    *out = NULL;
    *size = 0;
    clv_read(&from, sizeof from, given);
    CLV_TRY(clv_check_chain(host, &from));
    if (from.size < sizeof(clv_blob_heading) || from.size > CLV_MAX_BLOB ||
        (!from.data && (from.fd < 0 || from.fd > INT32_MAX)))
        return CLV_OK;
    uint8_t *data = (uint8_t *)clv_new(host, from.size);
    if (!data)
        return CLV_ERR_NO_MEMORY;
    if (from.data)
        memcpy(data, from.data, (size_t)(*size = from.size));
    for (ssize_t n = 1; n > 0 && *size < from.size; *size += (uint64_t)n) {
        n = pread((int)from.fd, data + *size, (size_t)(from.size - *size),
                  (off_t)(from.offset + *size));
        n = n > 0 ? n : 0;
    }
    *out = data;
    return CLV_OK;
}

/* program_validate. */
static inline clv_status clv_blob_judge(const clv_host_api *host,
                                        const char *plugin, uint64_t maker,
                                        const clv_subgraph *graph,
                                        const clv_blob *blob, uint32_t *verdict)
{
    const size_t rest = offsetof(clv_blob_heading, maker);
    clv_subgraph *g = NULL;
    clv_blob_heading head;
    uint8_t *data = NULL;
    uint64_t size;
    CLV_TRY(clv_graph_copy(host, graph, &g));
    clv_status status = clv_blob_read(host, blob, &data, &size);
    if (status == CLV_OK) {
        const clv_blob_heading want = clv_blob_head(plugin, maker, g);
        *verdict = CLV_VERDICT_FOREIGN;
        memset(&head, 0, sizeof head);
        if (size >= sizeof head)
            memcpy(&head, data, sizeof head);
        if (head.plugin == want.plugin &&
            head.checksum == clv_hash(CLV_HASH_START, data + rest, size - rest))
            *verdict = memcmp(&head, &want, sizeof head) ? CLV_VERDICT_STALE
                                                         : CLV_VERDICT_GOOD;
    }
    clv_free(host, data);
    clv_free(host, g);
    return status;
}

/* For program_load: whether the program may be made of the graph. */
static inline clv_status clv_blob_check(const clv_host_api *host,
                                        const char *plugin, uint64_t maker,
                                        const clv_subgraph *graph,
                                        const clv_blob *blob)
{
    uint32_t verdict = CLV_VERDICT_FOREIGN;
    CLV_TRY(clv_blob_judge(host, plugin, maker, graph, blob, &verdict));
    if (verdict == CLV_VERDICT_FOREIGN)
        return clv_fail(host, CLV_ERR_FORMAT,
                        "%s: these bytes are no program of this plugin, or "
                        "damaged; compile it again",
                        plugin);
    if (verdict == CLV_VERDICT_STALE)
        return clv_fail(host, CLV_ERR_VERSION,
                        "%s: the program is of another build, driver, device "
                        "or graph; compile it again",
                        plugin);
    return CLV_OK;
}

/* program_key: four hashes that begin differently. */
static inline clv_status clv_blob_key(const clv_host_api *host, uint64_t maker,
                                      const clv_subgraph *graph,
                                      uint8_t key[32])
{
    clv_subgraph *g = NULL;
    CLV_TRY(clv_graph_copy(host, graph, &g));
    for (uint8_t part = 0; part < 4; part++) {
        uint64_t h = clv_hash(CLV_HASH_START, &part, sizeof part);
        h = clv_hash_graph(clv_hash(h, &maker, sizeof maker), g);
        memcpy(key + 8 * part, &h, sizeof h);
    }
    clv_free(host, g);
    return CLV_OK;
}

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_BLOB_H_ */
