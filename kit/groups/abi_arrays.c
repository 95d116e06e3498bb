/* What the plugin fills: elements of other sizes and distances, written within
 * their bounds, with the same answers. */
#include "abi_probe.h"

#include <stdlib.h>
#include <string.h>

/* A slot that fills structs. */
typedef struct filler {
    const char *name;
    uint32_t type, known; /* clv_struct, sizeof */
    uint32_t compared;    /* bytes behind the header that have to repeat */
    uint32_t needs;
    /* count: as for the slot; elements that take none have one. */
    clv_status (*fill)(kit *k, kit_graph *g, uint32_t *count, void *out,
                       uint32_t stride);
    bool counts; /* out may be shorter than what there is */
} filler;

static clv_status fill_infos(kit *k, kit_graph *g, uint32_t *count, void *out,
                             uint32_t stride)
{
    kit_plugin *p = kit_under_test(k);
    (void)g;
    return p->api.enumerate(p->inst, count, out, stride);
}

static clv_status fill_mem_types(kit *k, kit_graph *g, uint32_t *count,
                                 void *out, uint32_t stride)
{
    kit_plugin *p = kit_under_test(k);
    (void)g;
    return p->api.mem_types(p->dev, count, out, stride);
}

static clv_status fill_caps(kit *k, kit_graph *g, uint32_t *count, void *out,
                            uint32_t stride)
{
    kit_plugin *p = kit_under_test(k);
    clv_subgraph s = kit_subgraph(g);
    *count = g->n_nodes;
    return out ? p->api.op_caps(p->dev, &s, out, stride) : CLV_OK;
}

static clv_status fill_timeline(kit *k, kit_graph *g, uint32_t *count,
                                void *out, uint32_t stride)
{
    kit_plugin *p = kit_under_test(k);
    clv_plugin_timeline *tl = NULL;
    (void)g, (void)stride;
    *count = 1;
    if (!out)
        return CLV_OK;
    KIT_OK(k, p->api.timeline_create(p->dev, 3, &tl), "timeline_create");
    clv_status status = p->api.timeline_query(tl, out);
    p->api.timeline_destroy(tl);
    return status;
}

static clv_status fill_program(kit *k, kit_graph *g, uint32_t *count, void *out,
                               uint32_t stride)
{
    kit_plugin *p = kit_under_test(k);
    kit_graph taken;
    kit_program program;
    (void)g, (void)stride;
    *count = 1;
    if (!out)
        return CLV_OK;
    if (!abi_taken_graph(k, &taken)) {
        *count = 0;
        return CLV_OK;
    }
    kit_program_make(&taken, 0, false, &program);
    clv_status status = p->api.program_info(program.handle, out);
    kit_program_free(&program);
    kit_graph_free(&taken);
    return status;
}

static clv_status fill_calibration(kit *k, kit_graph *g, uint32_t *count,
                                   void *out, uint32_t stride)
{
    kit_plugin *p = kit_under_test(k);
    (void)g, (void)stride;
    *count = 1;
    return out ? p->api.calibrate(p->dev, out) : CLV_OK;
}

static const filler fillers[] = {
    {"enumerate", CLV_STRUCT_DEVICE_INFO, sizeof(clv_device_info), 64, 0,
     fill_infos, true},
    {"mem_types", CLV_STRUCT_MEM_TYPE, sizeof(clv_mem_type), 16, 0,
     fill_mem_types, true},
    {"op_caps", CLV_STRUCT_OP_CAPS, sizeof(clv_op_caps),
     offsetof(clv_op_caps, static_shapes) - sizeof(clv_header), 0, fill_caps,
     false},
    {"timeline_query", CLV_STRUCT_TIMELINE_INFO, sizeof(clv_timeline_info), 0,
     0, fill_timeline, false},
    {"program_info", CLV_STRUCT_PROGRAM_INFO, sizeof(clv_program_info), 0, 0,
     fill_program, false},
    {"calibrate", CLV_STRUCT_CALIBRATION, sizeof(clv_calibration), 0,
     KIT_NEEDS_TRACE, fill_calibration, false},
};

/* ------------------------------------------------------------------------ */

/* How many there are, for an array of them in the kit's own version. */
static uint32_t count_all(kit *k, const filler *f, kit_graph *g)
{
    uint32_t count = 0;
    KIT_OK(k, f->fill(k, g, &count, NULL, 0), "%s", f->name);
    KIT_CHECK(k, count, "%s: there is nothing", f->name);
    return count;
}

/* Fills n elements of such a size; answers how many were to be written. */
static uint32_t fill(kit *k, const filler *f, kit_graph *g, abi_array *a,
                     uint32_t n, uint32_t size, uint32_t stride)
{
    uint32_t count = n;
    abi_array_make(k, a, f->name, n, f->type, f->known, size, stride);
    KIT_OK(k, f->fill(k, g, &count, abi_array_at(a, 0), stride), "%s", f->name);
    abi_array_check(a, count < n ? count : n);
    return count;
}

static void check_same(const filler *f, const abi_array *a, const abi_array *b)
{
    for (uint32_t i = 0; i < a->n; i++) {
        const char *x = abi_array_at(a, i), *y = abi_array_at(b, i);
        KIT_CHECK(a->k,
                  !memcmp(x + sizeof(clv_header), y + sizeof(clv_header),
                          f->compared),
                  "%s: element %u differs when elements have %u bytes, %u "
                  "apart",
                  f->name, i, b->size, b->stride);
    }
}

/* The plain answer, and one in elements of another size and stride. */
static void compare_sizes(kit *k, const filler *f, uint32_t more, uint32_t gap)
{
    kit_graph g;
    abi_array plain, other;
    abi_mixed_graph(k, &g);
    uint32_t n = count_all(k, f, &g);
    fill(k, f, &g, &plain, n, f->known, f->known);
    uint32_t count =
        fill(k, f, &g, &other, n, f->known + more, f->known + more + gap);
    if (count == n)
        check_same(f, &plain, &other);
    abi_array_free(&plain);
    abi_array_free(&other);
    kit_graph_free(&g);
}

static void honours_stride(kit *k, const void *arg)
{
    compare_sizes(k, arg, 0, 40);
}

static void leaves_larger_tail(kit *k, const void *arg)
{
    if (abi_is_newer(kit_under_test(k)))
        kit_skip(k, "the plugin is newer than the kit");
    else
        compare_sizes(k, arg, 64, 0);
}

/* The status is the plugin's choice below version 1's size: only that it stays
 * inside is asked. */
static void stays_in_smaller(kit *k, const void *arg)
{
    const filler *f = arg;
    const uint32_t sizes[] = {sizeof(clv_header) + 8,
                              (f->known / 2 + 7) / 8 * 8, f->known - 8};
    kit_graph g;
    abi_mixed_graph(k, &g);
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t n = count_all(k, f, &g), count = n;
        abi_array a;
        abi_array_make(k, &a, f->name, n, f->type, f->known, sizes[i],
                       sizes[i]);
        f->fill(k, &g, &count, abi_array_at(&a, 0), sizes[i]);
        abi_array_check(&a, n);
        abi_array_free(&a);
    }
    kit_host_clear(&kit_under_test(k)->host);
    kit_graph_free(&g);
}

static void counts_what_is_there(kit *k, const void *arg)
{
    const filler *f = arg;
    kit_graph g;
    abi_array a;
    kit_graph_init(k, &g);
    uint32_t n = count_all(k, f, &g);
    uint32_t found = fill(k, f, &g, &a, n + 2, f->known, f->known);
    KIT_CHECK(k, found == n, "%s: %u in an array for %u, there are %u", f->name,
              found, n + 2, n);
    abi_array_free(&a);
    /* Room for less than there is: the rest is left out, and counted. */
    abi_array_make(k, &a, f->name, n, f->type, f->known, f->known, f->known);
    uint32_t count = n - 1;
    KIT_OK(k, f->fill(k, &g, &count, abi_array_at(&a, 0), f->known), "%s",
           f->name);
    abi_array_check(&a, n - 1);
    KIT_CHECK(k, count == n, "%s: says %u in an array for %u, there are %u",
              f->name, count, n - 1, n);
    abi_array_free(&a);
}

void abi_list_arrays(kit_list *list)
{
    for (size_t i = 0; i < sizeof fillers / sizeof *fillers; i++) {
        const filler *f = &fillers[i];
        kit_add(list, KIT_PER_DEVICE, f->needs, honours_stride, f,
                "fills.%s.stride", f->name);
        kit_add(list, KIT_PER_DEVICE, f->needs, leaves_larger_tail, f,
                "fills.%s.larger", f->name);
        kit_add(list, KIT_PER_DEVICE, f->needs, stays_in_smaller, f,
                "fills.%s.smaller", f->name);
        if (f->counts)
            kit_add(list, KIT_PER_DEVICE, f->needs, counts_what_is_there, f,
                    "fills.%s.count", f->name);
    }
}
