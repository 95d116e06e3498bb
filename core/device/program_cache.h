/*
 * Compiled programs on disk, in the plugin's part of the cache directory, so
 * that a program is compiled once and loaded at later starts. Used for plugins
 * that serialise programs, where compiling takes long enough.
 */
#pragma once

#include "program.h"

/* As core_program_compile(), but the program comes from the cache where it is
 * there, and goes there where it was compiled. Counts it in the context. */
clv_status core_program_get(clv_device *dev, const core_compile *compile,
                            core_program **out);
