/* The text of a template: what it says by "args." is resolved. */
#include "maker.h"

#include <ctype.h>

void gpu_wrong(gpu_maker *m, const char *why)
{
    if (!m->wrong)
        m->wrong = why;
}

void gpu_put_int(gpu_maker *m, gpu_text *out, const char *name,
                 const gpu_expr *value)
{
    gpu_puts(out, name);
    for (uint32_t i = 0; i < m->n_ints; i++)
        if (!strcmp(m->ints[i].name, name))
            return;
    if ((m->target->language == GPU_GLSL &&
         gpu_call_args(m->call) + m->n_ints == GPU_MAX_PUSHED) ||
        m->n_ints == GPU_MAX_PARAMS || strlen(name) >= GPU_MAX_NAME) {
        gpu_wrong(m, "more params than there can be");
        return;
    }
    strcpy(m->ints[m->n_ints].name, name);
    m->ints[m->n_ints++].value = *value;
}

void gpu_put_field(gpu_maker *m, gpu_text *out, const gpu_operand *t,
                   const char *field, const gpu_expr *value)
{
    char name[2 * GPU_MAX_NAME];
    snprintf(name, sizeof name, "%.20s_%s", t->name, field);
    gpu_put_int(m, out, name, value);
}

/* Splits "(a,b,...)" that begins at text; where it ends, or NULL. */
static const char *read_args(gpu_maker *m, const char *text, const char *end,
                             gpu_method_args *args)
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
        if (p > begin && args->n < GPU_MAX_METHOD_ARGS) {
            args->text[args->n].host = m->body.host;
            gpu_put_text(m, &args->text[args->n++], begin, (size_t)(p - begin));
        }
        begin = p + 1;
        if (!depth)
            return p + 1;
    }
    return NULL;
}

static void free_args(gpu_maker *m, gpu_method_args *args)
{
    for (uint32_t i = 0; i < GPU_MAX_METHOD_ARGS; i++) {
        m->body.failed |= args->text[i].failed;
        gpu_text_free(&args->text[i]);
    }
}

static const char *read_name(const char *p, const char *end, char *name)
{
    uint32_t n = 0;
    while (p < end && (isalnum((unsigned char)*p) || *p == '_')) {
        if (n + 1 < GPU_MAX_NAME)
            name[n++] = *p;
        p++;
    }
    name[n] = 0;
    return p;
}

/* What "args." at p says; where it ends. */
static const char *put_reference(gpu_maker *m, gpu_text *out, const char *p,
                                 const char *end)
{
    char name[GPU_MAX_NAME], method[GPU_MAX_NAME];
    const gpu_call *call = m->call;
    p = read_name(p + strlen("args."), end, name);
    for (uint32_t i = 0; i < call->n_operands; i++) {
        const gpu_operand *t = &call->operands[i];
        if (strcmp(t->name, name))
            continue;
        gpu_method_args args = {0};
        const char *q =
            p < end && *p == '.' ? read_name(p + 1, end, method) : NULL;
        q = q && q < end && *q == '(' ? read_args(m, q, end, &args) : NULL;
        if (q)
            gpu_put_method(m, out, t, method, &args);
        else
            gpu_wrong(m, "an operand without a method");
        free_args(m, &args);
        return q ? q : end;
    }
    for (uint32_t i = 0; i < call->n_params; i++)
        if (!strcmp(call->params[i].name, name)) {
            gpu_put_int(m, out, name, &call->params[i].value);
            return p;
        }
    if (!m->wrong)
        strcpy(m->unknown, name);
    gpu_wrong(m, "no operand and no parameter is called ");
    return p;
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

void gpu_put_text(gpu_maker *m, gpu_text *out, const char *text, size_t n)
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
