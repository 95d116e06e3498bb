"""The OpenCL plugin's own ways: which devices it offers, what it keeps on disk;
and a model's text."""

import json
import os
import re
import sys

SOURCE = os.environ["CLEAVE_TEST_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "tools"))
import cli  # noqa: E402
from pocl import ONLY, POCL, OpenCL, OwnCache  # noqa: E402

PLUGIN = sys.argv[1]


class Devices(OpenCL):
    def test_platforms_are_chosen_by_name(self):
        device = self.pocl()
        self.assertRegex(device, r"^opencl:[a-z0-9.-]+$")
        result = self.bad("devices", *ONLY, "--devices", "opencl", "--set",
                          "opencl.platform=no such platform")
        self.assertIn("no device that opencl.platform", result.err)

    def test_types(self):
        device = self.pocl("--set", "opencl.type=cpu")
        self.assertEqual(device, self.pocl("--set", "opencl.type=all"))
        self.bad("devices", *POCL, "--devices", "opencl", "--set",
                 "opencl.type=gpu", says="opencl.type")

    def test_no_loader(self):
        """The plugin loads, and says what is missing if somebody asks."""
        none = ("--set", "opencl.loader=/nonexistent.so")
        self.assertEqual(self.devices(*ONLY, *none), [])
        self.bad("devices", *ONLY, *none, "--devices", "opencl",
                 says=("no OpenCL loader", "/nonexistent.so", "install"))
        self.bad("devices", *ONLY, "--devices", "opencl", "--set",
                 "opencl.loader=" + PLUGIN, says="lacks cl")

    def test_the_cpu_is_one_device(self):
        """Its own plugin is preferred; both work if both are asked for."""
        device = self.pocl()
        self.assertEqual(self.devices(*POCL), [])
        both = self.good("devices", "-o", "json", *POCL, "--devices",
                         "cpu," + device).json["devices"]
        self.assertEqual([d["id"] for d in both], ["cpu", device])

    @cli.needs_shared
    def test_memory(self):
        """As much as the key allows, which is what is said of it."""
        device = self.pocl()
        for mib in 300, 1:
            limit = ("--set", "opencl.max_memory=%d" % mib)
            found = self.devices(*POCL, "--devices", device, *limit)
            self.assertEqual(found[0]["memory"], mib << 20)
        # A driver that has nothing in its cache may compile for so long that it is
        # said: -q.
        self.bad("run", "-q", *POCL, "-m", cli.NANO, "-p", "The quick " * 150,
                 "-n", "1", "--devices", device, *limit,
                 says=("opencl.max_memory limits them to 1 MiB", "raise it"))


class Kernels(OwnCache):
    def run_text(self, *args, devices=None):
        """Some text, and what was said about kernels."""
        devices = devices or self.pocl() + ",cpu"
        result = self.good("run", *POCL, "--devices", devices, "--log-level",
                           "debug", "--temp", "0", "-n", "2", "-p", "def", *args)
        built = set(re.findall(r"opencl: .*: (\w+) is built", result.err))
        kept = set(re.findall(r"opencl: .*: (\w+) comes from the cache",
                              result.err))
        return result, built, kept

    def damage(self):
        entries = os.path.join(self.path("cache"), "cleave", "opencl")
        for name in os.listdir(entries):
            with open(os.path.join(entries, name), "r+b") as f:
                f.seek(-20, os.SEEK_END)
                f.write(b"\xff" * 8)

    def test_starts(self):
        """The second one compiles nothing; damaged entries are built again."""
        first, built, kept = self.run_text()
        self.assertTrue(built)
        self.assertFalse(kept)
        second, again, kept = self.run_text()
        self.assertFalse(again)
        self.assertEqual(kept, built)
        self.assertEqual(first.text, second.text)
        self.damage()
        third, again, kept = self.run_text()
        self.assertFalse(kept)
        self.assertEqual(again, built)
        self.assertEqual(first.text, third.text)


@cli.needs_shared
class Times(OpenCL):
    def test_kernels_by_name(self):
        """By the device's clock; nano has eight layers."""
        device = self.pocl()
        rows = self.good("bench", "-m", cli.NANO, *POCL, "--devices",
                         device + ",cpu", "--kernels", "-p", 0, "-n", 2,
                         "--no-warmup", "-q", "-o", "json").json
        rows = [r for r in rows if r["device"] == device]
        products = [r for r in rows if r["op"] == "matmul"]
        self.assertRegex(products[0]["kernel"], "^gem[mv]")
        self.assertGreater(products[0]["flops_per_s"], 1e6)
        runs = {r["kernel"]: r["runs"] for r in rows}
        self.assertEqual(runs["attention"], 2 * 8)
        self.assertTrue(all(r["ns"] > 0 for r in rows))


@cli.needs_shared
class Text(OpenCL):
    def test_is_the_reference(self):
        with open(cli.shared("models", "nano", "golden.json")) as f:
            golden = json.load(f)
        prompt, text = golden["prompts"][0], golden["greedy_text"][0]
        device = self.pocl()
        for memory, n in ("auto", "16"), ("separate", "4"):
            with self.subTest(memory):
                out = self.good("run", "-m", cli.NANO, *POCL, "--devices",
                                device + ",cpu",
                                "--set", "opencl.memory=" + memory,
                                "--temp", "0", "-n", n, "-p", prompt).text
                self.assertTrue((prompt + out).strip())
                self.assertTrue(text.startswith(prompt + out))

    def test_memory_for_some_repacked_weights(self):
        """What does not fit is made without, and gives the same text. Attention
        has no weights, and PoCL compiles it by matrices for more than a minute."""
        args = ("run", "-m", cli.NANO, *POCL, "--devices", self.pocl(),
                "--temp", "0", "-n", "8", "-p", "Once upon a time", "--set",
                "opencl.matrix=plain", "--set", "opencl.disabled="
                "attention_prefill_tensor,attention_decode_tensor", "--set")
        right = self.good(*args, "opencl.repack_memory=-1")
        some = self.good(*args, "opencl.repack_memory=300000")
        self.assertEqual(some.text, right.text)
        self.assertRegex(" ".join(some.err.split()),
                         r"no memory for more than 0\.[23] MiB of a program's "
                         "repacked")
        self.assertNotIn("repacked", right.err)

    def test_is_the_reference_by_a_cache_of_q8_0(self):
        with open(cli.shared("models", "nano", "golden.json")) as f:
            golden = json.load(f)
        prompt, text = golden["prompts"][0], golden["greedy_text"][0]
        out = self.good("run", "-m", cli.NANO, *POCL, "--devices", self.pocl(),
                        "-ctk", "q8_0", "-ctv", "q8_0", "--temp", "0", "-n",
                        "8", "-p", prompt).text
        self.assertTrue(out.strip())
        self.assertTrue(text.startswith(prompt + out), out)

    def test_is_the_reference_by_a_cache_of_weights(self):
        """Prefill and decode share it."""
        with open(cli.shared("models", "nano", "golden.json")) as f:
            golden = json.load(f)
        prompt, text = golden["prompts"][0], golden["greedy_text"][0]
        out = self.good("run", "-m", cli.NANO, *POCL, "--devices", self.pocl(),
                        "--set", "opencl.memory=separate", "--set",
                        "opencl.kv=weights", "--log-level", "debug", "--temp",
                        "0", "-n", "16", "-p", prompt)
        self.assertTrue(out.text.strip())
        self.assertTrue(text.startswith(prompt + out.text))
        self.assertRegex(out.err,
                         r"States in the layout of weights on opencl:[\w.-]+: 16,")

    def test_activations_in_a_texture(self):
        """All of a model, by kernels that read and write images."""
        device = self.pocl()
        args = ("run", "-m", cli.NANO, *POCL, "--devices", device, "--temp",
                "0", "-n", "6", "-p", "def f", "--set")
        right = self.good(*args, "opencl.storage=auto").text
        texts = self.good(*args, "opencl.storage=texture_2d", "--set",
                          "opencl.weights=texture_array").text
        self.assertTrue(right.strip())
        self.assertEqual(texts, right)
        kept = []
        for folder, _, names in os.walk(self.environment()["XDG_CACHE_HOME"]):
            for name in names:
                with open(os.path.join(folder, name), "rb") as f:
                    text = f.read()
                    kept.append(b"write_only image2d_t dst" in text and
                                b"read_only image2d_array_t w" in text)
        self.assertTrue(any(kept))


if __name__ == "__main__":
    del sys.argv[1:3]  # what follows names cases
    cli.main()
