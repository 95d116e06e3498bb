"""Perplexity of nano in each weight type of GGUF: on the plain path what the
same weights give as F32, and near it on every instruction set.

The beginning of a text, whose values are from the same weights written as F32
by another implementation; with CLEAVE_TEST_LONG the whole text of
shared/models/types/types.txt, which takes half an hour."""

import json
import re
import unittest

import cli

LEVELS = ("ref", "avx2", "avx512", "avx512vnni", "amx")
BYTES = 2000
EXPECTED = {
    "q4_0": 3.4280, "q4_1": 3.3515, "q5_0": 3.3295, "q5_1": 3.3477,
    "q8_0": 3.2657, "q2_k": 4.7426, "q3_k_m": 3.4550, "q4_k_m": 3.3421,
    "q5_k_m": 3.3044, "q6_k": 3.2734, "iq4_nl": 3.3338, "iq4_xs": 3.3386,
}


def whole_text():
    """Type -> perplexity."""
    with open(cli.shared("models", "types", "types.txt")) as lines:
        rows = [line.split(None, 3) for line in lines]
    return {row[1]: json.loads(row[3])["ppl"] for row in rows}


@cli.needs_shared
class Types(cli.Case):
    def perplexity(self, kind, text, level):
        """None where the machine or the build lacks the level."""
        path = cli.shared("models", "types", "nano-%s.gguf" % kind)
        done = self.cleave("perplexity", "-m", path, "-f", text, "-c", 512,
                           "--set", "cpu.features=" + level)
        if re.search("this (machine|build) has no", done.err):
            return None
        self.assertEqual(done.code, 0, done.err)
        return float(re.match("perplexity ([0-9.]+) ", done.text).group(1))

    def compare(self, expected, text, limits):
        for kind, right in expected.items():
            for level in LEVELS:
                value = self.perplexity(kind, text, level)
                if value is None:
                    continue
                off = value / right - 1
                if cli.LONG:
                    print("%-8s %-10s %.4f, %+.3f%%" % (kind, level, value,
                                                        100 * off), flush=True)
                with self.subTest(type=kind, level=level, value=value):
                    self.assertLess(abs(off), limits[level != "ref"])

    def test_beginning(self):
        with open(cli.shared("text", "heldout.txt"), "rb") as text:
            begin = self.write("begin.txt", text.read(BYTES))
        # Few words scatter more.
        self.compare(EXPECTED, begin, (1e-3, 1e-2))

    @unittest.skipUnless(cli.LONG, "CLEAVE_TEST_LONG is not set")
    def test_whole(self):
        self.compare(whole_text(), cli.shared("text", "heldout.txt"),
                     (1e-3, 3e-3))


if __name__ == "__main__":
    cli.main()
