#include "balance.h"

#include <math.h>

/* Shares of the bandwidth while some run: smallest demands first. */
static void share_bandwidth(const double *rates, const double *left, uint32_t n,
                            double bandwidth, double *shares)
{
    bool given[PLANNER_SHARE_DEVICES] = {0};
    uint32_t wanting = 0;
    for (uint32_t i = 0; i < n; i++) {
        shares[i] = 0;
        given[i] = left[i] <= 0;
        wanting += !given[i];
    }
    while (wanting) {
        double fair = bandwidth / wanting;
        uint32_t least = n;
        for (uint32_t i = 0; i < n; i++)
            if (!given[i] && (least == n || rates[i] < rates[least]))
                least = i;
        shares[least] = rates[least] < fair ? rates[least] : fair;
        bandwidth -= shares[least];
        given[least] = true;
        wanting--;
    }
}

void planner_contend(const planner_demand *demands, uint32_t n,
                     double bandwidth, double *ns)
{
    double rates[PLANNER_SHARE_DEVICES], left[PLANNER_SHARE_DEVICES];
    double shares[PLANNER_SHARE_DEVICES], now = 0, sum = 0;
    uint32_t running = 0;
    for (uint32_t i = 0; i < n; i++) {
        ns[i] = left[i] = demands[i].ns;
        rates[i] = demands[i].ns > 0 ? demands[i].bytes / demands[i].ns : 0;
        sum += rates[i];
        running += left[i] > 0;
    }
    if (!(bandwidth > 0) || sum <= bandwidth || !isfinite(sum))
        return;
    while (running) {
        double step = INFINITY;
        share_bandwidth(rates, left, n, bandwidth, shares);
        for (uint32_t i = 0; i < n; i++) {
            shares[i] = rates[i] > 0 ? shares[i] / rates[i] : 1;
            if (left[i] > 0 && left[i] / shares[i] < step)
                step = left[i] / shares[i];
        }
        now += step;
        for (uint32_t i = 0; i < n; i++) {
            if (left[i] <= 0)
                continue;
            left[i] -= step * shares[i];
            if (left[i] <= 1e-9 * demands[i].ns) {
                left[i] = 0;
                ns[i] = now;
                running--;
            }
        }
    }
}

double planner_shares_time(const planner_shares *s, const uint32_t *parts)
{
    planner_demand demands[PLANNER_SHARE_DEVICES] = {0};
    double ns[PLANNER_SHARE_DEVICES], last = 0;
    for (uint32_t d = 0; d < s->n; d++) {
        demands[d] = s->tables[d][parts[d]];
        demands[d].ns += s->base[d].ns;
        demands[d].bytes += s->base[d].bytes;
        if (!isfinite(demands[d].ns))
            return INFINITY;
    }
    planner_contend(demands, s->n, s->bandwidth, ns);
    for (uint32_t d = 0; d < s->n; d++) {
        double slow = demands[d].ns * s->slowdown[d];
        double end = s->late[d] + s->scale[d] * (ns[d] > slow ? ns[d] : slow);
        last = end > last ? end : last;
    }
    return last;
}

/* Moves steps from one device to another while that helps. */
static double climb(const planner_shares *s, uint32_t *parts, double best)
{
    bool better = true;
    while (better) {
        better = false;
        for (uint32_t size = s->steps / 4; size; size /= 2)
            for (uint32_t from = 0; from < s->n; from++)
                for (uint32_t to = 0; to < s->n; to++) {
                    if (from == to || parts[from] <= size)
                        continue;
                    parts[from] -= size;
                    parts[to] += size;
                    double ns = planner_shares_time(s, parts);
                    if (ns < best) {
                        best = ns;
                        better = true;
                        continue;
                    }
                    parts[from] += size;
                    parts[to] -= size;
                }
    }
    return best;
}

bool planner_shares_balance(const planner_shares *s,
                            uint32_t parts[PLANNER_SHARE_DEVICES], double *ns)
{
    if (s->n < 2 || s->n > PLANNER_SHARE_DEVICES || s->steps < s->n)
        return false;
    if (s->n == 2) { /* times may be staircases: all are looked at */
        double best = INFINITY;
        for (uint32_t j = 1; j < s->steps; j++) {
            const uint32_t at[] = {j, s->steps - j};
            double time = planner_shares_time(s, at);
            if (time < best) {
                best = time;
                parts[0] = j;
                parts[1] = s->steps - j;
            }
        }
        *ns = best;
        return isfinite(best);
    }
    for (uint32_t d = 0; d < s->n; d++)
        parts[d] = s->steps / s->n + (d < s->steps % s->n);
    *ns = climb(s, parts, planner_shares_time(s, parts));
    return isfinite(*ns);
}
