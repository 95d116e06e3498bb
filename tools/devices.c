/* cleave devices: what there is to run on, and what became of each plugin. */
#include "commands.h"
#include "env.h"
#include "table.h"
#include "text.h"

#include <stdio.h>
#include <stdlib.h>
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

/* 32 hexadecimal digits; "" if the plugin does not know it. */
static const char *uuid_text(const uint8_t uuid[16], char out[33])
{
    uint8_t any = 0;
    for (int i = 0; i < 16; i++) {
        snprintf(out + 2 * i, 3, "%02x", uuid[i]);
        any |= uuid[i];
    }
    return any ? out : "";
}

static void add_device(tool_table *table, const clv_device *dev)
{
    const clv_device_info *info = clv_device_info_of(dev);
    char memory[TOOL_QUANTITY_MAX], units[16], uuid[33];
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
    tool_record_string(&record, "bus_path", info->bus_path);
    tool_record_string(&record, "uuid", uuid_text(info->uuid, uuid));
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

static const char *outcome(const clv_candidate *c)
{
    if (c->status)
        return "failed";
    if (c->n_devices)
        return "ok";
    if (c->n_unused)
        return "not used";
    return c->stage == CLV_STAGE_READY ? "no device" : "not needed";
}

static void add_plugin(tool_table *table, const clv_candidate *c)
{
    const char *stage = clv_load_stage_name(c->stage);
    const char *cells[] = {*c->plugin ? c->plugin : "?",
                           c->version,
                           c->abi,
                           c->kinds,
                           stage,
                           outcome(c),
                           c->path};
    tool_record record = tool_record_begin();
    tool_record_string(&record, "path", c->path);
    tool_record_string(&record, "plugin", c->plugin);
    tool_record_string(&record, "version", c->version);
    tool_record_string(&record, "abi", c->abi);
    tool_record_string(&record, "kinds", c->kinds);
    tool_record_string(&record, "stage", stage);
    tool_record_bool(&record, "ok", c->status == CLV_OK);
    tool_record_string(&record, "outcome", outcome(c));
    tool_record_string(&record, "reason", c->reason);
    tool_record_number(&record, "devices", c->n_devices);
    tool_table_add(table, record, cells);
}

/* Below the table, where they have space. */
static void print_reason(const clv_candidate *c)
{
    char *path = tool_clean(c->path), *reason = tool_clean(c->reason);
    if (path && reason) {
        printf("\n%s:\n  ", path);
        tool_print_wrapped(reason, 2);
    }
    free(path);
    free(reason);
}

static bool print_plugins(const clv_context *ctx, const char *format)
{
    static const tool_column columns[] = {
        {"plugin", false}, {"version", false}, {"ABI", false}, {"kinds", false},
        {"stage", false},  {"outcome", false}, {"file", false}};
    tool_table table;
    tool_table_begin(&table, format, columns, 7);
    for (uint32_t i = 0; i < clv_context_candidate_count(ctx); i++)
        add_plugin(&table, clv_context_candidate(ctx, i));
    if (!tool_table_end(&table))
        return false;
    for (uint32_t i = 0; i < clv_context_candidate_count(ctx); i++)
        if (!strcmp(format, "md") && clv_context_candidate(ctx, i)->reason[0])
            print_reason(clv_context_candidate(ctx, i));
    return tool_write("", 0);
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
