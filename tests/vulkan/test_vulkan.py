#!/usr/bin/env python3
"""Texts by the Vulkan plugin are those of the CPU, also under Vulkan's
validation layer, with an empty cache, a full one and a damaged one."""
import os
import re
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["CLEAVE_TEST_SOURCE"], "tests",
                                "tools"))
import cli

MODEL = os.path.join(cli.SHARED, "models", "nano-f16.gguf")
PROMPT = ("-m", MODEL, "-p", "The quick", "-n", "4", "--temp", "0")
ALL = {"CLEAVE_CORE_PLUGINS": ""}


def cached(case):
    """What the plugin has cached: the text of each kernel, too."""
    folder = os.path.join(case.path("cache"), "cleave", "vulkan")
    for name in os.listdir(folder):
        with open(os.path.join(folder, name), "rb") as file:
            yield file.read()


@unittest.skipUnless(os.path.exists(MODEL), "no nano-f16.gguf")
class Run(cli.Case):
    def text(self, devices, **settings):
        env = dict(ALL, **settings)
        return self.good("run", *PROMPT, "--devices", devices, env=env).text

    def damage_cache(self):
        for folder, _, names in os.walk(self.path("cache")):
            for name in names:
                with open(os.path.join(folder, name), "r+b") as file:
                    file.seek(-1, os.SEEK_END)
                    last = file.read(1)[0]
                    file.seek(-1, os.SEEK_END)
                    file.write(bytes([last ^ 255]))

    def test_same_text(self):
        right = self.text("cpu")
        self.assertEqual(self.text("vulkan,cpu"), right)
        self.assertEqual(
            self.text("vulkan,cpu", CLEAVE_VULKAN_VALIDATION="on"), right)
        self.damage_cache()
        self.assertEqual(self.text("vulkan,cpu"), right)

    def test_cache_as_weights(self):
        text = self.text("vulkan", CLEAVE_VULKAN_KV="weights")
        self.assertEqual(text, self.text("cpu"))

    def test_cache_of_q8_0(self):
        cpu, vulkan = (self.good(
            "perplexity", "-m", MODEL, "-f", cli.shared("text", "heldout.txt"),
            "-c", 128, "--chunks", 1, "--devices", device, "--kv-type", "q8_0",
            "-o", "json", env=ALL).json["ppl"] for device in ("cpu", "vulkan"))
        self.assertLess(abs(vulkan / cpu - 1), 0.001)
        cache = ("-ctk", "q8_0", "-ctv", "q8_0")
        cpu, vulkan = (self.good("run", *PROMPT, *cache, "--devices", device,
                                 env=ALL).text for device in ("cpu", "vulkan"))
        self.assertEqual(cpu, vulkan)

    def test_images(self):
        right = self.text("vulkan")
        for storage, weights in (("image_buffer", "texture_2d"),
                                 ("texture_3d", "image_buffer")):
            with self.subTest(storage):
                text = self.text("vulkan", CLEAVE_VULKAN_STORAGE=storage,
                                 CLEAVE_VULKAN_WEIGHTS=weights,
                                 CLEAVE_VULKAN_VALIDATION="on")
                self.assertEqual(text, right)
        self.assertTrue([text for text in cached(self)
                         if b"writeonly image2D dst" in text],
                        "no kernel brings weights into textures")


class Devices(cli.Case):
    def test_none_named(self):
        found = self.good("devices", "-o", "json", env=dict(
            ALL, CLEAVE_VULKAN_DEVICES="no such device")).json
        self.assertFalse([d for d in found["devices"]
                          if d["id"].startswith("vulkan")])

    @unittest.skipUnless(os.path.exists(MODEL), "no nano-f16.gguf")
    def test_memory(self):
        """As much as the key allows, which is what is said of it."""
        for mib in 300, 1:
            limit = ("--set", "vulkan.max_memory=%d" % mib)
            found = self.good("devices", "-o", "json", "--devices", "vulkan",
                              "--set", "vulkan.devices=llvmpipe", *limit,
                              env=ALL).json["devices"]
            if not found:
                self.skipTest("no llvmpipe")
            self.assertEqual(found[0]["memory"], mib << 20)
        self.bad("run", *PROMPT, "-p", "The quick " * 150, "--devices",
                 "vulkan", "--set", "vulkan.devices=llvmpipe", *limit, env=ALL,
                 says=("vulkan.max_memory limits them to 1 MiB", "raise it"))

    @unittest.skipUnless(os.path.exists(MODEL), "no nano-f16.gguf")
    def test_ptx(self):
        """By drivers that do not take it."""
        self.bad("run", *PROMPT, "--devices", "vulkan", "--set",
                 "vulkan.devices=llvmpipe", "--set", "vulkan.ptx=on", env=ALL,
                 says=("ptx = on", "VK_NVX_binary_import", "use auto"))


class Trials(cli.Case):
    """Kernels are tried before they are used."""

    def opened(self, *args):
        """What opening llvmpipe says."""
        found = self.good("devices", "-o", "json", "--devices", "vulkan",
                          "--set", "vulkan.devices=llvmpipe", *args, env=ALL)
        if not found.json["devices"]:
            self.skipTest("no llvmpipe")
        return re.sub(r"\s+", " ", found.err)

    def test_right_ones_are_used(self):
        """And are not tried again: nothing is said of any."""
        for _ in range(2):
            said = self.opened("--set", "vulkan.trial=on", "--set",
                               "core.probe_timeout=120")
            self.assertNotIn("kernels", said)
        self.assertTrue([entry for entry in cached(self)
                         if b"clvgpu1\0trial\0" in entry])

    def test_names_are_names(self):
        self.bad("devices", "--devices", "vulkan", "--set",
                 "vulkan.disabled=a;b", env=ALL, says="vulkan.disabled")


class Tune(cli.Case):
    """A product of eight rows: several kernels can make it."""

    MATMUL = os.path.join(cli.BUILD, "examples", "matmul")

    def product(self, tune):
        env = self.environment({
            "CLEAVE_CORE_PLUGINS": "vulkan", "CLEAVE_CORE_DEVICES": "vulkan",
            "CLEAVE_VULKAN_DEVICES": "llvmpipe", "CLEAVE_VULKAN_TUNE": tune})
        done = subprocess.run([self.MATMUL, "8", "64", "48"], env=env,
                              capture_output=True, text=True, timeout=300)
        if "no device" in done.stderr:
            self.skipTest("no llvmpipe")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def found(self):
        # The trial of a plugin may have products of its own.
        return [found for entry in cached(self)
                for found in re.findall(rb"\0(matmul-f32-o6-i6-n3=\d+)$", entry)]

    def test_what_is_found_is_kept(self):
        guessed = self.product("fast")
        self.assertEqual(self.found(), [])
        self.assertEqual(self.product("exhaustive"), guessed)
        kept = self.found()
        self.assertEqual(len(kept), 1)
        self.assertEqual(self.product("fast"), guessed)
        self.assertEqual(self.found(), kept)


if __name__ == "__main__":
    unittest.main()
