"""cleave run: the text, where it goes, and how it ends."""

import json
import os
import pty
import re
import signal
import subprocess
import time
import unittest

import cli

TIMINGS = re.compile(r"""
load +[\d.]+ s +\d+ programs compiled, \d+ from the cache
prompt +[\d.]+ s +(\d+) tokens +[\d.]+ tok/s
generation +[\d.]+ s +(\d+) tokens +[\d.]+ tok/s
peak memory +[\d.]+ MiB
""")


def greedy(*args):
    return ["run", "-m", cli.NANO, "--temp", "0", *args]


@cli.needs_shared
class Text(cli.Case):
    def golden(self):
        with open(cli.shared("models", "nano", "golden.json")) as f:
            golden = json.load(f)
        return list(zip(golden["prompts"], golden["greedy_text"]))

    def test_greedy_text_is_the_reference(self):
        for prompt, text in self.golden():
            with self.subTest(prompt):
                out = self.good(*greedy("-n", 64, "-p", prompt)).text
                self.assertEqual(prompt + out, text)

    def test_batches_and_threads_change_nothing(self):
        prompt, text = self.golden()[0]
        for args in (["-b", 1], ["-b", 7, "-t", 1], ["--kv-type", "f32"],
                     ["-b", 64, "-ub", 5], ["-ctk", "f32", "-ctv", "f32"]):
            with self.subTest(args):
                out = self.good(*greedy("-n", 64, "-p", prompt, *args)).text
                self.assertEqual(prompt + out, text)

    def test_batches_are_told(self):
        prompt, _ = self.golden()[0]
        err = self.good(*greedy("-n", 1, "-p", prompt, "-b", 2, "--flight",
                                3)).err
        self.assertRegex(err, r"prompt +\d+ tokens in batches of 2, 3 at once")
        err = self.good(*greedy("-n", 1, "-p", prompt)).err
        self.assertNotIn("in batches of", err)

    def test_weights_from_the_file_change_nothing(self):
        """Memory for none of the weights, and for half of them."""
        prompt, text = self.golden()[0]
        for mib in 1, 8:
            for args in [], ["-b", 2, "--flight", 3]:
                with self.subTest(mib=mib, args=args):
                    run = self.good(*greedy("-n", 64, "-p", prompt, "--set",
                                            "core.host_memory=%d" % mib, *args,
                                            "--devices", "cpu"))
                    self.assertEqual(prompt + run.text, text)
                    self.assertEqual(run.err.count("core.host_memory"), 1)
                    self.assertRegex(run.err, r"memory holds %d\.0 MiB of the "
                                     r"[\d.]+ MiB of weights .* each run reads "
                                     r"[\d.]+ MiB" % mib)

    def test_prompt_from_file_and_standard_input(self):
        prompt, text = self.golden()[0]
        data = (prompt + "\n").encode()  # one newline is the file's, not ours
        path = self.write("prompt.txt", data)
        want = text[len(prompt):]
        self.assertEqual(self.good(*greedy("-n", 64, "-f", path)).text, want)
        self.assertEqual(
            self.good(*greedy("-n", 64, "-f", "-"), stdin=data).text, want)

    def test_display_prompt(self):
        prompt, text = self.golden()[1]
        out = self.good(*greedy("-n", 64, "--display-prompt", "-p", prompt))
        self.assertEqual(out.text, text)

    def test_escapes(self):
        args = ("-n", 1, "--display-prompt", "-q")
        prompt = r"a\tb\n\x41\\n\q\""
        out = self.good(*greedy(*args, "-p", prompt)).text
        self.assertTrue(out.startswith("a\tb\nA\\n\\q\""), out)
        out = self.good(*greedy(*args, "--no-escape", "-p", prompt)).text
        self.assertTrue(out.startswith(prompt), out)

    def test_grammar(self):
        args = ("run", "-m", cli.NANO, "-q", "-p", "x = ")
        for seed in range(4):
            text = self.good(*args, "-s", seed, "--ignore-eos", "--grammar",
                             'root ::= [a-f]{3,8} " or " ("b" | "c")').text
            self.assertRegex(text, r"^[a-f]{3,8} or [bc]$")
        path = self.write("g.gbnf", 'root ::= "yes"\n')
        self.assertEqual(self.good(*args, "--grammar-file", path).text, "yes")
        schema = {"type": "object", "required": ["n", "tags"], "properties": {
            "n": {"type": "integer", "minimum": 10, "maximum": 12},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]},
                     "minItems": 1, "maxItems": 2},
            "s": {"type": "string", "maxLength": 5}}}
        for seed in range(4):
            value = json.loads(self.good(*args, "-s", seed, "-j",
                                         json.dumps(schema)).text)
            self.assertIn(value["n"], (10, 11, 12))
            self.assertIn(len(value["tags"]), (1, 2))
            self.assertLessEqual(set(value["tags"]), {"a", "b"})
            self.assertLessEqual(set(value), {"n", "tags", "s"})
        path = self.write("s.json", json.dumps({"const": [1]}))
        self.assertEqual(self.good(*args, "-jf", path).text, "[1]")
        self.bad(*args, "--grammar", "root ::= (", says=["line 1", "root"])
        self.bad(*args, "-j", '{"type":"number","minimum":1}',
                 says=["#", "'minimum'"])
        self.bad(*args, "-jf", self.path("absent"), says="absent")

    def test_logit_bias(self):
        args = greedy("-q", "-p", "x", "-n", 3)
        ids = self.cleave("tokenize", "-m", cli.NANO, "-p", "x").text.split()
        more, never = "%s+1000" % ids[-1], "%s-inf" % ids[-1]
        self.assertEqual(self.good(*args, "-l", more).text, "xxx")
        self.assertNotEqual(
            self.good(*args, "-l", more, "-l", never).text, "xxx")
        for bad in "5", "5*3", "x+1", "5+inf", "5+nan", "-1+2", "5+1x":
            self.bad(*args, "--logit-bias=" + bad, says=["--logit-bias", bad])
        self.bad(*args, "-l", "99999999+1", says=["99999999", "vocabulary"])

    def test_samplers_are_reached(self):
        args = ("run", "-m", cli.NANO, "-q", "-s", 3, "-n", 24, "-p", "def ")
        plain = self.good(*args).text
        for more in (["--mirostat", 1], ["--mirostat", 2], ["--typical", 0.2],
                     ["--top-n-sigma", 0.1], ["--presence-penalty", 9],
                     ["--frequency-penalty", 9], ["--dynatemp-range", 0.7],
                     ["--xtc-probability", 1, "--xtc-threshold", 0.01],
                     ["--samplers", "temperature"]):
            with self.subTest(more):
                self.assertNotEqual(self.good(*args, *more).text, plain)
        args = greedy("-n", 8, "-q", "-p", "x, y, z\nx, y, z\nx, y, z\nx,")
        dry = ["--dry-multiplier", 50, "--dry-allowed-length", 1]
        plain = self.good(*args).text
        self.assertTrue(plain.startswith(" y, z"), plain)
        self.assertFalse(self.good(*args, *dry).text.startswith(" y, z"))
        self.assertTrue(self.good(*args, *dry, "--dry-sequence-breaker", ",")
                        .text.startswith(" y, z"))
        self.bad(*args, "--samplers", "top_k;tpo_p", says="'tpo_p'")

    def test_context_shift(self):
        args = greedy("-c", 24, "-p", "import os", "--ignore-eos", "-q")
        short = self.good(*args).text
        out = self.good(*args, "-n", 60, "--context-shift", "--keep", 2).text
        self.assertTrue(out.startswith(short), out)
        self.assertGreater(len(out), len(short))

    def test_cache_of_q8_0(self):
        prompt, text = self.golden()[0]
        args = greedy("-n", 8, "-p", prompt)
        result = self.good(*args, "-ctk", "q8_0", "-ctv", "q8_0")
        self.assertTrue(text.startswith(prompt + result.text), result.text)
        plain = self.good(*args)
        size = re.compile(r"([\d.]+) MiB of KV cache")
        self.assertAlmostEqual(
            float(size.search(result.err).group(1)) /
            float(size.search(plain.err).group(1)), 34 / 64, 2)
        self.bad(*args, "-ctk", "q8_0", says=["q8_0", "f16", "--kv-type"])

    def test_perplexity_with_a_cache_of_q8_0(self):
        f16, q8_0 = (self.good(
            "perplexity", "-m", cli.NANO, "-f",
            cli.shared("text", "heldout.txt"), "--chunks",
            1 if cli.SANITIZED else 4, "-o", "json",
            "--kv-type", kv).json["ppl"] for kv in ("f16", "q8_0"))
        self.assertNotEqual(f16, q8_0)
        self.assertLess(abs(q8_0 / f16 - 1), 0.005)

    def test_seed_decides(self):
        args = ("run", "-m", cli.NANO, "-n", 24, "-p", "def ", "--temp", "1.5",
                "-s")
        first = self.good(*args, 7).out
        self.assertEqual(self.good(*args, 7).out, first)
        others = {self.good(*args, seed).out for seed in (8, 9, 10)}
        self.assertGreater(len(others | {first}), 1)

    def test_a_new_seed_is_shown_and_reproduces(self):
        args = ("run", "-m", cli.NANO, "-n", 16, "-p", "import ")
        first = self.good(*args)
        seed = re.search(r"^seed +(\d+)$", first.err, re.M).group(1)
        self.assertEqual(self.good(*args, "-s", seed).out, first.out)


@cli.needs_shared
class Streams(cli.Case):
    def test_timings_and_choices_go_to_stderr(self):
        result = self.good(*greedy("-n", 5, "-p", "import os"))
        match = TIMINGS.search(result.err)
        self.assertTrue(match, result.err)
        self.assertEqual(match.group(2), "5")
        self.assertRegex(result.err, r"(?m)^model +llama 8\.\d+ M f16, ")
        self.assertRegex(result.err, r"(?m)^devices +cpu")
        self.assertNotIn("\r", result.err)

    def test_peak_memory_is_the_program_s_own(self):
        ballast = bytearray(512 << 20) # the parent's, as exec() finds it
        err = self.good(*greedy("-n", 1, "-p", "x"),
                        preexec_fn=lambda: ballast.find(b"x")).err
        peak, = re.findall(r"peak memory +([\d.]+) MiB", err)
        self.assertLess(float(peak), 400)

    def test_quiet(self):
        result = self.good(*greedy("-n", 5, "-q", "-p", "import os"))
        self.assertEqual(result.err, "")
        self.assertNotEqual(result.out, b"")

    def test_full_standard_output(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [cli.TOOL, *map(str, greedy("-n", 8, "-q", "-p", "x"))],
                stdout=full, stderr=subprocess.PIPE, env=self.environment())
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr.decode(), "cleave run: standard output: "
                         "cannot be written: No space left on device\n")

    def test_closed_pipe(self):
        child = subprocess.Popen(
            [cli.TOOL, *map(str, greedy("-n", 200, "-q", "-p", "x",
                                        "--ignore-eos"))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self.environment())
        child.stdout.read(1)
        child.stdout.close()
        err = child.stderr.read()
        child.stderr.close()
        self.assertEqual(child.wait(timeout=60), 1)
        self.assertEqual(err, b"")

    def test_interrupt_ends_cleanly_with_timings(self):
        for number, code in (signal.SIGINT, 130), (signal.SIGTERM, 143):
            child = subprocess.Popen(
                [cli.TOOL, *map(str, greedy("-n", 4000, "-c", 4096, "-p", "x",
                                            "--ignore-eos"))],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=self.environment())
            child.stdout.read(1)
            child.send_signal(number)
            out, err = child.communicate(timeout=60)
            self.assertEqual(child.returncode, code)
            err = err.decode()
            self.assertTrue(TIMINGS.search(err), err)
            self.assertTrue(err.endswith("cleave run: interrupted\n"), err)

    def test_progress_shows_on_a_terminal_only(self):
        # Sanitizers make it slow enough to be shown with less of it, too.
        text = self.write("text.txt", "import os\nimport sys\n" *
                          (40 if cli.SANITIZED else 400))
        args = [cli.TOOL, "perplexity", "-m", cli.NANO, "-f", text, "-c", "64"]
        try:
            ours, theirs = pty.openpty()
        except OSError as error:
            self.skipTest("no terminals here: %s" % error)
        subprocess.run(args, stdout=subprocess.DEVNULL, stderr=theirs,
                       env=self.environment(), timeout=100, check=True)
        os.close(theirs)
        shown = b""
        while True:
            try:
                data = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            shown += data
        os.close(ours)
        self.assertRegex(shown, rb"\r\x1b\[Kperplexity [^\r]*\[#*\.*\] +\d+%")
        # The last of it is erased before the closing line.
        self.assertRegex(shown, rb"\r\x1b\[K\d+ windows of 64 tokens[^\x1b]*$")
        result = self.good(*args[1:])
        self.assertNotIn("\r", result.err)

    def test_trace(self):
        path = self.path("trace.json")
        self.good(*greedy("-n", 3, "-p", "x", "--trace", path))
        with open(path) as f:
            trace = json.load(f)
        events = trace["traceEvents"] if isinstance(trace, dict) else trace
        self.assertTrue(any(e.get("ph") == "X" for e in events))


@cli.needs_shared
class Limits(cli.Case):
    def test_empty_prompt(self):
        self.bad(*greedy("-p", ""), says=["prompt is empty", "-p"])
        self.bad(*greedy("-f", "/dev/null"), says=["prompt is empty",
                                                   "/dev/null"])
        self.bad(*greedy("-f", "-"), says="prompt is empty")

    def test_prompt_longer_than_the_context(self):
        result = self.bad(*greedy("-n", 4, "-c", 16, "-p", "import os " * 40),
                          says=["context", "16", "-c"])
        self.assertEqual(result.out, b"")

    def test_context_full_before_the_tokens_asked_for(self):
        result = self.cleave(*greedy("-n", 100, "-c", 16, "-p", "import os",
                                     "--ignore-eos", "-q"))
        self.assertEqual(result.code, 1)
        self.assertIn("context is full", result.err)
        self.assertIn("-c", result.err)
        self.assertEqual(result.err.count("\n"), 1)
        self.assertNotEqual(result.out, b"")

    def test_until_the_context_is_full(self):
        result = self.good(*greedy("-c", 16, "-p", "import os", "--ignore-eos"))
        self.assertIn("context of 16 positions is full", result.err)

    def test_nothing_to_generate(self):
        self.assertEqual(self.good(*greedy("-n", 0, "-p", "x")).out, b"")

    def test_impossible_context(self):
        self.bad(*greedy("-n", 1, "-p", "x", "-c", 2147483647, "-q"),
                 says=["2147483647", "positions would fit"])
        err = self.good(*greedy("-n", 1, "-p", "x", "-c", 512, "-v")).err
        self.assertIn("KV cache of 512 positions in f16: ", err)


class Bundled(cli.Case):
    @unittest.skipUnless(
        os.path.exists(os.path.join(cli.SOURCE, "models", "nano-q8_0.gguf")),
        "no bundled model")
    def test_without_m_the_bundled_model_runs(self):
        result = self.good("run", "-p", "def fibonacci(n):", "-n", 8,
                           "--temp", 0)
        self.assertIn("q8_0", result.err)
        self.assertTrue(result.text.strip())


if __name__ == "__main__":
    cli.main()
