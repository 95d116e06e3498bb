/*
 * GLSL to SPIR-V by glslang, in a shared object of its own, vulkan_glsl.so next
 * to the plugin: its C++ has constructors, which plugins have not, and it is
 * needed only for kernels that are not in the cache. Opened by dlopen().
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* Compiles a compute shader for Vulkan 1.2. 0, with the words for free(), or -1
 * with why in message. From any thread. */
typedef int (*vk_glsl_compile_fn)(const char *source, uint32_t **words,
                                  size_t *n_words, char *message, size_t size);
#define VK_GLSL_SYMBOL "vk_glsl_compile"
#define VK_GLSL_FILE "vulkan_glsl.so"

__attribute__((visibility("default"))) int
vk_glsl_compile(const char *source, uint32_t **words, size_t *n_words,
                char *message, size_t size);
