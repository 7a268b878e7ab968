"""A fold over two loops: the outer one carries the inner one's result, in any order of its steps."""

import pytest
from tests.kernel.parse import parse_kernel

from wholestep.errors import KernelError
from wholestep.kernel.verify import verify_kernel

FOLD = """
kernel total(x: f32[12], mut y: f32[1]):
    v0 = f32(0.0)
    for i in 3:
        carry v1 from v0
        for j in 4 lanes 4:
            v2 = x[4*i + j]
            fold v3 = add(v2) from v1
        next v1 = v3, after v4
    y[0] = v4
"""

USED = FOLD.replace("v2 = x[4*i + j]", "v2 = max(v1, v0)")
NEGATED = FOLD.replace("        next v1 = v3", "        v5 = neg(v3)\n        next v1 = v5")

# The carry of a loop of one step varies with the loops around it only if its operands do.
EVEN = """
kernel rare(x: f32[12], mut y: f32[1]):
    v0 = f32(0.0)
    for i in 4 lanes 4:
        v1 = x[i]
        v2 = across(add, v1, i)
        for rare in 1 ordered:
            carry v3 from v2
            v4 = v3 + v2
            next v3 = v4, after v5
        y[0] = v5
"""
UNEVEN = EVEN.replace("v4 = v3 + v2", "v4 = v3 + v1")


@pytest.mark.parametrize("text", [FOLD, EVEN])
def test_what_is_right_passes(text: str) -> None:
    verify_kernel(parse_kernel(text.strip()))


@pytest.mark.parametrize("text", [USED, NEGATED, UNEVEN])
def test_what_is_wrong_does_not(text: str) -> None:
    with pytest.raises(KernelError, match="order"):
        verify_kernel(parse_kernel(text.strip()))
