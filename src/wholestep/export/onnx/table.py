"""ONNX as a target: the function that writes each operation, and the types for which ONNX Runtime has CPU kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from wholestep import dtypes
from wholestep.export.core import Rule
from wholestep.export.onnx.arithmetic import (
    BINARY,
    COMPARISONS,
    REDUCTIONS,
    UNARY,
    onnx_binary,
    onnx_bitwise,
    onnx_chosen,
    onnx_comparison,
    onnx_different,
    onnx_finite,
    onnx_floored_quotient,
    onnx_not_a_number,
    onnx_share_of_maximum,
    onnx_shifted,
    onnx_signed_remainder,
    onnx_unary,
    onnx_whole_remainder,
)
from wholestep.export.onnx.arrays import (
    onnx_cast,
    onnx_constant,
    onnx_contract,
    onnx_counted,
    onnx_cut,
    onnx_flip,
    onnx_full,
    onnx_full_pair,
    onnx_gather,
    onnx_joined,
    onnx_largest_place,
    onnx_ordered,
    onnx_padded,
    onnx_permute,
    onnx_reduced,
    onnx_reshape,
    onnx_running_sum,
    onnx_scattered,
    onnx_sum,
    onnx_thinly_broadcast,
    onnx_truths,
)
from wholestep.export.onnx.control import onnx_branched, onnx_looped, onnx_scanned
from wholestep.export.onnx.convolutions import onnx_windows
from wholestep.export.onnx.kernels import wider
from wholestep.export.onnx.scalar_code import COMPLEX_DERIVED, DERIVED, onnx_derived
from wholestep.export.onnx.writer import ON_PAIRS, OnnxWriter, Word
from wholestep.export.python.vocabulary import in_float32, is_half
from wholestep.export.rules.complex_pairs import COMPLEX_RULES, has_complex
from wholestep.export.rules.control import is_selectable, is_skipped_update
from wholestep.export.rules.functions import FUNCTION_RULES
from wholestep.export.rules.table import RULES
from wholestep.ir.graph import Node
from wholestep.primitives.family import number_of


def onnx_own_or_derived(kind: str) -> Word:
    """An operator where ONNX Runtime has its kernel, else the scalar code."""
    own = onnx_unary(kind)

    def word(w: OnnxWriter, node: Node, xs: list[str]) -> str | Sequence[str]:
        known = wider(kind, node.types[0].dtype) is not None
        return own(w, node, xs) if known else onnx_derived(w, node, xs)

    return word


WORDS: Mapping[str, Word] = {
    **dict.fromkeys(DERIVED, onnx_derived),
    **{ON_PAIRS + name: onnx_derived for name in COMPLEX_DERIVED},
    ON_PAIRS + "full": onnx_full_pair,
    **{name: onnx_own_or_derived(kind) if name in DERIVED else onnx_unary(kind) for name, kind in UNARY.items()},
    **{name: onnx_binary(name) for name in BINARY},
    **{name: onnx_comparison(kind) for name, kind in COMPARISONS.items()},
    **{f"bitwise_{name}": onnx_bitwise(name.capitalize()) for name in ("and", "or", "xor", "not")},
    **{name: onnx_reduced(kind) for name, kind in REDUCTIONS.items()},
    "sum": onnx_sum,
    "not_equal": onnx_different,
    "isnan": onnx_not_a_number,
    "isfinite": onnx_finite,
    "select": onnx_chosen,
    "wins": onnx_share_of_maximum,
    "left_shift": onnx_shifted("LEFT"),
    "right_shift": onnx_shifted("RIGHT"),
    "floor_divide": onnx_floored_quotient,
    "remainder": onnx_whole_remainder,
    "fmod": onnx_signed_remainder,
    "cast": onnx_cast,
    "full": onnx_full,
    "broadcast": onnx_thinly_broadcast,
    "constant": onnx_constant,
    "iota": onnx_counted,
    "reshape": onnx_reshape,
    "permute": onnx_permute,
    "flip": onnx_flip,
    "slice": onnx_cut,
    "pad": onnx_padded,
    "concat": onnx_joined,
    "contract": onnx_contract,
    "window": onnx_windows,
    "any": onnx_truths("ReduceSum"),
    "all": onnx_truths("ReduceProd"),
    "argmax": onnx_largest_place,
    "cumsum": onnx_running_sum,
    "gather": onnx_gather,
    "scatter": onnx_scattered("none"),
    "scatter_add": onnx_scattered("add"),
    "sort": onnx_ordered(0),
    "top_k": onnx_ordered(1),
    "cond": onnx_branched,
    "scan": onnx_scanned,
    "while_loop": onnx_looped,
}
"""The words for each operation."""
OPERATORS: Mapping[str, str] = {
    **UNARY,
    **BINARY,
    **COMPARISONS,
    **REDUCTIONS,
    "not_equal": "Equal",
    "isnan": "IsNaN",
    "isfinite": "IsInf",
    "floor_divide": "Div",
    "remainder": "Mod",
    "fmod": "Mod",
    "pad": "Pad",
    "contract": "MatMul",
    "cumsum": "CumSum",
    "scatter": "ScatterND",
    "scatter_add": "ScatterND",
    "sort": "TopK",
    "top_k": "TopK",
}
"""The operator that an operation needs a kernel of, in the dtype of its first operand or a wider one."""
COMPLEX_WORDS = COMPLEX_DERIVED | {"make_complex", "real", "imag"}
"""Operations on complex numbers that are written: of pairs of names."""
UNSIGNED_ONLY_BY_RULE = frozenset("pow div floor_divide fmod scatter_add sort top_k max min argmax".split())
"""Operations that are left out for unsigned integers of 64 bits, which the wider kernels would change."""


class OnnxTarget:
    """The vocabulary of ONNX."""

    name = "onnx"
    convolves = True

    def has(self, node: Node) -> bool:
        """True if an operator takes these dtypes and parameters."""
        op = node.op.name
        if has_complex(node):
            return op in COMPLEX_WORDS
        if op not in WORDS:
            return False
        if op == "cond":
            return not is_selectable(node) or is_skipped_update(node)
        if op == "wins":
            return node.types[0].dtype.name == "float32" and 0 in map(number_of, node.inputs)
        if not node.types:
            return True
        dtype = node.types[0].dtype
        integer = dtype.kind in "iu"
        if (op in ("remainder", "floor_divide") and not integer) or (op == "pow" and integer):
            return False
        if op in UNSIGNED_ONLY_BY_RULE and dtype.name == "uint64":
            return False
        if dtypes.is_bool(dtype) and op in BINARY:
            return op in ("add", "mul", "maximum", "minimum")
        if op in DERIVED and op not in OPERATORS:
            return op == "nextafter" or dtype.name in ("float32", "float64")
        return op not in OPERATORS or op in DERIVED or wider(OPERATORS[op], dtype) is not None

    def rule(self, node: Node) -> Rule | None:
        """The rule for an operation that ONNX lacks; half precisions are computed in float32."""
        if has_complex(node) and node.op.name in COMPLEX_RULES:
            return COMPLEX_RULES[node.op.name]
        if node.op.kind in ("elementwise", "order") and node.op.name != "cast":
            if any([is_half(t.dtype) for t in node.types]):
                return partial(in_float32, node.op)
        return FUNCTION_RULES.get(node.op.name) or RULES.get(node.op.name)

    def outlines(self, node: Node) -> bool:
        """False: there are no functions in the files."""
        return False


ONNX = OnnxTarget()
"""ONNX as a target."""
