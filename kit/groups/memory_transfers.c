/* Copies and fills, at any offset, between any types of memory. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct range {
    uint64_t src, dst, size;
} range;

static const range ranges[] = {
    {0, 0, 1},     {0, 0, 4096},  {1, 0, 4095}, {0, 1, 4095},   {3, 5, 1021},
    {64, 64, 128}, {7, 4001, 95}, {4095, 0, 1}, {0, 4095, 1},   {2, 2, 3},
    {13, 17, 0},   {31, 33, 2},   {1, 2, 64},   {4032, 33, 64},
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
    kit_plugin *p = kit_under_test(k);
    (void)arg;
    for (uint32_t from = 0; from < p->n_mem_types; from++)
        for (uint32_t to = 0; to < p->n_mem_types; to++)
            check_copies(k, p, from, to);
}

/* size bytes as n rows; src_pitch and dst_pitch from one to the next. */
typedef struct rows {
    uint64_t n, src, src_pitch, dst, dst_pitch, size;
} rows;

static clv_command copy_rows(clv_plugin_buffer *dst, clv_plugin_buffer *src,
                             const rows *r)
{
    clv_command c = kit_copy(dst, r->dst, src, r->src, r->size);
    c.n_rows = r->n;
    c.src_pitch = r->src_pitch;
    c.dst_pitch = r->dst_pitch;
    return c;
}

/* Any that fit into SPACE bytes. */
static rows random_rows(kit *k)
{
    rows r = {.n = kit_random_below(k, 30), .size = kit_random_below(k, 130)};
    const uint64_t most = r.n > 1 ? SPACE / r.n - r.size : 0;
    r.src_pitch = r.size + kit_random_below(k, (uint32_t)most + 1);
    r.dst_pitch = r.size + kit_random_below(k, (uint32_t)most + 1);
    const uint64_t steps = r.n > 1 ? r.n - 1 : 0;
    r.src = kit_random_below(
        k, (uint32_t)(SPACE - r.size - steps * r.src_pitch) + 1);
    r.dst = kit_random_below(
        k, (uint32_t)(SPACE - r.size - steps * r.dst_pitch) + 1);
    return r;
}

static void check_rows(kit *k, kit_plugin *p, uint32_t from, uint32_t to)
{
    uint8_t data[SPACE], want[SPACE], back[SPACE];
    const uint32_t visible = kit_visible_type(p);
    clv_plugin_buffer *a = kit_buffer(p, from, SPACE),
                      *b = kit_buffer(p, to, SPACE),
                      *host = kit_buffer(p, visible, SPACE),
                      *out = kit_buffer(p, visible, SPACE);
    for (int i = 0; i < SPACE; i++)
        data[i] = kit_pattern((uint64_t)i, 11 + from * 8 + to);
    kit_bytes_put(p, visible, host, 0, data, sizeof data);
    for (int i = 0; i < 60; i++) {
        const rows r = random_rows(k);
        const clv_command c[] = {
            kit_copy(a, 0, host, 0, SPACE), kit_fill(b, 0, SPACE, 0x77777777),
            copy_rows(b, a, &r), kit_copy(out, 0, b, 0, SPACE)};
        kit_do(p, c, 4, "a copy of rows");
        kit_bytes_get(p, visible, out, 0, back, SPACE);
        memset(want, 0x77, sizeof want);
        for (uint64_t j = 0; j < (r.n > 1 ? r.n : 1); j++)
            memcpy(want + r.dst + j * r.dst_pitch,
                   data + r.src + j * r.src_pitch, r.size);
        for (int j = 0; j < SPACE; j++)
            KIT_CHECK(k, back[j] == want[j],
                      "COPY of %llu rows of %llu bytes from %llu, each %llu "
                      "behind the last, of memory type %u to %llu, each %llu "
                      "behind the last, of type %u: byte %d is %#x, not %#x",
                      (unsigned long long)r.n, (unsigned long long)r.size,
                      (unsigned long long)r.src,
                      (unsigned long long)r.src_pitch, (unsigned)from,
                      (unsigned long long)r.dst,
                      (unsigned long long)r.dst_pitch, (unsigned)to, j, back[j],
                      want[j]);
    }
    p->api.buffer_free(a);
    p->api.buffer_free(b);
    p->api.buffer_free(host);
    p->api.buffer_free(out);
}

/* Rows that leave a buffer, overlap, or are too many to count. */
static void check_bad_rows(kit *k, kit_plugin *p)
{
    static const rows bad[] = {
        {4, 0, 16, 0, 17, 14},
        {4, 0, 17, 0, 16, 14},
        {4, 3, 16, 0, 16, 14},
        {4, 0, 16, 3, 16, 14},
        {4, 0, 13, 0, 16, 14},
        {4, 0, 16, 0, 13, 14},
        {4, 0, 16, 0, UINT64_MAX, 14},
        {UINT64_MAX, 0, 16, 0, 16, 14},
        {3, 0, UINT64_MAX / 2, 0, 16, 8},
    };
    const uint32_t type = kit_visible_type(p);
    clv_plugin_buffer *a = kit_buffer(p, type, 64),
                      *b = kit_buffer(p, type, 64);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const clv_command c = copy_rows(a, b, &bad[i]);
        kit_expect(
            k, kit_try_submit(p, &c, 1, NULL, NULL, 0), CLV_ERR_INVALID,
            "submit of a COPY of %llu rows of %llu bytes from %llu, each "
            "%llu behind the last, to %llu, each %llu behind the last, "
            "with buffers of 64 bytes",
            (unsigned long long)bad[i].n, (unsigned long long)bad[i].size,
            (unsigned long long)bad[i].src,
            (unsigned long long)bad[i].src_pitch,
            (unsigned long long)bad[i].dst,
            (unsigned long long)bad[i].dst_pitch);
    }
    p->api.buffer_free(a);
    p->api.buffer_free(b);
}

static void run_rows(kit *k, const void *arg)
{
    kit_plugin *p = kit_under_test(k);
    (void)arg;
    if (!(p->info.flags & CLV_DEVICE_COPIES_ROWS)) {
        kit_skip(k, "the device has no CLV_DEVICE_COPIES_ROWS");
        return;
    }
    for (uint32_t from = 0; from < p->n_mem_types; from++)
        for (uint32_t to = 0; to < p->n_mem_types; to++)
            check_rows(k, p, from, to);
    check_bad_rows(k, p);
}

static void run_fill(kit *k, const void *arg)
{
    static const uint32_t pattern = 0x04030201;
    kit_plugin *p = kit_under_test(k);
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
                          (unsigned long long)r.size, (unsigned long long)r.dst,
                          (unsigned)t, (unsigned)pattern, (unsigned long long)j,
                          back[j], want);
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
    kit_plugin *p = kit_under_test(k);
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
    KIT_CHECK(k,
              !back[0] && !back[1] && !back[2] &&
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
    kit_plugin *p = kit_under_test(k);
    uint32_t type = kit_visible_type(p);
    clv_plugin_buffer *a = kit_buffer(p, type, 64),
                      *b = kit_buffer(p, type, 32);
    (void)arg;
    const clv_command bad[] = {kit_fill(a, 1, 64, 0),
                               kit_fill(a, 65, 0, 0),
                               kit_fill(a, UINT64_MAX, 2, 0),
                               kit_fill(a, 2, UINT64_MAX, 0),
                               kit_fill(NULL, 0, 1, 0),
                               kit_copy(a, 0, NULL, 0, 1),
                               kit_copy(NULL, 0, a, 0, 1),
                               kit_copy(a, 0, b, 0, 33),
                               kit_copy(b, 0, a, 0, 33),
                               kit_copy(a, 0, b, 31, 2),
                               kit_copy(a, 63, b, 0, 2),
                               kit_copy(a, UINT64_MAX, b, 0, 2),
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

void memory_list_transfers(kit_list *l)
{
    const uint32_t sees = KIT_NEEDS_HOST_VISIBLE;
    kit_add(l, KIT_PER_DEVICE, sees, run_copy, NULL, "transfers.copy");
    kit_add(l, KIT_PER_DEVICE, sees, run_rows, NULL, "transfers.rows");
    kit_add(l, KIT_PER_DEVICE, sees, run_fill, NULL, "transfers.fill");
    kit_add(l, KIT_PER_DEVICE, sees, run_large, NULL, "transfers.large");
    kit_add(l, KIT_PER_DEVICE, sees, run_bad_ranges, NULL,
            "transfers.bad_ranges");
}
