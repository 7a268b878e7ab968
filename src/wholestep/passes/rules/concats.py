"""Rules for concatenations: parts that lie side by side in one array are one part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from wholestep.ir.graph import Node, Value
from wholestep.passes.rewrite import defining_node, new_value
from wholestep.passes.rules.arithmetic import is_positive_zero, output_full_of
from wholestep.passes.rules.movement import permute_value, reshape_value
from wholestep.primitives.family import number_of


def simplify_concat(node: Node) -> Value | None:
    """A concat of fewer parts, as its one part, or as a pad where all others are zeros."""
    axis = node.params["axis"]
    parts = merge_rows(node, merge_neighbours(node, flatten_concat(node), axis), axis)
    if len(parts) == 1:
        return parts[0]
    numbers = {repr(number_of(v)) for v in parts}
    if len(numbers) == 1 and number_of(parts[0]) is not None:
        return output_full_of(node, number_of(parts[0]))
    inner = [v for v in parts if not is_positive_zero(v)]
    if len(inner) == 1:
        at = parts.index(inner[0])
        return pad_axis(node, inner[0], axis, [sum([v.shape[axis] for v in p]) for p in (parts[:at], parts[at + 1 :])])
    return new_value(node, "concat", *parts, axis=axis) if len(parts) != len(node.inputs) else None


def pad_axis(node: Node, x: Value, axis: int, widths: Sequence[Any]) -> Value:
    """x padded with zeros along one axis."""
    before, after = [tuple([w if i == axis else 0 for i in range(x.ndim)]) for w in widths]
    return new_value(node, "pad", x, before=before, after=after, interior=(0,) * x.ndim)


def flatten_concat(node: Node) -> list[Value]:
    """The parts of a concat, with nested concats flattened and empty parts dropped."""
    axis = node.params["axis"]
    found = [part for v in node.inputs for part in parts_along(v, axis)]
    return [v for v in found if v.shape[axis] != 0] or found[:1]


def parts_along(v: Value, axis: int) -> tuple[Value, ...]:
    """The parts of a concatenation along an axis; another value is its own only part."""
    joined = defining_node(v, "concat")
    return joined.inputs if joined and joined.params["axis"] == axis else (v,)


def merge_neighbours(node: Node, parts: Sequence[Value], axis: int) -> list[Value]:
    """The parts of a concat, with adjacent slices of one array merged."""
    found: list[Value] = []
    for v in parts:
        both = merge_slices(node, found[-1], v, axis) if found else None
        if both is None:
            found.append(v)
        else:
            found[-1] = both
    return found


class Row(NamedTuple):
    """A row of an array: its place along an axis."""

    array: Value
    axis: int
    place: int


def merge_rows(node: Node, parts: Sequence[Value], axis: int) -> list[Value]:
    """The parts of a concat, with rows of one array that follow each other, each reshaped, as one part."""
    found: list[Value] = []
    rows = [reshaped_row(v, axis) for v in parts]
    start = 0
    for i, row in enumerate(rows):
        following = rows[i + 1] if i + 1 < len(rows) else None
        if row and following == row._replace(place=row.place + 1) and parts[i + 1].shape == parts[i].shape:
            continue
        first = rows[start]
        found += [rows_as_part(node, parts[i], first, i + 1 - start, axis)] if first and i > start else [parts[i]]
        start = i + 1
    return found


def reshaped_row(v: Value, axis: int) -> Row | None:
    """The row that was reshaped to a value of one element along an axis, or None."""
    moved = defining_node(v, "reshape")
    part = defining_node(moved.inputs[0], "slice") if moved and v.shape[axis] == 1 else None
    if part is None or any(n != 1 for n in part.params["step"]):
        return None
    x, start, stop = part.inputs[0], part.params["start"], part.params["stop"]
    cut = [i for i, n in enumerate(x.shape) if (start[i], stop[i]) != (0, n)]
    is_row = len(cut) == 1 and isinstance(start[cut[0]], int) and stop[cut[0]] == start[cut[0]] + 1
    return Row(x, cut[0], start[cut[0]]) if is_row else None


def rows_as_part(node: Node, like: Value, first: Row, count: int, axis: int) -> Value:
    """Some rows of an array, from a first one on, along an axis; each is like a value."""
    x, at, k = first
    begin = tuple([k if i == at else 0 for i in range(x.ndim)])
    end = tuple([k + count if i == at else n for i, n in enumerate(x.shape)])
    rows = new_value(node, "slice", x, start=begin, stop=end, step=(1,) * x.ndim)
    shape = (count, *like.shape[:axis], *like.shape[axis + 1 :])
    return with_axis_at(node, reshape_value(node, with_axis_at(node, rows, at, 0), shape), 0, axis)


def with_axis_at(node: Node, x: Value, source: int, to: int) -> Value:
    """x with one axis at another place."""
    order = [i for i in range(x.ndim) if i != source]
    order.insert(to, source)
    return permute_value(node, x, tuple(order))


def merge_slices(node: Node, left: Value, right: Value, axis: int) -> Value | None:
    """The slice that two adjacent slices of one array make together, or None."""
    a, b = defining_node(left, "slice"), defining_node(right, "slice")
    if a is None or b is None or a.inputs != b.inputs or a.params["step"] != b.params["step"]:
        return None
    step = a.params["step"]
    for i in range(left.ndim):
        first, second = (a.params["start"][i], a.params["stop"][i]), (b.params["start"][i], b.params["stop"][i])
        if first != second if i != axis else step[i] != 1 or first[1] != second[0]:
            return None
    stop = tuple([(b if i == axis else a).params["stop"][i] for i in range(left.ndim)])
    return new_value(node, "slice", a.inputs[0], start=a.params["start"], stop=stop, step=step)
