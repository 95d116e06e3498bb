#include "bf16.h"
#include "prepare.h"
#include "turn.h"

#define GROUP_ROWS CPU_PREPARE_ROWS

size_t ISA(cpu_x86_bf16_size)(int64_t k)
{
    return (size_t)k * sizeof(uint16_t);
}

/* A block of a row; in pairs: its even elements in front of the odd ones. */
static ALWAYS_INLINE vi block_bf16(const float *x, bool pairs)
{
    const vf low = vf_load(x), high = vf_load(x + VL);
    return pairs ? vf_to_bf16(vf_even(low, high), vf_odd(low, high))
                 : vf_to_bf16(low, high);
}

static ALWAYS_INLINE void prepare(const cpu_prepare_args *a, bool pairs)
{
    for (int64_t k = a->begin; k < a->end; k += CPU_BLOCK) {
        uint32_t *to = (uint32_t *)a->out + k / 2 * GROUP_ROWS;
        vi v[GROUP_ROWS];
        for (int i = 0; i < GROUP_ROWS; i++)
            v[i] = i < a->n ? block_bf16(a->x[i] + k, pairs) : vi_zero();
        turn_16(v);
        for (int i = 0; i < GROUP_ROWS; i++)
            vi_store(to + i * GROUP_ROWS, v[i]);
    }
}

void ISA(cpu_x86_bf16_rows)(const cpu_prepare_args *args)
{
    prepare(args, false);
}

void ISA(cpu_x86_bf16_pair_rows)(const cpu_prepare_args *args)
{
    prepare(args, true);
}
