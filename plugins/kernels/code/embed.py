#!/usr/bin/env python3
"""embed.py SOURCE HEADER FILE...: the files as C strings gpu_template_NAME."""
import os
import sys


def literal(line):
    escaped = line.replace("\\", "\\\\").replace('"', '\\"')
    return '    "%s\\n"\n' % escaped.replace("\t", "\\t")


def main():
    source, header = (open(path, "w", encoding="utf-8")
                      for path in sys.argv[1:3])
    source.write('#include "%s"\n' % os.path.basename(sys.argv[2]))
    header.write("/* The templates, by the names of their files. */\n"
                 "#pragma once\n\n")
    for path in sys.argv[3:]:
        name = os.path.splitext(os.path.basename(path))[0]
        declaration = "const char gpu_template_%s[]" % name
        header.write("extern %s;\n" % declaration)
        source.write("\n%s =\n" % declaration)
        with open(path, encoding="utf-8") as text:
            source.writelines(literal(line)
                              for line in text.read().splitlines())
        source.write("    ;\n")


main()
