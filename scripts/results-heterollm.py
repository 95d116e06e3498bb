#!/usr/bin/env python3
"""Regenerates docs/results-heterollm.md: HeteroLLM's figures on the simulated
Snapdragon 8 Gen 3, in virtual time, beside the paper's.

    scripts/results-heterollm.py build
    scripts/results-heterollm.py build --quick
"""

import os
import sys

sys.dont_write_bytecode = True

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "heterollm"), os.path.join(HERE, "results")]

import command
import document
import lab

if __name__ == "__main__":
    sys.exit(command.main("heterollm", document, lab.Lab))
