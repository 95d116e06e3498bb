"""What the tests of the OpenCL plugin share: PoCL, whatever else the machine
has. It keeps what it compiles in POCL_CACHE_DIR, which all tests share, so that
none waits for a kernel that another one had."""

import cli

ONLY = ("--set", "core.plugins=cpu,opencl")
POCL = (*ONLY, "--set", "opencl.platform=portable")


class OpenCL(cli.Case):
    def devices(self, *args):
        found = self.good("devices", "-o", "json", *args).json["devices"]
        return [d for d in found if d["plugin"] == "opencl"]

    def pocl(self, *args):
        """Its id, where there is one."""
        found = self.devices(*POCL, "--devices", "opencl", *args)
        if len(found) != 1:
            self.skipTest("no PoCL")
        return found[0]["id"]
