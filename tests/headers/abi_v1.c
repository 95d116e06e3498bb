/* The sizes of version 1, in bytes where pointers have eight. */
#include "../../core/plugin/abi_v1.h"

#define CHECK(end, size)                                                       \
    _Static_assert(sizeof(void *) != 8 || (end) == (size),                     \
                   #end " is frozen at " #size)

CHECK(CORE_V1_TENSOR_DESC, 160);
CHECK(CORE_V1_NODE, 144);
CHECK(CORE_V1_SUBGRAPH, 64);
CHECK(CORE_V1_OP_CAPS, 328);
CHECK(CORE_V1_DEVICE_INFO, 400);
CHECK(CORE_V1_MEM_TYPE, 80);
CHECK(CORE_V1_IMPORT, 72);
CHECK(CORE_V1_TIMELINE_INFO, 168);
CHECK(CORE_V1_COMPILE, 64);
CHECK(CORE_V1_PROGRAM_INFO, 48);
CHECK(CORE_V1_BLOB, 48);
CHECK(CORE_V1_COMMAND, 104);
CHECK(CORE_V1_SUBMIT, 64);
CHECK(CORE_V1_TRACE_RECORD, 96);
CHECK(CORE_V1_CALIBRATION, 48);
CHECK(CORE_V1_HOST_API, 144);
CHECK(CORE_V1_OPTION, 72);
CHECK(CORE_V1_PLUGIN_API, 328);
CHECK(CORE_V1_QUERY_IN, 32);
CHECK(CORE_V1_QUERY_OUT, 168);
