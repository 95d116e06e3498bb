/* Which recording a run takes: one that fits as it is, or the one that takes
 * least to change. */
#include "commands.h"
#include "program.h"
#include "work.h"

static bool same_places(const clv_command *command, const vk_recording *rec)
{
    for (uint32_t i = 0; i < command->n_bindings; i++) {
        const uint32_t t = command->bindings[i].tensor;
        const vk_place *now = &command->program->places[t];
        if (now->buffer != rec->places[t].buffer ||
            now->begin != rec->places[t].begin ||
            now->end != rec->places[t].end)
            return false;
    }
    return true;
}

/* The best: 3 as it is, 2 with its descriptors, 1 idle, 0 after waiting for it;
 * of equal ones that of the longest ago. */
static vk_recording *choose(const clv_command *command, const int64_t *symbols,
                            bool plain, uint64_t done, int *rank)
{
    clv_plugin_program *prog = command->program;
    vk_recording *best = NULL;
    for (uint32_t i = 0; i < VK_RECORDINGS; i++) {
        vk_recording *rec = &prog->recordings[i];
        bool idle = rec->value <= done;
        bool same = rec->written && same_places(command, rec);
        int r = same && rec->recorded && plain && !rec->stamps.pool &&
                        !memcmp(rec->symbols, symbols,
                                prog->base.n_symbols * sizeof *symbols)
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

clv_status vk_program_commands(const clv_command *command, uint64_t value,
                               vk_stamps stamps, VkCommandBuffer *out,
                               char message[CLV_MESSAGE_SIZE])
{
    clv_plugin_program *prog = command->program;
    clv_plugin_device *dev = prog->dev;
    const gpu_code *code = prog->code;
    const int64_t none[CLV_MAX_SYMBOLS] = {0};
    const int64_t *symbols = prog->base.n_symbols ? command->symbols : none;
    uint64_t done = 0;
    int rank = 0;
    vk_program_places(command, prog->places);
    VkResult result = dev->api.GetSemaphoreCounterValue(
        dev->device, dev->work[0]->semaphore, &done);
    if (result)
        return vk_explain(dev, result, "vkGetSemaphoreCounterValue", message);
    vk_recording *rec = choose(command, symbols, !stamps.pool, done, &rank);
    if (!rec->cb) { /* the first time, or after a failure */
        vk_recording_finish(prog, rec);
        result =
            vk_recording_init(prog, rec, code->dispatches, code->n_dispatches);
        if (result)
            vk_recording_finish(prog, rec);
    } else if (!rank && rec->value < value) {
        result = vk_await(dev, dev->work[0]->semaphore, rec->value, UINT64_MAX);
    }
    if (result)
        return vk_explain(dev, result, "making space to record", message);
    if (rank < 2)
        vk_recording_write(prog, rec, code->dispatches, code->n_dispatches,
                           prog->places);
    rec->stamps = stamps;
    if (rank < 3)
        result = vk_recording_record(prog, rec, code->dispatches,
                                     code->n_dispatches, symbols);
    if (result)
        return vk_explain(dev, result, "recording", message);
    rec->value = value;
    *out = rec->cb;
    return CLV_OK;
}

clv_status vk_program_record(const clv_command *command, vk_joined joined,
                             VkCommandBuffer into,
                             char message[CLV_MESSAGE_SIZE])
{
    static const int64_t none[CLV_MAX_SYMBOLS] = {0};
    clv_plugin_program *prog = command->program;
    const gpu_code *code = prog->code;
    vk_recording *rec = &prog->part;
    vk_program_places(command, prog->places);
    if (!rec->is_part) {
        rec->is_part = true;
        VkResult result =
            vk_recording_init(prog, rec, code->dispatches, code->n_dispatches);
        if (result) {
            vk_recording_finish(prog, rec);
            return vk_explain(prog->dev, result, "making space to record",
                              message);
        }
    }
    if (!rec->written || !same_places(command, rec))
        vk_recording_write(prog, rec, code->dispatches, code->n_dispatches,
                           prog->places);
    rec->cb = into;
    rec->joined = joined;
    vk_recording_add(prog, rec, code->dispatches, code->n_dispatches,
                     prog->base.n_symbols ? command->symbols : none);
    return CLV_OK;
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
