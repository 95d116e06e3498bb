#include "device_query.h"

#include <stdio.h>
#include <string.h>

enum { TAG_PLUGIN = 1, TAG_DEVICE = 2, TAG_END = 3 };

static uint32_t table_has(const clv_plugin_api *api)
{
    return (api->program_serialize ? KIT_NEEDS_SERIALIZE : 0) |
           (api->trace_read ? KIT_NEEDS_TRACE : 0) |
           (api->fault_inject ? KIT_NEEDS_FAULTS : 0) |
           (api->flags & CLV_PLUGIN_UNLOADABLE ? KIT_NEEDS_UNLOADABLE : 0);
}

static uint32_t device_has(const kit_plugin *p)
{
    const uint32_t fds = CLV_HANDLE_DMABUF | CLV_HANDLE_OPAQUE_FD;
    uint32_t has = table_has(&p->api);
    if (p->info.copy_queues)
        has |= KIT_NEEDS_COPY_QUEUES;
    for (uint32_t i = 0; i < p->n_mem_types; i++) {
        const clv_mem_type *t = &p->mem_types[i];
        if (t->flags & CLV_MEM_HOST_VISIBLE && p->api.buffer_map)
            has |= KIT_NEEDS_HOST_VISIBLE;
        if (t->import_handles & CLV_HANDLE_HOST_POINTER)
            has |= KIT_NEEDS_IMPORT;
        if (t->import_handles & CLV_HANDLE_MAPPED_POINTER)
            has |= KIT_NEEDS_MAPPED;
        if (t->import_handles & fds)
            has |= KIT_NEEDS_FD_IMPORT;
    }
    return has;
}

static void send_plugin(kit *k, const kit_plugin *p)
{
    kit_queried_plugin s = {.has = table_has(&p->api),
                            .abi_version = p->abi_version,
                            .n_devices = p->n_devices};
    snprintf(s.name, sizeof s.name, "%s", p->api.name);
    snprintf(s.version, sizeof s.version, "%s", p->api.version);
    snprintf(s.build_id, sizeof s.build_id, "%s", p->api.build_id);
    kit_child_send(k, TAG_PLUGIN, &s, sizeof s);
}

static void send_device(kit *k, const kit_plugin *p, uint32_t index)
{
    kit_queried_device s = {.index = index, .has = device_has(p)};
    const clv_device_info *info = &p->info;
    snprintf(s.label, sizeof s.label, "%.40s%s%.63s", p->api.name,
             info->id[0] ? ":" : "", info->id);
    snprintf(s.name, sizeof s.name, "%.127s", info->name);
    snprintf(s.driver, sizeof s.driver, "%.63s", info->driver);
    kit_child_send(k, TAG_DEVICE, &s, sizeof s);
}

void kit_query_run(kit *k, const void *arg)
{
    (void)arg;
    kit_plugin *p = &k->plugin;
    kit_plugin_load(k, p);
    send_plugin(k, p);
    kit_plugin_create(p);
    KIT_CHECK(k, p->n_devices <= KIT_MAX_DEVICES,
              "%u devices; the kit tests up to %d", p->n_devices,
              KIT_MAX_DEVICES);
    send_plugin(k, p);
    for (uint32_t i = 0; i < p->n_devices; i++) {
        kit_plugin_open(p, i);
        send_device(k, p, i);
        kit_plugin_close(p);
    }
    kit_note(k, "%s %s, %u device%s", p->api.name, p->api.version, p->n_devices,
             p->n_devices == 1 ? "" : "s");
    kit_plugin_destroy(p);
    kit_plugin_unload(p);
    kit_child_send(k, TAG_END, "", 1);
}

void kit_query_record(kit_query *query, const kit_record *record)
{
    if (record->tag == TAG_PLUGIN) {
        memcpy(&query->plugin, record->data, sizeof query->plugin);
        query->known = true;
        query->n_devices = 0; /* the query may be repeated */
    }
    if (record->tag == TAG_END)
        query->whole = true;
    if (record->tag == TAG_DEVICE && query->n_devices < KIT_MAX_DEVICES)
        memcpy(&query->devices[query->n_devices++], record->data,
               sizeof *query->devices);
}

_Static_assert(sizeof(kit_queried_plugin) <= KIT_RECORD_DATA_SIZE &&
                   sizeof(kit_queried_device) <= KIT_RECORD_DATA_SIZE,
               "what is queried fits a record");
