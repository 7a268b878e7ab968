"""Runs a workload through the real bindings of CUDA, on the library of `libcuda.c`, and prints the results as JSON."""

from __future__ import annotations

import ctypes
import gc
import itertools
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from cuda.bindings import driver

from wholestep.backends.gpu.cuda import Cuda
from wholestep.backends.gpu.target import CUDA
from wholestep.compiler.backends import BACKENDS
from wholestep.errors import DeviceError
from wholestep.runtime.gpu.backend import CardBackend
from wholestep.runtime.gpu.cuda import CudaDriver
from wholestep.runtime.gpu.nvrtc import MachineCode
from wholestep_tools.bench.device import measured
from wholestep_tools.bench.peers.wholestep import trained
from wholestep_tools.bench.spec import WORKLOADS
from wholestep_tools.drawn.cuda_cpp import write_library


class LibraryCompiler:
    """A compiler whose code of a module is the path of a shared library."""

    version: tuple[int, ...] = (0, 0)

    def __init__(self, folder: Path) -> None:
        self.folder, self.numbers = folder, itertools.count()

    def compile(self, text: str, architecture: int) -> MachineCode:
        path = self.folder / f"module{next(self.numbers)}.so"
        write_library(text, path)
        return MachineCode(f"{path}\0".encode(), "")


def found(workload: str) -> dict[str, Any]:
    """A workload's difference to the CPU, its counts of graphs, and the error of an allocation beyond the memory."""
    with tempfile.TemporaryDirectory() as folder:
        made = CudaDriver(driver, LibraryCompiler(Path(folder)), 0)
        BACKENDS["cuda"] = lambda: CardBackend(CUDA, Cuda(), made)
        difference = measured(workload, "cuda", 1).difference
        params, batch = WORKLOADS[workload].data()
        profile = trained(workload, params, batch, 1, "cuda").step.profile(batch, calls=2)
    gc.collect()
    try:
        made.allocate(1 << 40)
        full = ""
    except DeviceError as error:
        full = str(error)
    library = ctypes.CDLL("libcuda.so.1")
    graphs = library.tests_graphs_launched(), library.tests_graphs_destroyed()
    return {"card": made.name, "difference": difference, "graphs": graphs, "full": full, "inside": profile.inside}


if __name__ == "__main__":
    print(json.dumps(found(sys.argv[1])))
