/* Lies about ops. */
#include "hostile.h"

#include <math.h>
#include <string.h>

#define SPOIL_CAPS(name, condition, ...)                                       \
    static clv_status name(clv_plugin_device *dev, const clv_subgraph *graph,  \
                           clv_op_caps *out, uint32_t stride)                  \
    {                                                                          \
        clv_status status = ref_op_caps(dev, graph, out, stride);              \
        for (uint32_t i = 0; i < graph->n_nodes && !status; i++) {             \
            clv_op_caps *caps =                                                \
                (clv_op_caps *)((char *)out + (size_t)i * stride);             \
            if (condition) {                                                   \
                __VA_ARGS__;                                                   \
            }                                                                  \
        }                                                                      \
        return status;                                                         \
    }

#define YES (caps->answer == CLV_ANSWER_YES)
#define NO (caps->answer == CLV_ANSWER_NO)

static const int64_t with_zero[] = {4, 0};

SPOIL_CAPS(answer_unknown, YES, caps->answer = 77)
SPOIL_CAPS(class_unknown, YES, caps->error_class = 99)
SPOIL_CAPS(range_empty, YES, caps->sequence = (clv_axis_limit){8, 4, 0})
SPOIL_CAPS(range_negative, YES, caps->sequence.multiple = -1)
SPOIL_CAPS(align_odd, YES, caps->pointer_align = 48)
SPOIL_CAPS(stride_odd, YES, caps->stride_align = 48)
SPOIL_CAPS(granularity_negative, YES, caps->split_granularity[0] = -4)
SPOIL_CAPS(variants_many, YES, caps->n_variants = 99)
SPOIL_CAPS(variants_empty, YES, caps->n_variants = 1)
SPOIL_CAPS(variants_class, YES, caps->n_variants = 1;
           caps->variants[0] = (clv_variant){1, 99, "other"})
SPOIL_CAPS(variants_name, YES, caps->n_variants = 1;
           caps->variants[0] = (clv_variant){1, CLV_ERROR_F32, "a b"})
SPOIL_CAPS(variants_twice, YES, caps->n_variants = 2;
           caps->variants[0] = (clv_variant){1, CLV_ERROR_F32, "a"};
           caps->variants[1] = (clv_variant){1, CLV_ERROR_F32, "b"})
SPOIL_CAPS(variants_false, YES, caps->n_variants = 1;
           caps->variants[0] = (clv_variant){9, CLV_ERROR_F32, "none"})
SPOIL_CAPS(layouts_unknown, YES, caps->layouts[1] = 77)
SPOIL_CAPS(private_rows_odd, YES, caps->private_rows = 3)
SPOIL_CAPS(private_unasked, YES, caps->layouts[1] = CLV_LAYOUT_LINEAR)
SPOIL_CAPS(static_zero, YES, caps->answer = CLV_ANSWER_STATIC;
           caps->static_shapes = with_zero; caps->n_static = 2)
SPOIL_CAPS(static_none, YES, caps->answer = CLV_ANSWER_STATIC;
           caps->static_shapes = NULL; caps->n_static = 2)
SPOIL_CAPS(no_reason, YES || NO, caps->answer = CLV_ANSWER_NO;
           memset(caps->reason, 0, sizeof caps->reason))
SPOIL_CAPS(reason_endless, YES || NO, caps->answer = CLV_ANSWER_NO;
           memset(caps->reason, 'r', sizeof caps->reason))
SPOIL_CAPS(caps_past, YES || NO,
           memset((char *)caps + caps->header.struct_size, 0xee, 8))
SPOIL_CAPS(claims_exact, YES, caps->error_class = CLV_ERROR_EXACT)
SPOIL_CAPS(claims_all, NO, caps->answer = CLV_ANSWER_YES;
           caps->error_class = CLV_ERROR_F32)

/* Another answer at every question. */
static clv_status impure(clv_plugin_device *dev, const clv_subgraph *graph,
                         clv_op_caps *out, uint32_t stride)
{
    static uint32_t calls;
    clv_status status = ref_op_caps(dev, graph, out, stride);
    if (graph->n_nodes && !status && ++calls % 2 == 0) {
        out->answer = CLV_ANSWER_NO;
        memcpy(out->reason, "not now", 8);
    }
    return status;
}

/* The output may lie on x, it says; a row of x is used up by then. */
static clv_status alias_claimed(clv_plugin_device *dev,
                                const clv_subgraph *graph, clv_op_caps *out,
                                uint32_t stride)
{
    clv_status status = ref_op_caps(dev, graph, out, stride);
    for (uint32_t i = 0; i < graph->n_nodes && !status; i++) {
        clv_op_caps *caps = (clv_op_caps *)((char *)out + (size_t)i * stride);
        const clv_node *node =
            (const clv_node *)((const char *)graph->nodes +
                               (size_t)i * graph->node_stride);
        if (YES && (node->op == CLV_OP_MATMUL || node->op == CLV_OP_RMS_NORM ||
                    node->op == CLV_OP_SOFTMAX))
            caps->alias_inputs = 1;
    }
    return status;
}

/* Divisible at every row, it says; but small parts must come in fours. */
static clv_status granularity_false(clv_plugin_device *dev,
                                    const clv_subgraph *graph, clv_op_caps *out,
                                    uint32_t stride)
{
    clv_status status = ref_op_caps(dev, graph, out, stride);
    for (uint32_t i = 0; i < graph->n_nodes && !status; i++) {
        clv_op_caps *caps = (clv_op_caps *)((char *)out + (size_t)i * stride);
        const clv_node *node =
            (const clv_node *)((const char *)graph->nodes +
                               (size_t)i * graph->node_stride);
        const clv_tensor_desc *w =
            (const clv_tensor_desc *)((const char *)graph->tensors +
                                      (size_t)node->inputs[1] *
                                          graph->tensor_stride);
        if (YES && node->op == CLV_OP_MATMUL && w->dims[0] % 4 &&
            w->dims[0] < 40) {
            caps->answer = CLV_ANSWER_NO;
            memcpy(caps->reason, "rows must come in fours", 24);
        }
    }
    return status;
}

/* Takes everything, and then does not. */
static clv_status never_compiles(clv_plugin_device *dev,
                                 const clv_compile *compile,
                                 clv_plugin_program **out)
{
    (void)compile, (void)out;
    return clv_fail(dev->host, CLV_ERR_UNSUPPORTED,
                    "hostile: this is not possible after all");
}

/* Any address will do, it says. */
static clv_status wants_alignment(clv_plugin_device *dev,
                                  const clv_submit *submit)
{
    const clv_command *c = submit->commands;
    for (uint32_t i = 0; submit->n_commands && i < c->n_bindings; i++)
        if (c->bindings[i].offset % 64)
            return clv_fail(dev->host, CLV_ERR_INVALID,
                            "hostile: tensors must begin at 64 bytes");
    return ref_submit(dev, submit);
}

const hostile_mode hostile_caps[] = {
    {"answer_unknown", "an answer nobody knows", {.op_caps = answer_unknown}},
    {"class_unknown", "so the error class", {.op_caps = class_unknown}},
    {"range_empty", "at least 8, at most 4", {.op_caps = range_empty}},
    {"range_negative", "multiples of -1", {.op_caps = range_negative}},
    {"align_odd", "tensors begin at 48", {.op_caps = align_odd}},
    {"stride_odd", "rows begin at 48", {.op_caps = stride_odd}},
    {"granularity_negative", "parts of -4", {.op_caps = granularity_negative}},
    {"variants_many", "99 variants", {.op_caps = variants_many}},
    {"variants_empty", "a variant of zeros", {.op_caps = variants_empty}},
    {"variants_class", "one of an unknown class", {.op_caps = variants_class}},
    {"variants_name", "one whose name has a blank", {.op_caps = variants_name}},
    {"variants_twice", "two of one id", {.op_caps = variants_twice}},
    {"variants_false",
     "one that it does not take",
     {.op_caps = variants_false}},
    {"layouts_unknown", "a layout nobody knows", {.op_caps = layouts_unknown}},
    {"private_rows_odd", "blocks of 3 rows", {.op_caps = private_rows_odd}},
    {"private_unasked",
     "takes weights in a layout that it does not prefer",
     {.op_caps = private_unasked}},
    {"granularity_false",
     "parts of 1 that are refused",
     {.op_caps = granularity_false}},
    {"static_zero", "compiles for 0 rows", {.op_caps = static_zero}},
    {"static_none", "a list that is missing", {.op_caps = static_none}},
    {"no_reason", "no, and no reason", {.op_caps = no_reason}},
    {"reason_endless", "a reason without its end", {.op_caps = reason_endless}},
    {"caps_past", "writes behind op_caps", {.op_caps = caps_past}},
    {"impure", "yes and no by turns", {.op_caps = impure}},
    {"alias_claimed", "in place, wrongly", {.op_caps = alias_claimed}},
    {"exact_claimed", "exact, and a little off", {.op_caps = claims_exact}},
    {"takes_all", "yes to what it cannot do", {.op_caps = claims_all}},
    {"never_compiles", "yes, then no", {.program_compile = never_compiles}},
    {"wants_alignment",
     "an alignment it did not state",
     {.submit = wants_alignment}},
    {0},
};
