"""Parts and paddings of arrays with symbolic sizes: one program for all sizes, beside NumPy at each."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import WholestepError


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


@pytest.mark.parametrize("mode", ["edge", "wrap", "reflect", "symmetric", "linear_ramp", "mean"])
def test_pad(mode):
    def loss(w, x):
        wide = np.pad(x, ((2, 3), (0, 1)), mode=mode)[:, 1:]
        return np.sum(wide @ w * np.pad(x @ w, (2, 3), mode=mode))

    trained_alike(loss)


def same_at_each_size(f, *sizes):
    """Require NumPy's results from one trace at several sizes."""
    compiled = ws.jit(f)
    compiled.any_size(ws.ShapeDtype((ws.Dim("B"), 3), "float64"))
    for n in sizes:
        x = np.random.default_rng(n).normal(size=(n, 3))
        np.testing.assert_allclose(compiled(x), f(x), rtol=1e-12, atol=1e-14)


def test_gradient():
    same_at_each_size(lambda x: np.gradient(x, 0.5, axis=0), 2, 3, 9)
    same_at_each_size(lambda x: np.gradient(x, axis=0, edge_order=2), 3, 4, 9)
    same_at_each_size(lambda x: np.gradient(x, np.cumsum(np.exp(x[:, 0])), axis=0), 2, 3, 9)
    with pytest.raises(WholestepError, match=r"test_symbolic_parts.py"):
        same_at_each_size(lambda x: np.gradient(x, axis=0), 1)


def test_contractions_of_many_operands():
    same_at_each_size(lambda x: np.einsum("bi,bj,bk->ijk", x, x, x), 1, 4, 9)
    same_at_each_size(lambda x: np.einsum("bi,bj,kj->bik", x, x, np.ones((2, 3)), optimize=True), 1, 4)


def test_histograms_and_deletions():
    same_at_each_size(lambda x: np.histogram(x[:, 0], bins=3)[0], 1, 4, 9)
    same_at_each_size(lambda x: np.histogram2d(x[:, 0], x[:, 1], bins=[[-1, 0, 1]] * 2, density=True)[0], 8, 9)
    same_at_each_size(lambda x: np.delete(x, 1, axis=0), 2, 3, 9)
    same_at_each_size(lambda x: np.delete(x, [-1], axis=0), 1, 3, 9)
    same_at_each_size(lambda x: np.delete(x, -2, axis=0), 2, 3, 9)
