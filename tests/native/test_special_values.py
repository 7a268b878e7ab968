"""Bessel and hypergeometric functions by formulas have the digits of arithmetic of 300 bits where SciPy's are few."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.native.c_program import COMPILER

from wholestep.backends.reference import interpret
from wholestep.export.native.formulas import SPECIAL_TABLES
from wholestep.ir.build import build
from wholestep.ir.graph import OPS
from wholestep.ir.types import array_type
from wholestep.primitives.family import REGISTRY
from wholestep_tools.drawn.c_library import CLibrary

VALUES: dict[str, list[list[float]]] = json.loads((Path(__file__).parent / "special_values.json").read_text())
"""Arguments, each with the value of the function: negative and large orders, polynomials, numbers near 1."""
FORMULAS = {name: f for table in SPECIAL_TABLES for name, f in table.items()}
INF, NAN = np.inf, np.nan
ORDERS = [0.0, -0.0, 0.5, 1.0, 2.0, 2.5, -0.5, -1.0, -2.0, -2.5, -3.0, 60.5, 1e4]
NUMBERS = [0.0, -0.0, 1.0, 0.3, 1e-4, -1.0, -5.0, 1e3, -1e3, 1e5, 1e8, INF, -INF, NAN]
PAIRS = [
    (1.0, 2.0),
    (-2.0, 3.0),
    (2.0, -3.0),
    (-2.0, -3.0),
    (-3.0, -3.0),
    (-4.0, -3.0),
    (0.0, 2.0),
    (1.5, 0.0),
    (2.0, 2.0),
]
TRIPLES = [
    *[(1.0, 2.0, 3.0), (0.5, 1.5, 2.5), (0.5, 0.5, 3.0), (1.0, 1.0, 0.5), (-2.0, 3.0, 4.0), (-2.0, 3.5, -3.0)],
    *[(-3.0, 3.5, -3.0), (-4.0, 3.5, -3.0), (1.0, 2.0, -3.0), (1.0, 2.0, 0.0), (0.0, 2.0, 1.0), (2.5, 1.0, 2.5)],
    *[(-2.0, -3.0, 2.5), (2.0, 3.0, 1.5), (2.0, 2.5, 0.5), (3.5, -3.0, -3.0), (-3.0, -5.0, -3.0)],
]
EDGES = {
    **{name: list(itertools.product(ORDERS, NUMBERS)) for name in ("iv", "ive", "jv", "kv", "kve", "yv")},
    "hyp0f1": list(itertools.product([2.5, 1.0, 0.0, -1.0, -0.5, INF, -INF], [0.0, 1.0, -1.0, -1e5, INF, -INF, NAN])),
    "hyp1f1": [(*p, x) for p in PAIRS for x in (0.0, 1.0, -1.0, 50.0, -50.0, 800.0, NAN)],
    # At a pole SciPy's infinities have signs of their own beyond 1, and NaN is one.
    "hyp2f1": [
        (*t, x)
        for t in TRIPLES
        for x in (0.0, 0.5, 1.0, -1.0, -5.0, -1e5, 1.5, 3.0, NAN)[: 6 if t[2] in (0.0, -3.0) else 9 - (t[0] == 0)]
    ],
}


def amplitude(name: str, values: Any) -> Any:
    """The sizes to which errors are relative: at least the amplitude for oscillating functions."""
    size = np.abs(values[:, -1])
    if name not in ("jv", "yv"):
        return size
    v, x = np.abs(values[:, 0]), values[:, 1]
    return np.where(x > v, np.maximum(size, np.sqrt(2 / np.pi / x)), size)


@pytest.mark.skipif(COMPILER is None, reason="there is no C compiler")
def test_formulas_in_c_have_the_digits_of_exact_values(tmp_path: Path) -> None:
    tables = {name: np.array(rows) for name, rows in VALUES.items()}
    given = {name: [np.ascontiguousarray(x) for x in table.T[:-1]] for name, table in tables.items()}
    graphs = {
        name: build(lambda *vs, name=name: [OPS[name](*vs)], [array_type(x.shape, x.dtype) for x in xs])[0]
        for name, xs in given.items()
    }
    library = CLibrary(graphs, tmp_path)
    off = {}
    for name, table in tables.items():
        found: Any = library(name, given[name])
        errors = np.abs(found[0] - table[:, -1]) / amplitude(name, table)
        if not errors.max() < 1e-11:
            off[name] = table[errors.argmax()], errors.max()
    assert not off


@pytest.mark.parametrize("name", sorted(EDGES))
def test_edges_are_those_of_scipy(name: str) -> None:
    xs = [np.array(x) for x in zip(*EDGES[name], strict=True)]
    graph, _ = build(lambda *vs: [FORMULAS[name](*vs)], [array_type(x.shape, x.dtype) for x in xs], name=name)
    with np.errstate(all="ignore"):
        (found,), wanted = interpret(graph, xs), REGISTRY[name].ref(*xs)
    off = ~np.isclose(found, wanted, rtol=1e-10, atol=1e-13, equal_nan=True)
    assert not off.any(), [(*[x[off][k] for x in xs], found[off][k], wanted[off][k]) for k in range(min(off.sum(), 20))]
