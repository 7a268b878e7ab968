"""Reductions over a scan's stacked outputs, fused into the scan as loop-carried accumulators.

A reduction over a stack has as many stages as its size asks for; in the loop it has those of one layer. So the program
is the same for every number of layers, and a gradient is reduced while it is in cache. In the branch of an update,
where nothing is stacked, sums and extremes get a scan of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from wholestep import dtypes
from wholestep.ir.build import blame, build, inline
from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.ir.types import array_type
from wholestep.kernel.lang import neutral_element
from wholestep.passes.named_pass import Pass
from wholestep.passes.reroll.emit import SUM_STEP
from wholestep.passes.rewrite import GraphRewriter, defining_node, map_params, new_value, rewrite
from wholestep.primitives.checkpoint import CheckpointPrimitive
from wholestep.primitives.creation import Full
from wholestep.primitives.loops import Scan, scan
from wholestep.primitives.movement import Broadcast, Concat, Pad, Reshape, Slice
from wholestep.primitives.structure import Cond

MAX_RECOMPUTED = 32
"""The most operations that a loop may recompute for an accumulator."""
ACCUMULATE_STEP = "counted"
"""The name of the body of a scan that only accumulates."""


class Accumulator(NamedTuple):
    """A reduction of stacked values: the stacks that it is computed from, and its loop-invariant operands."""

    node: Node
    stacks: dict[Value, None]
    fixed: dict[Value, None]
    inside: dict[Node, None]
    """The operations between these and the reduction."""

    @property
    def length(self) -> int:
        """The number of rows."""
        return int(self.node.inputs[0].shape[0])

    def start(self) -> float | int | bool:
        """The initial value: the reduction of no rows."""
        number: float | int | bool = neutral_element(self.node.op.fold, self.node.outputs[0].dtype)
        return number

    def after(self, so_far: Value, env: dict[Value, Value]) -> Value:
        """The value after one more row; `env` has the rows of the stacks, and the invariant operands."""
        before = blame(self.node.where)
        x = compute_row(self.node.inputs[0], dict(env))
        inside = tuple([a - 1 for a in self.node.params["axes"] if a])
        found = self.node.op(x, axes=inside) if inside else x
        result = OPS[self.node.op.combiner](so_far, found)
        blame(before)
        return result


def compute_row(v: Value, env: dict[Value, Value]) -> Value:
    """One row of a value that is computed row by row."""
    if v in env:
        return env[v]
    assert v.node is not None
    op, params = v.node.op, dict(v.node.params)
    if "shape" in params:
        params["shape"] = tuple(params["shape"])[1:]
    if isinstance(op, Broadcast):
        inputs = [compute_row(x, env) if 0 in params["axes"] else env[x] for x in v.node.inputs]
        params["axes"] = tuple([a - 1 for a in params["axes"] if a])
    else:
        inputs = [compute_row(x, env) for x in v.node.inputs]
    if op.combiner:
        params["axes"] = tuple([a - 1 for a in params["axes"]])
    env[v] = op(*inputs, **params)
    return env[v]


def trace_rows(v: Value, accumulator: Accumulator, stacks: Collection[Value]) -> bool:
    """Test whether a value is computed row by row; enters its stacks and its invariant operands."""
    if v.shape[:1] != (accumulator.length,):
        return False
    if v in stacks:
        accumulator.stacks[v] = None
        return True
    node = v.node
    if node is None or node in accumulator.inside:
        return node is not None
    accumulator.inside[node] = None
    if len(accumulator.inside) > MAX_RECOMPUTED:
        return False
    if isinstance(node.op, Broadcast) and 0 not in node.params["axes"]:
        accumulator.fixed[node.inputs[0]] = None
        return True
    alike = isinstance(node.op, Full | Broadcast | Reshape) or node.op.kind == "elementwise"
    if not (alike or reduces_rows(node)):
        return False
    return all(trace_rows(x, accumulator, stacks) for x in node.inputs)


def reduces_rows(node: Node) -> bool:
    """Test whether a node reduces each row by itself."""
    return bool(node.op.combiner) and 0 not in node.params["axes"]


class AccumulatingScan(NamedTuple):
    """A scan with the accumulators that are fused into it."""

    node: Node
    accumulators: list[Accumulator]

    def takes(self, accumulator: Accumulator) -> bool:
        """Test whether the scan only accumulates, over as many rows as an accumulator needs."""
        return not self.node.outputs and self.node.params["length"] == accumulator.length

    def gathered(self) -> AccumulatingScan:
        """The scan with all stacks that its accumulators need among its operands."""
        if self.node.outputs:
            return self
        xs = tuple(dict.fromkeys([v for accumulator in self.accumulators for v in accumulator.stacks]))
        rows = tuple([Value(array_type(v.shape[1:], v.dtype), None, None) for v in xs])
        params = {**self.node.params, "graph": Graph(rows, (), (), ACCUMULATE_STEP)}
        return self._replace(node=Node(self.node.op, xs, params, self.node.where))

    def written(self, env: dict[Value, Value]) -> Iterator[Node]:
        """The nodes of the new scan; enters the values that replace those of the old one and the reductions."""
        node, accumulators = self.node, self.accumulators
        c, k = node.params["sizes"]
        fixed = list(dict.fromkeys([v for accumulator in accumulators for v in accumulator.fixed]))
        starts = [
            new_value(t.node, "full", value=t.start(), shape=(), dtype=t.node.outputs[0].dtype) for t in accumulators
        ]
        yield from [v.node for v in starts if v.node is not None]
        old = [env.get(v, v) for v in node.inputs]
        inputs = (*old[:c], *[env.get(v, v) for v in fixed], *old[c : c + k], *starts, *old[c + k :])
        params = {**node.params, "graph": self.step(fixed), "sizes": (c + len(fixed), k + len(accumulators))}
        new = Node(node.op, inputs, params, node.where)
        new.outputs = tuple([Value(t, new, None) for t in node.op.type(*[v.type for v in inputs], **params)])
        end = k + len(accumulators)
        env.update(zip(node.outputs, [*new.outputs[:k], *new.outputs[end:]], strict=True))
        env.update({t.node.outputs[0]: v for t, v in zip(accumulators, new.outputs[k:end], strict=True)})
        yield new

    def step(self, fixed: Sequence[Value]) -> Graph:
        """The body with accumulators: (constants, fixed, carry, accumulators, xs) -> (carry, accumulators, ys)."""
        graph, (c, k) = self.node.params["graph"], self.node.params["sizes"]
        f, n = len(fixed), len(self.accumulators)
        types = list(graph.in_types)
        counts = [t.node.outputs[0].type for t in self.accumulators]
        types = [*types[:c], *[v.type for v in fixed], *types[c : c + k], *counts, *types[c + k :]]

        def step(*values: Value) -> list[Value]:
            carry, so_far, xs = values[c + f : c + f + k], values[c + f + k : c + f + k + n], values[c + f + k + n :]
            outs = inline(graph, [*values[:c], *carry, *xs])
            env = dict(zip(fixed, values[c : c + f], strict=True))
            env.update(zip(self.node.inputs[c + k :], xs, strict=True))
            env.update(zip(self.node.outputs[k:], outs[k:], strict=True))
            after = [t.after(count, env) for t, count in zip(self.accumulators, so_far, strict=True)]
            return [*outs[:k], *after, *outs[k:]]

        return build(step, types, name=graph.name)[0]


def scan_accumulators(graph: Graph) -> Graph:
    """Fuse reductions over stacked outputs of scans into these scans, as loop-carried accumulators.

    g = scan(h, xs, graph=backward); flag = all(isfinite(g), axes=(0, 1, 2))
    -->
    flag, g = scan(true, h, xs, graph=counting)         where counting also makes flag & all(isfinite(row of g))
    """
    return accumulate_in(graph, frozenset())


def accumulate_in(graph: Graph, given: frozenset[Value]) -> Graph:
    """The graph with accumulators, in nested graphs too; `given` are its inputs that are stacks where it is used."""
    graph = fuse_row_sums(accumulate_in_nested(graph, given), given)
    loops = accumulating_scans(graph, given)
    if not loops:
        return graph
    walk = GraphRewriter(graph)
    for node in graph.nodes:
        if node in loops:
            walk.nodes += loops[node].written(walk.env)
        if node.outputs[0] not in walk.env:
            walk.keep(node)
    return walk.finish()


def accumulate_in_nested(graph: Graph, given: frozenset[Value]) -> Graph:
    """The graph with accumulators in its nested graphs."""
    stacks = {*given, *stacks_of_scans(graph)}
    walk = GraphRewriter(graph)
    for node in graph.nodes:
        walk.keep(node, params=nested_params(node, stacks))
    return walk.finish()


def nested_params(node: Node, stacks: Collection[Value]) -> dict[str, Any]:
    """The parameters of a node with accumulators in its graphs; those of a branch know which operands are stacks."""

    def done(inner: Graph) -> Graph:
        pairs = zip(inner.inputs, node.inputs[1:], strict=True) if isinstance(node.op, Cond) else ()
        return accumulate_in(inner, frozenset([v for v, x in pairs if x in stacks]))

    return map_params(node, done)


def stacks_of_scans(graph: Graph) -> dict[Value, list[Node]]:
    """The stacks that scans read or write, with these scans, and the arrays that such stacks are joined to or cut from.

    A stack is thus found in every mode of `nn.Stack`, whose groups of layers are parts of it, so that sums have the
    same order in all modes.
    """
    found: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        if isinstance(node.op, Scan) and isinstance(node.params["length"], int) and node.params["length"]:
            c, k = node.params["sizes"]
            for v in (*node.inputs[c + k :], *node.outputs[k:]):
                found.setdefault(v, []).append(node)
        elif isinstance(node.op, CheckpointPrimitive):
            own: Graph = node.params["graph"]
            inside = stacks_of_scans(own)
            pairs = zip((*own.inputs, *own.outputs), (*node.inputs, *node.outputs), strict=True)
            found.update({v: [] for x, v in pairs if x in inside and v not in found})
    if not found:
        return found
    for node in reversed(graph.nodes):
        if isinstance(node.op, Reshape | Slice) and node.outputs[0] in found and regroups_rows(node):
            found.setdefault(node.inputs[0], [])
    for node in graph.nodes:
        together = (
            isinstance(node.op, Reshape | Pad | Concat) and regroups_rows(node) and any(v in found for v in node.inputs)
        )
        if together or (
            node.op.name == "add" and any(v in found for v in node.inputs) and all(map(is_padded_sum, node.inputs))
        ):
            found.setdefault(node.outputs[0], [])
    return found


def regroups_rows(node: Node) -> bool:
    """Test whether a node moves rows without changing the contents of any."""
    old, new = node.inputs[0].shape, node.outputs[0].shape
    if isinstance(node.op, Reshape):
        return bool(old and new) and (old[1:] == new[2:] or old[2:] == new[1:])
    return bool(old) and old[1:] == new[1:]


def is_padded_sum(v: Value) -> bool:
    """Test whether a value is a pad, or a sum of such: the derivative of slicing a stack."""
    return defining_node(v, "pad", "add") is not None


def fuse_row_sums(graph: Graph, given: frozenset[Value]) -> Graph:
    """The graph with the reductions of each row fused into the scan that sums them."""
    sums = {v for node in graph.nodes if sums_rows(node) for v in node.inputs}
    stacks = {*stacks_of_scans(graph), *given} - sums

    def replace(node: Node) -> tuple[Value, ...] | None:
        if not sums_rows(node):
            return None
        start, *numbers = node.inputs
        accumulators = [Accumulator(x.node, {}, {}, {}) for x in numbers if x.node is not None and reduces_rows(x.node)]
        if len(accumulators) < len(numbers) or not all(map(trace_rows, numbers, accumulators, [stacks] * len(numbers))):
            return None
        fixed = list(dict.fromkeys([v for t in accumulators for v in t.fixed]))
        rows = list(dict.fromkeys([v for t in accumulators for v in t.stacks]))

        def step(*values: Value) -> list[Value]:
            f = len(fixed)
            env = dict(zip([*fixed, *rows], [*values[:f], *values[f + 1 :]], strict=True))
            return inline(node.params["graph"], [values[f], *[compute_row(x, env) for x in numbers]])

        before = blame(node.where)
        types = [*[v.type for v in (*fixed, start)], *[array_type(v.shape[1:], v.dtype) for v in rows]]
        made = build(step, types, name=ACCUMULATE_STEP)[0]
        blame(before)
        new = Node(
            node.op, (*fixed, start, *rows), {**node.params, "graph": made, "sizes": (len(fixed), 1)}, node.where
        )
        new.outputs = (Value(start.type, new, None),)
        return new.outputs

    return rewrite(graph, replace)


def sums_rows(node: Node) -> bool:
    """Test whether a node is a scan that sums a number of each row."""
    return isinstance(node.op, Scan) and bool(node.params["graph"].name == SUM_STEP)


def accumulating_scans(graph: Graph, given: frozenset[Value]) -> dict[Node, AccumulatingScan]:
    """The scans with accumulators, by the node that each replaces or precedes."""
    makers = stacks_of_scans(graph)
    stacks = {*makers, *given}
    place = {v: i for i, node in enumerate(graph.nodes) for v in node.outputs}
    loops: dict[Node, AccumulatingScan] = {}
    for node in graph.nodes:
        accumulator = accumulator_of(node, stacks)
        if accumulator is None or not (node.inputs[0].dtype.kind == "b" or given.intersection(accumulator.stacks)):
            continue
        around = [*accumulator.stacks, *accumulator.fixed]
        found = scan_of_stacks(accumulator, makers, place) if node.inputs[0].dtype.kind == "b" else None
        if found is None:  # one that is there already, or a loop of its own
            latest = max([place.get(v, -1) for v in around])
            own = [at for at, loop in loops.items() if loop.takes(accumulator) and latest < place[at.outputs[0]]]
            found = own[0] if own else node
        loops.setdefault(
            found, AccumulatingScan(found if found is not node else new_scan(accumulator), [])
        ).accumulators.append(accumulator)
    return {at: loop.gathered() for at, loop in loops.items()}


def accumulator_of(node: Node, stacks: Collection[Value]) -> Accumulator | None:
    """The accumulator of a node that reduces stacks to a scalar; None for other nodes."""
    if not node.op.combiner or node.outputs[0].type.ndim or not node.params["axes"]:
        return None
    x = node.inputs[0]
    if not isinstance(x.shape[0], int) or x.shape[0] == 0 or dtypes.compute_dtype(x.dtype) != x.dtype:
        return None
    accumulator = Accumulator(node, {}, {}, {})
    return accumulator if trace_rows(x, accumulator, stacks) and accumulator.stacks else None


def scan_of_stacks(accumulator: Accumulator, makers: dict[Value, list[Node]], place: dict[Value, int]) -> Node | None:
    """The scan that makes or reads all stacks of an accumulator and runs after its invariant operands are known."""
    first, *rest = [makers.get(v, []) for v in accumulator.stacks]
    ready = max([place.get(v, -1) for v in accumulator.fixed], default=-1)
    return next((n for n in first if all(n in r for r in rest) and ready < place[n.outputs[0]]), None)


def new_scan(accumulator: Accumulator) -> Node:
    """A scan for an accumulator alone."""
    params = {"graph": Graph((), (), ()), "sizes": (0, 0), "length": accumulator.length, "reverse": False}
    return Node(scan, (), params, accumulator.node.where)


SCAN_ACCUMULATORS = Pass("scan_accumulators", scan_accumulators)
