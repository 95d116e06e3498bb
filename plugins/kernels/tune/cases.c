#include "tune/cases.h"

#include <cleave/plugin_op.h>

#include <math.h>

/* Sizes that are no multiples of what kernels divide them by. */
enum {
    INPUTS = 256,
    OUTPUTS = 70,
    HEADS = 4,
    GROUPS = 2,
    DIM = 32,
    MOST_DIM = 128,
    ROWS = 301
};
enum { WIDE_ROWS = 300, WIDE_INPUTS = 768 };      /* tiles that come round */
enum { SERIES_INPUTS = 4096, SERIES_SLOW = 512 }; /* groups on all units */
enum { SERIES_SHARED = 4 }; /* heads of a group of the cache */
/* Whole tiles, of which the last group has not all. */
enum { EXPERTS = 4, USED = 2, EXPERT_OUTPUTS = 144 };

/* Weights are -7..7 times this, which every format holds exactly. */
#define STEP (1.0f / 64)

static const uint32_t weight_types[] = {
    CLV_DTYPE_F32,  CLV_DTYPE_F16, CLV_DTYPE_BF16, CLV_DTYPE_Q8_0,
    CLV_DTYPE_Q4_0, CLV_DTYPE_I8,  CLV_DTYPE_I4,   CLV_DTYPE_Q4_K,
    CLV_DTYPE_Q6_K}; /* with minimums, and with scales for 16 */
static const struct cache {
    uint32_t dtype;
    bool transposed; /* as weights */
} caches[] = {{CLV_DTYPE_F32, false},
              {CLV_DTYPE_F16, false},
              {CLV_DTYPE_F16, true},
              {CLV_DTYPE_Q8_0, false}};
static const uint32_t expert_types[] = {CLV_DTYPE_F16, CLV_DTYPE_Q8_0,
                                        CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_K};
static const uint32_t series_types[] = {CLV_DTYPE_Q8_0, CLV_DTYPE_Q4_0,
                                        CLV_DTYPE_Q4_K, CLV_DTYPE_Q6_K};
static const int64_t rows_of_x[] = {1, 5, 37};

enum {
    N_WEIGHTS = sizeof weight_types / sizeof *weight_types,
    N_CACHES = sizeof caches / sizeof *caches,
    N_EXPERTS = sizeof expert_types / sizeof *expert_types,
    N_SERIES = sizeof series_types / sizeof *series_types,
    N_ROWS = sizeof rows_of_x / sizeof *rows_of_x,
    N_SINGLE = (N_WEIGHTS + N_CACHES + N_EXPERTS) * N_ROWS,
};

uint32_t gpu_n_cases(void)
{
    return N_SINGLE + N_SERIES + 3;
}

/* ------------------------------------------------------------------------ */
/* Data                                                                     */

static uint32_t scramble(uint32_t i, uint32_t seed)
{
    uint32_t x = (i + 1) * 0x9e3779b1u ^ seed * 0x85ebca6bu;
    x = (x ^ x >> 15) * 0x2c1b3c6du;
    return x ^ x >> 13;
}

static int number(uint32_t i, uint32_t seed)
{
    return (int)(scramble(i, seed) % 15) - 7;
}

static float element(uint32_t i, uint32_t seed)
{
    return (float)number(i, seed) * STEP;
}

/* Blocks of 256 whose sub-blocks have scales and minimums of 1 and 7. */
static void write_superblock(uint8_t *to, uint32_t dtype, uint32_t first,
                             uint32_t seed)
{
    const uint16_t d = clv_f32_to_f16(STEP);
    if (dtype == CLV_DTYPE_Q4_K) {
        clv_block_q4_k *b = (clv_block_q4_k *)(void *)to;
        static const uint8_t scales[12] = {1, 1, 1,    1,    7,    7,
                                           7, 7, 0x71, 0x71, 0x71, 0x71};
        b->d = b->m = d;
        memcpy(b->scales, scales, sizeof scales);
        for (uint32_t j = 0; j < 128; j++) {
            const uint32_t k = first + j / 32 * 64 + j % 32;
            b->q[j] = (uint8_t)((number(k, seed) + 7) |
                                (number(k + 32, seed) + 7) << 4);
        }
        return;
    }
    clv_block_q6_k *b = (clv_block_q6_k *)(void *)to;
    memset(b, 0, sizeof *b);
    b->d = d;
    memset(b->scales, 1, sizeof b->scales);
    for (uint32_t j = 0; j < 256; j++) {
        const uint32_t q = (uint32_t)(number(first + j, seed) + 32);
        b->q[j / 128 * 64 + j % 64] |= (uint8_t)((q & 15) << j % 128 / 64 * 4);
        b->h[j / 128 * 32 + j % 32] |= (uint8_t)(q >> 4 << j % 128 / 32 * 2);
    }
}

/* A block of 32: d, then bytes or nibbles. */
static void write_block(uint8_t *to, uint32_t dtype, uint32_t first,
                        uint32_t seed)
{
    const uint16_t d = clv_f32_to_f16(STEP);
    memcpy(to, &d, 2);
    to += 2;
    for (uint32_t j = 0; j < 32; j++) {
        const int q = number(first + j, seed);
        if (dtype == CLV_DTYPE_Q8_0)
            to[j] = (uint8_t)q;
        else if (j < 16)
            to[j] = (uint8_t)(q + 8);
        else
            to[j - 16] |= (uint8_t)((q + 8) << 4);
    }
}

static void write_elements(uint8_t *to, uint32_t dtype, uint32_t n,
                           uint32_t seed)
{
    int64_t elements, bytes;
    clv_block(dtype, &elements, &bytes);
    for (uint32_t i = 0; i < n; i += (uint32_t)elements, to += bytes) {
        const float x = element(i, seed);
        if (elements == 32)
            write_block(to, dtype, i, seed);
        else if (elements == 256)
            write_superblock(to, dtype, i, seed);
        else if (dtype == CLV_DTYPE_I8)
            *to = (uint8_t)number(i, seed);
        else if (dtype == CLV_DTYPE_I4)
            *to = (uint8_t)((number(i, seed) & 15) | (number(i + 1, seed) & 15)
                                                         << 4);
        else if (dtype == CLV_DTYPE_I32)
            memcpy(to, &x, sizeof x); /* written over */
        else
            clv_format_of(dtype)->encode(&x, to, 1);
    }
}

/* Adds tensor [rows, columns], with data from the seed; seed 0: the output. */
static bool add_tensor(const clv_host_api *host, gpu_case *c, uint32_t dtype,
                       uint32_t usage, int64_t rows, int64_t columns,
                       uint32_t seed)
{
    uint32_t i = c->graph.n_tensors++;
    int64_t elements, bytes;
    clv_tensor_desc *t = &c->tensors[i];
    clv_block(dtype, &elements, &bytes);
    t->header = (clv_header){sizeof *t, CLV_STRUCT_TENSOR_DESC, NULL};
    t->dtype = dtype;
    t->usage = usage;
    t->rank = columns ? 2 : 1;
    t->dims[0] = rows;
    t->dims[1] = columns;
    int64_t n = rows * (columns ? columns : 1);
    c->size[i] = (uint64_t)(n / elements * bytes);
    if (!seed) {
        c->out = i;
        c->n_want = (uint64_t)n;
        c->want = clv_new(host, c->n_want * sizeof *c->want);
        return c->want != NULL;
    }
    c->data[i] = clv_new(host, c->size[i]);
    if (c->data[i])
        write_elements(c->data[i], dtype, (uint32_t)n, seed);
    return c->data[i] != NULL;
}

/* The scales of the integers that tensor w has: of rows, or of groups of 32. */
static bool add_scales(const clv_host_api *host, gpu_case *c, uint32_t w)
{
    const uint32_t at = c->graph.n_tensors;
    clv_tensor_desc *t = &c->tensors[w];
    const bool grouped = t->dtype == CLV_DTYPE_I4;
    t->quant = grouped ? CLV_QUANT_PER_GROUP : CLV_QUANT_PER_CHANNEL;
    t->quant_group = grouped ? 32 : 0;
    t->quant_scales = at + 1;
    if (!add_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, t->dims[0],
                    grouped ? t->dims[1] / 32 : 0, 5))
        return false;
    for (uint64_t i = 0; i < c->size[at] / sizeof(float); i++)
        ((float *)c->data[at])[i] = STEP;
    return true;
}

static clv_node *add_node(gpu_case *c, uint32_t op, uint32_t out)
{
    clv_node *node = &c->nodes[c->graph.n_nodes++];
    node->header = (clv_header){sizeof *node, CLV_STRUCT_NODE, NULL};
    node->op = op;
    node->revision = 1;
    node->n_outputs = 1;
    node->outputs[0] = out;
    c->graph.header = (clv_header){sizeof c->graph, CLV_STRUCT_SUBGRAPH, NULL};
    c->graph.tensors = c->tensors;
    c->graph.tensor_stride = sizeof *c->tensors;
    c->graph.nodes = c->nodes;
    c->graph.node_stride = sizeof *node;
    return node;
}

/* Of one node, whose inputs come before the output, and scales behind it. */
static clv_node *finish(gpu_case *c, uint32_t op)
{
    clv_node *node = add_node(c, op, c->out);
    node->n_inputs = c->out;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        node->inputs[i] = i;
    return node;
}

static void add_binary(gpu_case *c, uint32_t op, uint32_t a, uint32_t b,
                       uint32_t out)
{
    clv_node *node = add_node(c, op, out);
    node->n_inputs = 2;
    node->inputs[0] = a;
    node->inputs[1] = b;
}

/* ------------------------------------------------------------------------ */
/* Cases                                                                    */

/* known: the scale of x, whose elements are whole numbers times it; or 0. */
static bool make_matmul(const clv_host_api *host, uint32_t dtype, int64_t n,
                        uint32_t in, float known, gpu_case *c)
{
    snprintf(c->name, sizeof c->name, "matmul %s%s %lldx%ux%d",
             clv_dtype_label(dtype), known > 0 ? " of bytes" : "", (long long)n,
             (unsigned)in, OUTPUTS);
    if (!add_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, in, 1) ||
        !add_tensor(host, c, dtype, CLV_USAGE_WEIGHT, OUTPUTS, in, 2) ||
        !add_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, OUTPUTS, 0) ||
        ((dtype == CLV_DTYPE_I8 || dtype == CLV_DTYPE_I4) &&
         !add_scales(host, c, 1)))
        return false;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t o = 0; o < OUTPUTS; o++) {
            double sum = 0;
            for (uint32_t k = 0; k < in; k++)
                sum += (double)element(i * in + k, 1) * element(o * in + k, 2);
            c->want[i * OUTPUTS + o] = (float)sum;
        }
    finish(c, CLV_OP_MATMUL)->attr.matmul.input_scale = known;
    return true;
}

/* Of an attention. */
typedef struct heads {
    uint32_t n, shared, dim;  /* shared: so many have a group of the cache */
    const float *key, *value; /* the last row of the cache; NULL: as others */
} heads;

static double cached(const heads *a, const float *last_row, bool is_last,
                     uint32_t row, uint32_t channel, uint32_t seed)
{
    return is_last && last_row
               ? last_row[channel]
               : element(row * (a->n / a->shared * a->dim) + channel, seed);
}

/* Head h of query i, which sees rows 0..last. */
static void attend(const heads *a, uint32_t i, uint32_t h, uint32_t last,
                   float *out)
{
    const uint32_t from = h / a->shared * a->dim;
    double sum = 0, values[MOST_DIM] = {0};
    for (uint32_t j = 0; j <= last; j++) {
        double dot = 0;
        for (uint32_t d = 0; d < a->dim; d++)
            dot += (double)element((i * a->n + h) * a->dim + d, 1) *
                   cached(a, a->key, j == last, j, from + d, 2);
        double p = exp(dot * 4);
        sum += p;
        for (uint32_t d = 0; d < a->dim; d++)
            values[d] += p * cached(a, a->value, j == last, j, from + d, 3);
    }
    for (uint32_t d = 0; d < a->dim; d++)
        out[d] = (float)(values[d] / sum);
}

/* Lays tensor i of halves out: dimension 0 is that axis, 1 the other one. */
static bool lay(const clv_host_api *host, gpu_case *c, uint32_t i, uint8_t axis)
{
    clv_tensor_desc *t = &c->tensors[i];
    int64_t strides[CLV_MAX_RANK];
    t->layout = CLV_LAYOUT_WEIGHTS;
    t->axes[0] = axis;
    t->axes[1] = axis == CLV_AXIS_O ? CLV_AXIS_I : CLV_AXIS_O;
    c->size[i] = clv_tensor_size(t, NULL);
    char *data = clv_new(host, c->size[i]);
    if (!data || !clv_layout_strides(t, 2, strides)) {
        clv_free(host, data);
        return false;
    }
    for (int64_t row = 0; row < t->dims[0]; row++)
        for (int64_t k = 0; k < t->dims[1]; k++)
            memcpy(data + row * strides[0] + k * strides[1],
                   (const char *)c->data[i] + 2 * (row * t->dims[1] + k), 2);
    clv_free(host, c->data[i]);
    c->data[i] = data;
    return true;
}

static bool make_attention(const clv_host_api *host, const struct cache *cache,
                           int64_t n, gpu_case *c)
{
    const uint32_t dtype = cache->dtype;
    snprintf(c->name, sizeof c->name, "attention %s%s, %lld queries of %d rows",
             clv_dtype_label(dtype), cache->transposed ? " as weights" : "",
             (long long)n, ROWS);
    if (!add_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, HEADS * DIM,
                    1) ||
        !add_tensor(host, c, dtype, CLV_USAGE_STATE, ROWS, GROUPS * DIM, 2) ||
        !add_tensor(host, c, dtype, CLV_USAGE_STATE, ROWS, GROUPS * DIM, 3) ||
        !add_tensor(host, c, CLV_DTYPE_I32, CLV_USAGE_INPUT, n, 0, 4) ||
        !add_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, HEADS * DIM,
                    0) ||
        (cache->transposed &&
         (!lay(host, c, 1, CLV_AXIS_O) || !lay(host, c, 2, CLV_AXIS_I))))
        return false;
    const heads all = {HEADS, HEADS / GROUPS, DIM, NULL, NULL};
    int32_t *pos = c->data[3];
    for (uint32_t i = 0; i < n; i++) {
        pos[i] = ROWS - (int32_t)n + (int32_t)i;
        for (uint32_t h = 0; h < HEADS; h++)
            attend(&all, i, h, (uint32_t)pos[i],
                   c->want + (i * HEADS + h) * DIM);
    }
    clv_node *node = finish(c, CLV_OP_ATTENTION);
    node->attr.attention.head_dim = DIM;
    node->attr.attention.scale = 4;
    return true;
}

/* Id k of row i: all experts occur, none twice in a row. */
static int32_t expert_at(uint32_t i, uint32_t k)
{
    return (int32_t)((scramble(i, 3) + k * 3) % EXPERTS);
}

static float score_at(uint32_t i, int32_t expert)
{
    return 0.5f + element(i * EXPERTS + (uint32_t)expert, 4);
}

/* The product for id k of row i. */
static double product_at(uint32_t i, uint32_t k, uint32_t o)
{
    const uint32_t row = (uint32_t)expert_at(i, k) * EXPERT_OUTPUTS + o;
    double sum = 0;
    for (uint32_t j = 0; j < INPUTS; j++)
        sum +=
            (double)element(i * INPUTS + j, 1) * element(row * INPUTS + j, 2);
    return sum;
}

static void want_experts(gpu_case *c, uint32_t n, bool scored)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t o = 0; o < EXPERT_OUTPUTS; o++) {
            double sum = 0, total = 0;
            for (uint32_t k = 0; k < USED; k++) {
                double score = score_at(i, expert_at(i, k));
                total += score;
                sum += score * product_at(i, k, o);
                if (!scored)
                    c->want[(i * USED + k) * EXPERT_OUTPUTS + o] =
                        (float)product_at(i, k, o);
            }
            if (scored)
                c->want[i * EXPERT_OUTPUTS + o] = (float)(sum / total);
        }
}

/* One row has its products side by side, more have their sum. */
static bool make_experts(const clv_host_api *host, uint32_t dtype, int64_t n,
                         gpu_case *c)
{
    const bool scored = n > 1;
    snprintf(c->name, sizeof c->name, "matmul_experts %s %lldx%dx%d",
             clv_dtype_label(dtype), (long long)n, INPUTS, EXPERT_OUTPUTS);
    if (!add_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, INPUTS, 1) ||
        !add_tensor(host, c, dtype, CLV_USAGE_WEIGHT, EXPERTS * EXPERT_OUTPUTS,
                    INPUTS, 2) ||
        !add_tensor(host, c, CLV_DTYPE_I32, CLV_USAGE_INPUT, n, USED, 3) ||
        (scored &&
         !add_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, EXPERTS, 4)) ||
        !add_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n,
                    scored ? EXPERT_OUTPUTS : USED * EXPERT_OUTPUTS, 0))
        return false;
    clv_tensor_desc *w = &c->tensors[1];
    w->rank = 3;
    w->dims[0] = EXPERTS;
    w->dims[1] = EXPERT_OUTPUTS;
    w->dims[2] = INPUTS;
    for (uint32_t i = 0; i < n * USED; i++)
        ((int32_t *)c->data[2])[i] = expert_at(i / USED, i % USED);
    for (uint32_t i = 0; scored && i < n * EXPERTS; i++)
        ((float *)c->data[3])[i] =
            score_at(i / EXPERTS, (int32_t)(i % EXPERTS));
    want_experts(c, (uint32_t)n, scored);
    finish(c, CLV_OP_MATMUL_EXPERTS)->attr.experts.normalised = scored;
    return true;
}

/* A product of one row, with a sum, and one of that. */
static bool make_series(const clv_host_api *host, uint32_t dtype, uint32_t in,
                        gpu_case *c)
{
    enum { X, W, PRODUCT, BEFORE, SUM, W_2, OUT };
    snprintf(c->name, sizeof c->name, "two products %s 1x%ux%d",
             clv_dtype_label(dtype), (unsigned)in, OUTPUTS);
    c->variant = "gemv_series";
    c->series = true;
    double *sum = clv_new(host, in * (uint64_t)sizeof *sum);
    if (!sum ||
        !add_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_INPUT, 1, in, 1) ||
        !add_tensor(host, c, dtype, CLV_USAGE_WEIGHT, in, in, 2) ||
        !add_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, 1, in, 1) ||
        !add_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_INPUT, 1, in, 3) ||
        !add_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, 1, in, 1) ||
        !add_tensor(host, c, dtype, CLV_USAGE_WEIGHT, OUTPUTS, in, 4) ||
        !add_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 1, OUTPUTS, 0)) {
        clv_free(host, sum);
        return false;
    }
    for (uint32_t o = 0; o < in; o++) {
        sum[o] = element(o, 3);
        for (uint32_t k = 0; k < in; k++)
            sum[o] += (double)element(k, 1) * element(o * in + k, 2);
    }
    for (uint32_t o = 0; o < OUTPUTS; o++) {
        double y = 0;
        for (uint32_t k = 0; k < in; k++)
            y += sum[k] * element(o * in + k, 4);
        c->want[o] = (float)y;
    }
    clv_free(host, sum);
    add_binary(c, CLV_OP_MATMUL, X, W, PRODUCT);
    add_binary(c, CLV_OP_ADD, PRODUCT, BEFORE, SUM);
    add_binary(c, CLV_OP_MATMUL, SUM, W_2, OUT);
    return true;
}

/* The tensors of make_layers(). */
enum { Q, KEYS, VALUES, POS, ROW, BEFORE, LAYERS, N_LAYERS = 2 };
enum { X, W_K, W_V, K, V, SEEN, W, PRODUCT, SUM, LAYER_SIZE };
#define FEW 8 /* channels of X that are not 0, so that K and V are exact */

static bool add_layers(const clv_host_api *host, uint32_t dtype, uint32_t in,
                       gpu_case *c)
{
    const uint32_t f32 = CLV_DTYPE_F32, f16 = CLV_DTYPE_F16;
    const int64_t shared = in / SERIES_SHARED;
    bool made = add_tensor(host, c, f32, CLV_USAGE_INPUT, 1, in, 1) &&
                add_tensor(host, c, f16, CLV_USAGE_STATE, ROWS, shared, 2) &&
                add_tensor(host, c, f16, CLV_USAGE_STATE, ROWS, shared, 3) &&
                add_tensor(host, c, CLV_DTYPE_I32, CLV_USAGE_INPUT, 1, 0, 4) &&
                add_tensor(host, c, CLV_DTYPE_I32, CLV_USAGE_INPUT, 1, 0, 4) &&
                add_tensor(host, c, f32, CLV_USAGE_INPUT, 1, in, 5);
    for (uint32_t i = 0; i < N_LAYERS && made; i++) {
        const uint32_t seed = 10 * (i + 1);
        made = add_tensor(host, c, f32, CLV_USAGE_INPUT, 1, in, seed + X) &&
               add_tensor(host, c, dtype, CLV_USAGE_WEIGHT, shared, in,
                          seed + W_K) &&
               add_tensor(host, c, dtype, CLV_USAGE_WEIGHT, shared, in,
                          seed + W_V) &&
               add_tensor(host, c, f32, CLV_USAGE_TRANSIENT, 1, shared, 1) &&
               add_tensor(host, c, f32, CLV_USAGE_TRANSIENT, 1, shared, 1) &&
               add_tensor(host, c, f32, CLV_USAGE_TRANSIENT, 1, in, 1) &&
               add_tensor(host, c, dtype, CLV_USAGE_WEIGHT, in, in, seed + W) &&
               add_tensor(host, c, f32, CLV_USAGE_TRANSIENT, 1, in, 1) &&
               add_tensor(host, c, f32, CLV_USAGE_TRANSIENT, 1, in, 1);
    }
    return made &&
           add_tensor(host, c, f32, CLV_USAGE_WEIGHT, MOST_DIM / 2, 0, 8) &&
           add_tensor(host, c, f32, CLV_USAGE_OUTPUT, 1, in, 0);
}

/* The row of the cache that a layer leaves for the next one. */
static void want_row(uint32_t in, uint32_t seed, float *key, float *value)
{
    for (uint32_t o = 0; o < in / SERIES_SHARED; o++) {
        key[o] = value[o] = 0;
        for (uint32_t k = 0; k < FEW; k++) {
            const float x = (float)number(k, seed + X);
            key[o] += x * element(o * in + k, seed + W_K);
            value[o] += x * element(o * in + k, seed + W_V);
        }
    }
}

static bool want_layers(const clv_host_api *host, uint32_t in, gpu_case *c)
{
    const uint32_t shared = in / SERIES_SHARED;
    float *key = clv_new(host, (in + 2 * shared) * (uint64_t)sizeof *key);
    if (!key)
        return false;
    float *value = key + shared, *seen = value + shared;
    for (uint32_t o = 0; o < in; o++)
        c->want[o] = element(o, 5);
    heads all = {in / MOST_DIM, SERIES_SHARED, MOST_DIM, NULL, NULL};
    for (uint32_t i = 0; i < N_LAYERS; i++) {
        const uint32_t seed = 10 * (i + 1);
        for (uint32_t h = 0; h < all.n; h++)
            attend(&all, 0, h, ROWS - 1, seen + h * MOST_DIM);
        want_row(in, seed, key, value);
        all.key = key;
        all.value = value;
        for (uint32_t o = 0; o < in; o++) {
            double y = c->want[o];
            for (uint32_t k = 0; k < in; k++)
                y += (double)seen[k] * element(o * in + k, seed + W);
            c->want[o] = (float)y;
        }
    }
    clv_free(host, key);
    return true;
}

static void add_set_rows(gpu_case *c, uint32_t state, uint32_t rows)
{
    clv_node *node = add_node(c, CLV_OP_SET_ROWS, CLV_NO_TENSOR);
    node->n_outputs = 0;
    node->n_inputs = 3;
    node->inputs[0] = state;
    node->inputs[1] = rows;
    node->inputs[2] = ROW;
}

/* The layer's tensors begin with `at`. */
static void add_layer(gpu_case *c, uint32_t at, uint32_t before)
{
    float *x = c->data[at + X]; /* FEW whole numbers */
    for (uint32_t k = 0; k < c->size[at + X] / sizeof *x; k++)
        x[k] = k < FEW ? x[k] / STEP : 0;
    clv_node *node = add_node(c, CLV_OP_ATTENTION, at + SEEN);
    node->n_inputs = ROW;
    for (uint32_t k = 0; k < ROW; k++)
        node->inputs[k] = k;
    node->attr.attention.head_dim = MOST_DIM;
    node->attr.attention.scale = 4;
    add_binary(c, CLV_OP_MATMUL, at + SEEN, at + W, at + PRODUCT);
    add_binary(c, CLV_OP_ADD, at + PRODUCT, before, at + SUM);
    add_binary(c, CLV_OP_MATMUL, at + X, at + W_K, at + K);
    add_binary(c, CLV_OP_MATMUL, at + X, at + W_V, at + V);
    add_set_rows(c, KEYS, at + K);
    add_set_rows(c, VALUES, at + V);
}

/* Layers of one row, each a kernel or all in one: an attention, a product of
 * that with a sum, and keys and values for a row of the cache, which the next
 * one sees. At the end a ROPE that turns nothing, so that their result is
 * memory of the program's, as it is between them. */
static bool make_layers(const clv_host_api *host, uint32_t dtype, uint32_t in,
                        gpu_case *c)
{
    uint32_t before = BEFORE;
    snprintf(c->name, sizeof c->name, "attention, product %s 1x%ux%u",
             clv_dtype_label(dtype), (unsigned)in, (unsigned)in);
    c->variant = "gemv_series";
    c->series = true;
    if (!add_layers(host, dtype, in, c) || !want_layers(host, in, c))
        return false;
    *(int32_t *)c->data[POS] = *(int32_t *)c->data[ROW] = ROWS - 1;
    for (uint32_t i = 0; i < N_LAYERS; i++) {
        add_layer(c, LAYERS + i * LAYER_SIZE, before);
        before = LAYERS + i * LAYER_SIZE + SUM;
    }
    clv_node *end = add_node(c, CLV_OP_ROPE, c->out);
    end->n_inputs = 3;
    end->inputs[0] = before;
    end->inputs[1] = POS;
    end->inputs[2] = c->out - 1;
    end->attr.rope.head_dim = MOST_DIM;
    memset(c->data[c->out - 1], 0, c->size[c->out - 1]);
    return true;
}

clv_status gpu_case_make(const clv_host_api *host, uint32_t i, bool slow,
                         gpu_case *c)
{
    int64_t n = rows_of_x[i % N_ROWS];
    uint32_t type = i / N_ROWS;
    bool made;
    c->wide = i + 1 == gpu_n_cases();
    if (c->wide)
        made = make_matmul(host, CLV_DTYPE_Q8_0, WIDE_ROWS, WIDE_INPUTS, 0, c);
    else if (i + 2 == gpu_n_cases())
        made = make_matmul(host, CLV_DTYPE_I8, WIDE_ROWS, WIDE_INPUTS, STEP, c);
    else if (i > N_SINGLE)
        made = make_series(host, series_types[i - N_SINGLE - 1],
                           slow ? SERIES_SLOW : SERIES_INPUTS, c);
    else if (i == N_SINGLE)
        made = make_layers(host, CLV_DTYPE_Q8_0,
                           slow ? SERIES_SLOW : SERIES_INPUTS, c);
    else if (type < N_WEIGHTS)
        made = make_matmul(host, weight_types[type], n, INPUTS, 0, c);
    else if (type < N_WEIGHTS + N_CACHES)
        made = make_attention(host, &caches[type - N_WEIGHTS], n, c);
    else
        made =
            make_experts(host, expert_types[type - N_WEIGHTS - N_CACHES], n, c);
    return made ? CLV_OK : CLV_ERR_NO_MEMORY;
}

void gpu_case_free(const clv_host_api *host, gpu_case *c)
{
    for (uint32_t i = 0; i < c->graph.n_tensors; i++)
        clv_free(host, c->data[i]);
    clv_free(host, c->want);
}
