/*
 * The devices that plugins offer, and which of them are used: those that
 * core.devices lists, in its order. What two plugins offer is used once.
 */
#pragma once

#include "../device/device.h"
#include "candidate.h"

typedef struct core_offer {
    core_candidate *candidate; /* its plugin's file */
    core_plugin *plugin;
    uint32_t index; /* as enumerated */
    int position;   /* in core.devices, by id, number or plugin; INT_MAX: it is
                       not listed; 0: there is no list */
    bool is_named;  /* core.devices lists it by its id or number */
    bool is_duplicate; /* another plugin's device is this one */
    bool is_refused;   /* it could not be opened, or its trial failed */
    char id[CORE_DEVICE_ID_SIZE];
    char number[CORE_DEVICE_ID_SIZE]; /* as in core_device */
    clv_device_info info;
} core_offer;

typedef struct core_offers {
    core_offer *list;
    uint32_t n;
} core_offers;

/* Enumerates the plugin's devices, of which those are refused whose ids
 * left_out lists, with blanks between. */
clv_status core_offers_collect(clv_context *ctx, core_plugin *plugin,
                               core_candidate *candidate, const char *left_out);
/* Opens the devices wanted into ctx->devices. The others are used where one
 * fails; its candidate notes the first failure. */
clv_status core_offers_open(clv_context *ctx);
/* Whether a plugin for processors alone offers the host's. */
bool core_offers_processor(const clv_context *ctx);
/* Every item of core.devices names a device that is open, or a plugin whose
 * devices are open by another one's. */
clv_status core_offers_check(const clv_context *ctx);
