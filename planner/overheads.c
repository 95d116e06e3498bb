#include "overheads.h"
#include "../core/base/error.h"
#include "../core/config/config.h"

#include <math.h>
#include <stdlib.h>

/* What is less off, by part or ns, stays as it is. */
#define WRONG 0.1
#define LITTLE_NS 50

/* So many are wanted of each where times are not exact. */
#define FEW 3

/* Copies that differ less in size do not tell latency and bandwidth apart, */
#define APART 2
/* nor do those that differ less in time. */
#define LARGE 4

/* What was seen of one overhead. */
typedef struct series {
    double *values;
    uint32_t n;
} series;

/* In the order of planner_overheads. */
enum { SUBMIT, SUBMIT_IDLE, DISPATCH, WAIT_POLL, WAIT_BLOCK, N_SERIES };

/* Of one device in a run. */
typedef struct observer {
    const clv_exec *exec;
    uint32_t device;
    bool is_virtual, exact;
    double scale; /* of times while devices record */
    series seen[N_SERIES];
    planner_overheads known, now;
    uint32_t changed; /* bits, as planner_overheads.learned */
} observer;

static void see(observer *o, uint32_t which, double ns)
{
    series *s = &o->seen[which];
    if (ns >= 0)
        s->values[s->n++] = ns * o->scale;
}

/* ------------------------------------------------------------------------ */
/* Seeing                                                                   */

static const core_exec_moments *step_of(const clv_exec *exec, uint32_t device,
                                        uint64_t signal)
{
    const clv_plan *plan = exec->plan;
    for (uint32_t s = 0; s < plan->n_steps; s++)
        if (plan->steps[s].device == device && plan->steps[s].signal == signal)
            return &exec->latest.steps[s];
    return NULL;
}

/* When the device has done all that the step comes behind; 0: not known. */
static double ready_at(const observer *o, uint32_t step, double before)
{
    const clv_plan *plan = o->exec->plan;
    const core_step *s = &plan->steps[step];
    for (uint32_t i = 0; i < s->n_waits; i++) {
        const core_wait *wait = &plan->waits[s->first_wait + i];
        const core_exec_moments *on =
            step_of(o->exec, wait->device, wait->value);
        if (!(on->end > 0))
            return 0;
        before = fmax(before, on->end);
    }
    return before;
}

/* A device that works in real time begins some time after a submit to an idle
 * queue; that counts as the submit's. Only a step that had to wait for longer
 * tells of its dispatch. */
static void see_step(observer *o, uint32_t step, double before)
{
    const core_exec_moments *m = &o->exec->latest.steps[step];
    const double ready = ready_at(o, step, before);
    const bool idle = !(before > m->submit);
    const double call = m->submitted - m->submit;
    const double shown =
        o->is_virtual ? m->submitted : m->submitted + o->known.submit_idle;
    if (!idle)
        see(o, SUBMIT, call);
    else if (o->is_virtual)
        see(o, SUBMIT_IDLE, call);
    else if (ready <= m->submit)
        see(o, SUBMIT_IDLE,
            fmax(call, m->node - m->submit - o->known.dispatch));
    if (!o->exec->steps[step].n_before && (o->is_virtual || ready > shown))
        see(o, DISPATCH, m->node - fmax(ready, m->submitted));
}

static void see_steps(observer *o)
{
    const clv_plan *plan = o->exec->plan;
    double before = 0; /* the end of the device's last step */
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const core_exec_moments *m = &o->exec->latest.steps[s];
        if (plan->steps[s].device != o->device || !(m->end > 0))
            continue;
        if (m->node > 0)
            see_step(o, s, before);
        before = m->end;
    }
}

/* Only waits that were not over when they began. */
static void see_wait(observer *o, uint32_t which, uint32_t point,
                     uint64_t value)
{
    const core_exec_moments *on = step_of(o->exec, o->device, value);
    const core_span *span = &o->exec->latest.waits[point];
    if (on && on->end > span->begin_ns && span->begin_ns > 0)
        see(o, which, span->end_ns - on->end);
}

static void see_waits(observer *o)
{
    const clv_plan *plan = o->exec->plan;
    const bool polls =
        core_config_choice(plan->ctx->config, "core.sync") == CORE_SYNC_FAST &&
        (o->is_virtual || core_plan_spare_core(plan));
    const uint32_t which = polls ? WAIT_POLL : WAIT_BLOCK;
    for (uint32_t i = 0; i < plan->n_waits; i++)
        if (plan->waits[i].by_host && plan->waits[i].device == o->device)
            see_wait(o, which, i, plan->waits[i].value);
    see_wait(o, which, plan->n_waits + o->device,
             plan->devices[o->device].n_steps);
}

/* ------------------------------------------------------------------------ */
/* Concluding                                                               */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Whether the values say something else, beyond what they differ by among
 * themselves; then their median in *ns. */
static bool differs(const observer *o, series *s, double *ns)
{
    if (!s->n || (s->n < FEW && !o->exact))
        return false;
    qsort(s->values, s->n, sizeof *s->values, compare);
    const double median = s->values[s->n / 2], off = fabs(median - *ns);
    const double spread = s->values[s->n - 1 - s->n / 4] - s->values[s->n / 4];
    if (!(off > LITTLE_NS && off > WRONG * *ns && off > spread))
        return false;
    *ns = median;
    return true;
}

/* What copies of one way take: into the device's own memory, or out of it. */
typedef struct way {
    double copy, byte;
} way;

/* Copies of one way in the latest run. */
typedef struct copies {
    planner_fit_sample *samples; /* bytes of those of a row, */
    uint32_t n;
    double least, most;            /* the fewest and the most, */
    series few;                    /* and what is left without them */
    series ratios;                 /* of all, to what was known */
    const core_exec_copied **rows; /* those of several rows, */
    double *took;                  /* and what they took */
    uint32_t n_rows;
    bool off; /* some are far from what was known */
} copies;

static void clear_copies(copies *s)
{
    s->n = s->few.n = s->ratios.n = s->n_rows = 0;
    s->off = false;
}

static double median_of(series *s)
{
    qsort(s->values, s->n, sizeof *s->values, compare);
    return s->values[s->n / 2];
}

/* Where the ways are not told apart, all copies go in. */
static bool goes_out(const observer *o, const core_exec_copied *c)
{
    return c->out && o->known.copy_byte_out > 0;
}

static void see_copies(const observer *o, bool out, way known, copies *s)
{
    const clv_plan *plan = o->exec->plan;
    const core_exec_run *run = &o->exec->latest;
    clear_copies(s);
    for (uint32_t i = 0; i < run->n_copies; i++) {
        const core_exec_copied *c = &run->copies[i];
        const double took = c->ns * o->scale, bytes = (double)c->bytes;
        const double ns = known.copy + known.byte * bytes +
                          o->known.copy_row * (double)(c->n_rows - 1);
        if (plan->devices[c->device].dev != plan->devices[o->device].dev ||
            goes_out(o, c) != out || !(took > 0) || !(ns > 0))
            continue;
        s->ratios.values[s->ratios.n++] = took / ns;
        s->off = s->off || fabs(took / ns - 1) > WRONG;
        if (c->n_rows > 1) {
            s->took[s->n_rows] = took;
            s->rows[s->n_rows++] = c;
            continue;
        }
        s->few.values[s->few.n++] = fmax(took - known.byte * bytes, 0);
        s->samples[s->n++] = (planner_fit_sample){.x = {bytes}, .ns = took};
    }
}

static int by_bytes(const void *a, const void *b)
{
    const planner_fit_sample *x = a, *y = b;
    return (x->x[0] > y->x[0]) - (x->x[0] < y->x[0]);
}

/* Copies of a row: a line, where times follow bytes. Of copies that are small,
 * by what they take or by what is known, it is what is left beside their bytes,
 * which larger ones have told; of large ones alike all in proportion. */
static clv_status fit_way(copies *s, way *w)
{
    if (!s->off || s->n < FEW)
        return CLV_OK;
    qsort(s->samples, s->n, sizeof *s->samples, by_bytes);
    const planner_fit_sample *least = s->samples, *most = least + s->n - 1;
    const bool apart = most->x[0] > APART * least->x[0];
    if (apart && most->ns > LARGE * least->ns) {
        planner_linear fit;
        CLV_TRY(planner_linear_fit(s->samples, s->n, 1, &fit));
        if (fit.r2 > 1 - WRONG)
            *w = (way){fit.alpha, fit.beta[0]};
    } else if (apart || w->byte * most->x[0] < LARGE * w->copy) {
        w->copy = median_of(&s->few);
    } else {
        const double ratio = median_of(&s->ratios);
        *w = (way){w->copy * ratio, w->byte * ratio};
    }
    return CLV_OK;
}

/* What is left of copies of several rows for each more than one. */
static void add_rows(const copies *s, way w, series *left)
{
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const core_exec_copied *c = s->rows[i];
        left->values[left->n++] =
            fmax(s->took[i] - w.copy - w.byte * (double)c->bytes, 0) /
            (double)(c->n_rows - 1);
    }
}

static double in_proportion(double value, double before, double after)
{
    return before > 0 ? value * after / before : value;
}

/* A way of which little is seen is taken to be off as the other one is: the
 * first copy of a submit is not in the records, which most that go in are. */
static clv_status fit_ways(observer *o, copies *s, series *left)
{
    const planner_overheads *known = &o->known;
    const way before[] = {{known->copy, known->copy_byte},
                          {known->copy_out, known->copy_byte_out}};
    way now[] = {before[0], before[1]};
    bool told[2], off = false;
    for (int i = 0; i < 2; i++) {
        see_copies(o, i, before[i], s);
        CLV_TRY(fit_way(s, &now[i]));
        add_rows(s, now[i], left);
        told[i] = s->n >= FEW;
        off |= s->off;
    }
    for (int i = 0; i < 2; i++)
        if (!told[i])
            now[i] = (way){in_proportion(before[i].copy, before[1 - i].copy,
                                         now[1 - i].copy),
                           in_proportion(before[i].byte, before[1 - i].byte,
                                         now[1 - i].byte)};
    if (!off || !(told[0] || told[1] || left->n >= FEW))
        return CLV_OK;
    o->now.copy = now[0].copy;
    o->now.copy_byte = now[0].byte;
    o->now.copy_out = now[1].copy;
    o->now.copy_byte_out = now[1].byte;
    if (left->n >= FEW)
        o->now.copy_row = median_of(left);
    o->changed |= PLANNER_LEARNED_COPY;
    return CLV_OK;
}

static clv_status learn_copies(observer *o)
{
    const size_t n = o->exec->latest.n_copies + 1u;
    double *values = calloc(4 * n, sizeof *values);
    copies s = {.samples = calloc(n, sizeof *s.samples),
                .rows = calloc(n, sizeof(void *))};
    clv_status status = CLV_OK;
    if (s.samples && values && s.rows) {
        series left = {values, 0};
        s.few.values = values + n;
        s.ratios.values = values + 2 * n;
        s.took = values + 3 * n;
        status = fit_ways(o, &s, &left);
    } else {
        status = core_no_memory("for a profile");
    }
    free(s.samples);
    free(s.rows);
    free(values);
    return status;
}

static clv_status learn_device(observer *o, planner_profile *profile)
{
    double *fields[N_SERIES] = {&o->now.submit, &o->now.submit_idle,
                                &o->now.dispatch, &o->now.wait_poll,
                                &o->now.wait_block};
    see_steps(o);
    see_waits(o);
    for (uint32_t i = 0; i < N_SERIES; i++)
        if (differs(o, &o->seen[i], fields[i]))
            o->changed |= 1u << i;
    CLV_TRY(learn_copies(o));
    if (!o->changed)
        return CLV_OK;
    o->now.learned |= o->changed;
    return planner_profile_learn_overheads(
        profile, o->exec->plan->devices[o->device].dev, &o->now);
}

clv_status planner_overheads_learn(const clv_exec *exec,
                                   planner_profile *profile, double scale,
                                   bool *any)
{
    const clv_plan *plan = exec->plan;
    const size_t room = (size_t)plan->n_steps + plan->n_waits + 1;
    double *values = calloc(N_SERIES * room, sizeof *values);
    clv_status status = values ? CLV_OK : core_no_memory("for a profile");
    *any = false;
    for (uint32_t d = 0; d < plan->n_devices && !status; d++) {
        clv_device *dev = plan->devices[d].dev;
        const planner_overheads *known =
            planner_profile_overheads(profile, dev);
        if (!plan->devices[d].n_steps || !known)
            continue;
        observer o = {.exec = exec, .device = d, .known = *known};
        o.now = *known;
        o.is_virtual = dev->info.clock == CLV_CLOCK_VIRTUAL;
        o.scale = o.is_virtual ? 1 : scale;
        o.exact = o.is_virtual && !(plan->noise > 0);
        for (uint32_t i = 0; i < N_SERIES; i++)
            o.seen[i].values = values + i * room;
        status = learn_device(&o, profile);
        *any = *any || o.changed;
    }
    free(values);
    return status;
}
