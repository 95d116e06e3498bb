#include "form.h"
#include "../base/error.h"
#include "../device/subgraph.h"

#include "../device/device.h"

#include <cleave/plugin_layout.h>

#include <stdlib.h>
#include <string.h>

/* The offset of an element is the sum of one offset for each coordinate: no
 * digit of a layout depends on two coordinates. */
typedef struct places {
    int64_t *of[CLV_MAX_RANK]; /* [dims[d]] */
    int64_t *all;
} places;

static clv_tensor_desc describe(const core_form *form, uint32_t dtype,
                                uint32_t rank, const int64_t *dims)
{
    clv_tensor_desc desc = CLV_INIT(clv_tensor_desc, CLV_STRUCT_TENSOR_DESC);
    desc.dtype = dtype;
    desc.rank = rank;
    desc.layout = form->layout;
    memcpy(desc.dims, dims, rank * sizeof *dims);
    memcpy(desc.axes, form->axes, sizeof desc.axes);
    return desc;
}

bool core_form_equal(const core_form *a, const core_form *b)
{
    return a->layout == b->layout &&
           (!a->layout || !memcmp(a->axes, b->axes, sizeof a->axes));
}

clv_status core_form_size(const core_form *form, uint32_t dtype, uint32_t rank,
                          const int64_t *dims, uint64_t *size)
{
    const clv_tensor_desc desc = describe(form, dtype, rank, dims);
    return core_desc_size(&desc, NULL, size);
}

static clv_status find_places(const core_form *form, uint32_t dtype,
                              uint32_t rank, const int64_t *dims, places *out)
{
    const clv_tensor_desc desc = describe(form, dtype, rank, dims);
    uint32_t block, bytes, axes[CLV_MAX_RANK];
    clv_layout_map map;
    uint64_t n = 0;
    if (!clv_dtype_block(dtype, &block, &bytes) ||
        !clv_layout_of(&desc, &map, axes))
        return clv_error(CLV_ERR_INVALID,
                         "a tensor's axes do not go with layout %u",
                         form->layout);
    for (uint32_t d = 0; d < rank; d++)
        n += (uint64_t)dims[d];
    int64_t *at = out->all = calloc(n, sizeof *at);
    if (!at)
        return core_no_memory("to change the layout of a tensor");
    for (uint32_t d = 0; d < rank; d++) {
        out->of[d] = at;
        for (int64_t i = 0; i < dims[d]; i++) {
            int64_t where[CLV_LAYOUT_AXES] = {0};
            where[axes[d]] = i;
            *at++ = clv_layout_find(&map, where).at[CLV_PHYS_X] * bytes;
        }
    }
    return CLV_OK;
}

/* Copies n elements. The sizes of caches, 2 and 4 bytes, have loops of their
 * own, which are faster. */
static void move_row(const int64_t *at, int64_t n, uint32_t bytes, char *dense,
                     char *stored, bool to_form)
{
    for (int64_t i = 0; i < n; i++) {
        char *own = dense + i * bytes, *there = stored + at[i];
        char *to = to_form ? there : own;
        const char *from = to_form ? own : there;
        if (bytes == 2)
            memcpy(to, from, 2);
        else if (bytes == 4)
            memcpy(to, from, 4);
        else
            memcpy(to, from, bytes);
    }
}

clv_status core_form_move(const core_form *form, uint32_t dtype, uint32_t rank,
                          const int64_t *dims, const core_bounds *box,
                          char *dense, char *stored, bool to_form)
{
    const uint32_t last = rank - 1;
    uint32_t block, bytes = 0;
    places p = {0};
    int64_t at[CLV_MAX_RANK];
    CLV_TRY(find_places(form, dtype, rank, dims, &p));
    clv_dtype_block(dtype, &block, &bytes);
    memcpy(at, box->begin, sizeof at);
    bool more = true;
    while (more) {
        int64_t row = 0, there = 0;
        for (uint32_t d = 0; d < rank; d++)
            row = row * dims[d] + at[d];
        for (uint32_t d = 0; d < last; d++)
            there += p.of[d][at[d]];
        move_row(p.of[last] + at[last], box->end[last] - box->begin[last],
                 bytes, dense + row * bytes, stored + there, to_form);
        uint32_t d = last;
        while (d && ++at[d - 1] == box->end[d - 1]) {
            at[d - 1] = box->begin[d - 1];
            d--;
        }
        more = d > 0;
    }
    free(p.all);
    return CLV_OK;
}
