"""Kernels on cards, where this machine has one: PoCL, which runs OpenCL on the CPU, comes with the tests; in the place
of a card of NVIDIA's, its calls are answered by the processor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest

from wholestep.backends.gpu.beside_kernels import KernelsBeside
from wholestep.backends.gpu.kernel_writer import write_kernel
from wholestep.compiler.backends import BACKENDS
from wholestep.errors import DeviceError, MissingExtraError
from wholestep.kernel.lang import Kernel
from wholestep.runtime.gpu.backend import CardBackend
from wholestep.runtime.gpu.driver import KernelShape, MemoryPlace
from wholestep.runtime.gpu.memory import raw_bytes
from wholestep_tools.drawn import cuda_card, cuda_cpp

Array = np.ndarray[Any, Any]


@cache
def missing(device: str) -> str:
    """The first line of the error for a device that is not available here; empty for one that is."""
    try:
        BACKENDS[device]()
    except (DeviceError, MissingExtraError) as error:
        return str(error).splitlines()[0]
    return ""


@contextmanager
def device_for_tests(device: str) -> Iterator[str]:
    """A device for as long as a test takes; the test is skipped where this machine has none."""
    if device == "cuda" and cuda_cpp.COMPILER:
        with cuda_card.offered():
            yield device
    elif missing(device):
        pytest.skip(f"{missing(device)}; g++ on Linux stands for a card" if device == "cuda" else missing(device))
    else:
        yield device


class CardKernels:
    """Some kernels as one module of a card."""

    def __init__(self, kernels: Sequence[Kernel | KernelsBeside], device: str) -> None:
        backend = BACKENDS[device]()
        assert isinstance(backend, CardBackend)
        self.driver, language = backend.driver, backend.language
        codes = [
            write_kernel(kernel, f"k{i}", language, (), range(len(kernel.buffers))) for i, kernel in enumerate(kernels)
        ]
        self.text = language.module([code.text for code in codes])
        self.ready = self.driver.build(
            self.driver.compile(self.text), [KernelShape(c.name, c.groups, c.threads, c.shared) for c in codes]
        )

    def run(self, n: int, arrays: Sequence[Array]) -> None:
        """Run a kernel on arrays in place."""
        places = [MemoryPlace(self.driver.allocate(a.nbytes), 0) for a in arrays]
        for place, array in zip(places, arrays, strict=True):
            self.driver.write(place, raw_bytes(array))
        self.driver.launch(self.ready[n], places)
        for place, array in zip(places, arrays, strict=True):
            self.driver.read(place, raw_bytes(array))
