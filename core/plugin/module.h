/*
 * Shared objects of plugins, mapped. The process has one handle for each file,
 * however many contexts use it at once or after one another.
 */
#pragma once

#include "plugin_file.h"

typedef struct core_module core_module;

/* Maps the file, with the true reason if it cannot be. stays(arg, query): once
 * mapped it stays for good; query is its CLV_PLUGIN_QUERY_SYMBOL or NULL. */
clv_status core_module_open(const core_plugin_file *file,
                            bool (*stays)(void *arg, void *query), void *arg,
                            core_module **out);
/* NULL if the file exports no such symbol. */
void *core_module_symbol(core_module *module, const char *name);
/* The last user's unmaps what does not stay. NULL is legal. */
void core_module_close(core_module *module);
