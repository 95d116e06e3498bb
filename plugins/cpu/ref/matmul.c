/* Products with weights of any format, through f32. */
#include "ref.h"

/* Sums run over lanes that a compiler may hold in one vector register. */
#define LANES 8

/* Elements of a weight row that are converted to f32 at a time; whole blocks of
 * every format. */
#define PIECE 1024

static float dot(const float *a, const float *b, int64_t k)
{
    float lanes[LANES] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + LANES <= k; i += LANES)
        for (int j = 0; j < LANES; j++)
            lanes[j] += a[i + j] * b[i + j];
    for (; i < k; i++)
        lanes[i % LANES] += a[i] * b[i];
    for (int j = 0; j < LANES; j++)
        sum += lanes[j];
    return sum;
}

/* Multiplies n integers from element begin of row o on by their scales. */
static void apply_scales(const cpu_matmul_args *a, int64_t o, int64_t begin,
                         float *w, int64_t n)
{
    for (int64_t i = 0; i < n;) {
        int64_t end = ((begin + i) / a->group + 1) * a->group - begin;
        float scale = cpu_scale(a, o, begin + i);
        for (end = end < n ? end : n; i < end; i++)
            w[i] *= scale;
    }
}

static void matmul(const cpu_matmul_args *a)
{
    const clv_format *f = clv_format_of(a->dtype);
    float *w = a->scratch;
    for (int64_t o = a->o_begin; o < a->o_end; o++) {
        const char *row = (const char *)a->w + o * a->w_stride;
        for (int64_t i = 0; i < a->n; i++)
            a->y[i * a->y_stride + o] = a->bias ? a->bias[o] : 0;
        for (int64_t k = 0; k < a->k; k += PIECE) {
            int64_t n = a->k - k < PIECE ? a->k - k : PIECE;
            f->decode(row + k / f->elements * f->bytes, w, n);
            if (a->scales)
                apply_scales(a, o, k, w, n);
            for (int64_t i = 0; i < a->n; i++)
                a->y[i * a->y_stride + o] +=
                    dot(a->x + i * a->x_stride + k, w, n);
        }
    }
}

void cpu_ref_matmul(cpu_kernels *table)
{
    for (uint32_t i = 1; i < CLV_DTYPE_COUNT; i++) {
        const clv_format *f = clv_format_of(i);
        if (f->decode)
            table->formats[i] = (cpu_format){.product.matmul = matmul,
                                             .to_f32 = f->decode,
                                             .from_f32 = f->encode};
    }
    table->matmul_any = matmul;
}
