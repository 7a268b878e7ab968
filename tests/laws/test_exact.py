"""Rules checked without rounding: polynomials modulo a prime, functions of analysis against ball arithmetic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flint
import numpy as np
import pytest

from wholestep.ir.graph import Graph
from wholestep.ir.verify import verify
from wholestep.primitives import functions, special
from wholestep.primitives.family import REGISTRY, Elementwise, Sample
from wholestep.testing import exact, laws
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
    """Residues where the sample has floats; a zero stays zero, so that rules meet it."""
    args = []
    for x, t in zip(map(np.asarray, sample.inputs), graph.in_types, strict=True):
        args.append(np.where(x == 0, 0, exact.drawn(rng, t)) if t.inexact else x)
    return args


@pytest.mark.parametrize(("name", "i"), CALLS, ids=[f"{name}-{i}" for name, i in CALLS])
def test_rules_hold_exactly(name: str, i: int) -> None:
    sample, rng = samples_of(REGISTRY[name])[i], np.random.default_rng(i)
    graph = graph_of(REGISTRY[name], sample)
    args = arguments(graph, sample, rng)
    active = laws.differentiable(graph)
    dxs = [exact.drawn(rng, t) for t, a in zip(graph.in_types, active, strict=True) if a]
    gys = [exact.drawn(rng, t) for t in graph.out_types]

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
    assert exact.inner(gys, dys) == exact.inner(gxs, dxs)
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


arb = flint.arb
BALLS: dict[str, Callable[..., Any]] = {
    "exp": arb.exp,
    "exp2": lambda x: (x * arb(2).log()).exp(),
    "expm1": arb.expm1,
    "log": arb.log,
    "log2": lambda x: x.log() / arb(2).log(),
    "log10": lambda x: x.log() / arb(10).log(),
    "log1p": arb.log1p,
    "sqrt": arb.sqrt,
    "cbrt": lambda x: x.root(3),
    "sin": arb.sin,
    "cos": arb.cos,
    "tan": arb.tan,
    "arcsin": arb.asin,
    "arccos": arb.acos,
    "arctan": arb.atan,
    "sinh": arb.sinh,
    "cosh": arb.cosh,
    "tanh": arb.tanh,
    "arcsinh": arb.asinh,
    "arccosh": arb.acosh,
    "arctanh": arb.atanh,
    "arctan2": lambda y, x: arb.atan2(y, x),
    "hypot": lambda x, y: (x * x + y * y).sqrt(),
    "logaddexp": lambda x, y: (x.exp() + y.exp()).log(),
    "logaddexp2": lambda x, y: (arb(2) ** x + arb(2) ** y).log() / arb(2).log(),
    "pow": lambda x, y: x**y,
    "div": lambda x, y: x / y,
    "erf": arb.erf,
    "erfc": arb.erfc,
    "erfcx": lambda x: (x * x).exp() * x.erfc(),
    "erfinv": arb.erfinv,
    "erfcinv": arb.erfcinv,
    "expit": lambda x: 1 / (1 + (-x).exp()),
    "log_expit": lambda x: -((-x).exp()).log1p(),
    "logit": lambda x: (x / (1 - x)).log(),
    "gammaln": arb.lgamma,
    "digamma": arb.digamma,
    "gamma": arb.gamma,
    "zeta": lambda s, q: s.zeta(q),
    "ndtr": lambda x: (-x / arb(2).sqrt()).erfc() / 2,
    "log_ndtr": lambda x: ((-x / arb(2).sqrt()).erfc() / 2).log(),
    "ndtri": lambda p: -arb(2).sqrt() * (2 * p).erfcinv(),
    "i0": lambda x: x.bessel_i(arb(0)),
    "i1": lambda x: x.bessel_i(arb(1)),
    "i0e": lambda x: (-abs(x)).exp() * x.bessel_i(arb(0)),
    "i1e": lambda x: (-abs(x)).exp() * x.bessel_i(arb(1)),
    "j0": lambda x: x.bessel_j(arb(0)),
    "j1": lambda x: x.bessel_j(arb(1)),
    "loggamma": arb.lgamma,
    "rgamma": arb.rgamma,
    "beta": lambda a, b: a.gamma() * b.gamma() / (a + b).gamma(),
    "betaln": lambda a, b: a.lgamma() + b.lgamma() - (a + b).lgamma(),
    "poch": lambda x, m: (x + m).gamma() / x.gamma(),
    "binom": lambda n, k: (n + 1).gamma() / ((k + 1).gamma() * (n - k + 1).gamma()),
    "gammainc": lambda a, x: x.gamma_lower(a, regularized=1),
    "gammaincc": lambda a, x: x.gamma_upper(a, regularized=1),
    "betainc": lambda a, b, x: x.beta_lower(a, b, regularized=1),
    "betaincc": lambda a, b, x: 1 - x.beta_lower(a, b, regularized=1),
    "jv": lambda v, x: x.bessel_j(v),
    "yv": lambda v, x: x.bessel_y(v),
    "iv": lambda v, x: x.bessel_i(v),
    "kv": lambda v, x: x.bessel_k(v),
    "ive": lambda v, x: (-abs(x)).exp() * x.bessel_i(v),
    "kve": lambda v, x: x.exp() * x.bessel_k(v),
    "y0": lambda x: x.bessel_y(arb(0)),
    "y1": lambda x: x.bessel_y(arb(1)),
    "k0": lambda x: x.bessel_k(arb(0)),
    "k1": lambda x: x.bessel_k(arb(1)),
    "k0e": lambda x: x.exp() * x.bessel_k(arb(0)),
    "k1e": lambda x: x.exp() * x.bessel_k(arb(1)),
    "hyp0f1": lambda b, x: x.hypgeom_0f1(b),
    "hyp1f1": lambda a, b, x: x.hypgeom_1f1(a, b),
    "hyp2f1": lambda a, b, c, x: x.hypgeom_2f1(a, b, c),
    "exprel": lambda x: x.expm1() / x,
    "spence": lambda x: (1 - x).polylog(arb(2)),
    "ellipk": lambda m: arb.pi() / (2 * arb(1).agm((1 - m).sqrt())),
    "ellipe": lambda m: arb.pi() / 2 * m.hypgeom_2f1(arb(-0.5), arb(0.5), arb(1)),
    "erfi": arb.erfi,
    "dawsn": lambda x: arb.pi().sqrt() / 2 * (-x * x).exp() * x.erfi(),
    "expi": arb.ei,
    "exp1": lambda x: x.expint(arb(1)),
    "cosm1": lambda x: x.cos() - 1,
    "sindg": lambda x: (x / 180).sin_pi(),
    "cosdg": lambda x: (x / 180).cos_pi(),
    "tandg": lambda x: (x / 180).tan_pi(),
    "cotdg": lambda x: 1 / (x / 180).tan_pi(),
}

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
"""Functions of scipy.special that the differences of the other laws must do for, and why."""


def ball_slope(function: Callable[..., Any], point: list[float], i: int) -> float:
    """A partial derivative by a central difference that carries 500 bits: 1e-60 off at most."""
    step = arb(10) ** -40

    def at(sign: int) -> Any:
        return function(*[arb(x) + (sign * step if j == i else 0) for j, x in enumerate(point)])

    return float((at(1) - at(-1)) / (2 * step))


@pytest.mark.parametrize("name", BALLS)
def test_partials_agree_with_ball_arithmetic(name: str) -> None:
    primitive = REGISTRY[name]
    assert isinstance(primitive, Elementwise)
    rng = np.random.default_rng(7)
    flint.ctx.prec = 500
    args = [np.asarray(rng.uniform(*primitive.domain, 12)) for _ in range(primitive.arity)]
    graph = graph_of(primitive, Sample(tuple(args)))
    for i, able in enumerate(laws.differentiable(graph)):
        if not able:
            continue
        wrt = tuple(j == i for j in range(len(args)))
        (found,) = laws.tangents(graph, args, wrt, [np.ones(12)])
        expected = [ball_slope(BALLS[name], [float(x[k]) for x in args], i) for k in range(12)]
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13)


def test_every_function_of_analysis_has_an_independent_check() -> None:
    unchecked = [
        name
        for name, p in {**vars(functions), **vars(special)}.items()
        if isinstance(p, Elementwise) and any(map(callable, p.partials)) and p.name not in {*BALLS, *WITHOUT_BALLS}
    ]
    assert unchecked == []
