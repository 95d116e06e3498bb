"""cleave perplexity and cleave verify against reference outputs."""

import csv
import io
import json
import math
import os
import shutil
import struct
import unittest

import cli
import golden


def window_nll(case):
    """Mean nll of ids<case> of nano, from the reference logits."""
    arrays = golden.read(cli.shared("models", "nano", "golden.safetensors"))
    ids = golden.numbers(arrays["ids%d" % case])
    logits = golden.numbers(arrays["logits%d" % case])
    n = len(logits) // len(ids)
    total = 0.0
    for i, target in enumerate(ids[1:]):
        row = logits[i * n:(i + 1) * n]
        top = max(row)
        total += math.log(sum(math.exp(x - top) for x in row)) + top - \
            row[target]
    return ids, total / (len(ids) - 1)


@cli.needs_shared
class Perplexity(cli.Case):
    def prompt(self, case):
        with open(cli.shared("models", "nano", "golden.json")) as f:
            return self.write("prompt.txt", json.load(f)["prompts"][case])

    def test_one_window_against_reference_logits(self):
        for case in range(3):
            ids, nll = window_nll(case)
            for batch in (512, 4, 1):
                result = self.good("perplexity", "-m",
                                   cli.shared("models", "nano"), "-f",
                                   self.prompt(case), "-c", len(ids), "-b",
                                   batch, "--kv-type", "f32", "-o", "json").json
                self.assertEqual(result["tokens"], len(ids) - 1)
                self.assertAlmostEqual(result["nll"], nll, delta=1e-4 * nll)
                self.assertAlmostEqual(result["ppl"], math.exp(nll),
                                       delta=2e-4 * math.exp(nll))

    def test_windows_do_not_overlap_and_the_rest_is_dropped(self):
        with open(cli.shared("text", "heldout.txt"), "rb") as f:
            path = self.write("text.txt", f.read(3000))
        n = len(self.good("tokenize", "-m", cli.NANO, "-f", path).out.split())
        for c in (16, 33):
            result = self.good("perplexity", "-m", cli.NANO, "-f", path, "-c",
                               c, "-o", "json").json
            self.assertEqual(result["tokens"], n // (c - 1) * (c - 1))
        result = self.good("perplexity", "-m", cli.NANO, "-f", path, "-c", 16,
                           "--chunks", 3, "-o", "json").json
        self.assertEqual(result["tokens"], 3 * 15)

    def test_formats_agree(self):
        args = ("perplexity", "-m", cli.NANO, "-f", self.prompt(0), "-c", 8)
        want = self.good(*args, "-o", "json").json
        row = next(csv.DictReader(io.StringIO(
            self.good(*args, "-o", "csv").text)))
        self.assertEqual({k: float(v) for k, v in row.items()}, want)
        text = "%.4f" % want["ppl"]
        self.assertIn(text, self.good(*args, "-o", "md").text)
        self.assertIn(text, self.good(*args).text)

    def test_short_text(self):
        self.bad("perplexity", "-m", cli.NANO, "-f", self.prompt(0), "-c", 512,
                 says=["prompt.txt", "511", "-c"])
        self.bad("perplexity", "-m", cli.NANO, "-f", "/dev/null",
                 says="/dev/null")

    def heldout(self, model, reference, tolerance):
        with open(cli.shared("models", reference, "golden.json")) as f:
            want = json.load(f)["public"]
        result = self.good("perplexity", "-m", model, "-f",
                           cli.shared("text", "heldout.txt"), "-c",
                           want["window"], "-o", "json").json
        self.assertEqual(result["tokens"], want["tokens"])
        self.assertAlmostEqual(result["ppl"], want["ppl"],
                               delta=tolerance * want["ppl"])

    @unittest.skipUnless(cli.LONG, "CLEAVE_TEST_LONG is not set")
    def test_heldout_nano(self):
        self.heldout(cli.NANO, "nano", 0.002)

    @unittest.skipUnless(cli.LONG, "CLEAVE_TEST_LONG is not set")
    def test_heldout_pico(self):
        self.heldout(cli.shared("models", "pico", "pico-f16.gguf"), "pico",
                     0.002)

    @unittest.skipUnless(cli.LONG, "CLEAVE_TEST_LONG is not set")
    def test_heldout_q8_0(self):
        self.good("quantize", cli.NANO, self.path("q.gguf"), "q8_0")
        self.heldout(self.path("q.gguf"), "nano", 0.007)


@cli.needs_shared
class Verify(cli.Case):
    def copy(self):
        """A model of our own to damage."""
        shutil.copytree(cli.shared("goldens", "llama"), self.path("model"),
                        copy_function=shutil.copyfile)
        os.chmod(self.path("model"), 0o755)
        return self.path("model")

    def test_references_are_met(self):
        dirs = [cli.shared("models", "nano")] + [
            cli.shared("goldens", name)
            for name in ("llama", "llama3-rope", "mistral")]
        result = self.good("verify", *dirs)
        lines = result.text.splitlines()
        self.assertEqual(len(lines), 6 + 3 * 4)
        for line in lines:
            self.assertRegex(line, r"^ok    \S+ (logits|greedy)\d?: \d+ tokens")

    def test_json(self):
        rows = self.good("verify", cli.shared("goldens", "llama"), "-o",
                         "json").json
        self.assertEqual([r["case"] for r in rows],
                         ["logits0", "logits1", "greedy", "logits2"])
        self.assertTrue(all(r["pass"] for r in rows))
        self.assertTrue(all(0 <= r["relative_rms"] < 1e-3 for r in rows
                            if "relative_rms" in r))
        self.assertEqual(rows[2]["reproduced"], rows[2]["tokens"])

    def test_wrong_logits_fail(self):
        path = os.path.join(self.copy(), "golden.safetensors")
        arrays = golden.read(path)
        dtype, shape, data = arrays["logits2"]
        values = list(golden.numbers(arrays["logits2"]))
        values[-1] += 100
        arrays["logits2"] = (dtype, shape,
                             struct.pack("<%df" % len(values), *values))
        golden.write(path, arrays)
        result = self.cleave("verify", self.path("model"))
        self.assertEqual(result.code, 1)
        self.assertRegex(result.text, r"(?m)^FAIL .* logits2: ")
        self.assertEqual(result.text.count("FAIL"), 1)

    def test_wrong_greedy_token_fails(self):
        path = os.path.join(self.copy(), "golden.safetensors")
        arrays = golden.read(path)
        dtype, shape, _ = arrays["greedy"]
        ids = list(golden.numbers(arrays["greedy"]))
        ids[-1] = (ids[-1] + 1) % 512
        arrays["greedy"] = (dtype, shape, struct.pack("<%di" % len(ids), *ids))
        golden.write(path, arrays)
        result = self.cleave("verify", self.path("model"))
        self.assertEqual(result.code, 1)
        self.assertRegex(result.text, r"(?m)^FAIL .* greedy: .*%d reproduced, "
                         "then %d instead of %d" %
                         (len(ids) - 8, (ids[-1] - 1) % 512, ids[-1]))

    def test_tolerance_counts(self):
        result = self.cleave("verify", cli.shared("goldens", "llama"),
                             "--tolerance", 0)
        self.assertEqual(result.code, 1)
        self.assertIn("FAIL", result.text)

    def test_missing_and_malformed_references(self):
        model = self.copy()
        path = os.path.join(model, "golden.safetensors")
        arrays = golden.read(path)
        for name, change in (
                ("logits1", {k: v for k, v in arrays.items()
                             if k != "logits1"}),
                ("ids0", {k: v for k, v in arrays.items() if k != "ids0"}),
                ("ids1", dict(arrays, ids1=("I32", [1], b"\xff\xff\0\0"))),
                ("greedy", dict(arrays, greedy=arrays["ids2"])),
                ("logits2", dict(arrays, logits2=arrays["logits1"]))):
            with self.subTest(name):
                golden.write(path, change)
                self.assert_fails(model, name)
        os.unlink(path)
        self.assert_fails(model, "golden.safetensors")

    def assert_fails(self, model, says):
        result = self.cleave("verify", model, "-q")
        self.assertEqual(result.code, 1)
        self.assertIn(says, result.err)
        self.assertEqual(result.err.count("\n"), 1, result.err)

    def test_goes_on_after_a_bad_directory(self):
        result = self.cleave("verify", self.path("absent"),
                             cli.shared("goldens", "llama"))
        self.assertEqual(result.code, 1)
        self.assertEqual(result.text.count("ok  "), 4)
        self.assertTrue(result.err.endswith(
            "4 of 4 cases pass, 1 of 2 directories cannot be verified\n"),
            result.err)


if __name__ == "__main__":
    cli.main()
