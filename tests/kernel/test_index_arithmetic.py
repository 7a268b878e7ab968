"""Index arithmetic: quotients and remainders of affine expressions are those of the numbers that they stand for."""

from __future__ import annotations

import numpy as np
import pytest

from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.index_arithmetic import divide_index, linear_index
from wholestep.kernel.lang import Axis, Index


@pytest.mark.parametrize(("const", "row", "column"), [(0, 12, 1), (8, 4, 1), (13, 8, 2), (24, 12, 0), (5, 4, 0)])
def test_a_quotient_and_a_remainder_are_those_of_the_number(const: int, row: int, column: int) -> None:
    """For example, a slice that begins at a row of its own: 4 * (i + 2) + j is in row i + 2."""
    i, j = Axis("i", 3), Axis("j", 2)
    index = Index(const, {k: c for k, c in ((i, row), (j, column)) if c})
    whole, rest = divide_index(KernelBuilder("divided"), index, 4)
    for a, b in np.ndindex(3, 2):
        at = {i: a, j: b}
        number = const + row * a + column * b
        found = [x.const + sum(c * at[k] for k, c in x.terms.items() if isinstance(k, Axis)) for x in (whole, rest)]
        assert found == [number // 4, number % 4]


def split_axis(divisor: int) -> tuple[Axis, Index, Index]:
    """An axis of 128, and its quotient and remainder by a number, not affine, as a reshape has them."""
    builder, axis = KernelBuilder("split"), Axis("i", 128)
    with builder.loop(axis):
        quotient, rest = divide_index(builder, Index(3, {axis: 1}), divisor)
    return axis, quotient, rest


def test_what_was_divided_is_whole_again_where_it_is_put_together() -> None:
    """Otherwise a split of channels that is undone at once would gather contiguous elements one by one."""
    axis, quotient, rest = split_axis(64)
    assert linear_index((quotient, rest), (64, 1), 5) == Index(8, {axis: 1})
    assert linear_index((quotient, rest), (128, 2)) == Index(6, {axis: 2})


@pytest.mark.parametrize("strides", [(32, 1), (64, 2), (1, 64), (-64, 1)])
def test_other_steps_leave_a_quotient_and_its_remainder_apart(strides: tuple[int, int]) -> None:
    axis, quotient, rest = split_axis(64)
    assert axis not in linear_index((quotient, rest), strides).terms
