"""Runs the built tools on simulated machines, in virtual time."""

import os
import re
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))))


class Failure(Exception):
    pass


class Node:
    """A node of a graph: its op, the name of its weight, and its shape."""

    def __init__(self, index, op, name, rows, width, inner, weight=""):
        self.index = index
        self.op = op
        self.name = name    # blk.0.ffn_down.weight; "" without one
        self.rows = rows    # of the result: tokens
        self.width = width  # of the result
        self.inner = inner  # of a product: what it sums over
        self.weight = weight  # its type and shape: "q4_0 [4096,4096]"

    @property
    def kind(self):
        """The name without the layer: ffn_down."""
        return re.sub(r"^blk\.\d+\.|\.weight$", "", self.name)


class Tools:
    def __init__(self, build):
        self.program = os.path.join(build, "tools", "cleave")
        if not os.path.exists(self.program):
            raise Failure("%s is not there; build it: ninja -C %s"
                          % (self.program, build))
        self.folder = tempfile.TemporaryDirectory(prefix="results-")
        # Profiles of this run stay with it.
        self.env = dict(os.environ, XDG_CACHE_HOME=self.folder.name)

    def run(self, *args):
        command = [self.program, *map(str, args)]
        done = subprocess.run(command, env=self.env, capture_output=True,
                              text=True)
        if done.returncode:
            raise Failure("%s\nfailed: %s" % (" ".join(command),
                                              done.stderr.strip()))
        return done.stdout

    def path(self, name):
        return os.path.join(self.folder.name, name)


def sets(settings):
    """Options of a command for settings."""
    return [x for key, value in settings.items()
            for x in ("--set", "%s=%s" % (key, value))]


def dims(shape):
    """'f32 [<=256,4096]' -> [256, 4096]"""
    return [int(n) for n in
            re.search(r"\[(.*)\]", shape).group(1).replace("<=", "").split(",")]


def nodes_of(plan):
    """The nodes of a plan in which none is cut."""
    values = plan["values"]
    nodes = []
    for index, node in enumerate(plan["nodes"]):
        inputs = [values[i] for i in node["inputs"] if i is not None]
        weights = [v for v in inputs if v["usage"] in ("weight", "state")]
        result = (node["outputs"] or node["inputs"])[0]
        out = dims(values[result]["shape"])
        inner = dims(inputs[0]["shape"])[-1] if inputs else 0
        nodes.append(Node(index, node["op"],
                          weights[0]["name"] if weights else "",
                          out[0] if len(out) > 1 else 1, out[-1], inner,
                          weights[0]["shape"] if weights else ""))
    return nodes
