/* What the kernels of matrix instructions share: weights in tiles
 * (convert_tiles.clt), and their text. */
#pragma once

#include "lower/lower.h"

/* Whether weights can lie in tiles: their dtype, and whole blocks of 32
 * channels with one scale, or two. */
bool gpu_has_tiles(const gpu_target *target, const clv_tensor_desc *w);
/* How they lie there. Of 16 rows, tiles of 32 channels are side by side, each
 * with a head behind it, its scales, or several and the head that these share.
 */
typedef struct gpu_tile_form {
    int64_t bits, high_bits; /* of a weight: words of 16, 8 or 4 bits, and bits
                                above these, behind them */
    int64_t subs;            /* sub-blocks of 32 channels, each with a scale */
    int64_t head_tiles;      /* tiles that share a head */
    int64_t head;            /* bytes of it for a row */
    int64_t row_scales;      /* bytes of scales behind a row of tiles */
    bool minimum, bf16, quantised;
} gpu_tile_form;
gpu_tile_form gpu_tiles_of(const gpu_target *target, const clv_tensor_desc *w);
/* Bytes of n tiles side by side, with their heads or the one that they share.
 */
int64_t gpu_tiles_bytes(const gpu_tile_form *form, int64_t n);
/* Bytes of a row of tiles. */
int64_t gpu_tiles_row(const gpu_target *target, const clv_tensor_desc *w);
/* Whether two of them lie alike, so that one text serves both. */
bool gpu_same_tiles(const gpu_tile_form *a, const gpu_tile_form *b);
/* Whether x in halves is to be in the order of channels that tiles of
 * sub-blocks of 16 have. */
bool gpu_is_permuted(const gpu_node *product);
/* Defines what kernels need to know of the product's tiles. */
void gpu_tile_defines(gpu_call *call, const gpu_node *node);
/* The same as text. */
void gpu_put_tile_defines(gpu_text *text, const gpu_node *node);
/* Adds the scales beside the product's weights, those of the output channels
 * from first on: the operand scale, the param group. */
gpu_operand *gpu_add_scales(gpu_call *call, const gpu_node *node,
                            int64_t first);
/* Whether the product is a GEMV: few rows of x. */
bool gpu_is_gemv(const gpu_node *node);
bool gpu_is_glsl(const gpu_target *target);
/* Whether there are tensor cores, or plain code for them. */
bool gpu_has_tensor(const gpu_target *target);
/* Bytes of local memory that the plain code takes in addition. */
int64_t gpu_plain_bytes(const gpu_target *target, int64_t items);

/* Rows of a block of weights in CLV_LAYOUT_PRIVATE, which are tiles; 0: these
 * weights cannot be so, as tiles are larger or lie elsewhere. */
uint32_t gpu_private_rows(const gpu_target *target, const clv_tensor_desc *w);
/* Whether the tiles last: the weights lie so, or the setup makes them. Runs
 * make them where memory is scarce, and of weights that are streamed. */
bool gpu_keeps_tiles(const gpu_node *node);
/* What these tiles take; 0: the setup makes none. */
uint64_t gpu_kept_bytes(const gpu_node *node);
/* Output channels of the product that tiles are made of at once: a multiple of
 * 16, or all. */
int64_t gpu_tiles_part(const gpu_node *node);
/* Adds the product's weights in tiles, of so many output channels: those that
 * lie in the buffer, or all where the weights lie so themselves. */
void gpu_add_tiles(gpu_call *call, const gpu_node *node, const char *name,
                   uint32_t buffer, int64_t count);
/* The words for matrices in the target's language. */
const char *gpu_tensor_words(const gpu_target *target);
/* Has the call use the words for matrices; int8: those of bytes, too. */
void gpu_use_tensor(gpu_call *call, const gpu_target *target, bool int8);
/* Has it use the words that read weights in tiles. */
void gpu_use_tiles(gpu_call *call, const gpu_target *target);
/* The weights in tiles, those of the output channels from first on: by the
 * setup, or in each run, in scratch; or as they lie. */
clv_status gpu_lower_tiles(gpu_lowering *lowering, const gpu_node *node,
                           int64_t first, int64_t count, uint32_t *buffer);
