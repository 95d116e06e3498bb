#include "abilities.h"

#include "kernels.h"

#include <unistd.h>

#define DOT_EXTENSION VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME

bool vk_extension_among(const VkExtensionProperties *ext, uint32_t n,
                        const char *name)
{
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(ext[i].extensionName, name))
            return true;
    return false;
}

/* --- cooperative matrices ------------------------------------------------- */

/* As vk_matrix_size's fields say, in VK_KHR_cooperative_matrix's numbers. */
enum {
    FLOAT16 = 0,
    FLOAT32 = 1,
    SINT8 = 3,
    SINT32 = 5,
    SCOPE_SUBGROUP = 3,
    MAX_SIZES = 64
};

typedef struct vk_matrix_size {
    VkStructureType sType;
    void *pNext;
    uint32_t m, n, k;
    uint32_t a, b, c, result; /* types of components */
    VkBool32 saturating;
    uint32_t scope;
} vk_matrix_size;

typedef VkResult(VKAPI_PTR *sizes_fn)(VkPhysicalDevice device, uint32_t *n,
                                      vk_matrix_size *out);

/* Whether subgroups multiply by this: 16 x 16 x k, of that type with sums of
 * the other. */
static bool is_size(const vk_matrix_size *s, uint32_t k, uint32_t type,
                    uint32_t sum)
{
    return s->m == 16 && s->n == 16 && s->k == k && s->a == type &&
           s->b == type && s->c == sum && s->result == sum && !s->saturating &&
           s->scope == SCOPE_SUBGROUP;
}

static void read_sizes(const vk_instance_api *api, vk_physical *p)
{
    vk_matrix_size sizes[MAX_SIZES];
    uint32_t n = MAX_SIZES;
    sizes_fn get = (sizes_fn)api->GetMatrixSizes;
    for (uint32_t i = 0; i < n; i++)
        sizes[i] = (vk_matrix_size){.sType = (VkStructureType)1000506001};
    if (!get || get(p->handle, &n, sizes) < 0)
        return;
    for (uint32_t i = 0; i < n; i++) {
        p->coop_matrix |= is_size(&sizes[i], 16, FLOAT16, FLOAT32);
        p->coop_bytes |= is_size(&sizes[i], 32, SINT8, SINT32);
    }
}

/* --- asked for ------------------------------------------------------------ */

static void read_features(const vk_instance_api *api, bool has_dot,
                          bool has_matrix, vk_physical *p)
{
    VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR dot = {
        .sType =
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR};
    vk_matrix_features matrix = {.sType = VK_MATRIX_FEATURES_TYPE};
    VkPhysicalDeviceVulkan12Features f12 = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    VkPhysicalDeviceFeatures2 all = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &f12};
    if (has_dot)
        dot.pNext = all.pNext, all.pNext = &dot;
    if (has_matrix)
        matrix.pNext = all.pNext, all.pNext = &matrix;
    api->GetPhysicalDeviceFeatures2(p->handle, &all);
    p->int_dot = dot.shaderIntegerDotProduct;
    if (matrix.cooperativeMatrix && f12.vulkanMemoryModel && f12.shaderFloat16)
        read_sizes(api, p);
    p->coop_bytes &= p->coop_matrix && f12.shaderInt8;
}

/* Processors of the kind that a work group runs on; 0: not said. */
static uint32_t count_units(const vk_physical *p, uint32_t sms,
                            const VkPhysicalDeviceShaderCorePropertiesAMD *amd)
{
    if (p->type == VK_PHYSICAL_DEVICE_TYPE_CPU) {
        long n = sysconf(_SC_NPROCESSORS_ONLN);
        return n > 0 ? (uint32_t)n : 1;
    }
    return sms ? sms
               : amd->shaderEngineCount * amd->shaderArraysPerEngineCount *
                     amd->computeUnitsPerShaderArray;
}

void vk_abilities_read(const vk_instance_api *api,
                       const VkExtensionProperties *ext, uint32_t n,
                       vk_physical *p)
{
    VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nv = {
        .sType =
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
    VkPhysicalDeviceShaderCorePropertiesAMD amd = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD};
    VkPhysicalDeviceSubgroupSizeControlPropertiesEXT sizes = {
        .sType =
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES_EXT};
    VkPhysicalDevicePushDescriptorPropertiesKHR pushes = {
        .sType =
            VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR};
    VkPhysicalDeviceProperties2 all = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    if (vk_extension_among(ext, n, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME))
        nv.pNext = all.pNext, all.pNext = &nv;
    if (vk_extension_among(ext, n,
                           VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME))
        amd.pNext = all.pNext, all.pNext = &amd;
    if (vk_extension_among(ext, n, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME))
        sizes.pNext = all.pNext, all.pNext = &sizes;
    if (vk_extension_among(ext, n, VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME))
        pushes.pNext = all.pNext, all.pNext = &pushes;
    api->GetPhysicalDeviceProperties2(p->handle, &all);
    p->binary_import &=
        vk_extension_among(ext, n, VK_NVX_BINARY_IMPORT_EXTENSION_NAME);
    p->push_descriptors = pushes.maxPushDescriptors >= GPU_MAX_BINDINGS;
    p->info.units = count_units(p, nv.shaderSMCount, &amd);
    read_features(api, vk_extension_among(ext, n, DOT_EXTENSION),
                  vk_extension_among(ext, n, VK_MATRIX_EXTENSION), p);
    /* A subgroup's matrices need subgroups of one size. */
    if (!p->subgroup || !p->subgroup_swaps ||
        sizes.minSubgroupSize != sizes.maxSubgroupSize ||
        sizes.minSubgroupSize != p->subgroup)
        p->coop_matrix = p->coop_bytes = false;
}

/* --- enabled -------------------------------------------------------------- */

void vk_enabling_fill(const vk_physical *p, bool imports, vk_enabling *out)
{
    memset(out, 0, sizeof *out);
    if (p->import_align)
        out->names[out->n++] = VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME;
    if (imports)
        out->names[out->n++] = VK_NVX_BINARY_IMPORT_EXTENSION_NAME;
    if (p->push_descriptors)
        out->names[out->n++] = VK_KHR_PUSH_DESCRIPTOR_EXTENSION_NAME;
    if (p->int_dot) {
        out->dot = (VkPhysicalDeviceShaderIntegerDotProductFeaturesKHR){
            .sType =
                VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES_KHR,
            .pNext = out->chain,
            .shaderIntegerDotProduct = VK_TRUE};
        out->chain = &out->dot;
        out->names[out->n++] = DOT_EXTENSION;
    }
    if (p->coop_matrix) {
        out->matrix = (vk_matrix_features){.sType = VK_MATRIX_FEATURES_TYPE,
                                           .pNext = out->chain,
                                           .cooperativeMatrix = VK_TRUE};
        out->chain = &out->matrix;
        out->names[out->n++] = VK_MATRIX_EXTENSION;
    }
}
