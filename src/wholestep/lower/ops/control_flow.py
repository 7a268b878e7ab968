"""Control flow: scans, while loops and branches become native control flow around the tasks of their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from wholestep.dims import SymbolicError
from wholestep.ir.analysis import reordered
from wholestep.ir.graph import Graph, Node, Value
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import ARENA_SLOT, Assignment, Task, TaskGraph, row_major_location
from wholestep.lower.kernels.scalar_codegen import Location
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.memory_layout import MemoryLayout, MemoryLayoutBuilder
from wholestep.lower.program.steps import ForLoop, MemRef, RoutineCall, Step, Switch, WhileLoop


def control_flow_operands(low: Materializer, node: Node) -> None:
    """Materialize the operands, as bodies read whole arrays."""
    for x in node.inputs:
        low.materialize_strided(x)


def location_of(low: Materializer, v: Value) -> Location:
    """The location of an operand or result; one without elements has an arbitrary one."""
    return low.locations.get(v) or row_major_location(v, Allocation(0, MemRef(ARENA_SLOT)))


def replacement_of(at: Location) -> Location:
    """A location over the same memory, for the value that replaces another."""
    return Location(Allocation(at.place.size, base=at.place), at.strides)


def copy_pair(target: Location, source: Location) -> tuple[Allocation, Allocation]:
    """(target, source) allocations of a copy byte by byte."""
    if target.strides != source.strides:
        raise SymbolicError("what a loop carries lies in another order before it: one of symbolic size is not first")
    return target.place, source.place


def copy_steps(at: Assignment, pairs: Sequence[tuple[Allocation, Allocation]]) -> tuple[Step, ...]:
    """Steps that copy the initial values of carries; none for a value that is there already."""
    moved = [(at.address(t), at.address(s), t.size) for t, s in pairs if t.nbytes]
    return tuple([RoutineCall("copy", (t, s), (n,)) for t, s, n in moved if t != s])


def row_location(v: Value, at: Location, loop: int) -> Location:
    """The location of one element along the first axis of a value, which advances with a loop."""
    nbytes = v.type.nbytes // v.shape[0] if v.shape[0] else 0
    step = at.strides[0] * v.dtype.itemsize
    return Location(Allocation(nbytes, base=at.place, moves=((loop, step),)), at.strides[1:])


def place_rows_in_files(rows: Sequence[Allocation], layout: MemoryLayoutBuilder) -> None:
    """If one of the stacked values of a loop lies in a file, place the temporary ones there too."""
    if any(map(layout.in_file, rows)):
        for place in rows:
            layout.move_to_file(layout.root(place))


def loop_results(
    low: Materializer, node: Node, first: int, carries: int, replaced: dict[int, int] | None = None
) -> tuple[list[Location], list[tuple[Allocation, Allocation]]]:
    """The locations of a loop's results, and the copies back of those that would overwrite an operand.

    The operands from `first` on are the initial carries: each may be overwritten by its own carry. So may the operands
    that `replaced` gives for results.
    """
    made, back, layout = [], [], low.context.layout
    own = {**{i: first + i for i in range(carries)}, **(replaced or {})}
    for i, v in enumerate(node.outputs):
        found = location_of(low, v)
        others = [x for j, x in enumerate(node.inputs) if j != own.get(i)]
        # In loops of loops the two reach the memory that they share through allocations of their own.
        old = layout.overwritten_memory(found.place)
        if old is not None and any(layout.memory(location_of(low, x).place) is old for x in others):
            found = Location(Allocation(found.place.size, file=layout.in_file(old)), found.strides)
            back.append((location_of(low, v).place, found.place))
        made.append(found)
    return made, back


def copy_result(low: Materializer, v: Value, x: Value) -> Task:
    """A result that is equal to its initial value."""
    target, source = copy_pair(location_of(low, v), location_of(low, x))
    return Task((source,), (target,), lambda at: copy_steps(at, [(target, source)]))


def stacked_carries(
    graph: Graph, sizes: tuple[int, int], outputs: Sequence[Location], layout: MemoryLayout
) -> dict[int, int]:
    """The carries whose value at each step is also stacked in a result: carry to result."""

    def plain(place: Allocation) -> bool:
        """True if it is temporary, in memory, of constant size, and not part of another."""
        free = place.ref is None and layout.base(place) is None and not layout.in_file(place)
        return free and isinstance(place.size, int)

    c, k = sizes
    found: dict[int, int] = {}
    for i, v in enumerate(graph.inputs[c : c + k]):
        at = graph.outputs.index(v, k) if v in graph.outputs[k:] else -1
        if at >= 0 and v.type.size and plain(outputs[i].place) and plain(outputs[at].place):
            found[i] = at
    return found


def replaced_rows(low: Materializer, node: Node, first: int, carries: int) -> dict[int, int]:
    """The stacked results of a loop that lie where a stacked operand does: a step writes the row that it has read.

    Returns the operand of each. Nothing else of the loop may be in that memory.
    """
    layout = low.context.layout
    memory = [layout.memory(location_of(low, v).place) for v in node.inputs]
    found: dict[int, int] = {}
    for i, v in enumerate(node.outputs[carries:], carries):
        at = location_of(low, v)
        old = layout.overwritten_memory(at.place)
        places = [j for j, place in enumerate(memory) if place is old]
        if old is None or len(places) != 1 or places[0] < first + carries:
            continue
        x = node.inputs[places[0]]
        if x.type is v.type and location_of(low, x).strides == at.strides and places[0] not in found.values():
            found[i] = places[0]
    return found


class ScanCarry(NamedTuple):
    """A carry of a loop: where it starts, and where a step reads and writes it.

    One that is aliased with its stacked output writes the next row in each step, and the last row is the result.
    """

    start: Allocation
    before: Location
    after: Location


def alias_stacked_carry(
    layout: MemoryLayoutBuilder, node: Node, loop: int, last: Location, rows: Location, at: int
) -> ScanCarry:
    """Alias a carry with the result that stacks it, which has one row more than the loop has steps."""
    nbytes, length, reverse = last.place.nbytes, node.params["length"], node.params["reverse"]
    base = Allocation(nbytes * (length + 1), value=node.outputs[at])
    layout.place(rows.place, base, nbytes if reverse else 0)
    layout.place(last.place, base, 0 if reverse else nbytes * length)

    def moving(offset: int) -> Location:
        return Location(Allocation(nbytes, base=base, offset=offset, moves=((loop, nbytes),)), last.strides)

    start = Allocation(nbytes, base=base, offset=nbytes * length if reverse else 0)
    return ScanCarry(start, moving(nbytes if reverse else 0), moving(0 if reverse else nbytes))


def scan_tasks(low: Materializer, node: Node) -> list[Task]:
    """A counted loop whose carries are updated in the locations of its results."""
    graph, (c, k), layout = node.params["graph"], node.params["sizes"], low.context.layout
    length, reverse = node.params["length"], node.params["reverse"]
    if length == 0:
        return [copy_result(low, v, x) for v, x in zip(node.outputs[:k], node.inputs[c : c + k], strict=True)]
    loop = low.context.loop()
    fixed = [location_of(low, v) for v in node.inputs[:c]]
    init = [location_of(low, v) for v in node.inputs[c : c + k]]
    replaced = replaced_rows(low, node, c, k)
    outputs, back = loop_results(low, node, c, k, replaced)
    xs = [row_location(v, location_of(low, v), loop) for v in node.inputs[c + k :]]
    # Rows in files are written once and dropped from memory, so the carry keeps its own allocation.
    joined = {} if any(layout.in_file(h.place) for h in xs) else stacked_carries(graph, (c, k), outputs, layout)
    carried = [
        alias_stacked_carry(layout, node, loop, h, outputs[joined[i]], joined[i])
        if i in joined
        else ScanCarry(h.place, h, replacement_of(h))
        for i, h in enumerate(outputs[:k])
    ]
    kept = [at for at in range(len(outputs)) if at not in joined.values()]
    ys = [
        replacement_of(xs[replaced[at] - c - k])
        if at in replaced
        else row_location(node.outputs[at], outputs[at], loop)
        for at in kept[k:]
    ]
    place_rows_in_files([h.place for h in (*xs, *ys)], layout)
    body = reordered(graph, range(len(graph.inputs)), kept)
    found = low.nested(body, [*fixed, *[c.before for c in carried], *xs], [*[c.after for c in carried], *ys])
    pairs = [copy_pair(Location(c.start, c.before.strides), i) for c, i in zip(carried, init, strict=True)]

    def steps(at: Assignment) -> tuple[Step, ...]:
        return (*copy_steps(at, pairs), ForLoop(loop, length, at.steps(found), reverse), *copy_steps(at, back))

    return [control_flow_task(low, node, steps, (found,), [place for _, place in back])]


def while_tasks(low: Materializer, node: Node) -> list[Task]:
    """A while loop."""
    (p, b), predicate, graph = node.params["constants"], node.params["predicate"], node.params["body"]
    init = [location_of(low, v) for v in node.inputs[p + b :]]
    carry, back = loop_results(low, node, p + b, len(node.outputs))
    asked = Allocation(1)
    given = [*[location_of(low, v) for v in node.inputs[:p]], *carry]
    test = low.nested(predicate, given, [row_major_location(predicate.outputs[0], asked)])
    after = [replacement_of(h) for h in carry]
    found = low.nested(graph, [*[location_of(low, v) for v in node.inputs[p : p + b]], *carry], after)
    pairs = [copy_pair(h, i) for h, i in zip(carry, init, strict=True)]

    def steps(at: Assignment) -> tuple[Step, ...]:
        repeated = WhileLoop(at.steps(test), at.address(asked), at.steps(found))
        return (*copy_steps(at, pairs), repeated, *copy_steps(at, back))

    return [control_flow_task(low, node, steps, (test, found), [asked, *[place for _, place in back]])]


def cond_tasks(low: Materializer, node: Node) -> list[Task]:
    """A switch between bodies, each of which writes the results."""
    index, *operands = node.inputs
    inputs = [location_of(low, v) for v in operands]
    outputs = [location_of(low, v) for v in node.outputs]
    found = [low.nested(graph, inputs, list(map(replacement_of, outputs))) for graph in node.params["branches"]]
    chosen = location_of(low, index).place

    def steps(at: Assignment) -> tuple[Step, ...]:
        return (Switch(at.address(chosen), tuple(map(at.steps, found))),)

    return [control_flow_task(low, node, steps, found)]


def control_flow_task(
    low: Materializer,
    node: Node,
    steps: Callable[[Assignment], tuple[Step, ...]],
    inner: Sequence[TaskGraph],
    scratch: Sequence[Allocation] = (),
) -> Task:
    """The task of a control flow node with its nested task graphs."""
    reads = tuple(dict.fromkeys([location_of(low, v).place for v in node.inputs if v.type.size]))
    writes = tuple([location_of(low, v).place for v in node.outputs if v.type.size])
    check = any(w.check for found in inner for w in found.tasks)
    arenas = [place for found in inner for place in (found.arena, found.file)]
    return Task(reads, writes, steps, scratch=(*arenas, *scratch), check=check, inner=tuple(inner))
