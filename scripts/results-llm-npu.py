#!/usr/bin/env python3
"""Regenerates docs/results-llm-npu.md: llm.npu's figures on its phone,
simulated, in virtual time, beside the paper's.

    scripts/results-llm-npu.py build
    scripts/results-llm-npu.py build --quick
"""

import os
import sys

sys.dont_write_bytecode = True

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "llm_npu"), os.path.join(HERE, "results")]

import command
import document
import lab

if __name__ == "__main__":
    sys.exit(command.main("llm-npu", document, lab.Lab))
