/* A plugin of an ABI version that no host speaks. */
#include <cleave/plugin.h>

#include <stdio.h>

CLV_PLUGIN_MANIFEST("name = alien\n"
                    "abi = 99\n"
                    "devices = other\n");

clv_status clv_plugin_query(const clv_query_in *in, clv_query_out *out)
{
    out->abi_min = 99;
    out->abi_max = 99;
    snprintf(out->reason, sizeof out->reason,
             "speaks ABI 99, the host at most %u", in->abi_max);
    return CLV_ERR_VERSION;
}
