"""Scalars of float64 for cards without it: the host computes them before a launch, and the card loads the results.

kernel k(lr: f64[1], g: f32[9], mut w: f32[9]): v0 = lr[0]; v1 = f32(v0); for i in 9: ...
-->
the host: x0 = f32(lr[0]); the card: kernel k(..., x0: f32[1]): v1 = x0[0]; for i in 9: ...
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.errors import KernelError
from wholestep.ir.graph import NDArray
from wholestep.kernel.lang import Buffer, DType, Index, Kernel, Loop, Statement, Store, Var, walk
from wholestep.kernel.ops import OPS
from wholestep.kernel.schedule import PartReplacement
from wholestep.kernel.summation import live_variables
from wholestep.lower.program.steps import MemRef

F64 = np.dtype(np.float64)


class Element(NamedTuple):
    """An element of one of a kernel's buffers, by their numbers."""

    buffer: int
    place: int


class ScalarOperation(NamedTuple):
    """An operation on the values of these numbers; `extra` is the word of a constant, or the number of a load or of a
    given."""

    op: str
    dtype: str
    args: tuple[int, ...] = ()
    extra: int = 0


class HostStep(NamedTuple):
    """Scalar code of the host: the places that it loads, with their dtypes, its operations, and the places that it
    stores, each with the number of its value."""

    loads: tuple[tuple[MemRef, str], ...]
    code: tuple[ScalarOperation, ...]
    stores: tuple[tuple[MemRef, int], ...]


class HostScalars(NamedTuple):
    """Scalar code of a kernel: the elements that it loads, its operations, and the elements that it stores, each with
    the number of its value."""

    loads: tuple[Element, ...]
    code: tuple[ScalarOperation, ...]
    stores: tuple[tuple[Element, int], ...]

    def at(self, refs: Sequence[MemRef], types: Sequence[DType]) -> HostStep:
        """The code for buffers at these places and of these dtypes."""

        def place(x: Element) -> MemRef:
            return refs[x.buffer].shifted(x.place * types[x.buffer].itemsize)

        loads = [(place(x), dtypes.short(types[x.buffer])) for x in self.loads]
        return HostStep(tuple(loads), self.code, tuple([(place(x), number) for x, number in self.stores]))


class SplitKernel(NamedTuple):
    """The host's and the card's part of a kernel, each None if empty; the card's has a buffer for each of `added`."""

    host: HostScalars | None
    card: Kernel | None
    added: tuple[DType, ...] = ()


def split_kernel(kernel: Kernel) -> SplitKernel:
    """The parts of a kernel for a card without float64; raises KernelError for float64 that is no scalar."""
    values = [s for s in walk(kernel.body) if isinstance(s, Var)]
    if not any(is_wide(v) for v in values) and not any(b.dtype == F64 and b.written for b in kernel.buffers):
        return SplitKernel(None, kernel)
    return KernelSplitting(kernel).parts()


def is_wide(v: Var) -> bool:
    """Test whether a value or one of its operands is float64."""
    return v.dtype == F64 or any(x.dtype == F64 for x in v.args)


class KernelSplitting:
    """The host's part of a kernel, as it is found."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.numbers: dict[Var, int] = {}
        self.loads: list[Element] = []
        self.code: list[ScalarOperation] = []
        self.stores: list[tuple[Element, int]] = []
        loops = [s for s in walk(kernel.body) if isinstance(s, Loop)]
        self.once = [s for s in loops if s.axis.extent == 1 and s.carries and not s.folds]
        self.alone = len(self.once) == len(loops)
        self.inside = {c.inside: c.init for s in self.once for c in s.carries}
        self.after = {c.after: (s.guard, c.init, c.next) for s in self.once for c in s.carries}
        self.replaced: dict[Var, Buffer] = {}
        self.live = self.card_values()

    def card_values(self) -> set[Var]:
        """The values from which the card computes its stores and loops, back to those with float64, which are the
        host's."""
        statements = [s for s in walk(self.kernel.body) if not (isinstance(s, Store) and s.buffer.dtype == F64)]
        waiting = [v for s in statements if isinstance(s, Store | Loop) for v in s.reads()]
        found: set[Var] = set()
        while waiting:
            v = waiting.pop()
            if v not in found:
                found.add(v)
                waiting += () if is_wide(v) else v.reads()
        return found

    def parts(self) -> SplitKernel:
        """Both parts."""
        if self.alone:
            for s in walk(self.kernel.body):
                if isinstance(s, Store):
                    self.store(s)
            return SplitKernel(self.host(), None)
        rest = self.without(self.kernel.body)
        made = PartReplacement({}, {})
        loads = []
        for v, buffer in self.replaced.items():
            made.new[v] = load = Var("load", (), v.dtype, (buffer, Index()))
            loads.append(load)
        added = tuple(self.replaced.values())
        card = Kernel(self.kernel.name, (*self.kernel.buffers, *added), (*loads, *made.body(rest)), self.kernel.scratch)
        if any(is_wide(v) for v in live_variables(card)):
            raise KernelError("float64 that the card computes with")
        return SplitKernel(self.host(), card, tuple([b.dtype for b in added]))

    def host(self) -> HostScalars:
        """The host's part."""
        return HostScalars(tuple(self.loads), tuple(self.code), tuple(self.stores))

    def without(self, body: Sequence[Statement]) -> tuple[Statement, ...]:
        """Statements without those of float64, whose results become elements of buffers."""
        out: list[Statement] = []
        for s in body:
            if isinstance(s, Var):
                if s in self.live and not is_wide(s):
                    out.append(s)
                elif s in self.live and s.dtype != F64:
                    self.replace(s)
            elif isinstance(s, Store) and s.buffer.dtype == F64:
                self.store(s)
            elif s in self.once and any(isinstance(v, Var) and is_wide(v) for v in walk((s,))):
                if any(isinstance(inner, Store) for inner in walk(s.body)):
                    raise KernelError("float64 beside a store in a branch")
                for c in s.carries:
                    if c.after in self.live and c.after.dtype != F64:
                        self.replace(c.after)
            elif isinstance(s, Loop):
                out.append(Loop(s.axis, self.without(s.body), s.folds, s.carries, s.ordered, s.guard))
            else:
                out.append(s)
        return tuple(out)

    def replace(self, v: Var) -> None:
        """Let the host compute a value, and store it where the card finds it."""
        number = self.number(v)
        self.replaced[v] = Buffer(f"x{len(self.replaced)}", v.dtype, 1)
        self.stores.append((Element(len(self.kernel.buffers) + len(self.replaced) - 1, 0), number))

    def store(self, s: Store) -> None:
        """Assign a store to the host."""
        if s.index.terms or (s.guard is not None and not self.is_first(s.guard)):
            raise KernelError("float64 that is stored to more than one element")
        self.stores.append((Element(self.kernel.buffers.index(s.buffer), s.index.const), self.number(s.value)))

    def is_first(self, guard: Var) -> bool:
        """Test whether a guard holds for one thread of a workgroup alone."""
        if guard.op != "eq" or guard.args[0].op != "index" or guard.args[1].op != "const":
            return False
        return all(getattr(axis, "thread", False) for axis in guard.args[0].attr.terms)

    def number(self, v: Var) -> int:
        """The number of a value in the host's code."""
        if v not in self.numbers:
            self.numbers[v] = self.written(v)
        return self.numbers[v]

    def written(self, v: Var) -> int:
        """Write a value and its operands; returns the number of the value."""
        if v in self.inside:
            return self.number(self.inside[v])
        if v in self.after:
            guard, init, following = self.after[v]
            if guard is None:
                return self.number(following)
            return self.put("select", v.dtype, (guard, following, init))
        if v.op == "const":
            return self.put("const", v.dtype, (), word_of_number(v.attr, v.dtype))
        if v.op == "load" and not v.args and not v.attr[1].terms:
            self.loads.append(Element(self.kernel.buffers.index(v.attr[0]), v.attr[1].const))
            return self.put("load", v.dtype, (), len(self.loads) - 1)
        if v.op in OPS or v.op in ("convert", "bits"):
            return self.put(v.op, v.dtype, v.args)
        raise KernelError(f"float64 that depends on {v.op}")

    def put(self, op: str, dtype: DType, args: Sequence[Var], extra: int = 0) -> int:
        """Write one operation; returns its number."""
        numbers = tuple([self.number(x) for x in args])
        self.code.append(ScalarOperation(op, dtypes.short(dtype), numbers, extra))
        return len(self.code) - 1


def word_of_number(value: Any, dtype: DType) -> int:
    """The bits of a number."""
    return int(np.asarray(value, dtype).reshape(1).view(f"u{dtype.itemsize}")[0])


def compute_scalars(scalars: HostScalars | HostStep, given: Sequence[NDArray]) -> list[NDArray]:
    """The arrays of one element that scalar code stores, from those that it loads."""
    values: list[NDArray] = []
    with np.errstate(all="ignore"):
        for op, short, args, extra in scalars.code:
            dtype, xs = dtypes.from_short(short), [values[i] for i in args]
            if op == "load":
                found = given[extra]
            elif op == "const":
                found = np.array([extra], f"u{dtype.itemsize}").view(dtype)
            elif op == "convert":
                found = xs[0].astype(dtype)
            elif op == "bits":
                found = xs[0].view(dtype)
            else:
                found = np.asarray(OPS[op].meaning(*xs), dtype)
            values.append(found)
    return [values[i] for _, i in scalars.stores]
