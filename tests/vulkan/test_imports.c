/*
 * Kernels as modules of PTX: where they are used, what is compiled and what
 * comes from the cache, and what a launch says; by a driver and a compiler that
 * are made up.
 */
#include "host.h"
#include "../../plugins/vulkan/compiler.h"
#include "../../plugins/vulkan/imports.h"
#include "../../plugins/vulkan/module.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#define PLAIN ".version 9.0\n.target sm_90\nmov.b32 %r1, %envreg3;\n"
#define MARKED PLAIN "//@wgmma;\n"
#define MAX_ENTRIES 8

static struct {
    /* What is to happen. */
    const char *ptx, *matrix, *storage; /* options */
    clv_status compiler;                /* how it answers */
    uint32_t capability;
    const char *compiled; /* what it makes of every source */
    uint32_t refused;     /* modules, from the first one on */
    bool refuses_marked;  /* and those that were marked */
    /* What did. */
    uint32_t n_described, n_compiled, n_modules, n_alive, n_warnings;
    char warning[256];          /* the last one */
    char text[256], error[256]; /* of the last module; the last failure */
    struct {
        char name[64], data[1024];
        uint64_t size;
    } entries[MAX_ENTRIES]; /* of the cache */
    uint32_t n_entries;
    VkCuLaunchInfoNVX launch;
    unsigned char bytes[512];
    size_t n_bytes;
} world;

/* ------------------------------------------------------------------------ */
/* The compiler                                                             */

clv_status vk_compiler_describe(clv_plugin_device *dev, vk_opencl_device *out)
{
    (void)dev;
    world.n_described++;
    *out = (vk_opencl_device){
        .capability = world.capability, .max_alloc = 1 << 20, .fp16 = true};
    return world.compiler;
}

clv_status vk_compiler_build(clv_plugin_device *dev, const char *name,
                             const char *source, char **ptx)
{
    (void)source;
    const bool is_plain = !strcmp(name, "plain");
    world.n_compiled++;
    *ptx = clv_new(dev->base.host, 256);
    strcpy(*ptx, is_plain ? PLAIN : world.compiled);
    return CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* The driver                                                               */

clv_status vk_fail(clv_plugin_device *dev, VkResult result, const char *call)
{
    return clv_fail(dev->base.host, CLV_ERR_INTERNAL, "%s answers %d", call,
                    (int)result);
}

clv_status vk_result_status(VkResult result)
{
    return result ? CLV_ERR_INTERNAL : CLV_OK;
}

static VkResult make_module(VkDevice device,
                            const VkCuModuleCreateInfoNVX *info,
                            const VkAllocationCallbacks *callbacks,
                            VkCuModuleNVX *out)
{
    static int module;
    (void)device, (void)callbacks;
    snprintf(world.text, sizeof world.text, "%s", (const char *)info->pData);
    assert_int_equal(info->dataSize, strlen(info->pData) + 1);
    if (++world.n_modules <= world.refused ||
        (world.refuses_marked && strstr(info->pData, "wgmma")))
        return VK_ERROR_INITIALIZATION_FAILED;
    *out = (VkCuModuleNVX)&module;
    world.n_alive++;
    return VK_SUCCESS;
}

static void destroy_module(VkDevice device, VkCuModuleNVX module,
                           const VkAllocationCallbacks *callbacks)
{
    (void)device, (void)module, (void)callbacks;
    world.n_alive--;
}

static VkResult make_function(VkDevice device,
                              const VkCuFunctionCreateInfoNVX *info,
                              const VkAllocationCallbacks *callbacks,
                              VkCuFunctionNVX *out)
{
    (void)device, (void)callbacks;
    if (!strcmp(info->pName, "missing"))
        return VK_ERROR_INITIALIZATION_FAILED;
    *out = (VkCuFunctionNVX)info->module;
    world.n_alive++;
    return VK_SUCCESS;
}

static void destroy_function(VkDevice device, VkCuFunctionNVX function,
                             const VkAllocationCallbacks *callbacks)
{
    (void)device, (void)function, (void)callbacks;
    world.n_alive--;
}

/* Its arguments are gone when it returns. */
static void launch(VkCommandBuffer cb, const VkCuLaunchInfoNVX *info)
{
    (void)cb;
    world.launch = *info;
    assert_int_equal(info->extraCount, 1);
    assert_int_equal((uintptr_t)info->pExtras[0], 1);
    assert_int_equal((uintptr_t)info->pExtras[2], 2);
    assert_null(info->pExtras[4]);
    world.n_bytes = *(const size_t *)info->pExtras[3];
    memcpy(world.bytes, info->pExtras[1], world.n_bytes);
}

/* ------------------------------------------------------------------------ */
/* The host                                                                 */

static void host_log(clv_host *host, uint32_t level, const char *file,
                     int32_t line, const char *text)
{
    (void)host, (void)file, (void)line;
    if (level != CLV_LOG_WARN)
        return;
    world.n_warnings++;
    snprintf(world.warning, sizeof world.warning, "%s", text);
}

static clv_status host_error(clv_host *host, clv_status status, int64_t code,
                             const char *text)
{
    (void)host, (void)code;
    snprintf(world.error, sizeof world.error, "%s", text);
    return status;
}

static const char *host_option(clv_host *host, const char *key)
{
    (void)host;
    return !strcmp(key, "ptx")       ? world.ptx
           : !strcmp(key, "matrix")  ? world.matrix
           : !strcmp(key, "storage") ? world.storage
           : !strcmp(key, "series")  ? "on"
                                     : "auto";
}

static clv_status host_get(clv_host *host, const char *name, void **data,
                           uint64_t *size)
{
    uint32_t i = 0;
    (void)host;
    while (i < world.n_entries && strcmp(name, world.entries[i].name) != 0)
        i++;
    if (i == world.n_entries)
        return CLV_ERR_NOT_FOUND;
    *size = world.entries[i].size;
    *data = malloc(*size + 1);
    memcpy(*data, world.entries[i].data, *size);
    return CLV_OK;
}

static clv_status host_put(clv_host *host, const char *name, const void *data,
                           uint64_t size)
{
    uint32_t i = 0;
    (void)host;
    while (i < world.n_entries && strcmp(name, world.entries[i].name) != 0)
        i++;
    assert_true(i < MAX_ENTRIES && size <= sizeof world.entries[i].data);
    snprintf(world.entries[i].name, sizeof world.entries[i].name, "%s", name);
    memcpy(world.entries[i].data, data, size);
    world.entries[i].size = size;
    world.n_entries += i == world.n_entries;
    return CLV_OK;
}

static uint64_t host_now(clv_host *host)
{
    (void)host;
    return 0;
}

static const clv_host_api host = {.alloc = host_alloc,
                                  .free = host_free,
                                  .log = host_log,
                                  .set_error = host_error,
                                  .option = host_option,
                                  .cache_get = host_get,
                                  .cache_put = host_put,
                                  .now_ns = host_now};

/* ------------------------------------------------------------------------ */

static const vk_physical hopper = {.binary_import = true};

static int setup(void **state)
{
    clv_plugin_device *dev = calloc(1, sizeof *dev);
    *state = dev;
    if (!dev)
        return -1;
    memset(&world, 0, sizeof world);
    world.ptx = world.matrix = world.storage = "auto";
    world.capability = 90;
    world.compiled = MARKED;
    dev->base.host = &host;
    dev->phys = &hopper;
    dev->target.subgroup = 32;
    dev->target.image[CLV_STORAGE_TEXTURE_2D][0] = 4096;
    snprintf(dev->identity, sizeof dev->identity, "a device");
    snprintf(dev->label, sizeof dev->label, "vulkan:a");
    dev->api.CreateCuModuleNVX = make_module;
    dev->api.DestroyCuModuleNVX = destroy_module;
    dev->api.CreateCuFunctionNVX = make_function;
    dev->api.DestroyCuFunctionNVX = destroy_function;
    dev->api.CmdCuLaunchKernelNVX = launch;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static void test_wanted(void **state)
{
    clv_plugin_device *dev = *state;
    const vk_physical other = {.binary_import = false};
    bool wanted;
    assert_int_equal(vk_imports_wanted(dev, &wanted), CLV_OK);
    assert_true(wanted);
    world.ptx = "off";
    assert_int_equal(vk_imports_wanted(dev, &wanted), CLV_OK);
    assert_false(wanted);
    world.ptx = "auto";
    world.storage = "texture_2d";
    assert_int_equal(vk_imports_wanted(dev, &wanted), CLV_OK);
    assert_false(wanted);
    world.ptx = "on";
    assert_int_equal(vk_imports_wanted(dev, &wanted), CLV_ERR_UNSUPPORTED);
    assert_non_null(strstr(world.error, "images"));
    world.storage = "buffer";
    world.matrix = "off";
    assert_int_equal(vk_imports_wanted(dev, &wanted), CLV_ERR_UNSUPPORTED);
    world.matrix = "auto";
    assert_int_equal(vk_imports_wanted(dev, &wanted), CLV_OK);
    assert_true(wanted);
    dev->phys = &other;
    assert_int_equal(vk_imports_wanted(dev, &wanted), CLV_ERR_UNSUPPORTED);
    world.ptx = "auto";
    assert_int_equal(vk_imports_wanted(dev, &wanted), CLV_OK);
    assert_false(wanted);
}

static void test_target(void **state)
{
    clv_plugin_device *dev = *state;
    assert_int_equal(vk_imports_start(dev), CLV_OK);
    assert_true(dev->imports);
    assert_int_equal(dev->target.language, GPU_OPENCL_C);
    assert_true(dev->target.wgmma_bytes > 200000);
    assert_int_equal(dev->target.subgroup, 0);
    assert_int_equal(dev->target.image[CLV_STORAGE_TEXTURE_2D][0], 0);
    assert_string_not_equal(dev->identity, "a device");
    assert_int_equal(world.n_alive, 0);
    assert_int_equal(world.n_warnings, 0);
}

/* Kernels in GLSL, with so many lines in the log. */
static void check_fallback(clv_plugin_device *dev, uint32_t n_warnings)
{
    assert_int_equal(vk_imports_start(dev), CLV_OK);
    assert_false(dev->imports);
    assert_int_equal(dev->target.language, 0);
    assert_int_equal(dev->target.subgroup, 32);
    assert_string_equal(dev->identity, "a device");
    assert_int_equal(world.n_warnings, n_warnings);
}

static void test_no_compiler(void **state)
{
    world.compiler = CLV_ERR_NOT_FOUND;
    check_fallback(*state, 1);
    assert_non_null(strstr(world.warning, "no OpenCL"));
    world.ptx = "on";
    assert_int_equal(vk_imports_start(*state), CLV_ERR_NOT_FOUND);
}

/* Which has what is right for it: nothing is said. */
static void test_older_device(void **state)
{
    world.capability = 75;
    check_fallback(*state, 0);
    world.ptx = "on";
    assert_int_equal(vk_imports_start(*state), CLV_ERR_UNSUPPORTED);
    assert_non_null(strstr(world.error, "8.0"));
}

/* The driver takes no module, as when OpenCL's code is another's. */
static void test_nothing_taken(void **state)
{
    world.refused = UINT32_MAX;
    check_fallback(*state, 1);
    assert_non_null(strstr(world.warning, "does not take"));
}

/* The driver takes PTX, but not what is for sm_90a. */
static void test_without_warp_groups(void **state)
{
    clv_plugin_device *dev = *state;
    world.refuses_marked = true;
    assert_int_equal(vk_imports_start(dev), CLV_OK);
    assert_true(dev->imports);
    assert_int_equal(dev->target.wgmma_bytes, 0);
    assert_int_equal(world.n_warnings, 1);
}

/* OpenCL is asked once about the device; then the cache says it. */
static void test_known_device(void **state)
{
    clv_plugin_device *dev = *state;
    world.capability = 80;
    assert_int_equal(vk_imports_start(dev), CLV_OK);
    snprintf(dev->identity, sizeof dev->identity, "a device");
    assert_int_equal(vk_imports_start(dev), CLV_OK);
    assert_int_equal(world.n_described, 1);
    assert_int_equal(dev->target.wgmma_bytes, 0);
}

/* What is cached is not compiled again, unless the driver refuses it. */
static void test_text(void **state)
{
    clv_plugin_device *dev = *state;
    const uint32_t local[3] = {64, 0, 0};
    vk_module m;
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(vk_module_make(dev, "k", "//@", local, &m), CLV_OK);
        assert_string_equal(world.text, ".version 9.0\n.target sm_90a\n"
                                        "mov.b32 %r1, 0;\nwgmma;\n");
        vk_module_destroy(dev, &m);
        assert_int_equal(world.n_compiled, 1);
    }
    world.refused = world.n_modules + 1;
    assert_int_equal(vk_module_make(dev, "k", "//@", local, &m), CLV_OK);
    vk_module_destroy(dev, &m);
    assert_int_equal(world.n_compiled, 2);
    world.refused = world.n_modules + 2;
    assert_int_equal(vk_module_make(dev, "k", "//@", local, &m),
                     CLV_ERR_INTERNAL);
    assert_int_equal(vk_module_make(dev, "missing", "", local, &m),
                     CLV_ERR_INTERNAL);
    world.compiled = "mov.b32 %r1, %envreg20;";
    assert_int_equal(vk_module_make(dev, "k", "other", local, &m),
                     CLV_ERR_UNSUPPORTED);
    assert_int_equal(world.n_alive, 0);
}

/* Addresses are multiples of 256; what is behind them are integers. */
static void test_launch(void **state)
{
    clv_plugin_device *dev = *state;
    const uint32_t local[3] = {64, 2, 0};
    const vk_launch it = {.n_args = 2,
                          .n_params = 3,
                          .groups = {7, 8, 9},
                          .args = {0x1122334455667788, 0x200},
                          .params = {-1, 5, 6}};
    const uint64_t args[2] = {0x1122334455667700, 0x200};
    const int32_t ints[5] = {0x88, 0, -1, 5, 6};
    unsigned char want[sizeof args + sizeof ints];
    vk_module m;
    memcpy(want, args, sizeof args);
    memcpy(want + sizeof args, ints, sizeof ints);
    assert_int_equal(vk_module_make(dev, "k", "//@", local, &m), CLV_OK);
    vk_module_launch(dev, NULL, &m, &it);
    assert_int_equal(world.n_bytes, sizeof want);
    assert_memory_equal(world.bytes, want, sizeof want);
    assert_int_equal(world.launch.gridDimX, 7);
    assert_int_equal(world.launch.gridDimY, 8);
    assert_int_equal(world.launch.gridDimZ, 9);
    assert_int_equal(world.launch.blockDimX, 64);
    assert_int_equal(world.launch.blockDimY, 2);
    assert_int_equal(world.launch.blockDimZ, 1);
    vk_module_destroy(dev, &m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_wanted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_target, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_compiler, setup, teardown),
        cmocka_unit_test_setup_teardown(test_older_device, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nothing_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(test_without_warp_groups, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_known_device, setup, teardown),
        cmocka_unit_test_setup_teardown(test_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_launch, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
