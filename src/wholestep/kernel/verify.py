"""The kernel verifier: values in scope and well typed, indices inside, iterations independent, barriers uniform."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from wholestep.dims import Dim
from wholestep.errors import KernelError
from wholestep.kernel.accesses import MemoryAccess
from wholestep.kernel.dependence import ValueRanges, find_conflict, find_late_copy, varying_axes
from wholestep.kernel.lang import (
    BOOL,
    I32,
    I64,
    Axis,
    Carry,
    DType,
    Fold,
    Index,
    Kernel,
    Loop,
    Statement,
    Store,
    Var,
    walk,
)
from wholestep.kernel.ops import FOLDS, OPS, fold_dtype
from wholestep.kernel.text import KernelPrinter
from wholestep.kernel.workgroups import barrier_problem, find_workgroup, scratch_problem, thread_problem

U32 = np.dtype(np.uint32)
SYMBOL = re.compile(r"[\w.:]+")


def is_verified(kernel: Kernel) -> bool:
    """Test whether a kernel is well formed, and provably free of races."""
    try:
        verify_kernel(kernel)
    except KernelError:
        return False
    return True


def verify_kernel(kernel: Kernel) -> None:
    """Check a kernel; raises KernelError that shows the statement and its neighbours."""
    checker = KernelVerifier(kernel)
    for b in (*kernel.buffers, *kernel.scratch):
        checker.require(b if b in kernel.scratch else kernel, scratch_problem(kernel, checker.group, b))
    checker.body(kernel.body)
    stored = {a.buffer for a in checker.accesses if isinstance(a.source, Store)}
    for a in checker.accesses:
        if not a.path and kernel.outer is not None and a.buffer in stored:
            raise checker.wrong(f"{a.buffer} is loaded before a loop that may be shared out and stores to it", a.source)
    fault = find_conflict(kernel, checker.accesses, checker.varies) or find_late_copy(kernel, checker.accesses)
    if fault is not None:
        raise checker.wrong(fault.problem, fault.source)


def result_dtype(op: str, args: tuple[Var, ...]) -> DType:
    """The dtype of an operation's result, given its operands."""
    return BOOL if OPS[op].gives == "b" else args[-1].dtype


def dtype_kind(dtype: DType) -> str:
    """The kind that operations take: "b", "i", "f"; other dtypes are only stored, and have their own letter."""
    if dtype.kind in "iu":
        return "i"
    return "f" if dtype in (np.float32, np.float64) else "b" if dtype == BOOL else "h"


class OpenLoopCheck(NamedTuple):
    """A loop that is being checked, and the values defined in it."""

    loop: Loop | None
    made: list[Var]


class KernelVerifier:
    """One walk over a kernel that keeps the values in scope and the memory accesses."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.group = find_workgroup(kernel)
        self.varies = varying_axes(kernel)
        self.made: set[Var] = set()
        self.sight: set[Var] = set()
        self.frames = [OpenLoopCheck(None, [])]
        self.path: tuple[Loop, ...] = ()
        self.accesses: list[MemoryAccess] = []
        self.ranges = ValueRanges()

    def wrong(self, problem: str, source: object) -> KernelError:
        """The error of a statement, with the lines around it in the kernel's text."""
        lines = KernelPrinter().kernel(self.kernel)
        at = next(i for i, line in enumerate(lines) if line.source is source)
        shown = [f"  {'->' if i == at else '  '} {line.text}" for i, line in enumerate(lines) if abs(i - at) <= 5]
        return KernelError("\n".join([f"verify: {problem}", *shown]))

    def body(self, body: tuple[Statement, ...]) -> None:
        for s in body:
            if isinstance(s, Loop):
                self.loop(s)
            elif isinstance(s, Var):
                self.require(s, self.value(s))
            elif isinstance(s, Store):
                self.require(s, self.store(s))
            else:
                self.require(s, barrier_problem(self.path, self.group, self.varies))

    def loop(self, loop: Loop) -> None:
        problem = self.axis(loop) or ("" if loop.guard is None else self.guard(loop.guard))
        if problem:
            raise self.wrong(problem, loop)
        for c in loop.carries:
            self.require(c, self.carried(c))
        self.path = (*self.path, loop)
        self.frames.append(OpenLoopCheck(loop, []))
        for c in loop.carries:
            self.require(c, self.define(c.inside))
        self.body(loop.body)
        for c in loop.carries:
            self.require(c, self.seen(c.next))
        for f in loop.folds:
            self.left(f)
        self.path = self.path[:-1]
        self.sight.difference_update(self.frames.pop().made)
        for f in loop.folds:
            self.require(f, self.seen(f.init) or self.define(f.result))
        for c in loop.carries:
            self.require(c, self.define(c.after))

    def require(self, source: object, problem: str) -> None:
        if problem:
            raise self.wrong(problem, source)

    def axes(self) -> list[Axis]:
        return [loop.axis for loop in self.path]

    def axis(self, loop: Loop) -> str:
        axis = loop.axis
        if axis in self.axes():
            return f"the loop over {axis} stands inside another one over it"
        if min(axis.extent, axis.ahead) < 0 or axis.tile < 1 or axis.lanes < 1 or axis.lanes & (axis.lanes - 1):
            least = "an extent and steps ahead of at least 0, a tile of at least 1"
            return f"{axis} wants {least} and lanes that are a power of two"
        if not loop.ordered and not all(folds_across_loops(loop, c) for c in loop.carries):
            return f"the loop over {axis} carries values and so must be ordered"
        if axis.lanes > 1 and (loop.ordered or loop.carries):
            return f"the steps of a loop that are in order, over {axis}, cannot be the lanes of a vector"
        if axis.lanes > 1 and any(a.lanes > 1 for a in self.axes()):
            return f"{axis} has lanes inside the loop over an axis that has lanes"
        return thread_problem(axis, self.group)

    def carried(self, c: Carry) -> str:
        if (c.inside.op, c.after.op) != ("carry", "carried"):
            return "a carry goes from a value `carry` to a value `carried`"
        if len({c.init.dtype, c.inside.dtype, c.next.dtype, c.after.dtype}) > 1:
            return f"a carry of dtype {c.inside.dtype} is given {c.init.dtype} at first and {c.next.dtype} then"
        return self.seen(c.init)

    def left(self, f: Fold) -> None:
        """Check the operands and dtypes of a fold."""
        self.require(f, self.reduction(f.op, f.values) or self.seen(*f.values))
        dtype = fold_dtype(f.op, f.values[0].dtype)
        if f.result.op != "fold" or {f.result.dtype, f.init.dtype} != {dtype}:
            raise self.wrong(f"a fold of {f.values[0].dtype} wants a first value and a result of {dtype}", f)

    def reduction(self, op: str, values: tuple[Var, ...]) -> str:
        known = FOLDS.get(op)
        if known is None:
            return f"{op} is no fold: the folds are {', '.join(FOLDS)}"
        if len(values) != known.arity or len({v.dtype for v in values}) != 1:
            return f"a fold by {op} takes {known.arity} values of one dtype"
        return dtype_refusal(op, known.takes, values[0].dtype)

    def seen(self, *values: Var) -> str:
        for v in values:
            if v not in self.sight:
                return f"a value ({v!r}) is used that is made later, in another loop, or nowhere"
        return ""

    def define(self, var: Var) -> str:
        if var in self.made:
            return f"{var!r} is made twice"
        self.made.add(var)
        self.sight.add(var)
        self.frames[-1].made.append(var)
        return ""

    def value(self, var: Var) -> str:
        return self.seen(*var.args) or RULES.get(var.op, check_operation)(self, var) or self.define(var)

    def store(self, store: Store) -> str:
        if not store.buffer.written:
            return f"{store.buffer} is stored to, but not marked as written"
        if store.value.dtype != store.buffer.dtype:
            return f"{store.value.dtype} is stored to {store.buffer}, which holds {store.buffer.dtype}"
        return self.seen(store.value) or self.touch(
            MemoryAccess(store, store.buffer, store.index, self.path, store.guard)
        )

    def index(self, index: Index) -> str:
        for key in index.terms:
            if isinstance(key, Axis) and key not in self.axes():
                return f"an index uses {key} outside its loop"
            if isinstance(key, Var) and dtype_kind(key.dtype) != "i":
                return f"an index uses a value of dtype {key.dtype}"
        return self.seen(*index.values())

    def touch(self, access: MemoryAccess) -> str:
        """Check that a load or store is in bounds, as far as that is known at compile time."""
        if access.buffer not in (*self.kernel.buffers, *self.kernel.scratch):
            return f"{access.buffer} is no buffer of the kernel"
        if access.buffer.space != "global" and not {*self.group.threads} <= {*self.axes()}:
            return f"{access.buffer} is {access.buffer.space} memory, touched outside of the loops over threads"
        problem = self.index(access.offset) or ("" if access.guard is None else self.guard(access.guard))
        if problem:
            return problem
        if not all(axis.extent for axis in self.axes()):
            return ""  # never reached
        self.accesses.append(access)
        low, high = self.ranges.index(access.offset)
        surely = access.guard is None and all(loop.guard is None for loop in self.path)
        if surely and (-math.inf < low < 0 or access.buffer.size <= high < math.inf):
            return f"{access.buffer}[{low}] to [{high}] are touched, it has {access.buffer.size} elements"
        return ""

    def guard(self, guard: Var) -> str:
        return self.seen(guard) or ("" if guard.dtype == BOOL else f"a guard is a bool, not {guard.dtype}")


def folds_across_loops(loop: Loop, carry: Carry) -> bool:
    """Test whether a carry is the accumulator of a fold inside the loop, which is then a fold over both loops."""
    inner = [s for s in loop.body if isinstance(s, Loop)]
    uses = [v for s in walk(loop.body) if isinstance(s, Var) for v in s.reads()]
    uses += [s.value for s in walk(loop.body) if isinstance(s, Store)]
    ends = [f.result for s in inner for f in s.folds if f.init is carry.inside]
    ends += [c.after for s in inner for c in s.carries if c.init is carry.inside and folds_across_loops(s, c)]
    return ends == [carry.next] and carry.inside not in uses


def dtype_refusal(op: str, takes: str, dtype: DType) -> str:
    """The reason why an operation does not take a dtype; empty where it does."""
    if dtype_kind(dtype) in takes or (takes == "w" and dtype == U32):
        return ""
    how = ", which is computed with in float32" if dtype_kind(dtype) == "h" else ""
    return f"{op} does not take {dtype}{how}"


def check_operation(checker: KernelVerifier, var: Var) -> str:
    op = OPS.get(var.op)
    if op is None:
        return f"{var.op} is no operation that stands by itself"
    if len(var.args) != op.arity:
        return f"{var.op} takes {op.arity} values, not {len(var.args)}"
    chosen = var.args[1:] if var.op == "select" else var.args
    if var.op == "select" and var.args[0].dtype != BOOL:
        return f"select chooses by a bool, not by {var.args[0].dtype}"
    if len({v.dtype for v in chosen}) != 1:
        return f"{var.op} wants values of one dtype, not {' and '.join(str(v.dtype) for v in chosen)}"
    if var.dtype != result_dtype(var.op, var.args):
        return f"{var.op} gives {result_dtype(var.op, var.args)}, not {var.dtype}"
    return dtype_refusal(var.op, op.takes, chosen[0].dtype)


def check_const(checker: KernelVerifier, var: Var) -> str:
    found = np.asarray(var.attr).dtype
    return "" if found == var.dtype and np.ndim(var.attr) == 0 else f"a constant of {var.dtype} is given as {found}"


def check_size(checker: KernelVerifier, var: Var) -> str:
    return "" if var.dtype == I64 and isinstance(var.attr, Dim) else "a size is symbolic, and an int64"


def check_index(checker: KernelVerifier, var: Var) -> str:
    return checker.index(var.attr) if var.dtype in (I32, I64) else f"an index is an int64 or an int32, not {var.dtype}"


def check_load(checker: KernelVerifier, var: Var) -> str:
    buffer, place = var.attr
    if var.dtype != buffer.dtype:
        return f"{buffer} holds {buffer.dtype}, not {var.dtype}"
    if len(var.args) > 1:
        return "a load has one guard at most"
    return checker.touch(MemoryAccess(var, buffer, place, checker.path, var.args[0] if var.args else None))


def check_convert(checker: KernelVerifier, var: Var) -> str:
    return "" if len(var.args) == 1 else "convert takes one value"


def check_bits(checker: KernelVerifier, var: Var) -> str:
    if len(var.args) != 1 or BOOL in (var.dtype, var.args[0].dtype):
        return "bits takes one value, not a bool, and gives no bool"
    if var.args[0].dtype.itemsize != var.dtype.itemsize:
        return f"the bits of {var.args[0].dtype} do not fill {var.dtype}"
    return ""


def check_across(checker: KernelVerifier, var: Var) -> str:
    op, axis = var.attr
    loop = next((loop for loop in checker.path if loop.axis is axis), None)
    if loop is None or loop.ordered or axis.symbolic or axis.steps > 1:
        return f"across wants an unordered loop over {axis} around it, whose one step covers the axis"
    inside = checker.path[checker.path.index(loop) + 1 :]
    if any(inner.guard is not None and axis in checker.varies[inner.guard] for inner in inside):
        return f"across wants all of {axis}, of which a guard around it may leave out steps"
    if len(var.args) != 1 or var.dtype != var.args[0].dtype:
        return "across takes one value and gives its dtype"
    return checker.reduction(op, var.args)


def check_call(checker: KernelVerifier, var: Var) -> str:
    if not isinstance(var.attr, str) or not SYMBOL.fullmatch(var.attr):
        return f"{var.attr!r} is no symbol"
    if not var.args or {v.dtype for v in var.args} != {var.dtype}:
        return f"{var.attr} takes values of one dtype and gives it"
    return dtype_refusal(var.attr, "if", var.dtype)


RULES: dict[str, Callable[[KernelVerifier, Var], str]] = {
    "const": check_const,
    "size": check_size,
    "index": check_index,
    "load": check_load,
    "convert": check_convert,
    "bits": check_bits,
    "across": check_across,
    "call": check_call,
}
"""The problem with a value that is no plain operation; empty where nothing is."""
