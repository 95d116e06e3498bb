/* What the methods of an operand mean: index arithmetic. */
#include "maker.h"

/* The place where the row at coordinates b, x, y, d begins. */
static void put_row(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                    const gpu_text *at)
{
    static const char *const fields[] = {"sb", "s", "sy", "sd"};
    static const uint32_t axes[] = {CLV_L_B, CLV_L_W, CLV_L_H, CLV_L_D};
    gpu_printf(out, "(PLACE(%s_o)", t->name);
    for (uint32_t i = 0; i < 4; i++) {
        if (!at[i].data || !strcmp(at[i].data, "0"))
            continue;
        gpu_printf(out, " + PLACE(%s) * PLACE(", at[i].data);
        gpu_put_field(m, out, t, fields[i], &t->strides[axes[i]]);
        gpu_puts(out, ")");
    }
    gpu_puts(out, ")");
}

/* row, c: the place and the index behind it of channel text c. */
static void put_place(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                      const gpu_text *at, const char *c)
{
    gpu_printf(out, "MEM(%s) ", t->name);
    put_row(m, out, t, at);
    if (t->packed) {
        gpu_printf(out, ", PLACE(%s)", c);
    } else {
        gpu_printf(out, " + PLACE(%s) * PLACE(", c);
        gpu_put_field(m, out, t, "sc", &t->strides[CLV_L_C]);
        gpu_puts(out, "), PLACE(0)");
    }
}

/* row, c, left: of slice s, whose channels follow one another. */
static void put_slice(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                      const gpu_text *at)
{
    const char *s = at[4].data;
    if (!t->packed)
        gpu_wrong(m, "slices of a tensor whose channels lie apart");
    gpu_printf(out, "MEM(%s) ", t->name);
    put_row(m, out, t, at);
    gpu_printf(out, ", 4 * (%s), ", s);
    gpu_put_field(m, out, t, "c", &t->channels);
    gpu_printf(out, " - 4 * (%s)", s);
}

static void put_value(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                      const gpu_text *at, bool slice)
{
    if (t->sliced) {
        (slice ? gpu_put_slice : gpu_put_channel)(m, out, t, at);
        return;
    }
    gpu_printf(out, "%s_%s(", t->name, slice ? "read" : "get");
    if (slice)
        put_slice(m, out, t, at);
    else
        put_place(m, out, t, at, at[4].data);
    gpu_puts(out, ")");
}

/* The post's operand where dst is written. */
static void put_post_operand(gpu_maker *m, gpu_text *out, const gpu_post *post,
                             const gpu_text *at, bool slice)
{
    const gpu_operand *t = &m->call->operands[post->operand];
    const char *function = post->op == GPU_POST_MUL_SILU   ? "silu"
                           : post->op == GPU_POST_MUL_GELU ? "gelu"
                                                           : "";
    gpu_puts(out, post->op == GPU_POST_ADD ? " + " : " * ");
    if (*function)
        gpu_printf(out, "%s%s", function, slice ? "4" : "_f32");
    gpu_puts(out, "(");
    put_value(m, out, t, at, slice);
    gpu_puts(out, ")");
}

/* value behind the posts. */
static void put_posts(gpu_maker *m, gpu_text *out, const char *value,
                      const gpu_text *at, bool slice, uint32_t n)
{
    if (!n) {
        gpu_printf(out, "(%s)", value);
        return;
    }
    static const char *const functions[] = {
        [GPU_POST_SILU] = "silu",       [GPU_POST_GELU] = "gelu",
        [GPU_POST_SIGMOID] = "sigmoid", [GPU_POST_SCALE] = "",
        [GPU_POST_SOFTCAP] = "softcap", [GPU_POST_EXCESS] = "excess",
        [GPU_POST_ROUND] = "round"};
    const gpu_post *post = &m->call->posts[n - 1];
    const bool unary = post->op >= GPU_POST_SILU;
    if (unary && *functions[post->op])
        gpu_printf(out, "%s%s", functions[post->op], slice ? "4" : "_f32");
    gpu_puts(out, "(");
    put_posts(m, out, value, at, slice, n - 1);
    if (!unary)
        put_post_operand(m, out, post, at, slice);
    else if (post->op >= GPU_POST_SCALE)
        gpu_printf(out, "%s bits_f32(%uu)",
                   post->op == GPU_POST_SCALE ? " *" : ",",
                   (unsigned)clv_float_bits(post->value));
    gpu_puts(out, ")");
}

/* A slice whose channels all are there, of F32. */
static void put_load(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                     const gpu_text *at)
{
    if (t->sliced) {
        gpu_put_slice(m, out, t, at);
        return;
    }
    if (!t->packed || t->dtype != CLV_DTYPE_F32)
        gpu_wrong(m, "whole slices of what is no row of F32");
    gpu_printf(out, "%s_load(MEM(%s) ", t->name, t->name);
    put_row(m, out, t, at);
    gpu_printf(out, " + PLACE(%s) * PLACE(16))", at[4].data);
}

/* The begin of a statement that does nothing for rows that go nowhere; x
 * becomes the row. */
static void put_row_of(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                       gpu_text *x)
{
    static char zero[] = "0", row[] = "row_";
    gpu_text at[5];
    for (uint32_t i = 0; i < 4; i++)
        at[i] = (gpu_text){.data = zero, .n = 1};
    at[4] = *x;
    gpu_puts(out, "do { int row_ = ");
    put_value(m, out, &m->call->operands[t->through - 1], at, false);
    gpu_puts(out, "; if (row_ >= 0) ");
    *x = (gpu_text){.data = row, .n = 4};
}

/* The call that writes a slice whose channels lie apart, but for its value. */
static void put_scatter(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                        const gpu_text *at)
{
    const char *s = at[4].data;
    gpu_printf(out, "%s_scatter(MEM(%s) ", t->name, t->name);
    put_row(m, out, t, at);
    gpu_puts(out, ", PLACE(");
    gpu_put_field(m, out, t, "sc", &t->strides[CLV_L_C]);
    gpu_printf(out, "), 4 * (%s), ", s);
    gpu_put_field(m, out, t, "c", &t->channels);
    gpu_printf(out, " - 4 * (%s), ", s);
}

static void put_write(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                      const gpu_method_args *args, bool slice)
{
    const gpu_text *at = &args->text[1], *to = at;
    uint32_t n = strcmp(t->name, "dst") ? 0 : m->call->n_posts;
    gpu_text rows[5];
    if (t->through) {
        memcpy(rows, at, sizeof rows);
        put_row_of(m, out, t, &rows[1]);
        to = rows;
    }
    if (t->sliced && slice) {
        gpu_put_store(m, out, t, at);
    } else if (slice && !t->packed) {
        put_scatter(m, out, t, to);
    } else {
        gpu_printf(out, "%s_%s(", t->name, slice ? "write" : "put");
        if (slice)
            put_slice(m, out, t, to);
        else
            put_place(m, out, t, to, to[4].data);
        gpu_puts(out, ", ");
    }
    put_posts(m, out, args->text[0].data, at, slice, n);
    gpu_puts(out, t->through ? "); } while (false)" : ")");
}

/* What there is only of rows. Templates may have it where T_SLICED is not
 * defined; elsewhere compilers do not know the word. */
static bool is_for_rows(const gpu_operand *t, const char *method)
{
    static const char *const all[] = {
        "Row", "Word", "Half", "Byte", "SetHalf", "ReadInt", "WriteScalar"};
    for (uint32_t i = 0; i < sizeof all / sizeof *all && t->sliced; i++)
        if (!strcmp(method, all[i]))
            return true;
    return false;
}

/* The bits at a place, by a macro of the language. */
static bool put_bits(gpu_text *out, const gpu_operand *t, const char *method,
                     const gpu_method_args *args)
{
    if (!strcmp(method, "SetHalf") && args->n == 2 && t->written) {
        gpu_printf(out, "%s_SET_HALF(%s, %s)", t->name, args->text[0].data,
                   args->text[1].data);
        return true;
    }
    static const char *const methods[][2] = {
        {"Quad", "QUAD"}, {"Word", "WORD"}, {"Half", "HALF"}, {"Byte", "BYTE"}};
    for (uint32_t i = 0; i < 4; i++)
        if (!strcmp(method, methods[i][0]) && args->n == 1) {
            gpu_printf(out, "%s_%s(%s)", t->name, methods[i][1],
                       args->text[0].data);
            return true;
        }
    return false;
}

void gpu_put_method(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                    const char *method, const gpu_method_args *args)
{
    for (uint32_t i = 0; i < args->n; i++)
        if (!args->text[i].data)
            return; /* out of memory */
    if (is_for_rows(t, method)) {
        gpu_printf(out, "%s_LIES_IN_SLICES", t->name);
    } else if (!strcmp(method, "Width") && !args->n) {
        gpu_put_field(m, out, t, "n", &t->width);
    } else if (!strcmp(method, "Channels") && !args->n) {
        gpu_put_field(m, out, t, "c", &t->channels);
    } else if (!strcmp(method, "Slices") && !args->n) {
        gpu_puts(out, "((");
        gpu_put_field(m, out, t, "c", &t->channels);
        gpu_puts(out, " + 3) / 4)");
    } else if (!strcmp(method, "Row") && args->n == 4) {
        put_row(m, out, t, args->text);
    } else if (!strcmp(method, "Read") && args->n == 5) {
        put_value(m, out, t, args->text, true);
    } else if (!strcmp(method, "Load") && args->n == 5) {
        put_load(m, out, t, args->text);
    } else if ((!strcmp(method, "ReadScalar") || !strcmp(method, "ReadInt")) &&
               args->n == 5) {
        put_value(m, out, t, args->text, false);
    } else if (!strcmp(method, "Write") && args->n == 6) {
        put_write(m, out, t, args, true);
    } else if (!strcmp(method, "WriteScalar") && args->n == 6) {
        put_write(m, out, t, args, false);
    } else if (!put_bits(out, t, method, args)) {
        gpu_wrong(m, "a method of an operand that is not known");
    }
}
