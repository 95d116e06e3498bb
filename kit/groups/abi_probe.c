#include "abi_probe.h"

#include <stdlib.h>
#include <string.h>

#define GUARD 64

static void allocate(kit *k, abi_array *a)
{
    uint64_t size = (uint64_t)a->n * a->stride + 2 * GUARD;
    a->k = k;
    a->bytes = malloc(size);
    KIT_CHECK(k, a->bytes, "the kit has no memory for an array");
    memset(a->bytes, ABI_POISON, size);
}

void abi_array_make(kit *k, abi_array *a, const char *what, uint32_t n,
                    uint32_t type, uint32_t known, uint32_t size,
                    uint32_t stride)
{
    *a = (abi_array){.what = what,
                     .n = n,
                     .size = size,
                     .stride = stride,
                     .known = known < size ? known : size};
    allocate(k, a);
    for (uint32_t i = 0; i < n; i++) {
        clv_header *header = abi_array_at(a, i);
        memset(header, 0, a->known);
        *header = (clv_header){size, type, NULL};
    }
}

void abi_array_copy(kit *k, abi_array *a, const char *what, uint32_t n,
                    const void *from, uint32_t known, uint32_t more,
                    uint32_t stride)
{
    *a = (abi_array){.what = what,
                     .n = n,
                     .size = known + more,
                     .stride = stride,
                     .known = known};
    allocate(k, a);
    for (uint32_t i = 0; i < n; i++) {
        clv_header *header = abi_array_at(a, i);
        memcpy(header, (const char *)from + (size_t)i * known, known);
        header->struct_size = a->size;
    }
}

void *abi_array_at(const abi_array *a, uint32_t i)
{
    return a->bytes + GUARD + (size_t)i * a->stride;
}

static void check_poison(const abi_array *a, const uint8_t *from, size_t n,
                         const char *where, uint32_t element)
{
    for (size_t i = 0; i < n; i++)
        KIT_CHECK(a->k, from[i] == ABI_POISON,
                  "%s wrote %s element %u (%u bytes, %u apart)", a->what, where,
                  element, a->size, a->stride);
}

void abi_array_check(const abi_array *a, uint32_t written)
{
    check_poison(a, a->bytes, GUARD, "before", 0);
    for (uint32_t i = 0; i < a->n; i++) {
        const uint8_t *element = abi_array_at(a, i);
        check_poison(a, element + a->known, a->stride - a->known,
                     "past the end of", i);
        for (uint32_t j = sizeof(clv_header); i >= written && j < a->known; j++)
            KIT_CHECK(a->k, !element[j], "%s wrote element %u, one too many",
                      a->what, i);
    }
    check_poison(a, (const uint8_t *)abi_array_at(a, a->n), GUARD,
                 "past the end of", a->n - 1);
}

void abi_array_free(abi_array *a)
{
    free(a->bytes);
    a->bytes = NULL;
}

bool abi_is_newer(const kit_plugin *p)
{
    return p->abi_max > CLV_ABI_VERSION ||
           p->api.header.struct_size > sizeof p->api;
}

/* ------------------------------------------------------------------------ */

static void make_graph(kit *k, kit_graph *g, uint32_t op, int64_t n)
{
    const int64_t c = 64;
    kit_graph_init(k, g);
    uint32_t x = kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, c, 0);
    uint32_t w =
        op == CLV_OP_MATMUL || op == CLV_OP_RMS_NORM
            ? kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_WEIGHT,
                             op == CLV_OP_MATMUL ? c : 0, c, 0)
            : kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_INPUT, n, c, 0);
    uint32_t y = kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, n, c, 0);
    clv_node *node = KIT_NODE(g, op, y, x, w);
    if (op == CLV_OP_MATMUL)
        node->inputs[node->n_inputs++] = CLV_NO_TENSOR;
    if (op == CLV_OP_RMS_NORM)
        node->attr.norm.eps = 1e-5f;
}

bool abi_taken_graph(kit *k, kit_graph *g)
{
    static const uint32_t ops[] = {CLV_OP_ADD, CLV_OP_MUL, CLV_OP_MATMUL,
                                   CLV_OP_RMS_NORM};
    char reason[KIT_TEXT_SIZE] = "";
    for (uint32_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        clv_op_caps caps;
        make_graph(k, g, ops[i], 4);
        kit_caps(g, &caps);
        if (caps.answer == CLV_ANSWER_STATIC) {
            kit_graph_free(g);
            make_graph(k, g, ops[i], caps.static_shapes[0]);
        }
        if (kit_takes(g, reason))
            return true;
        kit_graph_free(g);
    }
    kit_skip(k, "it takes neither add, mul, matmul nor rms_norm of f32: %s",
             reason);
    return false;
}

void abi_mixed_graph(kit *k, kit_graph *g)
{
    make_graph(k, g, CLV_OP_ADD, 4);
    uint32_t z = kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 4, 64, 0);
    uint32_t u = kit_add_tensor(g, CLV_DTYPE_F32, CLV_USAGE_OUTPUT, 4, 64, 0);
    KIT_NODE(g, CLV_OP_MUL, z, 0, 1);
    KIT_NODE(g, 9999, u, 0, 1);
}
