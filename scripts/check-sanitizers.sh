#!/bin/sh
# check-sanitizers.sh [LONG]: the tests under AddressSanitizer with
# UndefinedBehaviorSanitizer, and those with threads under ThreadSanitizer. Built
# for it is what these tests need; with more optimisation, or all that debuggers
# know, compilers take several times as long.
set -eu
check() { # check DIR SANITIZERS SUITES: without these suites
    dir=$1
    without="--no-suite headers"
    for suite in $3; do
        without="$without --no-suite $suite"
    done
    BUILD_FOR_TESTS=$without scripts/build.sh "$dir" "-Db_sanitize=$2" \
        -Doptimization=1 -Ddebug=false -Dc_args=-g1 -Dbench=false
    # shellcheck disable=SC2086
    scripts/test.sh "$dir" $without
}
check build-asan address,undefined "${1-long}"
check build-tsan thread 'tools examples fuzz serial'
