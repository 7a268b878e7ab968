"""Expansion of operations that lowering has no rule for into those that it has, with all bodies inlined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import numpy as np

from wholestep import dtypes
from wholestep.contents import same_bits
from wholestep.ir.build import blame, build
from wholestep.ir.graph import OPS, Graph, NDArray, Node, Value
from wholestep.lower.kernels.scalar_codegen import SLICE_KERNEL_SIZE, SLICE_SHARE
from wholestep.lower.legalize import attention, complex_products, fft, matrix_functions, sort
from wholestep.lower.legalize.attention_blocks import no_panels
from wholestep.lower.legalize.internal_ops import require
from wholestep.lower.target import CORE_ATTENTION, SCALAR, Expansion, Target
from wholestep.passes.dce import dce
from wholestep.passes.inline_bodies import splice
from wholestep.passes.named_pass import Pass
from wholestep.primitives.attention import in_compute_dtype
from wholestep.primitives.family import zeros

INTEGER = np.dtype(np.int64)
TRIANGLE_SIZE = 1 << 14
"""The least elements of a constant triangle that is computed."""


def int64_branch_index(index: Value, *operands: Value, branches: tuple[Graph, ...]) -> Sequence[Value] | None:
    """A branch selected by an int64."""
    if index.dtype == INTEGER:
        return None
    wide = OPS["cast"](index, dtype=INTEGER)
    return OPS["cond"](wide, *operands, branches=branches)  # type: ignore[return-value]  # it has several


def check_exponents(x: Value, y: Value) -> Sequence[Value] | None:
    """A power of integers with a check for negative exponents, as in NumPy."""
    if y.dtype.kind != "i" or y.type.size == 0:
        return None
    fine = OPS["all"](OPS["less_equal"](zeros(y.type), y), axes=tuple(range(y.ndim)))
    message = "Integers to negative integer powers are not allowed."
    return (OPS["pow"](x, require(y, fine, kind="value", message=message, hint="")),)


def wide_sums(x: Value, u: Value, *indices: Value, axes: tuple[int, ...]) -> Sequence[Value] | None:
    """Sums of half precision in float32, as those of `sum` are; a single update is rounded once in any case."""
    if dtypes.compute_dtype(x.dtype) == x.dtype or indices[0].type.size == 1:
        return None
    whole = OPS["scatter_add"](in_compute_dtype(x), in_compute_dtype(u), *indices, axes=axes)
    return (OPS["cast"](whole, dtype=x.dtype),)


def write_spread_elements(
    x: Value, *, before: tuple[int, ...], after: tuple[int, ...], interior: tuple[int, ...]
) -> Sequence[Value] | None:
    """Few elements with many zeros between them, written into zeros: no position is divided by their distance."""
    made = OPS["pad"].type(x.type, before=before, after=after, interior=interior)
    if not any(interior) or not all(isinstance(n, int) and n >= 0 for n in (*made.shape, *before, *after)):
        return None
    if made.size < SLICE_KERNEL_SIZE or x.type.size * SLICE_SHARE > made.size:
        return None
    return (OPS["update_slice"](zeros(made), x, start=before, step=tuple([gap + 1 for gap in interior])),)


def compare_positions(*, value: NDArray) -> Sequence[Value] | None:
    """A large constant of one number on and below a diagonal and another one above it, as a mask of attention is, by a
    comparison of the row with the column: the program does not hold it."""
    if value.ndim != 2 or value.size < TRIANGLE_SIZE or value.dtype.kind == "V":
        return None
    (rows, columns), low, high = value.shape, value[-1, 0], value[0, -1]
    diagonal = int(np.argmax(value[0] == high)) - 1
    whole = np.where(np.tri(rows, columns, diagonal, dtype=bool), low, high)
    if low == high or not same_bits(whole, value):
        return None
    row, column = (OPS["iota"](shape=value.shape, axis=axis, dtype=np.dtype(np.int32)) for axis in (0, 1))
    below = OPS["less_equal"](column, row + diagonal)
    if value.dtype == bool:
        return (below if low else OPS["bitwise_not"](below),)
    either = [OPS["full"](value=v, shape=value.shape, dtype=value.dtype) for v in (low, high)]
    return (OPS["select"](below, *either),)


def has_safe_exponent(node: Node) -> bool:
    """True if the exponent of a power is known to be valid, or has been checked."""
    made_by = node.inputs[1].node
    if made_by is None or not (made_by.op.literal or made_by.op.uniform or made_by.op is require):
        return False
    return made_by.op is require or bool(np.all(np.asarray(made_by.params["value"]) >= 0))


EXPANSIONS: dict[str, Expansion] = {
    **attention.expansions(no_panels, CORE_ATTENTION),
    **sort.EXPANSIONS,
    **matrix_functions.EXPANSIONS,
    **fft.EXPANSIONS,
    **complex_products.EXPANSIONS,
    "cond": int64_branch_index,
    "constant": compare_positions,
    "pad": write_spread_elements,
    "pow": check_exponents,
    "scatter_add": wide_sums,
}
"""Expansion of each operation: (operands, **params) -> results, or None if the node stays."""


def expansion_of(node: Node, rules: Mapping[str, Expansion], read: Set[Value]) -> Graph | None:
    """The graph that replaces a node; None if it stays. Rules named "values of" an operation apply to nodes whose first
    result alone is read."""
    rule = rules.get(node.op.name)
    if len(node.outputs) > 1 and read.isdisjoint(node.outputs[1:]):
        rule = rules.get(f"values of {node.op.name}", rule)
    if rule is None or (rule is check_exponents and has_safe_exponent(node)):
        return None
    stays = False

    def write(*xs: Value) -> Sequence[Value]:
        nonlocal stays
        blame(node.where)
        made = rule(*xs, **node.params)
        stays = made is None
        return made or ()

    found, _ = build(write, node.types, name=node.op.name)
    return None if stays else found


def expand_ops(graph: Graph, target: Target = SCALAR) -> Graph:
    """Replace operations that lowering has no rule for by others that it supports, or by calls of a target's libraries.

    Operands that an expansion multiplies block by block are arranged in panels of columns where the target has panels.

    y = triangular_solve(a, b)
    -->
    t = permute(a); u = permute(b); v = trtrs(t, u); y = permute(v)
    """
    rules = {
        **EXPANSIONS,
        **matrix_functions.unrolled_expansions(target.doubles),
        **attention.expansions(target.panel_columns, target.attention),
        **target.expansions(),
    }
    read = {*graph.outputs, *[v for node in graph.nodes for v in node.inputs]}
    found = splice(graph, lambda node: expansion_of(node, rules, read))
    return graph if found is graph else dce(found)  # an expansion may read some of the results of another


EXPAND_OPS = Pass("expand_ops", expand_ops, optional=False)
