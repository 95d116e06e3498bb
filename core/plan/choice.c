#include "choice.h"

#include <stddef.h>

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

static void unlock(core_turn *by, const void *queue, double ns,
                   const void *critical)
{
    if (queue == critical)
        by->unlocked_critical_ns += ns;
    else
        by->unlocked_other_ns += ns;
}

/* What can begin once a step is done: its run's step after that, if it is
 * another queue's, and those of runs that wait for it. */
static void note_unlocked(core_turn *first, const void *critical)
{
    for (core_turn *t = first; t; t = t->next) {
        if (t->then_queue && t->then_queue != t->queue)
            unlock(t, t->then_queue, t->then_ns, critical);
        if (t->on)
            unlock(t->on, t->queue, t->ns, critical);
    }
}

core_turn *core_turn_choose(core_turn *first, const void *critical, bool by_age)
{
    core_turn *best = NULL;
    for (core_turn *t = first; t; t = t->next)
        t->unlocked_critical_ns = t->unlocked_other_ns = 0;
    if (!by_age)
        note_unlocked(first, critical);
    for (core_turn *t = first; t; t = t->next) {
        if (!t->ready)
            continue;
        t->candidate.gain_ns =
            core_candidate_gain(t->queue == critical, t->unlocked_critical_ns,
                                t->unlocked_other_ns);
        if (!best || core_candidate_before(&t->candidate, &best->candidate))
            best = t;
    }
    return best;
}
