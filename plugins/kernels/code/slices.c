/* Operands in slices of 4 channels: physical coordinates by the layout's map. */
#include "maker.h"

#define MAX_CODE 1024

/* "MEM(T) x, y, z": where slice s lies. Of a buffer x is
 * the index of its first channel, y where the operand begins. */
static void put_coordinates(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                            const gpu_text *at, const char *s)
{
    static const uint32_t digits[] = {CLV_DIGIT_B, CLV_DIGIT_W, CLV_DIGIT_H,
                                      CLV_DIGIT_D};
    char names[5][MAX_CODE / 4], code[MAX_CODE];
    const char *all[CLV_DIGIT_COUNT] = {0};
    all[CLV_DIGIT_C4] = "0";
    for (uint32_t i = 0; i < 4; i++) {
        int n = snprintf(names[i], sizeof names[i], "(%s)", at[i].data);
        if (n < 0 || n >= (int)sizeof names[i])
            gpu_wrong(m, "a coordinate that is too long");
        all[digits[i]] = names[i];
    }
    all[CLV_DIGIT_S] = s;
    gpu_printf(out, "MEM(%s) ", t->name);
    for (uint32_t phys = CLV_PHYS_X; phys <= CLV_PHYS_Z; phys++) {
        int n = clv_layout_code(&t->map, phys, all, NULL, code, sizeof code);
        if (n < 0 || n >= (int)sizeof code)
            gpu_wrong(m, "coordinates that are too long");
        else if (t->storage == CLV_STORAGE_BUFFER && phys == CLV_PHYS_Y)
            gpu_printf(out, ", %s_o", t->name);
        else
            gpu_printf(out, "%s%s", phys ? ", " : "", code);
    }
}

void gpu_put_slice(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                   const gpu_text *at)
{
    gpu_text s = {.host = out->host};
    gpu_printf(&s, "((%s) + %lld)", at[4].data, (long long)t->first_slice);
    gpu_printf(out, "%s_load(", t->name);
    if (s.data)
        put_coordinates(m, out, t, at, s.data);
    gpu_puts(out, ")");
    out->failed |= s.failed;
    gpu_text_free(&s);
}

void gpu_put_channel(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                     const gpu_text *at)
{
    gpu_text s = {.host = out->host};
    gpu_printf(&s, "((%s) / 4 + %lld)", at[4].data, (long long)t->first_slice);
    gpu_printf(out, "%s_at(", t->name);
    if (s.data)
        put_coordinates(m, out, t, at, s.data);
    gpu_printf(out, ", (%s) & 3)", at[4].data);
    out->failed |= s.failed;
    gpu_text_free(&s);
}

void gpu_put_store(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                   const gpu_text *at)
{
    gpu_text s = {.host = out->host};
    gpu_printf(&s, "((%s) + %lld)", at[4].data, (long long)t->first_slice);
    gpu_printf(out, "%s_store(", t->name);
    if (s.data)
        put_coordinates(m, out, t, at, s.data);
    gpu_puts(out, ", ");
    gpu_put_field(m, out, t, "c", &t->channels);
    gpu_printf(out, " - 4 * (%s), ", at[4].data);
    out->failed |= s.failed;
    gpu_text_free(&s);
}
