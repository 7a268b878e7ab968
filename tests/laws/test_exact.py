"""Rules checked without rounding: polynomials modulo a prime, functions of analysis against ball arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.laws import exact
from tests.laws.balls import BALLS, ball_slope

from wholestep.ir.graph import Graph
from wholestep.ir.verify import verify
from wholestep.primitives import functions, special
from wholestep.primitives.elementwise import Elementwise
from wholestep.primitives.family import REGISTRY, Sample
from wholestep.testing import laws
from wholestep.testing.primitives import graph_of, samples_of
from wholestep.transforms.forward import jvp
from wholestep.transforms.reverse import vjp
from wholestep.transforms.vmap import Batching


def is_exact(sample: Sample) -> bool:
    inexact = [x for x in map(np.asarray, sample.inputs) if x.dtype.kind not in "biu"]
    return sample.exact and bool(inexact) and all(x.dtype == np.float64 for x in inexact)


CALLS = [
    (name, i)
    for name in sorted(REGISTRY)
    if REGISTRY[name].polynomial
    for i, sample in enumerate(samples_of(REGISTRY[name]))
    if is_exact(sample)
]


def degree(graph: Graph) -> int:
    return max(2, sum(t.size for t in graph.in_types if t.inexact))


def arguments(graph: Graph, sample: Sample, rng: np.random.Generator) -> list[Any]:
    """Random residues in place of the sample's floats; zeros stay, so that rules for them are tested."""
    args = []
    for x, t in zip(map(np.asarray, sample.inputs), graph.in_types, strict=True):
        args.append(np.where(x == 0, 0, exact.random_residues(rng, t)) if t.inexact else x)
    return args


@pytest.mark.parametrize(("name", "i"), CALLS, ids=[f"{name}-{i}" for name, i in CALLS])
def test_rules_hold_exactly(name: str, i: int) -> None:
    sample, rng = samples_of(REGISTRY[name])[i], np.random.default_rng(i)
    graph = graph_of(REGISTRY[name], sample)
    args = arguments(graph, sample, rng)
    active = laws.differentiable(graph)
    dxs = [exact.random_residues(rng, t) for t, a in zip(graph.in_types, active, strict=True) if a]
    gys = [exact.random_residues(rng, t) for t in graph.out_types]

    def along(t: int) -> list[Any]:
        rest = iter(dxs)
        moved = [
            np.asarray((x + t * next(rest)) % exact.PRIME, object) if a else x
            for x, a in zip(args, active, strict=True)
        ]
        return exact.evaluate(graph, moved)

    tangent, _ = jvp(graph, active, [True] * len(graph.outputs))
    dys = exact.evaluate(tangent, [*args, *dxs])[len(graph.outputs) :]
    for found, expected in zip(dys, exact.slope(along, degree(graph)), strict=True):
        assert np.array_equal(found, expected), f"the tangent of\n{graph}\nis not\n{tangent}"
    gxs = exact.evaluate(vjp(graph, active, [True] * len(gys)), [*args, *gys])
    assert exact.exact_inner(gys, dys) == exact.exact_inner(gxs, dxs)
    for made in (tangent, vjp(graph, active, [True] * len(gys))):
        verify(made)


@pytest.mark.parametrize(("name", "i"), CALLS, ids=[f"{name}-{i}" for name, i in CALLS])
def test_a_batch_is_a_loop_exactly(name: str, i: int) -> None:
    sample, rng = samples_of(REGISTRY[name])[i], np.random.default_rng(i)
    graph = graph_of(REGISTRY[name], sample)
    rows = [arguments(graph, sample, rng), arguments(graph, sample, rng)]
    for on in laws.masks([True] * len(rows[0])):
        made, marks = Batching(2).graph(graph, on)
        outs = exact.evaluate(made, [np.stack([a, b]) if o else a for a, b, o in zip(*rows, on, strict=True)])
        for j in range(2):
            alone = exact.evaluate(graph, [r if o else a for a, r, o in zip(rows[0], rows[j], on, strict=True)])
            for y, mark, expected in zip(outs, marks, alone, strict=True):
                assert np.array_equal(y[j] if mark else y, expected), f"{on}\n{made}"


WITHOUT_BALLS = {
    "gammainc_order": "the derivative of gammainc in its order, which is checked there",
    "gammaincinv": "an inverse: its derivative is that of gammainc, by the inverse function theorem",
    "gammainccinv": "an inverse: its derivative is that of gammaincc",
    "betaincinv": "an inverse: its derivative is that of betainc",
    "betainccinv": "an inverse: its derivative is that of betaincc",
    "stdtr": "an incomplete beta function of a rational argument; its derivative is Student's density",
    "stdtrit": "an inverse: its derivative is that of stdtr",
    "ndtri_exp": "an inverse: its derivative is that of log_ndtr",
    "owens_t": "no counterpart in ball arithmetic; differences check it",
}
"""Functions of scipy.special that only the finite differences of other laws check, each with the reason."""


@pytest.mark.parametrize("name", BALLS)
def test_partials_agree_with_ball_arithmetic(name: str) -> None:
    primitive = REGISTRY[name]
    assert isinstance(primitive, Elementwise)
    rng = np.random.default_rng(7)
    args = [np.asarray(rng.uniform(*primitive.domain, 12)) for _ in range(primitive.arity)]
    graph = graph_of(primitive, Sample(tuple(args)))
    for i, able in enumerate(laws.differentiable(graph)):
        if not able:
            continue
        wrt = tuple(j == i for j in range(len(args)))
        (found,) = laws.tangents(graph, args, wrt, [np.ones(12)])
        expected = [ball_slope(BALLS[name], [float(x[k]) for x in args], wrt) for k in range(12)]
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


def test_every_function_of_analysis_has_an_independent_check() -> None:
    unchecked = [
        name
        for name, p in {**vars(functions), **vars(special)}.items()
        if isinstance(p, Elementwise) and any(map(callable, p.partials)) and p.name not in {*BALLS, *WITHOUT_BALLS}
    ]
    assert unchecked == []
