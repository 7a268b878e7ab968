"""A hundred plain NumPy programs under the transforms: values, types, dtypes and derivatives are those of NumPy."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.ordinary.programs import arrays, mixed, models, solvers, tables, with_scipy

import wholestep as ws

FILES: list[ModuleType] = [tables, solvers, arrays, models, mixed, with_scipy]
PROGRAMS = [item for file in FILES for item in file.PROGRAMS]
DECIDED = [item for file in FILES for item in getattr(file, "DECIDED", [])]
MACHINE_CODE = PROGRAMS[::4]
"""Programs that are compiled for the processor; the others run in the reference interpreter, and in everything.py."""


def name_of(item: Any) -> Any:
    return getattr(item, "__name__", None)


def point(f: Any, size: int) -> Any:
    """Random arguments in (0.2, 0.9), without ties."""
    return np.random.default_rng(len(f.__name__)).uniform(0.2, 0.9, size)


def slopes(f: Any, x: Any, h: float = 1e-6) -> Any:
    return np.array([(f(x + h * e) - f(x - h * e)) / (2 * h) for e in np.eye(len(x))])


def test_there_are_more_than_a_hundred() -> None:
    assert len({f for f, _ in PROGRAMS + DECIDED}) > 100


@pytest.mark.parametrize(("f", "size"), PROGRAMS + DECIDED, ids=name_of)
def test_a_gradient_is_that_of_the_text(f: Any, size: int) -> None:
    x = point(f, size)
    want = f(x.copy())
    value, gradient = ws.value_and_grad(f)(x)
    assert type(value) is type(np.float64(want))
    np.testing.assert_allclose(value, want, rtol=1e-12)
    np.testing.assert_allclose(gradient, slopes(f, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("f", "size"), PROGRAMS, ids=name_of)
def test_a_program_is_the_text(f: Any, size: int) -> None:
    x = point(f, size)
    want, gradient = ws.value_and_grad(f)(x)
    got, compiled = ws.jit(ws.value_and_grad(f), device="reference")(x)
    np.testing.assert_allclose(got, want, rtol=1e-10)
    np.testing.assert_allclose(compiled, gradient, rtol=1e-8, atol=1e-10)
    single = x.astype(np.float32)
    assert ws.eval_shape(f, single).dtype == np.asarray(f(single)).dtype


def train_compiled(f: Any, size: int) -> None:
    """Compare the compiled function, and a compiled step, with plain NumPy."""
    x = point(f, size)
    np.testing.assert_allclose(ws.jit(f)(x), f(x.copy()), rtol=1e-10)
    step = ws.compile(lambda p, batch: f(p), x, optimizer=ws.optim.sgd(0.5), batch=np.zeros(1))
    np.testing.assert_allclose(step(np.zeros(1)).loss, f(x.copy()), rtol=1e-10)
    np.testing.assert_allclose(step.params, x - 0.5 * ws.grad(f)(x), rtol=1e-8, atol=1e-10)


def agree_under_transforms(f: Any, size: int) -> None:
    """Compare the other transforms with the gradient."""
    x = point(f, size)
    dx = np.linspace(0.5, 1.0, size)
    gradient = ws.grad(f)(x)
    near = {"rtol": 1e-9, "atol": 1e-13}  # some slopes are 0, up to rounding
    np.testing.assert_allclose(ws.jvp(f, (x,), (dx,))[1], gradient @ dx, **near)
    np.testing.assert_allclose(ws.vmap(f)(np.stack([x, x])), [f(x.copy())] * 2, rtol=1e-10)
    np.testing.assert_allclose(ws.vjp(f, x)[1](np.float64(2.0))[0], 2 * gradient, **near)
    np.testing.assert_allclose(ws.jacfwd(f)(x), gradient, **near)


@pytest.mark.parametrize(("f", "size"), MACHINE_CODE, ids=name_of)
def test_a_compiled_step_trains_the_text(f: Any, size: int) -> None:
    train_compiled(f, size)


@pytest.mark.parametrize(("f", "size"), PROGRAMS, ids=name_of)
def test_the_other_transforms_agree(f: Any, size: int) -> None:
    agree_under_transforms(f, size)
