/*
 * The reference plugin with a wrong table or a wrong answer to the query.
 * CLEAVE_TEST_WRONG says which: one of the names below, or "null:MEMBER".
 */
#include "../ref/ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CLV_PLUGIN_MANIFEST("name = wrong\n"
                    "abi = 1\n"
                    "devices = other\n");

static clv_plugin_api table;
#define MAX_OPTIONS 128
static clv_option options[MAX_OPTIONS];

#define MEMBER(name)                                                           \
    {                                                                          \
#name, offsetof(clv_plugin_api, name)                                  \
    }

static const struct {
    const char *name;
    size_t offset;
} members[] = {
    MEMBER(name),
    MEMBER(version),
    MEMBER(build_id),
    MEMBER(description),
    MEMBER(options),
    MEMBER(create),
    MEMBER(quiesce),
    MEMBER(destroy),
    MEMBER(enumerate),
    MEMBER(device_open),
    MEMBER(device_close),
    MEMBER(mem_types),
    MEMBER(op_caps),
    MEMBER(progress),
    MEMBER(buffer_alloc),
    MEMBER(buffer_import),
    MEMBER(buffer_free),
    MEMBER(buffer_map),
    MEMBER(buffer_unmap),
    MEMBER(buffer_flush),
    MEMBER(buffer_invalidate),
    MEMBER(timeline_create),
    MEMBER(timeline_destroy),
    MEMBER(timeline_query),
    MEMBER(timeline_signal),
    MEMBER(timeline_fail),
    MEMBER(timeline_wait),
    MEMBER(program_compile),
    MEMBER(program_info),
    MEMBER(program_destroy),
    MEMBER(program_serialize),
    MEMBER(program_validate),
    MEMBER(program_load),
    MEMBER(program_key),
    MEMBER(submit),
    MEMBER(trace_read),
    MEMBER(calibrate),
    MEMBER(fault_inject),
};

static void clear(const char *member)
{
    void *none = NULL;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (!strcmp(members[i].name, member))
            memcpy((char *)&table + members[i].offset, &none, sizeof none);
}

static bool is(const char *name)
{
    const char *wrong = getenv("CLEAVE_TEST_WRONG");
    return wrong && !strcmp(wrong, name);
}

static void make_table(void)
{
    static clv_header loop = {sizeof loop, 0x4e57u, &loop};
    const char *wrong = getenv("CLEAVE_TEST_WRONG");
    if (ref_api.n_options > MAX_OPTIONS)
        abort();
    table = ref_api;
    memcpy(options, ref_api.options, ref_api.n_options * sizeof *options);
    table.options = options;
    if (wrong && !strncmp(wrong, "null:", 5))
        clear(wrong + 5);
    if (is("short"))
        table.header.struct_size = offsetof(clv_plugin_api, calibrate);
    if (is("no_size"))
        table.header.struct_size = 0;
    if (is("type"))
        table.header.struct_type = CLV_STRUCT_HOST_API;
    if (is("loop"))
        table.header.next = &loop;
    if (is("option_short"))
        options[1].header.struct_size -= 8;
    if (is("option_type"))
        options[1].header.struct_type = CLV_STRUCT_NODE;
    if (is("option_stride"))
        table.option_stride = 8;
    if (is("option_count"))
        table.n_options = 1000000000;
    if (is("option_key"))
        options[1].key = NULL;
    if (is("name_other"))
        table.name = "other";
    if (is("name_endless")) {
        static char endless[1 << 16];
        memset(endless, 'x', sizeof endless - 1);
        table.name = endless;
    }
}

clv_status clv_plugin_query(const clv_query_in *in, clv_query_out *out)
{
    make_table();
    clv_status status = clv_query_answer(in, out, 1, &table);
    if (is("version_0"))
        out->abi_version = out->abi_min = out->abi_max = 0;
    if (is("version_new") || is("version_lie"))
        out->abi_version = out->abi_min = out->abi_max = 7;
    if (is("version_new")) {
        out->api = NULL;
        return CLV_ERR_VERSION;
    }
    if (is("status"))
        return -99;
    if (is("positive"))
        return 5;
    if (is("reason")) {
        memset(out->reason, 'r', sizeof out->reason);
        return CLV_ERR_UNSUPPORTED;
    }
    if (is("no_table"))
        out->api = NULL;
    return status;
}
