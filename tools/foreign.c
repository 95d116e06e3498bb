#include "foreign.h"

#define PLACED                                                                 \
    "the plan places the work by measured costs; choose devices with "         \
    "--devices ('cleave devices' lists them, 'cleave plan' shows where the "   \
    "work goes)"
#define FROM_FILE                                                              \
    "positions are scaled as the model's file says; change rope_scaling in "   \
    "config.json, or take a file that was written for longer contexts"
#define NOT_LOADED "adapters are not loaded; merge them into the weights first"

/* clang-format off */
const tool_foreign tool_llama_flags[] = {
    /* What is so here in any case. */
    {"-fa|flash-attn", 0, "on|off|auto|0|1", true,
     "attention is always computed in one pass, without a matrix of scores"},
    {"no-warmup|warmup", 0, NULL, true, "there is no run to warm up; what is "
     "compiled or measured is kept for later runs"},
    {"simple-io", 0, NULL, true, "text goes out as it is"},
    {"color|colors", 0, "on|off|auto", true, "text goes out without colours"},
    {"-cb|cont-batching|-nocb|no-cont-batching", 0, NULL, true,
     "there is one text, nothing to batch"},
    {"-kvu|kv-unified|no-kv-unified", 0, NULL, true,
     "there is one text with one cache"},
    {"swa-full", 0, NULL, true, "the cache always keeps all positions"},
    {"-dt|defrag-thold", 1, NULL, true, "the cache has no gaps to close"},
    {"jinja", 0, NULL, true, "templates are always read as Jinja"},
    {"check-tensors", 0, NULL, true, "files are always checked"},
    {"offline", 0, NULL, true, "nothing is ever downloaded"},
    /* What another option does. */
    {"-ngl|gpu-layers|n-gpu-layers", 1, NULL, false, PLACED},
    {"-ot|override-tensor", 1, NULL, false, PLACED},
    {"-ncmoe|n-cpu-moe", 1, NULL, false, PLACED},
    {"-cmoe|cpu-moe", 0, NULL, false, PLACED},
    {"-nkvo|no-kv-offload|-kvo|kv-offload", 0, NULL, false, PLACED},
    {"no-op-offload|op-offload|-nr|no-repack|repack", 0, NULL, false, PLACED},
    {"-sm|split-mode", 1, NULL, false, PLACED},
    {"-ts|tensor-split", 1, NULL, false,
     "the plan divides the work by measured costs; limit a device's part with "
     "--set 'DEVICE.max_share=0.5'"},
    {"-mg|main-gpu", 1, NULL, false, PLACED},
    {"list-devices", 0, NULL, false, "'cleave devices' does that"},
    {"-tb|threads-batch", 1, NULL, false,
     "one number of threads serves prompt and text; give it with -t"},
    {"-C|cpu-mask|-Cr|cpu-range|-Cb|cpu-mask-batch|-Crb|cpu-range-batch|numa",
     1, NULL, false, "threads keep to the cores that the process may use; run "
     "it under taskset or numactl"},
    {"prio|prio-batch|poll|poll-batch|cpu-strict", 1, NULL, false,
     "priorities are the system's (nice), and waiting is core.sync's "
     "(--set core.sync=...)"},
    {"-np|parallel", 1, NULL, false, "there is one text at a time; run the "
     "program several times"},
    {"rope-scaling|rope-scale|rope-freq-base|rope-freq-scale|yarn-orig-ctx|"
     "yarn-ext-factor|yarn-attn-factor|yarn-beta-slow|yarn-beta-fast", 1, NULL,
     false, FROM_FILE},
    {"lora|control-vector", 1, NULL, false, NOT_LOADED},
    {"lora-scaled|control-vector-scaled", 2, NULL, false, NOT_LOADED},
    {"-hf|-hfr|hf-repo|-hff|hf-file|-mu|model-url", 1, NULL, false,
     "nothing is downloaded; get the file and give it with -m"},
    {"-md|model-draft|draft|draft-max|draft-min|draft-p-min", 1, NULL, false,
     "there is no draft model; leave it out"},
    {"-gan|grp-attn-n|-gaw|grp-attn-w", 1, NULL, false,
     "self-extend is not there; choose a model for longer contexts"},
    {"prompt-cache", 1, NULL, false,
     "prompts are not kept between runs; leave it out"},
    {"prompt-cache-all|prompt-cache-ro", 0, NULL, false,
     "prompts are not kept between runs; leave it out"},
    {"sampler-seq|sampling-seq", 1, NULL, false,
     "--samplers takes the names in their order"},
    {"override-kv", 1, NULL, false, "the model's file says it; write another "
     "one with 'cleave convert'"},
    {"-bf|binary-file", 1, NULL, false, "-f takes the file as it is, less one "
     "newline at its end"},
    {"log-disable|no-perf", 0, NULL, false, "-q does that"},
    {"log-file", 1, NULL, false, "messages go to standard error: 2>FILE"},
    {"-lv|verbosity|log-verbosity", 1, NULL, false, "--log-level does that"},
    {"verbose-prompt", 0, NULL, false, "'cleave tokenize' shows the tokens"},
    {0},
};
/* clang-format on */
