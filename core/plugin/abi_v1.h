/*
 * Where structs of the ABI ended in version 1: the least that the other side's
 * may have. What a struct has behind that was added later and reads as zero
 * where it is missing. These never change; tests/headers pins them.
 */
#pragma once

#include <cleave/plugin.h>

#define CORE_V1_END(type, last)                                                \
    (offsetof(type, last) + sizeof(((type *)0)->last))

enum {
    CORE_V1_TENSOR_DESC = CORE_V1_END(clv_tensor_desc, reserved),
    CORE_V1_NODE = CORE_V1_END(clv_node, attr),
    CORE_V1_SUBGRAPH = CORE_V1_END(clv_subgraph, reserved),
    CORE_V1_OP_CAPS = CORE_V1_END(clv_op_caps, n_variants),
    CORE_V1_DEVICE_INFO = CORE_V1_END(clv_device_info, reserved),
    CORE_V1_MEM_TYPE = CORE_V1_END(clv_mem_type, bandwidth),
    CORE_V1_IMPORT = CORE_V1_END(clv_import, release_ctx),
    CORE_V1_TIMELINE_INFO = CORE_V1_END(clv_timeline_info, message),
    CORE_V1_COMPILE = CORE_V1_END(clv_compile, progress_ctx),
    CORE_V1_PROGRAM_INFO = CORE_V1_END(clv_program_info, reserved),
    CORE_V1_BLOB = CORE_V1_END(clv_blob, offset),
    CORE_V1_COMMAND = CORE_V1_END(clv_command, reserved2),
    CORE_V1_SUBMIT = CORE_V1_END(clv_submit, correlation),
    CORE_V1_TRACE_RECORD = CORE_V1_END(clv_trace_record, name),
    CORE_V1_CALIBRATION = CORE_V1_END(clv_calibration, tick_ns),
    CORE_V1_HOST_API = CORE_V1_END(clv_host_api, device_section),
    CORE_V1_OPTION = CORE_V1_END(clv_option, max),
    CORE_V1_PLUGIN_API = CORE_V1_END(clv_plugin_api, calibrate),
    CORE_V1_QUERY_IN = CORE_V1_END(clv_query_in, reserved),
    CORE_V1_QUERY_OUT = CORE_V1_END(clv_query_out, reason),
};
