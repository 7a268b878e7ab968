"""Index arithmetic: quotients and remainders of affine expressions are those of the numbers that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.index_arithmetic import divide_index
from wholestep.kernel.lang import Axis, Index


@pytest.mark.parametrize(("const", "row", "column"), [(0, 12, 1), (8, 4, 1), (13, 8, 2), (24, 12, 0), (5, 4, 0)])
def test_a_quotient_and_a_remainder_are_those_of_the_number(const: int, row: int, column: int) -> None:
    """As for a slice that begins at a row of its own: 4 * (i + 2) + j is in row i + 2."""
    i, j = Axis("i", 3), Axis("j", 2)
    index = Index(const, {k: c for k, c in ((i, row), (j, column)) if c})
    whole, rest = divide_index(KernelBuilder("divided"), index, 4)
    for a, b in np.ndindex(3, 2):
        at = {i: a, j: b}
        number = const + row * a + column * b
        found = [x.const + sum(c * at[k] for k, c in x.terms.items() if isinstance(k, Axis)) for x in (whole, rest)]
        assert found == [number // 4, number % 4]
