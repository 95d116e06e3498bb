/* Small graphs, one of which every device should take. */
#include "work.h"

#include <stdio.h>
#include <string.h>

/* What to try: one op after the other, [n, c] to [n, c]. */
typedef struct recipe {
    uint32_t ops[2];
    uint32_t weights; /* clv_dtype of a product's */
} recipe;

static const recipe recipes[] = {
    {{CLV_OP_MATMUL}, CLV_DTYPE_F32},
    {{CLV_OP_MATMUL}, CLV_DTYPE_F16},
    {{CLV_OP_MATMUL}, CLV_DTYPE_Q8_0},
    {{CLV_OP_MATMUL}, CLV_DTYPE_Q4_0},
    {{CLV_OP_MUL}, CLV_DTYPE_F32},
    {{CLV_OP_ADD}, CLV_DTYPE_F32},
    {{CLV_OP_SILU}, CLV_DTYPE_F32},
    {{CLV_OP_MATMUL, CLV_OP_SILU}, CLV_DTYPE_F32},
    {{CLV_OP_MATMUL, CLV_OP_MATMUL}, CLV_DTYPE_F32},
    {{CLV_OP_MATMUL, CLV_OP_MATMUL}, CLV_DTYPE_F16},
    {{CLV_OP_MATMUL, CLV_OP_MATMUL}, CLV_DTYPE_Q8_0},
    {{CLV_OP_MATMUL, CLV_OP_MATMUL}, CLV_DTYPE_Q4_0},
    {{CLV_OP_MUL, CLV_OP_SILU}, CLV_DTYPE_F32},
    {{CLV_OP_ADD, CLV_OP_MUL}, CLV_DTYPE_F32},
    {{CLV_OP_ADD, CLV_OP_SILU}, CLV_DTYPE_F32},
};
static const int64_t widths[] = {64, 256, 512};

static bool has_weight(const recipe *r)
{
    for (int i = 0; i < 2; i++)
        if (r->ops[i] == CLV_OP_MATMUL || r->ops[i] == CLV_OP_MUL)
            return true;
    return false;
}

static uint32_t add_op(kit_graph *g, const recipe *r, uint32_t op, uint32_t x,
                       uint32_t usage, int64_t n, int64_t c)
{
    uint32_t other = CLV_NO_TENSOR;
    if (op == CLV_OP_MATMUL)
        other = kit_add_tensor(g, r->weights, CLV_USAGE_WEIGHT, c, c, 0);
    else if (op == CLV_OP_MUL)
        other = kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, c, 0);
    else if (op == CLV_OP_ADD)
        other = kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, c, 0);
    uint32_t y = kit_add_tensor(g, CLV_DTYPE_F32, usage, n, c, 0);
    if (other == CLV_NO_TENSOR)
        KIT_NODE(g, op, y, x);
    else
        KIT_NODE(g, op, y, x, other);
    return y;
}

static uint32_t build(kit *k, kit_plugin *p, kit_graph *g, const recipe *r,
                      uint32_t flags, int64_t n, int64_t c)
{
    kit_graph_init_on(k, p, g);
    uint32_t x = kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, c, 0);
    for (int i = 0; i < 2 && r->ops[i]; i++)
        x = add_op(g, r, r->ops[i], x,
                   i < 1 && r->ops[1] ? CLV_USAGE_TRANSIENT : CLV_USAGE_OUTPUT,
                   n, c);
    if (!(flags & KIT_ANY_SYMBOL))
        return x;
    uint32_t symbol = kit_make_symbol(g, 1, n, n);
    for (uint32_t t = 0; t < g->n_tensors; t++)
        if (g->descs[t].usage != CLV_USAGE_WEIGHT)
            kit_set_symbol(g, t, 0, symbol);
    return x;
}

/* The number of rows with which the device takes all nodes; 0: none, -1: the
 * one that was asked for. */
static int64_t rows_taken(kit_graph *g, int64_t n, char *reason)
{
    clv_op_caps caps[KIT_MAX_NODES];
    int64_t rows = -1;
    kit_caps(g, caps);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const clv_op_caps *c = &caps[i];
        if (c->answer == CLV_ANSWER_YES)
            continue;
        if (c->answer != CLV_ANSWER_STATIC || !c->n_static) {
            snprintf(reason, KIT_TEXT_SIZE, "no small graph is taken: %s",
                     c->reason);
            return 0;
        }
        rows = c->static_shapes[0];
        for (uint32_t s = 0; s < c->n_static; s++)
            if (c->static_shapes[s] == n)
                rows = -1;
        if (rows >= 0)
            return rows;
    }
    return rows;
}

bool kit_any_graph(kit *k, kit_plugin *p, kit_graph *g, uint32_t flags,
                   uint32_t *output, char reason[KIT_TEXT_SIZE])
{
    snprintf(reason, KIT_TEXT_SIZE, "no small graph is taken");
    if (flags & KIT_ANY_SYMBOL && p->info.flags & CLV_DEVICE_STATIC_SHAPES) {
        snprintf(reason, KIT_TEXT_SIZE, "the device has static shapes");
        return false;
    }
    for (size_t i = 0; i < sizeof recipes / sizeof *recipes; i++) {
        const recipe *r = &recipes[i];
        if ((flags & KIT_ANY_WEIGHT && !has_weight(r)) ||
            (flags & KIT_ANY_NODES && !r->ops[1]))
            continue;
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
            int64_t n = 8;
            /* As asked, and once more with rows that the device names. */
            for (int attempt = 0; n > 0 && attempt < 2; attempt++) {
                *output = build(k, p, g, r, flags, n, widths[w]);
                n = rows_taken(g, n, reason);
                if (n < 0)
                    return true;
                kit_graph_free(g);
            }
        }
    }
    return false;
}

static void use_memory(kit *k, kit_plugin *p)
{
    enum { SIZE = 1003 };
    uint8_t data[SIZE];
    uint32_t type;
    if (!kit_mem_type(p, CLV_MEM_HOST_VISIBLE, 0, &type))
        return;
    clv_plugin_buffer *buf = kit_buffer(p, type, SIZE);
    memset(data, 7, sizeof data);
    kit_bytes_put(p, type, buf, 0, data, SIZE);
    clv_command fill = kit_fill(buf, 4, SIZE - 8, 0x5a5a5a5a);
    kit_do(p, &fill, 1, "a fill");
    kit_bytes_get(p, type, buf, 0, data, SIZE);
    for (int i = 0; i < SIZE; i++) {
        int want = i < 4 || i >= SIZE - 4 ? 7 : 0x5a;
        KIT_CHECK(k, data[i] == want,
                  "byte %d after a fill of bytes 4 to %d is %#x, not %#x", i,
                  SIZE - 4, data[i], (unsigned)want);
    }
    p->api.buffer_free(buf);
}

void kit_use(kit *k, kit_plugin *p)
{
    kit_graph g;
    uint32_t output;
    char reason[KIT_TEXT_SIZE];
    use_memory(k, p);
    if (!kit_any_graph(k, p, &g, 0, &output, reason))
        return;
    kit_run(&g, 0);
    kit_graph_free(&g);
}
