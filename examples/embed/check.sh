#!/bin/sh
# Installs the build into an empty directory, builds embed against that alone as
# a user would, and has it continue a text.
# usage: check.sh BUILD_DIR
set -e
model=$CLEAVE_TEST_SHARED/models/nano-f16.gguf
[ -r "$model" ] || exit 77
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$(dirname "$0")/embed.c" "$(dirname "$0")/Makefile" "$work"
meson install -C "$1" --no-rebuild --quiet --destdir "$work/root"
PKG_CONFIG_PATH=$(find "$work/root" -type d -name pkgconfig)
PKG_CONFIG_SYSROOT_DIR=$work/root
LD_LIBRARY_PATH=$(dirname "$PKG_CONFIG_PATH")
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR LD_LIBRARY_PATH
make -s -C "$work"

"$work/embed" "$model" "def f():" 8 > "$work/text"
[ "$(wc -c < "$work/text")" -gt 9 ]
grep -q '^def f():' "$work/text"
if "$work/embed" "$work/none.gguf" "def f():" 2> "$work/error"; then
    exit 1
fi
grep -q 'none.gguf' "$work/error"
[ "$(wc -l < "$work/error")" -eq 1 ]
