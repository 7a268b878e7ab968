"""NumPy itself, for code that calls it on traced arrays, which NumPy's type stubs do not know."""

from __future__ import annotations

from typing import Any

import numpy

np: Any = numpy
NO_VALUE: Any = np._NoValue
"""The default of NumPy's signatures for a parameter that was not given."""
