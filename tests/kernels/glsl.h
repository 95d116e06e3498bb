/* GLSL to SPIR-V by the Vulkan plugin's compiler, in this process: to start a
 * program for each kernel takes 0.1 s. */
#pragma once

/* NULL, or why it is refused, until the next call. */
const char *test_glsl_refusal(const char *source);
