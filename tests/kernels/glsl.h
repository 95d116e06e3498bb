/* GLSL to SPIR-V by the compiler that the Vulkan plugin has, in this process:
 * a program would begin anew for each kernel. */
#pragma once

/* NULL, or why it is refused, until the next call. */
const char *test_glsl_refusal(const char *source);
