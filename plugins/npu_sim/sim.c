#include "sim.h"

#include <stddef.h>

#define FULL_SPEED ((uint64_t)1 << 20)

void npu_sim_add(npu_sim *sim, npu_sim_device *device)
{
    npu_sim_device **link = &sim->devices;
    while (*link)
        link = &(*link)->next;
    *link = device;
    device->next = NULL;
}

void npu_sim_remove(npu_sim *sim, npu_sim_device *device)
{
    npu_sim_device **link = &sim->devices;
    while (*link && *link != device)
        link = &(*link)->next;
    if (*link)
        *link = device->next;
}

/* ------------------------------------------------------------------------ */
/* Rates                                                                    */

static const npu_phase *phase_of(const npu_sim_device *d)
{
    return &d->first->phases[d->first->phase];
}

static bool moves(const npu_sim_device *d)
{
    return d->running && d->moving && phase_of(d)->bytes;
}

static npu_sim_device *whole(npu_sim_device *d)
{
    return d->whole ? d->whole : d;
}

/* Bytes a second at full speed. */
static uint64_t full_rate(const npu_sim_device *d)
{
    const npu_phase *p = phase_of(d);
    uint64_t ns = p->work_ns ? p->work_ns : 1;
    uint64_t rate = (uint64_t)((unsigned __int128)p->bytes * 1000000000u / ns);
    return rate ? rate : 1;
}

/* Phases that move bytes over the same link in the same direction. */
static uint32_t count_sharing(const npu_sim *sim, npu_sim_device *d)
{
    uint32_t n = 0;
    for (npu_sim_device *e = sim->devices; e; e = e->next)
        n += moves(e) && whole(e) == whole(d) &&
             phase_of(e)->link == phase_of(d)->link;
    return n;
}

static void set_demands(npu_sim *sim)
{
    for (npu_sim_device *d = sim->devices; d; d = d->next) {
        if (!moves(d))
            continue;
        d->demand = full_rate(d);
        if (phase_of(d)->link)
            d->demand /= count_sharing(sim, d);
        d->demand += !d->demand;
    }
}

/* The most that a phase gets of the bandwidth. Phases that demand less than an
 * equal share get all they demand, the smallest first; the others divide the
 * rest equally. UINT64_MAX: every demand is met. */
static uint64_t fair_share(const npu_sim *sim)
{
    uint64_t left = sim->bandwidth, level = 0;
    uint32_t n = 0;
    for (const npu_sim_device *d = sim->devices; d; d = d->next)
        n += moves(d);
    while (n) {
        uint64_t share = left / n, next = UINT64_MAX;
        for (const npu_sim_device *d = sim->devices; d; d = d->next)
            if (moves(d) && d->demand > level && d->demand < next)
                next = d->demand;
        if (next > share)
            return share ? share : 1;
        for (const npu_sim_device *d = sim->devices; d; d = d->next)
            if (moves(d) && d->demand == next) {
                left -= next;
                n--;
            }
        level = next;
    }
    return UINT64_MAX;
}

/* Subtracts the work done since rates last changed. */
static void settle(npu_sim *sim)
{
    for (npu_sim_device *d = sim->devices; d; d = d->next) {
        if (!d->running)
            continue;
        unsigned __int128 done =
            (unsigned __int128)(sim->now - d->since) * d->speed;
        d->left = done < d->left ? d->left - (uint64_t)done : 0;
        d->since = sim->now;
    }
}

static void set_speeds(npu_sim *sim)
{
    set_demands(sim);
    uint64_t share = sim->bandwidth ? fair_share(sim) : UINT64_MAX;
    for (npu_sim_device *d = sim->devices; d; d = d->next) {
        d->speed = FULL_SPEED;
        if (!moves(d))
            continue;
        const uint64_t full = full_rate(d);
        const uint64_t rate = d->demand < share ? d->demand : share;
        if (rate >= full)
            continue;
        d->speed = (uint64_t)((unsigned __int128)rate * FULL_SPEED / full);
        if (!d->speed)
            d->speed = 1;
    }
}

/* ------------------------------------------------------------------------ */
/* Events                                                                   */

/* When the job's waits are over; NPU_NEVER: not by the events so far. */
static uint64_t waits_over(const npu_sim_job *job)
{
    uint64_t at = job->release;
    for (uint32_t i = 0; i < job->n_waits; i++) {
        const npu_counter *c = job->waits[i].counter;
        if (c->failed)
            continue;
        if (c->value < job->waits[i].value)
            return NPU_NEVER;
    }
    return at;
}

static uint64_t phase_end(const npu_sim_device *d)
{
    uint64_t ns = d->left / d->speed + (d->left % d->speed != 0);
    return d->since + ns;
}

static uint64_t device_next(const npu_sim *sim, const npu_sim_device *d)
{
    if (d->running)
        return phase_end(d);
    if (!d->first)
        return NPU_NEVER;
    uint64_t at = waits_over(d->first);
    return at == NPU_NEVER || at > sim->now ? at : sim->now;
}

static void start_phase(npu_sim *sim, npu_sim_device *d)
{
    npu_phase *p = &d->first->phases[d->first->phase];
    p->begin = sim->now;
    d->moving = !p->fixed_ns;
    d->left = (p->fixed_ns ? p->fixed_ns : p->work_ns) * FULL_SPEED;
    d->since = sim->now;
    d->speed = FULL_SPEED;
}

static void begin_running(const npu_sim *sim, npu_sim_device *d)
{
    npu_sim_device *w = whole(d);
    d->running = true;
    if (!w->n_active++)
        w->busy_since = sim->now;
}

static void end_running(const npu_sim *sim, npu_sim_device *d)
{
    npu_sim_device *w = whole(d);
    d->running = false;
    if (!--w->n_active)
        w->busy_ns += sim->now - w->busy_since;
}

static void start_job(npu_sim *sim, npu_sim_device *d)
{
    begin_running(sim, d);
    d->first->begin = sim->now;
    d->first->phase = 0;
    d->left = 0;
    d->moving = false;
    d->since = sim->now;
    d->speed = FULL_SPEED;
    if (d->first->n_phases)
        start_phase(sim, d);
}

static void raise_counter(npu_counter *counter, uint64_t value, uint64_t at)
{
    if (counter->value >= value)
        return;
    counter->value = value;
    counter->reached_at = at;
}

static void end_job(npu_sim *sim, npu_sim_device *d)
{
    npu_sim_job *job = d->first;
    job->end = sim->now;
    job->ended = true;
    end_running(sim, d);
    d->first = job->next;
    if (!d->first)
        d->last = NULL;
    for (uint32_t i = 0; i < job->n_signals; i++)
        raise_counter(job->signals[i].counter, job->signals[i].value, sim->now);
    if (d->done)
        d->done(d->ctx, job);
}

/* The fixed or the moving part of the running phase has ended. */
static void end_part(npu_sim *sim, npu_sim_device *d)
{
    npu_sim_job *job = d->first;
    if (job->phase < job->n_phases) {
        npu_phase *p = &job->phases[job->phase];
        if (!d->moving && p->work_ns) {
            d->moving = true;
            d->left = p->work_ns * FULL_SPEED;
            return;
        }
        p->end = sim->now;
        if (++job->phase < job->n_phases) {
            start_phase(sim, d);
            return;
        }
    }
    end_job(sim, d);
}

uint64_t npu_sim_next(const npu_sim *sim)
{
    uint64_t next = NPU_NEVER;
    for (const npu_sim_device *d = sim->devices; d; d = d->next) {
        uint64_t at = device_next(sim, d);
        next = at < next ? at : next;
    }
    return next;
}

/* One device's event at this time. */
static void step(npu_sim *sim, uint64_t at)
{
    npu_sim_device *d = sim->devices;
    while (device_next(sim, d) != at)
        d = d->next;
    sim->now = at;
    settle(sim);
    if (d->running)
        end_part(sim, d);
    else
        start_job(sim, d);
    set_speeds(sim);
}

static void run_until(npu_sim *sim, uint64_t limit)
{
    for (uint64_t at; (at = npu_sim_next(sim)) <= limit && at != NPU_NEVER;)
        step(sim, at);
    if (sim->now < limit && limit <= sim->host)
        sim->now = limit;
}

void npu_sim_catch_up(npu_sim *sim)
{
    run_until(sim, sim->host);
}

void npu_sim_spend(npu_sim *sim, uint64_t ns)
{
    sim->host =
        sim->host > UINT64_MAX / 2 - ns ? UINT64_MAX / 2 : sim->host + ns;
}

bool npu_sim_busy(const npu_sim_device *device)
{
    return device->first != NULL;
}

void npu_sim_push(npu_sim_device *d, npu_sim_job *job)
{
    job->next = NULL;
    if (d->last)
        d->last->next = job;
    else
        d->first = job;
    d->last = job;
}

void npu_sim_raise(npu_sim *sim, npu_counter *counter, uint64_t value)
{
    npu_sim_catch_up(sim);
    raise_counter(counter, value, sim->host);
}

void npu_sim_fail(npu_sim *sim, npu_counter *counter)
{
    npu_sim_catch_up(sim);
    counter->failed = true;
}

uint64_t npu_sim_when(npu_sim *sim, const npu_counter *counter, uint64_t value,
                      uint64_t limit)
{
    npu_sim_catch_up(sim);
    while (counter->value < value && !counter->failed) {
        uint64_t at = npu_sim_next(sim);
        if (at == NPU_NEVER || at > limit)
            return NPU_NEVER;
        step(sim, at);
    }
    return counter->value >= value ? counter->reached_at : sim->now;
}

void npu_sim_drop(npu_sim *sim, npu_sim_device *d)
{
    settle(sim);
    if (d->running)
        end_running(sim, d);
    while (d->first) {
        npu_sim_job *job = d->first;
        d->first = job->next;
        if (d->done)
            d->done(d->ctx, job);
    }
    d->last = NULL;
    set_speeds(sim);
}

uint64_t npu_sim_busy_ns(const npu_sim *sim, const npu_sim_device *d)
{
    uint64_t running = d->n_active && sim->host > d->busy_since
                           ? sim->host - d->busy_since
                           : 0;
    return d->busy_ns + running;
}
