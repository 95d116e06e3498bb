#include "code.h"
#include "fuse.h"
#include "language.h"
#include "lower.h"

#include <ctype.h>

int64_t gpu_expr_value(const gpu_expr *expr, const int64_t *symbols)
{
    int64_t value = expr->constant;
    if (expr->symbol)
        value += expr->factor * symbols[expr->symbol - 1];
    if (expr->divisor <= 1)
        return value;
    return value > 0 ? (value - 1) / expr->divisor + 1 : 0;
}

/* ------------------------------------------------------------------------ */
/* The template's text                                                       */

#define MAX_NAME 24

/* Work on one call. What the text makes use of becomes an integer argument. */
typedef struct maker {
    const gpu_target *target;
    const gpu_call *call;
    gpu_text body, source;
    struct { char name[MAX_NAME]; gpu_expr value; } ints[GPU_MAX_INTS];
    uint32_t n_ints;
    const char *wrong; /* why the template cannot be made; NULL: all is well */
} maker;

static void wrong(maker *m, const char *why)
{
    if (!m->wrong)
        m->wrong = why;
}

/* The integer argument of that name. */
static void put_int(maker *m, gpu_text *out, const char *name,
                    const gpu_expr *value)
{
    gpu_puts(out, name);
    for (uint32_t i = 0; i < m->n_ints; i++)
        if (!strcmp(m->ints[i].name, name))
            return;
    if (m->call->n_operands + m->n_ints == GPU_MAX_INTS ||
        m->n_ints == GPU_MAX_PARAMS || strlen(name) >= MAX_NAME) {
        wrong(m, "more params than there can be");
        return;
    }
    strcpy(m->ints[m->n_ints].name, name);
    m->ints[m->n_ints++].value = *value;
}

static void put_field(maker *m, gpu_text *out, const gpu_operand *t,
                      const char *field, const gpu_expr *value)
{
    char name[2 * MAX_NAME];
    snprintf(name, sizeof name, "%.20s_%s", t->name, field);
    put_int(m, out, name, value);
}

#define MAX_CALL_ARGS 6

/* Arguments of a method, resolved. */
typedef struct method_args {
    gpu_text text[MAX_CALL_ARGS];
    uint32_t n;
} method_args;

static void put_text(maker *m, gpu_text *out, const char *text, size_t n);

/* Splits "(a,b,...)" that begins at text; where it ends, or NULL. */
static const char *read_args(maker *m, const char *text, const char *end,
                             method_args *args)
{
    int depth = 0;
    const char *begin = text + 1;
    args->n = 0;
    for (const char *p = text; p < end; p++) {
        depth += (*p == '(') - (*p == ')');
        if (depth > 1 || (depth == 1 && (*p != ',' || p == text)))
            continue;
        while (begin < p && isspace((unsigned char)*begin))
            begin++;
        if (p > begin && args->n < MAX_CALL_ARGS) {
            args->text[args->n].host = m->body.host;
            put_text(m, &args->text[args->n++], begin, (size_t)(p - begin));
        }
        begin = p + 1;
        if (!depth)
            return p + 1;
    }
    return NULL;
}

static void free_args(maker *m, method_args *args)
{
    for (uint32_t i = 0; i < MAX_CALL_ARGS; i++) {
        m->body.failed |= args->text[i].failed;
        gpu_text_free(&args->text[i]);
    }
}

/* The place where the row at coordinates b, x, y, d begins. */
static void put_row(maker *m, gpu_text *out, const gpu_operand *t,
                    const gpu_text *at)
{
    static const char *const fields[] = {"sb", "s", "sy", "sd"};
    static const uint32_t axes[] = {CLV_L_B, CLV_L_W, CLV_L_H, CLV_L_D};
    gpu_printf(out, "(PLACE(%s_o)", t->name);
    for (uint32_t i = 0; i < 4; i++) {
        if (!at[i].data || !strcmp(at[i].data, "0"))
            continue;
        gpu_printf(out, " + PLACE(%s) * PLACE(", at[i].data);
        put_field(m, out, t, fields[i], &t->strides[axes[i]]);
        gpu_puts(out, ")");
    }
    gpu_puts(out, ")");
}

/* row, c: the place and the index behind it of channel text c. */
static void put_place(maker *m, gpu_text *out, const gpu_operand *t,
                      const gpu_text *at, const char *c)
{
    gpu_printf(out, "MEM(%s) ", t->name);
    put_row(m, out, t, at);
    if (t->packed) {
        gpu_printf(out, ", PLACE(%s)", c);
    } else {
        gpu_printf(out, " + PLACE(%s) * PLACE(", c);
        put_field(m, out, t, "sc", &t->strides[CLV_L_C]);
        gpu_puts(out, "), PLACE(0)");
    }
}

/* row, c, left: of slice s, whose channels follow one another. */
static void put_slice(maker *m, gpu_text *out, const gpu_operand *t,
                      const gpu_text *at)
{
    const char *s = at[4].data;
    if (!t->packed)
        wrong(m, "slices of a tensor whose channels lie apart");
    gpu_printf(out, "MEM(%s) ", t->name);
    put_row(m, out, t, at);
    gpu_printf(out, ", 4 * (%s), ", s);
    put_field(m, out, t, "c", &t->channels);
    gpu_printf(out, " - 4 * (%s)", s);
}

static void put_value(maker *m, gpu_text *out, const gpu_operand *t,
                      const gpu_text *at, bool slice)
{
    gpu_printf(out, "%s_%s(", t->name, slice ? "read" : "get");
    if (slice)
        put_slice(m, out, t, at);
    else
        put_place(m, out, t, at, at[4].data);
    gpu_puts(out, ")");
}

/* The post's operand where dst is written. */
static void put_post_operand(maker *m, gpu_text *out, const gpu_post *post,
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
static void put_posts(maker *m, gpu_text *out, const char *value,
                      const gpu_text *at, bool slice, uint32_t n)
{
    if (!n) {
        gpu_printf(out, "(%s)", value);
        return;
    }
    const gpu_post *post = &m->call->posts[n - 1];
    const bool unary = post->op == GPU_POST_SILU || post->op == GPU_POST_GELU;
    if (unary)
        gpu_printf(out, "%s%s", post->op == GPU_POST_SILU ? "silu" : "gelu",
                   slice ? "4" : "_f32");
    gpu_puts(out, "(");
    put_posts(m, out, value, at, slice, n - 1);
    if (!unary)
        put_post_operand(m, out, post, at, slice);
    gpu_puts(out, ")");
}

static void put_write(maker *m, gpu_text *out, const gpu_operand *t,
                      const method_args *args, bool slice)
{
    const gpu_text *at = &args->text[1];
    uint32_t n = strcmp(t->name, "dst") ? 0 : m->call->n_posts;
    gpu_printf(out, "%s_%s(", t->name, slice ? "write" : "put");
    if (slice)
        put_slice(m, out, t, at);
    else
        put_place(m, out, t, at, at[4].data);
    gpu_puts(out, ", ");
    put_posts(m, out, args->text[0].data, at, slice, n);
    gpu_puts(out, ")");
}

/* The bits at a place, by a macro of the language. */
static bool put_bits(gpu_text *out, const gpu_operand *t, const char *method,
                     const method_args *args)
{
    static const char *const methods[][2] = {
        {"Word", "WORD"}, {"Half", "HALF"}, {"Byte", "BYTE"}};
    for (uint32_t i = 0; i < 3; i++)
        if (!strcmp(method, methods[i][0]) && args->n == 1) {
            gpu_printf(out, "%s_%s(%s)", t->name, methods[i][1],
                       args->text[0].data);
            return true;
        }
    return false;
}

static void put_method(maker *m, gpu_text *out, const gpu_operand *t,
                       const char *method, const method_args *args)
{
    for (uint32_t i = 0; i < args->n; i++)
        if (!args->text[i].data)
            return; /* out of memory */
    if (!strcmp(method, "Width") && !args->n) {
        put_field(m, out, t, "n", &t->width);
    } else if (!strcmp(method, "Channels") && !args->n) {
        put_field(m, out, t, "c", &t->channels);
    } else if (!strcmp(method, "Slices") && !args->n) {
        gpu_puts(out, "((");
        put_field(m, out, t, "c", &t->channels);
        gpu_puts(out, " + 3) / 4)");
    } else if (!strcmp(method, "Row") && args->n == 4) {
        put_row(m, out, t, args->text);
    } else if (!strcmp(method, "Read") && args->n == 5) {
        put_value(m, out, t, args->text, true);
    } else if ((!strcmp(method, "ReadScalar") || !strcmp(method, "ReadInt")) &&
               args->n == 5) {
        put_value(m, out, t, args->text, false);
    } else if (!strcmp(method, "Write") && args->n == 6) {
        put_write(m, out, t, args, true);
    } else if (!strcmp(method, "WriteScalar") && args->n == 6) {
        put_write(m, out, t, args, false);
    } else if (!put_bits(out, t, method, args)) {
        wrong(m, "a method of an operand that is not known");
    }
}

static const char *read_name(const char *p, const char *end, char *name)
{
    uint32_t n = 0;
    while (p < end && (isalnum((unsigned char)*p) || *p == '_')) {
        if (n + 1 < MAX_NAME)
            name[n++] = *p;
        p++;
    }
    name[n] = 0;
    return p;
}

/* What "args." at p says; where it ends. */
static const char *put_reference(maker *m, gpu_text *out, const char *p,
                                 const char *end)
{
    char name[MAX_NAME], method[MAX_NAME];
    const gpu_call *call = m->call;
    p = read_name(p + strlen("args."), end, name);
    for (uint32_t i = 0; i < call->n_operands; i++) {
        const gpu_operand *t = &call->operands[i];
        if (strcmp(t->name, name))
            continue;
        method_args args = {0};
        const char *q = p < end && *p == '.' ? read_name(p + 1, end, method)
                                             : NULL;
        q = q && q < end && *q == '(' ? read_args(m, q, end, &args) : NULL;
        if (q)
            put_method(m, out, t, method, &args);
        else
            wrong(m, "an operand without a method");
        free_args(m, &args);
        return q ? q : end;
    }
    for (uint32_t i = 0; i < call->n_params; i++)
        if (!strcmp(call->params[i].name, name)) {
            put_int(m, out, name, &call->params[i].value);
            return p;
        }
    wrong(m, "args. of a name that is not known");
    return p;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

static void put_text(maker *m, gpu_text *out, const char *text, size_t n)
{
    const char *end = text + n, *begin = text;
    for (const char *p = text; p < end;) {
        if ((size_t)(end - p) > 5 && !memcmp(p, "args.", 5) &&
            (p == text || !is_word(p[-1]))) {
            gpu_put(out, begin, (size_t)(p - begin));
            begin = p = put_reference(m, out, p, end);
        } else {
            p++;
        }
    }
    if (begin < end)
        gpu_put(out, begin, (size_t)(end - begin));
}

/* ------------------------------------------------------------------------ */
/* The kernel's frame                                                        */

/* Lines of the template that begin with LOCAL, or the others. */
static void put_lines(maker *m, gpu_text *out, const char *text, bool local,
                      const char *prefix)
{
    gpu_text lines = {.host = m->body.host};
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = text + strcspn(text, "\n");
        bool is_local = !strncmp(text, "LOCAL ", 6);
        if (is_local != local)
            continue;
        if (is_local) {
            gpu_puts(&lines, prefix);
            text += 6;
        }
        gpu_put(&lines, text, (size_t)(end - text));
        gpu_puts(&lines, "\n");
    }
    if (lines.data)
        put_text(m, out, lines.data, lines.n);
    m->body.failed |= lines.failed;
    gpu_text_free(&lines);
}

static void put_opencl_entry(maker *m, gpu_text *out)
{
    const gpu_call *call = m->call;
    gpu_printf(out,
               "__kernel __attribute__((reqd_work_group_size(%u, %u, %u)))\n"
               "void %s(",
               call->local[0], call->local[1], call->local[2], call->name);
    for (uint32_t i = 0; i < call->n_operands; i++)
        gpu_printf(out, "__global %suchar *%s, ",
                   call->operands[i].written ? "" : "const ",
                   call->operands[i].name);
    for (uint32_t i = 0; i < call->n_operands; i++)
        gpu_printf(out, "%sint %s_o", i ? ", " : "", call->operands[i].name);
    for (uint32_t i = 0; i < m->n_ints; i++)
        gpu_printf(out, ", int %s", m->ints[i].name);
    gpu_puts(out, ")\n");
}

static void put_glsl_header(maker *m, gpu_text *out)
{
    const gpu_call *call = m->call;
    gpu_printf(out,
               "layout(local_size_x = %u, local_size_y = %u, local_size_z = "
               "%u) in;\n"
               "layout(push_constant) uniform Ints { ",
               call->local[0], call->local[1], call->local[2]);
    for (uint32_t i = 0; i < call->n_operands; i++)
        gpu_printf(out, "int %s_o; ", call->operands[i].name);
    for (uint32_t i = 0; i < m->n_ints; i++)
        gpu_printf(out, "int %s; ", m->ints[i].name);
    gpu_puts(out, "};\n");
    for (uint32_t i = 0; i < call->n_operands; i++) {
        const char *name = call->operands[i].name;
        const char *access = call->operands[i].written ? "" : "readonly ";
        gpu_printf(out, "layout(std430, binding = %u) %sbuffer %s_words "
                        "{ uint %s_w[]; };\n", i, access, name, name);
        if (m->target->fp16_storage)
            gpu_printf(out, "layout(std430, binding = %u) %sbuffer %s_halves "
                            "{ uint16_t %s_h[]; };\n", i, access, name, name);
    }
}

static void put_source(maker *m)
{
    const gpu_call *call = m->call;
    const char *entry = strstr(call->text, "KERNEL\n{\n");
    const bool opencl = m->target->language == GPU_OPENCL_C;
    gpu_text helpers = {.host = m->body.host}, front = {.host = m->body.host};
    if (!entry) {
        wrong(m, "no KERNEL with its brace");
        return;
    }
    put_lines(m, &m->body, entry + strlen("KERNEL\n{\n"), false, "");
    gpu_put(&helpers, call->text, (size_t)(entry - call->text));
    if (helpers.data) /* now, so that the params are known */
        put_lines(m, &front, helpers.data, false, "");
    gpu_language_prelude(&m->source, m->target);
    for (uint32_t i = 0; i < call->n_defines; i++)
        gpu_printf(&m->source, "#define %s %lld\n", call->defines[i].name,
                   (long long)call->defines[i].value);
    if (!opencl)
        put_glsl_header(m, &m->source);
    for (uint32_t i = 0; i < call->n_operands; i++)
        gpu_language_accessors(&m->source, m->target, &call->operands[i]);
    if (!opencl)
        put_lines(m, &m->source, call->text, true, "shared ");
    if (front.data)
        gpu_put(&m->source, front.data, front.n);
    if (opencl)
        put_opencl_entry(m, &m->source);
    else
        gpu_puts(&m->source, "void main()\n");
    gpu_puts(&m->source, "{\n");
    if (opencl)
        put_lines(m, &m->source, call->text, true, "    __local ");
    if (m->body.data)
        gpu_put(&m->source, m->body.data, m->body.n);
    m->source.failed |= m->body.failed || helpers.failed || front.failed;
    gpu_text_free(&helpers);
    gpu_text_free(&front);
}

/* ------------------------------------------------------------------------ */
/* Kernels and dispatches                                                    */

clv_status gpu_grow(const clv_host_api *host, void *array, uint32_t n,
                    uint32_t *room, size_t size)
{
    void *old, *data;
    memcpy(&old, array, sizeof old);
    if (n < *room)
        return CLV_OK;
    uint32_t more = *room ? 2 * *room : 8;
    data = clv_new(host, more * (uint64_t)size);
    if (!data)
        return CLV_ERR_NO_MEMORY;
    if (n)
        memcpy(data, old, n * size);
    clv_free(host, old);
    memcpy(array, &data, sizeof data);
    *room = more;
    return CLV_OK;
}

static char *copy_string(const clv_host_api *host, const char *string)
{
    size_t n = strlen(string) + 1;
    char *copy = clv_new(host, n);
    return copy ? memcpy(copy, string, n) : NULL;
}

static void free_kernel(const clv_host_api *host, gpu_kernel *kernel)
{
    clv_free(host, kernel->name);
    clv_free(host, kernel->variant);
    clv_free(host, kernel->source);
}

/* The kernel of the source in m, which it may take. */
static clv_status add_kernel(gpu_builder *b, maker *m, uint32_t *index)
{
    gpu_code *code = b->code;
    const gpu_call *call = m->call;
    for (*index = 0; *index < code->n_kernels; ++*index)
        if (!strcmp(code->kernels[*index].source, m->source.data) &&
            !strcmp(code->kernels[*index].variant, call->variant))
            return CLV_OK;
    clv_status status = gpu_grow(b->host, &code->kernels, code->n_kernels,
                                 &b->room_kernels, sizeof *code->kernels);
    if (status)
        return status;
    gpu_kernel *kernel = &code->kernels[*index];
    memset(kernel, 0, sizeof *kernel);
    kernel->name = copy_string(b->host, call->name);
    kernel->variant = copy_string(b->host, call->variant);
    if (!kernel->name || !kernel->variant) {
        free_kernel(b->host, kernel);
        return CLV_ERR_NO_MEMORY;
    }
    kernel->source = m->source.data;
    m->source.data = NULL;
    memcpy(kernel->local, call->local, sizeof kernel->local);
    kernel->n_args = call->n_operands;
    kernel->n_params = m->n_ints;
    code->n_kernels++;
    return CLV_OK;
}

static void fill_dispatch(const gpu_builder *b, const maker *m,
                          uint32_t kernel, gpu_dispatch *d)
{
    const gpu_call *call = m->call;
    memset(d, 0, sizeof *d);
    d->kernel = kernel;
    d->node = call->node;
    for (uint32_t i = 0; i < call->n_operands; i++) {
        const gpu_operand *t = &call->operands[i];
        d->args[i] = (gpu_arg){.memory = t->memory, .index = t->index,
                               .offset = t->offset, .written = t->written};
        if (t->memory == GPU_MEMORY_TENSOR && b->moved && b->moved[t->index]) {
            d->args[i].memory = GPU_MEMORY_PRIVATE;
            d->args[i].index = b->moved[t->index] - 1;
        }
    }
    for (uint32_t i = 0; i < m->n_ints; i++)
        d->params[i] = m->ints[i].value;
    for (uint32_t i = 0; i < 3; i++)
        d->groups[i] = call->groups[i].divisor ? call->groups[i]
                                               : gpu_constant(1);
}

static clv_status add_dispatch(gpu_builder *b, const maker *m, uint32_t kernel,
                               bool setup)
{
    gpu_code *code = b->code;
    clv_status status =
        setup ? gpu_grow(b->host, &code->setup, code->n_setup, &b->room_setup,
                         sizeof *code->setup)
              : gpu_grow(b->host, &code->dispatches, code->n_dispatches,
                         &b->room_dispatches, sizeof *code->dispatches);
    if (!status)
        fill_dispatch(b, m, kernel,
                      setup ? &code->setup[code->n_setup++]
                            : &code->dispatches[code->n_dispatches++]);
    return status;
}

/* The call with the chain's posts, if it writes what the chain begins with. */
static bool add_chain(const gpu_chain *chain, const gpu_call *call,
                      gpu_call *longer)
{
    const gpu_operand *dst = NULL;
    for (uint32_t i = 0; i < call->n_operands; i++)
        if (!strcmp(call->operands[i].name, "dst"))
            dst = &call->operands[i];
    if (!dst || dst->memory != GPU_MEMORY_TENSOR ||
        dst->index != chain->out.index)
        return false;
    *longer = *call;
    for (uint32_t i = 0; i < chain->n_links; i++) {
        const gpu_link *link = &chain->links[i];
        if (longer->n_posts == GPU_MAX_POSTS ||
            longer->n_operands == GPU_MAX_ARGS)
            return false;
        const bool has = gpu_has(&link->operand);
        gpu_call_post(longer, link->op, has ? &link->operand : NULL);
        if (!has)
            continue;
        gpu_operand *operand = &longer->operands[longer->n_operands - 1];
        operand->offset = dst->offset; /* the same channels */
        operand->channels = dst->channels;
    }
    return true;
}

clv_status gpu_build(gpu_builder *b, const gpu_call *call, bool setup)
{
    gpu_call longer;
    if (b->chain && !setup && add_chain(b->chain, call, &longer)) {
        call = &longer;
        b->chained = true;
    }
    maker m = {.target = b->target, .call = call, .body.host = b->host,
               .source.host = b->host};
    uint32_t kernel = 0;
    clv_status status;
    put_source(&m);
    if (m.wrong)
        status = clv_fail(b->host, CLV_ERR_INTERNAL,
                          "kernel template %s: %s", call->name, m.wrong);
    else if (m.source.failed)
        status = CLV_ERR_NO_MEMORY;
    else
        status = add_kernel(b, &m, &kernel);
    if (!status)
        status = add_dispatch(b, &m, kernel, setup);
    gpu_text_free(&m.body);
    gpu_text_free(&m.source);
    return status;
}

clv_status gpu_build_private(gpu_builder *b, uint64_t size, bool weights,
                             uint32_t *index)
{
    gpu_code *code = b->code;
    clv_status status = gpu_grow(b->host, &code->privates, code->n_privates,
                                 &b->room_privates, sizeof *code->privates);
    if (status)
        return status;
    *index = code->n_privates++;
    code->privates[*index] = (gpu_private){.size = size, .weights = weights};
    return CLV_OK;
}

void gpu_code_free(const clv_host_api *host, gpu_code *code)
{
    if (!code)
        return;
    for (uint32_t i = 0; i < code->n_kernels; i++)
        free_kernel(host, &code->kernels[i]);
    clv_free(host, code->kernels);
    clv_free(host, code->setup);
    clv_free(host, code->dispatches);
    clv_free(host, code->privates);
    clv_free(host, code);
}
