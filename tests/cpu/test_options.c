/* The plugin's options, and what it says of itself and of its device. */
#include "rig.h"
#include "../../kit/work/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const levels[] = {"ref", "avx2", "avx512", "avx512vnni",
                                     "amx"};

/* What option("features") answers, and the kit's own answer to the rest. */
static const char *features;
static const char *(*kit_option)(clv_host *host, const char *key);

static const char *option(clv_host *host, const char *key)
{
    return strcmp(key, "features") ? kit_option(host, key) : features;
}

/* A create with that value of the option. */
static clv_status create_with(kit *k, const char *value)
{
    kit_plugin p;
    clv_plugin_instance *inst = NULL;
    kit_drop_under_test(k);
    kit_plugin_load(k, &p);
    features = value;
    kit_option = p.host.api.option;
    p.host.api.option = option;
    clv_status status = p.api.create(&p.host.api, &inst);
    KIT_CHECK(k, !status == !!inst, "features=%s: %d and an instance at %p",
              value, status, (void *)inst);
    KIT_CHECK(k, !status || strstr(p.host.error, value),
              "'%s' does not name '%s'", p.host.error, value);
    if (inst)
        KIT_OK(k, p.api.quiesce(inst), "quiesce");
    p.api.destroy(inst);
    KIT_CHECK(k, !p.host.n_blocks, "%u blocks are left", p.host.n_blocks);
    kit_plugin_unload(&p);
    return status;
}

/* Levels are had from the bottom up; what is missing says so. */
static void run_features(kit *k, const void *arg)
{
    bool refused = false;
    (void)arg;
    for (int i = 0; i < 4; i++) {
        clv_status status = create_with(k, levels[i]);
        KIT_CHECK(k, !refused || status, "%s works, but a lower level does not",
                  levels[i]);
        KIT_CHECK(k, !status || (i && status == CLV_ERR_UNSUPPORTED),
                  "%s: create answers %d", levels[i], status);
        refused |= status != CLV_OK;
    }
    clv_status status = create_with(k, "sse9");
    KIT_CHECK(k, status == CLV_ERR_INVALID, "sse9: create answers %d", status);
}

static void run_device(kit *k, const void *arg)
{
    static const char *const settings[] = {"cpu.threads=5", "cpu.features=ref"};
    (void)arg;
    const kit_plugin *p = cpu_reopen(k, settings, 2);
    KIT_CHECK(k, !strcmp(p->api.name, "cpu") && p->n_devices == 1,
              "'%s' has %u devices", p->api.name, p->n_devices);
    KIT_CHECK(
        k, p->api.flags == (CLV_PLUGIN_UNLOADABLE | CLV_PLUGIN_SPAWNS_THREADS),
        "flags are %#x", p->api.flags);
    KIT_CHECK(
        k, !p->info.id[0] && p->info.name[0] && p->info.kind == CLV_DEVICE_CPU,
        "device '%s', '%s', of kind %u", p->info.id, p->info.name,
        p->info.kind);
    KIT_CHECK(k, p->info.units == 5, "5 threads were asked for, there are %u",
              p->info.units);
    KIT_CHECK(k, strstr(p->info.driver, "ref"), "the driver is '%s'",
              p->info.driver);
    KIT_CHECK(k, p->n_mem_types == 1 && p->mem_types[0].import_align == 1,
              "memory: %u types, imports at %llu", p->n_mem_types,
              (unsigned long long)p->mem_types[0].import_align);
}

static uint8_t *product(kit *k)
{
    kit_graph g;
    k->random = 12345;
    cpu_matmul_graph(k, &g);
    kit_run(&g, 0);
    uint8_t *result = malloc(g.tensors[2].size);
    KIT_CHECK(k, result, "no memory for a result");
    memcpy(result, g.tensors[2].data, g.tensors[2].size);
    kit_graph_free(&g);
    return result;
}

/* An instance with other kernels does not change those of the first, whose
 * products are made of integers where the machine has more than ref. */
static void run_two_levels(kit *k, const void *arg)
{
    static const char *const ref[] = {"cpu.threads=3", "cpu.features=ref"};
    kit_plugin other;
    (void)arg;
    kit_under_test(k);
    uint8_t *before = product(k);
    const kit_config *own = k->config;
    kit_config config = *own;
    config.settings = ref;
    config.n_settings = 2;
    k->config = &config;
    kit_plugin_load(k, &other);
    kit_plugin_create(&other);
    kit_plugin_open(&other, 0);
    k->config = own;
    KIT_CHECK(k, strstr(other.info.driver, "ref"), "the driver is '%s'",
              other.info.driver);
    kit_use(k, &other);
    uint8_t *after = product(k);
    KIT_CHECK(k, !memcmp(before, after, 4 * 8 * 4),
              "a second instance changed what the first makes");
    kit_plugin_close(&other);
    kit_plugin_destroy(&other);
    kit_plugin_unload(&other);
    free(before);
    free(after);
}

/* Closing in the other order: quiesce joins what is still open, and destroy
 * takes it along. */
static void run_quiesce_open_device(kit *k, const void *arg)
{
    static const char *const settings[] = {"cpu.threads=3"};
    kit_plugin *p;
    (void)arg;
    kit_drop_under_test(k);
    int before = kit_count_entries(k, "/proc/self/task");
    p = cpu_reopen(k, settings, 1);
    kit_use(k, p);
    KIT_CHECK(k, kit_count_entries(k, "/proc/self/task") > before,
              "three threads were asked for, none was begun");
    KIT_OK(k, p->api.quiesce(p->inst), "quiesce with an open device");
    int after = kit_count_threads(k, before);
    KIT_CHECK(k, after == before, "%d threads after quiesce, %d before", after,
              before);
    p->api.destroy(p->inst);
    KIT_CHECK(k, !p->host.n_blocks, "%u blocks are left", p->host.n_blocks);
    p->inst = NULL; /* the rest goes with the process */
    p->dev = NULL;
}

int main(void)
{
    static const kit_case cases[] = {
        {.name = "features", .run = run_features},
        {.name = "device", .run = run_device},
        {.name = "two_levels", .run = run_two_levels},
        {.name = "quiesce_open_device", .run = run_quiesce_open_device},
    };
    return cpu_cases_run(cases, sizeof cases / sizeof *cases);
}
