#!/usr/bin/env python3
"""Guards the layout of plugin.h against changes that break built plugins.

usage: guard.py check|update PROGRAM GOLDEN

PROGRAM prints the layout (see layout.py); GOLDEN is a file with what it printed
when the header was last released. check demands that both are equal and says
what differs. update rewrites GOLDEN, but only for additions: members at the end
of structs, new structs, new constants, names for reserved members.
"""
import subprocess
import sys

# Constants that follow what is counted, or the ABI's own version: they rise.
RISING = ("CLV_DTYPE_COUNT", "CLV_OP_COUNT", "CLV_ABI_VERSION")


class Struct:
    def __init__(self, size):
        self.size = size
        self.members = {}  # name: (offset, size)

    def is_union(self):
        starts = [m for m, (offset, _) in self.members.items() if not offset]
        return len(starts) > 1

    def can_grow(self):
        return "header" in self.members


class Layout:
    def __init__(self, text):
        self.structs = {}
        self.constants = {}
        for line in text.splitlines():
            words = line.split()
            if line.startswith("  "):
                struct.members[words[0]] = (int(words[1]), int(words[2]))
            elif words and words[0].startswith("CLV_"):
                self.constants[words[0]] = int(words[1])
            elif words:
                struct = self.structs[words[0]] = Struct(int(words[1]))


def compare_structs(old, new, breaks, adds):
    for name, was in old.structs.items():
        now = new.structs.get(name)
        if not now:
            breaks.append(f"{name}: removed")
            continue
        compare_members(name, was, now, breaks, adds)
    for name in new.structs.keys() - old.structs.keys():
        adds.append(f"{name}: new struct")


def put_to_use(member, place, was, now):
    """The new name of a reserved member, which was zero until now."""
    names = [m for m, at in now.members.items()
             if at == place and m not in was.members]
    return names[0] if names and member.startswith("reserved") else None


def compare_members(name, was, now, breaks, adds):
    used = set()
    for member, (offset, size) in was.members.items():
        if member not in now.members:
            use = put_to_use(member, (offset, size), was, now)
            if use:
                used.add(use)
                adds.append(f"{name}.{use}: in place of {member}")
                continue
            breaks.append(f"{name}.{member}: removed, was at offset {offset}")
            continue
        at, n = now.members[member]
        if at != offset:
            breaks.append(f"{name}.{member}: offset {offset} -> {at}")
        if n != size:
            breaks.append(f"{name}.{member}: size {size} -> {n}")
    for member, (offset, size) in now.members.items():
        if member in was.members or member in used:
            continue
        if now.is_union() and offset + size <= was.size:
            adds.append(f"{name}.{member}: new alternative")
        elif not was.can_grow():
            breaks.append(f"{name}.{member}: new, but a struct without header "
                          "cannot grow")
        elif offset < was.size:
            breaks.append(f"{name}.{member}: new at offset {offset}, before "
                          f"the end at {was.size}")
        else:
            adds.append(f"{name}.{member}: new at the end")
    if now.size < was.size:
        breaks.append(f"{name}: size {was.size} -> {now.size}")
    elif now.size != was.size and not was.can_grow():
        breaks.append(f"{name}: size {was.size} -> {now.size}, but a struct "
                      "without header cannot grow")
    elif now.size != was.size:
        adds.append(f"{name}: size {was.size} -> {now.size}")


def compare_constants(old, new, breaks, adds):
    for name, was in old.constants.items():
        now = new.constants.get(name)
        if now is None:
            breaks.append(f"{name}: removed, was {was}")
        elif now > was and name in RISING:
            adds.append(f"{name}: {was} -> {now}")
        elif now != was:
            breaks.append(f"{name}: {was} -> {now}")
    for name in new.constants.keys() - old.constants.keys():
        adds.append(f"{name}: new constant")


def compare(golden, printed):
    """What breaks built plugins, and what only adds, as lines."""
    old, new = Layout(golden), Layout(printed)
    breaks, adds = [], []
    compare_structs(old, new, breaks, adds)
    compare_constants(old, new, breaks, adds)
    return sorted(breaks), sorted(adds)


def main(mode, program, path):
    printed = subprocess.run([program], check=True, capture_output=True,
                             text=True).stdout
    with open(path) as file:
        golden = file.read()
    breaks, adds = compare(golden, printed)
    for line in breaks:
        print(f"{line}: breaks built plugins", file=sys.stderr)
    if breaks:
        print("plugin.h only grows at the end; add a member, a slot or a "
              "constant in place of this change", file=sys.stderr)
        return 1
    if mode == "update":
        with open(path, "w") as file:
            file.write(printed)
        for line in adds:
            print(f"added {line}")
        return 0
    for line in adds:
        print(f"{line}: not in {path}", file=sys.stderr)
    if printed != golden:
        print("the layout of plugin.h grew; if that is wanted: ninja -C build "
              "update-abi-layout", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("check", "update"):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
