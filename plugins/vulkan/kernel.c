#include "kernel.h"

#include "image.h"
#include "spirv.h"

static VkResult make_layouts(clv_plugin_device *dev, vk_kernel *k)
{
    VkDescriptorSetLayoutBinding bindings[GPU_MAX_ARGS];
    for (uint32_t i = 0; i < k->n_args; i++)
        bindings[i] = (VkDescriptorSetLayoutBinding){
            .binding = i,
            .descriptorType = vk_descriptor_type(k->storage[i], k->written[i]),
            .descriptorCount = 1,
            .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT};
    const VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .flags = dev->pushes
                     ? VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR
                     : 0,
        .bindingCount = k->n_args,
        .pBindings = bindings};
    VkResult result = dev->api.CreateDescriptorSetLayout(dev->device, &set,
                                                         NULL, &k->set_layout);
    if (result) {
        k->set_layout = VK_NULL_HANDLE;
        return result;
    }
    const VkPushConstantRange range = {
        .stageFlags = VK_SHADER_STAGE_COMPUTE_BIT, .size = 4 * k->n_ints};
    const VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &k->set_layout,
        .pushConstantRangeCount = k->n_ints != 0,
        .pPushConstantRanges = &range};
    result =
        dev->api.CreatePipelineLayout(dev->device, &info, NULL, &k->layout);
    if (result)
        k->layout = VK_NULL_HANDLE;
    return result;
}

static VkResult make_pipeline(clv_plugin_device *dev, vk_kernel *k,
                              const uint32_t *words, size_t n_words)
{
    const VkShaderModuleCreateInfo module = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = n_words * 4,
        .pCode = words};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .pName = "main"},
        .layout = k->layout};
    VkResult result = dev->api.CreateShaderModule(dev->device, &module, NULL,
                                                  &info.stage.module);
    if (result)
        return result;
    result = dev->api.CreateComputePipelines(dev->device, dev->pipelines, 1,
                                             &info, NULL, &k->pipeline);
    if (result)
        k->pipeline = VK_NULL_HANDLE;
    atomic_store(&dev->built, true);
    dev->api.DestroyShaderModule(dev->device, info.stage.module, NULL);
    return result;
}

/* Code from the cache that the driver refuses is compiled once more. */
static clv_status build_pipeline(clv_plugin_device *dev, vk_kernel *k)
{
    VkResult result = make_layouts(dev, k);
    clv_status status =
        result ? vk_fail(dev, result, "making a kernel's layout") : CLV_OK;
    for (int fresh = 0; fresh < 2 && !status; fresh++) {
        uint32_t *words = NULL;
        size_t n_words = 0;
        status = vk_spirv(dev, k->source, fresh, &words, &n_words);
        if (status)
            break;
        result = make_pipeline(dev, k, words, n_words);
        clv_free(dev->base.host, words);
        if (!result)
            break;
        if (fresh || vk_result_status(result) == CLV_ERR_DEVICE_LOST)
            status = vk_fail(dev, result, "vkCreateComputePipelines");
    }
    return status;
}

static clv_status build(clv_plugin_device *dev, const gpu_kernel *code,
                        vk_kernel *k)
{
    return dev->imports ? vk_module_make(dev, code->name, code->source,
                                         code->local, &k->module)
                        : build_pipeline(dev, k);
}

static void destroy(clv_plugin_device *dev, vk_kernel *k)
{
    vk_module_destroy(dev, &k->module);
    dev->api.DestroyPipeline(dev->device, k->pipeline, NULL);
    dev->api.DestroyPipelineLayout(dev->device, k->layout, NULL);
    dev->api.DestroyDescriptorSetLayout(dev->device, k->set_layout, NULL);
    clv_free(dev->base.host, k->source);
    clv_free(dev->base.host, k);
}

static vk_kernel *find(clv_plugin_device *dev, const gpu_kernel *code)
{
    pthread_mutex_lock(&dev->kernels_lock);
    vk_kernel *k = dev->kernels;
    while (k && strcmp(k->source, code->source))
        k = k->next;
    if (k && !k->refs++)
        dev->n_idle--;
    pthread_mutex_unlock(&dev->kernels_lock);
    return k;
}

/* Another thread may make the same at the same time: then there are two. */
clv_status vk_kernel_get(clv_plugin_device *dev, const gpu_kernel *code,
                         vk_kernel **out)
{
    const clv_host_api *host = dev->base.host;
    size_t size = strlen(code->source) + 1;
    if ((*out = find(dev, code)))
        return CLV_OK;
    vk_kernel *k = clv_new(host, sizeof *k);
    if (!k)
        return CLV_ERR_NO_MEMORY;
    k->refs = 1;
    k->n_args = code->n_args;
    memcpy(k->storage, code->storage, sizeof k->storage);
    memcpy(k->written, code->written, sizeof k->written);
    k->n_ints = code->n_args + code->n_params;
    k->source = clv_new(host, size);
    if (k->source)
        memcpy(k->source, code->source, size);
    clv_status status = k->source ? build(dev, code, k) : CLV_ERR_NO_MEMORY;
    if (status) {
        destroy(dev, k);
        return status;
    }
    pthread_mutex_lock(&dev->kernels_lock);
    k->next = dev->kernels;
    dev->kernels = k;
    pthread_mutex_unlock(&dev->kernels_lock);
    *out = k;
    return CLV_OK;
}

/* The one that has been idle longest leaves the list. */
static vk_kernel *take_idle(clv_plugin_device *dev)
{
    vk_kernel **last = NULL;
    for (vk_kernel **link = &dev->kernels; *link; link = &(*link)->next)
        if (!(*link)->refs)
            last = link;
    vk_kernel *k = last ? *last : NULL;
    if (k) {
        *last = k->next;
        dev->n_idle--;
    }
    return k;
}

static void move_to_front(clv_plugin_device *dev, vk_kernel *kernel)
{
    vk_kernel **link = &dev->kernels;
    while (*link != kernel)
        link = &(*link)->next;
    *link = kernel->next;
    kernel->next = dev->kernels;
    dev->kernels = kernel;
}

void vk_kernel_put(clv_plugin_device *dev, vk_kernel *kernel)
{
    vk_kernel *old = NULL;
    if (!kernel)
        return;
    pthread_mutex_lock(&dev->kernels_lock);
    if (!--kernel->refs) {
        move_to_front(dev, kernel);
        if (++dev->n_idle > VK_IDLE_KERNELS)
            old = take_idle(dev);
    }
    pthread_mutex_unlock(&dev->kernels_lock);
    if (old)
        destroy(dev, old);
}

void vk_kernels_close(clv_plugin_device *dev)
{
    while (dev->n_idle)
        destroy(dev, take_idle(dev));
}
