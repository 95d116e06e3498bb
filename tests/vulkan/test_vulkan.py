#!/usr/bin/env python3
"""Texts by the Vulkan plugin are those of the CPU, also under Vulkan's
validation layer, with an empty cache, a full one and a damaged one."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["CLEAVE_TEST_SOURCE"], "tests",
                                "tools"))
import cli

MODEL = os.path.join(cli.SHARED, "models", "nano-f16.gguf")
PROMPT = ("-m", MODEL, "-p", "The quick", "-n", "4", "--temp", "0")
ALL = {"CLEAVE_CORE_PLUGINS": ""}


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
        self.assertEqual(self.text("vulkan,cpu"), right)
        self.damage_cache()
        self.assertEqual(self.text("vulkan,cpu"), right)

    def test_activations_in_images(self):
        right = self.text("vulkan")
        for storage in "image_buffer", "texture_3d":
            with self.subTest(storage):
                text = self.text("vulkan", CLEAVE_VULKAN_STORAGE=storage,
                                 CLEAVE_VULKAN_VALIDATION="on")
                self.assertEqual(text, right)

    def test_validation(self):
        right = self.text("cpu")
        self.assertEqual(
            self.text("vulkan,cpu", CLEAVE_VULKAN_VALIDATION="on"), right)


class Devices(cli.Case):
    def test_none_named(self):
        found = self.good("devices", "-o", "json", env=dict(
            ALL, CLEAVE_VULKAN_DEVICES="no such device")).json
        self.assertFalse([d for d in found["devices"]
                          if d["id"].startswith("vulkan")])


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
        self.assertNotIn("not used", self.opened("--set", "vulkan.trial=on"))

    def test_a_wrong_one_is_found_and_remembered(self):
        wrong = ("--set", "vulkan.trial=on", "--set",
                 "vulkan.wrong=matmul_vector")
        for _ in range(2):
            said = self.opened(*wrong)
            self.assertIn("kernels not used: matmul_vector;", said)
            self.assertNotIn("matmul_tile", said)

    def test_names_are_names(self):
        self.bad("devices", "--devices", "vulkan", "--set",
                 "vulkan.disabled=a;b", env=ALL, says="vulkan.disabled")


if __name__ == "__main__":
    unittest.main()
