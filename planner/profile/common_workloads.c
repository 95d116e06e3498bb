#include "common_workloads.h"

#define WIDTH 4096 /* of a product, multiple of every block and array */
#define SHORT 64
#define FIRST_OUT 64 /* little, as some devices are slow */
#define FIRST_OUT_VIRTUAL 256
#define MOST_OUT 131072
#define FEW_ROWS 1
#define MANY_ROWS 256
#define POOL_SHARE 16 /* times the work that the pool could hold */

/* Formats of weights, what most devices take first. */
static const planner_workload_kind kinds[] = {
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_F32,
     .weight_dtype = CLV_DTYPE_F16},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_F32,
     .weight_dtype = CLV_DTYPE_F32},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_F32,
     .weight_dtype = CLV_DTYPE_I8,
     .quant = CLV_QUANT_PER_CHANNEL},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_F32,
     .weight_dtype = CLV_DTYPE_I8,
     .quant = CLV_QUANT_PER_TENSOR},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_F32,
     .weight_dtype = CLV_DTYPE_I4,
     .quant = CLV_QUANT_PER_CHANNEL},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_F32,
     .weight_dtype = CLV_DTYPE_Q8_0},
    {.op = CLV_OP_MATMUL,
     .dtype = CLV_DTYPE_F32,
     .weight_dtype = CLV_DTYPE_Q4_0},
    {.op = CLV_OP_ADD, .dtype = CLV_DTYPE_F32},
};

/* The lengths of a static device are given: the one that is nearest. */
static clv_status accepted(clv_device *dev, planner_workload *workload)
{
    int64_t n;
    clv_status status = planner_trial_accepted(dev, workload, &n);
    if (status != CLV_ERR_UNSUPPORTED || !n)
        return status;
    workload->n = n;
    return planner_trial_accepted(dev, workload, NULL);
}

static clv_status try_kind(clv_device *dev, const planner_workload_kind *kind,
                           bool many, bool is_long, planner_workload *out)
{
    *out = (planner_workload){.kind = *kind,
                              .n = many ? MANY_ROWS : FEW_ROWS,
                              .in = is_long ? WIDTH : SHORT,
                              .out = !is_long ? SHORT
                                     : dev->info.clock == CLV_CLOCK_VIRTUAL
                                         ? FIRST_OUT_VIRTUAL
                                         : FIRST_OUT};
    if (kind->op != CLV_OP_MATMUL)
        out->in = out->out;
    return accepted(dev, out);
}

static clv_status find(clv_device *dev, bool many, bool is_long,
                       const planner_workload_kind *preferred,
                       planner_workload *out)
{
    clv_status status = CLV_ERR_UNSUPPORTED;
    if (preferred && preferred->weight_dtype)
        status = try_kind(dev, preferred, many, is_long, out);
    for (uint32_t i = 0;
         i < sizeof kinds / sizeof *kinds && status == CLV_ERR_UNSUPPORTED; i++)
        status = try_kind(dev, &kinds[i], many, is_long, out);
    return status ? clv_error_prefix(status,
                                     "device '%s' takes nothing to measure it "
                                     "with",
                                     dev->id)
                  : CLV_OK;
}

/* The operands lie in the pool more than once. */
static bool is_large(const planner_meter *meter,
                     const planner_workload *workload)
{
    return planner_workload_bytes(workload) * POOL_SHARE >
           (double)meter->params.max_pool;
}

/* The work with twice the columns; where devices take real time, with as many
 * times two as it might take to get from `now` ns to `wanted`, so that few are
 * tried: each may have to be compiled. */
static void enlarge(const planner_meter *meter, const clv_device *dev,
                    double now, double wanted, planner_workload *workload)
{
    do {
        workload->out *= 2;
        now *= 2;
        if (workload->kind.op != CLV_OP_MATMUL)
            workload->in = workload->out;
    } while (dev->info.clock != CLV_CLOCK_VIRTUAL && now < wanted / 2 &&
             workload->out < MOST_OUT && !is_large(meter, workload));
}

clv_status planner_common_workloads(planner_meter *meter, clv_device *dev,
                                    bool many, double ns,
                                    const planner_workload_kind *preferred,
                                    planner_workload *out, double *node_ns)
{
    planner_sample sample;
    planner_workload fits = {0}; /* the largest so far */
    clv_status status = find(dev, many, ns > 0, preferred, out);
    while (!status && (ns > 0 || node_ns)) {
        status = planner_measure_workload(meter, dev, out, &sample);
        if (fits.n &&
            (status == CLV_ERR_LIMIT || status == CLV_ERR_NO_MEMORY)) {
            *out = fits;
            return CLV_OK;
        }
        if (status)
            break;
        fits = *out;
        if (node_ns)
            *node_ns = sample.ns;
        if (sample.ns >= ns || out->out >= MOST_OUT || is_large(meter, out))
            break;
        enlarge(meter, dev, sample.ns, ns, out);
    }
    return status;
}
