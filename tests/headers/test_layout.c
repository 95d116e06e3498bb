/* Layouts of virtual tensors: one place an element, the same one for the host
 * and for generated code, and the examples of ML Drift. */
#include "../core/test.h"

#include <cleave/plugin_layout.h>

#include <ctype.h>
#include <stdlib.h>

static const struct {
    uint32_t layout, storage;
} kinds[] = {
    {CLV_LAYOUT_LINEAR, CLV_STORAGE_BUFFER},
    {CLV_LAYOUT_SLICES4, CLV_STORAGE_BUFFER},
    {CLV_LAYOUT_SLICES4, CLV_STORAGE_IMAGE_BUFFER},
    {CLV_LAYOUT_SLICES4, CLV_STORAGE_TEXTURE_2D},
    {CLV_LAYOUT_SLICES4, CLV_STORAGE_TEXTURE_ARRAY},
    {CLV_LAYOUT_SLICES4, CLV_STORAGE_TEXTURE_3D},
    {CLV_LAYOUT_WEIGHTS, CLV_STORAGE_BUFFER},
    {CLV_LAYOUT_WEIGHTS, CLV_STORAGE_IMAGE_BUFFER},
    {CLV_LAYOUT_WEIGHTS, CLV_STORAGE_TEXTURE_2D},
    {CLV_LAYOUT_WEIGHTS, CLV_STORAGE_TEXTURE_ARRAY},
    {CLV_LAYOUT_WEIGHTS, CLV_STORAGE_TEXTURE_3D},
};
#define N_KINDS (sizeof kinds / sizeof *kinds)

/* ------------------------------------------------------------------------ */
/* What a compiler would make of the generated text                          */

typedef struct reader {
    const char *at;
    const int64_t *values; /* of 'a' and on */
} reader;

static int64_t read_sum(reader *r);

static int64_t read_atom(reader *r)
{
    int64_t value;
    if (*r->at == '(') {
        r->at++;
        value = read_sum(r);
        assert_int_equal(*r->at++, ')');
    } else if (isdigit((unsigned char)*r->at)) {
        value = strtoll(r->at, (char **)&r->at, 10);
    } else {
        assert_true(*r->at >= 'a' && *r->at <= 'z');
        value = r->values[*r->at++ - 'a'];
    }
    return value;
}

static int64_t read_sum(reader *r)
{
    int64_t sum = 0;
    for (;;) {
        int64_t product = read_atom(r);
        while (*r->at == '*') {
            r->at++;
            product *= read_atom(r);
        }
        sum += product;
        if (*r->at != '+')
            return sum;
        r->at++;
    }
}

/* Digits are named 'a' + digit, their sizes 'n' + digit. */
static int64_t evaluate(const clv_layout_map *map, uint32_t phys,
                        const int64_t *at, bool symbolic)
{
    static char letters[26][2];
    const char *names[CLV_DIGIT_COUNT], *sizes[CLV_DIGIT_COUNT];
    int64_t values[26] = {0};
    char text[256];
    for (int i = 0; i < 26; i++)
        letters[i][0] = (char)('a' + i);
    for (uint32_t d = 1; d < CLV_DIGIT_COUNT; d++) {
        names[d] = letters[d];
        sizes[d] = letters[13 + d];
        values[d] = clv_layout_digit(map, d, at);
        values[13 + d] = map->radix[d];
    }
    int n = clv_layout_code(map, phys, names, symbolic ? sizes : NULL, text,
                            sizeof text);
    assert_in_range(n, 1, sizeof text - 1);
    assert_int_equal(strlen(text), n);
    char cut[4];
    volatile size_t size = sizeof cut; /* the compiler need not warn of it */
    assert_int_equal(
        clv_layout_code(map, phys, names, symbolic ? sizes : NULL, cut, size),
        n);
    assert_memory_equal(cut, text, strlen(cut));
    reader r = {text, values};
    int64_t value = read_sum(&r);
    assert_int_equal(*r.at, 0);
    return value;
}

/* ------------------------------------------------------------------------ */

static void random_map(test_random *r, uint32_t kind, clv_layout_map *map)
{
    int64_t dims[CLV_LAYOUT_AXES];
    for (int i = 0; i < CLV_LAYOUT_AXES; i++)
        dims[i] = test_below(r, 3) ? 1 + test_below(r, 9) : 1;
    int64_t group =
        kinds[kind].layout == CLV_LAYOUT_WEIGHTS ? 1 + test_below(r, 4) : 0;
    assert_true(clv_layout_init(map, kinds[kind].layout, kinds[kind].storage,
                                dims, group));
}

static int64_t flat(const clv_layout_map *map, const clv_place *place)
{
    int64_t index = 0;
    for (uint32_t p = 0; p < CLV_PHYS_COUNT; p++) {
        assert_in_range(place->at[p], 0, map->extent[p] - 1);
        index = index * map->extent[p] + place->at[p];
    }
    return index;
}

static bool next(const clv_layout_map *map, int64_t *at)
{
    for (int i = CLV_LAYOUT_AXES; i--;) {
        if (++at[i] < map->dims[i])
            return true;
        at[i] = 0;
    }
    return false;
}

/* Every element has a place of its own, from which it is found again, and all
 * other places are padding. */
static void check_bijection(const clv_layout_map *map)
{
    bool *taken = calloc((size_t)map->n_elements, sizeof *taken);
    int64_t at[CLV_LAYOUT_AXES] = {0}, back[CLV_LAYOUT_AXES], n = 0;
    assert_non_null(taken);
    do {
        clv_place place = clv_layout_find(map, at);
        int64_t index = flat(map, &place);
        assert_false(taken[index]);
        taken[index] = true;
        assert_true(clv_layout_element(map, &place, back));
        assert_memory_equal(at, back, sizeof at);
        n++;
    } while (next(map, at));
    int64_t found = 0;
    for (int64_t i = 0; i < map->n_elements; i++) {
        clv_place place;
        int64_t rest = i;
        for (uint32_t p = CLV_PHYS_COUNT; p--;) {
            place.at[p] = rest % map->extent[p];
            rest /= map->extent[p];
        }
        bool is_element = clv_layout_element(map, &place, back);
        assert_int_equal(is_element, taken[i]);
        found += is_element;
    }
    assert_int_equal(found, n);
    free(taken);
}

static void test_bijection(void **state)
{
    test_random r = {1};
    (void)state;
    for (uint32_t i = 0; i < 60 * N_KINDS; i++) {
        clv_layout_map map;
        random_map(&r, i % N_KINDS, &map);
        check_bijection(&map);
    }
}

static void test_code(void **state)
{
    test_random r = {2};
    (void)state;
    for (uint32_t i = 0; i < 2000 * N_KINDS; i++) {
        clv_layout_map map;
        int64_t at[CLV_LAYOUT_AXES];
        random_map(&r, i % N_KINDS, &map);
        for (int d = 0; d < CLV_LAYOUT_AXES; d++)
            at[d] = test_below(&r, (uint32_t)map.dims[d]);
        clv_place place = clv_layout_find(&map, at);
        for (uint32_t p = 0; p < CLV_PHYS_COUNT; p++) {
            assert_int_equal(evaluate(&map, p, at, false), place.at[p]);
            assert_int_equal(evaluate(&map, p, at, true), place.at[p]);
        }
    }
}

static void check_extent(uint32_t layout, uint32_t storage, const int64_t *dims,
                         int64_t x, int64_t y, int64_t z, int64_t objects)
{
    clv_layout_map map;
    assert_true(clv_layout_init(&map, layout, storage, dims,
                                layout == CLV_LAYOUT_WEIGHTS));
    assert_int_equal(map.extent[CLV_PHYS_X], x);
    assert_int_equal(map.extent[CLV_PHYS_Y], y);
    assert_int_equal(map.extent[CLV_PHYS_Z], z);
    assert_int_equal(map.extent[CLV_PHYS_OBJECT], objects);
}

/* Figures 1 and 2: (1,2,3,5) as a 3-D texture of 2 x 3 x 2, a 2-D texture of
 * 4 x 3 and an image buffer of 12 pixels; weights (5,2,1,7) as four textures of
 * 4 x 2. */
static void test_examples(void **state)
{
    const int64_t tensor[] = {1, 2, 3, 1, 5}, weights[] = {5, 2, 1, 1, 7};
    (void)state;
    check_extent(CLV_LAYOUT_SLICES4, CLV_STORAGE_TEXTURE_3D, tensor, 3, 2, 2,
                 1);
    check_extent(CLV_LAYOUT_SLICES4, CLV_STORAGE_TEXTURE_2D, tensor, 3, 4, 1,
                 1);
    check_extent(CLV_LAYOUT_SLICES4, CLV_STORAGE_IMAGE_BUFFER, tensor, 12, 1, 1,
                 1);
    check_extent(CLV_LAYOUT_WEIGHTS, CLV_STORAGE_TEXTURE_2D, weights, 4, 2, 1,
                 4);
}

static void check_code(uint32_t storage, const char *x, const char *y,
                       const char *z)
{
    static const char *const names[CLV_DIGIT_COUNT] = {
        [CLV_DIGIT_B] = "b", [CLV_DIGIT_H] = "y", [CLV_DIGIT_W] = "x",
        [CLV_DIGIT_D] = "d", [CLV_DIGIT_S] = "s", [CLV_DIGIT_C4] = "c"};
    static const char *const sizes[CLV_DIGIT_COUNT] = {[CLV_DIGIT_B] = "B",
                                                       [CLV_DIGIT_H] = "H",
                                                       [CLV_DIGIT_W] = "W",
                                                       [CLV_DIGIT_S] = "S"};
    const char *const expected[] = {x, y, z};
    const int64_t dims[] = {2, 3, 4, 1, 9};
    clv_layout_map map;
    char text[64];
    assert_true(clv_layout_init(&map, CLV_LAYOUT_SLICES4, storage, dims, 0));
    for (uint32_t p = CLV_PHYS_X; p <= CLV_PHYS_Z; p++) {
        clv_layout_code(&map, p, names, sizes, text, sizeof text);
        assert_string_equal(text, expected[p]);
    }
}

/* Table 1. */
static void test_table(void **state)
{
    (void)state;
    check_code(CLV_STORAGE_IMAGE_BUFFER, "(((s*H+y)*W+x)*B+b)", "0", "0");
    check_code(CLV_STORAGE_TEXTURE_2D, "(x*B+b)", "(y*S+s)", "0");
    check_code(CLV_STORAGE_TEXTURE_3D, "(x*B+b)", "y", "s");
}

static void test_refused(void **state)
{
    clv_layout_map map;
    const int64_t dims[] = {1, 2, 3, 1, 5}, none[] = {1, 2, 0, 1, 5};
    const int64_t huge[] = {1, INT64_MAX / 8, INT64_MAX / 8, 1, 5};
    (void)state;
    assert_false(clv_layout_init(&map, CLV_LAYOUT_LINEAR,
                                 CLV_STORAGE_TEXTURE_2D, dims, 0));
    assert_false(
        clv_layout_init(&map, CLV_LAYOUT_PRIVATE, CLV_STORAGE_BUFFER, dims, 0));
    assert_false(clv_layout_init(&map, CLV_LAYOUT_SLICES4, 99, dims, 0));
    assert_false(
        clv_layout_init(&map, CLV_LAYOUT_SLICES4, CLV_STORAGE_BUFFER, dims, 1));
    assert_false(
        clv_layout_init(&map, CLV_LAYOUT_WEIGHTS, CLV_STORAGE_BUFFER, dims, 0));
    assert_false(
        clv_layout_init(&map, CLV_LAYOUT_SLICES4, CLV_STORAGE_BUFFER, none, 0));
    assert_false(
        clv_layout_init(&map, CLV_LAYOUT_SLICES4, CLV_STORAGE_BUFFER, huge, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bijection), cmocka_unit_test(test_code),
        cmocka_unit_test(test_examples),  cmocka_unit_test(test_table),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
