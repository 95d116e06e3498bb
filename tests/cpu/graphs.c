#include "graphs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

void must_run(plugin *on, graph *g)
{
    if (graph_run(on, g))
        fail_msg("%s", on->host.error);
}

void matmul_graph(graph *g)
{
    memset(g, 0, sizeof *g);
    add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_INPUT, 4, 64, 0);
    add_tensor(g, CLV_DTYPE_Q8_0, CLV_USAGE_WEIGHT, 8, 64, 0);
    add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 4, 8, 0);
    NODE(g, CLV_OP_MATMUL, 2, 0, 1);
}

void layer(graph *g, uint32_t weights, int64_t n)
{
    const uint32_t f32 = CLV_DTYPE_F32;
    add_tensor(g, f32, CLV_USAGE_INPUT, n, 64, 0);              /* 0 x */
    add_tensor(g, f32, CLV_USAGE_WEIGHT, 0, 64, 0);             /* 1 norm */
    add_tensor(g, weights, CLV_USAGE_WEIGHT, 64, 64, 0);        /* 2 wq */
    add_tensor(g, weights, CLV_USAGE_WEIGHT, 32, 64, 0);        /* 3 wk */
    add_tensor(g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, n, 0);     /* 4 pos */
    add_tensor(g, f32, CLV_USAGE_WEIGHT, 0, 8, 0);              /* 5 freq */
    add_tensor(g, CLV_DTYPE_F16, CLV_USAGE_STATE, 128, 32, 0);  /* 6 cache */
    add_tensor(g, f32, CLV_USAGE_TRANSIENT, n, 64, 0);          /* 7 normed */
    add_tensor(g, f32, CLV_USAGE_TRANSIENT, n, 64, 0);          /* 8 q */
    add_tensor(g, f32, CLV_USAGE_TRANSIENT, n, 32, 0);          /* 9 k */
    add_tensor(g, f32, CLV_USAGE_TRANSIENT, n, 64, 0);          /* 10 mixed */
    add_tensor(g, f32, CLV_USAGE_OUTPUT, n, 64, 0);             /* 11 y */
    for (int64_t i = 0; i < n; i++)
        set_i32(g, 4, i, (int32_t)i);
    NODE(g, CLV_OP_RMS_NORM, 7, 0, 1)->attr.norm.eps = 1e-5f;
    NODE(g, CLV_OP_MATMUL, 8, 7, 2);
    NODE(g, CLV_OP_MATMUL, 9, 7, 3);
    clv_node *rope = NODE(g, CLV_OP_ROPE, 8, 8, 4, 5);
    rope->attr.rope.head_dim = 16;
    rope = NODE(g, CLV_OP_ROPE, 9, 9, 4, 5);
    rope->attr.rope.head_dim = 16;
    NODE(g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, 6, 9, 4);
    clv_node *attention = NODE(g, CLV_OP_ATTENTION, 10, 8, 6, 6, 4);
    attention->attr.attention.head_dim = 16;
    attention->attr.attention.scale = 0.25f;
    NODE(g, CLV_OP_ADD, 11, 10, 0);
}
