"""numpy.polynomial.polynomial: power series with the lowest power first; names not here refuse traced arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.polynomial.polynomial as outside

from wholestep.frontend.dispatch import covers, refusing
from wholestep.frontend.promotion import WEAK, lift
from wholestep.numpy.movement import reshape, traced_array


@covers(outside.polyval)
def polyval(x: Any, c: Any, tensor: bool = True) -> Any:
    """numpy.polynomial.polynomial.polyval, by Horner's rule; differentiable in the points and the coefficients."""
    x = int(x) if type(x) is bool else x
    at, series = x if type(x) in WEAK else lift(x), traced_array(c)
    if series.dtype.kind in "biu":
        series = series.astype(np.float64)  # as numpy.polynomial does before anything else
    if series.ndim == 0:
        series = reshape(series, (1,))
    if tensor:
        series = reshape(series, (*series.shape, *[1] * np.ndim(at)))
    made = series[-1] + at * 0
    for i in reversed(range(series.shape[0] - 1)):
        made = series[i] + made * at
    return made


def __getattr__(name: str) -> Any:
    found = getattr(outside, name)
    return refusing(found, f"numpy.polynomial.polynomial.{name}") if callable(found) else found
