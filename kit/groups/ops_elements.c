/* Ops on single elements and on whole rows. */
#include "../work/shapes.h"
#include "ops.h"

static void list_element_op(kit_list *list, kit_spec s)
{
    const bool two =
        s.op == CLV_OP_ADD || s.op == CLV_OP_MUL || s.op == CLV_OP_GLU;
    s.n = 5;
    s.in = 77;
    kit_add_forms(list, &s);
    kit_add_aliases(list, &s, two ? 2 : 1);
    KIT_SERIES(list, "tails_in", &s, in, kit_every, kit_n_every, 1);
    s.in = 33;
    KIT_SERIES(list, "tails_rows", &s, n, kit_tails, kit_n_tails, 1);
    s.form = KIT_FORM_EXTREME;
    kit_add_spec(list, &s);
    s.form = 0;
    s.n = 1;
    s.in = 50001;
    kit_add_spec(list, &s);
    s.n = 45;
    s.in = 777;
    s.pad = 1;
    kit_add_spec(list, &s);
    for (uint32_t i = 0; i < kit_n_widths; i += 3) {
        s.n = 2;
        s.in = kit_widths[i];
        kit_add_spec(list, &s);
    }
    if (s.op != CLV_OP_ADD && s.op != CLV_OP_MUL)
        return;
    s = (kit_spec){.op = s.op,
                   .dtype = s.dtype,
                   .form = KIT_FORM_VECTOR,
                   .n = 5,
                   .in = 77};
    kit_add_forms(list, &s);
    kit_add_aliases(list, &s, 1);
    s.n = 300;
    s.in = 129;
    s.pad = 2;
    kit_add_spec(list, &s);
}

static void list_single(kit_list *list)
{
    static const uint32_t ops[][2] = {{CLV_OP_ADD, 0},
                                      {CLV_OP_MUL, 0},
                                      {CLV_OP_SILU, 0},
                                      {CLV_OP_GELU, 0},
                                      {CLV_OP_GLU, CLV_ACT_SILU},
                                      {CLV_OP_GLU, CLV_ACT_GELU_TANH}};
    for (uint32_t i = 0; i < KIT_COUNT(ops); i++)
        list_element_op(list, (kit_spec){.op = ops[i][0],
                                         .variant = ops[i][1],
                                         .dtype = CLV_DTYPE_F32});
}

static void list_norms(kit_list *list)
{
    static const uint32_t ops[][2] = {{CLV_OP_RMS_NORM, 0},
                                      {CLV_OP_LAYER_NORM, 0},
                                      {CLV_OP_LAYER_NORM, KIT_FORM_BIAS},
                                      {CLV_OP_SOFTMAX, 0}};
    for (uint32_t i = 0; i < KIT_COUNT(ops); i++) {
        kit_spec s = {.op = ops[i][0],
                      .form = ops[i][1],
                      .dtype = CLV_DTYPE_F32,
                      .n = 5,
                      .in = 77};
        kit_add_forms(list, &s);
        kit_add_aliases(list, &s, 1);
        KIT_SERIES(list, "tails_in", &s, in, kit_every, kit_n_every, 1);
        s.in = 33;
        KIT_SERIES(list, "tails_rows", &s, n, kit_tails, kit_n_tails, 1);
        for (uint32_t j = 0; j < kit_n_widths; j++) {
            s.in = kit_widths[j];
            s.n = j % 2 ? 1 : 4;
            s.pad = j % 3;
            kit_add_spec(list, &s);
        }
        s.n = 40;
        s.in = 2048;
        s.pad = 16;
        kit_add_spec(list, &s);
        if (ops[i][0] != CLV_OP_SOFTMAX)
            continue;
        s.form = KIT_FORM_EXTREME;
        kit_add_spec(list, &s);
    }
    kit_spec logits = {
        .op = CLV_OP_SOFTMAX, .dtype = CLV_DTYPE_F32, .n = 1, .in = 151936};
    kit_add_spec(list, &logits);
}

void kit_list_elements(kit_list *list)
{
    list_single(list);
    list_norms(list);
}
