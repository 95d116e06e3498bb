/* Which recording a run takes: one that fits as it is, or the one that takes
 * least to change. */
#include "program.h"
#include "work.h"

static clv_status explain(clv_plugin_device *dev, VkResult result,
                          const char *call, char *message)
{
    clv_status status = vk_result_status(result);
    if (status == CLV_ERR_DEVICE_LOST)
        atomic_store(&dev->lost, true);
    snprintf(message, CLV_MESSAGE_SIZE, "vulkan:%.40s: %s answers %s",
             dev->phys->id, call, vk_result_name(result));
    return status;
}

static bool same_places(const clv_plugin_program *prog, const vk_recording *rec)
{
    for (uint32_t i = 0; i < prog->n_tensors; i++)
        if (prog->places[i].buffer != rec->places[i].buffer ||
            prog->places[i].begin != rec->places[i].begin ||
            prog->places[i].end != rec->places[i].end)
            return false;
    return true;
}

/* The best: 3 as it is, 2 with its descriptors, 1 idle, 0 after waiting for it;
 * of equal ones that of the longest ago. */
static vk_recording *choose(clv_plugin_program *prog, const int64_t *symbols,
                            bool stamped, uint64_t done, int *rank)
{
    vk_recording *best = NULL;
    for (uint32_t i = 0; i < VK_RECORDINGS; i++) {
        vk_recording *rec = &prog->recordings[i];
        bool idle = rec->value <= done;
        bool same = rec->written && same_places(prog, rec);
        int r = same && rec->recorded && !stamped && !rec->stamps.pool &&
                        !memcmp(rec->symbols, symbols,
                                prog->n_symbols * sizeof *symbols)
                    ? 3
                : same && idle ? 2
                : idle         ? 1
                               : 0;
        if (best && (r < *rank || (r == *rank && rec->value >= best->value)))
            continue;
        best = rec;
        *rank = r;
    }
    return best;
}

static VkResult wait_for(clv_plugin_device *dev, VkSemaphore semaphore,
                         uint64_t value)
{
    const VkSemaphoreWaitInfo info = {.sType =
                                          VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
                                      .semaphoreCount = 1,
                                      .pSemaphores = &semaphore,
                                      .pValues = &value};
    return dev->api.WaitSemaphores(dev->device, &info, UINT64_MAX);
}

clv_status vk_program_commands(const clv_command *command, uint64_t value,
                               vk_stamps stamps, VkCommandBuffer *out,
                               char message[CLV_MESSAGE_SIZE])
{
    clv_plugin_program *prog = command->program;
    clv_plugin_device *dev = prog->dev;
    const gpu_code *code = prog->code;
    const int64_t none[CLV_MAX_SYMBOLS] = {0};
    const int64_t *symbols = prog->n_symbols ? command->symbols : none;
    uint64_t done = 0;
    int rank = 0;
    vk_program_places(command, prog->places);
    VkResult result = dev->api.GetSemaphoreCounterValue(
        dev->device, dev->work->semaphore, &done);
    if (result)
        return explain(dev, result, "vkGetSemaphoreCounterValue", message);
    vk_recording *rec =
        choose(prog, symbols, stamps.pool != VK_NULL_HANDLE, done, &rank);
    if (!rec->cb) { /* the first time, or after a failure */
        vk_recording_finish(prog, rec);
        result =
            vk_recording_init(prog, rec, code->dispatches, code->n_dispatches);
        if (result)
            vk_recording_finish(prog, rec);
    } else if (!rank && rec->value < value) {
        result = wait_for(dev, dev->work->semaphore, rec->value);
    }
    if (result)
        return explain(dev, result, "making space to record", message);
    if (rank < 2)
        vk_recording_write(prog, rec, code->dispatches, code->n_dispatches,
                           prog->places);
    rec->stamps = stamps;
    if (rank < 3)
        result = vk_recording_record(prog, rec, code->dispatches,
                                     code->n_dispatches, symbols);
    if (result)
        return explain(dev, result, "recording", message);
    rec->value = value;
    *out = rec->cb;
    return CLV_OK;
}

VkResult vk_run_once(clv_plugin_device *dev, VkCommandBuffer cb)
{
    const uint64_t value = 1;
    const VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE};
    const VkSemaphoreCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkSemaphore semaphore;
    VkResult result =
        dev->api.CreateSemaphore(dev->device, &info, NULL, &semaphore);
    if (result)
        return result;
    const VkTimelineSemaphoreSubmitInfo timeline = {
        .sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
        .signalSemaphoreValueCount = 1,
        .pSignalSemaphoreValues = &value};
    const VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                 .pNext = &timeline,
                                 .commandBufferCount = 1,
                                 .pCommandBuffers = &cb,
                                 .signalSemaphoreCount = 1,
                                 .pSignalSemaphores = &semaphore};
    pthread_mutex_lock(&dev->queue_lock);
    result = dev->api.QueueSubmit(dev->queue, 1, &submit, VK_NULL_HANDLE);
    pthread_mutex_unlock(&dev->queue_lock);
    if (!result)
        result = wait_for(dev, semaphore, value);
    dev->api.DestroySemaphore(dev->device, semaphore, NULL);
    return result;
}

clv_status vk_program_once(clv_plugin_program *prog,
                           const gpu_dispatch *dispatches, uint32_t n)
{
    vk_recording rec = {.is_setup = true};
    const int64_t none[CLV_MAX_SYMBOLS] = {0};
    VkResult result = vk_recording_init(prog, &rec, dispatches, n);
    if (!result) {
        vk_recording_write(prog, &rec, dispatches, n, prog->weights);
        result = vk_recording_record(prog, &rec, dispatches, n, none);
    }
    if (!result)
        result = vk_run_once(prog->dev, rec.cb);
    vk_recording_finish(prog, &rec);
    return result ? vk_fail(prog->dev, result, "laying out weights") : CLV_OK;
}
