"""Compiled programs run in guarded memory: filled with patterns, between bytes that a program must not touch.

    from wholestep.testing import guarded
    guarded.check_guarded(program, arrays)      # raises MemoryLawError that says which bytes

A program that reads scratch memory before it has written it gives other bits under another pattern; one that writes
beyond a value changes the bytes around it; one that reads beyond it stops at a page that the system keeps closed.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.errors import UnsupportedError, WholestepError
from wholestep.ir.graph import NDArray
from wholestep.lower.program.allocation import ALIGNMENT
from wholestep.runtime.cpu.executable import BoundNativeExecutable, NativeExecutable
from wholestep.runtime.memory.aligned import PAGE

ONES = b"\xff" * 8
"""A quiet nan in every floating dtype, -1 in every integer."""
SIGNALS = struct.pack("<II", 0x7FA00001, 0x7FF20001)
"""A signalling nan in float64, and in every second float32."""
PATTERNS = (ONES, SIGNALS)
CLOSED = sys.platform != "win32"
"""True where pages can be closed to reading and writing."""


class MemoryLawError(WholestepError, AssertionError):
    """The error for a program that reads or writes outside its memory."""


class Region(NamedTuple):
    """An array in guarded memory, its description, and the whole memory with the place of the array in it."""

    what: str
    whole: NDArray
    start: int
    array: NDArray


class Guard:
    """An allocator of memory that is filled with a pattern, and guarded by a page of that pattern on either side.

    With `closed` the page after it cannot be read or written: a program that does so is ended by the system, and the
    process with it.

    >>> guard = Guard(ONES)
    >>> array = guard.room((3,), "float32")
    >>> np.isnan(array).all(), guard.harmed()
    (np.True_, [])
    >>> guard.regions[0].whole[:] = 0
    >>> guard.harmed()
    ['12,276 bytes around float32[3] were written']
    """

    def __init__(self, pattern: bytes, closed: bool = False) -> None:
        self.pattern = pattern
        self.closed = closed
        self.regions: list[Region] = []

    def room(self, shape: tuple[int, ...], dtype: Any) -> NDArray:
        """An array in guarded memory, at a multiple of 64 bytes."""
        return self.place(shape, np.dtype(dtype), ALIGNMENT)

    def copied(self, array: NDArray) -> NDArray:
        """A copy of an array in guarded memory, aligned only to its elements."""
        made = self.place(array.shape, array.dtype, max(array.dtype.alignment, 1))
        made[...] = array
        return made

    def place(self, shape: tuple[int, ...], dtype: np.dtype[Any], unit: int) -> NDArray:
        """An array that ends as close to the beginning of the next page as its alignment allows."""
        nbytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        room = -(-nbytes // PAGE) * PAGE
        whole = pages(PAGE + room + PAGE)
        start = PAGE + (room - nbytes) // unit * unit
        if self.closed:
            close_page(whole[-PAGE:])
            whole = whole[:-PAGE]
        whole.view(np.uint64)[:] = np.frombuffer(self.pattern, np.uint64)
        array: NDArray = whole[start : start + nbytes].view(dtype).reshape(shape)
        self.regions.append(Region(f"{dtype}{list(shape)}", whole, start, array))
        return array

    def harmed(self) -> list[str]:
        """Descriptions of writes outside the arrays in guarded memory."""
        found = []
        for region in self.regions:
            wrong = changed(region.whole, self.pattern)
            wrong[region.start : region.start + region.array.nbytes] = False
            if wrong.any():
                found.append(f"{np.count_nonzero(wrong):,} bytes around {region.what} were written")
        return found


def pages(nbytes: int) -> NDArray:
    """Memory of its own that begins at a page; the mapping is shared, so that its pages can be released."""
    return np.frombuffer(mmap.mmap(-1, nbytes), np.uint8)


def close_page(page: NDArray) -> None:
    """Forbid to read or write a page."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(page.ctypes.data), ctypes.c_size_t(page.nbytes), 0):
        raise OSError(ctypes.get_errno(), "mprotect")


class GuardedRun(NamedTuple):
    """A run in guarded memory: results, the bytes of the arena up to the last one touched, and faults."""

    results: list[NDArray]
    touched: int
    wrong: list[str]


def run(
    program: NativeExecutable, arrays: Sequence[NDArray], calls: int, pattern: bytes, closed: bool = False
) -> GuardedRun:
    """Call a program several times in guarded memory, with its resident state there too."""
    guard = Guard(pattern, closed)
    resident = [given for given, _ in program.resident]
    state = [guard.copied(arrays[k]) for k in resident]
    rest = [guard.copied(x) for k, x in enumerate(arrays) if k not in resident]
    constants = {place: blob.copy() for place, blob in program.constants.items()}
    instance = BoundNativeExecutable(program, state, guard.room)
    results: list[NDArray] = []
    for _ in range(calls):
        results += [np.array(x) for x in instance(rest)]
    wrong = guard.harmed()
    given = [x for k, x in enumerate(arrays) if k not in resident]
    wrong += [
        f"input {k} was written" for k, (x, y) in enumerate(zip(rest, given, strict=True)) if x.tobytes() != y.tobytes()
    ]
    wrong += [
        "a constant was written"
        for place, was in constants.items()
        if program.constants[place].tobytes() != was.tobytes()
    ]
    touched = sum(touched_extent(instance.memory(place), guard.pattern) for place in program.artefact.places("arena"))
    return GuardedRun([*map(np.array, state), *results], touched, wrong)


def changed(memory: NDArray, pattern: bytes) -> NDArray:
    """A mask of the bytes that differ from the pattern."""
    found: NDArray = memory.reshape(-1, len(pattern)) != np.frombuffer(pattern, np.uint8)
    return found.reshape(-1)


def touched_extent(memory: NDArray, pattern: bytes) -> int:
    """The number of bytes from the beginning of memory to the last one that differs from the pattern."""
    touched = np.flatnonzero(changed(memory, pattern))
    return int(touched[-1]) + 1 if touched.size else 0


class Report(NamedTuple):
    """The report on a guarded program: faults, the bytes of the arena, and its bytes up to the last one touched."""

    problems: list[str]
    arena: int
    touched: int


def plainly(program: NativeExecutable, arrays: Sequence[NDArray], calls: int) -> list[bytes]:
    """The bits of the state and of all results after some calls in plain memory."""
    resident = {given for given, _ in program.resident}
    instance = program.instance([np.array(arrays[given]) for given, _ in program.resident])
    rest = [x for k, x in enumerate(arrays) if k not in resident]
    made = [np.array(x) for _ in range(calls) for x in instance(rest)]
    return [x.tobytes() for x in (*instance.state, *made)]


def guarded_report(
    program: NativeExecutable, arrays: Sequence[NDArray], calls: int = 2, closed: bool = False
) -> Report:
    """Observe a program that runs in guarded memory, and test whether plain memory gives the same bits.

    `arrays` are all inputs of the graph, in its order; those of the state are copied. With `closed` a program that
    reads or writes beyond a value ends this process.
    """
    runs = [run(program, arrays, calls, pattern) for pattern in PATTERNS]
    wrong = list(dict.fromkeys([what for found in runs for what in found.wrong]))
    if not wrong:  # a program that writes outside its memory must not run in plain memory
        runs += [run(program, arrays, calls, ONES, closed)] if closed and CLOSED else []
        expected = plainly(program, arrays, calls)
        if any([x.tobytes() for x in found.results] != expected for found in runs):
            wrong.append("the results depend on what the memory held before")
    arena = sum(program.artefact.slots[place].nbytes for place in program.artefact.places("arena"))
    return Report(wrong, arena, max([found.touched for found in runs]))


def check_guarded(program: NativeExecutable, arrays: Sequence[NDArray], calls: int = 2) -> Report:
    """Raise MemoryLawError where a program reads memory that it has not written, or writes memory not its own.

    `arrays` are all inputs of the graph, in its order; those of the state are copied. The program runs a few times.

    >>> import wholestep as ws
    >>> x = np.ones((4, 8))
    >>> step = ws.compile(lambda w, x: np.mean((x @ w) ** 2), np.ones((8, 2)), optimizer=ws.optim.sgd(0.1), batch=x)
    >>> found = check_guarded(*of_step(step, x))
    >>> found.touched <= found.arena == step.memory.arena
    True
    """
    if program.streams.inputs:
        raise UnsupportedError(
            f"check_guarded: the state of {program.graph.name} lies in a file, and guarded memory is not one",
            hint="check the same step compiled without stream=",
        )
    found = guarded_report(program, arrays, calls)
    if found.problems:
        raise MemoryLawError(f"memory of {program.graph.name}: {'; '.join(found.problems)}")
    return found


def of_step(step: Any, batch: Any) -> tuple[NativeExecutable, list[NDArray]]:
    """The program of a compiled step and its inputs: the state as it is, the hyper-parameters, and a batch."""
    engine = step._engine
    return engine.main.program.executable, [*engine.main.instance.state, *engine.head, *engine.signature.arrays(batch)]
