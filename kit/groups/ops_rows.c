/* Rows moved and converted. */
#include "ops.h"

static void list_moves(kit_list *list)
{
    static const uint32_t ops[] = {CLV_OP_GET_ROWS, CLV_OP_SET_ROWS};
    for (uint32_t o = 0; o < KIT_COUNT(ops); o++)
        for (uint32_t d = 0; d < kit_n_reals(); d++) {
            kit_spec s = {.op = ops[o],
                          .dtype = kit_real(d),
                          .n = 9,
                          .in = 64,
                          .out = 12};
            int64_t unit = kit_spec_unit(&s);
            if (ops[o] == CLV_OP_SET_ROWS && !clv_format_of(s.dtype)->encode)
                continue;
            kit_add_forms(list, &s);
            for (s.in = 32; s.in < 20000; s.in = s.in * 5 + 32) {
                s.pad = d % 2;
                kit_add_spec(list, &s);
            }
            s.in = 96;
            KIT_SERIES(list, "tails_rows", &s, n, kit_tails, kit_n_tails, 1);
            if (unit > 1)
                KIT_SERIES(list, "tails_in", &s, in, kit_blocks, kit_n_blocks,
                           unit);
            else
                KIT_SERIES(list, "tails_in", &s, in, kit_every, kit_n_every, 1);
        }
}

/* Tables of integers with scales. */
static void list_scaled_tables(kit_list *list)
{
    kit_weight w;
    for (uint32_t i = 0; kit_weight_at(i, &w); i++) {
        kit_spec s = {.op = CLV_OP_GET_ROWS,
                      .dtype = w.dtype,
                      .quant = w.quant,
                      .group = w.group,
                      .n = 9,
                      .in = 384, /* whole groups of every scheme */
                      .out = 12};
        if (!s.quant)
            continue;
        kit_add_forms(list, &s);
        s.in = 15360;
        kit_add_spec(list, &s);
        s.n = 3;
        KIT_SERIES(list, "tails_in", &s, in, kit_blocks, kit_n_blocks,
                   kit_spec_unit(&s));
    }
}

/* A transposed view read into a dense tensor of rank 3. */
static void run_transposed(kit *k, const void *arg)
{
    enum { A = 3, B = 5, C = 7, N = A * B * C };
    const int64_t dims[] = {A, B, C}, strides[] = {4, 4 * A * C, 4 * A};
    char reason[KIT_TEXT_SIZE];
    kit_graph g;
    (void)arg;
    kit_graph_init(k, &g);
    uint32_t x = kit_add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, 0, N, 0);
    uint32_t y = kit_add_tensor(&g, CLV_DTYPE_F16, CLV_USAGE_OUTPUT, 0, N, 0);
    clv_tensor_desc flat[2] = {g.descs[x], g.descs[y]};
    for (int i = 0; i < 3; i++) {
        g.descs[x].dims[i] = g.descs[y].dims[i] = dims[i];
        g.descs[x].strides[i] = strides[i];
    }
    g.descs[x].rank = g.descs[y].rank = 3;
    KIT_NODE(&g, CLV_OP_CONVERT, y, x);
    if (!kit_takes(&g, reason)) {
        kit_skip(k, "%s", reason);
        kit_graph_free(&g);
        return;
    }
    kit_run(&g, KIT_RUN_TWICE);
    g.descs[x] = flat[0];
    g.descs[y] = flat[1];
    for (int64_t i = 0; i < N; i++) {
        int64_t a = i / (B * C), b = i / C % B, c = i % C;
        double want = kit_get(&g, x, 0, a + b * A * C + c * A);
        double got = kit_get(&g, y, 0, i), off = want - got;
        double most = (want < 0 ? -want : want) * 0x1p-11 + 0x1p-25;
        KIT_CHECK(k, off <= most && -off <= most,
                  "element [%d, %d, %d] of a transposed view is %g, not %g",
                  (int)a, (int)b, (int)c, got, want);
    }
    kit_graph_free(&g);
}

static void list_convert(kit_list *list)
{
    for (uint32_t a = 0; a < kit_n_reals(); a++)
        for (uint32_t b = 0; b < kit_n_reals(); b++) {
            kit_spec s = {.op = CLV_OP_CONVERT,
                          .dtype = kit_real(a),
                          .to = kit_real(b),
                          .n = 4,
                          .in = 96};
            int64_t unit = kit_spec_unit(&s);
            if (a != b && !clv_format_of(s.to)->encode)
                continue;
            if (a == 0 || b == 0)
                kit_add_forms(list, &s);
            s.n = 3;
            s.in = 20000;
            s.pad = a % 2;
            kit_add_spec(list, &s);
            if (unit > 1)
                KIT_SERIES(list, "tails_in", &s, in, kit_blocks, kit_n_blocks,
                           unit);
            else
                KIT_SERIES(list, "tails_in", &s, in, kit_every, kit_n_every, 1);
        }
    kit_spec ids = {.op = CLV_OP_CONVERT,
                    .dtype = CLV_DTYPE_I32,
                    .to = CLV_DTYPE_I32,
                    .n = 4,
                    .in = 9,
                    .pad = 1};
    kit_add_spec(list, &ids);
    kit_add(list, KIT_PER_DEVICE, 0, run_transposed, NULL,
            "convert.transposed");
}

void kit_list_rows(kit_list *list)
{
    list_moves(list);
    list_scaled_tables(list);
    list_convert(list);
}
