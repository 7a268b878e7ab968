"""Large products of complex numbers as four of real ones, which are packed and go by blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wholestep.ir.graph import OPS, Value
from wholestep.primitives.contraction import parts

LEAST_PRODUCTS, LEAST_TERMS = 1 << 12, 4
"""The least products, and the least terms of a sum, that are computed by real products: with fewer, splitting operands
and joining results takes as long. Measured.
"""


def real_products(x: Value, y: Value, *, spec: str) -> Sequence[Value] | None:
    """A product of complex operands by their real and imaginary parts; None where it stays.

    c = contract(x, y)  ->  contract(xr, yr) - contract(xi, yi) + i (contract(xr, yi) + contract(xi, yr))
    """
    a, b, out = parts(spec)
    sizes = dict(zip(a + b, x.shape + y.shape, strict=True))
    known = {c: n for c, n in sizes.items() if isinstance(n, int)}
    terms = math.prod([n for c, n in known.items() if c not in out])
    many = len(known) == len(sizes) and math.prod(known.values()) >= LEAST_PRODUCTS and terms >= LEAST_TERMS
    if x.dtype.kind != "c" or not many:
        return None
    planes = [(OPS["real"](v), OPS["imag"](v)) for v in (x, y)]
    (rr, ri), (ir, ii) = [[OPS["contract"](p, q, spec=spec) for q in planes[1]] for p in planes[0]]
    return (OPS["make_complex"](rr - ii, ri + ir),)


EXPANSIONS = {"contract": real_products}
