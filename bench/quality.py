#!/usr/bin/env python3
"""Writes docs/quality.md: the perplexity of the reference models in every type
of weights and of the KV cache, and of files by llama.cpp where there are any.

usage: quality.py [--chunks N] [--models nano,pico,moe] [--theirs DIR]
                  [--out FILE] [BUILD]"""

import argparse
import glob
import json
import os
import subprocess
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.environ.get("CLEAVE_TEST_SHARED",
                        os.path.join(SOURCE, "..", "shared"))
# Where a model lies, how many windows take some minutes, and its types of
# weights: None for all.
MODELS = {"nano": ("nano-f16.gguf", 16, None),
          "pico": ("pico/pico-f16.gguf", 4, None),
          "moe": ("moe", 8, None),
          "nano-outlier": ("nano-outlier", 16, ("F16", "Q8_0", "w8a8"))}
KV_TYPES = ("f16", "f32", "q8_0")
CALIBRATION = 1500  # characters of a file
# How w8a8 is made of a model with outliers.
PRUNING = ("--plain", "--prune 0", "--prune 0.5", "--prune 0.85", "--prune 1")


def parse():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1])
    parser.add_argument("--chunks", type=int,
                        help="windows of 512 tokens, -1: the whole text "
                        "(default: as many as take some minutes)")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--theirs", metavar="DIR",
                        default=os.path.join(SHARED, "models", "types"),
                        help="where llama.cpp's files are, NAME-TYPE.gguf")
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

    def types(self, name):
        """What `cleave quantize` writes, F16 first: others compare with it."""
        kinds = json.loads(self.cleave("quantize", "--list", "-o", "json"))
        kinds.sort(key=lambda kind: kind["type"] != "F16")
        wanted = MODELS[name][2]
        for kind in kinds:
            if wanted and kind["calibrated"]:
                for options in PRUNING:
                    yield dict(kind, options=options)
            elif not wanted or kind["type"] in wanted:
                yield dict(kind, options="")

    def source(self, name):
        """The F16 file of a model."""
        path = os.path.join(SHARED, "models", MODELS[name][0])
        if not os.path.isdir(path):
            return path
        out = os.path.join(self.folder, name + ".gguf")
        self.cleave("convert", path, "--outtype", "f16", "-o", out)
        return out

    def calibration(self):
        """A text that is not measured, but Python too: the beginnings of the
        project's own files."""
        path = os.path.join(self.folder, "calibration.txt")
        with open(path, "w", encoding="utf-8") as out:
            for folder in ("bench", "scripts", "tests"):
                for name in sorted(glob.glob(os.path.join(
                        SOURCE, folder, "**", "*.py"), recursive=True)):
                    with open(name, encoding="utf-8") as f:
                        out.write(f.read(CALIBRATION))
        return path

    def perplexity(self, name, path, kv_type):
        return json.loads(self.cleave(
            "perplexity", "-m", path, "-f", self.text, "-c", 512,
            "--chunks", self.args.chunks or MODELS[name][1],
            "--kv-type", kv_type, "--devices", "cpu", "-o", "json"))

    def quantize(self, source, out, kind):
        """The total: elements and bytes."""
        args = ["quantize", source, out, kind["type"], "-o", "json"]
        if kind["calibrated"]:
            args += ["--devices", "cpu", "--calibrate", self.calibration()]
            args += kind["options"].split()
        return json.loads(self.cleave(*args))[-1]

    def theirs(self, name, kind):
        """llama.cpp's file of that type; None if there is none."""
        path = os.path.join(self.args.theirs, "%s-%s.gguf" %
                            (name, kind["type"].lower()))
        return path if os.path.exists(path) else None

    def rows(self, name):
        """For each type: its cells, and how many tokens were measured."""
        source = self.source(name)
        out = os.path.join(self.folder, "out.gguf")
        base = None
        for kind in self.types(name):
            total = self.quantize(source, out, kind)
            found = [self.perplexity(name, out, kv) for kv in KV_TYPES]
            ours = found[0]["ppl"]
            row = {"type": (kind["type"] + " " + kind["options"]).strip(),
                   "bits": "%.2f" % (8 * total["bytes"] / total["elements"]),
                   "MiB": "%.2f" % (total["bytes"] / 2**20)}
            for kv, f in zip(KV_TYPES, found):
                row[kv.upper() + " cache"] = "%.4f" % f["ppl"]
            row["to F16"] = change(ours, base) if base else ""
            base = base or ours
            theirs = self.theirs(name, kind)
            if theirs:
                ppl = self.perplexity(name, theirs, KV_TYPES[0])["ppl"]
                row["llama.cpp's file"] = "%.4f" % ppl
                row["ours to theirs"] = change(ours, ppl)
                row["size"] = change(os.path.getsize(out),
                                     os.path.getsize(theirs))
            print(name, *row.values(), flush=True)
            yield row, found[0]["tokens"]

    def write(self, name, out):
        rows, tokens = zip(*self.rows(name))
        head = max(rows, key=len).keys()
        out.write("\n## %s, %s tokens\n\n| %s |\n|%s|\n" % (
            name, format(tokens[0], ","), " | ".join(head),
            "|".join(["---"] + ["--:"] * (len(head) - 1))))
        for row in rows:
            out.write("| %s |\n" % " | ".join(row.get(h, "") for h in head))


def change(value, base):
    return "%+.2f%%" % (100 * (value / base - 1))


HEADER = """# Quality

Perplexity of the reference models on the beginning of `shared/text/heldout.txt`, in
windows of 512 tokens, in every type that `cleave quantize` writes, with the KV
cache in F16, F32 and Q8_0. Lower is better. [quantize.md](quantize.md) says what
the types are.

"To F16" compares the weights with F16, both with an F16 cache. Where there is a
file of the same model and type by llama.cpp, its perplexity follows, then how ours
and the size of our file differ.

w8a8 is calibrated with the first %s characters of each Python file of the
project, none of which is measured. `nano-outlier` is the same function as `nano`
with a few columns of activations 8 to 64 times larger. With one range for all of
them, up to the largest (`--plain`), little is left of the others. The outliers
computed apart cost next to nothing; `--prune` says for which part of the layers they
are cut off ([quantize.md](quantize.md#outliers)).

`make quality` writes this page, on the CPU: some ten minutes a model on two cores.
`bench/quality.py --chunks -1` takes the whole text, `--theirs DIR` other files by
llama.cpp: NAME-TYPE.gguf, as `llama-quantize` writes them.
"""


def main():
    args = parse()
    with tempfile.TemporaryDirectory() as folder:
        quality = Quality(args, folder)
        with open(args.out + ".new", "w", encoding="utf-8") as out:
            out.write(HEADER % format(CALIBRATION, ","))
            for name in args.models.split(","):
                quality.write(name, out)
    os.replace(args.out + ".new", args.out)


if __name__ == "__main__":
    main()
