/*
 * Images of tensors to the device and back, by the host's mapping or by copies
 * through memory that has one; and what a run may not write is compared.
 */
#include "element.h"
#include "../plugin/child.h"
#include "work.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ */
/* What may be written                                                      */

static bool is_written(const kit_graph *g, uint32_t t)
{
    uint32_t usage = g->descs[t].usage;
    return usage == CLV_USAGE_OUTPUT || usage == CLV_USAGE_STATE ||
           usage == CLV_USAGE_TRANSIENT;
}

/* Rows that exist in this run. Transients have no meaning past it, and a
 * program may use all of their memory. */
static int64_t rows_now(const kit_graph *g, uint32_t t)
{
    const clv_tensor_desc *d = &g->descs[t];
    bool symbolic =
        d->rank == 2 && d->symbols[0] && d->usage != CLV_USAGE_TRANSIENT;
    return symbolic ? g->values[d->symbols[0] - 1] : g->tensors[t].rows;
}

static void allow_writes(const kit_program *p, uint32_t base, uint8_t *mask)
{
    const kit_graph *g = p->g;
    for (uint32_t i = 0; i < g->n_tensors; i++) {
        const kit_tensor *t = &g->tensors[i];
        if (t->base != base || !is_written(g, i))
            continue;
        int64_t row = t->row;
        if (g->descs[i].rank == 1 && g->descs[i].symbols[0])
            row = kit_row_bytes(g->descs[i].dtype,
                                g->values[g->descs[i].symbols[0] - 1]);
        uint8_t *at = mask + p->leads[base] + t->offset;
        for (int64_t r = 0; r < rows_now(g, i); r++)
            memset(at + r * t->stride, 1, (size_t)row);
    }
}

static void check_unwritten(const kit_program *p, uint32_t base,
                            const uint8_t *now)
{
    uint64_t lead = p->leads[base], size = p->sizes[base];
    uint64_t end = lead + p->g->tensors[base].size;
    uint8_t *mask = calloc(1, size);
    if (!mask)
        kit_fail(p->g->k, "the kit has no memory for %" PRIu64 " bytes", size);
    allow_writes(p, base, mask);
    kit_checked(p->g->k);
    for (uint64_t i = 0; i < size; i++) {
        if (mask[i] || now[i] == p->before[base][i])
            continue;
        if (i < lead || i >= end)
            kit_fail(p->g->k,
                     "the byte %" PRIu64 " %s tensor %u was overwritten",
                     i < lead ? lead - i : i - end + 1,
                     i < lead ? "before" : "past", base);
        kit_fail(p->g->k,
                 "byte %" PRIu64 " of tensor %u was overwritten; it is %s",
                 i - lead, base,
                 is_written(p->g, base) ? "outside of the rows that are written"
                                        : "only read");
    }
    free(mask);
}

/* ------------------------------------------------------------------------ */
/* Moving                                                                   */

static bool is_visible(const kit_program *p, uint32_t type)
{
    kit_plugin *s = p->g->plugin;
    return s->api.buffer_map && s->mem_types[type].flags & CLV_MEM_HOST_VISIBLE;
}

typedef enum direction { TO_DEVICE, FROM_DEVICE } direction;

/* Through the host's mapping. */
static void move_mapped(kit_program *p, uint32_t type, clv_plugin_buffer *buf,
                        uint8_t *bytes, uint64_t size, direction to)
{
    kit *k = p->g->k;
    kit_plugin *s = p->g->plugin;
    bool coherent = s->mem_types[type].flags & CLV_MEM_COHERENT;
    void *at = NULL;
    KIT_OK(k,
           s->api.buffer_map(
               buf, to == TO_DEVICE ? CLV_ACCESS_WRITE : CLV_ACCESS_READ, &at),
           "buffer_map");
    KIT_CHECK(k, at, "buffer_map: answered CLV_OK and no pointer");
    if (!coherent)
        KIT_CHECK(k, s->api.buffer_flush && s->api.buffer_invalidate,
                  "memory type %u is not coherent, and there is no "
                  "buffer_flush() or buffer_invalidate()",
                  type);
    if (to == TO_DEVICE) {
        memcpy(at, bytes, size);
        if (!coherent)
            KIT_OK(k, s->api.buffer_flush(buf, 0, size), "buffer_flush");
    } else {
        if (!coherent)
            KIT_OK(k, s->api.buffer_invalidate(buf, 0, size),
                   "buffer_invalidate");
        memcpy(bytes, at, size);
    }
    s->api.buffer_unmap(buf);
}

static void move_staged(kit_program *p, clv_plugin_buffer *buf, uint8_t *bytes,
                        uint64_t size, direction to)
{
    kit *k = p->g->k;
    kit_plugin *s = p->g->plugin;
    clv_plugin_buffer *stage = NULL;
    uint32_t type;
    if (!kit_mem_type(s, CLV_MEM_HOST_VISIBLE, 0, &type))
        kit_fail(k, "no memory type that the host can map");
    KIT_OK(k, s->api.buffer_alloc(s->dev, type, size, &stage),
           "buffer_alloc(type %u, %" PRIu64 ")", type, size);
    if (to == TO_DEVICE) {
        move_mapped(p, type, stage, bytes, size, to);
        clv_command copy = kit_copy(buf, 0, stage, 0, size);
        kit_do(s, &copy, 1, "a copy");
    } else {
        clv_command copy = kit_copy(stage, 0, buf, 0, size);
        kit_do(s, &copy, 1, "a copy");
        move_mapped(p, type, stage, bytes, size, to);
    }
    s->api.buffer_free(stage);
}

/* Imported memory is ours: there is nothing to map. */
static void move_imported(kit_program *p, uint32_t i, uint8_t *bytes,
                          direction to)
{
    kit *k = p->g->k;
    kit_plugin *s = p->g->plugin;
    bool coherent = s->mem_types[p->mem_type].flags & CLV_MEM_COHERENT;
    if (to == TO_DEVICE)
        memcpy(p->memory[i], bytes, p->sizes[i]);
    if (!coherent && to == TO_DEVICE && s->api.buffer_flush)
        KIT_OK(k, s->api.buffer_flush(p->buffers[i], 0, p->sizes[i]),
               "buffer_flush of imported memory");
    if (!coherent && to == FROM_DEVICE && s->api.buffer_invalidate)
        KIT_OK(k, s->api.buffer_invalidate(p->buffers[i], 0, p->sizes[i]),
               "buffer_invalidate of imported memory");
    if (to == FROM_DEVICE)
        memcpy(bytes, p->memory[i], p->sizes[i]);
}

static void move(kit_program *p, uint32_t i, uint8_t *bytes, direction to)
{
    if (p->memory[i])
        move_imported(p, i, bytes, to);
    else if (is_visible(p, p->mem_type))
        move_mapped(p, p->mem_type, p->buffers[i], bytes, p->sizes[i], to);
    else
        move_staged(p, p->buffers[i], bytes, p->sizes[i], to);
}

void kit_program_upload(kit_program *p)
{
    for (uint32_t i = 0; i < p->g->n_tensors; i++) {
        if (!p->buffers[i])
            continue;
        memcpy(p->before[i] + p->leads[i], p->g->tensors[i].data,
               p->g->tensors[i].size);
        move(p, i, p->before[i], TO_DEVICE);
    }
}

void kit_program_download(kit_program *p)
{
    for (uint32_t i = 0; i < p->g->n_tensors; i++) {
        if (!p->buffers[i])
            continue;
        uint8_t *now = malloc(p->sizes[i]);
        if (!now)
            kit_fail(p->g->k, "the kit has no memory for %" PRIu64 " bytes",
                     p->sizes[i]);
        move(p, i, now, FROM_DEVICE);
        check_unwritten(p, i, now);
        memcpy(p->g->tensors[i].data, now + p->leads[i], p->g->tensors[i].size);
        free(now);
    }
}
