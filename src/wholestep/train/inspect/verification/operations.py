"""The walk over a graph: each operation's compiled value beside float64, given the same compiled operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from wholestep.backends import reference
from wholestep.compiler.devices import compile_for_device
from wholestep.compiler.double_precision import widest
from wholestep.compiler.rounding_bound import allowance, error, exact_values, jittered, nudged, rounding
from wholestep.errors import Where, show
from wholestep.ir.analysis import part
from wholestep.ir.graph import Graph, NDArray, Node, Value
from wholestep.train.inspect.diagnose import operation_name
from wholestep.train.inspect.verification.findings import ComparedLine, Fault, share_of_bound

HELD = 2**28
"""The most bytes of values that one program returns; a larger graph is divided into several stretches."""
TOGETHER = 300
"""The most nodes of one program, since a larger one takes longer to compile than several small ones."""
LOOKS = 24
"""The number of comparisons of a value that is off, with operands perturbed and rounded the other way."""
TRIPS = 64
"""The most trips of a loop that are checked where one is off; otherwise only the first and the last are."""
UNKNOWN = "(no line of the user's)"

Phases = Mapping[Node, str]
NO_PHASES: Phases = MappingProxyType({})


class Off(NamedTuple):
    """A result of a node that is further from float64 than the bound, both in units in the last place."""

    output: int
    units: float
    allowed: float


def node_graph(node: Node) -> Graph:
    """A graph of one node, with its operands as inputs."""
    inputs = tuple([Value(v.type, None, None) for v in node.inputs])
    copy = Node(node.op, inputs, node.params, node.where)
    copy.outputs = tuple([Value(v.type, copy, None) for v in node.outputs])
    return Graph(inputs, (copy,), copy.outputs, node.op.name)


class OperationWalk:
    """A walk over graphs in order, with the compared operations by line, and the faults."""

    def __init__(self, device: str, seed: int, line: Callable[[Where], str] = show) -> None:
        self.device, self.line = device, line
        self.rng = np.random.default_rng(seed)
        self.lines: dict[str, ComparedLine] = {}
        self.faults: list[Fault] = []
        self.operations = 0
        self.memory = 0
        self.programs: dict[Graph, list[Stretch]] = {}
        self.phase = "forward"

    def walk(self, graph: Graph, args: Sequence[NDArray], place: str = "", phases: Phases = NO_PHASES) -> None:
        """Compare every operation; `phases` names the phase that begins after a node."""
        for stretch in self.stretches(graph):
            known = dict(zip(stretch.graph.inputs, args, strict=True))
            known.update(zip(stretch.graph.outputs, stretch.program(args), strict=True))
            self.memory = max(self.memory, sum([x.nbytes for x in known.values()]))
            for node in stretch.nodes:
                self.node(node, [np.broadcast_to(known[v], v.shape) for v in node.inputs], node.outputs, known, place)
                self.phase = phases.get(node, self.phase)

    def stretches(self, graph: Graph) -> list[Stretch]:
        """The graph's stretches, compiled once."""
        found = self.programs.get(graph)
        if found is None:
            found = self.programs[graph] = [Stretch(graph, nodes, self.device) for nodes in cut_up(graph)]
        return found

    def node(
        self, node: Node, args: list[NDArray], outputs: Sequence[Value], known: dict[Value, Any], place: str
    ) -> None:
        """Compare one operation, and the operations of the graphs in it."""
        before = len(self.faults)
        found = [np.asarray(np.broadcast_to(known[v], v.shape)) for v in outputs]
        graphs = self.compare(node, args, found, place)
        for graph, arrays, where in graphs:
            self.inside(graph, arrays, place or where)
        if len(self.faults) > before + 1 and graphs:
            del self.faults[before]  # faults inside a loop say more than that of the loop itself

    def inside(self, graph: Graph, arrays: Sequence[NDArray], place: str) -> None:
        """Walk over a graph in a node; its operations have the phase of the node."""
        self.walk(graph, [np.array(x, order="C") for x in arrays], place)

    def compare(self, node: Node, args: list[NDArray], found: list[NDArray], place: str) -> list[Inner]:
        """Compare one operation's results; returns the graphs in it to look into."""
        graph, inner = node_graph(node), Runs(node)
        with np.errstate(all="ignore"):
            made = (
                reference.apply_primitive(node.op, args, node.params, node.where) if not inner.nested else inner(args)
            )
        plain = [np.asarray(x) for x in (made if node.op.multiple else (made,))]
        exact = exact_values(graph, args)
        off: list[Off] = []
        most, units = 0.0, 0.0
        for i, (x, y, z) in enumerate(zip(found, plain, exact, strict=True)):
            apart, allowed, unit = error(x, z), allowance(y, z), rounding(y) or 1.0
            if not apart <= allowed:
                allowed = self.second_look(graph, args, exact, i, apart, allowed)
            if not apart <= allowed:
                off.append(Off(i, apart / unit, allowed / unit))
            most, units = max(most, share_of_bound(apart, allowed)), max(units, apart / unit)
        self.operations += 1
        self.note(node, most, units)
        if off:
            self.faults.append(self.fault(node, off[0], args, found, exact, place))
        return inner.graphs(bool(off))

    def second_look(
        self, graph: Graph, args: list[NDArray], exact: list[NDArray], i: int, apart: float, allowed: float
    ) -> float:
        """The bound for operands and roundings that may each be off by one unit, since programs fuse and reorder."""
        for _ in range(LOOKS):
            if apart <= allowed:
                break
            near = jittered(self.rng, graph, [nudged(self.rng, x) for x in args])
            allowed = max(allowed, allowance(near[i], exact[i]))
        return allowed

    def note(self, node: Node, most: float, units: float) -> None:
        """Enter an operation in the table of lines."""
        line, name = self.line(node.where) or UNKNOWN, operation_name(node)
        old = self.lines.get(line, ComparedLine(line, 0, -1.0, 0.0, ""))
        worst = (most, units, name) if most > old.share else (old.share, old.units, old.worst)
        self.lines[line] = ComparedLine(line, old.operations + 1, *worst)

    def fault(
        self, node: Node, off: Off, args: list[NDArray], found: list[NDArray], exact: list[NDArray], place: str
    ) -> Fault:
        """The fault of an operation that is off."""
        x, z = found[off.output], exact[off.output]
        operands = ", ".join([str(v.type) for v in node.inputs])
        at = worst_index(x, z)
        said = f"{operation_name(node)}({operands}): {off.units:.3g} ulp from float64 given the same operands, "
        said += f"{off.allowed:.3g} allowed; at {list(at)} it is {x[at]} and not {z[at]}"
        return Fault(
            "value", operation_name(node), self.line(node.where), self.phase, said + (f", {place}" if place else "")
        )


class Inner(NamedTuple):
    """A graph that a node runs, with its arguments, and the trip of the loop in words."""

    graph: Graph
    arrays: list[NDArray]
    place: str


class Runs:
    """The runs of the graphs in a node: the first and the last of each, and up to `TRIPS` others."""

    def __init__(self, node: Node) -> None:
        self.node, self.nested = node, node.op.nested
        self.first: dict[Graph, Inner] = {}
        self.last: dict[Graph, Inner] = {}
        self.rest: list[Inner] = []
        self.counts: dict[Graph, int] = {}

    def __call__(self, args: Sequence[NDArray]) -> Any:
        return self.node.op.ref(*args, run=self.run, **self.node.params)

    def run(self, graph: Graph, arrays: Sequence[Any]) -> list[Any]:
        """The results of a run in the reference interpreter."""
        at = self.counts[graph] = self.counts.get(graph, -1) + 1
        kept = Inner(graph, [np.array(x) for x in arrays], self.place(at))
        if graph not in self.first:
            self.first[graph] = kept
        elif len(self.rest) < TRIPS:
            self.rest.append(kept)
        self.last[graph] = kept
        return reference.interpret(graph, list(arrays))

    def place(self, at: int) -> str:
        length = self.node.params.get("length")
        if length is None:
            return ""
        return f"in step {length - 1 - at if self.node.params.get('reverse') else at} of the {length} of a loop"

    def graphs(self, off: bool) -> list[Inner]:
        """The runs to check: the first and the last of each graph, or with `off` the first and the others."""
        ends = [x for graph, x in self.last.items() if self.first[graph] is not x]
        return [*self.first.values(), *(self.rest if off else ends)]


class Stretch:
    """Some nodes of a graph, and the program that returns their operands and their results."""

    def __init__(self, graph: Graph, nodes: Sequence[Node], device: str) -> None:
        self.nodes = nodes
        wanted = dict.fromkeys([v for node in nodes for v in (*node.inputs, *node.outputs)])
        own = set(graph.inputs)
        self.graph = part(graph, graph.inputs, [v for v in wanted if v not in own])
        self.device = device
        self.made: Any = None

    def program(self, args: Sequence[NDArray]) -> list[NDArray]:
        """The values for these inputs."""
        if self.made is None:
            self.made = compile_for_device(self.graph, (), self.device)
        found: list[NDArray] = self.made(args)
        return found


def cut_up(graph: Graph) -> Iterator[list[Node]]:
    """The nodes of a graph in stretches of at most `HELD` bytes and `TOGETHER` nodes."""
    nodes: list[Node] = []
    size = 0
    for node in graph.nodes:
        nbytes = sum([int(v.type.nbytes) for v in node.outputs])
        if nodes and (size + nbytes > HELD or len(nodes) >= TOGETHER):
            yield nodes
            nodes, size = [], 0
        nodes.append(node)
        size += nbytes
    if nodes:
        yield nodes


def worst_index(x: NDArray, z: NDArray) -> tuple[int, ...]:
    """The index of the largest difference."""
    a, b = widest([x, z])
    if a.dtype.kind not in "fc":
        return tuple([int(i) for i in np.unravel_index(int(np.argmax(a != b)), a.shape)])
    with np.errstate(all="ignore"):
        apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return tuple([int(i) for i in np.unravel_index(int(np.argmax(np.where(np.isnan(apart), np.inf, apart))), a.shape)])
