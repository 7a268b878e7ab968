"""Loop-invariant matrices: factors of products in every step of a scan, arranged in panels of columns before the loop.

    h = contract(h, w, spec="ik,kj->ij")                in each step, with w: f32[512, 2048]
    -->
    p = permute(reshape(w, shape=(512, 128, 16)), axes=(1, 0, 2))       once
    h = reshape(contract(h, p, spec="ik,akb->iab"), shape=...)          in each step

A panel has the columns of a register tile, which reads it term by term, so that no step transposes or packs the matrix
again. The terms of each sum keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import array_type
from wholestep.passes.convolution_gradients import through_permute
from wholestep.passes.named_pass import Pass
from wholestep.passes.rewrite import at_roots, copy_node, new_value, rewrite
from wholestep.passes.rules.movement import permute_value
from wholestep.primitives.contraction import LETTERS, parts

MIN_ROWS, MIN_TERMS = 16, 32
"""The least rows and terms of a contraction with panels: with fewer rows a matrix is read in place, and fewer terms do
not repay the copy."""
MIN_BYTES = 1 << 17
"""The least bytes of a matrix in panels: a smaller one stays in the cache of a core as it is."""

PanelWidth = Callable[[int], int]
"""The columns of a panel, by the bytes of an element; 0 where a target has no panels."""


class PanelOperand(NamedTuple):
    """An operand of a contraction that is a matrix from outside the loop: its position among the contraction's inputs
    and among those of the loop's body, which of its axes the terms run along, and the columns of a panel.
    """

    position: int
    constant: int
    term_axis: int
    width: int


def panel_operand(node: Node, constants: Sequence[Value], width: PanelWidth) -> PanelOperand | None:
    """The operand of a contraction for which panels pay; None where there is none."""
    a, b, out = parts(node.params["spec"])
    for position, (own, other) in enumerate(((a, b), (b, a))):
        base, axes = through_permute(node.inputs[position])
        if base not in constants or base.ndim != 2 or base.dtype not in (np.float32, np.float64):
            continue
        terms, columns = [c for c in own if c in other and c not in out], out[-1:]
        if len(terms) != 1 or columns not in own or columns in other:
            continue
        term_axis, lanes = axes[own.index(terms[0])], width(base.dtype.itemsize)
        k, j, size = base.shape[term_axis], base.shape[1 - term_axis], node.outputs[0].type.size
        if not all(isinstance(n, int) for n in (k, j, size)) or not lanes or j % lanes:
            continue
        if k >= MIN_TERMS and size // j >= MIN_ROWS and base.type.nbytes >= MIN_BYTES:
            return PanelOperand(position, constants.index(base), term_axis, lanes)
    return None


def in_panels(node: Node, matrix: Value, term_axis: int, width: int) -> Value:
    """A matrix as panels [columns / width, terms, width]."""
    k, j = matrix.shape[term_axis], matrix.shape[1 - term_axis]
    if term_axis == 0:
        return permute_value(node, new_value(node, "reshape", matrix, shape=(k, j // width, width)), (1, 0, 2))
    return permute_value(node, new_value(node, "reshape", matrix, shape=(j // width, width, k)), (0, 2, 1))


def contracted_panels(node: Node, found: PanelOperand, panels: Value) -> Value:
    """A contraction with an operand in panels."""
    a, b, out = parts(node.params["spec"])
    own, other = (a, b) if found.position == 0 else (b, a)
    free = [c for c in LETTERS if c not in a + b]
    term = next(c for c in own if c in other)
    columns = f"{free[0]}{term}{free[1]}"
    x = node.inputs[1 - found.position]
    made = new_value(node, "contract", x, panels, spec=f"{other},{columns}->{out[:-1]}{free[0]}{free[1]}")
    return new_value(node, "reshape", made, shape=node.outputs[0].shape)


def scan_over_panels(node: Node, width: PanelWidth) -> tuple[Value, ...] | None:
    """A scan whose steps read matrices from outside in panels; None where there are none."""
    body, (c, k) = node.params["graph"], node.params["sizes"]
    constants = body.inputs[:c]
    panels: dict[tuple[int, int], Value] = {}
    outside: list[Value] = []

    def read_panels(inner: Node) -> Value | None:
        found = panel_operand(inner, constants, width)
        if found is None:
            return None
        key = found.constant, found.term_axis
        if key not in panels:
            outside.append(in_panels(node, node.inputs[found.constant], found.term_axis, found.width))
            panels[key] = Value(array_type(outside[-1].shape, outside[-1].dtype), None, None)
        return contracted_panels(inner, found, panels[key])

    made = rewrite(body, at_roots({"contract": read_panels}))
    if not panels:
        return None
    inputs = (*body.inputs[:c], *panels.values(), *body.inputs[c:])
    changed = Graph(inputs, made.nodes, made.outputs, body.name)
    given = (*node.inputs[:c], *outside, *node.inputs[c:])
    return copy_node(node, given, {**node.params, "graph": changed, "sizes": (c + len(panels), k)}).outputs


def loop_invariant_panels(graph: Graph, width: PanelWidth) -> Graph:
    """Arrange the matrices that every step of a scan multiplies by in panels, before the loop.

    h = contract(h, w, spec="ik,kj->ij")
    -->
    r = reshape(w, shape=(512, 128, 16)); p = permute(r, axes=(1, 0, 2))
    t = contract(h, p, spec="ik,akb->iab"); h = reshape(t, shape=(32, 2048))
    """
    return rewrite(graph, at_roots({"scan": lambda node: scan_over_panels(node, width)}))


LOOP_INVARIANTS = Pass("loop_invariants", loop_invariant_panels)
