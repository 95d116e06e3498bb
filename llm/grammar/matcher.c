#include "matcher.h"

#include "../base/str.h"
#include "stacks.h"

#include <stdlib.h>
#include <string.h>

#define MAX_STATES 1024
#define PIECE 256 /* bytes followed at a time */
#define TABLE_SIZE (2 * MAX_STATES)

enum { UNKNOWN = 0, DEAD = 1, FIRST = 2 }; /* of `next` */

/* A character of `length` bytes, `left` of which are missing; value: those that
 * are there. left 0: between two characters. */
typedef struct state {
    uint32_t set, value;
    uint16_t length, left;
} state;

struct llm_matcher {
    llm_stacks stacks;
    state *states;         /* [MAX_STATES], from FIRST on */
    uint16_t (*next)[256]; /* [MAX_STATES] */
    uint16_t *table;       /* [TABLE_SIZE]: numbers by hash, 0: free */
    uint32_t n_states;
    uint32_t at; /* the text so far; DEAD: not of the grammar */
    bool full;   /* a state did not fit */
    bool exceeded;
};

/* ------------------------------------------------------------------------ */
/* States                                                                   */

static bool same(const state *a, const state *b)
{
    return a->set == b->set && a->value == b->value && a->length == b->length &&
           a->left == b->left;
}

static uint32_t number_of(llm_matcher *m, state s)
{
    uint32_t at = s.set * 0x9e3779b1u ^ s.value * 0x85ebca6bu ^
                  (s.length * 8u + s.left) * 0xc2b2ae35u;
    for (at = (at ^ at >> 16) % TABLE_SIZE; m->table[at];
         at = (at + 1) % TABLE_SIZE)
        if (same(&m->states[m->table[at]], &s))
            return m->table[at];
    if (m->n_states == MAX_STATES) {
        m->full = true;
        return DEAD;
    }
    m->states[m->n_states] = s;
    memset(m->next[m->n_states], 0, sizeof m->next[0]);
    return m->table[at] = (uint16_t)m->n_states++;
}

/* The state behind a whole character. */
static uint32_t behind(llm_matcher *m, uint32_t set, uint32_t point)
{
    const uint32_t next = llm_stacks_step(&m->stacks, set, point);
    m->full |= m->stacks.full;
    return next ? number_of(m, (state){.set = next}) : DEAD;
}

/* Whether a character that can be next begins so. */
static bool can_begin(const llm_matcher *m, state s)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    uint32_t low = s.value << 6 * s.left, high = low | ((1u << 6 * s.left) - 1);
    low = low < least[s.length] ? least[s.length] : low;
    high = high > 0x10ffff ? 0x10ffff : high;
    return low <= high && !(low >= 0xd800 && high < 0xe000) &&
           llm_stacks_can_step(&m->stacks, s.set, low, high);
}

static uint32_t compute(llm_matcher *m, const state *from, uint8_t byte)
{
    state s = *from;
    if (!s.left && byte < 0x80)
        return behind(m, s.set, byte);
    if (!s.left) {
        s.length = byte < 0xc0   ? 0
                   : byte < 0xe0 ? 2
                   : byte < 0xf0 ? 3
                   : byte < 0xf8 ? 4
                                 : 0;
        if (!s.length)
            return DEAD;
        s.left = s.length - 1;
        s.value = byte & (0x7fu >> s.length);
    } else {
        if ((byte & 0xc0) != 0x80)
            return DEAD;
        s.value = s.value << 6 | (byte & 0x3f);
        s.left--;
    }
    if (!can_begin(m, s))
        return DEAD;
    return s.left ? number_of(m, s) : behind(m, s.set, s.value);
}

/* The state behind bytes; DEAD too if something did not fit. */
static uint32_t follow(llm_matcher *m, const char *bytes, uint32_t n)
{
    uint32_t at = m->at;
    for (uint32_t i = 0; i < n && at != DEAD; i++) {
        const uint8_t byte = (uint8_t)bytes[i];
        uint32_t next = m->next[at][byte];
        if (next == UNKNOWN) {
            const state from = m->states[at];
            next = compute(m, &from, byte);
            if (m->full)
                return DEAD;
            m->next[at][byte] = (uint16_t)next;
        }
        at = next;
    }
    return at;
}

/* Forgets all states but the one of the text so far. */
static void compact(llm_matcher *m)
{
    state s = m->states[m->at]; /* of DEAD: no set */
    s.set = llm_stacks_compact(&m->stacks, s.set);
    memset(m->table, 0, TABLE_SIZE * sizeof *m->table);
    m->n_states = FIRST;
    m->full = false;
    if (m->at != DEAD)
        m->at = number_of(m, s);
}

/* As follow(), again with all memory if something did not fit. */
static uint32_t follow_for_sure(llm_matcher *m, const char *bytes, uint32_t n)
{
    uint32_t at = follow(m, bytes, n);
    if (!m->full)
        return at;
    compact(m);
    at = follow(m, bytes, n);
    if (m->full) {
        m->exceeded = true;
        compact(m);
    }
    return at;
}

/* ------------------------------------------------------------------------ */

bool llm_matcher_accepts(llm_matcher *m, const char *bytes, uint32_t n)
{
    return follow_for_sure(m, bytes, n) != DEAD;
}

void llm_matcher_advance(llm_matcher *m, const char *bytes, uint32_t n)
{
    for (uint32_t done = 0, size; done < n; done += size) {
        size = n - done < PIECE ? n - done : PIECE;
        m->at = follow_for_sure(m, bytes + done, size);
        if (m->n_states > MAX_STATES / 2 || llm_stacks_are_many(&m->stacks))
            compact(m);
    }
}

bool llm_matcher_is_complete(const llm_matcher *m)
{
    const state *s = &m->states[m->at];
    return m->at != DEAD && !s->left && m->stacks.sets[s->set].complete;
}

clv_status llm_matcher_status(const llm_matcher *m)
{
    return m->exceeded
               ? clv_error(CLV_ERR_LIMIT,
                           "the grammar allows too many ways to read the text, "
                           "or nests too deep; use fewer optional parts in a "
                           "row")
               : CLV_OK;
}

static bool begin(llm_matcher *m)
{
    const uint32_t set = llm_stacks_begin(&m->stacks);
    m->full = m->stacks.full;
    m->at = set ? number_of(m, (state){.set = set}) : DEAD;
    return !m->full;
}

void llm_matcher_restart(llm_matcher *m)
{
    /* What is known of the beginning stays known. */
    m->exceeded = false;
    if (begin(m))
        return;
    compact(m);
    m->exceeded = !begin(m);
}

clv_status llm_matcher_create(const llm_grammar *g, llm_matcher **out)
{
    llm_matcher *m = calloc(1, sizeof *m);
    if (!m)
        return llm_no_memory("a grammar");
    m->n_states = FIRST;
    m->at = DEAD;
    m->states = calloc(MAX_STATES, sizeof *m->states);
    m->next = calloc(MAX_STATES, sizeof *m->next);
    m->table = calloc(TABLE_SIZE, sizeof *m->table);
    clv_status status = m->states && m->next && m->table
                            ? llm_stacks_init(&m->stacks, g)
                            : llm_no_memory("a grammar");
    if (status) {
        llm_matcher_destroy(m);
        return status;
    }
    llm_matcher_restart(m);
    *out = m;
    return CLV_OK;
}

void llm_matcher_destroy(llm_matcher *m)
{
    if (!m)
        return;
    llm_stacks_finish(&m->stacks);
    free(m->states);
    free(m->next);
    free(m->table);
    free(m);
}
