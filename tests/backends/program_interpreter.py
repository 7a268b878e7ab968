"""Program interpreter: a lowered program run in NumPy, kernel by kernel, as the oracle of every backend."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg
from tests.kernel.interpret import run_kernel

from wholestep.errors import KernelError
from wholestep.kernel.lang import I64, Kernel
from wholestep.lower.program.program import FIRST_INPUT, LoweredProgram
from wholestep.lower.program.steps import (
    COPY_ROUTINES,
    ForLoop,
    Launch,
    MemRef,
    RoutineCall,
    StatusCheck,
    Step,
    WhileLoop,
)
from wholestep.runtime.cpu.external_symbols import resolve_symbol

Array = np.ndarray[Any, Any]
BYTE, BOOL = np.dtype(np.uint8), np.dtype(np.bool_)


class ProgramInterpreter:
    """A lowered program whose sizes are all numbers, and its memory: an array of bytes for each slot of the table.

    Values lie in the arena at the offsets that the program gives them, so that a value that is overwritten too early
    is wrong here as well. A backend that overrides `launch` runs its own kernels in the same order.
    """

    def __init__(self, program: LoweredProgram) -> None:
        if program.names:
            raise KernelError(f"run: {program.name} has symbolic sizes: {', '.join(program.names)}")
        self.program = program
        self.memory: list[Array] = []
        self.trips: dict[int, int] = {}

    def __call__(self, inputs: Sequence[Any]) -> list[Array]:
        """Run the program on copies of its inputs; returns its outputs.

        Raises KernelError where a check of the program fails.
        """
        constants = zip(self.program.constants, self.program.constant_offsets, strict=True)
        placed = [(np.ascontiguousarray(array).reshape(-1).view(BYTE), at) for array, at in constants]
        self.memory = [np.zeros(self.size(self.program.arena), BYTE)]
        self.memory.append(np.zeros(max([at + data.size for data, at in placed], default=0), BYTE))
        for data, at in placed:
            self.memory[1][at : at + data.size] = data
        self.memory += [np.zeros(self.size(slot.type.nbytes), BYTE) for slot in self.program.slots]
        for slot, x in zip(self.program.inputs, inputs, strict=True):
            given = np.asarray(x, self.program.slots[slot - FIRST_INPUT].type.dtype)
            self.memory[slot][:] = np.ascontiguousarray(given).reshape(-1).view(BYTE)
        self.run(self.program.steps)
        types = [(slot, self.program.slots[slot - FIRST_INPUT].type) for slot in self.program.outputs]
        return [self.memory[slot].view(t.dtype).reshape(t.shape).copy() for slot, t in types]

    def size(self, size: Any) -> int:
        """A size as a number."""
        return int(size)

    def offset(self, ref: MemRef) -> int:
        """The byte at which a place starts in its slot, in the trips that the loops around it are in."""
        return self.size(ref.offset) + sum(self.size(by) * self.trips[loop] for loop, by in ref.moves)

    def at(self, ref: MemRef, count: int, dtype: np.dtype[Any]) -> Array:
        """The elements at a place."""
        start, nbytes = self.offset(ref), count * dtype.itemsize
        found = self.memory[ref.slot][start : start + nbytes]
        if start < 0 or found.size < nbytes:
            raise KernelError(f"run: {self.program.name} touches {nbytes} bytes at {ref}, which are not there")
        return found.view(dtype)

    def run(self, steps: Sequence[Step]) -> None:
        """Run steps in their order."""
        for step in steps:
            if isinstance(step, Launch):
                kernel = step.kernel
                pairs = zip(step.refs, kernel.buffers, strict=True)
                self.launch(kernel, [self.at(ref, b.size, b.dtype) for ref, b in pairs])
            elif isinstance(step, RoutineCall):
                self.call(step)
            elif isinstance(step, StatusCheck):
                found = int(self.at(step.ref, 1, I64)[0])
                if found != step.fine:
                    self.fail(step.site, found)
            elif isinstance(step, ForLoop):
                for trip in range(self.size(step.trips)):
                    self.trips[step.loop] = step.trips - 1 - trip if step.reverse else trip
                    self.run(step.body)
            elif isinstance(step, WhileLoop):
                self.run(step.test)
                while self.at(step.ref, 1, BOOL)[0]:
                    self.run((*step.body, *step.test))
            else:
                case = int(self.at(step.ref, 1, I64)[0])
                self.run(step.cases[min(max(case, 0), len(step.cases) - 1)])

    def launch(self, kernel: Kernel, arrays: list[Array]) -> None:
        """Run a kernel on its buffers."""
        run_kernel(kernel, arrays)

    def fail(self, site: int, found: int) -> None:
        """Raise the error of a failed check."""
        raise KernelError(f"run: {self.program.name} fails at {self.program.sites[site - 1]} with {found}")

    def call(self, step: RoutineCall) -> None:
        """Run a routine; advice on memory does nothing."""
        family = step.routine.partition(".")[0]
        if step.routine in COPY_ROUTINES:
            target, source = [self.at(ref, step.params[0], BYTE) for ref in step.refs]
            target[:] = source.copy()
        elif family == "argsort":
            bits, n, rows, _ = step.params
            keys = self.at(step.refs[0], n * rows, np.dtype(f"u{bits // 8}")).reshape(rows, n)
            self.at(step.refs[1], n * rows, I64)[:] = np.argsort(keys, axis=1, kind="stable").reshape(-1)
        elif family == "sort":
            bits, n, rows, _, floats = step.params
            words = self.at(step.refs[0], n * rows, np.dtype(f"u{bits // 8}")).reshape(rows, n)
            order = np.argsort(floats_of_words(words) if floats else words, axis=1, kind="stable")
            self.at(step.refs[1], n * rows, words.dtype)[:] = np.take_along_axis(words, order, 1).reshape(-1)
        elif family == "lapack":
            self.lapack(step)
        elif family in ("factor", "substitution"):
            self.in_tiles(step)
        elif family == "elimination":
            self.eliminate(step)
        elif family != "advise":
            raise KernelError(f"run: {self.program.name} calls {step.routine!r}, which is not known here")

    def in_tiles(self, step: RoutineCall) -> None:
        """Factor matrices, or solve triangular systems, by SciPy, which looks at one triangle."""
        (bits, *_), *how, sizes, site = step.params
        n, columns, count = sizes if how else (sizes[0], sizes[0], sizes[1])
        dtype = np.dtype(f"f{bits // 8}")
        a = self.at(step.refs[0], count * n * n, dtype).reshape(count, n, n)
        b, x = (self.at(ref, count * n * columns, dtype).reshape(count, n, columns) for ref in step.refs[-2:])
        try:
            for i in range(count):
                if how:
                    forward, unit, turned = how[0]
                    whole = a[i].T if turned else a[i]
                    x[i] = scipy.linalg.solve_triangular(whole, b[i], lower=forward, unit_diagonal=unit)
                else:
                    x[i] = scipy.linalg.cholesky(a[i])
        except np.linalg.LinAlgError:
            self.fail(site, 0)

    def eliminate(self, step: RoutineCall) -> None:
        """Eliminate matrices by SciPy."""
        (bits, *_), _, (m, n, _, _, count, _) = step.params
        dtype, least = np.dtype(f"f{bits // 8}"), min(m, n)
        a, packed = (self.at(ref, count * m * n, dtype).reshape(count, m, n) for ref in step.refs[:2])
        pivots = self.at(step.refs[2], count * least, np.dtype(np.int32)).reshape(count, least)
        (getrf,) = scipy.linalg.get_lapack_funcs(("getrf",), dtype=dtype)
        for i in range(count):
            packed[i], pivots[i], _ = getrf(a[i])

    def lapack(self, step: RoutineCall) -> None:
        """Call a LAPACK routine of SciPy for each matrix of a stack, every argument by its address."""
        count, _, arguments, site = step.params
        starts = [self.memory[ref.slot].ctypes.data + self.offset(ref) for ref in step.refs]
        routine = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * len(arguments))(resolve_symbol(step.routine))
        for i in range(self.size(count)):
            status = ctypes.c_int32(0)
            numbers = {
                k: ctypes.c_char(value) if kind == "letter" else ctypes.c_int32(value)
                for k, (kind, value, _) in enumerate(arguments)
                if kind in ("letter", "number")
            }
            given = {k: ctypes.addressof(number) for k, number in numbers.items()}
            for k, (kind, which, stride) in enumerate(arguments):
                if kind in ("memory", "scratch"):
                    given[k] = starts[which] + (i * stride if kind == "memory" else 0)
                elif kind == "status":
                    given[k] = ctypes.addressof(status)
            routine(*[given.get(k) for k in range(len(arguments))])
            if status.value and site:
                self.fail(site, status.value)


def floats_of_words(words: Array) -> Array:
    """The floats that sort words stand for: of negative numbers all bits are inverted, of others the first."""
    top = words.dtype.type(1 << (8 * words.dtype.itemsize - 1))
    return np.where(words >= top, words ^ top, ~words).view(f"f{words.dtype.itemsize}")
