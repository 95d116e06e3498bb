"""Writes a C program that prints the layout of plugin.h: the size of every
struct, the offset and size of every member, the value of every enumerator.

usage: layout.py plugin.h layout.c
"""
import re
import sys


def members(body):
    """Names of the members of a struct body without comments, with inner
    structs as dotted paths."""
    names = []
    while inner := re.search(r"(struct|union)\s*\{([^{}]*)\}\s*(\w+)\s*;", body):
        names += [f"{inner[3]}.{m}" for m in members(inner[2])]
        body = body[:inner.start()] + body[inner.end():]
    for declaration in body.split(";"):
        declaration = " ".join(declaration.split())
        if not declaration:
            continue
        pointer = re.match(r".*?\(\*(\w+)\)\(", declaration)
        if pointer:
            names.append(pointer[1])
            continue
        for declarator in declaration.split(","):
            names.append(re.findall(r"\w+", re.sub(r"\[.*?\]", "",
                                                   declarator))[-1])
    return names


def main():
    text = open(sys.argv[1]).read()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    out = ['#include <cleave/plugin.h>', '#include <stdio.h>', '',
           'int main(void)', '{']
    for kind, name, body in re.findall(
            r"typedef (struct|union) (\w+) \{(.*?)\n\} \2;", text, flags=re.S):
        out.append(f'    printf("{name} %zu\\n", sizeof({name}));')
        for member in members(body):
            out.append(
                f'    printf("  {member} %zu %zu\\n", offsetof({name}, '
                f'{member}), sizeof((({name} *)0)->{member}));')
    for body in re.findall(r"enum \w*\s*\{(.*?)\}", text, flags=re.S):
        for name in re.findall(r"\b(CLV_\w+)\s*(?:=|,|$)", body, flags=re.M):
            out.append(f'    printf("{name} %lld\\n", (long long){name});')
    for name in re.findall(r"^#define (CLV_\w+) +\(?[0-9]\w*\)?\s*$", text,
                           flags=re.M):
        out.append(f'    printf("{name} %llu\\n", (unsigned long long){name});')
    out += ['    return 0;', '}', '']
    open(sys.argv[2], "w").write("\n".join(out))


main()
