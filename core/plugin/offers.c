#include "offers.h"
#include "../base/error.h"

#include "../base/names.h"
#include "../device/answer.h"
#include "drivers.h"
#include "loader.h"
#include "plugin_module.h"
#include "sample.h"
#include "selection.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

clv_status core_offers_collect(clv_context *ctx, core_plugin *plugin,
                               core_candidate *candidate, const char *left_out)
{
    core_offers *all = &ctx->loader->offers;
    clv_device_info *infos;
    uint32_t n;
    uint64_t serial = core_error_serial();
    CLV_TRY(core_plugin_enumerate(plugin, &infos, &n));
    if (!n && core_error_serial() != serial)
        core_candidate_note(ctx, candidate, CLV_LOG_INFO, "%s",
                            clv_last_error());
    core_offer *list =
        reallocarray(all->list, all->n + (size_t)n + 1, sizeof *list);
    if (!list) {
        free(infos);
        return core_no_memory("for the devices");
    }
    all->list = list;
    for (uint32_t i = 0; i < n; i++) {
        core_offer *o = &list[all->n++];
        *o = (core_offer){.candidate = candidate,
                          .plugin = plugin,
                          .index = i,
                          .info = infos[i]};
        core_device_id(plugin, &infos[i], o->id);
        o->is_refused = core_list_has(left_out, " ", o->id);
        core_device_number(plugin, infos, n, i, o->number);
        core_device_select(ctx, o);
    }
    free(infos);
    return CLV_OK;
}

static bool is_processor(const clv_device_info *info)
{
    return info->kind == CLV_DEVICE_CPU && info->clock == CLV_CLOCK_REAL;
}

/* The host's processor, by a plugin that is made for other hardware too: a GPU
 * driver in software. */
static bool is_software(const core_offer *o)
{
    return is_processor(&o->info) &&
           o->plugin->manifest->kinds != 1u << CLV_DEVICE_CPU;
}

static bool comes_before(const core_offer *a, const core_offer *b)
{
    if (a->position != b->position)
        return a->position < b->position;
    return !is_software(a) && is_software(b);
}

/* Stable: devices named by their plugin keep the order they were found in, but
 * GPU drivers in software come last. */
static void sort(core_offers *all)
{
    for (uint32_t i = 1; i < all->n; i++) {
        core_offer o = all->list[i];
        uint32_t j = i;
        for (; j && comes_before(&o, &all->list[j - 1]); j--)
            all->list[j] = all->list[j - 1];
        all->list[j] = o;
    }
}

static bool has_flag(const core_offer *o)
{
    return o->position < INT_MAX && !o->is_refused &&
           o->info.flags & CLV_DEVICE_PEER_WAIT;
}

/* Whether the device is one of several of its plugin that wait for each other
 * without the host. */
static bool has_peers(const core_offers *all, const core_offer *o)
{
    for (uint32_t i = 0; i < all->n && has_flag(o); i++)
        if (&all->list[i] != o && all->list[i].plugin == o->plugin &&
            has_flag(&all->list[i]))
            return true;
    return false;
}

static bool same_uuid(const clv_device_info *a, const clv_device_info *b)
{
    static const uint8_t unknown[sizeof a->uuid];
    return memcmp(a->uuid, unknown, sizeof unknown) &&
           !memcmp(a->uuid, b->uuid, sizeof unknown);
}

/* Of the same hardware by two plugins, what has peers comes first: it divides
 * one token's work, whose parts wait for each other twice a layer. */
static void prefer_peers(core_offers *all)
{
    for (uint32_t i = 1; i < all->n; i++) {
        const core_offer o = all->list[i];
        uint32_t to = 0;
        while (to < i && (all->list[to].plugin == o.plugin ||
                          all->list[to].position != o.position ||
                          !same_uuid(&all->list[to].info, &o.info)))
            to++;
        if (to == i || !has_peers(all, &all->list[i]) ||
            has_peers(all, &all->list[to]))
            continue;
        memmove(&all->list[to + 1], &all->list[to],
                (i - to) * sizeof *all->list);
        all->list[to] = o;
    }
}

static clv_status add_device(clv_context *ctx, clv_device *dev)
{
    clv_device **list =
        reallocarray(ctx->devices, ctx->n_devices + 1u, sizeof *list);
    if (!list)
        return core_no_memory("for the devices");
    ctx->devices = list;
    list[ctx->n_devices++] = dev;
    return CLV_OK;
}

/* By their UUIDs; and there is one host's processor, whatever drivers call it,
 * unless core.devices asks for several. */
static bool same_hardware(const clv_context *ctx, const clv_device *dev,
                          const core_offer *o)
{
    const char *list = clv_config_get(ctx->config, "core.devices");
    if (dev->plugin == o->plugin)
        return false;
    if (same_uuid(&o->info, &dev->info))
        return true;
    return (!list || !*list) && is_processor(&o->info) &&
           is_processor(&dev->info);
}

/* The device in use that another plugin made of the same hardware. */
static const clv_device *find_duplicate(const clv_context *ctx,
                                        const core_offer *o)
{
    for (uint32_t i = 0; i < ctx->n_devices; i++)
        if (same_hardware(ctx, ctx->devices[i], o))
            return ctx->devices[i];
    return NULL;
}

static core_offer *offer_of(const clv_context *ctx, const clv_device *dev)
{
    core_offer *o = ctx->loader->offers.list;
    while (strcmp(o->id, dev->id))
        o++;
    return o;
}

/* Of two devices that are the same hardware one is used: they would share the
 * memory and the time that each counts as its own. */
static void leave_out(clv_context *ctx, core_offer *o, const char *used,
                      const char *why)
{
    core_candidate_note(ctx, o->candidate, CLV_LOG_INFO,
                        "%s is the same device as %s, which %s; core.devices "
                        "= %s, %s uses both",
                        o->id, used, why, used, o->id);
    o->is_duplicate = true;
    o->candidate->pub.n_unused++;
}

/* Simulated devices are there because the configuration describes them. Unless
 * core.devices lists others too, those with the host's clock yield to them: a
 * plan's times are of one clock. */
static bool yields(clv_context *ctx, const core_offer *o)
{
    const core_offers *all = &ctx->loader->offers;
    const char *list = clv_config_get(ctx->config, "core.devices");
    if ((list && *list) || o->info.clock == CLV_CLOCK_VIRTUAL)
        return false;
    for (uint32_t i = 0; i < all->n; i++)
        if (all->list[i].info.clock == CLV_CLOCK_VIRTUAL &&
            !all->list[i].is_refused) {
            core_candidate_note(ctx, o->candidate, CLV_LOG_INFO,
                                "%s is left out: its work takes real time, "
                                "that of %s virtual time; core.devices = %s "
                                "uses it instead",
                                o->id, all->list[i].id, o->id);
            o->candidate->pub.n_unused++;
            return true;
        }
    return false;
}

static clv_status check_kind(const core_offer *o)
{
    const core_manifest *m = o->plugin->manifest;
    uint32_t kind =
        core_kind_name(o->info.kind) ? o->info.kind : CLV_DEVICE_OTHER;
    if (m->kinds & 1u << kind)
        return CLV_OK;
    return clv_error(CLV_ERR_REFUSED,
                     "its device %s is of kind %s, its manifest lists only %s; "
                     "the plugin is faulty",
                     o->id, core_kind_name(kind), m->kinds_text);
}

/* The most ops that one of the devices takes which the offer is the same
 * hardware as; UINT32_MAX: one that cannot be left out, or all. */
static uint32_t taken_by_duplicates(const clv_context *ctx, const core_offer *o)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < ctx->n_devices; i++) {
        uint32_t n = 0;
        bool all = false;
        if (!same_hardware(ctx, ctx->devices[i], o))
            continue;
        if (offer_of(ctx, ctx->devices[i])->is_named ||
            (!core_sample_taken(ctx->devices[i], &n, &all) && all))
            return UINT32_MAX;
        most = n > most ? n : most;
    }
    return most;
}

/* Puts dev in the place of the first of them. */
static void displace_duplicates(clv_context *ctx, const core_offer *o,
                                clv_device *dev)
{
    uint32_t n = 0;
    bool placed = false;
    for (uint32_t i = 0; i < ctx->n_devices; i++) {
        clv_device *used = ctx->devices[i];
        if (!same_hardware(ctx, used, o)) {
            ctx->devices[n++] = used;
            continue;
        }
        core_offer *other = offer_of(ctx, used);
        other->candidate->pub.n_devices--;
        leave_out(ctx, other, dev->id, "takes more ops");
        core_device_close(used);
        if (!placed)
            ctx->devices[n++] = dev;
        placed = true;
    }
    ctx->n_devices = n;
}

/* A device for some ops alone does not keep one for more from being used that
 * was found later. */
static clv_status add_duplicate(clv_context *ctx, core_offer *o,
                                const clv_device *used, clv_device **out)
{
    const uint32_t most = taken_by_duplicates(ctx, o);
    clv_device *dev = NULL;
    uint32_t n;
    bool all;
    if (most < UINT32_MAX) {
        CLV_TRY(core_device_open(o->plugin, o->index, &o->info, &dev));
        if (!core_sample_taken(dev, &n, &all) && n > most) {
            displace_duplicates(ctx, o, dev);
            *out = dev;
            return CLV_OK;
        }
        core_device_close(dev);
    }
    leave_out(ctx, o, used->id, "is preferred");
    return CLV_OK;
}

static clv_status add_offer(clv_context *ctx, core_offer *o, clv_device **out)
{
    CLV_TRY(check_kind(o));
    if (yields(ctx, o))
        return CLV_OK;
    const clv_device *used = o->is_named ? NULL : find_duplicate(ctx, o);
    if (used)
        return add_duplicate(ctx, o, used, out);
    CLV_TRY(core_device_open(o->plugin, o->index, &o->info, out));
    clv_status status = add_device(ctx, *out);
    if (status)
        core_device_close(*out);
    return status;
}

static void open_one(clv_context *ctx, core_offer *o)
{
    core_candidate *c = o->candidate;
    clv_device *dev = NULL;
    clv_status st = add_offer(ctx, o, &dev);
    if (st == CLV_OK && dev) {
        memcpy(dev->number, o->number, sizeof dev->number);
        core_device_limit_memory(dev);
        c->pub.n_devices++;
    } else if (st != CLV_OK) {
        o->is_refused = true;
        if (c->pub.status == CLV_OK)
            core_candidate_stop(ctx, c, CLV_LOG_WARN, st);
    }
}

bool core_offers_processor(const clv_context *ctx)
{
    const core_offers *all = &ctx->loader->offers;
    for (uint32_t i = 0; i < all->n; i++)
        if (is_processor(&all->list[i].info) && !is_software(&all->list[i]) &&
            !all->list[i].is_refused)
            return true;
    return false;
}

/* Notes a plugin none of whose devices is used, as they are all the host's
 * processor in software. */
static void remember_software(clv_context *ctx, const core_plugin *plugin)
{
    const core_offers *all = &ctx->loader->offers;
    core_id_list ids = {.text = ""};
    for (uint32_t i = 0; i < all->n; i++) {
        const core_offer *o = &all->list[i];
        if (o->plugin != plugin)
            continue;
        if (!o->is_duplicate || !is_software(o))
            return;
        core_id_list_add(&ids, o->id);
    }
    if (ids.text[0])
        core_drivers_remember(ctx, plugin, ids.text);
}

clv_status core_offers_open(clv_context *ctx)
{
    core_offers *all = &ctx->loader->offers;
    const char *devices = clv_config_get(ctx->config, "core.devices");
    sort(all);
    prefer_peers(all);
    for (uint32_t i = 0; i < all->n; i++)
        if (all->list[i].position < INT_MAX && !all->list[i].is_refused)
            open_one(ctx, &all->list[i]);
    for (uint32_t i = 0; i < ctx->n_plugins && !*devices; i++)
        if (ctx->plugins[i]->manifest->drivers[0])
            remember_software(ctx, ctx->plugins[i]);
    return CLV_OK;
}

static bool satisfied(const clv_context *ctx, const char *item, size_t n)
{
    for (uint32_t i = 0; i < ctx->n_devices; i++)
        if (core_item_is(item, n, ctx->devices[i]->id) ||
            core_item_is(item, n, ctx->devices[i]->number) ||
            core_item_is(item, n, ctx->devices[i]->plugin->name))
            return true;
    for (uint32_t i = 0; i < ctx->loader->offers.n; i++) {
        const core_offer *o = &ctx->loader->offers.list[i];
        if (o->is_duplicate && core_item_is(item, n, o->plugin->name))
            return true;
    }
    return false;
}

/* Why the plugin of that device was not loaded; "": unknown. */
static const char *failure_of(const core_loader *l, const char *item)
{
    for (uint32_t i = 0; i < l->candidates.n; i++) {
        const core_candidate *c = l->candidates.list[i];
        if (c->pub.reason[0] &&
            core_item_is(item, strcspn(item, ":, "), c->name))
            return c->pub.reason;
    }
    return "";
}

/* Ids of devices, and names of plugins that were not needed. */
static void list_present(const core_loader *l, core_id_list *found,
                         core_id_list *idle)
{
    for (uint32_t i = 0; i < l->offers.n; i++)
        if (!l->offers.list[i].is_refused)
            core_id_list_add(found, l->offers.list[i].id);
    for (uint32_t i = 0; i < l->candidates.n; i++)
        if (l->candidates.list[i]->pub.status == CLV_OK &&
            l->candidates.list[i]->pub.stage < CLV_STAGE_MAPPED)
            core_id_list_add(idle, l->candidates.list[i]->name);
}

clv_status core_offers_check(const clv_context *ctx)
{
    const char *list = clv_config_get(ctx->config, "core.devices"), *item;
    size_t n;
    while (core_next_item(&list, ", ", &item, &n)) {
        if (satisfied(ctx, item, n))
            continue;
        core_id_list found = {.text = ""}, idle = {.text = ""};
        list_present(ctx->loader, &found, &idle);
        const char *reason = failure_of(ctx->loader, item);
        return clv_error(
            CLV_ERR_NOT_FOUND,
            "%s: core.devices: there is no device '%.*s'%s%s; present: %s%s%s",
            clv_config_origin(ctx->config, "core.devices"), (int)n, item,
            reason[0] ? ": " : "", reason, found.text[0] ? found.text : "none",
            idle.text[0] ? "; plugins not asked: " : "", idle.text);
    }
    return CLV_OK;
}
