#include "tune/series_cases.h"
#include "tune/case_data.h"

enum { SERIES_OUTPUTS = 70, SERIES_ROWS = 301 }; /* no multiples of anything */
enum { SERIES_SHARED = 4 }; /* heads of a group of the cache */

/* One row of the sum of x W with what was before, and of that times W_2. */
static void want_products(gpu_case *c, uint32_t in, uint32_t row, double *sum)
{
    const uint32_t from = row * in;
    for (uint32_t o = 0; o < in; o++) {
        sum[o] = gpu_case_element(from + o, 3);
        for (uint32_t k = 0; k < in; k++)
            sum[o] += (double)gpu_case_element(from + k, 1) *
                      gpu_case_element(o * in + k, 2);
    }
    for (uint32_t o = 0; o < SERIES_OUTPUTS; o++) {
        double y = 0;
        for (uint32_t k = 0; k < in; k++)
            y += sum[k] * gpu_case_element(o * in + k, 4);
        c->want[row * SERIES_OUTPUTS + o] = (float)y;
    }
}

bool gpu_case_make_series(const clv_host_api *host, uint32_t dtype,
                          uint32_t rows, uint32_t in, gpu_case *c)
{
    enum { X, W, PRODUCT, BEFORE, SUM, W_2, OUT };
    const uint32_t f32 = CLV_DTYPE_F32, transient = CLV_USAGE_TRANSIENT;
    snprintf(c->name, sizeof c->name, "two products %s %ux%ux%d",
             clv_dtype_label(dtype), (unsigned)rows, (unsigned)in,
             SERIES_OUTPUTS);
    c->variant = rows == 1 ? "gemv_series" : "gemv_series_rows";
    c->series = true;
    double *sum = clv_new(host, in * (uint64_t)sizeof *sum);
    if (!sum || !gpu_case_tensor(host, c, f32, CLV_USAGE_INPUT, rows, in, 1) ||
        !gpu_case_tensor(host, c, dtype, CLV_USAGE_WEIGHT, in, in, 2) ||
        !gpu_case_tensor(host, c, f32, transient, rows, in, 1) ||
        !gpu_case_tensor(host, c, f32, CLV_USAGE_INPUT, rows, in, 3) ||
        !gpu_case_tensor(host, c, f32, transient, rows, in, 1) ||
        !gpu_case_tensor(host, c, dtype, CLV_USAGE_WEIGHT, SERIES_OUTPUTS, in,
                         4) ||
        !gpu_case_tensor(host, c, f32, CLV_USAGE_OUTPUT, rows, SERIES_OUTPUTS,
                         0)) {
        clv_free(host, sum);
        return false;
    }
    for (uint32_t i = 0; i < rows; i++)
        want_products(c, in, i, sum);
    clv_free(host, sum);
    gpu_case_binary(c, CLV_OP_MATMUL, X, W, PRODUCT);
    gpu_case_binary(c, CLV_OP_ADD, PRODUCT, BEFORE, SUM);
    gpu_case_binary(c, CLV_OP_MATMUL, SUM, W_2, OUT);
    return true;
}

/* The tensors of gpu_case_make_layers(). */
enum { Q, KEYS, VALUES, POS, ROW, BEFORE, LAYERS, N_LAYERS = 2 };
enum { X, W_K, W_V, K, V, SEEN, W, PRODUCT, SUM, LAYER_SIZE };
#define FEW 8 /* channels of X that are not 0, so that K and V are exact */

static bool add_layers(const clv_host_api *host, uint32_t dtype, uint32_t in,
                       gpu_case *c)
{
    const uint32_t f32 = CLV_DTYPE_F32, f16 = CLV_DTYPE_F16;
    const int64_t shared = in / SERIES_SHARED;
    bool made =
        gpu_case_tensor(host, c, f32, CLV_USAGE_INPUT, 1, in, 1) &&
        gpu_case_tensor(host, c, f16, CLV_USAGE_STATE, SERIES_ROWS, shared,
                        2) &&
        gpu_case_tensor(host, c, f16, CLV_USAGE_STATE, SERIES_ROWS, shared,
                        3) &&
        gpu_case_tensor(host, c, CLV_DTYPE_I32, CLV_USAGE_INPUT, 1, 0, 4) &&
        gpu_case_tensor(host, c, CLV_DTYPE_I32, CLV_USAGE_INPUT, 1, 0, 4) &&
        gpu_case_tensor(host, c, f32, CLV_USAGE_INPUT, 1, in, 5);
    for (uint32_t i = 0; i < N_LAYERS && made; i++) {
        const uint32_t seed = 10 * (i + 1);
        made =
            gpu_case_tensor(host, c, f32, CLV_USAGE_INPUT, 1, in, seed + X) &&
            gpu_case_tensor(host, c, dtype, CLV_USAGE_WEIGHT, shared, in,
                            seed + W_K) &&
            gpu_case_tensor(host, c, dtype, CLV_USAGE_WEIGHT, shared, in,
                            seed + W_V) &&
            gpu_case_tensor(host, c, f32, CLV_USAGE_TRANSIENT, 1, shared, 1) &&
            gpu_case_tensor(host, c, f32, CLV_USAGE_TRANSIENT, 1, shared, 1) &&
            gpu_case_tensor(host, c, f32, CLV_USAGE_TRANSIENT, 1, in, 1) &&
            gpu_case_tensor(host, c, dtype, CLV_USAGE_WEIGHT, in, in,
                            seed + W) &&
            gpu_case_tensor(host, c, f32, CLV_USAGE_TRANSIENT, 1, in, 1) &&
            gpu_case_tensor(host, c, f32, CLV_USAGE_TRANSIENT, 1, in, 1);
    }
    return made &&
           gpu_case_tensor(host, c, f32, CLV_USAGE_WEIGHT, GPU_CASE_DIM / 2, 0,
                           8) &&
           gpu_case_tensor(host, c, f32, CLV_USAGE_OUTPUT, 1, in, 0);
}

/* The row of the cache that a layer leaves for the next one. */
static void want_row(uint32_t in, uint32_t seed, float *key, float *value)
{
    for (uint32_t o = 0; o < in / SERIES_SHARED; o++) {
        key[o] = value[o] = 0;
        for (uint32_t k = 0; k < FEW; k++) {
            const float x = (float)gpu_case_number(k, seed + X);
            key[o] += x * gpu_case_element(o * in + k, seed + W_K);
            value[o] += x * gpu_case_element(o * in + k, seed + W_V);
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
        c->want[o] = gpu_case_element(o, 5);
    gpu_case_heads all = {in / GPU_CASE_DIM, SERIES_SHARED, GPU_CASE_DIM, NULL,
                          NULL};
    for (uint32_t i = 0; i < N_LAYERS; i++) {
        const uint32_t seed = 10 * (i + 1);
        for (uint32_t h = 0; h < all.n; h++)
            gpu_case_attend(&all, 0, h, SERIES_ROWS - 1,
                            seen + h * GPU_CASE_DIM);
        want_row(in, seed, key, value);
        all.key = key;
        all.value = value;
        for (uint32_t o = 0; o < in; o++) {
            double y = c->want[o];
            for (uint32_t k = 0; k < in; k++)
                y += (double)seen[k] * gpu_case_element(o * in + k, seed + W);
            c->want[o] = (float)y;
        }
    }
    clv_free(host, key);
    return true;
}

static void add_set_rows(gpu_case *c, uint32_t state, uint32_t rows)
{
    clv_node *node = gpu_case_node(c, CLV_OP_SET_ROWS, CLV_NO_TENSOR);
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
        x[k] = k < FEW ? x[k] / GPU_CASE_STEP : 0;
    clv_node *node = gpu_case_node(c, CLV_OP_ATTENTION, at + SEEN);
    node->n_inputs = ROW;
    for (uint32_t k = 0; k < ROW; k++)
        node->inputs[k] = k;
    node->attr.attention.head_dim = GPU_CASE_DIM;
    node->attr.attention.scale = 4;
    gpu_case_binary(c, CLV_OP_MATMUL, at + SEEN, at + W, at + PRODUCT);
    gpu_case_binary(c, CLV_OP_ADD, at + PRODUCT, before, at + SUM);
    gpu_case_binary(c, CLV_OP_MATMUL, at + X, at + W_K, at + K);
    gpu_case_binary(c, CLV_OP_MATMUL, at + X, at + W_V, at + V);
    add_set_rows(c, KEYS, at + K);
    add_set_rows(c, VALUES, at + V);
}

/* At the end is a ROPE that turns nothing, so that the layers' result is memory
 * of the program's, as it is between them. */
bool gpu_case_make_layers(const clv_host_api *host, uint32_t dtype, uint32_t in,
                          gpu_case *c)
{
    uint32_t before = BEFORE;
    snprintf(c->name, sizeof c->name, "attention, product %s 1x%ux%u",
             clv_dtype_label(dtype), (unsigned)in, (unsigned)in);
    c->variant = "gemv_series";
    c->series = true;
    if (!add_layers(host, dtype, in, c) || !want_layers(host, in, c))
        return false;
    *(int32_t *)c->data[POS] = *(int32_t *)c->data[ROW] = SERIES_ROWS - 1;
    for (uint32_t i = 0; i < N_LAYERS; i++) {
        add_layer(c, LAYERS + i * LAYER_SIZE, before);
        before = LAYERS + i * LAYER_SIZE + SUM;
    }
    clv_node *end = gpu_case_node(c, CLV_OP_ROPE, c->out);
    end->n_inputs = 3;
    end->inputs[0] = before;
    end->inputs[1] = POS;
    end->inputs[2] = c->out - 1;
    end->attr.rope.head_dim = GPU_CASE_DIM;
    memset(c->data[c->out - 1], 0, c->size[c->out - 1]);
    return true;
}
