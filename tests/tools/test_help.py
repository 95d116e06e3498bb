"""Help, versions, and command lines that are wrong."""

import cli

COMMANDS = ["run", "bench", "perplexity", "verify", "tokenize", "devices",
            "quantize", "convert"]


class Help(cli.Case):
    def test_overview_names_every_command(self):
        for args in (["help"], ["--help"], ["-h"]):
            text = self.good(*args).text
            for command in COMMANDS:
                self.assertIn("\n  %s " % command, text)

    def test_every_command_explains_itself(self):
        for command in COMMANDS:
            with self.subTest(command):
                text = self.good(command, "--help").text
                self.assertTrue(text.startswith("usage: cleave " + command))
                self.assertIn("\nexamples\n  cleave " + command, text)
                self.assertIn("--help", text)
                self.assertLessEqual(max(map(len, text.split("\n"))), 80)
                self.assertEqual(self.good("help", command).text, text)
                self.assertEqual(self.good(command, "-h").text, text)

    def test_help_shows_defaults(self):
        text = " ".join(self.good("run", "--help").text.split())
        for default in ("0: always the most likely token (default: 0.8)",
                        "(default: 40)", "(default: 0.95)", "(default: 0.05)",
                        "(default: f16)"):
            self.assertIn(default, text)

    def test_version(self):
        for args in (["version"], ["--version"], ["help", "version"]):
            self.assertRegex(self.good(*args).text,
                             r"^cleave \d+\.\d+\.\d+ \(plugin ABI \d+\)\n$")

    def test_no_command(self):
        result = self.cleave()
        self.assertEqual(result.code, 2)
        self.assertEqual(result.out, b"")
        self.assertIn("usage: cleave", result.err)


class Mistakes(cli.Case):
    def usage(self, *args, says=()):
        result = self.bad(*args, code=2, says=says)
        self.assertEqual(result.out, b"")
        return result

    def test_unknown_command(self):
        self.usage("rnu", says=["'rnu'", "did you mean 'run'?"])
        self.usage("quantise", says="did you mean 'quantize'?")
        self.usage("xyzzy", says=["'xyzzy'", "cleave help"])
        self.usage("-m", "x", says="a command comes first")
        self.usage("help", "rnu", says="did you mean 'run'?")

    def test_unknown_option(self):
        self.usage("run", "--tmp", "0", says=["'--tmp'", "'--temp'"])
        self.usage("run", "--top_k=4", says=["'--top_k=4'", "'--top-k'"])
        self.usage("bench", "--repetition", "1", says="'--repetitions'")
        self.usage("run", "-Z", says=["'-Z'", "cleave run --help"])
        self.usage("tokenize", "--threads", "1", says="'--threads'")
        self.usage("run", "--no-temp", says="'--no-temp'")
        for option in "-zzz", "--stop", "-dvc":
            result = self.usage("run", option, says=["'%s'" % option, "--help"])
            self.assertNotIn("did you mean", result.err)
        self.bad("devices", "-dev", "gpu:7", says=["gpu:7", "core.devices"])

    def test_options_of_llama_cpp(self):
        for args, says in (
                (["-ngl", "99"], ["-ngl", "--devices"]),
                (["--n-gpu-layers=99"], ["--n-gpu-layers", "--devices"]),
                (["--rope-freq-base", "1e6"], "config.json"),
                (["--lora", "a.gguf"], "merge"),
                (["-ot", "exps=CPU"], "plan"),
                (["--samplers", "top_k;x"], None)):
            if says:
                result = self.usage("run", "-p", "x", *args, says=says)
                self.assertEqual(result.err.count("\n"), 1)
        # What is so in any case is skipped, with the value that it has.
        same = ["run", "-p", "x", "-n", "0", "--temp", "0"]
        for args in (["-fa"], ["-fa", "on"], ["--flash-attn=auto"],
                     ["--no-warmup", "--jinja", "-cb"], ["--swa-full"]):
            result = self.good(*same, *args)
            self.assertIn("note: %s: " % args[0].split("=")[0], result.err)
        self.assertEqual(self.good(*same, "-q", "-fa", "on").err, "")
        self.usage(*same, "-q", "-fa", "maybe", says="'maybe'")

    def test_bad_values(self):
        self.usage("run", "-p", "x", "--temp", "hot",
                   says=["--temp", "'hot'", "0..1000"])
        self.usage("run", "-p", "x", "--top-p=1.5",
                   says=["--top-p", "'1.5'", "0..1"])
        self.usage("run", "-p", "x", "--min-p", "nan", says="'nan'")
        self.usage("run", "-p", "x", "-n", "-2", says=["-n", "'-2'", "-1.."])
        self.usage("run", "-p", "x", "-n", "3x", says="'3x'")
        self.usage("run", "-p", "x", "-s", "99999999999999999999",
                   says="'99999999999999999999'")
        self.usage("run", "-p", "x", "-t", "0", says=["-t", "1..1024"])
        self.usage("run", "-p", "x", "--kv-type", "q8",
                   says=["--kv-type", "f16|f32|q8_0"])
        self.usage("run", "-p", "x", "--keep", "4", says="--context-shift")
        self.usage("run", "-p", "x", "--grammar", "g", "-j", "{}",
                   says="one of --grammar")
        self.usage("bench", "-p", "1,,2", says=["-p", "'1,,2'"])
        self.usage("bench", "-o", "xml", says=["-o", "'xml'", "md|csv|json"])
        self.usage("quantize", "a.gguf", "q3_x", says=["'q3_x'", "Q8_0"])

    def test_missing_and_superfluous(self):
        self.usage("run", "-p", says="-p needs a value")
        self.usage("run", "-p", "x", "--ignore-eos=1", says="takes no value")
        self.usage("run", says="-p TEXT")
        self.usage("run", "-p", "x", "-f", "y", says="not both")
        self.usage("run", "-p", "x", "stray", says="'stray'")
        self.usage("tokenize", says="-p TEXT")
        self.usage("perplexity", says="-f FILE")
        self.usage("perplexity", "-f", "x", "--chunks", "0", says="--chunks")
        self.usage("verify", says="cleave verify DIR...")
        self.usage("quantize", "only.gguf", says="give IN.gguf")
        self.usage("convert", says="cleave convert DIR")
        self.usage("bench", "-p", "0", "-n", "0", says="nothing to measure")
        self.usage("run", "-p", "x", *["--set", "cpu.threads=1"] * 65,
                   says="more than 64 times")

    def test_settings(self):
        self.bad("devices", "--set", "core.devics=cpu",
                 says=["core.devics", "core.devices"])
        self.bad("devices", "--set", "nonsense", says="nonsense")
        self.bad("devices", "--set", "cpu.threads=many",
                 says=["cpu.threads", "many"])
        self.bad("devices", "--conf", self.path("absent.ini"),
                 says="absent.ini")
        self.bad("devices", "--conf",
                 self.write("bad.ini", "[core]\n\nlog_lvel = warn\n"),
                 says=["bad.ini:3", "log_level"])
        self.bad("devices", env={"CLEAVE_CORE_LOG_LEVEL": "loud"},
                 says=["CLEAVE_CORE_LOG_LEVEL", "loud"])
        self.bad("devices", "--devices", "gpu:7", says=["gpu:7", "core.devices"])


if __name__ == "__main__":
    cli.main()
