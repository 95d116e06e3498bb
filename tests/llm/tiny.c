#include "tiny.h"

#include "check.h"
#include "base/random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TENSORS 128

typedef struct tiny {
    llm_source source;
    tiny_params params;
    llm_random rng;
    uint32_t n_tensors;
    struct {
        char name[64];
        llm_source_tensor tensor;
        void *memory;
    } tensors[MAX_TENSORS];
} tiny;

tiny_params tiny_defaults(void)
{
    return (tiny_params){
        .n_layers = 2,
        .n_embd = 64,
        .n_ff = 96,
        .n_vocab = 160,
        .n_heads = 4,
        .n_kv_heads = 2,
        .head_dim = 16,
        .rope_dim = 16,
        .rope_mode = CLV_ROPE_HALVES,
        .dtype = CLV_DTYPE_F32,
        .seed = 1,
    };
}

/* Integers in memory that the caller frees, with their scales behind them. */
static void *to_integers(const tiny_params *p, const float *x, int64_t out,
                         int64_t in, uint64_t size, uint64_t n_scales)
{
    const bool i8 = p->dtype == CLV_DTYPE_I8;
    const uint64_t begin = (size + 63) / 64 * 64;
    uint8_t *data = calloc(1, begin + n_scales * sizeof(float));
    assert_non_null(data);
    float *scales = (float *)(void *)(data + begin);
    for (int64_t i = 0; i < out * in; i++) {
        float *scale = &scales[n_scales > 1 ? i / in : 0];
        *scale = fmaxf(*scale, fabsf(x[i]) / (i8 ? 127 : 7));
    }
    for (int64_t i = 0; i < out * in; i++) {
        const int q = (int)lrintf(x[i] / scales[n_scales > 1 ? i / in : 0]);
        if (i8)
            data[i] = (uint8_t)q;
        else
            data[i / 2] |= (uint8_t)((q & 15) << i % 2 * 4);
    }
    return data;
}

static void add(tiny *t, int64_t out, int64_t in, double mean, double spread,
                const char *fmt, uint32_t layer)
{
    assert_true(t->n_tensors < MAX_TENSORS);
    const uint64_t n = (uint64_t)(in ? out * in : out);
    const tiny_params *p = &t->params;
    const bool block = p->dtype >= CLV_DTYPE_Q8_0;
    const uint32_t dtype =
        !in && (block || p->quant) ? CLV_DTYPE_F32 : p->dtype;
    const bool scaled = in && p->quant;
    const uint64_t n_scales =
        p->quant == CLV_QUANT_PER_CHANNEL ? (uint64_t)out : 1;
    uint64_t size;
    assert_ok(clv_dtype_size(dtype, n, &size));
    float *x = malloc(n * sizeof *x);
    assert_non_null(x);
    for (uint64_t i = 0; i < n; i++)
        x[i] = (float)(mean + spread * (2 * llm_random_uniform(&t->rng) - 1));
    void *data =
        scaled ? to_integers(p, x, out, in, size, n_scales) : malloc(size);
    assert_non_null(data);
    if (!scaled)
        assert_ok(clv_dtype_from_f32(dtype, x, data, n));
    free(x);
    llm_source_tensor *tensor = &t->tensors[t->n_tensors].tensor;
    *tensor = (llm_source_tensor){.dtype = dtype,
                                  .rank = in ? 2 : 1,
                                  .dims = {out, in},
                                  .data = data,
                                  .size = size};
    if (scaled) {
        tensor->quant = p->quant;
        tensor->scales = (uint8_t *)data + (size + 63) / 64 * 64;
        tensor->n_scales = n_scales;
    }
    snprintf(t->tensors[t->n_tensors].name, 64, fmt, layer);
    t->tensors[t->n_tensors++].memory = data;
}

/* [n, out, in], of one type whatever the matrices are. */
static void add_experts(tiny *t, int64_t out, int64_t in, const char *fmt,
                        uint32_t layer)
{
    const int64_t n = t->params.n_experts;
    add(t, n * out, in, 0, 0.2, fmt, layer);
    llm_source_tensor *tensor = &t->tensors[t->n_tensors - 1].tensor;
    tensor->rank = 3;
    tensor->dims[0] = n;
    tensor->dims[1] = out;
    tensor->dims[2] = in;
}

static void add_choice(tiny *t, uint32_t i)
{
    const int64_t embd = t->params.n_embd, ff = t->params.n_ff;
    add(t, t->params.n_experts, embd, 0, 0.5, "blk.%u.ffn_gate_inp.weight", i);
    add_experts(t, ff, embd, "blk.%u.ffn_gate_exps.weight", i);
    add_experts(t, ff, embd, "blk.%u.ffn_up_exps.weight", i);
    add_experts(t, embd, ff, "blk.%u.ffn_down_exps.weight", i);
}

static void add_layer(tiny *t, uint32_t i)
{
    const tiny_params *p = &t->params;
    const int64_t q = p->n_heads * p->head_dim, embd = p->n_embd;
    const int64_t kv = p->n_kv_heads * p->head_dim, ff = p->n_ff;
    add(t, embd, 0, 1, 0.3, "blk.%u.attn_norm.weight", i);
    add(t, q, embd, 0, 0.3, "blk.%u.attn_q.weight", i);
    add(t, kv, embd, 0, 0.3, "blk.%u.attn_k.weight", i);
    add(t, kv, embd, 0, 0.2, "blk.%u.attn_v.weight", i);
    add(t, embd, q, 0, 0.2, "blk.%u.attn_output.weight", i);
    add(t, embd, 0, 1, 0.3, "blk.%u.ffn_norm.weight", i);
    if (p->n_experts) {
        add_choice(t, i);
        return;
    }
    add(t, ff, embd, 0, 0.2, "blk.%u.ffn_gate.weight", i);
    add(t, ff, embd, 0, 0.2, "blk.%u.ffn_up.weight", i);
    add(t, embd, ff, 0, 0.2, "blk.%u.ffn_down.weight", i);
    if (!p->biases)
        return;
    add(t, q, 0, 0, 0.5, "blk.%u.attn_q.bias", i);
    add(t, kv, 0, 0, 0.5, "blk.%u.attn_k.bias", i);
    add(t, kv, 0, 0, 0.5, "blk.%u.attn_v.bias", i);
    add(t, embd, 0, 0, 0.5, "blk.%u.attn_output.bias", i);
    add(t, ff, 0, 0, 0.5, "blk.%u.ffn_gate.bias", i);
    add(t, ff, 0, 0, 0.5, "blk.%u.ffn_up.bias", i);
    add(t, embd, 0, 0, 0.5, "blk.%u.ffn_down.bias", i);
}

static int find_index(const tiny *t, const char *name)
{
    for (uint32_t i = 0; i < t->n_tensors; i++)
        if (!strcmp(t->tensors[i].name, name))
            return (int)i;
    return -1;
}

static clv_status find(llm_source *source, const char *name,
                       llm_source_tensor *out)
{
    const tiny *t = (tiny *)source;
    const int i = find_index(t, name);
    if (i < 0)
        return CLV_ERR_NOT_FOUND;
    *out = t->tensors[i].tensor;
    return CLV_OK;
}

static clv_status no_tokenizer(llm_source *source, clv_tokenizer **out)
{
    (void)source;
    *out = NULL;
    return CLV_OK;
}

static void destroy(llm_source *source)
{
    tiny *t = (tiny *)source;
    for (uint32_t i = 0; i < t->n_tensors; i++)
        free(t->tensors[i].memory);
    free(t);
}

llm_source *tiny_create(const tiny_params *p)
{
    tiny *t = calloc(1, sizeof *t);
    assert_non_null(t);
    t->params = *p;
    llm_random_seed(&t->rng, p->seed);
    t->source.find = find;
    t->source.tokenizer = no_tokenizer;
    t->source.destroy = destroy;
    t->source.hparams = (llm_hparams){
        .arch = llm_arch_at(0),
        .name = "tiny",
        .n_layers = p->n_layers,
        .n_embd = p->n_embd,
        .n_ff = p->n_ff,
        .n_vocab = p->n_vocab,
        .n_heads = p->n_heads,
        .n_kv_heads = p->n_kv_heads,
        .head_dim = p->head_dim,
        .n_experts = p->n_experts,
        .n_experts_used = p->n_experts_used,
        .experts_normalised = 1,
        .n_ctx_train = 128,
        .sliding_window = p->window,
        .norm_eps = 1e-5f,
        .rope_mode = p->rope_mode,
        .rope_dim = p->rope_dim,
        .rope_base = 100,
        .bos = -1,
        .eos = -1,
    };
    add(t, p->n_vocab, p->n_embd, 0, 1, "token_embd.weight", 0);
    add(t, p->n_embd, 0, 1, 0.3, "output_norm.weight", 0);
    if (!p->tied)
        add(t, p->n_vocab, p->n_embd, 0, 0.3, "output.weight", 0);
    if (p->divisors)
        add(t, p->rope_dim / 2, 0, 3, 2, "rope_freqs.weight", 0);
    for (uint32_t i = 0; i < p->n_layers; i++)
        add_layer(t, i);
    return &t->source;
}

void tiny_remove(llm_source *source, const char *name)
{
    tiny *t = (tiny *)source;
    const int i = find_index(t, name);
    assert_true(i >= 0);
    t->tensors[i].name[0] = '\0';
}

void tiny_reshape(llm_source *source, const char *name, uint32_t rank,
                  int64_t first, int64_t second)
{
    tiny *t = (tiny *)source;
    const int i = find_index(t, name);
    assert_true(i >= 0);
    t->tensors[i].tensor.rank = rank;
    t->tensors[i].tensor.dims[0] = first;
    t->tensors[i].tensor.dims[1] = second;
}

void tiny_spoil_scales(llm_source *source, const char *name)
{
    tiny *t = (tiny *)source;
    const int i = find_index(t, name);
    assert_true(i >= 0);
    t->tensors[i].tensor.n_scales--;
}

/* ------------------------------------------------------------------------ */
/* The forward pass                                                         */

static void from_integers(const llm_source_tensor *t, float *x)
{
    const int8_t *q = t->data;
    const float *scales = t->scales;
    for (int64_t i = 0; i < t->dims[0] * t->dims[1]; i++) {
        const int nibble = q[i / 2] >> i % 2 * 4 & 15;
        const int value = t->dtype == CLV_DTYPE_I8 ? q[i]
                          : nibble > 7             ? nibble - 16
                                                   : nibble;
        x[i] = (float)value * scales[t->n_scales > 1 ? i / t->dims[1] : 0];
    }
}

/* A tensor as doubles, the caller's; NULL if there is none. */
static double *values(llm_source *source, uint32_t layer, const char *what)
{
    char name[64];
    llm_source_tensor t;
    snprintf(name, sizeof name, what, layer);
    if (find(source, name, &t))
        return NULL;
    uint64_t n = 1;
    for (uint32_t i = 0; i < t.rank; i++)
        n *= (uint64_t)t.dims[i];
    float *x = malloc(n * sizeof *x);
    double *out = malloc(n * sizeof *out);
    assert_true(x && out);
    if (t.quant)
        from_integers(&t, x);
    else
        assert_ok(clv_dtype_to_f32(t.dtype, t.data, x, n));
    for (uint64_t i = 0; i < n; i++)
        out[i] = x[i];
    free(x);
    return out;
}

/* What is done to results; errors NULL: nothing. */
typedef struct noise {
    const tiny_errors *errors;
    llm_random rng;
} noise;

/* Uniform noise of that mean square. Each row has the error of its class: a run
 * may have one row. */
static void disturb(noise *z, double error, double *x, uint32_t rows,
                    uint32_t n)
{
    for (uint32_t r = 0; error > 0 && r < rows; r++) {
        double squares = 0;
        for (uint32_t i = 0; i < n; i++)
            squares += x[r * n + i] * x[r * n + i];
        const double most = sqrt(3 * error * squares / n);
        for (uint32_t i = 0; i < n; i++)
            x[r * n + i] += most * (2 * llm_random_uniform(&z->rng) - 1);
    }
}

static void disturb_result(noise *z, clv_op op, double *x, uint32_t rows,
                           uint32_t n)
{
    disturb(z, z->errors ? z->errors->ops[op] : 0, x, rows, n);
}

/* y [rows, out] = x [rows, in] * w [out, in] + bias [out]; the result is the
 * caller's. */
static double *linear(noise *z, clv_op op, const double *x, uint32_t rows,
                      uint32_t in, uint32_t out, double *w, double *bias)
{
    double *y = malloc((size_t)rows * out * sizeof *y);
    assert_non_null(y);
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t o = 0; o < out; o++) {
            double sum = bias ? bias[o] : 0;
            for (uint32_t i = 0; i < in; i++)
                sum += x[r * in + i] * w[o * in + i];
            y[r * out + o] = sum;
        }
    disturb_result(z, op, y, rows, out);
    free(w);
    free(bias);
    return y;
}

static double *norm(noise *z, const double *x, uint32_t rows, uint32_t n,
                    double eps, double *w)
{
    double *y = malloc((size_t)rows * n * sizeof *y);
    assert_non_null(y);
    for (uint32_t r = 0; r < rows; r++) {
        double squares = 0;
        for (uint32_t i = 0; i < n; i++)
            squares += x[r * n + i] * x[r * n + i];
        for (uint32_t i = 0; i < n; i++)
            y[r * n + i] = x[r * n + i] / sqrt(squares / n + eps) * w[i];
    }
    disturb_result(z, CLV_OP_RMS_NORM, y, rows, n);
    free(w);
    return y;
}

static void rotate(noise *z, const llm_hparams *hp, double *x, uint32_t rows,
                   uint32_t heads, const double *divisors)
{
    const uint32_t half = hp->rope_dim / 2;
    for (uint32_t r = 0; r < rows * heads; r++) {
        double *head = x + r * hp->head_dim;
        for (uint32_t j = 0; j < half; j++) {
            double angle =
                (r / heads) * pow(hp->rope_base, -2.0 * j / hp->rope_dim);
            if (divisors)
                angle /= divisors[j];
            const bool pairs = hp->rope_mode == CLV_ROPE_PAIRS;
            double *a = head + (pairs ? 2 * j : j);
            double *b = head + (pairs ? 2 * j + 1 : j + half);
            const double re = *a, im = *b;
            *a = re * cos(angle) - im * sin(angle);
            *b = re * sin(angle) + im * cos(angle);
        }
    }
    disturb_result(z, CLV_OP_ROPE, x, rows, heads * hp->head_dim);
}

static double *attend(noise *z, const llm_hparams *hp, const double *q,
                      const double *k, const double *v, uint32_t n)
{
    const uint32_t d = hp->head_dim, heads = hp->n_heads;
    const uint32_t kv = hp->n_kv_heads;
    double *y = calloc((size_t)n * heads * d, sizeof *y);
    double *s = malloc(n * sizeof *s);
    assert_true(y && s);
    for (uint32_t r = 0; r < n * heads; r++) {
        const uint32_t p = r / heads, g = r % heads / (heads / kv);
        const uint32_t first = hp->sliding_window && p + 1 > hp->sliding_window
                                   ? p + 1 - hp->sliding_window
                                   : 0;
        double max = -INFINITY, sum = 0;
        for (uint32_t j = first; j <= p; j++) {
            s[j] = 0;
            for (uint32_t c = 0; c < d; c++)
                s[j] += q[r * d + c] * k[(j * kv + g) * d + c];
            s[j] /= sqrt(d);
            max = fmax(max, s[j]);
        }
        for (uint32_t j = first; j <= p; j++)
            sum += s[j] = exp(s[j] - max);
        for (uint32_t j = first; j <= p; j++)
            for (uint32_t c = 0; c < d; c++)
                y[r * d + c] += s[j] / sum * v[(j * kv + g) * d + c];
    }
    disturb_result(z, CLV_OP_ATTENTION, y, n, heads * d);
    free(s);
    return y;
}

static void add_to(noise *z, double *x, double *y, uint32_t rows, uint32_t n)
{
    for (uint32_t i = 0; i < rows * n; i++)
        x[i] += y[i];
    disturb_result(z, CLV_OP_ADD, x, rows, n);
    free(y);
}

#define W(what) values(source, i, "blk.%u." what)

/* A copy of n values, the caller's. */
static double *part_of(const double *x, size_t begin, size_t n)
{
    double *part = malloc(n * sizeof *part);
    assert_non_null(part);
    memcpy(part, x + begin, n * sizeof *part);
    return part;
}

/* Gate, up and down of one row, by matrices that it frees. */
static double *gated(noise *z, clv_op op, const llm_hparams *hp,
                     const double *row, uint32_t n, double *gate_w,
                     double *up_w, double *down_w, double *biases[3])
{
    const uint32_t embd = hp->n_embd, ff = hp->n_ff;
    double *gate = linear(z, op, row, n, embd, ff, gate_w, biases[0]);
    double *up = linear(z, op, row, n, embd, ff, up_w, biases[1]);
    for (uint32_t j = 0; j < n * ff; j++)
        up[j] *= gate[j] / (1 + exp(-gate[j]));
    disturb_result(z, CLV_OP_GLU, up, n, ff);
    double *y = linear(z, op, up, n, ff, embd, down_w, biases[2]);
    free(gate);
    free(up);
    return y;
}

/* The largest score that was not chosen before. */
static uint32_t next_best(const double *scores, const bool *taken, uint32_t n)
{
    uint32_t best = n;
    for (uint32_t e = 0; e < n; e++)
        if (!taken[e] && (best == n || scores[e] > scores[best]))
            best = e;
    return best;
}

/* One row: the experts with the highest scores, weighted by these. */
static void add_choice_of(noise *z, const llm_hparams *hp, const double *row,
                          double *scores, const double *gate, const double *up,
                          const double *down, double *y)
{
    const size_t size = (size_t)hp->n_embd * hp->n_ff;
    bool taken[64] = {false};
    double sum = 0;
    for (uint32_t e = 0; e < hp->n_experts; e++)
        scores[e] = exp(scores[e]);
    for (uint32_t k = 0; k < hp->n_experts_used; k++) {
        const uint32_t e = next_best(scores, taken, hp->n_experts);
        taken[e] = true;
        sum += scores[e];
    }
    for (uint32_t e = 0; e < hp->n_experts; e++) {
        double *none[3] = {NULL, NULL, NULL};
        if (!taken[e])
            continue;
        double *part = gated(
            z, CLV_OP_MATMUL_EXPERTS, hp, row, 1, part_of(gate, e * size, size),
            part_of(up, e * size, size), part_of(down, e * size, size), none);
        for (uint32_t j = 0; j < hp->n_embd; j++)
            y[j] += scores[e] / sum * part[j];
        free(part);
    }
}

static double *by_experts(noise *z, llm_source *source, uint32_t i,
                          const double *h, uint32_t n)
{
    const llm_hparams *hp = &source->hparams;
    const uint32_t embd = hp->n_embd, all = hp->n_experts;
    double *scores = linear(z, CLV_OP_MATMUL, h, n, embd, all,
                            W("ffn_gate_inp.weight"), NULL);
    double *gate = W("ffn_gate_exps.weight"), *up = W("ffn_up_exps.weight");
    double *down = W("ffn_down_exps.weight");
    double *y = calloc((size_t)n * embd, sizeof *y);
    assert_true(y && all <= 64);
    for (uint32_t r = 0; r < n; r++)
        add_choice_of(z, hp, h + r * embd, scores + r * all, gate, up, down,
                      y + r * embd);
    free(scores);
    free(gate);
    free(up);
    free(down);
    return y;
}

static double *feed_forward(noise *z, llm_source *source, uint32_t i,
                            const double *h, uint32_t n)
{
    if (source->hparams.n_experts)
        return by_experts(z, source, i, h, n);
    double *biases[3] = {W("ffn_gate.bias"), W("ffn_up.bias"),
                         W("ffn_down.bias")};
    return gated(z, CLV_OP_MATMUL, &source->hparams, h, n, W("ffn_gate.weight"),
                 W("ffn_up.weight"), W("ffn_down.weight"), biases);
}

static void forward_layer(noise *z, llm_source *source, uint32_t i, double *x,
                          uint32_t n)
{
    const llm_hparams *hp = &source->hparams;
    const uint32_t embd = hp->n_embd;
    const uint32_t width = hp->n_heads * hp->head_dim;
    const uint32_t kv = hp->n_kv_heads * hp->head_dim;
    double *divisors = values(source, 0, "rope_freqs.weight");
    double *h = norm(z, x, n, embd, hp->norm_eps, W("attn_norm.weight"));
    double *q = linear(z, CLV_OP_MATMUL, h, n, embd, width, W("attn_q.weight"),
                       W("attn_q.bias"));
    double *k = linear(z, CLV_OP_MATMUL, h, n, embd, kv, W("attn_k.weight"),
                       W("attn_k.bias"));
    double *v = linear(z, CLV_OP_MATMUL, h, n, embd, kv, W("attn_v.weight"),
                       W("attn_v.bias"));
    rotate(z, hp, q, n, hp->n_heads, divisors);
    rotate(z, hp, k, n, hp->n_kv_heads, divisors);
    if (z->errors) {
        disturb(z, z->errors->cache, k, n, kv);
        disturb(z, z->errors->cache, v, n, kv);
    }
    double *y = attend(z, hp, q, k, v, n);
    add_to(z, x,
           linear(z, CLV_OP_MATMUL, y, n, width, embd, W("attn_output.weight"),
                  W("attn_output.bias")),
           n, embd);
    free(h);
    h = norm(z, x, n, embd, hp->norm_eps, W("ffn_norm.weight"));
    add_to(z, x, feed_forward(z, source, i, h, n), n, embd);
    free(divisors);
    free(h);
    free(q);
    free(k);
    free(v);
    free(y);
}

static void forward(noise *z, llm_source *source, const int32_t *ids,
                    uint32_t n, double *logits)
{
    const llm_hparams *hp = &source->hparams;
    const uint32_t embd = hp->n_embd;
    double *table = values(source, 0, "token_embd.weight");
    double *x = malloc((size_t)n * embd * sizeof *x);
    assert_true(table && x);
    for (uint32_t r = 0; r < n; r++)
        memcpy(x + r * embd, table + (size_t)ids[r] * embd, embd * sizeof *x);
    disturb_result(z, CLV_OP_GET_ROWS, x, n, embd);
    for (uint32_t i = 0; i < hp->n_layers; i++)
        forward_layer(z, source, i, x, n);
    double *h = norm(z, x, n, embd, hp->norm_eps,
                     values(source, 0, "output_norm.weight"));
    double *output = values(source, 0, "output.weight");
    double *y =
        linear(z, CLV_OP_MATMUL, h, n, embd, hp->n_vocab,
               output ? output : values(source, 0, "token_embd.weight"), NULL);
    memcpy(logits, y, (size_t)n * hp->n_vocab * sizeof *y);
    free(table);
    free(x);
    free(h);
    free(y);
}

void tiny_forward(llm_source *source, const int32_t *ids, uint32_t n,
                  double *logits)
{
    noise none = {.errors = NULL};
    forward(&none, source, ids, n, logits);
}

void tiny_forward_disturbed(llm_source *source, const int32_t *ids, uint32_t n,
                            const tiny_errors *errors, uint64_t seed,
                            double *logits)
{
    noise z = {.errors = errors};
    llm_random_seed(&z.rng, seed);
    forward(&z, source, ids, n, logits);
}

double tiny_error(const float *x, const double *ref, uint64_t n)
{
    double difference = 0, total = 0;
    for (uint64_t i = 0; i < n; i++) {
        difference += (x[i] - ref[i]) * (x[i] - ref[i]);
        total += ref[i] * ref[i];
    }
    return sqrt(difference / total);
}

void tiny_ids(const llm_source *source, uint64_t seed, int32_t *ids, uint32_t n)
{
    llm_random rng;
    llm_random_seed(&rng, seed);
    for (uint32_t i = 0; i < n; i++)
        ids[i] = (int32_t)(llm_random_next(&rng) % source->hparams.n_vocab);
}
