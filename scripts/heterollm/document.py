"""docs/results-heterollm.md."""

import sys

import figures
import strategies
from report import Notes, count, figures as figure_table

HEAD = """# HeteroLLM's results, on a simulated phone

Every figure that the text of HeteroLLM (arXiv 2501.14794, sections 3 and 5)
states for the Snapdragon 8 Gen 3, beside the same measured on the simulated one
of `conf/soc/snapdragon-8gen3.ini`, in virtual time, with made-up weights. One
command measures everything and writes this file; it takes about a minute:

    scripts/results-heterollm.py build

{near} of {all} predictions are within 15 % of the paper. Figures marked
"calibrated" chose a parameter of the chip, see [Calibration](#calibration); all
others are predictions. A figure with * is not stated in the paper but follows
from what is. What is off by more than 15 % has the cause below its table.

The simulation knows single devices only: their arithmetic, memory, submits,
waits and power. Nothing in it knows a model or a strategy.
"""

STRATEGIES = """## Strategies

The paper's strategies are plans, made by `scripts/heterollm/strategies.py` and
followed as any saved plan is (`cleave bench --plan`). Norms, rotary embedding,
attention, SwiGLU and sums are the GPU's in all of them; they differ in who
multiplies.

- GPU-only: PPL-OpenCL.
- layer-level: products on the NPU.
- tensor-level, lengths that graphs have: as layer-level, but where the NPU is
  less than {advantage} times as fast as the GPU (all products of 32 and 64
  tokens, and FFN-down) rows go to the GPU, in multiples of {rows}, so that both
  end together (4.1.1).
- tensor-level, other lengths (5.2.2): lengths that graphs have on the NPU and
  the rest on the GPU, if the rest keeps the GPU busy for at least half of the
  time, else hybrid cuts: the NPU pads to a multiple of 32, and gives rows to the
  GPU as above; whichever is faster.
- tensor-level, decode: rows of each kind of product, in the share that is the
  fastest of those tried.
- padding: layer-level at the next length that graphs have. Pipe: several graphs
  one after another, the last one padded. Online-prepare: a graph of this very
  length, made first.
"""

CALIBRATION = """## Calibration

Only what describes devices was chosen, once for all figures:

| parameter | chosen by |
|---|---|
| NPU `arrays`, `frequency` | 36 TFLOP/s of FP16 in theory (table 1) |
| NPU `sram`, `expand` | FFN-down at 0.5 to 1.5 times the GPU's speed (4.1) |
| NPU, sums of two blocks in the SRAM instead of one | InternLM-1.8B, 1,092 tok/s (5.2) |
| NPU `swap_cycles` | the order of operands is worth 6 times (3.2) |
| NPU `dispatch_us` | decode of Llama-8B, 14.01 tok/s (5.3) |
| NPU `compile_*` | 408 ms at 135, 2,050 ms at 1000 (5.2.2) |
| GPU `f16_tflops` | about 1 TFLOP/s (3), GPU-only at 256 (5.2, 5.6) |
| `bandwidth`, `memory_bandwidth` | 40 to 45, 43.3, 59.1 GB/s (3.3, 5.3) |
| `submit_*`, `copy_us`, `wait_*` | 10 to 20, 50 to 100, 400 us (3.1, 4.2) |
| `power_*` | 2.23 W layer-level, 4.34 W GPU-only at 256 (5.6) |
"""


def section(title, rows, notes):
    before = len(notes.texts)
    text = "## %s\n\n%s" % (title, figure_table(rows, notes))
    new = notes.texts[before:]
    if new:
        text += "\n" + "\n".join(
            "[%d] %s" % (before + i + 1, cause)
            for i, cause in enumerate(new)) + "\n"
    return text


def parts():
    return [
        ("Single devices", figures.devices),
        ("Prefill", figures.prefill),
        ("Prefill of other lengths", figures.misaligned),
        ("Decode", figures.decode),
        ("Fast synchronisation", figures.synchronisation),
        ("A game on the GPU", figures.game),
        ("Power and energy", figures.energy),
    ]


def write(lab):
    notes, texts, rows = Notes(), [], []
    for title, measure in parts():
        print(title, file=sys.stderr)
        mine = measure(lab)
        rows += mine
        texts.append(section(title, mine, notes))
    near, number = count(rows)
    head = HEAD.format(near=near, all=number)
    how = STRATEGIES.format(advantage=strategies.ADVANTAGE,
                            rows=strategies.ROWS)
    return "\n".join([head, *texts, how, CALIBRATION])


def quick(make):
    """A few figures twice, by labs that know nothing of each other."""
    def measure(lab):
        model = figures.SMALL
        return {
            "GPU-only": lab.prefill(model, 64, strategies.gpu_only).ns,
            "layer-level": lab.prefill(model, 64, strategies.layer_level).ns,
            "tensor-level": lab.prefill(model, 64,
                                        strategies.tensor_level).ns,
            "blocking": lab.prefill(model, 64, strategies.tensor_level,
                                    figures.BLOCK).ns,
            "pipe": lab.pipe(model, 135).ns,
            "tensor-level, 135": lab.tensor(model, 135).ns,
            "online-prepare": lab.online(model, 135)[0],
            "decode": lab.decode(model, {"ffn_up": 0.25}).ns,
        }
    first, second = measure(make()), measure(make())
    for name, ns in first.items():
        print("%-18s %12d ns%s" % (name, ns, "" if second[name] == ns else
                                   ", then %d" % second[name]))
    return int(first != second)
