"""NumPy's set functions: the values decide the shape, so they must be known; results are read from the array."""

from __future__ import annotations

from typing import Any

from wholestep import dtypes
from wholestep.errors import ParameterError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import covers
from wholestep.frontend.promotion import lift, promoted
from wholestep.numpy.movement import concatenate, ravel, traced_array
from wholestep.numpy.outside import np
from wholestep.numpy.selection import known_of


def _compared(name: str, x: Any) -> Any:
    """The plain values of an argument; bfloat16 as float32, since NumPy's sort does not put its NaN last."""
    plain = known_of(name, x)
    return plain.astype(np.float32) if plain.dtype.name == "bfloat16" else plain


def _first_places(flat: Any, values: Any) -> Any:
    """The first place of each of the values in a flat array; NaN in its turn."""
    order = np.argsort(flat, kind="stable")
    rank = np.argsort(values, kind="stable")
    inside = np.searchsorted(flat[order], values[rank])
    nan = np.isnan(values[rank]) if dtypes.is_inexact(flat.dtype) else np.zeros(len(values), bool)
    inside[nan] += np.arange(np.count_nonzero(nan))
    found = np.empty(len(values), np.int64)
    found[rank] = order[inside]
    return found


def _read(x: Array, values: Any) -> Array:
    """The values, taken from where they stand in x, so that their derivative goes there."""
    flat = ravel(x)
    return flat[_first_places(_compared("unique", flat), values)]  # type: ignore[no-any-return]


@covers(np.unique)
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Any = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """numpy.unique; the values must be known."""
    x = traced_array(ar)
    known = _compared("unique", x)
    found = np.unique(known, True, return_inverse, return_counts, axis, equal_nan=equal_nan)
    index = found[1]
    if axis is None:
        plain = np.unique(known, equal_nan=equal_nan, sorted=sorted)
        asked = return_index or return_inverse or return_counts
        values = ravel(x)[index] if asked else _read(x, plain)
    else:
        values = x[(*[slice(None)] * (axis % x.ndim), index)]
    rest = [lift(part) for part in (found[1:] if return_index else found[2:])]
    return (values, *rest) if rest else values


@covers(np.unique_values)
def unique_values(x: Any) -> Array:
    """numpy.unique_values; the values must be known."""
    a = traced_array(x)
    return _read(a, np.unique_values(_compared("unique_values", a)))


@covers(np.unique_counts)
def unique_counts(x: Any) -> Any:
    """numpy.unique_counts; the values must be known."""
    a = traced_array(x)
    found = np.unique_counts(_compared("unique_counts", a))
    return type(found)(_read(a, found.values), lift(found.counts))


@covers(np.unique_inverse)
def unique_inverse(x: Any) -> Any:
    """numpy.unique_inverse; the values must be known."""
    a = traced_array(x)
    found = np.unique_inverse(_compared("unique_inverse", a))
    return type(found)(_read(a, found.values), lift(found.inverse_indices))


@covers(np.unique_all)
def unique_all(x: Any) -> Any:
    """numpy.unique_all; the values must be known."""
    a = traced_array(x)
    found = np.unique_all(_compared("unique_all", a))
    return type(found)(ravel(a)[found.indices], lift(found.indices), lift(found.inverse_indices), lift(found.counts))


@covers(np.isin)
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Any:
    """numpy.isin: every element is compared with every one looked for."""
    if kind not in (None, "sort", "table"):
        raise ParameterError(f"isin: kind={kind!r} is none of None, 'sort' and 'table'")
    x, y = traced_array(element), ravel(traced_array(test_elements))
    found = np.any(x[..., None] == y, axis=-1)
    return np.logical_not(found) if invert else found


@covers(np.union1d)
def union1d(ar1: Any, ar2: Any) -> Any:
    """numpy.union1d; the values must be known."""
    return unique(concatenate([ravel(traced_array(ar1)), ravel(traced_array(ar2))], 0))


@covers(np.intersect1d)
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """numpy.intersect1d; the values must be known, and are read from the first array."""
    x, y = traced_array(ar1), traced_array(ar2)
    known = [_compared("intersect1d", ravel(a)) for a in (x, y)]
    _, first, second = np.intersect1d(*known, assume_unique, return_indices=True)
    kind = dtypes.promoted_dtype(x.dtype, y.dtype)
    values = ravel(x)[first].astype(kind, copy=False)
    return (values, lift(first), lift(second)) if return_indices else values


@covers(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """numpy.setdiff1d; the values must be known."""
    x = ravel(traced_array(ar1))
    known, other = _compared("setdiff1d", x), _compared("setdiff1d", ar2)
    if assume_unique:
        return x[~np.isin(known, other)]
    return _read(x, np.setdiff1d(known, other))


@covers(np.setxor1d)
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    """numpy.setxor1d; the values must be known."""
    x, y = [Array(v) for v in promoted(ravel(traced_array(ar1)), ravel(traced_array(ar2)))]
    both = concatenate([x, y], 0)
    return _read(both, np.setxor1d(_compared("setxor1d", x), _compared("setxor1d", y), assume_unique))


@covers(np.trim_zeros)
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """numpy.trim_zeros; the values must be known."""
    x = traced_array(filt)
    sides = trim.lower()
    if set(sides) - set("fb"):
        raise ValueError(f"unexpected character(s) in `trim`: {trim!r}")
    held = np.argwhere(_compared("trim_zeros", x))
    axes = range(x.ndim) if axis is None else [a % x.ndim for a in (axis if isinstance(axis, tuple) else (axis,))]
    index = [slice(None)] * x.ndim
    for a in axes:
        first, last = (held[:, a].min(), held[:, a].max() + 1) if len(held) else (x.shape[a], x.shape[a])
        low = int(first) if "f" in sides else 0
        index[a] = slice(low, max(low, int(last)) if "b" in sides and len(held) else x.shape[a] if len(held) else low)
    return x[tuple(index)]
