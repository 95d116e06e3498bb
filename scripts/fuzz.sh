#!/bin/sh
# Runs every libFuzzer harness for FUZZ_SECONDS (60) from its seeds, as many at a
# time as there are processors. Findings stay in build-fuzz/findings.
set -eu
dir=build-fuzz
SETUP_EXTRA='clang libclang-rt-dev' scripts/setup.sh
names=$(for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    [ "$name" = fuzz_main ] || echo "$name"
done)
targets=$(for name in $names; do echo "tests/fuzz/$name"; done)
CC=clang CXX=clang++ BUILD_TARGETS=$(echo $targets) scripts/build.sh "$dir" \
    -Dfuzz=true -Dbench=false -Doptimization=1 -Ddebug=false -Dc_args=-g1 \
    -Db_lundef=false -Db_sanitize=address,undefined
mkdir -p "$dir/findings"
# fuzz_one DIR NAME
fuzz_one='
    corpus=$1/corpus/$2
    log=$1/$2.log
    mkdir -p "$corpus"
    "$1/tests/fuzz/$2" -max_total_time="${FUZZ_SECONDS:-60}" \
        -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="$1/findings/$2-" \
        "$corpus" "tests/fuzz/corpus/${2#fuzz_}" >"$log" 2>&1 || {
        tail -n 30 "$log"
        echo "fuzz: $2 found a failure, see $1/findings"
        exit 1
    } >&2
    runs=$(sed -n "s/.*number_of_executed_units: *//p" "$log")
    echo "fuzz: $2: $runs runs, no finding"'
# The exit code is that of xargs: not 0 if that of one is not.
echo $names | xargs -n 1 -P "$(nproc)" sh -c "$fuzz_one" fuzz "$dir"
