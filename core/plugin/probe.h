/*
 * A trial of a plugin in a process of its own, before it is mapped into this
 * one: a plugin that crashes, exits or hangs does so there. Each of its devices
 * compiles and runs one small node. Where one of several devices crashes, as
 * its driver is broken, the plugin is tried again without it.
 * core.probe says when: "auto" once for each file and its settings, remembered
 * in core.cache_dir if all devices are well; "always"; "off".
 */
#pragma once

#include "../context/context.h"
#include "plugin_file.h"

typedef struct core_trial {
    bool passed;        /* now or earlier */
    bool keep;          /* it crashes on the way out: never to be torn down */
    char left_out[512]; /* ids of the devices that crash, with blanks between;
                           the plugin is used without them */
    char note[1024];    /* what is odd, for its candidate; "" if nothing is */
} core_trial;

/* CLV_ERR_REFUSED: it crashed or hung while it was opened. CLV_OK otherwise,
 * also where no trial is wanted or possible. */
clv_status core_probe(clv_context *ctx, const core_plugin_file *file,
                      const char *name, core_trial *out);
