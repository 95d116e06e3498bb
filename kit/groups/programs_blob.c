/* Programs kept as bytes: written, judged, loaded, damaged. */
#include "programs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct bytes {
    uint8_t *data;
    uint64_t size, room;
    uint32_t calls, fail_at; /* the call that answers status */
    clv_status status;
} bytes;

static clv_status append(void *ctx, const void *data, uint64_t size)
{
    bytes *b = ctx;
    if (++b->calls == b->fail_at)
        return b->status;
    if (b->fail_at && b->calls > b->fail_at)
        b->size = UINT64_MAX; /* called after it gave up */
    if (b->size > (1ull << 32) || size > (1ull << 32))
        return CLV_ERR_LIMIT;
    if (b->size + size > b->room) {
        uint64_t room = 2 * (b->size + size) + 4096;
        uint8_t *grown = realloc(b->data, room);
        if (!grown)
            return CLV_ERR_NO_MEMORY;
        b->data = grown;
        b->room = room;
    }
    if (size)
        memcpy(b->data + b->size, data, size);
    b->size += size;
    return CLV_OK;
}

/* A bench, its compile struct, the program's bytes and its results. */
typedef struct kept {
    programs_bench b;
    clv_subgraph graph;
    clv_compile info;
    bytes blob;
    uint8_t *result;
} kept;

static bool kept_open(kit *k, uint32_t flags, kept *s)
{
    memset(s, 0, sizeof *s);
    if (!programs_open(k, flags, &s->b))
        return false;
    programs_run(&s->b, s->b.prog.handle, "a program");
    s->result = programs_output(&s->b);
    KIT_OK(k, s->b.p->api.program_serialize(s->b.prog.handle, append, &s->blob),
           "program_serialize");
    KIT_CHECK(k, s->blob.size, "program_serialize writes nothing");
    s->info = kit_program_compile_info(&s->b.prog, &s->graph);
    return true;
}

/* The program itself goes, that there is room for one made from bytes. */
static void drop_program(kept *s)
{
    s->b.p->api.program_destroy(s->b.prog.handle);
    s->b.prog.handle = NULL;
}

static void kept_close(kept *s)
{
    free(s->result);
    free(s->blob.data);
    programs_close(&s->b);
}

static clv_blob in_memory(const void *data, uint64_t size)
{
    return (clv_blob){.header = {sizeof(clv_blob), CLV_STRUCT_BLOB, NULL},
                      .data = data,
                      .size = size,
                      .fd = -1};
}

static uint32_t verdict_on(kept *s, const clv_compile *info,
                           const clv_blob *blob)
{
    uint32_t verdict = 99;
    KIT_OK(s->b.k,
           s->b.p->api.program_validate(s->b.p->dev, info, blob, &verdict),
           "program_validate (never fails on bad bytes)");
    KIT_CHECK(s->b.k, verdict <= CLV_VERDICT_FOREIGN,
              "program_validate answers OK and gives verdict %u, none of "
              "clv_verdict",
              (unsigned)verdict);
    return verdict;
}

static void must_load(kept *s, const clv_blob *blob, const char *what)
{
    kit *k = s->b.k;
    const clv_plugin_api *api = &s->b.p->api;
    uint32_t verdict = verdict_on(s, &s->info, blob);
    KIT_CHECK(k, verdict <= CLV_VERDICT_SUBOPTIMAL,
              "program_validate gives verdict %u on %s that program_serialize "
              "just wrote",
              (unsigned)verdict, what);
    clv_plugin_program *program = NULL;
    KIT_OK(k, api->program_load(s->b.p->dev, &s->info, blob, &program),
           "program_load of %s", what);
    KIT_CHECK(k, program, "program_load answers OK and gives no program");
    clv_program_info info = CLV_INIT(clv_program_info, CLV_STRUCT_PROGRAM_INFO);
    KIT_OK(k, api->program_info(program, &info),
           "program_info of a program "
           "that was loaded");
    programs_run(&s->b, program, "a program that was loaded");
    programs_same(&s->b, s->result, "a program that was loaded");
    api->program_destroy(program);
}

/* Neither called good nor loaded. */
static void must_refuse(kept *s, const clv_compile *info, const clv_blob *blob,
                        const char *what, uint64_t where)
{
    kit *k = s->b.k;
    clv_plugin_program *program = NULL;
    uint32_t verdict = verdict_on(s, info, blob);
    KIT_CHECK(k, verdict >= CLV_VERDICT_STALE,
              "program_validate gives verdict %u on %s %llu of %llu; STALE or "
              "FOREIGN is right",
              (unsigned)verdict, what, (unsigned long long)where,
              (unsigned long long)s->blob.size);
    kit_host_clear(&s->b.p->host);
    clv_status status =
        s->b.p->api.program_load(s->b.p->dev, info, blob, &program);
    KIT_CHECK(k, status && !program,
              "program_load of %s %llu of %llu answers %d; an error is right",
              what, (unsigned long long)where, (unsigned long long)s->blob.size,
              (int)status);
    KIT_CHECK(k, s->b.p->host.error[0],
              "program_load of %s fails without a message", what);
}

static void run_round_trip(kit *k, const void *arg)
{
    kept s;
    (void)arg;
    if (!kept_open(k, KIT_ANY_NODES, &s))
        return;
    drop_program(&s);
    uint8_t *copy = malloc(s.blob.size);
    KIT_CHECK(k, copy, "no memory for the case");
    memcpy(copy, s.blob.data, s.blob.size);
    clv_blob blob = in_memory(copy, s.blob.size);
    must_load(&s, &blob, "bytes in memory");
    clv_plugin_program *program = NULL;
    KIT_OK(k, s.b.p->api.program_load(s.b.p->dev, &s.info, &blob, &program),
           "program_load");
    kit_forget(copy, s.blob.size);
    free(copy);
    programs_run(&s.b, program, "a program whose bytes are gone");
    programs_same(&s.b, s.result, "a program whose bytes are gone");
    bytes again = {0};
    KIT_OK(k, s.b.p->api.program_serialize(program, append, &again),
           "program_serialize of a program that was loaded");
    s.b.p->api.program_destroy(program);
    blob = in_memory(again.data, again.size);
    must_load(&s, &blob, "bytes of a program that was loaded");
    free(again.data);
    kit_note(k, "%llu bytes in %u writes", (unsigned long long)s.blob.size,
             (unsigned)s.blob.calls);
    kept_close(&s);
}

/* fd + offset, in a file that has more in it. */
static void run_file(kit *k, const void *arg)
{
    enum { BEFORE = 4096 + 123, AFTER = 77 };
    kept s;
    (void)arg;
    if (!kept_open(k, 0, &s))
        return;
    drop_program(&s);
    int fd = memfd_create("kit-programs", MFD_CLOEXEC);
    uint64_t size = BEFORE + s.blob.size + AFTER;
    uint8_t *text = malloc(size);
    KIT_CHECK(k, fd >= 0 && text, "no memory file: %s", strerror(errno));
    memset(text, 0x99, size);
    memcpy(text + BEFORE, s.blob.data, s.blob.size);
    KIT_CHECK(k, write(fd, text, size) == (ssize_t)size,
              "a memory file cannot be written: %s", strerror(errno));
    free(text);
    int before = kit_count_entries(k, "/proc/self/fd");
    clv_blob blob = in_memory(NULL, s.blob.size);
    blob.fd = fd;
    blob.offset = BEFORE;
    must_load(&s, &blob, "bytes in a file");
    blob.offset = BEFORE - 1;
    must_refuse(&s, &s.info, &blob, "a file read at another offset,",
                BEFORE - 1);
    blob.offset = size;
    must_refuse(&s, &s.info, &blob, "a file read at its end,", size);
    blob.offset = UINT64_MAX;
    must_refuse(&s, &s.info, &blob, "a file read at an absurd offset,",
                UINT64_MAX);
    KIT_CHECK(k, kit_count_entries(k, "/proc/self/fd") == before,
              "program_load left descriptors open, or closed the caller's");
    close(fd);
    blob.fd = -1;
    blob.offset = 0;
    must_refuse(&s, &s.info, &blob, "no descriptor and no bytes,", 0);
    kept_close(&s);
}

static void run_write_fails(kit *k, const void *arg)
{
    kept s;
    (void)arg;
    if (!kept_open(k, 0, &s))
        return;
    const clv_status statuses[] = {CLV_ERR_IO, CLV_ERR_REFUSED};
    for (uint32_t at = 1; at <= s.blob.calls && at <= 64; at++)
        for (int i = 0; i < 2; i++) {
            bytes fails = {.fail_at = at, .status = statuses[i]};
            clv_status status =
                s.b.p->api.program_serialize(s.b.prog.handle, append, &fails);
            KIT_CHECK(k, status == statuses[i],
                      "program_serialize answers %d when its write %u answers "
                      "%d (the status to give up with)",
                      (int)status, (unsigned)at, (int)statuses[i]);
            KIT_CHECK(k, fails.calls == at,
                      "program_serialize goes on writing after a write failed");
            free(fails.data);
        }
    programs_run(&s.b, s.b.prog.handle, "a program after failed writes");
    programs_same(&s.b, s.result, "a program after failed writes");
    kept_close(&s);
}

/* --- damage --------------------------------------------------------------- */

static void run_damaged(kit *k, const void *arg)
{
    kept s;
    (void)arg;
    if (!kept_open(k, 0, &s))
        return;
    drop_program(&s);
    uint64_t size = s.blob.size, n = kit_thorough(k) ? size * 8 : 400;
    uint8_t *bad = malloc(size + 64);
    KIT_CHECK(k, bad, "no memory for the case");
    memcpy(bad, s.blob.data, size);
    clv_blob blob = in_memory(bad, size);
    for (uint64_t i = 0; i < n; i++) {
        /* The head bit by bit, the rest here and there. */
        uint64_t bit = kit_thorough(k) || i < 128
                           ? i
                           : ((uint64_t)kit_random_below(k, UINT32_MAX) << 20 ^
                              kit_random_below(k, UINT32_MAX)) %
                                 (size * 8);
        if (bit >= size * 8)
            continue;
        bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
        must_refuse(&s, &s.info, &blob, "bytes with one bit flipped, in byte",
                    bit / 8);
        bad[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (uint64_t i = 0; i < 100; i++) {
        blob.size = i < 32 ? i : size * i / 100;
        if (blob.size >= size)
            continue;
        must_refuse(&s, &s.info, &blob, "bytes cut off at", blob.size);
    }
    blob.size = size - 1;
    must_refuse(&s, &s.info, &blob, "bytes cut off at", blob.size);
    for (uint64_t i = 0; i < 50; i++) { /* noise, and noise behind the head */
        uint64_t from = i < 10 ? 0 : i * 4 < size ? i * 4 : 0;
        for (uint64_t j = from; j < size; j++)
            bad[j] = (uint8_t)kit_random_below(k, 256);
        blob.size = size;
        must_refuse(&s, &s.info, &blob, "bytes that are noise from byte", from);
        memcpy(bad, s.blob.data, size);
    }
    memset(bad, 0, size);
    must_refuse(&s, &s.info, &blob, "zeros, from byte", 0);
    memset(bad, 0xff, size);
    must_refuse(&s, &s.info, &blob, "ones, from byte", 0);
    free(bad);
    blob = in_memory(s.blob.data, size);
    must_load(&s, &blob, "bytes, after damaged ones");
    kept_close(&s);
}

/* The plugin's build, where the bytes name it. */
static void run_stale(kit *k, const void *arg)
{
    kept s;
    (void)arg;
    if (!kept_open(k, 0, &s))
        return;
    drop_program(&s);
    const char *id = s.b.p->api.build_id;
    size_t n = strlen(id);
    uint8_t *at = n ? memmem(s.blob.data, s.blob.size, id, n) : NULL;
    if (at) {
        at[n - 1] = at[n - 1] == 'x' ? 'y' : 'x';
        clv_blob blob = in_memory(s.blob.data, s.blob.size);
        must_refuse(&s, &s.info, &blob, "bytes that name another build, at",
                    (uint64_t)(at - s.blob.data));
    } else {
        kit_skip(k, "the bytes do not hold the build's name as it is");
    }
    kept_close(&s);
}

/* --- for something else --------------------------------------------------- */

/* The bytes of one graph offered for others. */
static void run_foreign(kit *k, const void *arg)
{
    kept s;
    (void)arg;
    if (!kept_open(k, 0, &s))
        return;
    drop_program(&s);
    kit_graph *g = &s.b.g;
    clv_blob blob = in_memory(s.blob.data, s.blob.size);
    clv_node node = g->nodes[0];
    g->nodes[0].op = node.op == CLV_OP_SILU ? CLV_OP_GELU : CLV_OP_SILU;
    g->nodes[0].n_inputs = 1;
    must_refuse(&s, &s.info, &blob, "bytes of a graph with another op, node",
                0);
    g->nodes[0] = node;
    clv_tensor_desc out = g->descs[s.b.output];
    g->descs[s.b.output].dims[0] += 8;
    must_refuse(&s, &s.info, &blob, "bytes of a graph of another shape, tensor",
                s.b.output);
    g->descs[s.b.output] = out;
    s.info.options = "kit=1";
    must_refuse(&s, &s.info, &blob, "bytes made without options, offered with",
                0);
    s.info.options = NULL;
    must_load(&s, &blob, "bytes");
    kept_close(&s);
}

static void run_bucket(kit *k, const void *arg)
{
    kept s;
    (void)arg;
    if (!kept_open(k, KIT_ANY_SYMBOL, &s))
        return;
    drop_program(&s);
    clv_blob blob = in_memory(s.blob.data, s.blob.size);
    clv_symbol_range range = s.b.g.ranges[0];
    s.b.g.ranges[0].max--;
    must_refuse(&s, &s.info, &blob, "bytes of a bucket with another end,",
                (uint64_t)range.max);
    s.b.g.ranges[0] = range;
    s.b.g.ranges[0].min++;
    must_refuse(&s, &s.info, &blob, "bytes of a bucket with another start,",
                (uint64_t)range.min);
    s.b.g.ranges[0] = range;
    must_load(&s, &blob, "bytes");
    kept_close(&s);
}

/* One key, one program: its bytes then hold nothing of the weights. */
static void run_other_weights(kit *k, const void *arg)
{
    kept s;
    uint8_t before[32], after[32];
    (void)arg;
    if (!kept_open(k, 0, &s))
        return;
    const clv_plugin_api *api = &s.b.p->api;
    KIT_OK(k, api->program_key(s.b.p->dev, &s.info, before), "program_key");
    for (uint32_t i = 0; i < s.b.g.n_tensors; i++)
        if (s.b.g.descs[i].usage == CLV_USAGE_WEIGHT)
            memset(s.b.g.tensors[i].data, 0, s.b.g.tensors[i].size);
    kit_program_upload(&s.b.prog);
    KIT_OK(k, api->program_key(s.b.p->dev, &s.info, after), "program_key");
    drop_program(&s);
    s.b.prog.handle = programs_compile(&s.b, &s.info, "for other weights");
    programs_run(&s.b, s.b.prog.handle, "a program for other weights");
    free(s.result);
    s.result = programs_output(&s.b);
    drop_program(&s);
    if (!memcmp(before, after, sizeof before)) {
        const clv_blob blob = in_memory(s.blob.data, s.blob.size);
        must_load(&s, &blob, "bytes for other weights of one key");
    }
    kept_close(&s);
}

void programs_list_blobs(kit_list *l)
{
    const uint32_t needs = KIT_NEEDS_SERIALIZE;
    kit_add(l, KIT_PER_DEVICE, needs, run_round_trip, NULL, "bytes.round_trip");
    kit_add(l, KIT_PER_DEVICE, needs, run_other_weights, NULL,
            "bytes.other_weights");
    kit_add(l, KIT_PER_DEVICE, needs, run_file, NULL, "bytes.file");
    kit_add(l, KIT_PER_DEVICE, needs, run_write_fails, NULL,
            "bytes.write_fails");
    kit_add(l, KIT_PER_DEVICE, needs, run_damaged, NULL, "bytes.damaged");
    kit_add(l, KIT_PER_DEVICE, needs, run_stale, NULL, "bytes.stale");
    kit_add(l, KIT_PER_DEVICE, needs, run_foreign, NULL, "bytes.other_graph");
    kit_add(l, KIT_PER_DEVICE, needs, run_bucket, NULL, "bytes.other_bucket");
    programs_list_keys(l);
}
