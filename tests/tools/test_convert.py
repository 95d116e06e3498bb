"""cleave convert: a Hugging Face directory becomes a GGUF file."""

import os
import shutil

import cli
from gguf import Gguf


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
