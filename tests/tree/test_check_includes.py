#!/usr/bin/env python3
"""The check of includes accepts the tree as it is, and nothing worse."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / \
    "check-includes.py"

FILES = {
    "scripts/layers.txt": "low:\nhigh: low\nhigh/inner: low\n",
    "low/base.h": "",
    "high/top.c": '#include "../low/base.h"\n',
    "high/inner/part.c": '#include "../../low/base.h"\n#include "part.h"\n',
    "high/inner/part.h": "",
}


def check(changes):
    with tempfile.TemporaryDirectory() as root:
        for name, text in {**FILES, **changes}.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        run = subprocess.run([SCRIPT, "--root", root], capture_output=True,
                             text=True)
    return run.returncode, run.stderr


class Includes(unittest.TestCase):
    def refused(self, changes, *words):
        code, text = check(changes)
        self.assertEqual(code, 1, text)
        for word in words:
            self.assertIn(word, text)

    def test_sound(self):
        self.assertEqual(check({}), (0, ""))

    def test_upward(self):
        self.refused({"low/base.h": '#include "../high/inner/part.h"\n'},
                     "low/base.h:1: low may not include high/inner")

    def test_cycle_that_is_declared(self):
        self.refused(
            {"scripts/layers.txt": "low: high/inner\nhigh: low\n"
             "high/inner: low\n",
             "low/base.h": '#include "../high/inner/part.h"\n'},
            "low -> high/inner -> low")

    def test_parent_counts(self):
        self.refused(
            {"high/top.h": "", "high/inner/part.h": '#include "../top.h"\n'},
            "high/inner/part.h:1: high/inner may not include high")

    def test_folder_of_the_compiler(self):
        self.refused({"scripts/layers.txt": FILES["scripts/layers.txt"] +
                      "path high\n",
                      "low/base.c": '#include "inner/part.h"\n'},
                     "low may not include high/inner")

    def test_folder_that_is_not_declared(self):
        self.refused({"low/more/a.c": ""}, "low/more: the folder")

    def test_unused_declaration(self):
        self.refused({"high/top.c": ""}, "high does not include low any more")

    def test_the_project(self):
        run = subprocess.run([SCRIPT], capture_output=True, text=True)
        self.assertEqual((run.returncode, run.stderr), (0, ""))


if __name__ == "__main__":
    sys.exit(unittest.main())
