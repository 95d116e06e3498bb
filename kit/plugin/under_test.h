/*
 * The plugin under test, and the host it sees.
 *
 * The host's table is the kit's own: it counts what is allocated and not freed,
 * guards and poisons it, can fail the n-th allocation, keeps the latest error,
 * and checks what plugin.h demands of callers (no foreign pointers, no call
 * after destroy). Settings of the command line answer option(), else the
 * declared defaults.
 */
#pragma once

#include "kit.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct kit_host {
    clv_host_api api; /* api.host is this */
    kit *k;
    const clv_plugin_api *plugin; /* whose options are answered; NULL: none */
    pthread_mutex_t mutex;        /* protects error, and the list of blocks */
    char error[KIT_TEXT_SIZE]; /* set_error's latest; "" after kit_host_clear */
    struct kit_block *blocks;  /* alive */
    struct kit_block *freed;   /* the latest, poisoned, to find late writes */
    _Atomic uint32_t n_blocks;
    uint32_t n_freed;
    _Atomic uint64_t n_allocs; /* asked for */
    uint64_t fail_at;          /* the n_allocs-th that gets NULL; 0: none */
    bool fail_after;           /* and all that follow */
    _Atomic bool ended;        /* the instance is destroyed: no call is legal */
    char cache_dir[256]; /* a directory of this process, removed at its end;
                            "" until kit_host_init made it */
} kit_host;

/* A loaded plugin, and what is open of it. */
typedef struct kit_plugin {
    kit *k;
    kit_host host;
    void *lib;
    clv_plugin_api api;        /* full size: slots it lacks are NULL */
    uint32_t abi_version;      /* negotiated */
    uint32_t abi_min, abi_max; /* what it speaks */
    clv_plugin_instance *inst; /* NULL until created */
    clv_device_info *infos;    /* [n_devices] as enumerated */
    uint32_t n_devices;
    clv_plugin_device *dev;  /* NULL until opened */
    clv_device_info info;    /* of dev */
    clv_mem_type *mem_types; /* [n_mem_types] of dev */
    uint32_t n_mem_types;
} kit_plugin;

/* Steps, each failing the case if the plugin does. Destruction undoes what was
 * done, and fails the case if a block of the host's is left. */
void kit_plugin_load(kit *k, kit_plugin *p);         /* dlopen, query, table */
void kit_plugin_create(kit_plugin *p);               /* create, enumerate */
void kit_plugin_open(kit_plugin *p, uint32_t index); /* device, memory types */
void kit_plugin_close(kit_plugin *p);                /* the device */
void kit_plugin_destroy(kit_plugin *p);              /* quiesce, destroy */
void kit_plugin_unload(kit_plugin *p); /* dlclose, where allowed */

void kit_host_init(kit *k, kit_host *host);
void kit_host_clear(kit_host *host); /* forgets the error */
/* Empties the host: frees blocks left over, removes the cache directory. */
void kit_host_finish(kit_host *host);

/* The device's first memory type with all these CLV_MEM_* flags and imports of
 * these handles; false if there is none. */
bool kit_mem_type(const kit_plugin *p, uint32_t flags, uint32_t imports,
                  uint32_t *index);

/* The plugin of this process, with the case's device open for KIT_PER_DEVICE
 * cases; loaded at most for KIT_PER_PLUGIN ones. */
kit_plugin *kit_under_test(kit *k);
/* Closes and unloads it, if this process has it; the next kit_under_test()
 * loads it again. For cases that count what a plugin leaves behind. */
void kit_drop_under_test(kit *k);

/* CLV_SANITIZER_* that this program runs under. */
uint32_t kit_sanitizers(void);
/* The plugin's path; for cases that look at the file. */
const char *kit_path(const kit *k);
/* Seed of random values: --seed, mixed with the case's name, so that a case
 * repeats alone as it ran among others. */
uint64_t kit_seed(const kit *k);
/* Where a step would be too long for a plain run: --thorough was given. */
bool kit_thorough(const kit *k);
uint64_t kit_timeout_ns(const kit *k); /* of a case */
