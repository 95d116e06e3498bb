/* How fast devices go that work at the same time. */
#include "player.h"

#include <math.h>

static const planner_part_load *load_of(const planner_play *play,
                                        const planner_lane *lane)
{
    return lane->running && lane->part != CORE_NO_PART
               ? &play->loads[lane->part]
               : NULL;
}

/* What each of those gets that want more than a fair share: the others' wishes
 * are granted first, smallest first. INFINITY: all wishes are granted. */
static double fair_share(const double *rates, uint32_t n, double bandwidth)
{
    double left = bandwidth, level = 0;
    for (uint32_t wanting = n; wanting;) {
        double share = left / wanting, next = INFINITY;
        for (uint32_t i = 0; i < n; i++)
            if (rates[i] > level && rates[i] < next)
                next = rates[i];
        if (next > share)
            return share;
        for (uint32_t i = 0; i < n; i++)
            if (rates[i] == next) {
                left -= next;
                wanting--;
            }
        level = next;
    }
    return INFINITY;
}

/* Collects the devices at work, or those of them that move bytes. */
static uint32_t collect(planner_play *play, bool moving)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < play->plan->n_devices; d++) {
        const planner_part_load *load = load_of(play, &play->lanes[d]);
        if (!load || (moving && !(load->bytes_ns > 0)))
            continue;
        play->rates[n] = load->bytes_ns;
        play->active[n++] = play->lanes[d].dev;
    }
    return n;
}

static void share_memory(planner_play *play)
{
    const planner_costs *costs = play->costs;
    uint32_t n = collect(play, true);
    if (n < 2)
        return;
    double bandwidth = costs->bandwidth(costs->ctx, play->active, n);
    if (!(bandwidth > 0))
        return;
    double share = fair_share(play->rates, n, bandwidth);
    for (uint32_t d = 0; d < play->plan->n_devices; d++) {
        const planner_part_load *load = load_of(play, &play->lanes[d]);
        if (load && load->bytes_ns > share)
            play->lanes[d].speed = share / load->bytes_ns;
    }
}

/* Cores that share units, power: whatever they do. */
static void share_the_rest(planner_play *play)
{
    const planner_costs *costs = play->costs;
    uint32_t n = collect(play, false), index = 0;
    if (n < 2)
        return;
    for (uint32_t d = 0; d < play->plan->n_devices; d++) {
        const planner_part_load *load = load_of(play, &play->lanes[d]);
        if (!load)
            continue;
        double factor = costs->slowdown(costs->ctx, play->active, n, index++);
        if (factor > 1)
            play->lanes[d].speed = fmin(play->lanes[d].speed, 1 / factor);
    }
}

void planner_play_speeds(planner_play *play)
{
    for (uint32_t d = 0; d < play->plan->n_devices; d++)
        play->lanes[d].speed = 1;
    share_memory(play);
    share_the_rest(play);
}
