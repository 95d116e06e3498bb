/* Cases that run one after the other in one process, and on in a fresh one
 * after each that fails, crashes or hangs. */
#pragma once

#include "process.h"

typedef enum kit_outcome {
    KIT_PASSED,
    KIT_FAILED,  /* said so */
    KIT_CRASHED, /* a signal, or ended by itself */
    KIT_HUNG,
    KIT_SKIPPED,
    KIT_EXCLUDED,
    KIT_NOT_RUN, /* others hung before it */
    KIT_XFAILED, /* failed, as was expected */
    KIT_XPASSED, /* passed, unexpectedly */
    KIT_N_OUTCOMES
} kit_outcome;

typedef struct kit_item {
    const kit_case *of;
    const char *name; /* full */
} kit_item;

/* What became of an item; for the end of the process n_items. */
typedef struct kit_verdict {
    kit_outcome outcome;
    const char *text; /* the reason or the note, "" if none */
    uint64_t ns;
    uint64_t printed; /* bytes */
    bool warned;      /* the note is a warning */
} kit_verdict;

typedef struct kit_batch {
    const kit_config *config;
    const kit_item *items;
    uint32_t n_items;
    uint32_t device;      /* as enumerated, or KIT_NO_DEVICE */
    const char *end_name; /* the end is a case of this name; NULL: it is not */
    bool silent;          /* a case that prints, and does so again when it is
                             repeated, fails */
    void *ctx;
    /* In order, once each. False after one that ended its process: no more. */
    bool (*on_verdict)(void *ctx, uint32_t item, const kit_verdict *verdict);
    void (*on_data)(void *ctx, const kit_record *record); /* may be NULL */
} kit_batch;

typedef enum kit_batch_end {
    KIT_BATCH_DONE,
    KIT_BATCH_USAGE, /* a setting was wrong: error */
    KIT_BATCH_INTERRUPTED,
} kit_batch_end;

kit_batch_end kit_batch_run(const kit_batch *batch, char error[KIT_TEXT_SIZE]);
