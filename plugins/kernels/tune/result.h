/* What trials found, kept between runs, and lists of kernels' names. */
#pragma once

#include "kernels.h"

/* Names of small letters and digits, separated by ','. */
bool gpu_is_list(const char *text, size_t size);
/* Fills disabled with what an earlier trial left out; false: there was none
 * under this key. */
bool gpu_result_load(const clv_host_api *host, const char *key, char *disabled,
                     size_t size);
void gpu_result_save(const clv_host_api *host, const char *key,
                     const char *disabled);
