/*
 * Sets of the machine's cores, by the operating system's numbers. As text they
 * are a list of cores and ranges: "0-3,6".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CPU_MAX_CORES 8192

typedef struct cpu_cores {
    uint64_t words[CPU_MAX_CORES / 64];
} cpu_cores;

/* What the calling thread may run on, which is what the process may unless
 * somebody bound the thread; false, and no cores, where that cannot be told. */
bool cpu_cores_usable(cpu_cores *out);

/* Reads a list of at least one core; false: it is no list, and *at is the
 * character that is wrong, counted from 0. Numbers past the largest core are
 * the largest. */
bool cpu_cores_parse(const char *text, cpu_cores *out, size_t *at);
/* As a list, cut where it does not fit. Returns out. */
const char *cpu_cores_text(const cpu_cores *cores, char *out, size_t size);

uint32_t cpu_cores_count(const cpu_cores *cores);
bool cpu_cores_has(const cpu_cores *cores, uint32_t core);
void cpu_cores_add(cpu_cores *cores, uint32_t core);
/* The index'th core of a set that has one, counted round. */
uint32_t cpu_cores_nth(const cpu_cores *cores, uint32_t index);
/* Those of a that b has, or has not. */
void cpu_cores_and(const cpu_cores *a, const cpu_cores *b, cpu_cores *out);
void cpu_cores_without(const cpu_cores *a, const cpu_cores *b, cpu_cores *out);

/* Whether the machine has that core, used or not; true if that is unknown. */
bool cpu_core_exists(uint32_t core);
/* Threads that can run at once on so many cores, at least one: the process's
 * group may have less time than its cores. 0: how many cores is unknown. */
uint32_t cpu_cores_threads(uint32_t count);
