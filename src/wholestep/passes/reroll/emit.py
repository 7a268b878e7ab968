"""Emission of the rerolled graph: regions as scans, packs as stacked arrays, everything else as it was."""

from __future__ import annotations

import functools
import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from graphlib import TopologicalSorter
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from wholestep.ir.analysis import in_order
from wholestep.ir.build import blame, build
from wholestep.ir.graph import Graph, Node, Value
from wholestep.ir.types import Type, array_type
from wholestep.passes.reroll.isomorphism import Isomorphism, Pack, is_constant
from wholestep.passes.reroll.loop_body import LoopPlan, emit_copy, is_number_pack
from wholestep.passes.reroll.packs import NodePack, PackedBranch, Packs
from wholestep.passes.reroll.reassociate import REDUCTION_OF, ReductionChain, find_reduction_chains
from wholestep.passes.reroll.sliced_operands import sliced_pack, stack_slices
from wholestep.primitives.creation import constant, full
from wholestep.primitives.family import expand
from wholestep.primitives.loops import scan
from wholestep.primitives.movement import broadcast, concat, flip, reshape, slice_along

Groups = Sequence[tuple[int, ...]]
SUM_STEP = "added"
"""The name of the body of a scan that sums a number of each layer."""


class NestedScan(NamedTuple):
    """A scan with stacked carries: its rerolled body, and the groups of operands that were stacked."""

    node: Node
    body: Graph
    given: tuple[tuple[int, ...], ...]


Unit = Node | LoopPlan | NodePack | PackedBranch | ReductionChain | NestedScan


class RerolledUnits:
    """A graph as units of emission: loops, packed operations, packed branches, reduction chains, single operations."""

    def __init__(self, graph: Graph, units: Iterable[Unit], signatures: Isomorphism) -> None:
        self.graph = graph
        self.isomorphism = signatures
        self.copied: list[int] = []
        """The bytes of each copy that stacking takes."""
        place = {node: i for i, node in enumerate(graph.nodes)}
        self.units = sorted(units, key=lambda u: place[nodes_of_unit(u)[0]])

    def written(self, given: Groups, made: Groups) -> Graph:
        """The graph with the inputs and outputs of each group stacked, at the place of the first of them."""
        graph = self.graph
        types, joined = stacked_types(graph.in_types, given)

        def write(*values: Value) -> list[Value]:
            writer = RerollEmitter(self)
            for v, places in zip(values, joined, strict=True):
                writer.bind([graph.inputs[p] for p in places], v, places in given)
            writer.emit_units()
            _, outs = stacked_types(graph.out_types, made)
            return [
                writer.stack(tuple([graph.outputs[p] for p in places]))
                if places in made
                else writer.single(graph.outputs[places[0]])
                for places in outs
            ]

        out, captured = build(write, types, name=graph.name)
        assert not captured
        return out


def stacked_types(types: Sequence[Type], groups: Groups) -> tuple[list[Type], list[tuple[int, ...]]]:
    """The types and places of a list in which groups of items are stacked."""
    places = stacked_places(len(types), groups)
    return [stacked_type(types[p[0]], len(p)) if p in groups else types[p[0]] for p in places], places


def stacked_places(n: int, groups: Groups) -> list[tuple[int, ...]]:
    """The places of n items, those of a group together at the place of its first."""
    first = {g[0]: g for g in groups}
    later = {p for g in groups for p in g[1:]}
    return [first.get(i, (i,)) for i in range(n) if i not in later]


def stacked_type(t: Type, n: int) -> Type:
    return array_type((n, *t.shape), t.dtype)


class RerollEmitter:
    """The values of the old graph in the new one, single and stacked."""

    def __init__(self, rolling: RerolledUnits) -> None:
        self.rerolled = rolling
        self.env: dict[Value, Value] = {}
        self.stacks: dict[Pack, Value] = {}
        self.place: dict[Value, tuple[Pack, int]] = {}
        self.rematerialized = {
            v: node for unit in rolling.units if isinstance(unit, LoopPlan) for v, node in unit.rematerialized.items()
        }
        self.units = schedule_units(rolling.units, rolling.graph.outputs, self.roots)
        loops = [unit for unit in self.units if isinstance(unit, LoopPlan)]
        self.stacked_by = {unit.stacking_order(t): unit for unit in loops for t in unit.produced}
        """The loop that can return a pack as a stacked result; no two can, since none share an operation."""
        self.packs_read: defaultdict[LoopPlan, list[Pack]] = defaultdict(list)
        self.singles_read: defaultdict[LoopPlan, list[Value]] = defaultdict(list)
        """The packs and the single values that are read of each loop."""
        self.find_reads({v: unit for unit in loops for v in unit.origin})

    def find_reads(self, made_by: dict[Value, LoopPlan]) -> None:
        """Note what is read of each loop, from the loop that makes each value."""
        needed: dict[Pack, None] = {}
        single: dict[Value, None] = dict.fromkeys(self.roots(self.rerolled.graph.outputs))
        for unit in self.units:
            packs, singles = operands_of_unit(unit)
            needed.update(dict.fromkeys(packs))
            singles = [*singles, *[v for t in packs if not self.is_loop_result(t) for v in stacking_sources(t)]]
            single.update(dict.fromkeys(self.roots(singles)))
        for t in chain.from_iterable([(t, t[::-1]) for t in needed]):
            if t in self.stacked_by:
                self.packs_read[self.stacked_by[t]].append(t)
        for v in single:
            if v in made_by:
                self.singles_read[made_by[v]].append(v)

    def is_loop_result(self, t: Pack) -> bool:
        """Test whether a loop returns a pack stacked, in either order."""
        return t in self.stacked_by or t[::-1] in self.stacked_by

    def roots(self, values: Iterable[Value]) -> list[Value]:
        """The values that some are emitted from: themselves, or the operands that they are rematerialized from."""
        found: list[Value] = []
        for v in values:
            if v in self.rematerialized:
                found += self.rematerialization_roots(v)
            elif v.node is None or v.node.inputs:  # no constant
                found.append(v)
        return found

    def rematerialization_roots(self, v: Value) -> list[Value]:
        """The values that a rematerialized one is emitted from."""
        found, waiting = dict[Value, None](), [v]
        while waiting:
            u = waiting.pop()
            if u in self.rematerialized:
                waiting += reversed(self.rematerialized[u].inputs)
            elif not is_constant(u):
                found[u] = None
        return list(found)

    def bind(self, members: Sequence[Value], value: Value, joined: bool) -> None:
        """Note the values of the old graph that an array of the new one holds."""
        if joined:
            self.bind_stack(tuple(members), value)
        else:
            self.env[members[0]] = value

    def bind_stack(self, t: Pack, value: Value) -> None:
        self.stacks[t] = value
        for k, v in enumerate(t):
            self.place.setdefault(v, (t, k))

    def single(self, v: Value) -> Value:
        """A value of the old graph in the new one."""
        if v not in self.env:
            in_order(v, self.env.__contains__, self.needs, self.make)
        return self.env[v]

    def needs(self, v: Value) -> Sequence[Value]:
        """The operands that a value which is not there yet is emitted from."""
        if v in self.place:
            return ()
        assert v.node is not None and (is_constant(v) or v in self.rematerialized), "a value is not there yet"
        return v.node.inputs

    def make(self, v: Value) -> None:
        """Enter a value whose operands are there: a row of a stacked array, or a rematerialized one."""
        if v in self.place:
            t, k = self.place[v]
            self.env[v] = take_row(self.stacks[t], k)
        else:
            assert v.node is not None
            made = emit_copy(v.node, [self.env[u] for u in v.node.inputs])
            self.env[v] = made[v.node.outputs.index(v)]

    def stack(self, t: Pack) -> Value:
        """A pack of the old graph as a stacked array."""
        found = self.stacks.get(t)
        if found is None:
            found = self.stacks[t] = self.new_stack(t)
        return found

    def new_stack(self, t: Pack) -> Value:
        """A stacked array for a pack that has none yet."""
        parts = sliced_pack(t)
        if t[::-1] in self.stacks:
            return flip(self.stacks[t[::-1]], axes=(0,))
        if all(is_constant(v) for v in t):
            return stack_constants(t)
        if len(set(self.rerolled.isomorphism.pack_of(t))) == 1:
            return expand(self.single(t[0]), len(t), False)
        if parts is not None:
            base, axis, first = parts
            return stack_slices(self.single(base), axis, first, t[0].shape, len(t))
        self.rerolled.copied.append(sum([v.type.nbytes for v in t]))
        return stack_values([self.single(v) for v in t])

    def emit_units(self) -> None:
        for unit in self.units:
            before = blame(nodes_of_unit(unit)[0].where)
            try:
                EMIT[type(unit)](self, unit)
            finally:
                blame(before)

    def node(self, node: Node) -> None:
        outs = emit_copy(node, [self.single(v) for v in node.inputs])
        self.env.update(zip(node.outputs, outs, strict=True))

    def map(self, unit: NodePack) -> None:
        node, n = unit.nodes[0], len(unit.nodes)
        on = [any(v is not t[0] for v in t) for t in unit.operands]
        xs = [self.stack(t) if o else self.single(t[0]) for t, o in zip(unit.operands, on, strict=True)]
        found = node.op.batch(n, xs, on, **node.params)
        self.bind_stack(tuple([m.outputs[0] for m in unit.nodes]), found)

    def chain(self, unit: ReductionChain) -> None:
        op = unit.nodes[0].op
        around = unit.around() if REDUCTION_OF[op].fold == "add" else None
        if around is not None:
            before, after = [[self.single(v) for v in vs] for vs in around]
            parts = [self.added(op, before, [self.stack(t) for t in unit.packs]), *after]
        else:
            parts = [self.single(v) for v in unit.rest]
            parts += [REDUCTION_OF[op](self.stack(t), axes=(0,)) for t in unit.packs]
        self.env[unit.nodes[0].outputs[0]] = functools.reduce(op, parts)

    def added(self, op: Any, before: Sequence[Value], stacks: Sequence[Value]) -> Value:
        """A sum over packs as a scan, in the order in which it was written."""
        t = array_type((), stacks[0].dtype)
        start = functools.reduce(op, before) if before else full(value=0, shape=(), dtype=t.dtype)
        step, _ = build(lambda *xs: [functools.reduce(op, xs)], [t] * (1 + len(stacks)), name=SUM_STEP)
        sizes, n = (0, 1), stacks[0].shape[0]
        return scan(start, *stacks, graph=step, sizes=sizes, length=n, reverse=False)[0]

    def branch(self, unit: PackedBranch) -> None:
        """Emit a branch with stacked operands and results."""
        node, given, made = unit.node, list(unit.given), list(unit.made)
        inner = [RerolledUnits(b.graph, pack_units(b), b.isomorphism) for b in unit.branches]
        branches = tuple([rolling.written(given, made) for rolling in inner])
        self.rerolled.copied += [n for rolling in inner for n in rolling.copied]
        values = [self.single(node.inputs[0]), *self.joined(node.inputs[1:], given)]
        self.results(node, node.op(*values, **{**node.params, "branches": branches}), made)

    def nested_scan(self, unit: NestedScan) -> None:
        """Emit a scan with stacked carries."""
        node, (c, k) = unit.node, unit.node.params["sizes"]
        values = self.joined(node.inputs, unit.given)
        on = [places for places in unit.given if places[0] >= c]
        fewer = [sum([len(places) - 1 for places in groups]) for groups in (unit.given, on)]
        sizes = (c - fewer[0] + fewer[1], k - fewer[1])
        outs = node.op(*values, **{**node.params, "graph": unit.body, "sizes": sizes})
        self.results(node, outs, [tuple([p - c for p in places]) for places in on])

    def joined(self, operands: Sequence[Value], groups: Groups) -> list[Value]:
        """Operands, those of each group stacked."""
        _, joined = stacked_types([v.type for v in operands], groups)
        return [
            self.stack(tuple([operands[p] for p in places])) if places in groups else self.single(operands[places[0]])
            for places in joined
        ]

    def results(self, node: Node, values: Any, groups: Groups) -> None:
        """Note the values of the old graph that the results of an operation hold."""
        _, joined = stacked_types([v.type for v in node.outputs], groups)
        for places, v in zip(joined, values, strict=True):
            self.bind([node.outputs[p] for p in places], v, places in groups)

    def loop(self, unit: LoopPlan) -> None:
        """Emit a loop with the packs that are read of it."""
        packs = self.packs_read[unit]
        covered = {v for t in packs for v in t} | unit.final_values()
        for v in self.singles_read[unit]:
            if v not in covered:
                packs.append(unit.pack_of_value(v))
                covered.update(packs[-1])
        finals, made = unit.emit(self, packs)
        self.env.update(finals)
        for t, value in made:
            self.bind_stack(t, value)


def pack_units(packs: Packs, loops: Iterable[LoopPlan | NestedScan] = ()) -> list[Unit]:
    """The units of a graph with packs and loops."""
    chains = find_reduction_chains(packs, packs.graph.outputs)
    groups: list[Unit] = [*loops, *packs.node_packs, *packs.choices.values(), *chains]
    inside = {n for unit in groups for n in nodes_of_unit(unit)}
    return [*[n for n in packs.graph.nodes if n.inputs and n not in inside], *groups]


def nodes_of_unit(unit: Unit) -> Sequence[Node]:
    """The operations that a unit replaces."""
    if isinstance(unit, Node):  # nearly all
        return (unit,)
    return unit.nodes if isinstance(unit, LoopPlan | NodePack | ReductionChain) else (unit.node,)


def operands_of_unit(unit: Unit) -> tuple[list[Pack], list[Value]]:
    """The packs and the single values that a unit reads."""
    if isinstance(unit, Node):
        return [], list(unit.inputs)
    if isinstance(unit, LoopPlan):
        return unit.operands()
    if isinstance(unit, ReductionChain):
        return list(unit.packs), list(unit.rest)
    if isinstance(unit, PackedBranch | NestedScan):
        head = 1 if isinstance(unit, PackedBranch) else 0
        operands = unit.node.inputs[head:]
        inside = {p for g in unit.given for p in g}
        rest = [v for p, v in enumerate(operands) if p not in inside]
        return [tuple([operands[p] for p in g]) for g in unit.given], [*unit.node.inputs[:head], *rest]
    same = [all(v is t[0] for v in t) for t in unit.operands]
    pairs = list(zip(unit.operands, same, strict=True))
    return [t for t, s in pairs if not s], [t[0] for t, s in pairs if s]


def schedule_units(
    units: Sequence[Unit], outputs: Sequence[Value], roots: Callable[[Iterable[Value]], list[Value]]
) -> list[Unit]:
    """The units that the outputs need in topological order, and otherwise in the order of the program."""
    owner = {v: i for i, unit in enumerate(units) for node in nodes_of_unit(unit) for v in node.outputs}
    before: dict[int, set[int]] = {}
    stack = [owner[root] for root in roots(outputs) if root in owner]
    while stack:
        i = stack.pop()
        if i not in before:
            packs, singles = operands_of_unit(units[i])
            read = roots([*singles, *[v for t in packs for v in stacking_sources(t)]])
            before[i] = {owner[v] for v in read if v in owner} - {i}
            stack += before[i]
    sorter = TopologicalSorter(before)
    sorter.prepare()
    ready = sorted(sorter.get_ready())
    out: list[Unit] = []
    while ready:
        i = heapq.heappop(ready)
        out.append(units[i])
        sorter.done(i)
        for j in sorter.get_ready():
            heapq.heappush(ready, j)
    return out


def stacking_sources(t: Pack) -> Pack:
    """The values that a pack is stacked from."""
    parts = sliced_pack(t)
    return t if parts is None else (parts[0],)


def stack_values(values: Sequence[Value], joined: bool = True) -> Value:
    """Values stacked into one array; a single one as it is, unless `joined`."""
    if not joined:
        return values[0]
    return concat(*[reshape(v, shape=(1, *v.shape)) for v in values], axis=0)


def take_row(x: Value, k: int) -> Value:
    """One row of a stacked array."""
    return reshape(slice_along(x, 0, k, k + 1), shape=x.shape[1:])


def stack_constants(t: Pack) -> Value:
    """A pack of constants as a stacked constant."""
    nodes = [v.node for v in t]
    if is_number_pack(t):
        dtype = t[0].dtype
        numbers = constant(value=np.array([n.params["value"] for n in nodes if n is not None], dtype))
        return broadcast(numbers, shape=(len(t), *t[0].shape), axes=(0,))
    return constant(value=np.stack([n.params["value"] for n in nodes if n is not None]))


EMIT: dict[type, Callable[[RerollEmitter, Any], None]] = {
    Node: RerollEmitter.node,
    NodePack: RerollEmitter.map,
    ReductionChain: RerollEmitter.chain,
    PackedBranch: RerollEmitter.branch,
    LoopPlan: RerollEmitter.loop,
    NestedScan: RerollEmitter.nested_scan,
}
