#include "selection.h"

#include "../base/names.h"

#include <limits.h>
#include <string.h>

bool core_plugin_allowed(const clv_context *ctx, const char *name)
{
    const char *list = clv_config_get(ctx->config, "core.plugins"), *item;
    size_t n;
    bool any = false, named = false;
    while (core_next_item(&list, ", ", &item, &n)) {
        if (item[0] == '-') {
            if (core_item_is(item + 1, n - 1, name))
                return false;
        } else {
            any = true;
            named |= core_item_is(item, n, name);
        }
    }
    return named || !any;
}

bool core_plugin_wanted(const clv_context *ctx, const char *name)
{
    const char *list = clv_config_get(ctx->config, "core.devices"), *item;
    size_t n;
    bool any = false;
    while (core_next_item(&list, ", ", &item, &n)) {
        const char *colon = memchr(item, ':', n);
        if (core_item_is(item, colon ? (size_t)(colon - item) : n, name))
            return true;
        any = true;
    }
    return !any;
}

void core_device_select(const clv_context *ctx, core_offer *o)
{
    const char *list = clv_config_get(ctx->config, "core.devices"), *item;
    size_t n;
    int i = 0;
    o->position = INT_MAX;
    for (; core_next_item(&list, ", ", &item, &n); i++) {
        const bool named =
            core_item_is(item, n, o->id) || core_item_is(item, n, o->number);
        o->is_named |= named;
        if ((named || core_item_is(item, n, o->plugin->name)) &&
            i < o->position)
            o->position = i;
    }
    if (!i)
        o->position = 0;
}
