/*
 * The reference plugin as it was built against the first header: its table ends
 * with calibrate.
 */
#include "../ref/ref.h"

CLV_PLUGIN_MANIFEST("name = old\n"
                    "abi = 1\n"
                    "devices = other\n");

_Static_assert(sizeof(clv_plugin_api) ==
                   offsetof(clv_plugin_api, calibrate) + sizeof(void *),
               "this is the first header");

clv_status clv_plugin_query(const clv_query_in *in, clv_query_out *out)
{
    return clv_query_answer(in, out, 1, &ref_api);
}
