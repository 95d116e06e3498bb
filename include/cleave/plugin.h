/*
 * cleave/plugin.h - the Cleave backend ABI, version 1
 *
 * This header stands alone: a backend plugin includes it and nothing else of
 * Cleave. It compiles as C11, C17 and C++17.
 *
 * A plugin is one shared object that exports one symbol, clv_plugin_query().
 * The host calls it with the range of ABI versions it speaks; the plugin
 * answers with a constant table of functions (clv_plugin_api). Everything the
 * plugin needs from the host comes through the host table (clv_host_api).
 *
 * Compatibility
 *   - Every struct that crosses the boundary begins with clv_header. The writer
 *     sets struct_size to sizeof its own version of the struct.
 *   - Structs only grow at the end. A reader uses min(struct_size, its own
 *     sizeof); what the other side does not know reads as zero, and zero always
 *     means the version-1 behaviour. Reserved fields must be zero.
 *   - When the host passes structs to be filled, it sets their headers; the
 *     plugin writes no more than struct_size bytes of each, and leaves nothing
 *     of what it knows unwritten.
 *   - No struct is shorter than its version-1 form.
 *   - A changed signature is a new slot. Slots are never reordered.
 *   - A reader skips chain nodes (header.next) of unknown type, unless the type
 *     has CLV_STRUCT_REQUIRED set: then the call answers CLV_ERR_UNSUPPORTED.
 *   - Unknown enum values answer CLV_ERR_UNSUPPORTED (or "no" in op_caps).
 *
 * Strings are UTF-8 and NUL-terminated. Sizes are bytes, times nanoseconds,
 * unless stated. Tensor dimensions are listed outermost first; the last one is
 * contiguous unless strides say otherwise.
 *
 * Threads. Every slot is tagged:
 *   [any]   may be called from any thread at any time;
 *   [dev]   calls for one device are serialised by the host; calls for two
 *           devices may overlap;
 *   [inst]  calls for one instance are serialised by the host.
 * A plugin holds no lock of its own while it calls the host.
 *
 * Errors. A slot that fails returns a status and, before it returns, says why
 * with host->set_error(). A plugin never aborts, exits, throws across the
 * boundary, prints, or installs signal handlers.
 *
 * Slots marked (optional) may be NULL; the comment states what the host then
 * does. All others are mandatory.
 */
#ifndef CLEAVE_PLUGIN_H_
#define CLEAVE_PLUGIN_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define CLV_PLUGIN_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define CLV_PLUGIN_EXPORT __attribute__((visibility("default")))
#else
#define CLV_PLUGIN_EXPORT
#endif

/* ------------------------------------------------------------------------ */
/* Basics                                                                   */

#define CLV_ABI_VERSION_MIN 1u
#define CLV_ABI_VERSION 1u

typedef struct clv_header {
    uint32_t struct_size; /* sizeof the writer's version of the struct */
    uint32_t struct_type; /* clv_struct */
    const void *next;     /* extension chain: another clv_header, or NULL */
} clv_header;

#define CLV_STRUCT_REQUIRED 0x80000000u

typedef enum clv_struct {
    CLV_STRUCT_NONE = 0,
    CLV_STRUCT_QUERY_IN = 1,
    CLV_STRUCT_QUERY_OUT = 2,
    CLV_STRUCT_HOST_API = 3,
    CLV_STRUCT_PLUGIN_API = 4,
    CLV_STRUCT_OPTION = 5,
    CLV_STRUCT_DEVICE_INFO = 6,
    CLV_STRUCT_MEM_TYPE = 7,
    CLV_STRUCT_IMPORT = 8,
    CLV_STRUCT_TENSOR_DESC = 9,
    CLV_STRUCT_NODE = 10,
    CLV_STRUCT_SUBGRAPH = 11,
    CLV_STRUCT_OP_CAPS = 12,
    CLV_STRUCT_COMPILE = 13,
    CLV_STRUCT_PROGRAM_INFO = 14,
    CLV_STRUCT_BLOB = 15,
    CLV_STRUCT_SUBMIT = 16,
    CLV_STRUCT_COMMAND = 17,
    CLV_STRUCT_TIMELINE_INFO = 18,
    CLV_STRUCT_TRACE_RECORD = 19,
    CLV_STRUCT_CALIBRATION = 20,
} clv_struct;

/* Initialises a struct of this header: zero, size and type set. */
#ifdef __cplusplus
#define CLV_INIT(type, struct_id)                                              \
    {                                                                          \
        {                                                                      \
            (uint32_t)sizeof(type), (uint32_t)(struct_id), NULL                \
        }                                                                      \
    }
#else
#define CLV_INIT(type, struct_id)                                              \
    {                                                                          \
        .header = {(uint32_t)sizeof(type), (uint32_t)(struct_id), NULL }       \
    }
#endif

typedef int32_t clv_status;

enum {
    CLV_OK = 0,
    CLV_ERR_INVALID = -1,      /* an argument breaks the contract */
    CLV_ERR_UNSUPPORTED = -2,  /* well-formed, but not offered here */
    CLV_ERR_NO_MEMORY = -3,    /* host or device memory ran out */
    CLV_ERR_IO = -4,           /* reading or writing a file failed */
    CLV_ERR_FORMAT = -5,       /* outside data is malformed */
    CLV_ERR_NOT_FOUND = -6,    /* no such file, device, key or symbol */
    CLV_ERR_VERSION = -7,      /* no common ABI or format version */
    CLV_ERR_TIMEOUT = -8,      /* a wait ran past its limit */
    CLV_ERR_CANCELLED = -9,    /* the caller asked to stop */
    CLV_ERR_DEVICE_LOST = -10, /* the device is gone; it can only be closed,
                                  after what was made from it is freed */
    CLV_ERR_LIMIT = -11,       /* a declared limit would be passed */
    CLV_ERR_REFUSED = -12,     /* refused for safety (permissions, ownership) */
    CLV_ERR_INTERNAL = -13,    /* a bug in the component that says it */
};

/* Returns the status of a call from the enclosing function unless it is CLV_OK;
 * for functions that have nothing to undo. */
#define CLV_TRY(call)                                                          \
    do {                                                                       \
        clv_status clv_try_status_ = (call);                                   \
        if (clv_try_status_ != CLV_OK)                                         \
            return clv_try_status_;                                            \
    } while (0)

/* ------------------------------------------------------------------------ */
/* Tensors and ops                                                          */

#define CLV_MAX_RANK 5
#define CLV_MAX_INPUTS 8
#define CLV_MAX_OUTPUTS 4
#define CLV_MAX_SYMBOLS 8

/*
 * Element types. Block types group elements along the last dimension, as GGUF
 * stores them. Blocks of 32, d and m f16:
 *   Q8_0    d, int8 q[32]                34 bytes   x[i] = d * q[i]
 *   Q4_0    d, 4-bit pairs [16]          18 bytes   x[i] = d * (nibble - 8);
 *           byte j holds element j in its low and j + 16 in its high nibble
 *   Q4_1    d, m, nibbles as in Q4_0     20 bytes   x[i] = d * nibble + m
 *   Q5_0    d, bits [4], nibbles         22 bytes   x[i] = d * (q - 16);
 *           q = nibble + 16 * bit i, of little-endian bits
 *   Q5_1    d, m, bits [4], nibbles      24 bytes   x[i] = d * q + m
 *   IQ4_NL  d, nibbles                   18 bytes   x[i] = d * table[nibble],
 *           a table of 16 values (clv_iq4_value() in plugin_block.h)
 * Blocks of 256, with an integer scale s and minimum t for each 16 or 32:
 *   Q2_K    s and t in nibbles [16], 2-bit q [64], d, m       84 bytes
 *   Q3_K    third bits [32], 2-bit q [64], 6-bit s [12], d   110 bytes
 *   Q4_K    d, m, 6-bit s and t [12], nibbles [128]          144 bytes
 *   Q5_K    d, m, 6-bit s and t [12], fifth bits [32],
 *           nibbles [128]                                    176 bytes
 *   Q6_K    nibbles [128], upper bits [64], int8 s[16], d    210 bytes
 *   IQ4_XS  d, upper bits of s [2], nibbles of s [4],
 *           nibbles [128]                                    136 bytes
 * Q2_K, Q4_K and Q5_K: x[i] = d * s * q[i] - m * t. Q3_K, Q6_K: x[i] = d * s *
 * (q[i] - 4 or 32). IQ4_XS: x[i] = d * s * table[q[i]]. s of Q3_K and IQ4_XS is
 * stored 32 too large. The order of bits: plugin_superblock.h.
 */
typedef enum clv_dtype {
    CLV_DTYPE_NONE = 0,
    CLV_DTYPE_F32 = 1,
    CLV_DTYPE_F16 = 2,
    CLV_DTYPE_BF16 = 3,
    CLV_DTYPE_I32 = 4,
    CLV_DTYPE_I8 = 5,
    CLV_DTYPE_I4 = 6, /* two a byte, low nibble first, two's complement */
    CLV_DTYPE_Q8_0 = 7,
    CLV_DTYPE_Q4_0 = 8,
    CLV_DTYPE_Q4_1 = 9,
    CLV_DTYPE_Q5_0 = 10,
    CLV_DTYPE_Q5_1 = 11,
    CLV_DTYPE_Q2_K = 12,
    CLV_DTYPE_Q3_K = 13,
    CLV_DTYPE_Q4_K = 14,
    CLV_DTYPE_Q5_K = 15,
    CLV_DTYPE_Q6_K = 16,
    CLV_DTYPE_IQ4_NL = 17,
    CLV_DTYPE_IQ4_XS = 18,
    CLV_DTYPE_COUNT
} clv_dtype;

/* How the integer dtypes I8 and I4 map to real values, as the weight of MATMUL
 * [O,I] and the table of GET_ROWS: x = scale * q, with f32 scales in a tensor
 * of their own, [1], [O] or [O, I / group]. Block dtypes carry their scales and
 * use CLV_QUANT_NONE. */
typedef enum clv_quant {
    CLV_QUANT_NONE = 0,
    CLV_QUANT_PER_TENSOR = 1,  /* one f32 scale */
    CLV_QUANT_PER_CHANNEL = 2, /* f32 scale a row (dims[0]) */
    CLV_QUANT_PER_GROUP = 3,   /* f32 scale a quant_group elements of a row */
} clv_quant;

/* Meaning of an axis, for layouts on texture-like storage. */
typedef enum clv_axis {
    CLV_AXIS_NONE = 0,
    CLV_AXIS_B = 1, /* batch */
    CLV_AXIS_H = 2, /* height; attention heads */
    CLV_AXIS_W = 3, /* width; sequence positions */
    CLV_AXIS_D = 4, /* depth */
    CLV_AXIS_C = 5, /* channels */
    CLV_AXIS_O = 6, /* of CLV_LAYOUT_WEIGHTS: output features */
    CLV_AXIS_I = 7, /* input features */
} clv_axis;

/* Physical kind of the object that holds a tensor. */
typedef enum clv_storage {
    CLV_STORAGE_BUFFER = 0,
    CLV_STORAGE_IMAGE_BUFFER = 1,
    CLV_STORAGE_TEXTURE_2D = 2,
    CLV_STORAGE_TEXTURE_ARRAY = 3,
    CLV_STORAGE_TEXTURE_3D = 4,
} clv_storage;

/*
 * Order of elements inside the object; plugin_layout.h has the places. In all
 * but LINEAR each dimension has an axis of its own and is no symbol, strides
 * are zero, elements are whole bytes, and padding holds zeros. WEIGHTS in a
 * buffer are in groups of one slice of O.
 *
 * The host gives states such layouts where devices wish for them (clv_op_caps).
 * A state in WEIGHTS is what one ATTENTION or several read like the weight of a
 * product, k as [O,I] for scores, v as [I,O] for sums: rows of the cache are
 * axis O of k and axis I of v. So k lies as it does in LINEAR, and v
 * transposed.
 *
 * PRIVATE is of weights alone, in buffers. Their rows, those of all dimensions
 * but the last, lie in blocks of clv_op_caps.private_rows, of which there is a
 * whole number: each takes as many bytes as in LINEAR, in the same order of
 * blocks. What is inside a block is the device's. It makes them by a CONVERT
 * from LINEAR to PRIVATE of the same dtype, of any whole number of blocks.
 * Programs that read the weight have it bound from a buffer's begin on.
 */
typedef enum clv_layout {
    CLV_LAYOUT_LINEAR = 0,  /* by strides */
    CLV_LAYOUT_SLICES4 = 1, /* channels in zero-padded slices of 4, DSHWBC4 */
    CLV_LAYOUT_WEIGHTS = 2, /* (G, S_O, O4, HWD, S_I, I4) */
    CLV_LAYOUT_PRIVATE = 3, /* the device's own, of weights */
} clv_layout;

/* Role of a tensor in a graph. */
typedef enum clv_usage {
    CLV_USAGE_TRANSIENT = 0, /* bound at submit; undefined outside the run. A
                                program that fuses it away ignores it. Memory is
                                shared by lifetime in node order: a node may
                                write where a tensor lay whose last use was an
                                earlier node. A program that fuses or reorders
                                nodes keeps memory of its own where that would
                                clash */
    CLV_USAGE_INPUT = 1,     /* bound at submit, read */
    CLV_USAGE_OUTPUT = 2,    /* bound at submit, written */
    CLV_USAGE_WEIGHT = 3,    /* constant; bound at compile */
    CLV_USAGE_STATE = 4,     /* bound at submit, read and written in place */
} clv_usage;

typedef struct clv_tensor_desc {
    clv_header header;
    uint32_t dtype;             /* clv_dtype */
    uint32_t usage;             /* clv_usage */
    uint32_t rank;              /* 1..CLV_MAX_RANK */
    uint32_t quant;             /* clv_quant */
    uint32_t quant_group;       /* elements, for CLV_QUANT_PER_GROUP */
    uint32_t quant_scales;      /* 1 + tensor index of the scales, 0: none */
    int64_t dims[CLV_MAX_RANK]; /* outermost first; of a symbolic dimension
                                   the upper bound */
    uint32_t symbols[CLV_MAX_RANK]; /* 1 + symbol index, 0: fixed */
    uint32_t storage;               /* clv_storage */
    int64_t strides[CLV_MAX_RANK];  /* bytes an index step, all positive; all
                                     zero: dense. For block dtypes the last one
                                     is a block's */
    uint8_t axes[8];                /* clv_axis of each dimension */
    uint32_t layout;                /* clv_layout */
    uint32_t reserved;
} clv_tensor_desc;

/*
 * Ops, revision 1. n, m: symbolic row counts. Activations are f32 unless the
 * row says otherwise; weights any float or block dtype that op_caps accepts,
 * those of MATMUL and the table of GET_ROWS integers with scales too. [n,C]
 * are rows of C; (i) is row i.
 *
 *   op          inputs                              outputs      attr
 *   GET_ROWS    table [R,C], ids i32 [n]            [n,C] f32    -
 *               ids outside 0..R-1 give rows of NaN
 *   SET_ROWS    state [R,C], src [n,C], ids i32     -            -
 *               [n]: state row ids[i] = src row i, converted; ids outside
 *               0..R-1 are skipped, of equal ones the last counts. Later nodes
 *               see the new rows
 *   MATMUL      x [n,I], w [O,I], bias [O] or none  [n,O]        matmul
 *               y = x * transpose(w) + bias. Where input_scale is not 0, all of
 *               x is input_scale * k, k a whole number in -127..127, as ROUND
 *               makes it: products of integers are then exact
 *   ADD, MUL    a [..], b same shape or [C]         as a         -
 *   SILU, GELU  x                                   as x         -
 *               GELU is the tanh form
 *   GLU         gate [n,C], up [n,C]                [n,C]        glu
 *               activation(gate) * up
 *   SIGMOID     x                                   as x         -
 *               1 / (1 + exp(-x))
 *   SCALE       x                                   as x         scale
 *               factor * x
 *   SOFTCAP     x                                   as x         softcap
 *               cap * tanh(x / cap); cap 0: x
 *   ROUND       x                                   as x         round
 *               scale * k, k the whole number in -127..127 that is nearest to
 *               x / scale, of two the even one; scale 0: x
 *   EXCESS      x                                   as x         excess
 *               x - min(max(x, -limit), limit): what clamping leaves out
 *   RMS_NORM    x [n,C], weight [C]                 [n,C]        norm
 *               x / sqrt(mean(x^2) + eps) * weight
 *   HEAD_NORM   x [n,H*D], weight [D]               [n,H*D]      norm
 *               RMS_NORM of every head of D channels, with one weight for all
 *   LAYER_NORM  x [n,C], weight [C], bias [C] or    [n,C]        norm
 *               none
 *   ROPE        x [n,H*D], pos i32 [n], inv_freq    as x         rope
 *               f32 [R/2], R <= D even: in every head the angle of pair j at
 *               position p is p * inv_freq[j]; channels R..D-1 pass through.
 *               Frequency scaling (linear, llama3, yarn) is the caller's, in
 *               inv_freq
 *   SOFTMAX     x [n,C]                             [n,C]        -
 *   SPARSE_MIXER                                    [n,E]        mixer
 *               x [n,E]: scores of the two experts that SparseMixer chooses,
 *               0 for the others. t: the largest of a row, of equal ones the
 *               first. Its score is 1 / the sum of exp(x - t) over all x with
 *               t - x <= 2 * jitter * max(|x|, t). The second expert's is the
 *               same without the first in the row; of one column there is no
 *               second. A row with NaN or infinity gives NaN
 *   ATTENTION   q [n,H*D], k [R,G*D], v [R,G*D],    [n,H*D]      attention
 *               pos i32 [n], first i32 [n] or none: causal; query i sees
 *               cache rows j with pos[i] - window < j <= pos[i] (window 0:
 *               all), j < R and, where first is there, j >= first[i], so that
 *               a cache holds several sequences. Where apart is 0, all of first
 *               are equal. H is a multiple of G. A query that sees nothing
 *               gives zeros. k and v: f32, f16, or q8_0 where D is a multiple
 *               of 32
 *   CONVERT     x                                   as x, other  -
 *               dtype or strides
 *   TOP_K       x [n,E]                             [n,K] i32    -
 *               ids of the K largest of each row, 1 <= K <= E, the largest
 *               first, of equal ones the lower id; NaN counts as -infinity
 *   NONZERO     x [n,E]                             [n,K] i32    -
 *               ids of what is not 0 in each row, 1 <= K <= E: the largest
 *               magnitude first, of equal ones the lower id, -1 where there are
 *               no more. Of more than K the K largest; NaN counts as infinity
 *   MATMUL_EXPERTS                                  [n,K*O] or   experts
 *               x [n,I] or [n,K*I], w [E,O,I],      [n,O]
 *               ids i32 [n,K], scores [n,A] or none
 *               w has experts first .. first+E-1 of A = total, or where total
 *               is 0 of A = first + E. y(i,k) = x(i) * transpose(w of expert
 *               ids(i,k)), with the k-th of K parts of x(i) where x has them.
 *               The output is y, the K parts of a row side by side, or with
 *               scores the sum over k of s(i,k) * y(i,k), s(i,k) =
 *               scores(i,ids(i,k)), normalised: divided by the sum of s(i,k)
 *               over k. Of an id whose expert w does not have y is 0; of one
 *               outside 0..A-1 s is 0 too
 */
typedef enum clv_op {
    CLV_OP_NONE = 0,
    CLV_OP_GET_ROWS = 1,
    CLV_OP_SET_ROWS = 2,
    CLV_OP_MATMUL = 3,
    CLV_OP_ADD = 4,
    CLV_OP_MUL = 5,
    CLV_OP_SILU = 6,
    CLV_OP_GELU = 7,
    CLV_OP_GLU = 8,
    CLV_OP_RMS_NORM = 9,
    CLV_OP_LAYER_NORM = 10,
    CLV_OP_ROPE = 11,
    CLV_OP_SOFTMAX = 12,
    CLV_OP_ATTENTION = 13,
    CLV_OP_CONVERT = 14,
    CLV_OP_TOP_K = 15,
    CLV_OP_MATMUL_EXPERTS = 16,
    CLV_OP_SIGMOID = 17,
    CLV_OP_SCALE = 18,
    CLV_OP_SOFTCAP = 19,
    CLV_OP_HEAD_NORM = 20,
    CLV_OP_SPARSE_MIXER = 21,
    CLV_OP_ROUND = 22,
    CLV_OP_EXCESS = 23,
    CLV_OP_NONZERO = 24,
    CLV_OP_COUNT
} clv_op;

typedef enum clv_activation {
    CLV_ACT_SILU = 0,
    CLV_ACT_GELU_TANH = 1,
} clv_activation;

typedef enum clv_rope_mode {
    CLV_ROPE_HALVES = 0, /* pairs (j, j + R/2), Hugging Face order */
    CLV_ROPE_PAIRS = 1,  /* pairs (2j, 2j + 1), GGUF Llama order */
} clv_rope_mode;

typedef union clv_op_attr {
    struct {
        float eps;
        uint32_t head_dim; /* D, of HEAD_NORM */
    } norm;
    struct {
        float factor;
    } scale;
    struct {
        float cap;
    } softcap;
    struct {
        float scale;
    } round;
    struct {
        float input_scale; /* 0: x has any values */
    } matmul;
    struct {
        float limit;
    } excess;
    struct {
        float jitter;
    } mixer;
    struct {
        uint32_t activation;
    } glu; /* clv_activation */
    struct {
        uint32_t mode;     /* clv_rope_mode */
        uint32_t head_dim; /* D */
        float scale;       /* multiplies the rotated channels; 0: 1 */
    } rope;
    struct {
        uint32_t head_dim;    /* D */
        float scale;          /* multiplies q.k */
        float softcap;        /* s = cap * tanh(s / cap); 0: none */
        int32_t window;       /* rows seen; 0: all */
        uint32_t rows_symbol; /* 1 + symbol that bounds the cache rows in use
                                 (value > every pos), 0: unknown */
        uint32_t seen_symbol; /* with first: 1 + symbol that bounds the rows
                                 that a query sees, 0: unknown */
        uint32_t apart;       /* 0 or 1. With first, 1: queries are each of a
                                 sequence; 0: all of one */
    } attention;
    struct {
        uint32_t normalised; /* 0 or 1 */
        int32_t first;       /* expert that w begins with */
        int32_t total;       /* of which ids choose; 0: first + E */
    } experts;
    uint64_t raw[8];
} clv_op_attr;

typedef struct clv_node {
    clv_header header;
    uint32_t op;       /* clv_op */
    uint32_t revision; /* of the op's definition: 1 */
    uint32_t n_inputs, n_outputs;
    /* Tensor indices; CLV_NO_TENSOR where an optional input is absent. */
    uint32_t inputs[CLV_MAX_INPUTS];
    uint32_t outputs[CLV_MAX_OUTPUTS];
    clv_op_attr attr;
    uint32_t variant; /* clv_variant.id of the device that is asked or compiles;
                         0: the plain one */
    uint32_t reserved;
} clv_node;

#define CLV_NO_TENSOR 0xffffffffu

/* A symbol is a dimension known only at submit. min == max: a static shape. */
typedef struct clv_symbol_range {
    int64_t min, max;
} clv_symbol_range;

/* A graph, or a part of one, in topological order. The answer to a batched
 * capability query and a compilation both start from this. */
typedef struct clv_subgraph {
    clv_header header;
    const clv_tensor_desc *tensors;
    const clv_node *nodes;
    const clv_symbol_range *symbols;   /* the shape bucket */
    uint32_t n_tensors, tensor_stride; /* stride: bytes between elements */
    uint32_t n_nodes, node_stride;
    uint32_t n_symbols, reserved;
} clv_subgraph;

/* ------------------------------------------------------------------------ */
/* Capabilities                                                             */

typedef enum clv_answer {
    CLV_ANSWER_NO = 0,
    CLV_ANSWER_YES = 1,
    CLV_ANSWER_STATIC = 2, /* yes, compiled for one of the shapes given */
} clv_answer;

/* Bound on the difference from the f32 reference, by the normalised mean
 * square error: sum((y - ref)^2) / sum(ref^2). */
typedef enum clv_error_class {
    CLV_ERROR_UNSTATED = 0,  /* 1e-3 */
    CLV_ERROR_EXACT = 1,     /* bit-equal */
    CLV_ERROR_F32 = 2,       /* 1e-10: f32 sums in another order */
    CLV_ERROR_F16 = 3,       /* 1e-6: f16 intermediate values */
    CLV_ERROR_Q8 = 4,        /* 1e-4: activations rounded to 8 bits by block */
    CLV_ERROR_Q8_TENSOR = 5, /* 1e-2: rounded to 8 bits with one scale */
} clv_error_class;

/* Axes along which an op may be divided. ROWS are also the last dimension of
 * elementwise ops, ADD and GLU among them, and of the b [C] of theirs. The
 * table of plugin_op.h has the axes of every operand. */
enum {
    CLV_SPLIT_ROWS = 1u << 0,     /* output features: rows of the weight */
    CLV_SPLIT_SEQUENCE = 1u << 1, /* rows of the activation */
    CLV_SPLIT_CHANNELS = 1u << 2, /* input features: partial sums */
    CLV_SPLIT_HEADS = 1u << 3,    /* attention heads, whole groups */
    CLV_SPLIT_EXPERTS = 1u << 4,  /* experts: partial sums with scores, else
                                     parts that are 0 where others are not */
};

typedef struct clv_axis_limit {
    int64_t min, max, multiple; /* 0: no bound */
} clv_axis_limit;

/*
 * Another way to compute a node, beside the plain one. It reads and writes what
 * the plain one does, in the same layouts, and takes about as much memory: it
 * differs in time and in precision. So the host chooses by what it measures,
 * and by how precise results have to be.
 */
typedef struct clv_variant {
    uint32_t id;          /* not 0. It means the same in all answers of the
                             device: what was measured for some shapes tells
                             about others */
    uint32_t error_class; /* clv_error_class */
    char name[24];        /* for people and saved plans, "width-8": letters,
                             digits, '-', '_', '.'; no two ids share one */
} clv_variant;

#define CLV_MAX_VARIANTS 4 /* of a node */
#define CLV_MAX_PRIVATE_ROWS 256

typedef struct clv_op_caps {
    clv_header header;
    uint32_t answer;      /* clv_answer */
    uint32_t error_class; /* clv_error_class */
    char reason[120];     /* for a "no": what, limit; NUL-terminated */
    /* clv_layout that the device prefers for each input that is a state or a
       weight; 0: as it is. The host asks again with it in the tensor's
       description, and compiles so if the answer is yes. Else the node runs as
       it is. A state may get WEIGHTS where a plan uses it on one device alone,
       whole, and all nodes there prefer it. A weight may get PRIVATE where it
       is copied to the device's own memory and all nodes there prefer it, on a
       device without CLV_DEVICE_STATIC_SHAPES. All
       nodes that prefer it for weights of one dtype and one length of rows read
       the same. */
    uint32_t layouts[CLV_MAX_INPUTS];
    clv_axis_limit rows, sequence, channels;
    const int64_t *static_shapes; /* n_static sequence lengths; valid until the
                                     device closes */
    uint32_t n_static;
    uint32_t split_axes;          /* CLV_SPLIT_* */
    int64_t split_granularity[4]; /* by bit of split_axes, elements; 0: 1. Of
                                     experts it is 1 */
    uint32_t split_max_parts;     /* 0: no bound */
    uint32_t alias_inputs;        /* bit i: output 0 may lie where input i lies,
                                     if both have the same dtype, dimensions and
                                     strides */
    uint32_t pointer_align, stride_align; /* bytes; 0: element size */
    /* Bytes of the device's memory, about, that a program takes for it beside
     * what is bound, and that programs of the device share. */
    uint64_t scratch_size;
    uint32_t accumulate; /* clv_dtype of sums */
    uint32_t n_variants; /* of the node, beside the plain one */
    /* A node that names one of them (clv_node.variant) is answered for as it is
       computed so, with the same list. */
    clv_variant variants[CLV_MAX_VARIANTS];
    uint32_t private_rows; /* of a block of CLV_LAYOUT_PRIVATE: a power of two,
                              at most CLV_MAX_PRIVATE_ROWS; 0: 1 */
    uint32_t reserved;
} clv_op_caps;

/* ------------------------------------------------------------------------ */
/* Devices and memory                                                       */

typedef struct clv_plugin_instance clv_plugin_instance;
typedef struct clv_plugin_device clv_plugin_device;
typedef struct clv_plugin_buffer clv_plugin_buffer;
typedef struct clv_plugin_program clv_plugin_program;
typedef struct clv_plugin_timeline clv_plugin_timeline;

typedef enum clv_device_kind {
    CLV_DEVICE_CPU = 1,
    CLV_DEVICE_GPU = 2,
    CLV_DEVICE_NPU = 3,
    CLV_DEVICE_OTHER = 4,
} clv_device_kind;

typedef enum clv_clock {
    CLV_CLOCK_REAL = 0,
    CLV_CLOCK_VIRTUAL = 1,
} clv_clock;

enum {
    CLV_DEVICE_STATIC_SHAPES = 1u << 0,  /* programs need min == max */
    CLV_DEVICE_FLAG_STORE = 1u << 1,     /* stores flag words itself */
    CLV_DEVICE_FLAG_WAIT = 1u << 2,      /* waits on foreign flag words */
    CLV_DEVICE_NEEDS_PROGRESS = 1u << 3, /* host must call progress() */
    CLV_DEVICE_SOFTWARE = 1u << 4,       /* runs on the host's processors */
    CLV_DEVICE_REPACKS = 1u << 5,        /* programs may keep weights a second
                                            time, in another layout; takes
                                            CLV_COMPILE_SCARCE */
    CLV_DEVICE_COPIES_ROWS = 1u << 6,    /* takes COPY commands of rows */
    CLV_DEVICE_PEER_WAIT = 1u << 7,      /* waits for others of the plugin that
                                            have this, without the host */
};

typedef struct clv_device_info {
    clv_header header;
    char id[64];       /* stable across runs: "", "0", "hexagon"; no blank,
                          colon or comma; the host prefixes the plugin's
                          name: "opencl:0" */
    char name[128];    /* for people */
    char driver[64];   /* driver name and version; part of cache keys */
    uint8_t uuid[16];  /* physical device; zero: unknown */
    char bus_path[64]; /* PCI address or device tree path, or empty */
    uint32_t kind;     /* clv_device_kind */
    uint32_t flags;    /* CLV_DEVICE_* */
    uint32_t clock;    /* clv_clock */
    uint32_t n_mem_types;
    uint32_t
        queue_depth; /* submits that may be in flight in a queue; 0: no bound */
    uint32_t max_programs;             /* resident at once; 0: no bound */
    uint64_t memory_size, memory_free; /* bytes; 0: unknown */
    uint32_t units;                    /* cores, compute units */
    uint32_t reserved;
    uint64_t program_size; /* bytes of weights and tensors that a program may
                             reach; 0: no bound */
    uint32_t copy_queues;  /* that copy beside the work of queue 0; 0: none */
    uint32_t reserved2;
    uint64_t address_size; /* bytes of weights and states in the host's memory
                              that all its programs together may reach, with
                              what they work on; 0: no bound */
} clv_device_info;

/* A device that has DEVICE_LOCAL types, none of which is HOST_VISIBLE, COHERENT
 * and CACHED as well, has memory of its own: all that its programs are bound to
 * lies there, and the host submits COPY commands from and to what it sees. */
enum {
    CLV_MEM_DEVICE_LOCAL = 1u << 0,
    CLV_MEM_HOST_VISIBLE = 1u << 1,
    CLV_MEM_COHERENT = 1u << 2,         /* no flush or invalidate needed */
    CLV_MEM_CACHED = 1u << 3,           /* host reads are fast */
    CLV_MEM_IMPORTS_WRITABLE = 1u << 4, /* imports only with both accesses:
                                           memory that the host cannot write is
                                           copied */
};

/* External handles; also the bits of import masks. */
enum {
    CLV_HANDLE_HOST_POINTER = 1u << 0,
    CLV_HANDLE_DMABUF = 1u << 1,
    CLV_HANDLE_OPAQUE_FD = 1u << 2,
    CLV_HANDLE_AHARDWAREBUFFER = 1u << 3,
    /* Pointer into what buffer_map of a device of the same plugin gave, while
     * that buffer lives. For types that copy from and to such memory, but not
     * from and to other memory of the host's. */
    CLV_HANDLE_MAPPED_POINTER = 1u << 4,
};

typedef struct clv_mem_type {
    clv_header header;
    uint32_t flags;          /* CLV_MEM_* */
    uint32_t import_handles; /* CLV_HANDLE_* */
    uint32_t storages;       /* bit per clv_storage, beside buffers */
    uint32_t reserved;
    uint64_t alignment;    /* of allocations */
    uint64_t max_size;     /* of one allocation; 0: memory size */
    uint64_t budget;       /* bytes now available, 1: none; 0: unknown */
    uint64_t import_align; /* of pointer, offset and size */
    double import_ns;      /* cost of one import */
    double bandwidth;      /* bytes a second; 0: unknown */
} clv_mem_type;

enum {
    CLV_ACCESS_READ = 1u << 0,
    CLV_ACCESS_WRITE = 1u << 1,
};

/* Memory from elsewhere. The plugin calls release (if set) exactly once, when
 * it no longer touches the memory; not when import fails. */
typedef struct clv_import {
    clv_header header;
    uint32_t handle_type; /* one CLV_HANDLE_* */
    uint32_t access;      /* CLV_ACCESS_* */
    void *pointer;        /* host pointer or AHardwareBuffer */
    int64_t fd;           /* else a descriptor; stays the caller's, the plugin
                             duplicates it */
    uint64_t offset, size;
    void (*release)(void *ctx);
    void *release_ctx;
} clv_import;

/* ------------------------------------------------------------------------ */
/* Timelines                                                                */

/*
 * A timeline counts upward, below 2^63. Reaching a value means that all work
 * which signals it or a lower value is complete and visible. A failed timeline
 * stays failed, at the value it had reached, and wakes all waiters; the first
 * failure is kept, its message cut where it is too long. A submit all of whose
 * timelines have failed is not begun any more, and the device fails a timeline
 * only once no such work touches memory: who sees the failure may free what was
 * bound.
 *
 * Its flag word repeats the value in shared memory for pollers: a naturally
 * aligned 64-bit word alone on its cache line, written with release ordering,
 * the top bit set once the timeline has failed.
 */
#define CLV_FLAG_FAILED 0x8000000000000000ull

typedef struct clv_timeline_info {
    clv_header header;
    const uint64_t *flag; /* valid while the timeline lives; read atomically */
    uint64_t value;       /* reached so far */
    int32_t status;       /* CLV_OK, or why it failed */
    uint32_t reserved;
    char message[128]; /* of the failure */
} clv_timeline_info;

/* A point to wait for or to signal. To wait for another device's work give its
 * flag word in place of a timeline (CLV_DEVICE_FLAG_WAIT). */
typedef struct clv_timeline_point {
    clv_plugin_timeline *timeline;
    const uint64_t *flag;
    uint64_t value;
} clv_timeline_point;

/* ------------------------------------------------------------------------ */
/* Programs                                                                 */

/* Memory bound to a tensor of a subgraph. */
typedef struct clv_binding {
    uint32_t tensor; /* index in the subgraph */
    uint32_t reserved;
    clv_plugin_buffer *buffer;
    uint64_t offset, size; /* bytes */
} clv_binding;

typedef struct clv_compile {
    clv_header header;
    const clv_subgraph *graph;  /* only read during the call */
    const clv_binding *weights; /* every CLV_USAGE_WEIGHT tensor, once; the
                                   buffers outlive the program */
    uint32_t n_weights;
    uint32_t flags;      /* CLV_COMPILE_* */
    const char *options; /* plugin-specific, or NULL */
    /* May be NULL. fraction 0..1; a non-zero answer cancels. */
    int (*progress)(void *ctx, float fraction);
    void *progress_ctx;
    uint64_t repack_size; /* CLV_COMPILE_SCARCE: see there */
} clv_compile;

/* Memory of the device is limited: the second copies of the program's weights,
 * in another layout, take repack_size bytes at most, those that it shares with
 * other programs counted. Only for devices with CLV_DEVICE_REPACKS. */
enum { CLV_COMPILE_SCARCE = 1u << 0 };

typedef struct clv_program_info {
    clv_header header;
    uint64_t memory_size;  /* resident, bytes: what the plugin holds for it,
                              such as weights in another layout, but not the
                              buffers that are bound */
    uint64_t scratch_size; /* while running, bytes; the plugin's own */
    uint64_t compile_ns;
    uint32_t n_kernels;
    uint32_t reserved;
    /* Transients that the program does not touch, since it fuses them away:
       n_untouched indices in the subgraph, rising. The array is the program's.
       Runs need not bind them: a binding takes the host some 0.1 us */
    const uint32_t *untouched;
    uint32_t n_untouched, reserved2;
} clv_program_info;

typedef enum clv_verdict {
    CLV_VERDICT_GOOD = 0,
    CLV_VERDICT_SUBOPTIMAL = 1, /* runs, a new compile would be better */
    CLV_VERDICT_STALE = 2,      /* other build, driver or options */
    CLV_VERDICT_FOREIGN = 3,    /* not a program of this plugin, or damaged */
} clv_verdict;

/* A serialised program: bytes in memory, or fd + offset when data is NULL. */
typedef struct clv_blob {
    clv_header header;
    const void *data;
    uint64_t size;
    int64_t fd;
    uint64_t offset;
} clv_blob;

/* ------------------------------------------------------------------------ */
/* Submission                                                               */

typedef enum clv_command_kind {
    CLV_COMMAND_RUN = 1,
    CLV_COMMAND_COPY = 2,
    CLV_COMMAND_FILL = 3,
} clv_command_kind;

typedef struct clv_command {
    clv_header header;
    uint32_t kind; /* clv_command_kind */
    uint32_t n_bindings, n_symbols, reserved;
    /* RUN: every tensor of the program's subgraph but the weights and those
       that it does not touch (clv_program_info), each bound once, to size bytes
       or more than it has with these values of symbols; its rows past them are
       not touched. Else CLV_ERR_INVALID, and nothing runs */
    clv_plugin_program *program;
    const clv_binding *bindings;
    const int64_t *symbols; /* their values, inside the compiled ranges */
    /* COPY: size bytes, of ranges that do not overlap; FILL: size bytes of dst
       with pattern, its low byte first, beginning at dst_offset. Any offsets
       and sizes inside the buffers, 0 too, and any types of memory */
    clv_plugin_buffer *src, *dst;
    uint64_t src_offset, dst_offset, size;
    uint32_t pattern, reserved2;
    /* COPY, where the device has CLV_DEVICE_COPIES_ROWS: so many rows of size
       bytes, each that many bytes behind the one before, size or more. What
       lies between rows is not touched. 0 and 1: one row, and the pitches mean
       nothing */
    uint64_t n_rows, src_pitch, dst_pitch;
} clv_command;

/* Commands run in order; all start after the waits and the signals follow the
 * last. Without commands, the signals follow the waits and all earlier submits
 * of the queue. Queues of a device run side by side; what one of them needs of
 * another is in its waits, which may be on the device's own timelines. When a
 * wait fails the commands do not run, and the signals fail with its status and
 * message. The arrays are only read during the call. */
typedef struct clv_submit {
    clv_header header;
    const clv_command *commands;
    const clv_timeline_point *waits, *signals;
    uint32_t n_commands, command_stride;
    uint32_t n_waits, n_signals;
    uint64_t correlation; /* copied to the trace records; 0: do not record */
    uint32_t queue; /* 0: all commands; 1 .. copy_queues: COPY and FILL alone */
    uint32_t reserved;
} clv_submit;

/* ------------------------------------------------------------------------ */
/* Timing                                                                   */

typedef struct clv_trace_record {
    clv_header header;
    uint64_t correlation;
    uint64_t begin, end; /* device ticks */
    uint32_t node;       /* in the subgraph, of several in one kernel the first;
                            CLV_NO_TENSOR: whole command */
    uint32_t command;    /* index in the submit */
    char name[48];       /* kernel or op */
} clv_trace_record;

typedef struct clv_calibration {
    clv_header header;
    uint64_t device_tick, host_ns; /* the same moment */
    uint64_t max_error_ns;
    double tick_ns;   /* length of a tick */
    double energy_nj; /* used since the instance was created; 0: unknown */
} clv_calibration;

/* ------------------------------------------------------------------------ */
/* The host's table                                                         */

typedef enum clv_log_level {
    CLV_LOG_ERROR = 0,
    CLV_LOG_WARN = 1,
    CLV_LOG_INFO = 2,
    CLV_LOG_DEBUG = 3,
} clv_log_level;

typedef struct clv_host clv_host;

/* Lives as long as the instance. All slots [any] and never NULL. */
typedef struct clv_host_api {
    clv_header header;
    clv_host *host;          /* first argument of every call */
    const char *plugin_path; /* absolute path of the shared object */
    const char *plugin_dir;  /* its directory */
    const char *cache_dir;   /* where the plugin may keep files; "" if none */
    uint32_t n_workers;      /* parallel_for runs at most that many at once */
    uint32_t abi_version;    /* negotiated */

    /* One line, no newline at its end. file may be NULL. */
    void (*log)(clv_host *host, uint32_t level, const char *file, int32_t line,
                const char *text);
    /* Says why the current slot fails: what, where, limit, remedy. Returns
     * status. vendor: the driver's own code, 0 if none. */
    clv_status (*set_error)(clv_host *host, clv_status status, int64_t vendor,
                            const char *text);
    /* alignment: a power of two. NULL when out of memory. */
    void *(*alloc)(clv_host *host, uint64_t size, uint64_t alignment);
    void (*free)(clv_host *host, void *ptr);
    /* Calls fn(ctx, i) for i in 0..n-1 on host threads, returns when all are
     * done. Not from inside fn. For work on the processors now and then, such
     * as weights that program_compile() brings into another layout; a device
     * that computes there all the time has threads of its own. */
    void (*parallel_for)(clv_host *host, uint32_t n,
                         void (*fn)(void *ctx, uint32_t i), void *ctx);
    uint64_t (*now_ns)(clv_host *host); /* monotonic */
    /* Value of one of the plugin's options (clv_option), after all sources of
     * configuration; NULL for a key that was not declared. A key of scope
     * device is asked for as "hexagon.clock", by the name in the section. Valid
     * until the instance is destroyed. */
    const char *(*option)(clv_host *host, const char *key);
    /* Persistent cache, shared between runs. get: CLV_ERR_NOT_FOUND if absent;
     * the data is the caller's to release with free(). put is atomic. */
    clv_status (*cache_get)(clv_host *host, const char *key, void **data,
                            uint64_t *size);
    clv_status (*cache_put)(clv_host *host, const char *key, const void *data,
                            uint64_t size);
    /* A span of host time for the trace. */
    void (*trace)(clv_host *host, const char *name, uint64_t begin_ns,
                  uint64_t end_ns);
    /* The index-th section for a device of the plugin, in the order of the
     * configuration: "hexagon" of [npu_sim:hexagon]; NULL past the last one.
     * Valid as option()'s answers. */
    const char *(*device_section)(clv_host *host, uint32_t index);
} clv_host_api;

/* ------------------------------------------------------------------------ */
/* The plugin's table                                                       */

typedef enum clv_option_type {
    CLV_OPTION_INT = 1,    /* decimal, min..max */
    CLV_OPTION_FLOAT = 2,  /* min..max */
    CLV_OPTION_BOOL = 3,   /* on|off */
    CLV_OPTION_STRING = 4, /* anything */
    CLV_OPTION_ENUM = 5,   /* one of choices, "a|b|c" */
} clv_option_type;

/* Failures that tests ask for. */
typedef enum clv_fault {
    CLV_FAULT_LOST = 1, /* the device is lost: work in flight fails its
                           timelines, later calls answer CLV_ERR_DEVICE_LOST */
    CLV_FAULT_HANG = 2, /* work submitted from now on never ends by itself;
                           closing the device still works */
} clv_fault;

/*
 * Where a key stands in the ini file: in the plugin's section, [npu_sim], or in
 * sections for single devices, named by their ids: [npu_sim:hexagon]. A plugin
 * whose devices are described there finds their names by device_section(). A
 * key may be declared for both places.
 */
typedef enum clv_option_scope {
    CLV_SCOPE_PLUGIN = 0,
    CLV_SCOPE_DEVICE = 1,
} clv_option_scope;

/* A key that the plugin takes from the ini file. */
typedef struct clv_option {
    clv_header header;
    const char *key;
    const char *default_value;
    const char *help;
    const char *choices; /* for ENUM, else NULL */
    uint32_t type;       /* clv_option_type */
    uint32_t scope;      /* clv_option_scope */
    double min, max;
} clv_option;

enum {
    CLV_PLUGIN_UNLOADABLE = 1u << 0, /* may be dlclosed after destroy */
    CLV_PLUGIN_SPAWNS_THREADS = 1u << 1,
};

typedef struct clv_plugin_api {
    clv_header header;
    const char *name;     /* [a-z][a-z0-9_]*: section and device prefix */
    const char *version;  /* for people */
    const char *build_id; /* changes with every build that changes results or
                             serialised programs */
    const char *description;
    uint32_t flags; /* CLV_PLUGIN_* */
    uint32_t n_options, option_stride, reserved;
    const clv_option *options;

    /* --- instance ------------------------------------------------------- */
    /* [any] host outlives the instance. */
    clv_status (*create)(const clv_host_api *host, clv_plugin_instance **out);
    /* [inst] Joins all threads; afterwards only destroy is legal. */
    clv_status (*quiesce)(clv_plugin_instance *inst);
    /* [inst] All children are gone. NULL is legal. */
    void (*destroy)(clv_plugin_instance *inst);
    /* [inst] Finds devices. In: *count elements in out (stride bytes apart),
     * out may be NULL with *count 0. Out: *count = devices present; the first
     * min() of them are written. No device is success with 0; set_error() may
     * say why. */
    clv_status (*enumerate)(clv_plugin_instance *inst, uint32_t *count,
                            clv_device_info *out, uint32_t stride);

    /* --- device --------------------------------------------------------- */
    /* [inst] index: as enumerated; others answer CLV_ERR_NOT_FOUND. A device
     * that is open may be opened again, independent of the first, or answers
     * CLV_ERR_LIMIT. */
    clv_status (*device_open)(clv_plugin_instance *inst, uint32_t index,
                              clv_plugin_device **out);
    /* [inst] Everything made from it is gone. Submits that have not started are
     * cancelled. What devices share, such as pools and threads, may
     * stay until quiesce and destroy. NULL is legal. */
    void (*device_close)(clv_plugin_device *dev);
    /* [any] count and stride as in enumerate. */
    clv_status (*mem_types)(clv_plugin_device *dev, uint32_t *count,
                            clv_mem_type *out, uint32_t stride);
    /* [any] Pure. Answers for every node of the graph, out[i] stride bytes
     * apart. A yes binds: running the node can then fail only for memory or
     * device loss. */
    clv_status (*op_caps)(clv_plugin_device *dev, const clv_subgraph *graph,
                          clv_op_caps *out, uint32_t stride);
    /* [dev] (optional unless NEEDS_PROGRESS) Moves asynchronous work on. */
    clv_status (*progress)(clv_plugin_device *dev);

    /* --- buffers -------------------------------------------------------- */
    /* [any] Contents undefined. size: 1 or more; past max_size CLV_ERR_LIMIT or
     * CLV_ERR_NO_MEMORY. */
    clv_status (*buffer_alloc)(clv_plugin_device *dev, uint32_t mem_type,
                               uint64_t size, clv_plugin_buffer **out);
    /* [any] (optional: import_handles are zero) A pointer, offset or size that
     * is no multiple of import_align answers CLV_ERR_INVALID; a handle type
     * that import_handles lacks, or an access that the type does not take,
     * CLV_ERR_UNSUPPORTED. */
    clv_status (*buffer_import)(clv_plugin_device *dev, uint32_t mem_type,
                                const clv_import *import,
                                clv_plugin_buffer **out);
    /* [any] No submitted work uses it any more. NULL is legal. */
    void (*buffer_free)(clv_plugin_buffer *buf);
    /* [any] (optional: no memory is host-visible) The pointer stays valid
     * until unmap; meanwhile work may use the buffer, but not bytes that the
     * host touches at the same time. Memory that is not host-visible answers
     * CLV_ERR_UNSUPPORTED, access that an import lacks CLV_ERR_INVALID. */
    clv_status (*buffer_map)(clv_plugin_buffer *buf, uint32_t access,
                             void **out);
    void (*buffer_unmap)(clv_plugin_buffer *buf);
    /* [any] (optional: all memory is coherent) Host writes to device, and
     * device writes to host. The buffer need not be mapped. */
    clv_status (*buffer_flush)(clv_plugin_buffer *buf, uint64_t offset,
                               uint64_t size);
    clv_status (*buffer_invalidate)(clv_plugin_buffer *buf, uint64_t offset,
                                    uint64_t size);

    /* --- timelines ------------------------------------------------------ */
    clv_status (*timeline_create)(clv_plugin_device *dev, uint64_t value,
                                  clv_plugin_timeline **out); /* [any] */
    /* [any] Legal while submitted work waits for it or signals it: the plugin
     * keeps what that work needs. NULL is legal. */
    void (*timeline_destroy)(clv_plugin_timeline *tl);
    /* [any] */
    clv_status (*timeline_query)(clv_plugin_timeline *tl,
                                 clv_timeline_info *out);
    /* [any] From the host; value above the present one, else CLV_ERR_INVALID.
     * A failed timeline answers its own status. */
    clv_status (*timeline_signal)(clv_plugin_timeline *tl, uint64_t value);
    /* [any] Marks it failed; later calls are ignored. */
    clv_status (*timeline_fail)(clv_plugin_timeline *tl, clv_status status,
                                const char *message);
    /* [any] Polls for spin_ns, then blocks; CLV_ERR_TIMEOUT after timeout_ns
     * (UINT64_MAX: never). A failed timeline answers its own status, whatever
     * the value. */
    clv_status (*timeline_wait)(clv_plugin_timeline *tl, uint64_t value,
                                uint64_t spin_ns, uint64_t timeout_ns);

    /* --- programs ------------------------------------------------------- */
    /* [any] At max_programs resident it answers CLV_ERR_LIMIT. */
    clv_status (*program_compile)(clv_plugin_device *dev,
                                  const clv_compile *compile,
                                  clv_plugin_program **out);
    clv_status (*program_info)(clv_plugin_program *prog,
                               clv_program_info *out); /* [any] */
    /* [any] No submitted work uses it any more. NULL is legal. */
    void (*program_destroy)(clv_plugin_program *prog);
    /* [any] (optional, with the two below: programs are compiled again) write
     * answers CLV_OK or the status to give up with. */
    clv_status (*program_serialize)(clv_plugin_program *prog,
                                    clv_status (*write)(void *ctx,
                                                        const void *data,
                                                        uint64_t size),
                                    void *ctx);
    /* [any] verdict: clv_verdict. Never fails on bad bytes. */
    clv_status (*program_validate)(clv_plugin_device *dev,
                                   const clv_compile *compile,
                                   const clv_blob *blob, uint32_t *verdict);
    /* [any] What validate calls stale or foreign is an error. */
    clv_status (*program_load)(clv_plugin_device *dev,
                               const clv_compile *compile, const clv_blob *blob,
                               clv_plugin_program **out);
    /* [any] (optional, with serialize) 32 bytes over build, driver, device,
     * options, bucket and graph, and over the contents of weights if the bytes
     * of a program hold anything made of them. */
    clv_status (*program_key)(clv_plugin_device *dev,
                              const clv_compile *compile, uint8_t key[32]);

    /* --- work ----------------------------------------------------------- */
    /* [dev] Does not block; at queue_depth submits in flight in its queue it
     * answers CLV_ERR_LIMIT. After an error nothing of the submit runs. Submits
     * of a queue run in their order, each as if it began when the one before it
     * had ended. A later failure fails the signalled timelines. */
    clv_status (*submit)(clv_plugin_device *dev, const clv_submit *submit);

    /* --- timing --------------------------------------------------------- */
    /* [dev] (optional: no device times) Moves finished records to out. */
    clv_status (*trace_read)(clv_plugin_device *dev, uint32_t *count,
                             clv_trace_record *out, uint32_t stride);
    /* [dev] (optional, with trace_read) */
    clv_status (*calibrate)(clv_plugin_device *dev, clv_calibration *out);

    /* --- tests ---------------------------------------------------------- */
    /* [dev] (optional: faults are not tested) Makes the device fail as its
     * hardware might. fault: clv_fault; what is not known answers
     * CLV_ERR_UNSUPPORTED. Never called but by tests. */
    clv_status (*fault_inject)(clv_plugin_device *dev, uint32_t fault);
} clv_plugin_api;

/* ------------------------------------------------------------------------ */
/* Entry                                                                    */

typedef struct clv_query_in {
    clv_header header;
    uint32_t abi_min, abi_max; /* what the host speaks */
    uint32_t sanitizers;       /* CLV_SANITIZER_* the host runs under */
    uint32_t reserved;
} clv_query_in;

enum {
    CLV_SANITIZER_ADDRESS = 1u << 0,
    CLV_SANITIZER_THREAD = 1u << 1,
};

typedef struct clv_query_out {
    clv_header header;
    const clv_plugin_api *api; /* constant, valid while loaded */
    uint32_t abi_version;      /* chosen by the plugin, in the host's range */
    uint32_t abi_min, abi_max; /* what the plugin speaks */
    uint32_t reserved;
    char reason[128]; /* when the answer is not CLV_OK */
} clv_query_out;

/* The only export. Pure: no threads, no allocation, no device access. A plugin
 * has no constructors: none of its code runs before this. */
typedef clv_status (*clv_plugin_query_fn)(const clv_query_in *in,
                                          clv_query_out *out);
CLV_PLUGIN_EXPORT clv_status clv_plugin_query(const clv_query_in *in,
                                              clv_query_out *out);

#define CLV_PLUGIN_QUERY_SYMBOL "clv_plugin_query"

/* Answers the query for a plugin that speaks the ABI versions from abi_min to
 * CLV_ABI_VERSION of this header: the highest that the host speaks too. */
static inline clv_status clv_query_answer(const clv_query_in *in,
                                          clv_query_out *out, uint32_t abi_min,
                                          const clv_plugin_api *api)
{
    out->abi_min = abi_min;
    out->abi_max = CLV_ABI_VERSION;
    for (const clv_header *h = (const clv_header *)in->header.next; h;
         h = (const clv_header *)h->next)
        if (h->struct_type & CLV_STRUCT_REQUIRED)
            return CLV_ERR_UNSUPPORTED; /* none is known yet */
    if (in->abi_min > out->abi_max || in->abi_max < abi_min)
        return CLV_ERR_VERSION;
    out->abi_version = in->abi_max < out->abi_max ? in->abi_max : out->abi_max;
    out->api = api;
    return CLV_OK;
}

/*
 * The manifest: what the host reads in the file before it maps it, so that a
 * plugin which cannot run here is refused without running any of its code. A
 * plugin has exactly one, at file scope:
 *
 *   CLV_PLUGIN_MANIFEST("name = vpu\n"
 *                       "abi = 1\n"
 *                       "devices = npu\n");
 *
 * Lines of "key = value"; '#' begins a comment. Unknown keys are skipped.
 *   name     as clv_plugin_api.name; the file is cleave_NAME.so
 *   abi      versions spoken, "1" or "1-2"
 *   devices  kinds it may enumerate: cpu, gpu, npu, other; spaces between
 *   cpu      features of the processor it needs even to be asked, "avx2 fma",
 *            by the names of /proc/cpuinfo; left out: none
 *   drivers  what its drivers depend on, see docs/loading.md; left out: none
 * It is an ELF note of owner "Cleave", type 1, in section .note.cleave.
 */
#define CLV_MANIFEST_OWNER "Cleave"
#define CLV_MANIFEST_TYPE 1u
#define CLV_MANIFEST_MAX 4096u /* bytes of text */

#if defined(__GNUC__)
#define CLV_PLUGIN_MANIFEST(text_)                                             \
    __attribute__((used, aligned(4),                                           \
                   section(".note.cleave"))) static const struct {             \
        uint32_t owner_size, text_size, type;                                  \
        char owner[8];                                                         \
        char text[(sizeof(text_) + 3) / 4 * 4];                                \
    } clv_plugin_manifest = {sizeof CLV_MANIFEST_OWNER, sizeof(text_),         \
                             CLV_MANIFEST_TYPE, CLV_MANIFEST_OWNER, text_}
#endif

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_H_ */
