"""`pmax`, `pmin` and `ppermute`: elements of a vmap and processes exchange the same arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.mesh import programs
from tests.mesh.processes import run_processes

import wholestep as ws
from wholestep.errors import ParameterError, UnsupportedError

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
