"""Which of several kernels the OpenCL plugin takes: opencl.tune."""

import os
import re
import subprocess
import sys

SOURCE = os.environ["CLEAVE_TEST_SOURCE"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "tools"))
import cli  # noqa: E402
from pocl import FAULTY, OwnCache  # noqa: E402

MATMUL = os.path.join(cli.BUILD, "examples", "matmul")
GEMV, GEMM = "gemv", "gemm"


class Tune(OwnCache):
    """A product of eight rows: both kernels can make it."""

    def product(self, tune="exhaustive", slow=""):
        """Its result."""
        env = self.environment({
            "CLEAVE_CORE_PLUGINS": "opencl", "CLEAVE_CORE_DEVICES": "opencl",
            "CLEAVE_OPENCL_PLATFORM": "portable",
            "CLEAVE_OPENCL_TUNE": tune, "CLEAVE_TEST_SLOW": slow,
            "CLEAVE_OPENCL_LOADER": FAULTY})
        done = subprocess.run([MATMUL, "8", "64", "48"], env=env,
                              capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("Sanitizer", done.stderr)
        return done.stdout

    def entries(self):
        """{file: (key, variant)} of what was found."""
        found, folder = {}, os.path.join(self.path("cache"), "cleave", "opencl")
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as f:
                entry = re.search(rb"\0([\w-]+)=(\d+)$", f.read())
            if entry:
                found[os.path.join(folder, name)] = (entry[1].decode(),
                                                     int(entry[2]))
        return found

    def choice(self):
        # The trial of a plugin may have products of its own.
        found = [variant for key, variant in self.entries().values()
                 if key == "matmul-f32-o6-i6-n3"]
        self.assertEqual(len(found), 1)
        return found[0]

    def test_the_quickest_is_found_and_kept(self):
        self.pocl()
        result = self.product(slow=GEMV)
        tile = self.choice()
        # It is not tried again, or it would lose.
        self.assertEqual(self.product(slow=GEMM), result)
        self.assertEqual(self.choice(), tile)
        self.assertEqual(self.product("fast", slow=GEMM), result)
        self.assertEqual(self.choice(), tile)
        # But it is when the entry is damaged.
        for path in self.entries():
            with open(path, "r+b") as f:
                f.seek(-1, os.SEEK_END)
                f.write(b"x")
        self.assertEqual(self.product(slow=GEMM), result)
        self.assertNotEqual(self.choice(), tile)

    def test_only_if_asked_for(self):
        self.pocl()
        self.assertEqual(self.product("fast"), self.product("off"))
        self.assertEqual(self.entries(), {})


if __name__ == "__main__":
    del sys.argv[1:3]  # what follows names cases
    cli.main()
