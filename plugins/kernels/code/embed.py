#!/usr/bin/env python3
"""embed.py OUTPUT FILE...: the files as C strings gpu_template_NAME."""
import os
import sys


def literal(line):
    escaped = line.replace("\\", "\\\\").replace('"', '\\"')
    return '    "%s\\n"\n' % escaped.replace("\t", "\\t")


def main():
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write('#include "lower/lower.h"\n')
        for path in sys.argv[2:]:
            name = os.path.splitext(os.path.basename(path))[0]
            with open(path, encoding="utf-8") as text:
                out.write("\nconst char gpu_template_%s[] =\n" % name)
                out.writelines(literal(line) for line in
                               text.read().splitlines())
                out.write("    ;\n")


main()
