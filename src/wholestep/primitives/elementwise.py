"""Elementwise primitives: one scalar function with its partial derivatives, applied to each element."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.graph import Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.primitives.family import (
    Backward,
    Maybe,
    Pointwise,
    Sample,
    conj,
    scale_cotangent,
    sum_values,
)
from wholestep.primitives.precision import FOLLOWS
from wholestep.primitives.samples import draw, dtype_kind, sample_dtypes

Partial = Callable[..., Any] | float | None
"""Derivative with respect to one operand: a rule (y, *xs) -> Value or number, a number, or None for zero everywhere."""

_BOOL = np.dtype(bool)


class Elementwise(Pointwise):
    """One scalar function applied to each element; states its partial derivatives and its scalar expression.

    `reference` is a NumPy ufunc, or the name of one of scipy.special. `code` writes the same function in the kernel
    language: values of the operands' dtype -> a value of the result's; half precisions come and go as float32, complex
    numbers as `maths.Complex` pairs. With `stored`, half precisions come and go as they are. `linear` groups the
    operands that the function is linear in, those of a group together. `takes` lists the kinds of dtype ("b" boolean,
    "i" integer, "f" floating, "c" complex); `gives` is the dtype kind of the result where it differs ("b", or "f" for
    the real part of a complex). `domain` is the interval that samples are drawn from.
    """

    def __init__(
        self,
        name: str,
        reference: Any,
        *partials: Partial,
        code: Callable[..., Any],
        arity: int | None = None,
        takes: str = "fc",
        gives: str = "",
        domain: tuple[float, float] = (-3.0, 3.0),
        polynomial: bool = False,
        stored: bool = False,
        linear: Sequence[tuple[int, ...]] = (),
        price: int | None = None,
        precision: str | None = None,
    ) -> None:
        super().__init__(name)
        self.price = self.price if price is None else price
        self.precision = self.precision if precision is None else precision
        self.reference = reference
        self.code = code
        self.arity = arity or len(partials) or 1
        self.partials = partials
        self.takes = takes
        self.gives = gives
        self.domain = domain
        self.polynomial = polynomial
        self.stored = stored
        self.linear = linear

    def function(self) -> Any:
        """The NumPy ufunc that defines the values; scipy.special is imported when it is first needed."""
        if isinstance(self.reference, str):
            import scipy.special

            self.reference = getattr(scipy.special, self.reference)
        return self.reference

    def inside(self, dtype: np.dtype[Any]) -> float:
        """A number at which the function and its derivatives are finite: 1 in the domain's inside, else its middle."""
        low, high = self.domain
        point = 1.0 if low < 1.0 < high else (low + high) / 2
        return point if dtype_kind(dtype) in "fc" else int(point)

    def ref(self, *arrays: Any) -> Any:
        function = self.reference
        out = (self.function() if isinstance(function, str) else function)(*arrays)
        if not self.gives and out.dtype is not arrays[0].dtype and arrays[0].dtype != object:
            out = out.astype(arrays[0].dtype)
        return out

    def exact_ufunc(self, *types: Type) -> np.ufunc | None:
        function, dtype = self.reference, types[0].dtype
        if (
            not isinstance(function, np.ufunc)
            or function.nout != 1
            or getattr(self.ref, "__func__", None) is not Elementwise.ref
        ):
            return None
        try:
            *operands, result = function.resolve_dtypes((*[dtype] * function.nin, None))
        except TypeError:
            return None
        return function if {*operands, *[result] * (not self.gives)} == {dtype} else None

    def type(self, *types: Type) -> Type:
        x = types[0]
        for y in types:
            if y is not x:
                raise ShapeError(f"{self.name}: operands differ: {', '.join(map(str, types))}")
        if len(types) != self.arity:
            raise ShapeError(f"{self.name}: takes {self.arity} operands, got {len(types)}")
        kind = dtype_kind(x.dtype)
        if kind not in self.takes:
            raise DtypeError(f"{self.name}: does not take {dtypes.short(x.dtype)}")
        if self.gives == "b":
            return array_type(x.shape, _BOOL)
        if self.gives == "f":
            return array_type(x.shape, dtypes.real_of(x.dtype))
        return x

    def linear_groups(self, node: Node) -> Sequence[Sequence[int]]:
        return self.linear

    def partial(self, node: Node, i: int) -> Any:
        """The derivative with respect to operand i, as a value or a number; None for zero."""
        rule = self.partials[i] if self.partials else None
        if callable(rule):
            return rule(node.outputs[0], *node.inputs)
        return rule

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        terms: list[Maybe] = []
        for i, dx in enumerate(dxs):
            partial = self.partial(node, i) if dx is not None else None
            if dx is not None and partial is not None:
                terms.append(scale_cotangent(dx, partial))
        return (sum_values(terms),)

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], backward: Backward) -> Sequence[Maybe]:
        gy = gys[0]
        out: list[Maybe] = [None] * len(wrt)
        for i, wanted in enumerate(wrt):
            if wanted and gy is not None:
                partial = self.partial(node, i)
                if isinstance(partial, Value):
                    out[i] = scale_cotangent(gy, conj(partial))
                elif partial is not None:
                    out[i] = scale_cotangent(gy, np.conj(partial))
        return out

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        low, high = self.domain
        for dtype in sample_dtypes(self.takes):
            for shape in ((2, 3), (), (0, 2), (1,)):
                yield Sample(tuple(draw(rng, shape, dtype, low, high) for _ in range(self.arity)))


class Basic(Elementwise):
    """Arithmetic, a comparison, a choice or rounding: cheap, and as good in any precision as its operands are."""

    price = 1
    precision = FOLLOWS
