"""Random losses of layers within memory budgets keep every bit for any number of steps in a call, and take no byte
beyond the budget. `wholestep audit memory` does the same with many more, in watched memory, on several threads."""

from __future__ import annotations

import re

import numpy as np
import pytest

import wholestep as ws
from wholestep import tree
from wholestep.errors import BudgetError
from wholestep_tools.audit.trainings.jobs import sha256
from wholestep_tools.audit.trainings.programs import offered, training, within

SHARES = (0.45, 0.65, 0.85)


@pytest.mark.parametrize("i", range(4))
def test_many_steps_within_a_budget_are_single_steps_without(i: int) -> None:
    seeds = [k for k in range(40) if training(41, k).steps == 3]
    made = training(41, seeds[i])
    step, _ = within(made.step, f"{100 * SHARES[i % 3]:g}%")
    losses = np.concatenate([step(made.batch).losses for _ in range(2)])
    first = {name: x[0] for name, x in made.batch.items()}
    single = ws.compile(made.loss, made.params, optimizer=made.optimizer, batch=first)
    alone = [single({name: x[k] for name, x in made.batch.items()}).loss for _ in range(2) for k in range(3)]
    assert losses.tobytes() == np.array(alone).tobytes()
    assert sha256(step.state) == sha256(single.state)


@pytest.mark.parametrize("i", range(4))
def test_a_budget_in_bytes_is_kept_by_all_that_is_told(i: int) -> None:
    made = training(43, i)
    free = made.step().memory
    asked = free.total - free.code - free.arena + int(SHARES[i % 3] * free.arena)
    step, allowed = within(made.step, asked)
    assert asked <= allowed < free.total
    found = step.memory
    assert found.total - found.code <= allowed
    assert found.arena == made.estimate(memory_budget=allowed).arena
    assert (found.state, found.kept, found.inputs) == (free.state, free.kept, free.inputs)


def test_a_refusal_says_by_how_much_and_what_works() -> None:
    made = training(0, 1)
    free = made.step().memory
    with pytest.raises(BudgetError, match="bytes are missing") as caught:
        made.step(memory_budget=free.state)
    short = int(re.search(r"([\d,]+) bytes are missing", str(caught.value))[1].replace(",", ""))
    works = offered(str(caught.value))
    assert works == free.state + short
    fitted = made.step(memory_budget=works)
    assert fitted.memory.total - fitted.memory.code <= works
    with pytest.raises(BudgetError):
        made.estimate(memory_budget=free.state)


def test_the_same_choice_is_made_each_time() -> None:
    made = training(0, 20)
    plans = {str(within(made.step, "60%")[0].plan) for _ in range(2)}
    assert len(plans) == 1
    assert len(tree.leaves(made.params)) > 4
