/* What the command line asked for; read by every process. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct kit_config {
    const char *path;            /* absolute */
    const char *dir;             /* the path's directory */
    const char *const *settings; /* [n_settings] "NAME.key=VALUE", or of one
                                    device "NAME:DEVICE.key=VALUE" */
    uint32_t n_settings;
    uint32_t n_filed; /* of them, the first ones, from files: those
                         of other sections are none of ours */
    uint64_t seed;
    uint64_t timeout_ns; /* of a case */
    bool thorough;
    const char *run_dir; /* processes make their directories in it */
} kit_config;

/* The value of a setting, the last one given; NULL if there is none. section:
 * "vpu" or "vpu:large". */
const char *kit_setting(const kit_config *config, const char *section,
                        const char *key);
