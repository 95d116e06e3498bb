"""Devices that fail in the middle and plugins that crash do not keep the rest
from going on."""

import os
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

import cli

REF = os.path.join(cli.BUILD, "tests", "plugins", "ref")
VARIANTS = os.path.join(cli.BUILD, "tests", "plugins", "variants")
CPU = os.path.join(cli.BUILD, "plugins")
MODEL = cli.NANO
PROMPT = ("run", "-p", "def fibonacci(n):", "-n", "12", "--temp", "0")


def settings(*values):
    return [word for value in values for word in ("--set", value)]


class Loss(cli.Case):
    """The two reference devices take part, and the CPU."""

    def run_on(self, devices, *values):
        return self.cleave(*PROMPT, *settings(
            "core.plugin_dirs=%s:%s" % (REF, CPU), "core.plugins=ref,cpu",
            "core.allow_unsafe_plugins=on", "core.devices=" + devices,
            "ref.ops0=rms_norm,rope,attention", "ref.ops1=add,glu", *values))

    def warnings(self, result):
        return [line for line in result.err.splitlines()
                if "going on without" in line]

    def check(self, left, lost, *values):
        quiet = self.run_on(left)
        self.assertEqual(quiet.code, 0, quiet.err)
        self.assertEqual(self.warnings(quiet), [])
        result = self.run_on("ref,cpu", *values)
        self.assertEqual(result.code, 0, result.err)
        self.assertEqual(result.text, quiet.text)
        self.assertTrue(quiet.text.strip())
        lines = self.warnings(result)
        self.assertEqual(len(lines), len(lost), result.err)
        for device, line in zip(lost, lines):
            self.assertIn("'%s'" % device, line)
        return result

    def test_in_the_prompt(self):
        self.check("ref:1,cpu", ["ref:0"], "ref.fail_after0=1")
        self.check("ref:0,cpu", ["ref:1"], "ref.fail_after1=5")

    def test_in_the_text(self):
        self.check("ref:1,cpu", ["ref:0"], "ref.fail_after0=120")
        self.check("ref:0,cpu", ["ref:1"], "ref.fail_after1=100")

    def test_twice(self):
        self.check("cpu", ["ref:0", "ref:1"], "ref.fail_after0=60",
                   "ref.fail_after1=110")

    def test_hang(self):
        result = self.check("ref:1,cpu", ["ref:0"], "ref.delay_us0=9000000",
                            "core.wait_timeout=0.3", "core.probe=off")
        self.assertIn("core.wait_timeout", result.err)

    def stop(self, *signals):
        """Of a run whose device blocks; how it ends, and after how long."""
        child = subprocess.Popen(
            [cli.TOOL, *PROMPT, *settings(
                "core.plugin_dirs=" + REF, "core.allow_unsafe_plugins=on",
                "core.devices=ref:0", "ref.delay_us0=9000000",
                "core.probe=off")],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=self.environment())
        self.addCleanup(child.kill)
        self.addCleanup(child.stderr.close)
        while b"context" not in child.stderr.readline():
            pass
        time.sleep(0.5)
        begin = time.monotonic()
        for number in signals:
            child.send_signal(number)
            time.sleep(0.2)
        return child.wait(timeout=60), time.monotonic() - begin

    def test_signals_while_a_device_blocks(self):
        code, seconds = self.stop(signal.SIGTERM)
        self.assertEqual(code, 143)
        self.assertLess(seconds, 8)
        code, seconds = self.stop(signal.SIGTERM, signal.SIGINT)
        self.assertEqual(code, 143)
        self.assertLess(seconds, 4)
        self.assertEqual(self.stop(signal.SIGINT, signal.SIGINT)[0], 130)

    def test_none_left(self):
        result = self.cleave(*PROMPT, *settings(
            "core.plugin_dirs=" + REF, "core.allow_unsafe_plugins=on",
            "core.devices=ref:0", "ref.fail_after0=9"))
        self.assertEqual(result.code, 1)
        self.assertTrue(result.text.strip())
        self.assertIn("'ref:0'", result.err)
        self.assertIn("no other device is left", result.err)


class Crashes(cli.Case):
    def run_with(self, *values):
        return self.cleave(*PROMPT, *settings(
            "core.plugin_dirs=%s:%s" % (VARIANTS, CPU),
            "core.plugins=crashing,cpu", "core.allow_unsafe_plugins=on",
            *values))

    def check(self, crash, *says):
        result = self.run_with("crashing.crash=" + crash,
                               "core.probe_timeout=1")
        self.assertEqual(result.code, 0, result.err)
        self.assertTrue(result.text.strip())
        lines = [line for line in result.err.splitlines() if "warn" in line]
        self.assertEqual(len(lines), 1, result.err)
        for text in ("cleave_crashing.so", *says):
            self.assertIn(text, lines[0])

    def test_refused(self):
        self.check("abort create", "crashed (signal 6, SIGABRT) in create",
                   "update or remove it")
        self.check("hang enumerate", "within 1 s", "in enumerate")

    def test_on_the_way_out(self):
        """The tool ends well all the same, and says how the plugin fared."""
        self.check("abort destroy", "in destroy", "never unloaded")
        self.check("segv unload", "in unload", "never unloaded")

    def test_devices(self):
        result = self.cleave("devices", "-o", "json", *settings(
            "core.plugin_dirs=" + VARIANTS, "core.plugins=crashing",
            "core.allow_unsafe_plugins=on", "crashing.crash=abort create"))
        text = result.text
        self.assertIn("crashed (signal 6, SIGABRT) in create", text)


@cli.needs_shared
class Shrinking(cli.Case):
    """Files that another process cuts short while they are in use."""

    def cut(self, size, *words):
        """Cuts the file of a run that has started to write its text: its exit
        code, its text and its messages, and how much of it was locked."""
        path = os.path.join(self.dir, "model.gguf")
        shutil.copyfile(MODEL, path)
        run = subprocess.Popen(
            [cli.TOOL, *PROMPT, "-m", path, "-n", "450", "-c", "512",
             "--ignore-eos", *words],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
            env=self.environment())
        self.addCleanup(run.kill)
        first = run.stdout.read(1)
        self.assertTrue(first)
        with open("/proc/%d/status" % run.pid) as status:
            locked = int(re.search(r"VmLck:\s+(\d+)", status.read()).group(1))
        os.truncate(path, size)
        out, err = run.communicate(timeout=120)
        return (run.returncode, (first + out).decode("utf-8"),
                err.decode("utf-8"), locked << 10)

    def check(self, size):
        code, _, err, locked = self.cut(size)
        lines = err.splitlines()
        self.assertEqual(code, 1, lines)
        self.assertEqual(locked, 0)
        errors = [line for line in lines if "cleave run:" in line]
        self.assertEqual(len(errors), 1, lines)
        self.assertIn("shrank from %d to %d bytes" %
                      (os.path.getsize(MODEL), size), errors[0])
        self.assertIn(self.path("model.gguf"), errors[0])

    def test_empty(self):
        self.check(0)

    def test_in_the_middle(self):
        self.check(os.path.getsize(MODEL) // 2)

    def test_a_copy_is_whole(self):
        limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
        # Sanitizers make mlock() do nothing.
        lock = not cli.SANITIZED and (
            os.geteuid() == 0 or limit < 0 or limit > 2 << 24)
        code, text, err, locked = self.cut(0, "--no-mmap",
                                           *["--mlock"] * lock)
        self.assertEqual(code, 0, err)
        self.assertEqual(text, self.good(
            *PROMPT, "-m", MODEL, "-n", 450, "-c", 512, "--ignore-eos").text)
        self.assertGreaterEqual(locked, lock * os.path.getsize(MODEL))


if __name__ == "__main__":
    cli.main()
