#!/usr/bin/env python3
"""check-includes.py [--root DIR] [--graph]

Checks the includes between the folders of the source tree against
scripts/layers.txt, which says which folder may include which. Fails on an
include that is not declared there, on a declaration that nothing uses, and on
a cycle between folders. --graph prints the includes that there are, as lines
"folder: folder (count) ...".
"""
import argparse
import collections
import pathlib
import re
import sys

SOURCES = (".c", ".h", ".cc", ".cpp")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(["<])([^">]+)[">]', re.M)


def read_layers(path):
    """The folders that are checked, with the set that each may include, and
    the folders that the build gives to the compiler ("path FOLDER")."""
    allowed, paths = {}, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        if line.startswith("path "):
            paths.append(line.removeprefix("path ").strip())
            continue
        folder, colon, rest = line.partition(":")
        if not colon or folder in allowed:
            sys.exit(f"{path}:{number}: 'folder: folder ...' is wanted, each "
                     "folder once")
        allowed[folder] = set(rest.split())
    return allowed, paths


def folder_of(path):
    """Public headers form a folder for each reader that they have."""
    if path.parts[:2] == ("include", "cleave"):
        name = path.name
        return "include/plugin" if name.startswith("plugin") else \
            "include/" + path.stem
    return path.parent.as_posix()


def find_target(root, paths, source, quote, name):
    """The included file, relative to the root, or None if it is not ours."""
    starts = [source.parent] if quote == '"' else []
    for start in starts + [root / path for path in paths]:
        found = pathlib.Path((start / name).resolve())
        if found.is_file() and found.is_relative_to(root):
            return found.relative_to(root)
    return None


def find_includes(root, top_folders, paths):
    """(folder, folder) -> places of the includes from the one to the other."""
    includes = collections.defaultdict(list)
    folders = set()
    sources = [p for top in sorted(top_folders)
               for p in sorted((root / top).rglob("*"))
               if p.suffix in SOURCES and p.is_file()]
    for source in sources:
        here = folder_of(source.relative_to(root))
        folders.add(here)
        text = source.read_text(errors="replace")
        for match in INCLUDE.finditer(text):
            target = find_target(root, paths, source, *match.groups())
            if target is None or folder_of(target) == here:
                continue
            line = text.count("\n", 0, match.start()) + 1
            includes[here, folder_of(target)].append(
                f"{source.relative_to(root)}:{line}")
    return folders, includes


def find_cycle(edges):
    """A list of folders that include one another in a ring, or None."""
    state, stack = {}, []

    def visit(folder):
        state[folder] = "open"
        stack.append(folder)
        for other in sorted(edges.get(folder, ())):
            if state.get(other) == "open":
                return stack[stack.index(other):] + [other]
            if other not in state:
                cycle = visit(other)
                if cycle:
                    return cycle
        stack.pop()
        state[folder] = "done"
        return None

    for folder in sorted(edges):
        if folder not in state:
            cycle = visit(folder)
            if cycle:
                return cycle
    return None


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    here = pathlib.Path(__file__).resolve().parent
    parser.add_argument("--root", type=pathlib.Path, default=here.parent)
    parser.add_argument("--graph", action="store_true")
    args = parser.parse_args()
    root = args.root.resolve()
    allowed, paths = read_layers(root / "scripts" / "layers.txt")
    folders, includes = find_includes(
        root, {folder.split("/")[0] for folder in allowed}, paths)
    edges = collections.defaultdict(set)
    for a, b in includes:
        edges[a].add(b)
    if args.graph:
        for folder in sorted(folders):
            print(folder + ":", *(f"{b} ({len(includes[folder, b])})"
                                  for b in sorted(edges[folder])))
    problems = []
    for folder in sorted(folders - set(allowed)):
        problems.append(f"{folder}: the folder is not in scripts/layers.txt")
    for (a, b), places in sorted(includes.items()):
        if a in allowed and b not in allowed[a]:
            problems.append(f"{places[0]}: {a} may not include {b} "
                            f"({len(places)} in all)")
    for a in sorted(allowed):
        for b in sorted(allowed[a] - edges[a]):
            problems.append(f"scripts/layers.txt: {a} does not include {b} "
                            "any more; remove it there")
    cycle = find_cycle(edges)
    if cycle:
        problems.append("folders include each other: " + " -> ".join(cycle))
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
