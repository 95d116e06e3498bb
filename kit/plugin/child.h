/*
 * A process in which the plugin runs: what it tells its parent, and the state
 * behind the kit handle that cases are given.
 */
#pragma once

#include "config.h"
#include "under_test.h"

/* What a child says. Records are of one size, below PIPE_BUF, so that those of
 * several threads do not mix. */
typedef enum kit_record_kind {
    KIT_RECORD_BEGIN = 1, /* a case, by index */
    KIT_RECORD_PASS,      /* text: its note */
    KIT_RECORD_FAIL,      /* text: why; the process ends */
    KIT_RECORD_SKIP,      /* text: why */
    KIT_RECORD_END,       /* everything was given back; exit() follows */
    KIT_RECORD_USAGE,     /* text: what is wrong with a setting; it ends */
    KIT_RECORD_DATA,      /* data: of the work's own */
    KIT_RECORD_ALIVE,     /* kit_alive(): nothing is said */
} kit_record_kind;

#define KIT_RECORD_DATA_SIZE 1024

typedef struct kit_record {
    uint32_t magic, kind, index, tag; /* tag: says what data is */
    uint64_t ns;                      /* the case took */
    bool warned;                      /* text is a warning */
    union {
        char text[KIT_TEXT_SIZE];
        uint8_t data[KIT_RECORD_DATA_SIZE];
        uint64_t align;
    };
} kit_record;

#define KIT_RECORD_MAGIC 0x6b697431u

/* Exit status after a verdict of its own. */
#define KIT_EXIT_FAILED 111

#define KIT_NO_DEVICE UINT32_MAX
#define KIT_N_SIGNALS 65

struct kit {
    const kit_config *config;
    int fd;          /* records go there */
    uint32_t device; /* index as enumerated, or KIT_NO_DEVICE */
    void (*handlers[KIT_N_SIGNALS])(int); /* of the process as it began */
    bool plugin_made;
    kit_plugin plugin;
    /* of the case that runs */
    uint32_t index;
    const char *name; /* full: "cpu/ops.add" */
    uint64_t begin_ns;
    uint64_t random;
    bool skipped, warned;
    char note[KIT_TEXT_SIZE];  /* under mutex, as is error */
    char error[KIT_TEXT_SIZE]; /* any host's latest, until it is expected */
    pthread_mutex_t mutex;
    _Atomic uint32_t n_checks;
    _Atomic bool failing; /* a thread is writing the verdict */
};

uint64_t kit_now(void); /* monotonic, ns */

void kit_child_init(kit *k, const kit_config *config, int fd);
/* The handlers of all signals as they are now. */
void kit_child_handlers(void (*out[KIT_N_SIGNALS])(int));
/* Before and after the body of a case. */
void kit_child_begin(kit *k, uint32_t index, const char *name);
void kit_child_verdict(kit *k);
/* Gives the plugin under test back, whatever is open of it, and says so. */
void kit_child_end(kit *k);
/* Data of the work's own; size <= KIT_RECORD_DATA_SIZE. */
void kit_child_send(kit *k, uint32_t tag, const void *data, size_t size);
/* A wrong setting: says so, and ends the process. */
_Noreturn void kit_child_usage(kit *k, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* The time the running case still has, less what it needs to say so. */
uint64_t kit_time_left(const kit *k);
