/* What other processes do to the machine while devices are measured. */
#include "store.h"

#include <math.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static double ns_of(struct timeval t)
{
    return (double)t.tv_sec * 1e9 + (double)t.tv_usec * 1e3;
}

/* In /proc/stat: user, nice, system, then idle and waiting, which is no work;
 * irq, softirq, and what other virtual machines took. */
double planner_others_ns(void)
{
    unsigned long long t[8] = {0};
    struct rusage own;
    FILE *file = fopen("/proc/stat", "re");
    const int n =
        file ? fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu",
                      &t[0], &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7])
             : 0;
    if (file)
        fclose(file);
    const long hertz = sysconf(_SC_CLK_TCK);
    if (n != 8 || hertz <= 0 || getrusage(RUSAGE_SELF, &own))
        return 0;
    const double all =
        (double)(t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) * 1e9 / (double)hertz;
    return fmax(all - ns_of(own.ru_utime) - ns_of(own.ru_stime), 0);
}

/* Of the time, on all processors together; and for how long measuring has to
 * take to tell. */
#define DISTURBING 0.25
#define TELLING_NS 5e7

double planner_others_of(const planner_profile *profile, const clv_device *dev)
{
    return profile->source->others && dev->info.clock == CLV_CLOCK_REAL
               ? profile->source->others()
               : 0;
}

void planner_mark_disturbed(const planner_profile *profile,
                            const clv_device *dev, planner_sample *samples,
                            uint32_t n, double others, uint64_t start)
{
    const double wall = (double)(clv_now_ns() - start);
    const double busy = planner_others_of(profile, dev) - others;
    if (wall < TELLING_NS || busy < DISTURBING * wall)
        return;
    for (uint32_t i = 0; i < n; i++)
        if (samples[i].ns > 0)
            planner_profile_mark_noisy(&samples[i]);
    clv_log(profile->ctx, CLV_LOG_INFO,
            "'%s' was measured while other processes kept %.1f processors "
            "busy; the next process does that again",
            dev->id, busy / wall);
}
