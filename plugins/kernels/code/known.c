/*
 * Calls whose text is known. Layers repeat, and to see that a call says the
 * same as one before takes a small part of the time of making its text. A
 * digest of 128 bits stands for what a call says: all of it but where its
 * operands lie.
 */
#include "maker.h"

#include <string.h>

struct gpu_known {
    gpu_digest digest;
    uint32_t kernel, n_ints;
    gpu_expr ints[GPU_MAX_PARAMS];
};

/* ------------------------------------------------------------------------ */
/* Digests                                                                  */

/* Multiplying carries to the upper bits, which the shift brings down again. */
static void add_word(gpu_digest *d, uint64_t word)
{
    d->a = (d->a ^ word) * 0x9e3779b97f4a7c15u;
    d->a ^= d->a >> 32;
    d->b = (d->b + word) * 0xc2b2ae3d27d4eb4fu;
    d->b ^= d->b >> 29;
}

static void add_bytes(gpu_digest *d, const void *data, size_t n)
{
    const char *at = data;
    add_word(d, n);
    for (; n; at += 8) {
        uint64_t word = 0;
        const size_t now = n < 8 ? n : 8;
        memcpy(&word, at, now);
        add_word(d, word);
        n -= now;
    }
}

static void add_string(gpu_digest *d, const char *string)
{
    add_bytes(d, string, strlen(string));
}

static void add_expr(gpu_digest *d, const gpu_expr *e)
{
    add_word(d, (uint64_t)e->constant);
    add_word(d, (uint64_t)e->factor);
    add_word(d, (uint64_t)e->divisor);
    add_word(d, e->symbol);
    add_word(d, e->given);
}

/* All but the index and the offset, which are the dispatch's. By the memory
 * GLSL chooses words. */
static void add_operand(gpu_digest *d, const gpu_operand *t, bool glsl)
{
    const bool flags[] = {t->written, t->weights, t->packed, t->quads,
                          t->sliced};
    add_string(d, t->name);
    add_bytes(d, flags, sizeof flags);
    add_word(d, t->dtype);
    add_word(d, glsl ? t->memory : 0);
    add_word(d, t->storage);
    add_word(d, t->through);
    add_word(d, (uint64_t)t->first_slice);
    add_expr(d, &t->width);
    add_expr(d, &t->channels);
    for (uint32_t i = 0; i < 5; i++)
        add_expr(d, &t->strides[i]);
    if (t->sliced)
        add_bytes(d, &t->map, sizeof t->map);
}

gpu_digest gpu_digest_of(const gpu_call *call)
{
    const bool flags[] = {call->subgroups, call->apart, call->wide};
    gpu_digest d = {0, 0};
    add_string(&d, call->name);
    add_string(&d, call->variant);
    add_string(&d, call->text);
    add_bytes(&d, flags, sizeof flags);
    add_bytes(&d, call->local, sizeof call->local);
    add_word(&d, call->n_maps);
    add_word(&d, call->n_uses);
    for (uint32_t i = 0; i < call->n_uses; i++)
        add_string(&d, call->uses[i]);
    add_word(&d, call->n_operands);
    for (uint32_t i = 0; i < call->n_operands; i++)
        add_operand(&d, &call->operands[i], !call->wide);
    add_word(&d, call->n_params);
    for (uint32_t i = 0; i < call->n_params; i++) {
        add_string(&d, call->params[i].name);
        add_expr(&d, &call->params[i].value);
    }
    add_word(&d, call->n_posts);
    for (uint32_t i = 0; i < call->n_posts; i++) {
        add_word(&d, call->posts[i].op);
        add_word(&d, call->posts[i].operand);
        add_bytes(&d, &call->posts[i].value, sizeof call->posts[i].value);
    }
    add_word(&d, call->n_defines);
    for (uint32_t i = 0; i < call->n_defines; i++) {
        add_string(&d, call->defines[i].name);
        add_word(&d, (uint64_t)call->defines[i].value);
    }
    return d;
}

/* Of the kernel that is for all of its calls. */
static gpu_digest digest_of(const gpu_maker *m)
{
    gpu_digest d = gpu_digest_of(m->call);
    add_word(&d, m->n_calls);
    add_bytes(&d, m->varies, sizeof m->varies);
    return d;
}

/* ------------------------------------------------------------------------ */
/* What is known                                                             */

bool gpu_known_find(const gpu_builder *b, gpu_maker *m, uint32_t *kernel)
{
    const gpu_digest d = digest_of(m);
    for (uint32_t i = 0; i < b->n_known; i++) {
        const gpu_known *k = &b->known[i];
        if (k->digest.a != d.a || k->digest.b != d.b)
            continue;
        m->n_ints = k->n_ints;
        for (uint32_t n = 0; n < k->n_ints; n++)
            m->ints[n].value = k->ints[n];
        *kernel = k->kernel;
        return true;
    }
    return false;
}

clv_status gpu_known_add(gpu_builder *b, const gpu_maker *m, uint32_t kernel)
{
    CLV_TRY(gpu_grow(b->host, &b->known, b->n_known, &b->max_known,
                     sizeof *b->known));
    gpu_known *k = &b->known[b->n_known++];
    k->digest = digest_of(m);
    k->kernel = kernel;
    k->n_ints = m->n_ints;
    for (uint32_t n = 0; n < m->n_ints; n++)
        k->ints[n] = m->ints[n].value;
    return CLV_OK;
}

void gpu_builder_finish(gpu_builder *b)
{
    gpu_repeated_free(b);
    clv_free(b->host, b->known);
    b->known = NULL;
    b->n_known = b->max_known = 0;
}
