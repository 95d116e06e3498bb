/* Ops on single elements and on whole rows. */
#include "../work/shapes.h"
#include "ops.h"

static void list_element_op(kit_list *list, kit_spec s)
{
    s.n = 5;
    s.in = 77;
    kit_add_forms(list, &s);
    kit_add_aliases(list, &s, clv_op_find(s.op)->n_inputs);
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
    if (clv_op_class_of(s.op) != CLV_CLASS_BINARY)
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

/* Once for each value of the op's first attribute that has choices. */
static void list_variants(kit_list *list, uint32_t op)
{
    const clv_attr_field *field = clv_op_field(clv_op_find(op), 0);
    char choice[32];
    uint32_t variant = 0;
    do
        list_element_op(
            list,
            (kit_spec){.op = op, .variant = variant, .dtype = CLV_DTYPE_F32});
    while (field && field->type == CLV_ATTR_ENUM &&
           clv_attr_choice(field, ++variant, choice));
}

static void list_row_op(kit_list *list, uint32_t op, uint32_t form)
{
    kit_spec s = {
        .op = op, .form = form, .dtype = CLV_DTYPE_F32, .n = 5, .in = 77};
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
    if (clv_op_class_of(op) != CLV_CLASS_SOFTMAX)
        return;
    s.form = KIT_FORM_EXTREME;
    kit_add_spec(list, &s);
    kit_spec logits = {.op = op, .dtype = CLV_DTYPE_F32, .n = 1, .in = 151936};
    kit_add_spec(list, &logits);
}

void kit_list_elements(kit_list *list)
{
    const clv_op_info *info;
    for (uint32_t op = 1; (info = clv_op_find(op)); op++)
        if (clv_op_is_elementwise(op)) {
            list_variants(list, op);
        } else if (info->op_class == CLV_CLASS_NORM ||
                   info->op_class == CLV_CLASS_SOFTMAX) {
            list_row_op(list, op, 0);
            if (info->n_inputs > info->n_required)
                list_row_op(list, op, KIT_FORM_BIAS);
        }
}
