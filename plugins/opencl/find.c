#include "find.h"
#include "image.h"

#include <ctype.h>
#include <handlers.h>
#include <ids.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Of the extension cl_khr_pci_bus_info. */
#define PCI_BUS_INFO 0x410F
/* Of cl_nv_device_attribute_query: bus, and slot with function. */
#define NV_PCI_BUS 0x4008
#define NV_PCI_SLOT 0x4009
#define NV_PCI_DOMAIN 0x400A

/* ------------------------------------------------------------------------ */
/* Answers                                                                  */

static void text_of(const ocl_api *cl, cl_device_id id, cl_device_info what,
                    char *out, size_t size)
{
    size_t n = 0;
    out[0] = 0;
    if (cl->GetDeviceInfo(id, what, 0, NULL, &n) || !n)
        return;
    char *text = calloc(n + 1, 1);
    if (text && !cl->GetDeviceInfo(id, what, n, text, NULL))
        snprintf(out, size, "%s", text);
    free(text);
}

/* Zero where the device does not say. */
static uint64_t number_of(const ocl_api *cl, cl_device_id id,
                          cl_device_info what, size_t size)
{
    uint64_t value = 0; /* little-endian: the low bytes are written */
    if (cl->GetDeviceInfo(id, what, size, &value, NULL))
        return 0;
    return value;
}

bool ocl_has_extension(const ocl_properties *device, const char *name)
{
    return ocl_extension_among(device->extensions, name);
}

static void find_bus(const ocl_api *cl, ocl_properties *d)
{
    struct {
        cl_uint domain, bus, device, function;
    } pci;
    if (ocl_has_extension(d, "cl_khr_pci_bus_info") &&
        !cl->GetDeviceInfo(d->id, PCI_BUS_INFO, sizeof pci, &pci, NULL)) {
        snprintf(d->info.bus_path, sizeof d->info.bus_path, "%04x:%02x:%02x.%x",
                 pci.domain, pci.bus, pci.device, pci.function);
    } else if (ocl_has_extension(d, "cl_nv_device_attribute_query")) {
        cl_uint domain = (cl_uint)number_of(cl, d->id, NV_PCI_DOMAIN, 4),
                bus = (cl_uint)number_of(cl, d->id, NV_PCI_BUS, 4),
                slot = (cl_uint)number_of(cl, d->id, NV_PCI_SLOT, 4);
        snprintf(d->info.bus_path, sizeof d->info.bus_path, "%04x:%02x:%02x.%x",
                 domain, bus, slot >> 3, slot & 7);
    }
}

/* A CPU is the host's processors, whoever drives it. */
static void find_uuid(const ocl_api *cl, ocl_properties *d)
{
    if (d->is_cpu)
        memcpy(d->info.uuid, CLV_UUID_HOST, sizeof d->info.uuid);
    else if (!ocl_has_extension(d, "cl_khr_device_uuid") ||
             cl->GetDeviceInfo(d->id, OCL_DEVICE_UUID, sizeof d->info.uuid,
                               d->info.uuid, NULL))
        memset(d->info.uuid, 0, sizeof d->info.uuid);
}

static void find_limits(const ocl_api *cl, ocl_properties *d)
{
    size_t sizes[8] = {0};
    char version[64];
    int major = 1, minor = 0;
    d->max_alloc = number_of(cl, d->id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, 8);
    d->base_align =
        (uint32_t)number_of(cl, d->id, CL_DEVICE_MEM_BASE_ADDR_ALIGN, 4) / 8;
    if (!d->base_align || d->base_align & (d->base_align - 1))
        d->base_align = 4096;
    d->max_group =
        (uint32_t)number_of(cl, d->id, CL_DEVICE_MAX_WORK_GROUP_SIZE, 8);
    d->local_bytes =
        (uint32_t)number_of(cl, d->id, CL_DEVICE_LOCAL_MEM_SIZE, 8);
    cl->GetDeviceInfo(d->id, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes,
                      NULL);
    for (int i = 0; i < 3; i++)
        d->max_group_size[i] = (uint32_t)sizes[i];
    ocl_image_limits(cl, d);
    d->unified =
        d->is_cpu || number_of(cl, d->id, CL_DEVICE_HOST_UNIFIED_MEMORY, 4);
    d->little_endian = number_of(cl, d->id, CL_DEVICE_ENDIAN_LITTLE, 4);
    text_of(cl, d->id, CL_DEVICE_OPENCL_C_VERSION, version, sizeof version);
    if (sscanf(version, "OpenCL C %d.%d", &major, &minor) == 2)
        d->language = (uint32_t)(major * 100 + minor);
}

static void describe(const ocl_api *cl, ocl_properties *d, cl_device_type type)
{
    char driver[48], version[64];
    d->is_cpu = type & CL_DEVICE_TYPE_CPU;
    text_of(cl, d->id, CL_DEVICE_NAME, d->info.name, sizeof d->info.name);
    text_of(cl, d->id, CL_DRIVER_VERSION, driver, sizeof driver);
    text_of(cl, d->id, CL_DEVICE_VERSION, version, sizeof version);
    text_of(cl, d->id, CL_DEVICE_EXTENSIONS, d->extensions,
            sizeof d->extensions);
    snprintf(d->info.driver, sizeof d->info.driver, "%.32s %.30s",
             d->platform_name, driver);
    d->info.kind = d->is_cpu                   ? CLV_DEVICE_CPU
                   : type & CL_DEVICE_TYPE_GPU ? CLV_DEVICE_GPU
                                               : CLV_DEVICE_OTHER;
    d->info.flags = CLV_DEVICE_FLAG_STORE | CLV_DEVICE_FLAG_WAIT |
                    CLV_DEVICE_REPACKS | CLV_DEVICE_COPIES_ROWS;
    if (d->is_cpu)
        d->info.flags |= CLV_DEVICE_SOFTWARE;
    d->info.clock = CLV_CLOCK_REAL;
    d->info.memory_size = number_of(cl, d->id, CL_DEVICE_GLOBAL_MEM_SIZE, 8);
    d->info.units =
        (uint32_t)number_of(cl, d->id, CL_DEVICE_MAX_COMPUTE_UNITS, 4);
    find_limits(cl, d);
    find_uuid(cl, d);
    find_bus(cl, d);
}

/* OpenCL C 1.2, online, for machines of our byte order. */
static bool usable(const ocl_api *cl, const ocl_properties *d)
{
    return number_of(cl, d->id, CL_DEVICE_AVAILABLE, 4) &&
           number_of(cl, d->id, CL_DEVICE_COMPILER_AVAILABLE, 4) &&
           d->little_endian && d->language >= 102 && d->max_alloc &&
           d->max_group;
}

/* ------------------------------------------------------------------------ */
/* All of them                                                              */

/* GPUs before others before CPUs; then by names and places, not by who was
 * found first. */
static int rank(const ocl_properties *d)
{
    return d->info.kind == CLV_DEVICE_GPU ? 0 : d->is_cpu ? 2 : 1;
}

static int compare(const void *a, const void *b)
{
    const ocl_properties *x = a, *y = b;
    int order = rank(x) - rank(y);
    order = order ? order : strcmp(x->platform_name, y->platform_name);
    order = order ? order : strcmp(x->info.name, y->info.name);
    return order ? order : strcmp(x->info.bus_path, y->info.bus_path);
}

static uint32_t find_platform(const ocl_api *cl, cl_platform_id platform,
                              ocl_properties *out, uint32_t most)
{
    cl_device_id ids[OCL_MAX_DEVICES];
    cl_uint n = 0;
    uint32_t found = 0;
    char name[sizeof out->platform_name] = "";
    cl->GetPlatformInfo(platform, CL_PLATFORM_NAME, sizeof name - 1, name,
                        NULL);
    if (cl->GetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, OCL_MAX_DEVICES, ids,
                         &n))
        return 0;
    for (cl_uint i = 0; i < n && i < OCL_MAX_DEVICES && found < most; i++) {
        ocl_properties *d = &out[found];
        memset(d, 0, sizeof *d);
        d->platform = platform;
        d->id = ids[i];
        memcpy(d->platform_name, name, sizeof name);
        describe(cl, d,
                 (cl_device_type)number_of(cl, ids[i], CL_DEVICE_TYPE, 8));
        found += usable(cl, d);
    }
    return found;
}

static uint32_t find_all(const ocl_api *cl, ocl_properties *out)
{
    cl_platform_id platforms[OCL_MAX_PLATFORMS];
    cl_uint n = 0;
    uint32_t found = 0;
    gpu_handlers handlers;
    gpu_handlers_keep(&handlers);
    if (cl->GetPlatformIDs(OCL_MAX_PLATFORMS, platforms, &n))
        n = 0;
    for (cl_uint i = 0; i < n && i < OCL_MAX_PLATFORMS; i++)
        found += find_platform(cl, platforms[i], out + found,
                               OCL_MAX_DEVICES - found);
    gpu_handlers_restore(&handlers);
    qsort(out, found, sizeof *out, compare);
    for (uint32_t i = 0; i < found; i++)
        gpu_id_of(out[i].info.name, out[i].info.id);
    gpu_number_ids(out->info.id, sizeof *out, found);
    return found;
}

static bool contains(const char *text, const char *part)
{
    size_t n = strlen(part);
    for (; *text; text++)
        if (!strncasecmp(text, part, n))
            return true;
    return !n;
}

uint32_t ocl_find(const ocl_api *cl, const ocl_filter *filter,
                  ocl_properties *out)
{
    uint32_t n = find_all(cl, out), chosen = 0;
    for (uint32_t i = 0; i < n; i++)
        if ((out[i].is_cpu ? filter->cpu : filter->gpu) &&
            contains(out[i].platform_name, filter->platform)) {
            if (chosen != i)
                out[chosen] = out[i];
            chosen++;
        }
    return chosen;
}
