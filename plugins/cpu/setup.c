#include "setup.h"

#include <cleave/plugin_util.h>

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_SIZE 96 /* of a list of cores in a message */

/* The host has checked the values against the declarations. */
static uint64_t option_int(const clv_host_api *host, const char *key)
{
    const char *text = host->option(host->host, key);
    return text ? strtoull(text, NULL, 10) : 0;
}

/* The index-th device's section; NULL past the last one, and from a host that
 * knows of none. */
static const char *device_section(const clv_host_api *host, uint32_t index)
{
    const size_t size =
        offsetof(clv_host_api, device_section) + sizeof host->device_section;
    return host->header.struct_size >= size && host->device_section
               ? host->device_section(host->host, index)
               : NULL;
}

/* What the section's list names must be there and usable. */
static clv_status check_cores(const clv_host_api *host, const char *section,
                              const cpu_cores *wanted, const cpu_cores *usable)
{
    cpu_cores missing;
    char list[LIST_SIZE];
    cpu_cores_without(wanted, usable, &missing);
    if (!cpu_cores_count(&missing))
        return CLV_OK;
    uint32_t core = cpu_cores_nth(&missing, 0);
    cpu_cores_text(usable, list, sizeof list);
    if (!cpu_core_exists(core))
        return clv_fail(host, CLV_ERR_INVALID,
                        "cpu: [cpu:%s] cores: the machine has no core %" PRIu32
                        "; this process may use %s, name those",
                        section, core, list);
    return clv_fail(host, CLV_ERR_INVALID,
                    "cpu: [cpu:%s] cores: this process may not use core "
                    "%" PRIu32 ", only %s; leave it out, or start the process "
                    "with that core",
                    section, core, list);
}

static clv_status read_cores(const clv_host_api *host, const char *text,
                             const cpu_cores *usable, cpu_setup *setup)
{
    size_t at;
    if (!text[strspn(text, " \t")])
        return CLV_OK;
    if (!cpu_cores_parse(text, &setup->cores, &at))
        return clv_fail(host, CLV_ERR_INVALID,
                        "cpu: [cpu:%s] cores: '%.60s' is no list of cores "
                        "from character %zu on; write cores and ranges, as in "
                        "0-3,6",
                        setup->id, text, at + 1);
    if (!cpu_cores_count(usable))
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        "cpu: [cpu:%s] cores: the system does not tell which "
                        "cores this process may use; leave the key empty",
                        setup->id);
    setup->bound = true;
    return check_cores(host, setup->id, &setup->cores, usable);
}

static clv_status copy_name(const clv_host_api *host, const char *name,
                            cpu_setup *setup)
{
    if (!*name || strlen(name) >= sizeof setup->id || strpbrk(name, " \t:,."))
        return clv_fail(host, CLV_ERR_INVALID,
                        "cpu: [cpu:%.80s]: that is no name for a device; use "
                        "fewer than %zu letters and digits",
                        name, sizeof setup->id);
    memcpy(setup->id, name, strlen(name) + 1);
    return CLV_OK;
}

/* The device of a section; setup holds what all have in common. */
static clv_status read_section(const clv_host_api *host, const char *name,
                               const cpu_cores *usable, cpu_setup *setup)
{
    char key[sizeof setup->id + 16];
    CLV_TRY(copy_name(host, name, setup));
    snprintf(key, sizeof key, "%s.cores", name);
    const char *cores = host->option(host->host, key);
    if (cores)
        CLV_TRY(read_cores(host, cores, usable, setup));
    snprintf(key, sizeof key, "%s.threads", name);
    setup->threads = (uint32_t)option_int(host, key);
    return CLV_OK;
}

/* Sets may overlap; it is seldom meant. */
static void log_overlaps(const clv_host_api *host, const cpu_setup *setups,
                         uint32_t n)
{
    char text[sizeof setups->id * 2 + LIST_SIZE + 80], list[LIST_SIZE];
    cpu_cores both;
    for (uint32_t i = 1; i < n; i++)
        for (uint32_t j = 0; j < i; j++) {
            cpu_cores_and(&setups[j].cores, &setups[i].cores, &both);
            if (!cpu_cores_count(&both))
                continue;
            snprintf(
                text, sizeof text,
                "[cpu:%s] and [cpu:%s] share cores (%s) and will slow each "
                "other down",
                setups[j].id, setups[i].id,
                cpu_cores_text(&both, list, sizeof list));
            host->log(host->host, CLV_LOG_WARN, NULL, 0, text);
        }
}

static clv_status check_common(const clv_host_api *host,
                               const cpu_setup *common, uint32_t n_sections)
{
    if (common->pin && !cpu_cores_count(&common->cores))
        return clv_fail(host, CLV_ERR_UNSUPPORTED,
                        "cpu: option pin: the system does not tell which "
                        "cores this process may use; turn it off");
    if (common->threads && n_sections)
        return clv_fail(host, CLV_ERR_INVALID,
                        "cpu: option threads is %" PRIu32 " for one device, "
                        "and sections describe several; set threads in "
                        "[cpu:%.60s] instead",
                        common->threads, device_section(host, 0));
    return CLV_OK;
}

clv_status cpu_setups_read(const clv_host_api *host, cpu_setup **out,
                           uint32_t *count)
{
    cpu_setup common;
    uint32_t n_sections = 0;
    memset(&common, 0, sizeof common);
    const char *pin = host->option(host->host, "pin");
    common.pin = pin && !strcmp(pin, "on");
    common.poll_ns = option_int(host, "poll") * 1000;
    common.threads = (uint32_t)option_int(host, "threads");
    cpu_cores_usable(&common.cores);
    while (device_section(host, n_sections))
        n_sections++;
    CLV_TRY(check_common(host, &common, n_sections));
    uint32_t n = n_sections ? n_sections : 1;
    cpu_setup *setups = clv_new(host, n * sizeof *setups);
    if (!setups)
        return CLV_ERR_NO_MEMORY;
    clv_status status = CLV_OK;
    for (uint32_t i = 0; i < n && !status; i++) {
        setups[i] = common;
        if (n_sections)
            status = read_section(host, device_section(host, i), &common.cores,
                                  &setups[i]);
        if (!setups[i].threads)
            setups[i].threads =
                cpu_cores_threads(cpu_cores_count(&setups[i].cores));
    }
    if (status) {
        clv_free(host, setups);
        return status;
    }
    log_overlaps(host, setups, n);
    *out = setups;
    *count = n;
    return CLV_OK;
}
