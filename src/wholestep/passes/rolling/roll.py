"""roll: a hand-written loop over equal layers becomes a loop of the program, forward, backward and in the update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from wholestep import config
from wholestep.ir.build import build, inline
from wholestep.ir.graph import Graph, Node, Value, subgraphs
from wholestep.ir.types import Type, array_type
from wholestep.passes.check import check
from wholestep.passes.rewrite import copied, rewrite
from wholestep.passes.rolling.align import align
from wholestep.passes.rolling.chains import REDUCED, chains
from wholestep.passes.rolling.layer import Layer
from wholestep.passes.rolling.picks import picked, picks
from wholestep.passes.rolling.pull import Pull
from wholestep.passes.rolling.rows import Rows
from wholestep.passes.rolling.run import Inner, Run, run_of, varying
from wholestep.passes.rolling.runs import stretches
from wholestep.passes.rolling.signature import Members, Signatures
from wholestep.passes.rolling.write import Rolling, Steps, Unit, places_of, row, stack_of

Groups = tuple[tuple[int, ...], ...]
Joins = Callable[[tuple[int, ...]], bool]

HEAVY = frozenset({"contract", "window", "scatter_add", "fft"})
"""Operations that fuse with little: a layer that has one costs no more in a loop."""
WORTH = 40
"""How many operations a loop must save."""
SHARE, SMALL = 20, 2**16
"""What is copied may be one part in so many of what the program is given, and so many bytes."""


class Rolled(NamedTuple):
    """A graph with its layers rolled up, the inputs that became one, and what was rolled, in words."""

    graph: Graph
    groups: Groups = ()
    notes: tuple[str, ...] = ()


class Found:
    """A graph taken apart: its layers, what goes along with them in rows, and which inputs became one."""

    def __init__(self, graph: Graph, joins: Joins, made: int, always: bool) -> None:
        self.graph, self.made, self.always = graph, made, always
        self.signatures = Signatures(graph)
        self.place = {v: i for i, v in enumerate(graph.inputs)}
        runs = found_runs(graph, self.signatures)
        self.torn: set[tuple[int, ...]] = set()
        while True:
            rows = self.follow(runs, lambda places: joins(places) and places not in self.torn)
            new = {places for places in replaced(self.groups, made) if not rows.returns([p - made for p in places])}
            if not new:
                break
            # Outputs that are no row would be put into one at each call: rather the inputs are, or no loop is made.
            self.torn |= new
            runs = runs if always else [run for run in runs if self.reads_none(run, new)]

    def follow(self, runs: list[Run], joins: Joins) -> Rows:
        """Let runs be loops, and see what goes along with them."""
        taken = [node for run in runs for layer in run.layers for node in layer]
        rows = Rows(self.graph, self.signatures, taken, lambda t: joins(tuple([self.place[v] for v in t])))
        layers = settled(runs, rows)
        self.layers = list(layers)
        """Those in the loops inside it too."""
        self.copied: list[int] = []
        """The bytes that have to be put in a row in those loops."""
        loops = [loop for node in self.graph.nodes if (loop := self.loop(node, rows)) is not None]
        rows.spread()
        units: list[Unit] = [*layers, *rows.maps, *rows.choices.values(), *loops, *chains(rows, self.graph.outputs)]
        inside = rows.taken.union(rows.choices, [loop.node for loop in loops])
        self.units = [*units, *[n for n in self.graph.nodes if n.inputs and n not in inside]]
        self.groups = tuple([tuple([self.place[v] for v in t]) for t in rows.known if rows.inputs.issuperset(t)])
        return rows

    def reads_none(self, run: Run, groups: set[tuple[int, ...]]) -> bool:
        """Whether a run reads none of the inputs at these places."""
        own = {self.place.get(v) for t in varying(run) for v in t}
        return all(own.isdisjoint(places) for places in groups)

    def loop(self, node: Node, rows: Rows) -> Steps | None:
        """A loop of whole steps, in which there are layers."""
        if node.op.name != "scan" or node in rows.taken:
            return None
        c, k = node.params["sizes"]

        def joins(places: tuple[int, ...]) -> bool:
            t = tuple([node.inputs[p] for p in places])
            alike = max(places) < c or (min(places) >= c and max(places) < c + k)
            return alike and (t in rows.known or rows.inputs.isdisjoint(t) or rows.fresh(t))

        inner = Found(plain(node.params["graph"]), joins, c, self.always)
        if not inner.layers:
            return None
        for places in inner.groups:
            t = tuple([node.inputs[p] for p in places])
            if rows.fresh(t):
                rows.add(t)
        for places in replaced(inner.groups, c):
            rows.add(tuple([node.outputs[p - c] for p in places]))
        self.layers += inner.layers
        rolling = Rolling(inner.graph, inner.units, inner.signatures)
        written = rolling.written(inner.groups, moved(replaced(inner.groups, c), -c))
        self.copied += [*inner.copied, *rolling.copied]
        return Steps(node, written, inner.groups)


def rolled(graph: Graph, joins: Joins, made: int = 0, always: bool = True) -> Rolled:
    """The graph with equal layers as loops, and what repeats itself in those; where nothing does, as it is.

    `joins` says whether inputs at these places may become one; the outputs that replace them then do too, each of
    which comes `made` places before its input. Unless `always`, only where it pays: where layers are more than a few
    elementwise operations, and little has to be copied.
    """
    found = once(graph, joins, made, always)
    more = found
    while more.notes:
        more = once(more.graph, lambda _: False, made, always)
        found = Rolled(more.graph, found.groups, (*found.notes, *more.notes))
    return found


def once(graph: Graph, joins: Joins, made: int, always: bool) -> Rolled:
    """The graph with its outermost equal layers as loops."""
    found = Found(plain(graph), joins, made, always)
    if not found.layers or not (always or pays(found.layers)):
        return Rolled(graph)
    rolling = Rolling(found.graph, found.units, found.signatures)
    new = rolling.written(found.groups, moved(found.groups, -made))
    if not always and SHARE * sum(found.copied + rolling.copied) > sum([t.nbytes for t in graph.in_types]) + SMALL:
        return Rolled(graph)
    result = Rolled(new, found.groups, tuple(notes(found.layers)))
    if config.check():
        check("roll", graph, taken_apart(result, len(graph.outputs), made), False)
    return result


def pays(layers: Sequence[Layer]) -> bool:
    """Whether layers are worth a loop: many operations are saved, among them some that fuse with nothing."""
    saved = sum([(layer.run.count - 1) * sum(map(operations, layer.run.layers[0])) for layer in layers])
    heavy = any(node.op.name in HEAVY or node.op.nested for layer in layers for node in layer.run.layers[0])
    return saved >= WORTH and heavy


def operations(node: Node) -> int:
    """How many operations an operation stands for, those of its graphs counted."""
    return 1 + sum([len(part.nodes) for graph in subgraphs(node) for part in graph.family()])


def taken_apart(found: Rolled, outputs: int, made: int = 0) -> Graph:
    """A rolled graph with the inputs and outputs of the one that it was made of."""
    graph = found.graph
    sizes = [len(places) for places in found.groups]
    types: dict[int, Type] = {}
    joined = places_of(len(graph.inputs) + sum(sizes) - len(sizes), found.groups)
    for t, places in zip(graph.in_types, joined, strict=True):
        types.update({p: array_type(t.shape[1:], t.dtype) if places in found.groups else t for p in places})

    def apart(*values: Value) -> list[Value]:
        results = inline(graph, [stack_of([values[p] for p in places], places in found.groups) for places in joined])
        out: dict[int, Value] = {}
        groups = moved(found.groups, -made)
        for v, places in zip(results, places_of(outputs, groups), strict=True):
            out.update({p: row(v, k) if places in groups else v for k, p in enumerate(places)})
        return [out[i] for i in range(outputs)]

    return build(apart, [types[i] for i in range(len(types))], name=graph.name)[0]


def plain(graph: Graph) -> Graph:
    """The graph without the names of values and the pullbacks of composites, which have been read by now."""
    return rewrite(graph, lambda node: PLAIN[node.op.name](node) if node.op.name in PLAIN else None)


def body(node: Node) -> tuple[Value, ...]:
    """The results of a composite, made where it stands."""
    graph: Graph = node.params["graph"]
    env = dict(zip(graph.inputs, node.inputs, strict=True))
    for inner in graph.nodes:
        new = copied(inner, tuple([env[v] for v in inner.inputs]), inner.params)
        env.update(zip(inner.outputs, new.outputs, strict=True))
    return tuple([env[v] for v in graph.outputs])


PLAIN: dict[str, Callable[[Node], Value | tuple[Value, ...]]] = {
    "capture": lambda node: node.inputs[0],
    "composite": body,
}


def replaced(groups: Groups, made: int) -> Groups:
    """The groups of inputs that outputs replace; what a loop reads and does not hand on comes before them."""
    return tuple([places for places in groups if places[0] >= made])


def moved(groups: Groups, by: int) -> Groups:
    """The same places in another list."""
    return tuple([tuple([p + by for p in places]) for places in groups])


def found_runs(graph: Graph, signatures: Signatures) -> list[Run]:
    """The runs of layers that hand something on, each with the layers that it has in common with the others."""
    apart = picks(graph, signatures)
    nodes = [node for node in graph.nodes if node.inputs and node.outputs[0] not in apart]
    position = {v: i for i, node in enumerate(nodes) for v in node.outputs}
    position |= {v: position.get(node.inputs[0], -1) for v, node in apart.items()}
    runs: list[Run] = []
    for stretch in sorted(stretches(nodes, signatures)):
        run = run_of(nodes, stretch, position, signatures, runs)
        if run is not None and hands_on(run):
            runs.append(run)
    return align(runs)


def hands_on(run: Run) -> bool:
    """Whether a layer needs the one before, and not only to add to what that has gathered."""
    return not all(gathers(run, carry.node, at) for at, carry in run.carries().items())


def gathers(run: Run, last: int, at: tuple[int, int]) -> bool:
    """Whether what is handed on at one place only has more of the same kind taken into it, up to the last link."""
    q, op = at[0], run.layers[0][last].op
    while op.name in REDUCED and run.layers[0][q].op is op:
        if q == last:
            return True
        readers = {i for i, row in enumerate(run.sources) for s in row if isinstance(s, Inner) and s.node == q}
        if len(readers) != 1:
            return False
        (q,) = readers
    return False


def settled(runs: list[Run], rows: Rows) -> list[Layer]:
    """The runs as loops, each in the direction in which most of what it reads is kept."""
    layers: list[Layer] = []
    for run in runs:
        layer = Layer(run)
        Pull(layer, layers).choose()

        def kept(t: Members) -> bool:
            return t in rows.known or picked(t) is not None or any(maker.gives(t) for maker in layers)

        layer.backward = sum(kept(t[::-1]) - kept(t) for t in layer.xs) > 0
        for t in map(layer.kept, layer.xs):
            if t[::-1] not in rows.known and (rows.fresh(t) or any(maker.gives(t) for maker in layers)):
                rows.add(t)
        layers.append(layer)
    read = {v for node in rows.graph.nodes if node not in rows.taken for v in node.inputs} | set(rows.graph.outputs)
    for layer in layers:
        for t in list(layer.produced):
            if not read.isdisjoint(t) and layer.produced[t].carry is None:
                rows.add(layer.kept(t))
    return layers


def notes(layers: list[Layer]) -> list[str]:
    """What was rolled, in words."""
    return [f"{layer.run.count} equal layers rolled, {len(layer.run.layers[0])} operations each" for layer in layers]
