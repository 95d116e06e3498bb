#include "ref.h"

CLV_PLUGIN_MANIFEST("name = " REF_NAME "\n"
                    "abi = 1\n"
                    "devices = " REF_KINDS "\n");

clv_status clv_plugin_query(const clv_query_in *in, clv_query_out *out)
{
    return clv_query_answer(in, out, 1, &ref_api);
}
