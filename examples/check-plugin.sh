#!/bin/sh
# check-plugin.sh SOURCE BUILD PREFIX LIBDIR BINDIR: a third party's view of the
# plugin ABI. Installs the build into a directory of its own, builds the example
# plugin elsewhere with nothing but that, checks it with the installed
# cleave-plugin-check, and has the installed cleave use it: dropped into the
# plugin directory, and named in an ini file. Follows docs/plugin-authors.md.
set -eu
. "$(dirname "$0")/stage.sh"
bin=$stage$prefix/$5
cleave=$bin/cleave
# Nothing of the user's, or of the build, has a say.
export HOME="$stage/home" XDG_CONFIG_HOME="$stage/home" XDG_CACHE_HOME="$stage/home"
unset CLEAVE_CORE_PLUGIN_DIRS CLEAVE_CORE_PLUGINS CLEAVE_CORE_DEVICES

expect() { # expect WHAT COMMAND...: the command succeeds
    what=$1
    shift
    "$@" || {
        echo "not as it should be: $what" >&2
        exit 1
    }
}

# generate DEVICES NAME ARGS...: the text in NAME, the plan in NAME.plan. The
# CPU's plain C multiplies in f32 as the example does; its faster kernels round
# activations to 8 bits, which may end in another word.
generate() {
    devices=$1 name=$2
    shift 2
    "$cleave" run --devices "$devices" --log-level debug --temp 0 -n 24 \
        --set cpu.features=ref -p 'def fibonacci(n):' "$@" >"$stage/$name" 2>"$stage/$name.plan" || {
        cat "$stage/$name.plan" >&2
        exit 1
    }
}

# used NAME: the run went as on the cpu alone, with all products on the example
used() {
    expect "$1: the text is the cpu's" cmp "$stage/$1" "$stage/cpu"
    expect "$1: the example multiplies" \
        grep -q '| matmul .*| example |' "$stage/$1.plan"
    if grep -q '| matmul .*| cpu |' "$stage/$1.plan"; then
        grep '| matmul .*| cpu |' "$stage/$1.plan"
        echo "$1: the cpu multiplies too" >&2
        exit 1
    fi
}

export PATH="$bin:$PATH"
mkdir "$stage/docs"
(cd "$stage/docs" &&
    python3 "$source/examples/follow.py" "$source/docs/plugin-authors.md")
rm "$stage$libdir/cleave/plugins/cleave_vpu.so"

cp -r "$(pkg-config --variable=examplesdir cleave)/plugin" "$stage/vendor"
make -s -C "$stage/vendor" CFLAGS='-O2 -Wall -Wextra -Werror'
plugin=$stage/vendor/cleave_example.so
lines=$(wc -l <"$stage/vendor/example.c")
expect "the example fits in 300 lines, it has $lines" test "$lines" -lt 300
echo "built from $lines lines"

# Of its products some: the test 'example-plugin' has every case of the same source,
# and so has the page above.
"$bin/cleave-plugin-check" -q "$plugin" --filter 'plugin/*' --filter '*/[!o]*' \
    --filter '*/ops.matmul.f32*'

generate cpu cpu
expect "the cpu multiplies" grep -q '| matmul .*| cpu |' "$stage/cpu.plan"

# Named in an ini file.
printf '[core]\nplugin_files = %s\n' "$plugin" >"$stage/cleave.ini"
"$cleave" devices --conf "$stage/cleave.ini" | grep "$plugin"
generate example,cpu named --conf "$stage/cleave.ini"
used named

# Dropped into the plugin directory.
make -s -C "$stage/vendor" install DESTDIR=
dropped=$stage$libdir/cleave/plugins/cleave_example.so
expect "make install puts it into the plugin directory" test -f "$dropped"
"$cleave" devices | grep "$dropped"
generate example,cpu dropped
used dropped

# The one in C++, where there is Eigen.
if pkg-config --exists eigen3 && command -v c++ >/dev/null; then
    cp -r "$(pkg-config --variable=examplesdir cleave)/plugin_cpp" "$stage/cpp"
    make -s -C "$stage/cpp" CXX=c++ CXXFLAGS='-O1 -Wall -Wextra -Werror' install DESTDIR=
    "$cleave" devices --devices cpu,eigen | grep cleave_eigen.so
fi
