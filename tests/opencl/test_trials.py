"""What the OpenCL plugin makes of kernels that are wrong."""

import os
import re
import sys

SOURCE = os.environ["CLEAVE_TEST_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "tools"))
import cli  # noqa: E402
from pocl import POCL, OwnCache  # noqa: E402


class Trials(OwnCache):
    """Kernels are tried before they are used."""

    def opened(self, *args):
        """What is said when it is opened in this process first."""
        self.pocl()
        result = self.good("devices", *POCL, "--devices", "opencl", "--set",
                           "opencl.trial=on", *args)
        return re.sub(r"\s+", " ", result.err)

    def test_right_ones_are_used(self):
        self.assertEqual(self.opened("--set", "core.probe=off"), "")

    def test_a_wrong_one_is_found_and_remembered(self):
        wrong = ("--set", "opencl.wrong=gemv", "--set",
                 "core.probe=off")
        said = self.opened(*wrong)
        self.assertIn("'gemv' compute wrongly", said)
        self.assertNotIn("gemm", said)
        again = self.opened(*wrong)
        self.assertIn("kernels not used: gemv;", again)
        self.assertNotIn("compute wrongly", again)

    def test_what_a_process_before_found_is_said(self):
        """That in which plugins are tried says nothing itself. Kernels that
        the user does not want are not missed."""
        wrong = ("--set", "opencl.wrong=gemv", "--set",
                 "core.probe=always")
        self.assertIn("kernels not used: gemv;", self.opened(*wrong))
        self.assertEqual("", self.opened(*wrong, "--set",
                                         "opencl.disabled=gemv"))


if __name__ == "__main__":
    sys.argv[1:] = []
    cli.main()
