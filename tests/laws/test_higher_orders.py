"""First, second and third derivatives at ties, at 0 and at wide gaps, in single and double precision, against balls."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from flint import arb
from tests.laws.balls import BALLS, Ball, ball_slope

import wholestep as ws
import wholestep.numpy as wnp
import wholestep.scipy.special as sp
import wholestep.scipy.stats as stats
from wholestep import nn

GAPS = (30.0, 100.0, 800.0)
ALONE = [(x,) for x in (0.0, 1.0, -1.0, 0.5, 2.0, *GAPS, *[-g for g in GAPS])]
TIES = [(x, x) for x in (0.0, 1.0, -3.0, 30.0, -800.0, 800.0)]
PAIRS = [(0.5, 2.0), *TIES, *[p for g in GAPS for p in ((0.0, g), (g, 0.0), (0.0, -g), (-g, 0.0), (g, -g))]]
ALONG = {1: [(1.0,)], 2: [(1.0, 0.0), (0.0, 1.0), (1.0, -1.0)]}

ROUNDINGS = 4000
"""The allowed error of a derivative d, in rounding errors of |d| + 0.1."""


class Law(NamedTuple):
    """A function of arrays, the same function in ball arithmetic, and a test of the points where it is smooth."""

    ours: Callable[..., Any]
    ball: Ball
    arity: int = 1
    inside: Callable[..., bool] = lambda *point: True


def ufunc(name: str) -> Callable[..., Any]:
    return getattr(np, name, None) or getattr(sp, name)


def pair(f: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of rows of two numbers."""
    return lambda x, y: f(wnp.stack([x, y], axis=-1))


def log_add(*xs: Any) -> Any:
    return sum((x.exp() for x in xs), arb(0)).log()


def logistic(x: Any) -> Any:
    return 1 / (1 + (-x).exp())


def normal(x: Any) -> Any:
    return (-x / arb(2).sqrt()).erfc() / 2


def near_normal(x: Any) -> Any:
    return (1 + ((2 / arb.pi()).sqrt() * (x + arb(0.044715) * x**3)).tanh()) / 2


def surprise(x: Any, t: float) -> Any:
    return arb(t) * log_add(arb(0), -x) + (1 - arb(t)) * log_add(arb(0), x)


def focal(x: Any, t: int, gamma: int) -> Any:
    return (logistic(-x) if t else logistic(x)) ** gamma * surprise(x, t)


def off_zero(*point: float) -> bool:
    return all(x != 0 for x in point)


def positive(*point: float) -> bool:
    return all(x > 0 for x in point)


def losses(loss: Callable[..., Any], target: float, **options: Any) -> Callable[[Any], Any]:
    return lambda x: loss(x, np.full(x.shape, target, x.dtype), reduction="none", **options)


ELEMENTARY = "exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh"
ELEMENTARY += (
    " arccosh arctanh erf erfc erfcx erfinv erfcinv expit log_expit logit gammaln digamma rgamma ndtr log_ndtr"
)
ELEMENTARY += " ndtri i0 i1 j0 j1 loggamma exprel erfi dawsn cosm1 sindg cosdg"
LAWS = {name: Law(ufunc(name), BALLS[name]) for name in ELEMENTARY.split()}
LAWS |= {
    "logaddexp": Law(np.logaddexp, log_add, 2),
    "logaddexp2": Law(np.logaddexp2, BALLS["logaddexp2"], 2),
    "logaddexp.reduce": Law(lambda x, y: np.logaddexp.reduce(wnp.stack([x, y, x])), lambda x, y: log_add(x, y, x), 2),
    "logaddexp.accumulate": Law(
        lambda x, y: np.logaddexp.accumulate(wnp.stack([x, y, x]))[2], lambda x, y: log_add(x, y, x), 2
    ),
    "arctan2": Law(np.arctan2, lambda y, x: arb.atan2(y, x), 2, lambda y, x: y != 0 or x > 0),
    "hypot": Law(np.hypot, BALLS["hypot"], 2, lambda x, y: x != 0 or y != 0),
    "power": Law(np.power, lambda x, y: x**y, 2, lambda x, y: x > 0),
    "logsumexp": Law(pair(lambda a: sp.logsumexp(a, axis=-1)), log_add, 2),
    "logsumexp with b": Law(
        pair(lambda a: sp.logsumexp(a, axis=-1, b=np.array([2.0, 0.5], np.float32))),
        lambda x, y: (2 * x.exp() + y.exp() / 2).log(),
        2,
    ),
    "softmax": Law(pair(lambda a: sp.softmax(a, axis=-1)[..., 0]), lambda x, y: logistic(x - y), 2),
    "log_softmax": Law(pair(lambda a: sp.log_softmax(a, axis=-1)[..., 0]), lambda x, y: x - log_add(x, y), 2),
    "xlogy": Law(sp.xlogy, lambda x, y: x * y.log(), 2, lambda x, y: y > 0),
    "xlog1py": Law(sp.xlog1py, lambda x, y: x * y.log1p(), 2, lambda x, y: y > -1),
    "entr": Law(sp.entr, lambda x: -x * x.log(), 1, positive),
    "rel_entr": Law(sp.rel_entr, lambda x, y: x * (x / y).log(), 2, positive),
    "kl_div": Law(sp.kl_div, lambda x, y: x * (x / y).log() - x + y, 2, positive),
    "pseudo_huber": Law(
        lambda r: sp.pseudo_huber(2.0, r), lambda r: 4 * ((1 + (r / 2) ** 2).sqrt() - 1), 1, lambda r: abs(r) < 100
    ),
    "nn.softmax": Law(pair(lambda a: nn.softmax(a)[..., 0]), lambda x, y: logistic(x - y), 2),
    "nn.log_softmax": Law(pair(lambda a: nn.log_softmax(a)[..., 0]), lambda x, y: x - log_add(x, y), 2),
    "nn.logsumexp": Law(pair(nn.logsumexp), log_add, 2),
    "nn.cross_entropy": Law(
        pair(lambda a: nn.cross_entropy(a, np.zeros(a.shape[:-1], int), reduction="none")),
        lambda x, y: log_add(x, y) - x,
        2,
    ),
    "nn.focal": Law(
        pair(lambda a: nn.focal(a, np.zeros(a.shape[:-1], int), reduction="none")),
        lambda x, y: logistic(y - x) ** 2 * (log_add(x, y) - x),
        2,
    ),
    "nn.focal, gamma 1.5": Law(
        pair(lambda a: nn.focal(a, np.zeros(a.shape[:-1], int), gamma=1.5, reduction="none")),
        lambda x, y: logistic(y - x) ** arb(1.5) * (log_add(x, y) - x),
        2,
    ),
    "nn.sigmoid": Law(nn.sigmoid, logistic),
    "nn.tanh": Law(nn.tanh, arb.tanh),
    "nn.softplus": Law(nn.softplus, lambda x: log_add(arb(0), x)),
    "nn.softplus, beta 2": Law(lambda x: nn.softplus(x, 2.0), lambda x: log_add(arb(0), 2 * x) / 2),
    "nn.gelu": Law(nn.gelu, lambda x: x * normal(x)),
    "nn.gelu, tanh": Law(lambda x: nn.gelu(x, "tanh"), lambda x: x * near_normal(x)),
    "nn.silu": Law(nn.silu, lambda x: x * logistic(x)),
    "nn.mish": Law(nn.mish, lambda x: x * log_add(arb(0), x).tanh()),
    "nn.elu": Law(nn.elu, lambda x: x if x > 0 else x.expm1(), 1, off_zero),
    "nn.selu": Law(
        nn.selu,
        lambda x: arb(1.0507009873554805) * (x if x > 0 else arb(1.6732632423543772) * x.expm1()),
        1,
        off_zero,
    ),
    "nn.celu": Law(lambda x: nn.celu(x, 2.0), lambda x: x if x > 0 else 2 * (x / 2).expm1(), 1, off_zero),
    "nn.softsign": Law(nn.softsign, lambda x: x / (1 + abs(x)), 1, off_zero),
    "nn.tanhshrink": Law(nn.tanhshrink, lambda x: x - x.tanh()),
    "nn.glu": Law(pair(lambda a: nn.glu(a)[..., 0]), lambda x, y: x * logistic(y), 2),
    "nn.geglu": Law(pair(lambda a: nn.geglu(a)[..., 0]), lambda x, y: x * y * normal(y), 2),
    "nn.swiglu": Law(pair(lambda a: nn.swiglu(a)[..., 0]), lambda x, y: x * y * logistic(y), 2),
    "nn.gated_act": Law(pair(lambda a: nn.gated_act(a)[..., 0]), lambda x, y: x.tanh() * logistic(y), 2),
    "nn.bce_with_logits, 0": Law(losses(nn.bce_with_logits, 0.0), lambda x: surprise(x, 0)),
    "nn.bce_with_logits, 1": Law(losses(nn.bce_with_logits, 1.0), lambda x: surprise(x, 1)),
    "nn.bce_with_logits, between": Law(losses(nn.bce_with_logits, 0.25), lambda x: surprise(x, 0.25)),
    "nn.bce_with_logits, pos_weight": Law(
        losses(nn.bce_with_logits, 1.0, pos_weight=3.0), lambda x: 3 * surprise(x, 1)
    ),
    "nn.binary_focal, 0": Law(losses(nn.binary_focal, 0.0, alpha=None), lambda x: focal(x, 0, 2)),
    "nn.binary_focal, 1": Law(losses(nn.binary_focal, 1.0, alpha=0.5), lambda x: focal(x, 1, 2) / 2),
    "nn.binary_focal, gamma 1.5": Law(
        losses(nn.binary_focal, 1.0, alpha=None, gamma=1.5), lambda x: focal(x, 1, arb(1.5))
    ),
    "nn.log_cosh": Law(losses(nn.log_cosh, 0.0), lambda x: x.cosh().log()),
    "nn.poisson_nll": Law(losses(nn.poisson_nll, 3.0), lambda x: x.exp() - 3 * x),
    "nn.kl_div": Law(
        lambda x: nn.kl_div(x[..., None], np.full((*x.shape, 1), 0.25, x.dtype), reduction="none"),
        lambda x: arb(0.25) * (arb(0.25).log() - x),
    ),
    "stats.norm.logcdf": Law(stats.norm.logcdf, lambda x: normal(x).log()),
    "stats.norm.logsf": Law(stats.norm.logsf, lambda x: normal(-x).log()),
    "stats.logistic.logpdf": Law(stats.logistic.logpdf, lambda x: -x - 2 * log_add(arb(0), -x)),
    "stats.logistic.cdf": Law(stats.logistic.cdf, logistic),
}


def backwards(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return ws.grad(lambda t: wnp.sum(f(t)))


def forwards(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda t: ws.jvp(f, (t,), (np.ones(t.shape, t.dtype),))[1]


def slopes(f: Callable[[Any], Any], derive: Callable[..., Any], at: Any) -> Iterator[Any]:
    """The derivatives of orders 1, 2 and 3 of an elementwise function at the given numbers."""
    for _ in range(3):
        f = derive(f)
        yield np.asarray(f(at))


def places(law: Law) -> list[tuple[float, ...]]:
    """Points at which the function is smooth and has a value."""
    every = ALONE if law.arity == 1 else PAIRS
    return [p for p in every if law.inside(*p) and np.isfinite(value(law.ball, p))]


def value(ball: Ball, point: tuple[float, ...]) -> float:
    try:
        found = ball(*map(arb, point))
        return float(found) if found.is_finite() else np.nan
    except (ValueError, ZeroDivisionError, OverflowError):
        return np.nan


@pytest.mark.parametrize("derive", [backwards, forwards])
@pytest.mark.parametrize("name", LAWS)
def test_three_orders_agree_with_balls(name: str, derive: Callable[..., Any]) -> None:
    law = LAWS[name]
    points = places(law)
    assert points
    for u in ALONG[law.arity]:
        expected = [[ball_slope(law.ball, p, u, order) for p in points] for order in (1, 2, 3)]
        for dtype in (np.float64, np.float32):
            starts = [np.array(x, dtype) for x in zip(*points, strict=True)]

            def along(t: Any, starts: Any = starts, u: Any = u) -> Any:
                return law.ours(*[x + t * float(d) for x, d in zip(starts, u, strict=True)])

            with np.errstate(all="ignore"):
                found = list(slopes(along, derive, np.zeros(len(points), dtype)))
            for order, (got, want) in enumerate(zip(found, np.array(expected), strict=True), 1):
                fits = np.abs(want) < np.finfo(dtype).max
                with np.errstate(invalid="ignore"):
                    near = np.abs(got - want) <= ROUNDINGS * np.finfo(dtype).eps * (np.abs(want) + 0.1)
                wrong = [(points[k], got[k], want[k]) for k in np.flatnonzero(fits & ~near)]
                assert not wrong, f"order {order} along {u} in {dtype.__name__}: {wrong}"
