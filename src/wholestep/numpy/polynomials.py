"""NumPy's polynomials, highest power first."""

from __future__ import annotations

import operator
from typing import Any

from wholestep import dtypes
from wholestep.errors import ParameterError, ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import covers, is_traced
from wholestep.frontend.promotion import lift, promoted
from wholestep.numpy.calculus import convolve
from wholestep.numpy.movement import check_count, concatenate, ravel, stack, traced_array
from wholestep.numpy.outside import np
from wholestep.numpy.selection import known_of


@covers(np.polyval)
def polyval(p: Any, x: Any) -> Any:
    """numpy.polyval."""
    coefficients, at = traced_array(p), lift(x)
    made: Any = np.zeros_like(at)
    for i in range(coefficients.shape[0]):
        made = made * at + coefficients[i]
    return made


def _line(p: Any) -> Array:
    x = traced_array(p)
    return ravel(x) if x.ndim == 0 else x


def _led(p: Any) -> Any:
    """Coefficients as they are multiplied: plain ones lose their leading zeros, as in NumPy."""
    return _line(p if is_traced(p) else np.trim_zeros(np.atleast_1d(p), "f"))


def _aligned(a1: Any, a2: Any) -> tuple[Array, Array]:
    """Two polynomials with as many coefficients."""
    x, y = _line(a1), _line(a2)
    gap = y.shape[0] - x.shape[0]
    if gap > 0:
        x = concatenate([np.zeros(gap, x.dtype), x], 0)
    elif gap < 0:
        y = concatenate([np.zeros(-gap, y.dtype), y], 0)
    return x, y


@covers(np.polyadd)
def polyadd(a1: Any, a2: Any) -> Any:
    """numpy.polyadd."""
    x, y = _aligned(a1, a2)
    return x + y


@covers(np.polysub)
def polysub(a1: Any, a2: Any) -> Any:
    """numpy.polysub."""
    x, y = _aligned(a1, a2)
    return x - y


@covers(np.polymul)
def polymul(a1: Any, a2: Any) -> Any:
    """numpy.polymul; traced coefficients are kept as they are, leading zeros included."""
    return convolve(*[np.zeros(1, x.dtype) if x.shape == (0,) else x for x in map(_led, (a1, a2))])


@covers(np.polydiv)
def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """numpy.polydiv; how many leading zeros the remainder loses depends on its values, which must be known."""
    x, y = [Array(w) for w in promoted(_line(u), _line(v))]
    if not dtypes.is_inexact(x.dtype):
        x, y = x.astype(np.float64), y.astype(np.float64)
    m, n = x.shape[0] - 1, y.shape[0] - 1
    scale = 1.0 / y[0]
    rest = Array(x.value)
    quotient = []
    for k in range(m - n + 1):
        d = scale * rest[k]
        quotient.append(d)
        rest[k : k + n + 1] = rest[k : k + n + 1] - d * y
    found = stack(quotient) if quotient else lift(np.zeros(1, x.dtype))
    known = known_of("polydiv", rest)
    drop = 0
    while drop < known.size - 1 and np.allclose(known[drop], 0, rtol=1e-14):
        drop += 1
    return found, Array(rest[drop:].value)


@covers(np.polyder)
def polyder(p: Any, m: Any = 1) -> Any:
    """numpy.polyder."""
    count = operator.index(m)
    if count < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    x = traced_array(p)
    if x.ndim != 1:
        raise ShapeError(f"polyder: coefficients are an array of one axis, not {x.type}")
    for _ in range(count):
        x = x[:-1] * np.arange(x.shape[0] - 1, 0, -1)
        if x.shape[0] == 0:
            break
    return x


@covers(np.polyint)
def polyint(p: Any, m: Any = 1, k: Any = None) -> Any:
    """numpy.polyint."""
    count = operator.index(m)
    if count < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    constants = ravel(traced_array(0.0 if k is None else k))
    if constants.shape[0] == 1 and count > 1:
        constants = constants[0] * np.ones(count)
    if constants.shape[0] < count:
        raise ShapeError("polyint: k must be a scalar or a rank-1 array of length 1 or >m")
    x = traced_array(p)
    for i in range(count):
        x = concatenate([x / np.arange(x.shape[0], 0, -1), constants[i : i + 1]], 0)
    return x


@covers(np.vander)
def vander(x: Any, N: Any = None, increasing: bool = False) -> Array:
    """numpy.vander."""
    a = traced_array(x)
    if a.ndim != 1:
        raise ShapeError(f"vander: x must be a one-dimensional array or sequence, not {a.type}")
    count = a.shape[0] if N is None else operator.index(N)
    if count < 0:
        raise ParameterError(f"vander: N={count} is no number of columns")
    check_count("vander", count)
    kind = dtypes.promoted_dtype(a.dtype, np.int64)
    if count == 0:
        return lift(np.zeros((a.shape[0], 0), kind))
    a = a.astype(kind)
    columns = [np.ones_like(a)]
    for _ in range(count - 1):
        columns.append(columns[-1] * a)
    return stack(columns if increasing else columns[::-1], 1)


@covers(np.poly)
def poly(seq_of_zeros: Any) -> Any:
    """numpy.poly; of a matrix, the characteristic polynomial."""
    zeros = _line(seq_of_zeros)
    real = not dtypes.is_complex(zeros.dtype)  # the eigenvalues of a real matrix come in conjugate pairs
    if zeros.ndim == 2 and zeros.shape[0] == zeros.shape[1] and zeros.shape[0] > 0:
        zeros = lift(np.linalg.eigvals(zeros))
    if zeros.ndim != 1:
        raise ShapeError("poly: the input must be 1-d or a non-empty square 2-d array")
    kind = np.dtype(np.mintypecode(zeros.dtype.char))
    made: Any = lift(np.ones(1, kind))
    for i in range(zeros.shape[0]):
        factor = stack([np.ones((), kind), -zeros[i].astype(kind)])
        made = convolve(made, factor)
    return made.real if real else made


@covers(np.polyfit)
def polyfit(x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False) -> Any:
    """numpy.polyfit; a least-squares problem, differentiable in x, y and w."""
    at, heights = traced_array(x) + 0.0, traced_array(y) + 0.0
    degree = operator.index(deg)
    if at.ndim != 1 or heights.ndim not in (1, 2) or at.shape[0] != heights.shape[0] or degree < 0:
        raise ShapeError(f"polyfit: cannot fit {heights.type} at {at.type} with degree {degree}")
    rows: Any = vander(at, degree + 1)
    if w is not None:
        weights = traced_array(w) + 0.0
        rows = rows * weights[:, None]
        heights = heights * (weights[:, None] if heights.ndim == 2 else weights)
    scale = np.sqrt(np.sum(rows * rows, axis=0))
    rows = rows / scale
    limit = at.shape[0] * np.finfo(at.dtype).eps if rcond is None else rcond
    found, residuals, rank, sizes = np.linalg.lstsq(rows, heights, limit)
    found = (found.T / scale).T
    if full:
        return found, residuals, rank, sizes, limit
    if not cov:
        return found
    spread = np.linalg.inv(rows.T @ rows) / np.outer(scale, scale)
    if cov != "unscaled":
        freedom = at.shape[0] - degree - 1
        if freedom <= 0:
            raise ValueError("the number of data points must exceed order to scale the covariance matrix")
        residuals = residuals / freedom
        spread = spread * residuals if heights.ndim == 1 else spread[..., None] * residuals
    elif heights.ndim == 2:
        spread = spread[..., None]
    return found, spread


@covers(np.roots)
def roots(p: Any) -> Any:
    """numpy.roots: the eigenvalues of the companion matrix; which coefficients are zero must be known."""
    x = traced_array(p)
    if x.ndim != 1:
        raise ShapeError("roots: the input must be a rank-1 array")
    held = np.flatnonzero(known_of("roots", x))
    if len(held) == 0:
        return lift(np.array([]))
    trailing = x.shape[0] - int(held[-1]) - 1
    x = x[int(held[0]) : int(held[-1]) + 1]
    x = x if dtypes.is_inexact(x.dtype) else x.astype(np.float64)
    n = x.shape[0]
    if n < 2:
        return lift(np.zeros(trailing))
    companion = concatenate([(-x[1:] / x[0])[None], np.eye(n - 2, n - 1, dtype=x.dtype)], 0)
    found = lift(np.linalg.eigvals(companion))
    return concatenate([found, np.zeros(trailing, found.dtype)], 0)
