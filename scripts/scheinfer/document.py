"""docs/results-scheinfer.md."""

import sys

import figures
import strategies
from lab import SPARE, Setup
from report import Notes, compare, count, section, table

HEAD = """# ScheInfer's results, on simulated testbeds

The figures that the text of ScheInfer's section V states, beside the same on its
three testbeds, simulated (`conf/soc/scheinfer-*.ini`), in virtual time, with
made-up weights. One command measures everything and writes this file:

    scripts/results-scheinfer.py build

{near} of {all} figures are within 15 % of the paper, or in its range. All are
predictions. No parameter was chosen by one of them: rates of the machines are
those of the paper's Table I, where it has them, and otherwise data sheets'. What
is off by more than 15 % has the cause below its table.

"here" is how much faster our plans are than a baseline. Nothing is prescribed to
them; how they come about is in [planning.md](planning.md).
"""

BASELINES = """## Baselines

Both are plans, made by `scripts/scheinfer/strategies.py`, that run on the same
simulated machines. {spare} MiB of the GPU's memory are left for values and caches.

- llama.cpp: as many of the last layers as fit are the GPU's, the rest the CPU's.
  In prompts products of {tokens} tokens or more are computed on the GPU also where
  their weights are the CPU's; these are copied there, not beside other work. The
  CPU keeps those layers' attention, as their cache is the CPU's. Versions of 2024
  have that rule as today's have. Where computing on the CPU is faster, that is
  taken.
- Fiddler (mixture of experts only): all but experts is the GPU's, and experts of as
  many layers as fit. The other experts are computed on the CPU, or in prompts
  copied to the GPU, whichever is faster.

"""

SINGLES = """## Single runs

Tokens a second.

"""

SENSITIVITY = """
## Sensitivity

How much faster decoding of {model} is on testbed A with 12 GB, with {by:.0f} % less and
{by:.0f} % more of a rate that Table I gives:

"""

NOT_HERE = """
## What is not here

- Mixtral-8x22B, Qwen2-14B, and the comparison with PowerInfer.
- LLaMA-2-70B in prompts and in the ablations: rates (V-E2) are of LLaMA-2-13B,
  whose products have the same ratio of times.
"""

PARTS = (
    ("Speed over llama.cpp and Fiddler", figures.whole_range,
     "Sections V-C and V-D; the ranges of all runs.\n"),
    ("Fewer threads", figures.cpu_speed,
     "Section V-E1, decoding on testbed A.\n"),
    ("Slicing rates", figures.rates,
     "Section V-E2, decoding on testbed A with nothing of the MLPs on the "
     "card:\nplans with one rate for all weights of MLPs.\n"),
    ("Memory assignment", figures.memory,
     "Section V-E3, decoding on testbed A.\n"),
    ("Token assignment", figures.tokens, "Section V-E4, testbed A.\n"),
)


def write(measured):
    notes, texts, rows = Notes(), [], []
    for title, measure, intro in PARTS:
        print(title, file=sys.stderr)
        mine = measure(measured)
        rows += mine
        texts.append(section(title, intro, mine, notes))
    near, number = count(rows)
    singles = SINGLES + table(
        ["", "", "baseline", "baseline, tok/s", "here, tok/s", "times"],
        figures.singles(measured), "lllrrr")
    print("Sensitivity", file=sys.stderr)
    sensitive = SENSITIVITY.format(model="Mixtral-8x7B",
                                   by=100 * figures.BY) + table(
        ["", "over llama.cpp", "over Fiddler"],
        figures.sensitivity(measured), "lrr")
    how = BASELINES.format(spare=SPARE, tokens=strategies.OFFLOAD_TOKENS)
    return "\n".join([HEAD.format(near=near, all=number), *texts,
                      how + singles + sensitive + NOT_HERE])


def quick(make):
    """A few figures twice, by labs that know nothing of each other."""
    def measure(lab):
        dense = Setup("c", "llama3.2-3b:q8_0", 2)
        moe = Setup("a", "qwen1.5-moe-a2.7b:q4_0", 6)
        return {
            "llama.cpp, decode": lab.llama_cpp(dense, 1),
            "llama.cpp, prompt": lab.llama_cpp(dense, 64),
            "ours, decode": lab.ours(dense, 1),
            "ours, prompt": lab.ours(dense, 64),
            "sliced": lab.sliced(dense, 0.25),
            "unassigned": lab.unassigned(dense, 64),
            "Fiddler, decode": lab.fiddler(moe, 1),
            "Fiddler, prompt": lab.fiddler(moe, 64),
        }
    return compare(measure, make)
