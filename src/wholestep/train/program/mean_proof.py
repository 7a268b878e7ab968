"""A proof, by analysis of a graph for any number of rows, that a loss is a mean over rows of a function of each row."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from wholestep.dims import Dim
from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Shape
from wholestep.primitives.contraction import parts
from wholestep.primitives.loops import Scan
from wholestep.primitives.structure import Body

ROWS = Dim("rows")
"""The number of rows, on which a proved loss depends only as a mean over rows does."""


class RowDependence(NamedTuple):
    """The way in which a value depends on the rows of a batch."""

    name: str
    axis: int = -1
    """The axis along which rows of equal numbers of elements lie; -1 where there is none."""

    def at(self, axis: int) -> RowDependence:
        """The same kind with rows along another axis."""
        return RowDependence(self.name, axis)


FIXED = RowDependence("fixed")
"""No dependence: parameters, constants, numbers of the batch."""
SIZE = RowDependence("size")
"""A multiple of the number of rows."""
SUM = RowDependence("sum")
"""A sum over rows of a function of each."""
MEAN = RowDependence("mean")
"""A sum over rows divided by the number of rows, possibly plus a value of kind FIXED."""
EACH, PLACE = "each", "place"
"""The names of kinds with an axis: elements that depend on their own row alone, and places along the axis."""

RowDependences = Sequence[RowDependence]
MaybeKind = RowDependence | None
"""A kind, or None for a value of which no kind is proved."""


def is_mean(graph: Graph) -> bool:
    """Return whether the first result is a mean over rows; inputs of symbolic size have rows along axis 0."""
    given = [RowDependence(EACH, 0) if any(isinstance(n, Dim) for n in t.shape) else FIXED for t in graph.in_types]
    return result_kinds(graph, given)[0] in (FIXED, MEAN)


def result_kinds(graph: Graph, given: Sequence[MaybeKind]) -> list[MaybeKind]:
    """The kinds of the results of a graph whose inputs are of the given kinds."""
    known = {v: checked_kind(v, kind) for v, kind in zip(graph.inputs, given, strict=True)}
    for node in graph.nodes:
        kinds = [kind for v in node.inputs if (kind := known[v]) is not None]
        made = node_kinds(node, kinds) if len(kinds) == len(node.inputs) else [None] * len(node.outputs)
        known.update({v: checked_kind(v, kind) for v, kind in zip(node.outputs, made, strict=True)})
    return [known[v] for v in graph.outputs]


def checked_kind(v: Value, kind: MaybeKind) -> MaybeKind:
    """The kind, if the only symbolic size of the value is that of the kind's axis of rows; else None."""
    if kind is None:
        return None
    symbolic = [i for i, n in enumerate(v.type.shape) if isinstance(n, Dim)]
    if not symbolic:
        return kind if kind.axis < 0 else None
    return kind if symbolic == [kind.axis] and is_multiple_of_rows(v.type.shape[kind.axis]) else None


def is_multiple_of_rows(size: Dim) -> bool:
    """Return whether a size is a multiple of the number of rows."""
    return size.terms.keys() == ROWS.terms.keys()


def holds_symbolic_size(param: Any) -> bool:
    """Return whether a parameter of a node holds a symbolic size."""
    if isinstance(param, Graph):
        return any(holds_symbolic_size(p) for node in param.nodes for p in node.params.values())
    return isinstance(param, Dim) or (isinstance(param, tuple) and any(map(holds_symbolic_size, param)))


def node_kinds(node: Node, kinds: RowDependences) -> Sequence[MaybeKind]:
    """The kinds of a node's results for operands of these kinds."""
    if all(kind is FIXED for kind in kinds) and not any(map(holds_symbolic_size, node.params.values())):
        return [FIXED] * len(node.outputs)
    if isinstance(node.op, Body):
        return result_kinds(node.params["graph"], kinds)
    if isinstance(node.op, Scan):
        return scan_kinds(node, kinds)
    rule = BY_NAME.get(node.op.name) or BY_KIND.get(node.op.kind)
    return [None if rule is None else rule(node, kinds)] * len(node.outputs)


def scan_kinds(node: Node, kinds: RowDependences) -> Sequence[MaybeKind]:
    """The kinds of the results of a loop whose carries keep their kinds at each step; steps of the loop are no rows."""
    constants, carries = node.params["sizes"]
    fixed, xs = list(kinds[:constants]), list(kinds[constants + carries :])
    carry: list[MaybeKind] = list(kinds[constants : constants + carries])
    failed: list[MaybeKind] = [None] * len(node.outputs)
    if holds_symbolic_size(node.params["length"]):
        return failed
    while True:
        made = result_kinds(node.params["graph"], [*fixed, *carry, *[shift_rows_axis(x, -1) for x in xs]])
        after = [new if old is FIXED and new is MEAN else old for old, new in zip(carry, made, strict=False)]
        if after == carry:
            kept = all(new == old or (new is FIXED and old is MEAN) for old, new in zip(carry, made, strict=False))
            return [*carry, *[shift_rows_axis(y, 1) for y in made[carries:]]] if kept else failed
        carry = after


def shift_rows_axis(kind: MaybeKind, by: int) -> MaybeKind:
    """The kind with so many more axes in front of it; None where the axis of rows would be gone."""
    if kind is None or kind.axis < 0:
        return kind
    return kind.at(kind.axis + by) if kind.axis + by >= 0 else None


def elementwise_rule(node: Node, kinds: RowDependences) -> MaybeKind:
    """The kind of an elementwise result: of rows, rows; of a sum or a mean, the same where the operation is linear."""
    name, varying = node.op.name, {kind for kind in kinds if kind is not FIXED}
    (only,) = varying if len(varying) == 1 else (None,)
    if only is not None and only.name == EACH:
        return only
    if not node.outputs[0].type.inexact:
        return None
    if name == "div" and tuple(kinds) == (SUM, SIZE):
        return MEAN
    if only not in (SUM, MEAN):
        return only if name == "cast" and only is SIZE else None
    linear = {
        "cast": True,
        "neg": True,
        "add": only is MEAN or FIXED not in kinds,
        "sub": only is MEAN or FIXED not in kinds,
        "mul": FIXED in kinds,
        "div": kinds[-1] is FIXED,
    }
    return only if linear.get(name, False) else None


def reduction_rule(node: Node, kinds: RowDependences) -> MaybeKind:
    """The kind of a reduction's result: rows where elements of one row are combined, or a sum over all rows."""
    (kind,), (x,), (out,) = kinds, node.inputs, node.outputs
    axes = node.params["axes"] if "axes" in node.params else (node.params["axis"],)
    adds = node.op.fold == "add" and out.type.inexact
    if kind.name == EACH and kind.axis not in axes:
        return kind.at(kind.axis - sum(a < kind.axis for a in axes) * (out.ndim < x.ndim))
    if kind.name == EACH:
        return SUM if adds else None
    return kind if adds and kind in (SUM, MEAN) else None


def contraction_rule(node: Node, kinds: RowDependences) -> MaybeKind:
    """The kind of a contraction's result: rows, or a sum where the axis of rows is contracted."""
    *operands, out = parts(node.params["spec"])
    varying = [(kind, labels) for kind, labels in zip(kinds, operands, strict=True) if kind is not FIXED]
    if any(kind.name != EACH for kind, _ in varying):
        return varying[0][0] if len(varying) == 1 and varying[0][0] in (SUM, MEAN) else None
    label = varying[0][1][varying[0][0].axis]  # rows of another label in the other operand would be in the result
    if label in out:
        return RowDependence(EACH, out.index(label))
    return SUM if node.outputs[0].type.inexact else None


def broadcast_rule(node: Node, kinds: RowDependences) -> MaybeKind:
    """The kind of a broadcast: a fixed value becomes equal rows."""
    kind, shape, axes = kinds[0], node.params["shape"], node.params["axes"]
    if kind.axis >= 0:
        return kind.at(axes[kind.axis])
    return same_for_each_row(shape) if kind is FIXED else kind


def same_for_each_row(shape: Shape) -> RowDependence:
    """The kind of an array of this shape whose rows are equal."""
    return RowDependence(EACH, next(i for i, n in enumerate(shape) if isinstance(n, Dim)))


def reshape_rule(node: Node, kinds: RowDependences) -> MaybeKind:
    """The kind of a reshape: rows stay whole where the axes before them have as many elements as before."""
    kind, before, after = kinds[0], node.inputs[0].type.shape, node.params["shape"]
    if kind.axis < 0:
        return kind
    axis = next((i for i, n in enumerate(after) if isinstance(n, Dim)), len(after))
    if math.prod(after[:axis]) != math.prod(before[: kind.axis]):
        return None
    return kind.at(axis) if kind.name == EACH or before[kind.axis] == after[axis] else None


def permute_rule(node: Node, kinds: RowDependences) -> MaybeKind:
    """The kind of a permutation, with the axis of rows at its new place."""
    kind = kinds[0]
    return kind if kind.axis < 0 else kind.at(node.params["axes"].index(kind.axis))


def flip_rule(node: Node, kinds: RowDependences) -> MaybeKind:
    """The kind of a flip of axes other than that of rows."""
    return kinds[0] if kinds[0].axis not in node.params["axes"] else None


def axis_rule(node: Node, kinds: RowDependences) -> MaybeKind:
    """The kind of a slice, a concatenation, padding or a sort, where the axis of rows stays whole."""
    kind, params = kinds[0], node.params
    if kind.name != EACH or any(other != kind for other in kinds) or params.get("axis") == kind.axis:
        return None
    sizes = {v.type.shape[kind.axis] for v in (*node.inputs, *node.outputs)}
    if len(sizes) > 1 or any(holds_symbolic_size(p) for name, p in params.items() if name != "stop"):
        return None
    whole = {"start": 0, "step": 1, "before": 0, "interior": 0}
    return kind if all(params[name][kind.axis] == n for name, n in whole.items() if name in params) else None


def window_rule(node: Node, kinds: RowDependences) -> MaybeKind:
    """The kind of windows over the last axes, where the axis of rows comes before them."""
    kind, inner = kinds[0], len(node.params["size"])
    return kind if kind.name == EACH and kind.axis < node.inputs[0].ndim - inner else None


def gather_rule(node: Node, kinds: RowDependences) -> MaybeKind:
    """The kind of a gather at indices of each row, from a fixed table, or from the row itself at its own place."""
    x, indices = kinds[0], dict(zip(node.params["axes"], kinds[1:], strict=True))
    table, first = node.inputs[:2]
    place = indices.pop(x.axis, None)
    varying = {kind for kind in indices.values() if kind is not FIXED}
    if x.name == EACH and place is None:
        kept = [a for a in range(table.ndim) if a not in indices]
        return None if varying else x.at(first.ndim + kept.index(x.axis))
    if x.name == EACH and place is not None:
        same = place.name == PLACE and table.shape[x.axis] == first.shape[place.axis]
        return RowDependence(EACH, place.axis) if same and varying <= {RowDependence(EACH, place.axis)} else None
    (only,) = varying if len(varying) == 1 else (None,)
    return only if x is FIXED and only is not None and only.name == EACH else None


def full_rule(node: Node, kinds: RowDependences) -> MaybeKind:
    """The kind of an array of one number, which may be the number of rows."""
    value, dtype = node.params["value"], node.outputs[0].type.dtype
    if not isinstance(value, Dim):
        return same_for_each_row(node.params["shape"])
    return SIZE if is_multiple_of_rows(value) and dtype.kind in "if" and dtype.itemsize >= 4 else None


def iota_rule(node: Node, kinds: RowDependences) -> MaybeKind:
    """The kind of an iota: places along the axis of rows, or numbers along another one."""
    found = same_for_each_row(node.params["shape"])
    return RowDependence(PLACE, found.axis) if found.axis == node.params["axis"] else found


def mark_rule(node: Node, kinds: RowDependences) -> MaybeKind:
    """The kind of an operation that returns its operand; None for collectives."""
    return None if node.op.collective else kinds[0]


DependenceRule = Callable[[Node, RowDependences], MaybeKind]

BY_KIND: dict[str, DependenceRule] = {
    "elementwise": elementwise_rule,
    "reduction": reduction_rule,
    "mark": mark_rule,
    "order": axis_rule,
}
BY_NAME: dict[str, DependenceRule] = {
    "contract": contraction_rule,
    "broadcast": broadcast_rule,
    "reshape": reshape_rule,
    "permute": permute_rule,
    "flip": flip_rule,
    "slice": axis_rule,
    "pad": axis_rule,
    "concat": axis_rule,
    "update_slice": axis_rule,
    "window": window_rule,
    "gather": gather_rule,
    "full": full_rule,
    "iota": iota_rule,
}
"""The rules that prove a kind, by the name of a primitive, before `BY_KIND`; without a rule no kind is proved."""
