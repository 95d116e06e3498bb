/*
 * The plugin behind a small host of the tests' own: settings as "key=value" or
 * "device.key=value", and products y = x * transpose(w) to run on its devices.
 */
#pragma once

#include "../core/test.h"

#include <cleave/plugin.h>

#include <stdatomic.h>
#include <stdbool.h>

#define RIG_DEVICES 4
#define RIG_SETTINGS 64

typedef struct rig {
    void *lib;
    const clv_plugin_api *api;
    clv_host_api host;
    clv_plugin_instance *inst;
    clv_plugin_device *devices[RIG_DEVICES];
    uint32_t n_devices;
    char settings[RIG_SETTINGS][96];
    uint32_t n_settings;
    char sections[RIG_DEVICES][32];
    uint32_t n_sections;
    _Atomic int64_t blocks; /* of the host, alive */
    char error[512];        /* the latest */
} rig;

/* Loads the plugin; settings: lines. Status of create. */
clv_status rig_create(rig *r, const char *settings);
/* And opens all devices; nothing may fail. */
void rig_open(rig *r, const char *settings);
/* Closes and unloads; nothing may be left. */
void rig_close(rig *r);
/* Simulated time. */
uint64_t rig_now(rig *r);
double rig_energy(rig *r, uint32_t device);

typedef struct product {
    rig *r;
    uint32_t device;
    int64_t n, i, o;
    clv_tensor_desc tensors[4]; /* x, w, y, scales */
    clv_node node;
    clv_symbol_range symbol;
    clv_plugin_buffer *buffers[4];
    void *data[4];
    clv_plugin_program *program;
    clv_plugin_timeline *done;
    uint64_t value; /* of done, submitted so far */
} product;

/* x [n,i] f32, w [o,i] of a dtype and clv_quant, y [n,o] f32; all zero but the
 * scales, which are 1. group: of CLV_QUANT_PER_GROUP. */
void product_make(product *p, rig *r, uint32_t device, int64_t n, int64_t i,
                  int64_t o, uint32_t dtype, uint32_t quant, uint32_t group);
clv_compile product_compilation(product *p, clv_subgraph *graph,
                                clv_binding weights[2]);
clv_status product_compile(product *p);
clv_op_caps product_caps(product *p);
/* Submits; wait: a point or NULL. */
clv_status product_submit(product *p, const clv_timeline_point *wait,
                          uint64_t correlation);
clv_status product_wait(product *p, uint64_t spin_ns, uint64_t timeout_ns);
/* Compiles if need be, submits and waits. */
void product_run(product *p);
void product_free(product *p);

#define assert_says(r, text)                                                   \
    do {                                                                       \
        if (!strstr((r)->error, text))                                         \
            fail_msg("'%s' is not in: %s", text, (r)->error);                  \
    } while (0)
