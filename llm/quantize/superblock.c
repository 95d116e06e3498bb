#include "superblock.h"

#include "common.h"

/* Of a block being fitted. */
typedef struct block {
    const llm_super_shape *shape;
    const float *x;
    float weight[256];
    llm_line lines[16]; /* of the sub-blocks, before their scales are rounded */
    float d, m;         /* as they are stored */
    llm_super *out;
} block;

static int count(const block *b)
{
    return 256 / b->shape->sub;
}

static llm_weighted part(const block *b, int j)
{
    const int at = j * b->shape->sub;
    return (llm_weighted){b->x + at, b->weight + at, b->shape->sub};
}

static llm_line line_of(const block *b, int scale, int minimum)
{
    return (llm_line){b->d * (float)scale, -b->m * (float)minimum};
}

static float as_stored(float x, uint16_t *out)
{
    *out = clv_f32_to_f16(x);
    return clv_f16_to_f32(*out);
}

static void set_factors(block *b, float d, float m)
{
    b->d = as_stored(d, &b->out->d);
    b->m = as_stored(m, &b->out->m);
}

/* Fits each sub-block alone. The largest scale becomes the end of the range
 * that reaches further. */
static void fit_parts(block *b)
{
    const llm_super_shape *shape = b->shape;
    float scale = 0, minimum = 0;
    for (int j = 0; j < count(b); j++) {
        const llm_weighted a = part(b, j);
        llm_line *line = &b->lines[j];
        if (shape->least < 0)
            *line = (llm_line){llm_fit_scale(&a, &shape->levels), 0};
        else
            *line = llm_fit_line(&a, &shape->levels, 0);
        if (fabsf(line->scale) > fabsf(scale))
            scale = line->scale;
        if (-line->offset > minimum)
            minimum = -line->offset;
    }
    const int end = shape->least < 0 ? shape->least : shape->most;
    set_factors(b, scale / (float)end, minimum / (float)shape->most);
}

static int round_scale(const block *b, float x, float unit)
{
    const float y = unit != 0 ? roundf(x / unit) : 0;
    const float low = (float)b->shape->least, high = (float)b->shape->most;
    return (int)(y < low ? low : y > high ? high : y);
}

/* Rounds the scale and the minimum of a sub-block, each of them also to the
 * numbers beside, and takes what fits best. */
static void round_part(const block *b, int j)
{
    const llm_weighted a = part(b, j);
    const int least = b->shape->least, most = b->shape->most;
    const int scale = round_scale(b, b->lines[j].scale, b->d);
    const int minimum = round_scale(b, -b->lines[j].offset, b->m);
    const int reach = least < 0 || b->m == 0 ? 0 : 1;
    float best = INFINITY;
    for (int s = scale - 1; s <= scale + 1; s++) {
        for (int t = minimum - reach; t <= minimum + reach; t++) {
            if (s < least || s > most || (reach && (t < 0 || t > most)))
                continue;
            const float error =
                llm_fit_error(&a, &b->shape->levels, line_of(b, s, t));
            if (error < best) {
                best = error;
                b->out->scales[j] = s;
                b->out->minima[j] = t;
            }
        }
    }
}

static float error_of(const block *b)
{
    float sum = 0;
    for (int j = 0; j < count(b); j++) {
        const llm_weighted a = part(b, j);
        const llm_line line = line_of(b, b->out->scales[j], b->out->minima[j]);
        sum += llm_fit_error(&a, &b->shape->levels, line);
    }
    return sum;
}

/* The factors of least squares for the integers that were chosen. */
static void refit_factors(block *b)
{
    double ss = 0, st = 0, tt = 0, xs = 0, xt = 0;
    for (int j = 0; j < count(b); j++) {
        const llm_weighted a = part(b, j);
        const int scale = b->out->scales[j], t = -b->out->minima[j];
        float v[LLM_FIT_MOST];
        llm_fit_round(&a, &b->shape->levels, line_of(b, scale, -t), v);
        for (int i = 0; i < a.n; i++) {
            const double w = (double)a.weight[i], x = (double)a.x[i];
            const double s = scale * (double)v[i];
            ss += w * s * s;
            st += w * s * t;
            tt += w * t * t;
            xs += w * x * s;
            xt += w * x * t;
        }
    }
    const double det = ss * tt - st * st;
    double d = ss > 0 ? xs / ss : 0, m = 0;
    if (tt > 0 && det > 1e-9 * ss * tt) {
        d = (tt * xs - st * xt) / det;
        m = (ss * xt - st * xs) / det;
    }
    if (b->shape->least >= 0 && (d < 0 || m < 0))
        return;
    const block old = {.d = b->d, .m = b->m};
    const float before = error_of(b);
    set_factors(b, (float)d, (float)m);
    if (!(error_of(b) < before))
        set_factors(b, old.d, old.m);
}

static void round_numbers(const block *b)
{
    for (int j = 0; j < count(b); j++) {
        const llm_weighted a = part(b, j);
        float v[LLM_FIT_MOST];
        llm_fit_round(&a, &b->shape->levels,
                      line_of(b, b->out->scales[j], b->out->minima[j]), v);
        for (int i = 0; i < a.n; i++)
            b->out->q[j * a.n + i] =
                (uint8_t)llm_fit_index(&b->shape->levels, v[i]);
    }
}

void llm_fit_super(const llm_super_shape *shape, const float *x, llm_super *out)
{
    block b = {.shape = shape, .x = x, .out = out};
    for (int j = 0; j < count(&b); j++)
        llm_weigh(x + j * shape->sub, shape->sub, b.weight + j * shape->sub);
    fit_parts(&b);
    for (int j = 0; j < count(&b); j++)
        round_part(&b, j);
    refit_factors(&b);
    round_numbers(&b);
}
