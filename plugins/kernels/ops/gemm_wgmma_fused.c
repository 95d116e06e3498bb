/* Products of the same x as one kernel by warp groups. */
#include "ops/fused.h"
#include "ops/gemm_wgmma.h"
#include "ops/tiles.h"

bool gpu_wgmma_fused_takes(const gpu_node *product, const gpu_node *first)
{
    const gpu_target *target = product->target;
    const gpu_tile_form form = gpu_tiles_of(target, &product->in[1].d);
    const gpu_tile_form first_form = gpu_tiles_of(target, &first->in[1].d);
    return gpu_tensor_suits(product) && gpu_wgmma_suits(product) &&
           !gpu_wgmma_has_bytes(product) &&
           gpu_same_tiles(&form, &first_form) && gpu_keeps_tiles(product) &&
           gpu_tiles_part(product) >= product->in[1].d.dims[0] &&
           !gpu_is_disabled(target, "gemm_wgmma_fused");
}

/* Output channels of a group: with gate and up half of its rows of tiles. */
static int64_t outputs_of_group(const gpu_fused *fused)
{
    return fused->has_glu ? GPU_WGMMA_BM / 2 : GPU_WGMMA_BM;
}

static int64_t groups_of(const gpu_fused *fused, uint32_t member)
{
    const int64_t each = outputs_of_group(fused);
    return (fused->members[member].product.in[1].d.dims[0] + each - 1) / each;
}

static int64_t all_groups(const gpu_fused *fused)
{
    int64_t groups = 0;
    for (uint32_t i = 0; i < fused->n_outs; i++)
        groups += groups_of(fused, i);
    return groups;
}

/* The member that group `at` of outputs is of, and its outputs. */
static void put_find_outputs(gpu_text *text, const gpu_fused *fused,
                             const gpu_fused_names *names)
{
    gpu_printf(text,
               "#define FIND_OUTPUTS(at) \\\n"
               "    o0 = at; \\\n"
               "    n_out = args.%s.Channels();",
               names->dst[0]);
    for (uint32_t i = 1; i < fused->n_outs; i++) {
        const long long before = groups_of(fused, i - 1);
        gpu_printf(text,
                   " \\\n    if (o0 >= %lld) { o0 -= %lld; member = %u;"
                   " n_out = args.%s.Channels();",
                   before, before, (unsigned)i, names->dst[i]);
    }
    for (uint32_t i = 1; i < fused->n_outs; i++)
        gpu_puts(text, " }");
    gpu_puts(text, " \\\n    o0 *= OUT;\n");
}

/* Where its rows of tiles are. */
static void put_tiles_at(gpu_text *text, const gpu_fused *fused,
                         const gpu_fused_names *names)
{
    const uint32_t n = fused->n;
    gpu_puts(text, "#define TILES_AT(i) (");
    for (uint32_t k = 0; k < n; k++) {
        const char *row = fused->has_glu && k ? "(i) - BM / 32" : "i";
        if (k + 1 < n && fused->has_glu)
            gpu_puts(text, "(i) < BM / 32 ? ");
        else if (k + 1 < n)
            gpu_printf(text, "member == %u ? ", (unsigned)k);
        gpu_printf(text, "%s + args.%s.Row(0, TILE_ROW(%s), 0, 0)%s",
                   names->w[k], names->w[k], row, k + 1 < n ? " : " : ")\n");
    }
}

static clv_status lower_products(gpu_lowering *lowering, const gpu_fused *fused,
                                 const gpu_tensor_shape *s,
                                 const gpu_tensor_x *x, const uint32_t *tiles,
                                 const char *text)
{
    const gpu_node *first = &fused->members[0].product;
    const gpu_wgmma_blocks blocks = gpu_wgmma_all_rows(first, s);
    gpu_wgmma_call c;
    CLV_TRY(gpu_wgmma_begin(&c, lowering, first, s, &blocks, x, text));
    c.call.name = "gemm_wgmma_fused";
    gpu_fused_define_activation(&c.call, fused);
    gpu_fused_add_products(&c.call, fused, tiles, &gpu_fused_plain_names);
    return gpu_wgmma_end(&c, lowering, all_groups(fused));
}

clv_status gpu_wgmma_fused_lower(gpu_lowering *lowering, const gpu_fused *fused)
{
    const gpu_node *first = &fused->members[0].product;
    const gpu_tensor_shape s =
        gpu_wgmma_shape_for(first, 1, gpu_max_rows(&first->in[0]),
                            all_groups(fused) * GPU_WGMMA_BM);
    gpu_text text = {.host = lowering->builder.host};
    uint32_t tiles[GPU_FUSED_MAX], angles;
    gpu_tensor_x x;
    CLV_TRY(gpu_fused_prepare(lowering, fused, tiles, &angles));
    CLV_TRY(gpu_wgmma_halves(lowering, first, &s, fused, &x));
    put_find_outputs(&text, fused, &gpu_fused_plain_names);
    put_tiles_at(&text, fused, &gpu_fused_plain_names);
    gpu_fused_put_stores(&text, fused, &gpu_fused_plain_names);
    clv_status status =
        text.failed ? CLV_ERR_NO_MEMORY
                    : lower_products(lowering, fused, &s, &x, tiles, text.data);
    gpu_text_free(&text);
    return status;
}
