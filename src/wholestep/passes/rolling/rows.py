"""Rows: values that correspond to each other, one for each layer, and the operations that treat them alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from wholestep.ir.graph import Graph, Node, Value
from wholestep.passes.rolling.signature import Members, Signatures, constant


class Map:
    """Equal operations on corresponding values, none of which needs another: `nodes[k]` is that of row k."""

    def __init__(self, nodes: tuple[Node, ...], operands: list[Members]) -> None:
        self.nodes = nodes
        self.operands = operands


class Choice:
    """A branch whose operands and results are rows: which of them belong together, by their places."""

    def __init__(self, node: Node, branches: list[Rows]) -> None:
        self.node = node
        self.branches = branches
        self.given: dict[tuple[int, ...], None] = {}
        self.made: dict[tuple[int, ...], None] = {}


class Rows:
    """What is known to stand in rows in one graph."""

    def __init__(
        self, graph: Graph, signatures: Signatures, taken: Iterable[Node], may_join: Callable[[Members], bool]
    ) -> None:
        self.graph = graph
        self.signatures = signatures
        self.known: dict[Members, None] = {}
        self.member: set[Value] = set()
        self.taken = set(taken)
        self.may_join = may_join
        """Whether these inputs of the graph may become one."""
        self.inputs = set(graph.inputs)
        self.maps: list[Map] = []
        self.choices: dict[Node, Choice] = {}
        self.readers: dict[Value, list[tuple[Node, int]]] = {}
        for node in graph.nodes:
            for o, v in enumerate(node.inputs):
                self.readers.setdefault(v, []).append((node, o))
        self.waiting: list[Members] = []

    def add(self, t: Members) -> None:
        """Note that values stand in a row."""
        if t not in self.known:
            self.known[t] = None
            self.member.update(t)
            self.waiting.append(t)

    def fresh(self, t: Members) -> bool:
        """Whether these are inputs of the graph that may become one array."""
        return (
            len(set(t)) == len(t)
            and self.inputs.issuperset(t)
            and self.member.isdisjoint(t)
            and len({v.type for v in t}) == 1
            and self.may_join(t)
        )

    def spread(self) -> None:
        """Follow every row to the operations that treat its values alike, and so on."""
        while self.waiting:
            t = self.waiting.pop(0)
            ranks: dict[tuple[int, int], int] = {}
            for node, o in self.readers.get(t[0], ()):
                if node.op.name == "cond":
                    self.choose(node, t)
                if node in self.taken or node.op.nested or node.op.collective:
                    continue
                key = (self.signatures.of(node), o)
                rank = ranks[key] = ranks.get(key, -1) + 1
                nodes = [self.reader(v, key, rank) for v in t]
                if all(n is not None for n in nodes) and len(set(nodes)) == len(t):
                    self.claim([n for n in nodes if n is not None])

    def reader(self, v: Value, key: tuple[int, int], rank: int) -> Node | None:
        """The operation of this kind that reads a value, by its number among those alike."""
        found = [
            n
            for n, o in self.readers.get(v, ())
            if n not in self.taken and o == key[1] and not n.op.nested and self.signatures.of(n) == key[0]
        ]
        return found[rank] if rank < len(found) else None

    def claim(self, nodes: Sequence[Node]) -> None:
        """Take operations together, and those before them that must come with them, where all are alike."""
        trial: dict[Members, Map | None] = {}
        if self.unify(nodes, trial):
            for t, made in trial.items():
                self.add(t)
                if made is not None:
                    self.maps.append(made)
        else:
            for made in trial.values():
                self.taken.difference_update(made.nodes if made is not None else ())

    def unify(self, nodes: Sequence[Node], trial: dict[Members, Map | None]) -> bool:
        """Whether operations treat rows alike, and those before them that are no rows yet; enters their results."""
        waiting: list[tuple[Map, Iterator[Members]]] = []
        while True:
            if nodes:
                new = self.map_of(nodes)
                if new is None:
                    return False
                waiting.append((new, iter(new.operands)))
            made, operands = waiting[-1]
            t = next(operands, None)
            if t is not None:
                before = self.before(t, trial)
                if before is None:
                    return False
                nodes = before
                continue
            waiting.pop()
            nodes = ()
            if all(all(v is t[0] for v in t) for t in made.operands):
                return False  # one and the same value, and no row
            self.taken.update(made.nodes)
            trial[tuple([n.outputs[0] for n in made.nodes])] = made
            if not waiting:
                return True

    def map_of(self, nodes: Sequence[Node]) -> Map | None:
        """Operations taken together, where they may be; None where one of them stands elsewhere."""
        if any(n in self.taken for n in nodes) or len(nodes[0].outputs) != 1:
            return None
        if any(self.member.intersection(n.outputs) for n in nodes):
            return None
        return Map(tuple(nodes), [self.signatures.ones(t) for t in zip(*[n.inputs for n in nodes], strict=True)])

    def before(self, t: Members, trial: dict[Members, Map | None]) -> Sequence[Node] | None:
        """What must be taken together for values to be a row, nothing where they are one; None where they cannot be."""
        if all(v is t[0] for v in t) or t in self.known or t in trial:
            return ()
        if all(v.node is not None and v.node.op.name == "full" for v in t):
            return () if len({v.type for v in t}) == 1 else None
        if self.fresh(t) and not any(set(t) & set(u) for u in trial):
            trial[t] = None
            return ()
        nodes = [v.node for v in t]
        made = [n for n in nodes if n is not None and n.inputs and not n.op.nested and not n.op.collective]
        if len(made) < len(t) or len(set(made)) < len(t) or any(constant(v) for v in t):
            return None
        return made if len({self.signatures.of(n) for n in made}) == 1 else None

    # Branches.

    def choose(self, node: Node, t: Members) -> None:
        """Let a row enter a branch, and see what comes out of it in rows."""
        choice = self.choices.get(node)
        places = positions(node.inputs[1:], t)
        if places is None or (choice is not None and places in choice.given):
            return
        if choice is None:
            branches = [Rows(g, Signatures(g), (), lambda _: True) for g in node.params["branches"]]
            choice = self.choices[node] = Choice(node, branches)
        if self.enter(choice, places):
            self.leave(choice)

    def enter(self, choice: Choice, places: tuple[int, ...]) -> bool:
        """Make operands of a branch one, in each of its graphs; whether they were not yet."""
        waiting, new = [places], False
        while waiting:
            places = waiting.pop()
            if places in choice.given:
                continue
            if not self.available(self.signatures.ones([choice.node.inputs[1 + p] for p in places])):
                continue
            choice.given[places], new = None, True
            for branch in choice.branches:
                t = tuple([branch.graph.inputs[p] for p in places])
                if branch.member.isdisjoint(t):
                    branch.add(t)
                branch.spread()
                place = {v: i for i, v in enumerate(branch.graph.inputs)}
                waiting += [tuple([place[v] for v in u]) for u in branch.known if branch.inputs.issuperset(u)]
        return new

    def available(self, t: Members) -> bool:
        """Whether values outside are a row, or become one."""
        if t in self.known or all(v is t[0] for v in t):
            return True
        if self.fresh(t):
            self.add(t)
            return True
        return False

    def leave(self, choice: Choice) -> None:
        """Rows that all branches return are rows outside."""
        for branch in choice.branches:
            place = placed(branch.graph.outputs)
            for t in list(branch.known):
                places = tuple([place.get(v, -1) for v in t])
                if -1 in places or any(set(places) & set(other) for other in choice.made):
                    continue
                if not all(other.returns(places) for other in choice.branches):
                    continue
                choice.made[places] = None
                self.add(tuple([choice.node.outputs[p] for p in places]))

    def returns(self, places: Sequence[int]) -> bool:
        """Whether the outputs at these places are a row, or one and the same value."""
        t = self.signatures.ones([self.graph.outputs[p] for p in places])
        return t in self.known or all(v is t[0] for v in t)


def placed(values: Sequence[Value]) -> dict[Value, int]:
    """Where each value stands among these; -1 for one that is there twice."""
    place: dict[Value, int] = {}
    for i, v in enumerate(values):
        place[v] = -1 if v in place else i
    return place


def positions(values: Sequence[Value], t: Members) -> tuple[int, ...] | None:
    """Where each value of a row stands among these; None where one is missing or there twice."""
    place = placed(values)
    found = tuple([place.get(v, -1) for v in t])
    return None if -1 in found else found
