"""The audit of memory finds nothing wrong, and a program that does not keep to its memory is found."""

from __future__ import annotations

import secrets
from dataclasses import replace

import numpy as np
import pytest

import wholestep as ws
from wholestep.compiler import driver as runtime
from wholestep.lower import compile
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import Launch
from wholestep.testing import guarded
from wholestep_tools.audit.endurance import memory, peaks, watched
from wholestep_tools.audit.resumption import bits
from wholestep_tools.drawn.law import compiled
from wholestep_tools.drawn.training import training


def test_programs_keep_to_the_memory_that_was_planned() -> None:
    found = memory.audit(("W4",), ())(2, 1)
    assert found["failures"] == 0, found["examples"]
    # The first of the two programs runs with both numbers of threads.
    assert found["checks"]["programs run in guarded memory"] == 7
    assert found["checks"]["of them within a budget"] == 3
    assert found["checks"]["programs without a budget that touch the last 64 bytes of their arena"] == 4


@pytest.mark.skipif(not peaks.CAN, reason="only Linux says what a process takes from some moment on")
def test_a_process_takes_what_was_reported() -> None:
    seen = memory.process("wide perceptron", "off")
    assert seen["arena and state"] > 300 and not memory.off(seen), seen


@pytest.mark.parametrize("i", range(5))
def test_a_random_step_keeps_to_its_memory(i: int) -> None:
    made = training((31, i), 12 + 3 * i)
    guarded.check_guarded(compiled(made.graph, made.resident).executable, made.args)


def test_a_deep_model_keeps_to_its_memory() -> None:
    found = watched.seen(*watched.deep(4, 16))
    assert found["problems"] == [] and found["exact"] and found["arena"] > 1 << 18


def loss(w, x):
    h = np.tanh(x @ w)
    return np.mean(np.sin(h @ w.T) ** 2)


def step():
    return ws.compile(loss, np.ones((6, 9)), optimizer=ws.optim.adam(0.1), batch=np.ones((5, 6)))


def planted(monkeypatch, change) -> list[str]:
    """The problems reported for a step whose plan is changed before code generation."""

    def changed(*args, **more):
        return change(compile.lower_program(*args, **more))

    monkeypatch.setenv("WHOLESTEP_CACHE", "off")
    monkeypatch.setattr(runtime, "lower_program", changed)
    monkeypatch.setattr(runtime, "cached_code", lambda text, backend, flags, make: make())
    made = step()
    return guarded.guarded_report(*guarded.of_step(made, np.ones((5, 6)))).problems


def moved(plan: LoweredProgram, by: int, at: int) -> LoweredProgram:
    """A plan in which one operand in the arena, read or written by a kernel, is moved by some bytes."""
    steps, seen = list(plan.steps), 0
    for k, s in enumerate(steps):
        if isinstance(s, Launch):
            for j, ref in enumerate(s.refs):
                if ref.slot == 0:
                    seen += 1
                    if seen == at:
                        refs = (*s.refs[:j], ref.shifted(by), *s.refs[j + 1 :])
                        steps[k] = replace(s, refs=refs)
    return replace(plan, steps=tuple(steps))


def test_a_plan_as_it_is_has_nothing_wrong(monkeypatch) -> None:
    assert planted(monkeypatch, lambda plan: plan) == []


def test_a_write_before_the_arena_is_found(monkeypatch) -> None:
    assert "around uint8" in " ".join(planted(monkeypatch, lambda plan: moved(plan, -plan.arena, 1)))


def test_a_value_that_nobody_wrote_is_found(monkeypatch) -> None:
    assert planted(monkeypatch, lambda plan: moved(replace(plan, arena=2 * plan.arena), plan.arena, 2))


def test_every_way_to_train_ends_in_the_same_bits(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = bits.audit(4, int(secrets.randbits(32)))
    assert found["failures"] == 0, found["examples"]
    assert found["checks"]["ways to train them, each with the same bits"] == 3 * 18 + 54
    assert found["checks"]["of the trainings those of a stack"] == 1


def test_a_way_with_other_bits_is_noticed(tmp_path) -> None:
    case = bits.drawn(tmp_path, 0, 0)
    wrong = bits.Case(case.modes, lambda first, calls: case.batch(first + (calls == 10), calls))
    assert any("10 steps a call" in line for line in bits.others(bits.seen(wrong).ends))
