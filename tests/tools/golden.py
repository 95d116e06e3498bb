"""Reads and writes safetensors files with nothing but the standard library."""

import json
import struct


def read(path):
    """Name -> (dtype, shape, bytes)."""
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<Q", data[:8])[0]
    body = data[8 + size:]
    arrays = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            arrays[name] = (entry["dtype"], entry["shape"], body[begin:end])
    return arrays


def write(path, arrays):
    header, body = {}, b""
    for name, (dtype, shape, data) in arrays.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + body)


def numbers(array):
    """The elements of an F32 or I32 array."""
    dtype, _, data = array
    return struct.unpack("<%d%s" % (len(data) // 4,
                                    {"F32": "f", "I32": "i"}[dtype]), data)
