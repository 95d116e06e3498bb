/*
 * Which kernels a device keeps, by a driver that counts its pipelines.
 */
#include "host.h"
#include "../../plugins/vulkan/image.h"
#include "../../plugins/vulkan/imports.h"
#include "../../plugins/vulkan/kernel.h"
#include "../../plugins/vulkan/spirv.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static uint32_t n_made, n_alive;

/* ------------------------------------------------------------------------ */
/* The rest of the plugin                                                   */

VkDescriptorType vk_descriptor_type(uint32_t storage, bool written)
{
    (void)storage;
    (void)written;
    return VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
}

clv_status vk_spirv(clv_plugin_device *dev, const char *source, bool fresh,
                    uint32_t **words, size_t *n_words)
{
    (void)source;
    (void)fresh;
    *n_words = 1;
    *words = clv_new(dev->base.host, 4);
    return CLV_OK;
}

clv_status vk_imports_text(clv_plugin_device *dev, const char *name,
                           const char *source, bool fresh, char **text)
{
    (void)name;
    *text = clv_new(dev->base.host, strlen(source) + 8);
    sprintf(*text, "%s %s", fresh ? "fresh" : "cached", source);
    return CLV_OK;
}

clv_status vk_fail(clv_plugin_device *dev, VkResult result, const char *call)
{
    (void)dev;
    (void)call;
    return vk_result_status(result);
}

clv_status vk_result_status(VkResult result)
{
    return result ? CLV_ERR_INTERNAL : CLV_OK;
}

/* ------------------------------------------------------------------------ */
/* The driver                                                               */

static VkResult make_pipelines(VkDevice device, VkPipelineCache cache,
                               uint32_t n,
                               const VkComputePipelineCreateInfo *infos,
                               const VkAllocationCallbacks *callbacks,
                               VkPipeline *out)
{
    (void)device, (void)cache, (void)infos, (void)callbacks;
    *out = VK_NULL_HANDLE;
    n_made += n;
    n_alive += n;
    return VK_SUCCESS;
}

static void destroy_pipeline(VkDevice device, VkPipeline pipeline,
                             const VkAllocationCallbacks *callbacks)
{
    (void)device, (void)pipeline, (void)callbacks;
    n_alive--;
}

static VkResult make_set_layout(VkDevice device,
                                const VkDescriptorSetLayoutCreateInfo *info,
                                const VkAllocationCallbacks *callbacks,
                                VkDescriptorSetLayout *out)
{
    (void)device, (void)info, (void)callbacks, (void)out;
    return VK_SUCCESS;
}

static void destroy_set_layout(VkDevice device, VkDescriptorSetLayout layout,
                               const VkAllocationCallbacks *callbacks)
{
    (void)device, (void)layout, (void)callbacks;
}

static VkResult make_layout(VkDevice device,
                            const VkPipelineLayoutCreateInfo *info,
                            const VkAllocationCallbacks *callbacks,
                            VkPipelineLayout *out)
{
    (void)device, (void)info, (void)callbacks, (void)out;
    return VK_SUCCESS;
}

static void destroy_layout(VkDevice device, VkPipelineLayout layout,
                           const VkAllocationCallbacks *callbacks)
{
    (void)device, (void)layout, (void)callbacks;
}

static VkResult make_module(VkDevice device,
                            const VkShaderModuleCreateInfo *info,
                            const VkAllocationCallbacks *callbacks,
                            VkShaderModule *out)
{
    (void)device, (void)info, (void)callbacks, (void)out;
    return VK_SUCCESS;
}

static void destroy_module(VkDevice device, VkShaderModule module,
                           const VkAllocationCallbacks *callbacks)
{
    (void)device, (void)module, (void)callbacks;
}

/* ------------------------------------------------------------------------ */

static const clv_host_api host = {.alloc = host_alloc, .free = host_free};

static int setup(void **state)
{
    clv_plugin_device *dev = calloc(1, sizeof *dev);
    *state = dev;
    if (!dev)
        return -1;
    n_made = n_alive = 0;
    dev->base.host = &host;
    dev->api.CreateComputePipelines = make_pipelines;
    dev->api.DestroyPipeline = destroy_pipeline;
    dev->api.CreateDescriptorSetLayout = make_set_layout;
    dev->api.DestroyDescriptorSetLayout = destroy_set_layout;
    dev->api.CreatePipelineLayout = make_layout;
    dev->api.DestroyPipelineLayout = destroy_layout;
    dev->api.CreateShaderModule = make_module;
    dev->api.DestroyShaderModule = destroy_module;
    return pthread_mutex_init(&dev->kernels_lock, NULL);
}

static int teardown(void **state)
{
    clv_plugin_device *dev = *state;
    pthread_mutex_destroy(&dev->kernels_lock);
    free(dev);
    return 0;
}

static vk_kernel *get(clv_plugin_device *dev, uint32_t number)
{
    char text[16];
    snprintf(text, sizeof text, "%u", (unsigned)number);
    const gpu_kernel code = {.source = text};
    vk_kernel *kernel = NULL;
    assert_int_equal(vk_kernel_get(dev, &code, &kernel), CLV_OK);
    assert_string_equal(kernel->source, text);
    return kernel;
}

/* What a program has given back, the next one has without a pipeline more. */
static void test_kept(void **state)
{
    clv_plugin_device *dev = *state;
    for (uint32_t i = 0; i < 3; i++) {
        vk_kernel *a = get(dev, 1), *b = get(dev, 1);
        assert_ptr_equal(a, b);
        vk_kernel_put(dev, a);
        vk_kernel_put(dev, b);
    }
    assert_int_equal(n_made, 1);
    vk_kernels_close(dev);
    assert_int_equal(n_alive, 0);
}

/* Of those that no program uses, the latest stay; what is in use does, too. */
static void test_most(void **state)
{
    clv_plugin_device *dev = *state;
    vk_kernel *used = get(dev, 1000);
    for (uint32_t i = 0; i < VK_IDLE_KERNELS; i++)
        vk_kernel_put(dev, get(dev, i));
    vk_kernel_put(dev, get(dev, 0)); /* now the latest */
    vk_kernel_put(dev, get(dev, VK_IDLE_KERNELS));
    assert_int_equal(n_made, VK_IDLE_KERNELS + 2);
    assert_int_equal(n_alive, VK_IDLE_KERNELS + 1);
    vk_kernel_put(dev, get(dev, 0));
    assert_int_equal(n_made, VK_IDLE_KERNELS + 2);
    vk_kernel_put(dev, get(dev, 1)); /* the one that was idle longest */
    assert_int_equal(n_made, VK_IDLE_KERNELS + 3);
    assert_ptr_equal(get(dev, 1000), used);
    vk_kernel_put(dev, used);
    vk_kernel_put(dev, used);
    vk_kernels_close(dev);
    assert_int_equal(n_alive, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_kept, setup, teardown),
        cmocka_unit_test_setup_teardown(test_most, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
