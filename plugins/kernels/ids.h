/* Ids of GPU devices, by their names. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define GPU_ID_SIZE 64

/* "NVIDIA H200" becomes "nvidia-h200"; what is in brackets is left out, as
 * versions change. */
void gpu_id_of(const char *name, char id[GPU_ID_SIZE]);
/* Ids that n devices share become "x", "x.2", "x.3", in the devices' order.
 * ids: the first device's; stride: bytes from one device to the next. */
void gpu_number_ids(char *ids, size_t stride, uint32_t n);
