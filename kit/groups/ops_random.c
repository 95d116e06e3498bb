/*
 * Properties: whatever legal node or chain of nodes the device is asked about,
 * a yes runs and is right, a no has a reason.
 */
#include "../work/element.h"
#include "ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_RANDOM 200

static int64_t below(kit *k, int64_t n)
{
    return kit_random_below(k, (uint32_t)n);
}

static bool one_in(kit *k, int64_t n)
{
    return below(k, n) == 0;
}

/* Small and odd most of the time, now and then larger. */
static int64_t size(kit *k)
{
    switch (below(k, 8)) {
    case 0:
        return 1;
    case 1:
        return 16 << below(k, 4);
    case 2:
        return (16 << below(k, 4)) - 1 + below(k, 3);
    case 3:
        return 1 + below(k, 300);
    }
    return 1 + below(k, 40);
}

/* ------------------------------------------------------------------------ */
/* One node                                                                  */

static void random_dtypes(kit *k, kit_spec *s)
{
    s->dtype = kit_real((uint32_t)below(k, kit_n_reals()));
    if (s->op == CLV_OP_CONVERT)
        s->to = kit_real((uint32_t)below(k, kit_n_reals()));
    if (s->op == CLV_OP_CONVERT && !clv_format_of(s->to)->encode)
        s->to = s->dtype;
    if (s->op == CLV_OP_SET_ROWS && !clv_format_of(s->dtype)->encode)
        s->dtype = CLV_DTYPE_F16;
    if (s->op == CLV_OP_ATTENTION && one_in(k, 2))
        s->dtype = one_in(k, 3) ? CLV_DTYPE_Q8_0
                                : CLV_DTYPE_F32 + (uint32_t)below(k, 2);
    if (clv_op_class_of(s->op) == CLV_CLASS_SELECT)
        s->dtype = CLV_DTYPE_F32;
    if (s->op == CLV_OP_MATMUL && one_in(k, 4)) {
        s->dtype = one_in(k, 2) ? CLV_DTYPE_I8 : CLV_DTYPE_I4;
        s->quant = 1 + (uint32_t)below(k, 3);
        s->group = s->quant == CLV_QUANT_PER_GROUP ? 32 : 0;
    }
}

static void random_heads(kit *k, kit_spec *s)
{
    s->groups = 1 + below(k, 4);
    s->heads = s->groups * (1 + below(k, 4));
    s->dim = s->op == CLV_OP_ROPE ? 2 * (1 + below(k, 40)) : 1 + below(k, 80);
    if (s->op == CLV_OP_ROPE)
        s->pairs = one_in(k, 2) ? 0 : 1 + below(k, s->dim / 2);
    if (one_in(k, 2))
        s->scale = (float)(0.25 + 0.125 * (double)below(k, 8));
    if (s->op != CLV_OP_ATTENTION)
        return;
    const int64_t unit = kit_spec_unit(s);
    s->dim = (s->dim + unit - 1) / unit * unit;
    s->first = (int32_t)below(k, s->out + 4) - 4;
    s->window = one_in(k, 3) ? 1 + (int32_t)below(k, 40) : 0;
    s->softcap = one_in(k, 3) ? 1 + (float)below(k, 50) : 0;
    if (one_in(k, 4))
        s->begin = 1 + below(k, s->out);
    else if (s->out >= s->n && one_in(k, 3))
        s->form |= KIT_FORM_APART;
}

static void random_experts(kit *k, kit_spec *s)
{
    static const uint32_t forms[] = {KIT_FORM_EACH, KIT_FORM_SCORES,
                                     KIT_FORM_ABSENT};
    const bool product = s->op == CLV_OP_MATMUL_EXPERTS;
    if (clv_op_class_of(s->op) == CLV_CLASS_SELECT)
        s->out = 1 + below(k, s->in < 40 ? s->in : 40);
    if (product) {
        s->experts = 1 + below(k, 12);
        s->used = 1 + below(k, 6);
        if (one_in(k, 2)) {
            s->first = (int32_t)below(k, 5);
            s->total = s->first + s->experts + (int64_t)below(k, 5);
        }
    }
    for (uint32_t i = 0; i < KIT_COUNT(forms) && product; i++)
        if (one_in(k, 2))
            s->form |= forms[i];
    s->form &= ~(uint32_t)(KIT_FORM_BIAS | KIT_FORM_VECTOR | KIT_FORM_EXTREME |
                           KIT_FORM_ALIAS_0 | KIT_FORM_ALIAS_1);
}

static void random_form(kit *k, kit_spec *s)
{
    static const uint32_t forms[] = {
        KIT_FORM_BIAS,    KIT_FORM_VECTOR, KIT_FORM_SPECIAL, KIT_FORM_VIEW,
        KIT_FORM_EXTREME, KIT_FORM_OFFSET, KIT_FORM_ALIAS_0, KIT_FORM_ALIAS_1};
    for (uint32_t i = 0; i < KIT_COUNT(forms); i++)
        if (one_in(k, 5))
            s->form |= forms[i];
    const clv_op_info *info = clv_op_find(s->op);
    if (info->op_class != CLV_CLASS_BINARY)
        s->form &= ~(uint32_t)(KIT_FORM_VECTOR | KIT_FORM_ALIAS_1);
    if (s->form & KIT_FORM_VECTOR)
        s->form &= ~(uint32_t)KIT_FORM_ALIAS_1;
    if (info->n_inputs == info->n_required ||
        info->op_class == CLV_CLASS_ATTENTION)
        s->form &= ~(uint32_t)KIT_FORM_BIAS;
    if (s->form & KIT_FORM_ALIAS_1)
        s->form &= ~(uint32_t)KIT_FORM_ALIAS_0;
    if (one_in(k, 3))
        s->pad = 1 + below(k, 9);
    if (!(s->form & (KIT_FORM_VIEW | KIT_FORM_SPECIAL)) && one_in(k, 3)) {
        s->form |= KIT_FORM_SYMBOL;
        s->value = 1 + below(k, s->n);
    }
}

static void run_node(kit *k, const void *arg)
{
    kit_spec s = {0};
    (void)arg;
    s.op = 1 + (uint32_t)below(k, CLV_OP_COUNT - 1);
    s.variant = (uint32_t)below(k, 2);
    s.n = size(k);
    s.out = size(k);
    random_dtypes(k, &s);
    s.in = size(k);
    int64_t unit = kit_spec_unit(&s);
    s.in = (s.in + unit - 1) / unit * unit;
    random_heads(k, &s);
    random_form(k, &s);
    if (clv_op_class_of(s.op) == CLV_CLASS_SELECT ||
        s.op == CLV_OP_MATMUL_EXPERTS)
        random_experts(k, &s);
    kit_judge_case(k, &s);
}

/* ------------------------------------------------------------------------ */
/* Chains                                                                    */

typedef struct chain {
    kit_graph g;
    int64_t n, c;   /* of what was made so far */
    uint32_t at;    /* that tensor */
    uint32_t spare; /* a transient that is used no more, or CLV_NO_TENSOR */
    uint32_t steps;
} chain;

static uint32_t vector(chain *s, int64_t c)
{
    return kit_add_tensor(&s->g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT, 0, c, 0);
}

/* Where the next node writes: the output at last, else a transient, that may
 * lie where a dead one lay, or over the input of the node. */
static uint32_t target(chain *s, int64_t n, int64_t c, bool last,
                       bool may_alias)
{
    kit_graph *g = &s->g;
    kit *k = g->k;
    if (last)
        return kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, c,
                              one_in(k, 2) ? 0 : 8);
    if (may_alias && s->steps && one_in(k, 3))
        return s->at;
    if (s->spare != CLV_NO_TENSOR && g->descs[s->spare].dims[0] >= n &&
        g->descs[s->spare].dims[1] >= c) {
        uint32_t spare = s->spare;
        s->spare = CLV_NO_TENSOR;
        return kit_add_view(g, spare, 0, n, 0, c);
    }
    return kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_TRANSIENT, n, c, 0);
}

/* The new tensor is what the next node reads. */
static void advance(chain *s, uint32_t y, int64_t c)
{
    if (s->steps && y != s->at &&
        s->g.descs[s->at].usage == CLV_USAGE_TRANSIENT)
        s->spare = s->at;
    s->at = y;
    s->c = c;
    s->steps++;
}

static void add_product(chain *s, bool last)
{
    kit *k = s->g.k;
    uint32_t n = 0; /* blocks follow the floats, smaller ones first */
    while (kit_real(n) && s->c % kit_block_length(kit_real(n)) == 0)
        n++;
    uint32_t dtype = kit_real((uint32_t)below(k, n));
    int64_t out = size(k);
    uint32_t w = kit_add_tensor(&s->g, dtype, CLV_USAGE_WEIGHT, out, s->c, 0);
    uint32_t bias = one_in(k, 2) ? vector(s, out) : CLV_NO_TENSOR;
    uint32_t y = target(s, s->n, out, last, false);
    KIT_NODE(&s->g, CLV_OP_MATMUL, y, s->at, w, bias);
    advance(s, y, out);
}

static void add_rotation(chain *s, bool last)
{
    kit *k = s->g.k;
    int64_t dim = s->c % 2 == 0 && s->c < 130 ? s->c : 0;
    for (int64_t d = 64; !dim && d > 0; d -= 2)
        dim = s->c % d ? 0 : d;
    if (!dim)
        return;
    uint32_t pos =
        kit_add_tensor(&s->g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, s->n, 0);
    uint32_t freq = vector(s, 1 + below(k, dim / 2));
    for (int64_t i = 0; i < s->n; i++)
        kit_set(&s->g, pos, 0, i, (double)below(k, 100));
    uint32_t y = target(s, s->n, s->c, last, true);
    clv_node *node = KIT_NODE(&s->g, CLV_OP_ROPE, y, s->at, pos, freq);
    node->attr.rope.head_dim = (uint32_t)dim;
    node->attr.rope.mode = (uint32_t)below(k, 2);
    advance(s, y, s->c);
}

static void add_gather(chain *s, bool last)
{
    kit *k = s->g.k;
    int64_t n = 1 + below(k, 20);
    uint32_t ids =
        kit_add_tensor(&s->g, CLV_DTYPE_I32, CLV_USAGE_INPUT, 0, n, 0);
    for (int64_t i = 0; i < n; i++)
        kit_set(&s->g, ids, 0, i, (double)below(k, s->n));
    uint32_t y = target(s, n, s->c, last, false);
    KIT_NODE(&s->g, CLV_OP_GET_ROWS, y, s->at, ids);
    s->n = n;
    advance(s, y, s->c);
}

/* One of the ops that need only rows and vectors. */
static const clv_op_info *plain_op(kit *k)
{
    uint32_t ops[CLV_OP_COUNT], n = 0;
    for (uint32_t op = 1; clv_op_find(op); op++)
        if (kit_is_plain_op(op))
            ops[n++] = op;
    return clv_op_find(ops[below(k, n)]);
}

static void add_rowwise(chain *s, bool last)
{
    kit *k = s->g.k;
    const clv_op_info *info = plain_op(k);
    uint32_t in[CLV_MAX_INPUTS] = {s->at}, n = 1;
    if (info->op_class == CLV_CLASS_BINARY ||
        info->op_class == CLV_CLASS_GATED) {
        const bool same = info->op_class == CLV_CLASS_GATED || one_in(k, 2);
        in[n++] = same ? kit_add_tensor(&s->g, CLV_DTYPE_F32, CLV_USAGE_INPUT,
                                        s->n, s->c, one_in(k, 2) ? 0 : 12)
                       : vector(s, s->c);
    }
    while (n < info->n_required || (n < info->n_inputs && one_in(k, 2)))
        in[n++] = vector(s, s->c);
    uint32_t y = target(s, s->n, s->c, last, true);
    clv_node *node = kit_add_node(&s->g, info->op, in, n, y);
    kit_set_attributes(
        node, clv_op_is_elementwise(info->op) ? (uint32_t)below(k, 2) : 0);
    advance(s, y, s->c);
}

static void run_chain(kit *k, const void *arg)
{
    chain *s = calloc(1, sizeof *s);
    kit_judgement judgement;
    (void)arg;
    KIT_CHECK(k, s, "the kit has no memory for a graph");
    kit_graph_init(k, &s->g);
    s->n = 1 + below(k, 40);
    s->c = one_in(k, 2) ? 32 * (1 + below(k, 6)) : size(k);
    s->spare = CLV_NO_TENSOR;
    s->at = kit_add_tensor(&s->g, CLV_DTYPE_F32, CLV_USAGE_INPUT, s->n, s->c,
                           one_in(k, 2) ? 0 : 4);
    const uint32_t steps = 2 + (uint32_t)below(k, 3);
    while (s->steps < steps) {
        bool last = s->steps + 1 == steps;
        switch (below(k, 6)) {
        case 0:
        case 1:
            add_product(s, last);
            break;
        case 2:
            add_rotation(s, last);
            break;
        case 3:
            add_gather(s, last);
            break;
        default:
            add_rowwise(s, last);
        }
    }
    if (kit_judge(&s->g, KIT_RUN_TWICE, &judgement) != KIT_RIGHT)
        kit_skip(k, "%s", judgement.reason);
    kit_graph_free(&s->g);
    free(s);
}

/* ------------------------------------------------------------------------ */

void kit_list_random(kit_list *list)
{
    for (int i = 0; i < N_RANDOM; i++)
        kit_add(list, KIT_PER_DEVICE, 0, i % 2 ? run_chain : run_node, NULL,
                "random.%d", i);
}
