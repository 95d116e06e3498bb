#!/bin/sh
# Installs what the build needs where it can: Debian 12 and its relatives, as
# root or with sudo. Elsewhere it lists what is missing and goes on if all is
# there under other names.
set -eu

# What the build uses: compilers, meson with its ninja, and the libraries that
# docs/dependencies.md explains. SETUP_EXTRA adds packages (the fuzzers' clang).
packages="gcc g++ libc6-dev make meson ninja-build pkg-config python3
libltdl-dev libedit-dev libelf-dev libinih-dev libpcre2-dev libutf8proc-dev libcjson-dev
libcmocka-dev libvulkan-dev glslang-dev spirv-tools
mesa-vulkan-drivers vulkan-validationlayers opencl-headers ocl-icd-opencl-dev
pocl-opencl-icd libeigen3-dev
${SETUP_EXTRA:-}"

missing() {
    for p in $packages; do
        dpkg-query -W -f='${db:Status-Status}\n' "$p" 2>/dev/null |
            grep -qx installed || printf '%s ' "$p"
    done
}

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
    todo=$(missing)
    [ -n "$todo" ] || exit 0
    if [ "$(id -u)" = 0 ]; then
        as_root=
    elif command -v sudo >/dev/null; then
        as_root=sudo
    else
        echo "setup: missing packages: $todo" >&2
        echo "setup: run as root: apt-get install $todo" >&2
        exit 1
    fi
    echo "setup: installing $todo" >&2
    log=$(mktemp)
    trap 'rm -f "$log"' EXIT
    # shellcheck disable=SC2086
    if ! { $as_root apt-get update &&
        $as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -y --no-install-recommends $todo; } >"$log" 2>&1
    then
        tail -n 20 "$log" >&2
        echo "setup: apt-get failed; install by hand: $todo" >&2
        exit 1
    fi
    exit 0
fi

# Not Debian: the build's own checks decide; say what they will look for.
absent=
for tool in cc c++ meson ninja pkg-config python3; do
    command -v $tool >/dev/null || absent="$absent $tool"
done
if command -v pkg-config >/dev/null; then
    for lib in libedit libelf inih libpcre2-8 libutf8proc libcjson cmocka vulkan \
        glslang OpenCL-Headers OpenCL; do
        pkg-config --exists $lib || absent="$absent $lib"
    done
fi
echo 'int main(void) { return 0; }' |
    cc -x c -include ltdl.h -o /dev/null - -lltdl 2>/dev/null ||
    absent="$absent ltdl"
if [ -n "$absent" ]; then
    echo "setup: cannot install packages here; missing:$absent" >&2
    echo "setup: under Debian's names the build needs:" $packages >&2
    exit 1
fi
