/* What cleave bench measures: how long a session takes for some tokens. */
#pragma once

#include <cleave/llm.h>

#include "progress.h"
#include "table.h"

#define BENCH_MAX_REPETITIONS 1000
#define BENCH_MAX_SEQUENCES 256

/* A test: n tokens, all at once (prompt) or one by one, after depth others; the
 * same of several sequences at once. */
typedef struct bench_test {
    uint32_t n, depth, sequences;
    bool prompt;
} bench_test;

typedef struct bench_rig {
    clv_context *ctx;
    clv_session *session;
    clv_watch *watch;
    const int32_t *ids; /* as many as the longest test needs, depth included */
    uint32_t repetitions;
    bool warm_up;
    tool_progress *progress;
} bench_rig;

typedef struct bench_result {
    double ns[BENCH_MAX_REPETITIONS]; /* of each repetition */
    double energy_nj;                 /* of one of them, the mean; 0: unknown */
    double predicted_ns; /* of one of them, as profiles have it; 0: unknown */
    bool is_virtual;     /* the times are those of simulated devices */
    clv_batches batches; /* of its prompt */
} bench_result;

/* What devices did in the repetitions, where a trace is written: the busiest
 * first, which is the critical one. */
typedef struct bench_use {
    clv_device_use *devices;
    uint32_t n;
} bench_use;

clv_status bench_use_read(clv_context *ctx, bench_use *out);
void bench_use_finish(bench_use *use);
void bench_use_record(const bench_use *use, tool_record *record);
void bench_use_text(const bench_use *use, char *text, size_t size);

/* Rows of a table: what devices did in a test that was recorded. */
#define BENCH_KERNEL_COLUMNS 10
extern const tool_column bench_kernel_columns[BENCH_KERNEL_COLUMNS];
clv_status bench_add_kernels(clv_context *ctx, const char *test,
                             tool_table *table);

/* name: for the progress bar. */
clv_status bench_measure(const bench_rig *rig, const bench_test *test,
                         const char *name, bench_result *out);
/* The test once more, recorded by kernels (clv_trace_kernels); its speed is not
 * that of a run that nobody records. */
clv_status bench_record(clv_context *ctx, const bench_rig *rig,
                        const bench_test *test);
double bench_mean(const double *x, uint32_t n);
double bench_deviation(const double *x, uint32_t n);
