#include "workspace.h"
#include "../base/error.h"

#include <stdlib.h>

clv_status clv_workspace_create(clv_context *ctx, clv_workspace **out)
{
    *out = NULL;
    if (!ctx)
        return clv_error(CLV_ERR_INVALID, "workspace: the context is NULL");
    clv_workspace *w = calloc(1, sizeof *w);
    if (!w)
        return core_no_memory("for a workspace");
    w->ctx = ctx;
    w->parts = calloc(ctx->n_devices + 1u, sizeof *w->parts);
    w->shared = calloc(ctx->n_devices + 1u, sizeof *w->shared);
    if (!w->parts || !w->shared) {
        free(w->parts);
        free(w->shared);
        free(w);
        return core_no_memory("for a workspace");
    }
    w->serial = 1;
    *out = w;
    return CLV_OK;
}

static void free_staging(core_part_memory *part)
{
    if (part->staged)
        core_buffer_unmap(part->staging);
    core_buffer_free(part->staging);
    part->staging = NULL;
    part->staged = NULL;
}

void clv_workspace_destroy(clv_workspace *workspace)
{
    if (!workspace)
        return;
    for (uint32_t i = 0; i < workspace->ctx->n_devices; i++) {
        free_staging(&workspace->parts[i]);
        core_buffer_free(workspace->parts[i].arena);
    }
    for (uint32_t i = 0; i <= workspace->ctx->n_devices; i++)
        clv_tensor_destroy(workspace->shared[i]);
    free(workspace->shared);
    free(workspace->parts);
    free(workspace);
}

static uint32_t index_of(const clv_context *ctx, const clv_device *dev)
{
    uint32_t i = 0;
    while (ctx->devices[i] != dev)
        i++;
    return i;
}

core_part_memory *core_workspace_part(clv_workspace *workspace,
                                      const clv_device *dev)
{
    return &workspace->parts[index_of(workspace->ctx, dev)];
}

static clv_tensor **shared_of(const clv_workspace *workspace,
                              const clv_plan *plan)
{
    const uint32_t d = plan->shared_device;
    return &workspace
                ->shared[d ? 1 + index_of(plan->ctx, plan->devices[d - 1].dev)
                           : 0];
}

uint64_t clv_workspace_size(const clv_workspace *workspace,
                            const clv_device *dev)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i <= workspace->ctx->n_devices && !dev; i++)
        if (workspace->shared[i])
            sum += workspace->shared[i]->size;
    for (uint32_t i = 0; i < workspace->ctx->n_devices; i++)
        if (workspace->ctx->devices[i] == dev && workspace->parts[i].arena)
            return workspace->parts[i].arena->size;
    return sum;
}

clv_tensor *core_workspace_shared(const clv_workspace *workspace,
                                  const clv_plan *plan)
{
    return *shared_of(workspace, plan);
}

clv_status core_tensor_create_shared(const clv_plan *plan, uint32_t dtype,
                                     uint32_t rank, const int64_t *dims,
                                     clv_tensor **out)
{
    const uint32_t d = plan->shared_device;
    return d ? core_tensor_create_seen(plan->ctx, plan->devices[d - 1].dev,
                                       dtype, rank, dims, out)
             : clv_tensor_create(plan->ctx, dtype, rank, dims, out);
}

/* ------------------------------------------------------------------------ */
/* Growing: what is there is freed first, as there may be no room for both; if
 * there is none for more, as much as before is taken again. */

static clv_status make_shared(const clv_plan *plan, uint64_t size,
                              clv_tensor **out)
{
    const int64_t bytes = (int64_t)size;
    const clv_status status =
        core_tensor_create_shared(plan, CLV_DTYPE_I8, 1, &bytes, out);
    return status ? clv_error_prefix(status, "intermediate values") : CLV_OK;
}

static clv_status grow_shared(clv_workspace *w, const clv_plan *plan)
{
    clv_tensor **shared = shared_of(w, plan);
    const uint64_t before = *shared ? (*shared)->size : 0;
    if (plan->memory.size <= before)
        return CLV_OK;
    clv_tensor_destroy(*shared);
    *shared = NULL;
    w->serial++;
    const clv_status status = make_shared(plan, plan->memory.size, shared);
    if (status && before)
        make_shared(plan, before, shared);
    return status;
}

static clv_status make_arena(clv_device *dev, uint64_t size,
                             core_part_memory *part)
{
    return core_device_alloc_local(dev, size, "intermediate values",
                                   &part->arena);
}

static clv_status grow_arena(clv_workspace *w, clv_device *dev, uint64_t size)
{
    core_part_memory *part = core_workspace_part(w, dev);
    const uint64_t before = part->arena ? part->arena->size : 0;
    if (size <= before)
        return CLV_OK;
    core_buffer_free(part->arena);
    part->arena = NULL;
    part->holder = 0;
    w->serial++;
    const clv_status status = make_arena(dev, size, part);
    if (status && before)
        make_arena(dev, before, part);
    return status;
}

static clv_status make_staging(clv_device *dev, uint64_t size,
                               core_part_memory *part)
{
    uint32_t type = 0;
    void *mapped = NULL;
    core_device_staging_type(dev, &type);
    clv_status status = core_buffer_alloc(dev, type, size, &part->staging);
    if (!status)
        status = core_buffer_map(part->staging,
                                 CLV_ACCESS_READ | CLV_ACCESS_WRITE, &mapped);
    part->staged = mapped;
    return status ? clv_error_prefix(status,
                                     "device '%s': %llu bytes that copies "
                                     "pass through; use a smaller batch",
                                     dev->id, (unsigned long long)size)
                  : CLV_OK;
}

static clv_status grow_staging(clv_workspace *w, clv_device *dev, uint64_t size)
{
    core_part_memory *part = core_workspace_part(w, dev);
    const uint64_t before = part->staging ? part->staging->size : 0;
    if (size <= before)
        return CLV_OK;
    free_staging(part);
    w->serial++;
    const clv_status status = make_staging(dev, size, part);
    if (status) {
        free_staging(part);
        if (before)
            make_staging(dev, before, part);
    }
    return status;
}

clv_status core_workspace_fit(clv_workspace *workspace, const clv_plan *plan)
{
    CLV_TRY(grow_shared(workspace, plan));
    for (uint32_t i = 0; i < plan->n_devices; i++) {
        const core_plan_device *d = &plan->devices[i];
        CLV_TRY(grow_arena(workspace, d->dev, d->memory.size));
        CLV_TRY(grow_staging(workspace, d->dev, d->staging_size));
    }
    return CLV_OK;
}
