"""The figures that the text of ScheInfer's section V states, measured again.
Sections of the paper are in brackets."""

import sys

import strategies
from lab import Setup
from report import PREDICTED, Row

PROMPT, GENERATED = 1024, 256  # [V-C]; how many are generated is not stated
THREADS = (16, 8, 4, 2)
RATES = (0, 0.12, 0.18, 0.25, 0.33, 0.42, 0.5, 0.6, 0.71, 0.75)
FIXED = (0, 0.25, 0.5, 0.75)   # [V-E2]
LENGTHS = (64, 256, 1024)      # [V-E4]
RATE_MODEL = "llama2-13b:q4_0"
MIXTRAL, LLAMA = "mixtral-8x7b:q4_0", "llama2-70b:q4_0"

DECODE = (
    Setup("a", MIXTRAL, 12), Setup("a", MIXTRAL, 16), Setup("b", MIXTRAL, 16),
    Setup("c", MIXTRAL, 8), Setup("c", "llama2-13b:q4_0", 4),
    Setup("a", "qwen2-57b-a14b:q4_0", 12), Setup("a", "phi3.5-moe:f16", 24),
    Setup("a", "llama2-13b:f16", 12), Setup("a", LLAMA, 24),
)
# What is streamed takes memory of the host that runs this.
PREFILL = (
    Setup("a", MIXTRAL, 16), Setup("b", MIXTRAL, 16),
    Setup("c", "llama2-13b:q4_0", 4),
)


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def name(setup):
    return "%s, testbed %s, %d GB" % (setup.model, setup.bed.upper(),
                                      setup.memory)


def is_moe(setup):
    return not setup.model.startswith("llama")


def baselines(lab, setup):
    """(name, how it runs) of those that are for the model."""
    out = [("llama.cpp", lab.llama_cpp)]
    return out + [("Fiddler", lab.fiddler)] if is_moe(setup) else out


def gains(lab, setups, n):
    """(setup, baseline, baseline's ns, our ns)"""
    out = []
    for setup in setups:
        print("  %s, %d tokens" % (name(setup), n), file=sys.stderr)
        for who, run in baselines(lab, setup):
            out.append((setup, who, run(setup, n), lab.ours(setup, n)))
    return out


def spread(values):
    return min(values), max(values)


BETTER = ("Where it is more than the paper has: its plans take more than "
          "the paper's three rates of each weight.")


def whole_range(lab):
    """V-C and V-D: over all models, testbeds and memories."""
    decode = {(s, w): t / o for s, w, t, o in gains(lab, DECODE, 1)}
    prompt = {(s, w): t / o for s, w, t, o in gains(lab, PREFILL, PROMPT)}
    both = [(lab_time(lab, s, w) / lab_time(lab, s, None))
            for s, w in prompt if (s, w) in decode]
    return [
        Row("decoding [V-D]", (1.11, 1.80), spread(list(decode.values())),
            "times", cause=RANGES),
        Row("prompts of %d tokens [V-C]" % PROMPT, (1.69, 6.33),
            spread(list(prompt.values())), "times", cause=RANGES),
        Row("a prompt of %d and %d tokens after it" % (PROMPT, GENERATED),
            (1.25, 2.04), spread(both), "times", cause=RANGES),
    ]


RANGES = ("Which models, testbeds and memories the ends of the paper's ranges "
          "belong to is in its figures 6 and 7, without numbers. The table of "
          "single runs below has what is behind the ranges here.")


def lab_time(lab, setup, who):
    """A prompt and the tokens after it; who: None for our plans."""
    run = dict(baselines(lab, setup)).get(who, lab.ours)
    return run(setup, PROMPT) + GENERATED * run(setup, 1)


def threads(n):
    """The CPU of testbed A with n threads; Table I's figures are taken as those
    of 16. 12.5 GB/s is what a thread can read."""
    return (("npu_sim:cpu.f32_tflops", 0.37 * n / 16),
            ("npu_sim:cpu.f16_tflops", 0.37 * n / 16),
            ("npu_sim:cpu.bandwidth", min(125, 12.5 * n)))


def cpu_speed(lab):
    """V-E1: with fewer threads."""
    paper = {"Fiddler": (1.23, 1.29, 1.43, 2.4),
             "llama.cpp": (1.45, 1.48, 1.63, 2.09)}
    rows = []
    for n, i in zip(THREADS, range(4)):
        setup = Setup("a", MIXTRAL, 12, threads(n))
        for _, who, theirs, ours in gains(lab, [setup], 1):
            rows.append(Row("Mixtral, %d threads, over %s" % (n, who),
                            paper[who][i], theirs / ours, "times",
                            cause="The paper's figures are means over models "
                            "and memories that it does not name."))
    return rows


def rates(lab):
    """V-E2: r_CG for r_GG = 0."""
    best, gain = [], []
    for n in THREADS:
        print("  rates, %d threads" % n, file=sys.stderr)
        setup = Setup("a", RATE_MODEL, 24, threads(n))
        times = {r: lab.sliced(setup, r) for r in RATES}
        best.append(min(RATES, key=times.get))
        gain.append(mean(times[r] for r in FIXED) / times[best[-1]])
    paper = zip(THREADS, (0.18, 0.25, 0.42, 0.71), (1.7, 1.4, 1.6, 2.1), best,
                gain)
    rows = []
    for n, rate, over, mine, mine_over in paper:
        rows.append(Row("optimal r_CG, %d threads" % n, rate, mine, cause=RATE))
        rows.append(Row("over rates of 0, 0.25, 0.5 and 0.75, mean", over,
                        mine_over, "times", cause=RATE))
    return rows


RATE = ("Threads are taken to be worth the same each, so half of them are half "
        "as fast: the best rate is that at which the link and the CPU end "
        "together. The paper's rates make 8 threads 1.6 times as slow as 16, 4 "
        "2.2 times as slow as 8 and 2 3.4 times as slow as 4. Its gains hold "
        "whatever else a token takes.")


def memory(lab):
    """V-E3: plans of whole layers against ours."""
    rows = []
    for gib, paper in ((12, 1.07), (16, 1.10), (20, 1.15)):
        setup = Setup("a", MIXTRAL, gib)
        print("  memory, %s" % name(setup), file=sys.stderr)
        rows.append(Row("Mixtral-8x7B, %d GB" % gib, paper,
                        lab.fiddler(setup, 1) / lab.ours(setup, 1), "times",
                        cause=WHOLE))
    return rows


WHOLE = ("Without assignment, experts of whole layers are the card's, as many as "
         "fit, and the CPU computes the rest: Fiddler's plan.")


def tokens(lab):
    """V-E4: prompts computed as single tokens are, against our plans."""
    rows = []
    setup = Setup("a", MIXTRAL, 16)
    for n, paper in zip(LENGTHS, (1.9, 5.6, 19.1)):
        print("  tokens, %d" % n, file=sys.stderr)
        rows.append(Row("Mixtral-8x7B, 16 GB (paper: 12), %d tokens" % n, paper,
                        lab.unassigned(setup, n) / lab.ours(setup, n),
                        "times", cause=TOKENS))
    return rows


TOKENS = ("The CPU's speed decides: Table I's, of single tokens, is held for "
          "any number of them, as the paper does.")


def singles(lab):
    """What is behind the ranges: tokens a second."""
    rows = []
    for setups, n in ((DECODE, 1), (PREFILL, PROMPT)):
        for setup, who, theirs, ours in gains(lab, setups, n):
            rows.append([name(setup), "decoding" if n == 1 else
                         "prompt of %d" % n, who, "%.1f" % (n * 1e9 / theirs),
                         "%.1f" % (n * 1e9 / ours),
                         "%.2f" % (theirs / ours)])
    return rows


BY = 0.25
PARAMETERS = (
    ("link", "npu_sim:gpu.link", 19.2),
    ("CPU's arithmetic", "npu_sim:cpu.f32_tflops", 0.37),
    ("CPU's bandwidth", "npu_sim:cpu.bandwidth", 125),
    ("GPU's bandwidth", "npu_sim:gpu.bandwidth", 625),
)


def sensitivity(lab):
    """Gains of decoding over both baselines with less and more of each."""
    rows = []
    for what, key, value in PARAMETERS:
        pair = []
        for factor in (1 - BY, 1 + BY):
            setup = Setup("a", MIXTRAL, 12, ((key, value * factor),))
            pair.append([theirs / ours for _, _, theirs, ours in
                         gains(lab, [setup], 1)])
        rows.append([what] + ["%.2f, %.2f" % (pair[0][i], pair[1][i])
                              for i in range(2)])
    return rows
