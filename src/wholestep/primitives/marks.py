"""Marks: values that mean the same as their input and tell a transform something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wholestep.collectives import communicator_of, gather_over_ranks, scatter_sum_over_ranks, sum_over_ranks
from wholestep.errors import ShapeError
from wholestep.ir.graph import NDArray, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.index_arithmetic import Coordinates
from wholestep.primitives.creation import iota
from wholestep.primitives.family import LeadingBatch, LinearPrimitive, Maybe, Pointwise, Primitive, Sample, expand
from wholestep.primitives.movement import permute
from wholestep.primitives.precision import AS_WRITTEN, FOLLOWS
from wholestep.primitives.reduction import spread_back, sum_


class SameValue(Pointwise):
    """A value that is its operand, element by element."""

    kind = "mark"
    view = True
    keeps_order = True
    precision = FOLLOWS

    def index_map(self, builder: KernelBuilder, node: Node, at: Coordinates) -> Coordinates:
        return at

    def axis_map(self, node: Node) -> tuple[int | None, ...]:
        return tuple(range(node.outputs[0].ndim))

    def flops(self, node: Node) -> int:
        return 0


class StopGradient(SameValue):
    """The same value with a derivative of zero."""

    flat = True
    price = 0

    def type(self, x: Type) -> Type:
        return x

    def ref(self, x: NDArray) -> NDArray:
        return x

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.normal(size=(2, 3)),), smooth=False)


class IdentityPrimitive(SameValue, LinearPrimitive):
    """The same value under another name: a variable of differentiation."""

    alias = True

    def type(self, x: Type, **params: Any) -> Type:
        return x

    def ref(self, x: NDArray, **params: Any) -> NDArray:
        return x

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], **params: Any) -> Value:
        return gy

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        return dxs

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        yield Sample((rng.normal(size=(2, 3)),), self.extra())
        yield Sample((np.array([1, 2]),), self.extra())

    def extra(self) -> dict[str, Any]:
        return {}


class Capture(IdentityPrimitive):
    """A named intermediate value, to be read, or differentiated by name."""

    alias = False
    named = True

    def extra(self) -> dict[str, Any]:
        return {"label": "h"}


class Pin(IdentityPrimitive):
    """A value of which the user has said whether it is kept in memory or made again."""

    alias = False

    def extra(self) -> dict[str, Any]:
        return {"label": "keep"}


class PSum(LeadingBatch, LinearPrimitive):
    """The sum over the mapped axis of a `vmap` with this axis name, or over the processes of a mesh's axis."""

    kind = "mark"
    collective = True

    def type(self, x: Type, *, axis_name: str) -> Type:
        return x

    def ref(self, x: NDArray, *, axis_name: str) -> NDArray:
        return sum_over_ranks(axis_name, x)

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axis_name: str) -> Value:
        return self(gy, axis_name=axis_name)

    def resolve(self, n: Any, xs: Sequence[Value], on: Sequence[bool], *, axis_name: str) -> Value:
        """The sum itself, once the vmap that was named is the one at work."""
        wide = expand(xs[0], n, on[0])
        return spread_back(sum_(wide, axes=(0,)), wide.shape, (0,))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        return iter(())


class OverRows(LinearPrimitive):
    """A collective that knows the size of its axis, which is the length of its operand's or result's first axis."""

    kind = "mark"
    collective = True

    def check_size(self, n: Any, size: Any, axis_name: str) -> None:
        """Raise ShapeError where the program was traced for another size of the axis."""
        if n != size:
            raise ShapeError(
                f"{self.name}: the axis {axis_name!r} has {n} elements, and this program was traced for {size}",
                hint="trace it inside the vmap: ws.vmap(f), not a program that was made for another size",
            )

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        return iter(())


class AllGather(OverRows):
    """The arrays of all elements of a mapped axis, or of all processes of a mesh's axis, along a new first axis."""

    precision = FOLLOWS

    def type(self, x: Type, *, axis_name: str, size: Any) -> Type:
        return array_type((size, *x.shape), x.dtype)

    def ref(self, x: NDArray, *, axis_name: str, size: Any) -> NDArray:
        self.check_size(communicator_of(axis_name, self.name).size, size, axis_name)
        return gather_over_ranks(axis_name, x)

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axis_name: str, size: Any) -> Value:
        return psum_scatter(gy, axis_name=axis_name, size=size)

    def batch(self, n: Any, xs: Sequence[Value], on: Sequence[bool], /, **params: Any) -> Value:
        return swapped(self(expand(xs[0], n, on[0]), **params))

    def resolve(self, n: Any, xs: Sequence[Value], on: Sequence[bool], *, axis_name: str, size: Any) -> Value:
        """All rows for every element, once the vmap that was named is the one at work."""
        self.check_size(n, size, axis_name)
        return expand(expand(xs[0], n, on[0]), n, False)


class PSumScatter(OverRows):
    """The sum over a mapped axis, or over processes, of which each element or process has the row of its number."""

    def type(self, x: Type, *, axis_name: str, size: Any) -> Type:
        return array_type(x.shape[1:], x.dtype)

    def ref(self, x: NDArray, *, axis_name: str, size: Any) -> NDArray:
        self.check_size(communicator_of(axis_name, self.name).size, size, axis_name)
        return scatter_sum_over_ranks(axis_name, x)

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axis_name: str, size: Any) -> Value:
        return all_gather(gy, axis_name=axis_name, size=size)

    def batch(self, n: Any, xs: Sequence[Value], on: Sequence[bool], /, **params: Any) -> Value:
        return self(swapped(expand(xs[0], n, on[0])), **params)

    def resolve(self, n: Any, xs: Sequence[Value], on: Sequence[bool], *, axis_name: str, size: Any) -> Value:
        """The rows of the sum, once the vmap that was named is the one at work."""
        self.check_size(n, size, axis_name)
        summed: Value = sum_(expand(xs[0], n, on[0]), axes=(0,))
        return summed


def swapped(x: Value) -> Value:
    """A value with its first two axes exchanged."""
    out: Value = permute(x, axes=(1, 0, *range(2, x.ndim)))
    return out


class AxisIndex(Primitive):
    """The number of an element along the mapped axis of a `vmap`, or the rank of a process along a mesh's axis."""

    kind = "mark"
    collective = True
    flat = True
    precision = AS_WRITTEN

    def type(self, *, axis_name: str) -> Type:
        return array_type((), np.dtype(np.int64))

    def ref(self, *, axis_name: str) -> NDArray:
        return np.asarray(communicator_of(axis_name).rank, np.int64)

    def resolve(self, n: Any, xs: Sequence[Value], on: Sequence[bool], *, axis_name: str) -> Value:
        """The numbers, once the vmap that was named is the one at work."""
        numbers: Value = iota(shape=(n,), axis=0, dtype=np.dtype(np.int64))
        return numbers

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        return iter(())


stop_gradient = StopGradient("stop_gradient")
identity = IdentityPrimitive("identity")
capture = Capture()
pin = Pin()
psum = PSum()
all_gather = AllGather("all_gather")
psum_scatter = PSumScatter("psum_scatter")
axis_index = AxisIndex("axis_index")
