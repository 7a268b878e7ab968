"""Lower a graph to tasks: legalize, fuse, choose the materialized values, and write a kernel for each fusion group."""

from __future__ import annotations

from collections.abc import Sequence, Set

import numpy as np

from wholestep.ir.graph import OPS, Graph, Node, Value
from wholestep.kernel.index_arithmetic import row_major_strides
from wholestep.lower.buffers.materialize import Materializer, strip_reshapes
from wholestep.lower.buffers.task_order import order_tasks
from wholestep.lower.buffers.tasks import ProgramBuilder, Task, TaskGraph, kernel_task, row_major_location
from wholestep.lower.dynamic_shapes import blame_symbolic_errors
from wholestep.lower.fusion.fusion_groups import FusionAnalysis, is_virtual
from wholestep.lower.fusion.iteration_space import FusionGroup
from wholestep.lower.kernels.kernel_writer import KernelWriter
from wholestep.lower.kernels.scalar_codegen import Location, ReadableLocations, is_opaque
from wholestep.lower.ops import opaque
from wholestep.lower.ops.bounds_checks import bounds_check_tasks, unchecked_indices
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.memory_layout import MemoryLayoutBuilder
from wholestep.primitives.family import RECOMPUTE_LIMIT
from wholestep.primitives.recompute_cost import cheap_closure

CHAIN_LIMIT = 8 * RECOMPUTE_LIMIT
"""The highest price of a chain of recomputations, each of which is cheap since the next value is recomputed too."""


class GraphLowering(Materializer):
    """The lowering of one graph whose inputs and outputs have locations; `tasks` are not ordered yet."""

    def __init__(
        self, graph: Graph, context: ProgramBuilder, inputs: Sequence[Location], outputs: Sequence[Location]
    ) -> None:
        self.kept = context.stored | ends_of_long_move_chains(graph)
        self.fusion = FusionAnalysis(graph, is_opaque, self.kept, context.target.launches_beside)
        super().__init__(graph, context, dict(zip(graph.inputs, inputs, strict=True)))
        self.tasks: list[Task] = []
        self.stored: dict[FusionGroup, list[Value]] = {}
        self.stored_late: list[Value] = []
        self.walked: dict[FusionGroup, set[Value]] = {}
        """The members of each group whose operands are materialized, or computed in its kernel."""
        self.late: dict[Allocation, list[FusionGroup]] = {}
        """The groups that write each allocation of values materialized late."""
        for node in self.graph.nodes:
            if node.op.literal:
                value = np.ascontiguousarray(node.params["value"])
                self.locations[node.outputs[0]] = row_major_location(node.outputs[0], context.constant(value))
        for v, location in zip(self.graph.outputs, outputs, strict=True):
            if v.type.size:
                self.place_output(v, location)
        self.find_materialized()
        self.create_tasks()
        self.record_pins()

    def nested(self, graph: Graph, inputs: Sequence[Location], outputs: Sequence[Location]) -> TaskGraph:
        return lower_graph(graph, self.context, inputs, outputs, Allocation(0), Allocation(0, file=True))

    def is_floating(self, v: Value) -> bool:
        return v in self.fusion.floating and v not in self.kept

    # Materialization.

    def place_output(self, v: Value, location: Location) -> None:
        """Materialize an output in its location; a value that has a location, or is only moved, is copied there."""
        memory = self.context.layout.memory
        if v in self.locations and memory(location.place) is memory(self.locations[v].place):
            return
        # A value with strides that are not row-major can be written only in its own shape.
        base = strip_reshapes(v) if location.strides == row_major_strides(v.shape) else v
        made_by = base.node
        if base in self.locations or made_by is None or is_virtual(made_by):
            copy = Node(OPS["identity"], (v,), {}, made_by.where if made_by else None)
            copy.outputs = (Value(v.type, copy, None),)
            base = copy.outputs[0]
        self.locations[base] = location if base.shape == v.shape else row_major_location(base, location.place)
        self.pending.append(base)

    def find_materialized(self) -> None:
        """Find all values to materialize, backward from the outputs."""
        for group in self.fusion.groups:
            if group.kind == "opaque":
                opaque.materialize_operands(self, group.members[0])
        for _, index, _ in unchecked_indices(self.graph):
            self.materialize_leaves(index)
        while self.pending:
            v = self.pending.pop()
            if v not in self.fusion.placed:
                self.fusion.isolate(v)
                self.stored_late.append(v)
            group = self.fusion.placed[v][0]
            self.stored.setdefault(group, []).append(v)
            if group.kind != "opaque":
                self.visit_operands(v, group)

    def visit_operands(self, v: Value, group: FusionGroup) -> None:
        """Walk through the operands of a materialized value; materialize those that its kernel does not compute.

        Members of a group are walked through once for all of its values.
        """
        seen: set[Value] = set()
        walked = self.walked.setdefault(group, set())
        stack = [(v, False, 0)]
        while stack:
            x, operand, spent = stack.pop()
            node = x.node
            if x in seen or node is None or (x in self.locations and x is not v):
                continue
            seen.add(x)
            member = self.member_of(x, group)
            spent = 0 if member else spent + self.recompute_price(x)
            if x is not v and not self.computed_in_kernel(x, member, operand, spent):
                self.materialize(x)
                continue
            if member and not operand:
                if x in walked:
                    continue
                walked.add(x)
            operand = node.op.kind == "contraction" or (operand and is_virtual(node))
            stack.extend((y, operand, spent) for y in node.inputs)

    def member_of(self, x: Value, group: FusionGroup) -> bool:
        """True if the kernel of a group computes a value in any case."""
        found = self.fusion.placed.get(x)
        return x in self.fusion.floating or (found is not None and found[0] is group)

    def computed_in_kernel(self, x: Value, member: bool, operand: bool, spent: int) -> bool:
        """True if a kernel computes a value itself: a member, a movement, or a cheap recomputation."""
        assert x.node is not None
        if x in self.kept:
            return False
        if is_virtual(x.node):
            return True
        if operand:
            return False
        if member or spent > CHAIN_LIMIT:
            return member
        base = self.recompute_base(x)
        return sum(v.type.nbytes for v in base) <= x.type.nbytes and x not in base

    def recompute_price(self, v: Value) -> int:
        """The price of computing a value from its operands once more."""
        return 0 if v.node is None or is_virtual(v.node) else v.node.op.price

    def recompute_base(self, x: Value) -> set[Value]:
        """The additional values to materialize so that a few cheap operations recompute a value from materialized
        ones."""

        def operands(v: Value) -> Sequence[Value]:
            return () if v.node is None else v.node.inputs

        return cheap_closure(x, self.recompute_price, operands, lambda v: v in self.locations or v.node is None)

    def record_pins(self) -> None:
        """Record the allocations of values that the user pinned, if they are materialized at all."""
        for node in self.graph.nodes:
            if node.op.name == "pin" and (location := self.locations.get(strip_reshapes(node.inputs[0]))):
                self.context.pinned[location.place] = node.params["label"]

    # Kernels.

    def create_tasks(self) -> None:
        """Create the tasks of every fusion group that stores something."""
        for v in self.stored_late:
            self.late.setdefault(self.locations[v].place, []).append(self.fusion.placed[v][0])
        self.tasks += bounds_check_tasks(self)
        position = {v: i for i, node in enumerate(self.graph.nodes) for v in node.outputs}
        for group in self.fusion.groups:
            values = sorted(self.stored.get(group, ()), key=lambda v: position.get(v, len(position)))
            if not values:
                continue
            first = group.members[0] if group.members else values[0].node
            assert first is not None, "what is stored is made by something"
            with blame_symbolic_errors(first):
                if group.kind == "opaque":
                    self.tasks += opaque.opaque_rule(self, first).tasks(self, first)
                else:
                    self.tasks.append(self.group_task(group, values))

    def group_task(self, group: FusionGroup, values: Sequence[Value]) -> Task:
        """The task of a fusion group's kernel, which stores these values."""
        targets = {v: self.locations[v] for v in values}
        hidden = HiddenPlaces(self, group, {location.place for location in targets.values()})
        readable = ReadableLocations(self.locations, hidden)

        target = self.context.target

        def write(grid: Sequence[int] | None, rows: Sequence[int] | None) -> KernelWriter:
            return KernelWriter(self.fusion, group, readable, targets, target.row_lanes, grid, rows, target.doubles)

        writer, kernel = target.schedule(write)
        made = writer.bound(kernel, target.worth_sharing(kernel))
        if group.kind == "contract":
            made = made._replace(blocked=target.block_contraction(kernel, self.context.loop))
        return kernel_task(made)


class HiddenPlaces:
    """The allocations that the kernel of a group cannot read: its own results, and values materialized late for other
    groups that depend on it, which it recomputes."""

    def __init__(self, lowering: GraphLowering, group: FusionGroup, own: set[Allocation]) -> None:
        self.lowering, self.group = lowering, group
        self.known = dict.fromkeys(own, True)

    def __contains__(self, place: object) -> bool:
        assert isinstance(place, Allocation)
        if place not in self.known:
            makers = self.lowering.late.get(place, ())
            self.known[place] = any(maker.depends_on(self.group) for maker in makers)
        return self.known[place]


MAX_MOVES = 32
"""Maximum length of a chain of movements that a kernel reads through, as each is a level of recursion."""


def ends_of_long_move_chains(graph: Graph) -> set[Value]:
    """The values at which chains of movement and elementwise operations are cut by materializing them."""
    moves: dict[Value, int] = {}
    found: set[Value] = set()
    for node in graph.nodes:
        moved = node.op.view
        if moved or not (node.op.kind == "contraction" or node.op.fold or is_opaque(node)):
            count = max([moves.get(v, 0) for v in node.inputs], default=0) + moved
            if moved and count >= MAX_MOVES:
                found.add(node.outputs[0])
            elif count:
                moves[node.outputs[0]] = count
    return found


def lower_graph(
    graph: Graph,
    context: ProgramBuilder,
    inputs: Sequence[Location],
    outputs: Sequence[Location],
    arena: Allocation,
    file: Allocation,
) -> TaskGraph:
    """The ordered tasks of a graph, whose temporary allocations will lie in `arena` or `file`."""
    # All enclosing allocations, as the outer graph may turn one in between into a root by writing through a copy. The
    # allocation of a result becomes temporary where this graph writes through a copy.
    layout = context.layout
    results = [location.place for location in outputs]
    given = [location.place for location in inputs] + [layout.base(place) or place for place in results]
    outside = frozenset([p for place in given for p in layout.around(place)])
    tasks = order_tasks(GraphLowering(graph, context, inputs, outputs).tasks, layout, outside)
    place_results_in_files(tasks, layout, outside)
    return TaskGraph(tuple(tasks), arena, file, outside)


def place_results_in_files(tasks: Sequence[Task], layout: MemoryLayoutBuilder, outside: Set[Allocation]) -> None:
    """Results at least as large as a whole file-backed operand are placed in a file too."""
    for task in tasks:
        whole = [p.nbytes for p in task.reads if layout.in_file(p) and layout.root(p).nbytes == p.nbytes]
        if task.bound is None or not whole:
            continue
        for p in task.writes:
            if p.nbytes >= max(whole):
                layout.move_to_file(layout.root(p), outside)
