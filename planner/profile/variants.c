#include "variants.h"
#include "../../core/base/error.h"
#include "../../core/config/config.h"

#include <string.h>

/* The least bound on the error has the least rank. */
static uint32_t rank_of(uint32_t error_class)
{
    static const uint32_t precise_first[] = {
        CLV_ERROR_EXACT, CLV_ERROR_F32,      CLV_ERROR_F16,
        CLV_ERROR_Q8,    CLV_ERROR_UNSTATED, CLV_ERROR_Q8_TENSOR};
    uint32_t rank = 0;
    while (precise_first[rank] != error_class)
        rank++;
    return rank;
}

/* The worst rank that a plan may use. */
static uint32_t most_rank(const clv_context *ctx, const clv_op_caps *caps)
{
    const uint32_t plain = rank_of(caps->error_class);
    uint32_t least = plain;
    for (uint32_t i = 0; i < caps->n_variants; i++) {
        const uint32_t rank = rank_of(caps->variants[i].error_class);
        least = rank < least ? rank : least;
    }
    switch (core_config_choice(ctx->config, "core.precision")) {
    case CORE_PRECISION_FAST:
        return UINT32_MAX;
    case CORE_PRECISION_BEST:
        return least;
    }
    return plain;
}

planner_ways planner_ways_of(const clv_context *ctx, const clv_op_caps *caps)
{
    planner_ways ways = {.n = 0};
    const uint32_t most = most_rank(ctx, caps);
    if (rank_of(caps->error_class) <= most)
        ways.ids[ways.n++] = 0;
    for (uint32_t i = 0; i < caps->n_variants; i++)
        if (rank_of(caps->variants[i].error_class) <= most)
            ways.ids[ways.n++] = caps->variants[i].id;
    return ways;
}

static bool may_use(const planner_ways *ways, uint32_t id)
{
    for (uint32_t i = 0; i < ways->n; i++)
        if (ways->ids[i] == id)
            return true;
    return false;
}

void planner_limit_variants(const clv_context *ctx, clv_op_caps *caps,
                            uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const planner_ways ways = planner_ways_of(ctx, &caps[i]);
        uint32_t kept = 0;
        for (uint32_t v = 0; v < caps[i].n_variants; v++)
            if (may_use(&ways, caps[i].variants[v].id))
                caps[i].variants[kept++] = caps[i].variants[v];
        caps[i].n_variants = kept;
    }
}

clv_status planner_variant_named(const clv_context *ctx, const clv_device *dev,
                                 const clv_op_caps *caps, uint32_t piece,
                                 const char *name, uint32_t *out)
{
    const planner_ways ways = planner_ways_of(ctx, caps);
    uint32_t i = 0;
    while (i < caps->n_variants && strcmp(caps->variants[i].name, name))
        i++;
    if (i == caps->n_variants)
        return clv_error(CLV_ERR_UNSUPPORTED,
                         "plan: piece %u: device '%s' has no variant '%.40s' "
                         "of its node; make the plan again",
                         piece, dev->id, name);
    *out = caps->variants[i].id;
    if (may_use(&ways, *out))
        return CLV_OK;
    return clv_error(CLV_ERR_REFUSED,
                     "plan: piece %u: variant '%.40s' of device '%s' is less "
                     "precise than core.precision allows; set it to fast, or "
                     "make the plan again",
                     piece, name, dev->id);
}
