"""cleave quantize and cleave convert: the files they write, and do not."""

import os
import resource
import shutil
import struct

import cli

TYPES = {0: "f32", 1: "f16", 2: "q4_0", 8: "q8_0", 30: "bf16"}
# How to read a GGUF value: type -> struct format.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?",
           10: "Q", 11: "q", 12: "d"}


class Gguf:
    """The header of a GGUF file: keys, and tensors as name -> (dims, type)."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        self.at = 0
        assert self.data[:4] == b"GGUF"
        self.at = 4
        self.version = self.number("I")
        n_tensors, n_keys = self.number("Q"), self.number("Q")
        self.keys = {}
        for _ in range(n_keys):
            key = self.string()
            self.keys[key] = self.value(self.number("I"))
        self.tensors = {}
        for _ in range(n_tensors):
            name = self.string()
            dims = [self.number("Q") for _ in range(self.number("I"))]
            self.tensors[name] = (dims, TYPES[self.number("I")])
            self.number("Q")

    def number(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return value

    def string(self):
        n = self.number("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            kind = self.number("I")
            return [self.value(kind) for _ in range(self.number("Q"))]
        return self.number(SCALARS[kind])


def small_disk():
    """No file may pass 100 kB in this process."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))


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
                    self.assertEqual(dtype, kind.lower() if len(dims) > 1
                                     else "f32")
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
                 says=["out.gguf", "File too large"], preexec_fn=small_disk)
        self.assertEqual(os.listdir(self.dir), ["model-f16.gguf"])

    def test_full_disk_keeps_the_old_file(self):
        out = self.write("out.gguf", "old")
        self.bad("quantize", self.input, out, "q8_0", preexec_fn=small_disk)
        with open(out) as f:
            self.assertEqual(f.read(), "old")
        self.assertEqual(len(os.listdir(self.dir)), 2)

    def test_impossible_places(self):
        self.bad("quantize", self.input, self.dir, "q8_0", says="a directory")
        self.bad("quantize", self.input, "/dev/full", "q8_0", says="/dev/full")
        self.bad("quantize", self.input, self.path("no/such/dir/o.gguf"),
                 "q8_0", says="no/such/dir")
        self.bad("quantize", self.path("absent.gguf"), "q8_0",
                 says="absent.gguf")
        self.bad("quantize", self.dir, "q8_0", says=self.dir)

    def test_truncated_input_leaves_nothing(self):
        with open(cli.NANO, "rb") as f:
            cut = self.write("cut.gguf", f.read(1 << 20))
        self.bad("quantize", cut, self.path("out.gguf"), "q8_0",
                 says="cut.gguf")
        self.assertFalse(os.path.exists(self.path("out.gguf")))


@cli.needs_shared
class Convert(cli.Case):
    def setUp(self):
        super().setUp()
        self.model = self.path("tiny")
        shutil.copytree(cli.shared("models", "nano"), self.model,
                        copy_function=os.symlink)
        os.chmod(self.model, 0o755)

    def test_converted_model_meets_the_references(self):
        out = self.path("nano.gguf")
        self.good("convert", self.model, "-o", out, "--outtype", "f32")
        self.good("verify", "-m", out, self.model)
        self.assertEqual(Gguf(out).keys["general.architecture"], "llama")

    def test_default_name_and_type(self):
        self.good("convert", self.model + "/", "--outtype", "f16")
        made = Gguf(os.path.join(self.model, "tiny-f16.gguf"))
        for dims, dtype in made.tensors.values():
            self.assertEqual(dtype, "f16" if len(dims) > 1 else "f32")

    def test_agrees_with_the_published_conversion(self):
        out = self.path("nano.gguf")
        self.good("convert", self.model, "--outfile", out, "--outtype", "f16")
        text = "class A:\n    def __init__(self):  # ünï\n"
        self.assertEqual(self.good("tokenize", "-m", out, "-p", text).out,
                         self.good("tokenize", "-m", cli.NANO, "-p", text).out)
        self.assertEqual(Gguf(out).tensors, Gguf(cli.NANO).tensors)

    def test_full_disk_leaves_nothing(self):
        self.bad("convert", self.model, "-o", self.path("out.gguf"),
                 says=["out.gguf", "File too large"], preexec_fn=small_disk)
        self.assertEqual(os.listdir(self.dir), ["tiny"])

    def test_impossible_inputs(self):
        self.bad("convert", self.path("absent"), "-o", self.path("o.gguf"),
                 says="absent")
        self.bad("convert", cli.NANO, "-o", self.path("o.gguf"),
                 says="nano-f16.gguf")
        os.unlink(os.path.join(self.model, "config.json"))
        self.bad("convert", self.model, "-o", self.path("o.gguf"),
                 says="config.json")
        self.assertEqual(os.listdir(self.dir), ["tiny"])


if __name__ == "__main__":
    cli.main()
