/*
 * A plugin for the tests of the loader. TEST_NAME names it; one TEST_* more
 * makes it fail in one way. Its devices do no work.
 */
#include <cleave/plugin.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Tests write other texts over it, up to the end of the comment. */
#ifndef TEST_NO_MANIFEST
CLV_PLUGIN_MANIFEST("name = " TEST_NAME "\n"
                    "abi = 1\n"
                    "devices = other\n"
                    "# -------------------------------------------------------"
                    "---------------------------------------------------------"
                    "-----------------------------------------------------\n");
#endif

/* One symbol too many. */
#if defined(TEST_EXPORTS_WEAK)
CLV_PLUGIN_EXPORT __attribute__((weak)) int cleave_test_export = 1;
#elif defined(TEST_EXPORTS_UNIQUE)
__asm__(".type cleave_test_export, %gnu_unique_object");
CLV_PLUGIN_EXPORT int cleave_test_export = 1;
#elif defined(TEST_EXPORTS_PROTECTED)
__attribute__((visibility("protected"))) int cleave_test_export = 1;
#elif defined(TEST_EXPORTS) || defined(TEST_EXPORTS_SYSV)
CLV_PLUGIN_EXPORT int cleave_test_export = 1;
#endif

#ifdef TEST_NEEDS
extern int needed_started;
__attribute__((used)) static int *const needed = &needed_started;
#endif

#ifdef TEST_CONSTRUCTOR
__attribute__((constructor)) static void run_early(void)
{
    setenv("CLEAVE_TEST_CONSTRUCTOR", "ran", 1);
}
#endif

/* Ends or stops the process where an option says so: "abort create", "segv
 * unload", of device 1 alone "abort open 1"; or goes on for 1.5 s ("work") or
 * for ever ("babble"), with a message every 0.1 s. Another one names a file
 * that grows with every instance. */
#ifdef TEST_CRASHING
static char fatal[32];
static const clv_host_api *listener;

static void talk(int times)
{
    const struct timespec pause = {.tv_nsec = 100000000};
    for (int i = 0; i != times; i++) {
        listener->log(listener->host, CLV_LOG_DEBUG, NULL, 0, "at work");
        nanosleep(&pause, NULL);
    }
}

static void crash(const char *where)
{
    const char *blank = strchr(fatal, ' ');
    if (!blank || strcmp(blank + 1, where))
        return;
    if (!strncmp(fatal, "abort", 5))
        abort();
    if (!strncmp(fatal, "segv", 4))
        *(volatile char *)(uintptr_t)fatal[31] = 1;
    if (!strncmp(fatal, "exit", 4))
        _exit(3);
    while (!strncmp(fatal, "hang", 4))
        pause();
    if (!strncmp(fatal, "work", 4))
        talk(15);
    if (!strncmp(fatal, "babble", 6))
        talk(-1);
}

static void prepare(const clv_host_api *host)
{
    strncpy(fatal, host->option(host->host, "crash"), sizeof fatal - 1);
    listener = host;
    FILE *f = fopen(host->option(host->host, "count"), "ab");
    if (f) {
        fputc('x', f);
        fclose(f);
    }
}

__attribute__((destructor)) static void run_late(void)
{
    crash("unload");
}
#else
#define crash(where) ((void)0)
#define prepare(host) ((void)0)
#endif

struct clv_plugin_instance {
    const clv_host_api *host;
    int quiesced;
};
struct clv_plugin_device {
    int unused;
};

static clv_status create(const clv_host_api *host, clv_plugin_instance **out)
{
#ifdef TEST_FAIL_CREATE
    (void)out;
    return host->set_error(host->host, CLV_ERR_UNSUPPORTED, 42,
                           "driver 1.0 is too old; install 2.0");
#else
    clv_plugin_instance *inst = host->alloc(host->host, sizeof *inst, 16);
    if (!inst)
        return CLV_ERR_NO_MEMORY;
    prepare(host);
    crash("create");
    inst->host = host;
    inst->quiesced = 0;
    *out = inst;
    return CLV_OK;
#endif
}

static clv_status quiesce(clv_plugin_instance *inst)
{
    crash("quiesce");
    inst->quiesced = 1;
    return CLV_OK;
}

static void destroy(clv_plugin_instance *inst)
{
    if (!inst)
        return;
    if (!inst->quiesced)
        abort();
    crash("destroy");
    inst->host->free(inst->host->host, inst);
}

static uint32_t number(clv_plugin_instance *inst, const char *key)
{
    return (uint32_t)atoi(inst->host->option(inst->host->host, key));
}

/* As many devices as the option says, named "0", "1", ... or "" for one. */
static clv_status enumerate(clv_plugin_instance *inst, uint32_t *count,
                            clv_device_info *out, uint32_t stride)
{
    uint32_t n = number(inst, "devices"), uuid = number(inst, "uuid");
    crash("enumerate");
    for (uint32_t i = 0; i < n && i < *count; i++) {
        clv_device_info *info = (void *)((char *)out + (size_t)i * stride);
        if (n > 1)
            info->id[0] = (char)('0' + i);
        strcpy(info->name, "a \033[31mdevice");
        info->kind = number(inst, "kind");
        info->flags = number(inst, "flags");
        info->n_mem_types = 1;
        if (uuid) {
            info->uuid[0] = 0xab;
            info->uuid[15] = (uint8_t)(uuid < 100 ? uuid + i : uuid);
            strcpy(info->bus_path, "0000:01:00.0");
        }
    }
    *count = n;
    return CLV_OK;
}

static clv_status device_open(clv_plugin_instance *inst, uint32_t index,
                              clv_plugin_device **out)
{
    crash("open");
    if (index == 1)
        crash("open 1");
    if (index == 3)
        return inst->host->set_error(inst->host->host, CLV_ERR_DEVICE_LOST, 0,
                                     "it fell off the bus");
    *out = calloc(1, sizeof **out);
    return *out ? CLV_OK : CLV_ERR_NO_MEMORY;
}

static void device_close(clv_plugin_device *dev)
{
    crash("close");
    free(dev);
}

static clv_status mem_types(clv_plugin_device *dev, uint32_t *count,
                            clv_mem_type *out, uint32_t stride)
{
    (void)dev;
    (void)stride;
    if (*count)
        out->flags = CLV_MEM_HOST_VISIBLE | CLV_MEM_COHERENT;
    *count = 1;
    return CLV_OK;
}

static clv_status op_caps(clv_plugin_device *dev, const clv_subgraph *graph,
                          clv_op_caps *out, uint32_t stride)
{
    (void)dev;
    (void)graph;
    (void)out;
    (void)stride;
    return CLV_OK;
}

static clv_status buffer_alloc(clv_plugin_device *dev, uint32_t mem_type,
                               uint64_t size, clv_plugin_buffer **out)
{
    (void)dev;
    (void)mem_type;
    (void)size;
    (void)out;
    return CLV_ERR_NO_MEMORY;
}

static void buffer_free(clv_plugin_buffer *buf)
{
    (void)buf;
}

static clv_status timeline_create(clv_plugin_device *dev, uint64_t value,
                                  clv_plugin_timeline **out)
{
    (void)dev;
    (void)value;
    (void)out;
    return CLV_ERR_NO_MEMORY;
}

static void timeline_destroy(clv_plugin_timeline *tl)
{
    (void)tl;
}

static clv_status timeline_query(clv_plugin_timeline *tl,
                                 clv_timeline_info *out)
{
    (void)tl;
    (void)out;
    return CLV_ERR_UNSUPPORTED;
}

static clv_status timeline_signal(clv_plugin_timeline *tl, uint64_t value)
{
    (void)tl;
    (void)value;
    return CLV_ERR_UNSUPPORTED;
}

static clv_status timeline_fail(clv_plugin_timeline *tl, clv_status status,
                                const char *message)
{
    (void)tl;
    (void)status;
    (void)message;
    return CLV_ERR_UNSUPPORTED;
}

static clv_status timeline_wait(clv_plugin_timeline *tl, uint64_t value,
                                uint64_t spin_ns, uint64_t timeout_ns)
{
    (void)tl;
    (void)value;
    (void)spin_ns;
    (void)timeout_ns;
    return CLV_ERR_UNSUPPORTED;
}

static clv_status program_compile(clv_plugin_device *dev,
                                  const clv_compile *compile,
                                  clv_plugin_program **out)
{
    (void)dev;
    (void)compile;
    (void)out;
    return CLV_ERR_UNSUPPORTED;
}

static clv_status program_info(clv_plugin_program *prog, clv_program_info *out)
{
    (void)prog;
    (void)out;
    return CLV_ERR_UNSUPPORTED;
}

static void program_destroy(clv_plugin_program *prog)
{
    (void)prog;
}

static clv_status submit(clv_plugin_device *dev, const clv_submit *work)
{
    (void)dev;
    (void)work;
    return CLV_ERR_UNSUPPORTED;
}

static const clv_option options[] = {
    {.header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},
     .key = "devices",
     .type = CLV_OPTION_INT,
     .min = 0,
     .max = 8,
#ifdef TEST_BAD_OPTION
     .default_value = "9",
#else
     .default_value = "1",
#endif
     .help = "devices to pretend"},
    {.header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},
     .key = "uuid",
     .type = CLV_OPTION_INT,
     .min = 0,
     .max = 200,
     .default_value = "0",
     .help = "end of the first device's UUID, from 100 on of all; 0: "
             "none"},
    {.header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},
     .key = "kind",
     .type = CLV_OPTION_INT,
     .min = 1,
     .max = 4,
     .default_value = "4",
     .help = "clv_device_kind of the devices"},
    {.header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},
     .key = "flags",
     .type = CLV_OPTION_INT,
     .min = 0,
     .max = 255,
     .default_value = "0",
     .help = "CLV_DEVICE_* of the devices"},
#ifdef TEST_CRASHING
    {.header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},
     .key = "crash",
     .type = CLV_OPTION_STRING,
     .default_value = "",
     .help = "how and where"},
    {.header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL},
     .key = "count",
     .type = CLV_OPTION_STRING,
     .default_value = "",
     .help = "file that grows"},
#endif
};

/* A newer host's table: longer than this header's. */
typedef struct longer_api {
    clv_plugin_api api;
    clv_status (*new_slot)(clv_plugin_instance *inst);
} longer_api;

static const longer_api table = {
    .api =
        {
#if defined(TEST_SHORT_TABLE)
            .header = {offsetof(clv_plugin_api, submit), CLV_STRUCT_PLUGIN_API,
                       NULL},
#else
            .header = {sizeof(longer_api), CLV_STRUCT_PLUGIN_API, NULL},
#endif
            .name = TEST_NAME,
            .version = "1.2",
            .build_id = "test",
            .description = "for the tests",
#if defined(TEST_UNLOADABLE) || defined(TEST_CRASHING)
            .flags = CLV_PLUGIN_UNLOADABLE,
#endif
            .n_options = sizeof options / sizeof *options,
            .option_stride = sizeof *options,
            .options = options,
            .create = create,
            .quiesce = quiesce,
            .destroy = destroy,
            .enumerate = enumerate,
            .device_open = device_open,
            .device_close = device_close,
            .mem_types = mem_types,
            .op_caps = op_caps,
            .buffer_alloc = buffer_alloc,
            .buffer_free = buffer_free,
            .timeline_create = timeline_create,
            .timeline_destroy = timeline_destroy,
            .timeline_query = timeline_query,
            .timeline_signal = timeline_signal,
            .timeline_fail = timeline_fail,
            .timeline_wait = timeline_wait,
            .program_compile = program_compile,
            .program_info = program_info,
            .program_destroy = program_destroy,
#ifndef TEST_MISSING_SLOT
            .submit = submit,
#endif
        },
};

#ifdef TEST_UNRESOLVED
clv_status cleave_nobody_defines_this(void);
#endif

#ifndef TEST_NO_QUERY
clv_status clv_plugin_query(const clv_query_in *in, clv_query_out *out)
{
    (void)submit;
    (void)table;
#if defined(TEST_CRASH_QUERY)
    (void)in;
    (void)out;
    abort();
#elif defined(TEST_WRONG_VERSION)
    (void)in;
    out->abi_min = 7;
    out->abi_max = 9;
    return CLV_ERR_VERSION;
#elif defined(TEST_LYING_VERSION)
    (void)in;
    out->api = &table.api;
    out->abi_version = out->abi_min = out->abi_max = 2;
    return CLV_OK;
#elif defined(TEST_REFUSES)
    (void)in;
    strcpy(out->reason, "this processor has no AVX9");
    return CLV_ERR_UNSUPPORTED;
#elif defined(TEST_NO_TABLE)
    out->abi_version = in->abi_max;
    return CLV_OK;
#else
    out->api = &table.api;
    out->abi_version = in->abi_max;
    out->abi_min = out->abi_max = 1;
#ifdef TEST_UNRESOLVED
    return cleave_nobody_defines_this();
#else
    return CLV_OK;
#endif
#endif
}
#else
CLV_PLUGIN_EXPORT int cleave_something_else(void);
int cleave_something_else(void)
{
    (void)create, (void)quiesce, (void)destroy;
    return table.api.flags != 0;
}
#endif
