#include "bench.h"

#include <math.h>

#define MOST_WARM_UPS 24

/* What one repetition took. */
typedef struct lap {
    double ns, energy_nj, predicted_ns;
    bool is_virtual, metered, predicted; /* all of it */
    clv_batches batches;
} lap;

/* What the latest run took, and should have taken. Runs are timed one by one,
 * so that what is asked of them afterwards is not part of the time. */
static clv_status add_run(const bench_rig *rig, bool predict, lap *sum)
{
    clv_prediction prediction;
    const clv_elapsed took =
        clv_watch_read(rig->watch, clv_session_plan(rig->session));
    sum->ns += took.ns;
    sum->energy_nj += took.energy_nj;
    sum->is_virtual = sum->is_virtual && took.is_virtual;
    sum->metered = sum->metered && took.energy_nj > 0;
    if (!predict || !sum->predicted)
        return CLV_OK;
    sum->predicted = !clv_session_predict(rig->session, &prediction);
    if (sum->predicted)
        sum->predicted_ns += prediction.ns;
    return CLV_OK;
}

static clv_status run_batch(const bench_rig *rig, const int32_t *ids,
                            uint32_t n, bool predict, lap *sum)
{
    const float *logits;
    const clv_plan *plan;
    const uint32_t most = sum->batches.n_batch;
    if (rig->warm_up) /* by its own plan, not by one that other tests left */
        CLV_TRY(clv_session_prepare(rig->session, n < most ? n : most, &plan));
    clv_watch_start(rig->watch);
    CLV_TRY(clv_session_eval(rig->session, ids, n, CLV_LOGITS_LAST, &logits));
    return add_run(rig, predict, sum);
}

/* The next token of each sequence; all have the same ones. */
static clv_status run_step(const bench_rig *rig, uint32_t n, int32_t id,
                           bool predict, lap *sum)
{
    clv_step steps[BENCH_MAX_SEQUENCES];
    const float *logits;
    for (uint32_t i = 0; i < n; i++)
        steps[i] = (clv_step){i, id};
    clv_watch_start(rig->watch);
    CLV_TRY(clv_session_step(rig->session, steps, n, &logits));
    return add_run(rig, predict, sum);
}

/* The context that the test starts from stays in place between its runs. */
static clv_status go_back(const bench_rig *rig, const bench_test *test)
{
    for (uint32_t i = test->sequences; i-- > 0;) {
        CLV_TRY(clv_session_select(rig->session, i));
        CLV_TRY(clv_session_truncate(rig->session, test->depth));
    }
    return CLV_OK;
}

static clv_status run_once(const bench_rig *rig, const bench_test *test,
                           bool predict, lap *sum)
{
    const int32_t *ids = rig->ids + test->depth;
    clv_status status = go_back(rig, test);
    *sum = (lap){.is_virtual = true, .metered = true, .predicted = true};
    for (uint32_t i = 0; test->sequences > 1 && !status && i < test->n; i++)
        status = run_step(rig, test->sequences, ids[i], predict, sum);
    if (test->sequences > 1)
        return status;
    if (!status)
        status = clv_session_batches(rig->session, test->prompt ? test->n : 1,
                                     &sum->batches);
    const clv_batches *b = &sum->batches;
    const bool flies = b->n_flight > 1 && test->n >= 2 * b->n_batch;
    const uint32_t most = !test->prompt ? 1 : flies ? test->n : b->n_batch;
    for (uint32_t done = 0, n; !status && done < test->n; done += n) {
        n = test->n - done < most ? test->n - done : most;
        status = run_batch(rig, ids + done, n, predict, sum);
    }
    return status;
}

static clv_status fill_depth(const bench_rig *rig, const bench_test *test)
{
    const float *logits;
    for (uint32_t i = test->sequences; i-- > 0;) {
        CLV_TRY(clv_session_select(rig->session, i));
        CLV_TRY(clv_session_truncate(rig->session, 0));
        if (test->depth)
            CLV_TRY(clv_session_eval(rig->session, rig->ids, test->depth,
                                     CLV_LOGITS_NONE, &logits));
    }
    return CLV_OK;
}

/* Whether the prompt would run in other batches now. */
static bool has_other_batches(const bench_rig *rig, const bench_test *test,
                              const clv_batches *before)
{
    clv_batches now = *before;
    if (test->prompt && !clv_session_truncate(rig->session, test->depth))
        clv_session_batches(rig->session, test->n, &now);
    return now.n_batch != before->n_batch || now.n_flight != before->n_flight;
}

/* Until devices and plans have been measured, and batches tried. */
static clv_status warm_up(const bench_rig *rig, const bench_test *test)
{
    lap once;
    clv_status status = run_once(rig, test, false, &once);
    for (uint32_t i = 1; i < MOST_WARM_UPS && !status &&
                         (clv_session_is_learning(rig->session) ||
                          has_other_batches(rig, test, &once.batches));
         i++)
        status = run_once(rig, test, false, &once);
    return status;
}

clv_status bench_measure(const bench_rig *rig, const bench_test *test,
                         const char *name, bench_result *out)
{
    uint32_t n = rig->repetitions;
    lap once = {0};
    clv_status status = fill_depth(rig, test);
    *out = (bench_result){.is_virtual = true};
    if (!status && rig->warm_up)
        status = warm_up(rig, test);
    clv_trace_forget_devices(rig->ctx);
    bool metered = true;
    for (uint32_t i = 0; !status && i < n; i++) {
        if (tool_progress_report(rig->progress, name, (double)i / (double)n))
            return clv_error(CLV_ERR_CANCELLED, "interrupted");
        const bool predict = i + 1 == n; /* what runs once all is warm */
        status = run_once(rig, test, predict, &once);
        out->ns[i] = fmax(once.ns, 1);
        out->batches = once.batches;
        out->energy_nj += once.energy_nj / n;
        out->is_virtual = out->is_virtual && once.is_virtual;
        metered = metered && once.metered;
        if (predict && once.predicted)
            out->predicted_ns = once.predicted_ns;
    }
    if (!metered)
        out->energy_nj = 0;
    return status;
}

clv_status bench_record(clv_context *ctx, const bench_rig *rig,
                        const bench_test *test)
{
    const bool was = clv_trace_enabled(ctx);
    lap once;
    clv_status status = fill_depth(rig, test);
    if (!status && rig->warm_up)
        status = warm_up(rig, test);
    clv_trace_forget_kernels(ctx);
    clv_trace_enable(ctx, true);
    if (!status)
        status = run_once(rig, test, false, &once);
    clv_trace_enable(ctx, was);
    return status;
}

double bench_mean(const double *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += x[i];
    return sum / n;
}

double bench_deviation(const double *x, uint32_t n)
{
    double m = bench_mean(x, n), sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (x[i] - m) * (x[i] - m);
    return n > 1 ? sqrt(sum / (n - 1)) : 0;
}
