"""Kernels compiled for this processor and run on arrays; every array may lie between pages that nobody may touch."""

from __future__ import annotations

import ctypes
import itertools
import mmap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wholestep.backends.cpu.codegen.function import kernel_function, module_text
from wholestep.backends.cpu.cpu_features import CpuTarget, host_target
from wholestep.backends.cpu.llvm_jit import LinkedCode, object_code
from wholestep.kernel.lang import Kernel
from wholestep.kernel.text import strideless_text

Array = np.ndarray[Any, Any]
Function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Native:
    """Some kernels as machine code; with `strided`, all strides of their plain loops are arguments."""

    def __init__(
        self,
        kernels: Sequence[Kernel],
        target: CpuTarget | None = None,
        symbols: Mapping[str, int] | None = None,
        strided: bool = False,
    ) -> None:
        names = [f"k{n}" for n in range(len(kernels))]
        made = target or host_target()
        self.strides = [strideless_text(k)[1] if strided else () for k in kernels]
        texts = [
            kernel_function(k, name, made, strides=strides)
            for k, name, strides in zip(kernels, names, self.strides, strict=True)
        ]
        self.kernels = kernels
        self.linked = LinkedCode([object_code(module_text(texts), made)], symbols or {}, names)
        self.functions = [Function(self.linked.address(name)) for name in names]

    def run(self, n: int, arrays: Sequence[Array], shares: Sequence[int] = ()) -> None:
        """Run a kernel on arrays in place; the steps of its outer loop cut at `shares`."""
        words = [*[a.ctypes.data for a in arrays], 0, *[nbytes for _, nbytes in self.strides[n]]]
        pointers = (ctypes.c_int64 * len(words))(*words)
        outer = self.kernels[n].outer
        cuts = [0, *(shares if outer else ()), outer.steps if outer else 1]
        for low, high in itertools.pairwise(cuts):
            self.functions[n](ctypes.addressof(pointers), low, high)


def run(
    kernel: Kernel, *arrays: Array, target: CpuTarget | None = None, symbols: Mapping[str, int] | None = None
) -> None:
    """Compile a kernel and run it on arrays in place."""
    Native([kernel], target, symbols).run(0, arrays)


def fenced(array: Array, right: bool) -> tuple[Array, mmap.mmap]:
    """The array with a page next to it that may not be touched, after it or before it; and the memory to keep."""
    page = mmap.PAGESIZE
    room = -(-max(array.nbytes, 1) // page) * page
    memory = mmap.mmap(-1, room + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for fence in (start, start + page + room):
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(fence), page, 0) == 0
    offset = page + (room - array.nbytes if right else 0)
    made: Array = np.frombuffer(memory, np.uint8, array.nbytes, offset).view(array.dtype)
    made[:] = array
    return made, memory
