#include "dispatch.h"

#include <cleave/plugin_util.h>

#include <string.h>

/* The best level that has kernels in this build. */
static cpu_level built_level(void)
{
#ifdef CPU_X86
    return CPU_LEVEL_AVX512VNNI;
#else
    return CPU_LEVEL_REF;
#endif
}

static cpu_level best_level(void)
{
    cpu_level built = built_level(), here = cpu_detect_level();
    return here < built ? here : built;
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
                            "cpu: option features: this machine has no %s, "
                            "its best is %s; say auto or %s",
                            features, cpu_level_name(best),
                            cpu_level_name(best));
        *level = i;
        return CLV_OK;
    }
    return clv_fail(host, CLV_ERR_INVALID,
                    "cpu: option features: '%s' is not one of auto, ref, "
                    "avx2, avx512, avx512vnni",
                    features);
}

clv_status cpu_dispatch(const clv_host_api *host, const char *features,
                        cpu_kernels *table, cpu_level *level)
{
    CLV_TRY(pick_level(host, features, level));
    memset(table, 0, sizeof *table);
    cpu_kernels_ref(table);
#ifdef CPU_X86
    if (*level >= CPU_LEVEL_AVX2)
        cpu_kernels_avx2(table);
    if (*level >= CPU_LEVEL_AVX512)
        cpu_kernels_avx512(table);
    if (*level >= CPU_LEVEL_AVX512VNNI)
        cpu_kernels_avx512_vnni(table);
#endif
    return CLV_OK;
}
