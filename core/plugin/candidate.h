/* The files considered as plugins, and the outcome of each. */
#pragma once

#include "../context/context.h"
#include "manifest.h"

/* pub's strings are its own. */
typedef struct core_candidate {
    clv_candidate pub;
    char *path;
    char *name; /* by its file or its manifest; "" while unknown */
    char *version, *reason;
    core_manifest manifest; /* once it is inspected */
} core_candidate;

typedef struct core_candidates {
    core_candidate **list;
    uint32_t n;
} core_candidates;

/* Both strings are copied. NULL when out of memory. */
core_candidate *core_candidate_add(core_candidates *all, const char *path,
                                   const char *name);
void core_candidates_free(core_candidates *all);
/* A candidate has that name. all: a core_candidates. */
bool core_candidate_named(void *all, const char *name);

/* Fills in what the manifest says. */
clv_status core_candidate_describe(core_candidate *c,
                                   const core_manifest *manifest);
/* Notes why the candidate stopped: the thread's message. */
void core_candidate_stop(clv_context *ctx, core_candidate *c, uint32_t level,
                         clv_status status);
/* Adds to the reason something that does not stop it. */
void core_candidate_note(clv_context *ctx, core_candidate *c, uint32_t level,
                         const char *fmt, ...) CLV_PRINTF(4, 5);
