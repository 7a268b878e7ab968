"""Wrong derivative rules, found by differences: of single operations, and of the rest of a graph after one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.compiler.double_precision import in_double
from wholestep.errors import is_own, show
from wholestep.ir.analysis import part
from wholestep.ir.graph import Graph, NDArray, Node, Value
from wholestep.primitives.structure import StatedRule
from wholestep.train.inspect.diagnose import operation_name
from wholestep.train.inspect.verification.findings import Fault
from wholestep.train.inspect.verification.operations import Runs, node_graph
from wholestep.train.inspect.verification.slopes import (
    HeldRun,
    Slope,
    aside,
    compare_slopes,
    last_uses,
    random_directions,
    random_way,
)
from wholestep.transforms.reverse import vjp

DEEP = 8
"""The deepest nesting of graphs that is checked."""


class Checked(NamedTuple):
    """The derivative of a graph at a point: True if it agrees, the slope, and True if only a point beside it agrees."""

    ok: bool
    slope: Slope
    kink: bool = False


def check_graph(graph: Graph, args: Sequence[NDArray], wrt: Sequence[bool], rng: np.random.Generator) -> Checked:
    """Compare the pullback of a graph with differences, at these float64 arguments, or beside them at a kink."""
    outs = tuple([t.inexact for t in graph.out_types])
    if not any(wrt) or not any(outs) or not all([t.size for t in graph.out_types]):
        return Checked(True, Slope(0.0, 0.0, 0.0, True, True))
    pullback, wide = in_double(vjp(graph, wrt, outs)), in_double(graph)

    def at(point: Sequence[NDArray]) -> Slope:
        held = HeldRun()
        base = held(wide, point)
        gys = [random_way(rng, np.ones_like(y)) if o else None for y, o in zip(base, outs, strict=True)]
        gxs = HeldRun()(pullback, [*point, *[g for g in gys if g is not None]])
        return compare_slopes(lambda xs: held(wide, xs), point, random_directions(rng, point, wrt), gys, gxs, base)

    here = at(args)
    if here.ok or not here.finite:
        return Checked(here.ok, here)
    for _ in range(2):
        there = at(aside(rng, args, wrt))
        if there.ok:
            return Checked(True, there, kink=True)
    return Checked(not there.finite, there)


class RuleWalk:
    """A forward graph walked in order, the rule of each operation compared with differences at its own operands."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.faults: list[Fault] = []
        self.notes: list[str] = []
        self.unsure: list[str] = []
        self.rules = 0

    def walk(self, graph: Graph, args: Sequence[NDArray], wrt: Sequence[bool], deep: int = 0) -> None:
        """Check the rules of a graph's operations; `args` are of float64, and `wrt` marks the differentiated inputs."""
        known: dict[Value, Any] = dict(zip(graph.inputs, args, strict=True))
        active = {v for v, w in zip(graph.inputs, wrt, strict=True) if w}
        for node, dying in zip(graph.nodes, last_uses(graph), strict=True):
            xs = [np.asarray(np.broadcast_to(known[v], v.shape)) for v in node.inputs]
            known.update(zip(node.outputs, self.made(node, xs), strict=True))
            on = [v in active and v.type.inexact for v in node.inputs]
            if any(on) and not node.op.flat:
                active.update([v for v in node.outputs if v.type.inexact])
                self.rule(node, xs, on, deep)
            for v in dying:
                del known[v]

    def made(self, node: Node, xs: list[NDArray]) -> list[NDArray]:
        """The results of a node in float64."""
        return HeldRun()(in_double(node_graph(node)), xs)

    def rule(self, node: Node, xs: list[NDArray], on: list[bool], deep: int) -> None:
        """Check the rule of one node, and, where it is off, the rules in the graphs of the node."""
        self.rules += 1
        name, stated = operation_name(node), isinstance(node.op, StatedRule) and node.params["rule"] is not None
        head = f"{name}({', '.join([str(v.type) for v in node.inputs])})"
        try:
            found = check_graph(node_graph(node), xs, on, self.rng)
        except Exception as failed:  # the rule cannot be applied; a stated one may need its own trace
            said = f"{type(failed).__name__}: {str(failed).partition(chr(10))[0]}"
            if stated:
                self.unsure.append(f"the derivative stated for {name}, at {show(node.where)}: {said}")
            else:
                self.faults.append(Fault("derivative", name, show(node.where), "backward", f"{head}: {said}"))
            return
        if not found.slope.finite:
            self.unsure.append(f"the derivative of {name}, not finite here, at {show(node.where)}")
        if found.ok or not found.slope.finite:
            return
        said = f"{head}: in a random direction the slope is {found.slope.differences:.6g} by differences, "
        said += f"{found.slope.cotangents:.6g} by the rule"
        if stated and by_user(node.params["rule"]):
            self.notes.append(f"the derivative stated for {name} is another one; {said}")
            return
        before = len(self.faults)
        if node.op.nested and deep < DEEP:
            for graph, arrays, wrt in inner_graphs(node, xs):
                self.walk(graph, arrays, wrt, deep + 1)
        if len(self.faults) == before:
            self.faults.append(Fault("derivative", name, show(node.where), "backward", said))


def inner_graphs(node: Node, xs: list[NDArray]) -> Iterator[tuple[Graph, list[NDArray], list[bool]]]:
    """The graphs that a node runs, with their arguments in float64; the runs are those of the widened node."""
    wide = in_double(node_graph(node)).nodes[0]
    runs = Runs(wide)
    with np.errstate(all="ignore"):
        runs(xs)
    own = {in_double(graph): graph for graph in Graph((), (node,), ()).subgraphs()}
    for graph, arrays, _ in runs.graphs(off=True):
        narrow = own.get(graph)
        if narrow is not None:
            yield narrow, arrays, [t.inexact for t in narrow.in_types]


def by_user(rule: Any) -> bool:
    """Test whether a stated rule is the user's own, and not the library's."""
    while not hasattr(rule, "rules") and hasattr(rule, "rule"):  # the rule of a batch wraps the rule of an element
        rule = rule.rule
    stated: Sequence[Any] = getattr(rule, "rules", ())
    return any(not is_own(f.__code__.co_filename) for f in stated if hasattr(f, "__code__"))


def first_wrong(graph: Graph, args: Sequence[NDArray], wrt: Sequence[bool], seed: int) -> Node | None:
    """The last operation such that the derivative of the graph from it on is wrong, by bisection; None without one.

    It finds faults in the chaining of rules that are each right by themselves.
    """

    def wrong(at: int) -> bool:
        tail, point, marks = cut_at(graph, args, wrt, at)
        checked = check_graph(tail, point, marks, np.random.default_rng(seed))
        return checked.slope.finite and not checked.ok

    low, high = 0, len(graph.nodes)
    if not wrong(0):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wrong(middle) else (low, middle)
    return graph.nodes[low]


def cut_at(
    graph: Graph, args: Sequence[NDArray], wrt: Sequence[bool], at: int
) -> tuple[Graph, list[NDArray], list[bool]]:
    """The part of a graph from one of its nodes on, a function of the values it reads, with their arrays and marks."""
    made = {v for node in graph.nodes[at:] for v in node.outputs}
    read = dict.fromkeys([v for node in graph.nodes[at:] for v in node.inputs if v not in made])
    read.update(dict.fromkeys([v for v in graph.outputs if v not in made]))
    active = {v for v, w in zip(graph.inputs, wrt, strict=True) if w}
    for node in graph.nodes[:at]:
        if not node.op.flat and not active.isdisjoint(node.inputs):
            active.update([v for v in node.outputs if v.type.inexact])
    head = part(graph, graph.inputs, list(read))
    point = HeldRun()(in_double(head), args)
    tail = Graph(tuple(read), graph.nodes[at:], graph.outputs, graph.name)
    return tail, [np.asarray(x) for x in point], [v in active for v in read]
