"""Stacks of small matrices, whose parts threads share: the results, and the errors, of one matrix after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.backends.cpu.compiler import machine_model
from wholestep.backends.cpu.cpu_features import named_target
from wholestep.lower.compile import lower_program
from wholestep.lower.legalize.small_matrices import LARGEST_UNROLLED
from wholestep.lower.program.steps import RoutineCall, walk_steps

MACHINE = machine_model(named_target("x86-64-v3"))
COUNT = 101


@pytest.fixture(params=[LARGEST_UNROLLED, LARGEST_UNROLLED + 1])
def stack(request: pytest.FixtureRequest) -> Any:
    n = request.param
    a = np.random.default_rng(0).normal(size=(COUNT, n, n))
    return a @ a.mT + np.eye(n)


@pytest.mark.parametrize("shape, shared", [((COUNT, 6, 6), True), ((4, 6, 6), False), ((2, 200, 200), False)])
def test_threads_share_stacks_of_small_matrices_that_are_worth_it(shape: tuple[int, ...], shared: bool) -> None:
    program = lower_program(ws.trace(lambda a: np.linalg.eigh(a)[1])(np.ones(shape)), MACHINE)
    calls = [s for s in walk_steps(program.steps) if isinstance(s, RoutineCall) and s.routine.startswith("lapack")]
    assert [call.parallel for call in calls] == [shared]


@pytest.mark.parametrize(
    "function",
    [np.linalg.inv, np.linalg.cholesky, lambda a: np.linalg.eigh(a)[1], lambda a: np.linalg.svd(a)[0]],
    ids=["inv", "cholesky", "eigh", "svd"],
)
def test_a_matrix_of_a_stack_has_the_bits_that_it_has_alone(function: Callable[[Any], Any], stack: Any) -> None:
    whole, alone = ws.jit(function)(stack), ws.jit(function)
    for i in (0, 6, 7, 50, COUNT - 1):
        np.testing.assert_array_equal(whole[i], alone(stack[i]))


@pytest.mark.parametrize("at", [0, 40, COUNT - 1])
def test_a_matrix_that_fails_is_an_error_in_every_part(at: int, stack: Any) -> None:
    stack[at] = -1.0
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        ws.jit(np.linalg.cholesky)(stack)
    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        ws.jit(np.linalg.inv)(stack)
