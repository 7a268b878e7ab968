"""Expansion: what lowering has no rule for, said in operations that it has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from wholestep.ir.build import blame, build
from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.lower import fourier, linalg, matrices, sorting
from wholestep.lower.inner import require
from wholestep.passes.rewrite import copied
from wholestep.primitives.family import zeros

INTEGER = np.dtype(np.int64)
BODIES = frozenset(("composite", "checkpoint", "custom_vjp", "custom_jvp"))
"""Operations that are nothing but their body here."""


def counted(index: Value, *operands: Value, branches: tuple[Graph, ...]) -> Sequence[Value] | None:
    """A branch chosen by a number of the one kind that plans know."""
    if index.dtype == INTEGER:
        return None
    wide = OPS["cast"](index, dtype=INTEGER)
    made: Sequence[Value] = OPS["cond"](wide, *operands, branches=branches)  # type: ignore[assignment]  # it has several
    return made


def powered(x: Value, y: Value) -> Sequence[Value] | None:
    """A power of integers, once no exponent is negative, as NumPy asks."""
    if y.dtype.kind != "i" or y.type.size == 0:
        return None
    fine = OPS["all"](OPS["less_equal"](zeros(y.type), y), axes=tuple(range(y.ndim)))
    message = "Integers to negative integer powers are not allowed."
    return (OPS["pow"](x, require(y, fine, kind="value", message=message, hint="")),)


def harmless(node: Node) -> bool:
    """Whether the exponent of a power is seen to be fine, or has been looked at."""
    made_by = node.inputs[1].node
    if made_by is None or made_by.op.name not in ("full", "constant", "require"):
        return False
    return made_by.op is require or bool(np.all(np.asarray(made_by.params["value"]) >= 0))


EXPANSIONS: dict[str, Callable[..., Sequence[Value] | None]] = {
    **sorting.EXPANSIONS,
    **linalg.EXPANSIONS,
    **matrices.EXPANSIONS,
    **fourier.EXPANSIONS,
    "cond": counted,
    "pow": powered,
}
"""What other operations are in simpler ones: (operands, **params) -> results, or None where the node stays."""


def body_of(node: Node) -> Graph | None:
    """The graph that may stand in the place of a node; None where it stays."""
    if node.op.name in BODIES:
        body: Graph = node.params["graph"]
        return body
    rule = EXPANSIONS.get(node.op.name)
    if rule is None or (node.op.name == "pow" and harmless(node)):
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


def expanded(graph: Graph) -> Graph:
    """The same program in operations that lowering knows, every body in the place of its call."""
    nodes: list[Node] = []

    def run(inner: Graph, env: dict[Value, Value]) -> Sequence[Value]:
        for node in inner.nodes:
            inputs = tuple([env.get(v, v) for v in node.inputs])
            body = body_of(node)
            if body is not None:
                env.update(zip(node.outputs, run(body, dict(zip(body.inputs, inputs, strict=True))), strict=True))
            elif inner is graph and inputs == node.inputs:
                nodes.append(node)
            else:
                nodes.append(copied(node, inputs, node.params))
                env.update(zip(node.outputs, nodes[-1].outputs, strict=True))
        return [env.get(v, v) for v in inner.outputs]

    if not any(node.op.name in BODIES or node.op.name in EXPANSIONS for node in graph.nodes):
        return graph
    outputs = run(graph, {})
    return Graph(graph.inputs, tuple(nodes), tuple(outputs), graph.name, graph.input_names)
