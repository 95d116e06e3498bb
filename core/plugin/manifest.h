/*
 * A plugin's manifest, as plugin.h describes it: what the plugin says of itself
 * before any of its code runs.
 */
#pragma once

#include "../base/names.h"

#include <cleave/cleave.h>

#define CORE_MANIFEST_VALUE_MAX 512

typedef struct core_manifest {
    char name[CORE_PLUGIN_NAME_MAX + 1];
    uint32_t abi_min, abi_max;
    uint32_t kinds;      /* bit 1 << clv_device_kind */
    char abi[24];        /* "1" or "1-2" */
    char kinds_text[32]; /* "cpu gpu" */
    /* Words with blanks between, "": none. */
    char cpu[CORE_MANIFEST_VALUE_MAX];     /* features of the processor */
    char drivers[CORE_MANIFEST_VALUE_MAX]; /* as drivers.h explains */
} core_manifest;

/* text: size bytes from outside. CLV_ERR_FORMAT names the key that is wrong. */
clv_status core_manifest_parse(const char *text, size_t size,
                               core_manifest *out);
/* Whether the plugin can run here. name: what its file is named for; NULL: the
 * file may have any name. */
clv_status core_manifest_check(const core_manifest *manifest, const char *name);

/* "cpu", "gpu", "npu" or "other"; NULL for what is no clv_device_kind. */
const char *core_kind_name(uint32_t kind);
