#include "flight.h"

#include "commands.h"
#include "device_wait.h"
#include "program.h"
#include "trace.h"
#include "wait.h"

/* What another device may wait for with nothing else to do. */
#define SHORT_NS 20000000u

static void fail(clv_plugin_device *dev, vk_flight *flight, VkResult result,
                 const char *call)
{
    if (flight->status)
        return;
    flight->status = vk_explain(dev, result, call, flight->message);
}

/* Room for the command buffers of n commands more: loose ones lie between those
 * of programs. */
static clv_status make_space(clv_plugin_device *dev, vk_flight *lead,
                             uint32_t n)
{
    const clv_host_api *host = dev->base.host;
    const uint32_t wanted = lead->n_list + 2 * n + 1;
    if (lead->room >= wanted)
        return CLV_OK;
    uint32_t room = 2 * wanted + 8;
    VkCommandBuffer *loose = clv_new(host, room * sizeof *loose);
    VkCommandBuffer *list = clv_new(host, room * sizeof *list);
    if (!loose || !list) {
        clv_free(host, loose);
        clv_free(host, list);
        return CLV_ERR_NO_MEMORY;
    }
    if (lead->n_loose)
        memcpy(loose, lead->loose, lead->n_loose * sizeof *loose);
    if (lead->n_list)
        memcpy(list, lead->list, lead->n_list * sizeof *list);
    clv_free(host, lead->loose);
    clv_free(host, lead->list);
    lead->loose = loose;
    lead->list = list;
    lead->room = room;
    return CLV_OK;
}

clv_status vk_flight_init(vk_work *work, vk_flight *flight)
{
    clv_plugin_device *dev = work->dev;
    const VkCommandPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT,
        .queueFamilyIndex = dev->queues[work->index].family};
    flight->work = work;
    VkResult result =
        dev->api.CreateCommandPool(dev->device, &info, NULL, &flight->pool);
    if (!result)
        return make_space(dev, flight, 8);
    flight->pool = VK_NULL_HANDLE;
    return vk_fail(dev, result, "vkCreateCommandPool");
}

void vk_flight_finish(clv_plugin_device *dev, vk_flight *flight)
{
    dev->api.DestroyCommandPool(dev->device, flight->pool, NULL);
    dev->api.DestroyQueryPool(dev->device, flight->queries, NULL);
    clv_free(dev->base.host, flight->loose);
    clv_free(dev->base.host, flight->list);
}

/* The loose command buffer to record into now; NULL: it failed. */
static VkCommandBuffer loose(clv_plugin_device *dev, vk_flight *flight)
{
    static const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
    vk_flight *lead = flight->lead;
    if (lead->open)
        return lead->list[lead->n_list - 1];
    if (lead->used_loose == lead->n_loose) {
        const VkCommandBufferAllocateInfo info = {
            .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
            .commandPool = lead->pool,
            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
            .commandBufferCount = 1};
        VkResult result = dev->api.AllocateCommandBuffers(
            dev->device, &info, &lead->loose[lead->n_loose]);
        if (result) {
            fail(dev, flight, result, "vkAllocateCommandBuffers");
            return NULL;
        }
        lead->n_loose++;
    }
    VkCommandBuffer cb = lead->loose[lead->used_loose++];
    VkResult result = dev->api.BeginCommandBuffer(cb, &begin);
    if (result) {
        fail(dev, flight, result, "vkBeginCommandBuffer");
        return NULL;
    }
    lead->list[lead->n_list++] = cb;
    lead->open = true;
    return cb;
}

/* What only copies has the barrier that its queue may have. */
static void barrier(clv_plugin_device *dev, const vk_flight *flight,
                    VkCommandBuffer cb)
{
    if (flight->work->index)
        vk_record_copy_barrier(dev, cb);
    else
        vk_record_barrier(dev, cb);
}

/* Errors go to the flight. */
static void close_loose(clv_plugin_device *dev, vk_flight *flight)
{
    vk_flight *lead = flight->lead;
    if (!lead->open)
        return;
    lead->open = false;
    VkCommandBuffer cb = lead->list[lead->n_list - 1];
    barrier(dev, flight, cb);
    const VkResult result = dev->api.EndCommandBuffer(cb);
    if (result) {
        lead->broken = result;
        fail(dev, flight, result, "vkEndCommandBuffer");
    }
}

/* A time before or after a command, if the submit is recorded: when all that is
 * before it has ended. */
static void stamp(clv_plugin_device *dev, vk_flight *flight, uint32_t query)
{
    if (!flight->n_stamps)
        return;
    VkCommandBuffer cb = loose(dev, flight);
    if (!cb)
        return;
    if (!query && flight->work->index) /* where a queue may not do it */
        dev->api.ResetQueryPool(dev->device, flight->queries, 0,
                                flight->n_stamps);
    else if (!query)
        dev->api.CmdResetQueryPool(cb, flight->queries, 0, flight->n_stamps);
    dev->api.CmdWriteTimestamp(cb, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT,
                               flight->queries, query);
}

/* A program's own command buffer. Where something is joined, and in flights of
 * which several may be one submit, the loose one: a program has few of its own,
 * and what it has recorded is not to change until the driver has it. */
static void record_run(clv_plugin_device *dev, vk_flight *flight,
                       const clv_command *c, vk_joined joined)
{
    VkCommandBuffer cb = NULL;
    if (flight->waits || joined.signals) {
        cb = loose(dev, flight);
        if (cb)
            flight->status = vk_program_record(c, joined, cb, flight->message);
        return;
    }
    close_loose(dev, flight);
    const vk_stamps stamps = vk_trace_kernels(flight, c);
    if (!flight->status)
        flight->status =
            vk_program_commands(c, flight->value, stamps, &cb, flight->message);
    if (cb)
        flight->lead->list[flight->lead->n_list++] = cb;
}

/* joined: of a RUN. */
static void record(clv_plugin_device *dev, vk_flight *flight, uint32_t i,
                   vk_joined joined)
{
    const clv_command *c = &flight->job->submit.commands[i];
    stamp(dev, flight, 2 * i);
    if (c->kind == CLV_COMMAND_RUN) {
        record_run(dev, flight, c, joined);
    } else {
        VkCommandBuffer cb = loose(dev, flight);
        if (cb) {
            vk_record_move(dev, flight->work, cb, c);
            barrier(dev, flight, cb);
        }
    }
    if (!flight->status)
        stamp(dev, flight, 2 * i + 1);
}

/* What the flight waits for by itself. */
static void record_wait(clv_plugin_device *dev, vk_flight *flight)
{
    VkCommandBuffer cb = flight->status ? NULL : loose(dev, flight);
    if (!cb)
        return;
    vk_device_wait_record(dev, cb, &flight->job->submit);
    barrier(dev, flight, cb);
}

static void record_signals(clv_plugin_device *dev, vk_flight *flight)
{
    VkCommandBuffer cb = flight->status ? NULL : loose(dev, flight);
    if (cb)
        vk_device_signal_record(dev, cb, &flight->job->submit, flight->signals);
}

static bool is_run(const clv_submit *submit, uint32_t i)
{
    return submit->commands[i].kind == CLV_COMMAND_RUN;
}

/* Waits and signals by kernels are in the command buffers of programs beside
 * them. */
static void record_all(clv_plugin_device *dev, vk_flight *flight)
{
    const clv_submit *submit = &flight->job->submit;
    const bool waits = flight->waits && vk_device_wait_is_due(submit);
    const uint32_t first = waits ? vk_device_wait_copies(submit) : 0;
    uint32_t n = submit->n_commands;
    if (flight->signals && vk_device_signal_copies(submit))
        n--;
    const bool any = first < n;
    const bool joins = waits && any && is_run(submit, first);
    const bool joined = flight->signals && any && is_run(submit, n - 1);
    if (waits && !joins)
        record_wait(dev, flight);
    for (uint32_t i = first; i < n && !flight->status; i++) {
        vk_joined with = {.submit = submit, .waits = joins && i == first};
        if (joined && i == n - 1)
            with.signals = flight->signals;
        record(dev, flight, i, with);
    }
    if (flight->signals && !joined)
        record_signals(dev, flight);
}

/* Its last program, whose runs take most of its time; NULL: it only copies. */
static clv_plugin_program *program_of(const vk_flight *flight)
{
    const clv_submit *submit = &flight->job->submit;
    for (uint32_t i = submit->n_commands; i-- > 0;)
        if (submit->commands[i].kind == CLV_COMMAND_RUN)
            return submit->commands[i].program;
    return NULL;
}

/* Whether others may wait for it on their devices. */
static bool is_short(const vk_flight *flight)
{
    const clv_plugin_program *prog = program_of(flight);
    const uint64_t ns =
        prog ? __atomic_load_n(&prog->run_ns, __ATOMIC_RELAXED) : 0;
    return !prog || (ns && ns <= SHORT_NS);
}

static void begin(clv_plugin_device *dev, vk_flight *lead)
{
    lead->used_loose = lead->n_list = 0;
    lead->open = false;
    lead->broken = VK_SUCCESS;
    dev->api.ResetCommandPool(dev->device, lead->pool, 0);
}

void vk_flight_record(vk_flight *flight, vk_flight *lead)
{
    clv_plugin_device *dev = flight->work->dev;
    const clv_submit *submit = &flight->job->submit;
    if (flight == lead)
        begin(dev, lead);
    flight->lead = lead;
    flight->n_stamps = 0;
    if (!submit->n_commands)
        return; /* nothing to run: the finisher's order is all there is */
    flight->value = flight->work->value + 1;
    flight->status = make_space(dev, lead, submit->n_commands);
    if (flight->status) {
        snprintf(flight->message, sizeof flight->message,
                 "no memory to record %u commands",
                 (unsigned)submit->n_commands);
        return;
    }
    flight->signals = is_short(flight) ? vk_device_signals(dev, submit) : 0;
    vk_trace_prepare(dev, flight);
    record_all(dev, flight);
    if (!flight->status)
        vk_device_signal_handed(submit, flight->signals);
}

/* VK_INCOMPLETE: there is nothing to do. */
static VkResult enqueue(clv_plugin_device *dev, vk_work *work, vk_flight *lead)
{
    const vk_point signal = {work->semaphore, work->value + 1};
    if (lead->lead)
        close_loose(dev, lead);
    if (!lead->lead || !lead->n_list)
        return VK_INCOMPLETE;
    VkResult result = lead->broken;
    if (!result)
        result = vk_queue_submit(dev, &dev->queues[work->index], lead->list,
                                 lead->n_list, lead->after, signal);
    if (!result)
        work->value = signal.value;
    return result;
}

void vk_flights_submit(vk_work *work, uint64_t first, uint32_t n)
{
    clv_plugin_device *dev = work->dev;
    vk_flight *lead = &work->flights[first % VK_FLIGHTS];
    const VkResult result = enqueue(dev, work, lead);
    const uint64_t now = clv_queue_now();
    uint64_t run_ns = 0;
    for (uint64_t f = first; f < first + n; f++) {
        vk_flight *flight = &work->flights[f % VK_FLIGHTS];
        const clv_plugin_program *prog = program_of(flight);
        if (flight->value && result && result != VK_INCOMPLETE)
            fail(dev, flight, result, "vkQueueSubmit");
        if (result)
            flight->value = 0;
        flight->begin = now;
        flight->alone = n == 1;
        flight->run_ns = 0;
        if (prog)
            run_ns += __atomic_load_n(&prog->run_ns, __ATOMIC_RELAXED);
    }
    lead->run_ns = run_ns;
}

clv_status vk_flight_wait(const vk_flight *flight, char *message)
{
    vk_work *work = flight->work;
    clv_plugin_device *dev = work->dev;
    if (!flight->value)
        return CLV_OK;
    clv_plugin_program *prog = flight->alone ? program_of(flight) : NULL;
    const uint64_t begin =
        flight->begin > work->end ? flight->begin : work->end;
    VkResult result = vk_await_due(
        dev, (vk_point){work->semaphore, flight->value}, begin, flight->run_ns);
    if (result)
        return vk_explain(dev, result, "vkWaitSemaphores", message);
    work->end = clv_queue_now();
    if (prog)
        __atomic_store_n(&prog->run_ns,
                         vk_learn_run(prog->run_ns, work->end - begin),
                         __ATOMIC_RELAXED);
    vk_trace_collect(dev, flight);
    return CLV_OK;
}
