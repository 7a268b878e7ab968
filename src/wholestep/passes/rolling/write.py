"""The program written anew: runs as loops, rows as arrays with one more axis, everything else as it was."""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wholestep.ir.analysis import in_order
from wholestep.ir.build import blame, build
from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.passes.rolling.chains import REDUCED, Chain, chains
from wholestep.passes.rolling.layer import Layer, copied
from wholestep.passes.rolling.picks import in_row, picked
from wholestep.passes.rolling.rows import Choice, Map
from wholestep.passes.rolling.signature import Members, Signatures, constant

Groups = Sequence[tuple[int, ...]]
ADDED = "added"
"""What the step of a loop is called that adds up a number of each layer."""


class Steps(NamedTuple):
    """A loop whose carries are rows: its body as it is now, and which operands became one, by their places."""

    node: Node
    body: Graph
    given: tuple[tuple[int, ...], ...]


Unit = Node | Layer | Map | Choice | Chain | Steps


class Rolling:
    """A graph as units: layers, maps over rows, branches with rows, chains, and single operations."""

    def __init__(self, graph: Graph, units: Iterable[Unit], signatures: Signatures) -> None:
        self.graph = graph
        self.signatures = signatures
        self.copied: list[int] = []
        """The bytes of what has to be put in a row."""
        place = {node: i for i, node in enumerate(graph.nodes)}
        self.units = sorted(units, key=lambda u: place[nodes_of(u)[0]])

    def written(self, given: Groups, made: Groups) -> Graph:
        """The graph whose inputs and outputs at these places are one array, where the first of them was."""
        graph = self.graph
        types, joined = gathered(graph.in_types, given)

        def write(*values: Value) -> list[Value]:
            writer = Writer(self)
            for v, places in zip(values, joined, strict=True):
                writer.enter([graph.inputs[p] for p in places], v, places in given)
            writer.run()
            _, outs = gathered(graph.out_types, made)
            return [
                writer.stack(tuple([graph.outputs[p] for p in places]))
                if places in made
                else writer.single(graph.outputs[places[0]])
                for places in outs
            ]

        out, captured = build(write, types, name=graph.name)
        assert not captured
        return out


def gathered(types: Sequence[Type], groups: Groups) -> tuple[list[Type], list[tuple[int, ...]]]:
    """Types and places of a list in which some items are joined."""
    places = places_of(len(types), groups)
    return [stacked(types[p[0]], len(p)) if p in groups else types[p[0]] for p in places], places


def places_of(n: int, groups: Groups) -> list[tuple[int, ...]]:
    """The places of a list of n items, those that are joined together where the first of them is."""
    first = {g[0]: g for g in groups}
    later = {p for g in groups for p in g[1:]}
    return [first.get(i, (i,)) for i in range(n) if i not in later]


def stacked(t: Type, n: int) -> Type:
    return array_type((n, *t.shape), t.dtype)


class Writer:
    """Values of the old graph in the new one, one by one and in rows."""

    def __init__(self, rolling: Rolling) -> None:
        self.rolling = rolling
        self.env: dict[Value, Value] = {}
        self.rows: dict[Members, Value] = {}
        self.place: dict[Value, tuple[Members, int]] = {}
        self.again = {v: node for unit in rolling.units if isinstance(unit, Layer) for v, node in unit.again.items()}
        self.units = ordered(rolling.units, rolling.graph.outputs, self.roots)
        self.wanted: dict[Members, None] = {}
        self.alone: dict[Value, None] = {root: None for v in rolling.graph.outputs for root in self.roots(v)}
        for unit in self.units:
            rows, singles = wants(unit)
            self.wanted.update(dict.fromkeys(rows))
            singles = [*singles, *[v for t in rows if not self.given(t) for v in sources(t)]]
            self.alone.update({root: None for v in singles for root in self.roots(v)})

    def given(self, t: Members) -> bool:
        """Whether a loop gives these values in a row, in either order."""
        return any(isinstance(u, Layer) and (u.gives(t) or u.gives(t[::-1])) for u in self.units)

    def roots(self, v: Value) -> list[Value]:
        """What must be there for a value to be had: itself, or what it is made of anew."""
        found, waiting = dict[Value, None](), [v]
        while waiting:
            u = waiting.pop()
            if u in self.again:
                waiting += reversed(self.again[u].inputs)
            elif not constant(u):
                found[u] = None
        return list(found)

    def enter(self, members: Sequence[Value], value: Value, joined: bool) -> None:
        """Say what an input of the new graph is in the old one."""
        if joined:
            self.put(tuple(members), value)
        else:
            self.env[members[0]] = value

    def put(self, t: Members, value: Value) -> None:
        self.rows[t] = value
        for k, v in enumerate(t):
            self.place.setdefault(v, (t, k))

    def single(self, v: Value) -> Value:
        """One value of the old graph."""
        if v not in self.env:
            in_order(v, self.env.__contains__, self.needs, self.make)
        return self.env[v]

    def needs(self, v: Value) -> Sequence[Value]:
        """What a value that is not there yet is made of."""
        if v in self.place:
            return ()
        assert v.node is not None and (constant(v) or v in self.again), "a value is not there yet"
        return v.node.inputs

    def make(self, v: Value) -> None:
        """Enter a value whose operands are there: a row of an array, or what is made anew."""
        if v in self.place:
            t, k = self.place[v]
            self.env[v] = row(self.rows[t], k)
        else:
            assert v.node is not None
            made = copied(v.node, [self.env[u] for u in v.node.inputs])
            self.env[v] = made[v.node.outputs.index(v)]

    def stack(self, t: Members) -> Value:
        """Values of the old graph as one array."""
        found = self.rows.get(t)
        if found is None:
            found = self.rows[t] = self.joined_up(t)
        return found

    def joined_up(self, t: Members) -> Value:
        """Values that stand in no row yet as one array."""
        parts = picked(t)
        if t[::-1] in self.rows:
            return OPS["flip"](self.rows[t[::-1]], axes=(0,))
        if all(constant(v) for v in t):
            return constants(t)
        if len(set(self.rolling.signatures.ones(t))) == 1:
            return OPS["broadcast"](self.single(t[0]), shape=(len(t), *t[0].shape), axes=tuple(range(1, t[0].ndim + 1)))
        if parts is not None:
            base, axis, first = parts
            return in_row(self.single(base), axis, first, t[0].shape, len(t))
        self.rolling.copied.append(sum([v.type.nbytes for v in t]))
        return stack_of([self.single(v) for v in t])

    def run(self) -> None:
        for unit in self.units:
            before = blame(line(unit))
            try:
                WRITE[type(unit)](self, unit)
            finally:
                blame(before)

    def node(self, node: Node) -> None:
        outs = copied(node, [self.single(v) for v in node.inputs])
        self.env.update(zip(node.outputs, outs, strict=True))

    def map(self, unit: Map) -> None:
        node, n = unit.nodes[0], len(unit.nodes)
        on = [any(v is not t[0] for v in t) for t in unit.operands]
        xs = [self.stack(t) if o else self.single(t[0]) for t, o in zip(unit.operands, on, strict=True)]
        found = node.op.batch(n, xs, on, **node.params)
        self.put(tuple([m.outputs[0] for m in unit.nodes]), found)

    def chain(self, unit: Chain) -> None:
        op = unit.links[0].op
        around = unit.around() if op.name == "add" else None
        if around is not None:
            before, after = [[self.single(v) for v in vs] for vs in around]
            parts = [self.added(op, before, [self.stack(t) for t in unit.rows]), *after]
        else:
            parts = [self.single(v) for v in unit.rest]
            parts += [OPS[REDUCED[op.name]](self.stack(t), axes=(0,)) for t in unit.rows]
        self.env[unit.links[0].outputs[0]] = functools.reduce(op, parts)

    def added(self, op: Any, before: Sequence[Value], rows: Sequence[Value]) -> Value:
        """A sum that goes on layer by layer, in the order in which it was written."""
        t = array_type((), rows[0].dtype)
        start = functools.reduce(op, before) if before else OPS["full"](value=0, shape=(), dtype=t.dtype)
        step, _ = build(lambda *xs: [functools.reduce(op, xs)], [t] * (1 + len(rows)), name=ADDED)
        sizes, n = (0, 1), rows[0].shape[0]
        found: Sequence[Value] = OPS["scan"](start, *rows, graph=step, sizes=sizes, length=n, reverse=False)  # type: ignore[assignment]  # it makes several
        return found[0]

    def choice(self, unit: Choice) -> None:
        """A branch whose operands and results are joined."""
        node, given, made = unit.node, list(unit.given), list(unit.made)
        inner = [Rolling(b.graph, units_of(b), b.signatures) for b in unit.branches]
        branches = tuple([rolling.written(given, made) for rolling in inner])
        self.rolling.copied += [n for rolling in inner for n in rolling.copied]
        values = [self.single(node.inputs[0]), *self.joined(node.inputs[1:], given)]
        self.results(node, node.op(*values, **{**node.params, "branches": branches}), made)

    def steps(self, unit: Steps) -> None:
        """A loop whose carries are joined."""
        node, (c, k) = unit.node, unit.node.params["sizes"]
        values = self.joined(node.inputs, unit.given)
        on = [places for places in unit.given if places[0] >= c]
        fewer = [sum([len(places) - 1 for places in groups]) for groups in (unit.given, on)]
        sizes = (c - fewer[0] + fewer[1], k - fewer[1])
        outs = node.op(*values, **{**node.params, "graph": unit.body, "sizes": sizes})
        self.results(node, outs, [tuple([p - c for p in places]) for places in on])

    def joined(self, operands: Sequence[Value], groups: Groups) -> list[Value]:
        """Operands, those that belong together as one array."""
        _, joined = gathered([v.type for v in operands], groups)
        return [
            self.stack(tuple([operands[p] for p in places])) if places in groups else self.single(operands[places[0]])
            for places in joined
        ]

    def results(self, node: Node, values: Any, groups: Groups) -> None:
        """Say what the results of an operation are in the old graph."""
        _, joined = gathered([v.type for v in node.outputs], groups)
        for places, v in zip(joined, values, strict=True):
            self.enter([node.outputs[p] for p in places], v, places in groups)

    def layers(self, unit: Layer) -> None:
        """A loop over layers."""
        rows = [u for t in self.wanted for u in (t, t[::-1]) if unit.gives(u)]
        covered = {v for t in rows for v in t} | unit.last()
        for v in self.alone:
            t = unit.row_of(v)
            if t is not None and v not in covered and t not in rows:
                rows.append(t)
        finals, made = unit.written(self, rows)
        self.env.update(finals)
        for t, value in made:
            self.put(t, value)


def units_of(rows: Any) -> list[Unit]:
    """The units of a graph in which there are rows and no runs."""
    groups: list[Unit] = [*rows.maps, *rows.choices.values(), *chains(rows, rows.graph.outputs)]
    inside = {n for unit in groups for n in nodes_of(unit)}
    return [*[n for n in rows.graph.nodes if n.inputs and n not in inside], *groups]


def line(unit: Unit) -> Any:
    """The user's line that a unit came from."""
    if isinstance(unit, Node):
        return unit.where
    if isinstance(unit, Layer):
        return unit.run.layers[0][0].where
    return nodes_of(unit)[0].where


def nodes_of(unit: Unit) -> Sequence[Node]:
    """The operations that a unit stands for."""
    if isinstance(unit, Node):
        return (unit,)
    if isinstance(unit, Layer):
        return [node for layer in unit.run.layers for node in layer]
    if isinstance(unit, Map):
        return unit.nodes
    return unit.links if isinstance(unit, Chain) else (unit.node,)


def wants(unit: Unit) -> tuple[list[Members], list[Value]]:
    """Which rows and which single values a unit reads."""
    if isinstance(unit, Node):
        return [], list(unit.inputs)
    if isinstance(unit, Layer):
        return unit.wants()
    if isinstance(unit, Chain):
        return list(unit.rows), list(unit.rest)
    if isinstance(unit, Choice | Steps):
        head = 1 if isinstance(unit, Choice) else 0
        operands = unit.node.inputs[head:]
        inside = {p for g in unit.given for p in g}
        rest = [v for p, v in enumerate(operands) if p not in inside]
        return [tuple([operands[p] for p in g]) for g in unit.given], [*unit.node.inputs[:head], *rest]
    same = [all(v is t[0] for v in t) for t in unit.operands]
    pairs = list(zip(unit.operands, same, strict=True))
    return [t for t, s in pairs if not s], [t[0] for t, s in pairs if s]


def ordered(units: Sequence[Unit], outputs: Sequence[Value], roots: Callable[[Value], list[Value]]) -> list[Unit]:
    """The units that the outputs need, each after those it reads from, and otherwise as they came in the program."""
    owner = {v: i for i, unit in enumerate(units) for node in nodes_of(unit) for v in node.outputs}
    before: dict[int, set[int]] = {}
    stack = [owner[root] for v in outputs for root in roots(v) if root in owner]
    while stack:
        i = stack.pop()
        if i not in before:
            rows, singles = wants(units[i])
            read = [root for v in (*singles, *[v for t in rows for v in sources(t)]) for root in roots(v)]
            before[i] = {owner[v] for v in read if v in owner} - {i}
            stack += before[i]
    waiting: dict[int, list[int]] = {i: [] for i in before}
    count = {i: len(found) for i, found in before.items()}
    for i, found in before.items():
        for j in found:
            waiting[j].append(i)
    ready = [i for i, n in count.items() if n == 0]
    heapq.heapify(ready)
    out: list[Unit] = []
    while ready:
        i = heapq.heappop(ready)
        out.append(units[i])
        for j in waiting[i]:
            count[j] -= 1
            if count[j] == 0:
                heapq.heappush(ready, j)
    assert len(out) == len(before), "units wait for each other"
    return out


def sources(t: Members) -> Members:
    """What values in a row are put together from."""
    parts = picked(t)
    return t if parts is None else (parts[0],)


def stack_of(values: Sequence[Value], joined: bool = True) -> Value:
    """Values as one array; a single one as it is, unless it is to be joined."""
    if not joined:
        return values[0]
    return OPS["concat"](*[OPS["reshape"](v, shape=(1, *v.shape)) for v in values], axis=0)


def row(x: Value, k: int) -> Value:
    """One row of an array."""
    n = x.ndim
    start, stop = (k, *[0] * (n - 1)), (k + 1, *x.shape[1:])
    return OPS["reshape"](OPS["slice"](x, start=start, stop=stop, step=(1,) * n), shape=x.shape[1:])


def constants(t: Members) -> Value:
    """Numbers and arrays known beforehand, in a row."""
    nodes = [v.node for v in t]
    if all(n is not None and n.op.name == "full" for n in nodes):
        dtype = t[0].dtype
        numbers = OPS["constant"](value=np.array([n.params["value"] for n in nodes if n is not None], dtype))
        return OPS["broadcast"](numbers, shape=(len(t), *t[0].shape), axes=(0,))
    return OPS["constant"](value=np.stack([n.params["value"] for n in nodes if n is not None]))


WRITE: dict[type, Callable[[Writer, Any], None]] = {
    Node: Writer.node,
    Map: Writer.map,
    Chain: Writer.chain,
    Choice: Writer.choice,
    Layer: Writer.layers,
    Steps: Writer.steps,
}
