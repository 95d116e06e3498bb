#include "spirv.h"

#include "glsl/glsl.h"
#include "vulkan_build_id.h"

#include <dlfcn.h>
#include <stdlib.h>

#define SPIRV_MAGIC 0x07230203u

/* FNV-1a. */
uint64_t vk_hash(const void *data, size_t size, uint64_t seed)
{
    const unsigned char *bytes = data;
    uint64_t h = 0xcbf29ce484222325ull ^ seed;
    for (size_t i = 0; i < size; i++)
        h = (h ^ bytes[i]) * 0x100000001b3ull;
    return h;
}

static vk_glsl_compile_fn find_compiler(clv_plugin_device *dev)
{
    const clv_host_api *host = dev->base.host;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", host->plugin_dir, VK_GLSL_FILE);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *symbol = library ? dlsym(library, VK_GLSL_SYMBOL) : NULL;
    if (!symbol)
        clv_fail(host, CLV_ERR_NOT_FOUND,
                 "vulkan:%s: no compiler of kernels: %s; install it next to "
                 "the plugin",
                 dev->phys->id, dlerror());
    return (vk_glsl_compile_fn)symbol;
}

static clv_status compile(clv_plugin_device *dev, const char *source,
                          uint32_t **words, size_t *n_words)
{
    char message[256] = "";
    vk_glsl_compile_fn fn = find_compiler(dev);
    if (!fn)
        return CLV_ERR_NOT_FOUND;
    if (!fn(source, words, n_words, message, sizeof message))
        return CLV_OK;
    return clv_fail(dev->base.host, CLV_ERR_INTERNAL,
                    "vulkan:%s: a kernel does not compile: %s", dev->phys->id,
                    message);
}

/* An entry holds the text too, so that keys that clash do no harm. */
typedef struct entry_head {
    uint64_t source_size, n_words, sum; /* sum: over the words */
} entry_head;

static void make_key(const char *source, char key[64])
{
    size_t size = strlen(source);
    snprintf(key, 64, "vulkan-spirv-%s-%016llx%016llx", BUILD_ID,
             (unsigned long long)vk_hash(source, size, 0),
             (unsigned long long)vk_hash(source, size, 0x9e3779b97f4a7c15ull));
}

static bool is_good(const char *data, uint64_t size, const char *source,
                    entry_head *head)
{
    if (size < sizeof *head)
        return false;
    memcpy(head, data, sizeof *head);
    size -= sizeof *head;
    if (head->source_size != strlen(source) || size < head->source_size ||
        head->n_words != (size - head->source_size) / 4 ||
        (size - head->source_size) % 4 || head->n_words < 5)
        return false;
    const char *words = data + sizeof *head + head->source_size;
    uint32_t magic;
    memcpy(&magic, words, sizeof magic);
    return !memcmp(data + sizeof *head, source, head->source_size) &&
           magic == SPIRV_MAGIC &&
           vk_hash(words, head->n_words * 4, 0) == head->sum;
}

static bool fetch(clv_plugin_device *dev, const char *source, uint32_t **words,
                  size_t *n_words)
{
    const clv_host_api *host = dev->base.host;
    void *data = NULL;
    uint64_t size = 0;
    entry_head head;
    char key[64];
    make_key(source, key);
    if (host->cache_get(host->host, key, &data, &size))
        return false;
    bool good = is_good(data, size, source, &head);
    *words = good ? malloc(head.n_words * 4) : NULL;
    if (*words) {
        memcpy(*words, (char *)data + sizeof head + head.source_size,
               head.n_words * 4);
        *n_words = head.n_words;
    }
    clv_free(host, data);
    return *words != NULL;
}

/* What cannot be cached is compiled again the next time. */
static void store(clv_plugin_device *dev, const char *source,
                  const uint32_t *words, size_t n_words)
{
    const clv_host_api *host = dev->base.host;
    const entry_head head = {strlen(source), n_words,
                             vk_hash(words, n_words * 4, 0)};
    uint64_t size = sizeof head + head.source_size + n_words * 4;
    char key[64], *entry = malloc(size);
    if (!entry)
        return;
    make_key(source, key);
    memcpy(entry, &head, sizeof head);
    memcpy(entry + sizeof head, source, head.source_size);
    memcpy(entry + sizeof head + head.source_size, words, n_words * 4);
    host->cache_put(host->host, key, entry, size);
    free(entry);
}

clv_status vk_spirv(clv_plugin_device *dev, const char *source, bool fresh,
                    uint32_t **words, size_t *n_words)
{
    if (!fresh && fetch(dev, source, words, n_words))
        return CLV_OK;
    clv_status status = compile(dev, source, words, n_words);
    if (!status)
        store(dev, source, *words, *n_words);
    return status;
}
