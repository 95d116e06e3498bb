/*
 * Templates to code.
 *
 * A template is text with one KERNEL { ... }, in the words of language.h, that
 * names its operands and params by "args.":
 *
 *   args.T.Read(b,x,y,d,s)        f32x4: four channels of slice s, zeros past C
 *   args.T.Load(b,x,y,d,s)        the same, of F32 and a slice without padding
 *   args.T.ReadScalar(b,x,y,d,c)  f32
 *   args.T.ReadInt(b,x,y,d,c)     int, of I32
 *   args.T.Write(v,b,x,y,d,s)     channels past C are dropped; they may lie
 *                                 apart
 *   args.T.WriteScalar(v,b,x,y,d,c)
 *   args.T.Row(b,x,y,d)           place: bytes from where T is bound to the row
 *   args.T.Word(at) Half(at) Byte(at)  uint: the bits at a place, a multiple of
 *                                 their size
 *   args.T.SetHalf(at,bits)       a statement that writes 16 of them
 *   args.T.Quad(at)               u32x4: 16 bytes there, so aligned, too; of
 *                                 private memory, whose begin is, or of an
 *                                 operand with quads
 *   args.T.Width() Channels() Slices()  int: rows (of a rank-2 tensor), C, C/4
 *   args.P                        int: a param, or its value where it is fixed
 *
 * A tensor T of the program's own may lie in slices of 4 channels, in a buffer
 * or an image, or as weights in layout WEIGHTS in several of them: x is the
 * output channel then. T_SLICED is defined, and of the methods above there are
 * Read, Load, ReadScalar, Write, Width, Channels and Slices. Which object is
 * read is known when the kernel is compiled, where x is so modulo 4. Of I32
 * these have u32x4 and uint: bits.
 *
 * What Write stores first goes through the operand's posts: elementwise ops
 * that were fused into the kernel. A coordinate that is the text 0 costs
 * nothing. Operands and params are names in the kernel: its own variables have
 * others. Lines that begin with LOCAL declare arrays of the group: "LOCAL f32
 * sum[64];".
 */
#pragma once

#include "kernels.h"
#include "text.h"

/* Where a tensor's elements lie: by strides, the rows in W and the channels in
 * C; of the axes that a template does not name the coordinate is 0. */
typedef struct gpu_operand {
    const char *name;
    uint32_t dtype;
    bool written;
    uint32_t memory, index; /* as gpu_arg */
    uint64_t offset;
    gpu_expr width, channels;
    gpu_expr strides[5]; /* bytes: B, H, W, D, C (CLV_L_B ...) */
    bool weights;        /* the text has the words of its format (formats.h) */
    bool packed;         /* channels follow one another */
    bool quads;          /* read by Quad, where a place is aligned */
    bool sliced;         /* instead of by strides, by the map, in private
                            memory from index on, one each object; dtype:
                            of its elements, F32, F16 or I32 */
    uint32_t storage;
    clv_layout_map map;
    int64_t first_slice; /* that slice 0 is in the map */
    uint32_t through;    /* 1 + operand of I32 that has for each x the row
                            that is written, or -1: none; 0: x itself */
} gpu_operand;

/* Physical objects that hold it, each an argument of the kernel. */
static inline uint32_t gpu_objects(const gpu_operand *t)
{
    return t->sliced ? (uint32_t)t->map.extent[CLV_PHYS_OBJECT] : 1;
}

typedef struct gpu_param {
    const char *name;
    gpu_expr value;
} gpu_param;

/* An op on what a kernel writes; operand: of the same coordinates as dst. */
typedef enum gpu_post_op {
    GPU_POST_ADD,      /* v + operand */
    GPU_POST_MUL,      /* v * operand */
    GPU_POST_MUL_SILU, /* v * silu(operand) */
    GPU_POST_MUL_GELU,
    GPU_POST_SILU,
    GPU_POST_GELU,
    GPU_POST_SIGMOID,
    GPU_POST_SCALE,   /* v * value */
    GPU_POST_SOFTCAP, /* value * tanh(v / value) */
    GPU_POST_EXCESS,  /* v less what lies in -value..value of it */
    GPU_POST_ROUND,   /* to the op's multiple of value, which is positive */
} gpu_post_op;

typedef struct gpu_post {
    gpu_post_op op;
    uint32_t operand; /* index in the call's operands */
    float value;
} gpu_post;

#define GPU_MAX_OPERANDS 44
#define GPU_MAX_POSTS 8
#define GPU_MAX_DEFINES 40
#define GPU_MAX_USES 12

typedef struct gpu_known gpu_known;

/* What stands for all that a call says but where its operands lie. */
typedef struct gpu_digest {
    uint64_t a, b;
} gpu_digest;

/* One dispatch, described. */
typedef struct gpu_call {
    const char *name;               /* of the template, a C identifier */
    const char *variant;            /* as gpu_target.disabled names it */
    const char *text;               /* the template, with its KERNEL */
    const char *uses[GPU_MAX_USES]; /* texts of helpers in front of it */
    gpu_operand operands[GPU_MAX_OPERANDS];
    gpu_param params[GPU_MAX_PARAMS];
    gpu_post posts[GPU_MAX_POSTS]; /* in their order, of the last operand named
                                      dst */
    struct {
        const char *name;
        int64_t value;
    } defines[GPU_MAX_DEFINES];
    bool subgroups;   /* SUBGROUPS is defined, and its words are known */
    bool apart;       /* an element that is written is read by the item that
                         writes it alone, before that: reads of others need not
                         wait. OpenCL C only */
    bool wide;        /* it may have GPU_MAX_OPERANDS arguments, and be repeated
                         (gpu_build_repeated()). OpenCL C only */
    bool exchanges;   /* as gpu_dispatch */
    const char *sent; /* the operand, one row; NULL: none */
    uint32_t n_operands, n_params, n_posts, n_defines, n_maps, n_uses;
    uint32_t local[3];
    gpu_expr groups[3];
    uint32_t node; /* the builder's */
} gpu_call;

/* Arguments of its kernel; those of its operands. */
uint32_t gpu_call_args(const gpu_call *call);
/* As many as there can be. */
static inline uint32_t gpu_max_args(const gpu_call *call)
{
    return call->wide ? GPU_MAX_OPERANDS : GPU_MAX_BINDINGS;
}

/* Calls of a run that say the same, of which one dispatch is to be made. */
typedef struct gpu_repeated {
    gpu_call *calls; /* their operands are where the kernel finds them; the
                        first one's texts are copies, the others' are gone */
    uint32_t n, max;
    uint32_t built; /* calls, before these */
    gpu_digest digest;
} gpu_repeated;

/* Code under construction. */
typedef struct gpu_builder {
    const clv_host_api *host;
    const gpu_target *target;
    gpu_code *code;
    const uint32_t *moved; /* by tensor: 1 + private buffer that holds it, 0:
                              where it is bound; or NULL */
    const clv_layout_map *maps; /* by tensor, of those moved into slices; of
                                   others n_elements is 0 */
    gpu_known *known;           /* calls whose text was made (known.c) */
    gpu_repeated repeated;      /* the last of the run, not yet built */
    uint32_t max_kernels, max_setup, max_dispatches, max_privates;
    uint32_t n_known, max_known;
    uint32_t node; /* what is built is recorded as this node's: the first of
                      those that it computes */
} gpu_builder;

/* Makes the call's kernel unless the code has it, and appends its dispatch, to
 * the setup or to the run. */
clv_status gpu_build(gpu_builder *b, const gpu_call *call, bool setup);
/*
 * Appends the call, which is wide, to the run. On a target with repeats it
 * becomes one dispatch with the calls of the same text right before it, as long
 * as there are arguments for all. Its template goes through them by itself, and
 * is to see to it that each finds what those before it wrote:
 *
 *   REPEATS            how many they are
 *   REPEAT_PLACES(r)   a declaration: from there on the operands are those of
 *                      call r. Helpers in front of KERNEL may have it, too
 */
clv_status gpu_build_repeated(gpu_builder *b, const gpu_call *call);
/* Builds what is kept for more calls of its kind. gpu_build() does, too. */
clv_status gpu_build_kept(gpu_builder *b);
/* Takes back the dispatches of the run and the setup behind so many. */
void gpu_build_undo(gpu_builder *b, uint32_t n_dispatches, uint32_t n_setup);
/* Once all is built; the code stays. */
void gpu_builder_finish(gpu_builder *b);
/* A new private buffer. */
clv_status gpu_build_private(gpu_builder *b, uint64_t size, bool weights,
                             uint32_t *index);
/* Those that hold what the map says, of elements F32, F16 or I32: *index is the
 * first object's. */
clv_status gpu_build_objects(gpu_builder *b, const clv_layout_map *map,
                             uint32_t storage, uint32_t dtype, bool weights,
                             uint32_t *index);

static inline gpu_expr gpu_constant(int64_t value)
{
    return (gpu_expr){.constant = value, .divisor = 1};
}

/* Space for one more element in an array that doubles. */
clv_status gpu_grow(const clv_host_api *host, void *array, uint32_t n,
                    uint32_t *max, size_t size);
