#include "spirv.h"

#include "glsl/glsl.h"
#include "vulkan_build_id.h"

#include <entry.h>

#include <dlfcn.h>
#include <stdlib.h>

static vk_glsl_compile_fn find_compiler(clv_plugin_device *dev)
{
    const clv_host_api *host = dev->base.host;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", host->plugin_dir, VK_GLSL_FILE);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *symbol = library ? dlsym(library, VK_GLSL_SYMBOL) : NULL;
    if (!symbol)
        clv_fail(host, CLV_ERR_NOT_FOUND,
                 "%s: no compiler of kernels: %s; install it next to "
                 "the plugin",
                 dev->label, dlerror());
    return (vk_glsl_compile_fn)symbol;
}

static clv_status compile(clv_plugin_device *dev, const gpu_entry *entry,
                          uint32_t **out, size_t *n_words)
{
    char message[256] = "";
    uint32_t *words;
    vk_glsl_compile_fn fn = find_compiler(dev);
    if (!fn)
        return CLV_ERR_NOT_FOUND;
    if (fn(entry->text, &words, n_words, message, sizeof message))
        return clv_fail(dev->base.host, CLV_ERR_INTERNAL,
                        "%s: a kernel does not compile: %s", dev->label,
                        message);
    gpu_entry_put(entry, words, *n_words * 4);
    *out = clv_new(dev->base.host, *n_words * 4);
    if (*out)
        memcpy(*out, words, *n_words * 4);
    free(words);
    return *out ? CLV_OK : CLV_ERR_NO_MEMORY;
}

/* It depends on no device. */
clv_status vk_spirv(clv_plugin_device *dev, const char *source, bool fresh,
                    uint32_t **words, size_t *n_words)
{
    const gpu_entry entry = {dev->base.host, "spirv", BUILD_ID, source};
    uint64_t size = 0;
    *words = fresh ? NULL : gpu_entry_get(&entry, &size);
    *n_words = size / 4;
    return *words ? CLV_OK : compile(dev, &entry, words, n_words);
}
