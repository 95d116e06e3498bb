#include "calls.h"
#include "host.h"
#include "settings.h"
#include "slots.h"
#include "child.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEVICES 256
#define MAX_MEM_TYPES 256

/* ------------------------------------------------------------------------ */
/* Loading                                                                  */

uint32_t kit_sanitizers(void)
{
    uint32_t bits = 0;
#if defined(__SANITIZE_ADDRESS__)
    bits |= CLV_SANITIZER_ADDRESS;
#endif
#if defined(__SANITIZE_THREAD__)
    bits |= CLV_SANITIZER_THREAD;
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
    bits |= CLV_SANITIZER_ADDRESS;
#endif
#if __has_feature(thread_sanitizer)
    bits |= CLV_SANITIZER_THREAD;
#endif
#endif
    return bits;
}

/* Its own size of it at most; what is missing is zero. */
static void read_table(kit *k, const clv_plugin_api *table, clv_plugin_api *out)
{
    uint32_t size = table->header.struct_size;
    KIT_CHECK(k, table->header.struct_type == CLV_STRUCT_PLUGIN_API,
              "the table's struct_type is %u, not CLV_STRUCT_PLUGIN_API",
              table->header.struct_type);
    KIT_CHECK(k, size >= KIT_V1_API,
              "the table's struct_size is %u, ABI version 1 has %u; set it to "
              "sizeof(clv_plugin_api)",
              size, KIT_V1_API);
    memset(out, 0, sizeof *out);
    memcpy(out, table, size < sizeof *out ? size : sizeof *out);
    kit_calls_wrap(out);
    const char *missing = kit_missing_slot(out);
    KIT_CHECK(k, !missing, "the table lacks the mandatory %s()", missing);
    KIT_CHECK(k, out->name && out->version && out->build_id && out->description,
              "the table lacks a name, version, build_id or description");
    KIT_CHECK(k,
              !out->n_options ||
                  (out->options && out->option_stride >= KIT_V1_OPTION),
              "the table has %u options, %u bytes apart, at %p", out->n_options,
              out->option_stride, (const void *)out->options);
}

static clv_plugin_query_fn find_query(kit *k, kit_plugin *p)
{
    p->lib = kit_calls_dlopen(kit_path(k));
    KIT_CHECK(k, p->lib, "dlopen: %s", dlerror());
    clv_plugin_query_fn query = kit_calls_query(p->lib);
    KIT_CHECK(k, query, "it exports no %s(): it is no plugin",
              CLV_PLUGIN_QUERY_SYMBOL);
    return query;
}

void kit_plugin_load(kit *k, kit_plugin *p)
{
    memset(p, 0, sizeof *p);
    p->k = k;
    clv_plugin_query_fn query = find_query(k, p);
    clv_query_in in = CLV_INIT(clv_query_in, CLV_STRUCT_QUERY_IN);
    clv_query_out out = CLV_INIT(clv_query_out, CLV_STRUCT_QUERY_OUT);
    in.abi_min = CLV_ABI_VERSION_MIN;
    in.abi_max = CLV_ABI_VERSION;
    in.sanitizers = kit_sanitizers();
    clv_status status = query(&in, &out);
    out.reason[sizeof out.reason - 1] = 0;
    KIT_CHECK(k, status == CLV_OK,
              "the query answers status %d to a host of ABI %u to %u; it "
              "speaks %u to %u; it says: %s",
              (int)status, in.abi_min, in.abi_max, out.abi_min, out.abi_max,
              out.reason);
    KIT_CHECK(k, out.api, "the query gives no table");
    KIT_CHECK(k, out.abi_version >= in.abi_min && out.abi_version <= in.abi_max,
              "the query chooses ABI version %u, the host speaks %u to %u",
              out.abi_version, in.abi_min, in.abi_max);
    read_table(k, out.api, &p->api);
    p->abi_version = out.abi_version;
    p->abi_min = out.abi_min;
    p->abi_max = out.abi_max;
    kit_settings_check(k, &p->api);
    kit_host_init(k, &p->host);
    p->host.plugin = &p->api;
    p->host.api.abi_version = out.abi_version;
}

void kit_option(const clv_plugin_api *api, uint32_t i, clv_option *out)
{
    const char *at = (const char *)api->options;
    at += (size_t)i * api->option_stride;
    uint32_t size = ((const clv_header *)at)->struct_size;
    memset(out, 0, sizeof *out);
    memcpy(out, at, size < sizeof *out ? size : sizeof *out);
    if (!out->key) /* the case that looks at options says so */
        out->key = "";
}

/* ------------------------------------------------------------------------ */
/* Instance                                                                 */

static bool is_terminated(const char *text, size_t size)
{
    return memchr(text, 0, size) != NULL;
}

static void check_info(kit *k, const clv_device_info *infos, uint32_t i)
{
    const clv_device_info *info = &infos[i];
    KIT_CHECK(k,
              is_terminated(info->id, sizeof info->id) &&
                  is_terminated(info->name, sizeof info->name) &&
                  is_terminated(info->driver, sizeof info->driver) &&
                  is_terminated(info->bus_path, sizeof info->bus_path),
              "device %u: a text of its info does not end", i);
    for (uint32_t j = 0; j < i; j++)
        KIT_CHECK(k, strcmp(infos[j].id, info->id),
                  "devices %u and %u have the same id '%s'", j, i, info->id);
}

void kit_plugin_create(kit_plugin *p)
{
    kit *k = p->k;
    uint32_t count = 0;
    KIT_OK(k, p->api.create(&p->host.api, &p->inst), "create");
    KIT_CHECK(k, p->inst, "create: answered CLV_OK and no instance");
    KIT_OK(k, p->api.enumerate(p->inst, &count, NULL, 0), "enumerate");
    KIT_CHECK(k, count <= MAX_DEVICES,
              "enumerate: found %u devices, more than "
              "%u",
              count, MAX_DEVICES);
    p->infos = calloc(count + 1u, sizeof *p->infos);
    KIT_CHECK(k, p->infos, "the kit has no memory for %u devices", count);
    for (uint32_t i = 0; i < count; i++)
        p->infos[i].header =
            (clv_header){sizeof *p->infos, CLV_STRUCT_DEVICE_INFO, NULL};
    p->n_devices = count;
    KIT_OK(k,
           p->api.enumerate(p->inst, &p->n_devices, p->infos, sizeof *p->infos),
           "enumerate");
    KIT_CHECK(k, p->n_devices == count, "enumerate: found %u devices, then %u",
              count, p->n_devices);
    for (uint32_t i = 0; i < count; i++)
        check_info(k, p->infos, i);
}

void kit_plugin_destroy(kit_plugin *p)
{
    kit *k = p->k;
    KIT_OK(k, p->api.quiesce(p->inst), "quiesce");
    p->api.destroy(p->inst);
    p->inst = NULL;
    atomic_store(&p->host.ended, true);
    free(p->infos);
    p->infos = NULL;
    p->n_devices = 0;
    KIT_CHECK(k, !p->host.n_blocks,
              "destroy: %u host allocations are not freed, %" PRIu64 " bytes",
              p->host.n_blocks, kit_host_bytes(&p->host));
}

void kit_plugin_unload(kit_plugin *p)
{
    kit *k = p->k;
    if (p->api.flags &
        CLV_PLUGIN_UNLOADABLE) /* else it stays, as in the host */
        KIT_CHECK(k, !kit_calls_dlclose(p->lib), "dlclose: %s", dlerror());
    p->lib = NULL;
    kit_host_finish(&p->host);
}

/* ------------------------------------------------------------------------ */
/* Device                                                                   */

static void read_mem_types(kit_plugin *p)
{
    kit *k = p->k;
    uint32_t count = 0;
    KIT_OK(k, p->api.mem_types(p->dev, &count, NULL, 0), "mem_types");
    KIT_CHECK(k, count && count <= MAX_MEM_TYPES,
              "mem_types: the device has %u types of memory", count);
    KIT_CHECK(k, count == p->info.n_mem_types,
              "mem_types: the device has %u types of memory, its info says %u",
              count, p->info.n_mem_types);
    p->mem_types = calloc(count, sizeof *p->mem_types);
    KIT_CHECK(k, p->mem_types, "the kit has no memory for %u types", count);
    for (uint32_t i = 0; i < count; i++)
        p->mem_types[i].header =
            (clv_header){sizeof *p->mem_types, CLV_STRUCT_MEM_TYPE, NULL};
    p->n_mem_types = count;
    KIT_OK(k,
           p->api.mem_types(p->dev, &p->n_mem_types, p->mem_types,
                            sizeof *p->mem_types),
           "mem_types");
    KIT_CHECK(k, p->n_mem_types == count, "mem_types: there are %u, then %u",
              count, p->n_mem_types);
}

void kit_plugin_open(kit_plugin *p, uint32_t index)
{
    kit *k = p->k;
    KIT_CHECK(k, index < p->n_devices, "device %u is gone: enumerate finds %u",
              index, p->n_devices);
    KIT_OK(k, p->api.device_open(p->inst, index, &p->dev), "device_open(%u)",
           index);
    KIT_CHECK(k, p->dev, "device_open(%u): answered CLV_OK and no device",
              index);
    p->info = p->infos[index];
    read_mem_types(p);
}

void kit_plugin_close(kit_plugin *p)
{
    p->api.device_close(p->dev);
    p->dev = NULL;
    free(p->mem_types);
    p->mem_types = NULL;
    p->n_mem_types = 0;
}

bool kit_mem_type(const kit_plugin *p, uint32_t flags, uint32_t imports,
                  uint32_t *index)
{
    for (uint32_t i = 0; i < p->n_mem_types; i++) {
        const clv_mem_type *t = &p->mem_types[i];
        if ((t->flags & flags) == flags &&
            (t->import_handles & imports) == imports) {
            *index = i;
            return true;
        }
    }
    return false;
}

kit_plugin *kit_under_test(kit *k)
{
    kit_plugin *p = &k->plugin;
    uint32_t checks = atomic_load(&k->n_checks); /* opening is not the case's */
    if (!k->plugin_made) {
        kit_plugin_load(k, p);
        k->plugin_made = true;
    }
    if (k->device != KIT_NO_DEVICE && !p->dev) {
        kit_plugin_create(p);
        kit_plugin_open(p, k->device);
    }
    atomic_store(&k->n_checks, checks);
    return p;
}

void kit_drop_under_test(kit *k)
{
    kit_plugin *p = &k->plugin;
    if (p->dev)
        kit_plugin_close(p);
    if (p->inst)
        kit_plugin_destroy(p);
    if (p->lib)
        kit_plugin_unload(p);
    k->plugin_made = false;
}
