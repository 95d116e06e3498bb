#!/usr/bin/env python3
"""The tests that docs/abi.md names exist: files, functions in them, cases of
the kit.

usage: test_abi_doc.py SOURCE CLEAVE_PLUGIN_CHECK
"""
import os
import re
import subprocess
import sys


def main():
    source, kit = sys.argv[1:]
    listed = subprocess.run([kit, "--list"], check=True, text=True,
                            capture_output=True).stdout
    cases = {line.split()[0].partition("/")[2]
             for line in listed.splitlines() if line.strip()}
    text = open(os.path.join(source, "docs/abi.md")).read()
    rows = re.findall(r"^\|[^|]*\|[^|]*\|([^|]*)\|$", text, flags=re.M)
    missing, n = [], 0
    for row in rows:
        body = None
        for name in re.findall(r"`([^`]+)`", row):
            if "/" in name:
                path = os.path.join(source, name)
                body = open(path).read() if os.path.exists(path) else None
                known = body is not None
            elif name.startswith("test_"):
                known = body is not None and \
                    re.search(rf"\b{name}\(", body) is not None
            elif "." in name and not name.startswith("core."):
                known = name in cases
            else:
                continue
            n += 1
            if not known:
                missing.append(name)
    if missing or n < 40:
        sys.exit(f"of {n} names these are unknown: {', '.join(missing)}")
    print(f"{n} names are known")


main()
