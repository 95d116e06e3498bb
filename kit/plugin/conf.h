/* Settings from ini files, and what the host says of sections. */
#pragma once

#include "config.h"

/* Settings of the command line, those of files before. */
typedef struct kit_conf {
    char **items; /* "NAME.key=VALUE", "NAME:DEVICE.key=VALUE" */
    uint32_t n;
} kit_conf;

/* Adds the keys of a file. False with a message: it cannot be read, or there
 * is no memory. */
bool kit_conf_read(kit_conf *conf, const char *path, char error[512]);
/* Adds one as the command line has it. False: there is no memory. */
bool kit_conf_add(kit_conf *conf, const char *setting);
void kit_conf_free(kit_conf *conf);

/* Characters of a setting's section, "vpu" or "vpu:large". */
size_t kit_section_length(const char *setting);
/* The index-th device that has a section of the plugin's, in the order of the
 * settings; NULL past the last one. Lives until the process ends. */
const char *kit_device_section(const kit_config *config, const char *plugin,
                               uint32_t index);
