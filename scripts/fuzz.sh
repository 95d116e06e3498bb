#!/bin/sh
# Runs every libFuzzer harness for FUZZ_SECONDS (60) from its seeds. Findings
# stay in build-fuzz/findings.
set -eu
SETUP_EXTRA='clang libclang-rt-dev' scripts/setup.sh
CC=clang CXX=clang++ scripts/build.sh build-fuzz -Dfuzz=true -Dbench=false \
    -Dbuildtype=debugoptimized -Db_lundef=false -Db_sanitize=address,undefined
mkdir -p build-fuzz/findings
failed=0
for harness in build-fuzz/tests/fuzz/fuzz_*; do
    [ -x "$harness" ] && [ -f "$harness" ] || continue
    name=$(basename "$harness")
    corpus=build-fuzz/corpus/$name
    mkdir -p "$corpus"
    echo "fuzz: $name" >&2
    "$harness" -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -verbosity=0 \
        -print_final_stats=0 -rss_limit_mb=2048 \
        -artifact_prefix=build-fuzz/findings/"$name"- \
        "$corpus" $([ -d "tests/fuzz/seeds/$name" ] && echo "tests/fuzz/seeds/$name") || {
        echo "fuzz: $name found a failure, see build-fuzz/findings" >&2
        failed=1
    }
done
exit $failed
