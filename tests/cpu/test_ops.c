/* Products, rotation and attention against naive double-precision arithmetic. */
#include "ops.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* --- matmul -------------------------------------------------------------- */

static void matmul_case(uint32_t dtype, int64_t n, int64_t k, int64_t o,
                        bool bias, int64_t pad)
{
    graph g = {0};
    int64_t block = dtype == CLV_DTYPE_Q8_0 || dtype == CLV_DTYPE_Q4_0 ? 2 : 4;
    uint32_t x = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, k, pad);
    uint32_t w = add_tensor(&g, dtype, CLV_USAGE_WEIGHT, o, k,
                            pad / 4 * block);
    uint32_t b = bias ? add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, o, 0)
                      : CLV_NO_TENSOR;
    uint32_t y = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, o, pad);
    NODE(&g, CLV_OP_MATMUL, y, x, w, b);
    uint32_t error_class = run(&g);
    error e = {0};
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < o; j++) {
            double sum = bias ? get(&g, b, 0, j) : 0, square = 0;
            for (int64_t l = 0; l < k; l++) {
                double term = get(&g, x, i, l) * get(&g, w, j, l);
                sum += term;
                square += term * term;
            }
            compare(&e, get(&g, y, i, j), sum);
            if (square > sum * sum) /* a sum that happens to be near zero */
                e.square += square - sum * sum;
        }
    char what[80];
    snprintf(what, sizeof what, "matmul dtype %u, [%d, %d] x [%d, %d]", dtype,
             (int)n, (int)k, (int)o, (int)k);
    check_error(&e, error_class, what);
    graph_free(&g);
}

static void test_matmul(void **state)
{
    static const uint32_t dtypes[] = {CLV_DTYPE_F32, CLV_DTYPE_F16,
                                      CLV_DTYPE_BF16, CLV_DTYPE_Q8_0,
                                      CLV_DTYPE_Q4_0};
    static const int64_t shapes[][3] = {
        {1, 32, 1},   {1, 64, 17},  {2, 96, 33},  {3, 32, 16},
        {5, 256, 40}, {17, 64, 65}, {33, 160, 7}, {1, 1056, 130},
        {4, 2080, 3}, {67, 32, 31}, {530, 32, 5}};
    (void)state;
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
            matmul_case(dtypes[d], shapes[s][0], shapes[s][1], shapes[s][2],
                        s % 2, 0);
            matmul_case(dtypes[d], shapes[s][0], shapes[s][1], shapes[s][2],
                        s % 2 == 0, 12);
        }
    for (size_t d = 0; d < 3; d++)
        for (int64_t k = 1; k < 40; k += 3)
            matmul_case(dtypes[d], 3, k, k + 2, false, 4);
}

/* --- rope ---------------------------------------------------------------- */

static double roped(const graph *g, const clv_node *node, int64_t i, int64_t j)
{
    int64_t d = node->attr.rope.head_dim, head = j / d * d, at = j % d;
    int64_t r = 2 * g->descs[node->inputs[2]].dims[0], half = r / 2;
    if (at >= r)
        return get(g, node->inputs[0], i, j);
    bool halves = node->attr.rope.mode == CLV_ROPE_HALVES;
    int64_t pair = halves ? at % half : at / 2;
    bool second = halves ? at >= half : at % 2;
    int64_t first = head + (halves ? pair : 2 * pair);
    double a = get(g, node->inputs[0], i, first);
    double b = get(g, node->inputs[0], i, first + (halves ? half : 1));
    double angle = (float)get(g, node->inputs[1], 0, i) *
                   (float)get(g, node->inputs[2], 0, pair);
    double scale = node->attr.rope.scale ? node->attr.rope.scale : 1;
    angle = (float)angle;
    return scale * (second ? a * sin(angle) + b * cos(angle)
                           : a * cos(angle) - b * sin(angle));
}

static void rope_case(uint32_t mode, int64_t n, int64_t heads, uint32_t d,
                      int64_t pairs, float scale)
{
    graph g = {0};
    uint32_t x = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, heads * d,
                            n % 2 * 8);
    uint32_t pos = add_tensor(&g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, n, 0);
    uint32_t freq = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, pairs,
                               0);
    uint32_t y = add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, heads * d,
                            0);
    for (int64_t i = 0; i < n; i++)
        set_i32(&g, pos, i, (int32_t)random_below(5000));
    clv_node *node = NODE(&g, CLV_OP_ROPE, y, x, pos, freq);
    node->attr.rope.mode = mode;
    node->attr.rope.head_dim = d;
    node->attr.rope.scale = scale;
    uint32_t error_class = run(&g);
    error e = {0};
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < heads * d; j++)
            compare(&e, get(&g, y, i, j), roped(&g, node, i, j));
    check_error(&e, error_class, "rope");
    graph_free(&g);
}

static void test_rope(void **state)
{
    (void)state;
    for (uint32_t mode = 0; mode < 2; mode++) {
        rope_case(mode, 1, 1, 2, 1, 0);
        rope_case(mode, 1, 32, 64, 32, 0);
        rope_case(mode, 70, 4, 128, 64, 0.5f);
        rope_case(mode, 5, 3, 80, 16, 1.25f);
        for (int64_t pairs = 1; pairs <= 15; pairs++)
            rope_case(mode, 3, 2, 30, pairs, 0);
    }
}

/* --- attention ----------------------------------------------------------- */

typedef struct attention_case {
    uint32_t dtype;
    int64_t n, rows, heads, groups, dim;
    int32_t first; /* position of query 0 */
    int32_t window;
    float softcap;
    int64_t pad;
} attention_case;

static void attention_row(const graph *g, const attention_case *c, int64_t i,
                          int64_t h, float scale, double *out)
{
    double pos = get(g, 3, 0, i), top = -INFINITY, sum = 0;
    double *p = calloc((size_t)c->rows, sizeof *p);
    int64_t column = h / (c->heads / c->groups) * c->dim;
    for (int64_t j = 0; j < c->rows; j++) {
        p[j] = -INFINITY;
        if ((double)j > pos || (c->window && (double)j <= pos - c->window))
            continue;
        double s = 0;
        for (int64_t d = 0; d < c->dim; d++)
            s += get(g, 0, i, h * c->dim + d) * get(g, 1, j, column + d);
        s *= scale;
        p[j] = c->softcap ? c->softcap * tanh(s / c->softcap) : s;
        top = fmax(top, p[j]);
    }
    memset(out, 0, (size_t)c->dim * sizeof *out);
    for (int64_t j = 0; j < c->rows && top > -INFINITY; j++)
        sum += p[j] = exp(p[j] - top);
    for (int64_t j = 0; j < c->rows && sum > 0; j++)
        for (int64_t d = 0; p[j] > 0 && d < c->dim; d++)
            out[d] += p[j] / sum * get(g, 2, j, column + d);
    free(p);
}

/* Cache rows that no query sees hold NaN: they must not be touched. */
static void poison(graph *g, const attention_case *c)
{
    int64_t from = c->first + c->n > 0 ? c->first + c->n : 0;
    int64_t size = c->dtype == CLV_DTYPE_F32 ? 4 : 2;
    for (uint32_t t = 1; t < 3; t++)
        for (int64_t j = from; j < c->rows; j++)
            memset(g->tensors[t].data +
                       j * (c->groups * c->dim * size + c->pad),
                   0xff, (size_t)(c->groups * c->dim * size));
}

static void run_attention(const attention_case *c)
{
    graph g = {0};
    const float scale = 0.7f;
    add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_INPUT, c->n, c->heads * c->dim,
               c->pad);
    for (int i = 0; i < 2; i++)
        add_tensor(&g, c->dtype, CLV_USAGE_STATE, c->rows, c->groups * c->dim,
                   c->pad);
    add_tensor(&g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, c->n, 0);
    add_tensor(&g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, c->n, c->heads * c->dim,
               c->pad);
    for (int64_t i = 0; i < c->n; i++)
        set_i32(&g, 3, i, c->first + (int32_t)i);
    poison(&g, c);
    clv_node *node = NODE(&g, CLV_OP_ATTENTION, 4, 0, 1, 2, 3);
    node->attr.attention.head_dim = (uint32_t)c->dim;
    node->attr.attention.scale = scale;
    node->attr.attention.softcap = c->softcap;
    node->attr.attention.window = c->window;
    uint32_t error_class = run(&g);
    error e = {0};
    double *want = malloc((size_t)c->dim * sizeof *want);
    for (int64_t i = 0; i < c->n; i++)
        for (int64_t h = 0; h < c->heads; h++) {
            attention_row(&g, c, i, h, scale, want);
            for (int64_t d = 0; d < c->dim; d++)
                compare(&e, get(&g, 4, i, h * c->dim + d), want[d]);
        }
    free(want);
    check_error(&e, error_class, "attention");
    graph_free(&g);
}

static void test_attention(void **state)
{
    static const attention_case cases[] = {
        {.n = 1, .rows = 1, .heads = 1, .groups = 1, .dim = 1},
        {.n = 1, .rows = 64, .heads = 8, .groups = 2, .dim = 64, .first = 50},
        {.n = 1, .rows = 700, .heads = 6, .groups = 3, .dim = 80,
         .first = 699},
        {.n = 37, .rows = 37, .heads = 4, .groups = 4, .dim = 32},
        {.n = 70, .rows = 300, .heads = 8, .groups = 1, .dim = 16,
         .first = 200, .pad = 16},
        {.n = 33, .rows = 400, .heads = 2, .groups = 1, .dim = 128,
         .first = 300, .window = 100},
        {.n = 5, .rows = 20, .heads = 2, .groups = 2, .dim = 40, .first = 3,
         .window = 1},
        {.n = 9, .rows = 64, .heads = 4, .groups = 2, .dim = 256, .first = 20,
         .softcap = 2},
        /* Nothing to see before row 0, and past the last one. */
        {.n = 6, .rows = 10, .heads = 2, .groups = 1, .dim = 24, .first = -3},
        {.n = 6, .rows = 10, .heads = 2, .groups = 1, .dim = 24, .first = 8},
        {.n = 3, .rows = 10, .heads = 2, .groups = 1, .dim = 24,
         .first = 1000, .window = 7},
        {.n = 2, .rows = 10, .heads = 3, .groups = 1, .dim = 7,
         .first = INT32_MAX - 2},
        {.n = 3, .rows = 30, .heads = 2, .groups = 2, .dim = 1024,
         .first = 20},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        attention_case c = cases[i];
        c.dtype = CLV_DTYPE_F32;
        run_attention(&c);
        c.dtype = CLV_DTYPE_F16;
        run_attention(&c);
    }
}

int main(void)
{
    if (!shared_possible())
        return 77; /* skipped */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul),
        cmocka_unit_test(test_rope),
        cmocka_unit_test(test_attention),
    };
    return cmocka_run_group_tests_name("cpu ops", tests, shared_open,
                                       shared_close);
}
