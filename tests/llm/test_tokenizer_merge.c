/*
 * Merging, compared with the naive algorithm: find the best of all neighbours,
 * merge them, repeat. Vocabularies and texts are random and have few letters,
 * so that merges compete.
 */
#include "base/random.h"
#include "tokenizer/merge.h"
#include "tokens.h"

enum { LETTERS = 4, MAX_TOKENS = 60, MAX_TEXT = 120 };

static llm_random rng;

static uint32_t below(uint32_t n)
{
    return (uint32_t)(llm_random_next(&rng) % n);
}

/* The vocabulary of the naive algorithm. */
typedef struct plain {
    char text[MAX_TOKENS][64];
    float score[MAX_TOKENS];
    int left[MAX_TOKENS], right[MAX_TOKENS]; /* of merge id; -1: a letter */
    int n;
} plain;

static int find(const plain *p, const char *text)
{
    for (int i = 0; i < p->n; i++)
        if (!strcmp(p->text[i], text))
            return i;
    return -1;
}

/* Letters, then merges of earlier tokens: token id is merge id - LETTERS. */
static void make(plain *p)
{
    p->n = 0;
    for (; p->n < LETTERS; p->n++) {
        snprintf(p->text[p->n], 2, "%c", 'a' + p->n);
        p->left[p->n] = -1;
        p->score[p->n] = -100;
    }
    for (int tries = 0; tries < 200 && p->n < MAX_TOKENS; tries++) {
        char text[128];
        int left = (int)below((uint32_t)p->n),
            right = (int)below((uint32_t)p->n);
        snprintf(text, sizeof text, "%s%s", p->text[left], p->text[right]);
        if (strlen(text) > 20 || find(p, text) >= 0)
            continue;
        memcpy(p->text[p->n], text, 21);
        p->left[p->n] = left;
        p->right[p->n] = right;
        /* Equal scores are decided by place. */
        p->score[p->n] = -(float)below(20);
        p->n++;
    }
}

/* ids of text; returns their number. */
static int merge_plainly(const plain *p, bool by_score, const char *text,
                         int *ids)
{
    int n = (int)strlen(text);
    for (int i = 0; i < n; i++)
        ids[i] = text[i] - 'a';
    for (;;) {
        int best = -1, at = 0;
        for (int i = 0; i + 1 < n; i++) {
            char both[128];
            snprintf(both, sizeof both, "%s%s", p->text[ids[i]],
                     p->text[ids[i + 1]]);
            int id = -1;
            if (by_score)
                id = find(p, both);
            for (int k = LETTERS; !by_score && k < p->n; k++)
                if (p->left[k] == ids[i] && p->right[k] == ids[i + 1])
                    id = k;
            if (id < 0)
                continue;
            bool better = best < 0 || (by_score ? p->score[id] > p->score[best]
                                                : id < best);
            if (better) {
                best = id;
                at = i;
            }
        }
        if (best < 0)
            return n;
        ids[at] = best;
        memmove(ids + at + 1, ids + at + 2, (size_t)(n - at - 2) * sizeof *ids);
        n--;
    }
}

static void build(const plain *p, bool byte_level, llm_vocab *vocab,
                  llm_merge_model *model)
{
    assert_ok(llm_vocab_init(vocab, (uint32_t)p->n));
    for (uint32_t i = 0; i < (uint32_t)p->n; i++)
        assert_ok(llm_vocab_set(vocab, i, llm_str_of(p->text[i]),
                                LLM_TOKEN_NORMAL, p->score[i]));
    assert_ok(llm_vocab_index(vocab, byte_level, (llm_str){0}));
    assert_ok(llm_merges_init(&model->merges, (uint32_t)p->n));
    for (int i = LETTERS; i < p->n; i++)
        llm_merges_add(&model->merges, (llm_merge){(uint32_t)p->left[i],
                                                   (uint32_t)p->right[i], i});
}

static void compare(llm_merge_order order, bool byte_level)
{
    llm_random_seed(&rng, 11);
    for (int round = 0; round < 60; round++) {
        plain p;
        llm_vocab vocab;
        llm_merge_model model = {.order = order, .unknown = -1};
        llm_merge_work work = {0};
        make(&p);
        build(&p, byte_level, &vocab, &model);
        for (int i = 0; i < 30; i++) {
            char text[MAX_TEXT + 1] = "";
            int expected[MAX_TEXT];
            llm_ids ids = {0};
            uint32_t n = below(MAX_TEXT), letters = 1 + below(LETTERS);
            for (uint32_t k = 0; k < n; k++)
                text[k] = (char)('a' + below(letters));
            int count =
                merge_plainly(&p, order == LLM_MERGE_SCORE, text, expected);
            assert_ok(llm_merge_piece(&vocab, &model, &work, text, n, &ids));
            assert_int_equal(ids.n, count);
            if (count)
                assert_memory_equal(ids.items, expected,
                                    (size_t)count * sizeof *expected);
            free(ids.items);
        }
        llm_merge_work_finish(&work);
        llm_merges_finish(&model.merges);
        llm_vocab_finish(&vocab);
    }
}

static void by_rank(void **state)
{
    (void)state;
    compare(LLM_MERGE_RANK, true);
    compare(LLM_MERGE_RANK, false);
}

static void by_score(void **state)
{
    (void)state;
    compare(LLM_MERGE_SCORE, false);
}

/* Ids of a piece as "1 2 3" in a static buffer, or the error's status. */
static const char *piece(const llm_vocab *vocab, const llm_merge_model *model,
                         const char *text)
{
    static char out[256];
    llm_merge_work work = {0};
    llm_ids ids = {0};
    clv_status status =
        llm_merge_piece(vocab, model, &work, text, strlen(text), &ids);
    size_t at = 0;
    out[0] = 0;
    for (uint64_t i = 0; i < ids.n; i++)
        at += (size_t)snprintf(out + at, sizeof out - at, i ? " %d" : "%d",
                               ids.items[i]);
    if (status != CLV_OK)
        snprintf(out, sizeof out, "error %d", status);
    free(ids.items);
    llm_merge_work_finish(&work);
    return out;
}

static void set(llm_vocab *vocab, uint32_t id, const char *text,
                llm_token_type type)
{
    assert_ok(llm_vocab_set(vocab, id, llm_str_of(text), type, 0));
}

/* Letters that have no token. */
static void missing(void **state)
{
    (void)state;
    llm_vocab vocab;
    llm_merge_model model = {.unknown = -1};
    assert_ok(llm_vocab_init(&vocab, 6));
    set(&vocab, 0, "<unk>", LLM_TOKEN_UNKNOWN);
    set(&vocab, 1, "a", LLM_TOKEN_NORMAL);
    set(&vocab, 2, "<0xC3>", LLM_TOKEN_BYTE);
    set(&vocab, 3, "<0xA9>", LLM_TOKEN_BYTE);
    set(&vocab, 4, "\u2581a", LLM_TOKEN_NORMAL);
    set(&vocab, 5, "<s>", LLM_TOKEN_CONTROL);
    assert_ok(llm_vocab_index(&vocab, false, llm_str_of("\u2581")));
    assert_ok(llm_merges_init(&model.merges, 0));
    assert_memory_equal(vocab.tokens[4].bytes, " a", 2);
    assert_memory_equal(vocab.tokens[2].bytes, "\xc3", 1);
    for (int order = LLM_MERGE_RANK; order <= LLM_MERGE_SCORE; order++) {
        model.order = (llm_merge_order)order;
        model.unknown = -1;
        assert_string_equal(piece(&vocab, &model, "a\u00e9a"), "1 2 3 1");
        assert_string_equal(piece(&vocab, &model,
                                  "\xc3"
                                  "a\xa9"),
                            "2 1 3");
        char refused[16];
        snprintf(refused, sizeof refused, "error %d", CLV_ERR_UNSUPPORTED);
        assert_string_equal(piece(&vocab, &model, "abba"), refused);
        model.unknown = 0;
        model.fuse_unknown = false;
        assert_string_equal(piece(&vocab, &model, "abba"), "1 0 0 1");
        model.fuse_unknown = true;
        assert_string_equal(piece(&vocab, &model, "abbab"), "1 0 1 0");
    }
    llm_merges_finish(&model.merges);
    llm_vocab_finish(&vocab);

    /* Bytes without a token, where U+FFFD has some. */
    model = (llm_merge_model){.unknown = -1};
    assert_ok(llm_vocab_init(&vocab, 3));
    set(&vocab, 0, "\u00ef", LLM_TOKEN_NORMAL);
    set(&vocab, 1, "\u00bf", LLM_TOKEN_NORMAL);
    set(&vocab, 2, "\u00bd", LLM_TOKEN_NORMAL);
    assert_ok(llm_vocab_index(&vocab, true, (llm_str){0}));
    assert_ok(llm_merges_init(&model.merges, 0));
    assert_string_equal(piece(&vocab, &model, "\xff"), "0 1 2");
    llm_merges_finish(&model.merges);
    llm_vocab_finish(&vocab);
}

/* All 256 bytes have a character, which decodes to the byte. */
static void alphabet(void **state)
{
    (void)state;
    bool seen[0x200] = {false};
    for (int byte = 0; byte < 256; byte++) {
        char text[2];
        uint32_t n = llm_vocab_spell_byte((uint8_t)byte, text);
        unsigned point = n == 1 ? (uint8_t)text[0]
                                : ((uint8_t)text[0] & 0x1fu) << 6 |
                                      ((uint8_t)text[1] & 0x3fu);
        assert_false(seen[point]);
        seen[point] = true;
        llm_bytes back = {0};
        assert_ok(llm_vocab_spelled_bytes((llm_str){text, n}, &back));
        assert_int_equal(back.n, 1);
        assert_int_equal((uint8_t)back.items[0], byte);
        free(back.items);
    }
    char text[2];
    assert_int_equal(llm_vocab_spell_byte(' ', text), 2);
    assert_memory_equal(text, "\u0120", 2); /* the famous one */
    assert_int_equal(llm_vocab_spell_byte(0xad, text), 2);
    assert_memory_equal(text, "\u0143", 2); /* the last one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_rank),
        cmocka_unit_test(by_score),
        cmocka_unit_test(missing),
        cmocka_unit_test(alphabet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
