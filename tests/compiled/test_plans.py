"""The verifier of plans refuses plans that are wrong, and only those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from tests.compiled.training import training

from wholestep.errors import KernelError, PlanError
from wholestep.ir.build import build
from wholestep.ir.graph import OPS
from wholestep.ir.types import array_type
from wholestep.lower.lives import verify_works
from wholestep.lower.plan import Call, Check, Launch, Place, Plan, Ref, Repeat, Step
from wholestep.lower.program import plan
from wholestep.lower.target import Machine
from wholestep.lower.verify import verify_plan
from wholestep.lower.work import Work
from wholestep.passes.pipeline import ALL, optimized

MACHINE = Machine(vector=32, registers=16)
F32 = np.dtype(np.float32)


def chain() -> Plan:
    """exp(x @ w) @ w, with x resident: three kernels or fewer, and a value between them in the arena."""

    def run(x, w):
        h = OPS["exp"](OPS["contract"](x, w, spec="ij,jk->ik"))
        return [OPS["contract"](h, w, spec="ij,jk->ik")]

    graph, _ = build(run, [array_type((8, 8), F32), array_type((8, 8), F32)])
    return plan(graph, MACHINE, [(0, 0)])


def moved(step: Step, number: int, ref: Ref) -> Step:
    """A launch with one of its places elsewhere."""
    assert isinstance(step, Launch)
    return replace(step, refs=(*step.refs[:number], ref, *step.refs[number + 1 :]))


def written(step: Step) -> int:
    """The number of the buffer that a launch writes."""
    assert isinstance(step, Launch)
    return next(i for i, b in enumerate(step.kernel.buffers) if b.written)


def backwards(p: Plan) -> Plan:
    return replace(p, steps=tuple(reversed(p.steps)))


def first_left_out(p: Plan) -> Plan:
    return replace(p, steps=p.steps[1:])


def last_left_out(p: Plan) -> Plan:
    return replace(p, steps=p.steps[:-1], outputs=(len(p.slots) + 2,), slots=(*p.slots, p.slots[0]))


def small_arena(p: Plan) -> Plan:
    return replace(p, arena=p.arena - 64)


def large_arena(p: Plan) -> Plan:
    return replace(p, arena=p.arena + 64)


def outside_its_slot(p: Plan) -> Plan:
    return replace(p, steps=(moved(p.steps[0], 0, Ref(2, 4)), *p.steps[1:]))


def not_aligned(p: Plan) -> Plan:
    at = written(p.steps[0])
    return replace(p, arena=p.arena + 64, steps=(moved(p.steps[0], at, Ref(0, 2)), *p.steps[1:]))


def over_its_operand(p: Plan) -> Plan:
    return replace(p, steps=(moved(p.steps[0], written(p.steps[0]), Ref(2)), *p.steps[1:]))


def over_a_constant_input(p: Plan) -> Plan:
    return replace(p, steps=(*p.steps, Call("copy", (Ref(3), Ref(2)), (256,))))


def left_too_late(p: Plan) -> Plan:
    return replace(p, steps=(*p.steps, Check(1, Ref(0), 0)))


def a_loop_that_is_not_there(p: Plan) -> Plan:
    return replace(p, steps=(moved(p.steps[0], 0, Ref(2, 0, ((0, 4),))), *p.steps[1:]))


def a_loop_too_long(p: Plan) -> Plan:
    copy = Call("copy", (Ref(2, 0, ((0, 32),)), Ref(3)), (32,))
    return replace(p, steps=(*p.steps, Repeat(0, 9, (copy,))))


def a_place_missing(p: Plan) -> Plan:
    step = p.steps[0]
    assert isinstance(step, Launch)
    return replace(p, steps=(replace(step, refs=step.refs[:-1]), *p.steps[1:]))


FAULTS: list[Callable[[Plan], Plan]] = [
    backwards,
    first_left_out,
    last_left_out,
    small_arena,
    large_arena,
    outside_its_slot,
    not_aligned,
    over_its_operand,
    over_a_constant_input,
    left_too_late,
    a_loop_that_is_not_there,
    a_loop_too_long,
    a_place_missing,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_a_wrong_plan_is_refused(fault: Callable[[Plan], Plan]) -> None:
    right = chain()
    verify_plan(right)
    with pytest.raises(PlanError, match="verify:"):
        verify_plan(fault(right))


def test_a_wrong_kernel_is_refused() -> None:
    made = chain()
    kernel = made.kernels()[0]
    kernel.buffers[0].size -= 1
    with pytest.raises(KernelError):
        verify_plan(made)


@pytest.mark.parametrize("number", range(25))
def test_plans_of_training_steps_are_right(number: int) -> None:
    made = training((9, number), 12 + number)
    for resident in ([], made.resident):
        verify_plan(plan(optimized(made.graph, ALL), MACHINE, resident))


# Works in their order.


def laid(*offsets: int) -> tuple[Place, list[Place]]:
    """An arena with places of 64 bytes at these offsets."""
    arena = Place(256)
    places = [Place(64, base=arena) for _ in offsets]
    for place, offset in zip(places, offsets, strict=True):
        place.offset = offset
    return arena, places


def work(reads: list[Place], writes: list[Place], scratch: tuple[Place, ...] = (), check: bool = False) -> Work:
    return Work(tuple(reads), tuple(writes), tuple, scratch=scratch, check=check)


def test_values_that_are_alive_may_not_overlap() -> None:
    for offset, right in ((64, True), (0, False), (32, False)):
        arena, (a, b, c) = laid(0, offset, 128)
        works = [work([], [a]), work([], [b]), work([a, b], [c])]
        if right:
            verify_works(works, (arena,))
        else:
            with pytest.raises(PlanError, match="over bytes"):
                verify_works(works, (arena,))


def test_scratch_may_not_overlap_what_is_alive() -> None:
    arena, (a, b, c) = laid(0, 0, 64)
    with pytest.raises(PlanError, match="over bytes"):
        verify_works([work([], [a]), work([], [c], (b,)), work([a, c], [])], (arena,))


def test_a_routine_may_not_write_over_what_it_reads() -> None:
    arena, (a, b) = laid(0, 0)
    with pytest.raises(PlanError, match="over bytes"):
        verify_works([work([], [a]), work([a], [b])], (arena,))


def test_what_is_read_was_written() -> None:
    arena, (a, b) = laid(0, 64)
    with pytest.raises(PlanError, match="read before"):
        verify_works([work([a], [b]), work([], [a])], (arena,))


def test_what_is_resident_is_replaced_after_its_readers_and_checks() -> None:
    state = Place(64, Ref(2))
    new, (arena, (a,)) = Place(64, base=state), laid(0)
    verify_works([work([state], [a], check=True), work([], [new])], (arena,))
    with pytest.raises(PlanError, match="over bytes"):
        verify_works([work([], [new]), work([state], [a])], (arena,))
    with pytest.raises(PlanError, match="may be left"):
        verify_works([work([], [new]), work([], [a], check=True)], (arena,))
