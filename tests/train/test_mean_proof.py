"""A loss that is proved to be a mean over rows is one, and the usual losses and models are proved to be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.train.test_microbatches import GIVEN, LOSSES, MIXING, START, parted

import wholestep as ws
from wholestep import nn, tree
from wholestep.errors import WholestepError
from wholestep.frontend.shapes import ShapeDtype
from wholestep.frontend.tracing import trace_flat, type_of
from wholestep.train.program import microbatch_means
from wholestep.train.program.mean_proof import ROWS, is_mean

Function = Callable[..., Any]


def proved(f: Function, params: Any, batch: Any) -> bool:
    """True if f(params, batch), whose arrays have rows along their first axes, is proved to be a mean over rows."""
    some = tree.map(lambda x: ShapeDtype((ROWS, *x.shape[1:]), x.dtype), batch)
    leaves, structure = tree.flatten((params, some))
    types = [x.type if isinstance(x, ShapeDtype) else type_of(x) for x in leaves]
    return is_mean(
        trace_flat(
            lambda *arrays: f(*tree.unflatten(structure, arrays)), types, [False] * len(types), reason="jit"
        ).graph
    )


@pytest.mark.parametrize("name", sorted(LOSSES.keys() - {"ctc_loss"}))  # it asks for a number of rows
def test_usual_losses_are_proved(name: str) -> None:
    assert proved(LOSSES[name], START, GIVEN)
    assert not proved(lambda p, b: LOSSES[name](p, b, reduction="sum"), START, GIVEN)


@pytest.mark.parametrize("name", sorted(MIXING.keys() - {"contrast"}))
def test_what_mixes_rows_is_not_proved(name: str) -> None:
    assert not proved(MIXING[name], START, GIVEN)


def test_what_is_proved_is_not_tried(monkeypatch: Any) -> None:
    monkeypatch.setattr(microbatch_means, "compare_halves", lambda *options: pytest.fail("tried"))
    parted(LOSSES["cross_entropy"])
    parted(lambda p, b, *, key: nn.mse(nn.dropout(b["x"], 0.5, key) @ p["w"], b["y"]))


RNG = np.random.default_rng(0)
IMAGES, TEXTS = RNG.normal(size=(6, 2, 8, 8)).astype("f"), RNG.integers(0, 9, (6, 5))
LETTERS = nn.Embedding(9, 8, key=0)
POOLED = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, stride=2, key=0), nn.relu, nn.MaxPool2d(2), nn.Flatten())
MODELS: dict[str, Any] = {
    "convolutions": (nn.Sequential(POOLED, nn.Linear(16, 3, key=1)), IMAGES),
    "group norm": (nn.Sequential(nn.GroupNorm(2, 2), nn.Conv2d(2, 3, 3, key=0)), IMAGES),
    "attention": (nn.Sequential(LETTERS, nn.TransformerBlock(8, 2, key=1, causal=True, rope=100.0)), TEXTS),
    "recurrent": (nn.Sequential(LETTERS, nn.LSTM(8, 4, key=1), lambda made: made[0]), TEXTS),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_are_proved(name: str) -> None:
    model, batch = MODELS[name]
    assert proved(lambda m, x: np.mean(m(x) ** 2), model, batch)


X, Y, W = RNG.normal(size=(6, 3, 4)), RNG.integers(-3, 3, 6), RNG.normal(size=(4, 4))
BY_ROW: list[Function] = [
    lambda x, y: np.tanh(x),
    lambda x, y: x * np.reshape(x.sum(axis=-1), (x.shape[0], -1, 1)).mean(axis=1, keepdims=True) if x.ndim == 3 else x,
    lambda x, y: x @ W[: x.shape[-1], : x.shape[-1]],
    lambda x, y: np.cumsum(x, axis=-1),
    lambda x, y: np.sort(x, axis=-1),
    lambda x, y: x[..., ::-1],
    lambda x, y: np.concatenate([x, 2 * x], axis=-1)[..., 1:-1],
    lambda x, y: np.reshape(x, (x.shape[0], -1)),
    lambda x, y: np.reshape(x, (x.shape[0] * 2, -1)) if x.ndim == 2 and x.shape[-1] % 2 == 0 else x,
    lambda x, y: x + ws.numpy.take(W[0], y).reshape((-1,) + (1,) * (x.ndim - 1)) if x.shape[:1] == y.shape else x,
    lambda x, y: ws.scan(lambda c, row: (c + row, c * row), 0.1 * x[:, 0], np.swapaxes(x, 0, 1))[0],
    lambda x, y: np.where(x > 0, x, 0.1),
    lambda x, y: np.swapaxes(np.swapaxes(x, 0, -1) * 2.0, 0, -1),
    lambda x, y: np.einsum("ri,ri->r", x, x)[:, None] if x.ndim == 2 else x,
    lambda x, y: x[ws.numpy.arange(x.shape[0]), ..., np.abs(y)[:, None] % 2] if x.shape[:1] == y.shape else x,
]
BETWEEN_ROWS: list[Function] = [
    lambda x, y: np.cumsum(x, axis=0),
    lambda x, y: np.sort(x, axis=0),
    lambda x, y: x[::-1] + np.sin(x),
    lambda x, y: np.concatenate([x[1:], x[:1]], axis=0) + np.sin(x),
    lambda x, y: x - x.mean(axis=0),
    lambda x, y: x * np.max(x),
    lambda x, y: np.cumsum(np.reshape(x, (-1, x.shape[0])), axis=0),
    lambda x, y: x * np.reshape(ws.numpy.arange(x.shape[0]), (-1,) + (1,) * (x.ndim - 1)),
    lambda x, y: x / x.shape[0],
    lambda x, y: x[np.argsort(x.sum(axis=tuple(range(1, x.ndim))))] ** 2 if x.ndim > 1 else x,
    lambda x, y: np.einsum("ri,si->rs", x, x) + 1 if x.ndim == 2 else x,
    lambda x, y: np.swapaxes(x, 0, -1),
    lambda x, y: x * y.sum(),
]
ENDS: list[Function] = [
    np.mean,
    np.mean,
    lambda x: x.mean(axis=0).sum() + 3.0,
    lambda x: 2 * np.sum(x) / x.shape[0] - np.mean(x) / 7,
    lambda x: np.sum(np.tensordot(x, x, axes=((0,), (0,)))) / x.shape[0],
    lambda x: np.stack([x, -x]).max(axis=0).mean(),
    np.sum,
    np.max,
    lambda x: np.sum(x) / 6,
    lambda x: np.sum(x) / x.shape[0] ** 2,
    lambda x: np.mean(x) ** 2,
    lambda x: np.mean(x) * np.mean(x * x),
    lambda x: np.sum(x) + np.sin(1.0) * np.mean(x) / x.shape[0],
    lambda x: np.sum(x) / (x.shape[0] + 1),
    lambda x: np.sum(x) / ((x.shape[0] + 1) // 2),
    lambda x: np.sum(x) / np.sum(x * x),
    lambda x: np.mean(np.sin(x - np.mean(x))),
]


def program(seed: int) -> Function:
    """A random program of a batch (x, y), most of whose steps keep rows independent."""
    rng = np.random.default_rng(seed)
    kinds = [BY_ROW, BY_ROW, BY_ROW, BY_ROW, BETWEEN_ROWS]
    steps = [rng.choice(np.array(kinds[rng.integers(5)], object)) for _ in range(rng.integers(4))]
    end = ENDS[rng.integers(len(ENDS))]

    def made(params: Any, batch: Any) -> Any:
        x, y = batch
        for step in steps:
            x = step(x, y)
        return end(x)

    return made


def test_what_is_proved_of_random_programs_is_so() -> None:
    found = 0
    for seed in range(400):
        f = program(seed)
        try:
            if not proved(f, 1.0, (X, Y)):
                continue
        except (WholestepError, ValueError, TypeError, IndexError):
            continue
        found += 1
        whole = f(1.0, (X, Y))
        for n in (1, 2, 3):
            apart = np.mean([f(1.0, (X[i : i + n], Y[i : i + n])) for i in range(0, 6, n)])
            assert apart == pytest.approx(whole, rel=1e-9), (seed, n)
    assert found > 80
