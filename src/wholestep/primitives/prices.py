"""Which operations are so cheap that their result is made again where it is read, rather than kept in memory."""

from __future__ import annotations

from wholestep.ir.graph import Node

CHEAP = frozenset(
    "add sub mul neg abs maximum minimum equal not_equal less less_equal bitwise_and bitwise_or bitwise_not "
    "bitwise_xor select cast real imag make_complex conj wins sign isfinite isnan floor ceil trunc rint "
    "copysign".split()
)
LIMIT = 8
"""Up to how many cheap operations a value is computed again rather than stored."""
PRICES = {"div": 4}
"""What is dearer than a cheap operation, in cheap ones, and still less than reading its result from memory."""


def price(node: Node) -> int:
    """What an operation costs for each element, in cheap ones; more than the limit where it is not cheap."""
    name = node.op.name
    return PRICES.get(name, 1 if name in CHEAP else LIMIT + 1)
