/* How long the search for a plan takes: a model of the size of Llama-8B over
 * three devices, by number of tokens. One line each: tokens, ms of a processor
 * (the best of some), makespan. */
#include "solve_model.h"

#include <stdio.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int run(int64_t n_tokens)
{
    const model_shape shape = {.n_layers = 32,
                               .n_tokens = n_tokens,
                               .width = 4096,
                               .kv_width = 1024,
                               .hidden = 14336};
    model_problem *m = model_problem_new(&shape);
    double best = 1e9, makespan = 0;
    clv_status status = m ? CLV_OK : CLV_ERR_NO_MEMORY;
    for (int i = 0; i < 5 && !status; i++) {
        planner_solution solution;
        double begin = now_ms();
        status = planner_search(&m->p, &solution);
        double ms = now_ms() - begin;
        best = ms < best ? ms : best;
        makespan = solution.makespan_ns;
        planner_solution_finish(&solution);
    }
    if (m)
        model_problem_free(m);
    if (status) {
        fprintf(stderr, "%s\n", clv_last_error());
        return 1;
    }
    printf("%lld tokens: %.1f ms, makespan %.3f ms\n", (long long)n_tokens,
           best, makespan * 1e-6);
    return 0;
}

int main(void)
{
    static const int64_t tokens[] = {1, 32, 256, 300, 600, 1024};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        if (run(tokens[i]))
            return 1;
    return 0;
}
