"""Sliced operands: slices of one array, one for each layer, which a loop reads as a stacked operand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.reroll.isomorphism import Isomorphism, Pack
from wholestep.passes.reroll.repeats import MIN_TRIPS
from wholestep.primitives.movement import Slice, permute, reshape, slice_along


def find_sliced_operands(graph: Graph, signatures: Isomorphism) -> dict[Value, Node]:
    """The slices of one array that differ in their start, where there are enough of them for a loop.

    They are operands of the iterations and none of their operations, which would not be isomorphic.
    """
    slices: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        if isinstance(node.op, Slice):
            slices.setdefault(node.inputs[0], []).append(node)
    often = Counter([signatures.of(v.node) for v in slices if v.node is not None and v.node.inputs])
    found: dict[Value, Node] = {}
    for base, nodes in slices.items():
        if base.node is not None and base.node.inputs and often[signatures.of(base.node)] >= MIN_TRIPS:
            continue  # slices of a value of each iteration, taken apart inside
        starts = {node.params["start"] for node in nodes}
        shapes = {node.outputs[0].shape for node in nodes}
        if len(starts) >= MIN_TRIPS and len(shapes) == 1 and all(unit_slice_axis(node) is not None for node in nodes):
            found.update({node.outputs[0]: node for node in nodes})
    return found


def unit_slice_axis(node: Node) -> int | None:
    """The axis of which a slice takes one element, with all of the other axes; None for other slices."""
    shape, start, stop = node.inputs[0].shape, node.params["start"], node.params["stop"]
    cut = [i for i, n in enumerate(shape) if (start[i], stop[i]) != (0, n)]
    return cut[0] if len(cut) == 1 and stop[cut[0]] - start[cut[0]] == 1 else None


def sliced_pack(t: Pack) -> tuple[Value, int, int] | None:
    """The array of which a pack is the adjacent slices, the axis, and the first start; None for other packs."""
    nodes = [v.node for v in t]
    first = nodes[0]
    if first is None or any(n is None or not isinstance(n.op, Slice) or n.inputs != first.inputs for n in nodes):
        return None
    axis = unit_slice_axis(first)
    if axis is None or any(unit_slice_axis(n) != axis for n in nodes if n is not None):
        return None
    starts = [n.params["start"][axis] for n in nodes if n is not None]
    return (first.inputs[0], axis, starts[0]) if starts == list(range(starts[0], starts[0] + len(t))) else None


def stack_slices(base: Value, axis: int, first: int, shape: Sequence[int], count: int) -> Value:
    """The adjacent slices of an array as a stacked operand."""
    turned = permute(
        slice_along(base, axis, first, first + count), axes=(axis, *[i for i in range(base.ndim) if i != axis])
    )
    return reshape(turned, shape=(count, *shape))
