#!/usr/bin/env python3
"""Regenerates docs/results-heterollm.md: HeteroLLM's figures on the simulated
Snapdragon 8 Gen 3, in virtual time, beside the paper's.

    scripts/results-heterollm.py build
    scripts/results-heterollm.py build --quick
"""

import argparse
import os
import sys

sys.dont_write_bytecode = True

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "heterollm"))

import cleave
import document
import lab as measuring


def main():
    parser = argparse.ArgumentParser(
        description="Regenerates docs/results-heterollm.md.")
    parser.add_argument("build", help="the build directory")
    parser.add_argument("-o", "--output", metavar="FILE",
                        default=os.path.join(cleave.ROOT, "docs",
                                             "results-heterollm.md"),
                        help="write there; - is standard output")
    parser.add_argument("--quick", action="store_true",
                        help="measure a few figures twice, print them, and "
                        "fail unless they are the same to the nanosecond")
    args = parser.parse_args()
    try:
        tools = cleave.Tools(args.build)
        if args.quick:
            return document.quick(lambda: measuring.Lab(tools))
        text = document.write(measuring.Lab(tools))
    except cleave.Failure as failure:
        print("results-heterollm: %s" % failure, file=sys.stderr)
        return 1
    if args.output == "-":
        sys.stdout.write(text)
    else:
        with open(args.output, "w") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
