"""Whether there is a driver for each GPU plugin, without which tests of it are
skipped. Where all checks run (CLEAVE_TEST_NEED_DRIVERS), there must be."""

import os
import unittest

import cli


class Drivers(cli.Case):
    def find(self, plugin):
        result = self.cleave("devices", "-o", "json", "--set",
                             "core.plugins=" + plugin)
        found = [d for d in result.json["devices"] if d["plugin"] == plugin]
        if found or os.environ.get("CLEAVE_TEST_NEED_DRIVERS"):
            self.assertTrue(found, result.err)
        else:
            self.skipTest("no device for plugin %s; scripts/setup.sh installs "
                          "a driver" % plugin)

    def test_opencl(self):
        self.find("opencl")

    def test_vulkan(self):
        self.find("vulkan")


if __name__ == "__main__":
    cli.main()
