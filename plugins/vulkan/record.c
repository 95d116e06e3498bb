/* Dispatches as command buffers. */
#include "commands.h"
#include "device_wait.h"
#include "program.h"

/* By kinds that there are; how many kinds. */
static uint32_t count_descriptors(const clv_plugin_program *prog,
                                  const gpu_dispatch *dispatches, uint32_t n,
                                  VkDescriptorPoolSize sizes[10])
{
    uint32_t by_storage[10] = {0}, n_sizes = 0; /* 2 * storage + written */
    for (uint32_t i = 0; i < n; i++) {
        const vk_kernel *k = prog->kernels[dispatches[i].kernel];
        for (uint32_t a = 0; a < k->n_args; a++)
            by_storage[2 * k->storage[a] + k->written[a]]++;
    }
    for (uint32_t s = 0; s < 10; s++)
        if (by_storage[s])
            sizes[n_sizes++] = (VkDescriptorPoolSize){
                vk_descriptor_type(s / 2, s % 2), by_storage[s]};
    return n_sizes;
}

/* A set for each dispatch. */
static VkResult make_sets(clv_plugin_program *prog, vk_recording *rec,
                          const gpu_dispatch *dispatches, uint32_t n)
{
    clv_plugin_device *dev = prog->dev;
    VkDescriptorPoolSize sizes[10];
    const uint32_t n_sizes = count_descriptors(prog, dispatches, n, sizes);
    const VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = n,
        .poolSizeCount = n_sizes,
        .pPoolSizes = sizes};
    VkResult result = VK_SUCCESS;
    rec->sets = clv_new(dev->base.host, (n + 1) * sizeof *rec->sets);
    if (!rec->sets)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    if (n)
        result = dev->api.CreateDescriptorPool(dev->device, &pool, NULL,
                                               &rec->descriptors);
    for (uint32_t i = 0; i < n && !result; i++) {
        const VkDescriptorSetAllocateInfo set = {
            .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
            .descriptorPool = rec->descriptors,
            .descriptorSetCount = 1,
            .pSetLayouts = &prog->kernels[dispatches[i].kernel]->set_layout};
        result =
            dev->api.AllocateDescriptorSets(dev->device, &set, &rec->sets[i]);
    }
    return result;
}

VkResult vk_recording_init(clv_plugin_program *prog, vk_recording *rec,
                           const gpu_dispatch *dispatches, uint32_t n)
{
    clv_plugin_device *dev = prog->dev;
    rec->places =
        clv_new(dev->base.host, prog->base.n_tensors * sizeof *rec->places);
    rec->waits =
        clv_new(dev->base.host, (n + UINT64_C(1)) * sizeof *rec->waits);
    if (!rec->places || !rec->waits)
        return VK_ERROR_OUT_OF_HOST_MEMORY;
    if (rec->is_part)
        return VK_SUCCESS;
    VkResult result = vk_make_commands(dev, &rec->pool, &rec->cb);
    if (result || dev->pushes || dev->imports)
        return result;
    return make_sets(prog, rec, dispatches, n);
}

void vk_recording_finish(clv_plugin_program *prog, vk_recording *rec)
{
    clv_plugin_device *dev = prog->dev;
    dev->api.DestroyCommandPool(dev->device, rec->pool, NULL);
    dev->api.DestroyDescriptorPool(dev->device, rec->descriptors, NULL);
    clv_free(dev->base.host, rec->sets);
    clv_free(dev->base.host, rec->places);
    clv_free(dev->base.host, rec->waits);
    memset(rec, 0, sizeof *rec);
}

/* Where an argument begins, and what may be seen from there. */
static vk_place find_arg(const clv_plugin_program *prog, const gpu_arg *arg,
                         const vk_place *places)
{
    vk_place place;
    if (arg->memory == GPU_MEMORY_PRIVATE) {
        const vk_private *p = vk_private_of(prog, arg->index);
        const vk_buffer *buf = vk_buffer_of(p->buffer);
        if (!buf)
            return (vk_place){.image = p};
        place = (vk_place){.buffer = buf->block->buffer,
                           .address = buf->block->address,
                           .begin = buf->offset,
                           .end = buf->offset + buf->base.size,
                           .limit = buf->block->size};
    } else {
        place = places[arg->index];
    }
    place.begin += arg->offset;
    return place;
}

/* Descriptors begin at multiples; an empty tensor may lie at the buffer's end.
 */
static uint64_t aligned_begin(const clv_plugin_program *prog,
                              const vk_place *place)
{
    uint64_t begin = place->begin;
    if (begin > place->limit - 4)
        begin = place->limit - 4;
    return begin & ~(uint64_t)(prog->dev->phys->offset_align - 1);
}

/* What the descriptor of an argument says. */
typedef struct described {
    VkDescriptorBufferInfo buffer;
    VkDescriptorImageInfo image;
    VkBufferView view;
} described;

static void describe_bytes(const clv_plugin_program *prog,
                           const vk_place *place, VkDescriptorBufferInfo *out)
{
    const uint64_t max_range = prog->dev->max_range;
    uint64_t begin = aligned_begin(prog, place);
    uint64_t end = (place->end + 3) & ~(uint64_t)3;
    if (end < begin + 4)
        end = begin + 4;
    if (end > place->limit)
        end = place->limit;
    if (end - begin > max_range)
        end = begin + max_range;
    *out = (VkDescriptorBufferInfo){place->buffer, begin, end - begin};
}

/* What a dispatch's arguments are, as Vulkan wants it. */
typedef struct arguments {
    VkWriteDescriptorSet of[GPU_MAX_BINDINGS];
    described all[GPU_MAX_BINDINGS]; /* that they point to */
} arguments;

/* set: NULL to push them. */
static void describe(const clv_plugin_program *prog, VkDescriptorSet set,
                     const gpu_dispatch *d, const vk_place *places,
                     arguments *out)
{
    const vk_kernel *k = prog->kernels[d->kernel];
    for (uint32_t a = 0; a < k->n_args; a++) {
        vk_place place = find_arg(prog, &d->args[a], places);
        described *all = &out->all[a];
        if (place.image) {
            all->image =
                (VkDescriptorImageInfo){.imageView = place.image->view,
                                        .imageLayout = VK_IMAGE_LAYOUT_GENERAL};
            all->view = place.image->texel_view;
        } else {
            describe_bytes(prog, &place, &all->buffer);
        }
        out->of[a] = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = set,
            .dstBinding = a,
            .descriptorCount = 1,
            .descriptorType = vk_descriptor_type(k->storage[a], k->written[a]),
            .pBufferInfo = &all->buffer,
            .pImageInfo = &all->image,
            .pTexelBufferView = &all->view};
    }
}

/* --- what waits ----------------------------------------------------------- */

#define MAX_TOUCHED (uint32_t) GPU_MAX_ARGS

/* What was touched since the last barrier. */
typedef struct touched {
    uint32_t n;
    struct {
        vk_place place;
        bool written;
    } of[MAX_TOUCHED];
} touched;

static bool clashes(const touched *t, const vk_place *place, bool written)
{
    for (uint32_t i = 0; i < t->n; i++)
        if ((written || t->of[i].written) &&
            t->of[i].place.buffer == place->buffer &&
            t->of[i].place.image == place->image &&
            (place->image || (t->of[i].place.begin < place->end &&
                              place->begin < t->of[i].place.end)))
            return true;
    return false;
}

/* Whether the dispatch needs what is being written, or writes what is being
 * read. */
static bool has_to_wait(const clv_plugin_program *prog, const vk_place *places,
                        const gpu_dispatch *d, touched *t)
{
    uint32_t n_args = prog->kernels[d->kernel]->n_args;
    bool needed = t->n + n_args > MAX_TOUCHED;
    vk_place found[GPU_MAX_ARGS];
    for (uint32_t a = 0; a < n_args; a++) {
        found[a] = find_arg(prog, &d->args[a], places);
        needed = needed || clashes(t, &found[a], d->args[a].written);
    }
    if (needed)
        t->n = 0;
    for (uint32_t a = 0; a < n_args; a++) {
        t->of[t->n].place = found[a];
        t->of[t->n++].written = d->args[a].written;
    }
    return needed;
}

void vk_recording_write(clv_plugin_program *prog, vk_recording *rec,
                        const gpu_dispatch *dispatches, uint32_t n,
                        const vk_place *places)
{
    clv_plugin_device *dev = prog->dev;
    arguments args;
    touched t = {.n = 0};
    memcpy(rec->places, places, prog->base.n_tensors * sizeof *places);
    for (uint32_t i = 0; i < n && rec->sets; i++) {
        const uint32_t n_args = prog->kernels[dispatches[i].kernel]->n_args;
        describe(prog, rec->sets[i], &dispatches[i], places, &args);
        if (n_args)
            dev->api.UpdateDescriptorSets(dev->device, n_args, args.of, 0,
                                          NULL);
    }
    for (uint32_t i = 0; i < n; i++)
        rec->waits[i] = has_to_wait(prog, places, &dispatches[i], &t);
    rec->written = true;
    rec->recorded = false;
}

/* --- commands ------------------------------------------------------------- */

static void bind_args(const clv_plugin_program *prog, const vk_recording *rec,
                      const gpu_dispatch *d, uint32_t i)
{
    const vk_device_api *api = &prog->dev->api;
    const vk_kernel *k = prog->kernels[d->kernel];
    arguments args;
    if (rec->sets) {
        api->CmdBindDescriptorSets(rec->cb, VK_PIPELINE_BIND_POINT_COMPUTE,
                                   k->layout, 0, 1, &rec->sets[i], 0, NULL);
    } else if (k->n_args) {
        describe(prog, VK_NULL_HANDLE, d, rec->places, &args);
        api->CmdPushDescriptorSetKHR(rec->cb, VK_PIPELINE_BIND_POINT_COMPUTE,
                                     k->layout, 0, k->n_args, args.of);
    }
}

static void record_pipeline(const clv_plugin_program *prog,
                            const vk_recording *rec, const gpu_dispatch *d,
                            uint32_t i, const int64_t *symbols,
                            const uint32_t groups[3])
{
    const vk_device_api *api = &prog->dev->api;
    const vk_kernel *k = prog->kernels[d->kernel];
    int32_t ints[GPU_MAX_INTS];
    for (uint32_t a = 0; a < k->n_args; a++) {
        vk_place place = find_arg(prog, &d->args[a], rec->places);
        ints[a] = place.image
                      ? 0
                      : (int32_t)(place.begin - aligned_begin(prog, &place));
    }
    for (uint32_t p = k->n_args; p < k->n_ints; p++)
        ints[p] = (int32_t)gpu_expr_value(&d->params[p - k->n_args], symbols);
    api->CmdBindPipeline(rec->cb, VK_PIPELINE_BIND_POINT_COMPUTE, k->pipeline);
    bind_args(prog, rec, d, i);
    if (k->n_ints)
        api->CmdPushConstants(rec->cb, k->layout, VK_SHADER_STAGE_COMPUTE_BIT,
                              0, 4 * k->n_ints, ints);
    api->CmdDispatch(rec->cb, groups[0], groups[1], groups[2]);
}

/* A param, of which the plugin may give half of a 64-bit value. */
static int32_t param_of(const gpu_expr *expr, const int64_t *symbols,
                        const uint64_t *values)
{
    if (!expr->given)
        return (int32_t)gpu_expr_value(expr, symbols);
    const uint64_t value = values[(expr->given - 1) / 2];
    return (int32_t)(uint32_t)(expr->given % 2 ? value >> 32 : value);
}

/* values: of gpu_exchange. */
static void record_module(const clv_plugin_program *prog,
                          const vk_recording *rec, const gpu_dispatch *d,
                          const int64_t *symbols, const uint32_t groups[3],
                          const uint64_t *values)
{
    const vk_kernel *k = prog->kernels[d->kernel];
    vk_launch launch = {.n_args = k->n_args,
                        .n_params = k->n_ints - k->n_args,
                        .groups = {groups[0], groups[1], groups[2]}};
    for (uint32_t a = 0; a < k->n_args; a++) {
        const vk_place place = find_arg(prog, &d->args[a], rec->places);
        launch.args[a] = place.address + place.begin;
    }
    for (uint32_t p = 0; p < launch.n_params; p++)
        launch.params[p] = param_of(&d->params[p], symbols, values);
    vk_module_launch(prog->dev, rec->cb, &k->module, &launch);
}

static void record_one(clv_plugin_program *prog, const vk_recording *rec,
                       const gpu_dispatch *d, uint32_t i,
                       const int64_t *symbols, const uint64_t *values)
{
    uint32_t groups[3];
    for (uint32_t g = 0; g < 3; g++) {
        groups[g] = (uint32_t)gpu_expr_value(&d->groups[g], symbols);
        if (!groups[g])
            return;
    }
    if (prog->dev->imports)
        record_module(prog, rec, d, symbols, groups, values);
    else
        record_pipeline(prog, rec, d, i, symbols, groups);
}

static void stamp(clv_plugin_program *prog, const vk_recording *rec, uint32_t i)
{
    if (rec->stamps.pool)
        prog->dev->api.CmdWriteTimestamp(
            rec->cb, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, rec->stamps.pool,
            rec->stamps.first + i);
}

/* Whether the dispatch needs what comes with the wait, or waits for others
 * itself: then it waits for all ahead of it. */
static bool ends_head(const clv_plugin_program *prog, const vk_recording *rec,
                      const gpu_dispatch *dispatches, uint32_t i)
{
    const gpu_dispatch *d = &dispatches[i];
    if (rec->waits[i])
        return true;
    for (uint32_t a = 0; a < prog->kernels[d->kernel]->n_args; a++) {
        const vk_place p = find_arg(prog, &d->args[a], rec->places);
        if (!p.image &&
            vk_device_wait_writes(rec->joined.submit, p.buffer, p.begin, p.end))
            return true;
    }
    return false;
}

/* The first dispatch behind the wait. Those ahead of it run beside it. */
static uint32_t find_waiting(const clv_plugin_program *prog,
                             const vk_recording *rec,
                             const gpu_dispatch *dispatches, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && !ends_head(prog, rec, dispatches, i))
        i++;
    return i;
}

/* What kernels do of what is joined, instead of kernels of its own. */
typedef struct exchange {
    uint32_t waiting; /* the first dispatch behind the wait */
    bool receives;    /* it waits itself, and what follows waits for it */
    bool sends;       /* the last one signals itself */
    uint64_t values[GPU_EXCHANGE_VALUES];
} exchange;

static exchange plan_exchange(const clv_plugin_program *prog,
                              const vk_recording *rec,
                              const gpu_dispatch *dispatches, uint32_t n)
{
    const vk_joined *joined = &rec->joined;
    exchange x = {.waiting = n};
    if (joined->waits) {
        x.waiting = find_waiting(prog, rec, dispatches, n);
        x.receives = x.waiting < n && dispatches[x.waiting].exchanges &&
                     vk_device_wait_give(prog->dev, joined->submit, x.values);
    }
    const gpu_dispatch *last = n ? &dispatches[n - 1] : NULL;
    if (joined->signals && last && last->sent) {
        const vk_place from =
            find_arg(prog, &last->args[last->sent - 1], rec->places);
        x.sends = vk_device_signal_give(
            prog->dev, joined->submit, joined->signals,
            from.address + from.begin, last->sent_bytes, x.values);
    }
    return x;
}

/* Of dispatch i. */
static void find_values(const exchange *x, uint32_t i, uint32_t n,
                        uint64_t values[GPU_EXCHANGE_VALUES])
{
    memset(values, 0, GPU_EXCHANGE_VALUES * sizeof *values);
    for (uint32_t v = 0; v < GPU_EXCHANGE_VALUES; v++)
        if (v < GPU_SEND_TO ? x->receives && i == x->waiting
                            : x->sends && i == n - 1)
            values[v] = x->values[v];
}

void vk_recording_add(clv_plugin_program *prog, const vk_recording *rec,
                      const gpu_dispatch *dispatches, uint32_t n,
                      const int64_t *symbols)
{
    clv_plugin_device *dev = prog->dev;
    const exchange x = plan_exchange(prog, rec, dispatches, n);
    if (rec->joined.waits && !x.receives)
        vk_device_wait_record(dev, rec->cb, rec->joined.submit);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t values[GPU_EXCHANGE_VALUES];
        find_values(&x, i, n, values);
        if (i == x.waiting + x.receives || rec->waits[i])
            vk_record_kernel_barrier(dev, rec->cb);
        record_one(prog, rec, &dispatches[i], i, symbols, values);
        stamp(prog, rec, i + 1);
    }
    if (rec->joined.signals && !x.sends) {
        vk_record_kernel_barrier(dev, rec->cb);
        vk_device_signal_record(dev, rec->cb, rec->joined.submit,
                                rec->joined.signals);
    }
    vk_record_barrier(dev, rec->cb);
}

VkResult vk_recording_record(clv_plugin_program *prog, vk_recording *rec,
                             const gpu_dispatch *dispatches, uint32_t n,
                             const int64_t *symbols)
{
    clv_plugin_device *dev = prog->dev;
    const VkCommandBufferBeginInfo begin = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    rec->recorded = false;
    VkResult result = dev->api.ResetCommandPool(dev->device, rec->pool, 0);
    if (!result)
        result = dev->api.BeginCommandBuffer(rec->cb, &begin);
    if (result)
        return result;
    for (uint32_t i = 0; i < prog->code->n_privates; i++)
        if (!prog->code->privates[i].weights ||
            (rec->is_setup && prog->privates.made[i]))
            vk_private_begin(dev, rec->cb, vk_private_of(prog, i));
    if (rec->resets)
        dev->api.CmdResetQueryPool(rec->cb, rec->stamps.pool, 0, rec->resets);
    stamp(prog, rec, 0);
    vk_recording_add(prog, rec, dispatches, n, symbols);
    result = dev->api.EndCommandBuffer(rec->cb);
    if (prog->base.n_symbols && symbols)
        memcpy(rec->symbols, symbols, prog->base.n_symbols * sizeof *symbols);
    rec->recorded = !result;
    return result;
}
