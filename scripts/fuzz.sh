#!/bin/sh
# Runs every libFuzzer harness for FUZZ_SECONDS (60) from its seeds. Findings
# stay in build-fuzz/findings.
set -eu
dir=build-fuzz
SETUP_EXTRA='clang libclang-rt-dev' scripts/setup.sh
names=$(for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    [ "$name" = fuzz_main ] || echo "$name"
done)
targets=$(for name in $names; do echo "tests/fuzz/$name"; done)
CC=clang CXX=clang++ BUILD_TARGETS=$(echo $targets) scripts/build.sh "$dir" \
    -Dfuzz=true -Dbench=false -Dbuildtype=debugoptimized -Db_lundef=false \
    -Db_sanitize=address,undefined
mkdir -p "$dir/findings"
failed=0
for name in $names; do
    corpus=$dir/corpus/$name
    log=$dir/$name.log
    mkdir -p "$corpus"
    if "$dir/tests/fuzz/$name" -max_total_time="${FUZZ_SECONDS:-60}" \
        -timeout=20 -rss_limit_mb=4096 -print_final_stats=1 \
        -artifact_prefix="$dir/findings/$name-" \
        "$corpus" "tests/fuzz/corpus/${name#fuzz_}" >"$log" 2>&1
    then
        echo "fuzz: $name: $(sed -n 's/.*number_of_executed_units: *//p' "$log") runs, no finding"
    else
        tail -n 30 "$log" >&2
        echo "fuzz: $name found a failure, see $dir/findings" >&2
        failed=1
    fi
done
exit $failed
