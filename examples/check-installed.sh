#!/bin/sh
# check-installed.sh SOURCE BUILD PREFIX LIBDIR: installs the build into a
# directory of its own, builds every example there as a user would, with its
# Makefile and pkg-config, and runs them; embed where there is a model to run.
set -eu
source=$1 build=$2 prefix=$3
case $4 in
/*) libdir=$4 ;;
*) libdir=$prefix/$4 ;;
esac
command -v pkg-config >/dev/null || exit 77
stage=$(mktemp -d "$build/examples-stage.XXXXXX")
trap 'rm -rf "$stage"' EXIT

DESTDIR=$stage meson install -C "$build" --no-rebuild --quiet

export PKG_CONFIG_SYSROOT_DIR="$stage"
export PKG_CONFIG_PATH="$stage$libdir/pkgconfig"
export LD_LIBRARY_PATH="$stage$libdir"
for makefile in "$source"/examples/*/Makefile; do
    example=$(dirname "$makefile")
    name=$(basename "$example")
    cp -r "$example" "$stage/$name"
    make -s -C "$stage/$name" CFLAGS='-Wall -Wextra -Werror'
    test -x "$stage/$name/$name"
    echo "$name: built"
done

"$stage/matmul/matmul"
"$stage/matmul/matmul" 2 4096 2

model=${CLEAVE_TEST_SHARED:-none}/models/nano-f16.gguf
if [ -r "$model" ]; then
    "$stage/embed/embed" "$model" "def f():" 8 >"$stage/text"
    grep -q '^def f():' "$stage/text"
    test "$(wc -c <"$stage/text")" -gt 9 # more than the prompt
fi
if "$stage/embed/embed" "$stage/none.gguf" "def f():" 2>"$stage/error"; then
    echo "embed ran without a model" >&2
    exit 1
fi
grep 'none.gguf' "$stage/error"
test "$(wc -l <"$stage/error")" = 1

# Without plugins: one line, and a failure.
rm -r "$stage$libdir/cleave/plugins"
if "$stage/matmul/matmul" 2>"$stage/error"; then
    echo "matmul ran without a plugin" >&2
    exit 1
fi
cat "$stage/error"
test "$(wc -l <"$stage/error")" = 1
