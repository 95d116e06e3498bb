#!/bin/sh
# check-gpu.sh DIR: every case of the conformance kit for the GPU plugins of a
# build directory, on whatever drivers there are. `make test` runs a part.
set -u
dir=$1
status=0
check() {
    plugin=$1
    shift
    echo "check-gpu: $plugin $*" >&2
    "$dir/kit/cleave-plugin-check" "$dir/plugins/cleave_$plugin.so" "$@" ||
        status=1
}
check opencl
check opencl --set opencl.memory=separate
check opencl --set opencl.matrix=plain --filter '*/ops.matmul.*' \
    --filter '*/ops.attention.*' --filter '*/ops.graph.*'
check vulkan
check vulkan --set vulkan.validation=on
exit $status
