#include "rig.h"
#include "../../kit/run/batch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct state {
    const kit_case *cases;
    uint32_t failed;
} state;

static bool on_verdict(void *ctx, uint32_t item, const kit_verdict *verdict)
{
    state *s = ctx;
    const bool passed = verdict->outcome == KIT_PASSED;
    const bool skipped = verdict->outcome == KIT_SKIPPED;
    printf("%s %u - %s%s%s\n", passed || skipped ? "ok" : "not ok", item + 1,
           s->cases[item].name, skipped ? " # SKIP " : "",
           skipped ? verdict->text : "");
    if (!passed && !skipped)
        printf("# %s\n", verdict->text);
    s->failed += !passed && !skipped;
    return true;
}

int cpu_cases_run(const kit_case *cases, uint32_t n)
{
    const char *build = getenv("CLEAVE_TEST_BUILD");
    char path[4096], dir[4096], error[KIT_TEXT_SIZE];
    char run_dir[] = "/tmp/cleave-cpu-test-XXXXXX";
    state s = {.cases = cases};
    kit_item items[64];
    if (n > 64 || !mkdtemp(run_dir))
        return 1;
    snprintf(dir, sizeof dir, "%s/plugins", build ? build : ".");
    snprintf(path, sizeof path, "%.4000s/cleave_cpu.so", dir);
    kit_config config = {.path = path,
                         .dir = dir,
                         .seed = 1,
                         .timeout_ns = 60000000000u,
                         .run_dir = run_dir};
    for (uint32_t i = 0; i < n; i++)
        items[i] = (kit_item){.of = &cases[i], .name = cases[i].name};
    kit_batch batch = {.config = &config,
                       .items = items,
                       .n_items = n,
                       .device = 0,
                       .silent = true,
                       .ctx = &s,
                       .on_verdict = on_verdict};
    printf("1..%u\n", n);
    fflush(stdout);
    kit_batch_end end = kit_batch_run(&batch, error);
    rmdir(run_dir);
    return end != KIT_BATCH_DONE || s.failed;
}

kit_plugin *cpu_reopen(kit *k, const char *const *settings, uint32_t n)
{
    static kit_config config; /* of this process, which is the case's */
    kit_drop_under_test(k);
    if (k->config != &config)
        config = *k->config;
    config.settings = settings;
    config.n_settings = n;
    k->config = &config;
    return kit_under_test(k);
}

void cpu_matmul_graph(kit *k, kit_graph *g)
{
    kit_graph_init(k, g);
    kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_INPUT, 4, 64, 0);
    kit_add_tensor(g, CLV_DTYPE_Q8_0, CLV_USAGE_WEIGHT, 8, 64, 0);
    kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 4, 8, 0);
    KIT_NODE(g, CLV_OP_MATMUL, 2, 0, 1);
}

void cpu_layer_graph(kit *k, kit_graph *g, uint32_t weights, int64_t n)
{
    const uint32_t f32 = CLV_DTYPE_F32;
    kit_graph_init(k, g);
    kit_add_tensor(g, f32, CLV_USAGE_INPUT, n, 64, 0);             /* 0 x */
    kit_add_tensor(g, f32, CLV_USAGE_WEIGHT, 0, 64, 0);            /* 1 norm */
    kit_add_tensor(g, weights, CLV_USAGE_WEIGHT, 64, 64, 0);       /* 2 wq */
    kit_add_tensor(g, weights, CLV_USAGE_WEIGHT, 32, 64, 0);       /* 3 wk */
    kit_add_tensor(g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, n, 0);    /* 4 pos */
    kit_add_tensor(g, f32, CLV_USAGE_WEIGHT, 0, 8, 0);             /* 5 freq */
    kit_add_tensor(g, CLV_DTYPE_F16, CLV_USAGE_STATE, 128, 32, 0); /* 6 cache */
    kit_add_tensor(g, f32, CLV_USAGE_TRANSIENT, n, 64, 0); /* 7 normed */
    kit_add_tensor(g, f32, CLV_USAGE_TRANSIENT, n, 64, 0); /* 8 q */
    kit_add_tensor(g, f32, CLV_USAGE_TRANSIENT, n, 32, 0); /* 9 k */
    kit_add_tensor(g, f32, CLV_USAGE_TRANSIENT, n, 64, 0); /* 10 mixed */
    kit_add_tensor(g, f32, CLV_USAGE_OUTPUT, n, 64, 0);    /* 11 y */
    for (int64_t i = 0; i < n; i++)
        kit_set(g, 4, 0, i, (double)i);
    KIT_NODE(g, CLV_OP_RMS_NORM, 7, 0, 1)->attr.norm.eps = 1e-5f;
    KIT_NODE(g, CLV_OP_MATMUL, 8, 7, 2);
    KIT_NODE(g, CLV_OP_MATMUL, 9, 7, 3);
    KIT_NODE(g, CLV_OP_ROPE, 8, 8, 4, 5)->attr.rope.head_dim = 16;
    KIT_NODE(g, CLV_OP_ROPE, 9, 9, 4, 5)->attr.rope.head_dim = 16;
    KIT_NODE(g, CLV_OP_SET_ROWS, CLV_NO_TENSOR, 6, 9, 4);
    clv_node *attention = KIT_NODE(g, CLV_OP_ATTENTION, 10, 8, 6, 6, 4);
    attention->attr.attention.head_dim = 16;
    attention->attr.attention.scale = 0.25f;
    KIT_NODE(g, CLV_OP_ADD, 11, 10, 0);
}
