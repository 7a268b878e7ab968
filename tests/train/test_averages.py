"""The mean of a per-sample loss over a data set is that of one batch of all of it, for every split into batches."""

import doctest

import numpy as np
import pytest

from wholestep import errors
from wholestep.nn.cross_entropies import cross_entropy
from wholestep.train.loop import averages
from wholestep.train.loop.averages import mean_over

RNG = np.random.default_rng(0)
PARAMS = {"w": RNG.normal(size=(4, 3)).astype(np.float32)}
DATA = {"x": RNG.normal(size=(37, 5, 4)).astype(np.float32), "y": RNG.integers(-1, 3, size=(37, 5))}


def losses(params, batch):
    return cross_entropy(batch["x"] @ params["w"], batch["y"], ignore_index=-1, reduction="none")


def tokens(params, batch):
    return losses(params, batch), batch["y"] >= 0


@pytest.mark.parametrize("batch_size", [1, 5, 36, 37, 1000])
def test_the_mean_is_that_of_one_batch(batch_size):
    whole = losses(PARAMS, DATA)
    np.testing.assert_allclose(mean_over(losses, PARAMS, DATA, batch_size=batch_size), whole.mean(), rtol=1e-6)
    counted = cross_entropy(DATA["x"] @ PARAMS["w"], DATA["y"], ignore_index=-1)
    np.testing.assert_allclose(mean_over(tokens, PARAMS, DATA, batch_size=batch_size), counted, rtol=1e-6)


def test_weights_of_samples_count_for_all_of_their_losses():
    def weighted(params, batch):
        return losses(params, batch), batch["y"][:, 0] + 1

    whole, w = losses(PARAMS, DATA), DATA["y"][:, 0] + 1
    expected = np.average(whole.mean(axis=1), weights=w)
    np.testing.assert_allclose(mean_over(weighted, PARAMS, DATA, batch_size=8), expected, rtol=1e-6)
    assert np.isnan(mean_over(lambda p, b: (b["x"][:, 0, 0], np.zeros(len(b["x"]))), PARAMS, DATA))


def test_it_compiles_once_for_a_function_and_a_batch_size():
    def own(params, batch):
        return losses(params, batch)

    for _ in range(3):
        mean_over(own, PARAMS, DATA, batch_size=8)
    assert averages.compile_loss(own).traces == 1


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: mean_over(lambda p, b: np.mean(losses(p, b)), PARAMS, DATA), errors.ShapeError),
        (lambda: mean_over(losses, PARAMS, {**DATA, "y": DATA["y"][:3]}), errors.ShapeError),
        (lambda: mean_over(losses, PARAMS, {k: v[:0] for k, v in DATA.items()}), errors.ShapeError),
        (lambda: mean_over(losses, PARAMS, 1.0), errors.ShapeError),
        (lambda: mean_over(losses, PARAMS, {}), errors.TreeError),
        (lambda: mean_over(losses, PARAMS, DATA, batch_size=0), errors.ParameterError),
    ],
)
def test_refused(call, error):
    with pytest.raises(error, match=r"^mean_over: "):
        call()


def test_the_example():
    assert doctest.testmod(averages).failed == 0
