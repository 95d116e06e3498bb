#!/bin/sh
# test.sh DIR [meson test options]: runs the tests of a build directory and
# closes with "N passed, M failed", counted from meson's report. Many tests wait for
# much of their time: there are half as many more at once than processors.
set -eu
dir=$1
shift
status=0
processors=$(nproc)
meson test -C "$dir" --no-rebuild --print-errorlogs \
    --num-processes $((processors + processors / 2)) \
    --timeout-multiplier "${TEST_TIMEOUT_MULTIPLIER:-6}" "$@" || status=$?
python3 - "$dir/meson-logs/testlog.json" <<'PY' || status=1
import json, sys

counts = {"passed": 0, "failed": 0, "skipped": 0}
kinds = {"OK": "passed", "EXPECTEDFAIL": "passed", "SKIP": "skipped"}
with open(sys.argv[1]) as log:
    for line in log:
        counts[kinds.get(json.loads(line)["result"], "failed")] += 1
end = ", %d skipped" % counts["skipped"] if counts["skipped"] else ""
print("%d passed, %d failed%s" % (counts["passed"], counts["failed"], end))
sys.exit(counts["failed"] > 0 or counts["passed"] == 0)
PY
exit $status
