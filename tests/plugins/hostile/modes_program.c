/* Programs that are kept, and times. */
#include "hostile.h"

#include <math.h>
#include <string.h>

static clv_status accepts_all(clv_plugin_device *dev,
                              const clv_compile *compile, const clv_blob *blob,
                              uint32_t *verdict)
{
    (void)dev, (void)compile, (void)blob;
    *verdict = CLV_VERDICT_GOOD;
    return CLV_OK;
}

static clv_status loads_all(clv_plugin_device *dev, const clv_compile *compile,
                            const clv_blob *blob, clv_plugin_program **out)
{
    (void)blob;
    return ref_program_compile(dev, compile, out);
}

static clv_status verdict_unknown(clv_plugin_device *dev,
                                  const clv_compile *compile,
                                  const clv_blob *blob, uint32_t *verdict)
{
    clv_status status = ref_program_validate(dev, compile, blob, verdict);
    *verdict = 9;
    return status;
}

static clv_status validate_fails(clv_plugin_device *dev,
                                 const clv_compile *compile,
                                 const clv_blob *blob, uint32_t *verdict)
{
    clv_status status = ref_program_validate(dev, compile, blob, verdict);
    if (!status && *verdict != CLV_VERDICT_GOOD)
        return clv_fail(dev->host, CLV_ERR_FORMAT,
                        "hostile: these bytes are no program");
    return status;
}

static clv_status load_crashes(clv_plugin_device *dev,
                               const clv_compile *compile, const clv_blob *blob,
                               clv_plugin_program **out)
{
    clv_status status = ref_program_load(dev, compile, blob, out);
    if (status == CLV_ERR_FORMAT)
        hostile_crash();
    return status;
}

static clv_status key_constant(clv_plugin_device *dev,
                               const clv_compile *compile, uint8_t key[32])
{
    (void)dev, (void)compile;
    memset(key, 7, 32);
    return CLV_OK;
}

static clv_status key_random(clv_plugin_device *dev, const clv_compile *compile,
                             uint8_t key[32])
{
    static uint8_t calls;
    clv_status status = ref_program_key(dev, compile, key);
    key[0] = ++calls;
    return status;
}

static clv_status key_forgets_bucket(clv_plugin_device *dev,
                                     const clv_compile *compile,
                                     uint8_t key[32])
{
    clv_compile c = *compile;
    clv_subgraph g = *compile->graph;
    clv_symbol_range any[CLV_MAX_SYMBOLS];
    for (uint32_t i = 0; i < CLV_MAX_SYMBOLS; i++)
        any[i] = (clv_symbol_range){1, 1};
    g.symbols = any;
    c.graph = &g;
    return ref_program_key(dev, &c, key);
}

/* The sink's answer is nobody's business. */
static struct {
    clv_status (*write)(void *ctx, const void *data, uint64_t size);
    void *ctx;
} sink;

static clv_status write_anyway(void *ctx, const void *data, uint64_t size)
{
    (void)ctx;
    sink.write(sink.ctx, data, size);
    return CLV_OK;
}

static clv_status write_ignored(clv_plugin_program *prog,
                                clv_status (*write)(void *ctx, const void *data,
                                                    uint64_t size),
                                void *ctx)
{
    sink.write = write;
    sink.ctx = ctx;
    return ref_program_serialize(prog, write_anyway, NULL);
}

static clv_status serializes_nothing(
    clv_plugin_program *prog,
    clv_status (*write)(void *ctx, const void *data, uint64_t size), void *ctx)
{
    (void)prog, (void)write, (void)ctx;
    return CLV_OK;
}

static const clv_compile *wanted; /* by the latest compilation */

static int go_on(void *ctx, float fraction)
{
    (void)ctx;
    if (wanted->progress)
        wanted->progress(wanted->progress_ctx, fraction);
    return 0;
}

static clv_status never_cancels(clv_plugin_device *dev,
                                const clv_compile *compile,
                                clv_plugin_program **out)
{
    clv_compile c = *compile;
    wanted = compile;
    c.progress = go_on;
    return ref_program_compile(dev, &c, out);
}

/* One program fits, though no limit was stated. */
static clv_status one_program(clv_plugin_device *dev,
                              const clv_compile *compile,
                              clv_plugin_program **out)
{
    if (atomic_load(&dev->n_programs))
        return clv_fail(dev->host, CLV_ERR_LIMIT,
                        "hostile: there is one program already");
    return ref_program_compile(dev, compile, out);
}

static clv_status skips_check(clv_plugin_device *dev,
                              const clv_compile *compile,
                              clv_plugin_program **out)
{
    clv_compile c = *compile;
    c.header.next = NULL;
    return ref_program_compile(dev, &c, out);
}

static clv_status list_untouched(clv_plugin_program *prog,
                                 clv_program_info *out, const uint32_t *list,
                                 uint32_t n)
{
    clv_status status = ref_program_info(prog, out);
    out->untouched = list;
    out->n_untouched = n;
    return status;
}

static clv_status untouched_null(clv_plugin_program *prog,
                                 clv_program_info *out)
{
    return list_untouched(prog, out, NULL, 1);
}

static clv_status untouched_input(clv_plugin_program *prog,
                                  clv_program_info *out)
{
    static const uint32_t input = 0;
    return list_untouched(prog, out, &input, 1);
}

/* It reads and writes them all. */
static clv_status untouched_false(clv_plugin_program *prog,
                                  clv_program_info *out)
{
    static uint32_t list[64];
    uint32_t n = 0;
    for (uint32_t i = 0; i < prog->graph->n_tensors && n < 64; i++)
        if (prog->graph->tensors[i].usage == CLV_USAGE_TRANSIENT)
            list[n++] = i;
    return list_untouched(prog, out, list, n);
}

const hostile_mode hostile_programs[] = {
    {"accepts_garbage",
     "any bytes are a program",
     {.program_validate = accepts_all, .program_load = loads_all}},
    {"verdict_unknown", "9", {.program_validate = verdict_unknown}},
    {"validate_fails",
     "on bytes it does not like",
     {.program_validate = validate_fails}},
    {"load_crashes", "on damaged bytes", {.program_load = load_crashes}},
    {"key_constant", "one key for all", {.program_key = key_constant}},
    {"key_random", "a key never seen twice", {.program_key = key_random}},
    {"key_forgets_bucket",
     "one key for every bucket",
     {.program_key = key_forgets_bucket}},
    {"write_ignored",
     "serialises into a full disk",
     {.program_serialize = write_ignored}},
    {"serializes_nothing",
     "OK, and no bytes",
     {.program_serialize = serializes_nothing}},
    {"never_cancels",
     "compiles to the end",
     {.program_compile = never_cancels}},
    {"one_program",
     "a limit it did not state",
     {.program_compile = one_program}},
    {"untouched_null",
     "tensors that are not listed",
     {.program_info = untouched_null}},
    {"untouched_input",
     "an input that it does not read",
     {.program_info = untouched_input}},
    {"untouched_false",
     "transients that it needs",
     {.program_info = untouched_false}},
    {"skips_extensions",
     "also those that are required",
     {.program_compile = skips_check}},
    {0},
};

/* ------------------------------------------------------------------------ */

#define SPOIL_TRACE(name, ...)                                                 \
    static clv_status name(clv_plugin_device *dev, uint32_t *count,            \
                           clv_trace_record *out, uint32_t stride)             \
    {                                                                          \
        clv_status status = ref_trace_read(dev, count, out, stride);           \
        for (uint32_t i = 0; i < *count && !status; i++) {                     \
            clv_trace_record *r =                                              \
                (clv_trace_record *)((char *)out + (size_t)i * stride);        \
            __VA_ARGS__;                                                       \
        }                                                                      \
        return status;                                                         \
    }

#define HOUR 3600000000000u

SPOIL_TRACE(trace_backwards, uint64_t end = r->begin; r->begin = r->end + 1;
            r->end = end)
SPOIL_TRACE(trace_outside, r->begin += HOUR; r->end += HOUR)
SPOIL_TRACE(trace_other, r->correlation += 1)
SPOIL_TRACE(trace_name_endless, memset(r->name, 't', sizeof r->name))

static clv_status trace_too_many(clv_plugin_device *dev, uint32_t *count,
                                 clv_trace_record *out, uint32_t stride)
{
    clv_status status = ref_trace_read(dev, count, out, stride);
    *count = 1000000;
    return status;
}

/* Everything is recorded, asked for or not. */
static clv_status trace_always(clv_plugin_device *dev, const clv_submit *submit)
{
    clv_submit s = *submit;
    s.correlation = s.correlation ? s.correlation : 1;
    return ref_submit(dev, &s);
}

#define SPOIL_CALIBRATION(name, ...)                                           \
    static clv_status name(clv_plugin_device *dev, clv_calibration *out)       \
    {                                                                          \
        clv_status status = ref_calibrate(dev, out);                           \
        __VA_ARGS__;                                                           \
        return status;                                                         \
    }

SPOIL_CALIBRATION(tick_zero, out->tick_ns = 0)
SPOIL_CALIBRATION(tick_nan, out->tick_ns = (double)NAN)
SPOIL_CALIBRATION(tick_wrong, out->tick_ns *= 3)
SPOIL_CALIBRATION(clock_off, out->host_ns += HOUR)
SPOIL_CALIBRATION(clock_stands, out->device_tick = 1)

const hostile_mode hostile_times[] = {
    {"trace_backwards",
     "ends before it begins",
     {.trace_read = trace_backwards}},
    {"trace_outside", "an hour later", {.trace_read = trace_outside}},
    {"trace_other", "somebody else's", {.trace_read = trace_other}},
    {"trace_name_endless",
     "a name without its end",
     {.trace_read = trace_name_endless}},
    {"trace_too_many",
     "more than there was room for",
     {.trace_read = trace_too_many}},
    {"trace_always", "what nobody asked for", {.submit = trace_always}},
    {"tick_zero", "a tick of 0 ns", {.calibrate = tick_zero}},
    {"tick_nan", "of no number", {.calibrate = tick_nan}},
    {"tick_wrong", "three times as long", {.calibrate = tick_wrong}},
    {"clock_off", "an hour ahead", {.calibrate = clock_off}},
    {"clock_stands", "always 1", {.calibrate = clock_stands}},
    {0},
};
