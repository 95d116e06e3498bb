#include "choice.h"

bool core_candidate_before(const core_candidate *a, const core_candidate *b)
{
    if (a->waits != b->waits)
        return b->waits;
    if (a->priority != b->priority)
        return a->priority > b->priority;
    if (a->served_ns != b->served_ns)
        return a->served_ns < b->served_ns;
    if (a->gain_ns != b->gain_ns)
        return a->gain_ns > b->gain_ns;
    return a->age < b->age;
}

uint64_t core_queue_room_at(uint64_t done, uint64_t submitted)
{
    return done + (submitted - done + 3) / 4;
}

double core_candidate_gain(bool critical, double unlocked_critical_ns,
                           double unlocked_other_ns)
{
    return critical ? -unlocked_other_ns : unlocked_critical_ns;
}
