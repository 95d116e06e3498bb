#include "tune.h"

#include "commands.h"

/* Fills all of the buffer, so that nothing else is left in the caches. */
static VkResult record_sweep(clv_plugin_program *prog, vk_recording *rec,
                             clv_plugin_buffer *sweep)
{
    const vk_device_api *api = &prog->dev->api;
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    const clv_command fill = {
        .kind = CLV_COMMAND_FILL, .dst = sweep, .size = sweep->size / 4 * 4};
    VkResult result = api->BeginCommandBuffer(rec->cb, &begin);
    if (result)
        return result;
    vk_record_move(prog->dev, prog->dev->work[0], rec->cb, &fill);
    vk_record_barrier(prog->dev, rec->cb);
    return api->EndCommandBuffer(rec->cb);
}

static VkResult sweep_once(clv_plugin_program *prog, clv_plugin_buffer *sweep)
{
    vk_recording rec = {.value = 0};
    VkResult result = vk_recording_init(prog, &rec, NULL, 0);
    if (!result)
        result = record_sweep(prog, &rec, sweep);
    if (!result)
        result = vk_run_once(prog->dev, rec.cb);
    vk_recording_finish(prog, &rec);
    return result;
}

/* From before the first kernel to behind the last. */
static VkResult run_once(clv_plugin_program *prog, const vk_place *places,
                         VkQueryPool pool, uint64_t ticks[2])
{
    clv_plugin_device *dev = prog->dev;
    const gpu_code *code = prog->code;
    const int64_t none[CLV_MAX_SYMBOLS] = {0};
    const uint32_t n = code->n_dispatches;
    vk_recording rec = {.stamps = {pool, 0}, .resets = n + 1};
    VkResult result = vk_recording_init(prog, &rec, code->dispatches, n);
    if (!result) {
        vk_recording_write(prog, &rec, code->dispatches, n, places);
        result = vk_recording_record(prog, &rec, code->dispatches, n, none);
    }
    if (!result)
        result = vk_run_once(dev, rec.cb);
    for (uint32_t i = 0; i < 2 && !result; i++)
        result = dev->api.GetQueryPoolResults(
            dev->device, pool, i * n, 1, sizeof *ticks, &ticks[i],
            sizeof *ticks, VK_QUERY_RESULT_64_BIT);
    vk_recording_finish(prog, &rec);
    return result;
}

clv_status vk_time_program(clv_plugin_device *dev, clv_plugin_program *prog,
                           const clv_binding *bindings, uint32_t n,
                           clv_plugin_buffer *sweep, uint64_t *ns)
{
    const clv_host_api *host = dev->base.host;
    clv_command c = CLV_INIT(clv_command, CLV_STRUCT_COMMAND);
    uint64_t ticks[2] = {0, 0};
    c.kind = CLV_COMMAND_RUN;
    c.program = prog;
    c.bindings = bindings;
    c.n_bindings = n;
    CLV_TRY(vk_program_check(&c));
    vk_place *places = clv_new(host, prog->base.n_tensors * sizeof *places);
    if (!places)
        return CLV_ERR_NO_MEMORY;
    memcpy(places, prog->weights, prog->base.n_tensors * sizeof *places);
    vk_program_places(&c, places);
    VkQueryPool pool = vk_make_queries(dev, prog->code->n_dispatches + 1);
    VkResult result = pool ? VK_SUCCESS : VK_ERROR_OUT_OF_DEVICE_MEMORY;
    if (!result && sweep)
        result = sweep_once(prog, sweep);
    if (!result)
        result = run_once(prog, places, pool, ticks);
    dev->api.DestroyQueryPool(dev->device, pool, NULL);
    clv_free(host, places);
    *ns = (uint64_t)((double)vk_ticks(&dev->queues[0], ticks[0], ticks[1]) *
                     (double)dev->phys->tick_ns) +
          1;
    return result ? vk_fail(dev, result, "timing a kernel") : CLV_OK;
}
