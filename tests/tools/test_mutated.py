"""Damaged files of models: a message of one line or a result, never a signal,
and at most twice the file and 64 MiB of memory.

A few of the 400 cases are run; CLEAVE_TEST_LONG=1 runs all. Each has a number,
and CLEAVE_TEST_SEED=N runs that one alone."""

import json
import os
import random
import shutil
import subprocess
import unittest

import cli
import seeds

CASES = 400
QUICK = 40
EDGES = [0, 1, 2, 7, 12, 13, 31, 127, 128, 255, 65535, 65536, 0x7fffffff,
         0x80000000, 0xffffffff, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63,
         (1 << 64) - 1]
JSON_EDGES = [None, True, False, -1, 0, 1, 2, 1.5, 1e300, 1 << 53, 1 << 70, "",
              "x", "<s>", "../x", [], {}, [[]], ["a", "b"], {"a": 1}]


def put(data, at, width, value):
    return data[:at] + (value % (1 << 8 * width)).to_bytes(width, "little") + \
        data[at + width:]


def any_bytes(data, rng):
    """What happens to a file of any format."""
    at = rng.randrange(len(data))
    kind = rng.randrange(5)
    if kind == 0:
        return put(data, at, 1, rng.randrange(256))
    if kind == 1:
        return data[:at]
    if kind == 2:
        return data[:at] + data[at + rng.randrange(1, 64):]
    if kind == 3:
        return data[:at] + data[:rng.randrange(1, 64)] + data[at:]
    return data + bytes(rng.randrange(256) for _ in range(9))


def gguf(data, rng):
    """A count, a size, a type, an offset, a value or a string."""
    if rng.randrange(4) == 0:
        return any_bytes(data, rng)
    at, width = rng.choice(seeds.Gguf(data).fields)
    if width in (1, 2, 4, 8) and rng.randrange(4):
        return put(data, at, width, rng.choice(EDGES))
    return data[:at] + rng.randbytes(width) + data[at + width:]


def places(value, path=()):
    """Every place in a document."""
    yield path
    if isinstance(value, (dict, list)):
        keys = value if isinstance(value, dict) else range(len(value))
        for key in list(keys)[:40]:
            yield from places(value[key], path + (key,))


def json_text(data, rng):
    """A value, a name or a member of a document, or its text."""
    if rng.randrange(4) == 0:
        return any_bytes(data, rng)
    root = json.loads(data)
    *path, last = rng.choice([p for p in places(root) if p])
    holder = root
    for key in path:
        holder = holder[key]
    kind = rng.randrange(4)
    if kind == 0:
        del holder[last]
    elif kind == 1 and isinstance(holder, dict):
        holder[rng.choice(["x", "", "\0", "a" * 300])] = holder.pop(last)
    elif kind == 2 and isinstance(holder, dict):
        text, name = json.dumps(root), json.dumps(last) + ": "
        return text.replace(name, name + "0, " + name, 1).encode()
    else:
        holder[last] = rng.choice(JSON_EDGES)
    return json.dumps(root).encode()


def safetensors(data, rng):
    n = int.from_bytes(data[:8], "little")
    kind = rng.randrange(4)
    if kind == 0:
        return put(data, 0, 8, rng.choice(EDGES))
    if kind == 1:
        return any_bytes(data, rng)
    text = json_text(data[8:8 + n], rng)
    return len(text).to_bytes(8, "little") + text + data[8 + n:]


def mutator(name):
    return gguf if name.endswith(".gguf") else \
        safetensors if name.endswith(".safetensors") else json_text


class Files(cli.Case):
    @classmethod
    def setUpClass(cls):
        files = seeds.directory()
        cls.sets = [files]
        test = cls("make_gguf")
        test.setUp()
        try:
            data = seeds.with_every_type(test.make_gguf(files))
        finally:
            test.doCleanups()
        cls.sets += [{"model.gguf": data}, seeds.split(data, 3)]

    def store(self, files):
        path = self.path("model")
        shutil.rmtree(path, ignore_errors=True)
        os.mkdir(path)
        for name, data in files.items():
            self.write(os.path.join("model", name), data)
        return path

    def make_gguf(self, files):
        out = self.path("out.gguf")
        self.good("convert", self.store(files), "-o", out)
        with open(out, "rb") as f:
            return f.read()

    def target(self, files):
        """What a user would name of these files."""
        path = self.store(files)
        parts = [name for name in files if name.endswith(".gguf")]
        return os.path.join(path, sorted(parts)[0]) if parts else path

    def run_files(self, files):
        """Exit code, stderr and peak memory in bytes of a run."""
        with open(self.path("err"), "w+b") as err:
            run = subprocess.Popen(
                [cli.TOOL, "run", "-q", "-m", self.target(files), "-p", "the",
                 "-n", "2", "-c", "16", "--temp", "0"],
                stdout=subprocess.DEVNULL, stderr=err, env=self.environment())
            _, status, usage = os.wait4(run.pid, 0)
            run.returncode = os.waitstatus_to_exitcode(status)
            err.seek(0)
            text = err.read().decode("utf-8", "replace")
        return run.returncode, text, usage.ru_maxrss * 1024

    def check(self, files, case):
        code, text, memory = self.run_files(files)
        size = sum(map(len, files.values()))
        self.assertIn(code, (0, 1), (case, text))
        # Sanitizers have memory of their own for each byte.
        if not cli.SANITIZED:
            self.assertLess(memory, 2 * size + (64 << 20), (case, text))
        if code:
            self.assertEqual(text.count("\n"), 1, (case, text))
            self.assertRegex(text, r"^cleave run: \S")

    def test_mutated(self):
        only = os.environ.get("CLEAVE_TEST_SEED")
        step = 1 if cli.LONG else CASES // QUICK
        for case in [int(only)] if only else range(0, CASES, step):
            rng = random.Random(case)
            files = dict(rng.choice(self.sets))
            name = rng.choice(sorted(files))
            files[name] = mutator(name)(files[name], rng)
            if files[name] and rng.randrange(4) == 0:
                files[name] = any_bytes(files[name], rng)
            with self.subTest(case=case, file=name):
                self.check(files, (case, name))

    def test_whole(self):
        """The seeds are good, and all forms say the same."""
        texts = set()
        for files in self.sets:
            texts.add(self.good("run", "-q", "-m", self.target(files), "-p",
                                "the", "-n", "4", "-c", "16", "--temp",
                                "0").out)
        self.assertEqual(len(texts), 1)

    def test_any_part(self):
        """A split model is known by each of its parts."""
        path = self.store(self.sets[2])
        out = [self.good("run", "-q", "-m", os.path.join(path, name), "-p",
                         "the", "-n", "4", "-c", "16", "--temp", "0").out
               for name in sorted(self.sets[2])]
        self.assertEqual(len(set(out)), 1)
        merged = self.path("merged.gguf")
        self.good("quantize", os.path.join(path, sorted(self.sets[2])[1]),
                  merged, "q8_0")
        with open(merged, "rb") as f:
            tensors = seeds.Gguf(f.read()).tensors
        self.assertEqual(len(tensors), len(list(seeds.shapes())))

    def refuse(self, files, *says):
        self.bad("run", "-q", "-m", self.target(files), "-p", "the", says=says)

    def test_unused(self):
        """Fewer layers than the file has."""
        data = self.sets[1]["model.gguf"]
        key = seeds.string(b"llama.block_count") + b"\4\0\0\0"
        at = data.index(key) + len(key)
        self.refuse({"model.gguf": put(data, at, 4, seeds.LAYERS - 1)},
                    "'blk.1.", "1 layers")
        config = json.loads(self.sets[0]["config.json"])
        config["num_hidden_layers"] = 1
        self.refuse(dict(self.sets[0], **{
            "config.json": json.dumps(config).encode()}), "model.layers.1.")

    def test_strict(self):
        """What other readers overlook."""
        whole = self.sets[0]

        def changed(name, data):
            return dict(whole, **{name: data})

        shard = "model-00002-of-00002.safetensors"
        index = "model.safetensors.index.json"
        config = whole["config.json"]
        self.refuse(changed(shard, whole[shard] + b"\0"), shard,
                    "1 bytes behind the last tensor")
        self.refuse(changed("config.json", config + b"x"), "config.json",
                    "behind the end")
        self.refuse(changed("config.json", config.replace(
            b'"factor": 2.0', b'"factor": 2.0, "factor": 3.0')), "'factor'",
            "twice")
        self.refuse(changed("config.json", config.replace(
            b'"attention_bias": false', b'"attention_bias": true')),
            "q_proj.bias")
        self.refuse(changed("tokenizer.json", whole["tokenizer.json"].replace(
            b'"th": ', b'"th": 3, "th": ')), "'th'", "twice")
        self.refuse(changed(index, whole[index].replace(
            b'"weight_map": {', b'"weight_map": {"x": "%s", ' %
            shard.encode())), "'x'", "none of the files")
        self.refuse(changed(index, whole[index].replace(
            b"00002-of", b"00003-of")), "00003-of")


if __name__ == "__main__":
    cli.main()
