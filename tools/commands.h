/* The commands, each in its own file. */
#pragma once

#include "env.h"
#include "plans.h"

extern const tool_command tool_run, tool_bench, tool_perplexity, tool_verify,
    tool_tokenize, tool_devices, tool_quantize, tool_convert, tool_plan,
    tool_profile, tool_template;

/* Options for structs with a member model, kv_type. */
#define TOOL_MODEL_HELP                                                        \
    "GGUF file, Hugging Face directory, or synth:NAME[:QUANT] (default: the "  \
    "bundled model)"
#define TOOL_OPTION_MODEL(type)                                                \
    TOOL_OPT_STRING('m', "model", "PATH", offsetof(type, model),               \
                    TOOL_MODEL_HELP)
/* For structs with a tool_weights weights. */
#define TOOL_OPTIONS_WEIGHTS(type)                                             \
    TOOL_OPT_FLAG(0, "mmap", offsetof(type, weights.mmap),                     \
                  "map the model's files; --no-mmap copies them into memory: " \
                  "they may change then"),                                     \
        TOOL_OPT_FLAG(0, "mlock", offsetof(type, weights.mlock),               \
                      "keep the model's files in physical memory")
#define TOOL_OPTION_KV_TYPE(type)                                              \
    TOOL_OPT_CHOICE(0, "kv-type", "TYPE", offsetof(type, kv_type),             \
                    "f16|f32|q8_0",                                            \
                    "element type of the KV cache, f16, f32 or q8_0")
