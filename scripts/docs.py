#!/usr/bin/env python3
"""docs.py [--check] [FILE.md ...]

Runs the commands whose output the documents show, and puts the output there:

    <!-- run: cleave plan ... | sed -n 1,12p -->
    ...replaced...
    <!-- end -->

A command runs in a shell with build/tools first on its path. Output that stands
in a fenced block stays in one; then the block begins with the command after
"$ ", and has what a terminal shows. Without names, all documents are renewed. --check changes nothing and
fails where the output of a simulated device, whose times are the same on every
machine, is not what the document says.
"""
import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- run: (.*?) -->\n)(.*?)(<!-- end -->)", re.S)


def run(command, terminal, cache):
    env = dict(os.environ, LC_ALL="C")
    env["XDG_CACHE_HOME"] = cache
    build = env.get("CLEAVE_TEST_BUILD", f"{ROOT}/build")
    env["PATH"] = f"{build}/tools:{env['PATH']}"
    done = subprocess.run(["sh", "-c", command], cwd=ROOT, env=env, text=True,
                          stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT if terminal else None)
    if done.returncode:
        sys.exit(f"docs: {command}\n{done.stdout}")
    return done.stdout


def show(command, old, cache):
    fenced = old.startswith("```")
    output = run(command.replace("\\\n", " "), fenced, cache)
    if fenced:
        return f"```\n$ {command}\n{output.strip(chr(10))}\n```\n"
    return output.strip("\n") + "\n"


NUMBER = re.compile(r"\d+\.\d+")


def alike(old, new):
    """Equal but for fractions that differ by less than 1%: a profile read from
    the cache is rounded."""
    if NUMBER.sub("#", old) != NUMBER.sub("#", new):
        return False
    return all(abs(float(a) - float(b)) <= 0.01 * max(float(a), float(b))
               for a, b in zip(NUMBER.findall(old), NUMBER.findall(new)))


def renew(path, check, cache):
    text = path.read_text()
    failed = False

    def replace(match):
        nonlocal failed
        head, command, old, end = match.groups()
        if check and "npu_sim" not in command:
            return match.group(0)
        new = show(command, old, cache)
        if check and not alike(old, new):
            failed = True
            sys.stderr.writelines(difflib.unified_diff(
                old.splitlines(True), new.splitlines(True), str(path),
                "what the command prints"))
        return head + new + end

    new = BLOCK.sub(replace, text)
    if not check and new != text:
        path.write_text(new)
    return failed


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    files = args.files or [ROOT / "README.md",
                           *sorted((ROOT / "docs").glob("*.md"))]
    failed = []
    for path in files:  # nothing is known of devices when a document begins
        with tempfile.TemporaryDirectory() as cache:
            if renew(path, args.check, cache):
                failed.append(path)
    if failed:
        print("docs: run 'make docs' and look at what changed",
              file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
