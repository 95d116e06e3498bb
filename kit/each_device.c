#include "each_device.h"

#include "../tools/interrupt.h"
#include "../tools/options.h"
#include "../tools/text.h"

#include <stdarg.h>
#include <stdio.h>

typedef struct walk {
    const kit_each *each;
    const char *device; /* at work */
    bool failed;
} walk;

__attribute__((format(printf, 2, 3))) static void complain(walk *w,
                                                           const char *fmt, ...)
{
    char text[KIT_TEXT_SIZE + 256];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    w->each->complain(w->each->ctx, text);
    w->failed = true;
}

static void on_data(void *ctx, const kit_record *record)
{
    const walk *w = ctx;
    w->each->on_data(w->each->ctx, record);
}

static bool on_verdict(void *ctx, uint32_t item, const kit_verdict *verdict)
{
    walk *w = ctx;
    (void)item;
    if (verdict->outcome != KIT_PASSED && verdict->outcome != KIT_SKIPPED)
        complain(w, "%s: ended early: %s", w->device, verdict->text);
    return true;
}

static kit_batch_end work_on(walk *w, const kit_queried_device *device,
                             char error[KIT_TEXT_SIZE])
{
    const kit_each *each = w->each;
    const kit_item item = {.of = each->work, .name = each->work->name};
    kit_batch batch = {.config = each->config,
                       .items = &item,
                       .n_items = 1,
                       .device = device->index,
                       .ctx = w,
                       .on_verdict = on_verdict,
                       .on_data = on_data};
    w->device = device->label;
    each->on_device(each->ctx, device);
    return kit_batch_run(&batch, error);
}

static kit_batch_end query_plugin(walk *w, kit_query *query,
                                  char error[KIT_TEXT_SIZE])
{
    kit_list list = {0};
    kit_expectations expectations = {0};
    kit_report report = {.format = KIT_FORMAT_JSON, /* silent until its end */
                         .path = w->each->config->path,
                         .query = query};
    kit_runner runner = {.config = w->each->config,
                         .selection = w->each->selection,
                         .list = &list,
                         .expectations = &expectations,
                         .report = &report,
                         .query = query};
    kit_batch_end end = kit_runner_query(&runner, error);
    if (end == KIT_BATCH_DONE && !query->whole)
        complain(w, "%s: %s", w->each->config->path,
                 report.n && report.results[report.n - 1].text
                     ? report.results[report.n - 1].text
                     : "the plugin cannot be used");
    kit_report_free(&report);
    return end;
}

int kit_each_device(const kit_each *each)
{
    static kit_query query;
    char error[KIT_TEXT_SIZE];
    walk w = {.each = each};
    uint32_t n = 0;
    kit_batch_end end = query_plugin(&w, &query, error);
    for (uint32_t d = 0;
         d < query.n_devices && query.whole && end == KIT_BATCH_DONE; d++) {
        if (!kit_selects_device(each->selection, &query, d))
            continue;
        end = work_on(&w, &query.devices[d], error);
        n++;
    }
    if (end == KIT_BATCH_DONE && query.whole && !n)
        complain(&w, "no such device is present; 'cleave devices' shows those "
                     "that are");
    if (end == KIT_BATCH_USAGE)
        return tool_usage("%s", error);
    if (end == KIT_BATCH_INTERRUPTED) {
        tool_print_error("interrupted");
        return tool_interrupt_code();
    }
    return w.failed ? TOOL_FAILED : TOOL_OK;
}
