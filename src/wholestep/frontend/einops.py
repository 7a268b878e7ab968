"""The backend that lets einops take traced arrays, registered once einops is imported."""

from __future__ import annotations

import sys
from typing import Any

from wholestep import dtypes
from wholestep.frontend.array import Array

told: list[Any] = []
"""The backend, once einops knows it; it looks among the subclasses of its own classes, so a reference is enough."""


def register_backend() -> None:
    """Register traced arrays with einops if it is imported; called at the start of every trace."""
    if told or "einops" not in sys.modules:
        return
    from einops._backends import NumpyBackend

    class Backend(NumpyBackend):
        """NumPy's backend for einops, as NumPy's functions take traced arrays."""

        framework_name = "wholestep"

        def is_appropriate_type(self, tensor: Any) -> bool:
            return isinstance(tensor, Array)

        def is_float_type(self, x: Any) -> bool:
            return dtypes.is_inexact(x.dtype)

    told.append(Backend)
