"""Plugins that load well and fail when they are used: the text goes on, or a
message names device and slot."""

import os
import time

import cli

HOSTILE = os.path.join(cli.BUILD, "tests", "plugins", "hostile")
HOST = os.path.join(cli.BUILD, "tests", "plugins", "ref", "cleave_host.so")
CPU = os.path.join(cli.BUILD, "plugins")
PROMPT = ("run", "-p", "def fibonacci(n):", "-n", "12", "--temp", "0")


def settings(*values):
    return [word for value in values for word in ("--set", value)]


class Case(cli.Case):
    """The hostile plugin's two devices come first, then the CPU."""

    def arguments(self, mode, *values, devices="hostile,cpu"):
        return [*PROMPT, *settings(
            "core.plugin_dirs=%s:%s" % (HOSTILE, CPU),
            "core.plugins=hostile,cpu", "core.allow_unsafe_plugins=on",
            "core.devices=" + devices, "hostile.mode=" + mode, *values)]

    def goes_on(self, mode, *says, **kwargs):
        """The text is the CPU's, and the messages say each of those things."""
        right = self.good(*PROMPT, *settings(
            "core.plugin_dirs=" + CPU, "core.devices=cpu"))
        result = self.good(*self.arguments(mode, **kwargs))
        self.assertTrue(right.text.strip())
        self.assertEqual(result.text, right.text)
        for text in says:
            self.assertIn(text, result.err)
        return result


class Errors(Case):
    def test_compile_and_submit(self):
        for mode, says in (
                ("error:program_compile", "program_compile fails as told"),
                ("never_compiles", "this is not possible after all"),
                ("memory:program_compile", "hostile: no memory, as told"),
                ("silent:program_compile", "program_compile failed"),
                ("empty:program_compile", "program_compile answered"),
                ("error:submit", "submit fails as told"),
                ("error:timeline_wait", "timeline_wait fails as told")):
            with self.subTest(mode):
                self.goes_on(mode, "device 'hostile:0'", says,
                             "device 'hostile:0' is left out from now on",
                             "device 'hostile:1' is left out from now on")


class Trials(Case):
    """With default settings the trial finds what fails in the first use."""

    def test_crash_exit_and_block(self):
        for mode, says in (
                ("crash:program_compile", "crashed (signal 11, SIGSEGV) in "
                 "program_compile of hostile:0"),
                ("exit:submit", "in submit of hostile:0"),
                ("crash:program_run", "in the first run of hostile:0"),
                ("hang:program_compile",
                 "was blocked for 5 s in program_compile of hostile:0"),
                ("never_signals",
                 "was blocked for 5 s in the first run of hostile:0")):
            with self.subTest(mode):
                begin = time.monotonic()
                result = self.goes_on(mode, says, "cleave_hostile.so",
                                      devices="")
                self.assertLess(time.monotonic() - begin, 10)
                self.assertEqual(result.err.count(" warn: "), 1, result.err)


class Processors(cli.Case):
    """The host's processor by two plugins, of which one takes few ops."""

    def arguments(self, *values):
        return settings("core.plugin_dirs=" + CPU, "core.plugins=cpu,host",
                        "core.plugin_files=" + HOST,
                        "core.allow_unsafe_plugins=on", "host.ops0=matmul",
                        "host.ops1=matmul", *values)

    def ids(self, *values):
        found = self.good("devices", "-o", "json", *self.arguments(*values))
        host = found.json["plugins"][0]
        self.assertEqual(host["plugin"], "host")
        return [device["id"] for device in found.json["devices"]], host

    def test_which_are_used(self):
        ids, host = self.ids()
        self.assertEqual((ids, host["outcome"]), (["cpu"], "not used"))
        self.assertIn("host:0 is the same device as cpu, which takes more ops;"
                      " core.devices = cpu, host:0 uses both", host["reason"])
        ids, host = self.ids("core.devices=host")
        self.assertEqual((ids, host["outcome"]), (["host:0", "host:1"], "ok"))
        ids, host = self.ids("core.devices=host:1,cpu")
        self.assertEqual((ids, host["outcome"]), (["host:1", "cpu"], "ok"))
        ids, host = self.ids("core.devices=cpu,host:1")
        self.assertEqual((ids, host["outcome"]), (["cpu", "host:1"], "ok"))

    def test_texts(self):
        for value in ("core.devices=", "core.devices=host:1,cpu"):
            result = self.good(*PROMPT, *self.arguments(value))
            self.assertTrue(result.text.strip())
            self.assertEqual("host:1" in result.err, "host:1" in value)


if __name__ == "__main__":
    cli.main()
