"""Compiled programs: machine code, the memory it works on, and the cheapest way to call it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wholestep import forks
from wholestep.backends.cpu.native import CodeError, Linked, link
from wholestep.backends.cpu.support import CALL, CONTEXT, CONTEXT_BYTES
from wholestep.errors import ForkedError, ShapeError, StorageError, UnsupportedError
from wholestep.ir.graph import Graph, NDArray
from wholestep.ir.types import array_type
from wholestep.runtime import pool, prefetch, support, symbols
from wholestep.runtime.arguments import Ask, Ranges, address, extent
from wholestep.runtime.artefact import Artefact
from wholestep.runtime.mapped import NOTHING, Streams, in_file, lies_in_file, own_copy
from wholestep.runtime.memory import aligned
from wholestep.runtime.program import Instance, Program
from wholestep.runtime.results import fresh

BRIEF = 20.0
"""Programs of fewer microseconds than this keep the interpreter lock: to give it up would cost more than it helps."""
UNFIT = -1
"""What native code returns for arrays that it cannot use as they are."""
SPARE_FRAMES = 2
"""How many frames a program keeps between calls."""


Make = Callable[[tuple[int, ...], Any], NDArray]
"""Gives memory for an array of a shape and dtype, at a multiple of 64 bytes.

What stands for a scratch file must keep what it holds when the system is told to let go of its pages.
"""

Room = Callable[[int], NDArray]
"""Gives the bytes of an arena or scratch file."""


def own_room(nbytes: int) -> NDArray:
    """An arena that nobody else uses."""
    return aligned((nbytes,), np.uint8)


def own_shelf(folder: Path | None, nbytes: int) -> NDArray:
    """The bytes of a scratch file that nobody else uses."""
    return in_file((nbytes,), np.uint8, folder)


class Frame:
    """What one run needs for itself: arena, table of base pointers, context, and the arrays that are expected."""

    def __init__(
        self,
        made: Artefact,
        code: Linked,
        constants: dict[int, NDArray],
        ask: Ask,
        room: Room,
        shelf: Room,
    ) -> None:
        self.table = (ctypes.c_void_p * max(1, len(made.slots)))()
        self.words = np.zeros(CONTEXT_BYTES // 8, np.int64)
        self.arenas = {place: room(made.slots[place].nbytes) for place in made.places("arena")}
        self.shelves = {place: (shelf, made.slots[place].nbytes) for place in made.places("file")}
        tables = {place: np.array(made.sizes, np.int64) for place in made.places("sizes")}
        for place, array in (self.arenas | constants | tables).items():
            self.table[place] = address(array)
        self.shelved = False
        if self.shelves:
            self.shelve()
            forks.heir(self)
        self.sites = made.sites
        self.parallel = made.parallel
        self.streamed = made.streamed
        self.pool: pool.Pool | None = None
        self.ask = ask
        self.kept = code, constants, tables
        facts = {"ask": ask.address, "program": code.address(made.entry)}
        facts |= {"table": ctypes.addressof(self.table), "context": address(self.words)}
        self._record = np.array([facts[name] for name in CALL], np.uint64)
        self.record = ctypes.c_void_p(address(self._record))
        self._native = support.load()
        quick = made.microseconds < BRIEF and not (made.parallel or made.streamed or self.shelves)
        self._brief = quick and ask.address != 0

    def shelve(self) -> None:
        """Have scratch files that this process shares with no other one."""
        for place, (shelf, nbytes) in self.shelves.items():
            self.arenas[place] = shelf(nbytes)
            self.table[place] = address(self.arenas[place])
        self.shelved = True

    def _forked(self) -> None:
        """In a forked child: the scratch files are the parent's; there are others once they are needed."""
        self.shelved = False

    @property
    def enter(self) -> Callable[[ctypes.c_void_p, tuple[Any, ...]], int]:
        """What runs the program once, given `record` and the arrays; it returns 0, or a number for `trouble`."""
        return self._native.call if self._brief else self._long

    def _long(self, record: ctypes.c_void_p, arrays: tuple[Any, ...]) -> int:
        """Run without the interpreter lock."""
        if self.shelves and not self.shelved:
            self.shelve()
        if self.parallel:
            self._borrow()
        if self.streamed:
            self.words[CONTEXT["notes"] // 8] = prefetch.notes()
        if self.ask.address and not self._native.gather(record, arrays):
            return self._native.run(record)
        return UNFIT

    def trouble(self, code: int, arrays: tuple[Any, ...]) -> None:
        """Raise what the program reports; run it where the arrays had to be copied, or refuse them."""
        if code == UNFIT:
            kept = self.ask.admit(arrays, self.table)
            code = self._native.run(self.record)
            del kept  # only now: the program was reading it
        if code:
            site = self.sites[self.word("site")]
            raise site.error(self.word("value"), self.word("axis"), self.word("size"))

    def _borrow(self) -> None:
        """Have the threads of this process ready; after a fork they are others."""
        threads = pool.current()
        if threads is not self.pool:
            self.pool = threads
            self.words[CONTEXT["pool"] // 8] = threads.address

    def word(self, name: str) -> int:
        """A word of the context."""
        return int(self.words[CONTEXT[name] // 8])

    def stop(self) -> None:
        """Ask the run in progress to end."""
        self.words[CONTEXT["stop"] // 8] = 1


class Loaded(NamedTuple):
    """Code in this process, and its constants: what programs of one code and several sizes share."""

    code: Linked
    constants: dict[int, NDArray]


def loaded(artefact: Artefact) -> Loaded:
    """Link the code of an artefact, and lay its constants out."""
    constants = {place: artefact.pool_of_constants(place) for place in artefact.places("constant")}
    known = support.load().symbols | {name: symbols.resolve(name) for name in artefact.symbols}
    return Loaded(link(artefact.objects, known, (artefact.entry,)), constants)


class NativeProgram(Program):
    """A compiled graph, loaded into this process; it unloads itself when nothing refers to it any more."""

    def __init__(
        self,
        graph: Graph,
        artefact: Artefact,
        like: Loaded | None = None,
        room: Room = own_room,
        streams: Streams = NOTHING,
    ) -> None:
        if len(set(artefact.outputs)) < len(artefact.outputs):
            raise CodeError("compile: two outputs have one slot")
        self.graph = graph
        self.streams = streams
        self.resident = artefact.resident
        self.loaded = like or loaded(artefact)
        self._code, self.constants = self.loaded
        self._room = room
        self.artefact = artefact.pooled(self.constants)
        self._inputs = artefact.inputs
        self._outputs = artefact.outputs
        kept = {place for place, _ in self.resident}, {place for _, place in self.resident}
        self._given = tuple(k for k in range(len(self._inputs)) if k not in kept[0])
        self._fresh = tuple(k for k in range(len(self._outputs)) if k not in kept[1])
        self._ask = self._expect(range(len(self._outputs)))
        self._frames: list[Frame] = []

    def _name(self, k: int) -> str:
        names = self.graph.input_names
        return names[k] if k < len(names) else f"argument {k}"

    def _expect(self, outputs: Sequence[int], own: Ranges = ()) -> Ask:
        """What is asked of the inputs that are not resident, followed by these outputs."""
        slots = self.artefact.slots
        places = [self._inputs[k] for k in self._given] + [self._outputs[k] for k in outputs]
        names = [self._name(k) for k in self._given] + [f"output {k}" for k in outputs]
        return Ask([slots[place].type for place in places], places, names, own)

    def __call__(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        if len(arrays) != len(self._inputs):
            raise ShapeError(f"call: the program takes {len(self._inputs)} arrays, not {len(arrays)}")
        slots = self.artefact.slots
        results: list[Any] = [None] * len(self._outputs)
        for k in self._fresh:
            slot = slots[self._outputs[k]]
            results[k] = fresh(slot.shape, slot.dtype)
        for given, k in self.resident:
            results[k] = self.checked(given, own_copy(np.asarray(arrays[given], order="C")))
        for given in self.streams.inputs:
            self.check_place(given, arrays[given])
        frame = self._frames.pop() if self._frames else self._frame(self._ask)
        try:
            for given, k in self.resident:
                frame.table[self._inputs[given]] = address(results[k])
            bound = (*[arrays[k] for k in self._given], *results)
            code = frame.enter(frame.record, bound)
            if code:
                frame.trouble(code, bound)
        finally:
            if len(self._frames) < SPARE_FRAMES:
                self._frames.append(frame)
        return results

    def _frame(self, ask: Ask, room: Room | None = None) -> Frame:
        return Frame(
            self.artefact,
            self._code,
            self.constants,
            ask,
            room or self._room,
            room or partial(own_shelf, self.streams.folder),
        )

    def instance(self, state: Sequence[NDArray]) -> NativeInstance:
        if self.artefact.undone and any(map(lies_in_file, state)):
            raise UnsupportedError(
                "compile: the program may fail between two of its steps, and state in files is not put back then",
                hint="take one step a call: what may fail are indices, factorisations and the like inside the steps",
            )
        return NativeInstance(self, state)

    def checked(self, k: int, array: NDArray) -> NDArray:
        """An array that can be the resident input number k; raises ShapeError for another one."""
        wanted = self.artefact.slots[self._inputs[k]].type
        flags = array.flags
        if array.shape != wanted.shape or array.dtype != wanted.dtype:
            raise ShapeError(f"call: {self._name(k)} must be {wanted}, not {array_type(array.shape, array.dtype)}")
        if not (flags.c_contiguous and flags.aligned and flags.writeable):
            raise ShapeError(f"call: {self._name(k)} must be writable, in C order and aligned")
        self.check_place(k, array)
        return array

    def check_place(self, k: int, array: NDArray) -> None:
        """Raise StorageError for an input that should lie in a file and does not: letting go of it would lose it."""
        if k in self.streams.inputs and array.nbytes and not lies_in_file(array):
            raise StorageError(f"call: {self._name(k)} must lie in a file, as the program was made for")

    def bound(self, state: Sequence[NDArray], make: Make | None = None) -> tuple[Frame, tuple[NDArray, ...]]:
        """A frame bound to resident arrays, and to buffers for the outputs that are not resident."""
        if len(state) != len(self.resident):
            raise ShapeError(f"instance: the program keeps {len(self.resident)} arrays, not {len(state)}")
        slots = self.artefact.slots
        results = tuple(
            (make or aligned)(slots[self._outputs[k]].shape, slots[self._outputs[k]].dtype) for k in self._fresh
        )
        own = sorted(extent(array) for array in (*state, *results) if array.nbytes)
        if any(end > start for (_, end), (start, _) in pairwise(own)):
            raise ShapeError("instance: two resident arrays share memory")
        room = None if make is None else lambda nbytes: make((nbytes,), np.uint8)
        frame = self._frame(self._expect((), own), room)
        for (given, k), array in zip(self.resident, state, strict=True):
            frame.table[self._inputs[given]] = frame.table[self._outputs[k]] = address(self.checked(given, array))
        for k, array in zip(self._fresh, results, strict=True):
            frame.table[self._outputs[k]] = address(array)
        return frame, results


class NativeInstance(Instance):
    """A compiled program bound to its resident arrays; calls from several threads wait for each other."""

    def __init__(self, program: NativeProgram, state: Sequence[NDArray], make: Make | None = None) -> None:
        self.state = tuple(state)
        self._frame, self._results = program.bound(self.state, make)
        self._enter, self._record = self._frame.enter, self._frame.record
        self._undone = program.artefact.undone
        self._lock = threading.RLock()
        forks.heir(self)

    def __call__(self, arrays: Sequence[NDArray]) -> Sequence[NDArray]:
        given = arrays if type(arrays) is tuple else tuple(arrays)
        with self._lock:
            # A program that may fail in the middle of a loop has changed its state by then.
            before = [array.copy() for array in self.state] if self._undone else ()
            code = self._enter(self._record, given)
            if code:
                self._failed(code, given, before)
        return self._results

    def _failed(self, code: int, given: tuple[Any, ...], before: Sequence[NDArray]) -> None:
        """Run once more where the arrays asked for it, or raise, with the state as it was."""
        try:
            self._frame.trouble(code, given)
        except BaseException:
            for array, old in zip(self.state, before, strict=bool(before)):
                array[...] = old
            raise

    @property
    def arenas(self) -> tuple[NDArray, ...]:
        """The scratch memory of the program, as bytes."""
        return tuple(self._frame.arenas.values())

    def stop(self) -> None:
        self._frame.stop()

    def memory(self, place: int) -> NDArray:
        """The instance's own memory in a slot of the kind "arena" or "file"."""
        return self._frame.arenas[place]

    @property
    def trips(self) -> int:
        return self._frame.word("trips")

    def _forked(self) -> None:
        """In a forked child: a run that another thread was in never ends here, and files are the parent's."""
        left = forks.abandoned(self._lock)
        if left or any(map(lies_in_file, self.state)):
            self._enter = torn
        if left:
            self._lock = threading.RLock()


def torn(record: ctypes.c_void_p, arrays: tuple[Any, ...]) -> int:
    """A run on state that nobody can vouch for."""
    raise ForkedError(
        "call: this process was forked while another thread ran the program on this state, or the state lies in files",
        hint="compile it in the child",
    )
