/*
 * Copies weights to devices before the first run, each once, through one
 * staging buffer a device; those that are streamed to memory that the host sees
 * too. Devices that use the host's memory in place need no copy.
 */

#include "weights.h"
#include "../config/config.h"
#include "../context/context.h"

#include <stdio.h>

/* Bytes that are still to be copied to a device. */
static uint64_t missing_bytes(const clv_plan *plan, uint32_t device,
                              bool streamed)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < plan->n_loads; i++)
        if (plan->loads[i].device == device &&
            plan->loads[i].streamed == streamed)
            sum += core_plan_missing(plan, &plan->loads[i]);
    return sum;
}

static clv_tensor *tensor_of(const clv_plan *plan, const core_load *load)
{
    return plan->graph->values[load->weight].weight;
}

static clv_status name_weight(const clv_plan *plan, const core_load *load,
                              clv_status status)
{
    clv_value base = plan->graph->values[load->weight].base;
    return status ? clv_error_prefix(status, "weight '%s'",
                                     plan->graph->values[base].name)
                  : CLV_OK;
}

/* Makes the copy if there is none. */
static clv_status use(clv_exec *exec, uint32_t index)
{
    const clv_plan *plan = exec->plan;
    const core_load *load = &plan->loads[index];
    return name_weight(plan, load,
                       core_tensor_use(tensor_of(plan, load),
                                       plan->devices[load->device].dev,
                                       plan->pointer_align, load->holding,
                                       &load->range, &exec->weights[index]));
}

static void drop_unused(const clv_plan *plan, const clv_device *dev)
{
    for (uint32_t v = 0; v < plan->source->n_tensors; v++)
        if (plan->source->values[v].weight)
            core_tensor_drop_unused(plan->source->values[v].weight, dev);
}

static clv_status reach(clv_exec *exec, uint32_t index)
{
    const clv_plan *plan = exec->plan;
    const core_load *load = &plan->loads[index];
    core_runs range;
    CLV_TRY(core_plan_reach(plan, load, &range));
    CLV_TRY(name_weight(plan, load,
                        core_tensor_reach(tensor_of(plan, load),
                                          plan->devices[load->device].dev,
                                          &range)));
    exec->n_reached = index + 1;
    return CLV_OK;
}

clv_status core_exec_use_weights(clv_exec *exec)
{
    const clv_plan *plan = exec->plan;
    for (uint32_t i = 0; i < plan->n_loads; i++)
        if (core_plan_load_reaches(plan, &plan->loads[i]))
            CLV_TRY(reach(exec, i));
    for (uint32_t i = 0; i < plan->n_loads; i++)
        if (plan->loads[i].holding != CORE_HOLD_IMPORT &&
            !core_plan_missing(plan, &plan->loads[i]))
            CLV_TRY(use(exec, i));
    for (uint32_t d = 0; d < plan->n_devices; d++)
        if (missing_bytes(plan, d, false) || missing_bytes(plan, d, true))
            drop_unused(plan, plan->devices[d].dev);
    return CLV_OK;
}

static void unreach(const clv_exec *exec, uint32_t index)
{
    const clv_plan *plan = exec->plan;
    const core_load *load = &plan->loads[index];
    core_runs range;
    if (core_plan_load_reaches(plan, load) &&
        !core_plan_reach(plan, load, &range))
        core_tensor_unreach(tensor_of(plan, load),
                            plan->devices[load->device].dev, &range);
}

void core_exec_leave_weights(clv_exec *exec)
{
    for (uint32_t i = 0; i < exec->n_reached; i++)
        unreach(exec, i);
    exec->n_reached = 0;
    for (uint32_t i = 0; exec->weights && i < exec->plan->n_loads; i++)
        if (exec->weights[i])
            core_tensor_leave(tensor_of(exec->plan, &exec->plan->loads[i]),
                              exec->weights[i]);
}

clv_status core_exec_weight(const clv_plan *plan, const core_load *load,
                            const core_object **out)
{
    return name_weight(plan, load,
                       core_tensor_object(tensor_of(plan, load),
                                          plan->devices[load->device].dev,
                                          plan->pointer_align, load->holding,
                                          &load->range, out));
}

static clv_status copy_all(clv_exec *exec, uint32_t device, uint64_t bytes)
{
    const clv_plan *plan = exec->plan;
    clv_device *dev = plan->devices[device].dev;
    char what[CORE_DEVICE_ID_SIZE + 32];
    uint64_t done = 0;
    if (plan->devices[device].local)
        CLV_TRY(core_device_has_room(dev, missing_bytes(plan, device, false),
                                     "weights"));
    snprintf(what, sizeof what, "copying weights to %s", dev->id);
    for (uint32_t i = 0; i < plan->n_loads; i++) {
        const core_load *load = &plan->loads[i];
        uint64_t missing = core_plan_missing(plan, load);
        if (load->device != device || !missing)
            continue;
        CLV_TRY(core_context_progress(plan->ctx, what,
                                      (double)done / (double)bytes));
        CLV_TRY(use(exec, i));
        done += missing;
    }
    return core_context_progress(plan->ctx, what, 1);
}

clv_status core_exec_load_weights(clv_exec *exec)
{
    const clv_plan *plan = exec->plan;
    clv_status status = CLV_OK;
    for (uint32_t d = 0; d < plan->n_devices && !status; d++) {
        uint64_t bytes =
            missing_bytes(plan, d, false) + missing_bytes(plan, d, true);
        if (!bytes)
            continue;
        core_device_hold_staging(plan->devices[d].dev, bytes);
        status = copy_all(exec, d, bytes);
        core_device_release_staging(plan->devices[d].dev);
    }
    return status;
}

/* What runs with the smallest symbols, of one token say, read. */
static uint64_t least_read(const clv_plan *plan)
{
    int64_t symbols[CLV_MAX_SYMBOLS];
    for (uint32_t i = 0; i < plan->graph->n_symbols; i++)
        symbols[i] = plan->graph->symbols[i].min;
    return core_plan_file_sum(plan, symbols);
}

void core_exec_tell_file(const clv_exec *exec)
{
    const core_plan_file *file = &exec->plan->file;
    clv_context *ctx = exec->plan->ctx;
    const double mib = 1 << 20;
    char time[48] = "";
    if (!file->read || atomic_exchange(&ctx->file_told, true))
        return;
    const double bytes = (double)least_read(exec->plan);
    if (file->speed > 0)
        snprintf(time, sizeof time, ", which takes %.3f s at %.0f MB/s",
                 bytes / file->speed * 1e-9, file->speed * 1e3);
    clv_log(ctx, CLV_LOG_WARN,
            "the host's memory holds %.1f MiB of the %.1f MiB of weights that "
            "devices use in it: each run reads %.1f MiB or more from the "
            "file%s; %s, or use a model of smaller types",
            (double)file->room / mib, (double)file->used / mib, bytes / mib,
            time,
            clv_config_get_int(ctx->config, "core.host_memory") > 0
                ? "raise core.host_memory if more is free"
                : "free memory, or set core.host_memory to what weights may "
                  "take");
}
