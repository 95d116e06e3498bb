/*
 * What making programs ready takes: compiling them, or loading them from the
 * cache of programs. Devices are asked nothing: what they took is noted, and a
 * model of it answers for other programs.
 *
 * A program costs its device most when it is new there. The same program again,
 * for another layer or from the cache, is another matter and has a model of its
 * own.
 */
#pragma once

#include "../../core/device/device.h"
#include "fit.h"

typedef struct planner_program {
    uint64_t hash; /* of its nodes, shapes and bucket, not of weights */
    double nodes;
    double elements;     /* of all but weights, at their largest */
    double weight_bytes; /* which may be brought into another layout */
} planner_program;

/* A program without nodes, for a bucket; the others add to it. Tensors have the
 * indices that nodes, and quant_scales, use. */
void planner_program_begin(planner_program *program,
                           const clv_symbol_range *symbols, uint32_t n);
void planner_program_add_tensor(planner_program *program,
                                const clv_tensor_desc *desc);
void planner_program_add_node(planner_program *program, const clv_node *node);
planner_program planner_program_of(const clv_subgraph *graph);

/* What making one took, by the device's clock. */
typedef struct planner_program_time {
    planner_program program;
    double ns;
    bool was_cached, is_cached; /* on disk, before and since */
} planner_program_time;

typedef struct planner_program_record {
    planner_program program;
    double first_ns, again_ns; /* 0: not known */
    bool is_cached;
    bool met; /* by this process */
} planner_program_record;

/* Of one device. */
typedef struct planner_programs {
    planner_program_record *items; /* the latest one last */
    uint32_t n, capacity;
    planner_linear first, again; /* models */
    bool has_first, has_again;
} planner_programs;

/* Whether programs come from the cache that are there. */
bool planner_programs_load(const clv_device *dev);
void planner_programs_finish(planner_programs *programs);
/* loads: programs come from the cache that are there. *changed: whether another
 * process should know. CLV_ERR_NO_MEMORY. */
clv_status planner_programs_note(planner_programs *programs,
                                 const planner_program_time *times, uint32_t n,
                                 bool loads, bool *changed);
/* Adds a record as it was kept. */
clv_status planner_programs_add(planner_programs *programs,
                                const planner_program_record *record);
/* Fits the models to the records. */
clv_status planner_programs_fit(planner_programs *programs);
/* again: there is one in the plan already. 0 where nothing is known. */
double planner_programs_ns(const planner_programs *programs,
                           const planner_program *program, bool again,
                           bool loads);
