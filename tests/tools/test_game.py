"""A game on the simulated phone's GPU (HeteroLLM, section 5.5): what it does to
the language model, and the language model to its frames."""

import functools
import json
import os
import sys

import cli

sys.dont_write_bytecode = True
for folder in ("results", "heterollm"):
    sys.path.insert(0, os.path.join(cli.SOURCE, "scripts", folder))

import cleave  # noqa: E402
import runs  # noqa: E402
import lab as measuring  # noqa: E402
import strategies  # noqa: E402

MODEL, LENGTH = "llama3-8b", 256
GAME = 0.4  # of the GPU's time
LOAD = (("npu_sim:adreno.load", GAME),)
SPARE = (("npu_sim:adreno.max_share", 1 - GAME),)


@functools.lru_cache(maxsize=None)
def lab():
    return measuring.Lab(runs.Tools(cli.BUILD))


@functools.lru_cache(maxsize=None)
def pieces(settings=()):
    """Our plan for the phone as the settings have it."""
    return tuple(map(json.dumps, lab().solution(MODEL, LENGTH, settings)))


def run(plan, settings=()):
    return lab().measure(MODEL, LENGTH, [json.loads(p) for p in plan],
                         settings)


class Game(cli.Case):
    def test_it_slows_the_language_model_down(self):
        plan = pieces()
        self.assertGreater(run(plan, LOAD).ns, 1.05 * run(plan).ns)

    def test_a_plan_that_knows_of_it_loses_less(self):
        unaware = run(pieces(), LOAD)
        aware = run(pieces(LOAD + SPARE), LOAD)
        self.assertLess(aware.ns, 0.95 * unaware.ns)

    def test_max_share_leaves_the_gpu_to_it(self):
        self.assertGreater(run(pieces()).share(cleave.GPU), 1 - GAME)
        self.assertLessEqual(run(pieces(SPARE)).share(cleave.GPU),
                             1 - GAME + 0.01)

    def test_gpu_only_takes_all_its_frames(self):
        alone = lab().prefill(MODEL, LENGTH, strategies.gpu_only)
        layers = lab().prefill(MODEL, LENGTH, strategies.layer_level)
        self.assertEqual(alone.frames(GAME), 0)
        self.assertEqual(layers.frames(GAME), 60)
        self.assertGreater(run(pieces(SPARE)).frames(GAME),
                           run(pieces()).frames(GAME))


if __name__ == "__main__":
    cli.main()
