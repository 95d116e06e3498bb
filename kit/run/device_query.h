/* What a first process finds out about the plugin. */
#pragma once

#include "process.h"

#define KIT_MAX_DEVICES 64
#define KIT_LABEL_SIZE 112

typedef struct kit_queried_device {
    uint32_t index;
    uint32_t has;               /* KIT_NEEDS_* that are met */
    char label[KIT_LABEL_SIZE]; /* "opencl:0" */
    char name[128], driver[64];
} kit_queried_device;

typedef struct kit_queried_plugin {
    char name[64], version[64], build_id[96];
    uint32_t has; /* KIT_NEEDS_* that the table meets */
    uint32_t abi_version;
    uint32_t n_devices;
} kit_queried_plugin;

typedef struct kit_query {
    bool known; /* the table was read */
    bool whole; /* and every device was opened and closed */
    kit_queried_plugin plugin;
    kit_queried_device devices[KIT_MAX_DEVICES];
    uint32_t n_devices; /* queried */
} kit_query;

/* The case; tells the parent by records. */
void kit_query_run(kit *k, const void *arg);
/* In the parent. */
void kit_query_record(kit_query *query, const kit_record *record);
