"""docs/results-heterollm.md."""

import sys

import cleave
import figures
import lab
import strategies
from report import Notes, compare, count, number, section, table

HEAD = """# HeteroLLM's results, on a simulated phone

Every figure that the text of HeteroLLM (arXiv 2501.14794, sections 3 and 5)
states for the Snapdragon 8 Gen 3, beside the same measured on the simulated one
of `conf/soc/snapdragon-8gen3.ini`, in virtual time, with made-up weights. One
command measures everything and writes this file; it takes some minutes:

    scripts/results-heterollm.py build

{near} of {all} predictions are within 15 % of the paper. Figures marked
"calibrated" chose a parameter of the chip, see [Calibration](#calibration). What
"follows" from other rows is not counted again. All others are predictions. A figure with * is not stated in the paper but follows
from what is. What is off by more than 15 % has the cause below its table.

The simulation knows single devices only: their arithmetic, memory, submits,
waits and power. Nothing in it knows a model or a strategy.
"""

IMPLIED = """## What the paper's figures imply

A token of Llama-8B takes 14.0 GFLOP in products, one of InternLM-1.8B 3.0; FFN-down
is 27 % of both. Decoding reads 3.75, 1.61 (Llama-3B) and 0.85 GB of weights.

- Prefill of Llama-8B at 256: GPU-only 63.7 tok/s are 0.89 TFLOP/s, layer-level
  190.5 are 2.7, tensor-level 236.9 are 3.3. Layer-level leaves about 40 ms a layer
  for products; if FFN-down is near half of that (4.1.1) it runs at 1.5 TFLOP/s and
  the others at 4.1. Here 1.3 and 5.2.
- If the GPU took rows of all products there, tensor-level would gain 35 % over
  layer-level, not 24 %; with FFN-down's alone it is what the paper measured. That
  is also what section 4.1.1 says, and how tensor-level is planned here.
- InternLM-1.8B at 1,092 tok/s is 3.3 TFLOP/s, as Llama-8B: rates do not grow as
  matrices shrink.
- Decode: GPU-only is 42.6, 44.3 and 38.3 GB/s of weights for the three models,
  tensor-level 52.6, 48.0 and 43.4. Against 59.1 GB/s tensor-level loses 0.22 to
  0.25 ms a layer in all three: the cost of waits, whatever the size.
- Without fast synchronisation a layer of Llama-8B takes 7.0 ms longer in prefill at
  256 and 6.7 ms in decode, but one of Llama-3B 1.4 ms and one of InternLM-1.8B 1.0
  ms in decode. One cost of waiting cannot give both.
- Energy: 2.99 x 1.244 = 3.72 times the speed of GPU-only at 63.3 % of the power is
  the 5.87 of section 5.6. 23.2 % more power for 24.4 % more speed is 1 % less
  energy than layer-level, though, and not 3.3 % more.
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

OURS = """## Our plans

The same runs with `core.plan = tensor`: nothing is prescribed, the solver goes by
profiles of the devices (`cleave profile --full`). Two baselines are kept apart:

- **as the paper measured**: the best of the strategies above, with the rules that
  make its figures come out here (no rows of a product for the GPU where the NPU is
  {advantage} times as fast; sequence cuts only where the rest keeps the GPU busy for half
  of the time).
- **its solver, unrestricted**: the paper's cuts and its objective, min max(NPU, GPU),
  on this chip without those rules: rows of every product, and of all cuts of the
  sequence the {likely} that promise most, measured.

{better} of {all} runs are faster than by both; the last column compares with the
stronger one. In decode the paper's shares are the best of those tried: there is no
rule to drop.

"""

COSTS = """
What the same plans take before the first run (compiling graphs, once) and for a
token. Graphs that decoding needs are compiled once a session and left out.

"""


def cost_row(duel, measured):
    def prepared(run):
        return number(measured.preparation(*run.how) / 1e6)

    def energy(run):
        return number(run.joules / run.n * 1e3)
    runs = (duel.theirs, duel.free, duel.ours)
    decodes = duel.what.endswith("decode")
    return [duel.what, *("" if decodes else prepared(run) for run in runs),
            *(energy(run) for run in runs)]


def duel_table(duels, measured):
    rows = [[d.what, number(d.theirs.speed), number(d.free.speed),
             number(d.ours.speed), "%+.1f %%" % (100 * d.gain - 100)]
            for d in duels]
    text = OURS.format(better=sum(d.gain > 1 for d in duels), all=len(duels),
                       advantage=strategies.ADVANTAGE, likely=lab.LIKELY)
    return text + table(
        ["", "as the paper measured, tok/s", "its solver, unrestricted, tok/s",
         "our plan, tok/s", "faster by"], rows, "lrrrr") + COSTS + table(
        ["", "preparation, ms: paper", "unrestricted", "ours",
         "mJ a token: paper", "unrestricted", "ours"],
        [cost_row(d, measured) for d in duels], "lrrrrrr")


SENSITIVITY = """
How far results depend on each of them: with {by:.0f} % less and {by:.0f} % more of it,
over what they are (tokens a second; plans are made for the changed chip, shares in
decode stay).

"""


def sensitivity_table(rows):
    return SENSITIVITY.format(by=100 * figures.BY) + table(
        ["", "Llama-8B, 256, layer-level", "tensor-level",
         "InternLM-1.8B, 256, tensor-level", "Llama-8B, decode"],
        [[name, *("%.2f, %.2f" % pair for pair in pairs)]
         for name, pairs in rows], "lrrrr")


PLAYING = """
With the game of section 5.5 (Llama-8B, 256), by plans that know nothing of it, and
by those made for a GPU with `load = {load:g}` and `max_share = {share:g}`:

"""


def playing_table(games):
    rows = [[name, number(alone.speed), number(beside.speed),
             "%.0f %%" % (100 - 100 * beside.speed / games[0][1].speed),
             "%.0f %%" % (100 * alone.share(cleave.GPU)),
             number(alone.frames(figures.GAME))]
            for name, alone, beside in games]
    return PLAYING.format(load=figures.GAME, share=1 - figures.GAME) + table(
        ["our plan", "tok/s without", "tok/s with the game", "lost",
         "GPU's time taken", "frames a second"], rows, "lrrrrr")


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


INTROS = {
    "Single devices": """Sections 3.1 to 3.3 and 5.3.
""",
    "Prefill": """Sections 5.2.1 and 5.6.
""",
    "Prefill of other lengths": """Section 5.2.2, Llama-8B.
""",
    "Decode": """Section 5.3, with 256 tokens in the context.
""",
    "Fast synchronisation": """Section 5.4; blocking is `core.sync = block`. Means are of lengths 64, 256 and
1024.
""",
    "A game on the GPU": """Section 5.5, Llama-8B at 256. How much of the GPU the game takes is not stated; a
quarter is assumed. For the language model that is `load = %g` of the GPU. Frames:
of each 60th of a second the game needs that part from what the language model
leaves of the GPU, and has to wait for work that has begun; if there is too little
left, the frame is lost.
""" % figures.GAME,
    "Power and energy": """Section 5.6, Llama-8B at 256.
""",
}


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


def write(measured):
    notes, texts, rows = Notes(), [], []
    for title, measure in parts():
        print(title, file=sys.stderr)
        mine = measure(measured)
        rows += mine
        texts.append(section(title, INTROS[title], mine, notes))
    near, number = count(rows)
    head = HEAD.format(near=near, all=number)
    how = STRATEGIES.format(advantage=strategies.ADVANTAGE,
                            rows=strategies.ROWS)
    print("Our plans", file=sys.stderr)
    duels = duel_table(figures.duels(measured), measured)
    games = playing_table(figures.playing(measured))
    print("Calibration", file=sys.stderr)
    return "\n".join([head, *texts, IMPLIED, how, duels + games, CALIBRATION +
                      sensitivity_table(figures.sensitivity(measured))])


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
            "unrestricted, 135": lab.unrestricted(model, 135).ns,
            "tensor-level, 135": lab.tensor(model, 135).ns,
            "online-prepare": lab.online(model, 135)[0],
            "decode": lab.decode(model, {"ffn_up": 0.25}).ns,
        }
    return compare(measure, make)
