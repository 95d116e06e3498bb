/*
 * Weight formats in kernels. cleave/plugin_format.h says what a format is;
 * templates/formats/NAME.clt says in macros how kernels read it. From those the
 * shared templates derive all forms of weights: by rows as bound (weights.clt),
 * as signed bytes for integer dot products (its LOAD_INT8), in tiles for tensor
 * cores (convert_tiles.clt), in objects such as textures (convert_words.clt,
 * convert_scales.clt, objects_words.clt), and one element (the accessors).
 *
 * The generator defines FORMAT_BITS, BLOCK (elements) and BLOCK_BYTES. A
 * format of floats then defines
 *
 *   STEP                    elements of 16 bytes
 *   UNPACK(out, q)          q, 16 bytes, as STEP / 4 vectors
 *   VALUE(word_at, half_at, at)  the element at that place
 *
 * and one of integers, value = scale * integer + minimum,
 *
 *   STEP                    16 or 32: elements that are read at a time, which
 *                           share a scale and a minimum
 *   SCALE_AT(half_at, block, k)  the scale of element k, that of its sub-block
 *                           where there are some; undefined where scales are a
 *                           tensor of their own
 *   MINIMUM_AT(half_at, block, k)  the minimum; undefined where there is none
 *   LOAD_DATA(q, block, k)  declares u32x4 q: what UNPACK takes of the STEP
 *                           elements from k on, a multiple of STEP
 *   UNPACK(out, q, d)       d times these integers, as STEP / 4 vectors
 *   UNPACK_INT8(out, i, q)  the same as signed bytes, STEP / 4 words from
 *                           out[i] on
 *   INTEGER(byte_at, block, k)  integer k
 *   SMALL_SCALE(half_at, block, k)  the integer that the block has for the
 *                           scale, where tiles keep it (gpu_format_tiles)
 *   SMALL_MINIMUM(half_at, block, k)  the same of the minimum
 *   FACTORS(half_at, block) the half that these are multiplied by, or in one
 *                           word the halves of scales and of minimums
 *
 * block is the place of the block that has element k; word_at, half_at and
 * byte_at read there. LOAD_DATA reads one range of bytes by LOAD_WORDS(q, at)
 * (weights.clt), or puts q together, where a format has its bits in several.
 *
 * What formats share is in templates/format_words.clt. In tiles and objects
 * integers have 4 or 8 bits, gpu_packed_bits(). Integer dot products and
 * objects take formats without a minimum, whose scales are for 32 elements or
 * more (gpu_has_canonical()); of others UNPACK_INT8 is not needed.
 */
#pragma once

#include "text.h"

#include <cleave/plugin_format.h>

/* Whether kernels can read the dtype, other than I32. */
bool gpu_has_format(uint32_t dtype);
/* Puts the numbers and the macros of a dtype that weights can have. */
void gpu_put_format(gpu_text *out, uint32_t dtype);
/* Whether the dtype's rows of elements are integers, with scales. */
static inline bool gpu_is_integers(uint32_t dtype)
{
    return clv_format_is(dtype, CLV_FORMAT_INTEGER | CLV_FORMAT_BLOCK);
}
/* Bits of an element in tiles and objects: of integers 4 or 8. */
uint32_t gpu_packed_bits(uint32_t dtype);
/* How tiles have scales as small as the blocks of the file: the tiles of a
 * block, side by side, with a head behind, which holds those of 16 rows. */
typedef enum gpu_head {
    GPU_HEAD_NONE,
    GPU_HEAD_SIX_BITS, /* scales and minimums of 32 elements, 6 bits each */
    GPU_HEAD_BYTES     /* scales of 16 elements, signed bytes */
} gpu_head;
/* For those, integers are nibbles and so many bits above them. */
typedef struct gpu_format_tiles {
    gpu_head head;
    uint32_t high_bits;
} gpu_format_tiles;
gpu_format_tiles gpu_tiles_of_format(uint32_t dtype);
/* Whether weights of the dtype can be bytes or nibbles with a scale for 32 of
 * them. */
static inline bool gpu_has_canonical(uint32_t dtype)
{
    const clv_format *f = clv_format_of(dtype);
    return gpu_is_integers(dtype) && f->minimum_at < 0 && f->group % 32 == 0;
}
