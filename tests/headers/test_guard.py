#!/usr/bin/env python3
"""The layout guard, on doctored copies of plugin.h.

usage: test_guard.py PLUGIN_H COMPILER...
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).parent
HEADER = pathlib.Path(sys.argv[1]).read_text()
COMPILER = sys.argv[2:]


class Guard(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.golden = cls.root / "golden.txt"
        cls.released = subprocess.run([cls.build(HEADER)], check=True,
                                      capture_output=True, text=True).stdout

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def build(cls, text):
        """A program that prints the layout of a header with this text."""
        (cls.root / "cleave").mkdir(exist_ok=True)
        header = cls.root / "cleave" / "plugin.h"
        source, program = cls.root / "layout.c", cls.root / "layout"
        header.write_text(text)
        subprocess.run([sys.executable, HERE / "layout.py", header, source],
                       check=True)
        subprocess.run([*COMPILER, "-I", cls.root, source, "-o", program],
                       check=True)
        return program

    def guard(self, mode, *changes):
        """Runs the guard after replacing text in the header; each change must
        hit exactly once."""
        text = HEADER
        for old, new in changes:
            self.assertEqual(text.count(old), 1, old)
            text = text.replace(old, new)
        self.golden.write_text(self.released)
        program = self.build(text)
        done = subprocess.run([sys.executable, HERE / "guard.py", mode,
                               program, self.golden], capture_output=True,
                              text=True)
        return done.returncode, done.stdout + done.stderr

    def assert_breaks(self, line, *changes):
        for mode in "check", "update":
            code, said = self.guard(mode, *changes)
            self.assertEqual(code, 1, said)
            self.assertIn(line + ": breaks built plugins\n", said)
            self.assertEqual(self.golden.read_text(), self.released)

    def assert_adds(self, line, *changes):
        code, said = self.guard("check", *changes)
        self.assertEqual(code, 1, said)
        self.assertIn(line, said)
        self.assertNotIn("breaks", said)
        code, said = self.guard("update", *changes)
        self.assertEqual(code, 0, said)
        self.assertIn("added " + line, said)
        self.assertTrue(set(self.released.splitlines())
                        - set(self.golden.read_text().splitlines())
                        <= {"clv_program_info 64", "clv_plugin_api 336",
                            "  reserved2 60 4", "CLV_OP_COUNT 17"})

    def test_unchanged(self):
        self.assertEqual(self.guard("check"), (0, ""))
        self.assertEqual(self.guard("update"), (0, ""))

    def test_inserted_member(self):
        self.assert_breaks(
            "clv_op_caps.split_axes: offset 260 -> 264",
            ("    uint32_t split_axes; ",
             "    uint32_t inserted;\n    uint32_t split_axes; "))

    def test_inserted_slot(self):
        self.assert_breaks(
            "clv_plugin_api.quiesce: offset 80 -> 88",
            ("    clv_status (*quiesce)(",
             "    void (*slot)(void);\n    clv_status (*quiesce)("))

    def test_swapped_members(self):
        self.assert_breaks(
            "clv_mem_type.max_size: offset 40 -> 48",
            ("    uint64_t max_size; ", "    uint64_t budget_; "),
            ("    uint64_t budget; ", "    uint64_t max_size; "))

    def test_removed_member(self):
        self.assert_breaks(
            "clv_device_info.units: removed, was at offset 392",
            ("    uint32_t units; ", "    uint32_t cores; "))

    def test_widened_member(self):
        self.assert_breaks(
            "clv_trace_record.name: size 48 -> 64",
            ("    char name[48]; ", "    char name[64]; "))

    def test_struct_without_header(self):
        self.assert_breaks(
            "clv_axis_limit: size 24 -> 32, but a struct without header "
            "cannot grow",
            ("int64_t min, max, multiple;", "int64_t min, max, multiple, x;"))

    def test_renumbered_constant(self):
        self.assert_breaks("CLV_OP_CONVERT: 14 -> 15",
                           ("CLV_OP_CONVERT = 14", "CLV_OP_CONVERT = 15"))

    def test_removed_constant(self):
        self.assert_breaks("CLV_CLOCK_VIRTUAL: removed, was 1",
                           ("    CLV_CLOCK_VIRTUAL = 1,\n", ""))

    def test_changed_define(self):
        self.assert_breaks("CLV_NO_TENSOR: 4294967295 -> 65535",
                           ("CLV_NO_TENSOR 0xffffffffu",
                            "CLV_NO_TENSOR 0xffffu"))

    def test_new_member(self):
        self.assert_adds(
            "clv_program_info.more: new at the end",
            ("    uint32_t n_untouched, reserved2;\n",
             "    uint32_t n_untouched, reserved2;\n    uint64_t more;\n"))

    def test_new_slot(self):
        self.assert_adds(
            "clv_plugin_api.slot: new at the end",
            ("} clv_plugin_api;", "    void (*slot)(void);\n} clv_plugin_api;"))

    def test_new_alternative(self):
        self.assert_adds(
            "clv_op_attr.conv.stride: new alternative",
            ("    uint64_t raw[8];",
             "    struct { uint32_t stride; } conv;\n    uint64_t raw[8];"))

    def test_reserved_member(self):
        self.assert_adds(
            "clv_program_info.more: in place of reserved",
            ("    uint32_t n_untouched, reserved2;\n",
             "    uint32_t n_untouched, more;\n"))

    def test_reserved_member_of_another_size(self):
        self.assert_breaks(
            "clv_program_info.reserved2: removed, was at offset 60",
            ("    uint32_t n_untouched, reserved2;\n",
             "    uint32_t n_untouched;\n    uint16_t more;\n"))

    def test_new_op(self):
        self.assert_adds(
            "CLV_OP_CONV: new constant",
            ("    CLV_OP_MATMUL_EXPERTS = 16,",
             "    CLV_OP_MATMUL_EXPERTS = 16,\n    CLV_OP_CONV = 17,"))

    def test_new_struct(self):
        self.assert_adds(
            "clv_more: new struct",
            ("typedef struct clv_axis_limit {",
             "typedef struct clv_more {\n    clv_header header;\n} clv_more;\n"
             "typedef struct clv_axis_limit {"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
