"""Compiled executables: machine code, its memory, and its calls."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from wholestep import forks
from wholestep.backends.cpu.llvm_jit import CodeError, LinkedCode
from wholestep.backends.cpu.support_ir.record_layouts import CALL, CONTEXT, CONTEXT_BYTES
from wholestep.errors import ForkedError, ShapeError, StorageError, UnsupportedError
from wholestep.ir.graph import Graph, NDArray
from wholestep.ir.types import array_type
from wholestep.runtime.backend import AllocateBytes, LoadedCode
from wholestep.runtime.cpu import external_symbols, page_prefetcher, support, thread_pool
from wholestep.runtime.cpu.artifact import Artifact, raised_error
from wholestep.runtime.cpu.collective_calls import EXCHANGES
from wholestep.runtime.cpu.ndarray_reader import AddressRanges, ArgumentTypes, array_address, array_extent
from wholestep.runtime.executable import (
    BoundExecutable,
    Executable,
    QuickCall,
    UnfitArguments,
    check_count,
    numbers_without,
)
from wholestep.runtime.memory.aligned import aligned_empty
from wholestep.runtime.memory.mapped_arrays import NO_FILE_INPUTS, FileInputs, clone, is_file_backed, zeros_in_file
from wholestep.runtime.memory.result_pool import result_maker

MAX_MICROSECONDS_WITH_GIL = 20.0
"""Programs of fewer microseconds than this keep the interpreter lock, since releasing it would cost more."""
UNFIT = -1
"""The status of native code for arrays that must be checked or copied in Python."""
SPARE_FRAMES = 2
"""Number of call frames that an executable keeps between calls."""


AllocateArray = Callable[[tuple[int, ...], Any], NDArray]
"""Allocates an array of a shape and dtype, aligned to 64 bytes.

Memory for a scratch file must keep its contents when its pages are released.
"""


def private_arena(nbytes: int) -> NDArray:
    """Allocate an arena of one call frame."""
    return aligned_empty((nbytes,), np.uint8)


class CallFrame:
    """The memory of one run: arena, table of base pointers, context, and the expected arguments."""

    def __init__(
        self,
        made: Artifact,
        code: LinkedCode,
        constants: dict[int, NDArray],
        ask: ArgumentTypes,
        room: AllocateBytes,
        shelf: AllocateBytes,
    ) -> None:
        self.table = (ctypes.c_void_p * max(1, len(made.slots)))()
        self.words = np.zeros(CONTEXT_BYTES // 8, np.int64)
        self.rooms = {place: (room, made.slots[place].nbytes) for place in made.places("arena")}
        self.arenas = {place: room(nbytes) for place, (room, nbytes) in self.rooms.items()}
        self.shelves = {place: (shelf, made.slots[place].nbytes) for place in made.places("file")}
        tables = {place: np.array(made.sizes, np.int64) for place in made.places("sizes")}
        for place, array in (self.arenas | constants | tables).items():
            self.table[place] = array_address(array)
        self.shelved = False
        if self.shelves:
            self.shelve()
            forks.heir(self)
        self.sites = made.sites
        self.parallel = made.parallel
        self.streamed = made.streamed
        self.pool: thread_pool.ThreadPool | None = None
        self.ask = ask
        self.kept = code, constants, tables
        facts = {"ask": ask.address, "program": code.address(made.entry)}
        facts |= {"table": ctypes.addressof(self.table), "context": array_address(self.words)}
        self._record = np.array([facts[name] for name in CALL], np.uint64)
        self.record = ctypes.c_void_p(array_address(self._record))
        self._native = support.load_support()
        quick = made.microseconds < MAX_MICROSECONDS_WITH_GIL and not (made.parallel or made.streamed or self.shelves)
        self._brief = quick and ask.address != 0

    def shelve(self) -> None:
        """Allocate scratch files private to this process."""
        self.allocate(self.shelves)
        self.shelved = True

    def allocate(self, places: Mapping[int, tuple[AllocateBytes, int]]) -> None:
        """New memory at these places of the table."""
        for place, (room, nbytes) in places.items():
            self.arenas[place] = room(nbytes)
            self.table[place] = array_address(self.arenas[place])

    def _forked(self) -> None:
        """In a forked child: the scratch files are the parent's; new ones are allocated at the next run."""
        self.shelved = False

    @property
    def enter(self) -> Callable[[ctypes.c_void_p, tuple[Any, ...]], int]:
        """The function that runs the program once, given `record` and the arrays; it returns 0, or a status for
        `trouble`."""
        return self._native.call if self._brief else self._long

    def _long(self, record: ctypes.c_void_p, arrays: tuple[Any, ...]) -> int:
        """Run without the interpreter lock."""
        if self.shelves and not self.shelved:
            self.shelve()
        if self.parallel and (threads := thread_pool.current_pool()) is not self.pool:  # a fork replaces the pool
            self.pool = threads
            self.words[CONTEXT["pool"] // 8] = threads.address
        if self.streamed:
            self.words[CONTEXT["notes"] // 8] = page_prefetcher.prefetch_requests()
        if self.ask.address and not self._native.gather(record, arrays):
            return self._native.run(record)
        return UNFIT

    def trouble(self, code: int, arrays: tuple[Any, ...]) -> None:
        """Raise the error that the program reports; for UNFIT check the arrays in Python, copy them where needed, and
        run."""
        if code == UNFIT:
            kept = self.ask.admit(arrays, self.table)
            code = self._native.run(self.record)
            del kept  # only now: the program was reading it
        if code:
            if EXCHANGES.leave(tuple(self.arenas.values())):
                self.allocate(self.rooms)  # other processes may still send into the old ones
            site = self.sites[self.word("site")]
            raise raised_error(site, self.word("value"), self.word("axis"), self.word("size"))

    def word(self, name: str) -> int:
        """Return a word of the context."""
        return int(self.words[CONTEXT[name] // 8])

    def stop(self) -> None:
        """Ask the run in progress to end."""
        self.words[CONTEXT["stop"] // 8] = 1


class LinkedArtifact(NamedTuple):
    """Linked code and its constants, shared by executables of several sizes."""

    code: LinkedCode
    constants: dict[int, NDArray]


def link_artifact(artefact: Artifact) -> LinkedArtifact:
    """Link the code of an artefact, and lay its constants out."""
    constants = {place: artefact.pool_of_constants(place) for place in artefact.places("constant")}
    known = support.load_support().symbols | {name: external_symbols.resolve_symbol(name) for name in artefact.symbols}
    return LinkedArtifact(LinkedCode(artefact.objects, known, (artefact.entry,)), constants)


class NativeExecutable(Executable):
    """A compiled graph, loaded into this process; it unloads itself when nothing refers to it any more."""

    def __init__(
        self,
        graph: Graph,
        artefact: Artifact,
        like: LinkedArtifact | None = None,
        room: AllocateBytes = private_arena,
        streams: FileInputs = NO_FILE_INPUTS,
    ) -> None:
        if len(set(artefact.outputs)) < len(artefact.outputs):
            raise CodeError("compile: two outputs have one slot")
        self.graph = graph
        self.streams = streams
        self.resident = artefact.resident
        self._code, self.constants = like or link_artifact(artefact)
        self._room = room
        self.artefact = artefact.pooled(self.constants)
        self._inputs = artefact.inputs
        self._outputs = artefact.outputs
        self._given = numbers_without(len(self._inputs), {k for k, _ in self.resident})
        self._fresh = numbers_without(len(self._outputs), {k for _, k in self.resident})
        self._ask = self._expect(range(len(self._outputs)))
        results = [self.artefact.slots[self._outputs[k]] for k in self._fresh]
        self._makers = [result_maker(slot.shape, slot.dtype) for slot in results]
        self._frames: list[CallFrame] = []

    def _expect(self, outputs: Sequence[int], own: AddressRanges = ()) -> ArgumentTypes:
        """Return the expected types of the inputs that are not resident, followed by these outputs."""
        slots = self.artefact.slots
        places = [self._inputs[k] for k in self._given] + [self._outputs[k] for k in outputs]
        names = [self.input_name(k) for k in self._given] + [f"output {k}" for k in outputs]
        return ArgumentTypes([slots[place].type for place in places], places, names, own)

    def __call__(self, arrays: Sequence[NDArray]) -> list[NDArray]:
        check_count(arrays, len(self._inputs))
        results: list[Any] = [None] * len(self._outputs)
        for k, make in zip(self._fresh, self._makers, strict=True):
            results[k] = make()
        for given, k in self.resident:
            results[k] = self.checked(given, clone(np.asarray(arrays[given], order="C")))
        for given in self.streams.inputs:
            self.check_place(given, arrays[given])
        frame = self._take_frame()
        try:
            for given, k in self.resident:
                frame.table[self._inputs[given]] = array_address(results[k])
            bound = (*[arrays[k] for k in self._given], *results)
            code = frame.enter(frame.record, bound)
            if code:
                frame.trouble(code, bound)
        finally:
            self._leave_frame(frame)
        return results

    def quick_call(self) -> QuickCall | None:
        return None if self.resident or self.streams.inputs or not self._ask.address else self._run_if_fit

    def _run_if_fit(self, arrays: Sequence[Any]) -> list[NDArray] | None:
        results = [make() for make in self._makers]
        bound = (*arrays, *results)
        frame = self._take_frame()
        try:
            code = frame.enter(frame.record, bound)
            if code == UNFIT:
                return None
            if code:
                frame.trouble(code, bound)
        finally:
            self._leave_frame(frame)
        return results

    def _take_frame(self) -> CallFrame:
        try:
            return self._frames.pop()
        except IndexError:
            return self._frame(self._ask)

    def _leave_frame(self, frame: CallFrame) -> None:
        if len(self._frames) < SPARE_FRAMES:
            self._frames.append(frame)

    def _frame(self, ask: ArgumentTypes, room: AllocateBytes | None = None) -> CallFrame:
        folder = self.streams.folder  # and not self, which the frames would keep alive

        def shelf(nbytes: int) -> NDArray:
            return zeros_in_file((nbytes,), np.uint8, folder)

        return CallFrame(self.artefact, self._code, self.constants, ask, room or self._room, room or shelf)

    def instance(self, state: Sequence[NDArray]) -> BoundNativeExecutable:
        if self.artefact.undone and any(map(is_file_backed, state)):
            raise UnsupportedError(
                "compile: the program may fail between two of its steps, and state in files is not put back then",
                hint="take one step a call: what may fail are indices, factorisations and the like inside the steps",
            )
        return BoundNativeExecutable(self, state)

    def checked(self, k: int, array: NDArray) -> NDArray:
        """An array that can be the resident input number k; raises ShapeError for another one."""
        wanted = self.artefact.slots[self._inputs[k]].type
        flags = array.flags
        if array.shape != wanted.shape or array.dtype != wanted.dtype:
            raise ShapeError(f"call: {self.input_name(k)} must be {wanted}, not {array_type(array.shape, array.dtype)}")
        if not (flags.c_contiguous and flags.aligned and flags.writeable):
            raise ShapeError(f"call: {self.input_name(k)} must be writable, in C order and aligned")
        self.check_place(k, array)
        return array

    def check_place(self, k: int, array: NDArray) -> None:
        """Raise StorageError for an input that should lie in a file and does not: letting go of it would lose it."""
        if k in self.streams.inputs and array.nbytes and not is_file_backed(array):
            raise StorageError(f"call: {self.input_name(k)} must lie in a file, as the program was made for")

    def bound(
        self, state: Sequence[NDArray], make: AllocateArray | None = None
    ) -> tuple[CallFrame, tuple[NDArray, ...]]:
        """A frame bound to resident arrays, and to buffers for the outputs that are not resident."""
        if len(state) != len(self.resident):
            raise ShapeError(f"instance: the program keeps {len(self.resident)} arrays, not {len(state)}")
        slots = self.artefact.slots
        results = tuple(
            (make or aligned_empty)(slots[self._outputs[k]].shape, slots[self._outputs[k]].dtype) for k in self._fresh
        )
        own = sorted(array_extent(array) for array in (*state, *results) if array.nbytes)
        if any(end > start for (_, end), (start, _) in pairwise(own)):
            raise ShapeError("instance: two resident arrays share memory")
        room = None if make is None else lambda nbytes: make((nbytes,), np.uint8)
        frame = self._frame(self._expect((), own), room)
        for (given, k), array in zip(self.resident, state, strict=True):
            frame.table[self._inputs[given]] = frame.table[self._outputs[k]] = array_address(self.checked(given, array))
        for k, array in zip(self._fresh, results, strict=True):
            frame.table[self._outputs[k]] = array_address(array)
        return frame, results


class NativeCode(LoadedCode):
    """An artifact that is linked into this process."""

    def __init__(self, graph: Graph, artefact: Artifact) -> None:
        self.graph = graph
        self.linked = link_artifact(artefact)
        self.artefact = artefact.pooled(self.linked.constants)
        self.nbytes = sum(map(len, artefact.objects))
        self.arena = sum(slot.nbytes for slot in artefact.slots if slot.kind == "arena")

    def executable(self, streams: FileInputs) -> NativeExecutable:
        return NativeExecutable(self.graph, self.artefact, self.linked, streams=streams)

    def at_sizes(self, sizes: Mapping[str, int], arena: AllocateBytes | None) -> NativeExecutable:
        return NativeExecutable(self.graph, self.artefact.at_sizes(sizes), self.linked, arena or private_arena)


class BoundNativeExecutable(BoundExecutable):
    """A compiled program bound to its resident arrays; calls from several threads wait for each other."""

    def __init__(self, program: NativeExecutable, state: Sequence[NDArray], make: AllocateArray | None = None) -> None:
        self.state = tuple(state)
        self._frame, self._results = program.bound(self.state, make)
        self._enter, self._record = self._frame.enter, self._frame.record
        self._undone = program.artefact.undone
        self._lock = threading.RLock()
        forks.heir(self)

    def __call__(self, arrays: Sequence[NDArray], strict: bool = False) -> Sequence[NDArray]:
        given = arrays if type(arrays) is tuple else tuple(arrays)
        with self._lock:
            # A program that may fail in the middle of a loop has changed its state by then.
            before = [array.copy() for array in self.state] if self._undone else ()
            code = self._enter(self._record, given)
            if code:
                if strict and code == UNFIT:
                    raise UnfitArguments
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
        if left or any(map(is_file_backed, self.state)):
            self._enter = refuse_after_fork
        if left:
            self._lock = threading.RLock()


def refuse_after_fork(record: ctypes.c_void_p, arrays: tuple[Any, ...]) -> int:
    """Refuse a run on state that a fork may have left inconsistent."""
    raise ForkedError(
        "call: this process was forked while another thread ran the program on this state, or the state lies in files",
        hint="compile it in the child",
    )
