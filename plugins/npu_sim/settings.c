#include "settings.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER(key_, default_, min_, max_, help_)                              \
    CLV_OPTION(FLOAT, DEVICE, key_, default_, .min = min_, .max = max_,        \
               .help = help_)
#define COUNT(key_, default_, min_, max_, help_)                               \
    CLV_OPTION(INT, DEVICE, key_, default_, .min = min_, .max = max_,          \
               .help = help_)
#define CHOICE(key_, default_, choices_, help_)                                \
    CLV_OPTION(ENUM, DEVICE, key_, default_, .choices = choices_, .help = help_)

const clv_option npu_options[NPU_N_OPTIONS] = {
    CLV_OPTION(
        ENUM, PLUGIN, "clock", "virtual", .choices = "virtual|real",
        .help = "time that only the simulation has, or the host's, with work "
                "that takes as long as it would"),
    CLV_OPTION(
        BOOL, PLUGIN, "compute", "on",
        .help = "compute results; off: only time, outputs stay as they were"),
    CLV_OPTION(
        ENUM, PLUGIN, "choices", "expected", .choices = "expected|seen",
        .help = "experts whose weights a run reads: as many as by chance, or "
                "those that it chooses; then results are computed in submits"),
    CLV_OPTION(FLOAT, PLUGIN, "memory_bandwidth", "0", .min = 0, .max = 100000,
               .help = "GB/s that all devices share; 0: each has its own"),
    CLV_OPTION(INT, PLUGIN, "memory_size", "0", .min = 0, .max = 16777216,
               .help = "MiB that all devices share; 0: what the host has"),
    CLV_OPTION(FLOAT, PLUGIN, "jitter", "0", .min = 0, .max = 0.9,
               .help =
                   "part by which a submit's work takes longer or shorter at "
                   "random"),
    CLV_OPTION(FLOAT, PLUGIN, "drift", "0", .min = 0, .max = 0.9,
               .help =
                   "part by which each device becomes slower and faster, over "
                   "seconds"),
    CLV_OPTION(FLOAT, PLUGIN, "drift_at", "-1", .min = -1, .max = 1e9,
               .help = "s of simulated time at which drift stands still: all "
                       "the time speeds are those of then; -1: it goes on"),
    CLV_OPTION(INT, PLUGIN, "seed", "1", .min = 0, .max = 1e15,
               .help =
                   "of what is random in both: the same seed, the same times"),

    CLV_OPTION(STRING, DEVICE, "title", "",
               .help = "the device's name for people"),
    CHOICE("kind", "npu", "npu|gpu|cpu", "what it is"),
    CHOICE("model", "systolic", "systolic|roofline",
           "how its time is computed: arrays of multipliers, or computing "
           "against memory"),
    CHOICE("ops", "all", "matmul|all", "what it takes"),
    CLV_OPTION(BOOL, DEVICE, "flag_wait", "on",
               .help =
                   "it waits for other devices' work by itself; off: the host "
                   "waits before it submits"),
    COUNT("queue_depth", "256", 1, 65536, "submits in flight"),
    NUMBER("submit_us", "0", 0, 1e6,
           "the host's time for a submit while the queue has work"),
    NUMBER("submit_empty_us", "0", 0, 1e6, "and while the queue is empty"),
    NUMBER("wait_poll_us", "0", 0, 1e6,
           "until a host that polls sees that work has ended"),
    NUMBER("wait_block_us", "0", 0, 1e6, "until one that blocks does"),
    NUMBER("dispatch_us", "0", 0, 1e6, "the device's time to begin a program"),
    NUMBER("launch_us", "0", 0, 1e6, "and to begin each op of it"),
    NUMBER("copy_us", "0", 0, 1e6, "to begin a copy"),
    NUMBER("bandwidth", "40", 0.001, 100000, "GB/s that it can move alone"),
    COUNT("memory", "0", 0, 16777216,
          "MiB of its own, as a graphics card has; 0: it works in the chip's"),
    NUMBER("link", "16", 0.001, 100000,
           "GB/s that copies between its own memory and the chip's move"),
    COUNT("copy_queues", "0", 0, NPU_MAX_COPY_QUEUES,
          "engines that copy between the two beside its work; each direction "
          "of the link has that rate"),
    NUMBER("activation_bytes", "2", 0.25, 8,
           "moved for an element of an activation"),
    NUMBER("load", "0", 0, 0.95,
           "part of its time and bandwidth that others take"),
    NUMBER("power_busy", "0", 0, 10000, "W with work"),
    NUMBER("power_idle", "0", 0, 10000, "W without"),

    COUNT("rows", "32", 1, 4096, "of an array: inputs summed"),
    COUNT("columns", "32", 1, 4096, "of an array"),
    COUNT("arrays", "1", 1, 4096, "working side by side"),
    COUNT("patch_rows", "1", 1, 64,
          "of a picture of tokens that the arrays take at once; 1: any number"),
    COUNT("patch_columns", "1", 1, 64,
          "of it, which tokens by themselves leave empty but for one"),
    NUMBER("frequency", "1", 0.001, 100, "GHz of the arrays"),
    NUMBER("fp16", "0", 0, 64,
           "FP16 products of an element in a cycle; 0: no FP16"),
    NUMBER("int8", "1", 0, 64,
           "INT8 products of an element in a cycle; 0: no INT8"),
    CHOICE("sums", "f32", "f32|f16",
           "format in which FP16 products are summed"),
    COUNT("sram", "2048", 1, 1048576, "KiB beside the arrays"),
    COUNT("swap_cycles", "0", 0, 1000000,
          "to bring a stationary tile into an array; one at a time"),
    NUMBER("expand", "0", 0, 100000,
           "Gelements/s that integers become FP16 at; 0: as they come"),
    COUNT("int8_rows", "0", 0, 1048576,
          "with up to that many tokens integer weights use INT8 though there "
          "is FP16"),
    NUMBER("vector", "100", 0.001, 1000000, "Gops/s outside the arrays"),
    COUNT("window", "0", 0, 16777216,
          "MiB that a program can address; 0: no bound"),
    COUNT("address_space", "0", 0, 16777216,
          "MiB of the chip's memory that all programs together can address; 0: "
          "no bound"),
    CLV_OPTION(BOOL, DEVICE, "static", "off",
               .help = "programs have fixed shapes, of the lengths below"),
    CLV_OPTION(STRING, DEVICE, "lengths", "1,32,64,128,256,512,1024",
               .help = "numbers of tokens, ascending, separated by commas"),
    COUNT("max_programs", "0", 0, 1000000, "resident; 0: no bound"),
    NUMBER("compile_base_us", "0", 0, 1e9, "to compile a program"),
    NUMBER("compile_repeat_us", "0", 0, 1e9,
           "and one of the same graph as an earlier one"),
    NUMBER("compile_node_us", "0", 0, 1e9, "and for each op"),
    NUMBER("compile_byte_ns", "0", 0, 1e6, "and for each byte of weights"),
    NUMBER("compile_element_ns", "0", 0, 1e6,
           "and for each element of inputs and outputs"),

    NUMBER("f32_tflops", "0.5", 0.000001, 100000, "TFLOP/s reached in F32"),
    NUMBER("f16_tflops", "1", 0.000001, 100000, "TFLOP/s reached in F16"),
    NUMBER("int8_tops", "0", 0, 100000,
           "TOP/s reached in products with integer weights; 0: as with floats"),
    CHOICE("precision", "f32", "f32|f16",
           "format of the operands of products; sums are F32"),
};

/* ------------------------------------------------------------------------ */
/* Values                                                                   */

typedef struct reader {
    const clv_host_api *host;
    const char *section; /* of a device; NULL: the plugin's */
    uint64_t hash;       /* of the values read */
    clv_status status;   /* the first failure */
} reader;

static void reject(reader *r, const char *key, const char *value,
                   const char *need)
{
    if (r->status)
        return;
    r->status = clv_fail(r->host, CLV_ERR_INVALID,
                         "npu_sim: [npu_sim%s%s] %s = '%.40s': it must be %s",
                         r->section ? ":" : "", r->section ? r->section : "",
                         key, value, need);
}

static const clv_option *declaration(const char *key)
{
    const clv_option *o = npu_options;
    while (strcmp(o->key, key))
        o++;
    return o;
}

static const char *text_of(reader *r, const char *key)
{
    char name[160];
    snprintf(name, sizeof name, "%s%s%s", r->section ? r->section : "",
             r->section ? "." : "", key);
    const char *value = r->host->option(r->host->host, name);
    if (!value)
        value = declaration(key)->default_value;
    r->hash = clv_hash_text(r->hash, value);
    return value;
}

/* A number in the declared range; the host checked it, if it is Cleave's. */
static double number(reader *r, const char *key)
{
    const clv_option *o = declaration(key);
    const char *text = text_of(r, key);
    char *end, need[96];
    errno = 0;
    double value = strtod(text, &end);
    if (end == text || *end || errno || !(value >= o->min && value <= o->max) ||
        (o->type == CLV_OPTION_INT && value != floor(value))) {
        snprintf(need, sizeof need, "a %snumber from %g to %g",
                 o->type == CLV_OPTION_INT ? "whole " : "", o->min, o->max);
        reject(r, key, text, need);
        return o->min;
    }
    return value;
}

static bool truth(reader *r, const char *key)
{
    const char *text = text_of(r, key);
    static const char *const words[2][4] = {{"off", "false", "no", "0"},
                                            {"on", "true", "yes", "1"}};
    for (int i = 0; i < 8; i++)
        if (!strcmp(text, words[i / 4][i % 4]))
            return i / 4;
    reject(r, key, text, "on or off");
    return false;
}

/* The index of the value among the choices. */
static uint32_t choice(reader *r, const char *key)
{
    const char *choices = declaration(key)->choices;
    const char *text = text_of(r, key), *p = choices;
    for (uint32_t i = 0; *p; i++) {
        size_t n = strcspn(p, "|");
        if (strlen(text) == n && !memcmp(p, text, n))
            return i;
        p += n + (p[n] == '|');
    }
    char need[96];
    snprintf(need, sizeof need, "one of %s", choices);
    reject(r, key, text, need);
    return 0;
}

static void read_lengths(reader *r, npu_settings *s)
{
    const char *text = text_of(r, "lengths"), *p = text;
    while (*p) {
        char *end;
        errno = 0;
        long long n = strtoll(p, &end, 10);
        if (end == p || errno || (*end && *end != ',') || n < 1 ||
            n > 1048576 || s->n_lengths == NPU_MAX_LENGTHS ||
            (s->n_lengths && n <= s->lengths[s->n_lengths - 1])) {
            reject(r, "lengths", text,
                   "up to 32 ascending whole numbers from 1 to 1048576, "
                   "separated by commas");
            return;
        }
        s->lengths[s->n_lengths++] = n;
        p = end + (*end == ',');
    }
    if (!s->n_lengths && s->is_static)
        reject(r, "lengths", text, "at least one number, as static = on");
}

/* ------------------------------------------------------------------------ */
/* Devices                                                                  */

static void read_systolic(reader *r, npu_settings *s, double share)
{
    npu_array a = {.rows = (uint32_t)number(r, "rows"),
                   .columns = (uint32_t)number(r, "columns"),
                   .arrays = (uint32_t)number(r, "arrays"),
                   .patch_rows = (uint32_t)number(r, "patch_rows"),
                   .patch_columns = (uint32_t)number(r, "patch_columns"),
                   .clock = number(r, "frequency") * 1e9 * share,
                   .swap_cycles = (uint32_t)number(r, "swap_cycles"),
                   .sram = (uint64_t)number(r, "sram") << 10,
                   .bandwidth = s->bandwidth};
    s->arrays[NPU_F16] = s->arrays[NPU_I8] = a;
    s->arrays[NPU_F16].macs = number(r, "fp16");
    s->arrays[NPU_F16].element_size = 2;
    s->arrays[NPU_F16].expand = number(r, "expand") * 1e9 * share;
    s->arrays[NPU_I8].macs = number(r, "int8");
    s->arrays[NPU_I8].element_size = 1;
    s->half_sums = choice(r, "sums") == 1;
    s->vector = number(r, "vector") * 1e9 * share;
    s->int8_rows = (int64_t)number(r, "int8_rows");
    s->window = (uint64_t)number(r, "window") << 20;
    s->address_space = (uint64_t)number(r, "address_space") << 20;
    if (s->address_space && s->memory_size)
        reject(r, "address_space", text_of(r, "address_space"),
               "0, as memory is above 0");
    if (!s->arrays[NPU_F16].macs && !s->arrays[NPU_I8].macs)
        reject(r, "int8", text_of(r, "int8"), "above 0, as fp16 = 0");
    if (s->int8_rows && !s->arrays[NPU_I8].macs)
        reject(r, "int8_rows", text_of(r, "int8_rows"), "0, as int8 = 0");
    if (a.sram / 2 < (uint64_t)a.columns * 4 * a.rows)
        reject(r, "sram", text_of(r, "sram"),
               "at least 8 bytes for each row and column of an array");
}

static void read_compilation(reader *r, npu_settings *s)
{
    s->is_static = truth(r, "static");
    read_lengths(r, s);
    s->max_programs = (uint32_t)number(r, "max_programs");
    s->compile_base_ns = number(r, "compile_base_us") * 1e3;
    s->compile_repeat_ns = number(r, "compile_repeat_us") * 1e3;
    s->compile_node_ns = number(r, "compile_node_us") * 1e3;
    s->compile_byte_ns = number(r, "compile_byte_ns");
    s->compile_element_ns = number(r, "compile_element_ns");
}

static void read_costs(reader *r, npu_settings *s)
{
    s->submit_ns = number(r, "submit_us") * 1e3;
    s->submit_empty_ns = number(r, "submit_empty_us") * 1e3;
    s->wait_poll_ns = number(r, "wait_poll_us") * 1e3;
    s->wait_block_ns = number(r, "wait_block_us") * 1e3;
    s->dispatch_ns = number(r, "dispatch_us") * 1e3;
    s->launch_ns = number(r, "launch_us") * 1e3;
    s->copy_ns = number(r, "copy_us") * 1e3;
    s->activation_size = number(r, "activation_bytes");
    s->busy_watts = number(r, "power_busy");
    s->idle_watts = number(r, "power_idle");
    s->queue_depth = (uint32_t)number(r, "queue_depth");
}

static void read_device(reader *r, npu_settings *s)
{
    static const uint32_t kinds[] = {CLV_DEVICE_NPU, CLV_DEVICE_GPU,
                                     CLV_DEVICE_CPU};
    double share = 1 - number(r, "load");
    snprintf(s->name, sizeof s->name, "%s", r->section);
    snprintf(s->title, sizeof s->title, "%s", text_of(r, "title"));
    s->kind = kinds[choice(r, "kind")];
    s->model = choice(r, "model") ? NPU_ROOFLINE : NPU_SYSTOLIC;
    s->all_ops = choice(r, "ops") == 1;
    s->flag_wait = truth(r, "flag_wait");
    s->bandwidth = number(r, "bandwidth") * 1e9 * share;
    s->memory_size = (uint64_t)number(r, "memory") << 20;
    s->link = number(r, "link") * 1e9;
    s->copy_queues = (uint32_t)number(r, "copy_queues");
    if (s->copy_queues && !s->memory_size)
        reject(r, "copy_queues", text_of(r, "copy_queues"), "0, as memory = 0");
    read_costs(r, s);
    read_systolic(r, s, share);
    read_compilation(r, s);
    s->rooflines[NPU_F32] =
        (npu_roofline){number(r, "f32_tflops") * 1e12 * share, s->bandwidth};
    s->rooflines[NPU_F16] =
        (npu_roofline){number(r, "f16_tflops") * 1e12 * share, s->bandwidth};
    s->rooflines[NPU_I8] =
        (npu_roofline){number(r, "int8_tops") * 1e12 * share, s->bandwidth};
    s->half = choice(r, "precision") == 1;
    s->hash = r->hash;
}

static const char *section_at(const clv_host_api *host, uint32_t index)
{
    const size_t need =
        offsetof(clv_host_api, device_section) + sizeof host->device_section;
    return host->header.struct_size >= need && host->device_section
               ? host->device_section(host->host, index)
               : NULL;
}

clv_status npu_config_read(const clv_host_api *host, npu_config *out)
{
    reader r = {.host = host, .hash = CLV_HASH_START};
    memset(out, 0, sizeof *out);
    out->is_real = choice(&r, "clock") == 1;
    out->computes = truth(&r, "compute");
    out->sees = choice(&r, "choices") == 1 && out->computes && !out->is_real;
    out->bandwidth = number(&r, "memory_bandwidth") * 1e9;
    out->memory_size = (uint64_t)number(&r, "memory_size") << 20;
    out->jitter = number(&r, "jitter");
    out->drift = number(&r, "drift");
    out->drift_at = number(&r, "drift_at");
    out->seed = (uint64_t)number(&r, "seed");
    for (uint32_t i = 0; !r.status && (r.section = section_at(host, i)); i++) {
        if (i == NPU_MAX_DEVICES)
            return clv_fail(host, CLV_ERR_LIMIT,
                            "npu_sim: [npu_sim:%.40s]: there are more than %d "
                            "devices; leave some out",
                            r.section, NPU_MAX_DEVICES);
        if (strlen(r.section) >= sizeof out->devices[i].name)
            return clv_fail(host, CLV_ERR_INVALID,
                            "npu_sim: [npu_sim:%.40s...]: the name is longer "
                            "than %zu characters",
                            r.section, sizeof out->devices[i].name - 1);
        r.hash = CLV_HASH_START;
        read_device(&r, &out->devices[i]);
        out->n_devices = i + 1;
    }
    return r.status;
}
