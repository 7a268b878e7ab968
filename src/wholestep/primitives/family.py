"""Families of primitives, and the rules that the members of each share.

A primitive states one derivative fact; both modes follow from it:

    Elementwise   partials           dy = sum(partial * dx)       gx = gy * conj(partial)
    Linear        transpose          dy = f(dx)                   gx = transpose(gy)
    Bilinear      transpose          dy = f(dx, y) + f(x, dy)     gx = transpose(gy, y)
    General       jvp                as stated                    the transpose of the stated tangent

Cotangents live in the real inner product Re(conj(a) b), so the gradient of a real loss is dL/da + i dL/db.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import ShapeError
from wholestep.ir.build import current, emit
from wholestep.ir.graph import OPS, NDArray, Node, Value
from wholestep.ir.types import Type
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.index_arithmetic import Coordinates
from wholestep.primitives.precision import WIDE

RECOMPUTE_LIMIT = 8
"""The price up to which a value is recomputed where it is read, rather than kept in memory."""
COSTLY = RECOMPUTE_LIMIT + 1
"""The price of an operation that is never recomputed."""

Maybe = Value | None
"""A tangent or cotangent; None is zero."""

Backward = Callable[[Sequence[Node], Sequence[tuple[Value, Maybe]], Sequence[Value]], list[Maybe]]
"""The reverse walk, handed to rules that need it: (nodes, [(output, cotangent)], wanted) -> cotangents."""


@dataclass(frozen=True)
class Sample:
    """One call of a primitive for the laws to try: inputs and parameters.

    `exact` says that the inputs may also be integers modulo a prime; `smooth` that the point is no kink.
    """

    inputs: tuple[NDArray, ...]
    params: dict[str, Any] = field(default_factory=dict)
    exact: bool = True
    smooth: bool = True


@dataclass(frozen=True)
class Cost:
    """The cost of one node: floating-point operations, and bytes read and written."""

    flops: int
    bytes: int


REGISTRY: dict[str, Primitive] = {}


class Primitive:
    """One operation of the language with all its rules. An instance registers itself under its name."""

    name: str
    multiple = False
    thin = False
    """True where the reference takes operands that NumPy would broadcast, so that a broadcast need not be stored."""
    kind = "general"
    """The family: "elementwise", "movement", "reduction", "contraction", "indexing", "structure" …"""
    flat = False
    """True where no tangent passes, for every dtype: constants, stop_gradient."""
    nested = False
    """True where parameters hold graphs; such rules are handed the transform to apply to them."""
    alias = False
    """True where the one output is the input under another name, to be dropped from a finished graph."""
    named = False
    """True where the user has named the value and may ask for it, whether or not a result needs it."""
    collective = False
    """True where the value depends on the axis name of a surrounding `vmap`."""
    polynomial = False
    """True where the reference also computes with exact numbers, so that its rules can be checked exactly."""
    literal = False
    """True where the value is an array that the program holds."""
    view = False
    """True where every element of the result is one of the only operand, the one that `index_map` names."""
    keeps_order = False
    """True for a view whose elements are those of the operand in the same row-major order."""
    uniform = False
    """True where the value is one number everywhere, the parameter `value`."""
    generated = False
    """True where elements are computed from their indices alone, so that no result needs to be stored."""
    fold = ""
    """The fold of the kernel language that a reduction along the parameter `axes` is."""
    combiner = ""
    """The elementwise primitive that takes one more element into a reduction."""
    price = COSTLY
    """The cost of recomputing one element, in cheap operations; above the limit where recomputation never pays."""
    precision = WIDE
    """The precision that automatic mixed precision computes it in."""

    def __init__(self, name: str | None = None) -> None:
        self.name = name or type(self).__name__.lower()
        REGISTRY[self.name] = self
        OPS[self.name] = self

    def __call__(self, *inputs: Value, **params: Any) -> Value:
        made: Value = emit(self, inputs, params)
        return made

    def __repr__(self) -> str:
        return self.name

    # The rules take the operands and parameters of the primitive: open signatures here, exact ones in each member.

    def type(self, *args: Any, **kwargs: Any) -> Any:
        """(types of the inputs, **params) -> the type of the output, or a tuple of types."""
        raise NotImplementedError(self.name)

    def ref(self, *args: Any, **kwargs: Any) -> Any:
        """(arrays, **params) -> the result in NumPy, which defines the operation."""
        raise NotImplementedError(self.name)

    def exact_ufunc(self, *types: Type) -> np.ufunc | None:
        """The ufunc that is `ref` itself for operands of these types; None where `ref` has more to do."""
        return None

    def jvp(self, *args: Any, **kwargs: Any) -> Sequence[Maybe]:
        """(node, dxs) -> tangents of the outputs; None among `dxs` is a zero tangent."""
        raise NotImplementedError(self.name)

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], backward: Any) -> Sequence[Maybe]:
        """Cotangents of the inputs marked in `wrt`: the transpose of `jvp` at this node."""
        return transposed_jvp(self, node, gys, wrt, backward)

    def linear_groups(self, node: Node) -> Sequence[Sequence[int]]:
        """Groups of operands: the result is linear in all operands of a group together, while the others stay."""
        return ()

    def batch(self, *args: Any, **kwargs: Any) -> Any:
        """(n, xs, on, **params) -> the same with a batch of size n on axis 0 of the marked inputs and every output."""
        raise NotImplementedError(self.name)

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        """Calls on which the laws are checked: ties, zeros, negative axes, empty arrays and size 1 among them."""
        raise NotImplementedError(self.name)

    # Facts that the compiler asks of a node.

    def index_map(self, builder: KernelBuilder, node: Node, at: Coordinates) -> Coordinates:
        """The indices in the operand of a view of the element that is at these indices in the result."""
        raise NotImplementedError(self.name)

    def axis_map(self, node: Node) -> tuple[int | None, ...] | None:
        """For each axis of the result of a view the axis of the operand that it is, None for one of repeated elements.

        None as a whole where some axis is neither.
        """
        return None

    def permuted(self, params: dict[str, Any], axes: tuple[int, ...]) -> tuple[dict[str, Any], tuple[int, ...]] | None:
        """The rule `f(permute(x, axes), **params) = permute(f(x, **found), order)` as (found, order); None without one.

        Of several operands all are permuted alike.
        """
        return None

    def precision_at(self, node: Node) -> str:
        """The precision that automatic mixed precision computes a node in."""
        return self.precision

    def fixed_sizes(self, node: Node) -> str:
        """The reason why a node cannot be compiled once for symbolic sizes; empty where it can."""
        return "it is not made of loops whose length may be given at each call"

    def cost(self, node: Node) -> Cost:
        moved = sum(v.type.nbytes for v in (*node.inputs, *node.outputs))
        return Cost(self.flops(node), moved)

    def flops(self, node: Node) -> Any:
        return sum(v.type.size for v in node.outputs)


def transposed(
    types: Sequence[Type], linear: Callable[[list[Value]], Sequence[Maybe]], gys: Sequence[Maybe], backward: Backward
) -> list[Maybe]:
    """Cotangents through a linear function of values of these types: it is written on placeholders and walked back
    over, and never run."""
    builder = current()
    assert builder is not None
    recording, builder.recording = builder.recording, True
    start = len(builder.nodes)
    dxs = [builder.placeholder(t) for t in types]
    try:
        dys = linear(dxs)
        region = builder.nodes[start:]
    finally:
        builder.recording = recording
    seeds = [(dy, gy) for dy, gy in zip(dys, gys, strict=True) if dy is not None and gy is not None]
    return backward(region, seeds, dxs)


def transposed_jvp(
    prim: Primitive, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], backward: Backward
) -> list[Maybe]:
    """Cotangents from the tangent rule."""

    def tangent(dxs: list[Value]) -> Sequence[Maybe]:
        rest = iter(dxs)
        return prim.jvp(node, [next(rest) if w else None for w in wrt])

    found = iter(transposed([v.type for v, w in zip(node.inputs, wrt, strict=True) if w], tangent, gys, backward))
    return [next(found) if w else None for w in wrt]


def number_of(x: Value) -> Any:
    """The number that a value is everywhere, where the program says so; None elsewhere."""
    return x.node.params["value"] if x.node is not None and x.node.op.uniform else None


class Loops:
    """A mixin of primitives that are loops over their axes, compiled once for symbolic sizes."""

    def fixed_sizes(self, node: Node) -> str:
        return ""


def conj(x: Value) -> Value:
    """The complex conjugate; a real value is its own."""
    return OPS["conj"](x) if dtypes.is_complex(x.type.dtype) else x


def scale_cotangent(g: Value, factor: Any) -> Value:
    """g times a number or a value; 1 and -1 cost nothing or a sign."""
    if isinstance(factor, Value):
        return OPS["mul"](g, factor)
    if factor == 1:
        return g
    return -g if factor == -1 else g * factor


def sum_values(terms: Sequence[Maybe]) -> Maybe:
    """The sum of the terms that are not None; None is zero."""
    found: Maybe = None
    for term in terms:
        if term is not None:
            found = term if found is None else found + term
    return found


def expand(x: Value, n: Any, on: bool) -> Value:
    """x with a batch axis in front, repeated where it has none."""
    if on:
        return x
    repeated: Value = OPS["broadcast"](x, shape=(n, *x.shape), axes=tuple(range(1, x.ndim + 1)))
    return repeated


class Several(Primitive):
    """A primitive with several outputs, or a number of them that depends on its parameters."""

    multiple = True

    def __call__(self, *inputs: Value, **params: Any) -> tuple[Value, ...]:  # type: ignore[override]
        made: tuple[Value, ...] = emit(self, inputs, params)
        return made


class LeadingBatch(Primitive):
    """A primitive that does the same along each leading axis: a batch is one more of every operand and of the result,
    behind which the axes that the parameters `axis` and `axes` name move by one."""

    def batch(self, n: Any, xs: Sequence[Value], on: Sequence[bool], /, **params: Any) -> Any:
        if "axis" in params:
            params["axis"] += 1
        if "axes" in params:
            params["axes"] = tuple([a + 1 for a in params["axes"]])
        return self(*[expand(x, n, o) for x, o in zip(xs, on, strict=True)], **params)


class Pointwise(Loops, LeadingBatch):
    """A primitive that makes each element of the elements of the operands at the same place."""

    thin = True
    kind = "elementwise"


class LinearPrimitive(Primitive):
    """Linear in its first `arity` operands (all of them by default); states the transpose."""

    kind = "linear"
    polynomial = True

    def linear(self, node: Node) -> range:
        """Positions of the operands that the primitive is linear in."""
        return range(len(node.inputs))

    def linear_groups(self, node: Node) -> Sequence[Sequence[int]]:
        return (self.linear(node),)

    def transpose(self, *args: Any, **kwargs: Any) -> Any:
        """(gy, node, wrt, **params) -> cotangents of the marked linear operands; a value alone for one operand."""
        raise NotImplementedError(self.name)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        inputs = [
            instantiate(v, dx) if i in self.linear(node) else v
            for i, (v, dx) in enumerate(zip(node.inputs, dxs, strict=True))
        ]
        out: Any = self(*inputs, **node.params)
        return out if self.multiple else (out,)

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], backward: Backward) -> Sequence[Maybe]:
        if self.multiple:
            gy: Any = list(map(instantiate, node.outputs, gys))
        else:
            gy = gys[0]
        out = self.transpose(gy, node, wrt, **node.params)
        if isinstance(out, Value):
            return (out, *[None] * (len(wrt) - 1))
        return (*out, *[None] * (len(wrt) - len(out)))


class LinearPointwise(Pointwise, LinearPrimitive):
    """A cheap linear function of each element that exact numbers do not have."""

    polynomial = False
    price = 1


class BilinearPrimitive(Primitive):
    """Linear in each of two operands; states one transpose per operand, and the product rule follows."""

    kind = "bilinear"
    polynomial = True

    def linear_groups(self, node: Node) -> Sequence[Sequence[int]]:
        return (0,), (1,)

    def transpose(self, *args: Any, **kwargs: Any) -> Value:
        """(gy, node, i, **params) -> the cotangent of operand i; the other operand is known."""
        raise NotImplementedError(self.name)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        x, y = node.inputs
        dx, dy = dxs
        first = None if dx is None else self(dx, y, **node.params)
        second = None if dy is None else self(x, dy, **node.params)
        return (sum_values([first, second]),)

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], backward: Backward) -> Sequence[Maybe]:
        gy = gys[0]
        if gy is None:
            return (None, None)
        return [self.transpose(gy, node, i, **node.params) if wanted else None for i, wanted in enumerate(wrt)]


def zeros(type: Type) -> Value:
    """A zero of this type."""
    zero: Value = OPS["full"](value=0, shape=type.shape, dtype=type.dtype)
    return zero


def instantiate(v: Value, g: Maybe) -> Value:
    """A tangent or cotangent of v as a value, zero where it is missing."""
    return zeros(v.type) if g is None else g


def ones(type: Type) -> Value:
    """A one of this type."""
    one: Value = OPS["full"](value=1, shape=type.shape, dtype=type.dtype)
    return one


def axis_inside(name: str, axis: Any, ndim: int) -> int:
    """The axis, checked to be an integer in [0, ndim), as the frontend passes it; raises ShapeError."""
    if not isinstance(axis, int) or not 0 <= axis < ndim:
        raise ShapeError(f"{name}: axis {axis!r} is outside an array of {ndim} dimensions")
    return axis
