/* Structs of other sizes, and graphs to show them with. */
#pragma once

#include "abi.h"

#include "../work/graph.h"

#define ABI_POISON 0xc7

/* An array of structs as another version's host makes it: elements of size
 * bytes, stride apart, in memory that is poisoned wherever the element's writer
 * and its reader do not both know it. */
typedef struct abi_array {
    kit *k;
    const char *what;                /* the slot, for messages */
    uint8_t *bytes;                  /* guard, [n] elements, guard */
    uint32_t n, size, stride, known; /* known: this header's sizeof */
} abi_array;

/* For the plugin to fill: zero up to what is known. */
void abi_array_make(kit *k, abi_array *a, const char *what, uint32_t n,
                    uint32_t type, uint32_t known, uint32_t size,
                    uint32_t stride);
/* For the plugin to read: known bytes from the n elements at from, and
 * poison behind them, within the size each element states. */
void abi_array_copy(kit *k, abi_array *a, const char *what, uint32_t n,
                    const void *from, uint32_t known, uint32_t more,
                    uint32_t stride);
void *abi_array_at(const abi_array *a, uint32_t i);
/* Fails the case if a byte was written that the plugin was not given, or an
 * element from written on was touched at all. */
void abi_array_check(const abi_array *a, uint32_t written);
void abi_array_free(abi_array *a);

/* Whether the plugin may know more of the structs than this kit. */
bool abi_is_newer(const kit_plugin *p);

/* A graph of one node that the device takes; false after kit_skip(). */
bool abi_taken_graph(kit *k, kit_graph *g);
/* Three nodes, the last one an op that is none. */
void abi_mixed_graph(kit *k, kit_graph *g);
