"""What is broken is named in one line, and nothing crashes."""

import os
import random

import cli


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
        self.assertEqual(result.out, b"") # before any work
        self.assertEqual(result.err.count("no/dir"), 1, result.err)

    def test_trace_of_a_run_that_fails_keeps_the_old_one(self):
        old = self.write("t.json", "old")
        self.cleave("run", "-m", self.path("none"), "-p", "x", "--devices",
                    "none", "--trace", old)
        self.assertEqual(os.listdir(self.dir).count("t.json"), 1)
        with open(old) as f:
            self.assertEqual(f.read(), "old")

    def test_full_disk(self):
        import resource
        result = self.cleave(
            "run", "-m", cli.NANO, "-p", "x", "-n", 1, "-q", "--trace",
            self.path("t.json"), preexec_fn=lambda: resource.setrlimit(
                resource.RLIMIT_FSIZE, (10, 10)))
        self.assertEqual(result.code, 1)
        self.assertIn("t.json", result.err)
        self.assertFalse([f for f in os.listdir(self.dir) if "t.json" in f])


if __name__ == "__main__":
    cli.main()
