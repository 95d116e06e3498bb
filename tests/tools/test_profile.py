"""cleave profile: measured once, kept, and shown."""

import glob
import os
import re
import unittest

import cli

PHONE = ("--conf", os.path.join(cli.SOURCE, "conf", "soc",
                                "snapdragon-8gen3.ini"),
         "--devices", "npu_sim", "--set", "npu_sim.compute=off")
ARGS = ("profile", *PHONE, "--seq", "1,64", "-c", 256)


class Profile(cli.Case):
    def files(self):
        return sorted(glob.glob(os.path.join(self.path("cache"), "cleave",
                                             "profile-*")))

    def stamps(self):
        return [os.stat(f).st_mtime_ns for f in self.files()]

    def test_table(self):
        text = self.good(*ARGS).text
        self.assertIn("## npu_sim:hexagon", text)
        self.assertIn("## npu_sim:adreno", text)
        self.assertIn("## Together", text)
        self.assertRegex(text, r"\| matmul f32 x q8_0 \| \d+ \| tree \| \d+ \|")

    def test_quality(self):
        devices = self.good(*ARGS, "-o", "json").json["devices"]
        self.assertEqual(len(devices), 2)
        for device in devices:
            self.assertGreater(device["overheads"]["dispatch_ns"] +
                               device["overheads"]["submit_ns"], 0)
            for kind in device["kinds"]:
                self.assertGreater(kind["samples"], 0)
                if kind["samples"] > 10:
                    self.assertLess(kind["held_out"]["median"], 0.10,
                                    (device["id"], kind["work"]))

    def test_second_run_measures_nothing(self):
        first = self.good(*ARGS).text
        self.assertEqual(len(self.files()), 3)
        stamps = self.stamps()
        self.assertEqual(self.good(*ARGS).text, first)
        self.assertEqual(self.stamps(), stamps)
        self.good(*ARGS, "--again")
        self.assertNotEqual(self.stamps(), stamps)

    def test_other_settings_have_other_files(self):
        self.good(*ARGS)
        self.good(*ARGS, "--set", "npu_sim:hexagon.frequency=0.5")
        self.assertEqual(len(self.files()), 5)  # hexagon's and the two's again

    def test_damaged_file(self):
        def works(text):
            return re.findall(r"^(?:##|\|) *([^|\n]+)", text, re.M)
        want = works(self.good(*ARGS).text)
        self.assertGreater(len(want), 10)
        for path in self.files():
            with open(path, "r+b") as f:
                f.truncate(os.path.getsize(path) // 2)
        result = self.good(*ARGS)
        self.assertEqual(works(result.text), want)
        self.assertEqual(result.err.count("measured again"), 3, result.err)
        self.assertNotIn("measured again", self.good(*ARGS).err)

    def test_unwritable_cache(self):
        path = self.write("file", b"no directory")
        result = self.good(*ARGS, "--set", "core.cache_dir=%s/cache" % path)
        self.assertIn("not kept", result.err)
        self.assertIn("npu_sim:hexagon", result.text)

    def test_full_measures_more(self):
        def samples(*args):
            return sum(kind["samples"] for device in
                       self.good(*ARGS, "-o", "json", *args).json["devices"]
                       for kind in device["kinds"])
        few = samples()
        self.assertGreater(samples("--full"), 2 * few)

    @unittest.skipUnless(cli.LONG, "takes seconds")
    def test_processor(self):
        devices = self.good("profile", "--devices", "cpu", "--seq", 1,
                            "-c", 64, "-o", "json").json["devices"]
        self.assertEqual([d["id"] for d in devices], ["cpu"])
        self.assertIn("matmul f32 x q8_0",
                      [k["work"] for k in devices[0]["kinds"]])

    def test_wrong_arguments(self):
        self.bad("profile", "--seq", "0", code=2, says=["--seq", "0"])
        self.bad("profile", "--seq", "1,900", "-c", 100, says=["--seq", "-c"])


if __name__ == "__main__":
    cli.main()
