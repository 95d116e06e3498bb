#include "compare.h"

#include "limits.h"
#include "prepare.h"

#include <math.h>

/* Where times are real, or random, a plan over more devices has to be so much
 * faster: less may be chance, and takes cores and power; and this much more
 * where all its costs are models' answers. */
#define WORTHWHILE 1.03
#define UNCERTAIN 0.22

/* What popularity has to gain: that of a text differs from that of others, and
 * the forecast has a piece take what it does on average, while others wait for
 * it as long as it takes. */
#define POPULAR 1.08

/* What a plan near another one has to gain: costs are not known better, and
 * what is best for one filling of the cache may be slower for others. */
#define NEAR 1.01

/* Shares of a run's time that differ less are equal: the search and the
 * forecast do not agree to the last percent. */
#define SAME_SHARE 0.005

static bool is_exact(const clv_plan *plan)
{
    for (uint32_t d = 0; d < plan->n_devices; d++)
        if (plan->devices[d].n_steps &&
            plan->devices[d].dev->info.clock == CLV_CLOCK_VIRTUAL)
            return !(plan->noise > 0);
    return false;
}

static uint32_t devices_of(const clv_plan *plan)
{
    return clv_plan_summarise(plan).n_devices;
}

/* The factor by which `other` has to be faster than this plan to replace it:
 * more than 1 if `other` has not run, and this plan has or takes fewer devices.
 * What made runs of this plan longer than forecast is expected of one over as
 * many devices, too. */
static double margin(const clv_plan *plan, const clv_plan *other)
{
    if (is_exact(other) || other->run_ratio > 0 ||
        (!(plan->run_ratio > 0) && devices_of(other) <= devices_of(plan)))
        return 1;
    const double alike =
        devices_of(other) >= devices_of(plan) ? fmax(plan->run_ratio, 1) : 1;
    /* Simulated devices' models were compared with measurements. */
    return alike *
           (other->noise > 0
                ? WORTHWHILE
                : WORTHWHILE + UNCERTAIN * (1 - other->forecast->certain));
}

bool planner_is_legal_plan(const clv_plan *plan)
{
    planner_excess over = planner_limits_excess(plan);
    return !over.bytes && over.share <= SAME_SHARE;
}

double planner_energy_weight(const clv_plan *plan)
{
    return clv_context_objective(plan->ctx).energy;
}

/* Alone, or among others in flight. */
static double run_ns(const clv_plan *plan)
{
    const double ratio = plan->run_ratio > 0 ? plan->run_ratio : 1;
    return plan->flight.ns > 0 ? plan->flight.ns / plan->flight.n * ratio
                               : core_plan_expected_ns(plan);
}

double planner_effort(const clv_plan *plan, double weight)
{
    const double ns = run_ns(plan) + planner_prepare_share(plan);
    return weight > 0
               ? pow(ns, 1 - weight) * pow(plan->forecast->energy_nj, weight)
               : ns;
}

static bool is_better(const clv_plan *plan, const clv_plan *than, double by)
{
    if (!than || !than->forecast)
        return !than || plan->forecast;
    if (!plan->forecast)
        return false;
    planner_excess over = planner_limits_excess(plan);
    planner_excess than_over = planner_limits_excess(than);
    if (over.bytes != than_over.bytes)
        return over.bytes < than_over.bytes;
    if (fabs(over.share - than_over.share) > SAME_SHARE)
        return over.share < than_over.share;
    const bool metered =
        plan->forecast->energy_nj > 0 && than->forecast->energy_nj > 0;
    const double weight = metered ? planner_energy_weight(plan) : 0;
    return planner_effort(plan, weight) * margin(than, plan) * by <
           planner_effort(than, weight) * margin(plan, than);
}

bool planner_is_better_plan(const clv_plan *plan, const clv_plan *than)
{
    return is_better(plan, than, 1);
}

bool planner_is_more_popular_plan(const clv_plan *plan, const clv_plan *than)
{
    return plan && is_better(plan, than, POPULAR);
}

bool planner_is_better_near_plan(const clv_plan *plan, const clv_plan *than)
{
    return plan && is_better(plan, than, NEAR);
}
