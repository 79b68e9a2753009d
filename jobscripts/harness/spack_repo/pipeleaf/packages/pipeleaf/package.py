# SPDX-License-Identifier: BSD-3-Clause
import os

try:  # Spack 1.0 and newer; in older ones these come with spack.package
    from spack_repo.builtin.build_systems.cmake import CMakePackage
    from spack_repo.builtin.build_systems.cuda import CudaPackage
except ImportError:
    pass

from spack.package import *


class Pipeleaf(CMakePackage, CudaPackage):
    """Pipelined transformer training steps on CPUs and NVIDIA GPUs, verified to the last bit:
    an MPI mini-app for the acceptance of machines and software stacks."""

    # What is built is what is committed in the checkout that this file lies in:
    # jobscripts/harness/spack_repo/pipeleaf/packages/pipeleaf/package.py.
    git = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[".."] * 6))

    license("BSD-3-Clause")

    version("main", no_cache=True)

    variant("cuda", default=False, description="Build for NVIDIA GPUs, with messages over NCCL")

    depends_on("c", type="build")
    depends_on("cxx", type="build", when="+cuda")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("random123", type="build")
    depends_on("mpi")
    depends_on("hdf5@1.10:")
    depends_on("openssl")
    depends_on("jansson")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl", when="+cuda")

    def cmake_args(self):
        args = [
            self.define("PIPELEAF_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
            self.define("PIPELEAF_TESTS", self.run_tests),
            self.define("RANDOM123_INCLUDE_DIR", self.spec["random123"].prefix.include),
        ]
        if self.spec.satisfies("+cuda"):
            args.append(self.define("NCCL_ROOT", self.spec["nccl"].prefix))
            if not self.spec.satisfies("cuda_arch=none"):
                args.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return args

    def test_tiny(self):
        """the deck tiny on one process has the shipped digests"""
        pipeleaf = Executable(self.prefix.bin.pipeleaf)
        deck = join_path(self.prefix.share.pipeleaf, "input", "tiny.nml")
        said = pipeleaf(
            "run", deck, "pipeline.ranks=1", "output.directory=tiny", output=str.split, error=str.split
        )
        assert said.rstrip().endswith("VERIFICATION = SUCCESSFUL"), said
