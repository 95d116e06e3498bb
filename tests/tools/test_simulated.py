"""Simulated chips under the tools: what they compute is what others do."""

import os
import tempfile
import unittest

import cli

CHIPS = os.path.join(cli.SOURCE, "conf", "soc")


class Chips(cli.Case):
    def text(self, *args):
        return self.good("run", "--temp", "0", "-n", "24", "-p",
                         "Once upon a time", *args).text

    def nll(self, *args):
        path = self.write("text.txt", "The quick brown fox jumps over it. " * 8)
        return self.good("perplexity", "-f", path, "-c", "64", "--chunks", "1",
                         "-o", "json", *args).json["nll"]

    def test_all_load(self):
        for name in sorted(os.listdir(CHIPS)):
            with self.subTest(name):
                out = self.good("devices", "--conf", os.path.join(CHIPS, name),
                                "--devices", "npu_sim")
                self.assertIn("npu_sim:", out.text)

    def test_cpu_of_a_chip_says_what_the_real_one_says(self):
        conf = os.path.join(CHIPS, "int8-npu.ini")
        self.assertEqual(
            self.text("--conf", conf, "--devices", "npu_sim:cpu"),
            self.text("--devices", "cpu"))

    def test_every_chip_predicts_as_well(self):
        want = self.nll("--devices", "cpu")
        for name in sorted(os.listdir(CHIPS)):
            with self.subTest(name):
                conf = os.path.join(CHIPS, name)
                got = self.nll("--conf", conf, "--devices", "npu_sim")
                self.assertLess(abs(got - want), 0.02)

    def test_bubbles(self):
        """Of two chips' processors on one prompt, the busiest is critical."""
        args = ("bench", "--conf", os.path.join(CHIPS, "int8-npu.ini"),
                "--set", "npu_sim.compute=off", "--set", "core.plan=layer",
                "-m", "synth:llama-1b:w8a8:zero", "-p", "256", "-n", "0",
                "-b", "64", "--flight", "4", "-r", "2", "-q")
        trace = os.path.join(self.dir, "trace.json")
        row = self.good(*args, "--trace", trace, "-o", "json").json[0]
        used = row["device_use"]
        self.assertEqual({u["device"] for u in used},
                         {"npu_sim:npu", "npu_sim:cpu"})
        self.assertGreater(used[0]["busy_ns"], used[1]["busy_ns"])
        self.assertEqual(row["critical_device"], used[0]["device"])
        self.assertEqual(row["bubbles"], used[0]["idle_share"])
        for u in used:
            self.assertGreater(u["busy_ns"], 0)
            self.assertGreater(u["idle_ns"], 0)
            both = u["busy_ns"] + u["idle_ns"]
            self.assertAlmostEqual(both / sum(row["samples_ns"]), 1, delta=.01)
            self.assertAlmostEqual(u["idle_share"], u["idle_ns"] / both)
        text = self.good(*args, "--trace", trace).text
        self.assertIn("%% bubbles; %s " % used[1]["device"], text)
        plain = self.good(*args, "-o", "json").json[0]
        self.assertNotIn("bubbles", plain)

    def bench(self, name, *args):
        return self.good(
            "bench", "--conf", os.path.join(CHIPS, name), "--devices",
            "npu_sim", "--set", "npu_sim.compute=off", "--set",
            "core.plan=auto", "-m", "synth:llama-1b:w8a8:zero", "-n", "0",
            "-r", "1", "-q", "-o", "json", *args).json[0]

    def test_predicted_in_flight(self):
        """Chunks of a prompt take what is forecast, one by one or several at
        once: on no chip a tenth more or less, and what should be faster is."""
        for name in sorted(os.listdir(CHIPS)):
            rows = []
            for flight in 1, 2, 4:
                with self.subTest(name, flight=flight):
                    row = self.bench(name, "-p", "512", "-b", "128",
                                     "--flight", flight)
                    self.assertEqual((row["n_batch"], row["n_flight"]),
                                     (128, flight))
                    self.assertAlmostEqual(row["predicted_ts"] / row["avg_ts"],
                                           1, delta=.1)
                    for other in rows:
                        if row["predicted_ts"] > 1.05 * other["predicted_ts"]:
                            self.assertGreater(row["avg_ts"], other["avg_ts"])
                        if other["predicted_ts"] > 1.05 * row["predicted_ts"]:
                            self.assertGreater(other["avg_ts"], row["avg_ts"])
                    rows.append(row)

    def test_batches_are_chosen(self):
        """Where nothing is given, what is forecast to be the fastest is run."""
        plain = self.bench("int8-npu.ini", "-p", "1024", "-b", "512",
                           "--flight", "1")
        row = self.bench("int8-npu.ini", "-p", "1024")
        self.assertNotEqual((row["n_batch"], row["n_flight"]), (512, 1))
        self.assertGreater(row["avg_ts"], 1.02 * plain["avg_ts"])
        self.assertAlmostEqual(row["predicted_ts"] / row["avg_ts"], 1, delta=.1)
        short = self.bench("int8-npu.ini", "-p", "256")
        self.assertEqual(short["n_flight"], 1)

    def one_card(self, *args):
        """4096 tokens on a card that takes any length, with nothing known of
        it beforehand."""
        with tempfile.TemporaryDirectory() as cache:
            return self.good(
                "bench", "--conf", os.path.join(CHIPS, "two-cards.ini"),
                "--devices", "npu_sim:first", "--set", "npu_sim.compute=off",
                "--set", "core.plan=auto", "--set", "core.cache_dir=" + cache,
                "-m", "synth:llama3-8b:q8_0:zero", "-p", "4096", "-n", "0",
                "-r", "1", "-q", "-o", "json", *args).json[0]

    def test_long_batches_are_chosen(self):
        """Where they are faster, unless -b says less or nothing is known."""
        plain = self.one_card("-b", "512")
        row = self.one_card()
        self.assertEqual((row["n_batch"], row["n_flight"]), (2048, 1))
        self.assertGreater(row["avg_ts"], 1.05 * plain["avg_ts"])
        self.assertAlmostEqual(row["predicted_ts"] / row["avg_ts"], 1,
                               delta=.02)
        self.assertEqual(plain["n_batch"], 512)
        self.assertEqual(self.one_card("-b", "1024")["n_batch"], 1024)
        off = self.one_card("--set", "core.profile=off")
        self.assertEqual(off["n_batch"], 512)

    def test_long_batches_leave_weights(self):
        """Weights and cache of the model take 8650 MiB, the values of 512
        tokens 72, those of more as many times as much."""
        for memory, n_batch in (8990, 2048), (8850, 1024), (8750, 512):
            with self.subTest(memory=memory):
                row = self.one_card("--set",
                                    "npu_sim:first.memory=%d" % memory)
                self.assertEqual(row["n_batch"], n_batch)

    def test_two_cards(self):
        """Each has one half of the layers, for one of two batches."""
        rows = [self.good("bench", "--conf", os.path.join(CHIPS, "two-cards.ini"),
                          "--devices", devices, "--set", "npu_sim.compute=off",
                          "--set", "core.plan=auto", "-m", "synth:llama3-8b:q8_0:zero", "-p", "4096",
                          "-n", "0", "-r", "1", "-q", "-o", "json").json[0]
                for devices in ("npu_sim:first", "npu_sim")]
        self.assertGreater(rows[1]["avg_ts"], 1.55 * rows[0]["avg_ts"])
        self.assertGreater(rows[1]["n_flight"], 1)
        self.assertEqual(rows[1]["plan_programs"], 2)
        self.assertAlmostEqual(rows[1]["predicted_ts"] / rows[1]["avg_ts"], 1,
                               delta=.1)

    def test_token_on_two_cards(self):
        """Both compute norms and sums, so that they meet twice a layer."""
        with tempfile.TemporaryDirectory() as cache:
            both, one = [self.good(
                "bench", "--conf", os.path.join(CHIPS, "two-cards.ini"),
                "--set", "npu_sim:first.bandwidth=800",
                "--set", "npu_sim:second.bandwidth=800",
                "--devices", devices, "--set", "npu_sim.compute=off",
                "--set", "core.plan=auto", "--set", "core.cache_dir=" + cache,
                "-m", "synth:llama2-7b:q8_0:zero", "-p", "0", "-n", "8",
                "-r", "1", "-q", "-o", "json").json[0]
                for devices in ("npu_sim", "npu_sim:first")]
        self.assertGreater(both["avg_ts"], 1.4 * one["avg_ts"])
        self.assertAlmostEqual(both["predicted_ts"] / both["avg_ts"], 1,
                               delta=.02)

    def test_predicted_one_by_one(self):
        """Where one device works, several batches are asked for in vain: what
        is predicted is all of them, also with a shorter one behind."""
        for n in 256, 280:
            row = self.good(
                "bench", "--conf", os.path.join(CHIPS, "small-card.ini"),
                "--devices", "npu_sim:card", "--set", "npu_sim.compute=off",
                "--set", "core.plan=layer", "-m", "synth:llama-1b:w8a8:zero", "-p", n, "-n", "0",
                "-b", "64", "--flight", "4", "-r", "1", "-q",
                "-o", "json").json[0]
            self.assertAlmostEqual(row["predicted_ts"] / row["avg_ts"], 1,
                                   delta=.1)

    def test_mistakes_name_section_and_key(self):
        path = self.write("chip.ini", "[npu_sim:odd]\nsram = 2048\nrows = 0\n")
        out = self.cleave("devices", "--conf", path, "--devices", "npu_sim")
        self.assertIn("npu_sim:odd", out.text + out.err)
        self.assertIn("rows", out.text + out.err)


if __name__ == "__main__":
    cli.main()
