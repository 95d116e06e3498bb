"""The command that writes a document of results."""

import argparse
import os
import sys

from runs import ROOT, Failure, Tools


def main(name, document, lab):
    """name: results-NAME.md in docs; document: the module that writes it from
    a lab; lab: makes one of the built tools."""
    parser = argparse.ArgumentParser(
        description="Regenerates docs/results-%s.md." % name)
    parser.add_argument("build", help="the build directory")
    parser.add_argument("-o", "--output", metavar="FILE",
                        default=os.path.join(ROOT, "docs",
                                             "results-%s.md" % name),
                        help="write there; - is standard output")
    parser.add_argument("--quick", action="store_true",
                        help="measure a few figures twice, print them, and "
                        "fail unless they are the same to the nanosecond")
    args = parser.parse_args()
    try:
        tools = Tools(args.build)
        if args.quick:
            return document.quick(lambda: lab(tools))
        text = document.write(lab(tools))
    except Failure as failure:
        print("results-%s: %s" % (name, failure), file=sys.stderr)
        return 1
    if args.output == "-":
        sys.stdout.write(text)
    else:
        with open(args.output, "w") as file:
            file.write(text)
    return 0
