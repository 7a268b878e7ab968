"""Sorted scatters: indices are sorted first, so that the updates of each element of the result are contiguous."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.lower.legalize.internal_ops import InternalOp, argsort, collect, run_starts
from wholestep.lower.legalize.scatter_places import scatter_way
from wholestep.lower.legalize.written_places import PlaceRuns, written_runs
from wholestep.lower.target import LookLimits
from wholestep.passes.named_pass import Pass
from wholestep.passes.rewrite import at_roots, defining_node, new_value, rewrite
from wholestep.primitives.family import number_of
from wholestep.primitives.indexing import Scatter


def sort_scatters(graph: Graph, limits: LookLimits | None) -> Graph:
    """Replace scatters of many places to many elements by sorted ones, on targets that have limits.

        y = scatter_add(x, u, i, axes=(0,))
        -->
        n = gather(iota(), i); order = argsort(n)
        starts = run_starts(gather(n, order)); y = collect(x, u, order, starts)

    The result is exact: the sort is stable, so that the updates of an element are applied in their original order.
    Constant indices are sorted at compile time, in any number.
    """
    if limits is None:
        return graph
    known: dict[Any, SortedPlaces] = {}

    def rule(node: Node) -> Value | None:
        x, u, *indices = node.inputs
        way = scatter_way(node, limits) if x.type.size and u.type.size else "in order"
        if way != "sorted" and (way != "by element" or number_of(x) is None):
            return None
        key = (*indices, *[x.shape[a] for a in node.params["axes"]])
        if key not in known:
            runs = written_runs(node)
            if runs is None and way != "sorted":
                return None
            known[key] = sorted_places(node) if runs is None else held_places(node, runs)
        return sorted_scatter(node, known[key])

    return rewrite(graph, at_roots({name: rule for name, op in OPS.items() if isinstance(op, Scatter)}))


class SortedPlaces(NamedTuple):
    """The places of scatters in a stable order, and the positions in it at which the run of each place starts."""

    order: Value
    starts: Value


def sorted_scatter(node: Node, places: SortedPlaces) -> Value:
    """A scatter by the runs of equal places."""
    x, u, index = node.inputs[:3]
    rows = new_value(node, "reshape", u, shape=(index.type.size, *u.shape[index.ndim :]))
    options = {"axes": node.params["axes"], "combiner": node.op.joined_by}
    return internal_value(node, collect, x, rows, *places, **options)


def sorted_places(node: Node) -> SortedPlaces:
    """The places of a scatter, sorted unless they ascend as they are."""
    x, _, *indices = node.inputs
    numbers = place_numbers(node)
    if len(indices) == 1 and is_ascending(indices[0]):
        order, ascending = new_value(node, "iota", shape=numbers.shape, axis=0, dtype=np.dtype(np.int64)), numbers
    else:
        order = internal_value(node, argsort, numbers)
        ascending = new_value(node, "gather", numbers, order, axes=(0,))
    size = math.prod([x.shape[a] for a in node.params["axes"]])
    return SortedPlaces(order, internal_value(node, run_starts, ascending, size=size))


def held_places(node: Node, runs: PlaceRuns) -> SortedPlaces:
    """Places that the program holds in their order."""
    order, starts = [new_value(node, "constant", value=array) for array in runs]
    return SortedPlaces(order, starts)


def place_numbers(node: Node) -> Value:
    """The number, in row-major order of the indexed axes, of each place in one line; refused out of range."""
    x, _, *indices = node.inputs
    axes = node.params["axes"]
    sizes = [x.shape[a] for a in axes]
    dtype = np.dtype(np.uint32 if math.prod(sizes) < 2**32 else np.uint64)
    number: Value | None = None
    for axis, n, index in zip(axes, sizes, indices, strict=True):
        shape = tuple([n if a == axis else 1 for a in range(x.ndim)])
        line = new_value(node, "iota", shape=shape, axis=axis, dtype=dtype)
        known = new_value(node, "gather", line, index, axes=(axis,))
        found = new_value(node, "reshape", known, shape=(index.type.size,))
        if number is not None:
            factor = new_value(node, "full", value=n, shape=found.shape, dtype=dtype)
            found = new_value(node, "add", new_value(node, "mul", number, factor), found)
        number = found
    assert number is not None, "a scatter has an index"
    return number


def internal_value(like: Node, op: InternalOp, *inputs: Value, **params: Any) -> Value:
    """The value of an operation of lowering's own, at the user's line of the node that it replaces."""
    made = Node(op, inputs, params, like.where)
    made.outputs = (Value(op.type(*[v.type for v in inputs], **params), made, None),)
    return made.outputs[0]


def is_ascending(v: Value) -> bool:
    """Test whether a vector of unsigned integers ascends by construction: a result of a sort, or a running count."""
    if v.ndim != 1 or dtypes.counts_back(v.dtype) or v.node is None:
        return False
    limited = defining_node(v, "minimum")
    if limited is not None:
        bounded = [x for x in limited.inputs if number_of(x) is None]
        return len(bounded) == 1 and is_ascending(bounded[0])
    if defining_node(v, "sort") is not None:
        return v is v.node.outputs[0]
    less = defining_node(v, "sub")
    return less is not None and number_of(less.inputs[1]) == 1 and is_count_from_one(less.inputs[0])


def is_count_from_one(v: Value) -> bool:
    """Test whether a value is a running count of true elements, the first of which is true."""
    count = defining_node(v, "cumsum")
    truths = defining_node(count.inputs[0], "cast") if count is not None and not count.params["reverse"] else None
    if truths is None or truths.inputs[0].dtype != bool:
        return False
    marks = truths.inputs[0]
    joined = defining_node(marks, "concat")
    return number_of(marks if joined is None else joined.inputs[0]) is True


SORT_SCATTERS = Pass("sort_scatters", sort_scatters, exact=True)
