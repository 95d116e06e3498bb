/*
 * Wrong numbers. The linker puts __wrap_ref_run_node() between the worker and
 * the reference's ops (meson.build).
 */
#include "hostile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void __wrap_ref_run_node(const clv_node *node, const ref_view *in,
                         const ref_view *out);
void __real_ref_run_node(const clv_node *node, const ref_view *in,
                         const ref_view *out);

static const clv_node *kept_nodes; /* of the latest graph, its owner's */
static _Atomic uint32_t n_runs;
static _Atomic bool loaded; /* the latest program was loaded */

/* Every element x of the output becomes new(x). */
static void change_all(const ref_view *out, double (*change)(double x))
{
    for (int64_t i = 0; out->data && i < out->rows; i++)
        for (int64_t c = 0; c < out->columns; c++)
            ref_set(out, i, c, change(ref_get(out, i, c)));
}

static double a_percent(double x)
{
    return x * 1.01;
}

static double a_little(double x)
{
    return x * (1 + 1e-6);
}

static double no_nan(double x)
{
    return isnan(x) ? 0 : x;
}

static double no_infinity(double x)
{
    return isinf(x) ? copysign(3.4e38, x) : x;
}

static void spoil_tail(const ref_view *out)
{
    for (int64_t i = 0; out->data && i < out->rows; i++)
        for (int64_t c = out->columns / 8 * 8; c < out->columns; c++)
            ref_set(out, i, c, 0);
}

static uint8_t *last_byte(const ref_view *v)
{
    return v->data + ref_view_extent(v) - 1;
}

/* Between the rows of a strided output. */
static void fill_gaps(const ref_view *out)
{
    int64_t row = out->columns * out->strides[out->rank - 1];
    for (int64_t i = 0; out->rank == 2 && i + 1 < out->rows; i++)
        if (out->strides[0] > row)
            memset(ref_view_row(out, i) + row, 0, 4);
}

static void around(const ref_view *in, const ref_view *out)
{
    if (hostile_is("past_end") && out->data)
        memset(last_byte(out) + 1, 0x77, 4);
    if (hostile_is("before_begin") && out->data)
        memset(out->data - 4, 0x77, 4);
    if (hostile_is("fills_gaps") && out->data)
        fill_gaps(out);
    if (hostile_is("changes_input") && in[0].data && out->data)
        in[0].data[0] ^= 1;
}

static void after(const ref_view *in, const ref_view *out)
{
    if (hostile_is("wrong_result"))
        change_all(out, a_percent);
    if (hostile_is("exact_claimed"))
        change_all(out, a_little);
    if (hostile_is("nan_swallowed"))
        change_all(out, no_nan);
    if (hostile_is("infinity_clipped"))
        change_all(out, no_infinity);
    if (hostile_is("tail_wrong"))
        spoil_tail(out);
    if (hostile_is("not_repeatable") && atomic_fetch_add(&n_runs, 1) % 2)
        change_all(out, a_little);
    if (hostile_is("load_differs") && atomic_load(&loaded))
        change_all(out, a_percent);
    around(in, out);
}

/* The weights' rows lie close together, whatever their strides say. */
static void make_dense(ref_view *v)
{
    if (!v->data || v->rank != 2)
        return;
    clv_tensor_desc desc = {.dtype = v->dtype, .rank = 2};
    memcpy(desc.dims, v->dims, sizeof desc.dims);
    uint8_t *data = v->data;
    ref_view_make(&desc, NULL, v);
    v->data = data;
}

/* Weights brought into the device's own layout; what comes of them is not what
 * products read, or more than the rows, or depends on how many they are. */
static void after_private(const ref_view *out)
{
    const int64_t row = out->strides[0];
    uint8_t *data = out->data;
    if (!out->is_private)
        return;
    if (hostile_is("private_wrong"))
        memcpy(data, data + row, (size_t)row);
    if (hostile_is("private_past"))
        memset(last_byte(out) + 1, 0x77, 4);
    if (hostile_is("private_whole"))
        for (int64_t i = 0; i < row * out->rows; i++)
            data[i] ^= (uint8_t)out->rows;
}

/* The weights, in memory to be freed. */
static void *as_whole(ref_view *w)
{
    const int64_t size = w->strides[0] * w->dims[0];
    uint8_t *data = malloc((size_t)size);
    for (int64_t i = 0; data && i < size; i++)
        data[i] = w->data[i] ^ (uint8_t)w->rows;
    w->data = data;
    return data;
}

void __wrap_ref_run_node(const clv_node *node, const ref_view *in,
                         const ref_view *out)
{
    ref_view changed[CLV_MAX_INPUTS];
    clv_node copy = *node;
    clv_status status;
    void *whole = NULL;
    hostile_meddles("program_run", &status);
    if (hostile_is("signals_early"))
        hostile_sleep(5000000);
    memcpy(changed, in, sizeof changed);
    if (hostile_is("ignores_strides"))
        make_dense(&changed[1]);
    if (hostile_is("private_whole") && changed[1].is_private)
        whole = as_whole(&changed[1]);
    if (hostile_is("keeps_graph") && kept_nodes)
        copy.op = kept_nodes->op;
    if (hostile_is("alias_claimed") && out->data &&
        (node->op == CLV_OP_MATMUL || node->op == CLV_OP_RMS_NORM ||
         node->op == CLV_OP_SOFTMAX))
        ref_set(out, 0, 0, 0); /* before x is read */
    if (copy.op == node->op)
        __real_ref_run_node(&copy, changed, out);
    free(whole);
    after(in, out);
    after_private(out);
}

static clv_status keep_graph(clv_plugin_device *dev, const clv_compile *compile,
                             clv_plugin_program **out)
{
    kept_nodes = compile->graph->nodes;
    return ref_program_compile(dev, compile, out);
}

static clv_status remember_compiled(clv_plugin_device *dev,
                                    const clv_compile *compile,
                                    clv_plugin_program **out)
{
    atomic_store(&loaded, false);
    return ref_program_compile(dev, compile, out);
}

static clv_status remember_loaded(clv_plugin_device *dev,
                                  const clv_compile *compile,
                                  const clv_blob *blob,
                                  clv_plugin_program **out)
{
    clv_status status = ref_program_load(dev, compile, blob, out);
    atomic_store(&loaded, status == CLV_OK);
    return status;
}

const hostile_mode hostile_results[] = {
    {.name = "wrong_result", .what = "one percent too much"},
    {.name = "nan_swallowed", .what = "0 where NaN should be"},
    {.name = "infinity_clipped", .what = "a large number for infinity"},
    {.name = "tail_wrong", .what = "0 behind the last eight columns"},
    {.name = "not_repeatable", .what = "another result every second time"},
    {.name = "private_wrong", .what = "weights that products read otherwise"},
    {.name = "private_past", .what = "four bytes too many of such weights"},
    {.name = "private_whole", .what = "such, by the number of their rows"},
    {.name = "past_end", .what = "writes behind the output"},
    {.name = "before_begin", .what = "and in front of it"},
    {.name = "fills_gaps", .what = "writes between strided rows"},
    {.name = "changes_input", .what = "a bit of an input is turned"},
    {.name = "ignores_strides", .what = "weights taken for dense"},
    {"keeps_graph",
     "looks at the graph after the call",
     {.program_compile = keep_graph}},
    {"load_differs",
     "loaded programs are other ones",
     {.program_compile = remember_compiled, .program_load = remember_loaded}},
    {0},
};
