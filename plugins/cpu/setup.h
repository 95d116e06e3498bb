/*
 * What the configuration says of the devices: one of the whole process, or one
 * for each section [cpu:NAME].
 */
#pragma once

#include "cores.h"

#include <cleave/plugin.h>

typedef struct cpu_setup {
    char id[sizeof((clv_device_info *)0)->id]; /* the section's name, or "" */
    uint32_t threads;
    uint64_t poll_ns;
    bool pin;        /* thread i to the i-th of cores, counted round */
    bool bound;      /* all threads to cores; else they run where they may */
    cpu_cores cores; /* none if the system does not tell */
} cpu_setup;

/* Reads and checks the options. *out: [*count], at least one, to be given back
 * with clv_free(). */
clv_status cpu_setups_read(const clv_host_api *host, cpu_setup **out,
                           uint32_t *count);
