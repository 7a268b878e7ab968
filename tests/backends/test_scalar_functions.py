"""Scalar functions in WGSL: a final selection is a branch, and operands of one side alone are computed in it."""

from __future__ import annotations

from wholestep.backends.gpu.scalar_functions import write_scalar_code
from wholestep.backends.gpu.wgsl import WGSL
from wholestep.kernel.lang import Var
from wholestep.kernel.maths.coefficients import F32
from wholestep.kernel.maths.float_bits import select


def mended(x: Var, y: Var) -> Var:
    """The product of two numbers where the first is smaller, else the sum of three."""
    s = x + y
    return select(x < y, x * y, s + x * s)


def test_a_selection_at_the_end_is_a_branch() -> None:
    assert write_scalar_code(mended, 2, F32, WGSL()) == [
        "    let v1 = x0 + x1;",
        "    var found = v1 + (x0 * v1); if (ws_lt(x0, x1)) { found = x0 * x1; } return found;",
    ]


def test_another_result_is_returned() -> None:
    assert write_scalar_code(lambda x: x + x, 1, F32, WGSL()) == ["    return (x0 + x0);"]
