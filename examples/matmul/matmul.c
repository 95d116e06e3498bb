/*
 * matmul - a host program on the core alone: c = a b on the preferred device
 *
 *     make && ./matmul [ROWS INNER COLUMNS]
 */
#include <cleave/cleave.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct problem {
    int64_t rows, inner, columns;
    clv_tensor *b; /* [columns, inner]: MATMUL takes it transposed */
    clv_graph *graph;
    clv_plan *plan;
    clv_exec *exec;
    clv_value a, c; /* [rows, inner], [rows, columns] */
} problem;

static clv_status build(clv_context *ctx, problem *p)
{
    const int64_t b_dims[] = {p->columns, p->inner};
    const clv_dim a_dims[] = {clv_dim_fixed(p->rows), clv_dim_fixed(p->inner)};
    clv_status status = clv_tensor_create(ctx, CLV_DTYPE_F32, 2, b_dims, &p->b);
    if (!status)
        status = clv_graph_create(&p->graph);
    if (status)
        return status;
    p->a = clv_graph_input(p->graph, "a", CLV_DTYPE_F32, 2, a_dims);
    clv_value b = clv_graph_weight(p->graph, "b", p->b);
    p->c = clv_graph_matmul(p->graph, p->a, b, CLV_NO_TENSOR);
    clv_graph_output(p->graph, p->c, "c");

    /* Weights are constant: they get their values before the exec is made. */
    float *w = clv_tensor_data(p->b);
    for (int64_t i = 0; i < p->columns * p->inner; i++)
        w[i] = (float)(i % 7) - 3;
    status = clv_plan_create(ctx, p->graph, NULL, &p->plan);
    return status ? status : clv_exec_create(p->plan, &p->exec);
}

/* Runs, prints c and compares it with the plain sum of products. */
static clv_status run(problem *p)
{
    float *a = clv_tensor_data(clv_exec_tensor(p->exec, p->a));
    const float *c = clv_tensor_data(clv_exec_tensor(p->exec, p->c));
    const float *b = clv_tensor_data(p->b);
    for (int64_t i = 0; i < p->rows * p->inner; i++)
        a[i] = (float)(i % 5) - 1.5f;
    clv_status status = clv_exec_run(p->exec, NULL, 0);
    if (status)
        return status;
    for (int64_t i = 0; i < p->rows; i++) {
        for (int64_t j = 0; j < p->columns; j++) {
            double sum = 0, size = 0;
            for (int64_t k = 0; k < p->inner; k++) {
                double product =
                    (double)a[i * p->inner + k] * (double)b[j * p->inner + k];
                sum += product;
                size += fabs(product);
            }
            float y = c[i * p->columns + j];
            printf("%8.2f%s", (double)y, j + 1 < p->columns ? " " : "\n");
            if (!(fabs((double)y - sum) <= 1e-5 * size))
                return clv_error(CLV_ERR_INTERNAL,
                                 "c[%lld,%lld] is %g, it should be %g",
                                 (long long)i, (long long)j, (double)y, sum);
        }
    }
    return CLV_OK;
}

int main(int argc, char **argv)
{
    problem p = {.rows = 3, .inner = 8, .columns = 4};
    clv_context *ctx = NULL;
    if (argc == 4) {
        p.rows = atoll(argv[1]);
        p.inner = atoll(argv[2]);
        p.columns = atoll(argv[3]);
    }
    clv_status status = clv_context_create(NULL, &ctx);
    if (!status)
        status = build(ctx, &p);
    if (!status)
        status = run(&p);
    if (status)
        fprintf(stderr, "%s: %s\n", argv[0], clv_last_error());
    clv_exec_destroy(p.exec);
    clv_plan_destroy(p.plan);
    clv_graph_destroy(p.graph);
    clv_tensor_destroy(p.b);
    clv_context_destroy(ctx);
    return status ? 1 : 0;
}
