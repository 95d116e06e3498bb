#include "device_wait.h"

#include "memory.h"
#include "module.h"
#include "timelines.h"

#include <kernels_templates.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define ITEMS 1024       /* of a group, as the kernels say */
#define SPAN (32u << 10) /* bytes that a group of wait_and_fetch has */
#define UNIT 16          /* bytes that copies are of whole multiples of */
#define LINE 128         /* of the cache */
#define LARGEST ((uint64_t)256 << 10) /* of copies that kernels make */

struct vk_device_wait {
    pthread_mutex_t lock; /* of what follows */
    bool tried, made;     /* the kernels */
    int claim;            /* socket whose name is the device's; -1: none */
    vk_module fetch, store;
    vk_block *pages[VK_MAX_PAGES]; /* of timelines, imported */
};

/* ------------------------------------------------------------------------ */
/* Start and stop                                                            */

/* A type that host pointers are imported into; dev->types.n: there is none. */
static uint32_t import_type(const clv_plugin_device *dev)
{
    uint32_t i = 0;
    while (i < dev->types.n && !dev->types.type[i].import_mask)
        i++;
    return i;
}

clv_status vk_device_wait_start(clv_plugin_device *dev)
{
    const clv_host_api *host = dev->base.host;
    if (!(dev->phys->info.flags & CLV_DEVICE_PEER_WAIT) || !dev->imports ||
        import_type(dev) == dev->types.n)
        return CLV_OK;
    dev->device_wait = clv_new(host, sizeof *dev->device_wait);
    if (!dev->device_wait)
        return CLV_ERR_NO_MEMORY;
    dev->device_wait->claim = -1;
    pthread_mutex_init(&dev->device_wait->lock, NULL);
    return CLV_OK;
}

void vk_device_wait_stop(clv_plugin_device *dev)
{
    struct vk_device_wait *self = dev->device_wait;
    if (!self)
        return;
    dev->device_wait = NULL;
    if (self->claim >= 0)
        close(self->claim);
    vk_module_destroy(dev, &self->fetch);
    vk_module_destroy(dev, &self->store);
    for (uint32_t i = 0; i < VK_MAX_PAGES; i++)
        if (self->pages[i])
            vk_block_destroy(dev, self->pages[i]);
    pthread_mutex_destroy(&self->lock);
    clv_free(dev->base.host, self);
}

/* ------------------------------------------------------------------------ */
/* Whether                                                                   */

/* A socket by the device's name, which one process can have, until it ends; -1:
 * another has it. Drivers do not interrupt a kernel that waits for some
 * seconds. Two processes might each have one on a device that the other waits
 * for. */
static int claim(const clv_plugin_device *dev)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const uint8_t *uuid = dev->phys->info.uuid;
    char *to = name.sun_path + 1; /* no file */
    to += sprintf(to, "cleave.vulkan.waits.");
    for (uint32_t i = 0; i < sizeof dev->phys->info.uuid; i++)
        to += sprintf(to, "%02x", uuid[i]);
    const int s = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (s < 0 ||
        !bind(s, (struct sockaddr *)&name, (socklen_t)(to - (char *)&name)))
        return s;
    close(s);
    return -1;
}

static clv_status make_kernels(clv_plugin_device *dev)
{
    static const uint32_t local[3] = {ITEMS, 1, 1};
    struct vk_device_wait *self = dev->device_wait;
    CLV_TRY(vk_module_make(dev, "wait_and_fetch", gpu_template_wait_and_fetch,
                           local, &self->fetch));
    return vk_module_make(dev, "store_and_signal",
                          gpu_template_store_and_signal, local, &self->store);
}

/* With the lock held: the host waits from now on, for timelines of new pages.
 */
static void give_up(clv_plugin_device *dev, const char *why)
{
    dev->device_wait->made = false;
    clv_log(dev->base.host, CLV_LOG_WARN,
            "%s: the host waits for other devices, which is slower, since %s; "
            "vulkan.waits=host leaves this out",
            dev->label, why);
}

/* With the lock held: at the first call, for which some wait, makes them. */
static bool has_kernels(clv_plugin_device *dev)
{
    struct vk_device_wait *self = dev->device_wait;
    if (self->tried)
        return self->made;
    self->tried = true;
    self->claim = claim(dev);
    self->made = self->claim >= 0 && !make_kernels(dev);
    if (self->claim < 0)
        give_up(dev, "another process does so without the host");
    else if (!self->made)
        give_up(dev, "the driver does not take the kernels for it");
    else
        clv_log(dev->base.host, CLV_LOG_INFO,
                "%s: waits for other devices without the host", dev->label);
    return self->made;
}

/* With the lock held; NULL: it cannot be had. */
static const vk_block *get_page(clv_plugin_device *dev, uint32_t page)
{
    struct vk_device_wait *self = dev->device_wait;
    vk_block **block = &self->pages[page];
    if (*block || !has_kernels(dev))
        return *block; /* what was found once stays, also for waits under way */
    if (vk_block_create(dev, import_type(dev), VK_PAGE_SIZE,
                        dev->inst->timelines[page].memory, block)) {
        *block = NULL;
        give_up(dev, "the driver does not import the host's memory");
    }
    return *block;
}

/* Where the device sees what the timeline has reached; 0: nowhere. */
static uint64_t address_of(clv_plugin_device *dev, const uint64_t *flag)
{
    uint32_t page;
    const vk_timeline *tl = vk_timeline_find(dev->inst, flag, &page);
    if (!tl)
        return 0;
    pthread_mutex_lock(&dev->device_wait->lock);
    const vk_block *block = get_page(dev, page);
    pthread_mutex_unlock(&dev->device_wait->lock);
    return block
               ? block->address + (uint64_t)((const char *)&tl->reached -
                                             dev->inst->timelines[page].memory)
               : 0;
}

static bool is_host(const vk_buffer *buf)
{
    return !(buf->dev->types.type[buf->block->type].flags &
             CLV_MEM_DEVICE_LOCAL);
}

/* Between memory of the device and the host's, of whole units. */
static bool is_small_copy(const clv_command *c)
{
    if (c->kind != CLV_COMMAND_COPY || clv_copy_rows(c) != 1)
        return false;
    const vk_buffer *src = vk_buffer_of(c->src), *dst = vk_buffer_of(c->dst);
    return c->size && c->size <= LARGEST && is_host(src) != is_host(dst) &&
           !((src->offset + c->src_offset) % UNIT) &&
           !((dst->offset + c->dst_offset) % UNIT) && !(c->size % UNIT);
}

static bool is_fetched(const clv_command *c)
{
    return is_small_copy(c) && is_host(vk_buffer_of(c->src));
}

static bool reads_host(const clv_command *c)
{
    if (c->kind == CLV_COMMAND_COPY)
        return is_host(vk_buffer_of(c->src));
    for (uint32_t i = 0; c->kind == CLV_COMMAND_RUN && i < c->n_bindings; i++)
        if (is_host(vk_buffer_of(c->bindings[i].buffer)))
            return true;
    return false;
}

uint32_t vk_device_wait_copies(const clv_submit *submit)
{
    uint32_t n = 0;
    while (n < submit->n_commands && is_fetched(&submit->commands[n]))
        n++;
    return n;
}

/* Recorded submits show what copies take, without waits. */
static bool may_have_kernels(const clv_plugin_device *dev,
                             const clv_submit *submit)
{
    return dev->device_wait && !submit->queue && !submit->correlation &&
           submit->n_commands;
}

/* With a mark on the timelines of other devices. */
static bool finds_all(clv_plugin_device *dev, const clv_submit *submit)
{
    uint32_t n = 0, page;
    for (uint32_t i = 0; i < submit->n_waits; i++) {
        const clv_timeline_point *point = &submit->waits[i];
        if (point->timeline)
            continue;
        if (++n > VK_MAX_SIGNALS || !address_of(dev, point->flag))
            return false;
        __atomic_store_n(
            &vk_timeline_find(dev->inst, point->flag, &page)->watched, 1,
            __ATOMIC_RELAXED);
    }
    return n;
}

bool vk_device_wait_takes(clv_plugin_device *dev, const clv_submit *submit)
{
    if (!may_have_kernels(dev, submit))
        return false;
    for (uint32_t i = vk_device_wait_copies(submit); i < submit->n_commands;
         i++)
        if (reads_host(&submit->commands[i]))
            return false;
    return finds_all(dev, submit);
}

static bool is_open(const clv_timeline_point *point)
{
    return !point->timeline && clv_timeline_word(point->flag) < point->value;
}

bool vk_device_wait_is_due(const clv_submit *submit)
{
    for (uint32_t i = 0; i < submit->n_waits; i++)
        if (is_open(&submit->waits[i]))
            return true;
    return false;
}

bool vk_device_wait_is_ahead(const clv_plugin_device *dev,
                             const clv_timeline_point *point)
{
    uint32_t page;
    const vk_timeline *tl = vk_timeline_find(dev->inst, point->flag, &page);
    return tl && __atomic_load_n(&tl->handed, __ATOMIC_ACQUIRE) >= point->value;
}

bool vk_device_wait_may_begin(const clv_plugin_device *dev,
                              const clv_submit *submit)
{
    for (uint32_t i = 0; i < submit->n_waits; i++)
        if (is_open(&submit->waits[i]) &&
            !vk_device_wait_is_ahead(dev, &submit->waits[i]))
            return false;
    return true;
}

uint32_t vk_device_signals(clv_plugin_device *dev, const clv_submit *submit)
{
    uint32_t bits = 0, n = 0, page;
    if (!may_have_kernels(dev, submit))
        return 0;
    for (uint32_t i = 0; i < submit->n_signals && i < 32; i++) {
        const uint64_t *flag = &submit->signals[i].timeline->word;
        const vk_timeline *tl = vk_timeline_find(dev->inst, flag, &page);
        if (tl && __atomic_load_n(&tl->watched, __ATOMIC_RELAXED) &&
            n < VK_MAX_SIGNALS && address_of(dev, flag)) {
            bits |= 1u << i;
            n++;
        }
    }
    return bits;
}

/* ------------------------------------------------------------------------ */
/* Recording                                                                 */

static uint64_t place_of(const clv_plugin_buffer *base, uint64_t offset)
{
    const vk_buffer *buf = vk_buffer_of(base);
    return buf->block->address + buf->offset + offset;
}

/* Of a copy, or NULL: to and from, then what is waited for or stored; its
 * bytes, how many signals, and these as two halves. */
static vk_launch begin(const clv_command *copy)
{
    vk_launch launch = {.n_args = 2 + VK_MAX_SIGNALS,
                        .n_params = 2 + 2 * VK_MAX_SIGNALS,
                        .groups = {1, 1, 1}};
    if (copy) {
        launch.args[0] = place_of(copy->dst, copy->dst_offset);
        launch.args[1] = place_of(copy->src, copy->src_offset);
        launch.params[0] = (int32_t)copy->size;
    }
    return launch;
}

static void add_signal(clv_plugin_device *dev, vk_launch *launch,
                       const uint64_t *flag, uint64_t value)
{
    const uint32_t i = (uint32_t)launch->params[1]++;
    launch->args[2 + i] = address_of(dev, flag);
    launch->params[2 + 2 * i] = (int32_t)(uint32_t)(value >> 32);
    launch->params[3 + 2 * i] = (int32_t)(uint32_t)value;
}

/* Those that are over meanwhile need no look by the device. */
static void add_waits(clv_plugin_device *dev, vk_launch *launch,
                      const clv_submit *submit)
{
    for (uint32_t i = 0; i < submit->n_waits; i++)
        if (is_open(&submit->waits[i]))
            add_signal(dev, launch, submit->waits[i].flag,
                       submit->waits[i].value);
}

/* From the first line of the source on. */
static uint32_t fetch_groups(const vk_launch *launch)
{
    const uint64_t bytes = launch->args[1] % LINE + (uint64_t)launch->params[0];
    return bytes ? (uint32_t)((bytes + SPAN - 1) / SPAN) : 1;
}

bool vk_device_wait_writes(const clv_submit *submit, VkBuffer buffer,
                           uint64_t begin, uint64_t end)
{
    for (uint32_t i = 0; i < vk_device_wait_copies(submit); i++) {
        const clv_command *c = &submit->commands[i];
        const vk_buffer *dst = vk_buffer_of(c->dst);
        const uint64_t at = dst->offset + c->dst_offset;
        if (dst->block->buffer == buffer && at < end && begin < at + c->size)
            return true;
    }
    return false;
}

static void fetch(clv_plugin_device *dev, VkCommandBuffer cb, vk_launch *launch)
{
    launch->groups[0] = fetch_groups(launch);
    vk_module_launch(dev, cb, &dev->device_wait->fetch, launch);
}

/* The first copy comes with the words, if one group makes it: only one may look
 * at these. */
void vk_device_wait_record(clv_plugin_device *dev, VkCommandBuffer cb,
                           const clv_submit *submit)
{
    const uint32_t n = vk_device_wait_copies(submit);
    uint32_t with = 0;
    vk_launch launch = begin(n ? &submit->commands[0] : NULL);
    if (n && fetch_groups(&launch) == 1)
        with = 1;
    else
        launch = begin(NULL);
    add_waits(dev, &launch, submit);
    fetch(dev, cb, &launch);
    if (n > with)
        vk_record_kernel_barrier(dev, cb);
    for (uint32_t i = with; i < n; i++) {
        launch = begin(&submit->commands[i]);
        fetch(dev, cb, &launch);
    }
}

/* The one that is due; NULL: there are more, or none. */
static const clv_timeline_point *only_wait(const clv_submit *submit)
{
    const clv_timeline_point *only = NULL;
    for (uint32_t i = 0; i < submit->n_waits; i++) {
        if (!is_open(&submit->waits[i]))
            continue;
        if (only)
            return NULL;
        only = &submit->waits[i];
    }
    return only;
}

bool vk_device_wait_give(clv_plugin_device *dev, const clv_submit *submit,
                         uint64_t values[GPU_EXCHANGE_VALUES])
{
    const uint32_t n = vk_device_wait_copies(submit);
    const clv_timeline_point *wait = only_wait(submit);
    const vk_launch copy = begin(n ? &submit->commands[0] : NULL);
    if (!wait || n > 1 || copy.args[1] % LINE || copy.params[0] % LINE)
        return false;
    values[GPU_RECEIVE_TO] = copy.args[0];
    values[GPU_RECEIVE_FROM] = copy.args[1];
    values[GPU_RECEIVE_BYTES] = (uint64_t)copy.params[0];
    values[GPU_RECEIVE_WORD] = address_of(dev, wait->flag);
    values[GPU_RECEIVE_VALUE] = wait->value;
    return true;
}

bool vk_device_signal_copies(const clv_submit *submit)
{
    const clv_command *last = &submit->commands[submit->n_commands - 1];
    return is_small_copy(last) && is_host(vk_buffer_of(last->dst));
}

void vk_device_signal_record(clv_plugin_device *dev, VkCommandBuffer cb,
                             const clv_submit *submit, uint32_t signals)
{
    vk_launch launch = begin(vk_device_signal_copies(submit)
                                 ? &submit->commands[submit->n_commands - 1]
                                 : NULL);
    for (uint32_t i = 0; signals >> i; i++)
        if (signals >> i & 1)
            add_signal(dev, &launch, &submit->signals[i].timeline->word,
                       submit->signals[i].value);
    vk_module_launch(dev, cb, &dev->device_wait->store, &launch);
}

bool vk_device_signal_give(clv_plugin_device *dev, const clv_submit *submit,
                           uint32_t signals, uint64_t from, uint64_t bytes,
                           uint64_t values[GPU_EXCHANGE_VALUES])
{
    if (!vk_device_signal_copies(submit) || signals & (signals - 1))
        return false;
    const vk_launch copy = begin(&submit->commands[submit->n_commands - 1]);
    const clv_timeline_point *point = submit->signals;
    if (copy.args[1] != from || (uint64_t)copy.params[0] != bytes)
        return false;
    while (!(signals & 1)) {
        signals >>= 1;
        point++;
    }
    values[GPU_SEND_TO] = copy.args[0];
    values[GPU_SEND_WORD] = address_of(dev, &point->timeline->word);
    values[GPU_SEND_VALUE] = point->value;
    return true;
}

void vk_device_signal_handed(const clv_submit *submit, uint32_t signals)
{
    for (uint32_t i = 0; signals >> i; i++)
        if (signals >> i & 1) {
            vk_timeline *tl = (vk_timeline *)submit->signals[i].timeline;
            __atomic_store_n(&tl->handed, submit->signals[i].value,
                             __ATOMIC_RELEASE);
        }
}
