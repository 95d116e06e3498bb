/* Mapped shared objects of plugins: one for each file in a process, shared by
 * all contexts. */
#pragma once

#include "plugin_file.h"

typedef struct core_module core_module;

/* Maps the file. stays(arg, query): whether it is never unmapped; query is its
 * CLV_PLUGIN_QUERY_SYMBOL or NULL. */
clv_status core_module_open(const core_plugin_file *file,
                            bool (*stays)(void *arg, void *query), void *arg,
                            core_module **out);
/* NULL if the file exports no such symbol. */
void *core_module_symbol(core_module *module, const char *name);
/* The last call unmaps the file, unless it stays. NULL is legal. */
void core_module_close(core_module *module);
