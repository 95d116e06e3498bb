/* What a device can do by extensions: asked for here, enabled here. The forms
 * that Vulkan's older headers lack are declared here, too. */
#pragma once

#include "physical.h"

/* VK_KHR_cooperative_matrix */
typedef struct vk_matrix_features {
    VkStructureType sType;
    void *pNext;
    VkBool32 cooperativeMatrix, cooperativeMatrixRobustBufferAccess;
} vk_matrix_features;

#define VK_MATRIX_EXTENSION "VK_KHR_cooperative_matrix"
#define VK_MATRIX_FEATURES_TYPE ((VkStructureType)1000506000)

/* Fills the part of p that extensions say. ext: those of the device. */
void vk_abilities_read(const vk_instance_api *api,
                       const VkExtensionProperties *ext, uint32_t n,
                       vk_physical *p);
bool vk_extension_among(const VkExtensionProperties *ext, uint32_t n,
                        const char *name);

#define VK_MAX_EXTENSIONS 5u

/* What a device is created with: extensions, and their features as a chain.
 * imports: those that modules of PTX need, too. */
typedef struct vk_enabling {
    const char *names[VK_MAX_EXTENSIONS];
    uint32_t n;
    void *chain;
    VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR dot;
    vk_matrix_features matrix;
} vk_enabling;
void vk_enabling_fill(const vk_physical *p, bool imports, vk_enabling *out);
