#!/usr/bin/env python3
"""Writes plugin.h as another release has it.

usage: doctor.py old|newer PLUGIN_H OUT

old: the table as version 1 began. newer: ABI version 2, where every struct that
can grow has grown, the table by a slot.
"""
import re
import sys

STRUCT = re.compile(r"(typedef struct (\w+) \{\n    clv_header header;.*?)"
                    r"(\n\} \2;)", re.S)


def without_slot(text, name):
    """The table's last slot goes, with its comment."""
    slot = re.compile(r"\n    /\* [^/]*?\*/\n    clv_status \(\*" + name +
                      r"\)\([^;]*;", re.S)
    text, n = slot.subn("", text)
    assert n == 1, name
    return text


def old(text):
    return without_slot(text, "fault_inject")


def newer(text):
    def grow(match):
        extra = "\n    uint64_t newer_members[3];"
        if match[2] == "clv_plugin_api":
            extra += "\n    void (*newer_slot)(void);"
        return match[1] + extra + match[3]

    text, n = STRUCT.subn(grow, text)
    assert n >= 20, n
    text, n = re.subn(r"(#define CLV_ABI_VERSION) 1u", r"\1 2u", text)
    assert n == 1
    return text


def main(release, source, out):
    text = open(source).read()
    open(out, "w").write({"old": old, "newer": newer}[release](text))


main(*sys.argv[1:])
