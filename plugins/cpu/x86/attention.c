/*
 * Fused attention with online softmax. Heads that share keys and values, and a
 * block of queries, make up to ROWS rows that are served together: a block of
 * keys is packed once, all rows are scored against it, and the weighted values
 * are added to y, whose rows are rescaled when a larger score turns up.
 */
#include "matmul_gemm_f32.h"
#include "vecmath.h"
#include "x86.h"

#include <math.h>
#include <stdbool.h>

#define ROWS 64   /* of queries x heads */
#define KEYS 64   /* in a block */
#define DEPTH 256 /* head channels packed at a time */

typedef struct buffers { /* in the scratch */
    float scores[ROWS][KEYS];
    float keys[KEYS / F32_ROWS][DEPTH][F32_ROWS];
    float values[KEYS][F32_ROWS];
    float edge[ROWS][F32_ROWS];
    float top[ROWS], sum[ROWS]; /* largest score; sum of exp(score - top) */
} buffers;

_Static_assert(sizeof(buffers) <= CPU_SCRATCH_SIZE, "attention scratch");

/* Strides, in elements, from a query or a head to the next. */
typedef struct axis {
    int64_t n, q, y, pos;
} axis;

/* Rows in order [outer, inner]; the inner axis is the longer one. */
typedef struct rows {
    const float *q;
    float *y;
    const int32_t *pos, *first; /* first: NULL, or as pos */
    axis outer, inner;
    buffers *b;
} rows;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
static int64_t max64(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static rows make_rows(const cpu_attention_args *a, int64_t query, int64_t n_q,
                      int64_t head, int64_t n_h)
{
    axis queries = {n_q, a->q_stride, a->y_stride, 1};
    axis heads = {n_h, a->head_dim, a->head_dim, 0};
    bool few = n_q < n_h;
    return (rows){
        .q = a->q + query * a->q_stride + head * a->head_dim,
        .y = a->y + query * a->y_stride + head * a->head_dim,
        .pos = a->pos + query,
        .first = a->first ? a->first + query : NULL,
        .outer = few ? queries : heads,
        .inner = few ? heads : queries,
        .b = a->scratch,
    };
}

/* y += x [tokens, depth] * panel, for any number of tokens. */
static void multiply(f32_tile t, int64_t tokens)
{
    int64_t groups = (tokens + TOKENS - 1) / TOKENS;
    for (; groups; groups--) {
        int64_t n = (tokens + groups - 1) / groups;
        f32_micro(&t, (int)n);
        t.x += n * t.x_stride;
        t.y += n * t.y_stride;
        tokens -= n;
    }
}

/* Bytes of n elements: whole blocks of Q8_0. */
static ALWAYS_INLINE int64_t bytes(int64_t n, const int dtype)
{
    return dtype == CLV_DTYPE_Q8_0 ? n / 32 * 34
                                   : n * (dtype == CLV_DTYPE_F32 ? 4 : 2);
}

/* scores = q * transpose(keys), for keys first .. first + n. */
static ALWAYS_INLINE void score(const cpu_attention_args *a, const rows *r,
                                int64_t column, int64_t first, int n,
                                const int dtype)
{
    memset(r->b->scores, 0,
           (size_t)(r->outer.n * r->inner.n) * sizeof(r->b->scores[0]));
    for (int64_t d = 0; d < a->head_dim; d += DEPTH) {
        int depth = (int)min64(DEPTH, a->head_dim - d);
        for (int p = 0; p < n; p += F32_ROWS) {
            float *panel = r->b->keys[p / F32_ROWS][0];
            f32_pack((const uint8_t *)a->k + (first + p) * a->kv_stride +
                         bytes(column + d, dtype),
                     a->kv_stride, n - p, depth, panel, dtype);
            for (int64_t o = 0; o < r->outer.n; o++)
                multiply(
                    (f32_tile){
                        .x = r->q + o * r->outer.q + d,
                        .x_stride = r->inner.q,
                        .panel = panel,
                        .panel_stride = F32_ROWS,
                        .depth = depth,
                        .y = r->b->scores[o * r->inner.n] + p,
                        .y_stride = KEYS,
                    },
                    r->inner.n);
        }
    }
}

static void rescale(float *y, int64_t n, float factor)
{
    vf f = vf_set1(factor);
    int64_t i = 0;
    for (; i + VL <= n; i += VL)
        vf_store(y + i, vf_mul(vf_load(y + i), f));
    if (i < n)
        vf_store_n(y + i, vf_mul(vf_load_n(y + i, n - i), f), n - i);
}

/* Scores of one row to exp(score - top), of which begin..end are seen. */
static void weigh(const cpu_attention_args *a, float *s, int64_t begin,
                  int64_t end, float *y, float *row_top, float *row_sum)
{
    vf top = vf_set1(-INFINITY), sum = vf_zero();
    vf cap = vf_set1(a->softcap);

    for (int i = 0; i < KEYS; i += VL) {
        vf v = vf_mul(vf_load(s + i), vf_set1(a->scale));
        if (a->softcap != 0)
            v = vf_mul(cap, vf_tanh(vf_div(v, cap)));
        vf_store(s + i, v);
    }
    for (int64_t i = 0; i < begin; i++)
        s[i] = -INFINITY;
    for (int64_t i = end; i < KEYS; i++)
        s[i] = -INFINITY;
    for (int i = 0; i < KEYS; i += VL)
        top = vf_max(vf_load(s + i), top);

    float highest = fmaxf(vf_hmax(top), *row_top);
    if (highest == -INFINITY) {
        /* Nothing is seen, or nothing but NaN, which must not get lost. */
        for (int64_t i = begin; i < end; i++)
            if (isnan(s[i]))
                *row_sum = NAN;
        memset(s, 0, KEYS * sizeof(*s));
        return;
    }
    for (int i = 0; i < KEYS; i += VL) {
        vf e = vf_exp(vf_sub(vf_load(s + i), vf_set1(highest)));
        vf_store(s + i, e);
        sum = vf_add(sum, e);
    }
    if (highest > *row_top) {
        float factor = expf(*row_top - highest);
        *row_sum *= factor;
        rescale(y, a->head_dim, factor);
        *row_top = highest;
    }
    *row_sum += vf_hsum(sum);
}

/* What row (o, i) sees of keys first .. first + n: begin..end of them. */
static void seen(const cpu_attention_args *a, const rows *r, int64_t o,
                 int64_t i, int64_t first, int64_t n, int64_t *begin,
                 int64_t *end)
{
    int64_t at = o * r->outer.pos + i * r->inner.pos, pos = r->pos[at];
    int64_t low = a->window ? pos - a->window + 1 : 0;
    if (r->first)
        low = max64(low, r->first[at]);
    *end = max64(0, min64(n, pos + 1 - first));
    *begin = min64(*end, max64(0, low - first));
}

/* The panel of `width` value channels from column on, as floats. */
static ALWAYS_INLINE void load_values(const cpu_attention_args *a, float *out,
                                      int64_t column, int64_t first, int n,
                                      int width, const int dtype)
{
    for (int j = 0; j < n; j++) {
        const uint8_t *v = (const uint8_t *)a->v + (first + j) * a->kv_stride;
        float *to = out + j * F32_ROWS;
        if (width == F32_ROWS) {
            for (int i = 0; i < F32_ROWS; i += 8)
                _mm256_storeu_ps(to + i, f32_load8_at(v, column + i, 8, dtype));
            continue;
        }
        for (int i = 0; i < F32_ROWS; i += 8) {
            int left = width < i ? 0 : width < i + 8 ? width - i : 8;
            _mm256_storeu_ps(to + i,
                             left ? f32_load8_at(v, column + i, left, dtype)
                                  : _mm256_setzero_ps());
        }
    }
}

static bool all_finite(const float *panel, int n)
{
    vi top = vi_zero();
    for (int i = 0; i < n * F32_ROWS; i += VL)
        top = vi_max32(top, vf_abs_bits(vf_load(panel + i)));
    return vi_hmax32(top) < 0x7f800000;
}

/* y rows of one outer index += scores * values. A weight of zero hides an
 * unseen value only where that is finite; otherwise rows go one by one over
 * just what they see. */
static void add_values(const cpu_attention_args *a, const rows *r, int64_t o,
                       int64_t first, int n, float *y, int64_t y_stride,
                       bool finite)
{
    f32_tile t = {
        .x = r->b->scores[o * r->inner.n],
        .x_stride = KEYS,
        .panel = r->b->values[0],
        .panel_stride = F32_ROWS,
        .depth = n,
        .y = y,
        .y_stride = y_stride,
    };
    if (finite) {
        multiply(t, r->inner.n);
        return;
    }
    for (int64_t i = 0; i < r->inner.n; i++) {
        int64_t begin, end;
        seen(a, r, o, i, first, n, &begin, &end);
        t.x = r->b->scores[o * r->inner.n + i] + begin;
        t.panel = r->b->values[begin];
        t.depth = end - begin;
        t.y = y + i * y_stride;
        multiply(t, 1);
    }
}

static ALWAYS_INLINE void gather(const cpu_attention_args *a, const rows *r,
                                 int64_t column, int64_t first, int n,
                                 const int dtype)
{
    for (int64_t d = 0; d < a->head_dim; d += F32_ROWS) {
        int width = (int)min64(F32_ROWS, a->head_dim - d);
        size_t size = (size_t)width * sizeof(float);
        load_values(a, r->b->values[0], column + d, first, n, width, dtype);
        bool finite = all_finite(r->b->values[0], n);
        for (int64_t o = 0; o < r->outer.n; o++) {
            float *y = r->y + o * r->outer.y + d;
            if (width == F32_ROWS) {
                add_values(a, r, o, first, n, y, r->inner.y, finite);
                continue;
            }
            for (int64_t i = 0; i < r->inner.n; i++)
                memcpy(r->b->edge[i], y + i * r->inner.y, size);
            add_values(a, r, o, first, n, r->b->edge[0], F32_ROWS, finite);
            for (int64_t i = 0; i < r->inner.n; i++)
                memcpy(y + i * r->inner.y, r->b->edge[i], size);
        }
    }
}

/* A head's channels are a small part of each cache row, too far apart for the
 * hardware to see a pattern: asks for the keys and values first .. end. */
static void prefetch(const cpu_attention_args *a, int64_t column, int64_t first,
                     int64_t end, const int dtype)
{
    for (int64_t j = first; j < min64(end, first + KEYS); j++) {
        int64_t at = j * a->kv_stride + bytes(column, dtype);
        for (int64_t i = 0; i < bytes(a->head_dim, dtype); i += 64) {
            _mm_prefetch((const char *)a->k + at + i, _MM_HINT_T0);
            _mm_prefetch((const char *)a->v + at + i, _MM_HINT_T0);
        }
    }
}

/* Cache rows that any of these rows sees. */
static void span(const cpu_attention_args *a, const rows *r, int64_t *begin,
                 int64_t *end)
{
    *begin = a->rows;
    *end = 0;
    for (int64_t o = 0; o < r->outer.n; o++) {
        for (int64_t i = 0; i < r->inner.n; i++) {
            int64_t low, high;
            seen(a, r, o, i, 0, a->rows, &low, &high);
            *begin = min64(*begin, low);
            *end = max64(*end, high);
        }
    }
}

static ALWAYS_INLINE void run_rows(const cpu_attention_args *a, const rows *r,
                                   int64_t column, const int dtype)
{
    int64_t begin, end, n_rows = r->outer.n * r->inner.n;

    for (int64_t i = 0; i < n_rows; i++) {
        float *y =
            r->y + i / r->inner.n * r->outer.y + i % r->inner.n * r->inner.y;
        memset(y, 0, (size_t)a->head_dim * sizeof(*y));
        r->b->top[i] = -INFINITY;
        r->b->sum[i] = 0;
    }
    span(a, r, &begin, &end);
    for (int64_t first = begin; first < end; first += KEYS) {
        int n = (int)min64(KEYS, end - first);
        prefetch(a, column, first + KEYS, end, dtype);
        score(a, r, column, first, n, dtype);
        for (int64_t i = 0; i < n_rows; i++) {
            int64_t low, high, o = i / r->inner.n, j = i % r->inner.n;
            seen(a, r, o, j, first, n, &low, &high);
            weigh(a, r->b->scores[i], low, high,
                  r->y + o * r->outer.y + j * r->inner.y, &r->b->top[i],
                  &r->b->sum[i]);
        }
        gather(a, r, column, first, n, dtype);
    }
    for (int64_t i = 0; i < n_rows; i++)
        if (r->b->sum[i] != 0)
            rescale(r->y + i / r->inner.n * r->outer.y +
                        i % r->inner.n * r->inner.y,
                    a->head_dim, 1 / r->b->sum[i]);
}

/* Queries from q on, `most` or fewer, whose rows of the cache begin together:
 * others see nothing of what these see. */
static int64_t queries_from(const cpu_attention_args *a, int64_t q,
                            int64_t most)
{
    int64_t n = 1;
    if (!a->first)
        return most;
    while (n < most && a->first[q + n] == a->first[q])
        n++;
    return n;
}

static ALWAYS_INLINE void attention(const cpu_attention_args *a,
                                    const int dtype)
{
    int64_t share = a->heads / a->kv_heads;

    for (int64_t h = a->h_begin, n_h; h < a->h_end; h += n_h) {
        int64_t group = h / share;
        n_h = min64(min64(a->h_end, (group + 1) * share) - h, ROWS);
        int64_t block = ROWS / n_h;
        for (int64_t q = a->q_begin, n; q < a->q_end; q += n) {
            n = queries_from(a, q, min64(block, a->q_end - q));
            rows r = make_rows(a, q, n, h, n_h);
            run_rows(a, &r, group * a->head_dim, dtype);
        }
    }
}

static void attention_f32(const cpu_attention_args *a)
{
    attention(a, CLV_DTYPE_F32);
}

static void attention_f16(const cpu_attention_args *a)
{
    attention(a, CLV_DTYPE_F16);
}

static void attention_q8_0(const cpu_attention_args *a)
{
    attention(a, CLV_DTYPE_Q8_0);
}

void ISA(cpu_x86_attention)(cpu_kernels *table)
{
    table->attention[CLV_DTYPE_F32] = attention_f32;
    table->attention[CLV_DTYPE_F16] = attention_f16;
    table->attention[CLV_DTYPE_Q8_0] = attention_q8_0;
}
