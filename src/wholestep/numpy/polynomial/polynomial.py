"""numpy.polynomial.polynomial: power series with the lowest power first; names not here refuse traced arrays."""

from __future__ import annotations

from typing import Any

import numpy.polynomial.polynomial as outside

from wholestep.frontend.dispatch import covers, refusing
from wholestep.frontend.promotion import lift
from wholestep.numpy.movement import reshape, traced_array


@covers(outside.polyval)
def polyval(x: Any, c: Any, tensor: bool = True) -> Any:
    """numpy.polynomial.polynomial.polyval, by Horner's rule; differentiable in the points and the coefficients."""
    at, series = lift(x), traced_array(c)
    if series.ndim == 0:
        series = reshape(series, (1,))
    if tensor:
        series = reshape(series, (*series.shape, *[1] * at.ndim))
    made = series[-1] + at * 0
    for i in reversed(range(series.shape[0] - 1)):
        made = series[i] + made * at
    return made


def __getattr__(name: str) -> Any:
    found = getattr(outside, name)
    return refusing(found, f"numpy.polynomial.polynomial.{name}") if callable(found) else found
