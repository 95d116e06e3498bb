/*
 * Finds plugin files, loads those that may be loaded, opens their devices, and
 * remembers how each file fared.
 */
#pragma once

#include "context.h"

typedef struct core_loader core_loader;

/* Fills ctx->plugins and ctx->devices. Fails only for what the user asked and
 * cannot have, or for memory; a plugin that fails does not count. */
clv_status core_loader_run(clv_context *ctx);
/* Closes devices and plugins again. */
void core_loader_finish(clv_context *ctx);

/* CLV_ERR_NOT_FOUND that says why the context has no device. */
clv_status core_loader_no_device(const clv_context *ctx);
