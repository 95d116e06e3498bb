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

static bool names_device(const char *item, size_t n, const core_offer *o)
{
    return core_item_is(item, n, o->id) || core_item_is(item, n, o->number);
}

int core_device_position(const clv_context *ctx, const core_offer *offer)
{
    const char *list = clv_config_get(ctx->config, "core.devices"), *item;
    size_t n;
    int position = 0;
    while (core_next_item(&list, ", ", &item, &n)) {
        if (names_device(item, n, offer) ||
            core_item_is(item, n, offer->plugin->name))
            return position;
        position++;
    }
    return position ? INT_MAX : 0;
}

bool core_device_listed(const clv_context *ctx, const core_offer *offer)
{
    const char *list = clv_config_get(ctx->config, "core.devices"), *item;
    size_t n;
    while (core_next_item(&list, ", ", &item, &n))
        if (names_device(item, n, offer))
            return true;
    return false;
}
