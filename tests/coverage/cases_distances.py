"""Calls of scipy.spatial for the coverage tests: distances of vectors and of all pairs of rows."""

from typing import Any

import numpy as np
from tests.coverage.cases import Case

from wholestep.scipy import spatial
from wholestep.scipy.spatial import distance

rng = np.random.default_rng(58)
U, V, W = rng.normal(size=(3, 6))
W = np.abs(W) + 0.1
A, B = rng.integers(-40, 40, size=(7, 3)) / 16 + 1 / 96, rng.integers(-40, 40, size=(5, 3)) / 16 + [1 / 48, 0, -1 / 64]
SINGLE, WHOLE = A.astype("f4"), rng.integers(-9, 9, size=(6, 3))
WEIGHTS = np.array([0.5, 0.0, 2.0])
SPREAD = np.array([[2.0, 0.3, 0.0], [0.3, 1.0, 0.2], [0.0, 0.2, 0.7]])
TIGHT: dict[str, Any] = {"rtol": 1e-14}

WEIGHTED = "braycurtis chebyshev cityblock correlation cosine euclidean minkowski sqeuclidean".split()
OPTIONS: list[tuple[str, dict[str, Any]]] = [
    *[(name, {}) for name in (*WEIGHTED, "mahalanobis", "seuclidean", "sqe", "cheby", "eu")],
    *[(name, {"w": WEIGHTS}) for name in ("chebyshev", "cityblock", "euclidean", "minkowski", "sqeuclidean")],
    ("minkowski", {"p": 1}),
    ("minkowski", {"p": 3, "w": WEIGHTS}),
    ("minkowski", {"p": 1.5}),
    ("minkowski", {"p": np.inf}),
    ("mahalanobis", {"VI": SPREAD}),
    ("seuclidean", {"V": np.array([0.5, 1.0, 2.0])}),
]


def pairs(*xs: Any) -> list[Case]:
    """Calls of cdist or pdist with every metric."""
    f: Any = distance.pdist if len(xs) == 1 else distance.cdist
    made = [Case(lambda *xs, m=m, o=o: f(*xs, m, **o), *xs, rtol=1e-14, drtol=1e-5) for m, o in OPTIONS]
    made += [Case(lambda *xs, m=m: f(*xs, m), *[SINGLE for _ in xs], rtol=1e-6, grad=False) for m in WEIGHTED]
    made += [Case(lambda *xs, m=m: f(*xs, m), *[WHOLE for _ in xs]) for m in ("euclidean", "cityblock")]
    made += [Case(lambda *xs: f(*xs, lambda u, v: np.sum(np.abs(u - v) ** 3)), *xs, **TIGHT)]
    return [*made, Case(lambda *xs: f(*xs, distance.euclidean), *xs, **TIGHT)]


CASES = {
    f"scipy.spatial.distance.{name}": [
        Case(getattr(distance, name), U, V, **TIGHT),
        Case(getattr(distance, name), U, V, W, **TIGHT)
        if name != "minkowski"
        else Case(lambda u, v, w: distance.minkowski(u, v, 3, w), U, V, W),
        Case(getattr(distance, name), U.astype("f4"), V.astype("f4"), rtol=1e-6, grad=False, types=False),
        Case(getattr(distance, name), WHOLE[0], WHOLE[1], types=False, rtol=1e-14),
    ]
    for name in WEIGHTED
} | {
    "scipy.spatial.distance.mahalanobis": [Case(distance.mahalanobis, A[0], A[1], SPREAD, **TIGHT)],
    "scipy.spatial.distance.seuclidean": [Case(distance.seuclidean, A[0], A[1], W[:3], **TIGHT)],
    "scipy.spatial.distance.cdist": pairs(A, B),
    "scipy.spatial.distance.pdist": [*pairs(A), Case(distance.pdist, A[:1])],
    "scipy.spatial.distance.squareform": [
        Case(distance.squareform, np.arange(6.0)),
        Case(lambda x: distance.squareform(x, force="tomatrix"), np.arange(3)),
        Case(distance.squareform, np.zeros(0)),
        Case(distance.squareform, SPREAD - np.diag(np.diag(SPREAD)), grad=False),
        Case(lambda x: distance.squareform(x, checks=False), A[:3]),
        Case(distance.squareform, np.zeros((1, 1)), grad=False),
    ],
    "scipy.spatial.distance_matrix": [
        *[Case(lambda x, y, p=p: spatial.distance_matrix(x, y, p), A, B, **TIGHT) for p in (1, 2, 3.5, np.inf)],
        Case(spatial.distance_matrix, SINGLE, SINGLE[:2], rtol=1e-6, grad=False),
    ],
}
