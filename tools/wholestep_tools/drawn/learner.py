"""The drawer of training programs: values of many sizes, mostly float32, parameters and data of its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep.ir.build import GraphBuilder
from wholestep.ir.graph import OPS, NDArray, Value
from wholestep.ir.types import array_type
from wholestep_tools.drawn.draw import F32, F64, Drawer

FUNCTIONS = frozenset(
    "add sub neg mul div exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan arcsin arccos arctan sinh cosh tanh"
    " arcsinh arccosh arctanh arctan2 hypot logaddexp logaddexp2 pow erf erfc expit log_expit logit ndtr"
    " gammaln".split()
)
MOST = 20_000
"""Elements of a value beyond which a move is not made."""


class Large(Exception):
    """A move that would make a value too large."""


class Learner(Drawer):
    """A drawer whose values are mostly float32, of sizes up to some hundreds, with parameters and data of its own.

    `double` tells if some are float64.
    """

    def __init__(self, rng: np.random.Generator, builder: GraphBuilder, double: bool = True) -> None:
        super().__init__(rng, mixed=double)
        self.widest: np.dtype[Any] = F64 if double else F32
        self.functions = [p for p in self.functions if p.name in FUNCTIONS]
        self.builder = builder
        self.args: list[NDArray] = []
        self.trained: list[bool] = []

    def op(self, name: str, *xs: Value, **params: Any) -> Any:
        types = OPS[name].type(*[x.type for x in xs], **params)
        if any(t.size > MOST for t in (types if OPS[name].multiple else (types,))):
            raise Large(name)
        return super().op(name, *xs, **params)

    def size(self) -> int:
        return int(self.rng.choice([0, 1, 2, 3, 4, 7, 8, 17], p=[0.01, 0.09, 0.25, 0.25, 0.2, 0.1, 0.05, 0.05]))

    def width(self, most: int = 70) -> int:
        """A length that is small, just around a vector, or large."""
        kind = self.below(3)
        if kind == 0:
            return 1 + self.below(9)
        return [8, 15, 16, 17, 31, 32, 33, 64][self.below(8)] if kind == 1 else 1 + self.below(most)

    def enter(self, value: NDArray, trained: bool) -> Value:
        made = self.builder.input(array_type(value.shape, value.dtype), value)
        self.args.append(value)
        self.trained.append(trained)
        return made

    def parameter(self, value: Any, dtype: Any = F32) -> Value:
        """A value that is trained."""
        return self.enter(np.asarray(value, dtype), True)

    def data(self, value: NDArray) -> Value:
        """A value that comes with each batch."""
        return self.enter(np.asarray(value), False)
