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


    def test_of_the_processor_are_not_opened_again(self):
        """As long as the processor is all they have."""
        def states(*args, **env):
            env["CLEAVE_CORE_PLUGINS"] = "cpu,opencl,vulkan"
            found = self.good("devices", "-o", "json", *args, env=env).json
            return ([d["plugin"] for d in found["devices"]],
                    {p["plugin"]: p["stage"] for p in found["plugins"]})
        used, first = states()
        idle = [p for p in ("opencl", "vulkan")
                if p not in used and first[p] == "ready"]
        if not idle:
            self.skipTest("no driver that runs on the processor alone")
        used, again = states()
        self.assertEqual(used, ["cpu"] if len(idle) == 2 else used)
        for plugin in idle:
            self.assertEqual(again[plugin], "inspected")
            self.assertIn(plugin, states("--devices", "cpu,%s:0" % plugin)[0])
        used, other = states(POCL_TEST="1", VK_TEST="1")
        for plugin in idle:
            self.assertEqual(other[plugin], "ready")
        for plugin in idle: # without the CPU they are of use
            self.assertEqual(self.good("devices", "-o", "json", env={
                "CLEAVE_CORE_PLUGINS": plugin}).json["devices"][0]["plugin"],
                plugin)


if __name__ == "__main__":
    cli.main()
