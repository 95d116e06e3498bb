/* How a call becomes text: what template.c, operand.c and frame.c share. */
#pragma once

#include "code.h"

#define GPU_MAX_NAME 24
#define GPU_MAX_METHOD_ARGS 6

/* Work on one call. What the text makes use of becomes an integer argument. */
typedef struct gpu_maker {
    const gpu_target *target;
    const gpu_call *call; /* the first of n_calls that the kernel is for */
    uint32_t n_calls;
    bool varies[GPU_MAX_OPERANDS]; /* by operand: it lies elsewhere in each of
                                      the calls */
    gpu_text body, source;
    struct {
        char name[GPU_MAX_NAME];
        gpu_expr value;
    } ints[GPU_MAX_PARAMS];
    uint32_t n_ints;
    const char *wrong; /* why the template cannot be made; NULL: all is well */
    char unknown[GPU_MAX_NAME]; /* what "args." names in vain, if it is that */
} gpu_maker;

/* Arguments of the kernel for each object of operand i. */
static inline uint32_t gpu_times(const gpu_maker *m, uint32_t i)
{
    return m->varies[i] ? m->n_calls : 1;
}

/* Arguments of a method, resolved. */
typedef struct gpu_method_args {
    gpu_text text[GPU_MAX_METHOD_ARGS];
    uint32_t n;
} gpu_method_args;

/* template.c */
void gpu_wrong(gpu_maker *m, const char *why);
/* The template's text, with what "args." says resolved. */
void gpu_put_text(gpu_maker *m, gpu_text *out, const char *text, size_t n);
/* The integer argument of that name. */
void gpu_put_int(gpu_maker *m, gpu_text *out, const char *name,
                 const gpu_expr *value);
/* That of something about an operand: "NAME_FIELD". */
void gpu_put_field(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                   const char *field, const gpu_expr *value);

/* operand.c: args.T.METHOD(args) */
void gpu_put_method(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                    const char *method, const gpu_method_args *args);

/* slices.c: the same of an operand in slices; at: b, x, y, d, and s or c. */
void gpu_put_slice(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                   const gpu_text *at);
void gpu_put_channel(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                     const gpu_text *at);
/* "T_store(PLACE, LEFT, ": what is stored and ")" are to follow. */
void gpu_put_store(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                   const gpu_text *at);

/* repeat.c: the memory that an OpenCL kernel takes, and where in it its
 * operands begin, as its arguments; REPEATS and REPEAT_PLACES; and what its
 * body begins with. */
void gpu_put_arguments(const gpu_maker *m, gpu_text *out);
void gpu_put_repeats(const gpu_maker *m, gpu_text *out);
void gpu_put_repeated_places(const gpu_maker *m, gpu_text *out);
/* Which operands vary. */
void gpu_find_varying(gpu_maker *m);
void gpu_repeated_free(gpu_builder *b);

/* code.c: operands whose tensor lies in private memory. */
clv_status gpu_move(const gpu_builder *b, gpu_call *call);
/* One dispatch of calls that were moved, which say the same. */
clv_status gpu_build_calls(gpu_builder *b, const gpu_call *calls, uint32_t n,
                           bool setup);

/* known.c: all that the call says but where its operands lie. */
gpu_digest gpu_digest_of(const gpu_call *call);
/* Whether a call said the same before; then its kernel, and the
 * integer arguments in m. */
bool gpu_known_find(const gpu_builder *b, gpu_maker *m, uint32_t *kernel);
/* After its text was made. */
clv_status gpu_known_add(gpu_builder *b, const gpu_maker *m, uint32_t kernel);

/* frame.c: all of the source. */
void gpu_put_source(gpu_maker *m);
