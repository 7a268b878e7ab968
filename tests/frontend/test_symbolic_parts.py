"""Parts and paddings of arrays with symbolic sizes: one program for all sizes, beside NumPy at each."""

import numpy as np
import pytest

import wholestep as ws


def trained_alike(loss):
    """Require the same loss as NumPy's, before and after an update, from one program at several sizes."""
    rows = ws.ShapeDtype((ws.Dim("B"), 4), "float64")
    step = ws.compile(loss, np.ones(4), batch=rows, optimizer=ws.optim.sgd(0.01))
    for n in (1, 2, 3, 4, 7, 20):
        batch = np.random.default_rng(n).normal(size=(n, 4))
        before = step.params.copy()
        assert step(batch).loss == pytest.approx(loss(before, batch))
        np.testing.assert_allclose(step.params, before - 0.01 * ws.grad(loss)(before, batch))


def test_array_split():
    def loss(w, x):
        first, second, third = np.array_split(x, 3)
        return np.sum(first @ w) + 2 * np.sum(second @ w) ** 2 - np.sum(third @ w)

    trained_alike(loss)
    for n in range(9):
        made = ws.jit(lambda x: np.array_split(x, 4))(np.arange(float(n)))
        for part, wanted in zip(made, np.array_split(np.arange(float(n)), 4), strict=True):
            np.testing.assert_array_equal(part, wanted)


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect", "symmetric"])
def test_pad(mode):
    def loss(w, x):
        wide = np.pad(x, ((2, 3), (0, 1)), mode=mode)[:, 1:]
        return np.sum(wide @ w * np.pad(x @ w, (2, 3), mode=mode))

    trained_alike(loss)
