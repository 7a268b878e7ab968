"""Conditions of launches on a card of NVIDIA's: checks that fail and steps that are skipped need no host in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep.compiler.backends import BACKENDS
from wholestep.errors import BoundsError
from wholestep.lower.program.steps import MemRef, RoutineCall
from wholestep.runtime.gpu import executable
from wholestep.runtime.gpu.conditions import case_conditions, copies_may_overlap
from wholestep.runtime.gpu.cuda import CudaDriver
from wholestep_tools.drawn import cuda_cpp
from wholestep_tools.drawn.cuda_card import card_without_one

pytestmark = pytest.mark.skipif(cuda_cpp.COMPILER is None, reason="kernels are compiled by g++ on Linux; not installed")

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(5, 3)).astype("f")
STEPS = 4


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Iterator[CudaDriver]:
    found = card_without_one()
    monkeypatch.setitem(BACKENDS, "cuda", lambda: found)
    assert isinstance(found.driver, CudaDriver)
    yield found.driver


def loss(table: Any, batch: Any) -> Any:
    return np.mean(table[batch["at"]] ** 2 * batch["scale"])


def batches(at: Any = 2, scale: Any = 1.0) -> dict[str, Any]:
    """Batches of several steps."""
    return {
        "at": np.broadcast_to(np.asarray(at), (6, STEPS)).T.astype(np.int64).copy(),
        "scale": np.broadcast_to(np.float32(scale), (STEPS,)).copy(),
    }


def compiled(device: str, **words: Any) -> Any:
    optimizer = ws.optim.adam(0.1)
    return ws.compile(loss, TABLE, optimizer=optimizer, batch=batches(), steps_per_call=STEPS, device=device, **words)


def test_an_index_out_of_bounds_in_any_step_leaves_the_state_as_it_was(card: CudaDriver) -> None:
    step, plain = compiled("cuda"), compiled("cpu")
    for bad in (5, -6, 1 << 40):
        for at in range(STEPS):
            given = batches()
            given["at"][at, 3] = bad
            with pytest.raises(BoundsError) as error:
                step(given)
            with pytest.raises(BoundsError) as expected:
                plain(given)
            assert str(error.value).splitlines()[0] == str(expected.value).splitlines()[0]
            np.testing.assert_array_equal(step.params, plain.params)
        np.testing.assert_allclose(step(batches()).losses, plain(batches()).losses, rtol=1e-6)
        np.testing.assert_allclose(step.params, plain.params, rtol=1e-6)
        plain.set(params=step.params)


def test_a_step_that_is_not_finite_is_skipped_without_the_host(card: CudaDriver) -> None:
    step, plain = compiled("cuda"), compiled("cpu")
    given = batches(scale=1.0)
    given["scale"][1] = np.inf
    for _ in range(3):
        found, expected = step(given), plain(given)
        np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-6)
    np.testing.assert_allclose(step.params, plain.params, rtol=1e-6)
    reads = [name for name, *_ in card.calls.log if name == "cuMemcpyDtoHAsync"]  # type: ignore[attr-defined]
    card.calls.log.clear()
    step(given)
    names = card.calls.names()
    assert names.count("cuGraphLaunch") == 2, "the state is kept, and all steps are one graph"
    assert "cuLaunchKernel" not in names and len(reads) > 0


def test_a_call_is_stopped_between_graphs_of_trips(card: CudaDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one launch in each recorded graph, a call may end between graphs, and finishes the work of each."""
    monkeypatch.setattr(executable, "RECORDED", 1)
    step, plain = compiled("cuda"), compiled("cpu")
    for _ in range(3):
        np.testing.assert_allclose(step(batches()).losses, plain(batches()).losses, rtol=1e-6)
    np.testing.assert_allclose(step.params, plain.params, rtol=1e-6)


@pytest.mark.parametrize("cases", [1, 2, 3, 5])
def test_the_nearest_case_alone_runs(cases: int) -> None:
    tests = list(case_conditions(MemRef(0, 0), cases))
    assert len(tests) == cases
    for number in (-(1 << 40), -1, *range(cases + 2), 1 << 40):
        run = [not any(eval(f"{number} {condition.unless}") for condition in each) for each in tests]
        assert run == [case == min(max(number, 0), cases - 1) for case in range(cases)]


def test_copies_whose_places_may_overlap_are_left_to_the_host() -> None:
    def copy(target: MemRef, source: MemRef) -> RoutineCall:
        return RoutineCall("copy", (target, source), (16,))

    assert copies_may_overlap(copy(MemRef(0, 8), MemRef(0, 0)))
    assert not copies_may_overlap(copy(MemRef(0, 16), MemRef(0, 0)))
    assert not copies_may_overlap(copy(MemRef(1, 8), MemRef(0, 0)))
    assert copies_may_overlap(copy(MemRef(0, 16, ((1, 4),)), MemRef(0, 0)))
