#!/usr/bin/env python3
"""Regenerates docs/results-scheinfer.md: ScheInfer's figures on its three testbeds,
simulated in virtual time, beside the paper's.

    scripts/results-scheinfer.py build
    scripts/results-scheinfer.py build --quick
"""

import os
import sys

sys.dont_write_bytecode = True

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "scheinfer"), os.path.join(HERE, "results")]

import command
import document
import lab

if __name__ == "__main__":
    sys.exit(command.main("scheinfer", document, lab.Lab))
