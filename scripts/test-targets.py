#!/usr/bin/env python3
"""test-targets.py DIR [--no-suite SUITE]...: what a build directory's tests need
built, but those of the suites: ninja's names, one a line."""
import json
import os
import sys


def read(folder, what):
    name = os.path.join(folder, "meson-info", "intro-%s.json" % what)
    with open(name) as file:
        return json.load(file)


folder = os.path.abspath(sys.argv[1])
without = set(sys.argv[2:]) - {"--no-suite"}
files = {t["id"]: t["filename"] for t in read(folder, "targets")}
needed = set()
for test in read(folder, "tests"):
    if not {s.split(":")[-1] for s in test["suite"]} & without:
        for target in test["depends"]:
            needed.update(files[target])
for file in sorted(needed):
    print(os.path.relpath(file, folder))
