"""Kernels on cards, where this machine has one: PoCL, which runs OpenCL on the CPU, comes with the tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from wholestep.backends.gpu.kernel_writer import write_kernel
from wholestep.compiler.backends import BACKENDS
from wholestep.errors import DeviceError, MissingExtraError
from wholestep.kernel.lang import Kernel
from wholestep.runtime.gpu.backend import CardBackend
from wholestep.runtime.gpu.driver import KernelShape, MemoryPlace
from wholestep.runtime.gpu.memory import raw_bytes

Array = np.ndarray[Any, Any]


@cache
def missing(device: str) -> str:
    """What is missing for a device here; empty where it runs."""
    try:
        BACKENDS[device]()
    except (DeviceError, MissingExtraError) as error:
        return str(error).splitlines()[0]
    return ""


class CardKernels:
    """Some kernels as one module of a card."""

    def __init__(self, kernels: Sequence[Kernel], device: str) -> None:
        backend = BACKENDS[device]()
        assert isinstance(backend, CardBackend)
        self.driver, language = backend.driver, backend.language
        codes = [write_kernel(kernel, f"k{i}", language) for i, kernel in enumerate(kernels)]
        self.text = language.module([code.text for code in codes])
        self.ready = self.driver.build(self.text, [KernelShape(c.name, c.groups, c.threads) for c in codes])

    def run(self, n: int, arrays: Sequence[Array]) -> None:
        """Run a kernel on arrays in place."""
        places = [MemoryPlace(self.driver.allocate(a.nbytes), 0) for a in arrays]
        for place, array in zip(places, arrays, strict=True):
            self.driver.write(place, raw_bytes(array))
        self.driver.launch(self.ready[n], places)
        for place, array in zip(places, arrays, strict=True):
            self.driver.read(place, raw_bytes(array))
