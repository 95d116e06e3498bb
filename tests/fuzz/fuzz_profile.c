/* Kept measurements: what is taken over can be asked, and kept again. */
#include "../../planner/profile/store.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void need(bool good)
{
    if (!good)
        abort();
}

/* Whatever the models are, they answer a time. */
static void ask(const planner_profile_device *dev)
{
    static const int64_t sizes[] = {1, 33, 4096, INT64_C(1) << 40};
    for (uint32_t i = 0; i < dev->n_kinds; i++)
        for (int j = 0; j < 4; j++) {
            const planner_profile_kind *k = &dev->kinds[i];
            const planner_workload workload = {.kind = k->kind,
                                               .n = sizes[j],
                                               .in = 64,
                                               .out = sizes[3 - j],
                                               .depth = 70};
            double x[PLANNER_FIT_FEATURES];
            planner_profile_sample(dev, &workload);
            planner_workload_features(&workload, x);
            if (k->fit.n_samples)
                need(planner_fit_predict(&k->fit, x) >= 0);
        }
}

static planner_profile_device make(void)
{
    return (planner_profile_device){.key = strdup("fuzz")};
}

static void finish(planner_profile_device *dev)
{
    planner_profile_forget(dev);
    for (uint32_t i = 0; i < dev->n_retired; i++)
        free(dev->retired[i]);
    free(dev->retired);
    free(dev->key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    planner_profile_device dev = make(), again = make();
    double alone[2], slowdown[2];
    planner_contention c = {.alone = alone, .slowdown = slowdown};
    char *text = NULL;
    planner_profile_parse_set((const char *)data, size, dev.key, 2, &c);
    if (!planner_profile_parse(&dev, (const char *)data, size)) {
        ask(&dev);
        need(!planner_profile_format(&dev, &text));
        need(!planner_profile_parse(&again, text, strlen(text)));
        need(again.n_samples == dev.n_samples && again.n_kinds == dev.n_kinds);
    }
    free(text);
    finish(&dev);
    finish(&again);
    return 0;
}
