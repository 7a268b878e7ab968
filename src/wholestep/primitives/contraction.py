"""Contractions: products summed over shared axes, and the sliding windows that make convolutions of them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.dims import Dim
from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.graph import NDArray, Node, Value
from wholestep.ir.types import Shape, Type, array_type
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.index_arithmetic import Coordinates
from wholestep.primitives.family import BilinearPrimitive, LeadingBatch, LinearPrimitive, Loops, Sample, conj
from wholestep.primitives.movement import Movement, spread, steps_between
from wholestep.primitives.precision import FOLLOWS, LOW
from wholestep.primitives.samples import draw

Ints = tuple[Any, ...]


@lru_cache(maxsize=4096)
def parts(spec: str) -> tuple[str, str, str]:
    """`"ij,jk->ik"` as `("ij", "jk", "ik")`."""
    operands, out = spec.split("->")
    x, y = operands.split(",")
    return x, y, out


@lru_cache(maxsize=4096)
def contracted_type(x: Type, y: Type, spec: str) -> Type:
    """The type of a contraction; raises ShapeError or DtypeError where the spec does not fit the operands."""
    a, b, out = parts(spec)
    sizes: dict[str, Any] = {}
    if len(a) != x.ndim or len(b) != y.ndim or x.dtype != y.dtype:
        raise ShapeError(f"contract: {spec!r} does not fit {x} and {y}")
    if x.dtype.kind == "b":
        raise DtypeError(f"contract: {x} and {y} are truth values, which have no sum", hint="convert to an integer")
    for label, size in zip(a + b, x.shape + y.shape, strict=True):
        if sizes.setdefault(label, size) != size:
            raise ShapeError(f"contract: {label!r} in {spec!r} is {sizes[label]} in {x} and {size} in {y}")
    return array_type(tuple([sizes[label] for label in out]), x.dtype)


class Contract(Loops, BilinearPrimitive):
    """A two-operand einsum: closed under transposition and batching.

    No label is repeated within an operand, and each label of an operand is also in the other one or in the result.
    """

    kind = "contraction"
    precision = LOW

    def type(self, x: Type, y: Type, *, spec: str) -> Type:
        return contracted_type(x, y, spec)

    def ref(self, x: NDArray, y: NDArray, *, spec: str) -> Any:
        if x.dtype == object:
            return np.einsum(spec, x, y, optimize=False)
        wide = dtypes.compute_dtype(x.dtype)
        if wide is not x.dtype:
            return as_matmul(x.astype(wide), y.astype(wide), spec).astype(x.dtype)
        return as_matmul(x, y, spec)

    def transpose(self, gy: Value, node: Node, i: int, *, spec: str) -> Value:
        a, b, out = parts(spec)
        x, y = node.inputs
        if i == 0:
            return self(gy, conj(y), spec=f"{out},{b}->{a}")
        return self(conj(x), gy, spec=f"{a},{out}->{b}")

    def batch(self, n: Any, xs: Sequence[Value], on: Sequence[bool], *, spec: str) -> Value:
        a, b, out = parts(spec)
        new = next(c for c in LETTERS if c not in a + b + out)
        return self(*xs, spec=f"{new * on[0]}{a},{new * on[1]}{b}->{new}{out}")

    def flops(self, node: Node) -> Any:
        a, b, _ = parts(node.params["spec"])
        sizes = dict(zip(a + b, node.inputs[0].shape + node.inputs[1].shape, strict=True))
        return 2 * math.prod(sizes.values())

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        shapes = [
            ("ij,jk->ik", (2, 3), (3, 4)),
            ("bij,bjk->bik", (2, 2, 3), (2, 3, 2)),
            ("ij,kj->ki", (2, 3), (4, 3)),
            ("i,j->ij", (2,), (3,)),
            ("i,i->", (3,), (3,)),
            ("ij,ij->i", (2, 3), (2, 3)),
            ("ijk,kj->i", (2, 3, 2), (2, 3)),
            (",->", (), ()),
            ("ij,jk->ik", (2, 0), (0, 3)),
            ("ij,jk->ik", (0, 2), (2, 1)),
        ]
        for spec, a, b in shapes:
            yield Sample((rng.normal(size=a), rng.normal(size=b)), {"spec": spec})
        for name in ("f32", "f16", "bf16", "c128", "c64", "i32"):
            dtype = dtypes.from_short(name)
            yield Sample((draw(rng, (2, 3), dtype), draw(rng, (3, 2), dtype)), {"spec": "ij,jk->ki"})


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


@lru_cache(maxsize=4096)
def _plan(spec: str) -> tuple[Any, ...]:
    """The way from an einsum to matmul: orders of both operands, group lengths, and the order back."""
    a, b, out = parts(spec)
    batch = [c for c in out if c in a and c in b]
    rows = [c for c in out if c in a and c not in b]
    columns = [c for c in out if c in b and c not in a]
    inner = [c for c in a if c in b and c not in out]
    left = tuple(a.index(c) for c in batch + rows + inner)
    right = tuple(b.index(c) for c in batch + inner + columns)
    made = batch + rows + columns
    back = tuple(made.index(c) for c in out)
    return left, right, len(batch), len(rows), len(inner), len(columns), back, back == tuple(range(len(back)))


def as_matmul(x: NDArray, y: NDArray, spec: str) -> Any:
    """The contraction as one `np.matmul` of reshaped operands, at the speed of the BLAS."""
    left, right, batch, rows, inner, columns, back, in_order = _plan(spec)
    x, y = x.transpose(left), y.transpose(right)
    if rows == 1 and inner == 1 and columns == 1:
        out = np.matmul(x, y)
        return out if in_order else out.transpose(back)
    head = x.shape[:batch]
    m, k, n = x.shape[batch : batch + rows], x.shape[batch + rows :], y.shape[batch + inner :]
    depth = math.prod(k)
    out = np.matmul(x.reshape(*head, math.prod(m), depth), y.reshape(*head, depth, math.prod(n)))
    out = out.reshape((*head, *m, *n))
    return out if in_order else out.transpose(back)


def slides(shape: Shape, count: int) -> str:
    """The reason against windows over the last axes of a shape; empty where all their sizes are numbers."""
    symbolic = any(isinstance(n, Dim) for n in shape[len(shape) - count :])
    return "windows slide along a symbolic size" if symbolic else ""


class Window(LeadingBatch, Movement):
    """Sliding windows over the last axes: `[..., *sizes] -> [..., *positions, *size]`. The dual of `unwindow`."""

    view = True

    def type(self, x: Type, *, size: Ints, stride: Ints, dilation: Ints) -> Type:
        k = len(size)
        if not len(stride) == len(dilation) == k <= x.ndim:
            raise ShapeError(f"window: size {size}, stride {stride}, dilation {dilation} do not fit {x}")
        spans = [spread(m, d) for m, d in zip(size, dilation, strict=True)]
        tail = x.shape[x.ndim - k :]
        if any(isinstance(n, int) and n < m for n, m in zip(tail, spans, strict=True)):
            raise ShapeError(f"window: {x} is smaller than a window of {tuple(spans)}")
        places = [steps_between(0, n - m + 1, s) for n, m, s in zip(tail, spans, stride, strict=True)]
        return array_type((*x.shape[: x.ndim - k], *places, *size), x.dtype)

    def ref(self, x: NDArray, *, size: Ints, stride: Ints, dilation: Ints) -> NDArray:
        k = len(size)
        spans = tuple(spread(m, d) for m, d in zip(size, dilation, strict=True))
        seen = np.lib.stride_tricks.sliding_window_view(x, spans, tuple(range(x.ndim - k, x.ndim)))
        steps: list[Any] = [slice(None, None, s) for s in (*stride, *dilation)]
        return seen[(..., *steps)]

    def transpose(
        self, gy: Value, node: Node, wrt: Sequence[bool], *, size: Ints, stride: Ints, dilation: Ints
    ) -> Value:
        sizes = node.inputs[0].shape[node.inputs[0].ndim - len(size) :]
        return unwindow(gy, sizes=sizes, stride=stride, dilation=dilation)

    def index_map(self, builder: KernelBuilder, node: Node, at: Coordinates) -> Coordinates:
        k, stride, dilation = len(node.params["size"]), node.params["stride"], node.params["dilation"]
        lead = len(at) - 2 * k
        pairs = zip(at[lead : lead + k], at[lead + k :], stride, dilation, strict=True)
        return (*at[:lead], *[p * s + o * d for p, o, s, d in pairs])

    def fixed_sizes(self, node: Node) -> str:
        return slides(node.inputs[0].shape, len(node.params["size"]))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.normal(size=(2, 7)),), {"size": (3,), "stride": (2,), "dilation": (1,)})
        yield Sample((rng.normal(size=(2, 5, 6)),), {"size": (2, 3), "stride": (1, 2), "dilation": (2, 1)})
        yield Sample((rng.normal(size=(4,)),), {"size": (4,), "stride": (1,), "dilation": (1,)})
        yield Sample((rng.normal(size=(0, 4)),), {"size": (2,), "stride": (1,), "dilation": (1,)})


class Unwindow(LeadingBatch, LinearPrimitive):
    """Windows added back into the places they were taken from. The dual of `window`."""

    kind = "movement"
    precision = FOLLOWS

    def type(self, y: Type, *, sizes: Ints, stride: Ints, dilation: Ints) -> Type:
        k = len(sizes)
        if not len(stride) == len(dilation) == k <= y.ndim // 2:
            raise ShapeError(f"unwindow: sizes {sizes}, stride {stride}, dilation {dilation} do not fit {y}")
        lead, places, size = y.shape[: y.ndim - 2 * k], y.shape[y.ndim - 2 * k : y.ndim - k], y.shape[y.ndim - k :]
        for n, p, m, s, d in zip(sizes, places, size, stride, dilation, strict=True):
            if steps_between(0, n - spread(m, d) + 1, s) != p:
                raise ShapeError(f"unwindow: {p} windows of {m} in {y} do not tile an axis of size {n}")
        return array_type((*lead, *sizes), y.dtype)

    def ref(self, y: NDArray, *, sizes: Ints, stride: Ints, dilation: Ints) -> NDArray:
        k = len(sizes)
        lead = y.ndim - 2 * k
        places, window = y.shape[lead : lead + k], y.shape[lead + k :]
        wide = dtypes.compute_dtype(y.dtype) if y.dtype != object else y.dtype
        out = np.zeros((*y.shape[:lead], *sizes), wide)
        if y.dtype == object:
            out.fill(0)
        for offset in np.ndindex(*window):
            at: list[Any] = [
                slice(o * d, o * d + spread(p, s), s)
                for o, d, p, s in zip(offset, dilation, places, stride, strict=True)
            ]
            here: list[Any] = list(offset)
            out[(..., *at)] += y[(..., *here)]
        return out.astype(y.dtype, copy=False)

    def transpose(
        self, gy: Value, node: Node, wrt: Sequence[bool], *, sizes: Ints, stride: Ints, dilation: Ints
    ) -> Value:
        size = node.inputs[0].shape[node.inputs[0].ndim - len(sizes) :]
        return window(gy, size=size, stride=stride, dilation=dilation)

    def fixed_sizes(self, node: Node) -> str:
        return slides(node.inputs[0].shape, 2 * len(node.params["sizes"]))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.normal(size=(2, 3, 3)),), {"sizes": (7,), "stride": (2,), "dilation": (1,)})
        yield Sample((rng.normal(size=(3, 2, 2, 3)),), {"sizes": (5, 6), "stride": (1, 2), "dilation": (2, 1)})
        yield Sample((rng.normal(size=(0, 3, 2)),), {"sizes": (4,), "stride": (1,), "dilation": (1,)})


contract = Contract()
window = Window()
unwindow = Unwindow()
