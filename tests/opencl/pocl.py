"""What the tests of the OpenCL plugin share: PoCL, whatever else the machine
has. It keeps what it compiles in POCL_CACHE_DIR, which all tests share, so that
none waits for a kernel that another one had."""

import sys
import tempfile

import cli

ONLY = ("--set", "core.plugins=cpu,opencl")
POCL = (*ONLY, "--set", "opencl.platform=portable")
FAULTY = sys.argv[2]  # the loader of failing.c
LOADER = ("--set", "opencl.loader=" + FAULTY)
CACHE = tempfile.TemporaryDirectory(prefix="cleave-test-")


class OpenCL(cli.Case):
    """Tests that are not about the cache share one."""

    def environment(self, extra=None):
        return super().environment({"XDG_CACHE_HOME": CACHE.name,
                                    **(extra or {})})

    def devices(self, *args):
        found = self.good("devices", "-o", "json", *args).json["devices"]
        return [d for d in found if d["plugin"] == "opencl"]

    def pocl(self, *args):
        """Its id, where there is one."""
        found = self.devices(*POCL, "--devices", "opencl", *args)
        if len(found) != 1:
            self.skipTest("no PoCL")
        return found[0]["id"]


class OwnCache(OpenCL):
    """Begins with an empty one."""

    def environment(self, extra=None):
        return super().environment({"XDG_CACHE_HOME": self.path("cache"),
                                    **(extra or {})})
