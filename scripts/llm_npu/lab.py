"""Measurements on the simulated phone: models, lengths and ways to run them."""

import functools
import json
import os
import shutil
import tempfile

from runs import ROOT, Failure, nodes_of, sets

CHIP = os.path.join(ROOT, "conf", "soc", "llm-npu.ini")
NPU, GPU, CPU = "npu_sim:hexagon", "npu_sim:adreno", "npu_sim:cpu"
CHUNK = 256   # llm.npu's (3.2)
FLIGHT = 4    # its chunks under way at once
LONGEST = 1024  # prompt
OUTLIERS, PLAIN, GROUPS = "w8a8_outliers", "w8a8", "q8_0"


class Run:
    """Of n tokens: time, energy, when each device worked, and what building
    its programs took."""

    def __init__(self, n, record, busy):
        self.n, self.ns = n, record["avg_ns"]
        self.joules = record["mj_per_token"] * n * 1e-3
        self.built_ns = record["programs_virtual_ns"]
        self.programs = record["plan_programs"]
        self.size = record["model_size"]  # bytes
        self.batch, self.flight = record["n_batch"], record["n_flight"]
        self.busy = busy                  # device: ns

    @property
    def speed(self):
        return self.n * 1e9 / self.ns

    def idle(self, device):
        return 1 - self.busy.get(device, 0) / self.ns


def work(path, ns):
    """{device: ns} of the last ns of a trace."""
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events
             if e["ph"] == "M" and e["name"] == "thread_name"}
    spans = [(e["ts"] * 1e3, e["dur"] * 1e3, names[e["tid"]]) for e in events
             if e["ph"] == "X" and e["pid"] == 2 and e["name"] == "run"]
    begin = max(at + length for at, length, _ in spans) - ns
    busy = {}
    for at, length, device in spans:
        if at >= begin - 1:
            busy[device] = busy.get(device, 0) + length
    return busy


class Lab:
    def __init__(self, tools):
        self.tools = tools
        self.folder = tempfile.mkdtemp(dir=tools.path(""))
        self.caches = {}

    def cache(self, *use):
        """Profiles are kept apart for each use, so results do not depend on
        what ran before."""
        index = self.caches.setdefault(use, len(self.caches))
        return "%s/%d" % (self.folder, index)

    def options(self, model, quant, devices, use, settings):
        return ["--conf", CHIP, "--devices", ",".join(devices),
                "-m", "synth:%s:%s:zero" % (model, quant),
                "--set", "npu_sim.compute=off",
                "--set", "core.cache_dir=" + self.cache(model, quant, devices,
                                                        use, settings),
                *sets(dict(settings))]

    def bench(self, options, n, *args):
        trace = self.tools.path("trace.json")
        out = self.tools.run("bench", *options, "-p", n, "-n", 0, "-r", 1, "-q",
                             "-o", "json", "--trace", trace, *args)
        record = json.loads(out)[0]
        if record["clock"] != "virtual":
            raise Failure("%d tokens: not in virtual time" % n)
        return Run(n, record, work(trace, record["avg_ns"]))

    @functools.lru_cache(maxsize=None)
    def solved(self, model, n, quant=OUTLIERS, devices=(NPU, GPU, CPU),
               chunk=None, flight=None, settings=()):
        """As Cleave plans it; with its defaults, where no chunk is given."""
        args = ("-b", chunk) if chunk else ()
        args += ("--flight", flight) if flight else ()
        return self.bench(self.options(model, quant, devices,
                                       (n, chunk, flight), settings), n, *args)

    def alike(self, model, n, settings):
        """With other settings, in batches that are chosen without them."""
        run = self.solved(model, n)
        return self.solved(model, n, chunk=run.batch, flight=run.flight,
                           settings=settings)

    def alone(self, model, n, device):
        return self.solved(model, n, PLAIN, (device,))

    @functools.lru_cache(maxsize=None)
    def graph(self, model, quant, n, chunk):
        """(fingerprint, nodes) of a chunk of a prompt of n tokens."""
        path = self.tools.path("graph.json")
        settings = (("core.plan", "first"), ("core.profile", "off"))
        self.tools.run("plan", *self.options(model, quant, (NPU, CPU), "graph",
                                             settings),
                       "--phase", "prefill", "--seq", chunk, "-c", n,
                       "--save", path)
        with open(path) as file:
            plan = json.load(file)
        return plan["graph"], nodes_of(plan)

    @functools.lru_cache(maxsize=None)
    def theirs(self, model, n, quant=OUTLIERS, chunk=CHUNK, flight=1,
               settings=()):
        """llm.npu's plan: products on the NPU, all else on the CPU. What steps
        take is measured first, since the order of chunks depends on it."""
        fingerprint, nodes = self.graph(model, quant, n, chunk)
        path = self.tools.path("plan.json")
        with open(path, "w") as file:
            json.dump({"graph": fingerprint, "pieces": [
                {"node": node.index, "device": NPU if is_product(node) else CPU}
                for node in nodes]}, file)
        settings += (("core.plan", "first"),)
        use = model, quant, (NPU, CPU), (n, chunk, flight), settings
        options = self.options(*use)
        if flight > 1:
            shutil.rmtree(self.cache(*use), ignore_errors=True)
            shutil.copytree(self.profile(model, quant, chunk, settings),
                            self.cache(*use))
        return self.bench(options, n, "-b", chunk, "--flight", flight,
                          "--plan", path)

    @functools.lru_cache(maxsize=None)
    def profile(self, model, quant, chunk, settings):
        """A cache that knows what the steps of chunks take."""
        use = model, quant, (NPU, CPU), ("profile", chunk), settings
        self.tools.run("profile", *self.options(*use), "--seq", chunk, "-c",
                       LONGEST)
        return self.cache(*use)

    def padded(self, model, n, settings=()):
        """llm.npu as a whole: chunks in flight, the last one padded."""
        length = -(-n // CHUNK) * CHUNK
        run = self.theirs(model, length, flight=FLIGHT, settings=settings)
        return n * 1e9 / run.ns

    def weights(self, model, n):
        """Bytes of int8 weights of the products that are the NPU's."""
        return sum(node.inner * node.width
                   for node in self.graph(model, PLAIN, n, CHUNK)[1]
                   if is_product(node))


def is_product(node):
    """A product of many tokens with integer weights."""
    return node.op == "matmul" and node.rows > 1
