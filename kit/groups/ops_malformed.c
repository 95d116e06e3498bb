/* Nodes that break the rules get a no with a reason, and do not compile. */
#include "ops.h"

typedef enum malformation {
    UNKNOWN_OP,
    UNKNOWN_REVISION,
    NO_WEIGHT,
    ONE_INPUT,
    MANY_INPUTS,
    TWO_OUTPUTS,
    NO_OUTPUT,
    FOREIGN_INPUT,
    FOREIGN_OUTPUT,
    OUTPUT_IS_INPUT,
    UNKNOWN_DTYPE,
    NO_DTYPE,
    UNKNOWN_QUANT,
    MISSING_SCALES,
    RANK_0,
    RANK_6,
    UNKNOWN_LAYOUT,
    UNKNOWN_STORAGE,
    NEGATIVE_DIMENSION,
    ZERO_DIMENSION,
    SPLIT_BLOCK,
    OTHER_CHANNELS,
    OTHER_ROWS,
    OTHER_FEATURES,
    HUGE_DIMENSION,
    NEGATIVE_STRIDE,
    UNKNOWN_SYMBOL,
    N_MALFORMATIONS
} malformation;

static const char *const malformations[] = {"unknown_op",
                                            "unknown_revision",
                                            "no_weight",
                                            "one_input",
                                            "many_inputs",
                                            "two_outputs",
                                            "no_output",
                                            "foreign_input",
                                            "foreign_output",
                                            "output_is_input",
                                            "unknown_dtype",
                                            "no_dtype",
                                            "unknown_quant",
                                            "missing_scales",
                                            "rank_0",
                                            "rank_6",
                                            "unknown_layout",
                                            "unknown_storage",
                                            "negative_dimension",
                                            "zero_dimension",
                                            "split_block",
                                            "other_channels",
                                            "other_rows",
                                            "other_features",
                                            "huge_dimension",
                                            "negative_stride",
                                            "unknown_symbol"};
_Static_assert(KIT_COUNT(malformations) == N_MALFORMATIONS, "a name each");

static uint32_t numbers[N_MALFORMATIONS];

/* x, w and y are tensors 0, 1 and 2. */
static void break_matmul(kit_graph *g, uint32_t what)
{
    clv_node *node = &g->nodes[0];
    clv_tensor_desc *x = &g->descs[0], *w = &g->descs[1], *y = &g->descs[2];
    switch ((malformation)what) {
    case UNKNOWN_OP:
        node->op = 99;
        break;
    case UNKNOWN_REVISION:
        node->revision = 2;
        break;
    case NO_WEIGHT:
        node->inputs[1] = CLV_NO_TENSOR;
        break;
    case ONE_INPUT:
        node->n_inputs = 1;
        break;
    case MANY_INPUTS:
        node->n_inputs = 200;
        break;
    case TWO_OUTPUTS:
        node->n_outputs = 2;
        break;
    case NO_OUTPUT:
        node->n_outputs = 0;
        break;
    case FOREIGN_INPUT:
        node->inputs[0] = 77;
        break;
    case FOREIGN_OUTPUT:
        node->outputs[0] = CLV_NO_TENSOR;
        break;
    case OUTPUT_IS_INPUT:
        y->usage = CLV_USAGE_INPUT;
        break;
    case UNKNOWN_DTYPE:
        w->dtype = 1000;
        break;
    case NO_DTYPE:
        w->dtype = CLV_DTYPE_NONE;
        break;
    case UNKNOWN_QUANT:
        w->quant = 99;
        break;
    case MISSING_SCALES:
        w->dtype = CLV_DTYPE_I8;
        w->quant = CLV_QUANT_PER_CHANNEL;
        w->quant_scales = 99;
        break;
    case RANK_0:
        x->rank = 0;
        break;
    case RANK_6:
        x->rank = 6;
        break;
    case UNKNOWN_LAYOUT:
        x->layout = 99;
        break;
    case UNKNOWN_STORAGE:
        x->storage = 99;
        break;
    case NEGATIVE_DIMENSION:
        x->dims[0] = y->dims[0] = -1;
        break;
    case ZERO_DIMENSION:
        x->dims[1] = w->dims[1] = 0;
        break;
    case SPLIT_BLOCK:
        x->dims[1] = w->dims[1] = 63;
        break;
    case OTHER_CHANNELS:
        x->dims[1] = 32;
        break;
    case OTHER_ROWS:
        y->dims[0] = 3;
        break;
    case OTHER_FEATURES:
        y->dims[1] = 9;
        break;
    case HUGE_DIMENSION:
        x->dims[0] = y->dims[0] = INT64_MAX / 8;
        break;
    case NEGATIVE_STRIDE:
        x->strides[0] = -256;
        x->strides[1] = 4;
        break;
    case UNKNOWN_SYMBOL:
        x->symbols[0] = y->symbols[0] = 3;
        break;
    case N_MALFORMATIONS:
        break;
    }
}

/* ------------------------------------------------------------------------ */
/* Weights with scales of their own                                          */

typedef enum bad_scales {
    WITHOUT_SCHEME,
    WITHOUT_SCALES,
    ITS_OWN_SCALES,
    HALF_SCALES,
    FEW_ROWS_OF_SCALES,
    FEW_SCALES_A_ROW,
    RANK_OF_SCALES,
    WITHOUT_GROUP,
    GROUP_SPLITS_ROW,
    SCALED_FLOATS,
    SCALED_BLOCKS,
    N_BAD_SCALES
} bad_scales;

static const char *const scale_names[] = {
    "without_scheme",     "without_scales",   "its_own_scales", "half_scales",
    "few_rows_of_scales", "few_scales_a_row", "rank_of_scales", "without_group",
    "group_splits_row",   "scaled_floats",    "scaled_blocks"};
_Static_assert(KIT_COUNT(scale_names) == N_BAD_SCALES, "a name each");

/* w and its scales, one for 32 elements, are tensors 1 and 2. */
static void break_scales(kit_graph *g, uint32_t what)
{
    clv_tensor_desc *w = &g->descs[1], *scales = &g->descs[2];
    switch ((bad_scales)what) {
    case WITHOUT_SCHEME:
        w->quant = CLV_QUANT_NONE;
        break;
    case WITHOUT_SCALES:
        w->quant_scales = 0;
        break;
    case ITS_OWN_SCALES:
        w->quant_scales = 1 + 1;
        break;
    case HALF_SCALES:
        scales->dtype = CLV_DTYPE_F16;
        break;
    case FEW_ROWS_OF_SCALES:
        scales->dims[0]--;
        break;
    case FEW_SCALES_A_ROW:
        scales->dims[1]--;
        break;
    case RANK_OF_SCALES:
        scales->rank = 1;
        scales->dims[0] *= scales->dims[1];
        break;
    case WITHOUT_GROUP:
        w->quant_group = 0;
        break;
    case GROUP_SPLITS_ROW:
        w->quant_group = 24;
        break;
    case SCALED_FLOATS:
        w->dtype = CLV_DTYPE_F16;
        break;
    case SCALED_BLOCKS:
        w->dtype = CLV_DTYPE_Q4_0;
        break;
    case N_BAD_SCALES:
        break;
    }
}

typedef enum bad_experts {
    FLAT_WEIGHT,
    FLAT_IDS,
    FLOAT_IDS,
    FEWER_IDS,
    OTHER_WIDTH_OF_X,
    OTHER_WIDTH_OF_Y,
    OTHER_NUMBER_OF_SCORES,
    FEWER_SCORES,
    UNSCORED,
    NORMALISED_TWICE,
    BEFORE_THE_FIRST,
    PAST_THE_TOTAL,
    N_BAD_EXPERTS
} bad_experts;

static const char *const experts_names[] = {
    "flat_weight",      "flat_ids",         "float_ids",
    "fewer_ids",        "other_width_of_x", "other_width_of_y",
    "number_of_scores", "fewer_scores",     "unscored",
    "normalised_twice", "before_the_first", "past_the_total"};
_Static_assert(KIT_COUNT(experts_names) == N_BAD_EXPERTS, "a name each");

/* x, w, ids, scores and y are tensors 0 to 4. */
static void break_experts(kit_graph *g, uint32_t what)
{
    clv_node *node = &g->nodes[0];
    clv_tensor_desc *w = &g->descs[1], *ids = &g->descs[2];
    switch ((bad_experts)what) {
    case FLAT_WEIGHT:
        w->rank = 2;
        w->dims[0] *= w->dims[1];
        w->dims[1] = w->dims[2];
        break;
    case FLAT_IDS:
        ids->rank = 1;
        ids->dims[0] *= ids->dims[1];
        break;
    case FLOAT_IDS:
        ids->dtype = CLV_DTYPE_F32;
        break;
    case FEWER_IDS:
        ids->dims[0]--;
        break;
    case OTHER_WIDTH_OF_X:
        g->descs[0].dims[1] -= 32;
        break;
    case OTHER_WIDTH_OF_Y:
        g->descs[4].dims[1]--;
        break;
    case OTHER_NUMBER_OF_SCORES:
        g->descs[3].dims[1]--;
        break;
    case FEWER_SCORES:
        g->descs[3].dims[0]--;
        break;
    case UNSCORED:
        node->inputs[3] = CLV_NO_TENSOR;
        break;
    case NORMALISED_TWICE:
        node->attr.experts.normalised = 2;
        break;
    case BEFORE_THE_FIRST:
        node->attr.experts.first = -1;
        node->attr.experts.total = (int32_t)w->dims[0];
        break;
    case PAST_THE_TOTAL: /* of as many as scores have columns */
        node->attr.experts.first = 1;
        node->attr.experts.total = (int32_t)w->dims[0];
        break;
    case N_BAD_EXPERTS:
        break;
    }
}

/* More than there are, and ids that are no integers. */
static void ask_for_more(kit_graph *g, uint32_t what)
{
    clv_tensor_desc *y = &g->descs[1];
    if (what)
        y->dtype = CLV_DTYPE_F32;
    else
        y->dims[1] = g->descs[0].dims[1] + 1;
}

/* ------------------------------------------------------------------------ */

/* A node that was good before something was broken. */
static void refuse(kit *k, const kit_spec *spec,
                   void (*spoil)(kit_graph *g, uint32_t what), uint32_t what,
                   const char *name)
{
    clv_op_caps caps[KIT_MAX_NODES];
    const kit_plugin *s = kit_under_test(k);
    clv_plugin_program *handle = NULL;
    kit_program p;
    kit_graph g;
    kit_graph_init(k, &g);
    kit_spec_build(spec, &g);
    kit_program_make(&g, 0, true, &p);
    spoil(&g, what);
    kit_caps(&g, caps);
    KIT_CHECK(k, caps[0].answer == CLV_ANSWER_NO,
              "op_caps answers %u to a malformed node (%s)", caps[0].answer,
              name);
    clv_subgraph view = kit_subgraph(&g);
    clv_compile compile = kit_program_compile_info(&p, &view);
    clv_status status = s->api.program_compile(s->dev, &compile, &handle);
    if (status == CLV_ERR_INVALID)
        kit_expect(k, status, CLV_ERR_INVALID, "program_compile");
    else
        kit_expect(k, status, CLV_ERR_UNSUPPORTED,
                   "program_compile of a malformed node (%s)", name);
    KIT_CHECK(k, !handle, "program_compile failed and gave a program");
    kit_program_free(&p);
    kit_graph_free(&g);
}

static void run_malformed(kit *k, const void *arg)
{
    const uint32_t what = *(const uint32_t *)arg;
    const kit_spec spec = {.op = CLV_OP_MATMUL,
                           .dtype = CLV_DTYPE_Q8_0,
                           .n = 4,
                           .in = 64,
                           .out = 8};
    refuse(k, &spec, break_matmul, what, malformations[what]);
}

static void run_bad_scales(kit *k, const void *arg)
{
    const uint32_t what = *(const uint32_t *)arg;
    const kit_spec spec = {.op = CLV_OP_MATMUL,
                           .dtype = CLV_DTYPE_I8,
                           .quant = CLV_QUANT_PER_GROUP,
                           .group = 32,
                           .n = 4,
                           .in = 64,
                           .out = 8};
    refuse(k, &spec, break_scales, what, scale_names[what]);
}

static void run_bad_experts(kit *k, const void *arg)
{
    const uint32_t what = *(const uint32_t *)arg;
    const kit_spec spec = {.op = CLV_OP_MATMUL_EXPERTS,
                           .dtype = CLV_DTYPE_Q8_0,
                           .n = 4,
                           .in = 64,
                           .out = 8,
                           .experts = 4,
                           .used = 2,
                           .variant = 1,
                           .form = KIT_FORM_EACH | KIT_FORM_SCORES};
    refuse(k, &spec, break_experts, what, experts_names[what]);
}

static void run_bad_top_k(kit *k, const void *arg)
{
    static const char *const names[] = {"more than there are", "float ids"};
    const uint32_t what = *(const uint32_t *)arg;
    const kit_spec spec = {
        .op = CLV_OP_TOP_K, .dtype = CLV_DTYPE_F32, .n = 4, .in = 16, .out = 2};
    refuse(k, &spec, ask_for_more, what, names[what]);
}

void kit_list_malformed(kit_list *list)
{
    for (uint32_t i = 0; i < N_MALFORMATIONS; i++) {
        numbers[i] = i;
        kit_add(list, KIT_PER_DEVICE, 0, run_malformed, &numbers[i],
                "malformed.%s", malformations[i]);
    }
    for (uint32_t i = 0; i < N_BAD_SCALES; i++)
        kit_add(list, KIT_PER_DEVICE, 0, run_bad_scales, &numbers[i],
                "malformed.scales.%s", scale_names[i]);
    for (uint32_t i = 0; i < N_BAD_EXPERTS; i++)
        kit_add(list, KIT_PER_DEVICE, 0, run_bad_experts, &numbers[i],
                "malformed.experts.%s", experts_names[i]);
    kit_add(list, KIT_PER_DEVICE, 0, run_bad_top_k, &numbers[0],
            "malformed.top_k.more");
    kit_add(list, KIT_PER_DEVICE, 0, run_bad_top_k, &numbers[1],
            "malformed.top_k.float_ids");
}
