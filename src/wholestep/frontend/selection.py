"""x[mask] while the mask has no value yet: its length is unknown, but `x[mask] += v` needs only the whole array."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from wholestep.errors import ValueDependentError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import FUNCTIONS, HOOKS
from wholestep.ir.graph import Value


def same(x: Value, y: Value, depth: int = 8) -> bool:
    """Whether two values are made alike, so that `x[m > 0]` and `x[m > 0]` choose the same elements."""
    if x is y:
        return True
    a, b = x.node, y.node
    if a is None or b is None or depth == 0 or a.op is not b.op or len(a.outputs) != 1:
        return False
    if a.op.name == "constant" or x.type is not y.type or a.params != b.params:
        return False
    return all([same(v, w, depth - 1) for v, w in zip(a.inputs, b.inputs, strict=True)])


class Selection:
    """The elements that a traced mask chooses; elementwise work is done on all, and the chosen written back."""

    __slots__ = ("full", "mask")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, full: Array, mask: Array) -> None:
        self.full = full
        self.mask = mask

    def _refuse(self, what: str) -> NoReturn:
        raise ValueDependentError(
            f"{what}: the number of elements that a traced mask chooses from {self.full.type} is not known",
            hint="use np.where(mask, x, other), or reduce with x.sum(where=mask)",
        )

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs.keys() - {"out"}:
            self._refuse(ufunc.__name__)
        return self.apply(ufunc, *inputs)

    def apply(self, ufunc: np.ufunc, *inputs: Any) -> Selection:
        """An elementwise function of selections under one mask and of scalars."""
        whole = []
        for x in inputs:
            if isinstance(x, Selection):
                if not same(x.mask.value, self.mask.value):
                    self._refuse(ufunc.__name__)
                whole.append(x.full)
            elif np.ndim(x) == 0 if not isinstance(x, Array) else x.ndim == 0:
                whole.append(x)
            else:
                self._refuse(ufunc.__name__)
        return Selection(HOOKS.ufunc(ufunc, *whole), self.mask)

    def sum(self) -> Any:
        """The sum of the chosen elements."""
        return FUNCTIONS[np.sum](self.full, where=self._wide())

    def mean(self) -> Any:
        """The mean of the chosen elements."""
        return FUNCTIONS[np.mean](self.full, where=self._wide())

    def _wide(self) -> Any:
        extra = self.full.ndim - self.mask.ndim
        return FUNCTIONS[np.broadcast_to](self.mask[(..., *[None] * extra)], self.full.shape)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse(name)

    def __len__(self) -> int:
        self._refuse("len")

    def __bool__(self) -> bool:
        self._refuse("bool")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        self._refuse("array conversion")

    def __add__(self, other: Any) -> Selection:
        return self.apply(np.add, self, other)

    __iadd__ = __add__

    def __radd__(self, other: Any) -> Selection:
        return self.apply(np.add, other, self)

    def __sub__(self, other: Any) -> Selection:
        return self.apply(np.subtract, self, other)

    __isub__ = __sub__

    def __rsub__(self, other: Any) -> Selection:
        return self.apply(np.subtract, other, self)

    def __mul__(self, other: Any) -> Selection:
        return self.apply(np.multiply, self, other)

    __imul__ = __mul__

    def __rmul__(self, other: Any) -> Selection:
        return self.apply(np.multiply, other, self)

    def __truediv__(self, other: Any) -> Selection:
        return self.apply(np.divide, self, other)

    __itruediv__ = __truediv__

    def __rtruediv__(self, other: Any) -> Selection:
        return self.apply(np.divide, other, self)

    def __pow__(self, other: Any) -> Selection:
        return self.apply(np.power, self, other)

    __ipow__ = __pow__

    def __neg__(self) -> Selection:
        return self.apply(np.negative, self)
