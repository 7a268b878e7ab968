"""Calls of scipy.stats on samples for the coverage tests: moments, means, spreads, ranks and correlations."""

from typing import Any

import numpy as np
from tests.coverage.cases import Case

from wholestep.scipy import stats

rng = np.random.default_rng(33)
A, B = rng.uniform(0.2, 3.0, (2, 5, 4, 3))
MISSING, CONSTANT = A.copy(), A.copy()
MISSING[1, 2, 0], CONSTANT[:, 0, 0] = np.nan, 2.0
TIED = rng.integers(0, 3, (6, 5))
WHOLE = rng.integers(1, 9, (4, 3))
SINGLE = A.astype(np.float32)

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "sem": [{}, {"ddof": 0}],
    "zscore": [{}, {"ddof": 1}],
    "skew": [{}, {"bias": False}],
    "kurtosis": [{}, {"bias": False}, {"fisher": False}],
    "variation": [{}, {"ddof": 1}, {"ddof": 5}, {"ddof": 7}],
    "gmean": [{}],
    "hmean": [{}],
    "moment": [{}, {"order": 0}, {"order": 2}, {"order": 3, "center": 0.5}, {"order": [0, 1, 2, 5]}],
    "entropy": [{}, {"base": 2}],
    "iqr": [
        {},
        {"scale": "normal"},
        {"scale": 2.0},
        {"rng": (90, 10), "interpolation": "midpoint"},
        *[{"interpolation": name} for name in ("nearest", "lower", "higher", "hazen")],
    ],
}


def reductions() -> dict[str, list[Case]]:
    """Every function with its options along one axis, several and all, on floats, integers, NaN and constants."""
    made: dict[str, list[Case]] = {}
    for name, forms in OPTIONS.items():
        f: Any = getattr(stats, name)

        def bound(f: Any = f, **options: Any) -> Any:
            return lambda a: f(a, **options)

        kept: Any = [{}] if name == "zscore" else [{}, {"keepdims": True}]
        cases = [Case(bound(**o), A, grad=o.get("ddof", 0) < 5, rtol=1e-11) for o in forms]
        for axis in (None, -1, (0, 2)):
            cases += [Case(bound(axis=axis, **o, **k), A, rtol=1e-11) for o in forms[:2] for k in kept]
        for x, rtol in ((MISSING, 1e-11), (CONSTANT, 1e-11), (WHOLE, 1e-11), (SINGLE, 1e-4), (A[:2, 0, 0], 1e-11)):
            cases += [Case(bound(**o), x, grad=False, rtol=rtol) for o in forms]
        few = [A[:1, 0]] if name == "zscore" else [A[:1, 0], A[0, 0, 0]]
        cases += [Case(bound(), x, grad=False, rtol=1e-11) for x in few]
        made[f"scipy.stats.{name}"] = cases
    return made


def pairs() -> dict[str, list[Case]]:
    """Functions of two samples, each part of their results."""
    weighted = {
        f"scipy.stats.{name}": [
            Case(lambda x, w, f=f: f(x, weights=w), A, B, rtol=1e-11),
            Case(lambda x, w, f=f: f(x, axis=None, weights=w), A, B, rtol=1e-11),
            Case(lambda x, f=f: f(x, axis=1, dtype=np.float32), A, grad=False, rtol=1e-5),
            *([Case(lambda x: stats.hmean(x - 1.0), A, grad=False, rtol=1e-11)] if name == "hmean" else []),
        ]
        for name, f in (("gmean", stats.gmean), ("hmean", stats.hmean))
    }
    relative = [
        Case(lambda p, q: stats.entropy(p, q, axis=1), A, B, rtol=1e-11),
        Case(lambda p, q: stats.entropy(p, q, base=10, keepdims=True), A, B[:, :1], rtol=1e-11),
    ]
    pearson, spearman = [], []
    for form in ("two-sided", "less", "greater"):
        for i in (0, 1):

            def of(x: Any, y: Any, form: str = form, i: int = i, **options: Any) -> Any:
                return stats.pearsonr(x, y, alternative=form, **options)[i]

            def by_rank(*xs: Any, form: str = form, i: int = i, **options: Any) -> Any:
                return stats.spearmanr(*xs, alternative=form, **options)[i]

            pearson += [Case(of, A, B, rtol=1e-9), Case(of, A[:, 0, 0], B[:, 0, 0], rtol=1e-9)]
            pearson += [Case(lambda x, y, of=of: of(x, y, axis=None), SINGLE, B, grad=False, rtol=1e-4)]
            pearson += [Case(of, x, B[: len(x)], grad=False, rtol=1e-9) for x in (A[:2], MISSING, CONSTANT)]
            spearman += [
                Case(lambda x, y, f=by_rank: f(x, y), TIED[:, 0], TIED[:, 1], rtol=1e-10),
                Case(lambda x, y, f=by_rank: f(x, y), A[:, 0], B[:, 1], grad=False, rtol=1e-9),
                Case(lambda x, f=by_rank: f(x, axis=1), TIED, rtol=1e-9),
                Case(lambda x, y, f=by_rank: f(x, y, axis=None), A, B, grad=False, rtol=1e-9),
                Case(lambda x, y, f=by_rank: f(x, y), MISSING[:, 2, 0], B[:, 0, 0], grad=False, types=False),
                Case(lambda x, y, f=by_rank: f(x, y), CONSTANT[:, 0, 0], B[:, 0, 0], grad=False, types=False),
            ]
    spearman += [Case(lambda x, y: stats.spearmanr(x, y).correlation, A[:, 0, 0], B[:, 0, 0], grad=False, rtol=1e-11)]
    return {
        **weighted,
        "scipy.stats.entropy": relative,
        "scipy.stats.pearsonr": pearson,
        "scipy.stats.spearmanr": spearman,
    }


def ranks() -> list[Case]:
    """Ranks by every method, with ties, of every kind of number, of nothing, and by average with NaN."""
    found = []
    for method in ("average", "min", "max", "dense", "ordinal"):
        for axis in (None, 0, -1):

            def of(x: Any, method: str = method, axis: Any = axis) -> Any:
                return stats.rankdata(x, method, axis=axis)

            several = [TIED, TIED.astype(np.float32), TIED > 0, A, np.zeros((3, 0)), np.float64(2.0)[None]]
            found += [Case(of, x, grad=False) for x in several + [MISSING] * (method == "average")]
    return found


CASES: dict[str, list[Case]] = {"scipy.stats.rankdata": ranks(), **reductions()}
for name, cases in pairs().items():
    CASES.setdefault(name, []).extend(cases)
