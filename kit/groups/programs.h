/* The files of the group programs. */
#pragma once

#include "../work/work.h"

/* A graph that the device takes, bound and compiled, with its output's bytes
 * after a run. */
typedef struct programs_bench {
    kit *k;
    kit_plugin *p;
    kit_graph g;
    kit_program prog;
    uint32_t output;
} programs_bench;

/* flags: KIT_ANY_*. False: the case is skipped. */
bool programs_open(kit *k, uint32_t flags, programs_bench *b);
void programs_close(programs_bench *b);
/* Compiles, and must; what: "from copies". */
clv_plugin_program *programs_compile(programs_bench *b, const clv_compile *info,
                                     const char *what);
/* Submits and, if it is taken, waits for the end. */
clv_status programs_submit(kit_plugin *p, const clv_command *command);
/* Runs a program in place of the bench's own, on a cleared output; the image of
 * the output holds the result. */
void programs_run(programs_bench *b, clv_plugin_program *program,
                  const char *what);
/* A copy of the output's bytes; free(). */
uint8_t *programs_output(programs_bench *b);
/* The output must be equal to these bytes. */
void programs_same(programs_bench *b, const uint8_t *bytes, const char *what);

/* Cases of wrong weights and bindings. */
void programs_list_bindings(kit_list *l);
/* Cases of programs kept as bytes. */
void programs_list_blobs(kit_list *l);
/* Cases of program_key. */
void programs_list_keys(kit_list *l);
