/* What a program keeps to itself: a buffer, or an image of 4 floats, halves or
 * words a texel. */
#pragma once

#include "memory.h"

typedef struct vk_private {
    clv_plugin_buffer *buffer; /* NULL: an image */
    VkImage image;
    VkImageView view;
    VkBuffer texels; /* of an image buffer */
    VkBufferView texel_view;
    VkDeviceMemory memory; /* of an image or image buffer */
    uint64_t size;         /* bytes taken */
} vk_private;

/* The largest of each kind of image, as in gpu_target. */
void vk_image_limits(const VkPhysicalDeviceLimits *limits,
                     uint32_t image[5][3]);

/* 1 + the clv_storage that the option asks for, 0: "auto"; or why it cannot be
 * had here. */
clv_status vk_image_choose(clv_plugin_device *dev, const char *key,
                           uint32_t *choice);

/* type: of memory, in vk_memory_types. After a failure, too, to be destroyed.
 */
clv_status vk_private_create(clv_plugin_device *dev, uint32_t type,
                             const gpu_private *code, vk_private *out);
void vk_private_destroy(clv_plugin_device *dev, vk_private *p);

/* Makes the image ready to be written; what it holds is lost. */
void vk_private_begin(clv_plugin_device *dev, VkCommandBuffer cb,
                      const vk_private *p);

/* Of an argument. */
VkDescriptorType vk_descriptor_type(uint32_t storage, bool written);
