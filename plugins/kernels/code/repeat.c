/*
 * Calls that say the same as one kernel, which goes through them. Operands that
 * lie elsewhere in each are an argument for each. Their addresses are brought
 * into local memory, as arguments cannot be found by a number.
 */
#include "language.h"
#include "maker.h"

/* ------------------------------------------------------------------------ */
/* Text                                                                      */

/* The operand as object k of call r. */
static void put_name(const gpu_maker *m, gpu_text *out, uint32_t i, uint32_t k,
                     uint32_t r)
{
    gpu_language_object(out, &m->call->operands[i], k);
    if (m->varies[i])
        gpu_printf(out, "_r%u", (unsigned)r);
}

void gpu_put_arguments(const gpu_maker *m, gpu_text *out)
{
    const gpu_call *call = m->call;
    for (uint32_t i = 0; i < call->n_operands; i++)
        for (uint32_t r = 0; r < gpu_times(m, i); r++) {
            gpu_puts(out, i || r ? ", " : "");
            gpu_language_argument(out, &call->operands[i], call->apart);
            if (m->varies[i])
                gpu_printf(out, "_r%u", (unsigned)r);
        }
    for (uint32_t i = 0; i < call->n_operands; i++)
        for (uint32_t r = 0; r < gpu_times(m, i); r++)
            for (uint32_t k = 0; k < gpu_objects(&call->operands[i]); k++) {
                gpu_puts(out, ", int ");
                put_name(m, out, i, k, r);
                gpu_puts(out, "_o");
            }
}

static uint32_t count_varying(const gpu_maker *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->call->n_operands; i++)
        n += m->varies[i];
    return n;
}

void gpu_put_repeats(const gpu_maker *m, gpu_text *out)
{
    const uint32_t varying = count_varying(m);
    if (!m->call->wide)
        return;
    gpu_printf(out, "#define REPEATS %u\n#define REPEAT_PLACES(r)",
               (unsigned)m->n_calls);
    for (uint32_t i = 0, n = 0; i < m->call->n_operands; i++) {
        const gpu_operand *t = &m->call->operands[i];
        if (!m->varies[i])
            continue;
        gpu_puts(out, " \\\n    ");
        gpu_language_argument(out, t, m->call->apart);
        gpu_printf(out,
                   " = (__global %suchar *)places[(r) * %u + %u]; "
                   "const int %s_o = 0;",
                   t->written ? "" : "const ", (unsigned)varying, (unsigned)n++,
                   t->name);
    }
    gpu_puts(out, "\n");
}

/* Items 0, 32, ... bring some each. */
void gpu_put_repeated_places(const gpu_maker *m, gpu_text *out)
{
    const uint32_t varying = count_varying(m), all = varying * m->n_calls;
    const uint32_t warps = m->call->local[0] < 32 ? 1 : m->call->local[0] / 32;
    const uint32_t each = (all + warps - 1) / warps;
    if (!all)
        return;
    gpu_printf(out, "    __local ulong places[%u];\n", (unsigned)all);
    for (uint32_t i = 0, n = 0; i < m->call->n_operands; i++)
        for (uint32_t r = 0; r < m->n_calls && m->varies[i]; r++, n++) {
            if (n % each == 0)
                gpu_printf(out, "%s    if (LOCAL_ID(0) == %u) {\n",
                           n ? "    }\n" : "", (unsigned)(n / each * 32));
            gpu_printf(out, "        places[%u] = (ulong)(",
                       (unsigned)(r * varying + n / m->n_calls));
            put_name(m, out, i, 0, r);
            gpu_puts(out, " + ");
            put_name(m, out, i, 0, r);
            gpu_puts(out, "_o);\n");
        }
    gpu_puts(out, "    }\n    barrier(CLK_LOCAL_MEM_FENCE);\n");
}

/* ------------------------------------------------------------------------ */
/* Calls                                                                     */

static bool lies_there(const gpu_operand *a, const gpu_operand *b)
{
    return a->memory == b->memory && a->index == b->index &&
           a->offset == b->offset;
}

void gpu_find_varying(gpu_maker *m)
{
    for (uint32_t i = 0; i < m->call->n_operands; i++)
        for (uint32_t r = 1; r < m->n_calls; r++)
            m->varies[i] |=
                !lies_there(&m->call->operands[i], &m->call[r].operands[i]);
}

/* Whether the call says the same as those that are kept. */
static bool is_same(const gpu_repeated *kept, const gpu_call *call,
                    const gpu_digest *digest)
{
    for (uint32_t i = 0; i < 3; i++) {
        const gpu_expr *a = &kept->calls[0].groups[i], *b = &call->groups[i];
        if (a->constant != b->constant || a->factor != b->factor ||
            a->divisor != b->divisor || a->symbol != b->symbol)
            return false;
    }
    return digest->a == kept->digest.a && digest->b == kept->digest.b;
}

/* Whether the kernel may have one call more, and has arguments for it. */
static bool takes_more(const gpu_target *target, const gpu_repeated *kept,
                       const gpu_call *more)
{
    uint32_t n = 0;
    if (kept->built < target->apart || kept->n >= target->repeats)
        return false;
    for (uint32_t i = 0; i < more->n_operands; i++) {
        bool varies = false;
        for (uint32_t r = 0; r < kept->n && !varies; r++)
            varies =
                !lies_there(&kept->calls[r].operands[i], &more->operands[i]);
        n += varies ? kept->n + 1 : 1;
    }
    return n <= GPU_MAX_ARGS;
}

static char *copy(const clv_host_api *host, const char *text)
{
    const size_t size = strlen(text) + 1;
    char *own = clv_new(host, size);
    return own ? memcpy(own, text, size) : NULL;
}

static void free_texts(const clv_host_api *host, gpu_call *call)
{
    for (uint32_t i = 0; i < call->n_uses; i++)
        clv_free(host, (void *)call->uses[i]);
    clv_free(host, (void *)call->text);
}

/* The call's texts last no longer than it does elsewhere. */
static clv_status keep_texts(const clv_host_api *host, gpu_call *call)
{
    bool all = (call->text = copy(host, call->text)) != NULL;
    for (uint32_t i = 0; i < call->n_uses; i++)
        all &= (call->uses[i] = copy(host, call->uses[i])) != NULL;
    if (all)
        return CLV_OK;
    free_texts(host, call);
    return CLV_ERR_NO_MEMORY;
}

static clv_status keep(gpu_builder *b, const gpu_call *call)
{
    gpu_repeated *kept = &b->repeated;
    CLV_TRY(gpu_grow(b->host, &kept->calls, kept->n, &kept->max,
                     sizeof *kept->calls));
    kept->calls[kept->n] = *call;
    if (!kept->n)
        CLV_TRY(keep_texts(b->host, &kept->calls[0]));
    kept->n++;
    return CLV_OK;
}

clv_status gpu_build_repeated(gpu_builder *b, const gpu_call *call)
{
    gpu_repeated *kept = &b->repeated;
    gpu_call whole = *call;
    whole.node = b->node;
    if (!b->target->repeats)
        return gpu_build(b, call, false);
    CLV_TRY(gpu_move(b, &whole));
    const gpu_digest digest = gpu_digest_of(&whole);
    if (kept->n && (!is_same(kept, &whole, &digest) ||
                    !takes_more(b->target, kept, &whole)))
        CLV_TRY(gpu_build_kept(b));
    kept->digest = digest;
    return keep(b, &whole);
}

clv_status gpu_build_kept(gpu_builder *b)
{
    gpu_repeated *kept = &b->repeated;
    if (!kept->n)
        return CLV_OK;
    const clv_status status = gpu_build_calls(b, kept->calls, kept->n, false);
    free_texts(b->host, &kept->calls[0]);
    kept->built += kept->n;
    kept->n = 0;
    return status;
}

void gpu_repeated_free(gpu_builder *b)
{
    gpu_repeated *kept = &b->repeated;
    if (kept->n)
        free_texts(b->host, &kept->calls[0]);
    clv_free(b->host, kept->calls);
    memset(kept, 0, sizeof *kept);
}
