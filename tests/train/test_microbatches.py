"""A batch taken a few rows at a time gives the mean over its rows, and takes less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import errors

RNG = np.random.default_rng(0)
PARAMS = {"w": RNG.normal(size=(8, 64)), "v": RNG.normal(size=(64,))}
BATCH = {"x": RNG.normal(size=(120, 8)), "y": RNG.normal(size=120), "scale": np.float64(0.5)}


def loss(params: Any, batch: Any) -> Any:
    return np.mean((np.tanh(batch["x"] @ params["w"]) @ params["v"] * batch["scale"] - batch["y"]) ** 2)


def made(**options: Any) -> Any:
    return ws.compile(loss, PARAMS, optimizer=ws.optim.adam(1e-2), batch=BATCH, **options)


def rows(batch: Any, n: int) -> Any:
    return {name: x[:n] if np.ndim(x) else x for name, x in batch.items()}


@pytest.mark.parametrize("size", [1, 25, 40, 120, 500])
def test_parts_are_averaged(size: int) -> None:
    whole, parts = made(), made(microbatch=size)
    for _ in range(3):
        assert parts(BATCH).loss == pytest.approx(whole(BATCH).loss, rel=1e-12)
    for name, x in whole.params.items():
        np.testing.assert_allclose(parts.params[name], x, rtol=1e-9)
    if size < 120:
        assert parts.memory.arena < whole.memory.arena


def test_a_loss_alone_and_many_steps_at_once() -> None:
    value = ws.compile(loss, PARAMS, batch=BATCH, microbatch=40)(BATCH).loss
    assert value == pytest.approx(float(loss(PARAMS, BATCH)), rel=1e-12)
    stacked = {name: np.stack([x] * 3) for name, x in BATCH.items()}
    several = ws.compile(loss, PARAMS, optimizer=ws.optim.adam(1e-2), batch=stacked, steps_per_call=3, microbatch=40)
    one = made(microbatch=40)
    assert several(stacked).losses.tolist() == [one(BATCH).loss for _ in range(3)]


def test_each_part_has_a_key_of_its_own() -> None:
    def noisy(params: Any, x: Any, *, key: Any) -> Any:
        return np.sum(params) * 0 + np.mean(x * 0 + ws.random.normal(key))

    step = ws.compile(noisy, np.zeros(1), optimizer=ws.optim.sgd(0.1), batch=np.ones(4), microbatch=1)
    drawn = step(np.ones(4)).loss
    key = step.state["counters"]["key"]
    base = ws.random.fold_in
    expected = [float(ws.random.normal(base(base(key, i), 0))) for i in range(4)]
    assert drawn == pytest.approx(np.mean(expected))


def test_a_budget_splits_only_where_it_may() -> None:
    need = made().memory
    budget = need.total - need.code - need.arena + need.arena // 2
    with pytest.raises(errors.BudgetError):
        made(memory_budget=budget)
    step = made(memory_budget=budget, microbatch="auto")
    assert step.memory.total - step.memory.code <= budget
    assert step(BATCH).loss == pytest.approx(made()(BATCH).loss, rel=1e-12)
    assert step.memory.arena > made(microbatch=30).memory.arena, "the fewest parts that do"
    with pytest.raises(errors.BudgetError, match="bytes are missing"):
        made(memory_budget=100, microbatch="auto")


@pytest.mark.parametrize(
    ("options", "error", "match"),
    [
        ({"microbatch": 0}, errors.ParameterError, "1 row or more"),
        ({"microbatch": 2.0}, errors.DtypeError, "not a number of rows"),
        ({"microbatch": 2, "captures": ["h"]}, errors.UnsupportedError, "neither has_aux nor captures"),
    ],
)
def test_what_is_refused(options: Any, error: Any, match: str) -> None:
    with pytest.raises(error, match=match):
        made(**options)


def test_rows_that_differ_are_named() -> None:
    with pytest.raises(errors.ShapeError, match=r"2 in batch\['x'\]|batch.*differ"):
        ws.compile(
            lambda p, b: np.mean(b["x"]) * p + np.mean(b["y"]),
            1.0,
            optimizer=ws.optim.sgd(0.1),
            batch={"x": np.ones(2), "y": np.ones(3)},
            microbatch=1,
        )
