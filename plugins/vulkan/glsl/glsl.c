#include "glsl.h"

#include "matrix_types.h"

#include <glslang/Include/glslang_c_interface.h>
#include <glslang/Public/resource_limits_c.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void initialize(void)
{
    glslang_initialize_process(); /* until the process ends */
}

/* The first line of what the compiler says; it names the place. */
static int refuse(const char *text, char *message, size_t size)
{
    while (*text == '\n')
        text++;
    snprintf(message, size, "%.*s", (int)strcspn(text, "\n"), text);
    return -1;
}

/* What strips names prints complaints about types that it does not know. */
static int generate(glslang_program_t *program, bool strip, uint32_t **words,
                    size_t *n, char *message, size_t size)
{
    glslang_spv_options_t options = {.disable_optimizer = true,
                                     .strip_debug_info = strip};
    glslang_program_SPIRV_generate_with_options(program, GLSLANG_STAGE_COMPUTE,
                                                &options);
    *n = glslang_program_SPIRV_get_size(program);
    *words = malloc(*n * sizeof **words);
    if (!*words || !*n)
        return refuse("no memory, or no code", message, size);
    glslang_program_SPIRV_get(program, *words);
    if (vk_matrix_types(words, n))
        return refuse("no memory, or types of matrices that cannot be", message,
                      size);
    return 0;
}

static int link(glslang_shader_t *shader, bool strip, uint32_t **words,
                size_t *n, char *message, size_t size)
{
    glslang_program_t *program = glslang_program_create();
    if (!program)
        return refuse("no memory", message, size);
    glslang_program_add_shader(program, shader);
    int failed = -1;
    if (glslang_program_link(program, GLSLANG_MSG_SPV_RULES_BIT |
                                          GLSLANG_MSG_VULKAN_RULES_BIT))
        failed = generate(program, strip, words, n, message, size);
    else
        refuse(glslang_program_get_info_log(program), message, size);
    glslang_program_delete(program);
    return failed;
}

int vk_glsl_compile(const char *source, uint32_t **words, size_t *n_words,
                    char *message, size_t size)
{
    const glslang_input_t input = {
        .language = GLSLANG_SOURCE_GLSL,
        .stage = GLSLANG_STAGE_COMPUTE,
        .client = GLSLANG_CLIENT_VULKAN,
        .client_version = GLSLANG_TARGET_VULKAN_1_2,
        .target_language = GLSLANG_TARGET_SPV,
        .target_language_version = GLSLANG_TARGET_SPV_1_5,
        .code = source,
        .default_version = 450,
        .default_profile = GLSLANG_NO_PROFILE,
        .messages = GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT,
        .resource = glslang_default_resource()};
    pthread_once(&once, initialize);
    *words = NULL;
    glslang_shader_t *shader = glslang_shader_create(&input);
    if (!shader)
        return refuse("no memory", message, size);
    int failed = -1;
    if (glslang_shader_preprocess(shader, &input) &&
        glslang_shader_parse(shader, &input))
        failed = link(shader, !strstr(source, "spirv_type"), words, n_words,
                      message, size);
    else
        refuse(glslang_shader_get_info_log(shader), message, size);
    glslang_shader_delete(shader);
    if (failed) {
        free(*words);
        *words = NULL;
    }
    return failed;
}
