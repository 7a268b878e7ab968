"""Derivatives at points where mathematics leaves a choice: each row of the table in the design, at the point itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wholestep.primitives  # noqa: F401  (fills the registry)
from wholestep.backends.reference import interpret
from wholestep.primitives.family import REGISTRY, Sample
from wholestep.testing import laws
from wholestep.testing.primitives import graph_of
from wholestep.transforms.reverse import vjp

TABLE: list[tuple[str, str, list[Any], dict[str, Any], list[Any]]] = [
    ("a tie of maximum is shared in halves", "maximum", [[1.0, 2.0], [1.0, 1.0]], {}, [[0.5, 1.0], [0.5, 0.0]]),
    ("a tie of minimum is shared in halves", "minimum", [[1.0, 2.0], [1.0, 1.0]], {}, [[0.5, 0.0], [0.5, 1.0]]),
    ("ties of max share evenly", "max", [[3.0, 1.0, 3.0, 3.0]], {"axes": (0,)}, [[1 / 3, 0.0, 1 / 3, 1 / 3]]),
    ("ties of min share evenly", "min", [[3.0, 1.0, 1.0, 3.0]], {"axes": (0,)}, [[0.0, 0.5, 0.5, 0.0]]),
    ("abs is flat at 0", "abs", [[0.0, -2.0, 2.0]], {}, [[0.0, -1.0, 1.0]]),
    ("sign is flat", "sign", [[0.0, -2.0]], {}, [[0.0, 0.0]]),
    ("sqrt is steep at 0", "sqrt", [[0.0, 4.0]], {}, [[np.inf, 0.25]]),
    ("hypot is flat at the origin", "hypot", [[0.0, 3.0], [0.0, 4.0]], {}, [[0.0, 0.6], [0.0, 0.8]]),
    ("x**0 is flat in x", "pow", [[0.0, -1.0, 2.0], [0.0, 0.0, 0.0]], {}, [[0.0, 0.0, 0.0], None]),
    ("0**y is flat in y", "pow", [[0.0, 0.0], [2.0, 0.5]], {}, [None, [0.0, 0.0]]),
    ("equal infinities add up in halves", "logaddexp", [[-np.inf], [-np.inf]], {}, [[0.5], [0.5]]),
    ("equal infinities add up in halves", "logaddexp2", [[-np.inf], [-np.inf]], {}, [[0.5], [0.5]]),
    ("i1 has slope a half at 0", "i1", [[0.0]], {}, [[0.5]]),
    ("j1 has slope a half at 0", "j1", [[0.0]], {}, [[0.5]]),
    ("one zero factor leaves one slope", "prod", [[2.0, 0.0, 3.0]], {"axes": (0,)}, [[0.0, 6.0, 0.0]]),
    ("two zero factors leave none", "prod", [[0.0, 0.0, 3.0]], {"axes": (0,)}, [[0.0, 0.0, 0.0]]),
]


@pytest.mark.parametrize(("name", "inputs", "params", "expected"), [t[1:] for t in TABLE], ids=[t[0] for t in TABLE])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_derivative_is_the_one_decided(
    name: str, inputs: list[Any], params: dict[str, Any], expected: list[Any]
) -> None:
    args = [np.asarray(x, np.float64) for x in inputs]
    graph = graph_of(REGISTRY[name], Sample(tuple(args), params))
    gy = [np.ones(t.shape) for t in graph.out_types]
    for i, slope in enumerate(expected):
        if slope is not None:
            wrt = tuple(j == i for j in range(len(args)))
            np.testing.assert_allclose(interpret(vjp(graph, wrt, (True,)), [*args, *gy])[0], slope, rtol=1e-15)
            if graph.out_types == graph.in_types[:1]:
                (tangent,) = laws.tangents(graph, args, wrt, [np.ones_like(args[i])])
                np.testing.assert_allclose(tangent, slope, rtol=1e-15)


ORDER: list[tuple[str, str, list[Any], dict[str, Any], list[Any]]] = [
    ("sort is stable", "sort", [2.0, 1.0, 2.0, 1.0], {"axis": 0}, [1, 3, 0, 2]),
    ("the first of equals is largest", "top_k", [1.0, 2.0, 2.0], {"axis": 0, "k": 2}, [1, 2]),
    ("the first of equals stays", "cummax", [1.0, 1.0, 2.0, 2.0], {"axis": 0}, [0, 0, 2, 2]),
    ("the first of equals stays", "cummin", [2.0, 1.0, 1.0, 3.0], {"axis": 0}, [0, 1, 1, 1]),
    ("NaN stays once met", "cummax", [1.0, np.nan, 2.0], {"axis": 0}, [0, 1, 1]),
    ("NaN is last", "sort", [np.nan, 1.0, 0.0], {"axis": 0}, [2, 1, 0]),
]


@pytest.mark.parametrize(
    ("name", "x", "params", "order"), [t[1:] for t in ORDER], ids=[f"{t[1]}: {t[0]}" for t in ORDER]
)
def test_places_of_equals(name: str, x: list[float], params: dict[str, Any], order: list[int]) -> None:
    graph = graph_of(REGISTRY[name], Sample((np.asarray(x),), params))
    values, found = interpret(graph, [np.asarray(x)])
    assert found.tolist() == order
    np.testing.assert_array_equal(values, np.asarray(x)[order])


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_of_equals_is_found(name: str) -> None:
    x = np.array([2.0, 1.0, 2.0, 1.0])
    assert interpret(graph_of(REGISTRY[name], Sample((x,), {"axis": 0})), [x])[0] == (0 if name == "argmax" else 1)


@pytest.mark.parametrize("layout", ["C", "F"])
def test_the_last_write_stays_in_row_major_order(layout: str) -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        index = np.asarray(rng.integers(0, 3, (3, 4)), order=layout)
        u = np.asarray(rng.normal(size=(3, 4)), order=layout)
        expected = np.zeros(3)
        owner = {}
        for at in np.ndindex(3, 4):
            expected[index[at]], owner[index[at]] = u[at], at
        args = [np.zeros(3), u, index]
        graph = graph_of(REGISTRY["scatter"], Sample(tuple(args), {"axes": (0,)}))
        np.testing.assert_array_equal(interpret(graph, args)[0], expected)
        (gu,) = interpret(vjp(graph, (False, True, False), (True,)), [*args, np.ones(3)])
        assert {at for at in np.ndindex(3, 4) if gu[at] == 1} == set(owner.values())
