/*
 * Programs as bytes: a heading and the graph with its bucket. They hold nothing
 * of the weights, so one program serves all layers of a shape. A program is
 * loaded for the graph alone that it was compiled from: the bytes are compared
 * with it, and nothing is read out of them.
 */
#include "npu_sim_build_id.h"
#include "program.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#define MAX_BLOB ((uint64_t)1 << 26)

static const char magic[8] = "CLVNPU1";

typedef struct heading {
    char magic[8];
    uint64_t checksum; /* of all that follows */
    uint64_t maker;    /* build, driver, device and options */
    uint32_t n_tensors, n_nodes, n_symbols, reserved;
} heading;

uint64_t npu_maker(const clv_plugin_device *dev, const char *options)
{
    const npu_settings *s = dev->settings;
    uint64_t h = npu_hash(NPU_HASH_START, BUILD_ID, sizeof BUILD_ID);
    h = npu_hash(h, s->name, strlen(s->name) + 1);
    h = npu_hash(h, &s->hash, sizeof s->hash);
    return npu_hash(h, options ? options : "",
                    options ? strlen(options) + 1 : 1);
}

typedef struct sink {
    clv_status (*write)(void *ctx, const void *data, uint64_t size);
    void *ctx;
    clv_status status;
} sink;

static void put(sink *s, const void *data, uint64_t size)
{
    if (!s->status && size)
        s->status = s->write(s->ctx, data, size);
}

static void put_graph(sink *s, const clv_subgraph *g)
{
    put(s, g->symbols, g->n_symbols * sizeof *g->symbols);
    put(s, g->tensors, g->n_tensors * sizeof *g->tensors);
    put(s, g->nodes, g->n_nodes * sizeof *g->nodes);
}

static clv_status add_to_hash(void *ctx, const void *data, uint64_t size)
{
    uint64_t *h = ctx;
    *h = npu_hash(*h, data, size);
    return CLV_OK;
}

/* The bytes in front of the graph's. */
static heading make_heading(const clv_subgraph *g, uint64_t maker)
{
    heading head = {.maker = maker,
                    .n_tensors = g->n_tensors,
                    .n_nodes = g->n_nodes,
                    .n_symbols = g->n_symbols};
    memcpy(head.magic, magic, sizeof magic);
    head.checksum = npu_hash(NPU_HASH_START, &head.maker,
                             sizeof head - offsetof(heading, maker));
    sink s = {add_to_hash, &head.checksum, CLV_OK};
    put_graph(&s, g);
    return head;
}

clv_status npu_program_serialize(
    clv_plugin_program *prog,
    clv_status (*write)(void *ctx, const void *data, uint64_t size), void *ctx)
{
    CLV_TRY(npu_check_device(prog->dev));
    heading head = make_heading(prog->graph, prog->maker);
    sink s = {write, ctx, CLV_OK};
    put(&s, &head, sizeof head);
    put_graph(&s, prog->graph);
    if (s.status)
        return clv_fail(prog->dev->base.host, s.status,
                        "npu_sim: the program could not be written");
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */

typedef struct bytes {
    const uint8_t *data;
    uint64_t size;
    uint8_t *owned; /* read from a descriptor */
} bytes;

static clv_status read_fd(const clv_host_api *host, const clv_blob *from,
                          bytes *out)
{
    uint64_t done = 0;
    out->owned = clv_new(host, from->size);
    if (!out->owned)
        return CLV_ERR_NO_MEMORY;
    while (done < from->size) {
        ssize_t n = pread((int)from->fd, out->owned + done, from->size - done,
                          (off_t)(from->offset + done));
        if (n <= 0)
            break;
        done += (uint64_t)n;
    }
    out->data = out->owned;
    out->size = done; /* a short file is a damaged program */
    return CLV_OK;
}

static clv_status blob_open(const clv_host_api *host, const clv_blob *given,
                            bytes *out)
{
    clv_blob from;
    memset(out, 0, sizeof *out);
    clv_read(&from, sizeof from, given);
    clv_status status = clv_check_chain(host, &from);
    if (status || from.size < sizeof(heading) || from.size > MAX_BLOB)
        return status;
    out->data = from.data;
    out->size = from.size;
    if (!from.data && from.fd >= 0 && from.fd <= INT32_MAX)
        return read_fd(host, &from, out);
    return CLV_OK;
}

static bool is_ours(const bytes *b, heading *head)
{
    if (!b->data || b->size < sizeof *head)
        return false;
    memcpy(head, b->data, sizeof *head);
    uint64_t rest = offsetof(heading, maker);
    return !memcmp(head->magic, magic, sizeof magic) &&
           head->checksum ==
               npu_hash(NPU_HASH_START, b->data + rest, b->size - rest);
}

/* *g is to be freed, unless this fails. */
static clv_status read_compile(clv_plugin_device *dev, const clv_compile *from,
                               clv_compile *compile, clv_subgraph **g)
{
    clv_read(compile, sizeof *compile, from);
    CLV_TRY(npu_check_device(dev));
    CLV_TRY(clv_check_chain(dev->base.host, compile));
    return clv_graph_copy(dev->base.host, compile->graph, g);
}

clv_status npu_program_validate(clv_plugin_device *dev, const clv_compile *from,
                                const clv_blob *blob, uint32_t *verdict)
{
    clv_compile compile;
    clv_subgraph *g = NULL;
    heading head;
    bytes b;
    CLV_TRY(read_compile(dev, from, &compile, &g));
    clv_status status = blob_open(dev->base.host, blob, &b);
    if (!status) {
        heading want = make_heading(g, npu_maker(dev, compile.options));
        *verdict = !is_ours(&b, &head)                 ? CLV_VERDICT_FOREIGN
                   : memcmp(&head, &want, sizeof head) ? CLV_VERDICT_STALE
                                                       : CLV_VERDICT_GOOD;
    }
    clv_free(dev->base.host, b.owned);
    clv_free(dev->base.host, g);
    return status;
}

clv_status npu_program_load(clv_plugin_device *dev, const clv_compile *compile,
                            const clv_blob *blob, clv_plugin_program **out)
{
    uint32_t verdict = CLV_VERDICT_FOREIGN;
    CLV_TRY(npu_program_validate(dev, compile, blob, &verdict));
    if (verdict == CLV_VERDICT_FOREIGN)
        return clv_fail(dev->base.host, CLV_ERR_FORMAT,
                        "npu_sim: the bytes are no program of this plugin, or "
                        "damaged; compile the graph again");
    if (verdict == CLV_VERDICT_STALE)
        return clv_fail(dev->base.host, CLV_ERR_VERSION,
                        "npu_sim: the program is of another build, driver, "
                        "device or graph; compile the graph again");
    return npu_program_make(dev, compile, true, out);
}

/* Four hashes with different seeds: 32 bytes. */
clv_status npu_program_key(clv_plugin_device *dev, const clv_compile *from,
                           uint8_t key[32])
{
    clv_compile compile;
    clv_subgraph *g = NULL;
    CLV_TRY(read_compile(dev, from, &compile, &g));
    uint64_t maker = npu_maker(dev, compile.options);
    for (uint8_t part = 0; part < 4; part++) {
        uint64_t h = npu_hash(NPU_HASH_START, &part, sizeof part);
        h = npu_hash(h, &maker, sizeof maker);
        sink s = {add_to_hash, &h, CLV_OK};
        put_graph(&s, g);
        memcpy(key + 8 * part, &h, sizeof h);
    }
    clv_free(dev->base.host, g);
    return CLV_OK;
}
