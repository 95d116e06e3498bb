"""What the end-to-end tests share: running cleave, shared files, scratch space.

A test module ends with cli.main(). Tests that need the reference models are
marked with @needs_shared and skipped where those are absent."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = os.environ["CLEAVE_TEST_BUILD"]
SHARED = os.environ.get("CLEAVE_TEST_SHARED", "")
SOURCE = os.environ["CLEAVE_TEST_SOURCE"]
TOOL = os.path.join(BUILD, "tools", "cleave")
with open(TOOL, "rb") as tool:
    SANITIZED = b"__asan_init" in tool.read()
LONG = os.environ.get("CLEAVE_TEST_LONG")
NANO = os.path.join(SHARED, "models", "nano-f16.gguf")

needs_shared = unittest.skipUnless(os.path.isdir(os.path.join(SHARED, "models")),
                                   "no reference models")


def shared(*parts):
    return os.path.join(SHARED, *parts)


def small_disk():
    """As a preexec_fn: no file may pass 100 kB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000))


class Result:
    """One run: exit code, bytes of stdout, text of stderr."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def text(self):
        return self.out.decode("utf-8")

    @property
    def json(self):
        return json.loads(self.text, parse_constant=self.not_a_number)

    @staticmethod
    def not_a_number(name):
        raise ValueError("JSON holds " + name)


class Case(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="cleave-test-")
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.dir, name)

    def write(self, name, data):
        path = self.path(name)
        with open(path, "wb") as f:
            f.write(data if isinstance(data, bytes) else data.encode())
        return path

    def environment(self, extra=None):
        """No settings but the test's: neither files nor CLEAVE_* count."""
        env = {k: v for k, v in os.environ.items()
               if not k.startswith("CLEAVE_")}
        env["XDG_CONFIG_HOME"] = self.path("config")
        env["XDG_CACHE_HOME"] = self.path("cache")
        # Nothing is measured where nobody asks for plans by costs.
        env["CLEAVE_CORE_PLAN"] = "first"
        # Drivers are what the machine has, so they are used where named.
        env["CLEAVE_CORE_PLUGINS"] = "-opencl,-vulkan"
        env.update(extra or {})
        return env

    def cleave(self, *args, stdin=b"", env=None, **kwargs):
        done = subprocess.run([TOOL, *map(str, args)], input=stdin,
                              capture_output="stdout" not in kwargs,
                              env=self.environment(env), timeout=600, **kwargs)
        result = Result(done.returncode, done.stdout,
                        (done.stderr or b"").decode("utf-8"))
        self.assertGreaterEqual(result.code, 0, "ended by a signal: %s" %
                                result.err)
        self.assertNotIn("Sanitizer", result.err)
        return result

    def good(self, *args, **kwargs):
        result = self.cleave(*args, **kwargs)
        self.assertEqual(result.code, 0, result.err)
        return result

    def bad(self, *args, code=1, says=(), **kwargs):
        """A failure with one line on stderr that holds all of says."""
        result = self.cleave(*args, **kwargs)
        self.assertEqual(result.code, code, result.err)
        self.assertEqual(result.err.count("\n"), 1, result.err)
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word, result.err)
        return result


def main():
    program = unittest.main(exit=False, verbosity=1)
    result = program.result
    if not result.wasSuccessful():
        sys.exit(1)
    if result.testsRun and len(result.skipped) == result.testsRun:
        sys.exit(77)
