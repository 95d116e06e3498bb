/*
 * Made-up weights: random snippets of pools of quantised noise, which are made
 * as fast as memory is written. Tensors are filled in pieces by one thread for
 * each processor. Each piece has its own random numbers, so that the bytes do
 * not depend on the thread that fills it.
 */
#include "synth_fill.h"

#include "../base/random.h"
#include "../base/str.h"
#include "../quantize/encode.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POOL_ELEMENTS (1u << 20)
#define SNIPPET_ELEMENTS 256u
#define N_SNIPPETS (POOL_ELEMENTS / SNIPPET_ELEMENTS)
#define PIECE_SNIPPETS 16384u
#define MAX_THREADS 32

#define WEIGHT_DEVIATION 0.02
/* The value of the largest integer, in deviations. */
#define I8_RANGE 4.0
#define I4_RANGE 2.7

/* Quantised noise, from which weights of a dtype are copied. */
typedef struct pool {
    uint8_t *data;         /* POOL_ELEMENTS */
    uint64_t snippet_size; /* bytes */
} pool;

typedef struct piece {
    uint32_t tensor;
    uint64_t begin, size; /* bytes */
} piece;

typedef struct filling {
    uint8_t *memory;
    const llm_synth_tensor *tensors;
    pool pools[CLV_DTYPE_COUNT]; /* those that are used */
    piece *pieces;
    uint32_t n_pieces;
    _Atomic uint32_t next, done;
    _Atomic bool stop;
} filling;

/* ------------------------------------------------------------------------ */
/* Noise                                                                    */

/* The mean scale of the integers of a dtype. */
static double unit(uint32_t dtype)
{
    return WEIGHT_DEVIATION *
           (dtype == CLV_DTYPE_I8 ? I8_RANGE / 127 : I4_RANGE / 7);
}

static void to_integers(uint32_t dtype, const float *noise, uint8_t *out)
{
    const int limit = dtype == CLV_DTYPE_I8 ? 127 : 7;
    for (uint32_t i = 0; i < POOL_ELEMENTS; i++) {
        const double x = fmax(fmin(noise[i] / unit(dtype), limit), -limit);
        const int q = (int)lrint(x);
        if (dtype == CLV_DTYPE_I8)
            out[i] = (uint8_t)q;
        else
            out[i / 2] = (uint8_t)(i % 2 ? out[i / 2] | (q & 15) << 4 : q & 15);
    }
}

static void make_noise(float *noise)
{
    llm_random rng;
    llm_random_seed(&rng, 1);
    for (uint32_t i = 0; i < POOL_ELEMENTS; i += 2) {
        const double u = 1 - llm_random_uniform(&rng);
        const double angle = 2 * M_PI * llm_random_uniform(&rng);
        const double radius = WEIGHT_DEVIATION * sqrt(-2 * log(u));
        noise[i] = (float)(radius * cos(angle));
        noise[i + 1] = (float)(radius * sin(angle));
    }
}

static clv_status make_pool(pool *p, uint32_t dtype, const float *noise)
{
    uint64_t size;
    CLV_TRY(clv_dtype_size(dtype, POOL_ELEMENTS, &size));
    CLV_TRY(clv_dtype_size(dtype, SNIPPET_ELEMENTS, &p->snippet_size));
    p->data = malloc(size);
    if (!p->data)
        return llm_no_memory("noise");
    if (dtype != CLV_DTYPE_I8 && dtype != CLV_DTYPE_I4)
        llm_encoder_of(dtype)(noise, p->data, POOL_ELEMENTS);
    else
        to_integers(dtype, noise, p->data);
    return CLV_OK;
}

static clv_status make_pools(filling *w, uint32_t n_tensors)
{
    clv_status status = CLV_OK;
    float *noise = malloc(POOL_ELEMENTS * sizeof *noise);
    if (!noise)
        return llm_no_memory("noise");
    make_noise(noise);
    for (uint32_t i = 0; i < n_tensors && !status; i++) {
        const uint32_t dtype = w->tensors[i].type.dtype;
        if (w->tensors[i].rank > 1 && !w->pools[dtype].data)
            status = make_pool(&w->pools[dtype], dtype, noise);
    }
    free(noise);
    return status;
}

/* ------------------------------------------------------------------------ */
/* Pieces                                                                   */

static clv_status cut_pieces(filling *w, uint32_t n_tensors)
{
    for (int pass = 0; pass < 2; pass++) {
        uint32_t n = 0;
        for (uint32_t i = 0; i < n_tensors; i++) {
            const llm_synth_tensor *t = &w->tensors[i];
            const uint64_t whole =
                t->rank == 1
                    ? t->size
                    : PIECE_SNIPPETS * w->pools[t->type.dtype].snippet_size;
            for (uint64_t at = 0; at < t->size; at += whole, n++)
                if (pass)
                    w->pieces[n] = (piece){
                        i, at, t->size - at < whole ? t->size - at : whole};
        }
        w->n_pieces = n;
        if (!pass && !(w->pieces = calloc(n, sizeof *w->pieces)))
            return llm_no_memory("a list of work");
    }
    return CLV_OK;
}

/* The scales of rows differ by up to a tenth. */
static void fill_scales(const llm_synth_tensor *t, float *scales)
{
    llm_random rng;
    llm_random_seed(&rng, t->offset);
    for (uint64_t i = 0; i < t->n_scales; i++)
        scales[i] = (float)(unit(t->type.dtype) *
                            (0.9 + 0.2 * llm_random_uniform(&rng)));
    if (t->n_scales == 1)
        scales[0] = (float)unit(t->type.dtype);
}

static void fill_piece(const filling *w, const piece *p)
{
    const llm_synth_tensor *t = &w->tensors[p->tensor];
    uint8_t *data = w->memory + t->offset + p->begin;
    if (t->rank == 1) {
        for (int64_t j = 0; j < t->dims[0]; j++)
            ((float *)(void *)data)[j] = t->value;
        return;
    }
    if (t->n_scales && !p->begin)
        fill_scales(t, (float *)(void *)(w->memory + t->scales));
    const pool *from = &w->pools[t->type.dtype];
    llm_random rng;
    llm_random_seed(&rng, t->offset + p->begin);
    for (uint64_t at = 0; at < p->size; at += from->snippet_size) {
        const uint64_t index = llm_random_next(&rng) % N_SNIPPETS;
        const uint64_t left = p->size - at;
        memcpy(data + at, from->data + index * from->snippet_size,
               left < from->snippet_size ? left : from->snippet_size);
    }
}

/* Fills one piece; false when none is left. */
static bool fill_next(filling *w)
{
    const uint32_t i = atomic_fetch_add(&w->next, 1);
    if (i >= w->n_pieces || atomic_load(&w->stop))
        return false;
    fill_piece(w, &w->pieces[i]);
    atomic_fetch_add(&w->done, 1);
    return true;
}

static void *help(void *arg)
{
    while (fill_next(arg))
        ;
    return NULL;
}

/* The calling thread fills pieces too, and reports progress. */
static clv_status fill_all(filling *w, clv_progress_fn progress,
                           void *progress_ctx)
{
    pthread_t threads[MAX_THREADS];
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);
    long n = 0;
    clv_status status = CLV_OK;
    while (n < MAX_THREADS && n + 1 < processors &&
           !pthread_create(&threads[n], NULL, help, w))
        n++;
    while (!status && fill_next(w)) {
        const uint32_t done = atomic_load(&w->done);
        if (progress && progress(progress_ctx, "making up weights",
                                 (double)done / w->n_pieces)) {
            atomic_store(&w->stop, true);
            status = clv_error(CLV_ERR_CANCELLED,
                               "cancelled after %.0f%% of the weights",
                               100.0 * done / w->n_pieces);
        }
    }
    while (n)
        pthread_join(threads[--n], NULL);
    return status;
}

clv_status llm_synth_fill(uint8_t *memory, const llm_synth_tensor *tensors,
                          uint32_t n_tensors, clv_progress_fn progress,
                          void *progress_ctx)
{
    filling w = {.memory = memory, .tensors = tensors};
    clv_status status = make_pools(&w, n_tensors);
    if (!status)
        status = cut_pieces(&w, n_tensors);
    if (!status)
        status = fill_all(&w, progress, progress_ctx);
    for (uint32_t i = 0; i < CLV_DTYPE_COUNT; i++)
        free(w.pools[i].data);
    free(w.pieces);
    return status;
}
