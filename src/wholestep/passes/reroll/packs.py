"""Packs grown along use-def chains, as in superword-level parallelism (Larsen and Amarasinghe, 2000).

A pack is one value of each layer; isomorphic operations on packs become one operation on stacked arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.reroll.isomorphism import Isomorphism, Pack, is_constant
from wholestep.primitives.family import number_of
from wholestep.primitives.structure import Cond


class NodePack:
    """Isomorphic, independent operations on packs: `nodes[k]` is that of row k."""

    def __init__(self, nodes: tuple[Node, ...], operands: list[Pack]) -> None:
        self.nodes = nodes
        self.operands = operands


class PackedBranch:
    """A branch whose operands and results are packs: `given` and `made` group them by their places."""

    def __init__(self, node: Node, branches: list[Packs]) -> None:
        self.node = node
        self.branches = branches
        self.given: dict[tuple[int, ...], None] = {}
        self.made: dict[tuple[int, ...], None] = {}
        self.places = [{v: i for i, v in enumerate(branch.graph.inputs)} for branch in branches]
        """The place of each input of each branch."""
        self.returned = [unique_positions(branch.graph.outputs) for branch in branches]
        """The place of each output of each branch; -1 for one that is there twice."""


class Packs:
    """The packs of one graph, and the operations that are taken together."""

    def __init__(
        self, graph: Graph, signatures: Isomorphism, taken: Iterable[Node], may_join: Callable[[Pack], bool]
    ) -> None:
        self.graph = graph
        self.isomorphism = signatures
        self.known: dict[Pack, None] = {}
        self.members: set[Value] = set()
        self.taken = set(taken)
        self.may_join = may_join
        """The predicate of packs of inputs that may be stacked."""
        self.inputs = set(graph.inputs)
        self.node_packs: list[NodePack] = []
        self.choices: dict[Node, PackedBranch] = {}
        self.places: dict[Node, dict[Value, int]] = {}
        """The positions of the operands of each branch."""
        self.reads = Counter(chain.from_iterable([node.inputs for node in graph.nodes]))
        """The number of times that each value is read."""
        self.readers: dict[Value, list[tuple[Node, int]]] = {}
        """The operations that may be packed, and branches, by the operands that they read."""
        for node in graph.nodes:
            if node.op.nested or node not in self.taken:
                for o, v in enumerate(node.inputs):
                    self.readers.setdefault(v, []).append((node, o))
        self.worklist: list[Pack] = []

    def add(self, t: Pack) -> None:
        """Enter a pack."""
        if t not in self.known:
            self.known[t] = None
            self.members.update(t)
            self.worklist.append(t)

    def stackable(self, t: Pack) -> bool:
        """Test whether these are inputs of the graph that may be stacked, and are in no pack yet."""
        return (
            len(set(t)) == len(t)
            and self.inputs.issuperset(t)
            and self.members.isdisjoint(t)
            and len({v.type for v in t}) == 1
            and self.may_join(t)
        )

    def extend(self) -> None:
        """Extend every pack along its uses to isomorphic operations, until none is left."""
        while self.worklist:
            t = self.worklist.pop(0)
            ranks: dict[tuple[int, int], int] = {}
            for node, o in self.readers.get(t[0], ()):
                if isinstance(node.op, Cond):
                    self.extend_into_branch(node, t)
                if node in self.taken or node.op.nested or node.op.collective:
                    continue
                key = (self.isomorphism.of(node), o)
                rank = ranks[key] = ranks.get(key, -1) + 1
                nodes = [self.reader(v, key, rank) for v in t]
                if all(n is not None for n in nodes) and len(set(nodes)) == len(t):
                    self.pack_nodes([n for n in nodes if n is not None])

    def reader(self, v: Value, key: tuple[int, int], rank: int) -> Node | None:
        """The operation of an isomorphism class that reads a value, by its rank among those of the class."""
        found = [
            n
            for n, o in self.readers.get(v, ())
            if n not in self.taken and o == key[1] and not n.op.nested and self.isomorphism.of(n) == key[0]
        ]
        return found[rank] if rank < len(found) else None

    def pack_nodes(self, nodes: Sequence[Node]) -> None:
        """Pack operations, with those that make their operands, where all of them are isomorphic."""
        trial: dict[Pack, NodePack | None] = {}
        if self.match_operands(nodes, trial):
            for t, made in trial.items():
                self.add(t)
                if made is not None:
                    self.node_packs.append(made)
        else:
            for made in trial.values():
                self.taken.difference_update(made.nodes if made is not None else ())

    def match_operands(self, nodes: Sequence[Node], trial: dict[Pack, NodePack | None]) -> bool:
        """Test whether operations and the makers of their operands can be packed; enters the packs in `trial`."""
        waiting: list[tuple[NodePack, Iterator[Pack]]] = []
        path = set[Node]()
        while True:
            if nodes:
                new = self.node_pack_of(nodes) if path.isdisjoint(nodes) else None
                if new is None:
                    return False  # taken, or one of them reads another, as in a chain: rows depend on no other row
                path.update(nodes)
                waiting.append((new, iter(new.operands)))
            made, operands = waiting[-1]
            t = next(operands, None)
            if t is not None:
                before = self.makers_of(t, trial)
                if before is None:
                    return False
                nodes = before
                continue
            waiting.pop()
            path.difference_update(made.nodes)
            nodes = ()
            if all(all(v is t[0] for v in t) for t in made.operands):
                return False  # one and the same value, and no pack
            self.taken.update(made.nodes)
            trial[tuple([n.outputs[0] for n in made.nodes])] = made
            if not waiting:
                return True

    def node_pack_of(self, nodes: Sequence[Node]) -> NodePack | None:
        """Operations as a pack; None where one of them is taken already."""
        if any(n in self.taken for n in nodes) or len(nodes[0].outputs) != 1:
            return None
        if any(self.members.intersection(n.outputs) for n in nodes):
            return None
        return NodePack(
            tuple(nodes), [self.isomorphism.pack_of(t) for t in zip(*[n.inputs for n in nodes], strict=True)]
        )

    def makers_of(self, t: Pack, trial: dict[Pack, NodePack | None]) -> Sequence[Node] | None:
        """The operations to pack so that values become a pack, empty where they are one already; None where they cannot
        become one."""
        if all(v is t[0] for v in t) or t in self.known or t in trial:
            return ()
        if all(number_of(v) is not None for v in t):
            return () if len({v.type for v in t}) == 1 else None
        if self.stackable(t) and not any(set(t) & set(u) for u in trial):
            trial[t] = None
            return ()
        nodes = [v.node for v in t]
        made = [n for n in nodes if n is not None and n.inputs and not n.op.nested and not n.op.collective]
        if len(made) < len(t) or len(set(made)) < len(t) or any(is_constant(v) for v in t):
            return None
        return made if len({self.isomorphism.of(n) for n in made}) == 1 else None

    # Branches.

    def extend_into_branch(self, node: Node, t: Pack) -> None:
        """Extend a pack into the graphs of a branch, and out of it to packs of its results."""
        choice = self.choices.get(node)
        if node not in self.places:
            self.places[node] = unique_positions(node.inputs[1:])
        places = pack_positions(self.places[node], t)
        if places is None or (choice is not None and places in choice.given):
            return
        if choice is None:
            branches = [Packs(g, Isomorphism(g), (), lambda _: True) for g in node.params["branches"]]
            choice = self.choices[node] = PackedBranch(node, branches)
        if self.stack_operands(choice, places):
            self.extend_out_of_branch(choice)

    def stack_operands(self, choice: PackedBranch, places: tuple[int, ...]) -> bool:
        """Stack operands of a branch in each of its graphs; True where any were not stacked yet."""
        waiting, new = [places], False
        while waiting:
            places = waiting.pop()
            if places in choice.given:
                continue
            if not self.ensure_pack(self.isomorphism.pack_of([choice.node.inputs[1 + p] for p in places])):
                continue
            choice.given[places], new = None, True
            for branch, place in zip(choice.branches, choice.places, strict=True):
                t = tuple([branch.graph.inputs[p] for p in places])
                if branch.members.isdisjoint(t):
                    branch.add(t)
                branch.extend()
                waiting += [tuple([place[v] for v in u]) for u in branch.known if branch.inputs.issuperset(u)]
        return new

    def ensure_pack(self, t: Pack) -> bool:
        """Test whether values outside are a pack, or inputs that become one."""
        if t in self.known or all(v is t[0] for v in t):
            return True
        if self.stackable(t):
            self.add(t)
            return True
        return False

    def extend_out_of_branch(self, choice: PackedBranch) -> None:
        """Enter the packs that all branches return as packs of the branch's results."""
        returned = {p for places in choice.made for p in places}
        for branch, place in zip(choice.branches, choice.returned, strict=True):
            for t in list(branch.known):
                if t[0] not in place or place[t[0]] in returned:  # most packs are not returned
                    continue
                places = tuple([place.get(v, -1) for v in t])
                if -1 in places or not returned.isdisjoint(places):
                    continue
                if not all(other.returns_pack(places) for other in choice.branches):
                    continue
                choice.made[places] = None
                returned.update(places)
                self.add(tuple([choice.node.outputs[p] for p in places]))

    def returns_pack(self, places: Sequence[int]) -> bool:
        """Test whether the outputs at these places are a pack, or one and the same value."""
        t = self.isomorphism.pack_of([self.graph.outputs[p] for p in places])
        return t in self.known or all(v is t[0] for v in t)


def unique_positions(values: Sequence[Value]) -> dict[Value, int]:
    """The position of each value among these; -1 for one that is there twice."""
    place: dict[Value, int] = {}
    for i, v in enumerate(values):
        place[v] = -1 if v in place else i
    return place


def pack_positions(place: dict[Value, int], t: Pack) -> tuple[int, ...] | None:
    """The positions of a pack's values, by those of all; None where one is missing or there twice."""
    found = tuple([place.get(v, -1) for v in t])
    return None if -1 in found else found
