"""What the OpenCL plugin makes of kernels that are wrong."""

import os
import re
import sys

SOURCE = os.environ["CLEAVE_TEST_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "tools"))
import cli  # noqa: E402
from pocl import LOADER, POCL, OwnCache  # noqa: E402

# By the build's options for tests PoCL compiles three times as fast what runs 20
# times as slowly: that is for kernels of matrix instructions, which take longest to
# compile and are tried in one test each.
QUICK = os.environ.get("CLEAVE_OPENCL_OPTIONS", "")


class Trials(OwnCache):
    """Kernels are tried before they are used."""

    def opened(self, *args, wrong="", options=""):
        """What is said when it is opened in this process first."""
        self.pocl()
        result = self.good("devices", *POCL, *LOADER, "--devices", "opencl",
                           "--set", "opencl.trial=on", *args,
                           env={"CLEAVE_TEST_WRONG": wrong,
                                "CLEAVE_OPENCL_OPTIONS": options})
        return re.sub(r"\s+", " ", result.err)

    def test_right_ones_are_used(self):
        """By the options that users have."""
        self.assertEqual(self.opened("--set", "core.probe=off"), "")

    def test_a_wrong_one_is_found_and_remembered(self):
        args = ("--set", "core.probe=off")
        said = self.opened(*args, wrong="gemv")
        self.assertIn("'gemv' compute wrongly", said)
        self.assertNotIn("gemm", said)
        again = self.opened(*args, wrong="gemv")
        self.assertIn("kernels not used: gemv;", again)
        self.assertNotIn("compute wrongly", again)

    def test_products_of_warp_groups_are_tried(self):
        """In plain code. Without them there are the portable ones."""
        said = self.opened("--set", "core.probe=off", "--set",
                           "opencl.matrix=plain", "--set", "opencl.wgmma=plain",
                           "--set", "opencl.disabled=gemv_tensor,gemm_tensor,"
                           "gemm_tensor_int8,attention_prefill_tensor,"
                           "attention_decode_tensor,experts_sort",
                           wrong="gemm_wgmma", options=QUICK)
        self.assertIn("'gemm_wgmma' compute wrongly in matmul f16", said)
        self.assertEqual(said.count("'gemm_wgmma'"), 1)
        self.assertNotIn("'gemm'", said)

    def test_weights_in_a_layout_of_the_device_are_tried(self):
        """In plain code. Of experts the kernels for weights as they are in the
        file serve then."""
        said = self.opened("--set", "core.probe=off", "--set",
                           "opencl.matrix=plain", wrong="experts_gemv_tiles,"
                           "experts_gemv_tiles_shared", options=QUICK)
        self.assertIn("'experts_gemv_tiles' compute wrongly in matmul_experts",
                      said)
        self.assertIn("'experts_gemv_tiles_shared' compute wrongly in "
                      "matmul_experts q4_k", said)
        self.assertEqual(said.count("compute wrongly"), 2)

    SERIES = ("--set", "core.probe=off", "--set", "opencl.matrix=plain",
              "--set", "opencl.wgmma=plain")

    def test_series_are_tried(self):
        """In plain code, unless they are switched off: layers that begin with
        an attention, and without that what is between attentions."""
        off = ("--set", "opencl.series=off")
        apart = ("--set", "opencl.disabled=attention_decode_tensor")
        for more in (), apart:
            said = self.opened(*self.SERIES, *more, wrong="gemv_series",
                               options=QUICK)
            self.assertIn("'gemv_series' compute wrongly in attention, product",
                          said)
            self.assertEqual(said.count("compute wrongly"), 1, said)
        self.assertEqual(self.opened(*self.SERIES, *off, wrong="gemv_series",
                                     options=QUICK), "")

    def test_series_are_right(self):
        self.assertEqual(self.opened(*self.SERIES, options=QUICK), "")

    def test_a_driver_that_takes_no_opened_programs(self):
        """Whose binaries are no PTX, or which refuses what is made of it. One
        line, and the device is there."""
        args = ("devices", *POCL, *LOADER, "--devices", "opencl", "--set",
                "core.probe=off", "--set", "opencl.trial=off", "--set",
                "opencl.wgmma=auto")
        self.pocl()
        refused = {"CLEAVE_TEST_PTX": "refused"}
        for capability, ptx, lines in (("9", {}, 1), ("9", refused, 1),
                                       ("8", {}, 0)):
            found = self.good(*args,
                              env={"CLEAVE_TEST_CAPABILITY": capability, **ptx})
            # PoCL counts errors there.
            said = [x for x in found.err.splitlines() if "cleave" in x]
            self.assertEqual(len(said), lines, found.err)
            if lines:
                self.assertIn("products by warp groups cannot be had", said[0])

    def test_memory_that_runs_out(self):
        """That says nothing about the driver."""
        args = ("devices", *POCL, *LOADER, "--devices", "opencl", "--set",
                "core.probe=off", "--set", "opencl.trial=off")
        self.pocl()
        env = {"CLEAVE_TEST_CAPABILITY": "9", "CLEAVE_TEST_PTX": "1"}
        found = self.good(*args, env=env)
        self.assertNotIn("cannot be had", found.err)
        env["CLEAVE_TEST_FAILING"] = "clBuildProgram 1 -6"
        found = self.bad(*args, env=env, says="CL_OUT_OF_HOST_MEMORY")
        self.assertNotIn("cannot be had", found.err)

    def test_what_a_process_before_found_is_said(self):
        """That in which plugins are tried says nothing itself. Kernels that
        the user does not want are not missed."""
        args = ("--set", "core.probe=always")
        self.assertIn("kernels not used: gemv;",
                      self.opened(*args, wrong="gemv"))
        self.assertEqual("", self.opened(*args, "--set",
                                         "opencl.disabled=gemv", wrong="gemv"))


if __name__ == "__main__":
    del sys.argv[1:3]  # what follows names cases
    cli.main()
