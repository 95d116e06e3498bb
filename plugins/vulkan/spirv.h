/* Kernels' text as SPIR-V, from the host's cache where it is there. */
#pragma once

#include "device.h"

/* *words is for clv_free(). fresh: not from the cache. */
clv_status vk_spirv(clv_plugin_device *dev, const char *source, bool fresh,
                    uint32_t **words, size_t *n_words);
