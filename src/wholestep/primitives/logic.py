"""Logic: comparisons, tests, bits, choices, and step functions such as floor and sign."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.graph import NDArray, Node
from wholestep.ir.types import Type
from wholestep.kernel import maths
from wholestep.primitives.elementwise import Basic
from wholestep.primitives.family import COSTLY, Backward, Maybe, Pointwise, Sample, instantiate, zeros
from wholestep.primitives.precision import FOLLOWS
from wholestep.primitives.samples import draw

equal = Basic("equal", np.equal, code=maths.equal, arity=2, takes="bifc", gives="b")
not_equal = Basic("not_equal", np.not_equal, code=maths.not_equal, arity=2, takes="bifc", gives="b")
less = Basic("less", np.less, code=maths.less, arity=2, takes="bifc", gives="b")
less_equal = Basic("less_equal", np.less_equal, code=maths.less_equal, arity=2, takes="bifc", gives="b")
isfinite = Basic("isfinite", np.isfinite, code=maths.isfinite, takes="fc", gives="b")
isnan = Basic("isnan", np.isnan, code=maths.isnan, takes="fc", gives="b")
signbit = Basic("signbit", np.signbit, code=maths.signbit, takes="f", gives="b", price=COSTLY)

bitwise_and = Basic("bitwise_and", np.bitwise_and, code=maths.bitwise_and, arity=2, takes="bi")
bitwise_or = Basic("bitwise_or", np.bitwise_or, code=maths.bitwise_or, arity=2, takes="bi")
bitwise_xor = Basic("bitwise_xor", np.bitwise_xor, code=maths.bitwise_xor, arity=2, takes="bi")
bitwise_not = Basic("bitwise_not", np.invert, code=maths.bitwise_not, takes="bi")
left_shift = Basic("left_shift", np.left_shift, code=maths.left_shift, arity=2, takes="i", domain=(0, 3), price=COSTLY)
right_shift = Basic(
    "right_shift", np.right_shift, code=maths.right_shift, arity=2, takes="i", domain=(0, 3), price=COSTLY
)

floor = Basic("floor", np.floor, code=maths.floor, takes="f")
ceil = Basic("ceil", np.ceil, code=maths.ceil, takes="f")
trunc = Basic("trunc", np.trunc, code=maths.trunc, takes="f")
rint = Basic("rint", np.rint, code=maths.rint, takes="fc")
sign = Basic("sign", np.sign, code=maths.sign, takes="if")


def _wins(x: NDArray, y: NDArray) -> NDArray:
    return np.asarray(np.where(np.isnan(x) | np.isnan(y), np.nan, (x > y) + 0.5 * (x == y)))


wins = Basic("wins", _wins, code=maths.wins, arity=2, takes="f")
"""1 where x > y, one half where they tie, 0 where x < y: the share of a maximum's derivative that goes to x."""


class Select(Pointwise):
    """x where the condition holds, y elsewhere; linear in x and y."""

    polynomial = True
    price = 1
    precision = FOLLOWS

    def linear_groups(self, node: Node) -> Sequence[Sequence[int]]:
        return ((1, 2),)

    def type(self, condition: Type, x: Type, y: Type) -> Type:
        if x is not y or condition.shape != x.shape:
            raise ShapeError(f"select: operands differ: {condition}, {x}, {y}")
        if condition.dtype.kind != "b":
            raise DtypeError(f"select: the condition is {condition}, not boolean")
        return x

    def code(self, condition: Any, x: Any, y: Any) -> Any:
        return maths.choose(condition, x, y)

    def ref(self, condition: NDArray, x: NDArray, y: NDArray) -> NDArray:
        return np.where(condition, x, y)

    def jvp(self, node: Node, dxs: Sequence[Maybe]) -> Sequence[Maybe]:
        condition, x, y = node.inputs
        return (self(condition, instantiate(x, dxs[1]), instantiate(y, dxs[2])),)

    def pullback(self, node: Node, gys: Sequence[Maybe], wrt: Sequence[bool], backward: Backward) -> Sequence[Maybe]:
        gy = gys[0]
        if gy is None:
            return (None, None, None)
        nothing = zeros(gy.type)
        condition = node.inputs[0]
        return (
            None,
            self(condition, gy, nothing) if wrt[1] else None,
            self(condition, nothing, gy) if wrt[2] else None,
        )

    def samples(self, rng: np.random.Generator) -> Iterator[Sample]:
        for name in ("f8", "f4", "i4", "c16", "?"):
            for shape in ((2, 3), (), (0, 2)):
                condition = rng.integers(0, 2, size=shape) > 0
                dtype = np.dtype(name)
                yield Sample((np.asarray(condition), draw(rng, shape, dtype), draw(rng, shape, dtype)))


select = Select()
