#include "glsl.h"
#include "../../plugins/vulkan/glsl/glsl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static vk_glsl_compile_fn find_compiler(void)
{
    static vk_glsl_compile_fn found;
    char path[4096];
    if (found)
        return found;
    snprintf(path, sizeof path, "%s/plugins/" VK_GLSL_FILE,
             getenv("CLEAVE_TEST_BUILD"));
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    void *symbol = library ? dlsym(library, VK_GLSL_SYMBOL) : NULL;
    memcpy(&found, &symbol, sizeof found);
    return found;
}

const char *test_glsl_refusal(const char *source)
{
    static char message[1024];
    const vk_glsl_compile_fn compile = find_compiler();
    uint32_t *words = NULL;
    size_t n = 0;
    if (!compile)
        return "there is no " VK_GLSL_FILE;
    if (compile(source, &words, &n, message, sizeof message))
        return message;
    free(words);
    return NULL;
}
