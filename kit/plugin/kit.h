/*
 * The conformance kit: tests of a plugin through its ABI alone.
 *
 * A group of tests lists its cases without touching the plugin. The runner
 * (runner.c) executes them in child processes: one process takes case after
 * case, and a case that fails, crashes or hangs ends its process; the next case
 * starts in a fresh one. So a failing case cleans nothing up, and a broken slot
 * does not hide what comes after it.
 *
 * In a child the plugin is opened once (under_test.h) and shared by the cases
 * of a device; cases about loading and life open their own.
 */
#pragma once

#include <cleave/plugin.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIT_NAME_SIZE 112
#define KIT_TEXT_SIZE 512

typedef struct kit kit;

/* What a case needs declared; where it is not, the case is skipped. */
enum {
    KIT_NEEDS_HOST_VISIBLE = 1u << 0, /* a memory type the host can map */
    KIT_NEEDS_IMPORT = 1u << 1,       /* of host pointers */
    KIT_NEEDS_SERIALIZE = 1u << 2,    /* programs that can be kept */
    KIT_NEEDS_TRACE = 1u << 3,        /* device times */
    KIT_NEEDS_FAULTS = 1u << 4,       /* fault_inject */
    KIT_NEEDS_UNLOADABLE = 1u << 5,   /* CLV_PLUGIN_UNLOADABLE */
    KIT_NEEDS_FD_IMPORT = 1u << 6,    /* of descriptors */
    KIT_NEEDS_COPY_QUEUES = 1u << 7,  /* clv_device_info.copy_queues */
    KIT_NEEDS_MAPPED = 1u << 8,       /* imports of what buffer_map gave */
};

typedef enum kit_scope {
    KIT_PER_PLUGIN = 0, /* runs once; no device is open */
    KIT_PER_DEVICE = 1, /* runs for every device, which is open */
} kit_scope;

typedef struct kit_case {
    char name[KIT_NAME_SIZE]; /* "ops.matmul.q8_0.17x256x40" */
    uint32_t scope;           /* kit_scope */
    uint32_t needs;           /* KIT_NEEDS_* */
    void (*run)(kit *k, const void *arg);
    const void *arg; /* lives as long as the program */
} kit_case;

/* ------------------------------------------------------------------------ */
/* Listing                                                                  */

typedef struct kit_list kit_list;

/* Adds a case, or notes that memory ran out. name: without the group. */
void kit_add(kit_list *list, uint32_t scope, uint32_t needs,
             void (*run)(kit *k, const void *arg), const void *arg,
             const char *name, ...) __attribute__((format(printf, 6, 7)));

typedef struct kit_group {
    const char *name;  /* "ops" */
    const char *title; /* "Ops: results equal the reference's" */
    void (*list)(kit_list *list);
} kit_group;

/* One a file in groups/, in the order they run. */
extern const kit_group kit_group_abi;
extern const kit_group kit_group_lifecycle;
extern const kit_group kit_group_ops;
extern const kit_group kit_group_split;
extern const kit_group kit_group_memory;
extern const kit_group kit_group_sync;
extern const kit_group kit_group_programs;
extern const kit_group kit_group_timing;
extern const kit_group kit_group_faults;

/* ------------------------------------------------------------------------ */
/* Verdicts; from any thread of the case's process                          */

/* The case fails for this reason, and its process ends. */
_Noreturn void kit_fail(kit *k, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The case does not apply: call it, then return. */
void kit_skip(kit *k, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Figures and remarks for the report of a case that passes; the latest is
 * kept. */
void kit_note(kit *k, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* A note that people are shown although the case passes. */
void kit_warn(kit *k, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The case goes on to the next of many rounds: its time limit, which counts
 * what the plugin takes, begins again. */
void kit_alive(kit *k);

/* The case checked something; one that never does fails. KIT_CHECK and
 * kit_expect call it. */
void kit_checked(kit *k);

#define KIT_CHECK(k, condition, ...)                                           \
    do {                                                                       \
        kit_checked(k);                                                        \
        if (!(condition))                                                      \
            kit_fail(k, __VA_ARGS__);                                          \
    } while (0)

/* status must be the one expected; else the case fails with the name of the
 * call and what the plugin said. An error must come with a message. */
void kit_expect(kit *k, clv_status status, clv_status expected,
                const char *call, ...) __attribute__((format(printf, 4, 5)));
#define KIT_OK(k, status, ...) kit_expect(k, status, CLV_OK, __VA_ARGS__)
