/*
 * The options, once for each device: the key ends in the device's number.
 * A list, so that variants of the plugin declare the same ones.
 */
#pragma once

#include <cleave/plugin.h>

#define REF_OPTION(key_, type_, value_, min_, max_, help_)                     \
    {                                                                          \
        .header = {sizeof(clv_option), CLV_STRUCT_OPTION, NULL}, .key = key_,  \
        .default_value = value_, .help = help_, .type = CLV_OPTION_##type_,    \
        .min = min_, .max = max_                                               \
    }

#define REF_DEVICE_OPTIONS(i)                                                  \
    REF_OPTION("ops" i, STRING, "all", 0, 0, "ops it takes, or all"),          \
        REF_OPTION("name" i, STRING, "reference " i, 0, 0, "for people"),      \
        REF_OPTION("memory" i, STRING, "coherent,shadow,local,shared", 0, 0,   \
                   "its memory types in this order"),                          \
        REF_OPTION("import" i, STRING, "on", 0, 0,                             \
                   "memory from elsewhere that can be used: on; mapped: in "   \
                   "place of the host's what its devices map; off"),           \
        REF_OPTION("import_writable" i, BOOL, "off", 0, 0,                     \
                   "only such as can be written"),                             \
        REF_OPTION("max_buffer" i, INT, "0", 0, 1e15,                          \
                   "bytes of the largest buffer; 0: no bound"),                \
        REF_OPTION("memory_size" i, INT, "0", 0, 1e15,                         \
                   "bytes of its memory; 0: it does not say"),                 \
        REF_OPTION("repacks" i, BOOL, "off", 0, 0,                             \
                   "programs count a second copy of their weights"),           \
        REF_OPTION("static" i, STRING, "", 0, 0,                               \
                   "row counts it compiles for; empty: any"),                  \
        REF_OPTION("rows" i, STRING, "0,0,0", 0, 0,                            \
                   "min, max, multiple of output features"),                   \
        REF_OPTION("sequence" i, STRING, "0,0,0", 0, 0,                        \
                   "min, max, multiple of activation rows"),                   \
        REF_OPTION("channels" i, STRING, "0,0,0", 0, 0,                        \
                   "min, max, multiple of input features"),                    \
        REF_OPTION("align" i, INT, "0", 0, 4096, "bytes tensors begin at"),    \
        REF_OPTION("stride_align" i, INT, "0", 0, 4096,                        \
                   "bytes rows begin at"),                                     \
        REF_OPTION("states" i, STRING, "linear", 0, 0,                         \
                   "layout it prefers for states: linear; weights; fickle: "   \
                   "weights, but then no attention takes them"),               \
        REF_OPTION("weights" i, STRING, "linear", 0, 0,                        \
                   "layout it prefers for weights: linear; private; fickle: "  \
                   "private, but then no product takes them"),                 \
        REF_OPTION("split" i, BOOL, "on", 0, 0, "whether ops can be divided"), \
        REF_OPTION("in_place" i, BOOL, "off", 0, 0,                            \
                   "whether outputs may share inputs' memory"),                \
        REF_OPTION("variants" i, BOOL, "off", 0, 0,                            \
                   "whether it has variants of products"),                     \
        REF_OPTION("hide" i, BOOL, "off", 0, 0,                                \
                   "keeps transients to itself, as if fused away"),            \
        REF_OPTION("queue_depth" i, INT, "4", 1, 64,                           \
                   "submits in flight in a queue"),                            \
        REF_OPTION("copy_queues" i, INT, "0", 0, 2,                            \
                   "that copy beside the others' work"),                       \
        REF_OPTION("max_programs" i, INT, "0", 0, 1e6,                         \
                   "programs resident at once; 0: no bound"),                  \
        REF_OPTION("progress" i, BOOL, "off", 0, 0,                            \
                   "works only while the host calls progress"),                \
        REF_OPTION("flag_wait" i, BOOL, "off", 0, 0,                           \
                   "waits for flag words of other devices"),                   \
        REF_OPTION("virtual" i, BOOL, "off", 0, 0, "in virtual time"),         \
        REF_OPTION("tick_ns" i, INT, "1", 1, 1e6, "length of a tick"),         \
        REF_OPTION("trace_nodes" i, INT, "0", 0, 8,                            \
                   "records of each node, beside those of commands"),          \
        REF_OPTION("trace_fused" i, INT, "1", 1, 8,                            \
                   "nodes that are recorded as the first of them"),            \
        REF_OPTION("driver" i, STRING, "1", 0, 0, "version of the driver"),    \
        REF_OPTION("fail_after" i, INT, "0", 0, 1e6,                           \
                   "the submit that fails; 0: none"),                          \
        REF_OPTION("delay_us" i, INT, "0", 0, 1e7, "added to every submit")

#define REF_OPTIONS                                                            \
    REF_OPTION("devices", INT, "2", 0, 2, "how many devices there are"),       \
        REF_DEVICE_OPTIONS("0"), REF_DEVICE_OPTIONS("1")
