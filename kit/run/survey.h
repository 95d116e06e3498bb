/* What a first process finds out about the plugin. */
#pragma once

#include "process.h"

#define KIT_MAX_DEVICES 64
#define KIT_LABEL_SIZE 112

typedef struct kit_device_survey {
    uint32_t index;
    uint32_t has;               /* KIT_NEEDS_* that are met */
    char label[KIT_LABEL_SIZE]; /* "opencl:0" */
    char name[128], driver[64];
} kit_device_survey;

typedef struct kit_plugin_survey {
    char name[64], version[64], build_id[96];
    uint32_t has; /* KIT_NEEDS_* that the table meets */
    uint32_t abi_version;
    uint32_t n_devices;
} kit_plugin_survey;

typedef struct kit_survey {
    bool known; /* the table was read */
    bool whole; /* and every device was opened and closed */
    kit_plugin_survey plugin;
    kit_device_survey devices[KIT_MAX_DEVICES];
    uint32_t n_devices; /* surveyed */
} kit_survey;

/* The case; tells the parent by records. */
void kit_survey_run(kit *k, const void *arg);
/* In the parent. */
void kit_survey_record(kit_survey *survey, const kit_record *record);
