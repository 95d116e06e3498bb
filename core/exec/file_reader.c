#include "file_reader.h"
#include "../base/error.h"
#include "../base/file_pages.h"
#include "../base/grow.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

/* How often it looks how far the devices are. */
#define LOOK_NS 300000

/* A piece of a weight, used in a step. */
typedef struct entry {
    const char *data;
    uint64_t size;
    uint32_t step;
} entry;

/*
 * Entries are counted on from run to run: the n-th is entries[n % n_entries].
 * Those before given_up are done with, those before asked are asked for.
 * Entries, plan and ahead do not change.
 */
struct core_file_reader {
    const clv_plan *plan;
    entry *entries;
    uint32_t n_entries, capacity;
    uint64_t ahead; /* bytes asked for and not given up, at most */

    pthread_t thread;
    pthread_mutex_t mutex; /* protects the rest */
    pthread_cond_t changed;
    bool stop;
    const clv_run *run; /* under way; NULL: none, or several have been */
    uint32_t n_runs;    /* under way */
    uint64_t n_ended;   /* times that none was under way any more */
    uint64_t asked, given_up;
    uint64_t pending; /* bytes asked for and not given up */
};

static const entry *entry_at(const core_file_reader *r, uint64_t n)
{
    return &r->entries[n % r->n_entries];
}

/* ------------------------------------------------------------------------ */
/* The thread                                                                */

/* Whether the step that uses it has ended. */
static bool is_done(const core_file_reader *r, uint64_t n)
{
    const core_step *step = &r->plan->steps[entry_at(r, n)->step];
    const uint64_t round = n / r->n_entries;
    if (round != r->n_ended || !r->run)
        return round < r->n_ended;
    const core_run_queue *queue = &r->run->queues[step->device];
    return core_timeline_reached(queue->timeline) >= queue->base + step->signal;
}

/* A piece that is larger than all that may be asked for is asked for alone. */
static bool may_ask(const core_file_reader *r)
{
    const uint64_t size = entry_at(r, r->asked)->size;
    return r->asked < r->given_up + r->n_entries &&
           (!r->pending || r->pending + size <= r->ahead);
}

/* The next entry is done with, whether it was asked for or not. */
static const entry *pass(core_file_reader *r)
{
    const entry *e = entry_at(r, r->given_up);
    if (r->given_up++ < r->asked)
        r->pending -= e->size;
    else
        r->asked = r->given_up;
    return e;
}

/* Without the lock while the system works; false: there is nothing to do. */
static bool do_next(core_file_reader *r)
{
    const bool gives_up = is_done(r, r->given_up);
    const entry *e = gives_up ? pass(r) : entry_at(r, r->asked);
    if (!gives_up && !may_ask(r))
        return false;
    if (!gives_up) {
        r->asked++;
        r->pending += e->size;
    }
    pthread_mutex_unlock(&r->mutex);
    if (gives_up)
        core_file_give_up(e->data, e->size);
    else
        core_file_ask(e->data, e->size);
    pthread_mutex_lock(&r->mutex);
    return true;
}

static void rest(core_file_reader *r)
{
    struct timespec until;
    if (!r->run) {
        pthread_cond_wait(&r->changed, &r->mutex);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&r->changed, &r->mutex, &until);
}

static void *read_ahead(void *arg)
{
    core_file_reader *r = arg;
    pthread_mutex_lock(&r->mutex);
    while (!r->stop)
        if (!do_next(r))
            rest(r);
    pthread_mutex_unlock(&r->mutex);
    return NULL;
}

/* ------------------------------------------------------------------------ */
/* Creation                                                                  */

/* Scales are small, and lie in memory. Experts are chosen by the run. */
static clv_status add_entries(core_file_reader *r, uint32_t part)
{
    const clv_graph *graph = r->plan->graph;
    const clv_node *node = &graph->nodes[r->plan->parts[part].node];
    if (core_plan_reads_experts(r->plan, part))
        return CLV_OK;
    for (uint32_t i = 0; i < node->n_inputs; i++) {
        const clv_value value = node->inputs[i];
        entry e = {.step = r->plan->parts[part].step};
        e.size = core_plan_file_operand(r->plan, part, value, &e.data);
        if (!e.size || !r->plan->file.read[graph->values[value].base])
            continue;
        if (!core_grow(&r->entries, &r->capacity, r->n_entries + 1ull,
                       sizeof *r->entries))
            return core_no_memory("for an exec");
        r->entries[r->n_entries++] = e;
    }
    return CLV_OK;
}

/* Signals are for the threads of the application. */
static clv_status start(core_file_reader *r)
{
    sigset_t all, before;
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&r->mutex, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&r->thread, NULL, read_ahead, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!failed)
        return CLV_OK;
    pthread_mutex_destroy(&r->mutex);
    pthread_cond_destroy(&r->changed);
    return core_no_memory("for a thread that reads weights");
}

clv_status core_file_reader_create(const clv_exec *exec, core_file_reader **out)
{
    const clv_plan *plan = exec->plan;
    clv_status status = CLV_OK;
    *out = NULL;
    if (!plan->file.read)
        return CLV_OK;
    core_file_reader *r = calloc(1, sizeof *r);
    if (!r)
        return core_no_memory("for an exec");
    r->plan = plan;
    r->ahead = plan->file.ahead;
    for (uint32_t p = 0; p < plan->n_parts && !status; p++)
        status = add_entries(r, p);
    if (!status && r->n_entries)
        status = start(r);
    if (status || !r->n_entries) {
        free(r->entries);
        free(r);
        return status;
    }
    *out = r;
    return CLV_OK;
}

void core_file_reader_destroy(core_file_reader *reader)
{
    if (!reader)
        return;
    pthread_mutex_lock(&reader->mutex);
    reader->stop = true;
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->mutex);
    pthread_join(reader->thread, NULL);
    while (is_done(reader, reader->given_up) ||
           reader->given_up < reader->asked) {
        const entry *e = pass(reader);
        core_file_give_up(e->data, e->size);
    }
    pthread_mutex_destroy(&reader->mutex);
    pthread_cond_destroy(&reader->changed);
    free(reader->entries);
    free(reader);
}

/* ------------------------------------------------------------------------ */
/* Runs                                                                      */

void core_file_reader_begin(core_file_reader *reader, const clv_run *run)
{
    if (!reader)
        return;
    pthread_mutex_lock(&reader->mutex);
    reader->run = reader->n_runs++ ? NULL : run;
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->mutex);
}

void core_file_reader_end(core_file_reader *reader)
{
    if (!reader)
        return;
    pthread_mutex_lock(&reader->mutex);
    reader->run = NULL;
    if (!--reader->n_runs)
        reader->n_ended++;
    const uint64_t all = reader->n_ended * reader->n_entries;
    if (reader->given_up + reader->n_entries < all) {
        /* More than a run behind: what it would give up is in use again. */
        reader->given_up = reader->asked = all - reader->n_entries;
        reader->pending = 0;
    }
    pthread_cond_signal(&reader->changed);
    pthread_mutex_unlock(&reader->mutex);
}
