"""tally: what is found out about all layers of a loop together is found out layer by layer, as they are made.

    g = scan(h, xs, graph=backward)                    flag, g = scan(true, h, xs, graph=counting)
    flag = all(isfinite(g), axes=(0, 1, 2))     ->         # a step: flag = flag & all(isfinite(row of g))

A reduction over a stack has as many stages as its size asks for; in the loop it has those of one layer. So the program
is the same for every number of layers, and a gradient is looked at while it is in cache. In the branch of an update,
where nothing is made, sums and extremes get a loop of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep import config, dtypes
from wholestep.ir.build import blame, build, inline, trim
from wholestep.ir.graph import OPS, Graph, Node, Value, subgraphs
from wholestep.ir.types import array_type
from wholestep.passes.check import check
from wholestep.passes.rewrite import copied, make, rewrite
from wholestep.passes.rolling.write import ADDED

TAKEN = {"all": "bitwise_and", "any": "bitwise_or", "sum": "add", "max": "maximum", "min": "minimum"}
"""Reductions, and the operation that takes one more layer in."""
MOST = 32
"""How many operations may be done again in a loop to find out something."""
COUNTED = "counted"
"""What the step of a loop is called that does nothing but count."""
EXACT = ("all", "any")
"""Those that are the same in any order, and end early for nobody: they go into the loop that makes the layers."""


class Tally(NamedTuple):
    """A reduction of a stack: the stacks that it is made of, and what is the same for all layers."""

    node: Node
    stacks: dict[Value, None]
    fixed: dict[Value, None]
    inside: dict[Node, None]
    """The operations between those and the reduction."""

    @property
    def length(self) -> int:
        """The number of layers."""
        return int(self.node.inputs[0].shape[0])

    def start(self) -> float | int | bool:
        """What it is of no layers."""
        name, dtype = self.node.op.name, self.node.outputs[0].dtype
        if name in ("all", "any", "sum"):
            return name == "all" if name != "sum" else 0
        sign = -1 if name == "max" else 1
        if dtypes.is_inexact(dtype):
            return sign * float("inf")
        return int(np.iinfo(dtype).max if sign > 0 else np.iinfo(dtype).min)

    def after(self, so_far: Value, env: dict[Value, Value]) -> Value:
        """What it is with one layer more; `env` has the rows of the stacks, and what is fixed."""
        before = blame(self.node.where)
        x = row(self.node.inputs[0], dict(env))
        inside = tuple([a - 1 for a in self.node.params["axes"] if a])
        found = OPS[self.node.op.name](x, axes=inside) if inside else x
        result = OPS[TAKEN[self.node.op.name]](so_far, found)
        blame(before)
        return result


def row(v: Value, env: dict[Value, Value]) -> Value:
    """One layer of a value that is computed layer by layer."""
    if v in env:
        return env[v]
    assert v.node is not None
    op, params = v.node.op, dict(v.node.params)
    if op.name in ("full", "broadcast", "reshape"):
        params["shape"] = tuple(params["shape"])[1:]
    if op.name == "broadcast":
        inputs = [row(x, env) if 0 in params["axes"] else env[x] for x in v.node.inputs]
        params["axes"] = tuple([a - 1 for a in params["axes"] if a])
    else:
        inputs = [row(x, env) for x in v.node.inputs]
    if op.name in TAKEN:
        params["axes"] = tuple([a - 1 for a in params["axes"]])
    env[v] = op(*inputs, **params)
    return env[v]


def follow(v: Value, tally: Tally, stacks: Collection[Value]) -> bool:
    """Whether a value is computed layer by layer; enters the stacks that it is made of, and what is fixed."""
    if v.shape[:1] != (tally.length,):
        return False
    if v in stacks:
        tally.stacks[v] = None
        return True
    node = v.node
    if node is None or node in tally.inside:
        return node is not None
    tally.inside[node] = None
    if len(tally.inside) > MOST:
        return False
    if node.op.name == "broadcast" and 0 not in node.params["axes"]:
        tally.fixed[node.inputs[0]] = None
        return True
    alike = node.op.name in ("full", "broadcast", "reshape") or getattr(node.op, "kind", "") == "elementwise"
    if not (alike or by_layer(node)):
        return False
    return all(follow(x, tally, stacks) for x in node.inputs)


def by_layer(node: Node) -> bool:
    """Whether a node reduces every layer to something of its own."""
    return node.op.name in TAKEN and 0 not in node.params["axes"]


class Loop(NamedTuple):
    """A loop, and what is counted in it."""

    node: Node
    tallies: list[Tally]

    def takes(self, tally: Tally) -> bool:
        """Whether it was made to count, along as many layers."""
        return not self.node.outputs and self.node.params["length"] == tally.length

    def gathered(self) -> Loop:
        """With all stacks that its tallies need among those that it goes along."""
        if self.node.outputs:
            return self
        xs = tuple(dict.fromkeys([v for tally in self.tallies for v in tally.stacks]))
        rows = tuple([Value(array_type(v.shape[1:], v.dtype), None, None) for v in xs])
        params = {**self.node.params, "graph": Graph(rows, (), (), COUNTED)}
        return self._replace(node=Node(self.node.op, xs, params, self.node.where))

    def written(self, env: dict[Value, Value]) -> Iterator[Node]:
        """The nodes of the new loop; enters the values that stand for those of the old one and for the tallies."""
        node, tallies = self.node, self.tallies
        c, k = node.params["sizes"]
        fixed = list(dict.fromkeys([v for tally in tallies for v in tally.fixed]))
        starts = [make(t.node, "full", value=t.start(), shape=(), dtype=t.node.outputs[0].dtype) for t in tallies]
        yield from [v.node for v in starts if v.node is not None]
        old = [env.get(v, v) for v in node.inputs]
        inputs = (*old[:c], *[env.get(v, v) for v in fixed], *old[c : c + k], *starts, *old[c + k :])
        params = {**node.params, "graph": self.step(fixed), "sizes": (c + len(fixed), k + len(tallies))}
        new = Node(node.op, inputs, params, node.where)
        new.outputs = tuple([Value(t, new, None) for t in node.op.type(*[v.type for v in inputs], **params)])
        end = k + len(tallies)
        env.update(zip(node.outputs, [*new.outputs[:k], *new.outputs[end:]], strict=True))
        env.update({t.node.outputs[0]: v for t, v in zip(tallies, new.outputs[k:end], strict=True)})
        yield new

    def step(self, fixed: Sequence[Value]) -> Graph:
        """A step of the loop, counting: (constants, fixed, carry, counts, xs) -> (carry, counts, ys)."""
        graph, (c, k) = self.node.params["graph"], self.node.params["sizes"]
        f, n = len(fixed), len(self.tallies)
        types = list(graph.in_types)
        counts = [t.node.outputs[0].type for t in self.tallies]
        types = [*types[:c], *[v.type for v in fixed], *types[c : c + k], *counts, *types[c + k :]]

        def step(*values: Value) -> list[Value]:
            carry, so_far, xs = values[c + f : c + f + k], values[c + f + k : c + f + k + n], values[c + f + k + n :]
            outs = inline(graph, [*values[:c], *carry, *xs])
            env = dict(zip(fixed, values[c : c + f], strict=True))
            env.update(zip(self.node.inputs[c + k :], xs, strict=True))
            env.update(zip(self.node.outputs[k:], outs[k:], strict=True))
            after = [t.after(count, env) for t, count in zip(self.tallies, so_far, strict=True)]
            return [*outs[:k], *after, *outs[k:]]

        return build(step, types, name=graph.name)[0]


def tallied(graph: Graph) -> Graph:
    """The graph with the reductions of what its loops make, and of what its branches are given of that, by layers."""
    made = counted(graph, frozenset())
    if made is not graph and config.check():
        check("tally", graph, made, False)
    return made


def counted(graph: Graph, given: frozenset[Value]) -> Graph:
    """The graph, the graphs inside it among them; `given` are its inputs that are stacks where it is used."""
    graph = summed(deepened(graph, given), given)
    loops = loops_of(graph, given)
    if not loops:
        return graph
    env: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node in loops:
            nodes += loops[node].written(env)
        if node.outputs[0] not in env:
            nodes.append(renamed(node, node.params, env))
    outputs = tuple([env.get(v, v) for v in graph.outputs])
    return Graph(graph.inputs, trim(nodes, outputs), outputs, graph.name, graph.input_names)


def renamed(node: Node, params: dict[str, Any], env: dict[Value, Value]) -> Node:
    """A node with other parameters and with what stands for its inputs; enters its outputs where it is another."""
    inputs = tuple([env.get(v, v) for v in node.inputs])
    if params is node.params and inputs == node.inputs:
        return node
    new = copied(node, inputs, params)
    env.update(zip(node.outputs, new.outputs, strict=True))
    return new


def deepened(graph: Graph, given: frozenset[Value]) -> Graph:
    """The graph with the graphs inside it done."""
    stacks = {*given, *made_by_loops(graph)}
    env: dict[Value, Value] = {}
    nodes = [renamed(node, inner(node, stacks), env) for node in graph.nodes]
    if not env:
        return graph
    outputs = tuple([env.get(v, v) for v in graph.outputs])
    return Graph(graph.inputs, tuple(nodes), outputs, graph.name, graph.input_names)


def inner(node: Node, stacks: Collection[Value]) -> dict[str, Any]:
    """The parameters of a node with its graphs done; a branch is told which of its operands are stacks."""
    if not node.op.nested:
        return node.params

    def done(item: Any) -> Any:
        if not isinstance(item, Graph):
            return item
        pairs = zip(item.inputs, node.inputs[1:], strict=True) if node.op.name == "cond" else ()
        return counted(item, frozenset([v for v, x in pairs if x in stacks]))

    params = {k: tuple(map(done, v)) if type(v) is tuple else done(v) for k, v in node.params.items()}
    same = all(a is b for a, b in zip(subgraphs(node), subgraphs(Node(node.op, (), params, None)), strict=True))
    return node.params if same else params


def made_by_loops(graph: Graph) -> dict[Value, list[Node]]:
    """The stacks that loops go along or make, with these loops, and what such stacks are put together or cut from.

    So a stack is one in every mode of `nn.Stack`, whose groups of layers are parts of it: the same sums have the same
    order in all of them.
    """
    found: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        if node.op.name == "scan" and isinstance(node.params["length"], int) and node.params["length"]:
            c, k = node.params["sizes"]
            for v in (*node.inputs[c + k :], *node.outputs[k:]):
                found.setdefault(v, []).append(node)
        elif node.op.name == "checkpoint":
            own: Graph = node.params["graph"]
            inside = made_by_loops(own)
            pairs = zip((*own.inputs, *own.outputs), (*node.inputs, *node.outputs), strict=True)
            found.update({v: [] for x, v in pairs if x in inside and v not in found})
    for node in reversed(graph.nodes):
        if node.op.name in REGROUPED and node.outputs[0] in found and by_first_axis(node):
            found.setdefault(node.inputs[0], [])
    for node in graph.nodes:
        together = node.op.name in TOGETHER and by_first_axis(node) and any(v in found for v in node.inputs)
        if together or (
            node.op.name == "add" and any(v in found for v in node.inputs) and all(map(padded, node.inputs))
        ):
            found.setdefault(node.outputs[0], [])
    return found


REGROUPED = ("reshape", "slice")
"""What takes layers out of a stack, or puts them into groups."""
TOGETHER = ("reshape", "pad", "concat")
"""What makes one stack of several, or of groups."""


def by_first_axis(node: Node) -> bool:
    """Whether a node moves layers and leaves each as it is."""
    old, new = node.inputs[0].shape, node.outputs[0].shape
    if node.op.name == "reshape":
        return bool(old and new) and (old[1:] == new[2:] or old[2:] == new[1:])
    return bool(old) and old[1:] == new[1:]


def padded(v: Value) -> bool:
    """Whether layers stand among zeros, or are a sum of such: the derivative of cutting a stack."""
    return v.node is not None and v.node.op.name in ("pad", "add")


def summed(graph: Graph, given: frozenset[Value]) -> Graph:
    """The graph with what a loop adds up of each layer found out in that loop."""
    sums = {v for node in graph.nodes if adds(node) for v in node.inputs}
    stacks = {*made_by_loops(graph), *given} - sums

    def replace(node: Node) -> tuple[Value, ...] | None:
        if not adds(node):
            return None
        start, *numbers = node.inputs
        tallies = [Tally(x.node, {}, {}, {}) for x in numbers if x.node is not None and by_layer(x.node)]
        if len(tallies) < len(numbers) or not all(map(follow, numbers, tallies, [stacks] * len(numbers))):
            return None
        fixed = list(dict.fromkeys([v for t in tallies for v in t.fixed]))
        rows = list(dict.fromkeys([v for t in tallies for v in t.stacks]))

        def step(*values: Value) -> list[Value]:
            f = len(fixed)
            env = dict(zip([*fixed, *rows], [*values[:f], *values[f + 1 :]], strict=True))
            return inline(node.params["graph"], [values[f], *[row(x, env) for x in numbers]])

        before = blame(node.where)
        types = [*[v.type for v in (*fixed, start)], *[array_type(v.shape[1:], v.dtype) for v in rows]]
        made = build(step, types, name=COUNTED)[0]
        blame(before)
        new = Node(
            node.op, (*fixed, start, *rows), {**node.params, "graph": made, "sizes": (len(fixed), 1)}, node.where
        )
        new.outputs = (Value(start.type, new, None),)
        return new.outputs

    return rewrite(graph, replace)


def adds(node: Node) -> bool:
    """Whether a node is a loop that adds up a number of each layer."""
    return node.op.name == "scan" and bool(node.params["graph"].name == ADDED)


def loops_of(graph: Graph, given: frozenset[Value]) -> dict[Node, Loop]:
    """The loops that count, each at the node in whose place, or before which, it comes."""
    makers = made_by_loops(graph)
    stacks = {*makers, *given}
    place = {v: i for i, node in enumerate(graph.nodes) for v in node.outputs}
    loops: dict[Node, Loop] = {}
    for node in graph.nodes:
        tally = tally_of(node, stacks)
        if tally is None or not (node.op.name in EXACT or given.intersection(tally.stacks)):
            continue
        around = [*tally.stacks, *tally.fixed]
        found = maker_of(tally, makers, place) if node.op.name in EXACT else None
        if found is None:  # one that is there already, or a loop of its own
            latest = max([place.get(v, -1) for v in around])
            own = [at for at, loop in loops.items() if loop.takes(tally) and latest < place[at.outputs[0]]]
            found = own[0] if own else node
        loops.setdefault(found, Loop(found if found is not node else alone(tally), [])).tallies.append(tally)
    return {at: loop.gathered() for at, loop in loops.items()}


def tally_of(node: Node, stacks: Collection[Value]) -> Tally | None:
    """What a node finds out about all layers of some stacks, if that is what it does."""
    if node.op.name not in TAKEN or node.outputs[0].type.ndim or not node.params["axes"]:
        return None
    x = node.inputs[0]
    if not isinstance(x.shape[0], int) or x.shape[0] == 0 or dtypes.compute_dtype(x.dtype) != x.dtype:
        return None
    tally = Tally(node, {}, {}, {})
    return tally if follow(x, tally, stacks) and tally.stacks else None


def maker_of(tally: Tally, makers: dict[Value, list[Node]], place: dict[Value, int]) -> Node | None:
    """The loop that makes or reads all stacks of a tally, where what is fixed is known before it."""
    first, *rest = [makers.get(v, []) for v in tally.stacks]
    ready = max([place.get(v, -1) for v in tally.fixed], default=-1)
    return next((n for n in first if all(n in r for r in rest) and ready < place[n.outputs[0]]), None)


def alone(tally: Tally) -> Node:
    """A loop along the layers that does nothing else."""
    params = {"graph": Graph((), (), ()), "sizes": (0, 0), "length": tally.length, "reverse": False}
    return Node(OPS["scan"], (), params, tally.node.where)
