"""cleave quantize: the files it writes, and those it does not."""

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
                        want = "q8_0"  # it is the output matrix too
                    self.assertEqual(dtype, want, name)
                self.assertEqual(after.keys["tokenizer.ggml.tokens"],
                                 before.keys["tokenizer.ggml.tokens"])

    def test_default_name(self):
        result = self.good("quantize", self.input, "q8_0")
        self.assertTrue(os.path.exists(self.path("model-q8_0.gguf")))
        self.assertIn("model-q8_0.gguf", result.err)
        self.assertEqual(result.out, b"")

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
