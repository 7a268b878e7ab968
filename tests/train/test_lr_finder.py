"""The learning-rate finder: its suggestion, and a step that is unchanged afterwards."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import tree
from wholestep.errors import MissingExtraError, ParameterError, TreeError
from wholestep.train.data import datasets as extras
from wholestep.train.data.loader import Loader
from wholestep.train.loop.lr_finder import lr_find

RNG = np.random.default_rng(2)
X = RNG.normal(size=(40, 3))
ROWS = {"x": X, "y": X @ np.array([1.0, -2.0, 0.5])}
BATCH = tree.map(lambda x: x[:10], ROWS)


def loss(w, batch):
    return np.mean((batch["x"] @ w - batch["y"]) ** 2)


@pytest.fixture
def step():
    made = ws.compile(loss, np.zeros(3), optimizer=ws.optim.sgd(0.05, 0.5), batch=BATCH)
    made(BATCH)
    return made


def test_the_suggestion_is_below_where_descent_diverges(step):
    trial = lr_find(step, BATCH, 1e-4, 1e3, 120)
    curvature = np.linalg.eigvalsh(2 * BATCH["x"].T @ BATCH["x"] / 10).max()
    assert 1e-3 < trial.suggestion < 2 * (1 + 0.5) / curvature
    assert len(trial.losses) == len(trial.rates) < 120, "it ends where the loss flies apart"
    assert trial.losses[-1] > 4 * trial.losses.min()
    assert f"{trial.suggestion:.3g}" in repr(trial)


@pytest.mark.parametrize("data", [BATCH, [BATCH] * 3, Loader(ROWS, 10, key=1), Loader(ROWS, 15, key=1)])
def test_nothing_is_left_behind(step, data):
    state, hyper, position = step.state, step.hyper, data.state() if isinstance(data, Loader) else None
    lr_find(step, data, 1e-3, 1e3, 30)
    for a, b in zip(tree.leaves(step.state), tree.leaves(state), strict=True):
        np.testing.assert_array_equal(a, b)
    assert step.hyper == hyper
    if position is not None:
        assert data.state() == position


def test_nothing_is_left_behind_by_a_batch_that_fails(step):
    state = step.state
    with pytest.raises(TreeError):
        lr_find(step, [BATCH, {"x": X}], 1e-3, 1.0, 10)
    np.testing.assert_array_equal(step.params, state["params"])
    assert step.hyper["lr"] == 0.05


def test_the_plot_is_a_png(step, tmp_path, monkeypatch):
    trial = lr_find(step, BATCH, 1e-4, 1e2, 40)
    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match="matplotlib is not installed"):
        trial.plot(tmp_path / "rates.png")
    monkeypatch.undo()
    pytest.importorskip("matplotlib", reason="it draws the plot; not installed")
    trial.plot(tmp_path / "rates.png")
    assert (tmp_path / "rates.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


def test_what_cannot_be_tried_is_refused(step):
    for arguments, message in (
        ((BATCH, 0.0, 1.0), "lr_find: the rates go from 0.0 to 1.0"),
        ((BATCH, 1.0, 0.1), "lr_find: the rates go from 1.0 to 0.1"),
        ((BATCH, 0.1, 1.0, 1), "lr_find: one step says nothing"),
        (([], 0.1, 1.0), "lr_find: there was no batch"),
    ):
        with pytest.raises(ParameterError, match=f"^{message}"):
            lr_find(step, *arguments)
    with pytest.raises(TreeError, match=r"^lr_find: data is a float"):
        lr_find(step, 1.0)
    with pytest.raises(TreeError, match=r"^step: batch has another structure: batch.z unexpected"):
        lr_find(step, {**BATCH, "z": X})
    with pytest.raises(ParameterError, match=r"^lr_find: the loss never fell"):
        _ = lr_find(step, BATCH, 1e2, 1e3).suggestion
    step.replace(optimizer=ws.optim.sgd(ws.optim.cosine(0.1, 10)))
    with pytest.raises(ParameterError, match=r"^step\.set: lr is a schedule"):
        lr_find(step, BATCH)
