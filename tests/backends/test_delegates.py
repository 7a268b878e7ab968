"""Array libraries as devices: steps whose state lies in JAX, PyTorch or TensorFlow are those of the CPU."""

from __future__ import annotations

import functools
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn, optim
from wholestep.errors import BoundsError, DeviceError, MissingExtraError, ParameterError, UnsupportedError
from wholestep.export.targets import TARGETS, named_object
from wholestep.runtime.delegates import executable, libraries
from wholestep.runtime.delegates.libraries import LIBRARIES, library_named
from wholestep_tools.audit.trainings.small_steps import STEPS

RNG = np.random.default_rng(0)
PARAMS = {"w": RNG.normal(size=(5, 8)).astype(np.float32), "v": RNG.normal(size=(8, 3)).astype(np.float32)}
BATCH = {"x": RNG.normal(size=(16, 5)).astype(np.float32), "y": RNG.integers(0, 3, 16)}


@pytest.fixture(params=list(LIBRARIES))
def device(request: Any) -> str:
    """A library that is installed; it is imported when a test runs."""
    found: str = request.param
    pytest.importorskip(found, reason=f"{found} is an outside oracle; not installed")
    return found


def scores(p: Any, x: Any) -> Any:
    return np.tanh(x @ p["w"]) @ p["v"]


def loss(p: Any, batch: Any) -> Any:
    return nn.cross_entropy(scores(p, batch["x"]), batch["y"])


def compiled(device: str, **options: Any) -> Any:
    return ws.compile(loss, PARAMS, optimizer=optim.adam(1e-2), batch=BATCH, device=device, **options)


def close(one: Any, other: Any, bound: float = 1e-5) -> None:
    for path, x in other.params.items():
        np.testing.assert_allclose(one.params[path], x, rtol=bound, atol=bound)


@pytest.mark.parametrize("name", STEPS)
def test_twenty_losses_are_those_of_the_cpu(name: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    step, batch = STEPS[name]()
    monkeypatch.setattr(ws, "compile", functools.partial(ws.compile, device=device))
    other, _ = STEPS[name]()
    for _ in range(20):
        np.testing.assert_allclose(other(batch).loss, step(batch).loss, rtol=1e-5, atol=1e-7)
    if name != "line":
        close(other, step, 2e-4)  # Adam's direction turns where a gradient is rounding


def test_all_that_a_step_does_is_done_there(device: str, tmp_path: Any) -> None:
    step, other = compiled("cpu"), compiled(device)
    for each in (step, other):
        each(BATCH)
        each.set(lr=1e-3)
        each.run(BATCH, epochs=2, batch_size=4)
    close(other, step)
    attached = [each.attach(scores)(BATCH["x"][:3]) for each in (step, other)]
    np.testing.assert_allclose(attached[1], attached[0], rtol=1e-4, atol=1e-5)
    other.save(tmp_path / "there.safetensors")
    step.load(tmp_path / "there.safetensors")
    np.testing.assert_array_equal(step.params["w"], other.params["w"])
    np.testing.assert_allclose(step(BATCH).loss, other(BATCH).loss, rtol=1e-6)
    step.save(tmp_path / "here.safetensors")
    other.reset()
    other.load(tmp_path / "here.safetensors")
    assert other.steps == step.steps
    np.testing.assert_array_equal(step.params["v"], other.params["v"])


def test_an_index_outside_leaves_the_state_as_it_was(device: str) -> None:
    step = compiled(device)
    step(BATCH)
    before = {path: x.copy() for path, x in step.params.items()}
    with pytest.raises(BoundsError, match="label 7, but there are 3 classes") as raised:
        step({**BATCH, "y": np.full(16, 7)})
    assert "nn.cross_entropy" in str(raised.value)
    for path, x in before.items():
        np.testing.assert_array_equal(step.params[path], x)
    step(BATCH)


FAILING = {
    "inv": (np.linalg.inv, np.stack([np.eye(3), np.zeros((3, 3))]), np.linalg.LinAlgError),
    "cholesky": (np.linalg.cholesky, -np.eye(3), np.linalg.LinAlgError),
    "triangle": (
        lambda a: ws.scipy.linalg.solve_triangular(a, np.ones(3), lower=True),
        np.diag([1.0, 0.0, 2.0]),
        np.linalg.LinAlgError,
    ),
    "pow": (lambda i: np.array([2, 3]) ** i, np.array([1, -1]), ParameterError),
}


@pytest.mark.parametrize("name", FAILING)
def test_what_fails_here_fails_there(name: str, device: str) -> None:
    function, x, error = FAILING[name]
    with pytest.raises(error):
        ws.jit(function, device=device)(x)


def test_a_singular_matrix_has_factors_there_too(device: str) -> None:
    found = ws.jit(lambda a: ws.scipy.linalg.lu(a)[2], device=device)(np.ones((3, 3)))
    np.testing.assert_array_equal(found, np.ones((3, 3)) * [[1], [0], [0]])


def test_what_is_not_finite_is_left_out(device: str) -> None:
    step = compiled(device)
    result = step({**BATCH, "x": np.full((16, 5), np.nan, np.float32)})
    assert not result.finite
    np.testing.assert_array_equal(step.params["w"], PARAMS["w"])


def test_functions_run_there_too(device: str) -> None:
    f = ws.value_and_grad(lambda x: np.sum(np.sort(np.sin(x)) ** 2))
    (value, gradient), (there, slope) = f(BATCH["x"]), ws.jit(f, device=device)(BATCH["x"])
    assert type(slope) is np.ndarray and slope.dtype == np.float32
    np.testing.assert_allclose(there, value, rtol=1e-5)
    np.testing.assert_allclose(slope, gradient, rtol=1e-4, atol=1e-5)


def test_the_source_and_what_a_library_keeps_to_itself(device: str) -> None:
    step = compiled(device)
    assert "def program(" in step.source()
    for what in ("memory", "plan", "kernels"):
        with pytest.raises(UnsupportedError, match=f"step.{what}: the device '{device}'"):
            getattr(step, what)
    assert device in step.explain()


def test_symbolic_sizes_are_compiled_size_by_size(device: str) -> None:
    batch = {"x": ws.ShapeDtype((ws.Dim("B"), 5), np.float32), "y": ws.ShapeDtype((ws.Dim("B"),), np.int64)}
    other = ws.compile(loss, PARAMS, optimizer=optim.adam(1e-2), batch=batch, device=device)
    step = compiled("cpu")
    for rows in (16, 4):
        few = {name: x[:rows] for name, x in BATCH.items()}
        np.testing.assert_allclose(other(few).loss, step(few).loss, rtol=1e-5)


def test_what_a_library_has_no_words_for_is_refused_before_anything_runs(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = named_object(TARGETS[device].vocabulary)
    fewer = replace(words, words={name: word for name, word in words.words.items() if name != "tanh"}, rules={})
    monkeypatch.setattr(executable, "named_object", lambda path: fewer)
    with pytest.raises(UnsupportedError, match=f"(?s)compile for the device '{device}'.*tanh") as raised:
        compiled(device)
    assert "np.tanh(x @ p" in str(raised.value)


@pytest.mark.parametrize("options", [{"memory_budget": 10_000}, {"stream": ["w"], "folder": "."}])
def test_options_of_our_own_memory_are_refused(options: Any, device: str) -> None:
    with pytest.raises((UnsupportedError, ParameterError)):
        compiled(device, **options)


def test_places_of_a_library(device: str) -> None:
    assert compiled(f"{device}:cpu")(BATCH).loss == compiled(device)(BATCH).loss
    for place in ("nowhere", "cpu:99"):
        with pytest.raises(DeviceError, match="has no device") as raised:
            compiled(f"{device}:{place}")
        assert f"'{device}:cpu" in str(raised.value)


def test_a_library_that_is_not_installed_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, library in LIBRARIES.items():
        monkeypatch.setitem(sys.modules, name, None)
        with pytest.raises(MissingExtraError, match="is not installed") as raised:
            library_named.__wrapped__(name)
        assert f"pip install {library.extra}" in str(raised.value)


def test_a_device_that_there_is_not_names_all() -> None:
    with pytest.raises(ParameterError, match="no device is called 'jaxx'") as raised:
        compiled("jaxx")
    assert all(repr(name) in str(raised.value) for name in libraries.LIBRARIES)
