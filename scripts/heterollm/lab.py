"""Measurements on the simulated phone: models, lengths and plans to times."""

import functools
import json

import strategies
from cleave import CHIP, GPU, NPU
from runs import Failure, nodes_of, sets

OURS = (("core.plan", "tensor"),)
FIRST = (("core.plan", "first"),)  # where the strategies start from
# What runs of their plans teach is not to help ours.
SAVED = FIRST + (("core.profile", "off"),)
UNKEPT = (("core.program_cache", 0),)
NEEDING_COSTS = (strategies.tensor_level, strategies.unrestricted)
LIKELY = 4       # cuts of the sequence that are measured
DEPTH = 256      # tokens in the context when decoding begins (5.3)


class Run:
    """Of n tokens: time, power, when each device worked, and how to run it
    again: model, length, pieces and settings."""

    def __init__(self, n, ns, watts=0, work=None, how=None):
        self.n, self.ns, self.watts = n, ns, watts
        self.work = work or {}  # device: [(begin, end)], ns
        self.how = how

    @property
    def speed(self):
        return self.n * 1e9 / self.ns

    @property
    def joules(self):
        return self.watts * self.ns * 1e-9

    def share(self, device):
        """Part of the time in which the device worked."""
        return sum(end - begin
                   for begin, end in self.work.get(device, ())) / self.ns

    def frames(self, need):
        """Frames a second of a game that needs this part of the GPU's time for
        60: a frame is there if that much is left of its 60th of a second. Work
        that a device has begun is not interrupted."""
        work = self.work[GPU]
        first, last = work[0][0], work[-1][1]
        period = 1e9 / 60
        total = max(1, int((last - first) / period))
        shown = 0
        for i in range(total):
            begin, end = first + i * period, first + (i + 1) * period
            taken = sum(max(0, min(end, b) - max(begin, a))
                        for a, b in work)
            shown += period - taken >= need * period
        return 60 * shown / total


class Costs:
    """What products cost each device: those of the model in runs of standard
    lengths on the NPU alone; the GPU has a fixed rate, and a floor that is the
    weight's way from memory (4.3)."""

    def __init__(self, npu, gpu):
        self.npu_ns, self.gpu_ns = npu, gpu

    def npu(self, node, n):
        return self.npu_ns[node.inner, node.width, n]

    def gpu(self, node, n):
        one = self.gpu_ns[node.inner, node.width, 1]
        many = self.gpu_ns[node.inner, node.width, 256]
        return max(one, many * n / 256)


class Lab:
    def __init__(self, tools):
        self.tools = tools
        self.runs = {}

    def options(self, model, settings):
        return ["--conf", CHIP, "--devices", GPU + "," + NPU,
                "-m", "synth:%s:w4a16:zero" % model,
                "--set", "npu_sim.compute=off", *sets(settings)]

    @functools.lru_cache(maxsize=None)
    def graph(self, model, n, settings=()):
        """(fingerprint, nodes) of n tokens at once; 1: of decoding."""
        path = self.tools.path("graph.json")
        phase = ("decode", "-c", DEPTH + 1) if n == 1 else \
            ("prefill", "--seq", n, "-c", n)
        self.tools.run("plan", *self.options(model, dict(FIRST + settings)),
                       "--phase", *phase, "--save", path)
        with open(path) as file:
            plan = json.load(file)
        return plan["graph"], nodes_of(plan)

    def bench(self, model, n, plan=None, settings=(), before=None):
        """Two runs of n tokens at once, or with 1 of a step of decoding; the
        second one knows how long waits are. before: two runs of so many tokens
        come first."""
        trace = self.tools.path("trace.json")
        settings = settings if not plan else SAVED + settings
        args = ("-p", 0, "-n", 1, "-d", DEPTH, "-b", DEPTH) if n == 1 else \
            ("-p", "%d,%d" % (before, n) if before else n, "-n", 0, "-b", n)
        if plan:
            path = self.tools.path("plan.json")
            with open(path, "w") as file:
                json.dump(plan, file)
            args += ("--plan", path)
        out = self.tools.run("bench", *self.options(model, dict(settings)),
                             *args, "-r", 1, "--trace", trace, "-o", "json")
        with open(trace) as file:
            return json.loads(out)[0], json.load(file)["traceEvents"]

    def spans(self, events):
        """(device, op, begin, end) in ns of the last run."""
        devices = {e["tid"]: e["args"]["name"] for e in events
                   if e["ph"] == "M" and e["name"] == "thread_name"}
        return sorted((round(e["ts"] * 1e3), round((e["ts"] + e["dur"]) * 1e3),
                      devices[e["tid"]], e["name"])
                      for e in events if e["ph"] == "X" and e["pid"] == 2)

    def measure(self, model, n, pieces=None, settings=()):
        """By these pieces, or as the settings have it planned."""
        plan = {"graph": self.graph(model, n)[0],
                "pieces": pieces} if pieces else None
        record, events = self.bench(model, n, plan, settings)
        if record["clock"] != "virtual":
            raise Failure("%s, %d tokens: not in virtual time" % (model, n))
        spans = self.spans(events)
        begin = max(s[1] for s in spans) - record["avg_ns"]
        work = {}
        for s in spans:
            if s[3] == "run" and s[0] >= begin:
                work.setdefault(s[2], []).append(s[:2])
        return Run(n, record["avg_ns"], record["watts"], work,
                   (model, n, pieces, settings))

    @functools.lru_cache(maxsize=None)
    def costs(self, model, settings=()):
        npu, gpu = {}, {}
        for device, lengths, strategy, out in (
                (NPU, strategies.LENGTHS, strategies.layer_level, npu),
                (GPU, (1, 256), strategies.gpu_only, gpu)):
            for n in lengths:
                fingerprint, nodes = self.graph(model, n)
                plan = {"graph": fingerprint, "pieces": strategy(nodes)}
                _, events = self.bench(model, n, plan, settings)
                wanted = [node for node in nodes if node.op == "matmul" and
                          (device == GPU or node.rows > 1)]
                times = [s[1] - s[0] for s in self.spans(events)
                         if s[2] == device and s[3] == "matmul"]
                for node, ns in zip(wanted, times[-len(wanted):]):
                    out.setdefault((node.inner, node.width, n), ns)
        return Costs(npu, gpu)

    @functools.lru_cache(maxsize=None)
    def prefill(self, model, n, strategy, settings=()):
        _, nodes = self.graph(model, n)
        costs = self.costs(model) if strategy in NEEDING_COSTS else None
        return self.measure(model, n, strategy(nodes, costs), settings)

    def power(self, model):
        """The GPU's speed over that of layer-level execution."""
        gpu = self.prefill(model, 256, strategies.gpu_only)
        layer = self.prefill(model, 256, strategies.layer_level)
        return gpu.speed / layer.speed

    def of_length(self, run, n):
        """A run of a padded length as one of n tokens."""
        return Run(n, run.ns, run.watts, run.work, run.how)

    def padding(self, model, n):
        length = min(m for m in strategies.LENGTHS if m >= n)
        return self.of_length(
            self.prefill(model, length, strategies.layer_level), n)

    def pipe(self, model, n):
        """The best padded length for it: at most that of padding."""
        last = min(m for m in strategies.LENGTHS if m >= n)
        layers = {m: self.prefill(model, m, strategies.layer_level).ns
                  for m in strategies.LENGTHS}

        def guess(m):
            return sum(layers[part] for part in strategies.segments(m)[0])
        length = min(range(strategies.padded(n), last + 1,
                           strategies.LENGTHS[0]), key=guess)
        return self.of_length(self.prefill(model, length, strategies.pipe), n)

    def tensor(self, model, n, settings=()):
        """Hetero-tensor: the best of hybrid cuts and those sequence cuts that
        leave the GPU enough."""
        length = strategies.padded(n)
        runs = [self.of_length(self.prefill(
            model, length, strategies.tensor_level, settings), n)]
        if length == n and n in strategies.LENGTHS:
            return runs[0]
        _, nodes = self.graph(model, n)
        costs = self.costs(model)
        for used in strategies.sequence_cuts(n, self.power(model)):
            pieces = strategies.tensor_level(nodes, costs, used)
            runs.append(self.measure(model, n, pieces, settings))
        return min(runs, key=lambda run: run.ns)

    def unrestricted(self, model, n, settings=()):
        """The best of the paper's cuts that its solver's objective finds."""
        strategy = strategies.unrestricted
        length = strategies.padded(n)
        runs = [self.of_length(self.prefill(model, length, strategy, settings),
                               n)]
        _, nodes = self.graph(model, n)
        costs = self.costs(model)
        for used in strategies.likely_cuts(nodes, costs, LIKELY):
            runs.append(self.measure(model, n, strategy(nodes, costs, used),
                                     settings))
        return min(runs, key=lambda run: run.ns)

    def sensitive(self, model, n, strategy, settings):
        """As prefill(), planned for a chip that differs too."""
        _, nodes = self.graph(model, n)
        costs = self.costs(model, settings) if strategy in NEEDING_COSTS \
            else None
        return self.measure(model, n, strategy(nodes, costs), settings)

    def online(self, model, n):
        """(ns of making graphs for n tokens, run)."""
        settings = (("npu_sim:hexagon.lengths", "1,%d" % n),)
        fingerprint, nodes = self.graph(model, n)
        plan = {"graph": fingerprint,
                "pieces": strategies.layer_level(nodes)}
        run = self.measure(model, n, plan["pieces"], settings)
        return self.preparation(model, n, plan["pieces"], settings), run

    def preparation(self, model, n, pieces, settings=()):
        """ns of making the programs of such a plan, none of which is kept:
        the longest time without work, after a run of a token and before the
        runs of n tokens."""
        if not pieces:
            settings = tuple(x for x in settings if x not in OURS)
            pieces = self.solution(model, n, settings)
        plan = {"graph": self.graph(model, n)[0], "pieces": pieces}
        _, events = self.bench(model, n, plan, settings + UNKEPT, before=1)
        longest = busy = 0
        for begin, end, _, _ in self.spans(events):
            longest = max(longest, begin - busy) if busy else 0
            busy = max(busy, end)
        return longest

    @functools.lru_cache(maxsize=None)
    def decode_shares(self, model):
        """The NPU's shares of rows, one group of products after another, by
        what decoding takes with them (real-execution mode, 4.3)."""
        shares, best = {}, self.decode(model).ns
        for group in strategies.DECODE_GROUPS:
            tried = [dict(shares, **dict.fromkeys(group, share))
                     for share in strategies.DECODE_SHARES]
            for trial in tried:
                ns = self.decode(model, trial).ns
                if ns < best:
                    shares, best = trial, ns
        return shares

    def decode(self, model, shares=None, settings=()):
        _, nodes = self.graph(model, 1)
        return self.measure(model, 1, strategies.decode(nodes, shares or {}),
                            settings)

    @functools.lru_cache(maxsize=None)
    def profile(self, model, n, settings=()):
        """Measures all that plans for n tokens may be made of."""
        self.tools.run("profile", *self.options(model, dict(settings)),
                       "--seq", n, "-c", DEPTH + 1 if n == 1 else n, "--full")

    @functools.lru_cache(maxsize=None)
    def solved(self, model, n, settings=()):
        """As our solver plans it, from profiles that it measures."""
        self.profile(model, n, settings)
        return self.measure(model, n, None, OURS + settings)

    def solution(self, model, n, settings=()):
        """The pieces of our solver's plan for n tokens at once."""
        path = self.tools.path("solution.json")
        self.profile(model, n, settings)
        self.tools.run("plan", *self.options(model, dict(OURS + settings)),
                       "--phase", "prefill", "--seq", n, "-c", n,
                       "--save", path)
        with open(path) as file:
            return json.load(file)["pieces"]
