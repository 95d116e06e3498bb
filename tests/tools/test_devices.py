"""What cleave devices tells of devices and plugin files."""

import os
import re
import shutil
import sys
import unittest

import cli

CPU_PLUGIN, ALIEN_PLUGIN = sys.argv.pop(), sys.argv.pop()
VARIANT = os.path.join(cli.BUILD, "tests", "plugins", "variants",
                       "cleave_%s.so")


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
                self.assertEqual(result.err.count(self.plugins), 1, result.err)
                self.assertEqual(result.out, b"")

    def outcome(self):
        """What cleave devices says of the only plugin."""
        result = self.cleave("devices", "-o", "json", *self.set_dir())
        self.assertEqual(result.code, 1)
        self.assertEqual(result.json["devices"], [])
        plugin, = result.json["plugins"]
        self.assertFalse(plugin["ok"])
        self.assertEqual(plugin["outcome"], "failed")
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
        plugin = self.outcome()
        self.assertIn("99", plugin["reason"])
        self.assertEqual(plugin["stage"], "allowed")

    def test_without_manifest(self):
        path = self.install(VARIANT % "no_manifest")
        self.run_fails(path, "manifest")
        self.assertEqual(self.outcome()["plugin"], "")

    def test_a_bad_plugin_does_not_harm_a_good_one(self):
        self.install(ALIEN_PLUGIN)
        self.install(CPU_PLUGIN)
        result = self.good("devices", "-o", "json", *self.set_dir())
        self.assertEqual(len(result.json["plugins"]), 2)
        self.assertIn("cpu", [d["id"] for d in result.json["devices"]])

    def test_listed_file_is_missing(self):
        path = self.path("nowhere.so")
        self.install(CPU_PLUGIN)
        found = self.good("devices", "-o", "json", *self.set_dir(), "--set",
                          "core.plugin_files=" + path).json
        missing, cpu = found["plugins"]
        self.assertEqual((missing["path"], missing["stage"], missing["ok"]),
                         (path, "found", False))
        self.assertIn("No such file", missing["reason"])
        self.assertTrue(cpu["ok"])

    def test_listed_file_of_any_name(self):
        path = self.install(CPU_PLUGIN, "processor.bin")
        found = self.good("devices", "-o", "json", *self.set_dir(), "--set",
                          "core.plugin_files=" + path).json
        plugin, = found["plugins"]
        self.assertEqual((plugin["plugin"], plugin["path"], plugin["devices"]),
                         ("cpu", path, 1))

    def test_not_needed(self):
        self.install(CPU_PLUGIN)
        idle = self.install(VARIANT % "unloadable")
        found = self.good("devices", "-o", "json", "--devices", "cpu",
                          *self.set_dir()).json
        plugin, = [p for p in found["plugins"] if p["path"] == idle]
        self.assertEqual(plugin, {
            "path": idle, "plugin": "unloadable", "version": "", "abi": "1",
            "kinds": "other", "stage": "inspected", "ok": True,
            "outcome": "not needed", "devices": 0,
            "reason": "not needed: core.devices names none of its devices"})

    def test_same_device_twice(self):
        self.install(VARIANT % "good")
        self.install(VARIANT % "unloadable")
        found = self.good("devices", "-o", "json", *self.set_dir(), "--set",
                          "good.uuid=7", "--set", "unloadable.uuid=7").json
        device, = found["devices"]
        self.assertEqual((device["id"], device["bus_path"], device["uuid"]),
                         ("good", "0000:01:00.0", "ab" + "0" * 28 + "07"))
        dropped = found["plugins"][1]
        self.assertEqual(dropped["outcome"], "not used")
        self.assertIn("unloadable is the same device as good",
                      dropped["reason"])

    def test_reasons_for_people(self):
        """Every file in the table, every reason below it within 80 columns."""
        paths = [self.install(ALIEN_PLUGIN), self.install(CPU_PLUGIN),
                 self.install(VARIANT % "no_manifest"),
                 self.install(VARIANT % "unloadable")]
        os.chmod(paths[2], 0o666)
        text = self.good("devices", "--devices", "cpu", *self.set_dir()).text
        table, reasons = text.split("\n\n", 2)[1:]
        for path, says in zip(paths, ("failed", "ok", "failed", "not needed")):
            self.assertRegex(table, r"(?m)^\| .* %s +\| %s +\|$" %
                             (says, re.escape(path)))
        for path, says in ((paths[0], "ABI 99"), (paths[2], "chmod o-w"),
                           (paths[3], "not needed")):
            self.assertRegex(" ".join(reasons.split()),
                             re.escape(path) + ": .*" + says)
        self.assertNotIn(paths[1], reasons)
        for line in reasons.splitlines():
            self.assertTrue(len(line) < 80 or line[:-1] in paths, line)


class Devices(cli.Case):
    def test_table(self):
        text = self.good("devices", env={"CLEAVE_CORE_PLUGINS": ""}).text
        self.assertRegex(text, r"(?m)^\| cpu +\| ")
        tables = text.split("\n\n/")[0] # reasons follow
        for line in tables.splitlines():
            self.assertTrue(not line or line[0] == line[-1] == "|", line)

    def test_json(self):
        found = self.good("devices", "-o", "json").json
        cpu, = [d for d in found["devices"] if d["kind"] == "cpu"]
        self.assertGreater(cpu["units"], 0)
        self.assertEqual(cpu["bus_path"], "")
        self.assertNotEqual(cpu["uuid"], "") # other plugins drive it, too
        self.assertIn(cpu["plugin"], [p["plugin"] for p in found["plugins"]
                                      if p["ok"]])

    def test_no_home(self):
        """Neither a home nor anything in the working directory is made."""
        home, here = self.path("home"), self.path("here")
        os.mkdir(here)
        for env in ({"HOME": home, "XDG_CACHE_HOME": "cache"},
                    {"HOME": "home", "XDG_CACHE_HOME": "cache"},
                    {"HOME": home, "XDG_CACHE_HOME": ""}):
            with self.subTest(env):
                self.good("devices", env=env, cwd=here)
                self.assertFalse(os.path.exists(home))
                self.assertEqual(os.listdir(here), [])

    def test_sections(self):
        """A device for each section of the CPU, on the cores it names."""
        core = max(os.sched_getaffinity(0))
        found = self.good("devices", "-o", "json",
                          "--set", "cpu:big.threads=3",
                          "--set", "cpu:little.cores=%d" % core).json
        self.assertEqual([(d["id"], d["kind"], d["units"])
                          for d in found["devices"]],
                         [("cpu:big", "cpu", 3), ("cpu:little", "cpu", 1)])
        self.assertTrue(found["devices"][1]["name"].endswith(
            ", core %d" % core), found["devices"][1]["name"])
        self.assertIn("share cores (%d)" % core, self.good(
            "run", "-p", "x", "-n", "1", "--set", "cpu:big.threads=3",
            "--set", "cpu:little.cores=%d" % core).err)
        for name in "cpu:little", "cpu:1":
            only = self.good("devices", "-o", "json", "--devices", name,
                             "--set", "cpu:big.threads=3",
                             "--set", "cpu:little.cores=%d" % core).json
            self.assertEqual([d["id"] for d in only["devices"]],
                             ["cpu:little"])

    def test_numbers(self):
        """Devices answer to their position, unless it is another one's id."""
        def ids(devices, *settings):
            found = self.cleave("devices", "-o", "json", "--devices", devices,
                                *[a for s in settings for a in ("--set", s)])
            return (found.code,
                    [d["id"] for d in found.json["devices"]] if not found.code
                    else found.err)
        self.assertEqual(ids("cpu:0"), (0, ["cpu"]))
        swapped = "cpu:1.threads=1", "cpu:0.threads=1", "cpu:x.threads=1"
        self.assertEqual(ids("cpu:0,cpu:2", *swapped),
                         (0, ["cpu:0", "cpu:x"]))
        self.assertIn("no device 'cpu:3'", ids("cpu:3", *swapped)[1])

    def test_wrong_sections(self):
        """Devices that were asked for by a section are not left out."""
        chip = os.path.join(cli.SOURCE, "conf/soc/snapdragon-8gen3.ini")
        self.bad("run", "-p", "x", "--set", "cpu:big.cores=8190", "--conf",
                 chip, "-q", says=["[cpu:big] cores", "no core 8190"])
        for setting, *says in (
                ("cpu:big.cores=0-", "[cpu:big] cores", "0-3,6"),
                ("cpu:big.cores=8190", "[cpu:big] cores", "no core 8190"),
                ("cpu:big.threads=2000", "cpu:big.threads", "1024"),
                ("cpu:big.poll=3", "cpu:big.poll", "cpu"),
                ("cpu:Big.cores=0", "[cpu:Big]")):
            with self.subTest(setting):
                self.bad("run", "-p", "x", "--set", setting, says=says)
        self.bad("run", "-p", "x", "-t", "2", "--set", "cpu:big.cores=",
                 says=["threads", "[cpu:big]"])

    def test_names_are_escaped_in_json(self):
        plugins = self.path('we"ird\\dir')
        os.mkdir(plugins)
        shutil.copyfile(ALIEN_PLUGIN, os.path.join(
            plugins, os.path.basename(ALIEN_PLUGIN)))
        result = self.cleave("devices", "-o", "json", "--set",
                             "core.plugin_dirs=" + plugins)
        plugin, = result.json["plugins"]
        self.assertIn('we"ird\\dir', plugin["path"])


if __name__ == "__main__":
    cli.main()
