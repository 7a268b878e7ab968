"""Loop rerolling: repeated isomorphic layers become scans, forward, backward and in the update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from wholestep.ir.build import build, inline
from wholestep.ir.graph import Graph, Node, Value, subgraphs
from wholestep.ir.types import Type, array_type
from wholestep.passes.inline_bodies import inline_bodies
from wholestep.passes.named_pass import Pass
from wholestep.passes.pads_to_concat import pads_to_concat
from wholestep.passes.reroll.align_regions import align_regions
from wholestep.passes.reroll.emit import NestedScan, RerolledUnits, pack_units, stack_values, stacked_places, take_row
from wholestep.passes.reroll.isomorphism import Isomorphism, Pack
from wholestep.passes.reroll.loop_body import LoopPlan
from wholestep.passes.reroll.operand_table import OperandTable
from wholestep.passes.reroll.packs import Packs
from wholestep.passes.reroll.reassociate import REDUCTION_OF
from wholestep.passes.reroll.region import RerollRegion, SameIteration, region_of
from wholestep.passes.reroll.repeats import find_repeats
from wholestep.passes.reroll.sliced_operands import find_sliced_operands, sliced_pack
from wholestep.passes.reroll.stash_or_recompute import StashOrRecompute
from wholestep.passes.rewrite import at_roots, defining_node, rewrite
from wholestep.primitives.contraction import Contract, Window
from wholestep.primitives.fft import FFT
from wholestep.primitives.indexing import ScatterAdd, ScatterExtremum
from wholestep.primitives.loops import Scan
from wholestep.primitives.movement import Pad

Groups = tuple[tuple[int, ...], ...]
MayStack = Callable[[tuple[int, ...]], bool]

UNFUSABLE = (Contract, Window, ScatterAdd, ScatterExtremum, FFT)
"""Operations that fuse with few others: a layer that has one is no slower in a loop."""
MIN_SAVED = 40
"""The fewest operations that a loop must save."""
MANY_SAVED = 2000
"""The fewest operations that a loop must save where all of them fuse: a kernel of so many takes seconds to compile."""
LONG_SUM = 8
"""The fewest pads of a sum that belong to many iterations rather than to the parts of one layer."""
SHARE, SMALL, LAUNCH = 20, 2**16, 2**9
"""The most bytes copied for stacking are 1 / SHARE of the cost of a step: the bytes of the program's inputs, plus
SMALL, plus LAUNCH for each operation in a loop, which takes at least as long as copying LAUNCH bytes."""


class Rerolled(NamedTuple):
    """A rerolled graph, the groups of inputs that were stacked into one, and a note on each loop."""

    graph: Graph
    groups: Groups = ()
    notes: tuple[str, ...] = ()


class RerollAnalysis:
    """A graph's loops, the packs grown from them along use-def chains, and the inputs that are stacked."""

    def __init__(self, graph: Graph, joins: MayStack, made: int, always: bool) -> None:
        self.graph, self.made, self.always = graph, made, always
        self.isomorphism = Isomorphism(graph)
        self.place = {v: i for i, v in enumerate(graph.inputs)}
        regions = find_regions(graph, self.isomorphism)
        self.unstackable: set[tuple[int, ...]] = set()
        while True:
            packs = self.grow_packs(regions, lambda places: joins(places) and places not in self.unstackable)
            new = {
                places
                for places in updated_groups(self.groups, made)
                if not packs.returns_pack([p - made for p in places])
            }
            if not new:
                break
            # Updated inputs whose outputs are no pack would be stacked at each call: they are not stacked then.
            self.unstackable |= new
            regions = regions if always else [region for region in regions if self.reads_none_of(region, new)]

    def grow_packs(self, regions: list[RerollRegion], joins: MayStack) -> Packs:
        """Plan loops for the regions, and grow packs from their operands and results."""
        taken = [node for region in regions for layer in region.layers for node in layer]
        packs = Packs(self.graph, self.isomorphism, taken, lambda t: joins(tuple([self.place[v] for v in t])))
        layers = plan_loops(regions, packs)
        self.layers = list(layers)
        """The planned loops, those inside nested scans included."""
        self.copied: list[int] = []
        """The bytes of each copy that stacking takes inside nested scans."""
        loops = [loop for node in self.graph.nodes if (loop := self.nested_scan(node, packs)) is not None]
        packs.extend()
        self.units = pack_units(packs, [*layers, *loops])
        self.groups = tuple([tuple([self.place[v] for v in t]) for t in packs.known if packs.inputs.issuperset(t)])
        return packs

    def reads_none_of(self, region: RerollRegion, groups: set[tuple[int, ...]]) -> bool:
        """Test whether a region reads none of the inputs at these places."""
        own = {self.place.get(v) for t in region.varying_operands for v in t}
        return all(own.isdisjoint(places) for places in groups)

    def nested_scan(self, node: Node, packs: Packs) -> NestedScan | None:
        """A scan over whole steps whose body has layers, with its body rerolled; None for other nodes."""
        if not isinstance(node.op, Scan) or node in packs.taken:
            return None
        c, k = node.params["sizes"]

        def joins(places: tuple[int, ...]) -> bool:
            t = tuple([node.inputs[p] for p in places])
            alike = max(places) < c or (min(places) >= c and max(places) < c + k)
            return alike and (t in packs.known or packs.inputs.isdisjoint(t) or packs.stackable(t))

        inner = RerollAnalysis(inline_composites(node.params["graph"]), joins, c, self.always)
        if not inner.layers:
            return None
        for places in inner.groups:
            t = tuple([node.inputs[p] for p in places])
            if packs.stackable(t):
                packs.add(t)
        for places in updated_groups(inner.groups, c):
            packs.add(tuple([node.outputs[p - c] for p in places]))
        self.layers += inner.layers
        rolling = RerolledUnits(inner.graph, inner.units, inner.isomorphism)
        written = rolling.written(inner.groups, shift_groups(updated_groups(inner.groups, c), -c))
        self.copied += [*inner.copied, *rolling.copied]
        return NestedScan(node, written, inner.groups)


def reroll(graph: Graph, joins: MayStack, made: int = 0, always: bool = True) -> Rerolled:
    """Turn repeated isomorphic layers into scans, and repetitions inside these into nested scans, the inverse of
    unrolling.

        h1 = tanh(contract(h0, w0)); h2 = tanh(contract(h1, w1)); h3 = tanh(contract(h2, w2)); ...
        -->
        h = scan(h0, w, graph=layer, length=n)              where layer(h, w) = tanh(contract(h, w))

    `joins` says whether the inputs at some places may be stacked into one; the outputs that update them are then
    stacked too, each `made` places before its input. Unless `always`, a loop is made only where it is profitable: where
    layers are more than a few elementwise operations, and stacking copies little.
    """
    found = reroll_outermost(graph, joins, made, always)
    more = found
    while more.notes:
        more = reroll_outermost(more.graph, lambda _: False, made, always)
        found = Rerolled(more.graph, found.groups, (*found.notes, *more.notes))
    return found


def reroll_outermost(graph: Graph, joins: MayStack, made: int, always: bool) -> Rerolled:
    """The graph with its outermost repeated layers as scans."""
    found = RerollAnalysis(join_long_sums(inline_composites(graph)), joins, made, always)
    if not found.layers or not (always or is_profitable(found.layers)):
        return Rerolled(graph)
    rolling = RerolledUnits(found.graph, found.units, found.isomorphism)
    new = rolling.written(found.groups, shift_groups(found.groups, -made))
    least = sum([t.nbytes for t in graph.in_types]) + SMALL + LAUNCH * repeated_operations(found.layers)
    if not always and SHARE * sum(found.copied + rolling.copied) > least:
        return Rerolled(graph)
    return Rerolled(new, found.groups, tuple(reroll_notes(found.layers)))


def join_long_sums(graph: Graph) -> Graph:
    """The graph with long sums of pads as concatenations: a loop has their parts as its results."""
    return pads_to_concat(graph) if longest_sum_of_pads(graph) >= LONG_SUM else graph


def longest_sum_of_pads(graph: Graph) -> int:
    """The number of pads in the longest sum of them, such as the derivative of reading an array row by row."""
    count: dict[Value, int] = {}
    for node in graph.nodes:
        if isinstance(node.op, Pad):
            count[node.outputs[0]] = 1
        elif node.inputs and all(v in count for v in node.inputs) and defining_node(node.outputs[0], "add"):
            count[node.outputs[0]] = sum([count[v] for v in node.inputs])
    return max(count.values(), default=0)


def is_profitable(layers: Sequence[LoopPlan]) -> bool:
    """Test whether loops save many operations, among them some that fuse with nothing; or very many on arrays so small
    that a loop may write and read them."""
    saved, nodes = repeated_operations(layers, apart=1), [node for layer in layers for node in layer.region.layers[0]]
    if any(isinstance(node.op, UNFUSABLE) or node.op.nested for node in nodes):
        return saved >= MIN_SAVED
    return saved >= MANY_SAVED and all(v.type.nbytes <= SMALL for node in nodes for v in node.outputs)


def repeated_operations(layers: Sequence[LoopPlan], apart: int = 0) -> int:
    """The number of operations of all iterations, without `apart` iterations of each loop."""
    regions = [layer.region for layer in layers]
    return sum([(region.count - apart) * sum(map(count_operations, region.layers[0])) for region in regions])


def count_operations(node: Node) -> int:
    """The number of operations of a node, those of its graphs included."""
    return 1 + sum([len(part.nodes) for graph in subgraphs(node) for part in graph.family()])


def with_unstacked_signature(found: Rerolled, outputs: int, made: int = 0) -> Graph:
    """A rerolled graph with the inputs and outputs of the original: stacked ones are split."""
    graph = found.graph
    sizes = [len(places) for places in found.groups]
    types: dict[int, Type] = {}
    joined = stacked_places(len(graph.inputs) + sum(sizes) - len(sizes), found.groups)
    for t, places in zip(graph.in_types, joined, strict=True):
        types.update({p: array_type(t.shape[1:], t.dtype) if places in found.groups else t for p in places})

    def apart(*values: Value) -> list[Value]:
        results = inline(
            graph, [stack_values([values[p] for p in places], places in found.groups) for places in joined]
        )
        out: dict[int, Value] = {}
        groups = shift_groups(found.groups, -made)
        for v, places in zip(results, stacked_places(outputs, groups), strict=True):
            out.update({p: take_row(v, k) if places in groups else v for k, p in enumerate(places)})
        return [out[i] for i in range(outputs)]

    return build(apart, [types[i] for i in range(len(types))], name=graph.name)[0]


def inline_composites(graph: Graph) -> Graph:
    """The graph with composites inlined and captures dropped; derivatives and captures have read them by now."""
    bare = inline_bodies(graph, ("composite",))
    return rewrite(bare, at_roots({"capture": lambda node: node.inputs[0]}))


def updated_groups(groups: Groups, made: int) -> Groups:
    """The groups of inputs that outputs update; inputs that are only read come before place `made`."""
    return tuple([places for places in groups if places[0] >= made])


def shift_groups(groups: Groups, by: int) -> Groups:
    """The groups with every place shifted."""
    return tuple([tuple([p + by for p in places]) for places in groups])


def find_regions(graph: Graph, signatures: Isomorphism) -> list[RerollRegion]:
    """The repeated regions with a recurrence, trimmed to the iterations that they have in common with the others."""
    apart = find_sliced_operands(graph, signatures)
    nodes = [node for node in graph.nodes if node.inputs and node.outputs[0] not in apart]
    position = {v: i for i, node in enumerate(nodes) for v in node.outputs}
    position |= {v: position.get(node.inputs[0], -1) for v, node in apart.items()}
    regions: list[RerollRegion] = []
    repeats = sorted(find_repeats(nodes, signatures))
    if not repeats:
        return regions
    table = OperandTable(nodes, position)
    for stretch in repeats:
        region = region_of(nodes, stretch, table, signatures, regions)
        if region is not None and has_recurrence(region):
            regions.append(region)
    return align_regions(regions)


def has_recurrence(region: RerollRegion) -> bool:
    """Test whether an iteration depends on the one before by more than accumulators."""
    return not all(only_accumulates(region, carry.node, at) for at, carry in region.carries().items())


def only_accumulates(region: RerollRegion, last: int, at: tuple[int, int]) -> bool:
    """Test whether a carry is an accumulator: only read by a chain of one reducing operation that ends in the carry."""
    q, op = at[0], region.layers[0][last].op
    while op in REDUCTION_OF and region.layers[0][q].op is op:
        if q == last:
            return True
        readers = {
            i for i, row in enumerate(region.sources) for s in row if isinstance(s, SameIteration) and s.node == q
        }
        if len(readers) != 1:
            return False
        (q,) = readers
    return False


def plan_loops(regions: list[RerollRegion], packs: Packs) -> list[LoopPlan]:
    """Plans for the regions as loops, each in the direction in which most of the packs that it reads are stacked."""
    layers: list[LoopPlan] = []
    for region in regions:
        layer = LoopPlan(region)
        StashOrRecompute(layer, layers).decide()

        def is_stacked(t: Pack) -> bool:
            return t in packs.known or sliced_pack(t) is not None or any(maker.stacks_pack(t) for maker in layers)

        layer.backward = sum(is_stacked(t[::-1]) - is_stacked(t) for t in layer.xs) > 0
        for t in map(layer.stacking_order, layer.xs):
            if t[::-1] not in packs.known and (packs.stackable(t) or any(maker.stacks_pack(t) for maker in layers)):
                packs.add(t)
        layers.append(layer)
    read = {v for node in packs.graph.nodes if node not in packs.taken for v in node.inputs} | set(packs.graph.outputs)
    for layer in layers:
        for t in list(layer.produced):
            if not read.isdisjoint(t) and layer.produced[t].carry is None:
                packs.add(layer.stacking_order(t))
    return layers


def reroll_notes(layers: list[LoopPlan]) -> list[str]:
    """A note for the user on each loop."""
    return [
        f"{layer.region.count} equal layers rolled, {len(layer.region.layers[0])} operations each" for layer in layers
    ]


REROLL = Pass(
    "reroll",
    reroll,
    comparable=lambda graph, result: with_unstacked_signature(result, len(graph.outputs)),
)
