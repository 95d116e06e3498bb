/* Starting a device's threads. */
#pragma once

#include "setup.h"

#include <pthread.h>

/* Starts thread index of the device: bound as its setup says, named
 * "clv-ID-INDEX", and no signal of the process is delivered to it. */
clv_status cpu_thread_start(const clv_host_api *host, const cpu_setup *setup,
                            uint32_t index, void *(*fn)(void *ctx), void *ctx,
                            pthread_t *out);
