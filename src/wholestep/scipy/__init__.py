"""The parts of SciPy that also take traced arrays, each a module: special, stats, linalg, and those in `PARTS`.

>>> import wholestep as ws
>>> from wholestep.scipy import special
>>> float(ws.grad(lambda x: special.expit(2.0 * x))(0.0))
0.5
"""

from __future__ import annotations

import importlib
from typing import Any

PARTS = (
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
)


def __getattr__(name: str) -> Any:
    if name not in PARTS:
        raise AttributeError(f"module 'wholestep.scipy' has no attribute {name!r}; it has {', '.join(PARTS)}")
    return importlib.import_module(f"wholestep.scipy.{name}")
