"""What the OpenCL plugin makes of calls that fail."""

import os
import re
import sys

SOURCE = os.environ["CLEAVE_TEST_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "tools"))
import cli  # noqa: E402
from pocl import LOADER, POCL, OpenCL  # noqa: E402

RUN = ("run", "-m", cli.NANO, "--temp", "0", "-n", "6", "-p", "def f", *POCL)


@cli.needs_shared
class Failing(OpenCL):
    def run_with(self, failing, devices):
        """The code, text and words of a run in which calls fail."""
        done = self.cleave(*RUN, *LOADER, "--devices", devices,
                           env={"CLEAVE_TEST_FAILING": failing})
        return done.code, done.text, re.sub(r"\s+", " ", done.err)

    def refused(self, failing, *says):
        code, _, words = self.run_with(failing, self.pocl())
        self.assertEqual(code, 1, words)
        for part in says:
            self.assertIn(part, words)

    def test_kernels_that_do_not_start(self):
        self.refused("clEnqueueNDRangeKernel 60 -54", "opencl: node ",
                     ": kernel ", "CL_INVALID_WORK_GROUP_SIZE (-54)")

    def test_kernels_that_do_not_build(self):
        self.refused("clBuildProgram 1 -11", "opencl:", ": kernel ",
                     "does not build: CL_BUILD_PROGRAM_FAILURE", "leave the")

    def test_queues_that_do_not_go_on(self):
        self.refused("clFlush 6 -59", "opencl: the queue: ",
                     "CL_INVALID_OPERATION (-59)")

    def test_a_device_that_is_lost(self):
        """The others go on, with the same text."""
        device = self.pocl()
        right = self.good(*RUN, "--devices", "cpu").text
        for failing, why in (
                ("clWaitForEvents 4 -5", "CL_OUT_OF_RESOURCES (-5)"),
                ("clEnqueueNDRangeKernel 60 -9999", "(-9999)")):
            with self.subTest(failing):
                code, text, words = self.run_with(failing, device + ",cpu")
                self.assertEqual(code, 0, words)
                self.assertEqual(text, right)
                self.assertIn("going on without a device that failed", words)
                self.assertIn(f"device '{device}' is left out", words)
                self.assertIn(why, words)
        self.refused("clWaitForEvents 4 -5", "CL_OUT_OF_RESOURCES (-5)")

    def test_waits_that_poll(self):
        """A driver that polls is asked now and then instead."""
        long = ("-n", "160", "--ignore-eos")
        right = self.good(*RUN, *long, "--devices", "cpu").text
        done = self.cleave(*RUN, *long, *LOADER, "--devices", self.pocl(),
                           env={"CLEAVE_TEST_POLLING": "1"})
        self.assertEqual(done.code, 0, done.err)
        self.assertEqual(done.text, right)
        waited, waits = map(int, re.search(
            r"(\d+) of (\d+) waits had to wait", done.err).groups())
        # The first ones tell how the driver waits.
        self.assertGreater(waits, 160)
        self.assertLess(waited, waits / 2)


if __name__ == "__main__":
    del sys.argv[1:3]  # what follows names cases
    cli.main()
