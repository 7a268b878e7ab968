"""NumPy's ways to call a Python function on many parts of an array."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from wholestep.errors import ShapeError, UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import covers, is_traced, unsupported
from wholestep.frontend.promotion import broadcast_shapes, lift
from wholestep.frontend.source.entrance import followed
from wholestep.frontend.source.fresh import live
from wholestep.ir.build import current
from wholestep.numpy.movement import axis_of, broadcast_to, expand_dims, moveaxis, reshape, stack, traced_array
from wholestep.numpy.outside import NO_VALUE, np


def ndenumerate(arr: Any) -> Iterator[Any]:
    """numpy.ndenumerate: pairs of an index and the element there, one after the other."""
    x = traced_array(arr) if is_traced(arr) else np.asarray(arr)
    return ((at, x[at]) for at in np.ndindex(*x.shape))


def nditer(*args: Any, **kwargs: Any) -> Any:
    """numpy.nditer of plain arrays; raises UnsupportedError for traced ones, whose memory is not there to walk."""
    if is_traced(args) or is_traced(kwargs):
        raise unsupported("numpy.nditer", "for at in np.ndindex(x.shape) and np.ndenumerate(x) go over the elements")
    return np.nditer(*live(args), **live(kwargs))


@covers(np.apply_along_axis)
def apply_along_axis(func1d: Any, axis: Any, arr: Any, *args: Any, **kwargs: Any) -> Any:
    """numpy.apply_along_axis: the function is traced once for each vector."""
    x = traced_array(arr)
    place = axis_of("apply_along_axis", axis, x.ndim)
    moved = moveaxis(x, place, -1)
    lead = moved.shape[:-1]
    found = [lift(func1d(moved[at], *args, **kwargs)) for at in np.ndindex(*lead)]
    if not found:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    inner = found[0].ndim
    made = reshape(stack(found, 0), (*lead, *found[0].shape))
    n = len(lead)
    return moveaxis(made, list(range(n, n + inner)), list(range(place, place + inner))) if inner else Array(made.value)


@covers(np.apply_over_axes)
def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    """numpy.apply_over_axes."""
    made = traced_array(a)
    ndim = made.ndim
    for axis in np.atleast_1d(axes).tolist():
        at = axis + ndim if axis < 0 else axis
        found = lift(func(made, at))
        if found.ndim != made.ndim:
            found = expand_dims(found, at)
            if found.ndim != made.ndim:
                raise ValueError("function is not returning an array of the correct shape")
        made = found
    return made


class vectorize:
    """numpy.vectorize that also takes traced arrays: the function is traced once for each element."""

    def __init__(
        self,
        pyfunc: Any = NO_VALUE,
        otypes: Any = None,
        doc: Any = None,
        excluded: Any = None,
        cache: bool = False,
        signature: Any = None,
    ) -> None:
        self.options = {
            "otypes": otypes, "doc": doc, "excluded": excluded, "cache": cache, "signature": signature
        }  # fmt: skip
        self.pyfunc = pyfunc
        self.excluded = set(excluded or ())
        self.otypes = otypes
        self.signature = signature
        self.__doc__ = doc or getattr(pyfunc, "__doc__", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.pyfunc is NO_VALUE:
            return vectorize(args[0], **self.options)
        if current() is None:
            return np.vectorize(self.pyfunc, **self.options)(*args, **kwargs)
        names = [n for n in kwargs if n not in self.excluded]
        places = [i for i in range(len(args)) if i not in self.excluded]
        given = [args[i] for i in places] + [kwargs[n] for n in names]
        arrays = [lift(x) if is_traced(x) else np.asarray(x) for x in given]
        pyfunc = followed(self.pyfunc)

        def one(*items: Any) -> Any:
            given = list(args)
            for i, item in zip(places, items, strict=False):
                given[i] = item
            return pyfunc(*given, **{**kwargs, **dict(zip(names, items[len(places) :], strict=True))})

        return self._over(one, arrays)

    def _over(self, one: Callable[..., Any], arrays: list[Any]) -> Any:
        """Call on every element, or on every core array that the signature names, and stack the results."""
        cores, outputs = _cores(self.signature, len(arrays))
        lead = broadcast_shapes("vectorize", [a.shape[: a.ndim - k] for a, k in zip(arrays, cores, strict=True)])
        wide = [
            (broadcast_to if isinstance(a, Array) else np.broadcast_to)(a, (*lead, *a.shape[a.ndim - k :]))
            for a, k in zip(arrays, cores, strict=True)
        ]
        found = [one(*[a[at] for a in wide]) for at in np.ndindex(*lead)]
        if not found:
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        many = isinstance(found[0], tuple)
        if outputs is not None and many != (outputs > 1):
            raise ShapeError(f"vectorize: the function gives other outputs than the signature {self.signature!r}")
        rows = [list(column) for column in zip(*found, strict=True)] if many else [found]
        made = tuple([self._stacked(row, lead, i) for i, row in enumerate(rows)])
        return made if many else made[0]

    def _stacked(self, row: list[Any], lead: tuple[Any, ...], i: int) -> Any:
        first = np.asarray(row[0]).dtype if not is_traced(row[0]) else lift(row[0]).dtype
        dtype = first if self.otypes is None else np.dtype(self.otypes[i])
        if not is_traced(row):
            plain = np.asarray(row, dtype)
            return plain.reshape(*lead, *plain.shape[1:])
        items = [lift(r).astype(dtype) for r in row]
        return Array(reshape(stack(items, 0), (*lead, *items[0].shape)).value)


def _cores(signature: str | None, n: int) -> tuple[list[int], int | None]:
    """The number of core axes of each argument, and the number of outputs."""
    if signature is None:
        return [0] * n, None
    left, _, right = signature.replace(" ", "").partition("->")
    groups = re.findall(r"\(([^()]*)\)", left)
    if len(groups) != n:
        raise UnsupportedError(
            f"vectorize: the signature {signature!r} names {len(groups)} arguments, the call has {n}"
        )
    return [len([d for d in g.split(",") if d]) for g in groups], len(re.findall(r"\(", right))
