/* Options that both GPU plugins have. */
#pragma once

#include "kernels.h"

#define GPU_OPTION(type_, ...) CLV_OPTION(type_, PLUGIN, __VA_ARGS__)

#define GPU_STORAGES                                                           \
    "auto|buffer|image_buffer|texture_2d|texture_array|texture_3d"

/* clang-format off */
#define GPU_SHARED_OPTIONS                                                     \
    GPU_OPTION(ENUM, "trial", "auto", .choices = "auto|on|off",                \
        .help = "kernels are tried when a device is first seen; auto: if it "  \
                "is no CPU"),                                                  \
    GPU_OPTION(STRING, "disabled", "",                                         \
        .help = "kernels not to use, by name, separated by ','"),              \
    GPU_OPTION(ENUM, "storage", "auto", .choices = GPU_STORAGES,               \
        .help = "what activations lie in that a program keeps to itself; "     \
                "auto: rows in buffers; others: slices of four channels"),     \
    GPU_OPTION(ENUM, "weights", "auto", .choices = GPU_STORAGES,               \
        .help = "what weights lie in, in blocks of four outputs, for "         \
                "products without matrix instructions; auto: as in the file"), \
    GPU_OPTION(ENUM, "kv", "auto", .choices = "auto|linear|weights",           \
        .help = "the layout that attention prefers for the cache: by rows, "   \
                "or as the weights of its products; auto: so where no matrix " \
                "instructions read it, and the device is no CPU"),             \
    GPU_OPTION(ENUM, "tune", "fast", .choices = "fast|exhaustive|off",         \
        .help = "which kernel of several: fast: what was found the quickest "  \
                "before, else a guess; exhaustive: what was not tried before " \
                "is; off: guesses"),                                           \
    GPU_OPTION(BOOL, "series", "on",                                           \
        .help = "with matrix instructions of warp groups: products of up to "  \
                "eight rows that follow one another, and with one row "        \
                "attentions, are one kernel, whose groups wait for each "      \
                "other; off where programs run on the device at once"),        \
    GPU_OPTION(INT, "max_memory", "0", .min = 0, .max = 1 << 24,               \
        .help = "MiB of each device's memory that may be taken; 0: what the "  \
                "driver says, less a margin"),                                 \
    GPU_OPTION(INT, "repack_memory", "-1", .min = -1, .max = 1e15,             \
        .help = "for tests: bytes that there are for the repacked weights of " \
                "a program; -1: as many as the driver gives")
/* clang-format on */

/* 1 + the clv_storage that the option "storage" or "weights" asks for, 0:
 * "auto"; or why it cannot be had. image: as in gpu_target; usable: whether
 * kernels can have as many images as they need. */
clv_status gpu_choose_storage(const clv_host_api *host, const char *device,
                              const char *key, const uint32_t image[5][3],
                              bool usable, uint32_t *choice);
