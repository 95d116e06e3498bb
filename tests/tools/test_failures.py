"""What is broken is named in one line, and nothing crashes."""

import json
import os
import random
import shutil
import sys
import unittest

import cli

CPU_PLUGIN, ALIEN_PLUGIN = sys.argv.pop(), sys.argv.pop()


class Plugins(cli.Case):
    """Plugin directories of our own."""

    def setUp(self):
        super().setUp()
        self.plugins = self.path("plugins")
        os.mkdir(self.plugins)

    def install(self, source, name=None):
        target = os.path.join(self.plugins, name or os.path.basename(source))
        shutil.copyfile(source, target)
        os.chmod(target, 0o644)
        return target

    def set_dir(self):
        return ("--set", "core.plugin_dirs=" + self.plugins)

    def run_fails(self, *says):
        """Every command that needs a device fails alike."""
        empty = self.write("x", "x")
        for args in (("run", "-p", "x"), ("bench",),
                     ("perplexity", "-f", empty), ("verify", self.dir)):
            with self.subTest(args[0]):
                result = self.bad(*args, *self.set_dir(),
                                  says=["no device", self.plugins,
                                        "cleave devices", *says])
                self.assertEqual(result.out, b"")

    def outcome(self):
        """What cleave devices says of the only plugin."""
        result = self.cleave("devices", "-o", "json", *self.set_dir())
        self.assertEqual(result.code, 1)
        self.assertEqual(result.json["devices"], [])
        plugin, = result.json["plugins"]
        self.assertFalse(plugin["ok"])
        return plugin

    def test_no_plugin(self):
        self.run_fails()
        self.assertEqual(self.cleave("devices", "-o", "json",
                                     *self.set_dir()).json,
                         {"devices": [], "plugins": []})

    def test_missing_directory(self):
        os.rmdir(self.plugins)
        self.run_fails()

    def test_not_a_shared_object(self):
        path = self.install(__file__, os.path.basename(CPU_PLUGIN))
        self.run_fails(path)
        plugin = self.outcome()
        self.assertEqual(plugin["path"], path)
        self.assertTrue(plugin["reason"])

    def test_truncated_shared_object(self):
        path = self.install(CPU_PLUGIN)
        os.truncate(path, 1000)
        self.run_fails(path)

    @unittest.skipIf(os.geteuid() == 0, "root reads everything")
    def test_unreadable(self):
        path = self.install(CPU_PLUGIN)
        os.chmod(path, 0)
        self.run_fails(path, "ermission")

    def test_directory_of_a_plugin_s_name(self):
        os.mkdir(os.path.join(self.plugins, os.path.basename(CPU_PLUGIN)))
        self.run_fails()

    def test_world_writable(self):
        path = self.install(CPU_PLUGIN)
        os.chmod(path, 0o666)
        self.run_fails(path)

    def test_wrong_abi_version(self):
        path = self.install(ALIEN_PLUGIN)
        self.run_fails(path, "ABI", "99")
        self.assertIn("99", self.outcome()["reason"])

    def test_a_bad_plugin_does_not_harm_a_good_one(self):
        self.install(ALIEN_PLUGIN)
        self.install(CPU_PLUGIN)
        result = self.good("devices", "-o", "json", *self.set_dir())
        self.assertEqual(len(result.json["plugins"]), 2)
        self.assertIn("cpu", [d["id"] for d in result.json["devices"]])


class Devices(cli.Case):
    def test_table(self):
        text = self.good("devices").text
        self.assertRegex(text, r"(?m)^\| cpu +\| ")
        for line in text.splitlines():
            self.assertTrue(not line or line[0] == line[-1] == "|", line)

    def test_json(self):
        found = self.good("devices", "-o", "json").json
        cpu, = [d for d in found["devices"] if d["kind"] == "cpu"]
        self.assertGreater(cpu["units"], 0)
        self.assertIn(cpu["plugin"], [p["plugin"] for p in found["plugins"]
                                      if p["ok"]])


@cli.needs_shared
class Models(cli.Case):
    ARGS = ("-p", "x", "-n", 1, "--temp", 0, "-q")

    def nano(self):
        with open(cli.NANO, "rb") as f:
            return bytearray(f.read())

    def test_missing_and_not_files(self):
        self.bad("run", "-m", self.path("absent.gguf"), *self.ARGS,
                 says="absent.gguf")
        self.bad("run", "-m", self.dir, *self.ARGS, says=self.dir)
        self.bad("run", "-m", "/dev/null", *self.ARGS, says="/dev/null")
        self.bad("run", "-m", "synth:no-such-model", *self.ARGS,
                 says="no-such-model")
        self.bad("run", "-m", __file__, *self.ARGS, says="test_failures.py")
        self.bad("run", "-f", self.dir, "-m", cli.NANO, says=self.dir)

    def test_no_tokenizer(self):
        self.bad("run", "-m", cli.shared("goldens", "llama"), *self.ARGS,
                 says=["tokenizer", "goldens/llama"])

    def test_truncated(self):
        data = self.nano()
        for size in (3, 4, 20, 24, 1000, 100000, len(data) // 2,
                     len(data) - 1):
            with self.subTest(size):
                path = self.write("cut.gguf", bytes(data[:size]))
                result = self.bad("run", "-m", path, *self.ARGS,
                                  says="cut.gguf")
                self.assertEqual(result.out, b"")

    def test_corrupted_headers(self):
        """Any single damaged byte: an error in one line, or a model that
        still runs; never a crash."""
        data, draw = self.nano(), random.Random(1)
        rounds = int(os.environ.get("CLEAVE_TEST_ROUNDS", 12))
        for _ in range(rounds):
            damaged = bytearray(data)
            at = draw.choice((draw.randrange(4, 2000),
                              draw.randrange(4, 200000)))
            damaged[at] ^= 1 << draw.randrange(8)
            with self.subTest(at=at, byte=damaged[at]):
                path = self.write("bad.gguf", bytes(damaged))
                result = self.cleave("run", "-m", path, *self.ARGS)
                if result.code:
                    self.assertEqual(result.code, 1)
                    self.assertEqual(result.err.count("\n"), 1, result.err)

    def test_terminal_codes_in_names_are_not_passed_on(self):
        result = self.bad("run", "-m", self.path("a\x1b[31mb\nc"), *self.ARGS)
        self.assertNotIn("\x1b", result.err)


@cli.needs_shared
class Traces(cli.Case):
    def test_trace_that_cannot_be_written(self):
        result = self.cleave("run", "-m", cli.NANO, "-p", "x", "-n", 1, "-q",
                             "--trace", self.path("no/dir/t.json"))
        self.assertEqual(result.code, 1)
        self.assertIn("no/dir", result.err)

    def test_full_disk(self):
        import resource
        result = self.cleave(
            "run", "-m", cli.NANO, "-p", "x", "-n", 1, "-q", "--trace",
            self.path("t.json"), preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_FSIZE, (10, 10)))
        self.assertEqual(result.code, 1)
        self.assertIn("t.json", result.err)
        self.assertFalse([f for f in os.listdir(self.dir) if "t.json" in f])


class Json(cli.Case):
    def test_names_are_escaped(self):
        plugins = self.path('we"ird\\dir')
        os.mkdir(plugins)
        shutil.copyfile(ALIEN_PLUGIN, os.path.join(
            plugins, os.path.basename(ALIEN_PLUGIN)))
        result = self.cleave("devices", "-o", "json", "--set",
                             "core.plugin_dirs=" + plugins)
        plugin, = json.loads(result.text)["plugins"]
        self.assertIn('we"ird\\dir', plugin["path"])


if __name__ == "__main__":
    cli.main()
