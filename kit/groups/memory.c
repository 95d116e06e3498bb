/* Memory types, buffers and transfers; memory_import.c has foreign memory. */
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
    kit_plugin *p = kit_subject(k);
    (void)arg;
    KIT_CHECK(k, p->n_mem_types, "the device has no memory types");
    KIT_CHECK(k, p->n_mem_types == p->info.n_mem_types,
              "mem_types gives %u types, clv_device_info.n_mem_types says %u",
              (unsigned)p->n_mem_types, (unsigned)p->info.n_mem_types);
    KIT_CHECK(k, p->info.memory_free <= p->info.memory_size ||
                     !p->info.memory_size,
              "memory_free %llu is above memory_size %llu",
              (unsigned long long)p->info.memory_free,
              (unsigned long long)p->info.memory_size);
    for (uint32_t i = 0; i < p->n_mem_types; i++) {
        const clv_mem_type *t = &p->mem_types[i];
        bool visible = t->flags & CLV_MEM_HOST_VISIBLE;
        KIT_CHECK(k, t->alignment && !(t->alignment & (t->alignment - 1)),
                  "memory type %u has alignment %llu, no power of two", i,
                  (unsigned long long)t->alignment);
        KIT_CHECK(k, !t->import_handles ||
                         (t->import_align &&
                          !(t->import_align & (t->import_align - 1))),
                  "memory type %u has import_align %llu, no power of two", i,
                  (unsigned long long)t->import_align);
        KIT_CHECK(k, visible || !(t->flags & (CLV_MEM_COHERENT |
                                              CLV_MEM_CACHED)),
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
        KIT_CHECK(k, t->import_ns >= 0 && t->import_ns < 1e12 &&
                         t->bandwidth >= 0 && t->bandwidth < 1e15,
                  "memory type %u has import_ns %g, bandwidth %g", i,
                  t->import_ns, t->bandwidth);
        KIT_CHECK(k, !visible || (p->api.buffer_map && p->api.buffer_unmap),
                  "memory type %u is host-visible, buffer_map is NULL", i);
        KIT_CHECK(k, !visible || t->flags & CLV_MEM_COHERENT ||
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
    kit_plugin *p = kit_subject(k);
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
            *(clv_header *)(void *)(room + i * STRIDE) = (clv_header){
                sizeof(clv_mem_type), CLV_STRUCT_MEM_TYPE, NULL};
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
            KIT_CHECK(k, !used || i >= n ||
                             t->flags == p->mem_types[i].flags,
                      "mem_types answers differently the second time");
        }
    }
    free(room);
}

/* Content survives map and unmap, byte for byte, at every size. */
static void run_sizes(kit *k, const void *arg)
{
    static const uint64_t sizes[] = {1,    2,    3,    7,     63,     64,
                                     65,   255,  1000, 4095,  4096,   4097,
                                     65537, 1048577, 3000001};
    kit_plugin *p = kit_subject(k);
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
    kit_plugin *p = kit_subject(k);
    clv_plugin_buffer *buf = NULL;
    static const uint64_t absurd[] = {UINT64_MAX, UINT64_MAX - 7,
                                      UINT64_MAX - 4095, 1ull << 63, 1ull << 60};
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
            p->api.buffer_free(
                try_alloc(k, p, t, type->max_size, true));
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
    kit_plugin *p = kit_subject(k);
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

/* --- transfers ------------------------------------------------------------ */

typedef struct range {
    uint64_t src, dst, size;
} range;

static const range ranges[] = {
    {0, 0, 1},     {0, 0, 4096}, {1, 0, 4095}, {0, 1, 4095},   {3, 5, 1021},
    {64, 64, 128}, {7, 4001, 95}, {4095, 0, 1}, {0, 4095, 1},  {2, 2, 3},
    {13, 17, 0},   {31, 33, 2},  {1, 2, 64},   {4032, 33, 64},
};
enum { SPACE = 4096 };

/* Bytes in device memory of any type, by way of a visible buffer. */
static void move(kit_plugin *p, clv_plugin_buffer *dst, clv_plugin_buffer *src,
                 range r, const char *what)
{
    clv_command c = kit_copy(dst, r.dst, src, r.src, r.size);
    kit_do(p, &c, 1, what);
}

static void check_copies(kit *k, kit_plugin *p, uint32_t from, uint32_t to)
{
    uint8_t data[2 * SPACE], want[SPACE], back[SPACE];
    uint32_t visible = kit_visible_type(p);
    clv_plugin_buffer *a = kit_buffer(p, from, SPACE),
                      *b = kit_buffer(p, to, SPACE),
                      *host = kit_buffer(p, visible, 2 * SPACE);
    for (int i = 0; i < 2 * SPACE; i++)
        data[i] = kit_pattern((uint64_t)i, from * 8 + to);
    kit_bytes_put(p, visible, host, 0, data, sizeof data);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        range r = ranges[i];
        move(p, a, host, (range){0, 0, SPACE}, "a copy to the device");
        move(p, b, host, (range){SPACE, 0, SPACE}, "a copy to the device");
        move(p, b, a, r, "a copy between memory types");
        clv_plugin_buffer *out = kit_buffer(p, visible, SPACE);
        move(p, out, b, (range){0, 0, SPACE}, "a copy from the device");
        kit_bytes_get(p, visible, out, 0, back, SPACE);
        p->api.buffer_free(out);
        memcpy(want, data + SPACE, SPACE);
        memcpy(want + r.dst, data + r.src, r.size);
        for (int j = 0; j < SPACE; j++)
            KIT_CHECK(k, back[j] == want[j],
                      "COPY of %llu bytes from %llu of memory type %u to %llu "
                      "of type %u: byte %d is %#x, not %#x",
                      (unsigned long long)r.size, (unsigned long long)r.src,
                      (unsigned)from, (unsigned long long)r.dst, (unsigned)to,
                      j, back[j], want[j]);
    }
    p->api.buffer_free(a);
    p->api.buffer_free(b);
    p->api.buffer_free(host);
}

static void run_copy(kit *k, const void *arg)
{
    kit_plugin *p = kit_subject(k);
    (void)arg;
    for (uint32_t from = 0; from < p->n_mem_types; from++)
        for (uint32_t to = 0; to < p->n_mem_types; to++)
            check_copies(k, p, from, to);
}

static void run_fill(kit *k, const void *arg)
{
    static const uint32_t pattern = 0x04030201;
    kit_plugin *p = kit_subject(k);
    uint32_t visible = kit_visible_type(p);
    uint8_t back[SPACE];
    (void)arg;
    for (uint32_t t = 0; t < p->n_mem_types; t++) {
        clv_plugin_buffer *buf = kit_buffer(p, t, SPACE),
                          *out = kit_buffer(p, visible, SPACE);
        for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
            range r = ranges[i];
            clv_command c[] = {kit_fill(buf, 0, SPACE, 0x77777777),
                               kit_fill(buf, r.dst, r.size, pattern),
                               kit_copy(out, 0, buf, 0, SPACE)};
            kit_do(p, c, 3, "a fill");
            kit_bytes_get(p, visible, out, 0, back, SPACE);
            for (uint64_t j = 0; j < SPACE; j++) {
                uint64_t at = j - r.dst;
                uint8_t want = j >= r.dst && at < r.size
                                   ? (uint8_t)(pattern >> at % 4 * 8)
                                   : 0x77;
                KIT_CHECK(k, back[j] == want,
                          "FILL of %llu bytes at %llu of memory type %u with "
                          "%#x: byte %llu is %#x, not %#x (the pattern's low "
                          "byte comes first, at dst_offset)",
                          (unsigned long long)r.size,
                          (unsigned long long)r.dst, (unsigned)t,
                          (unsigned)pattern, (unsigned long long)j, back[j],
                          want);
            }
        }
        p->api.buffer_free(buf);
        p->api.buffer_free(out);
    }
}

/* Larger than any staging buffer is likely to be, and of odd length. */
static void run_large(kit *k, const void *arg)
{
    const uint64_t size = (5 << 20) + 3;
    kit_plugin *p = kit_subject(k);
    uint32_t type = kit_visible_type(p);
    uint64_t most = p->mem_types[type].max_size;
    (void)arg;
    if (most && most < size) {
        kit_skip(k, "max_size is %llu bytes", (unsigned long long)most);
        return;
    }
    uint8_t *data = malloc(size), *back = malloc(size);
    KIT_CHECK(k, data && back, "no memory for the case");
    for (uint64_t i = 0; i < size; i++)
        data[i] = kit_pattern(i, 3);
    clv_plugin_buffer *a = kit_buffer(p, type, size),
                      *b = kit_buffer(p, type, size);
    kit_bytes_put(p, type, a, 0, data, size);
    clv_command c[] = {kit_fill(b, 0, size, 0), kit_copy(b, 3, a, 0, size - 3)};
    kit_do(p, c, 2, "a large copy");
    kit_bytes_get(p, type, b, 0, back, size);
    KIT_CHECK(k, !back[0] && !back[1] && !back[2] &&
                     !memcmp(back + 3, data, size - 3),
              "a COPY of %llu bytes to offset 3 brought other bytes",
              (unsigned long long)size - 3);
    p->api.buffer_free(a);
    p->api.buffer_free(b);
    free(data);
    free(back);
}

/* Ranges outside a buffer are refused when they are submitted. */
static void run_bad_ranges(kit *k, const void *arg)
{
    kit_plugin *p = kit_subject(k);
    uint32_t type = kit_visible_type(p);
    clv_plugin_buffer *a = kit_buffer(p, type, 64), *b = kit_buffer(p, type, 32);
    (void)arg;
    const clv_command bad[] = {
        kit_fill(a, 1, 64, 0),         kit_fill(a, 65, 0, 0),
        kit_fill(a, UINT64_MAX, 2, 0), kit_fill(a, 2, UINT64_MAX, 0),
        kit_fill(NULL, 0, 1, 0),       kit_copy(a, 0, NULL, 0, 1),
        kit_copy(NULL, 0, a, 0, 1),    kit_copy(a, 0, b, 0, 33),
        kit_copy(b, 0, a, 0, 33),      kit_copy(a, 0, b, 31, 2),
        kit_copy(a, 63, b, 0, 2),      kit_copy(a, UINT64_MAX, b, 0, 2),
        kit_copy(a, 0, b, UINT64_MAX - 1, 4)};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        kit_expect(k, kit_try_submit(p, &bad[i], 1, NULL, NULL, 0),
                   CLV_ERR_INVALID,
                   "submit of a %s of %llu bytes at %llu, from %llu, with "
                   "buffers of 64 and 32 bytes",
                   bad[i].kind == CLV_COMMAND_FILL ? "FILL" : "COPY",
                   (unsigned long long)bad[i].size,
                   (unsigned long long)bad[i].dst_offset,
                   (unsigned long long)bad[i].src_offset);
    p->api.buffer_free(a);
    p->api.buffer_free(b);
}

/* Many buffers at once, each with bytes of its own. */
static void run_many(kit *k, const void *arg)
{
    enum { N = 500, SIZE = 777 };
    kit_plugin *p = kit_subject(k);
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

static void list(kit_list *l)
{
    const uint32_t sees = KIT_NEEDS_HOST_VISIBLE;
    kit_add(l, KIT_PER_DEVICE, 0, run_types, NULL, "types.sane");
    kit_add(l, KIT_PER_DEVICE, 0, run_types_count, NULL, "types.count");
    kit_add(l, KIT_PER_DEVICE, 0, run_sizes, NULL, "buffers.sizes");
    kit_add(l, KIT_PER_DEVICE, 0, run_limits, NULL, "buffers.limits");
    kit_add(l, KIT_PER_DEVICE, 0, run_map_rules, NULL, "buffers.map");
    kit_add(l, KIT_PER_DEVICE, sees, run_many, NULL, "buffers.many");
    kit_add(l, KIT_PER_DEVICE, sees, run_copy, NULL, "transfers.copy");
    kit_add(l, KIT_PER_DEVICE, sees, run_fill, NULL, "transfers.fill");
    kit_add(l, KIT_PER_DEVICE, sees, run_large, NULL, "transfers.large");
    kit_add(l, KIT_PER_DEVICE, sees, run_bad_ranges, NULL,
            "transfers.bad_ranges");
    memory_list_imports(l);
}

const kit_group kit_group_memory = {
    "memory", "Memory: types, buffers, transfers, imports", list};
