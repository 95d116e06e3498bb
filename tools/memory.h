/*
 * How much lies where: what the plans of a session take of each device's own
 * memory and of the host's, and what more of it would bring.
 */
#pragma once

#include "env.h"
#include "table.h"

#define TOOL_MEMORY_ROWS 17

/* Of single tokens, then of prompts. */
typedef struct tool_memory_plan {
    /* As clv_memory_use, of this plan alone. */
    uint64_t streamed, in_place, from_file;
    double more_ns; /* a run, with 1 GiB more of this memory; 0: not asked */
} tool_memory_plan;

typedef struct tool_memory_row {
    const clv_device *dev; /* NULL: the host's memory */
    clv_memory_use use;    /* of all plans */
    tool_memory_plan plans[2];
} tool_memory_row;

typedef struct tool_memory {
    uint32_t n_tokens[2];                   /* 0: no such plan was asked for */
    double ns[2];                           /* a run as it is */
    tool_memory_row rows[TOOL_MEMORY_ROWS]; /* none where no device has memory
                                               of its own, and all fits */
    uint32_t n_rows;
} tool_memory;

/* Prepares runs of a token (if single) and of n_prompt tokens (0: none). Both
 * belong together, and both are prepared, where a device cannot hold all of the
 * weights; there it is asked for each such device what a GiB more would bring,
 * if more. */
clv_status tool_memory_look(const tool_env *env, const clv_model *model,
                            clv_session *session, bool single,
                            uint32_t n_prompt, bool more, tool_memory *out);
/* Lines like those that say what a text will be made with. */
void tool_memory_print(const tool_memory *memory);
/* For tool_table_end(); false: there are no rows. */
bool tool_memory_table(const tool_memory *memory, const char *format,
                       tool_table *out);
