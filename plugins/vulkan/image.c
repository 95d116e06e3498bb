#include "image.h"

#include <options.h>

/* All devices have these for images and texel buffers, to read and to write;
 * of a kernel 4 at least that it writes, and 16 that it reads. */
static VkFormat format_of(const gpu_private *code)
{
    return code->dtype == CLV_DTYPE_F16   ? VK_FORMAT_R16G16B16A16_SFLOAT
           : code->dtype == CLV_DTYPE_I32 ? VK_FORMAT_R32G32B32A32_UINT
                                          : VK_FORMAT_R32G32B32A32_SFLOAT;
}

void vk_image_limits(const VkPhysicalDeviceLimits *l, uint32_t image[5][3])
{
    const uint32_t all[5][3] = {
        [CLV_STORAGE_IMAGE_BUFFER] = {l->maxTexelBufferElements, 1, 1},
        [CLV_STORAGE_TEXTURE_2D] = {l->maxImageDimension2D,
                                    l->maxImageDimension2D, 1},
        [CLV_STORAGE_TEXTURE_ARRAY] = {l->maxImageDimension2D,
                                       l->maxImageDimension2D,
                                       l->maxImageArrayLayers},
        [CLV_STORAGE_TEXTURE_3D] = {l->maxImageDimension3D,
                                    l->maxImageDimension3D,
                                    l->maxImageDimension3D}};
    memcpy(image, all, sizeof all);
}

clv_status vk_image_choose(clv_plugin_device *dev, const char *key,
                           uint32_t *choice)
{
    return gpu_choose_storage(dev->base.host, dev->label, key, dev->phys->image,
                              true, choice);
}

VkDescriptorType vk_descriptor_type(uint32_t storage, bool written)
{
    if (storage == CLV_STORAGE_BUFFER)
        return VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    if (storage == CLV_STORAGE_IMAGE_BUFFER)
        return written ? VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER
                       : VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER;
    return written ? VK_DESCRIPTOR_TYPE_STORAGE_IMAGE
                   : VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE;
}

/* --- making one ------------------------------------------------------------
 */

static VkResult make_image(clv_plugin_device *dev, const gpu_private *code,
                           vk_private *p)
{
    const bool solid = code->storage == CLV_STORAGE_TEXTURE_3D;
    const VkImageCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
        .imageType = solid ? VK_IMAGE_TYPE_3D : VK_IMAGE_TYPE_2D,
        .format = format_of(code),
        .extent = {code->extent[0], code->extent[1],
                   solid ? code->extent[2] : 1},
        .mipLevels = 1,
        .arrayLayers = solid ? 1 : code->extent[2],
        .samples = VK_SAMPLE_COUNT_1_BIT,
        .tiling = VK_IMAGE_TILING_OPTIMAL,
        .usage = VK_IMAGE_USAGE_STORAGE_BIT | VK_IMAGE_USAGE_SAMPLED_BIT};
    VkResult result = dev->api.CreateImage(dev->device, &info, NULL, &p->image);
    if (result)
        p->image = VK_NULL_HANDLE;
    return result;
}

static VkResult make_texels(clv_plugin_device *dev, const gpu_private *code,
                            vk_private *p)
{
    const VkBufferCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .size = code->size,
        .usage = VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT |
                 VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT};
    VkResult result =
        dev->api.CreateBuffer(dev->device, &info, NULL, &p->texels);
    if (result)
        p->texels = VK_NULL_HANDLE;
    return result;
}

/* Of the type that is asked for, where such an object can lie in it. */
static clv_status make_memory(clv_plugin_device *dev, uint32_t type,
                              vk_private *p)
{
    VkMemoryRequirements need;
    if (p->image)
        dev->api.GetImageMemoryRequirements(dev->device, p->image, &need);
    else
        dev->api.GetBufferMemoryRequirements(dev->device, p->texels, &need);
    uint32_t mask = need.memoryTypeBits & dev->types.type[type].mask;
    if (!mask)
        mask = need.memoryTypeBits;
    const VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .allocationSize = need.size,
        .memoryTypeIndex = (uint32_t)__builtin_ctz(mask)};
    CLV_TRY(
        gpu_budget_take(dev->base.host, dev->label, &dev->budget, need.size));
    p->size = need.size;
    VkResult result =
        dev->api.AllocateMemory(dev->device, &info, NULL, &p->memory);
    if (result)
        p->memory = VK_NULL_HANDLE;
    else
        result = p->image ? dev->api.BindImageMemory(dev->device, p->image,
                                                     p->memory, 0)
                          : dev->api.BindBufferMemory(dev->device, p->texels,
                                                      p->memory, 0);
    return result ? vk_fail(dev, result, "memory for an image") : CLV_OK;
}

static VkResult make_view(clv_plugin_device *dev, const gpu_private *code,
                          vk_private *p)
{
    static const VkImageViewType types[] = {
        [CLV_STORAGE_TEXTURE_2D] = VK_IMAGE_VIEW_TYPE_2D,
        [CLV_STORAGE_TEXTURE_ARRAY] = VK_IMAGE_VIEW_TYPE_2D_ARRAY,
        [CLV_STORAGE_TEXTURE_3D] = VK_IMAGE_VIEW_TYPE_3D};
    VkResult result;
    if (p->texels) {
        const VkBufferViewCreateInfo info = {
            .sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
            .buffer = p->texels,
            .format = format_of(code),
            .range = VK_WHOLE_SIZE};
        result =
            dev->api.CreateBufferView(dev->device, &info, NULL, &p->texel_view);
        if (result)
            p->texel_view = VK_NULL_HANDLE;
        return result;
    }
    const VkImageViewCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
        .image = p->image,
        .viewType = types[code->storage],
        .format = format_of(code),
        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0,
                             VK_REMAINING_ARRAY_LAYERS}};
    result = dev->api.CreateImageView(dev->device, &info, NULL, &p->view);
    if (result)
        p->view = VK_NULL_HANDLE;
    return result;
}

clv_status vk_private_create(clv_plugin_device *dev, uint32_t type,
                             const gpu_private *code, vk_private *out)
{
    memset(out, 0, sizeof *out);
    if (code->storage == CLV_STORAGE_BUFFER) {
        clv_status status =
            vk_buffer_alloc(dev, type, code->size + 4, &out->buffer);
        out->size = status ? 0 : vk_buffer_of(out->buffer)->room;
        return status;
    }
    VkResult result = code->storage == CLV_STORAGE_IMAGE_BUFFER
                          ? make_texels(dev, code, out)
                          : make_image(dev, code, out);
    if (result)
        return vk_fail(dev, result, "making an image");
    CLV_TRY(make_memory(dev, type, out));
    result = make_view(dev, code, out);
    return result ? vk_fail(dev, result, "making an image") : CLV_OK;
}

void vk_private_destroy(clv_plugin_device *dev, vk_private *p)
{
    vk_buffer_free(p->buffer);
    dev->api.DestroyImageView(dev->device, p->view, NULL);
    dev->api.DestroyBufferView(dev->device, p->texel_view, NULL);
    dev->api.DestroyImage(dev->device, p->image, NULL);
    dev->api.DestroyBuffer(dev->device, p->texels, NULL);
    dev->api.FreeMemory(dev->device, p->memory, NULL);
    if (!p->buffer)
        gpu_budget_give(&dev->budget, p->size);
    memset(p, 0, sizeof *p);
}

void vk_private_begin(clv_plugin_device *dev, VkCommandBuffer cb,
                      const vk_private *p)
{
    const VkImageMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
        .oldLayout = VK_IMAGE_LAYOUT_UNDEFINED,
        .newLayout = VK_IMAGE_LAYOUT_GENERAL,
        .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
        .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
        .image = p->image,
        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0,
                             VK_REMAINING_ARRAY_LAYERS}};
    if (p->image)
        dev->api.CmdPipelineBarrier(cb, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                    VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 0,
                                    NULL, 0, NULL, 1, &barrier);
}
