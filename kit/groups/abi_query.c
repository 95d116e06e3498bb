/* The query: negotiation, structs of other sizes, and that it does nothing. */
#include "abi.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POISON 0xc7

typedef struct loaded {
    kit *k;
    void *lib;
    clv_plugin_query_fn query;
} loaded;

static loaded load(kit *k)
{
    loaded l = {.k = k, .lib = dlopen(kit_path(k), RTLD_NOW | RTLD_LOCAL)};
    KIT_CHECK(k, l.lib, "dlopen: %s", dlerror());
    *(void **)&l.query = dlsym(l.lib, CLV_PLUGIN_QUERY_SYMBOL);
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
    KIT_CHECK(k, !out->api, "a host of ABI %u to %u is refused, and given a "
                            "table all the same", in->abi_min, in->abi_max);
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
    dlclose(l.lib);
}

static void refuses_new_host(kit *k, const void *arg)
{
    loaded l = load(k);
    clv_query_in in = query_in(0x7ffffffe, 0x7fffffff);
    clv_query_out out = query_out();
    (void)arg;
    check_refusal(k, l.query(&in, &out), &in, &out);
    dlclose(l.lib);
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
    KIT_CHECK(k, out.abi_version == out.abi_max &&
                     out.abi_min <= out.abi_version && out.abi_min >= 1,
              "of ABI %u to %u it chooses %u for a host that speaks them all; "
              "choose the highest",
              out.abi_min, out.abi_max, out.abi_version);
    dlclose(l.lib);
}

void abi_list_query(kit_list *list)
{
    kit_add(list, KIT_PER_PLUGIN, 0, refuses_old_host, NULL,
            "query.host-too-old");
    kit_add(list, KIT_PER_PLUGIN, 0, refuses_new_host, NULL,
            "query.host-too-new");
    kit_add(list, KIT_PER_PLUGIN, 0, takes_wider_host, NULL,
            "query.host-speaks-more");
}
