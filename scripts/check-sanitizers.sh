#!/bin/sh
# check-sanitizers.sh [LONG]: the tests under AddressSanitizer with
# UndefinedBehaviorSanitizer, and those with threads under ThreadSanitizer. Built
# for it is what these tests need; with more optimisation, or all that debuggers
# know, compilers take several times as long. `make fuzz` runs the parsers'
# harnesses under AddressSanitizer. With LONG, every test that can run there does.
# UndefinedBehaviorSanitizer looks for neither null pointers nor accesses past an
# object: AddressSanitizer finds both, and a fifth of compiling is saved.
set -eu
check() { # check DIR SANITIZERS SUITES...: as options of meson test
    dir=$1
    sanitizers=$2
    shift 2
    BUILD_FOR_TESTS=$* scripts/build.sh "$dir" "-Db_sanitize=$sanitizers" \
        -Doptimization=1 -Ddebug=false \
        "-Dc_args=-g1 -fno-sanitize=null,object-size" -Dbench=false \
        -Dcpu_level="$level"
    scripts/test.sh "$dir" "$@"
}
if [ -n "${1-}" ]; then
    level=amx
    check build-asan-long address,undefined --no-suite headers
    check build-tsan-long thread --no-suite headers --no-suite tools \
        --no-suite examples --no-suite fuzz --no-suite serial
else
    level=avx2
    check build-asan address,undefined --no-suite headers --no-suite fuzz \
        --no-suite long
    check build-tsan thread --suite threads
fi
