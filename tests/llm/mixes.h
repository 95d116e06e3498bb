/*
 * Random mixes for tests of runs in flight and of memory: a tiny model, and a
 * context with devices of several plugins and with settings of the core. The
 * seed decides all of it.
 */
#pragma once

#include "../core/test.h"
#include "rig.h"

#define MIXES_SIMS 4
#define MIXES_DEVICES 8

typedef struct mix_options {
    const char *opencl, *vulkan; /* devices to use in real time; NULL: none */
    const char *cache;           /* a directory */
    bool scarce; /* devices have memory of their own for a part of a model */
} mix_options;

typedef struct mix {
    test_random random;
    bool is_virtual;  /* simulated time: all devices are simulated */
    bool is_known;    /* and plans go by costs */
    bool is_measured; /* real time: they do */
    mix_options options;
    char text[3072]; /* the settings */
    rig_world rig;
    clv_model *model;
    llm_source *source;
    tiny_params tiny;
    clv_device *alone; /* the processor, which writes the texts */
    clv_device *devices[MIXES_DEVICES];
    uint32_t n_devices;
    uint32_t n_able;    /* the first of them take all nodes */
    tiny_errors errors; /* of results on the least precise of them, as stated */
} mix;

void mix_open(mix *m, uint64_t seed, const mix_options *options);
void mix_close(mix *m);
/* One of n numbers. */
uint32_t mix_pick(test_random *r, const uint32_t *list, uint32_t n);
#define MIX_PICK(r, ...)                                                       \
    mix_pick(r, (const uint32_t[]){__VA_ARGS__},                               \
             sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))
