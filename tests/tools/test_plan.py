"""cleave plan: shown, saved, edited and followed."""

import json
import os
import re
from xml.etree import ElementTree

import cli

REF = os.path.join(cli.BUILD, "tests", "plugins", "ref")
CPU = os.path.join(cli.BUILD, "plugins")
TWO = ("--set", "core.plugin_dirs=%s:%s" % (REF, CPU),
       "--set", "core.plugins=ref,cpu", "--set", "core.allow_unsafe_plugins=on",
       "--devices", "cpu,ref:0", "--set", "core.plan=first")
CORES = sorted(os.sched_getaffinity(0))
BIG_LITTLE = ("--set", "cpu:big.cores=%d" % CORES[0],
              "--set", "cpu:little.cores=%d" % CORES[-1],
              "--set", "core.plan=first")
RUN = ("run", "-p", "def fibonacci(n):", "-n", "12", "--temp", "0", "-b", "64")


PHONE = ("--conf", os.path.join(cli.SOURCE, "conf", "soc",
                                "snapdragon-8gen3.ini"),
         "--set", "core.plugins=npu_sim", "--set", "npu_sim.compute=off",
         "--set", "core.plan=tensor")


class Plan(cli.Case):
    devices, settings = ("cpu", "ref:0"), TWO

    def save(self, phase, edit=None):
        path = self.path(phase + ".json")
        self.good("plan", "--phase", phase, "--seq", 64, "--save", path,
                  *self.settings)
        with open(path) as f:
            plan = json.load(f)
        if edit:
            edit(plan)
            with open(path, "w") as f:
                json.dump(plan, f)
        return path

    def cut_matmuls(self, plan):
        """Half of the rows of every matmul with 704 or 256 of them goes to
        the other device."""
        pieces, cut = [], 0
        for piece in plan["pieces"]:
            node = plan["nodes"][piece["node"]]
            shape = plan["values"][node["outputs"][0]]["shape"] \
                if node["outputs"] else ""
            if node["op"] != "matmul" or not shape.endswith((",704]", ",256]")):
                pieces.append(piece)
                continue
            rows = int(shape[:-1].split(",")[1])
            cut += 1
            pieces += [dict(piece, device=self.devices[0], rows=[0, rows // 2]),
                       dict(piece, device=self.devices[1],
                            rows=[rows // 2, rows])]
        self.assertGreater(cut, 8)
        plan["pieces"] = pieces

    def test_shown(self):
        text = self.good("plan", "--phase", "decode").text
        self.assertTrue(text.startswith("# Decoding of 1 token\n\n"))
        self.assertIn("| device | name | steps |", text)
        self.assertIn("matmul blk.0.ffn_down.weight", text)
        plan = self.good("plan", "--seq", 32, "-o", "json").json
        self.assertEqual({p["device"] for p in plan["pieces"]}, {"cpu"})

    def test_followed(self):
        """An edited plan is what runs, and the text stays the same."""
        want = self.good(*RUN).text
        plans = []
        for phase in "prefill", "decode":
            plans += ["--plan", self.save(phase, self.cut_matmuls)]
        result = self.good(*RUN, *TWO, *plans)
        self.assertEqual(result.text, want)
        self.assertNotIn("warn", result.err)
        shown = self.good("plan", "--phase", "decode", "--seq", 64, *TWO,
                          *plans).text
        self.assertIn("rows 0..352", shown)
        self.assertRegex(shown, r"rows 352..704 \| f32 \[1,352\] \| \d+ \| ref:0")

    def test_streamed(self):
        """Weights that are copied in each run, or in the first one after
        others, change no text."""
        card = ["--conf", os.path.join(cli.SOURCE, "conf", "soc",
                                       "small-card.ini"),
                "--set", "core.plugins=npu_sim",
                "--devices", "npu_sim:card"]
        want = self.good(*RUN, *card).text
        for queues, how in (0, True), (1, True), (1, "once"):
            more = [*card, "--set", "npu_sim:card.copy_queues=%d" % queues]
            plans = []
            for phase in "prefill", "decode":
                path = self.path("%s-%d-%s.json" % (phase, queues, how))
                self.good("plan", "--phase", phase, "--seq", 64, *more,
                          "--save", path)
                with open(path) as f:
                    plan = json.load(f)
                self.stream_matmuls(plan, how)
                with open(path, "w") as f:
                    json.dump(plan, f)
                plans += ["--plan", path]
            result = self.good(*RUN, *more, *plans)
            self.assertEqual(result.text, want)
            self.assertNotIn("warn", result.err)
            shown = self.good("plan", "--phase", "decode", *more, *plans,
                              "-o", "json").json
            self.assertEqual(len(shown["devices"]), 1 + queues)
            streamed = [load for load in shown["loads"]
                        if load["how"] == "stream"]
            self.assertGreater(len(streamed), 20)
            if how == "once":
                self.assertGreater(shown["memory_use"][0]["kept"], 0)
                self.bad("plan", "--phase", "decode", *more[:-1],
                         "npu_sim:card.copy_queues=0", *plans,
                         says=["streamed once", "no queue that copies"])

    def test_streamed_in_vain(self):
        decode = ("plan", "--phase", "decode", "--seq", 64, *TWO, "--plan")
        path = self.save("decode", self.stream_matmuls)
        self.bad(*decode, path, says=["streamed", "no memory of its own"])
        with open(path) as f:
            plan = json.load(f)
        plan["pieces"][0]["streamed"] = "yes"
        path = self.write("plan.json", json.dumps(plan))
        self.bad(*decode, path, says=["piece 0", "streamed"])

    def stream_matmuls(self, plan, how=True):
        matmuls = {n.get("source", i) for i, n in enumerate(plan["nodes"])
                   if n["op"] == "matmul"}
        for piece in plan["pieces"]:
            if piece["node"] in matmuls:
                piece["streamed"] = how

    def test_two_cpu_devices(self):
        """Sections make devices that share the work, and their memory."""
        want = self.good(*RUN).text
        self.devices, self.settings = ("cpu:big", "cpu:little"), BIG_LITTLE
        plans = []
        for phase in "prefill", "decode":
            plans += ["--plan", self.save(phase, self.cut_matmuls)]
        self.assertEqual(self.good(*RUN, *BIG_LITTLE, *plans).text, want)
        shown = self.good("plan", "--phase", "decode", "--seq", 64,
                          *BIG_LITTLE, *plans).text
        self.assertRegex(shown, r"rows 0..352 \| .* \| cpu:big")
        self.assertRegex(shown, r"rows 352..704 \| .* \| cpu:little")

    def test_drawn(self):
        """A picture is sound XML, without scripts, and shows what is in the
        plan."""
        settings = (*PHONE, "--seq", 64)
        plan = self.good("plan", *settings, "-o", "json").json
        root = ElementTree.fromstring(
            self.good("plan", *settings, "-o", "svg").out)
        space = "{http://www.w3.org/2000/svg}"
        self.assertEqual(root.tag, space + "svg")
        self.assertEqual({e.tag[len(space):] for e in root.iter()},
                         {"svg", "title", "rect", "line", "text"})
        total = "%.3f ms" % (plan["predicted"]["ns"] / 1e6)
        self.assertIn("Predicted: " + total, root.find(space + "title").text)
        texts = [e.text for e in root.iter(space + "text")]
        for device in plan["devices"]:
            self.assertEqual(device["id"] in texts, device["steps"] > 0)
        tips = [e.text for e in root.iter(space + "title")]
        self.assertTrue(any(re.match(r"matmul blk\.\d\.ffn_up\.weight.* on "
                                     r"npu_sim:\w+: \d+\.\d+ ms", tip)
                            for tip in tips))
        text = self.good("plan", *settings).text
        self.assertRegex(text, r"\d tokens/s predicted")
        self.assertIn("Predicted: " + total, text)

    def test_share_is_kept(self):
        """Each device's part of the time, as the plan shows it."""
        for model, phase, device, most, want in (
                ("llama3-8b", "prefill", "hexagon", 0.3,
                 {"hexagon": 30, "adreno": 98}),
                ("llama3-8b", "decode", "adreno", 0.2,
                 {"hexagon": 99, "adreno": 20}),
                ("llama-1b", "decode", "hexagon", 0.5, {"hexagon": 50})):
            text = self.good(
                "plan", *PHONE, "-m", "synth:%s:w4a16:zero" % model, "-c", 256,
                "--phase", phase, "--seq", 256, "--set",
                "npu_sim:%s.max_share=%g" % (device, most)).text
            shares = dict(re.findall(r"^\| npu_sim:(\w+) .* (\d+)% \|", text,
                                     re.MULTILINE))
            for device, share in want.items():
                self.assertLessEqual(abs(int(shares[device]) - share), 2)

    def test_share_cannot_be_kept(self):
        self.bad("plan", *PHONE, "--devices", "npu_sim:hexagon", "--set",
                 "npu_sim.max_share=0.3", "--seq", 64,
                 says=["npu_sim:hexagon", "of the time", "max_share",
                       "core.devices"])

    def test_nothing_to_draw(self):
        self.bad("plan", "--set", "core.profile=off", "-o", "svg",
                 says=["costs are not known", "cleave profile"])

    def test_made_for_other_runs(self):
        path = self.save("prefill")
        result = self.good(*RUN[:-1], 65, *TWO, "--plan", path)
        self.assertIn("no saved plan was made for runs of up to 65", result.err)

    def test_wrong_files(self):
        self.bad(*RUN, "--plan", self.path("none.json"), says=["none.json"])
        path = self.write("text.json", b"{\n hello")
        self.bad(*RUN, "--plan", path, says=[path, "line 2"])
        path = self.write("empty.json", b"{}")
        self.bad(*RUN, "--plan", path, says=[path, "graph"])
        def spoil(plan):
            plan["pieces"][3]["rows"] = [0, 5]
        path = self.save("prefill", spoil)
        self.bad("plan", "--seq", 64, *TWO, "--plan", path,
                 says=["node 3", "gap"])
        self.bad("plan", "--seq", 2000, "-c", 100, says=["--seq", "-c"])

    def test_save_fails_whole(self):
        path = os.path.join(self.path("no-such-dir"), "plan.json")
        self.bad("plan", "--save", path, says=[path])


CARD = ("--conf", os.path.join(cli.SOURCE, "conf", "soc", "small-card.ini"),
        "--set", "core.plugins=npu_sim", "--set", "npu_sim.compute=off",
        "--set", "npu_sim:card.copy_queues=1", "--set", "core.plan=auto")
MODEL = ("-m", "synth:llama-1b:q8_0:zero")
SMALL = (*CARD, "--set", "npu_sim:card.memory=512")


class Memory(cli.Case):
    """How much lies where."""

    def plan(self, *args):
        plan = self.good("plan", *MODEL, "-c", 512, *args, "-o", "json").json
        rows = {row["memory"]: row for row in plan["memory_use"]}
        self.assertEqual(list(rows), ["npu_sim:card", "host"])
        return plan, rows["npu_sim:card"], rows["host"]

    def loads(self, plan, how):
        return sum(load["bytes"] for load in plan["loads"]
                   if load["how"] == how)

    def test_scarce(self):
        plan, card, host = self.plan(*SMALL, "--phase", "decode")
        self.assertEqual(card["budget"], 512 << 20)
        self.assertEqual(card["weights"], self.loads(plan, "copy"))
        copied = card["decode_streamed"] + card["kept"]
        self.assertEqual(copied, self.loads(plan, "stream"))
        self.assertGreater(copied, 0)
        self.assertEqual(host["weights"], copied)
        # Each weight is somewhere, and nowhere twice but for small ones.
        size = 1136 << 20
        lies = card["weights"] + copied + host["decode_in_place"]
        self.assertLess(abs(lies / size - 1), 0.03)
        self.assertLessEqual(
            card["weights"] + card["kv_cache"] + card["values"], 512 << 20)
        self.assertAlmostEqual(card["decode_ts"],
                               1e9 / plan["predicted"]["ns"], delta=0.1)
        self.assertGreater(card["decode_ts_with_1_gib_more"],
                           1.2 * card["decode_ts"])
        self.assertNotIn("prompt_ts", card)

    def test_not_copied_again(self):
        """Prompts copy to the card what it does not hold, and no more."""
        result = self.good("plan", *MODEL, "-c", 512, *CARD, "--set",
                           "npu_sim:card.memory=768", "-o", "json",
                           "--log-level", "debug")
        card, host = result.json["memory_use"]
        self.assertGreater(card["prompt_streamed"], 0)
        lies = (card["weights"] + card["prompt_streamed"] +
                host["prompt_in_place"])
        self.assertLess(lies, 1.05 * (1136 << 20))
        simple = re.findall(r"which is sent what it lacks: ([0-9.]+) ms",
                            result.err)
        self.assertLess(result.json["predicted"]["ns"],
                        1.05e6 * float(simple[-1]))

    def test_all_fits(self):
        _, card, _ = self.plan(*CARD, "--phase", "decode")
        self.assertLess(card["weights"], 1150 << 20)
        plan, card, _ = self.plan(*CARD, "--seq", 64)
        self.assertEqual(card["budget"], 4 << 30)
        self.assertEqual(card["prompt_streamed"], 0)
        self.assertEqual(card["weights"], self.loads(plan, "copy"))
        self.assertNotIn("prompt_ts_with_1_gib_more", card)
        self.assertNotIn("decode_ts", card)

    def test_read_from_the_file(self):
        args = ("plan", "--phase", "decode", "--devices", "cpu", "--set",
                "core.host_memory=6")
        plan = self.good(*args, "-o", "json").json
        host, = plan["memory_use"]
        self.assertEqual(host["memory"], "host")
        self.assertEqual(host["budget"], 6 << 20)
        self.assertEqual(host["decode_from_file"], plan["file"]["bytes"])
        kept = host["decode_in_place"] - host["decode_from_file"]
        self.assertGreater(kept, 2 << 20)
        self.assertLess(kept, 6 << 20)
        self.assertEqual(len(set(plan["file"]["weights"])),
                         len(plan["file"]["weights"]))
        self.assertRegex(self.good(*args).text, r"\| from the file a token \|")
        self.assertNotIn("from the file", self.good(*args[:-2]).text)

    def test_told(self):
        shown = self.good("plan", *MODEL, *SMALL, "--phase", "decode").text
        self.assertRegex(shown, r"\| memory +\| +budget \| +weights")
        self.assertRegex(shown, r"npu_sim:card +\| 512.00 MiB .*decode "
                                r"[0-9.]+ tok/s instead of [0-9.]+ \|")
        shown = self.good("plan", *MODEL, *SMALL, "--phase", "decode", "-o",
                          "svg").text
        self.assertRegex(shown, r">npu_sim:card, copies<")
        self.assertRegex(shown, r">copies, \d+% busy<")
        bench = ("bench", *MODEL, "-p", 0, "-n", 2, "-r", 1, *SMALL)
        line = r"memory +npu_sim:card: .* of weights, .*512.00 MiB in all"
        self.assertNotIn("memory  ", self.good(*bench).err)
        self.assertRegex(self.good(*bench, "-v").err, line)
        run = ("run", "-p", "x", "-n", 1)
        self.assertRegex(self.good(*run, *SMALL).err,
                         r"memory +npu_sim:card: .*512.00 MiB in all")
        self.assertNotIn("in all", self.good(*run).err)
        self.assertNotIn("memory_use", self.good("plan", "-o", "json").text)


if __name__ == "__main__":
    cli.main()
