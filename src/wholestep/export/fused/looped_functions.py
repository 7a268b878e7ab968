"""Functions in the bodies of loops, whose derivatives are in backward loops over the residuals of the first ones.

carry, kept = scan(x, body); …; g = scan(gy, kept, back)      kept: residuals, which the same step of the other reads
-->
one body of both, searched as any program, and cut again where the inputs of the second loop alone come in
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from wholestep.export.core import CONVOLVING
from wholestep.export.fused.formulas import nodes_between
from wholestep.export.fused.replaced_values import with_values
from wholestep.ir.analysis import dependents, reordered
from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.pipeline import run_passes
from wholestep.passes.rewrite import at_roots, copy_node, copy_nodes, map_params, on_values, rewrite
from wholestep.primitives.loops import split_late
from wholestep.primitives.min_cut import again

Fuse = Callable[[Graph], Graph]
"""The search in one graph."""
LOOPS = ("scan", "while_loop", "cond")
"""Operations whose bodies are searched."""


def fused_loops(graph: Graph, fuse: Fuse) -> Graph:
    """The graph with the functions of its loops and branches as one operation each: of two loops, then of each body."""
    tried = set[LoopPair]()
    while (pair := next((pair for pair in loop_pairs(graph) if pair not in tried), None)) is not None:
        tried.add(pair)
        graph = pair.fused(graph, fuse)

    def replace(node: Node) -> tuple[Value, ...] | None:
        params = map_params(node, fuse)
        return None if params is node.params else copy_node(node, node.inputs, params).outputs

    return rewrite(graph, at_roots({name: replace for name in LOOPS}))


def loop_pairs(graph: Graph) -> Iterator[LoopPair]:
    """The loops that read the rows of another one, with that."""
    for back in graph.nodes:
        if back.op.name == "scan":
            rows = [v.node for v in back.inputs[sum(back.params["sizes"]) :] if v.node is not None]
            for first in dict.fromkeys(rows):
                if first.op.name == "scan" and first.params["length"] == back.params["length"]:
                    yield LoopPair(first, back)


class SharedBody(NamedTuple):
    """A step of two loops as one graph: the inputs of the first loop, then those that the second alone has."""

    graph: Graph
    own: tuple[int, ...]
    """The positions of the latter among the inputs of the second loop."""
    stays: tuple[int, ...]
    """The positions of the first loop's results that other operations than the second loop read, its carries first."""


class LoopPair(NamedTuple):
    """A loop, and one that reads its rows."""

    first: Node
    back: Node

    def fused(self, graph: Graph, fuse: Fuse) -> Graph:
        """The graph with functions of the one whose derivatives are in the other; itself where there are none."""
        shared, constants = self.shared(graph), self.first.params["sizes"][0]
        whole = run_passes(shared.graph, CONVOLVING)
        # a second loop that recomputes values which the first one was not to keep stays as it is
        if costly(whole, constants) < costly(shared.graph, constants):
            return graph
        made = fuse(whole)
        if calls(made) == calls(whole):
            return graph
        return run_passes(with_values(graph, self.values(made, shared)), ("cse", "dce"))

    def shared(self, graph: Graph) -> SharedBody:
        """The two bodies as one, in which the second reads the first one's rows directly."""
        first, back = self.first, self.back
        (c, k), (c2, k2) = first.params["sizes"], back.params["sizes"]
        body, late = first.params["graph"], back.params["graph"]
        fixed = dict(zip(first.inputs[:c], body.inputs, strict=False))
        rows = dict(
            zip((*first.inputs[c + k :], *first.outputs[k:]), (*body.inputs[c + k :], *body.outputs[k:]), strict=True)
        )
        env, own, nodes = dict[Value, Value](), list[int](), [*body.nodes]
        for i, (v, inner) in enumerate(zip(back.inputs, late.inputs, strict=True)):
            known = fixed if i < c2 else rows if i >= c2 + k2 else {}
            if i < c2 and v not in fixed:
                nodes += made_of_constants(graph, v, first, fixed)
            env[inner] = known.get(v, Value(inner.type, None, None))
            own += [] if v in known else [i]
        nodes += copy_nodes(late.nodes, env)
        read = {v for node in graph.nodes if node is not back for v in node.inputs} | {*graph.outputs}
        stays = [i for i, v in enumerate(first.outputs) if i < k or v in read]
        outputs = (*[body.outputs[i] for i in stays], *[env[v] for v in late.outputs])
        inputs = (*body.inputs, *[env[late.inputs[i]] for i in own])
        return SharedBody(Graph(inputs, tuple(nodes), outputs), tuple(own), tuple(stays))

    def values(self, made: Graph, shared: SharedBody) -> dict[Value, Value]:
        """The results of new loops by those of both loops; the new bodies are the parts of a shared one."""
        first, back = self.first, self.back
        (c, k), (c2, k2) = first.params["sizes"], back.params["sizes"]
        halves = split_late(made, len(first.inputs), len(shared.stays), (c, k))
        forth = loop_like(first, halves.forward, first.inputs, (c, k))
        early = on_values(halves.early, first.inputs[:c])
        read = [first.inputs[c + k + i] for i in halves.x_places] + [forth.outputs[i] for i in halves.kept]
        e, n = len(early), len(early) + len(read)
        own = [[t for t, i in enumerate(shared.own) if low <= i < high] for low, high in ((0, c2), (c2, c2 + k2))]
        own.append(list(range(len(own[0]) + k2, len(shared.own))))
        fixed, carries, rows = [[back.inputs[shared.own[t]] for t in part] for part in own]
        places = [[n + t for t in part] for part in own]
        order = [*range(e), *places[0], *places[1], *range(e, n), *places[2]]
        body = reordered(with_own_inputs(halves.backward), order, range(len(halves.backward.outputs)))
        again = loop_like(back, body, (*early, *fixed, *carries, *read, *rows), (e + len(fixed), k2))
        found = dict(zip([first.outputs[i] for i in shared.stays], forth.outputs, strict=False))
        return found | dict(zip(back.outputs, again.outputs, strict=True))


def loop_like(node: Node, body: Graph, inputs: Sequence[Value], sizes: tuple[int, int]) -> Node:
    """A loop as another one is, with another body."""
    made = Node(node.op, tuple(inputs), {**node.params, "graph": body, "sizes": sizes}, node.where)
    made.outputs = tuple([Value(t, made, None) for t in node.op.type(*made.types, **made.params)])
    return made


def with_own_inputs(graph: Graph) -> Graph:
    """A graph whose inputs no node makes."""
    env = {v: Value(v.type, None, None) for v in graph.inputs}
    inputs, nodes = tuple(env.values()), tuple(copy_nodes(graph.nodes, env))
    return Graph(inputs, nodes, tuple([env[v] for v in graph.outputs]), graph.name)


def made_of_constants(graph: Graph, v: Value, loop: Node, fixed: dict[Value, Value]) -> list[Node]:
    """Copies of the operations that compute a value from a loop's constants; empty if it depends on other values."""
    inside = nodes_between([v], [*fixed])
    operands = [v, *[x for node in inside for x in node.inputs]]
    given = all([x.node is not None or x in fixed for x in operands])
    if not given or loop in inside or any([node.op.nested for node in inside]):
        return []
    return copy_nodes([node for node in graph.nodes if node in inside], fixed)


def costly(graph: Graph, constants: int) -> int:
    """The number of a step's operations that are expensive to recompute and depend on more than its constants."""
    moving = dependents(graph, graph.inputs[constants:])
    made = [node.outputs[0] for node in graph.nodes]
    return sum([v in moving and not again(v) for v in made])


def calls(graph: Graph) -> int:
    """The functions that are called in a graph and those inside it."""
    return sum([node.op.name == "composite" for each in graph.family() for node in each.nodes])
