"""cleave bench: shape of the tables; speeds are nobody's to promise."""

import csv
import io
import json
import re
import os
import unittest

import cli


@cli.needs_shared
class Bench(cli.Case):
    ARGS = ("bench", "-m", cli.NANO, "-p", "8,4", "-n", "2", "-r", "2", "-q")

    def rows(self):
        return self.good(*self.ARGS, "-o", "json").json

    def test_json(self):
        rows = self.rows()
        self.assertEqual([(r["n_prompt"], r["n_gen"]) for r in rows],
                         [(8, 0), (4, 0), (0, 2)])
        for row in rows:
            n = row["n_prompt"] + row["n_gen"]
            self.assertEqual(len(row["samples_ns"]), 2)
            self.assertAlmostEqual(row["avg_ns"],
                                   sum(row["samples_ns"]) / 2, delta=1)
            for ns, rate in zip(row["samples_ns"], row["samples_ts"]):
                self.assertAlmostEqual(rate, n * 1e9 / ns, delta=rate * 1e-6)
            self.assertGreater(row["model_n_params"], 7000000)
            self.assertIn("cpu", row["devices"])
            self.assertGreater(row["n_threads"], 0)
            self.assertGreater(row["plan_programs"], 0)

    def test_threads_are_told(self):
        rows = self.good(*self.ARGS, "-t", 1, "-o", "json").json
        self.assertEqual(rows[0]["n_threads"], 1)

    def test_jsonl_and_csv_hold_the_same_fields(self):
        names = list(self.rows()[0])
        lines = self.good(*self.ARGS, "-o", "jsonl").text.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertEqual(list(json.loads(lines[0])), names)
        table = csv.DictReader(io.StringIO(
            self.good(*self.ARGS, "-o", "csv").text))
        self.assertEqual(len(list(table)), 3)
        self.assertEqual(table.fieldnames,
                         [n for n in names if not n.startswith("samples")])

    def test_md(self):
        lines = self.good(*self.ARGS).text.splitlines()
        self.assertEqual([c.strip() for c in lines[0].split("|")[1:-1]],
                         ["model", "size", "params", "devices", "threads",
                          "plan", "test", "t/s", "predicted t/s"])
        tests = [line.split("|")[7].strip() for line in lines[2:]]
        self.assertEqual(tests, ["pp8", "pp4", "tg2"])
        self.assertEqual(len({len(line) for line in lines}), 1)
        self.assertRegex(lines[2],
                         r" \d+\.\d\d ± \d+\.\d\d \| +\d+\.\d\d \|$")

    def test_zero_skips_and_depth_names(self):
        rows = self.good("bench", "-m", cli.NANO, "-p", 0, "-n", 1, "-d", "0,6",
                         "-r", 1, "--no-warmup").text.splitlines()
        self.assertEqual([line.split("|")[7].strip() for line in rows[2:]],
                         ["tg1", "tg1 @ d6"])

    def test_real_time_has_no_energy(self):
        row = self.rows()[0]
        self.assertEqual(row["clock"], "real")
        self.assertIsNone(row["mj_per_token"])
        self.assertIsNone(row["watts"])

    @unittest.skipUnless(cli.LONG, "CLEAVE_TEST_LONG is not set")
    def test_models(self):
        """Every -m is measured; an unknown one does not hide the others."""
        args = ("bench", "-m", "synth:llama-1b:q8_0:zero", "-m", cli.NANO,
                "-p", 2, "-n", 0, "-r", 1, "--no-warmup", "-o", "json")
        names = [r["model_filename"] for r in self.good(*args).json]
        self.assertEqual(names, ["synth:llama-1b:q8_0:zero", cli.NANO])
        result = self.cleave(*args, "-m", self.path("none"))
        self.assertEqual(result.code, 1)
        self.assertEqual(len(result.json), 2)
        self.assertEqual(self.cleave(*args, "--trace", "x").code, 2)

    def test_synthetic_model(self):
        rows = self.good("bench", "-m", "synth:llama-1b:q4_0", "-p", 1, "-n", 0,
                         "-r", 1, "--no-warmup", "-o", "json").json
        self.assertAlmostEqual(rows[0]["model_n_params"], 1.1e9, delta=1e8)


@cli.needs_shared
class Kernels(cli.Case):
    """nano has 8 layers of 7 products, and one behind them."""
    ARGS = ("bench", "-m", cli.NANO, "-p", 8, "-n", 3, "-q", "--kernels",
            "--devices", "cpu")

    def test_json(self):
        rows = self.good(*self.ARGS, "-o", "json").json
        self.assertEqual({r["test"] for r in rows}, {"pp8", "tg3"})
        for test in "pp8", "tg3":
            mine = [r for r in rows if r["test"] == test]
            self.assertAlmostEqual(sum(r["share"] for r in mine), 1, delta=1e-6)
            self.assertEqual([r["ns"] for r in mine],
                             sorted((r["ns"] for r in mine), reverse=True))
        runs = {(r["test"], r["op"]): r["runs"] for r in rows}
        self.assertEqual(runs["pp8", "matmul"], 57)
        self.assertEqual(runs["tg3", "matmul"], 3 * 57)
        self.assertEqual(runs["tg3", "attention"], 3 * 8)
        products = [r for r in rows if (r["test"], r["op"]) ==
                    ("tg3", "matmul")][0]
        # Each weight is read once a token: 16 bits, two operations.
        weights = products["flops_per_s"] * products["ns"] * 1e-9 / 3 / 2
        self.assertAlmostEqual(weights, 8e6, delta=2e5)
        self.assertGreater(products["bytes_per_s"],
                           products["flops_per_s"])
        self.assertEqual({r["clock"] for r in rows}, {"real"})

    def test_md(self):
        lines = self.good(*self.ARGS).text.splitlines()
        self.assertEqual([c.strip() for c in lines[0].split("|")[1:-1]],
                         ["test", "device", "kernel", "op", "runs", "ms",
                          "share", "GB/s", "GFLOP/s"])
        self.assertTrue(any(
            re.search(r"pp8 \| cpu +\| matmul +\| matmul +\|  *57 ", line)
            for line in lines))

    def test_a_profile_gives_the_highest_rates(self):
        self.good("profile", "-m", cli.NANO, "--devices", "cpu", "--seq", 1,
                  "-q")
        env = {"CLEAVE_CORE_PLAN": "layer"}
        rows = self.good(*self.ARGS, "-o", "json", env=env).json
        self.assertGreater(rows[0]["top_bytes_per_s"], 1e8)
        self.assertGreater(rows[0]["top_flops_per_s"], 1e8)


@cli.needs_shared
class VirtualTime(cli.Case):
    """On a simulated chip, whose GPU takes what its NPU has no program for."""

    CHIP = os.path.join(cli.SOURCE, "conf", "soc", "snapdragon-8gen3.ini")
    ARGS = ("bench", "--conf", CHIP, "--devices", "npu_sim", "-q")
    NANO = ARGS + ("-m", cli.NANO, "-p", "8", "-n", "2", "-r", "2")

    def test_times_are_the_chips(self):
        rows, again = (self.good(*self.NANO, "-o", "json", "--set",
                                 "core.program_cache=0").json
                       for _ in range(2))
        self.assertEqual(rows, again)
        for row in rows:
            self.assertEqual(row["clock"], "virtual")
            n = row["n_prompt"] + row["n_gen"]
            joules = row["mj_per_token"] * n * 1e-3
            self.assertAlmostEqual(joules / (row["avg_ns"] * 1e-9),
                                   row["watts"], delta=1e-6)
            # Between all idle, and all busy.
            self.assertGreater(row["watts"], 0.15)
            self.assertLess(row["watts"], 6.24)

    def test_programs_are_cached(self):
        args = self.ARGS + ("-m", "synth:llama3-8b:w4a16:zero", "-p", "256",
                            "-n", "0", "-r", "1", "-o", "json", "--set",
                            "npu_sim.compute=off")
        (first,), (second,) = (self.good(*args).json for _ in range(2))
        self.assertGreater(first["programs_virtual_ns"], 1e9)
        self.assertLess(second["programs_virtual_ns"], 2e8)
        self.assertEqual(second["samples_ns"], first["samples_ns"])
        self.assertEqual(
            second["programs_loaded"] + second["programs_compiled"],
            first["programs_loaded"] + first["programs_compiled"])

    def test_md(self):
        lines = self.good(*self.NANO).text.splitlines()
        titles = [c.strip() for c in lines[0].split("|")[1:-1]]
        self.assertEqual(titles[6:9], ["clock", "test", "t/s"])
        self.assertEqual(titles[-2:], ["mJ/token", "W"])
        self.assertIn("| virtual |", lines[2])

    def test_blocking_is_slower(self):
        fast, block = (
            self.good(*self.NANO, "-o", "json", "--set", "core.sync=" + how)
            .json[0]["avg_ts"] for how in ("fast", "block"))
        self.assertGreater(fast, block)

    def test_large_models_without_arithmetic(self):
        row, = self.good(*self.ARGS, "--devices", "npu_sim:adreno", "-m",
                         "synth:llama3-8b:w4a16:zero", "--set",
                         "npu_sim.compute=off", "-p", "256", "-n", "0", "-r",
                         "1", "-o", "json").json
        # Of 7.5 G multiply-adds a token at 1 TFLOP/s.
        self.assertLess(row["avg_ts"], 66.8)
        self.assertGreater(row["avg_ts"], 40)

    def test_larger_than_a_cards_memory(self):
        """The weights are divided, the same way for both phases."""
        args = ("bench", "-q", "--conf", os.path.join(
                    os.path.dirname(self.CHIP), "small-card.ini"),
                "-m", "synth:llama-1b:w4a16:zero", "--set",
                "npu_sim.compute=off", "--set", "npu_sim.max_memory=400",
                "--set", "core.plan=auto", "-p", "128", "-n", "4", "-r", "1")
        both = self.good(*args, "--devices", "npu_sim", "-o", "json").json
        cpu = self.good(*args, "--devices", "npu_sim:cpu", "-o", "json").json
        for fast, slow in zip(both, cpu):
            self.assertGreater(fast["avg_ts"], 1.8 * slow["avg_ts"])
            self.assertLess(abs(fast["predicted_ts"] / fast["avg_ts"] - 1),
                            0.01)
        self.bad(*args, "--devices", "npu_sim:card",
                 says=["npu_sim:card", "lacks", "bytes of memory",
                       "core.devices"])

    def test_run_says_so(self):
        out = self.good("run", "--conf", self.CHIP, "--devices",
                        "npu_sim:adreno", "-m", cli.NANO, "-p", "Once", "-n",
                        "2")
        self.assertRegex(out.err, r"generation .* tok/s  virtual time\n")
        out = self.good("run", "--devices", "cpu", "-m", cli.NANO, "-p",
                        "Once", "-n", "2")
        self.assertNotIn("virtual", out.err)


if __name__ == "__main__":
    cli.main()
