#include "dispatch.h"

#include <cleave/plugin_util.h>

#include <string.h>

/* The levels that have kernels in this build. */
static const struct {
    cpu_level level;
    void (*fill)(cpu_kernels *table);
} built[] = {
    {CPU_LEVEL_REF, cpu_kernels_ref},
#ifdef CPU_HAS_AVX2
    {CPU_LEVEL_AVX2, cpu_kernels_avx2},
#endif
#ifdef CPU_HAS_AVX512
    {CPU_LEVEL_AVX512, cpu_kernels_avx512},
#endif
#ifdef CPU_HAS_AVX512VNNI
    {CPU_LEVEL_AVX512VNNI, cpu_kernels_avx512_vnni},
#endif
#ifdef CPU_TILES_EMULATED
    {CPU_LEVEL_AMX, cpu_kernels_amx_emulated},
#elif defined CPU_HAS_AMX
    {CPU_LEVEL_AMX, cpu_kernels_amx},
#endif
};
#define N_BUILT (sizeof built / sizeof *built)
#define BEST_BUILT built[N_BUILT - 1].level

static cpu_level best_level(void)
{
    cpu_level here = cpu_detect_level();
    return here < BEST_BUILT ? here : BEST_BUILT;
}

static clv_status pick_level(const clv_host_api *host, const char *features,
                             cpu_level *level)
{
    cpu_level best = best_level();
    if (!features || !strcmp(features, "auto")) {
        *level = best;
        return CLV_OK;
    }
    for (cpu_level i = CPU_LEVEL_REF; i < CPU_LEVEL_COUNT; i++) {
        if (strcmp(features, cpu_level_name(i)))
            continue;
        if (i > best)
            return clv_fail(host, CLV_ERR_UNSUPPORTED,
                            "cpu: option features: this %s has no %s, the "
                            "best here is %s; say auto or %s",
                            i > BEST_BUILT ? "build" : "machine", features,
                            cpu_level_name(best), cpu_level_name(best));
        *level = i;
        return CLV_OK;
    }
    return clv_fail(host, CLV_ERR_INVALID,
                    "cpu: option features: '%s' is not one of auto, ref, "
                    "avx2, avx512, avx512vnni, amx",
                    features);
}

clv_status cpu_dispatch(const clv_host_api *host, const char *features,
                        cpu_kernels *table, cpu_level *level)
{
    CLV_TRY(pick_level(host, features, level));
    memset(table, 0, sizeof *table);
    for (size_t i = 0; i < N_BUILT && built[i].level <= *level; i++)
        built[i].fill(table);
    return CLV_OK;
}
