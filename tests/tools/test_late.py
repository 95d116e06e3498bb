"""Plugins that load well and fail when they are used: the text goes on, or a
message names device and slot."""

import glob
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import cli

HOSTILE = os.path.join(cli.BUILD, "tests", "plugins", "hostile")
HOST = os.path.join(cli.BUILD, "tests", "plugins", "ref", "cleave_host.so")
SANITIZERS = ("ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS")
CPU = os.path.join(cli.BUILD, "plugins")
PROMPT = ("run", "-p", "def fibonacci(n):", "-n", "4", "--temp", "0")


def settings(*values):
    return [word for value in values for word in ("--set", value)]


class Case(cli.Case):
    """The hostile plugin's two devices come first, then the CPU."""

    right = None  # the CPU's text

    def arguments(self, mode, *values, devices="hostile,cpu"):
        return [*PROMPT, *settings(
            "core.plugin_dirs=%s:%s" % (HOSTILE, CPU),
            "core.plugins=hostile,cpu", "core.allow_unsafe_plugins=on",
            "core.devices=" + devices, "hostile.mode=" + mode, *values)]

    def goes_on(self, mode, *says, **kwargs):
        """The text is the CPU's, and the messages say each of those things."""
        if Case.right is None:
            Case.right = self.good(*PROMPT, *settings(
                "core.plugin_dirs=" + CPU, "core.devices=cpu")).text
        result = self.good(*self.arguments(mode, **kwargs))
        self.assertTrue(Case.right.strip())
        self.assertEqual(result.text, Case.right)
        for text in says:
            self.assertIn(text, result.err)
        return result


class Errors(Case):
    def test_quiet(self):
        """-q leaves out what is usual; the loss of a device is not."""
        result = self.good(*self.arguments("error:submit"), "-q")
        self.assertEqual(result.err.count("\n"), 2, result.err)
        self.assertEqual(result.err.count("going on without a device"), 2)

    def test_printing(self):
        """Standard output is the text's alone."""
        quiet = self.good(*self.arguments("none"))
        result = self.good(*self.arguments("print:submit"))
        self.assertEqual(result.text, quiet.text)
        self.assertIn("hostile: submit was called", result.err)

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
                result = self.goes_on(mode, says)
                lines = [line for line in result.err.splitlines()
                         if " error: " in line]
                self.assertEqual(len(lines), 2, result.err)
                for device, line in zip(("hostile:0", "hostile:1"), lines):
                    self.assertIn("going on without a device that failed: "
                                  "step 0 (", line)
                    self.assertIn("device '%s'" % device, line)


class Trials(Case):
    """With default settings the trial finds what fails in the first use."""

    def environment(self, extra=None):
        # Sanitizers leave the signals to the trial.
        ours = {v: ":".join(filter(None, (
            os.environ.get(v), "handle_segv=0:handle_abort=0")))
                for v in SANITIZERS}
        return super().environment({**ours, **(extra or {})})

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


class Blocks(Case):
    """Slots that do not return, without a trial."""

    CASES = (
        ("hang:program_compile", "program_compile has not returned for ",
         "program_compile did not return within 7 s (core.wait_timeout)"),
        ("hang:submit", "submit has not returned for ",
         "submit did not return within 7 s (core.wait_timeout)"),
        ("never_signals", "has not ended for 5 s",
         "the step did not end within 7 s (core.wait_timeout)"))

    def test_text_goes_on(self):
        values = ("core.probe=off", "core.wait_timeout=7", "hostile.devices=1")
        with ThreadPoolExecutor() as pool:
            # What one has compiled, none finds in the cache.
            runs = [pool.submit(self.cleave, *self.arguments(
                        mode, "core.cache_dir=" + self.path("late-%d" % i),
                        *values))
                    for i, (mode, *_) in enumerate(self.CASES)]
        right = self.goes_on("error:submit")
        for run, (mode, slow, given_up) in zip(runs, self.CASES):
            result = run.result()
            with self.subTest(mode):
                self.assertEqual(result.code, 0, result.err)
                self.assertEqual(result.text, right.text)
                # A busy machine makes others late, too.
                lines = [
                    line for line in result.err.splitlines()
                    if "'hostile:0'" in line and
                    (" warn: " in line or " error: " in line)]
                # Nothing is told while the process is busy, as sanitizers may
                # keep it.
                if not cli.SANITIZED or len(lines) > 1:
                    told = lines.pop(0)
                    for text in ("device 'hostile:0': ", slow, "step 0 ("):
                        self.assertIn(text, told)
                self.assertEqual(len(lines), 1, result.err)
                for text in ("device 'hostile:0'", given_up):
                    self.assertIn(text, lines[0])

    def test_signals(self):
        """The first one ends the process, wherever the plugin keeps it."""
        runs = []
        for mode in ("hang:timeline_wait", "hang:submit", "hang:timeline_query"):
            for number in (signal.SIGTERM, signal.SIGINT):
                child = subprocess.Popen(
                    [cli.TOOL, *self.arguments(mode, "core.probe=off")],
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                    text=True, env=self.environment())
                self.addCleanup(child.stderr.close)
                self.addCleanup(child.kill)
                runs.append((mode, number, child))
        for mode, _, child in runs:
            line = child.stderr.readline()
            while line and " has not returned" not in line:
                line = child.stderr.readline()
            self.assertIn("device 'hostile:0': %s has not returned for "
                          % mode[5:], line)
        begin = time.monotonic()
        for _, number, child in runs:
            child.send_signal(number)
        for _, number, child in runs:
            self.assertEqual(child.wait(timeout=20), 128 + number)
        self.assertLess(time.monotonic() - begin, 10)


class Crashes(Case):
    """What ends the process is named, and left out at the next start."""

    def test_named_and_remembered(self):
        right = self.goes_on("error:submit")
        for mode, code, says in (
                ("crash:program_compile", -signal.SIGSEGV,
                 "it crashed (signal 11, SIGSEGV) in program_compile of device "
                 "'hostile:0', step 0 ("),
                ("abort:submit", -signal.SIGABRT,
                 "it crashed (signal 6, SIGABRT) in submit of device "
                 "'hostile:0', step 0 ("),
                ("exit:program_compile", 1, "it ended the process in "
                 "program_compile of device 'hostile:0', step 0 ("),
                ("crash:program_run", -signal.SIGSEGV,
                 # Perhaps before submit has returned.
                 "it crashed (signal 11, SIGSEGV) in "),
                ("exit:program_run", 1, "it ended the process in ")):
            with self.subTest(mode):
                # Each run compiles.
                one = ("hostile.devices=1", "core.program_cache=0")
                done = subprocess.run(
                    [cli.TOOL, *self.arguments(mode, *one, "core.probe=off")],
                    capture_output=True, text=True,
                    # Sanitizers leave the signals to the tool.
                    env=self.environment({v: "handle_segv=0:handle_abort=0"
                                          for v in SANITIZERS}))
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn("cleave: error: a plugin is to blame: it ",
                              done.stderr)
                self.assertIn(says, done.stderr)
                self.assertIn("hostile:0", done.stderr.splitlines()[-1])
                # The next start leaves it out until the note is removed.
                for _ in range(2):
                    result = self.good(*self.arguments("none", *one, devices=""))
                    self.assertEqual(result.text, right.text)
                    self.assertIn(says, result.err)
                    self.assertIn("at its last use", result.err)
                note, = glob.glob(self.path("cache/cleave/uses/*"))
                self.assertIn(note, result.err)
                os.unlink(note)
                result = self.good(*self.arguments("none", *one, devices=""))
                self.assertNotIn("warn", result.err)

    def test_killed_from_outside(self):
        child = subprocess.Popen(
            [cli.TOOL, *self.arguments("hang:submit", "core.probe=off")],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=self.environment())
        while not glob.glob(self.path("cache/cleave/uses/*")):
            self.assertIsNone(child.poll())
            time.sleep(0.01)
        time.sleep(0.2)
        # In use: neither taken for a crash nor removed.
        self.good(*self.arguments("none", devices="cpu,hostile"))
        self.assertTrue(glob.glob(self.path("cache/cleave/uses/*")))
        child.kill()
        child.wait()
        self.good(*self.arguments("none", devices="cpu,hostile"))
        self.assertEqual(glob.glob(self.path("cache/cleave/uses/*")), [])


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
