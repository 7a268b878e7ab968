"""TensorFlow: functions and steps are differentiated and compiled there, and a `SavedModel` trains alone."""

from __future__ import annotations

import doctest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from tests.export.test_handover import PARAMS, X, energy
from tests.export.test_python_files import imported

import wholestep as ws
from wholestep import tree
from wholestep.errors import UnsupportedError
from wholestep.scipy import special
from wholestep.train.handover import to_tensorflow
from wholestep_tools.audit.trainings.small_steps import dense, rows


@pytest.fixture
def tf() -> Any:
    return pytest.importorskip("tensorflow", reason="TensorFlow is an outside oracle; not installed")


def test_tensorflow_differentiates_and_compiles_a_function(tf: Any) -> None:
    f = tf.function(ws.to_tensorflow(energy, PARAMS, X))
    assert float(f(PARAMS, X)) == pytest.approx(energy(PARAMS, X), rel=1e-12)
    p, x = {name: tf.Variable(value) for name, value in PARAMS.items()}, tf.Variable(X)
    with tf.GradientTape() as tape:
        y = f(p, x)
    want = ws.grad(energy, argnums=(0, 1))(PARAMS, X)
    for a, b in zip(tree.leaves(tape.gradient(y, (p, x))), tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_tensorflow_trains_with_a_step_and_hands_its_state_back(tf: Any) -> None:
    step, batch = rows()
    f, state = tf.function(ws.to_tensorflow(step), autograph=False), step.state
    state = tree.map(np.asarray, state)
    for _ in range(20):
        state, results = f(state, batch)
        assert float(results["loss"]) == pytest.approx(float(step(batch).loss), rel=1e-5)
    step.load_state(tree.map(np.asarray, state))
    assert step.steps == 20 and np.isfinite(float(step(batch).loss))


def test_a_saved_model_trains_alone(tf: Any, tmp_path: Path) -> None:
    step, batch = dense()
    files = step.export(tmp_path / "step.py", to="tensorflow")
    file, module = imported(files[0]), tf.Module()
    state = file.load(files[1])
    given = {f"batch.{name}": tf.constant(x) for name, x in batch.items()}
    module.step = file.step
    module.step.get_concrete_function(state, given)
    tf.saved_model.save(module, str(tmp_path / "saved"))
    alone = tf.saved_model.load(str(tmp_path / "saved"))
    for _ in range(5):
        state, results = alone.step(state, given)
        assert float(results["loss"]) == pytest.approx(float(step(batch).loss), rel=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint32"])
def test_compiled_quotients_of_integers_are_numpys(tf: Any, dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.repeat(np.array([info.min, info.max, 7, 0], dtype), 4)
    y = np.tile(np.array([0, -1 if info.min else 1, info.max, 3]).astype(dtype), 4)

    def quotients(x: Any, y: Any) -> Any:
        return x // y, x % y, np.fmod(x, y), -x

    with np.errstate(all="ignore"):
        want = quotients(x, y)
    for a, b in zip(tf.function(ws.to_tensorflow(quotients, x, y), autograph=False)(x, y), want, strict=True):
        np.testing.assert_array_equal(a, b)


def test_orders_with_nan_are_numpys(tf: Any) -> None:
    x = np.array([[3.0, np.nan, -np.inf, np.inf], [np.nan, 0.0, -0.0, 1.0]]).T

    def orders(x: Any) -> Any:
        return np.sort(x, 0), np.argsort(x, 0), np.argmax(x, 0), np.max(x, 0), np.maximum(x, 0.0), np.sign(x)

    for a, b in zip(ws.to_tensorflow(orders, x)(x), orders(x), strict=True):
        np.testing.assert_array_equal(a, b)


def test_halves_are_partitioned_as_numpy_permutes_them(tf: Any) -> None:
    x = np.array([[1.5, -1.3, -0.1, 2.9, 2.8], [0.3, -1.4, 2.3, -2.6, 1.1]], np.float16)
    found = ws.to_tensorflow(lambda x: np.partition(x, 2, axis=1), x)(tf.constant(x))
    np.testing.assert_array_equal(found, np.partition(x, 2, axis=1))


def test_a_comparison_that_is_not_true_is_not_the_opposite_one(tf: Any) -> None:
    """TensorFlow's optimizer writes `not (x > 0)` as `x <= 0`, which is false of NaN."""
    x = np.array([np.nan, 1.0, -1.0])
    found = tf.function(ws.to_tensorflow(lambda x: ~(x > 0), x), autograph=False)(tf.constant(x))
    np.testing.assert_array_equal(found, [True, False, True])


@pytest.mark.parametrize("short", ["f4", "f8"])
def test_the_inverse_error_function_of_small_numbers(tf: Any, short: str) -> None:
    x = np.array([-1, -0.9, -0.3, -1e-7, 0, 1e-30, 1e-10, 1e-3, 0.499, 0.5, 1], short)
    found = ws.to_tensorflow(special.erfinv, x)(x)
    np.testing.assert_allclose(found, scipy.special.erfinv(x), rtol=8 * np.finfo(short).eps)


def test_the_error_function_ends_at_1(tf: Any) -> None:
    x = np.array([-np.inf, -1e300, -0.5, 7.0, np.inf, np.nan])
    np.testing.assert_allclose(ws.to_tensorflow(special.erf, x)(x), scipy.special.erf(x), rtol=1e-15)


def test_strided_windows_of_three_axes_are_differentiated(tf: Any) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(2, 1, 5, 5, 5)), rng.normal(size=(1, 1, 3, 3, 3))
    gradient = ws.grad(lambda x, w: np.sum(np.sin(ws.nn.conv3d(x, w, stride=2))), argnums=(0, 1))
    for a, b in zip(ws.to_tensorflow(gradient, x, w)(x, w), gradient(x, w), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_what_tensorflow_has_no_word_for_is_named(tf: Any) -> None:
    def odd(x: Any) -> Any:
        return np.sum(ws.grad(lambda a: np.sum(special.gammainc(a, x)))(x))

    with pytest.raises(
        UnsupportedError, match=r"export to tensorflow: 1 operation has no words there(?s:.*)gammainc_or"
    ):
        ws.to_tensorflow(odd, np.ones(3))


def test_the_example_runs(tf: Any) -> None:
    assert doctest.testmod(to_tensorflow).failed == 0
