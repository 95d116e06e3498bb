/* Memory types and buffers. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#define TERABYTE (1ull << 40)

/* An allocation that may be refused, with a reason. */
static clv_plugin_buffer *try_alloc(kit *k, kit_plugin *p, uint32_t type,
                                    uint64_t size, bool may_succeed)
{
    clv_plugin_buffer *buf = NULL;
    kit_host_clear(&p->host);
    clv_status status = p->api.buffer_alloc(p->dev, type, size, &buf);
    if (!status && may_succeed)
        return buf;
    KIT_CHECK(k, status == CLV_ERR_LIMIT || status == CLV_ERR_NO_MEMORY,
              "buffer_alloc of %llu bytes of memory type %u (max_size %llu) "
              "answers %d; CLV_ERR_LIMIT or CLV_ERR_NO_MEMORY is right",
              (unsigned long long)size, type,
              (unsigned long long)p->mem_types[type].max_size, (int)status);
    KIT_CHECK(k, p->host.error[0],
              "buffer_alloc of %llu bytes of memory type %u fails without a "
              "message (set_error)",
              (unsigned long long)size, type);
    KIT_CHECK(k, !buf, "a buffer_alloc that failed gives a buffer");
    return NULL;
}

static void run_types(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    (void)arg;
    KIT_CHECK(k, p->n_mem_types, "the device has no memory types");
    KIT_CHECK(k, p->n_mem_types == p->info.n_mem_types,
              "mem_types gives %u types, clv_device_info.n_mem_types says %u",
              (unsigned)p->n_mem_types, (unsigned)p->info.n_mem_types);
    KIT_CHECK(
        k, p->info.memory_free <= p->info.memory_size || !p->info.memory_size,
        "memory_free %llu is above memory_size %llu",
        (unsigned long long)p->info.memory_free,
        (unsigned long long)p->info.memory_size);
    for (uint32_t i = 0; i < p->n_mem_types; i++) {
        const clv_mem_type *t = &p->mem_types[i];
        bool visible = t->flags & CLV_MEM_HOST_VISIBLE;
        KIT_CHECK(k, t->alignment && !(t->alignment & (t->alignment - 1)),
                  "memory type %u has alignment %llu, no power of two", i,
                  (unsigned long long)t->alignment);
        KIT_CHECK(
            k,
            !t->import_handles ||
                (t->import_align && !(t->import_align & (t->import_align - 1))),
            "memory type %u has import_align %llu, no power of two", i,
            (unsigned long long)t->import_align);
        KIT_CHECK(k,
                  visible || !(t->flags & (CLV_MEM_COHERENT | CLV_MEM_CACHED)),
                  "memory type %u has flags %#x: coherent or cached and not "
                  "host-visible",
                  i, (unsigned)t->flags);
        KIT_CHECK(k, t->budget < 64 * TERABYTE && t->max_size < 64 * TERABYTE,
                  "memory type %u has a budget of %llu and a max_size of %llu "
                  "bytes; 0 means unknown",
                  i, (unsigned long long)t->budget,
                  (unsigned long long)t->max_size);
        KIT_CHECK(k, !p->info.memory_size || t->budget <= p->info.memory_size,
                  "memory type %u has a budget of %llu bytes, the device has "
                  "a memory_size of %llu",
                  i, (unsigned long long)t->budget,
                  (unsigned long long)p->info.memory_size);
        KIT_CHECK(k,
                  t->import_ns >= 0 && t->import_ns < 1e12 &&
                      t->bandwidth >= 0 && t->bandwidth < 1e15,
                  "memory type %u has import_ns %g, bandwidth %g", i,
                  t->import_ns, t->bandwidth);
        KIT_CHECK(k, !visible || (p->api.buffer_map && p->api.buffer_unmap),
                  "memory type %u is host-visible, buffer_map is NULL", i);
        KIT_CHECK(k,
                  !visible || t->flags & CLV_MEM_COHERENT ||
                      (p->api.buffer_flush && p->api.buffer_invalidate),
                  "memory type %u is not coherent, buffer_flush or "
                  "buffer_invalidate is NULL",
                  i);
    }
}

/* count and stride as in enumerate. */
static void run_types_count(kit *k, const void *arg)
{
    enum { STRIDE = sizeof(clv_mem_type) + 24 };
    kit_plugin *p = kit_under_test(k);
    uint32_t n = 0;
    (void)arg;
    KIT_OK(k, p->api.mem_types(p->dev, &n, NULL, 0), "mem_types without room");
    KIT_CHECK(k, n == p->n_mem_types, "mem_types says %u without room, %u with",
              (unsigned)n, (unsigned)p->n_mem_types);
    uint8_t *room = malloc((size_t)(n + 1) * STRIDE);
    KIT_CHECK(k, room, "no memory for the case");
    for (uint32_t given = 1; given <= n + 1; given++) {
        memset(room, 0x77, (size_t)(n + 1) * STRIDE);
        for (uint32_t i = 0; i < given; i++)
            *(clv_header *)(void *)(room + i * STRIDE) =
                (clv_header){sizeof(clv_mem_type), CLV_STRUCT_MEM_TYPE, NULL};
        uint32_t count = given;
        KIT_OK(k, p->api.mem_types(p->dev, &count, (void *)room, STRIDE),
               "mem_types with room for %u", given);
        KIT_CHECK(k, count == n, "mem_types with room for %u of %u counts %u",
                  (unsigned)given, (unsigned)n, (unsigned)count);
        for (uint32_t i = 0; i <= n; i++) {
            uint32_t used = i < given && i < n ? sizeof(clv_mem_type)
                            : i < given        ? sizeof(clv_header)
                                               : 0;
            for (uint32_t j = used; j < STRIDE; j++)
                KIT_CHECK(k, room[i * STRIDE + j] == 0x77,
                          "mem_types with room for %u writes byte %u of "
                          "element %u, beyond what it was given",
                          (unsigned)given, (unsigned)j, (unsigned)i);
            const clv_mem_type *t = (const void *)(room + i * STRIDE);
            KIT_CHECK(k, !used || i >= n || t->flags == p->mem_types[i].flags,
                      "mem_types answers differently the second time");
        }
    }
    free(room);
}

/* Content survives map and unmap, byte for byte, at every size. */
static void run_sizes(kit *k, const void *arg)
{
    static const uint64_t sizes[] = {1,    2,    3,     7,       63,
                                     64,   65,   255,   1000,    4095,
                                     4096, 4097, 65537, 1048577, 3000001};
    kit_plugin *p = kit_under_test(k);
    uint8_t *data = malloc(3000001), *back = malloc(3000001);
    (void)arg;
    KIT_CHECK(k, data && back, "no memory for the case");
    for (uint32_t t = 0; t < p->n_mem_types; t++) {
        const clv_mem_type *type = &p->mem_types[t];
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            uint64_t size = sizes[i];
            if (type->max_size && size > type->max_size)
                continue;
            clv_plugin_buffer *buf = kit_buffer(p, t, size);
            if (type->flags & CLV_MEM_HOST_VISIBLE) {
                void *ptr = NULL;
                KIT_OK(k, p->api.buffer_map(buf, CLV_ACCESS_READ, &ptr),
                       "buffer_map of %llu bytes", (unsigned long long)size);
                KIT_CHECK(k, ptr && (uintptr_t)ptr % type->alignment == 0,
                          "a buffer of %llu bytes of memory type %u is mapped "
                          "at %p, its alignment is %llu",
                          (unsigned long long)size, (unsigned)t, ptr,
                          (unsigned long long)type->alignment);
                p->api.buffer_unmap(buf);
                for (uint64_t j = 0; j < size; j++)
                    data[j] = kit_pattern(j, (uint32_t)size);
                kit_bytes_put(p, t, buf, 0, data, size);
                kit_bytes_get(p, t, buf, 0, back, size);
                KIT_CHECK(k, !memcmp(data, back, size),
                          "a buffer of %llu bytes of memory type %u does not "
                          "keep its content between unmap and map",
                          (unsigned long long)size, (unsigned)t);
            }
            p->api.buffer_free(buf);
        }
    }
    free(data);
    free(back);
}

static void run_limits(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    clv_plugin_buffer *buf = NULL;
    static const uint64_t absurd[] = {
        UINT64_MAX, UINT64_MAX - 7, UINT64_MAX - 4095, 1ull << 63, 1ull << 60};
    (void)arg;
    for (uint32_t t = 0; t < p->n_mem_types; t++) {
        const clv_mem_type *type = &p->mem_types[t];
        for (size_t i = 0; i < sizeof absurd / sizeof *absurd; i++)
            try_alloc(k, p, t, absurd[i], false);
        kit_expect(k, p->api.buffer_alloc(p->dev, t, 0, &buf), CLV_ERR_INVALID,
                   "buffer_alloc of 0 bytes");
        if (type->max_size)
            try_alloc(k, p, t, type->max_size + 1, false);
        if (type->max_size && (type->max_size <= 64 << 20 || kit_thorough(k)))
            p->api.buffer_free(try_alloc(k, p, t, type->max_size, true));
        /* And it goes on. */
        p->api.buffer_free(kit_buffer(p, t, 64));
    }
    kit_expect(k, p->api.buffer_alloc(p->dev, p->n_mem_types, 64, &buf),
               CLV_ERR_INVALID, "buffer_alloc of memory type %u of %u",
               (unsigned)p->n_mem_types, (unsigned)p->n_mem_types);
    kit_expect(k, p->api.buffer_alloc(p->dev, UINT32_MAX, 64, &buf),
               CLV_ERR_INVALID, "buffer_alloc of memory type 2^32 - 1");
    KIT_CHECK(k, !buf, "a buffer_alloc that failed gives a buffer");
    p->api.buffer_free(NULL);
}

static void run_map_rules(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    (void)arg;
    for (uint32_t t = 0; t < p->n_mem_types; t++) {
        clv_plugin_buffer *buf = kit_buffer(p, t, 100);
        void *ptr = NULL, *again = NULL;
        if (!(p->mem_types[t].flags & CLV_MEM_HOST_VISIBLE)) {
            if (p->api.buffer_map)
                kit_expect(k, p->api.buffer_map(buf, CLV_ACCESS_READ, &ptr),
                           CLV_ERR_UNSUPPORTED,
                           "buffer_map of memory type %u, which is not "
                           "host-visible",
                           (unsigned)t);
            p->api.buffer_free(buf);
            continue;
        }
        const uint32_t both = CLV_ACCESS_READ | CLV_ACCESS_WRITE;
        KIT_OK(k, p->api.buffer_map(buf, both, &ptr),
               "buffer_map for reading and writing");
        memset(ptr, 9, 100);
        if (!(p->mem_types[t].flags & CLV_MEM_COHERENT)) {
            KIT_OK(k, p->api.buffer_flush(buf, 0, 100), "buffer_flush");
            KIT_OK(k, p->api.buffer_flush(buf, 100, 0),
                   "buffer_flush of nothing at the end");
            kit_expect(k, p->api.buffer_flush(buf, 1, 100), CLV_ERR_INVALID,
                       "buffer_flush past the buffer's end");
            kit_expect(k, p->api.buffer_invalidate(buf, UINT64_MAX, 2),
                       CLV_ERR_INVALID,
                       "buffer_invalidate of a range that overflows");
        }
        p->api.buffer_unmap(buf);
        KIT_OK(k, p->api.buffer_map(buf, CLV_ACCESS_READ, &again),
               "a second buffer_map");
        KIT_CHECK(k, *(uint8_t *)again == 9, "unmap and map lost the content");
        p->api.buffer_unmap(buf);
        p->api.buffer_free(buf);
    }
}

/* Many buffers at once, each with bytes of its own. */
static void run_many(kit *k, const void *arg)
{
    enum { N = 500, SIZE = 777 };
    kit_plugin *p = kit_under_test(k);
    uint32_t type = kit_visible_type(p);
    clv_plugin_buffer *bufs[N];
    uint8_t data[SIZE], back[SIZE];
    (void)arg;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            bufs[i] = kit_buffer(p, type, SIZE);
            memset(data, i * 7 + round, SIZE);
            kit_bytes_put(p, type, bufs[i], 0, data, SIZE);
        }
        for (int i = 0; i < N; i++) {
            int at = (i * 211 + 5) % N; /* freed in another order */
            memset(data, at * 7 + round, SIZE);
            kit_bytes_get(p, type, bufs[at], 0, back, SIZE);
            KIT_CHECK(k, !memcmp(data, back, SIZE),
                      "buffer %d of %d does not keep its content", at, N);
            p->api.buffer_free(bufs[at]);
        }
    }
}

static void check_bytes(kit_plugin *p, uint32_t type, clv_plugin_buffer *buf,
                        uint64_t size, uint8_t byte)
{
    uint8_t *back = malloc(size);
    uint64_t i = 0;
    KIT_CHECK(p->k, back, "no memory for the case");
    kit_bytes_get(p, type, buf, 0, back, size);
    while (i < size && back[i] == byte)
        i++;
    KIT_CHECK(p->k, i == size,
              "byte %llu of a buffer of %llu is %u, not %u, while others come "
              "and go",
              (unsigned long long)i, (unsigned long long)size, back[i], byte);
    free(back);
}

/* Buffers of all sizes that come and go in any order. */
static void run_mixed(kit *k, const void *arg)
{
    enum { N = 40, STEPS = 800 };
    kit_plugin *p = kit_under_test(k);
    uint32_t type = kit_visible_type(p);
    clv_plugin_buffer *bufs[N] = {NULL};
    uint64_t sizes[N];
    (void)arg;
    for (uint32_t i = 0; i < STEPS + N; i++) {
        const uint32_t at = i < STEPS ? kit_random_below(k, N) : i - STEPS;
        const uint8_t byte = (uint8_t)(at * 5 + 1);
        if (bufs[at]) {
            check_bytes(p, type, bufs[at], sizes[at], byte);
            p->api.buffer_free(bufs[at]);
            bufs[at] = NULL;
        } else if (i < STEPS) {
            sizes[at] = 1 + kit_random_below(k, 16u << kit_random_below(k, 12));
            uint8_t *data = malloc(sizes[at]);
            KIT_CHECK(k, data, "no memory for the case");
            memset(data, byte, sizes[at]);
            bufs[at] = kit_buffer(p, type, sizes[at]);
            kit_bytes_put(p, type, bufs[at], 0, data, sizes[at]);
            free(data);
        }
    }
}

static void list(kit_list *l)
{
    const uint32_t sees = KIT_NEEDS_HOST_VISIBLE;
    kit_add(l, KIT_PER_DEVICE, 0, run_types, NULL, "types.sane");
    kit_add(l, KIT_PER_DEVICE, 0, run_types_count, NULL, "types.count");
    kit_add(l, KIT_PER_DEVICE, 0, run_sizes, NULL, "buffers.sizes");
    kit_add(l, KIT_PER_DEVICE, 0, run_limits, NULL, "buffers.limits");
    kit_add(l, KIT_PER_DEVICE, 0, run_map_rules, NULL, "buffers.map");
    kit_add(l, KIT_PER_DEVICE, sees, run_many, NULL, "buffers.many");
    kit_add(l, KIT_PER_DEVICE, sees, run_mixed, NULL, "buffers.mixed");
    memory_list_transfers(l);
    memory_list_imports(l);
}

const kit_group kit_group_memory = {
    "memory", "Memory: types, buffers, transfers, imports", list};
