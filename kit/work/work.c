#include "work.h"

#include <string.h>
#include <time.h>

void kit_sleep(uint64_t ns)
{
    nanosleep(&(struct timespec){(time_t)(ns / 1000000000u),
                                 (long)(ns % 1000000000u)},
              NULL);
}

/* --- timelines ------------------------------------------------------------ */

clv_plugin_timeline *kit_timeline(kit_plugin *p, uint64_t value)
{
    clv_plugin_timeline *tl = NULL;
    KIT_OK(p->k, p->api.timeline_create(p->dev, value, &tl), "timeline_create");
    KIT_CHECK(p->k, tl, "timeline_create answers OK and gives no timeline");
    return tl;
}

clv_timeline_info kit_query(kit_plugin *p, clv_plugin_timeline *tl)
{
    clv_timeline_info info =
        CLV_INIT(clv_timeline_info, CLV_STRUCT_TIMELINE_INFO);
    KIT_OK(p->k, p->api.timeline_query(tl, &info), "timeline_query");
    KIT_CHECK(
        p->k, info.flag && (uintptr_t)info.flag % 64 == 0,
        "the flag word lies at %p; it must be alone on its cache line, at "
        "a multiple of 64 (clv_timeline_info.flag)",
        (const void *)info.flag);
    KIT_CHECK(p->k, !(info.value & CLV_FLAG_FAILED),
              "timeline_query gives the value %#llx; values stay below 2^63",
              (unsigned long long)info.value);
    KIT_CHECK(p->k, memchr(info.message, 0, sizeof info.message),
              "timeline_query's message does not end within its %zu bytes",
              sizeof info.message);
    /* Read after the answer: it may have moved on, never back. */
    uint64_t word = __atomic_load_n(info.flag, __ATOMIC_ACQUIRE);
    KIT_CHECK(p->k, (word & ~CLV_FLAG_FAILED) >= info.value,
              "the flag word says %#llx after timeline_query said %llu; it "
              "repeats the value",
              (unsigned long long)word, (unsigned long long)info.value);
    KIT_CHECK(p->k, !info.status || word & CLV_FLAG_FAILED,
              "the timeline has failed with %d, the top bit of its flag word "
              "is not set",
              (int)info.status);
    return info;
}

clv_status kit_wait_for(kit_plugin *p, clv_plugin_timeline *tl, uint64_t value,
                        uint64_t timeout_ns)
{
    if (!(p->info.flags & CLV_DEVICE_NEEDS_PROGRESS))
        return p->api.timeline_wait(tl, value, 20000, timeout_ns);
    uint64_t end = kit_now() + timeout_ns;
    for (;;) {
        clv_status status = p->api.progress(p->dev);
        if (status)
            return status;
        uint64_t now = kit_now(), left = now < end ? end - now : 0;
        uint64_t step = left < KIT_MS ? left : KIT_MS;
        status = p->api.timeline_wait(tl, value, 0, step);
        if (status != CLV_ERR_TIMEOUT || !left)
            return status;
    }
}

void kit_await(kit_plugin *p, clv_plugin_timeline *tl, uint64_t value,
               const char *what)
{
    KIT_OK(p->k, kit_wait_for(p, tl, value, KIT_PATIENCE_NS), "waiting for %s",
           what);
}

/* --- buffers -------------------------------------------------------------- */

uint32_t kit_visible_type(kit_plugin *p)
{
    uint32_t type = 0;
    KIT_CHECK(p->k, kit_mem_type(p, CLV_MEM_HOST_VISIBLE, 0, &type),
              "the device has no host-visible memory");
    return type;
}

clv_plugin_buffer *kit_buffer(kit_plugin *p, uint32_t type, uint64_t size)
{
    clv_plugin_buffer *buf = NULL;
    KIT_OK(p->k, p->api.buffer_alloc(p->dev, type, size, &buf),
           "buffer_alloc of %llu bytes of memory type %u",
           (unsigned long long)size, (unsigned)type);
    KIT_CHECK(p->k, buf, "buffer_alloc answers OK and gives no buffer");
    return buf;
}

static bool is_coherent(const kit_plugin *p, uint32_t type)
{
    return p->mem_types[type].flags & CLV_MEM_COHERENT;
}

void kit_bytes_put(kit_plugin *p, uint32_t type, clv_plugin_buffer *buf,
                   uint64_t offset, const void *data, uint64_t size)
{
    void *ptr = NULL;
    KIT_OK(p->k, p->api.buffer_map(buf, CLV_ACCESS_WRITE, &ptr),
           "buffer_map for writing");
    memcpy((char *)ptr + offset, data, size);
    if (!is_coherent(p, type))
        KIT_OK(p->k, p->api.buffer_flush(buf, offset, size), "buffer_flush");
    p->api.buffer_unmap(buf);
}

void kit_bytes_get(kit_plugin *p, uint32_t type, clv_plugin_buffer *buf,
                   uint64_t offset, void *data, uint64_t size)
{
    void *ptr = NULL;
    KIT_OK(p->k, p->api.buffer_map(buf, CLV_ACCESS_READ, &ptr),
           "buffer_map for reading");
    if (!is_coherent(p, type))
        KIT_OK(p->k, p->api.buffer_invalidate(buf, offset, size),
               "buffer_invalidate");
    memcpy(data, (const char *)ptr + offset, size);
    p->api.buffer_unmap(buf);
}

uint8_t kit_pattern(uint64_t i, uint32_t seed)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15u + seed * 0xc2b2ae3d27d4eb4fu;
    return (uint8_t)((x ^ x >> 29) >> 24);
}

clv_import kit_host_import(void *pointer, uint64_t size, uint32_t access)
{
    return (clv_import){.header = {sizeof(clv_import), CLV_STRUCT_IMPORT, NULL},
                        .handle_type = CLV_HANDLE_HOST_POINTER,
                        .access = access,
                        .pointer = pointer,
                        .fd = -1,
                        .size = size};
}

/* --- submits -------------------------------------------------------------- */

clv_command kit_fill(clv_plugin_buffer *dst, uint64_t offset, uint64_t size,
                     uint32_t pattern)
{
    return (clv_command){
        .header = {sizeof(clv_command), CLV_STRUCT_COMMAND, NULL},
        .kind = CLV_COMMAND_FILL,
        .dst = dst,
        .dst_offset = offset,
        .size = size,
        .pattern = pattern};
}

clv_command kit_long_fill(kit_plugin *p)
{
    const uint64_t wanted_ns = 5 * KIT_MS, most = 32u << 20;
    const uint32_t type = kit_visible_type(p);
    uint64_t size = 64u << 10;
    for (;;) {
        clv_plugin_buffer *buf = kit_buffer(p, type, size);
        clv_command fill = kit_fill(buf, 0, size, 0x01020304);
        uint64_t best_ns = UINT64_MAX; /* others are at work, too */
        for (int i = 0; i < 4 && best_ns >= wanted_ns; i++) {
            uint64_t begin = kit_now();
            kit_do(p, &fill, 1, "a fill");
            uint64_t ns = kit_now() - begin;
            best_ns = ns < best_ns ? ns : best_ns;
        }
        if (size == most || best_ns >= wanted_ns)
            return fill;
        p->api.buffer_free(buf);
        size *= 2;
    }
}

clv_command kit_copy(clv_plugin_buffer *dst, uint64_t dst_offset,
                     clv_plugin_buffer *src, uint64_t src_offset, uint64_t size)
{
    return (clv_command){
        .header = {sizeof(clv_command), CLV_STRUCT_COMMAND, NULL},
        .kind = CLV_COMMAND_COPY,
        .src = src,
        .dst = dst,
        .src_offset = src_offset,
        .dst_offset = dst_offset,
        .size = size};
}

clv_timeline_point kit_point(clv_plugin_timeline *tl, uint64_t value)
{
    return (clv_timeline_point){.timeline = tl, .value = value};
}

clv_status kit_submit_to(kit_plugin *p, uint32_t queue,
                         const clv_command *commands, uint32_t n,
                         const clv_timeline_point *wait,
                         const clv_timeline_point *signal, uint64_t correlation)
{
    clv_timeline_point points[2];
    memset(points, 0, sizeof points);
    if (wait)
        points[0] = *wait;
    if (signal)
        points[1] = *signal;
    clv_submit s = {.header = {sizeof s, CLV_STRUCT_SUBMIT, NULL},
                    .commands = commands,
                    .waits = &points[0],
                    .signals = &points[1],
                    .n_commands = n,
                    .command_stride = sizeof *commands,
                    .n_waits = wait != NULL,
                    .n_signals = signal != NULL,
                    .correlation = correlation,
                    .queue = queue};
    clv_status status = p->api.submit(p->dev, &s);
    /* Only read during the call. */
    memset(points, 0xdd, sizeof points);
    memset(&s, 0xdd, sizeof s);
    return status;
}

clv_status kit_try_submit(kit_plugin *p, const clv_command *commands,
                          uint32_t n, const clv_timeline_point *wait,
                          const clv_timeline_point *signal,
                          uint64_t correlation)
{
    return kit_submit_to(p, 0, commands, n, wait, signal, correlation);
}

void kit_do(kit_plugin *p, const clv_command *commands, uint32_t n,
            const char *what)
{
    clv_plugin_timeline *tl = kit_timeline(p, 0);
    clv_timeline_point done = kit_point(tl, 1);
    KIT_OK(p->k, kit_try_submit(p, commands, n, NULL, &done, 0), "submit of %s",
           what);
    kit_await(p, tl, 1, what);
    p->api.timeline_destroy(tl);
}
