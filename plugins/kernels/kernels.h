/*
 * GPU kernels, written once for OpenCL C and GLSL.
 *
 * gpu_lower() turns a subgraph into code: kernels as source text for one
 * device, the dispatches of a run, and the private buffers they need. It knows
 * no API; the plugins build the text, hold the memory and enqueue. Both compile
 * these files into themselves.
 *
 * A kernel is a template (templates/) over logical coordinates. It says
 * args.src.Read(b,x,y,d,s) and args.dst.Write(v,b,x,y,d,s) for four channels of
 * slice s; the generator (code/) resolves them to index arithmetic for the
 * tensor's layout and storage (cleave/plugin_layout.h), its strides and the
 * symbols' values. The rest of the text is the common part of both languages,
 * with the words of language.c for what differs (types, work groups, local
 * memory, barriers, subgroups).
 *
 * Tensors that others see are buffers, LINEAR by strides. Activations of a
 * program's own may be in slices of 4 channels, in a buffer or an image of any
 * kind: gpu_target.slices; so may weights, by gpu_target.weights, of which one
 * tensor may have several objects.
 *
 * Kernels, templates and files are named OP[_SHAPE][_UNIT][_TYPE][_LANGUAGE]:
 * gemv, gemm_int8, attention_decode_tensor_opencl. docs/kernels.md has the
 * values of each part. Portable kernels are written once, those for tensor
 * cores once a language.
 */
#pragma once

#include <cleave/plugin_layout.h>
#include <cleave/plugin_node.h>

typedef enum gpu_language {
    GPU_OPENCL_C = 0,
    GPU_GLSL = 1,
} gpu_language;

/* The layout that attention prefers for its cache: by rows; as weights; or as
 * weights where no tensor cores read it, which transpose rows as they load
 * them: the portable kernel is faster with four rows of a channel. */
typedef enum gpu_states {
    GPU_STATES_ROWS = 0,
    GPU_STATES_WEIGHTS = 1,
    GPU_STATES_AUTO = 2,
} gpu_states;

/* What code may use on a device; filled in by the plugin from what the API
 * answers. Everything that is not there has a portable path. */
typedef struct gpu_target {
    gpu_language language;
    uint32_t max_group; /* work items of a group */
    uint32_t max_group_size[3];
    uint32_t local_bytes; /* local memory of a group */
    uint32_t subgroup;    /* its size; 0: no subgroup operations. GLSL only */
    uint64_t max_binding; /* bytes of a buffer that a kernel can reach */
    uint32_t image[5][3]; /* by clv_storage: the largest x, y and z of images
                             of 4 x f32 a texel that kernels read and that
                             they write; z of an array counts its layers; 0:
                             there are none */
    uint32_t slices;      /* 1 + the clv_storage that a program's own
                             activations lie in, in slices of 4 channels,
                             where ops and limits allow; 0: rows in buffers.
                             Textures pay where they have a cache that
                             buffers do not go through */
    uint32_t weights;     /* the same of weights that products without matrix
                             instructions read: a setup brings them into
                             layout WEIGHTS, those of 8 and 4 bits as words;
                             0: they are read where they are bound */
    bool image_halves[5]; /* by clv_storage: there are images of 4 x f16 a
                             texel, too, as large */
    bool fp16;            /* arithmetic */
    bool fp16_storage, int8_storage; /* 16- and 8-bit buffer elements; OpenCL C
                                        always has 8, and half by vload_half */
    bool int_dot;                    /* 4 x 8-bit dot product */
    bool nvidia_ptx;                 /* inline PTX for sm_80 and later */
    bool plain_matrix;    /* instead, matrix instructions by plain code, slow:
                             for tests of the kernels around them */
    uint32_t wgmma_bytes; /* local memory of a group of kernels that are opened
                             for sm_90a (ptx.h), by plain code with
                             plain_matrix; 0: there are none */
    bool series;          /* products that follow one another, of one row with
                             attentions between them, or of three to eight,
                             are one kernel, whose groups wait for each
                             other, one to a compute unit; with wgmma_bytes */
    uint32_t repeats;     /* layers whose arguments a kernel may have, at the
                             most; OpenCL C only */
    uint32_t apart;       /* layers that are kernels of their own before: while
                             these run, the host gets a longer one ready */
    bool coop_matrix;     /* KHR cooperative matrices of f16, 16 x 16 x 16 */
    bool coop_bytes;      /* and of signed bytes, 16 x 16 x 32 */
    bool unified;         /* memory is the host's */
    bool scarce;          /* memory is: no setup brings weights into another
                             layout, */
    uint32_t n_repacked;  /* but those of the nodes before this one */
    gpu_states states;    /* the layout of the cache */
    uint32_t units;       /* compute units, to choose sizes by */
    const char *disabled; /* names of kernel variants not to use, separated
                             by ',': those that computed wrongly here */
    const char *choices;  /* what tuning found (tune.h), "KEY=ID,KEY=ID";
                             NULL: nothing */
} gpu_target;

/* A number that depends on the symbols of a run:
 * ceil((constant + factor * symbols[symbol - 1]) / divisor). */
typedef struct gpu_expr {
    int64_t constant, factor, divisor; /* divisor >= 1 */
    uint32_t symbol;                   /* 0: none */
    uint32_t given; /* by the plugin instead, where a launch exchanges: 1 + 2 *
                       gpu_exchange + (0: the high half, 1: the low one); 0:
                       never */
} gpu_expr;
int64_t gpu_expr_value(const gpu_expr *expr, const int64_t *symbols);

/*
 * What the plugin gives a launch that is to take results of another device, or
 * to give that one its own: 64 bits each. The memory is the host's, that both
 * devices see. All zero: neither.
 */
typedef enum gpu_exchange {
    GPU_RECEIVE_TO,    /* address, of the device's memory */
    GPU_RECEIVE_FROM,  /* address, of whole lines of 128 bytes */
    GPU_RECEIVE_BYTES, /* of whole lines */
    GPU_RECEIVE_WORD,  /* address; 0: it takes nothing */
    GPU_RECEIVE_VALUE, /* that the word has, or more, once they are there */
    GPU_SEND_TO,       /* address; 0: it gives nothing */
    GPU_SEND_WORD,     /* address */
    GPU_SEND_VALUE,    /* that the word gets once they are there */
    GPU_EXCHANGE_VALUES
} gpu_exchange;

#define GPU_MAX_PARAMS 80
/* OpenCL C only. With their integers they stay below the 4 KiB of parameters
 * that an NVIDIA GPU takes. */
#define GPU_MAX_ARGS 300
#define GPU_MAX_BINDINGS 16 /* arguments that all devices take */
#define GPU_MAX_INTS (GPU_MAX_ARGS + GPU_MAX_PARAMS)
#define GPU_MAX_PUSHED 32 /* 128 bytes of push constants, which all have */

typedef enum gpu_memory {
    GPU_MEMORY_TENSOR = 0,  /* of the subgraph, as bound at compile or submit */
    GPU_MEMORY_PRIVATE = 1, /* of the program */
} gpu_memory;

/*
 * Argument i of a kernel: in OpenCL argument i, in GLSL binding i of set 0. A
 * plugin binds memory that begins at or below the argument's first byte (a
 * whole buffer, or from the multiple below that the API asks for), and says by
 * an integer how many bytes below: see gpu_kernel.n_params. In GLSL the memory
 * is an array of 32-bit words; bind to the end of the buffer's last word.
 */
typedef struct gpu_arg {
    uint32_t memory; /* gpu_memory */
    uint32_t index;  /* tensor, or private buffer */
    uint64_t offset; /* bytes behind the tensor's or private buffer's begin */
    bool written;
} gpu_arg; /* an image has no offset; its integer is 0. Each of a tensor's
              objects is an argument, one after another */

/* Text that is built once. Its entry is "main" in GLSL, `name` in OpenCL C. */
typedef struct gpu_kernel {
    char *name;    /* "gemm_tensor"; a C identifier */
    char *variant; /* family and variant, as gpu_target.disabled names it */
    char *source;
    uint32_t local[3]; /* work items of a group */
    uint32_t n_args;
    uint8_t storage[GPU_MAX_ARGS]; /* clv_storage of argument i: a buffer; or an
                         image that is written, in GLSL imageBuffer, image2D,
                         image2DArray or image3D, of format rgba32f, rgba16f
                         or rgba32ui, which is the memory's; or one that is
                         read, in GLSL textureBuffer, texture2D,
                         texture2DArray or texture3D */
    bool written[GPU_MAX_ARGS];
    uint32_t n_params; /* 32-bit integers, after the args: in OpenCL arguments
                          of type int, in GLSL push constants in this order.
                          Before them come n_args such integers: the bytes from
                          where argument i is bound to its first byte, below
                          2^31. In GLSL n_args <= GPU_MAX_BINDINGS, n_args +
                          n_params <= GPU_MAX_PUSHED */
} gpu_kernel;

typedef struct gpu_dispatch {
    uint32_t kernel; /* index */
    uint32_t node; /* of the subgraph, the first that it computes: for traces */
    gpu_arg *args; /* [n_args of the kernel] */
    gpu_expr params[GPU_MAX_PARAMS];
    gpu_expr groups[3]; /* work groups; 0 groups: nothing to do */
    bool exchanges;     /* its params have what gpu_exchange says */
    uint32_t sent;      /* 1 + the argument that it can give; 0: none */
    uint64_t sent_bytes;
} gpu_dispatch;

typedef struct gpu_private {
    uint64_t size;      /* bytes */
    bool weights;       /* filled by the setup, once; else scratch, whose
                           contents a run need not find again */
    bool own;           /* weights that runs change: no other program's */
    uint32_t storage;   /* clv_storage */
    uint32_t extent[3]; /* of an image, in texels: x, y, z; z of an array
                           counts its layers */
    uint32_t dtype;     /* of an image: a texel is 4 x F32, F16 or I32 */
} gpu_private;

/* A lowered subgraph. Dispatches run in order; each sees what those before it
 * wrote. */
typedef struct gpu_code {
    gpu_kernel *kernels;
    gpu_dispatch *setup;      /* once, at compile: repacked weights */
    gpu_dispatch *dispatches; /* each run */
    gpu_private *privates;
    uint32_t n_kernels, n_setup, n_dispatches, n_privates;
} gpu_code;

/* The graph as the plugin was given it; strides of arrays as in the ABI. */
clv_status gpu_lower(const clv_host_api *host, const gpu_target *target,
                     const clv_subgraph *graph, gpu_code **out);
void gpu_code_free(const clv_host_api *host, gpu_code *code);

/* What gpu_lower() can do: op_caps for each node. */
void gpu_caps(const gpu_target *target, const clv_subgraph *graph,
              clv_op_caps *out, uint32_t stride);
