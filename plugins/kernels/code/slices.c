/* Operands in slices of 4 channels: physical coordinates by the layout's map.
 */
#include "maker.h"

#define MAX_CODE 1024

/* The digits that there are of x. Rows of weights are output channels; matrices
 * have no other axes. */
static void name_outputs(gpu_maker *m, const gpu_operand *t, const char *x,
                         char names[3][MAX_CODE / 4], const char **all)
{
    const long long group = (long long)t->map.radix[CLV_DIGIT_SO];
    int n = group == 1 ? snprintf(names[0], MAX_CODE / 4, "((%s) >> 2)", x)
                       : snprintf(names[0], MAX_CODE / 4, "((%s) / %lld)", x,
                                  4 * group);
    int k = snprintf(names[1], MAX_CODE / 4, "(((%s) >> 2) %% %lld)", x, group);
    if (n < 0 || k < 0 || n >= MAX_CODE / 4 || k >= MAX_CODE / 4)
        gpu_wrong(m, "a coordinate that is too long");
    snprintf(names[2], MAX_CODE / 4, "((%.200s) & 3)", x);
    all[CLV_DIGIT_G] = names[0];
    all[CLV_DIGIT_SO] = names[1];
    all[CLV_DIGIT_O4] = names[2];
    all[CLV_DIGIT_W] = "0";
}

/* "MEM(T) x, y, z, n": where slice s lies, and in which object. Of a buffer x
 * is the index of its first channel, y where the operand begins. */
static void put_coordinates(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                            const gpu_text *at, const char *s)
{
    static const uint32_t digits[] = {CLV_DIGIT_B, CLV_DIGIT_W, CLV_DIGIT_H,
                                      CLV_DIGIT_D};
    static const uint32_t phys[] = {CLV_PHYS_X, CLV_PHYS_Y, CLV_PHYS_Z,
                                    CLV_PHYS_OBJECT};
    char names[4][MAX_CODE / 4], outputs[3][MAX_CODE / 4], code[MAX_CODE];
    const char *all[CLV_DIGIT_COUNT] = {0};
    all[CLV_DIGIT_C4] = "0";
    for (uint32_t i = 0; i < 4; i++) {
        int n = snprintf(names[i], sizeof names[i], "(%s)", at[i].data);
        if (n < 0 || n >= (int)sizeof names[i])
            gpu_wrong(m, "a coordinate that is too long");
        all[digits[i]] = names[i];
    }
    all[CLV_DIGIT_S] = s;
    if (t->map.is_weights)
        name_outputs(m, t, at[1].data, outputs, all);
    gpu_printf(out, "MEM(%s) ", t->name);
    for (uint32_t i = 0; i < 4; i++) {
        int n = clv_layout_code(&t->map, phys[i], all, NULL, code, sizeof code);
        if (n < 0 || n >= (int)sizeof code)
            gpu_wrong(m, "coordinates that are too long");
        else if (t->storage == CLV_STORAGE_BUFFER && phys[i] == CLV_PHYS_Y)
            gpu_printf(out, ", %s_o", t->name);
        else
            gpu_printf(out, "%s%s", i ? ", " : "", code);
    }
}

/* "T_FUNCTION(" and the coordinates of a slice, or of that of a channel. */
static void put_call(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                     const char *function, const gpu_text *at, bool channel)
{
    gpu_text s = {.host = out->host};
    gpu_printf(&s, "((%s)%s + %lld)", at[4].data, channel ? " / 4" : "",
               (long long)t->first_slice);
    gpu_printf(out, "%s_%s(", t->name, function);
    if (s.data)
        put_coordinates(m, out, t, at, s.data);
    out->failed |= s.failed;
    gpu_text_free(&s);
}

void gpu_put_slice(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                   const gpu_text *at)
{
    put_call(m, out, t, "load", at, false);
    gpu_puts(out, ")");
}

void gpu_put_channel(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                     const gpu_text *at)
{
    put_call(m, out, t, "at", at, true);
    gpu_printf(out, ", (%s) & 3)", at[4].data);
}

void gpu_put_store(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                   const gpu_text *at)
{
    put_call(m, out, t, "store", at, false);
    gpu_puts(out, ", ");
    gpu_put_field(m, out, t, "c", &t->channels);
    gpu_printf(out, " - 4 * (%s), ", at[4].data);
}
