#!/usr/bin/env python3
"""Writes docs/quality.md: the perplexity of the reference models in every type
of weights and of the KV cache.

usage: quality.py [--chunks N] [--models nano,pico,moe] [--out FILE] [BUILD]"""

import argparse
import json
import os
import subprocess
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.environ.get("CLEAVE_TEST_SHARED",
                        os.path.join(SOURCE, "..", "shared"))
MODELS = {"nano": "nano-f16.gguf", "pico": "pico/pico-f16.gguf", "moe": "moe"}
KV_TYPES = ("f16", "f32")


def parse():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("--chunks", type=int, default=-1)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--out", default=os.path.join(SOURCE, "docs",
                                                      "quality.md"))
    parser.add_argument("build", nargs="?", default="build")
    return parser.parse_args()


class Quality:
    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.tool = os.path.join(SOURCE, args.build, "tools", "cleave")
        self.text = os.path.join(SHARED, "text", "heldout.txt")

    def cleave(self, *args):
        done = subprocess.run([self.tool, *map(str, args), "-q"], check=True,
                              stdout=subprocess.PIPE)
        return done.stdout.decode()

    def types(self):
        return json.loads(self.cleave("quantize", "--list", "-o", "json"))

    def source(self, name):
        """The F16 file of a model."""
        path = os.path.join(SHARED, "models", MODELS[name])
        if not os.path.isdir(path):
            return path
        out = os.path.join(self.folder, name + ".gguf")
        self.cleave("convert", path, "--outtype", "f16", "-o", out)
        return out

    def calibration(self):
        """The last part of the text, which few windows are measured on."""
        with open(self.text, "rb") as f:
            part = f.read()[-40000:].decode("utf-8", "ignore")
        path = os.path.join(self.folder, "calibration.txt")
        with open(path, "w", encoding="utf-8") as f:
            f.write(part)
        return path

    def perplexity(self, path, kv_type):
        return json.loads(self.cleave(
            "perplexity", "-m", path, "-f", self.text, "-c", 512,
            "--chunks", self.args.chunks, "--kv-type", kv_type,
            "-o", "json"))

    def rows(self, name):
        """A row for each type: its name, bytes, and perplexities."""
        source = self.source(name)
        out = os.path.join(self.folder, "out.gguf")
        for kind in self.types():
            args = ["quantize", source, out, kind["type"], "-o", "json"]
            if kind["calibrated"]:
                args += ["--calibrate", self.calibration()]
            total = json.loads(self.cleave(*args))[-1]
            yield (kind["type"], total,
                   [self.perplexity(out, kv) for kv in KV_TYPES])

    def write(self, name, out):
        head = ["type", "bits", "MiB"]
        head += [kv.upper() + " cache" for kv in KV_TYPES] + ["to F16"]
        tokens, base = 0, None
        lines = []
        for kind, total, found in self.rows(name):
            tokens = found[0]["tokens"]
            if kind == "F16":
                base = found[0]["ppl"]
            change = "" if base is None or kind == "F16" else (
                "%+.2f%%" % (100 * (found[0]["ppl"] / base - 1)))
            lines.append([kind, "%.2f" % (8 * total["bytes"] /
                                          total["elements"]),
                          "%.2f" % (total["bytes"] / 2**20),
                          *("%.4f" % f["ppl"] for f in found), change])
            print(name, *lines[-1], flush=True)
        out.write("\n## %s, %d tokens\n\n| %s |\n|%s|\n" % (
            name, tokens, " | ".join(head),
            "|".join(["---"] + ["--:"] * (len(head) - 1))))
        for line in lines:
            out.write("| %s |\n" % " | ".join(line))


HEADER = """# Quality

Perplexity of the reference models on `shared/text/heldout.txt` in windows of
512 tokens, in every type that `cleave quantize` writes, with the KV cache in
F16 and F32. Lower is better; the last column compares the weights with F16, with
an F16 cache. w8a8 is calibrated with the last 40 kB of the text. Made by
`make quality`, on the CPU. [quantize.md](quantize.md) says what the types are.
"""


def main():
    args = parse()
    with tempfile.TemporaryDirectory() as folder:
        quality = Quality(args, folder)
        with open(args.out + ".new", "w", encoding="utf-8") as out:
            out.write(HEADER)
            for name in args.models.split(","):
                quality.write(name, out)
    os.replace(args.out + ".new", args.out)


if __name__ == "__main__":
    main()
