#include "batch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NONE UINT32_MAX

typedef struct state {
    const kit_batch *batch;
    uint32_t next;    /* item to begin with in the next process */
    uint32_t current; /* begun, without a verdict; NONE */
    bool told;        /* why the process ends is known */
    bool ended;       /* everything was given back */
    uint64_t begin_ns;
    uint64_t printed;
    uint64_t printed_first; /* by next, which is then repeated; 0: it is not */
    bool stopped;           /* by on_verdict */
    bool warned;            /* as the record says */
    bool usage;
    char *error;
} state;

/* ------------------------------------------------------------------------ */
/* The child's side                                                         */

static void run_cases(kit *k, void *ctx)
{
    const state *s = ctx;
    const kit_batch *b = s->batch;
    k->device = b->device;
    for (uint32_t i = s->next; i < b->n_items; i++) {
        kit_child_begin(k, i, b->items[i].name);
        b->items[i].of->run(k, b->items[i].of->arg);
        kit_child_verdict(k);
    }
    if (b->end_name) {
        kit_child_begin(k, b->n_items, b->end_name);
        if (b->device != KIT_NO_DEVICE)
            kit_under_test(k);
        kit_child_end(k);
    }
}

/* ------------------------------------------------------------------------ */
/* The parent's side                                                        */

/* What prints once is repeated in a fresh process before it counts: a driver's
 * compiler may speak when its cache is empty. */
static bool repeats(state *s, uint32_t item, kit_outcome outcome)
{
    if (!s->printed || s->printed_first || outcome != KIT_PASSED)
        return false;
    s->printed_first = s->printed;
    s->next = item;
    s->told = true;
    return true;
}

/* False: the item is to run again. */
static bool tell(state *s, uint32_t item, kit_outcome outcome, const char *text,
                 uint64_t ns)
{
    char note[KIT_TEXT_SIZE];
    if (repeats(s, item, outcome))
        return false;
    if (s->printed && outcome == KIT_PASSED) /* the report says so */
        outcome = KIT_FAILED;
    else if (s->printed_first && outcome == KIT_PASSED) {
        snprintf(note, sizeof note,
                 "%.400s%sthe first run printed %" PRIu64
                 " bytes, the second nothing",
                 text, *text ? "; " : "", s->printed_first);
        text = note;
    }
    kit_verdict verdict = {outcome, text, ns, s->printed, s->warned};
    s->stopped = !s->batch->on_verdict(s->batch->ctx, item, &verdict);
    s->printed = s->printed_first = 0;
    s->warned = false;
    s->next = item + 1;
    s->current = NONE;
    return true;
}

/* With the end, where that is a case. */
static uint32_t n_all(const kit_batch *b)
{
    return b->n_items + (b->end_name != NULL);
}

static bool on_record(void *ctx, const kit_record *record)
{
    state *s = ctx;
    const kit_batch *b = s->batch;
    bool is_current = s->current != NONE && record->index == s->current;
    switch (record->kind) {
    case KIT_RECORD_BEGIN:
        if (record->index == s->next) {
            s->current = record->index;
            s->begin_ns = kit_now();
        }
        break;
    case KIT_RECORD_PASS:
        s->warned = record->warned;
        if (is_current)
            return tell(s, s->current, KIT_PASSED, record->text, record->ns);
        break;
    case KIT_RECORD_SKIP:
        if (is_current)
            tell(s, s->current, KIT_SKIPPED, record->text, record->ns);
        break;
    case KIT_RECORD_FAIL:
        if (is_current || (s->current == NONE && s->next < n_all(b)))
            tell(s, is_current ? s->current : s->next, KIT_FAILED, record->text,
                 record->ns);
        s->told = true;
        break;
    case KIT_RECORD_END:
        s->ended = true;
        break;
    case KIT_RECORD_USAGE:
        snprintf(s->error, KIT_TEXT_SIZE, "%s", record->text);
        s->usage = true;
        break;
    case KIT_RECORD_DATA:
        if (b->on_data)
            b->on_data(b->ctx, record);
        break;
    case KIT_RECORD_ALIVE:
        break;
    }
    return true;
}

static void on_output(void *ctx, uint64_t bytes)
{
    state *s = ctx;
    s->printed += s->batch->silent ? bytes : 0;
}

/* The process ended: what that means for the case that ran in it. */
static void conclude(state *s, const kit_ending *ending)
{
    const kit_batch *b = s->batch;
    if (s->next >= n_all(b) || s->told)
        return;
    bool begun = s->current != NONE;
    uint32_t item = begun ? s->current : s->next;
    uint64_t ns = begun ? kit_now() - s->begin_ns : 0;
    if (item == b->n_items && s->ended && ending->exited && !ending->code) {
        tell(s, item, KIT_PASSED, "", ns);
        return;
    }
    char text[KIT_TEXT_SIZE];
    const char *when = !begun     ? " before the case began"
                       : s->ended ? " at the process's exit"
                                  : "";
    snprintf(text, sizeof text, "%.400s%s", ending->reason, when);
    tell(s, item, ending->hung ? KIT_HUNG : KIT_CRASHED, text, ns);
}

kit_batch_end kit_batch_run(const kit_batch *batch, char error[KIT_TEXT_SIZE])
{
    state s = {.batch = batch, .current = NONE, .error = error};
    kit_work work = {.config = batch->config,
                     .ctx = &s,
                     .run = run_cases,
                     .on_record = on_record,
                     .on_output = on_output};
    while (s.next < n_all(batch) && !s.stopped) {
        kit_ending ending;
        s.told = s.ended = false;
        s.current = NONE;
        s.printed = 0;
        kit_process_run(&work, &ending);
        if (s.usage)
            return KIT_BATCH_USAGE;
        if (ending.interrupted)
            return KIT_BATCH_INTERRUPTED;
        conclude(&s, &ending);
    }
    return KIT_BATCH_DONE;
}
