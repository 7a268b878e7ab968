"""Inlining: operations that have a body of their own, such as composites, become its operations."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.cse import cse
from wholestep.passes.named_pass import Pass
from wholestep.passes.rewrite import copy_node

BODY_OPS = frozenset(("composite", "checkpoint", "custom_vjp", "custom_jvp", "custom_vmap"))
"""Operations whose result is that of their body; the rest of them is for derivatives and batches."""


def inline_bodies(graph: Graph, names: Collection[str] = BODY_OPS) -> Graph:
    """Put the bodies of composites, checkpoints and functions with rules of their own in the place of their calls.

        y = composite(x, label="relu", graph=g)             where g(a) = maximum(a, full(0))
        -->
        y = maximum(x, full(0))

    Bodies inside bodies are inlined too; those of loops and branches, which run their graphs otherwise, are left.
    """

    def body_of(node: Node) -> Graph | None:
        found: Graph | None = node.params["graph"] if node.op.name in names else None
        return found

    here = any([node.op.nested and body_of(node) is not None for node in graph.nodes])
    return splice(graph, body_of) if here else graph


def splice(graph: Graph, body_of: Callable[[Node], Graph | None]) -> Graph:
    """The graph with nodes replaced, in order, by the graphs that `body_of` gives, and theirs in the same way."""
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
                nodes.append(copy_node(node, inputs, node.params))
                env.update(zip(node.outputs, nodes[-1].outputs, strict=True))
        return [env.get(v, v) for v in inner.outputs]

    env: dict[Value, Value] = {}
    outputs = run(graph, env)
    return Graph(graph.inputs, tuple(nodes), tuple(outputs), graph.name, graph.input_names) if env else graph


def share_composites(graph: Graph) -> Graph:
    """Compute once the operations that the body of a composite shares with its gradient, in the place of its call.

        y = composite(x, label="centred", graph=g); m = sum(x); z = mul(m, m)       where g(a) = sub(a, sum(a))
        -->
        m = sum(x); y = sub(x, m); z = mul(m, m)

    Checkpoints are still calls, since their bodies are recomputed on purpose.
    """
    return cse(inline_bodies(graph, ("composite",)))


SHARE_COMPOSITES = Pass("share_composites", share_composites, exact=True)
INLINE_BODIES = Pass("inline_bodies", inline_bodies, exact=True, optional=False)
