"""Sizes that are not known yet: integer polynomials of named sizes, each of them at least 1.

B = Dim("B");  (2*B)//2 == B;  (B + 1)*2 == 2*B + 2;  B - B == 0
"""

from wholestep.dims.binding import bind
from wholestep.dims.layout import ASSUMED_SIZE, BLOCK, SAMPLE, blocks, dim_product, per_block, sampled
from wholestep.dims.size import (
    Dim,
    Size,
    greatest,
    least,
    most,
    names,
    substitute,
    supposing,
    surely_above,
)
from wholestep.dims.symbolic_error import SymbolicError
from wholestep.dims.text import OPERATIONS, parse_dim, spelled, spelled_out
from wholestep.dims.traces import answer_in_traces

__all__ = [
    "ASSUMED_SIZE",
    "BLOCK",
    "OPERATIONS",
    "SAMPLE",
    "Dim",
    "Size",
    "SymbolicError",
    "answer_in_traces",
    "bind",
    "blocks",
    "dim_product",
    "greatest",
    "least",
    "most",
    "names",
    "parse_dim",
    "per_block",
    "sampled",
    "spelled",
    "spelled_out",
    "substitute",
    "supposing",
    "surely_above",
]
