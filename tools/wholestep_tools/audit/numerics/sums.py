"""`wholestep audit sums`: compiled sums, products, norms and softmaxes of hostile operands against exact values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep.ir.graph import NDArray
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record

CLAIM = "Compiled reductions of hostile float32 operands are within a stated multiple of the rounding unit"
UNIT = 2.0**-24
TINY = 2.0**-126
"""Subnormal numbers may be flushed inside a kernel."""
FACTOR = 8
"""The largest number that stands beside a subnormal one."""
SIZES = (1, 2, 3, 7, 8, 15, 16, 17, 31, 64, 100, 255, 1000, 4096)


class Reduction(NamedTuple):
    """A reduction: its exact value, the size that its error is measured by, and how many units that may be."""

    compiled: Callable[[Any, Any], Any]
    exact: Callable[[NDArray, NDArray], float]
    size: Callable[[NDArray, NDArray], float]
    units: Callable[[int], float]
    lost: Callable[[int], float] = lambda n: n * TINY
    """The loss that is allowed where numbers, or their products, are subnormal."""


def spread(x: NDArray) -> float:
    """The sum of squared distances from the mean, exactly."""
    mean = math.fsum(x) / len(x)
    return math.fsum((x - mean) ** 2)


def first_share(x: NDArray) -> float:
    """The first number of a softmax."""
    return math.exp(x[0] - np.max(x)) / math.fsum(np.exp(x - np.max(x)))


def terms(n: int) -> float:
    """The units of a sum of so many terms, added up in lanes: an eighth of a unit for each, and sixteen."""
    return n / 8 + 16


REDUCTIONS: Mapping[str, Reduction] = {
    "sum": Reduction(lambda x, y: np.sum(x), lambda x, y: math.fsum(x), lambda x, y: math.fsum(abs(x)), terms),
    "mean": Reduction(
        lambda x, y: np.mean(x), lambda x, y: math.fsum(x) / len(x), lambda x, y: math.fsum(abs(x)) / len(x), terms
    ),
    "product of vectors": Reduction(
        lambda x, y: x @ y,
        lambda x, y: math.fsum(x * y),
        lambda x, y: math.fsum(abs(x * y)),
        terms,
        lambda n: FACTOR * n * TINY,
    ),
    "product of matrices": Reduction(
        lambda x, y: (x[None, :] @ y[:, None])[0, 0],
        lambda x, y: math.fsum(x * y),
        lambda x, y: math.fsum(abs(x * y)),
        terms,
        lambda n: FACTOR * n * TINY,
    ),
    "norm": Reduction(
        lambda x, y: np.sqrt(np.sum(x * x)),
        lambda x, y: math.sqrt(math.fsum(x * x)),
        lambda x, y: math.sqrt(math.fsum(x * x)),
        terms,
        lambda n: math.sqrt(n * TINY),
    ),
    "variance": Reduction(
        lambda x, y: np.var(x),
        lambda x, y: spread(x) / len(x),
        lambda x, y: math.fsum(x * x) / len(x),
        lambda n: 4 * terms(n),
    ),
    "largest": Reduction(lambda x, y: np.max(x), lambda x, y: float(np.max(x)), lambda x, y: 0.0, lambda n: 0.0),
    "cumulative sum": Reduction(
        lambda x, y: np.cumsum(x)[-1], lambda x, y: math.fsum(x), lambda x, y: math.fsum(abs(x)), lambda n: n + 16.0
    ),
    "logsumexp": Reduction(
        lambda x, y: np.log(np.sum(np.exp(x - np.max(x)))) + np.max(x),
        lambda x, y: float(np.max(x)) + math.log(math.fsum(np.exp(x - np.max(x)))),
        lambda x, y: float(np.max(abs(x))) + 1.0,
        terms,
    ),
    "softmax": Reduction(
        lambda x, y: (np.exp(x - np.max(x)) / np.sum(np.exp(x - np.max(x))))[0],
        lambda x, y: first_share(x),
        lambda x, y: first_share(x) * (1.0 + float(np.max(x) - x[0])),
        terms,
    ),
}


def operands(kind: str, n: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
    """Two vectors of float32: ordinary, cancelling, of very different sizes, subnormal, or all but equal."""
    x = rng.normal(size=n)
    if kind == "cancelling":
        x[n // 2 :] = -x[: n - n // 2] * (1 + 1e-6 * rng.normal(size=n - n // 2))
    elif kind == "spread":
        x = x * 10.0 ** rng.integers(-12, 13, n)
    elif kind == "subnormal":
        x = x * 1e-38
    elif kind == "close":
        x = 1000.0 + x * 1e-3
    return x.astype(np.float32), rng.permutation(x if kind != "subnormal" else x * 1e38).astype(np.float32)


KINDS = ("ordinary", "cancelling", "spread", "subnormal", "close")


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many operands; the record of it."""
    seen, rng = Seen(), np.random.default_rng(seed)
    programs: dict[tuple[str, int], Any] = {}
    worst = {name: dict.fromkeys(KINDS, 0.0) for name in REDUCTIONS}
    for i in range(count):
        name, kind = list(REDUCTIONS)[i % len(REDUCTIONS)], KINDS[i // len(REDUCTIONS) % len(KINDS)]
        n, about = int(rng.choice(SIZES)), REDUCTIONS[name]
        x, y = operands(kind, n, rng)
        program = programs.setdefault((name, n), ws.jit(about.compiled))
        wide = x.astype(np.float64), y.astype(np.float64)
        exact, found = about.exact(*wide), float(program(x, y))
        size = about.size(*wide)
        off = abs(found - exact) - about.lost(n)
        units = max(0.0, off / (UNIT * size)) if size else float(off > 0)
        worst[name][kind] = max(worst[name][kind], units / max(about.units(n), 1.0))
        seen.right(units <= about.units(n), f"operands {i}, {name} of {n}, {kind}: {units:.3g} units")
    checks = {"operands": count, "reductions": len(REDUCTIONS), "kinds of operands": len(KINDS)}
    return record("sums", CLAIM, checks, seen.failures, seed=seed, measured=worst)


AUDIT = Audit(
    "sums",
    audit,
    10_000,
    "compute sums, products, norms and softmaxes of hostile operands",
    """\
Vectors of up to 4,096 numbers of float32, ordinary, cancelling, from 1e-12 to 1e12, subnormal, or all but equal,
are reduced by compiled programs, and exactly in double precision with sums that have one rounding. The error may
be, in units of 2**-24 of the sum of absolute terms, an eighth of their number and sixteen; four times that for a
variance, beside the mean square, and the number of terms for a cumulative sum; and what comes from subnormal
numbers being flushed. The table has the largest error found as a part of what is allowed.""",
)
