/* Products: weights of every dtype and scheme. */
#include "../work/element.h"
#include "../work/shapes.h"
#include "ops.h"

#include <string.h>

static const kit_weight scaled[] = {
    {CLV_DTYPE_I8, CLV_QUANT_PER_TENSOR, 0},
    {CLV_DTYPE_I8, CLV_QUANT_PER_CHANNEL, 0},
    {CLV_DTYPE_I8, CLV_QUANT_PER_GROUP, 32},
    {CLV_DTYPE_I4, CLV_QUANT_PER_TENSOR, 0},
    {CLV_DTYPE_I4, CLV_QUANT_PER_CHANNEL, 0},
    {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 32},
    {CLV_DTYPE_I8, CLV_QUANT_PER_GROUP, 48}, /* no whole blocks of x */
    {CLV_DTYPE_I4, CLV_QUANT_PER_GROUP, 128},
};

bool kit_weight_at(uint32_t i, kit_weight *out)
{
    const uint32_t n = kit_n_reals();
    if (i >= n + KIT_COUNT(scaled))
        return false;
    *out = i < n ? (kit_weight){kit_real(i), 0, 0} : scaled[i - n];
    return true;
}

static void list_matmul_shapes(kit_list *list, kit_spec s)
{
    static const int64_t shapes[][3] = {
        {1, 32, 1},   {1, 64, 17},  {2, 96, 33},  {3, 32, 16},
        {5, 256, 41}, {17, 64, 65}, {33, 160, 7}, {1, 1056, 130},
        {4, 2080, 3}, {67, 32, 31}, {530, 32, 5}, {128, 128, 96}};
    for (uint32_t i = 0; i < KIT_COUNT(shapes); i++) {
        s.n = shapes[i][0];
        s.in = shapes[i][1];
        s.out = shapes[i][2];
        if (s.in % kit_spec_unit(&s))
            continue;
        s.form = i % 2 ? KIT_FORM_BIAS : 0;
        s.pad = 0;
        kit_add_spec(list, &s);
        s.form ^= KIT_FORM_BIAS;
        s.pad = 3;
        kit_add_spec(list, &s);
    }
}

static void run_model(kit *k, const void *arg)
{
    kit_spec s;
    memcpy(&s, arg, sizeof s);
    if (!kit_thorough(k) && s.out > 48)
        s.out =
            48; /* of the weight's rows; the length of sums is what counts */
    kit_judge_case(k, &s);
}

/* Lengths of real models' rows; all of the weight where there is time. */
static void list_models(kit_list *list, kit_spec s)
{
    for (uint32_t i = 0; i < kit_n_matmul_shapes; i++) {
        const kit_matmul_shape *shape = &kit_matmul_shapes[i];
        s.n = i % 2 ? 3 : 1;
        s.in = shape->in;
        s.out = shape->out;
        s.form = strstr(shape->name, "phi-2") || strstr(shape->name, "qwen2")
                     ? KIT_FORM_BIAS
                     : 0;
        int64_t unit = kit_spec_unit(&s);
        if (s.in % unit == 0)
            kit_add(list, KIT_PER_DEVICE, 0, run_model, kit_store_spec(&s),
                    "matmul.%s.%s", kit_dtype_name(s.dtype), shape->name);
    }
}

void kit_list_matmul(kit_list *list)
{
    kit_weight w;
    for (uint32_t i = 0; kit_weight_at(i, &w); i++) {
        kit_spec s = {.op = CLV_OP_MATMUL,
                      .dtype = w.dtype,
                      .quant = w.quant,
                      .group = w.group,
                      .n = 5,
                      .in = 96,
                      .out = 40};
        int64_t unit = kit_spec_unit(&s);
        if (s.in % unit)
            s.in = 2 * unit;
        kit_add_forms(list, &s);
        kit_spec gemm = s; /* other kernels may serve many rows */
        gemm.n = 37;
        gemm.form = KIT_FORM_SPECIAL;
        kit_add_spec(list, &gemm);
        list_matmul_shapes(list, s);
        for (s.n = 1; s.n < 40; s.n += 18) { /* GEMV and GEMM */
            s.form = KIT_FORM_ROUNDED;
            kit_add_spec(list, &s);
        }
        s.n = 5;
        s.form = 0;
        if (s.quant) { /* the rest is about kernels, not about their scales */
            s.form = KIT_FORM_BIAS;
            KIT_SERIES(list, "tails_out", &s, out, kit_tails, kit_n_tails, 1);
            KIT_SERIES(list, "tails_in", &s, in, kit_blocks, kit_n_blocks,
                       unit);
            continue;
        }
        list_models(list, s);
        s.n = 3;
        KIT_SERIES(list, "tails_out", &s, out, kit_tails, kit_n_tails, 1);
        s.n = 1;
        KIT_SERIES(list, "tails_out", &s, out, kit_tails, kit_n_tails, 1);
        s.out = 19;
        KIT_SERIES(list, "tails_rows", &s, n, kit_tails, kit_n_tails, 1);
        if (unit > 1)
            KIT_SERIES(list, "tails_in", &s, in, kit_blocks, kit_n_blocks,
                       unit);
        else
            KIT_SERIES(list, "tails_in", &s, in, kit_every, kit_n_every, 1);
    }
}
