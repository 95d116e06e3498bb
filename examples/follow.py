"""Follows a page of the documentation: runs the commands ('$ ...') of its
console blocks in order, in the working directory, and compares what they print.

usage: follow.py PAGE

A command ends with status 0, or as '# exits with N' says. Of the output shown,
every line without figures must be printed, whatever its blanks; '...' stands
for more.
"""
import re
import subprocess
import sys


def blocks(text):
    return re.findall(r"^```console\n(.*?)^```", text, flags=re.S | re.M)


def steps(block):
    """Pairs of a command and the lines shown after it."""
    found = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return found


def plain(line):
    return " ".join(line.split())


def follow(command, shown, directory):
    wanted = re.search(r"# exits with (\d+)$", command)
    done = subprocess.run(command, shell=True, cwd=directory, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != (int(wanted[1]) if wanted else 0):
        sys.exit(f"{command}\n{done.stdout}ended with {done.returncode}")
    printed = {plain(line) for line in done.stdout.splitlines()}
    for line in map(plain, shown):
        if line and line != "..." and not re.search(r"\d", line) and \
                line not in printed:
            sys.exit(f"{command}\n{done.stdout}does not print: {line}")
    words = command.split()
    return f"{directory}/{words[1]}" if words[0] == "cd" else directory


def main():
    directory, n = ".", 0
    for block in blocks(open(sys.argv[1]).read()):
        for command, shown in steps(block):
            directory = follow(command, shown, directory)
            n += 1
    if n < 10:
        sys.exit(f"{sys.argv[1]}: only {n} commands; are they marked?")
    print(f"{n} commands of {sys.argv[1]} do what it says")


main()
