"""A whole program planned: slots for its inputs and outputs, and the steps between them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from wholestep.dims import most
from wholestep.errors import BudgetError
from wholestep.ir.graph import Graph
from wholestep.ir.types import array_type
from wholestep.lower.ahead import ahead
from wholestep.lower.budget.amount import Amount
from wholestep.lower.budget.fit import Fitting
from wholestep.lower.cost import DEFAULT, Rates, microseconds
from wholestep.lower.lowering import lowered
from wholestep.lower.plan import FIRST, Launch, Place, Plan, Ref, Repeat, Slot, Step, every_step
from wholestep.lower.schedule import worth_sharing
from wholestep.lower.streaming import passed_through
from wholestep.lower.symbolic import check
from wholestep.lower.target import Machine
from wholestep.lower.timeline import timeline
from wholestep.lower.work import ARENA, Context, Work, home_of


def plan(
    graph: Graph,
    machine: Machine,
    resident: Sequence[tuple[int, int]] = (),
    budget: Amount | None = None,
    streamed: Collection[int] = (),
) -> Plan:
    """The plan of a graph; `resident` pairs inputs with the outputs that are written over them.

    The inputs in `streamed` lie in files, and are passed through a few rows at a time; then all sizes are numbers.
    Raises BudgetError where it cannot be made to take as little memory as `budget` says, and UnsupportedError where
    symbolic sizes stand in the way of one plan for all of them.
    """
    check(graph)
    context = Context(machine)
    replaced = {o: i for i, o in resident}
    names = graph.input_names or [""] * len(graph.inputs)
    slots = [Slot("input", v.type, name) for v, name in zip(graph.inputs, names, strict=True)]
    inputs = [home_of(v, Place(v.type.nbytes, Ref(FIRST + i), file=i in streamed)) for i, v in enumerate(graph.inputs)]
    outputs, out_slots = [], []
    for o, v in enumerate(graph.outputs):
        if o in replaced:
            place = Place(v.type.nbytes, base=inputs[replaced[o]].place)
            out_slots.append(FIRST + replaced[o])
        else:
            out_slots.append(FIRST + len(slots))
            slots.append(Slot("output", v.type))
            place = Place(v.type.nbytes, Ref(out_slots[-1]))
        outputs.append(home_of(v, place))
    arena = Place(0, Ref(ARENA))
    found = lowered(graph, context, inputs, outputs, arena)
    found.file.ref = Ref(FIRST + len(slots))
    rates, disk = (budget.rates, budget.disk) if budget is not None else (DEFAULT, None)
    fitting = Fitting(partial(price, rates=rates), context.pinned, disk)
    free = fitting.fit(found)
    if budget is not None:
        kept = [s.type.nbytes for i, s in enumerate(slots) if i not in streamed]
        fixed = sum(kept) + context.constant_bytes
        if fitting.within(found, budget.arena(fixed, free)) > budget.arena(fixed, free):
            spilled = not budget.spill and fits(graph, machine, resident, budget.spilling(), streamed)
            raise budget.refused(graph.name, fixed, free, found.arena.nbytes, spilled)
    files = frozenset([FIRST + i for i in streamed])
    if found.file.nbytes:
        files |= {FIRST + len(slots)}
        slots.append(Slot("file", array_type((found.file.nbytes,), np.dtype(np.uint8))))
    constants = [(array, place) for array, place in context.constants.values()]
    return Plan(
        graph.name,
        tuple(slots),
        passed_through(ahead(stoppable(found.steps()), rates), files, context),
        tuple(range(FIRST, FIRST + len(graph.inputs))),
        tuple(out_slots),
        tuple([array for array, _ in constants]),
        tuple([most(place.address().offset) for _, place in constants]),
        found.arena.size,
        found.bound,
        tuple(context.sites),
        tuple(timeline(found)),
        tuple(fitting.decisions),
        found.file.nbytes,
    )


def fits(
    graph: Graph,
    machine: Machine,
    resident: Sequence[tuple[int, int]],
    budget: Amount,
    streamed: Collection[int],
) -> bool:
    """Whether there is a plan within a budget."""
    try:
        plan(graph, machine, resident, budget, streamed)
    except BudgetError:
        return False
    return True


def price(work: Work, rates: Rates) -> float:
    """About how many microseconds one run of a kernel takes; nothing else is ever run again."""
    if work.written is None:
        return math.inf
    kernel = work.written.kernel
    return microseconds(Launch(kernel, (), worth_sharing(kernel)), rates)


def stoppable(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps with the longest of the outermost loops marked as the one that may be left between trips."""
    loops = [s for s in steps if isinstance(s, Repeat)]
    if not loops:
        return steps
    longest = max(loops, key=lambda s: len(list(every_step(s.body))) * s.trips)
    return tuple([replace(s, outermost=True) if s is longest else s for s in steps])
