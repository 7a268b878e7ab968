"""scipy.spatial.distance: distances between two vectors, and between all pairs of the rows of matrices.

At distance 0, where most of them have no derivative, it is 0: so are those of a row and itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import scipy.spatial

from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.batching import vmap
from wholestep.frontend.dispatch import binds
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.promotion import inexact_array, lift
from wholestep.frontend.source.entrance import ordinary
from wholestep.scipy.outside import doubles, dtype_outside, fallback, np

outside: Any = scipy.spatial.distance


def __getattr__(name: str) -> Any:
    return fallback(outside, name)


def length(x: Any) -> Any:
    """The square root of a square, with the derivative 0 at 0."""
    nothing = x == 0
    return np.where(nothing, 0, np.sqrt(np.where(nothing, 1, x)))[()]


def vectors(name: str, *xs: Any) -> list[Any]:
    """Operands that are vectors: of floats, integers as float64, but where distances of integers are integers."""
    made = [lift(x) if name in ("chebyshev", "cityblock") else inexact_array(x) for x in xs]
    for x in made:
        if x.ndim != 1:
            raise ShapeError(f"{name}: takes vectors, not {x.type}")
    return made


def matrices(name: str, *xs: Any) -> tuple[Any, ...]:
    """Operands that are matrices of rows of one length."""
    for x in xs:
        if x.ndim != 2 or x.shape[1] != xs[0].shape[1]:
            raise ShapeError(
                f"{name}: takes matrices of rows of one length, not {' and '.join(str(x.type) for x in xs)}"
            )
        if x.dtype.kind == "c":
            raise UnsupportedError(f"{name}: not covered for complex arrays such as {x.type}")
    return xs


def minkowski_of(u: Any, v: Any, p: Any = 2, w: Any = None) -> Any:
    """The p-norm of the difference, element by element weighted."""
    if p <= 0:
        raise ParameterError(f"minkowski: p is {p}, which must be greater than 0")
    off = u - v
    if w is not None:
        off = off * (lift(w) != 0 if p == np.inf else lift(w) ** (1 / p))
    return np.linalg.norm(off, p, axis=-1)


def euclidean_of(u: Any, v: Any, w: Any = None) -> Any:
    """The length of the difference."""
    return minkowski_of(u, v, 2, w)


def sqeuclidean_of(u: Any, v: Any, w: Any = None) -> Any:
    """The square of that length."""
    square = (u - v) ** 2
    return np.sum(square if w is None else square * w, axis=-1)


def cityblock_of(u: Any, v: Any, w: Any = None) -> Any:
    """The sum of the sizes of differences."""
    size = np.abs(u - v)
    return np.sum(size if w is None else size * w, axis=-1)


def chebyshev_of(u: Any, v: Any, w: Any = None) -> Any:
    """The largest difference, where weights are positive."""
    size = np.abs(u - v)
    return np.max(size if w is None else size * (lift(w) > 0), axis=-1)


def braycurtis_of(u: Any, v: Any, w: Any = None) -> Any:
    """The sum of the sizes of differences over that of sums."""
    return cityblock_of(u, v, w) / cityblock_of(u, -v, w)


def cosine_of(u: Any, v: Any, w: Any = None) -> Any:
    """1 less the cosine of the angle, between 0 and 2 in spite of rounding."""
    uw, vw = (u, v) if w is None else (u * w, v * w)
    made = 1 - np.sum(u * vw, axis=-1) / np.sqrt(np.sum(u * uw, axis=-1) * np.sum(v * vw, axis=-1))
    fixed = stop_gradient(made)
    return made + (np.clip(fixed, 0, 2) - fixed)


def correlation_of(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    """1 less the correlation: the cosine distance of the deviations from the mean."""
    share = None if w is None else lift(w) / np.sum(lift(w))
    if centered:
        u, v = [x - np.sum(x * (1 / x.shape[-1] if share is None else share), axis=-1, keepdims=True) for x in (u, v)]
    return cosine_of(u, v, share)


def mahalanobis_of(u: Any, v: Any, VI: Any) -> Any:
    """The length of the difference in the measure of an inverse covariance."""
    off = u - v
    return length(np.sum((off @ lift(np.atleast_2d(VI))) * off, axis=-1))


def seuclidean_of(u: Any, v: Any, V: Any) -> Any:
    """The length of the difference in units of deviations, of which V are the squares."""
    return euclidean_of(u, v, 1 / lift(V))


METRICS: dict[str, Callable[..., Any]] = {
    "braycurtis": braycurtis_of,
    "chebyshev": chebyshev_of,
    "cityblock": cityblock_of,
    "correlation": correlation_of,
    "cosine": cosine_of,
    "euclidean": euclidean_of,
    "mahalanobis": mahalanobis_of,
    "minkowski": minkowski_of,
    "seuclidean": seuclidean_of,
    "sqeuclidean": sqeuclidean_of,
}
"""The name of a distance -> the distance of vectors along the last axis."""


OWN_DTYPES = ("braycurtis", "euclidean", "minkowski", "seuclidean")
"""The distances of two vectors to which SciPy gives dtypes of their own."""


def of_vectors(name: str) -> Callable[..., Any]:
    """The distance of two vectors, as SciPy calls it."""

    known = getattr(outside, name)

    def implementation(u: Any, v: Any, **given: Any) -> Any:
        u, v = vectors(name, u, v)
        made = METRICS[name](u, v, **given)
        if name not in OWN_DTYPES:
            return made
        arrays = {key: x if key == "p" else lift(x).dtype for key, x in given.items() if x is not None}
        return made.astype(dtype_outside(known, u.dtype, v.dtype, **arrays), copy=False)

    return binds(known)(implementation)


braycurtis = of_vectors("braycurtis")
chebyshev = of_vectors("chebyshev")
cityblock = of_vectors("cityblock")
correlation = of_vectors("correlation")
cosine = of_vectors("cosine")
euclidean = of_vectors("euclidean")
mahalanobis = of_vectors("mahalanobis")
minkowski = of_vectors("minkowski")
seuclidean = of_vectors("seuclidean")
sqeuclidean = of_vectors("sqeuclidean")


def metric_of(name: str, metric: Any, rows: Any, given: dict[str, Any]) -> Callable[[Any, Any], Any]:
    """The distance of rows along the last axis that a metric's name asks for; `rows` are all there are."""
    if not isinstance(metric, str):
        raise ParameterError(f"{name}: the metric is {metric!r}, and not a name or a function")
    known = getattr(outside, "_METRIC_ALIAS", {}).get(metric.lower())
    canonical = metric.lower() if known is None else known.canonical_name
    if canonical not in METRICS:
        raise UnsupportedError(
            f"{name}: the metric {metric!r} is not covered for traced arrays", hint=f"these are: {', '.join(METRICS)}"
        )
    if canonical == "seuclidean" and given.get("V") is None:
        given = {**given, "V": np.var(np.concatenate(rows), axis=0, ddof=1)}
    if canonical == "mahalanobis" and given.get("VI") is None:
        whole = np.concatenate(rows)
        if whole.shape[0] <= whole.shape[1]:
            raise ShapeError(f"{name}: too few rows for a covariance: {whole.type}")
        given = {**given, "VI": np.linalg.inv(np.atleast_2d(np.cov(whole.T))).T}
    return lambda u, v: METRICS[canonical](u, v, **given)


@binds(outside.cdist)
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", **given: Any) -> Any:
    """scipy.spatial.distance.cdist: in float64; a function of two vectors is called for a batch of all pairs."""
    if callable(metric):
        rows, columns = matrices("cdist", lift(XA), lift(XB))
        each = vmap(vmap(lambda u, v: ordinary(metric)(u, v, **given), in_axes=(None, 0)), in_axes=(0, None))
        return doubles(each(rows, columns))
    rows, columns = map(doubles, matrices("cdist", lift(XA), lift(XB)))
    return metric_of("cdist", metric, (rows, columns), given)(rows[:, None, :], columns[None, :, :])


@binds(outside.pdist)
def pdist(X: Any, metric: Any = "euclidean", **given: Any) -> Any:
    """scipy.spatial.distance.pdist: in float64; a function of two vectors is called for a batch of all pairs."""
    (rows,) = matrices("pdist", lift(X))
    first, second = np.triu_indices(int(rows.shape[0]), 1)
    if callable(metric):
        return doubles(vmap(lambda u, v: ordinary(metric)(u, v, **given))(rows[first], rows[second]))
    rows = doubles(rows)
    return metric_of("pdist", metric, (rows,), given)(rows[first], rows[second])


@binds(outside.squareform, ignored="checks")
def squareform(X: Any, force: str = "no") -> Any:
    """scipy.spatial.distance.squareform: a matrix by its upper triangle, and whether it is symmetric is not checked."""
    x = lift(X)
    if x.ndim not in (1, 2):
        raise ShapeError(f"squareform: takes a vector or a matrix, not {x.type}")
    if force.lower() != "no" and force.lower() != ("tomatrix" if x.ndim == 1 else "tovector"):
        raise ParameterError(f"squareform: force={force!r} does not fit {x.type}")
    if x.ndim == 2:
        if x.shape[0] != x.shape[1]:
            raise ShapeError(f"squareform: the matrix must be square, not {x.type}")
        return x[np.triu_indices(int(x.shape[0]), 1)]
    size = math.isqrt(2 * int(x.shape[0])) + 1
    if size * (size - 1) != 2 * int(x.shape[0]):
        raise ShapeError(f"squareform: {x.type} has not the size of a triangle")
    places = np.zeros((size, size), np.int64)
    places[np.triu_indices(size, 1)] = np.arange(1, int(x.shape[0]) + 1)
    return np.concatenate([np.zeros(1, x.dtype), x])[places + places.T]
