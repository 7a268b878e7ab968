"""Interpreter: the meaning of a kernel in NumPy; every axis in scope is one dimension of the arrays that it computes.

Independent and folding loops run over all their points at once, in pieces where there are many; an ordered loop runs
step by step. The schedule is ignored, since it changes nothing but the order of a fold. In a kernel with barriers or
scratch memory every thread runs by itself, up to its next barrier, before the next thread of the workgroup does; all
run at once, with equal results, where none accesses an element that another one writes between the same two barriers.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Generator, Mapping, Sequence
from copy import copy
from typing import Any

import numpy as np
from scipy import special
from tests.kernel.thread_accesses import OrderShows, ThreadAccesses

from wholestep.dims import Size, most, supposing
from wholestep.errors import KernelError
from wholestep.kernel.lang import Axis, Barrier, Buffer, Fold, Index, Kernel, Loop, Statement, Store, Var, walk
from wholestep.kernel.ops import FOLDS, OPS, halves_bf16x2
from wholestep.kernel.workgroups import find_workgroup, has_barrier

Array = np.ndarray[Any, Any]

POINTS = 1 << 20
"""About how many points are computed at once."""


def run_kernel(
    kernel: Kernel,
    arrays: Sequence[Array],
    calls: Mapping[str, Callable[..., Any]] | None = None,
    sizes: Mapping[str, int] | None = None,
    order: Callable[[int], Sequence[int]] = range,
) -> None:
    """Run a kernel on flat arrays, one for each of its buffers; those that it writes are written in place.

    `calls` has external functions by name; the others are those of scipy.special (`special.gammaln:dd`). `sizes` has
    a number for each name in symbolic sizes. `order` is that in which so many threads of a workgroup run between
    barriers; no result of a kernel without races depends on it.
    Raises KernelError where an array does not fit its buffer, an index leaves it, scratch memory is read before it is
    written, or some threads get to a barrier that others do not.
    """
    if len(arrays) != len(kernel.buffers):
        raise KernelError(f"run: {kernel.name} has {len(kernel.buffers)} buffers, {len(arrays)} arrays were given")
    for buffer, array in zip(kernel.buffers, arrays, strict=True):
        if array.dtype != buffer.dtype or array.shape != (buffer.size,):
            wanted = f"{buffer.name}: {buffer.dtype} ({buffer.size},)"
            raise KernelError(f"run: {kernel.name} wants {wanted}, given was {array.dtype} {array.shape}")
    given = kernel, dict(zip(kernel.buffers, arrays, strict=True)), calls or {}, sizes or {}
    if not run_at_once(ThreadsAtOnce(*given), arrays):
        run_in_order(KernelInterpreter(*given), order)


def run_in_order(machine: KernelInterpreter, order: Callable[[int], Sequence[int]]) -> None:
    """Run the threads of each workgroup one after another, each to its next barrier."""
    machine.order = order
    with np.errstate(all="ignore"):
        machine.meet([machine.block(machine.kernel.body)])


def run_at_once(machine: ThreadsAtOnce, arrays: Sequence[Array]) -> bool:
    """Run the threads of each workgroup at once; False, with the arrays restored, where their order could matter."""
    if not machine.threads or not machine.accesses.known or not machine.whole.isdisjoint(machine.threads):
        return False
    written = [i for i, b in enumerate(machine.kernel.buffers) if b in machine.accesses.stored]
    before = [arrays[i].copy() for i in written]
    try:
        with np.errstate(all="ignore"):
            machine.meet([machine.block(machine.kernel.body)])
    except (OrderShows, KernelError):
        for i, held in zip(written, before, strict=True):
            arrays[i][:] = held
        return False
    return True


Meeting = Generator[Barrier, None, None]
"""The execution of a part of a kernel, which yields at each barrier."""


class KernelInterpreter:
    """The values in scope. A value has one dimension for each loop around it, of length 1 where it does not vary.

    `active` is the mask of the points at which the guards of the loops around allow loads and stores.
    """

    def __init__(
        self,
        kernel: Kernel,
        memory: dict[Buffer, Array],
        calls: Mapping[str, Callable[..., Any]],
        sizes: Mapping[str, int],
    ) -> None:
        self.name = kernel.name
        self.kernel = kernel
        self.memory = memory
        self.calls = calls
        self.sizes = sizes
        self.values: dict[Axis | Var, Array] = {}
        self.shape: tuple[int, ...] = ()
        self.active: Array = np.asarray(True)
        self.whole = {s.attr[1] for s in walk(kernel.body) if isinstance(s, Var) and s.op == "across"}
        self.depth_of: dict[Axis, int] = {}
        self.order: Callable[[int], Sequence[int]] = range
        group = find_workgroup(kernel)
        workgroups = bool(kernel.scratch) or has_barrier(kernel)
        self.grid, self.threads = (group.grid, group.threads) if workgroups else ((), ())
        self.within = False
        """True inside the loops over threads."""
        self.point: dict[Axis, int] = {}
        """The indices of this thread along the thread axes."""
        self.stored: dict[Buffer, Array] = {}
        """Of scratch memory, the elements that were written."""

    def __getitem__(self, key: Axis | Var) -> Array:
        """A value, or the numbers of an axis, with as many dimensions as there are loops."""
        found = self.values[key]
        return found.reshape(found.shape + (1,) * (len(self.shape) - found.ndim))

    def block(self, body: tuple[Statement, ...]) -> Meeting:
        """Execute statements; yields each barrier that it gets to."""
        for statement in body:
            if isinstance(statement, Loop):
                if statement.axis in self.threads and not self.within:
                    self.workgroup(statement)
                else:
                    yield from self.loop(statement)
            elif isinstance(statement, Barrier):
                yield from self.barrier(statement)
            elif isinstance(statement, Store):
                self.store(statement)
            else:
                self.values[statement] = self.value(statement)

    def barrier(self, barrier: Barrier) -> Meeting:
        """Wait for the other threads."""
        yield barrier

    def workgroup(self, loop: Loop) -> None:
        """Execute the loops over threads, each of which has its own values and private memory."""
        self.allocate("shared")
        threads = []
        for point in itertools.product(*[range(a.extent) for a in self.threads]):
            thread = copy(self)
            thread.memory, thread.values, thread.stored = dict(self.memory), dict(self.values), dict(self.stored)
            thread.depth_of, thread.point = dict(self.depth_of), dict(zip(self.threads, point, strict=True))
            thread.within = True
            thread.allocate("private")
            threads.append(thread)
        self.meet([t.block((loop,)) for t in threads])

    def allocate(self, space: str) -> None:
        """Make fresh memory for the buffers in a space, in which nothing is written."""
        for b in self.kernel.scratch:
            if b.space == space:
                self.memory[b], self.stored[b] = np.zeros(b.size, b.dtype), np.zeros(b.size, bool)

    def meet(self, threads: list[Meeting]) -> None:
        """Run all threads from barrier to barrier, until all have ended; raises KernelError if some miss a barrier."""
        reached: list[Barrier | None] = []
        while not reached or reached[0] is not None:
            reached = [None] * len(threads)
            for i in self.order(len(threads)):
                reached[i] = next(threads[i], None)
            if any(barrier is not reached[0] for barrier in reached):
                raise KernelError(f"run: {self.name} has a barrier that not all threads of a workgroup get to")
            if reached and reached[0] is not None and not self.threads:
                raise KernelError(f"run: {self.name} has a barrier outside of the loops over threads")

    def loop(self, loop: Loop) -> Meeting:
        axis, outside, active = loop.axis, self.shape, self.active
        folded = {fold: self[fold.init] for fold in loop.folds}
        carried = {carry: self[carry.init] for carry in loop.carries}
        asked = active if loop.guard is None else active & self[loop.guard]
        self.depth_of[axis] = len(outside)
        piece = self.piece(loop)
        end = self.size(axis.size)
        at = self.point.get(axis)
        first, end = (0, end) if at is None else (at, at + 1)
        for start in range(first, end if asked.any() else 0, piece):
            here = np.arange(start, min(start + piece, end), dtype=np.int64)
            self.shape, self.active = (*outside, here.size), asked[..., None]
            self.values[axis] = here.reshape((1,) * len(outside) + (-1,))
            for carry, held in carried.items():
                self.values[carry.inside] = held[..., None]
            yield from self.block(loop.body)
            folded = {fold: np.where(asked, self.folded(fold, before), before) for fold, before in folded.items()}
            carried = {c: np.where(asked, self[c.next][..., 0], before) for c, before in carried.items()}
        self.shape, self.active = outside, active
        self.values.update({fold.result: total for fold, total in folded.items()})
        self.values.update({carry.after: held for carry, held in carried.items()})

    def size(self, size: Size) -> int:
        """The number that a size is here."""
        with supposing(self.sizes):
            return most(size)

    def piece(self, loop: Loop) -> int:
        """The number of steps of a loop that are taken at once."""
        if loop.ordered or loop.carries or loop.axis in self.grid:
            return 1
        if loop.axis in self.whole:
            return max(self.size(loop.axis.size), 1)
        points = int(np.prod(self.shape, dtype=np.int64)) * parallel_points(loop.body)
        return max(POINTS // points, 1)

    def folded(self, fold: Fold, before: Array) -> Array:
        """The result of a fold over the current steps, which are the last dimension."""
        values = [self[v] for v in fold.values]
        if fold.op == "dot_bf16x2":
            (a, b), (c, d) = map(halves_bf16x2, values)
            term = a * c + b * d
        else:
            term = values[0] * values[1] if fold.op == "fma" else values[0]
        return np.asarray(FOLDS[fold.op].meaning(before, self.reduced(fold.op, term, len(self.shape) - 1)[..., 0]))

    def reduced(self, op: str, term: Array, dim: int) -> Array:
        """A reduction along a dimension, which stays with length 1."""
        full = (*term.shape[:dim], self.shape[dim], *term.shape[dim + 1 :])
        reduction: Any = FOLDS[op].meaning
        return np.asarray(reduction.reduce(np.broadcast_to(term, full), axis=dim, dtype=term.dtype, keepdims=True))

    def value(self, var: Var) -> Array:
        args = [self[a] for a in var.args]
        match var.op:
            case "const":
                found = var.attr
            case "size":
                found = self.size(var.attr)
            case "index":
                found = self.index(var.attr)
            case "load":
                found = self.load(*var.attr, *args)
            case "convert":
                found = args[0].astype(var.dtype)
            case "bits":
                found = args[0].view(var.dtype)
            case "across":
                found = self.reduced(var.attr[0], args[0], self.depth_of[var.attr[1]])
            case "call":
                found = self.function(var.attr)(*args)
            case _:
                found = OPS[var.op].meaning(*args)
        return np.asarray(found, var.dtype)

    def index(self, index: Index) -> Array:
        total = np.asarray(index.const, np.int64)
        for key, factor in index.terms.items():
            total = total + self[key].astype(np.int64) * factor
        return np.asarray(total)

    def load(self, buffer: Buffer, index: Index, guard: Array | None = None) -> Array:
        asked, at = self.active if guard is None else self.active & guard, self.index(index)
        if asked.all():
            return self.elements(buffer, at)
        at, asked = self.spread(at, asked)
        found = np.zeros(at.shape, buffer.dtype)
        found[asked] = self.elements(buffer, at, asked)
        return found

    def elements(self, buffer: Buffer, at: Array, asked: Array | None = None) -> Array:
        """The elements at these indices, where `asked` holds."""
        place = self.place(buffer, at, asked)
        if buffer in self.stored and not self.stored[buffer][place].all():
            raise KernelError(f"run: {self.name} reads {buffer.name}, in {buffer.space} memory, before it is written")
        return np.asarray(self.memory[buffer][place])

    def store(self, store: Store) -> None:
        guard = self.active if store.guard is None else self.active & self[store.guard]
        at, value, guard = self.spread(self.index(store.index), self[store.value], guard)
        place = self.place(store.buffer, at, guard, stores=True)
        self.memory[store.buffer][place] = value[guard]
        if store.buffer in self.stored:
            self.stored[store.buffer][place] = True

    def spread(self, *arrays: Array) -> Sequence[Array]:
        """Arrays of one shape, with an element for each thread that runs."""
        return np.broadcast_arrays(*arrays)

    def place(self, buffer: Buffer, at: Array, asked: Array | None = None, stores: bool = False) -> Array:
        """The indices of the elements in memory, where `asked` holds; raises KernelError for indices out of range."""
        at = at if asked is None else at[asked]
        wrong = at[(at < 0) | (at >= buffer.size)]
        if wrong.size:
            raise KernelError(
                f"run: {self.name} touches {buffer.name}[{wrong.flat[0]}], which has {buffer.size} elements"
            )
        return at

    def function(self, symbol: str) -> Callable[..., Any]:
        """An external function: one that was given, or one of scipy.special."""
        if symbol in self.calls:
            return self.calls[symbol]
        family, _, name = symbol.partition(".")
        base = re.split("[.:]", name)[0]
        found: Callable[..., Any] | None = getattr(special, base, None) if family == "special" else None
        if found is None:
            raise KernelError(f"run: {self.name} calls {symbol!r}, which is not known here")
        return found


def parallel_points(body: tuple[Statement, ...]) -> int:
    """The number of points of the loops of a body that are computed at once."""
    inner = [(1 if s.ordered else s.axis.extent) * parallel_points(s.body) for s in body if isinstance(s, Loop)]
    return max([1, *inner])


class ThreadsAtOnce(KernelInterpreter):
    """All threads of a workgroup at once: their loops are dimensions like others, with private memory for each thread.

    Raises OrderShows where threads one after another could give other results.
    """

    def __init__(self, kernel: Kernel, *given: Any) -> None:
        super().__init__(kernel, *given)
        self.extents = [a.extent for a in self.threads]
        self.accesses = ThreadAccesses(kernel, self.memory, math.prod(self.extents))

    def workgroup(self, loop: Loop) -> None:
        self.allocate("shared")
        self.allocate("private")
        self.accesses.meet()
        self.within = True
        self.meet([self.loop(loop)])
        self.within = False

    def allocate(self, space: str) -> None:
        super().allocate(space)
        for b in self.kernel.scratch if space == "private" else ():
            if b.space == space:
                self.memory[b], self.stored[b] = [
                    np.tile(x[b], self.accesses.count) for x in (self.memory, self.stored)
                ]

    def barrier(self, barrier: Barrier) -> Meeting:
        if not self.within:
            yield barrier
        if not self.active.all() or math.prod(self.shape) != self.accesses.count:
            raise OrderShows
        self.accesses.meet()

    def piece(self, loop: Loop) -> int:
        return loop.axis.extent if loop.axis in self.threads else super().piece(loop)

    def numbers(self) -> Array:
        """The numbers of the threads, in the dimensions of their loops."""
        after = len(self.shape) - len(self.grid) - len(self.threads)
        if after < 0:
            raise OrderShows
        return np.arange(self.accesses.count).reshape((1,) * len(self.grid) + (*self.extents,) + (1,) * after)

    def spread(self, *arrays: Array) -> Sequence[Array]:
        return np.broadcast_arrays(*arrays, self.numbers())[:-1] if self.within else super().spread(*arrays)

    def place(self, buffer: Buffer, at: Array, asked: Array | None = None, stores: bool = False) -> Array:
        found = super().place(buffer, at, asked)
        if not self.within or not (buffer.space == "private" or buffer in self.accesses.writers):
            return found
        at, threads = np.broadcast_arrays(at, self.numbers())
        if asked is None:
            found = at
        else:
            threads = threads[asked]
        if buffer.space == "private":
            return np.asarray(found + threads * buffer.size)
        (self.accesses.store if stores else self.accesses.load)(buffer, found, threads)
        return found
