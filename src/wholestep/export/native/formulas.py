"""Formulas in native programs: what the code of this process calls a library for is written out in other operations.

Special functions are computed in float64 whatever the dtype, as the library computes them, and so are factorizations
of small matrices: what is float32 or shorter at the end nearly always has the library's bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wholestep.export.rules.elementwise import is_complex_value
from wholestep.export.rules.special import FUNCTIONS
from wholestep.ir.graph import Value
from wholestep.lower.legalize.matrix_functions import via_double
from wholestep.lower.target import Expansion


def special_formula(f: Callable[..., Value]) -> Expansion:
    """The expansion of a function of scipy.special by its formula, in float64."""
    wide = via_double(lambda *xs: (f(*xs),))

    def expand(*xs: Value, **params: Any) -> Sequence[Value] | None:
        return None if is_complex_value(xs[0]) else wide(*xs, **params)

    return expand


SPECIAL_FORMULAS: Mapping[str, Expansion] = {name: special_formula(f) for name, f in FUNCTIONS.items()}
"""Those of special functions."""
FORMULAS: Mapping[str, Expansion] = SPECIAL_FORMULAS
"""The expansion of each operation that has a formula, by name."""
