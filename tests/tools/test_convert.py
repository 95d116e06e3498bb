"""cleave convert: a Hugging Face directory becomes a GGUF file, or several."""

import glob
import os
import shutil

import cli
from gguf import Gguf

SPLIT_KEYS = ("split.no", "split.count", "split.tensors.count")


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

    def convert(self, name, *args):
        """The files that were written, in their order."""
        done = self.good("convert", self.model, "-o", self.path(name + ".gguf"),
                         *args)
        found = sorted(glob.glob(self.path(name + "*.gguf")))
        self.assertEqual([line.split(":")[0] for line in
                          done.err.splitlines()], found)
        return found

    def test_types_are_those_of_quantize(self):
        whole, = self.convert("whole", "--outtype", "f16")
        for kind in self.good("quantize", "--list", "-o", "json").json:
            name = kind["type"]
            with self.subTest(name):
                quantized = self.path("quantized.gguf")
                if name not in ("F32", "F16", "BF16") and not name[0] in "QI":
                    self.bad("convert", self.model, "-o", self.path("no.gguf"),
                             "--outtype", name, says=["f16", "quantize"])
                    continue
                if name not in ("F32", "Q4_K_M"):
                    continue  # the others take long
                out, = self.convert("typed", "--outtype", name.lower())
                self.good("quantize", whole, quantized, name, "-q")
                made, again = Gguf(out), Gguf(quantized)
                self.assertEqual(made.tensors, again.tensors)
                size = os.path.getsize(out) // 64  # more than half are weights
                self.assertEqual(made.data[-size:], again.data[-size:])
                self.assertEqual(made.keys["general.file_type"],
                                 again.keys["general.file_type"])
        self.bad("convert", self.model, "--outtype", "q9", code=2,
                 says=["--outtype", "q9", "Q4_K_M"])

    def test_split(self):
        whole, = self.convert("whole")
        tensors = Gguf(whole).tensors
        limit = 3000000
        for args, fits in (
                (("--split-max-size", limit),
                 lambda part, size: size <= limit or len(part.tensors) == 1),
                (("--split-max-size", "3000k", "--split-max-tensors", 4),
                 lambda part, size: len(part.tensors) <= 4),
                (("--split-max-tensors", 20),
                 lambda part, size: len(part.tensors) <= 20)):
            with self.subTest(args):
                paths = self.convert("split", *args)
                count, found = len(paths), {}
                self.assertGreater(count, 1)
                for i, path in enumerate(paths):
                    self.assertTrue(path.endswith(
                        "split-%05d-of-%05d.gguf" % (i + 1, count)), path)
                    part = Gguf(path)
                    self.assertTrue(fits(part, os.path.getsize(path)), path)
                    self.assertEqual([part.keys.pop(k) for k in SPLIT_KEYS],
                                     [i, count, len(tensors)])
                    self.assertEqual(part.keys,
                                     Gguf(whole).keys if i == 0 else {})
                    found.update(part.tensors)
                self.assertEqual(list(found.items()), list(tensors.items()))
                self.good("verify", "-m", paths[-1], self.model)
                for path in paths:
                    os.rename(path, path.replace("split-", "first-"))
                for path in self.convert("split", *args):
                    with open(path, "rb") as a:
                        with open(path.replace("split-", "first-"), "rb") as b:
                            self.assertEqual(a.read(), b.read(), path)
                    os.unlink(path)

    def test_splits_that_are_none(self):
        plain, = self.convert("plain")
        for args in (("--split-max-size", "2G"), ("--split-max-tensors", 0),
                     ("--split-max-tensors", 10000)):
            one, = self.convert("one", *args)
            with open(plain, "rb") as a, open(one, "rb") as b:
                self.assertEqual(a.read(), b.read())
            os.unlink(one)
        for size in ("0", "-5", "", "2X", "2GB", "1.5G", "99999999999G",
                     "99999999999999999999"):
            self.bad("convert", self.model, "--split-max-size", size, code=2,
                     says=["--split-max-size", "'%s'" % size])

    def test_full_disk_leaves_no_parts(self):
        for name in ("new", "old-00002-of-00004"):
            with self.subTest(name):
                if name != "new":
                    self.write(name + ".gguf", "old")
                before = sorted(os.listdir(self.dir))
                self.bad("convert", self.model, "-o", self.path("old.gguf"),
                         "--split-max-tensors", 20, says="File too large",
                         preexec_fn=cli.small_disk)
                self.assertEqual(sorted(os.listdir(self.dir)), before)

    def test_no_part_over_what_is_no_file(self):
        self.convert("out", "--split-max-tensors", 20)
        parts = sorted(glob.glob(self.path("out-*.gguf")))
        os.unlink(parts[1])
        os.mkdir(parts[1])
        before = [os.stat(p).st_mtime_ns for p in parts]
        self.bad("convert", self.model, "-o", self.path("out.gguf"),
                 "--split-max-tensors", 20, says=[parts[1], "a directory"])
        self.assertEqual([os.stat(p).st_mtime_ns for p in parts], before)
        os.rmdir(parts[1])
        done = self.good("convert", self.model, "-o", self.path("out.gguf"),
                         "--split-max-tensors", 20)
        self.assertEqual(done.err.count("replaced"), len(parts) - 1)

    def test_full_disk_leaves_nothing(self):
        self.bad("convert", self.model, "-o", self.path("out.gguf"),
                 says=["out.gguf", "File too large"], preexec_fn=cli.small_disk)
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
