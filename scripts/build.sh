#!/bin/sh
# build.sh DIR [meson options]: configures DIR once and builds it, or only
# BUILD_TARGETS of it, or what those of its tests need that BUILD_FOR_TESTS
# ("--suite NAME --no-suite NAME ...") selects. Quiet unless something fails.
set -eu
dir=$1
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
if [ ! -f "$dir/build.ninja" ]; then
    echo "build: configuring $dir" >&2
    meson setup "$dir" "$@" >"$log" 2>&1 || {
        tail -n 40 "$log" >&2
        exit 1
    }
fi
echo "build: $dir" >&2
targets=${BUILD_TARGETS:-}
if [ -n "${BUILD_FOR_TESTS:-}" ]; then
    # shellcheck disable=SC2086
    targets=$(scripts/test-targets.py "$dir" $BUILD_FOR_TESTS)
fi
# shellcheck disable=SC2086
ninja -C "$dir" $targets >"$log" 2>&1 || {
    grep -vE '^\[[0-9]+/[0-9]+\] (Compiling|Linking|Generating)' "$log" |
        tail -n 60 >&2
    exit 1
}
