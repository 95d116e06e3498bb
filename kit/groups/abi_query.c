/* The query: negotiation, structs of other sizes, and that it does nothing. */
#include "abi.h"
#include "../plugin/calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define POISON 0xc7

typedef struct loaded {
    kit *k;
    void *lib;
    clv_plugin_query_fn query;
} loaded;

static loaded load(kit *k)
{
    loaded l = {.k = k, .lib = kit_calls_dlopen(kit_path(k))};
    KIT_CHECK(k, l.lib, "dlopen: %s", dlerror());
    l.query = kit_calls_query(l.lib);
    KIT_CHECK(k, l.query, "it exports no %s()", CLV_PLUGIN_QUERY_SYMBOL);
    return l;
}

static clv_query_in query_in(uint32_t min, uint32_t max)
{
    clv_query_in in = CLV_INIT(clv_query_in, CLV_STRUCT_QUERY_IN);
    in.abi_min = min;
    in.abi_max = max;
    return in;
}

static clv_query_out query_out(void)
{
    clv_query_out out = CLV_INIT(clv_query_out, CLV_STRUCT_QUERY_OUT);
    return out;
}

static void check_refusal(kit *k, clv_status status, const clv_query_in *in,
                          const clv_query_out *out)
{
    KIT_CHECK(k, status == CLV_ERR_VERSION,
              "a host of ABI %u to %u is answered %d, not CLV_ERR_VERSION",
              in->abi_min, in->abi_max, (int)status);
    KIT_CHECK(k, !out->api,
              "a host of ABI %u to %u is refused, and given a "
              "table all the same",
              in->abi_min, in->abi_max);
    KIT_CHECK(k, out->abi_min >= 1 && out->abi_min <= out->abi_max,
              "a refusal says that the plugin speaks ABI %u to %u",
              out->abi_min, out->abi_max);
    KIT_CHECK(k, memchr(out->reason, 0, sizeof out->reason),
              "the reason of a refusal does not end");
}

static void refuses_old_host(kit *k, const void *arg)
{
    loaded l = load(k);
    clv_query_in in = query_in(0, 0);
    clv_query_out out = query_out();
    (void)arg;
    check_refusal(k, l.query(&in, &out), &in, &out);
    kit_calls_dlclose(l.lib);
}

static void refuses_new_host(kit *k, const void *arg)
{
    loaded l = load(k);
    clv_query_in in = query_in(0x7ffffffe, 0x7fffffff);
    clv_query_out out = query_out();
    (void)arg;
    check_refusal(k, l.query(&in, &out), &in, &out);
    kit_calls_dlclose(l.lib);
}

static void takes_wider_host(kit *k, const void *arg)
{
    loaded l = load(k);
    clv_query_in in = query_in(1, 0x7fffffff);
    clv_query_out out = query_out();
    (void)arg;
    clv_status status = l.query(&in, &out);
    KIT_CHECK(k, status == CLV_OK && out.api,
              "a host that speaks every version from 1 on is answered %d",
              (int)status);
    KIT_CHECK(k,
              out.abi_version == out.abi_max &&
                  out.abi_min <= out.abi_version && out.abi_min >= 1,
              "of ABI %u to %u it chooses %u for a host that speaks them all; "
              "choose the highest",
              out.abi_min, out.abi_max, out.abi_version);
    kit_calls_dlclose(l.lib);
}

/* ------------------------------------------------------------------------ */
/* Structs of other sizes                                                   */

/* A struct between poisoned bytes, which says that it has size bytes. */
typedef struct framed {
    uint8_t before[64];
    union {
        clv_query_out out;
        uint8_t bytes[sizeof(clv_query_out) + 128];
    };
} framed;

static clv_status ask_framed(const loaded *l, uint32_t size, framed *f)
{
    clv_query_in in = query_in(CLV_ABI_VERSION_MIN, CLV_ABI_VERSION);
    size_t known = size < sizeof f->out ? size : sizeof f->out;
    memset(f, POISON, sizeof *f);
    memset(&f->out, 0, known);
    f->out.header = (clv_header){size, CLV_STRUCT_QUERY_OUT, NULL};
    clv_status status = l->query(&in, &f->out);
    for (size_t i = 0; i < sizeof f->before; i++)
        KIT_CHECK(l->k, f->before[i] == POISON,
                  "it wrote before a clv_query_out of %u bytes", size);
    for (size_t i = known; i < sizeof f->bytes; i++)
        KIT_CHECK(l->k, f->bytes[i] == POISON,
                  "it wrote byte %zu of a clv_query_out of %u bytes%s", i, size,
                  i < size ? ", which it does not know" : "");
    return status;
}

static void takes_larger_out(kit *k, const void *arg)
{
    loaded l = load(k);
    framed f;
    (void)arg;
    clv_status status = ask_framed(&l, sizeof f.out + 64, &f);
    KIT_CHECK(k, status == CLV_OK && f.out.api,
              "a clv_query_out with 64 bytes more is answered %d", (int)status);
    kit_calls_dlclose(l.lib);
}

/* Shorter than version 1: what counts is that nothing lies past its end. */
static void keeps_in_smaller_out(kit *k, const void *arg)
{
    loaded l = load(k);
    framed f;
    (void)arg;
    ask_framed(&l, offsetof(clv_query_out, reason), &f);
    KIT_CHECK(k, f.out.api == NULL || f.out.abi_version,
              "a clv_query_out without the reason gets a table and no version");
    kit_calls_dlclose(l.lib);
}

/* A newer host's, of which the end is unknown to the plugin. */
static void takes_larger_in(kit *k, const void *arg)
{
    loaded l = load(k);
    union {
        clv_query_in in;
        uint8_t bytes[sizeof(clv_query_in) + 64];
    } larger;
    clv_query_out out = query_out();
    (void)arg;
    memset(&larger, POISON, sizeof larger);
    larger.in = query_in(CLV_ABI_VERSION_MIN, CLV_ABI_VERSION);
    larger.in.header.struct_size = sizeof larger;
    clv_status status = l.query(&larger.in, &out);
    KIT_CHECK(k, status == CLV_OK && out.api,
              "a clv_query_in with 64 bytes more is answered %d", (int)status);
    kit_calls_dlclose(l.lib);
}

static clv_status ask_chained(const loaded *l, uint32_t type,
                              clv_query_out *out)
{
    clv_header last = {sizeof last, 0x7ff1, NULL};
    clv_header first = {sizeof first, type, &last};
    clv_query_in in = query_in(CLV_ABI_VERSION_MIN, CLV_ABI_VERSION);
    in.header.next = &first;
    *out = query_out();
    return l->query(&in, out);
}

static void skips_unknown_extension(kit *k, const void *arg)
{
    loaded l = load(k);
    clv_query_out out;
    (void)arg;
    clv_status status = ask_chained(&l, 0x7ff0, &out);
    KIT_CHECK(k, status == CLV_OK && out.api,
              "a query with an unknown extension is answered %d; skip it",
              (int)status);
    kit_calls_dlclose(l.lib);
}

static void refuses_required_extension(kit *k, const void *arg)
{
    loaded l = load(k);
    clv_query_out out;
    (void)arg;
    clv_status status = ask_chained(&l, 0x7ff0 | CLV_STRUCT_REQUIRED, &out);
    KIT_CHECK(k, status == CLV_ERR_UNSUPPORTED,
              "a query with an unknown extension that is required is answered "
              "%d, not CLV_ERR_UNSUPPORTED",
              (int)status);
    KIT_CHECK(k, !out.api,
              "a query with an unknown extension that is "
              "required gets a table");
    kit_calls_dlclose(l.lib);
}

/* ------------------------------------------------------------------------ */
/* Purity                                                                   */

typedef struct traces {
    uint32_t threads, files;
    size_t heap;
    void (*handlers[32])(int);
} traces;

static uint32_t count_entries(const char *path)
{
    uint32_t n = 0;
    DIR *dir = opendir(path);
    while (dir && readdir(dir))
        n++;
    if (dir)
        closedir(dir);
    return n;
}

static void look(traces *t)
{
    memset(t, 0, sizeof *t);
    t->threads = count_entries("/proc/self/task");
    t->files = count_entries("/proc/self/fd");
    for (int i = 1; i < 32; i++) {
        struct sigaction action;
        if (!sigaction(i, NULL, &action))
            t->handlers[i] = action.sa_handler;
    }
#ifdef __GLIBC__
    t->heap = mallinfo2().uordblks; /* last: reading a directory allocates */
#endif
}

static void check_same(kit *k, const traces *a, const traces *b)
{
    KIT_CHECK(k, a->threads == b->threads, "the query leaves %d threads",
              (int)b->threads - (int)a->threads);
    KIT_CHECK(k, a->files == b->files, "the query leaves %d open files",
              (int)b->files - (int)a->files);
    KIT_CHECK(k, a->heap == b->heap, "the query leaves %zu bytes allocated",
              b->heap - a->heap);
    for (int i = 1; i < 32; i++)
        KIT_CHECK(k, a->handlers[i] == b->handlers[i],
                  "the query installs a handler for signal %d", i);
}

static void is_pure(kit *k, const void *arg)
{
    loaded l = load(k);
    clv_query_in in = query_in(CLV_ABI_VERSION_MIN, CLV_ABI_VERSION);
    clv_query_out first = query_out(), second = query_out();
    traces before, after;
    (void)arg;
    look(&before); /* what libraries allocate once is there now */
    look(&before);
    clv_status a = l.query(&in, &first);
    look(&after);
    check_same(k, &before, &after);
    clv_status b = l.query(&in, &second);
    KIT_CHECK(k, a == b && !memcmp(&first, &second, sizeof first),
              "the same query twice has two answers");
    kit_calls_dlclose(l.lib);
}

void abi_list_query(kit_list *list)
{
    static const struct {
        const char *name;
        void (*run)(kit *k, const void *arg);
    } cases[] = {
        {"query.host-too-old", refuses_old_host},
        {"query.host-too-new", refuses_new_host},
        {"query.host-speaks-more", takes_wider_host},
        {"query.larger-out", takes_larger_out},
        {"query.smaller-out", keeps_in_smaller_out},
        {"query.larger-in", takes_larger_in},
        {"query.unknown-extension", skips_unknown_extension},
        {"query.required-extension", refuses_required_extension},
        {"query.pure", is_pure},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        kit_add(list, KIT_PER_PLUGIN, 0, cases[i].run, NULL, "%s",
                cases[i].name);
}
