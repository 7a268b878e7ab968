"""Core ML as a target: the function that writes each operation, and the dtypes and shapes that its programs have."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from wholestep import dtypes
from wholestep.export.core import Rule
from wholestep.export.coreml.arithmetic import (
    MIL_BINARY,
    MIL_COMPARISONS,
    MIL_LOGIC,
    MIL_UNARY,
    mil_binary,
    mil_bitwise,
    mil_cast,
    mil_chosen,
    mil_comparison,
    mil_complement,
    mil_floored,
    mil_left_shift,
    mil_logarithm,
    mil_negative,
    mil_rest_with_sign,
    mil_right_shift,
    mil_unary,
)
from wholestep.export.coreml.arrays import (
    mil_broadcast,
    mil_concat,
    mil_constant,
    mil_contract,
    mil_counted,
    mil_flip,
    mil_full,
    mil_pad,
    mil_permute,
    mil_reduction,
    mil_reshape,
    mil_running_sum,
    mil_slice,
    mil_truths,
)
from wholestep.export.coreml.control import mil_branched, mil_looped, mil_scanned
from wholestep.export.coreml.indexing import mil_extreme_place, mil_gather, mil_scatter, mil_sorted
from wholestep.export.coreml.writer import Word, fits_mil
from wholestep.export.python.vocabulary import in_float32, is_half
from wholestep.export.rules.complex_pairs import COMPLEX_RULES, has_complex
from wholestep.export.rules.control import is_selectable
from wholestep.export.rules.float32_functions import FLOAT32_RULES
from wholestep.export.rules.table import RULES
from wholestep.ir.graph import Node

REDUCTIONS = {"sum": "reduce_sum", "prod": "reduce_prod", "max": "reduce_max", "min": "reduce_min"}
WORDS: Mapping[str, Word] = {
    **{name: mil_unary(kind) for name, kind in MIL_UNARY.items()},
    **{name: mil_binary(name) for name in MIL_BINARY},
    **{name: mil_comparison(name) for name in MIL_COMPARISONS},
    **{f"bitwise_{kind}": mil_bitwise(kind) for kind in ("and", "or", "xor")},
    **{name: mil_reduction(kind) for name, kind in REDUCTIONS.items()},
    "neg": mil_negative,
    "log": mil_logarithm,
    "select": mil_chosen,
    "cast": mil_cast,
    "bitwise_not": mil_complement,
    "left_shift": mil_left_shift,
    "right_shift": mil_right_shift,
    "floor_divide": mil_floored("floor_div"),
    "remainder": mil_floored("mod"),
    "fmod": mil_rest_with_sign,
    "constant": mil_constant,
    "full": mil_full,
    "iota": mil_counted,
    "broadcast": mil_broadcast,
    "reshape": mil_reshape,
    "permute": mil_permute,
    "flip": mil_flip,
    "slice": mil_slice,
    "concat": mil_concat,
    "pad": mil_pad,
    "contract": mil_contract,
    "any": mil_truths("reduce_max"),
    "all": mil_truths("reduce_min"),
    "argmax": mil_extreme_place("reduce_argmax"),
    "argmin": mil_extreme_place("reduce_argmin"),
    "cumsum": mil_running_sum,
    "gather": mil_gather,
    "scatter": mil_scatter("update"),
    "scatter_add": mil_scatter("add"),
    "sort": mil_sorted(False),
    "top_k": mil_sorted(True),
    "cond": mil_branched,
    "scan": mil_scanned,
    "while_loop": mil_looped,
}
"""The words for each operation."""
FOR_INTEGERS = frozenset(("floor_divide", "remainder", "fmod"))
"""Words that hold for integers; floats have rules."""
FOR_FLOATS = frozenset((*MIL_UNARY, "div", "pow", "log")) - {"abs"}
"""Words that MIL has for floats."""
FOR_NUMBERS = frozenset((*MIL_BINARY, *REDUCTIONS, "neg", "abs", "cumsum")) - frozenset(MIL_LOGIC)
"""Words that MIL has for numbers, and not for truths."""
BY_BITS = frozenset(
    """add sub mul neg equal not_equal select bitwise_and bitwise_or bitwise_xor bitwise_not left_shift broadcast
    reshape permute flip slice concat pad gather scatter scan while_loop cond""".split()
)
"""Words that are the same for uint32 and for the integers with sign that have its bits."""
WITHOUT_RULE = frozenset(("random_bits",))
"""Operations whose shared rule computes in 64 bits."""
COMPLEX_WORDS = frozenset(("make_complex", "real", "imag"))
"""Operations on complex numbers that are written: of pairs of values."""


class CoremlTarget:
    """The vocabulary of Core ML."""

    name = "coreml"
    convolves = False

    def has(self, node: Node) -> bool:
        """True if MIL takes these dtypes, shapes and parameters."""
        op, values = node.op.name, (*node.inputs, *node.outputs)
        if any([0 in v.shape for v in values]):  # no array of Core ML is without elements
            return False
        if has_complex(node):
            return op in COMPLEX_WORDS and all(fits_mil(dtypes.real_of(v.dtype)) for v in values)
        if op not in WORDS or not all([fits_mil(v.dtype) for v in values]):
            return False
        if op == "cond":
            return not is_selectable(node)
        if not node.types:
            return True
        dtype = node.types[0].dtype
        if any([t.dtype == np.uint32 for t in node.types]):
            return op in BY_BITS
        if op in FOR_INTEGERS:
            return dtypes.is_integer(dtype)
        if op in FOR_FLOATS:
            return dtypes.is_float(dtype)
        return not dtypes.is_bool(dtype) or op not in FOR_NUMBERS

    def rule(self, node: Node) -> Rule | None:
        """The rule for an operation that MIL lacks; half precisions are computed in float32 there."""
        if has_complex(node) and node.op.name in COMPLEX_RULES:
            return COMPLEX_RULES[node.op.name]
        if node.op.kind in ("elementwise", "order") and any([is_half(t.dtype) for t in node.types]):
            return partial(in_float32, node.op) if node.op.name != "cast" else None
        if node.op.name in WITHOUT_RULE:
            return None
        return FLOAT32_RULES.get(node.op.name) or RULES.get(node.op.name)

    def outlines(self, node: Node) -> bool:
        """False: there are no functions in the programs."""
        return False


COREML = CoremlTarget()
"""Core ML as a target."""
