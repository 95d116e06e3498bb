#!/usr/bin/env python3
"""test-targets.py DIR [--suite SUITE]... [--no-suite SUITE]...: what the tests of a
build directory need built, those of some suites or all, but those of others:
ninja's names, one a line."""
import argparse
import json
import os


def read(folder, what):
    name = os.path.join(folder, "meson-info", "intro-%s.json" % what)
    with open(name) as file:
        return json.load(file)


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("folder", metavar="DIR")
parser.add_argument("--suite", action="append", default=[])
parser.add_argument("--no-suite", action="append", default=[])
args = parser.parse_args()
folder = os.path.abspath(args.folder)
files = {t["id"]: t["filename"] for t in read(folder, "targets")}
needed = set()
for test in read(folder, "tests"):
    suites = {s.split(":")[-1] for s in test["suite"]}
    if suites & set(args.no_suite) or (args.suite and not suites & set(args.suite)):
        continue
    for target in test["depends"]:
        needed.update(files[target])
for file in sorted(needed):
    print(os.path.relpath(file, folder))
