"""Marks: values that mean the same as their input and tell a transform something."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wholestep.errors import UnsupportedError
from wholestep.ir.graph import NDArray, Node, Value
from wholestep.ir.types import Type
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.index_arithmetic import Coordinates
from wholestep.primitives.family import LeadingBatch, LinearPrimitive, Maybe, Pointwise, Sample, expand
from wholestep.primitives.precision import FOLLOWS
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
    """The same value under another name: what a transform differentiates with respect to."""

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

    def extra(self) -> dict[str, Any]:
        return {"label": "h"}


class Pin(IdentityPrimitive):
    """A value of which the user has said whether it is kept in memory or made again."""

    alias = False

    def extra(self) -> dict[str, Any]:
        return {"label": "keep"}


class PSum(LeadingBatch, LinearPrimitive):
    """The sum over the mapped axis of a `vmap` with this axis name; it exists only inside one."""

    kind = "mark"
    collective = True

    def type(self, x: Type, *, axis_name: str) -> Type:
        return x

    def ref(self, x: NDArray, *, axis_name: str) -> NDArray:
        raise UnsupportedError(
            f"psum: no vmap with axis_name={axis_name!r} surrounds this call",
            hint=f"call it inside ws.vmap(f, axis_name={axis_name!r})",
        )

    def transpose(self, gy: Value, node: Node, wrt: Sequence[bool], *, axis_name: str) -> Value:
        return self(gy, axis_name=axis_name)

    def resolve(self, n: Any, x: Value, on: bool) -> Value:
        """The sum itself, once the vmap that was named is the one at work."""
        wide = expand(x, n, on)
        return spread_back(sum_(wide, axes=(0,)), wide.shape, (0,))

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        return iter(())


stop_gradient = StopGradient("stop_gradient")
identity = IdentityPrimitive("identity")
capture = Capture()
pin = Pin()
psum = PSum()
