/*
 * cleave/plugin_layout.h - where the elements of a tensor lie
 *
 * Tensor virtualization after ML Drift (section 3): a logical tensor is held by
 * one or several physical objects (buffer, image buffer, textures), in one of
 * several orders. Kernels name logical coordinates only; clv_layout_code()
 * turns them into the text of index arithmetic for generated code, and
 * clv_layout_find() into numbers, from the same description, so that a kernel
 * and the host mean the same place.
 *
 * Every physical coordinate is a mixed-radix number whose digits are logical
 * ones, outermost first. That is the whole of a layout: the lists of digits in
 * clv_layout_init(). Channels (C; O and I of weights) are in slices of 4, whose
 * last one is padded with zeros, in all orders but LINEAR.
 *
 *                 x                    y            z        component  objects
 *   LINEAR
 *     buffer      B H W D C            -            -        -          1
 *   SLICES4
 *     buffer      D S H W B C4         -            -        -          1
 *     image buf.  D S H W B            -            -        C4         1
 *     texture 2D  W B                  D H S        -        C4         1
 *     array, 3D   W B                  H            D S      C4         1
 *   WEIGHTS
 *     buffer      G SO O4 H W D SI I4  -            -        -          1
 *     image buf.  G SO O4 H W D SI     -            -        I4         1
 *     texture 2D  H W D SI             G SO         -        I4         4: O4
 *     array, 3D   H W D SI             G SO         O4       I4         1
 *
 * Not part of the ABI: functions that a plugin compiles into itself, or does
 * without. All are pure.
 */
#ifndef CLEAVE_PLUGIN_LAYOUT_H_
#define CLEAVE_PLUGIN_LAYOUT_H_

#include <cleave/plugin.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Logical axes: those of an activation, or of weights O H W D I. */
enum { CLV_L_B = 0, CLV_L_H = 1, CLV_L_W = 2, CLV_L_D = 3, CLV_L_C = 4 };
enum { CLV_L_O = 0, CLV_L_I = 4 };
#define CLV_LAYOUT_AXES 5

/* Digits: an axis whole, its slice, or the place in the slice; of O also the
 * group of slices and the slice in the group. */
typedef enum clv_digit {
    CLV_DIGIT_END = 0,
    CLV_DIGIT_B,
    CLV_DIGIT_H,
    CLV_DIGIT_W,
    CLV_DIGIT_D,
    CLV_DIGIT_C,
    CLV_DIGIT_S,
    CLV_DIGIT_C4, /* slices of C (or I) */
    CLV_DIGIT_G,
    CLV_DIGIT_SO,
    CLV_DIGIT_O4, /* of O */
    CLV_DIGIT_COUNT
} clv_digit;

enum {
    CLV_PHYS_X,
    CLV_PHYS_Y,
    CLV_PHYS_Z,
    CLV_PHYS_COMPONENT,
    CLV_PHYS_OBJECT,
    CLV_PHYS_COUNT
};

typedef struct clv_layout_map {
    int64_t dims[CLV_LAYOUT_AXES];     /* B H W D C, or O H W D I */
    int64_t radix[CLV_DIGIT_COUNT];    /* values of each digit */
    uint8_t digits[CLV_PHYS_COUNT][9]; /* clv_digit, outermost first */
    int64_t extent[CLV_PHYS_COUNT];    /* of each physical coordinate; x of a
                                          buffer counts elements, else texels */
    int64_t n_elements;                /* of all objects, padding included */
    bool is_weights;
} clv_layout_map;

/* A place: which object, where in it, which of a texel's 4 components. */
typedef struct clv_place {
    int64_t at[CLV_PHYS_COUNT];
} clv_place;

static inline bool clv_layout_times(int64_t *product, int64_t factor)
{
    if (factor < 1 || *product > INT64_MAX / factor)
        return false;
    *product *= factor;
    return true;
}

static inline void clv_layout_digits(clv_layout_map *map, uint32_t phys,
                                     const char *letters)
{
    /* One letter a digit: O for O4, 4 for C4. */
    static const char names[] = ".BHWDCS4GNO";
    for (uint32_t i = 0; letters[i]; i++)
        map->digits[phys][i] = (uint8_t)(strchr(names, letters[i]) - names);
}

static inline bool clv_layout_order(clv_layout_map *map, uint32_t layout,
                                    uint32_t storage)
{
    const char *p[CLV_PHYS_COUNT] = {"", "", "", "", ""};
    const bool texture = storage >= CLV_STORAGE_TEXTURE_2D;
    const bool flat = storage == CLV_STORAGE_TEXTURE_2D;
    if (storage > CLV_STORAGE_TEXTURE_3D)
        return false;
    if (layout == CLV_LAYOUT_LINEAR && storage == CLV_STORAGE_BUFFER) {
        p[CLV_PHYS_X] = "BHWDC";
    } else if (layout == CLV_LAYOUT_SLICES4) {
        p[CLV_PHYS_X] = texture                         ? "WB"
                        : storage == CLV_STORAGE_BUFFER ? "DSHWB4"
                                                        : "DSHWB";
        p[CLV_PHYS_Y] = flat ? "DHS" : texture ? "H" : "";
        p[CLV_PHYS_Z] = texture && !flat ? "DS" : "";
        p[CLV_PHYS_COMPONENT] = storage == CLV_STORAGE_BUFFER ? "" : "4";
    } else if (layout == CLV_LAYOUT_WEIGHTS) {
        p[CLV_PHYS_X] = texture                         ? "HWDS"
                        : storage == CLV_STORAGE_BUFFER ? "GNOHWDS4"
                                                        : "GNOHWDS";
        p[CLV_PHYS_Y] = texture ? "GN" : "";
        p[CLV_PHYS_Z] = texture && !flat ? "O" : "";
        p[CLV_PHYS_OBJECT] = flat ? "O" : "";
        p[CLV_PHYS_COMPONENT] = storage == CLV_STORAGE_BUFFER ? "" : "4";
    } else {
        return false;
    }
    for (uint32_t i = 0; i < CLV_PHYS_COUNT; i++)
        clv_layout_digits(map, i, p[i]);
    return true;
}

/* dims: B H W D C, or O H W D I of CLV_LAYOUT_WEIGHTS; each at least 1. group:
 * slices of O in a group, S_O of WEIGHTS (the last group may be padded); else
 * 0. False: no such layout in that storage, or sizes that overflow. */
static inline bool clv_layout_init(clv_layout_map *map, uint32_t layout,
                                   uint32_t storage, const int64_t *dims,
                                   int64_t group)
{
    memset(map, 0, sizeof *map);
    map->is_weights = layout == CLV_LAYOUT_WEIGHTS;
    if (map->is_weights ? group < 1 : group != 0)
        return false;
    for (uint32_t i = 0; i < CLV_LAYOUT_AXES; i++) {
        if (dims[i] < 1 || dims[i] > INT64_MAX / 4)
            return false;
        map->dims[i] = dims[i];
        map->radix[CLV_DIGIT_B + i] = dims[i];
    }
    map->radix[CLV_DIGIT_S] = (dims[CLV_L_C] + 3) / 4;
    map->radix[CLV_DIGIT_C4] = map->radix[CLV_DIGIT_O4] = 4;
    map->radix[CLV_DIGIT_SO] = map->is_weights ? group : 1;
    map->radix[CLV_DIGIT_G] = 1;
    if (map->is_weights) {
        int64_t slices = (dims[CLV_L_O] + 3) / 4;
        map->radix[CLV_DIGIT_G] = slices / group + (slices % group != 0);
    }
    if (!clv_layout_order(map, layout, storage))
        return false;
    map->n_elements = 1;
    for (uint32_t p = 0; p < CLV_PHYS_COUNT; p++) {
        map->extent[p] = 1;
        for (uint32_t i = 0; map->digits[p][i]; i++)
            if (!clv_layout_times(&map->extent[p],
                                  map->radix[map->digits[p][i]]) ||
                !clv_layout_times(&map->n_elements,
                                  map->radix[map->digits[p][i]]))
                return false;
    }
    return true;
}

/* The map of a tensor in a layout by axes, any but LINEAR; dim_axes[i]: the
 * logical axis (CLV_L_*) of dimension i. False: a dimension that is a symbol,
 * or has no axis or another one's, and as clv_layout_init(). */
static inline bool clv_layout_of(const clv_tensor_desc *desc,
                                 clv_layout_map *map, uint32_t *dim_axes)
{
    const bool weights = desc->layout == CLV_LAYOUT_WEIGHTS;
    int64_t dims[CLV_LAYOUT_AXES] = {1, 1, 1, 1, 1};
    uint32_t seen = 0;
    if (desc->layout == CLV_LAYOUT_LINEAR || desc->rank > CLV_MAX_RANK)
        return false;
    for (uint32_t i = 0; i < desc->rank; i++) {
        const uint32_t axis = desc->axes[i];
        if (weights && (axis == CLV_AXIS_O || axis == CLV_AXIS_I))
            dim_axes[i] = axis == CLV_AXIS_O ? CLV_L_O : CLV_L_I;
        else if (axis >= CLV_AXIS_B && axis <= CLV_AXIS_C &&
                 !(weights && (axis == CLV_AXIS_B || axis == CLV_AXIS_C)))
            dim_axes[i] = axis - CLV_AXIS_B;
        else
            return false;
        if (desc->symbols[i] || desc->strides[i] || (seen >> dim_axes[i] & 1))
            return false;
        seen |= 1u << dim_axes[i];
        dims[dim_axes[i]] = desc->dims[i];
    }
    return clv_layout_init(map, desc->layout, desc->storage, dims, weights);
}

/* The digit's value at logical coordinates. */
static inline int64_t clv_layout_digit(const clv_layout_map *map,
                                       uint32_t digit, const int64_t *at)
{
    switch (digit) {
    case CLV_DIGIT_S:
        return at[CLV_L_C] / 4;
    case CLV_DIGIT_C4:
        return at[CLV_L_C] % 4;
    case CLV_DIGIT_G:
        return at[CLV_L_O] / 4 / map->radix[CLV_DIGIT_SO];
    case CLV_DIGIT_SO:
        return at[CLV_L_O] / 4 % map->radix[CLV_DIGIT_SO];
    case CLV_DIGIT_O4:
        return at[CLV_L_O] % 4;
    default:
        return at[digit - CLV_DIGIT_B];
    }
}

/* Where the element at logical coordinates (inside dims) lies. */
static inline clv_place clv_layout_find(const clv_layout_map *map,
                                        const int64_t *at)
{
    clv_place place;
    for (uint32_t p = 0; p < CLV_PHYS_COUNT; p++) {
        place.at[p] = 0;
        for (uint32_t i = 0; map->digits[p][i]; i++) {
            uint32_t digit = map->digits[p][i];
            place.at[p] = place.at[p] * map->radix[digit] +
                          clv_layout_digit(map, digit, at);
        }
    }
    return place;
}

/* Of a tensor in WEIGHTS by axes, in a buffer: bytes an index step of each
 * dimension, as of any strided tensor. False: as clv_layout_of(). */
static inline bool clv_layout_strides(const clv_tensor_desc *desc,
                                      int64_t element, int64_t *strides)
{
    uint32_t axes[CLV_MAX_RANK];
    clv_layout_map map;
    if (desc->layout != CLV_LAYOUT_WEIGHTS ||
        desc->storage != CLV_STORAGE_BUFFER || !clv_layout_of(desc, &map, axes))
        return false;
    for (uint32_t i = 0; i < desc->rank; i++) {
        int64_t one[CLV_LAYOUT_AXES] = {0};
        one[axes[i]] = 1;
        strides[i] = clv_layout_find(&map, one).at[CLV_PHYS_X];
        if (!clv_layout_times(&strides[i], element))
            return false;
    }
    return true;
}

/* The reverse: the logical coordinates of a place inside the extents. False:
 * padding, which holds zeros. */
static inline bool clv_layout_element(const clv_layout_map *map,
                                      const clv_place *place, int64_t *at)
{
    int64_t values[CLV_DIGIT_COUNT] = {0};
    for (uint32_t p = 0; p < CLV_PHYS_COUNT; p++) {
        int64_t rest = place->at[p];
        uint32_t n = (uint32_t)strlen((const char *)map->digits[p]);
        while (n--) {
            uint32_t digit = map->digits[p][n];
            values[digit] = rest % map->radix[digit];
            rest /= map->radix[digit];
        }
    }
    for (uint32_t i = 0; i < CLV_LAYOUT_AXES; i++)
        at[i] = values[CLV_DIGIT_B + i];
    if (map->digits[CLV_PHYS_X][0] != CLV_DIGIT_B) /* all but LINEAR */
        at[CLV_L_C] = values[CLV_DIGIT_S] * 4 + values[CLV_DIGIT_C4];
    if (map->is_weights)
        at[CLV_L_O] = (values[CLV_DIGIT_G] * map->radix[CLV_DIGIT_SO] +
                       values[CLV_DIGIT_SO]) *
                          4 +
                      values[CLV_DIGIT_O4];
    return at[CLV_L_C] < map->dims[CLV_L_C] && at[CLV_L_O] < map->dims[CLV_L_O];
}

/*
 * The text of one physical coordinate, in C, OpenCL C or GLSL: integer
 * arithmetic over the names that the caller gives its coordinates.
 * names[digit]: an expression without blanks around operators of lower
 * precedence than *, as "x" or "(gx+1)"; digits of 1 value are left out.
 * sizes[digit]: the same for its number of values; NULL: the number itself.
 * Characters needed without the NUL, as snprintf(); "0" for a coordinate
 * without digits.
 */
static inline int clv_layout_code(const clv_layout_map *map, uint32_t phys,
                                  const char *const *names,
                                  const char *const *sizes, char *out,
                                  size_t size)
{
    size_t n = 0, terms = 0;
    const uint8_t *digits = map->digits[phys];
#define CLV_LAYOUT_ADD(...)                                                    \
    n += (size_t)snprintf(n < size ? out + n : NULL, n < size ? size - n : 0,  \
                          __VA_ARGS__)
    for (uint32_t i = 0; digits[i]; i++)
        terms += terms || map->radix[digits[i]] != 1;
    for (size_t i = 1; i < terms; i++)
        CLV_LAYOUT_ADD("(");
    bool begun = false;
    for (uint32_t i = 0; digits[i]; i++) {
        uint32_t digit = digits[i];
        bool one = map->radix[digit] == 1;
        if (!begun && one)
            continue;
        if (!begun)
            CLV_LAYOUT_ADD("%s", names[digit]);
        else if (one)
            CLV_LAYOUT_ADD(")");
        else if (sizes && sizes[digit])
            CLV_LAYOUT_ADD("*%s+%s)", sizes[digit], names[digit]);
        else
            CLV_LAYOUT_ADD("*%lld+%s)", (long long)map->radix[digit],
                           names[digit]);
        begun = true;
    }
    if (!begun)
        CLV_LAYOUT_ADD("0");
#undef CLV_LAYOUT_ADD
    return (int)n;
}

#ifdef __cplusplus
}
#endif

#endif /* CLEAVE_PLUGIN_LAYOUT_H_ */
