/* The files of the group memory. */
#pragma once

#include "../work/work.h"

/* A release callback; ctx: an _Atomic int, to be one in the end. */
void memory_count_release(void *ctx);
/* Whether it was called once, or is within a second. */
bool memory_released(_Atomic int *count);
/* Whole pages, sharing none with what is not imported; munmap(). fd -1: of no
 * file. */
uint8_t *memory_pages(kit *k, uint64_t size, int protection, int fd);
clv_plugin_buffer *memory_must_import(kit_plugin *p, uint32_t type,
                                      const clv_import *in, const char *what);
/* The buffer's bytes, by way of the device. */
void memory_read_back(kit_plugin *p, uint32_t type, clv_plugin_buffer *buf,
                      uint8_t *out, uint64_t size);

/* Cases of copies and fills. */
void memory_list_transfers(kit_list *l);
/* Cases of imports by pointer, and of what is refused. */
void memory_list_imports(kit_list *l);
/* Cases of descriptors. */
void memory_list_handles(kit_list *l);
