"""Picks: the parts that a loop takes out of one array, a part for each layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.passes.rolling.runs import LEAST
from wholestep.passes.rolling.signature import Members, Signatures


def picks(graph: Graph, signatures: Signatures) -> dict[Value, Node]:
    """The slices of one array that differ in where they begin, where there are as many as a loop has layers.

    They are no operations of a layer, each of which would be another one, but what it is given.
    """
    slices: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        if node.op.name == "slice":
            slices.setdefault(node.inputs[0], []).append(node)
    often = Counter([signatures.of(v.node) for v in slices if v.node is not None and v.node.inputs])
    found: dict[Value, Node] = {}
    for base, nodes in slices.items():
        if base.node is not None and base.node.inputs and often[signatures.of(base.node)] >= LEAST:
            continue  # a part of each layer, which takes it apart
        starts = {node.params["start"] for node in nodes}
        shapes = {node.outputs[0].shape for node in nodes}
        if len(starts) >= LEAST and len(shapes) == 1 and all(axis_of(node) is not None for node in nodes):
            found.update({node.outputs[0]: node for node in nodes})
    return found


def axis_of(node: Node) -> int | None:
    """The axis of which a slice takes one place, and all of the others; None where it is not such a slice."""
    shape, start, stop = node.inputs[0].shape, node.params["start"], node.params["stop"]
    cut = [i for i, n in enumerate(shape) if (start[i], stop[i]) != (0, n)]
    return cut[0] if len(cut) == 1 and stop[cut[0]] - start[cut[0]] == 1 else None


def picked(t: Members) -> tuple[Value, int, int] | None:
    """The array of which these are neighbouring parts, the axis, and the first; None where they are something else."""
    nodes = [v.node for v in t]
    first = nodes[0]
    if first is None or any(n is None or n.op.name != "slice" or n.inputs != first.inputs for n in nodes):
        return None
    axis = axis_of(first)
    if axis is None or any(axis_of(n) != axis for n in nodes if n is not None):
        return None
    starts = [n.params["start"][axis] for n in nodes if n is not None]
    return (first.inputs[0], axis, starts[0]) if starts == list(range(starts[0], starts[0] + len(t))) else None


def in_row(base: Value, axis: int, first: int, shape: Sequence[int], count: int) -> Value:
    """Neighbouring parts of an array, one for each layer."""
    start = tuple([first if i == axis else 0 for i in range(base.ndim)])
    stop = tuple([first + count if i == axis else n for i, n in enumerate(base.shape)])
    part = OPS["slice"](base, start=start, stop=stop, step=(1,) * base.ndim)
    turned = OPS["permute"](part, axes=(axis, *[i for i in range(base.ndim) if i != axis]))
    return OPS["reshape"](turned, shape=(count, *shape))
