"""Reads the header of a GGUF file with nothing but the standard library."""

import struct

TYPES = {0: "f32", 1: "f16", 2: "q4_0", 3: "q4_1", 6: "q5_0", 7: "q5_1",
         8: "q8_0", 10: "q2_k", 11: "q3_k", 12: "q4_k", 13: "q5_k", 14: "q6_k",
         20: "iq4_nl", 23: "iq4_xs", 24: "i8", 30: "bf16"}
# How to read a GGUF value: type -> struct format.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?",
           10: "Q", 11: "q", 12: "d"}


class Gguf:
    """The header of a GGUF file: keys, and tensors as name -> (dims, type)."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        self.at = 0
        assert self.data[:4] == b"GGUF"
        self.at = 4
        self.version = self.number("I")
        n_tensors, n_keys = self.number("Q"), self.number("Q")
        self.keys = {}
        for _ in range(n_keys):
            key = self.string()
            self.keys[key] = self.value(self.number("I"))
        self.tensors = {}
        for _ in range(n_tensors):
            name = self.string()
            dims = [self.number("Q") for _ in range(self.number("I"))]
            self.tensors[name] = (dims, TYPES[self.number("I")])
            self.number("Q")

    def number(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)[0]
        self.at += struct.calcsize("<" + form)
        return value

    def string(self):
        n = self.number("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.string()
        if kind == 9:
            kind = self.number("I")
            return [self.value(kind) for _ in range(self.number("Q"))]
        return self.number(SCALARS[kind])
