"""numpy.polynomial: its module `polynomial` for traced arrays; other names are NumPy's own."""

from __future__ import annotations

from typing import Any

import numpy.polynomial

from wholestep.numpy.polynomial import polynomial

__all__ = ["polynomial"]


def __getattr__(name: str) -> Any:
    return getattr(numpy.polynomial, name)
