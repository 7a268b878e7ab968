"""The verifier of plans refuses plans that are wrong, and only those."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from wholestep.backends.cpu.target.machine import CpuMachine
from wholestep.errors import KernelError, PlanError
from wholestep.ir.build import build
from wholestep.ir.graph import OPS
from wholestep.ir.types import array_type
from wholestep.lower.buffers.tasks import Task
from wholestep.lower.buffers.verify_assignment import verify_assignment
from wholestep.lower.compile import lower_program
from wholestep.lower.program.allocation import Allocation
from wholestep.lower.program.memory_layout import MemoryLayoutBuilder
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import ForLoop, Launch, MemRef, RoutineCall, StatusCheck, Step
from wholestep.lower.verify_program import verify_program
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep_tools.drawn.training import training

MACHINE = CpuMachine(vector=32, registers=16)
F32 = np.dtype(np.float32)


def chain() -> LoweredProgram:
    """exp(x @ w) @ w, with x resident: three kernels or fewer, and a value between them in the arena."""

    def run(x, w):
        h = OPS["exp"](OPS["contract"](x, w, spec="ij,jk->ik"))
        return [OPS["contract"](h, w, spec="ij,jk->ik")]

    graph, _ = build(run, [array_type((8, 8), F32), array_type((8, 8), F32)])
    return lower_program(graph, MACHINE, [(0, 0)])


def moved(step: Step, number: int, ref: MemRef) -> Step:
    """A launch with one of its operands at another address."""
    assert isinstance(step, Launch)
    return replace(step, refs=(*step.refs[:number], ref, *step.refs[number + 1 :]))


def written(step: Step) -> int:
    """The number of the buffer that a launch writes."""
    assert isinstance(step, Launch)
    return next(i for i, b in enumerate(step.kernel.buffers) if b.written)


def backwards(p: LoweredProgram) -> LoweredProgram:
    return replace(p, steps=tuple(reversed(p.steps)))


def first_left_out(p: LoweredProgram) -> LoweredProgram:
    return replace(p, steps=p.steps[1:])


def last_left_out(p: LoweredProgram) -> LoweredProgram:
    return replace(p, steps=p.steps[:-1], outputs=(len(p.slots) + 2,), slots=(*p.slots, p.slots[0]))


def small_arena(p: LoweredProgram) -> LoweredProgram:
    return replace(p, arena=p.arena - 64)


def large_arena(p: LoweredProgram) -> LoweredProgram:
    return replace(p, arena=p.arena + 64)


def outside_its_slot(p: LoweredProgram) -> LoweredProgram:
    return replace(p, steps=(moved(p.steps[0], 0, MemRef(2, 4)), *p.steps[1:]))


def not_aligned(p: LoweredProgram) -> LoweredProgram:
    at = written(p.steps[0])
    return replace(p, arena=p.arena + 64, steps=(moved(p.steps[0], at, MemRef(0, 2)), *p.steps[1:]))


def over_its_operand(p: LoweredProgram) -> LoweredProgram:
    return replace(p, steps=(moved(p.steps[0], written(p.steps[0]), MemRef(2)), *p.steps[1:]))


def over_a_constant_input(p: LoweredProgram) -> LoweredProgram:
    return replace(p, steps=(*p.steps, RoutineCall("copy", (MemRef(3), MemRef(2)), (256,))))


def left_too_late(p: LoweredProgram) -> LoweredProgram:
    return replace(p, steps=(*p.steps, StatusCheck(1, MemRef(0), 0)))


def a_loop_that_is_not_there(p: LoweredProgram) -> LoweredProgram:
    return replace(p, steps=(moved(p.steps[0], 0, MemRef(2, 0, ((0, 4),))), *p.steps[1:]))


def a_loop_too_long(p: LoweredProgram) -> LoweredProgram:
    copy = RoutineCall("copy", (MemRef(2, 0, ((0, 32),)), MemRef(3)), (32,))
    return replace(p, steps=(*p.steps, ForLoop(0, 9, (copy,))))


def a_place_missing(p: LoweredProgram) -> LoweredProgram:
    step = p.steps[0]
    assert isinstance(step, Launch)
    return replace(p, steps=(replace(step, refs=step.refs[:-1]), *p.steps[1:]))


FAULTS: list[Callable[[LoweredProgram], LoweredProgram]] = [
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
def test_a_wrong_plan_is_refused(fault: Callable[[LoweredProgram], LoweredProgram]) -> None:
    right = chain()
    verify_program(right)
    with pytest.raises(PlanError, match="verify:"):
        verify_program(fault(right))


def test_a_wrong_kernel_is_refused() -> None:
    made = chain()
    kernel = made.kernels()[0]
    kernel.buffers[0].size -= 1
    with pytest.raises(KernelError):
        verify_program(made)


@pytest.mark.parametrize("number", range(25))
def test_plans_of_training_steps_are_right(number: int) -> None:
    made = training((9, number), 12 + number)
    for resident in ([], made.resident):
        verify_program(lower_program(run_passes(made.graph, ALL_PASSES), MACHINE, resident))


# Works in their order.


def laid(*offsets: int) -> tuple[Allocation, list[Allocation]]:
    """An arena with places of 64 bytes at these offsets."""
    arena = Allocation(256)
    return arena, [Allocation(64, base=arena, offset=offset) for offset in offsets]


AS_MADE = MemoryLayoutBuilder().finish()
"""A layout in which no place is moved."""


def work(
    reads: list[Allocation], writes: list[Allocation], scratch: tuple[Allocation, ...] = (), check: bool = False
) -> Task:
    return Task(tuple(reads), tuple(writes), tuple, scratch=scratch, check=check)


def test_values_that_are_alive_may_not_overlap() -> None:
    for offset, right in ((64, True), (0, False), (32, False)):
        arena, (a, b, c) = laid(0, offset, 128)
        works = [work([], [a]), work([], [b]), work([a, b], [c])]
        if right:
            verify_assignment(works, AS_MADE, (arena,))
        else:
            with pytest.raises(PlanError, match="over bytes"):
                verify_assignment(works, AS_MADE, (arena,))


def test_scratch_may_not_overlap_what_is_alive() -> None:
    arena, (a, b, c) = laid(0, 0, 64)
    with pytest.raises(PlanError, match="over bytes"):
        verify_assignment([work([], [a]), work([], [c], (b,)), work([a, c], [])], AS_MADE, (arena,))


def test_a_routine_may_not_write_over_what_it_reads() -> None:
    arena, (a, b) = laid(0, 0)
    with pytest.raises(PlanError, match="over bytes"):
        verify_assignment([work([], [a]), work([a], [b])], AS_MADE, (arena,))


def test_what_is_read_was_written() -> None:
    arena, (a, b) = laid(0, 64)
    with pytest.raises(PlanError, match="read before"):
        verify_assignment([work([a], [b]), work([], [a])], AS_MADE, (arena,))


def test_what_is_resident_is_replaced_after_its_readers_and_checks() -> None:
    state = Allocation(64, MemRef(2))
    new, (arena, (a,)) = Allocation(64, base=state), laid(0)
    verify_assignment([work([state], [a], check=True), work([], [new])], AS_MADE, (arena,))
    with pytest.raises(PlanError, match="over bytes"):
        verify_assignment([work([], [new]), work([state], [a])], AS_MADE, (arena,))
    with pytest.raises(PlanError, match="may be left"):
        verify_assignment([work([], [new]), work([], [a], check=True)], AS_MADE, (arena,))
