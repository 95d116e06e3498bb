"""cleave tokenize: published token ids, and back to the text."""

import glob
import os

import cli

SEPARATOR = b"\n__ggml_vocab_test__\n"


def cases(path):
    """The texts of a .inp file and the ids of its .out file, both split as
    they were joined."""
    with open(path + ".inp", "rb") as f:
        texts = f.read().split(SEPARATOR)
    with open(path + ".out") as f:
        ids = [line.split() for line in f.read().split("\n")]
    return list(zip(texts, ids))


@cli.needs_shared
class Tokenize(cli.Case):
    def test_published_ids(self):
        vocabularies = glob.glob(cli.shared("tokenizers", "*.gguf"))
        self.assertTrue(vocabularies)
        for path in vocabularies:
            # A process each: every seventh, unless there is time for all.
            for text, ids in cases(path)[::1 if cli.LONG else 7]:
                with self.subTest(os.path.basename(path), text=text):
                    out = self.good("tokenize", "-m", path, "-f", "-",
                                    stdin=text).text
                    self.assertEqual(out, " ".join(ids) + "\n")

    def test_round_trip(self):
        with open(cli.shared("text", "heldout.txt"), "rb") as f:
            text = f.read()
        for model in (cli.NANO, cli.shared("models", "nano"),
                      cli.shared("models", "pico", "tokenizer.json")):
            with self.subTest(model):
                ids = self.good("tokenize", "-m", model, "-f",
                                cli.shared("text", "heldout.txt")).out
                self.assertEqual(self.good("tokenize", "-m", model, "-d", "-f",
                                           "-", stdin=ids).out, text)

    def test_sources_agree(self):
        text = "def f(x):\n\treturn  x ** 2  # Ünïcode 🦙\n"
        outs = {self.good("tokenize", "-m", model, "-p", text).out
                for model in (cli.NANO, cli.shared("models", "nano"),
                              cli.shared("models", "nano", "tokenizer.json"))}
        self.assertEqual(len(outs), 1)

    def test_bos(self):
        plain = self.good("tokenize", "-m", cli.NANO, "-p", "x").text.split()
        bos = self.good("tokenize", "-m", cli.NANO, "-p", "x",
                        "--bos").text.split()
        self.assertEqual(bos[1:], plain)

    def test_json(self):
        plain = self.good("tokenize", "-m", cli.NANO, "-p", "a b c").text
        result = self.good("tokenize", "-m", cli.NANO, "-p", "a b c", "-o",
                           "json").json
        self.assertEqual(result["tokens"], [int(i) for i in plain.split()])
        self.assertEqual(result["count"], len(result["tokens"]))

    def test_text_is_taken_as_it_is(self):
        self.assertEqual(
            self.good("tokenize", "-m", cli.NANO, "-e", "-p", r"a\nb").out,
            self.good("tokenize", "-m", cli.NANO, "-p", "a\nb").out)
        self.assertNotEqual(
            self.good("tokenize", "-m", cli.NANO, "-p", r"a\nb").out,
            self.good("tokenize", "-m", cli.NANO, "-p", "a\nb").out)

    def test_empty_text(self):
        self.assertEqual(self.good("tokenize", "-m", cli.NANO, "-p", "").out,
                         b"\n")

    def test_bad_ids(self):
        for ids in ("1 x", "-1", "8192", "99999999999", "1;2"):
            with self.subTest(ids):
                self.bad("tokenize", "-m", cli.NANO, "-d", "-p", ids,
                         says="0..8191")

    def test_bad_models(self):
        self.bad("tokenize", "-m", self.path("absent"), "-p", "x",
                 says="absent")
        self.bad("tokenize", "-m", self.dir, "-p", "x", says=self.dir)
        self.bad("tokenize", "-m", self.write("t.json", "{"), "-p", "x",
                 says="t.json")
        self.bad("tokenize", "-m", cli.NANO, "-f", self.path("absent.txt"),
                 says="absent.txt")


if __name__ == "__main__":
    cli.main()
