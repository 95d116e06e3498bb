/*
 * How the elements of a tensor lie in an object: one behind the other, as the
 * host has them, or in a layout of cleave/plugin_layout.h.
 */
#pragma once

#include "regions.h"

typedef struct core_form {
    uint32_t layout; /* clv_layout */
    uint8_t axes[8]; /* of LINEAR not looked at */
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
/* The elements of a box from the host's order into the form's (laying), or
 * back. dense and laid: of the whole tensor. */
clv_status core_form_move(const core_form *form, uint32_t dtype, uint32_t rank,
                          const int64_t *dims, const core_bounds *box,
                          char *dense, char *laid, bool laying);
