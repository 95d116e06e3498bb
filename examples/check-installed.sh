#!/bin/sh
# check-installed.sh SOURCE BUILD PREFIX LIBDIR: installs the build into a
# directory of its own, builds the examples that embed Cleave there as a user
# would, with their Makefiles and pkg-config, and runs them; embed where there is
# a model to run.
set -eu
. "$(dirname "$0")/stage.sh"

for name in matmul embed; do
    cp -r "$source/examples/$name" "$stage/$name"
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
