/* TOP_K, NONZERO and MATMUL_EXPERTS. */
#include "../work/element.h"
#include "ops.h"

static void list_select(kit_list *list, uint32_t op)
{
    static const int64_t shapes[][3] = {
        {1, 8, 2},    {9, 8, 2},    {1, 128, 8},  {70, 128, 8},
        {3, 5, 5},    {2, 1, 1},    {33, 60, 4},  {1, 512, 10},
        {4, 300, 40}, {2, 5000, 3}, {1, 257, 257}};
    kit_spec s = {.op = op, .dtype = CLV_DTYPE_F32, .n = 5, .in = 64, .out = 6};
    kit_add_forms(list, &s);
    for (uint32_t i = 0; i < KIT_COUNT(shapes); i++) {
        s.n = shapes[i][0];
        s.in = shapes[i][1];
        s.out = shapes[i][2];
        kit_add_spec(list, &s);
    }
    s.n = 7;
    s.out = 1;
    KIT_SERIES(list, "tails_in", &s, in, kit_every, kit_n_every, 1);
}

/* As models use it: for the gate and up projections, and for the one down. */
static void list_shapes(kit_list *list, kit_spec s)
{
    static const struct {
        int64_t n, in, out, experts, used;
    } shapes[] = {{1, 64, 48, 8, 2},   {1, 96, 33, 5, 4},  {2, 64, 17, 1, 1},
                  {3, 1056, 24, 3, 2}, {40, 64, 40, 8, 2}, {37, 32, 70, 60, 4},
                  {150, 64, 20, 2, 2}, {4, 64, 3, 128, 8}, {40, 64, 48, 8, 2},
                  {150, 96, 64, 3, 2}};
    static const uint32_t forms[] = {0,
                                     KIT_FORM_EACH,
                                     KIT_FORM_EACH | KIT_FORM_SCORES,
                                     KIT_FORM_SCORES,
                                     KIT_FORM_EACH | KIT_FORM_SCORES |
                                         KIT_FORM_ABSENT,
                                     KIT_FORM_ABSENT};
    for (uint32_t i = 0; i < KIT_COUNT(shapes); i++)
        for (uint32_t j = (i + s.dtype) % 2; j < KIT_COUNT(forms); j += 2) {
            s.n = shapes[i].n;
            s.in = shapes[i].in;
            s.out = shapes[i].out;
            s.experts = shapes[i].experts;
            s.used = shapes[i].used;
            s.form = forms[j];
            s.variant = s.form & KIT_FORM_SCORES && (i + j) % 4 < 2;
            s.pad = (i + j) % 3;
            kit_add_spec(list, &s);
        }
}

/* Weights of some of the experts: the first, the last, those between, one. */
static void list_ranges(kit_list *list, kit_spec s)
{
    static const struct {
        int32_t first;
        int64_t experts, total, n;
    } ranges[] = {{0, 3, 8, 4}, {5, 3, 8, 1},   {2, 4, 8, 40},
                  {7, 1, 8, 3}, {60, 2, 64, 2}, {1, 3, 4, 37}};
    static const uint32_t forms[] = {KIT_FORM_ABSENT, KIT_FORM_EACH,
                                     KIT_FORM_EACH | KIT_FORM_SCORES |
                                         KIT_FORM_ABSENT};
    s.used = 3;
    for (uint32_t i = 0; i < KIT_COUNT(ranges); i++)
        for (uint32_t j = 0; j < KIT_COUNT(forms); j++) {
            s.n = ranges[i].n;
            s.out = s.n > 8 ? 32 : 24;
            s.first = ranges[i].first;
            s.experts = ranges[i].experts;
            s.total = ranges[i].total;
            s.form = forms[j];
            s.variant = s.form & KIT_FORM_SCORES && i % 2;
            kit_add_spec(list, &s);
        }
}

/* Each expert a row of weights: what a sum over an index set of channels is. */
static void list_channels(kit_list *list, kit_spec s)
{
    static const int64_t shapes[][4] = {{1, 33, 7, 2},     {3, 64, 40, 8},
                                        {40, 17, 300, 12}, {150, 130, 96, 4},
                                        {2, 1100, 64, 16}, {70, 24, 12, 12}};
    if (kit_spec_unit(&s) > 1)
        return;
    s.in = 1;
    for (uint32_t i = 0; i < KIT_COUNT(shapes); i++) {
        s.n = shapes[i][0];
        s.out = shapes[i][1];
        s.experts = shapes[i][2];
        s.used = shapes[i][3];
        s.form = KIT_FORM_SCORES | (i % 2 ? KIT_FORM_ABSENT : 0);
        s.variant = i == 5;
        kit_add_spec(list, &s);
        s.first = 5;
        s.total = s.experts + 9;
        kit_add_spec(list, &s);
        s.first = 0;
        s.total = 0;
    }
}

void kit_list_experts(kit_list *list)
{
    list_select(list, CLV_OP_TOP_K);
    list_select(list, CLV_OP_NONZERO);
    for (uint32_t i = 0; i < kit_n_reals(); i++) {
        kit_spec s = {.op = CLV_OP_MATMUL_EXPERTS,
                      .dtype = kit_real(i),
                      .n = 5,
                      .in = 64,
                      .out = 24,
                      .experts = 6,
                      .used = 2};
        kit_add_forms(list, &s);
        s.form = KIT_FORM_EACH | KIT_FORM_SCORES;
        s.variant = 1;
        kit_add_forms(list, &s);
        list_shapes(list, s);
        list_channels(list, s);
        if (i < 2 || s.dtype == CLV_DTYPE_Q8_0)
            list_ranges(list, s);
        s.n = 3;
        s.form = 0;
        s.variant = 0;
        KIT_SERIES(list, "tails_out", &s, out, kit_tails, kit_n_tails, 1);
        if (s.dtype == CLV_DTYPE_F32 || s.dtype == CLV_DTYPE_Q8_0) {
            KIT_SERIES(list, "tails_rows", &s, n, kit_tails, kit_n_tails, 1);
            KIT_SERIES(list, "tails_experts", &s, experts, kit_blocks,
                       kit_n_blocks, 1);
        }
        int64_t unit = kit_spec_unit(&s);
        s.form = KIT_FORM_EACH;
        if (unit > 1)
            KIT_SERIES(list, "tails_in", &s, in, kit_blocks, kit_n_blocks,
                       unit);
        else
            KIT_SERIES(list, "tails_in", &s, in, kit_every, kit_n_every, 1);
    }
}
