/*
 * The form of an object: in which layout it stores the elements of a tensor.
 * LINEAR is the order of the host; plugin_layout.h has the others.
 */
#pragma once

#include "regions.h"

typedef struct core_form {
    uint32_t layout; /* clv_layout */
    uint8_t axes[8]; /* LINEAR: ignored */
} core_form;

static inline core_form core_form_of(const clv_tensor_desc *desc)
{
    core_form form = {.layout = desc->layout};
    for (uint32_t i = 0; i < CLV_MAX_RANK; i++)
        form.axes[i] = desc->layout ? desc->axes[i] : 0;
    return form;
}

bool core_form_equal(const core_form *a, const core_form *b);
/* Bytes of a tensor in this form, padding included. CLV_ERR_INVALID where dtype
 * or dimensions do not go with it. */
clv_status core_form_size(const core_form *form, uint32_t dtype, uint32_t rank,
                          const int64_t *dims, uint64_t *size);
/* Copies the elements of a box from dense, in the host's order, to stored, in
 * the form's; or back, without to_form. Both are of the whole tensor. */
clv_status core_form_move(const core_form *form, uint32_t dtype, uint32_t rank,
                          const int64_t *dims, const core_bounds *box,
                          char *dense, char *stored, bool to_form);
