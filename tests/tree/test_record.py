#!/usr/bin/env python3
"""What scripts/record.py makes of measurements: counts by function, what got slower,
and the picture."""

import os
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "..", "..", "scripts"))
import record

COUNTS = """\
version: 1
events: Ir
fl=gemm.c
fn=micro
10 900
fi=inline.h
3 50
fe=gemm.c
11 50
fn=pack
7 20
fl=other.c
fn=micro
1 5
summary: 1025
"""


class Record(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def test_counts(self):
        with open(self.path("counts"), "w") as f:
            f.write(COUNTS)
        self.assertEqual(record.read_counts(self.path("counts")),
                         {"micro": 1005, "pack": 20})

    def test_slower_is_named(self):
        old = {"q8_0, micro": 1000, "q8_0, pack": 1000, "q8_0, all": 2000, "gone": 5}
        new = {"q8_0, micro": 1100, "q8_0, pack": 1020, "q8_0, all": 2120, "new": 9}
        lines = list(record.compare(old, new))
        self.assertEqual(len(lines), 2)
        self.assertEqual(
            lines[0], "slower by 10.0%: q8_0, micro: 1100, was 1000")
        self.assertIn("q8_0, all", lines[1])

    def test_kept(self):
        record.RECORD = self.path("record.csv")
        record.PICTURE = self.path("record.svg")
        records = [("a1", {"x, all": 100, 'odd "name", y': 7}), ("b2", {"x, all": 90})]
        record.write_record(records)
        self.assertEqual(record.read_record(), records)
        record.draw(records)
        with open(record.PICTURE) as f:
            text = f.read()
        self.assertIn("<polyline", text)
        self.assertIn("b2", text)


if __name__ == "__main__":
    unittest.main()
