"""Measurements on the simulated testbeds: models, memories and plans to times."""

import functools
import json
import os

import strategies
from runs import ROOT, Failure, nodes_of, sets

# Of the GPU's memory, what plans of baselines leave for values and caches, MiB.
SPARE = 1024
TOKENS = 4  # that a measurement of decoding generates
# A plan that is given is followed whatever the memory is, and nothing else is
# to be planned.
GIVEN = (("core.profile", "off"), ("core.plan", "first"),
         ("npu_sim:gpu.memory", 1048576),
         ("npu_sim:gpu.max_memory", 1048576))


class Setup:
    """A testbed with a budget of the GPU's memory in GiB and settings of the
    simulated machine, and the model that runs on it."""

    def __init__(self, bed, model, memory, settings=()):
        self.bed, self.model, self.memory = bed, model, memory
        self.settings = tuple(settings)

    def __hash__(self):
        return hash((self.bed, self.model, self.memory, self.settings))

    def __eq__(self, other):
        return (self.bed, self.model, self.memory, self.settings) == \
            (other.bed, other.model, other.memory, other.settings)

    @property
    def room(self):
        """Bytes for the weights that a baseline puts on the GPU."""
        return (self.memory * 1024 - SPARE) * 2**20

    def options(self):
        conf = os.path.join(ROOT, "conf", "soc",
                            "scheinfer-%s.ini" % self.bed)
        return ["--conf", conf, "--devices",
                strategies.GPU + "," + strategies.CPU,
                "-m", "synth:%s:zero" % self.model,
                "--set", "npu_sim.compute=off",
                "--set", "npu_sim:gpu.max_memory=%d" % (self.memory * 1024),
                *sets(dict(self.settings))]


class Lab:
    def __init__(self, tools):
        self.tools = tools

    @functools.lru_cache(maxsize=None)
    def graph(self, model, n):
        """(fingerprint, nodes) of n tokens at once; 1: of decoding."""
        path = self.tools.path("graph.json")
        setup = Setup("a", model, 1)
        phase = ("decode", "-c", TOKENS) if n == 1 else \
            ("prefill", "--seq", n, "-c", n)
        self.tools.run("plan", *setup.options(), "--devices", strategies.CPU,
                       "--set", "core.plan=first", "--phase", *phase,
                       "--save", path)
        with open(path) as file:
            plan = json.load(file)
        return plan["graph"], nodes_of(plan)

    def bench(self, setup, n, pieces=None, settings=()):
        """ns of n tokens at once, or with 1 of a token of decoding, by these
        pieces or as it is planned."""
        args = ("-p", 0, "-n", TOKENS) if n == 1 else \
            ("-p", n, "-n", 0, "-b", n)
        if pieces:
            path = self.tools.path("plan.json")
            with open(path, "w") as file:
                json.dump({"graph": self.graph(setup.model, n)[0],
                           "pieces": pieces}, file)
            settings = (*GIVEN, *settings)
            args += ("--plan", path)
        out = self.tools.run("bench", *setup.options(), *sets(dict(settings)),
                             *args, "-r", 1, "-q", "-o", "json")
        record = json.loads(out)[0]
        if record["clock"] != "virtual":
            raise Failure("%s, %d tokens: not in virtual time"
                          % (setup.model, n))
        return record["avg_ns"] / (TOKENS if n == 1 else 1)

    @functools.lru_cache(maxsize=None)
    def ours(self, setup, n):
        return self.bench(setup, n)

    def nodes(self, setup, n):
        return self.graph(setup.model, n)[1]

    def best(self, setup, n, ways):
        """The least time of several lists of pieces. Copies are not beside the
        work: neither baseline does that."""
        alone = (("npu_sim:gpu.copy_queues", 0),)
        return min(self.bench(setup, n, pieces, alone) for pieces in ways)

    @functools.lru_cache(maxsize=None)
    def llama_cpp(self, setup, n):
        nodes = self.nodes(setup, n)
        first = strategies.offload_layers(nodes, setup.room)
        streams = (False, True) if n >= strategies.OFFLOAD_TOKENS else (False,)
        return self.best(setup, n, [strategies.llama_cpp(nodes, first, s)
                                    for s in streams])

    @functools.lru_cache(maxsize=None)
    def fiddler(self, setup, n):
        nodes = self.nodes(setup, n)
        held = strategies.fiddler_layers(nodes, setup.room)
        return self.best(setup, n, [strategies.fiddler(nodes, held, s)
                                    for s in ((False, True) if n > 1 else
                                              (False,))])

    @functools.lru_cache(maxsize=None)
    def sliced(self, setup, r, held=0):
        """A token of decoding with a fixed rate r_CG."""
        nodes = self.nodes(setup, 1)
        return self.bench(setup, 1, strategies.sliced(nodes, r, held))

    @functools.lru_cache(maxsize=None)
    def decode_pieces(self, setup):
        """Of our plan for single tokens."""
        path = self.tools.path("decode.json")
        self.tools.run("plan", *setup.options(), "--phase", "decode",
                       "-c", TOKENS, "--save", path)
        with open(path) as file:
            return json.load(file)["pieces"]

    def unassigned(self, setup, n):
        """A prompt without token assignment: every part of a weight is
        computed where a single token has it computed."""
        pieces = strategies.moved(self.nodes(setup, 1), self.nodes(setup, n),
                                  self.decode_pieces(setup))
        return self.bench(setup, n, pieces)
