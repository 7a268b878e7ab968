"""Kernel builder: statements are added one at a time, and a value that is already in scope is reused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np

from wholestep.dims import Size
from wholestep.kernel.lang import (
    ACTIVE,
    BOOL,
    I64,
    Axis,
    Barrier,
    Buffer,
    Carry,
    DType,
    Fold,
    Index,
    Kernel,
    Loop,
    Space,
    Statement,
    Store,
    Var,
    neutral_element,
)
from wholestep.kernel.ops import OPS, fold_dtype


class OpenBody(NamedTuple):
    """A body that is being written: its statements, and its values by their keys, for reuse."""

    body: list[Statement]
    memo: dict[Any, Any]


class OpenLoop:
    """A loop that is being written."""

    def __init__(self, builder: KernelBuilder, axis: Axis, ordered: bool) -> None:
        self.builder = builder
        self.axis = axis
        self.ordered = ordered
        self.depth = len(builder.frames)
        self.folds: list[Fold] = []
        self.carries: list[Carry] = []
        self.started: dict[Var, Var] = {}

    def fold(self, op: str, *values: Var, init: Var | None = None) -> Var:
        """Reduce a value of the body over the loop; the result may be used once the loop is closed."""
        dtype = fold_dtype(op, values[0].dtype)
        start = self.builder.constant(neutral_element(op, dtype), dtype) if init is None else init
        result = Var("fold", (), dtype)
        self.builder.depths[result] = self.depth - 1
        self.folds.append(Fold(op, result, start, values))
        return result

    def carry(self, init: Var) -> Var:
        """A loop-carried value with this initial value; `hand` sets its value in the next step."""
        inside = Var("carry", (), init.dtype)
        self.builder.depths[inside] = self.depth
        self.started[inside] = init
        self.ordered = True
        return inside

    def hand(self, inside: Var, following: Var) -> Var:
        """Set the value of the loop-carried value `inside` in the next step; returns its value after the loop."""
        after = Var("carried", (), inside.dtype)
        self.builder.depths[after] = self.depth - 1
        self.carries.append(Carry(inside, self.started[inside], following, after))
        return after


class KernelBuilder:
    """A kernel that is being written. A value is placed in the outermost body where all of its operands are in scope.

    Functions of float32 compute intermediate values in float64 only if `doubles`.
    """

    def __init__(self, name: str, doubles: bool = True) -> None:
        self.name, self.doubles = name, doubles
        self.buffers: list[Buffer] = []
        self.frames: list[OpenBody] = [OpenBody([], {})]
        self.depths: dict[Axis | Var, int] = {}
        """The depth of the outermost body where an axis or value is in scope."""
        self.divisions: list[tuple[Index, int]] = []
        """The indices that elements were found by, each divided by a number."""

    def __enter__(self) -> KernelBuilder:
        ACTIVE.builders.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        ACTIVE.builders.pop()

    def buffer(self, name: str, dtype: DType, room: Size, written: bool = False, space: Space = "global") -> Buffer:
        """A new buffer of the kernel: an argument, or a scratch buffer in shared or private memory."""
        made = Buffer(name, dtype, room, written, space)
        self.buffers.append(made)
        return made

    def depth(self, keys: Iterable[Axis | Var]) -> int:
        """The depth of the outermost body where all of these axes and values are in scope."""
        return max([self.depths[k] for k in keys], default=0)

    def emit(self, op: str, args: Sequence[Var], dtype: DType, attr: Any = None, *, here: bool = False) -> Var:
        """The value of an operation; an equal value in scope is reused. With `here` it is written in this body."""
        made = Var(op, tuple(args), dtype, attr)
        key = (op, made.args, dtype, attribute_key(attr))
        depth = len(self.frames) - 1
        if not here:
            depth = self.depth(named_by(made))
            for frame in self.frames[: depth + 1]:
                found: Var | None = frame.memo.get(key)
                if found is not None:
                    return found
        self.frames[depth].body.append(made)
        self.frames[depth].memo[key] = made
        self.depths[made] = depth
        return made

    def op(self, name: str, *args: Any) -> Var:
        """A scalar operation; plain numbers among its operands take the dtype of the others."""
        start = 1 if name == "select" else 0
        dtype = next(a.dtype for a in args[start:] if isinstance(a, Var))
        given = [a if isinstance(a, Var) else self.constant(a, dtype) for a in args]
        return self.emit(name, given, BOOL if OPS[name].gives == "b" else dtype)

    def constant(self, number: Any, dtype: DType) -> Var:
        """A number of a dtype."""
        return self.emit("const", (), dtype, np.asarray(number).astype(dtype)[()])

    def size(self, size: Size) -> Var:
        """A size as an int64 value."""
        return self.constant(size, I64) if isinstance(size, int) else self.emit("size", (), I64, size)

    def index(self, index: Index) -> Var:
        """An affine expression as an int64 value."""
        return self.emit("index", (), I64, index)

    def load(self, buffer: Buffer, index: Index, guard: Var | None = None, *, here: bool = False) -> Var:
        """An element of a buffer; 0, and nothing read, where the guard is false. The contents of shared and private
        buffers may change, so that their loads stay in this body, and none is reused."""
        here = here or buffer.space != "global"
        return self.emit("load", () if guard is None else (guard,), buffer.dtype, (buffer, index), here=here)

    def convert(self, x: Var, dtype: DType) -> Var:
        """The same number in another dtype."""
        return x if x.dtype == dtype else self.emit("convert", (x,), dtype)

    def bits(self, x: Var, dtype: DType) -> Var:
        """The same bits as another dtype of the same size."""
        return x if x.dtype == dtype else self.emit("bits", (x,), dtype)

    def call(self, symbol: str, *args: Var) -> Var:
        """An external scalar function."""
        return self.emit("call", args, args[0].dtype, symbol)

    def across(self, op: str, axis: Axis, x: Var) -> Var:
        """A reduction over a lane axis that one step of its loop covers."""
        return self.emit("across", (x,), x.dtype, (op, axis))

    def store(self, buffer: Buffer, index: Index, value: Var, guard: Var | None = None) -> None:
        """Write a value, in this body."""
        buffer.written = True
        self.frames[-1].body.append(Store(buffer, index, value, guard))

    def barrier(self, late: int = 0) -> None:
        """Wait for the other threads of the workgroup. An element that is loaded again after the barrier needs a load
        with `here`."""
        self.frames[-1].body.append(Barrier(late))

    @contextmanager
    def at(self, depth: int) -> Iterator[None]:
        """Write in an outer body inside the `with`; its statements come before the loops that are still open."""
        inner = self.frames[depth + 1 :]
        del self.frames[depth + 1 :]
        try:
            yield
        finally:
            self.frames.extend(inner)

    @contextmanager
    def loop(self, axis: Axis, ordered: bool = False, guard: Var | None = None) -> Iterator[OpenLoop]:
        """A loop whose body is written inside the `with`; no step is taken where the guard is false."""
        made = OpenLoop(self, axis, ordered)
        self.depths[axis] = len(self.frames)
        self.frames.append(OpenBody([], {}))
        yield made
        body = self.frames.pop().body
        loop = Loop(axis, tuple(body), tuple(made.folds), tuple(made.carries), made.ordered, guard)
        self.frames[-1].body.append(loop)

    @contextmanager
    def loops(self, axes: Iterable[Axis]) -> Iterator[None]:
        """Loops in each other, the outermost first, whose innermost body is written inside the `with`."""
        with ExitStack() as opened:
            for axis in axes:
                opened.enter_context(self.loop(axis))
            yield

    def kernel(self) -> Kernel:
        """The finished kernel."""
        given, own = [tuple([b for b in self.buffers if (b.space != "global") == s]) for s in (False, True)]
        return Kernel(self.name, given, tuple(self.frames[0].body), own)


def named_by(value: Var) -> tuple[Axis | Var, ...]:
    """The values and axes that a value names itself."""
    if value.op == "across":
        return (*value.args, value.attr[1])
    index = value.attr[1] if value.op == "load" else value.attr if value.op == "index" else None
    return value.args if index is None else (*value.args, *index.terms)


def attribute_key(attr: Any) -> Any:
    """A key that distinguishes attributes: numbers by their bits, so that 0.0 and -0.0 differ."""
    if isinstance(attr, np.generic):
        return attr.tobytes(), attr.dtype
    return attr


def builder() -> KernelBuilder:
    """The innermost builder of this thread."""
    return ACTIVE.builders[-1]
