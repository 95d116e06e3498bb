"""The simulated phone."""

import configparser
import os

from runs import ROOT

CHIP = os.path.join(ROOT, "conf", "soc", "snapdragon-8gen3.ini")
NPU = "npu_sim:hexagon"
GPU = "npu_sim:adreno"


def chip():
    """section.key: number, as the chip's file has it."""
    parser = configparser.ConfigParser()
    parser.read(CHIP)
    values = {}
    for section in parser.sections():
        for key, text in parser[section].items():
            try:
                values["%s.%s" % (section, key)] = float(text)
            except ValueError:
                pass
    return values
