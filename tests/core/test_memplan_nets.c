/*
 * The memory planner on networks: random ones, whose tensors are written to
 * memory and read back, and the shapes of a diffusion model, for which it is
 * compared with a straightforward allocator (memplan_rivals.h).
 */
#include "test.h"

#include "memplan_rivals.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_TENSORS 2000
#define ALIGN 64

/* Nodes write a tensor each; it lives until its last reader. */
typedef struct net {
    planner_lifetime t[MAX_TENSORS];
    uint32_t n, n_nodes;
} net;

static uint32_t add(net *g, uint64_t size, uint32_t a, uint32_t b)
{
    uint32_t node = g->n_nodes++;
    assert_true(g->n < MAX_TENSORS);
    g->t[g->n] = (planner_lifetime){size, node, node};
    g->t[a < g->n ? a : g->n].last = node;
    g->t[b < g->n ? b : g->n].last = node;
    return g->n++;
}

/* ------------------------------------------------------------------------ */
/* Random networks                                                           */

#define NONE UINT32_MAX

typedef struct random_net {
    net g;
    uint32_t reads[MAX_TENSORS][2]; /* of each node; NONE */
} random_net;

/* Mostly of what came just before, at times of something long ago. */
static uint32_t operand(test_random *r, uint32_t n)
{
    if (!n || !test_below(r, 8))
        return NONE;
    uint32_t back = test_below(r, 6) ? test_below(r, 3) : test_below(r, n);
    return back < n ? n - 1 - back : 0;
}

static void make_random(test_random *r, random_net *x)
{
    uint32_t n = 1 + test_below(r, 80);
    x->g.n = x->g.n_nodes = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t *reads = x->reads[i];
        reads[0] = operand(r, i);
        reads[1] = operand(r, i);
        add(&x->g,
            test_below(r, 3) ? 64u << test_below(r, 6) : test_below(r, 3000),
            reads[0], reads[1]);
    }
}

static void expect_intact(const uint8_t *memory, uint64_t size, uint8_t mark)
{
    for (uint64_t i = 0; i < size; i++)
        assert_int_equal(memory[i], mark);
}

/* Each node marks its tensor's memory; readers find the marks. */
static void run_random(const random_net *x, const uint64_t *place,
                       uint8_t *memory)
{
    for (uint32_t i = 0; i < x->g.n; i++) {
        for (uint32_t j = 0; j < 2; j++) {
            uint32_t in = x->reads[i][j];
            if (in != NONE)
                expect_intact(memory + place[in], x->g.t[in].size,
                              (uint8_t)(in + 1));
        }
        memset(memory + place[i], (uint8_t)(i + 1), x->g.t[i].size);
        for (uint32_t j = 0; j < 2; j++) {
            uint32_t in = x->reads[i][j];
            if (in != NONE)
                expect_intact(memory + place[in], x->g.t[in].size,
                              (uint8_t)(in + 1));
        }
    }
}

static void test_random_nets(void **state)
{
    (void)state;
    test_random r = {21};
    static random_net x;
    static uint64_t place[MAX_TENSORS], fitted[MAX_TENSORS];
    static bool placed[MAX_TENSORS];
    double bound = 0, planned = 0, first_fit = 0;
    for (int round = 0; round < 300; round++) {
        core_memplan plan;
        make_random(&r, &x);
        assert_ok(planner_memplan_make(x.g.t, x.g.n, ALIGN, NULL, NULL, place,
                                       &plan));
        uint8_t *memory = malloc(plan.size + 1);
        assert_non_null(memory);
        run_random(&x, place, memory);
        free(memory);
        uint64_t fit =
            rival_first_fit(x.g.t, x.g.n, x.g.n_nodes, ALIGN, placed, fitted);
        uint64_t least = rival_bound(x.g.t, x.g.n, x.g.n_nodes, ALIGN);
        assert_int_equal(plan.live, least);
        assert_true(plan.size >= least);
        /* Never far off, and near on the whole. */
        assert_true(plan.size <= least + least / 3);
        bound += (double)least;
        planned += (double)plan.size;
        first_fit += (double)fit;
    }
    print_message("random networks: planned %.3f, first fit %.3f times what "
                  "must be\n",
                  planned / bound, first_fit / bound);
    assert_true(planned <= 1.03 * bound);
    assert_true(planned < first_fit);
}

/* ------------------------------------------------------------------------ */
/* Stable Diffusion 1.4, 512 x 512, FP16                                      */

/* channels x side x side */
typedef struct image {
    uint32_t tensor;
    uint64_t channels, side;
} image;

static uint64_t bytes(uint64_t channels, uint64_t side)
{
    return 2 * channels * side * side;
}

/* An op whose output has the shape of an image. */
static image make(net *g, uint64_t channels, uint64_t side, image a, image b)
{
    return (image){add(g, bytes(channels, side), a.tensor, b.tensor), channels,
                   side};
}

static image same(net *g, image x)
{
    return make(g, x.channels, x.side, x, x);
}

/* Normalisation, activation, convolution. */
static image convolve(net *g, image x, uint64_t channels)
{
    x = same(g, same(g, x));
    return make(g, channels, x.side, x, x);
}

static image residual(net *g, image x, uint64_t channels, image time)
{
    image y = convolve(g, x, channels);
    if (time.channels) {
        uint32_t shift = add(g, 2 * channels, time.tensor, time.tensor);
        y = make(g, channels, y.side, y, (image){shift, 0, 0});
    }
    y = convolve(g, y, channels);
    if (x.channels != channels)
        x = make(g, channels, x.side, x, x);
    return make(g, channels, y.side, x, y);
}

#define HEADS 8u

/* With the scores in memory, or within one op. keys: their number; 0: of the
 * image itself. */
static image attend(net *g, image x, uint64_t heads, uint64_t keys,
                    image context, bool scores)
{
    uint64_t rows = x.side * x.side, c = x.channels;
    image from = keys ? context : x, q = same(g, x);
    keys = keys ? keys : rows;
    uint32_t k = add(g, 2 * keys * c, from.tensor, from.tensor);
    uint32_t v = add(g, 2 * keys * c, from.tensor, from.tensor);
    uint32_t y = q.tensor;
    if (scores) {
        y = add(g, 2 * heads * rows * keys, q.tensor, k);
        y = add(g, 2 * heads * rows * keys, y, y);
        k = v;
    } else {
        g->t[v].last = g->n_nodes; /* the op below reads three */
    }
    y = add(g, bytes(c, x.side), y, k);
    return same(g, (image){y, c, x.side});
}

static image transformer(net *g, image x, image text, bool scores)
{
    image y = same(g, same(g, x)), z;
    z = attend(g, same(g, y), HEADS, 0, text, scores);
    y = make(g, y.channels, y.side, y, z);
    z = attend(g, same(g, y), HEADS, 77, text, scores);
    y = make(g, y.channels, y.side, y, z);
    z = same(g, y);
    z = make(g, 8 * x.channels, x.side, z, z);
    z = make(g, 4 * x.channels, x.side, z, z); /* gated */
    z = make(g, x.channels, x.side, z, z);
    y = make(g, y.channels, y.side, y, z);
    return make(g, x.channels, x.side, x, same(g, y));
}

#define LEVELS 4

static const uint64_t widths[LEVELS] = {320, 640, 1280, 1280};

static image down(net *g, image x, image time, image text, bool scores,
                  image *skips, uint32_t *n)
{
    skips[(*n)++] = x;
    for (uint32_t level = 0; level < LEVELS; level++) {
        for (uint32_t i = 0; i < 2; i++) {
            x = residual(g, x, widths[level], time);
            if (level + 1 < LEVELS)
                x = transformer(g, x, text, scores);
            skips[(*n)++] = x;
        }
        if (level + 1 < LEVELS)
            skips[(*n)++] = x = make(g, x.channels, x.side / 2, x, x);
    }
    return x;
}

static image up(net *g, image x, image time, image text, bool scores,
                const image *skips, uint32_t n)
{
    for (uint32_t level = LEVELS; level-- > 0;) {
        for (uint32_t i = 0; i < 3; i++) {
            image skip = skips[--n];
            assert_int_equal(skip.side, x.side);
            x = make(g, x.channels + skip.channels, x.side, x, skip);
            x = residual(g, x, widths[level], time);
            if (level + 1 < LEVELS)
                x = transformer(g, x, text, scores);
        }
        if (level) {
            x = make(g, x.channels, 2 * x.side, x, x);
            x = same(g, x);
        }
    }
    assert_int_equal(n, 0);
    return x;
}

static void make_unet(net *g, bool scores)
{
    image skips[16];
    uint32_t n_skips = 0;
    g->n = g->n_nodes = 0;
    uint32_t begin = NONE;
    image latent = {add(g, bytes(4, 64), begin, begin), 4, 64};
    image text = {add(g, 2 * 77 * 768, begin, begin), 768, 0};
    image time = {add(g, 2 * 320, begin, begin), 320, 0};
    time = (image){add(g, 2 * 1280, time.tensor, time.tensor), 1280, 0};
    image x = make(g, widths[0], 64, latent, latent);
    x = down(g, x, time, text, scores, skips, &n_skips);
    x = residual(g, x, widths[3], time);
    x = transformer(g, x, text, scores);
    x = residual(g, x, widths[3], time);
    x = up(g, x, time, text, scores, skips, n_skips);
    convolve(g, x, 4);
}

/* From the latent to the picture. */
static void make_decoder(net *g, bool scores)
{
    static const uint64_t channels[] = {512, 512, 256, 128};
    const image no_time = {0, 0, 0};
    g->n = g->n_nodes = 0;
    image x = {add(g, bytes(4, 64), NONE, NONE), 4, 64};
    x = make(g, 512, 64, x, x);
    x = residual(g, x, 512, no_time);
    x = make(g, 512, 64, x, attend(g, same(g, x), 1, 0, x, scores));
    x = residual(g, x, 512, no_time);
    for (uint32_t level = 0; level < 4; level++) {
        for (uint32_t i = 0; i < 3; i++)
            x = residual(g, x, channels[level], no_time);
        if (level < 3) {
            x = make(g, x.channels, 2 * x.side, x, x);
            x = same(g, x);
        }
    }
    assert_int_equal(x.side, 512);
    convolve(g, x, 3);
}

/* The planner's bytes against the rivals'. */
static core_memplan compare(const char *name, const net *g)
{
    static uint64_t place[MAX_TENSORS], fitted[MAX_TENSORS];
    static bool placed[MAX_TENSORS];
    core_memplan plan;
    assert_ok(
        planner_memplan_make(g->t, g->n, ALIGN, NULL, NULL, place, &plan));
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t j = 0; j < i; j++)
            if (rival_together(&g->t[i], &g->t[j]))
                assert_true(place[i] + g->t[i].size <= place[j] ||
                            place[j] + g->t[j].size <= place[i]);
    uint64_t fit =
        rival_first_fit(g->t, g->n, g->n_nodes, ALIGN, placed, fitted);
    uint64_t least = rival_bound(g->t, g->n, g->n_nodes, ALIGN);
    assert_int_equal(plan.naive, rival_unshared(g->t, g->n, ALIGN));
    assert_int_equal(plan.live, least);
    assert_true(plan.size >= least && plan.size <= fit);
    print_message("%s, %u tensors: %.1f MB unshared, %.1f MB first fit, "
                  "%.1f MB planned (%.1f MB shared objects), %.1f MB must be: "
                  "%.1f%% saved, %.3f times the bound\n",
                  name, g->n, (double)plan.naive / 1e6, (double)fit / 1e6,
                  (double)plan.size / 1e6, (double)plan.objects / 1e6,
                  (double)least / 1e6,
                  100 - 100 * (double)plan.size / (double)plan.naive,
                  (double)plan.size / (double)least);
    return plan;
}

static void expect_bound(const char *name, const net *g, uint64_t saved)
{
    core_memplan plan = compare(name, g);
    assert_int_equal(plan.size, plan.live);
    assert_true(plan.size <= plan.naive / 100 * (100 - saved));
}

static void test_diffusion(void **state)
{
    (void)state;
    static net g;
    make_unet(&g, true);
    expect_bound("UNet, scores in memory", &g, 86);
    make_unet(&g, false);
    expect_bound("UNet, attention in one op", &g, 95);
    make_decoder(&g, false);
    expect_bound("decoder", &g, 88);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_nets),
        cmocka_unit_test(test_diffusion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
