/* Completion, and what a queue promises. */
#include "hostile.h"

#include <string.h>

static uint64_t zero_flag; /* stands for every timeline */

#define SPOIL_QUERY(name, ...)                                                 \
    static clv_status name(clv_plugin_timeline *tl, clv_timeline_info *out)    \
    {                                                                          \
        clv_status status = ref_timeline_query(tl, out);                       \
        if (!status) {                                                         \
            __VA_ARGS__;                                                       \
        }                                                                      \
        return status;                                                         \
    }

SPOIL_QUERY(flag_null, out->flag = NULL)
SPOIL_QUERY(flag_misaligned,
            out->flag = (const uint64_t *)((const char *)out->flag + 4))
SPOIL_QUERY(flag_disagrees, out->flag = &zero_flag)
SPOIL_QUERY(value_failed, out->value |= CLV_FLAG_FAILED)
SPOIL_QUERY(status_unknown, if (out->status) out->status = -99)
SPOIL_QUERY(message_endless, memset(out->message, 'm', sizeof out->message))

/* Higher once than later. */
static clv_status backwards(clv_plugin_timeline *tl, clv_timeline_info *out)
{
    static _Atomic uint32_t calls;
    clv_status status = ref_timeline_query(tl, out);
    if (!status && out->value && atomic_fetch_add(&calls, 1) % 2)
        out->value--;
    return status;
}

static clv_status wait_ends_at_once(clv_plugin_timeline *tl, uint64_t value,
                                    uint64_t spin_ns, uint64_t timeout_ns)
{
    (void)tl, (void)value, (void)spin_ns, (void)timeout_ns;
    return CLV_OK;
}

static clv_status times_out_at_once(clv_plugin_timeline *tl, uint64_t value,
                                    uint64_t spin_ns, uint64_t timeout_ns)
{
    (void)timeout_ns;
    return ref_timeline_wait(tl, value, spin_ns, 0);
}

/* Seconds later than asked for. */
static clv_status times_out_late(clv_plugin_timeline *tl, uint64_t value,
                                 uint64_t spin_ns, uint64_t timeout_ns)
{
    clv_status status = ref_timeline_wait(tl, value, spin_ns, timeout_ns);
    if (status == CLV_ERR_TIMEOUT)
        hostile_sleep(1500000000);
    return status;
}

static clv_status wait_other_status(clv_plugin_timeline *tl, uint64_t value,
                                    uint64_t spin_ns, uint64_t timeout_ns)
{
    clv_status status = ref_timeline_wait(tl, value, spin_ns, timeout_ns);
    return status && status != CLV_ERR_TIMEOUT ? CLV_ERR_IO : status;
}

static clv_status fail_ignored(clv_plugin_timeline *tl, clv_status status,
                               const char *message)
{
    (void)tl, (void)status, (void)message;
    return CLV_OK;
}

/* The latest failure is told, not the first. */
static struct {
    clv_plugin_timeline *timeline;
    clv_status status;
} latest;

static clv_status fail_latest(clv_plugin_timeline *tl, clv_status status,
                              const char *message)
{
    latest.timeline = tl;
    latest.status = status;
    return ref_timeline_fail(tl, status, message);
}

SPOIL_QUERY(tell_latest, if (out->status && latest.timeline == tl)
                             out->status = latest.status)

static clv_status signal_backwards(clv_plugin_timeline *tl, uint64_t value)
{
    clv_timeline_info info = {.header = {sizeof info, 0, NULL}};
    ref_timeline_query(tl, &info);
    return value <= info.value ? CLV_OK : ref_timeline_signal(tl, value);
}

static clv_status starts_at_zero(clv_plugin_device *dev, uint64_t value,
                                 clv_plugin_timeline **out)
{
    (void)value;
    return ref_timeline_create(dev, 0, out);
}

const hostile_mode hostile_timelines[] = {
    {"flag_null", "no flag word", {.timeline_query = flag_null}},
    {"flag_misaligned",
     "a misaligned one",
     {.timeline_query = flag_misaligned}},
    {"flag_disagrees",
     "one that never changes",
     {.timeline_query = flag_disagrees}},
    {"value_failed",
     "a value with the failure bit",
     {.timeline_query = value_failed}},
    {"status_unknown",
     "a failure nobody knows",
     {.timeline_query = status_unknown}},
    {"message_endless",
     "a message without its end",
     {.timeline_query = message_endless}},
    {"backwards", "values that fall", {.timeline_query = backwards}},
    {"wait_ends_at_once",
     "OK before the value",
     {.timeline_wait = wait_ends_at_once}},
    {"times_out_at_once", "too early", {.timeline_wait = times_out_at_once}},
    {"times_out_late", "too late", {.timeline_wait = times_out_late}},
    {"wait_other_status",
     "not the failure's",
     {.timeline_wait = wait_other_status}},
    {"fail_ignored", "fails nothing", {.timeline_fail = fail_ignored}},
    {"fail_latest",
     "the first failure is lost",
     {.timeline_fail = fail_latest, .timeline_query = tell_latest}},
    {"signal_backwards",
     "takes lower values",
     {.timeline_signal = signal_backwards}},
    {"starts_at_zero",
     "whatever was asked for",
     {.timeline_create = starts_at_zero}},
    {0},
};

/* ------------------------------------------------------------------------ */

static clv_status never_signals(clv_plugin_device *dev,
                                const clv_submit *submit)
{
    clv_submit s = *submit;
    s.n_signals = 0;
    return ref_submit(dev, &s);
}

/* Before the work is done. */
static clv_status signals_early(clv_plugin_device *dev,
                                const clv_submit *submit)
{
    clv_submit s = *submit;
    s.n_signals = 0;
    clv_status status = ref_submit(dev, &s);
    for (uint32_t i = 0; i < submit->n_signals && !status; i++)
        ref_timeline_reach(submit->signals[i].timeline,
                           submit->signals[i].value);
    return status;
}

static clv_status ignores_waits(clv_plugin_device *dev,
                                const clv_submit *submit)
{
    clv_submit s = *submit;
    s.n_waits = 0;
    return ref_submit(dev, &s);
}

/* Of a queue for copies; queue 0 is as it should be. */
static clv_status copies_at_once(clv_plugin_device *dev,
                                 const clv_submit *submit)
{
    clv_submit s = *submit;
    if (s.queue)
        s.n_waits = 0;
    return ref_submit(dev, &s);
}

static clv_status copies_refused(clv_plugin_device *dev,
                                 const clv_submit *submit)
{
    if (submit->queue)
        return clv_fail(dev->host, CLV_ERR_UNSUPPORTED,
                        "hostile: there is one queue");
    return ref_submit(dev, submit);
}

/* All in one line, whatever copy_queues says. */
static clv_status copies_in_line(clv_plugin_device *dev,
                                 const clv_submit *submit)
{
    clv_submit s = *submit;
    s.queue = 0;
    return ref_submit(dev, &s);
}

static uint32_t jobs_in(clv_plugin_device *dev)
{
    pthread_mutex_lock(&dev->mutex);
    uint32_t n = dev->queues[0].n_jobs;
    pthread_mutex_unlock(&dev->mutex);
    return n;
}

/* One submit at a time, whatever queue_depth says. */
static clv_status queue_short(clv_plugin_device *dev, const clv_submit *submit)
{
    if (jobs_in(dev))
        return clv_fail(dev->host, CLV_ERR_LIMIT,
                        "hostile: one submit is in flight");
    return ref_submit(dev, submit);
}

/* Waits for its own end, up to a second. */
static clv_status submit_blocks(clv_plugin_device *dev,
                                const clv_submit *submit)
{
    clv_status status = ref_submit(dev, submit);
    for (int i = 0; i < 1000 && !status && jobs_in(dev); i++)
        hostile_sleep(1000000);
    return status;
}

/* Where the queue is full it waits for room, up to a second. */
static clv_status queue_blocks(clv_plugin_device *dev, const clv_submit *submit)
{
    clv_status status = ref_submit(dev, submit);
    for (int i = 0; i < 1000 && status == CLV_ERR_LIMIT; i++) {
        hostile_sleep(1000000);
        status = ref_submit(dev, submit);
    }
    return status;
}

static clv_status lost_in_run(clv_plugin_device *dev, const clv_submit *submit)
{
    clv_status status = ref_submit(dev, submit);
    if (!status && dev->n_submits == 2)
        ref_fault_inject(dev, CLV_FAULT_LOST);
    return status;
}

static clv_status fault_ignored(clv_plugin_device *dev, uint32_t fault)
{
    (void)dev, (void)fault;
    return CLV_OK;
}

/* Copies and fills are done by nobody. */
static clv_status moves_nothing(clv_plugin_device *dev,
                                const clv_submit *submit)
{
    clv_submit s = *submit;
    if (s.n_commands && s.commands->kind != CLV_COMMAND_RUN)
        s.n_commands = 0;
    return ref_submit(dev, &s);
}

static clv_status takes_other_ranges(clv_plugin_device *dev,
                                     const clv_submit *submit)
{
    clv_status status = ref_submit(dev, submit);
    if (status != CLV_ERR_INVALID)
        return status;
    clv_submit s = *submit;
    s.n_commands = 0;
    return ref_submit(dev, &s);
}

const hostile_mode hostile_work[] = {
    {"never_signals", "work without an end", {.submit = never_signals}},
    {"signals_early", "done before it is", {.submit = signals_early}},
    {"ignores_waits", "starts at once", {.submit = ignores_waits}},
    {"copies_at_once", "before their waits", {.submit = copies_at_once}},
    {"copies_refused", "though promised", {.submit = copies_refused}},
    {"copies_in_line", "behind the work", {.submit = copies_in_line}},
    {"queue_short", "full with one submit", {.submit = queue_short}},
    {"queue_blocks", "blocks where it is full", {.submit = queue_blocks}},
    {"submit_blocks", "until the work is done", {.submit = submit_blocks}},
    {"moves_nothing", "neither copies nor fills", {.submit = moves_nothing}},
    {"takes_wrong_work",
     "and does nothing with it",
     {.submit = takes_other_ranges}},
    {"lost_in_run",
     "the device goes with its second submit",
     {.submit = lost_in_run}},
    {"fault_ignored", "no fault to be had", {.fault_inject = fault_ignored}},
    {0},
};
