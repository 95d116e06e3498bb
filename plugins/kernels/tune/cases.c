#include "tune/case_data.h"
#include "tune/series_cases.h"

/* Sizes that are no multiples of what kernels divide them by. */
enum {
    INPUTS = 256,
    OUTPUTS = 70,
    HEADS = 4,
    GROUPS = 2,
    DIM = 32,
    ROWS = 301
};
enum { WIDE_ROWS = 300, WIDE_INPUTS = 768 };      /* tiles that come round */
enum { SERIES_INPUTS = 4096, SERIES_SLOW = 512 }; /* groups on all units */
/* Whole tiles, of which the last group has not all. */
enum { EXPERTS = 4, USED = 2, EXPERT_OUTPUTS = 144 };

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
static const uint32_t series_rows_types[] = {CLV_DTYPE_Q4_0, CLV_DTYPE_Q4_K};
static const int64_t rows_of_x[] = {1, 5, 37};

enum {
    N_WEIGHTS = sizeof weight_types / sizeof *weight_types,
    N_CACHES = sizeof caches / sizeof *caches,
    N_EXPERTS = sizeof expert_types / sizeof *expert_types,
    N_SERIES = sizeof series_types / sizeof *series_types,
    N_SERIES_ROWS = sizeof series_rows_types / sizeof *series_rows_types,
    N_ROWS = sizeof rows_of_x / sizeof *rows_of_x,
    N_SINGLE = (N_WEIGHTS + N_CACHES + N_EXPERTS) * N_ROWS,
};

uint32_t gpu_n_cases(void)
{
    return N_SINGLE + N_SERIES + N_SERIES_ROWS + 3;
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
    if (!gpu_case_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, t->dims[0],
                         grouped ? t->dims[1] / 32 : 0, 5))
        return false;
    for (uint64_t i = 0; i < c->size[at] / sizeof(float); i++)
        ((float *)c->data[at])[i] = GPU_CASE_STEP;
    return true;
}

/* Of one node, whose inputs come before the output, and scales behind it. */
static clv_node *finish(gpu_case *c, uint32_t op)
{
    clv_node *node = gpu_case_node(c, op, c->out);
    node->n_inputs = c->out;
    for (uint32_t i = 0; i < node->n_inputs; i++)
        node->inputs[i] = i;
    return node;
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
    if (!gpu_case_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, in, 1) ||
        !gpu_case_tensor(host, c, dtype, CLV_USAGE_WEIGHT, OUTPUTS, in, 2) ||
        !gpu_case_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, OUTPUTS,
                         0) ||
        ((dtype == CLV_DTYPE_I8 || dtype == CLV_DTYPE_I4) &&
         !add_scales(host, c, 1)))
        return false;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t o = 0; o < OUTPUTS; o++) {
            double sum = 0;
            for (uint32_t k = 0; k < in; k++)
                sum += (double)gpu_case_element(i * in + k, 1) *
                       gpu_case_element(o * in + k, 2);
            c->want[i * OUTPUTS + o] = (float)sum;
        }
    finish(c, CLV_OP_MATMUL)->attr.matmul.input_scale = known;
    return true;
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
    if (!gpu_case_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_INPUT, n,
                         HEADS * DIM, 1) ||
        !gpu_case_tensor(host, c, dtype, CLV_USAGE_STATE, ROWS, GROUPS * DIM,
                         2) ||
        !gpu_case_tensor(host, c, dtype, CLV_USAGE_STATE, ROWS, GROUPS * DIM,
                         3) ||
        !gpu_case_tensor(host, c, CLV_DTYPE_I32, CLV_USAGE_INPUT, n, 0, 4) ||
        !gpu_case_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n,
                         HEADS * DIM, 0) ||
        (cache->transposed &&
         (!lay(host, c, 1, CLV_AXIS_O) || !lay(host, c, 2, CLV_AXIS_I))))
        return false;
    const gpu_case_heads all = {HEADS, HEADS / GROUPS, DIM, NULL, NULL};
    int32_t *pos = c->data[3];
    for (uint32_t i = 0; i < n; i++) {
        pos[i] = ROWS - (int32_t)n + (int32_t)i;
        for (uint32_t h = 0; h < HEADS; h++)
            gpu_case_attend(&all, i, h, (uint32_t)pos[i],
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
    return (int32_t)((gpu_case_scramble(i, 3) + k * 3) % EXPERTS);
}

static float score_at(uint32_t i, int32_t expert)
{
    return 0.5f + gpu_case_element(i * EXPERTS + (uint32_t)expert, 4);
}

/* The product for id k of row i. */
static double product_at(uint32_t i, uint32_t k, uint32_t o)
{
    const uint32_t row = (uint32_t)expert_at(i, k) * EXPERT_OUTPUTS + o;
    double sum = 0;
    for (uint32_t j = 0; j < INPUTS; j++)
        sum += (double)gpu_case_element(i * INPUTS + j, 1) *
               gpu_case_element(row * INPUTS + j, 2);
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
    if (!gpu_case_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, INPUTS,
                         1) ||
        !gpu_case_tensor(host, c, dtype, CLV_USAGE_WEIGHT,
                         EXPERTS * EXPERT_OUTPUTS, INPUTS, 2) ||
        !gpu_case_tensor(host, c, CLV_DTYPE_I32, CLV_USAGE_INPUT, n, USED, 3) ||
        (scored && !gpu_case_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_INPUT, n,
                                    EXPERTS, 4)) ||
        !gpu_case_tensor(host, c, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n,
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
        made = make_matmul(host, CLV_DTYPE_I8, WIDE_ROWS, WIDE_INPUTS,
                           GPU_CASE_STEP, c);
    else if (i > N_SINGLE + N_SERIES)
        made = gpu_case_make_series(
            host, series_rows_types[i - N_SINGLE - N_SERIES - 1], 5,
            slow ? SERIES_SLOW : SERIES_INPUTS, c);
    else if (i > N_SINGLE)
        made = gpu_case_make_series(host, series_types[i - N_SINGLE - 1], 1,
                                    slow ? SERIES_SLOW : SERIES_INPUTS, c);
    else if (i == N_SINGLE)
        made = gpu_case_make_layers(host, CLV_DTYPE_Q8_0,
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
