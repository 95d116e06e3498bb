"""A tiny model in every form of file, written by the standard library alone:
seeds for files that are damaged."""

import json
import random
import struct

LAYERS, WIDTH, FF, HEADS, KV_HEADS = 2, 32, 64, 4, 2
# What json.dumps() would escape, and merges of two rounds.
ALPHABET = [chr(c) for c in (*range(33, 127), *range(0xa1, 0xad),
                             *range(0xae, 0x144))][:256]
MERGES = ["t h", "th e", "i n", "\u0120 a", "\u0120 the", "e r", "o n"]

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
    "hidden_size": WIDTH, "intermediate_size": FF,
    "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS, "rms_norm_eps": 1e-5,
    "max_position_embeddings": 128, "rope_theta": 10000.0,
    "bos_token_id": 0, "eos_token_id": 1, "tie_word_embeddings": False,
    "torch_dtype": "float32", "attention_bias": False,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
}


def tokenizer():
    pieces = ["<s>", "</s>", *ALPHABET, *(m.replace(" ", "") for m in MERGES)]
    added = [{"id": i, "content": pieces[i], "special": True, "lstrip": False,
              "rstrip": False, "normalized": False, "single_word": False}
             for i in range(2)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False,
                  "trim_offsets": True, "use_regex": True}
    return {"version": "1.0", "added_tokens": added, "normalizer": None,
            "pre_tokenizer": byte_level, "decoder": byte_level,
            "post_processor": {"type": "TemplateProcessing", "single": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [], "special_tokens": {
                    "<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "fuse_unk": False, "byte_fallback": False,
                      "vocab": {p: i for i, p in enumerate(pieces)},
                      "merges": MERGES}}


def n_vocab():
    return len(tokenizer()["model"]["vocab"])


def shapes(vocab=None):
    vocab = vocab or n_vocab()
    kv = WIDTH // HEADS * KV_HEADS
    yield "model.embed_tokens.weight", [vocab, WIDTH]
    for i in range(LAYERS):
        at = "model.layers.%d." % i
        yield at + "input_layernorm.weight", [WIDTH]
        yield at + "post_attention_layernorm.weight", [WIDTH]
        yield at + "self_attn.q_proj.weight", [WIDTH, WIDTH]
        yield at + "self_attn.k_proj.weight", [kv, WIDTH]
        yield at + "self_attn.v_proj.weight", [kv, WIDTH]
        yield at + "self_attn.o_proj.weight", [WIDTH, WIDTH]
        yield at + "mlp.gate_proj.weight", [FF, WIDTH]
        yield at + "mlp.up_proj.weight", [FF, WIDTH]
        yield at + "mlp.down_proj.weight", [WIDTH, FF]
    yield "model.norm.weight", [WIDTH]
    yield "lm_head.weight", [vocab, WIDTH]


def safetensors(names, vocab=None):
    """The tensors of these names, as one file."""
    header, data, rng = {"__metadata__": {"format": "pt"}}, b"", \
        random.Random(7)
    for name, dims in shapes(vocab):
        n = dims[0] * (dims[1] if len(dims) > 1 else 1)
        values = struct.pack("<%df" % n,
                             *(rng.gauss(0, 0.2) for _ in range(n)))
        if name in names:
            header[name] = {"dtype": "F32", "shape": dims, "data_offsets":
                            [len(data), len(data) + len(values)]}
            data += values
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def directory(vocab=None):
    """Name -> bytes of the files of a model in two shards; vocab: tokens that
    another tokenizer has."""
    names = [name for name, _ in shapes()]
    parts = {"model-00001-of-00002.safetensors": names[:9],
             "model-00002-of-00002.safetensors": names[9:]}
    index = {"metadata": {"total_size": 1}, "weight_map":
             {name: file for file, list in parts.items() for name in list}}
    files = {file: safetensors(set(list), vocab) for file, list in parts.items()}
    for name, value in (("config.json", dict(CONFIG, vocab_size=vocab or n_vocab())),
                        ("generation_config.json", {"eos_token_id": [1]}),
                        ("tokenizer.json", tokenizer()),
                        ("tokenizer_config.json", {"add_bos_token": True,
                                                   "bos_token": "<s>"}),
                        ("model.safetensors.index.json", index)):
        files[name] = json.dumps(value).encode()
    return files


# ---------------------------------------------------------------------------
# GGUF

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


class Gguf:
    """A file in parts: settings and tensors as they lie in it."""

    def __init__(self, data):
        self.data, self.at, self.fields = data, 8, []
        n_tensors, n_keys = self.u64(), self.u64()
        self.keys, self.tensors = [], []
        for _ in range(n_keys):
            begin = self.at
            name = self.string()
            self.value(self.u32())
            self.keys.append((name, data[begin:self.at]))
        for _ in range(n_tensors):
            name = self.string()
            dims = [self.u64() for _ in range(self.u32())]
            self.tensors.append([name, dims, self.u32(), self.u64()])
        self.start = (self.at + 31) // 32 * 32
        ends = sorted(t[3] for t in self.tensors) + [len(data) - self.start]
        for t in self.tensors:
            end = ends[ends.index(t[3]) + 1]
            t.append(data[self.start + t[3]:self.start + end])

    def number(self, form):
        size = struct.calcsize(form)
        self.fields.append((self.at, size))
        self.at += size
        return struct.unpack_from(form, self.data, self.at - size)[0]

    def u32(self):
        return self.number("<I")

    def u64(self):
        return self.number("<Q")

    def string(self):
        n = self.u64()
        self.fields.append((self.at, n))
        self.at += n
        return self.data[self.at - n:self.at]

    def value(self, kind):
        if kind == 8:
            self.string()
        elif kind == 9:
            kind = self.u32()
            for _ in range(self.u64()):
                self.value(kind)
        else:
            self.fields.append((self.at, SIZES[kind]))
            self.at += SIZES[kind]


def string(data):
    return struct.pack("<Q", len(data)) + data


def write_gguf(keys, tensors):
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    head += b"".join(keys)
    data = b""
    for name, dims, kind, _, contents in tensors:
        head += string(name) + struct.pack("<I", len(dims))
        head += struct.pack("<%dQ" % len(dims), *dims)
        head += struct.pack("<IQ", kind, len(data))
        data += contents + bytes(-len(contents) % 32)
    return head + bytes(-len(head) % 32) + data


def every_type():
    """Settings of every type, and arrays of each."""
    for kind, size in SIZES.items():
        name = b"test.%d" % kind
        yield string(name) + struct.pack("<I", kind) + bytes([1] * size)
        yield (string(name + b".array") + struct.pack("<IIQ", 9, kind, 3) +
               bytes([1] * size * 3))
    yield string(b"test.8") + struct.pack("<I", 8) + string(b"text")
    yield (string(b"test.8.array") + struct.pack("<IIQ", 9, 8, 2) +
           string(b"a") + string(b""))


def with_every_type(data):
    g = Gguf(data)
    return write_gguf([raw for _, raw in g.keys] + list(every_type()),
                      g.tensors)


def split(data, count):
    """Name -> bytes of the parts of a model."""
    g, parts = Gguf(data), {}
    step = -(-len(g.tensors) // count)
    for i in range(count):
        keys = [string(b"split.no") + struct.pack("<IH", 2, i),
                string(b"split.count") + struct.pack("<IH", 2, count),
                string(b"split.tensors.count") +
                struct.pack("<Ii", 5, len(g.tensors))]
        if i == 0:
            keys = [raw for _, raw in g.keys] + keys
        parts["model-%05d-of-%05d.gguf" % (i + 1, count)] = write_gguf(
            keys, g.tensors[i * step:(i + 1) * step])
    return parts
