#include "workspace.h"
#include "../base/error.h"

#include <stdlib.h>

clv_status clv_workspace_create(clv_context *ctx, clv_workspace **out)
{
    *out = NULL;
    if (!ctx)
        return clv_error(CLV_ERR_INVALID, "workspace: the context is NULL");
    clv_workspace *w = calloc(1, sizeof *w);
    if (w)
        w->parts = calloc(ctx->n_devices + 1u, sizeof *w->parts);
    if (!w || !w->parts) {
        free(w);
        return core_no_memory("for a workspace");
    }
    w->ctx = ctx;
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
    clv_tensor_destroy(workspace->shared);
    free(workspace->parts);
    free(workspace);
}

core_part_memory *core_workspace_part(clv_workspace *workspace,
                                      const clv_device *dev)
{
    uint32_t i = 0;
    while (workspace->ctx->devices[i] != dev)
        i++;
    return &workspace->parts[i];
}

uint64_t clv_workspace_size(const clv_workspace *workspace,
                            const clv_device *dev)
{
    if (!dev)
        return workspace->shared ? workspace->shared->size : 0;
    for (uint32_t i = 0; i < workspace->ctx->n_devices; i++)
        if (workspace->ctx->devices[i] == dev && workspace->parts[i].arena)
            return workspace->parts[i].arena->size;
    return 0;
}

/* ------------------------------------------------------------------------ */
/* Growing: what is there is freed first, as there may be no room for both; if
 * there is none for more, as much as before is taken again. */

static clv_status make_shared(clv_workspace *w, uint64_t size)
{
    const int64_t bytes = (int64_t)size;
    const clv_status status =
        clv_tensor_create(w->ctx, CLV_DTYPE_I8, 1, &bytes, &w->shared);
    return status ? clv_error_prefix(status, "intermediate values") : CLV_OK;
}

static clv_status grow_shared(clv_workspace *w, uint64_t size)
{
    const uint64_t before = w->shared ? w->shared->size : 0;
    if (size <= before)
        return CLV_OK;
    clv_tensor_destroy(w->shared);
    w->shared = NULL;
    w->serial++;
    const clv_status status = make_shared(w, size);
    if (status && before)
        make_shared(w, before);
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
    CLV_TRY(grow_shared(workspace, plan->memory.size));
    for (uint32_t i = 0; i < plan->n_devices; i++) {
        const core_plan_device *d = &plan->devices[i];
        CLV_TRY(grow_arena(workspace, d->dev, d->memory.size));
        CLV_TRY(grow_staging(workspace, d->dev, d->staging_size));
    }
    return CLV_OK;
}
