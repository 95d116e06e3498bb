"""cleave quantize: the files it writes, and those it does not."""

import math
import os
import shutil

import cli
from gguf import Gguf

@cli.needs_shared
class Quantize(cli.Case):
    def setUp(self):
        super().setUp()
        self.input = self.path("model-f16.gguf")
        os.symlink(cli.NANO, self.input)

    def test_types_and_names(self):
        for kind in ("q8_0", "Q4_0", "f16"):
            with self.subTest(kind):
                out = self.path("out.gguf")
                self.good("quantize", self.input, out, kind)
                before, after = Gguf(self.input), Gguf(out)
                self.assertEqual(set(before.tensors), set(after.tensors))
                for name, (dims, dtype) in after.tensors.items():
                    self.assertEqual(dims, before.tensors[name][0])
                    want = kind.lower() if len(dims) > 1 else "f32"
                    if name == "token_embd.weight" and want == "q4_0":
                        want = "q6_k"  # it is the output matrix too
                    self.assertEqual(dtype, want, name)
                self.assertEqual(after.keys["tokenizer.ggml.tokens"],
                                 before.keys["tokenizer.ggml.tokens"])

    def test_default_name(self):
        result = self.good("quantize", self.input, "q8_0", "-q")
        self.assertEqual((result.out, result.err), (b"", ""))
        result = self.good("quantize", self.input, "q8_0")
        self.assertTrue(os.path.exists(self.path("model-q8_0.gguf")))
        self.assertIn("model-q8_0.gguf", result.err)

    def test_threads_as_llama_quantize_takes_them(self):
        outs = [self.path("1.gguf"), self.path("3.gguf")]
        self.good("quantize", self.input, outs[0], "Q4_K_M", "1", "-q")
        self.good("quantize", self.input, outs[1], "q4_k_m", "3", "-q")
        with open(outs[0], "rb") as a, open(outs[1], "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.bad("quantize", self.input, outs[0], "Q4_K_M", "0", code=2,
                 says="number of threads")

    def test_list(self):
        names = [row["type"] for row in
                 self.good("quantize", "--list", "-o", "json").json]
        for name in ("Q8_0", "Q4_0", "Q5_0", "Q4_K_M", "Q5_K_M", "Q6_K",
                     "BF16", "F32", "q8", "8/4/4", "w4a16", "w8a8"):
            self.assertIn(name, names)

    def quantized(self, model, kind, *args):
        """Rows of the table by tensor, and the total."""
        window = ("-c", 16) if cli.SANITIZED else ()
        rows = self.good("quantize", model, self.path("out.gguf"), kind, *args,
                         *window, "-o", "json").json
        return {row["tensor"]: row for row in rows[:-1]}, rows[-1]

    def text(self, start, size):
        """Under a sanitizer, which takes 20 times as long, a part that fills its
        shorter windows: enough for all code to run, too little for perplexities
        to tell."""
        if cli.SANITIZED:
            size = min(size, 150)  # several windows
        with open(cli.shared("text", "heldout.txt"), "rb") as f:
            f.seek(start)
            return self.write("text-%d.txt" % start,
                              f.read(size).decode("utf-8", "ignore"))

    def check_ratio(self, total, least, most):
        """Of the perplexity after to that before."""
        ratio = total["ppl_after"] / total["ppl_before"]
        if not cli.SANITIZED:
            self.assertGreater(ratio, least)
            self.assertLess(ratio, most)

    def test_perplexity_before_and_after(self):
        text = self.text(20000, 5000)
        for kind, most in (("q4_k_m", 1.04), ("8/4/4", 1.12),
                           ("w4a16_g32", 1.1)):
            with self.subTest(kind):
                rows, total = self.quantized(self.input, kind, "--text", text)
                self.assertGreater(rows["blk.0.attn_q.weight"]["error"], 0)
                self.assertLess(rows["blk.0.attn_q.weight"]["error"], 0.2)
                self.assertEqual(rows["output_norm.weight"]["to"], "f32")
                self.check_ratio(total, 0.97, most)

    def test_activations_of_int8(self):
        self.bad("quantize", self.input, self.path("o.gguf"), "w8a8", code=2,
                 says="--calibrate")
        self.bad("quantize", self.input, self.path("o.gguf"), "q8",
                 "--calibrate", self.input, code=2,
                 says="leave out --calibrate")
        for option in (("--prune", "0.5"), ("--plain",)):
            self.bad("quantize", self.input, self.path("o.gguf"), "q8", *option,
                     code=2, says="leave out --prune and --plain")
        self.bad("quantize", self.input, self.path("o.gguf"), "w8a8", "--plain",
                 "--calibrate", self.input, "--prune", "0.5", code=2,
                 says="leave out --prune")
        learnt, text = self.text(0, 6000), self.text(20000, 8000)
        args = ("--calibrate", learnt, "--text", text)
        rows, total = self.quantized(self.input, "w8a8", *args)
        q, k = rows["blk.0.attn_q.weight"], rows["blk.0.attn_k.weight"]
        self.assertEqual(q["to"], "i8 tensor")
        self.assertEqual(q["input_scale"], k["input_scale"])  # one input
        self.check_ratio(total, 0, 1.03)

    def test_outliers(self):
        """A few columns are 8 to 64 times larger: with one range for all, little
        of the others is left; computed apart, they do no harm."""
        source = self.path("outlier.gguf")
        self.good("convert", cli.shared("models", "nano-outlier"), "-o", source)
        self.bad("quantize", source, self.path("o.gguf"), "w8a8", "--calibrate",
                 self.input, "--prune", "1.5", code=2, says="0..1")
        args = ("--calibrate", self.text(0, 1500), "--text",
                self.text(20000, 4000))
        _, total = self.quantized(source, "w8a8", *args, "--plain")
        self.check_ratio(total, 1.2, math.inf)
        rows, total = self.quantized(source, "w8a8", *args, "--prune", 0.85)
        self.check_ratio(total, 0, 1.02)
        # Of the layers those to which outliers matter most keep them; all that
        # reads one value is one layer.
        layers = {}
        for row in rows.values():
            if row.get("input_scale"):
                layers.setdefault(row["importance"], []).append(
                    bool(row.get("outliers")))
        kept = [importance for importance, rows in layers.items() if all(rows)]
        self.assertEqual(len(layers), 33)
        self.assertEqual(sum(any(rows) for rows in layers.values()), len(kept))
        self.assertEqual(sorted(layers)[-5:], sorted(kept))

    def test_wrong_channels(self):
        """Channels of outliers that a file has not."""
        out = self.path("w8a8.gguf")
        self.good("quantize", self.input, out, "w8a8", "--calibrate",
                  self.text(0, 150), "-q")
        with open(out, "r+b") as f:  # the channels of the last matrix
            f.seek(-64, os.SEEK_END)
            f.write(b"\xff" * 64)
        self.bad("run", "-m", out, "-p", "a", "-n", 1,
                 says="outlier_channels")

    def test_the_result_runs(self):
        out = self.path("q8.gguf")
        self.good("quantize", self.input, out, "q8_0", "-q")
        args = ("-p", "import os\nimport sys\n\nclass ", "-n", 8, "--temp", 0)
        self.assertEqual(self.good("run", "-m", out, *args).out,
                         self.good("run", "-m", cli.NANO, *args).out)

    def test_replacing_is_said(self):
        out = self.write("out.gguf", "old")
        result = self.good("quantize", self.input, out, "q8_0")
        self.assertIn("replaced", result.err)
        self.assertEqual(Gguf(out).keys["general.architecture"], "llama")
        self.assertNotIn("replaced", self.good(
            "quantize", self.input, self.path("new.gguf"), "q8_0").err)

    def test_never_over_the_input(self):
        copy = self.path("copy.gguf")
        shutil.copyfile(cli.NANO, copy)
        os.link(copy, self.path("link.gguf"))
        for out in (copy, self.path("link.gguf"), self.path("./copy.gguf")):
            self.bad("quantize", copy, out, "q8_0", says="is the input too")
        self.assertEqual(os.path.getsize(copy), os.path.getsize(cli.NANO))

    def test_full_disk_leaves_nothing(self):
        self.bad("quantize", self.input, self.path("out.gguf"), "q8_0",
                 says=["out.gguf", "File too large"], preexec_fn=cli.small_disk)
        self.assertEqual(os.listdir(self.dir), ["model-f16.gguf"])

    def test_full_disk_keeps_the_old_file(self):
        out = self.write("out.gguf", "old")
        self.bad("quantize", self.input, out, "q8_0", preexec_fn=cli.small_disk)
        with open(out) as f:
            self.assertEqual(f.read(), "old")
        self.assertEqual(len(os.listdir(self.dir)), 2)

    def test_impossible_places(self):
        self.bad("quantize", self.input, self.dir, "q8_0", says="a directory")
        self.bad("quantize", self.input, "/dev/full", "q8_0", says="/dev/full")
        self.bad("quantize", self.input, self.path("no/such/dir/o.gguf"),
                 "q8_0", says="no/such/dir")
        self.bad("quantize", self.input, "-", "q8_0", says="standard output",
                 cwd=self.dir)
        self.assertFalse(os.path.exists(self.path("-")))
        self.bad("quantize", self.path("absent.gguf"), "q8_0",
                 says="absent.gguf")
        self.bad("quantize", self.dir, "q8_0", says=self.dir)

    def test_truncated_input_leaves_nothing(self):
        with open(cli.NANO, "rb") as f:
            cut = self.write("cut.gguf", f.read(1 << 20))
        self.bad("quantize", cut, self.path("out.gguf"), "q8_0",
                 says="cut.gguf")
        self.assertFalse(os.path.exists(self.path("out.gguf")))


if __name__ == "__main__":
    cli.main()
