#include "answer.h"
#include "loss.h"
#include "../base/unreleased.h"
#include "memory.h"
#include "submit.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A plugin that claims more is broken rather than large. */
#define MAX_MEM_TYPES 64
#define MAX_COPY_QUEUES 64

static bool id_ok(const char *id, size_t size)
{
    size_t n = strnlen(id, size);
    if (n == size)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                    "0123456789_.-",
                    id[i]))
            return false;
    return true;
}

static clv_status check_info(clv_device *dev)
{
    clv_device_info *info = &dev->info;
    if (info->kind < CLV_DEVICE_CPU || info->kind > CLV_DEVICE_OTHER)
        info->kind = CLV_DEVICE_OTHER;
    if (info->clock > CLV_CLOCK_VIRTUAL)
        return core_device_broken(dev, "enumerate", "the unknown clock %u",
                                  info->clock);
    if (info->n_mem_types < 1 || info->n_mem_types > MAX_MEM_TYPES)
        return core_device_broken(dev, "enumerate",
                                  "%u memory types, where 1..%d are possible",
                                  info->n_mem_types, MAX_MEM_TYPES);
    if (info->copy_queues > MAX_COPY_QUEUES)
        return core_device_broken(dev, "enumerate",
                                  "%u copy queues, where 0..%d are possible",
                                  info->copy_queues, MAX_COPY_QUEUES);
    if ((info->flags & CLV_DEVICE_NEEDS_PROGRESS) && !dev->api->progress)
        return core_device_broken(dev, "enumerate",
                                  "that it needs progress(), which its plugin "
                                  "lacks");
    return CLV_OK;
}

static clv_status check_mem_type(clv_device *dev, uint32_t index)
{
    clv_mem_type *type = &dev->mem_types[index];
    if (!type->alignment)
        type->alignment = 1;
    if (!type->import_align)
        type->import_align = 1;
    if (!core_is_pow2(type->alignment) || !core_is_pow2(type->import_align))
        return core_device_broken(
            dev, "mem_types", "an alignment of type %u that is no power of two",
            index);
    if (!type->max_size)
        type->max_size =
            dev->info.memory_size ? dev->info.memory_size : UINT64_MAX;
    if (!dev->api->buffer_import)
        type->import_handles = 0;
    if (!dev->api->buffer_map)
        type->flags &= ~(uint32_t)CLV_MEM_HOST_VISIBLE;
    if (!dev->api->buffer_flush)
        type->flags |= CLV_MEM_COHERENT;
    return CLV_OK;
}

static clv_status read_mem_types(clv_device *dev)
{
    uint32_t n = dev->info.n_mem_types, count = n;
    dev->mem_types = calloc(n, sizeof *dev->mem_types);
    if (!dev->mem_types)
        return core_device_error(dev, CLV_ERR_NO_MEMORY,
                                 "no memory for %u memory types", n);
    clv_mem_type init = CLV_INIT(clv_mem_type, CLV_STRUCT_MEM_TYPE);
    for (uint32_t i = 0; i < n; i++)
        dev->mem_types[i] = init;
    CLV_TRY(CORE_CALL(dev, mem_types, dev->handle, &count, dev->mem_types,
                      sizeof *dev->mem_types));
    if (count != n)
        return core_device_broken(dev, "mem_types",
                                  "%u types, its description %u", count, n);
    dev->n_mem_types = n;
    for (uint32_t i = 0; i < n; i++) {
        if (!core_chain_ok(&dev->mem_types[i].header))
            return core_device_extended(dev, "mem_types");
        dev->mem_types[i].header = init.header;
        CLV_TRY(check_mem_type(dev, i));
    }
    return CLV_OK;
}

static clv_status open_handle(clv_device *dev)
{
    pthread_mutex_lock(&dev->plugin->mutex);
    clv_status st = CORE_CALL(dev, device_open, dev->plugin->instance,
                              dev->plugin_index, &dev->handle);
    pthread_mutex_unlock(&dev->plugin->mutex);
    if (st == CLV_OK && !dev->handle)
        st = core_device_broken(dev, "device_open", "no device");
    return st;
}

void core_device_id(const core_plugin *plugin, const clv_device_info *info,
                    char out[CORE_DEVICE_ID_SIZE])
{
    int n = (int)strnlen(info->id, sizeof info->id);
    snprintf(out, CORE_DEVICE_ID_SIZE, "%s%s%.*s", plugin->name, n ? ":" : "",
             n, info->id);
}

void core_device_number(const core_plugin *plugin, const clv_device_info *infos,
                        uint32_t n, uint32_t index,
                        char out[CORE_DEVICE_ID_SIZE])
{
    char id[CORE_DEVICE_ID_SIZE];
    snprintf(out, CORE_DEVICE_ID_SIZE, "%s:%u", plugin->name, index);
    for (uint32_t i = 0; i < n; i++) {
        core_device_id(plugin, &infos[i], id);
        if (!strcmp(id, out))
            out[0] = 0;
    }
}

static clv_status open_checked(clv_device *dev)
{
    CLV_TRY(check_info(dev));
    CLV_TRY(open_handle(dev));
    return read_mem_types(dev);
}

clv_status core_device_open(core_plugin *plugin, uint32_t index,
                            const clv_device_info *info, clv_device **out)
{
    if (!id_ok(info->id, sizeof info->id))
        return clv_error(CLV_ERR_INTERNAL,
                         "plugin '%s': the id of device %u has characters "
                         "other than letters, digits, '_', '.' and '-'; the "
                         "plugin is faulty",
                         plugin->api.name, index);
    clv_device *dev = calloc(1, sizeof *dev);
    if (!dev)
        return clv_error(CLV_ERR_NO_MEMORY,
                         "plugin '%s': no memory for device %u",
                         plugin->api.name, index);
    pthread_mutex_init(&dev->mutex, NULL);
    pthread_mutex_init(&dev->stage_mutex, NULL);
    pthread_mutex_init(&dev->relayout_mutex, NULL);
    dev->ctx = plugin->ctx;
    dev->plugin = plugin;
    dev->plugin_index = index;
    dev->api = &plugin->api;
    dev->info = *info;
    core_name_clean(dev->info.name, sizeof dev->info.name);
    core_name_clean(dev->info.driver, sizeof dev->info.driver);
    core_name_clean(dev->info.bus_path, sizeof dev->info.bus_path);
    core_device_id(plugin, info, dev->id);

    clv_status st = open_checked(dev);
    if (st != CLV_OK)
        core_device_close(dev);
    else
        *out = dev;
    return st;
}

/* The value of a key of its own section, else of its plugin's; 0: none that is
 * in the range. */
static double option_of(const clv_device *dev, const char *name, double min,
                        double max)
{
    const clv_config *config = dev->ctx->config;
    const char *const sections[] = {dev->number, dev->id, dev->plugin->name};
    for (size_t i = 0; i < 3; i++) {
        char key[CORE_DEVICE_ID_SIZE + 16];
        snprintf(key, sizeof key, "%s.%s", sections[i], name);
        const char *origin = clv_config_origin(config, key);
        if (!origin || (i < 2 && !strcmp(origin, "built-in")))
            continue;
        double value = clv_config_get_float(config, key);
        return value >= min && value <= max ? value : 0;
    }
    return 0;
}

double core_device_max_share(const clv_device *dev)
{
    double share = option_of(dev, "max_share", 0.05, 1);
    return share > 0 ? share : 1;
}

void core_device_limit_memory(clv_device *dev)
{
    double mib = option_of(dev, "max_memory", 1, 1 << 24);
    uint64_t most = (uint64_t)mib << 20;
    uint64_t *const sizes[] = {&dev->info.memory_size, &dev->info.memory_free};
    uint32_t type;
    for (int i = 0; i < 2 && most && core_device_has_local(dev, &type); i++)
        if (!*sizes[i] || *sizes[i] > most)
            *sizes[i] = most;
}

void core_device_close(clv_device *dev)
{
    if (!dev)
        return;
    if (dev->handle && atomic_load(&dev->plugin->kept)) {
        core_unreleased_add(dev);
        return;
    }
    if (dev->handle) {
        pthread_mutex_lock(&dev->plugin->mutex);
        CORE_CALL_VOID(dev, device_close, dev->handle);
        pthread_mutex_unlock(&dev->plugin->mutex);
    }
    core_submit_scratch_destroy(dev->scratch);
    pthread_mutex_destroy(&dev->stage_mutex);
    pthread_mutex_destroy(&dev->relayout_mutex);
    pthread_mutex_destroy(&dev->mutex);
    free(dev->mem_types);
    free(dev);
}

clv_status core_device_progress(clv_device *dev)
{
    CLV_TRY(core_device_usable(dev));
    return dev->api->progress ? CORE_CALL_LOCKED(dev, progress, dev->handle)
                              : CLV_OK;
}

clv_status core_device_trace_read(clv_device *dev, uint32_t *count,
                                  clv_trace_record *out)
{
    CLV_TRY(core_device_usable(dev));
    uint32_t capacity = *count, n = capacity;
    if (!dev->api->trace_read) {
        *count = 0;
        return CLV_OK;
    }
    clv_trace_record init = CLV_INIT(clv_trace_record, CLV_STRUCT_TRACE_RECORD);
    for (uint32_t i = 0; i < capacity; i++)
        out[i] = init;
    CLV_TRY(
        CORE_CALL_LOCKED(dev, trace_read, dev->handle, &n, out, sizeof *out));
    if (n > capacity)
        return core_device_broken(dev, "trace_read", "%u records for %u places",
                                  n, capacity);
    for (uint32_t i = 0; i < n; i++) {
        if (!core_chain_ok(&out[i].header))
            return core_device_extended(dev, "trace_read");
        core_name_clean(out[i].name, sizeof out[i].name);
        if (out[i].end < out[i].begin)
            return core_device_broken(dev, "trace_read",
                                      "a record that ends before it begins");
        out[i].header = init.header;
    }
    *count = n;
    return CLV_OK;
}

clv_status core_device_calibrate(clv_device *dev, clv_calibration *out)
{
    CLV_TRY(core_device_usable(dev));
    if (!dev->api->calibrate || !dev->api->trace_read)
        return core_device_error(dev, CLV_ERR_UNSUPPORTED,
                                 "it has no clock that can be read");
    clv_calibration c = CLV_INIT(clv_calibration, CLV_STRUCT_CALIBRATION);
    clv_header header = c.header;
    CLV_TRY(CORE_CALL_LOCKED(dev, calibrate, dev->handle, &c));
    if (!core_chain_ok(&c.header))
        return core_device_extended(dev, "calibrate");
    if (!(c.tick_ns > 0 && c.tick_ns < 1e9))
        return core_device_broken(dev, "calibrate", "a tick of %g ns",
                                  c.tick_ns);
    if (!(c.energy_nj >= 0 && c.energy_nj <= DBL_MAX))
        return core_device_broken(dev, "calibrate", "an energy of %g nJ",
                                  c.energy_nj);
    c.header = header;
    *out = c;
    return CLV_OK;
}

clv_status clv_device_now(clv_device *dev, clv_moment *out)
{
    if (!dev)
        return clv_error(CLV_ERR_INVALID, "now: the device is NULL");
    bool is_virtual = dev->info.clock == CLV_CLOCK_VIRTUAL;
    clv_calibration c = {0};
    clv_status st = core_device_calibrate(dev, &c);
    if (st != CLV_OK && (is_virtual || st != CLV_ERR_UNSUPPORTED))
        return st;
    *out = (clv_moment){
        .ns = is_virtual ? (double)c.device_tick * c.tick_ns
                         : (double)clv_now_ns(),
        .energy_nj = c.energy_nj,
        .is_virtual = is_virtual,
    };
    return CLV_OK;
}

const char *clv_device_id(const clv_device *dev)
{
    return dev->id;
}

const char *clv_device_plugin(const clv_device *dev)
{
    return dev->api->name;
}

const clv_device_info *clv_device_info_of(const clv_device *dev)
{
    return &dev->info;
}

uint32_t clv_device_mem_type_count(const clv_device *dev)
{
    return dev->n_mem_types;
}

const clv_mem_type *clv_device_mem_type(const clv_device *dev, uint32_t index)
{
    return index < dev->n_mem_types ? &dev->mem_types[index] : NULL;
}
