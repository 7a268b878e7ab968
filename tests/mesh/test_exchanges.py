"""`pmax`, `pmin`, `ppermute` and `all_to_all`: elements of a vmap and processes exchange the same arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.mesh import programs
from tests.mesh.processes import run_processes

import wholestep as ws
from wholestep.errors import ParameterError, ShapeError, UnsupportedError

X = np.random.default_rng(5).normal(size=(4, 3))


def test_largest_and_smallest_over_a_vmap() -> None:
    for f, wanted in ((ws.pmax, X.max(0)), (ws.pmin, X.min(0))):
        over = ws.vmap(lambda x, f=f: f(x, "i"), axis_name="i")
        for found in (over(X), ws.jit(over)(X)):
            np.testing.assert_array_equal(found, np.broadcast_to(wanted, X.shape))
        ws.gradcheck(lambda x, over=over: (over(x) * np.arange(12.0).reshape(4, 3)).sum(), X)
    ties = ws.grad(lambda x: ws.vmap(lambda x: ws.pmax(x, "i"), axis_name="i")(x).sum())(np.array([2.0, 1.0, 2.0]))
    assert ties.tolist() == [1.5, 0.0, 1.5]


@pytest.mark.parametrize("perm", [[(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 3)], [(2, 0), (2, 1)], []])
def test_what_is_sent_over_a_vmap(perm: list[tuple[int, int]]) -> None:
    over = ws.vmap(lambda x: ws.ppermute({"x": x, "flag": x > 0}, "i", perm), axis_name="i")
    wanted = np.zeros_like(X)
    for source, target in perm:
        wanted[target] = X[source]
    for found in (over(X), ws.jit(over)(X)):
        np.testing.assert_array_equal(found["x"], wanted)
        np.testing.assert_array_equal(found["flag"], wanted > 0)
    ws.gradcheck(lambda x: (over(x)["x"] ** 2 * np.arange(12.0).reshape(4, 3)).sum(), X)


@pytest.mark.parametrize(("split", "join"), [(0, 0), (0, 1), (1, 0), (-1, 1), (2, 0)])
def test_parts_of_each_go_to_all(split: int, join: int) -> None:
    x = np.random.default_rng(6).normal(size=(2, 4, 6, 2))
    over = ws.vmap(lambda x: ws.all_to_all(x, "i", split, join), axis_name="i")
    parts = [np.split(element, 2, split) for element in x]
    wanted = np.stack([np.concatenate([part[k] for part in parts], join) for k in range(2)])
    for found in (over(x), ws.jit(over)(x)):
        np.testing.assert_array_equal(found, wanted)
    ws.gradcheck(lambda x: (over(x) ** 2 * np.arange(wanted.size).reshape(wanted.shape)).sum(), x)


def test_parts_of_each_are_those_of_jax() -> None:
    jax = pytest.importorskip("jax", reason="JAX is an outside oracle; not installed")
    x = np.arange(4 * 8 * 3, dtype=np.float32).reshape(4, 8, 3)
    there = jax.vmap(lambda x: jax.lax.all_to_all(x, "i", 0, 1, tiled=True), axis_name="i")(x)
    np.testing.assert_array_equal(ws.vmap(lambda x: ws.all_to_all(x, "i", 0, 1), axis_name="i")(x), there)


@pytest.mark.parametrize(("split", "join", "words"), [(0, 0, "4 elements do not divide"), (1, 0, "axis 1 of an")])
def test_parts_that_are_none_are_refused(split: int, join: int, words: str) -> None:
    with pytest.raises(ShapeError, match=words):
        ws.vmap(lambda x: ws.all_to_all(x, "i", split, join), axis_name="i")(X)


@pytest.mark.parametrize("size", [2, 3])
def test_processes_have_what_elements_of_a_vmap_have(size: int) -> None:
    x = X[:size].astype(np.float32)
    wanted = ws.vmap(programs.exchanged, axis_name="data")(x)
    for rank, found in enumerate(run_processes(size, programs.exchanges, x)):
        assert [part.tobytes() for part in found] == [np.asarray(part[rank]).tobytes() for part in wanted]


@pytest.mark.parametrize(
    ("perm", "words"),
    [([(0, 4)], "no pair of two numbers of the 4"), ([(0, 1), (2, 1)], "two sources, 0 and 2"), ([3], "3 is no pair")],
)
def test_what_cannot_be_sent_is_refused(perm: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        ws.vmap(lambda x: ws.ppermute(x, "i", perm), axis_name="i")(X)


def test_an_axis_that_is_not_there_is_an_error() -> None:
    for f in (lambda x: ws.pmax(x, "j"), lambda x: ws.ppermute(x, "j", [])):
        with pytest.raises(UnsupportedError, match="there is no axis 'j'"):
            ws.vmap(f, axis_name="i")(X)
