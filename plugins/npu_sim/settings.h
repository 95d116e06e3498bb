/*
 * The configuration: [npu_sim], and a section for each device. settings.c has
 * the table of keys, with what each means.
 */
#pragma once

#include "roofline.h"
#include "systolic.h"

#include <cleave/plugin_blob.h>

#define NPU_MAX_LENGTHS 32
#define NPU_MAX_DEVICES 32
#define NPU_MAX_COPY_QUEUES 4

typedef enum npu_model { NPU_SYSTOLIC, NPU_ROOFLINE } npu_model;

/* Formats in which a device multiplies. */
typedef enum npu_format { NPU_F32, NPU_F16, NPU_I8, NPU_FORMATS } npu_format;

/* In bytes, seconds and nanoseconds; the file has other units. */
typedef struct npu_settings {
    char name[64];  /* of the section */
    char title[96]; /* for people */
    uint32_t kind;  /* clv_device_kind */
    npu_model model;
    bool all_ops; /* not only products */
    bool flag_wait;
    uint32_t queue_depth;
    double submit_ns, submit_empty_ns; /* the host's, with work queued or not */
    double wait_poll_ns, wait_block_ns;     /* the host's, after the end */
    double dispatch_ns, launch_ns, copy_ns; /* the device's */
    double bandwidth;
    uint64_t memory_size; /* of its own; 0: it works in the chip's */
    double link;          /* bytes a second between the two */
    uint32_t copy_queues;
    double activation_size; /* bytes an element */
    double busy_watts, idle_watts;

    npu_array arrays[NPU_FORMATS]; /* systolic; macs 0: not there */
    bool half_sums;                /* F16 sums are kept in F16 */
    double vector;                 /* operations a second */
    int64_t int8_rows;
    uint64_t window, address_space;
    bool is_static;
    int64_t lengths[NPU_MAX_LENGTHS];
    uint32_t n_lengths, max_programs;
    double compile_base_ns, compile_repeat_ns, compile_node_ns, compile_byte_ns,
        compile_element_ns;

    npu_roofline rooflines[NPU_FORMATS]; /* rate 0: not there */
    bool half;                           /* products have F16 operands */
    uint64_t hash;                       /* of the section's values */
} npu_settings;

typedef struct npu_config {
    bool is_real, computes;
    bool sees;            /* which experts runs choose */
    double bandwidth;     /* of the memory; 0: no bound */
    uint64_t memory_size; /* 0: no bound */
    double jitter, drift; /* see noise.h */
    double drift_at;      /* s; < 0: drift goes on */
    uint64_t seed;
    npu_settings devices[NPU_MAX_DEVICES];
    uint32_t n_devices;
} npu_config;

#define NPU_N_OPTIONS 58
extern const clv_option npu_options[NPU_N_OPTIONS];

/* Reads and checks everything. An error names section and key. */
clv_status npu_config_read(const clv_host_api *host, npu_config *out);
