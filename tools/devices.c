/* cleave devices: what there is to run on, and what became of each plugin. */
#include "commands.h"
#include "env.h"
#include "table.h"
#include "text.h"

#include <stdio.h>
#include <string.h>

typedef struct devices_args {
    tool_common common;
    const char *format;
} devices_args;

static const tool_option options[] = {
    TOOL_OPT_CHOICE('o', "output", "FORMAT", offsetof(devices_args, format),
                    "md|json", "md or json"),
    {0},
};

static int run(int argc, char **argv);

const tool_command tool_devices = {
    .name = "devices",
    .title = "cleave devices",
    .operands = "",
    .summary = "Lists the devices, and what became of each plugin file.",
    .details = "Exits with 1 if there is no device.",
    .examples = "  cleave devices\n"
                "  cleave devices -o json\n",
    .options = options,
    .run = run,
};

static const char *kind_name(uint32_t kind)
{
    switch (kind) {
    case CLV_DEVICE_CPU:
        return "cpu";
    case CLV_DEVICE_GPU:
        return "gpu";
    case CLV_DEVICE_NPU:
        return "npu";
    }
    return "other";
}

static void add_device(tool_table *table, const clv_device *dev)
{
    const clv_device_info *info = clv_device_info_of(dev);
    char memory[TOOL_QUANTITY_MAX], units[16];
    const char *cells[] = {
        clv_device_id(dev), info->name, kind_name(info->kind), memory, units,
        info->driver};
    if (info->memory_size)
        tool_bytes(info->memory_size, memory);
    else
        snprintf(memory, sizeof memory, "?");
    snprintf(units, sizeof units, "%u", info->units);
    tool_record record = tool_record_begin();
    tool_record_string(&record, "id", clv_device_id(dev));
    tool_record_string(&record, "plugin", clv_device_plugin(dev));
    tool_record_string(&record, "name", info->name);
    tool_record_string(&record, "kind", kind_name(info->kind));
    tool_record_number(&record, "memory", (double)info->memory_size);
    tool_record_number(&record, "memory_free", (double)info->memory_free);
    tool_record_number(&record, "units", info->units);
    tool_record_string(&record, "driver", info->driver);
    tool_record_bool(&record, "virtual_clock",
                     info->clock == CLV_CLOCK_VIRTUAL);
    tool_table_add(table, record, cells);
}

static bool print_devices(const clv_context *ctx, const char *format)
{
    static const tool_column columns[] = {{"device", false}, {"name", false},
                                          {"kind", false},   {"memory", true},
                                          {"units", true},   {"driver", false}};
    tool_table table;
    tool_table_begin(&table, format, columns, 6);
    for (uint32_t i = 0; i < clv_context_device_count(ctx); i++)
        add_device(&table, clv_context_device(ctx, i));
    return tool_table_end(&table);
}

static void add_plugin(tool_table *table, const clv_candidate *c)
{
    const char *reason = c->status      ? c->reason
                         : c->n_devices ? "ok"
                                        : "ok, but it found no device";
    const char *cells[] = {*c->plugin ? c->plugin : "?", c->version,
                           clv_load_stage_name(c->stage), c->path, reason};
    tool_record record = tool_record_begin();
    tool_record_string(&record, "path", c->path);
    tool_record_string(&record, "plugin", c->plugin);
    tool_record_string(&record, "version", c->version);
    tool_record_string(&record, "stage", clv_load_stage_name(c->stage));
    tool_record_bool(&record, "ok", c->status == CLV_OK);
    tool_record_string(&record, "reason", c->reason);
    tool_record_number(&record, "devices", c->n_devices);
    tool_table_add(table, record, cells);
}

static bool print_plugins(const clv_context *ctx, const char *format)
{
    static const tool_column columns[] = {{"plugin", false},
                                          {"version", false},
                                          {"stage", false},
                                          {"file", false},
                                          {"outcome", false}};
    tool_table table;
    tool_table_begin(&table, format, columns, 5);
    for (uint32_t i = 0; i < clv_context_candidate_count(ctx); i++)
        add_plugin(&table, clv_context_candidate(ctx, i));
    return tool_table_end(&table);
}

static bool print_all(const clv_context *ctx, const char *format)
{
    bool json = !strcmp(format, "json");
    fputs(json ? "{\"devices\": " : "", stdout);
    bool good = print_devices(ctx, format);
    fputs(json ? ",\"plugins\": " : "\n", stdout);
    good = print_plugins(ctx, format) && good;
    fputs(json ? "}\n" : "", stdout);
    return good;
}

static int run(int argc, char **argv)
{
    devices_args args = {.format = "md"};
    uint32_t n;
    int code = tool_parse(&tool_devices, &args, argc, argv, &n);
    if (code >= 0)
        return code;
    tool_env env;
    tool_env_init(&env, &args.common);
    code = TOOL_FAILED;
    if (tool_env_open(&env))
        tool_fail();
    else if (print_all(env.ctx, args.format))
        code = tool_env_need_device(&env) ? tool_fail() : TOOL_OK;
    return tool_env_close(&env, code);
}
