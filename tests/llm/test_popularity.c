/* Popularity of experts: counted in runs, kept, and what models are loaded
 * with. */
#include "rig.h"
#include "temp.h"

#include "../../core/graph/tensor.h"

#include <dirent.h>
#include <stdio.h>

enum { EXPERTS = 6, USED = 2, LAYERS = 2, EMBD = 64 };

typedef struct world {
    temp cache;
    clv_config *config;
    clv_context *ctx;
    char log[512]; /* the latest line */
    uint32_t n_lines;
} world;

static void on_log(void *ctx, uint32_t level, const char *line)
{
    world *w = ctx;
    (void)level;
    snprintf(w->log, sizeof w->log, "%s", line);
    w->n_lines++;
}

static int setup(void **state)
{
    world *w = calloc(1, sizeof *w);
    char set[320];
    assert_non_null(w);
    temp_init(&w->cache);
    assert_ok(clv_config_create(&w->config));
    assert_ok(clv_config_load_env(w->config));
    snprintf(set, sizeof set, "core.cache_dir=%s", w->cache.dir);
    assert_ok(clv_config_set(w->config, set, "test"));
    assert_ok(clv_config_set(w->config, "core.plugins=cpu", "test"));
    const clv_context_params params = {.config = w->config,
                                       .log = on_log,
                                       .log_ctx = w,
                                       .log_level = CLV_LOG_WARN};
    assert_ok(clv_context_create(&params, &w->ctx));
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    world *w = *state;
    clv_context_destroy(w->ctx);
    clv_config_destroy(w->config);
    temp_finish(&w->cache);
    free(w);
    return 0;
}

static clv_status each_map(const llm_source *source, llm_map_fn visit)
{
    (void)source, (void)visit;
    return CLV_OK;
}

/* A model as if its weights were in a file. */
static llm_source *make_source(void)
{
    tiny_params p = tiny_defaults();
    p.n_experts = EXPERTS;
    p.n_experts_used = USED;
    p.n_layers = LAYERS;
    p.n_embd = EMBD;
    llm_source *source = tiny_create(&p);
    source->each_map = each_map;
    return source;
}

static llm_popularity *open_popularity(world *w, llm_source *source)
{
    llm_popularity *p;
    assert_ok(llm_popularity_create(w->ctx, source, &p));
    return p;
}

/* Experts of tiny's file by the rows of the router, which differ. */
static uint32_t expert_at(llm_source *source, const llm_source *original,
                          const char *name, uint32_t place)
{
    llm_source_tensor now, before;
    assert_ok(source->find(source, name, &now));
    assert_ok(original->find((llm_source *)original, name, &before));
    const uint64_t size = now.size / EXPERTS;
    for (uint32_t e = 0; e < EXPERTS; e++)
        if (!memcmp((const char *)now.data + place * size,
                    (const char *)before.data + e * size, size))
            return e;
    fail_msg("place %u of %s has no expert", place, name);
    return 0;
}

/* n rows that choose a and b, which are places. */
static void count(llm_popularity *p, uint32_t layer, int32_t a, int32_t b,
                  uint32_t n)
{
    const int32_t ids[] = {a, b};
    for (uint32_t i = 0; i < n; i++)
        llm_popularity_count(p, layer, ids, 1);
}

/* Experts 4, 1 and 5 of layer 1 are chosen by 300, 200 and 100 rows. */
static void learn(world *w)
{
    llm_source *source = make_source();
    llm_popularity *p = open_popularity(w, source);
    count(p, 1, 4, 1, 200);
    count(p, 1, 5, 4, 100);
    count(p, 1, 3, 3, 1000);  /* no choice */
    count(p, 1, -1, 3, 1000); /* of none */
    count(p, 1, EXPERTS, 3, 1000);
    llm_popularity_destroy(p);
    llm_source_destroy(source);
}

static const uint32_t learned[] = {4, 1, 5, 0, 2, 3};

static void expect_order(world *w, const uint32_t *order)
{
    static const char *const names[] = {
        "blk.1.ffn_gate_exps.weight", "blk.1.ffn_up_exps.weight",
        "blk.1.ffn_down_exps.weight", "blk.1.ffn_gate_inp.weight"};
    llm_source *original = make_source(), *source = make_source();
    llm_popularity *p = open_popularity(w, source);
    for (uint32_t i = 0; i < EXPERTS; i++) {
        for (uint32_t n = 0; n < 4; n++)
            assert_int_equal(expert_at(source, original, names[n], i),
                             order[i]);
        assert_int_equal(
            expert_at(source, original, "blk.0.ffn_gate_inp.weight", i), i);
    }
    llm_popularity_destroy(p);
    llm_source_destroy(source);
    llm_source_destroy(original);
}

static void test_order(void **state)
{
    static const uint32_t none[] = {0, 1, 2, 3, 4, 5};
    static const uint32_t later[] = {3, 0, 4, 1, 5, 2};
    world *w = *state;
    expect_order(w, none);
    learn(w);
    expect_order(w, learned);
    /* What is counted are places. The order changes once there are twice as
     * many rows, with 128 for what is not known of each of two layers. */
    llm_source *source = make_source();
    llm_popularity *p = open_popularity(w, source);
    count(p, 1, 5, 3, 555); /* experts 3 and 0 */
    llm_popularity_destroy(p);
    llm_source_destroy(source);
    expect_order(w, learned);
    source = make_source();
    p = open_popularity(w, source);
    count(p, 1, 5, 4, 1); /* 3 and 2 */
    llm_popularity_destroy(p);
    llm_source_destroy(source);
    expect_order(w, later);
    assert_int_equal(w->n_lines, 0);
}

/* Few samples say little: 128 rows of equal chances count beside them. */
static void test_chances(void **state)
{
    world *w = *state;
    static const double counted[] = {300, 200, 100, 0, 0, 0};
    double sum = 0;
    learn(w);
    clv_model *model;
    llm_source *source = make_source();
    llm_popularity *p = open_popularity(w, source);
    assert_ok(llm_model_create(w->ctx, source, p, &model));
    const llm_linear *roles = model->weights.layers[1];
    const clv_tensor *t = roles[LLM_FFN_DOWN].weight->tensor;
    assert_non_null(t->popularity);
    for (uint32_t i = 0; i < EXPERTS; i++) {
        const double want = (counted[i] + 128.0 * USED / EXPERTS) / (300 + 128);
        assert_true(fabs(t->popularity[i] - want) < 1e-6);
        sum += t->popularity[i];
    }
    assert_true(fabs(sum - USED) < 1e-5);
    assert_non_null(roles[LLM_FFN_GATE].weight->tensor->popularity);
    assert_non_null(roles[LLM_FFN_UP].weight->tensor->popularity);
    assert_null(roles[LLM_FFN_ROUTER].weight->tensor->popularity);
    roles = model->weights.layers[0]; /* of which nothing is known */
    assert_null(roles[LLM_FFN_DOWN].weight->tensor->popularity);
    clv_model_destroy(model);
}

/* Prompts are counted, and the order changes no result. */
static void test_runs(void **state)
{
    world *w = *state;
    enum { N = 16 };
    int32_t ids[N];
    const uint32_t n_vocab = tiny_defaults().n_vocab;
    llm_source *original = make_source();
    double *want = malloc(N * n_vocab * sizeof *want);
    assert_non_null(want);
    tiny_ids(original, 5, ids, N);
    tiny_forward(original, ids, N, want);
    for (uint32_t run = 0; run < 2; run++) {
        llm_source *source = make_source();
        llm_popularity *p = open_popularity(w, source);
        clv_model *model;
        const float *logits;
        assert_ok(llm_model_create(w->ctx, source, p, &model));
        for (uint32_t l = 0; l < LAYERS; l++) {
            const llm_linear *up = &model->weights.layers[l][LLM_FFN_UP];
            assert_int_equal(up->weight->tensor->popularity != NULL, run);
        }
        for (uint32_t i = 0; i < LAYERS * 128 / N; i++) {
            clv_session *s = rig_session(model, 32, N, CLV_DTYPE_F32);
            assert_ok(clv_session_eval(s, ids, N, CLV_LOGITS_LAST, &logits));
            assert_true(tiny_error(logits, want + (size_t)(N - 1) * n_vocab,
                                   n_vocab) < 1e-5);
            clv_session_destroy(s);
        }
        clv_model_destroy(model);
    }
    free(want);
    llm_source_destroy(original);
}

static const char *kept_file(world *w)
{
    const struct dirent *e;
    const char *path = NULL;
    DIR *dir = opendir(temp_path(&w->cache, "experts"));
    assert_non_null(dir);
    while ((e = readdir(dir)))
        if (e->d_name[0] != '.') {
            char name[128];
            snprintf(name, sizeof name, "experts/%.100s", e->d_name);
            path = temp_path(&w->cache, name);
        }
    closedir(dir);
    assert_non_null(path);
    return path;
}

/* What is kept is not trusted. */
static void test_damaged(void **state)
{
    static const uint32_t none[] = {0, 1, 2, 3, 4, 5};
    world *w = *state;
    learn(w);
    FILE *f = fopen(kept_file(w), "r+b");
    assert_non_null(f);
    fseek(f, -9, SEEK_END);
    fputc(77, f);
    fclose(f);
    expect_order(w, none);
    assert_int_equal(w->n_lines, 1);
    assert_non_null(strstr(w->log, "damaged"));
    learn(w); /* begins again */
    expect_order(w, learned);
}

/* Counts that no runs can have. */
static void test_wrong_sums(void **state)
{
    static const uint32_t none[] = {0, 1, 2, 3, 4, 5};
    world *w = *state;
    void *data;
    uint64_t size;
    learn(w);
    /* The key is in the file, behind its header. */
    char key[300] = "";
    FILE *f = fopen(kept_file(w), "rb");
    assert_non_null(f);
    fseek(f, 32, SEEK_SET);
    assert_true(fread(key, 1, sizeof key - 1, f) > 0);
    fclose(f);
    char *end = strstr(key, "format 1");
    assert_non_null(end);
    end[strlen("format 1")] = 0;
    assert_ok(clv_cache_get(w->ctx, "experts", key, &data, &size));
    uint64_t *counts = data;
    counts[EXPERTS + 1]++; /* of the first expert of layer 1 */
    assert_ok(clv_cache_put(w->ctx, "experts", key, data, size));
    expect_order(w, none);
    assert_int_equal(w->n_lines, 1);
    assert_non_null(strstr(w->log, "does not add up"));
    assert_ok(clv_cache_put(w->ctx, "experts", key, data, size - 8));
    free(data);
    expect_order(w, none);
    assert_int_equal(w->n_lines, 2);
}

static void test_off(void **state)
{
    world *w = *state;
    llm_source *source = make_source();
    llm_popularity *p;
    assert_ok(clv_config_set(w->config, "core.popularity=off", "test"));
    assert_ok(llm_popularity_create(w->ctx, source, &p));
    assert_null(p);
    assert_ok(clv_config_set(w->config, "core.popularity=on", "test"));
    source->each_map = NULL; /* made-up weights */
    assert_ok(llm_popularity_create(w->ctx, source, &p));
    assert_null(p);
    llm_popularity_destroy(p);
    llm_source_destroy(source);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_order),   TEST(test_chances),    TEST(test_runs),
        TEST(test_damaged), TEST(test_wrong_sums), TEST(test_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
