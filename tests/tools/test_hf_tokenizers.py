"""Tokenizers against the Python package `tokenizers`, where it is installed:
small ones of each family are trained, and random texts must give its ids and
its texts. SentencePiece's own files against the package `sentencepiece`."""

import ctypes
import json
import os
import random
import shutil
import struct
import unittest

import cli
import seeds

try:
    import tokenizers as hf
    from tokenizers import (decoders, models, normalizers, pre_tokenizers,
                            processors, trainers)
except ImportError:
    hf = None
try:
    import sentencepiece as spm_package
except ImportError:
    spm_package = None

ROUNDS = 3000 if cli.LONG else 200

WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
ANY_CASE = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = (r"[^\r\n\p{L}\p{N}]?%s*%s+|[^\r\n\p{L}\p{N}]?%s+%s*" %
         (UPPER, LOWER, UPPER, LOWER))
PATTERNS = {
    "llama3": ANY_CASE + WORD + r"|\p{N}{1,3}" + TAIL,
    "qwen2": ANY_CASE + WORD + r"|\p{N}" + TAIL,
    "tekken": CASED + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|"
              r"\s+(?!\S)|\s+",
}
# Characters of many kinds, and pieces that patterns look at.
PARTS = [*"aabcdeefghiklmnorstuwxyzAEST0123456789   \t\n\r.,:;!?'\"()[]{}/\\-_+*=<>@#$%^&|~`",
         "the ", " the", "'s", "'LL", "'", "def ", "return", "  ", "\n\n",
         "\r\n", "\u00e9", "\u00df", "e\u0301", "\u0301", "\u01c5", "\u0130",
         "\u017f", "\u212a", "\u00a0", "\u0085", "\u2003", "\u200b", "\u200d",
         "\u3000", "\ufeff", "\u2581", "\u4e2d\u6587", "\u3042", "\uac00",
         "\u1100\u1161", "\u0627\u0644", "\u0661", "\u0968", "\u2163",
         "\u00b2", "\u00bd", "\U0001f600", "\U0001f468\u200d\U0001f469",
         "\U0001d7d8", "\u0e01\u0e33", "\ufb01", "\u2026", "\u3002", "\0",
         "\x7f", "\ufffd", "\U0010fffd", "<s>", "</s>", "<|x|>", "[M]", "<b>"]


class Ours:
    def __init__(self, path):
        self.lib = ctypes.CDLL(os.path.join(cli.BUILD, "llm",
                                            "libcleave-llm.so"))
        self.core = ctypes.CDLL(os.path.join(cli.BUILD, "core",
                                             "libcleave.so"))
        self.core.clv_last_error.restype = ctypes.c_char_p
        self.tok = ctypes.c_void_p()
        self.check(self.lib.clv_tokenizer_load(path.encode(),
                                               ctypes.byref(self.tok)))

    def check(self, status):
        if status:
            raise AssertionError(self.core.clv_last_error().decode())

    def close(self):
        self.lib.clv_tokenizer_destroy(self.tok)

    def encode(self, text, flags=2):
        data, n = text.encode(), ctypes.c_uint64()
        ids = ctypes.POINTER(ctypes.c_int32)()
        self.check(self.lib.clv_tokenize(
            self.tok, data, ctypes.c_uint64(len(data)), flags,
            ctypes.byref(ids), ctypes.byref(n)))
        out = ids[:n.value]
        self.lib.clv_tokens_free(ids)
        return out

    def decode(self, ids):
        text, n = ctypes.c_void_p(), ctypes.c_uint64()
        array = (ctypes.c_int32 * len(ids))(*ids)
        self.check(self.lib.clv_detokenize(
            self.tok, array, ctypes.c_uint64(len(ids)), True,
            ctypes.byref(text), ctypes.byref(n)))
        out = ctypes.string_at(text, n.value)
        self.core.clv_string_free(text)
        return out


def byte_level(pattern=None, normalizer=None, digits=False, prefix=False,
               ignore_merges=False):
    tok = hf.Tokenizer(models.BPE(ignore_merges=ignore_merges))
    steps = []
    if digits:
        steps.append(pre_tokenizers.Digits(individual_digits=True))
    if pattern:
        steps.append(pre_tokenizers.Split(hf.Regex(pattern), "isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=prefix,
                                          use_regex=not pattern))
    tok.pre_tokenizer = steps[0] if len(steps) == 1 else \
        pre_tokenizers.Sequence(steps)
    if normalizer:
        tok.normalizer = normalizer
    tok.decoder = decoders.ByteLevel()
    return tok, trainers.BpeTrainer(
        vocab_size=1500, show_progress=False, special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet())


BYTES = ["<0x%02X>" % i for i in range(256)]


def pieces_decoder(front):
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(),
             decoders.Fuse()]
    if front:
        steps.append(decoders.Strip(" ", 1, 0))
    return decoders.Sequence(steps)


def pieces(tok, front, metaspace):
    """SentencePiece's spelling of spaces, by either way to say it."""
    if metaspace:
        tok.pre_tokenizer = pre_tokenizers.Metaspace(
            prepend_scheme=metaspace, split=front)
    else:
        steps = [normalizers.Replace(" ", "\u2581")]
        if front:
            steps.insert(0, normalizers.Prepend("\u2581"))
        tok.normalizer = normalizers.Sequence(steps)
    tok.decoder = pieces_decoder(front)


def spm(front=True, metaspace=None, fallback=True, fuse=True):
    tok = hf.Tokenizer(models.BPE(byte_fallback=fallback, unk_token="<unk>",
                                  fuse_unk=fuse))
    pieces(tok, front, metaspace)
    extra = BYTES if fallback else []
    return tok, trainers.BpeTrainer(
        vocab_size=1500, show_progress=False, limit_alphabet=70,
        special_tokens=["<unk>", "<s>", "</s>", *extra])


def unigram(front=True, metaspace="always", fallback=True):
    tok = hf.Tokenizer(models.Unigram([("<unk>", 0.0)], 0, fallback))
    pieces(tok, front, metaspace)
    extra = BYTES if fallback else []
    return tok, trainers.UnigramTrainer(
        vocab_size=900, show_progress=False, unk_token="<unk>",
        special_tokens=["<unk>", "<s>", "</s>", *extra])


def families():
    nfc = normalizers.NFC()
    yield "gpt2", byte_level()
    yield "phi-2", byte_level(prefix=True)
    yield "llama3", byte_level(PATTERNS["llama3"], ignore_merges=True)
    yield "qwen2", byte_level(PATTERNS["qwen2"], nfc)
    yield "tekken", byte_level(PATTERNS["tekken"], ignore_merges=True)
    yield "starcoder", byte_level(digits=True)
    yield "llama2", spm()
    yield "gemma", spm(front=False)
    yield "metaspace first", spm(metaspace="first")
    yield "unknown", spm(fallback=False)
    yield "unknown apart", spm(fallback=False, fuse=False)
    yield "unigram", unigram()
    yield "unigram, first", unigram(metaspace="first")
    yield "unigram without bytes", unigram(fallback=False)


# Those that GGUF has no form for: merges by rank of SentencePiece's spelling,
# and a space in front of bytes.
NOT_IN_GGUF = ("phi-2", "llama2", "gemma", "metaspace first", "unknown",
               "unknown apart")
ADDED = [dict(content="<|x|>", special=True),
         dict(content="[M]", lstrip=True, rstrip=True, normalized=False),
         dict(content="<b>", single_word=True, normalized=False)]


@unittest.skipUnless(hf, "no package tokenizers")
@cli.needs_shared
class Differential(cli.Case):
    def train(self, tok, trainer, added):
        tok.train([cli.shared("text", "heldout.txt")], trainer)
        if added:
            for options in ADDED:
                options = dict(options)
                special = options.pop("special", False)
                token = hf.AddedToken(special=special, **options)
                (tok.add_special_tokens if special else
                 tok.add_tokens)([token])
        path = self.path("tokenizer.json")
        tok.save(path)
        # As published models are: bytes are no special tokens, which trainers
        # make of them, and scores are floats.
        with open(path) as f:
            root = json.load(f)
        root["added_tokens"] = [t for t in root["added_tokens"]
                                if t["content"] not in BYTES]
        if root["model"]["type"] == "Unigram":
            for piece in root["model"]["vocab"]:
                score = -20.0 if piece[0] in BYTES else piece[1]
                piece[1] = struct.unpack("f", struct.pack("f", score))[0]
        with open(path, "w") as f:
            json.dump(root, f)
        return hf.Tokenizer.from_file(path), Ours(path)

    def compare(self, name, tok, ours, converted=False):
        """Converted: without special tokens in the text, and without spaces in
        front of it, where Metaspace, unlike SentencePiece, adds none."""
        rng = random.Random(name)
        parts = [p for p in PARTS if not converted or p not in ("<s>", "</s>")]
        for i in range(ROUNDS):
            text = "".join(rng.choice(parts)
                           for _ in range(rng.randrange(1, 25)))
            if converted and not ours.byte_level:
                text = text.lstrip(" \u2581")
            theirs = tok.encode(text, add_special_tokens=False).ids
            self.assertEqual(ours.encode(text), theirs,
                             (name, text, [tok.id_to_token(i)
                                           for i in theirs]))
        with open(cli.shared("text", "heldout.txt"), encoding="utf-8") as f:
            text = f.read()[:20000]
        ids = tok.encode(text, add_special_tokens=False).ids
        self.assertEqual(ours.encode(text), ids, name)
        if not tok.normalizer or "NFC" not in repr(tok.normalizer):
            self.assertEqual(ours.decode(ids).decode("utf-8", "replace"),
                             tok.decode(ids, skip_special_tokens=False), name)

    def test_families(self):
        for name, (tok, trainer) in families():
            with self.subTest(name):
                tok, ours = self.train(tok, trainer, added=False)
                self.compare(name, tok, ours)
                ours.close()

    def test_added_tokens(self):
        for name, (tok, trainer) in families():
            if name in ("gpt2", "llama2", "gemma", "metaspace first"):
                with self.subTest(name):
                    tok, ours = self.train(tok, trainer, added=True)
                    self.compare(name, tok, ours)
                    ours.close()


    def convert(self, name, path, n_vocab):
        """The tokenizer of the GGUF file of a model with these files."""
        files = seeds.directory(n_vocab)
        files["tokenizer_config.json"] = b"{}"
        folder = self.path("model")
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
        del files["tokenizer.json"]
        for file, data in files.items():
            self.write(os.path.join("model", file), data)
        shutil.copy(path, folder)
        out = self.path("model.gguf")
        result = self.cleave("convert", folder, "-o", out)
        if result.code and name in NOT_IN_GGUF:
            self.assertIn("run the directory itself", result.err)
            return None
        self.assertEqual(result.code, 0, result.err)
        return Ours(out)

    def test_converted(self):
        """The ids from the directory and from the GGUF file are the same."""
        for name, (tok, trainer) in families():
            with self.subTest(name):
                tok, ours = self.train(tok, trainer, added=False)
                ours.close()
                byte_level = "ByteLevel" in repr(tok.pre_tokenizer)
                gguf = self.convert(name, self.path("tokenizer.json"),
                                    tok.get_vocab_size())
                if gguf:
                    gguf.byte_level = byte_level
                    # NFC is left to the reader's caller.
                    tok.normalizer = tok.normalizer if name != "qwen2" else \
                        normalizers.Sequence([])
                    self.compare(name, tok, gguf, converted=True)
                    gguf.close()


@unittest.skipUnless(spm_package, "no package sentencepiece")
@cli.needs_shared
class Models(Differential):
    """tokenizer.model, against SentencePiece itself."""

    def test_models(self):
        kinds = [(kind, front, collapse, bytes_)
                 for kind in ("bpe", "unigram") for front in (True, False)
                 for collapse in (True, False) for bytes_ in (True, False)]
        for kind, front, collapse, bytes_ in kinds:
            name = "%s %s %s %s" % (kind, front, collapse, bytes_)
            with self.subTest(name):
                spm_package.SentencePieceTrainer.train(
                    input=cli.shared("text", "heldout.txt"), vocab_size=800,
                    model_prefix=self.path("tokenizer"), model_type=kind,
                    byte_fallback=bytes_, add_dummy_prefix=front,
                    remove_extra_whitespaces=collapse, minloglevel=2,
                    normalization_rule_name="identity",
                    user_defined_symbols=["[M]"], character_coverage=0.98)
                path = self.path("tokenizer.model")
                theirs = spm_package.SentencePieceProcessor(model_file=path)
                self.check_model(name, theirs, Ours(path))
                # Readers of GGUF do not join unknown characters of merges.
                if kind == "unigram" or (bytes_ and not collapse):
                    gguf = self.convert(name, path, theirs.vocab_size())
                    self.check_model(name, theirs, gguf)

    def check_model(self, name, theirs, ours):
        rng = random.Random(name)
        parts = [p for p in PARTS if p not in ("[M]", "<s>", "</s>", "\0",
                                               "\ufeff", "\u2581")]
        for _ in range(ROUNDS):
            text = "".join(rng.choice(parts)
                           for _ in range(rng.randrange(1, 25)))
            ids = theirs.encode(text)
            self.assertEqual(ours.encode(text, 0), ids,
                             (name, text, theirs.id_to_piece(ids)))
        ours.close()

    test_families = test_added_tokens = test_converted = None


if __name__ == "__main__":
    cli.main()
