"""scipy.interpolate: splines and piecewise lines through points, and arrays on grids, differentiable in all numbers.

In functions that are traced SciPy's own names make these where traced arrays are given; its splines of plain numbers,
made anywhere, take traced points.

>>> import numpy as np, wholestep as ws
>>> from wholestep.scipy.interpolate import CubicSpline
>>> spline = lambda y, t: CubicSpline(np.arange(4.0), y)(t)
>>> round(float(ws.grad(spline, 1)(np.array([0.0, 1.0, 8.0, 27.0]), 2.0)), 12)
12.0
"""

from __future__ import annotations

from typing import Any

import scipy.interpolate

from wholestep.scipy.interpolate.grids import RegularGridInterpolator as RegularGridInterpolator, interpn as interpn
from wholestep.scipy.interpolate.lines import interp1d as interp1d
from wholestep.scipy.interpolate.piecewise import PPoly as PPoly
from wholestep.scipy.interpolate.splines import (
    Akima1DInterpolator as Akima1DInterpolator,
    CubicHermiteSpline as CubicHermiteSpline,
    CubicSpline as CubicSpline,
    PchipInterpolator as PchipInterpolator,
)
from wholestep.scipy.outside import fallback

outside: Any = scipy.interpolate


def __getattr__(name: str) -> Any:
    return fallback(outside, name)
