"""`all_gather` in a loss: elements of a vmap and processes have the same rows and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.mesh import programs
from tests.mesh.processes import run_processes

import wholestep as ws

X = np.random.default_rng(5).normal(size=(3, 4, 5)).astype(np.float32)


@pytest.mark.parametrize("size", [2, 3])
def test_processes_have_the_bits_of_vmap(size: int) -> None:
    x = X[:size]
    values, gradients = ws.vmap(programs.with_gradient, axis_name="data")(x)
    for rank, (compiled, plain, signs) in enumerate(run_processes(size, programs.gathers, x)):
        wanted = [np.asarray(part[rank]).tobytes() for part in (values, gradients)]
        assert compiled == plain == wanted, rank
        assert signs == (x > 0).tolist()


def test_a_gather_in_a_loss_is_that_of_the_whole_batch() -> None:
    cases = [("contrasted", "adam", programs.ROWS, {})]
    (first,), (second,) = run_processes(2, programs.train, cases)
    assert first == second
    loss, params, batch = programs.start("contrasted", programs.ROWS)

    def mapped(params: Any, batch: Any) -> Any:
        parts = {name: x.reshape(2, programs.ROWS // 2, -1) for name, x in batch.items()}
        return ws.vmap(lambda part: loss(params, part), axis_name="data")(parts).mean()

    step = ws.compile(mapped, params, optimizer=programs.optimizer("adam"), batch=batch)
    wanted = programs.trained(step, batch)
    for a, b in zip(first[: programs.STEPS], wanted[: programs.STEPS], strict=True):
        np.testing.assert_allclose(np.frombuffer(a), np.frombuffer(b), rtol=1e-6)


def test_rows_of_a_vmap_are_those_of_numpy() -> None:
    x = X.astype(np.float64)
    weighted = ws.vmap(lambda x: (ws.all_gather(x, "i") ** 2 * x).sum(axis=0), axis_name="i")
    np.testing.assert_allclose(weighted(x), (x**2).sum(axis=0) * x)
    ws.gradcheck(lambda x: weighted(x).sum(), x[:, 0])
    ws.gradcheck(lambda x: ws.grad(lambda x: weighted(x).sum())(x).sum(), x[:, 0, :2])
    shared = ws.vmap(lambda x: ws.all_gather(np.ones(2), "i") + x[0, 0], axis_name="i")(x)
    np.testing.assert_allclose(shared, np.ones((3, 3, 2)) + x[:, :1, :1])


@pytest.mark.parametrize("name", ["i", "j"])
def test_a_gather_along_either_of_two_axes(name: str) -> None:
    def row(x: Any) -> Any:
        return ws.all_gather(np.sin(x), name) * x

    x = X.astype(np.float64)
    f = ws.vmap(ws.vmap(row, axis_name="j"), axis_name="i")
    rows = np.broadcast_to(np.sin(x), (3, 3, 4, 5)) if name == "i" else np.sin(x)
    wanted = rows.transpose(0, 2, 1, 3) if name == "i" else np.broadcast_to(rows[:, None], (3, 4, 4, 5))
    np.testing.assert_allclose(f(x), wanted * x[:, :, None])
    np.testing.assert_allclose(ws.jit(f)(x), f(x))
    ws.gradcheck(lambda x: f(x).sum(), x[:2, :2, :2])


def test_a_gather_in_a_loop() -> None:
    def summed(x: Any) -> Any:
        return ws.scan(lambda s, _: (s + ws.all_gather(s, "i").mean(axis=0), None), x, None, length=3)[0]

    x = X.astype(np.float64)
    wanted = x
    for _ in range(3):
        wanted = wanted + wanted.mean(axis=0)
    np.testing.assert_allclose(ws.jit(ws.vmap(summed, axis_name="i"))(x), wanted)
    ws.gradcheck(lambda x: ws.vmap(summed, axis_name="i")(x).sum(), x[:, 0, :2])


def test_a_program_of_its_own_for_each_size_of_the_axis() -> None:
    f = ws.jit(lambda x: ws.all_gather(x, "i").sum())
    for n in (3, 4, 3):
        assert ws.vmap(f, axis_name="i")(np.ones(n)).tolist() == [float(n)] * n
    assert f.reasons == ["first call", "the named axes of vmap around it changed"]


def test_an_axis_that_is_not_there_is_an_error() -> None:
    with pytest.raises(ws.errors.UnsupportedError, match="all_gather: there is no axis 'nowhere'"):
        ws.vmap(lambda x: ws.all_gather(x, "nowhere"), axis_name="i")(np.ones(2))
