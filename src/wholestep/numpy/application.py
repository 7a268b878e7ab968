"""NumPy's ways to call a Python function on many parts of an array."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import covers, is_traced, unsupported
from wholestep.frontend.promotion import broadcast_shapes, lift
from wholestep.frontend.source.answers import own
from wholestep.frontend.source.entrance import followed
from wholestep.frontend.source.fresh import FreshArray, live
from wholestep.ir.build import current
from wholestep.numpy.movement import axis_of, broadcast_to, expand_dims, moveaxis, reshape, stack, traced_array
from wholestep.numpy.outside import NO_VALUE, np


def ndenumerate(arr: Any) -> Iterator[Any]:
    """numpy.ndenumerate: pairs of an index and the element there, one after the other."""
    known = type(arr) is FreshArray or not is_traced(arr)
    x = np.asanyarray(arr) if known else traced_array(arr)
    return ((at, x[at]) for at in np.ndindex(*x.shape))


class nditer:
    """numpy.nditer of plain arrays, whose elements see what is stored into the arrays while it runs.

    Raises UnsupportedError for traced arrays, whose memory is not there to walk.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if is_traced(args) or is_traced(kwargs):
            raise unsupported(
                "numpy.nditer", "for at in np.ndindex(x.shape) and np.ndenumerate(x) go over the elements"
            )
        walk = np.nditer(*live(args), **live(kwargs))
        vars(self).update(walk=walk, given=(args, kwargs), held=own(walk.operands, args, kwargs))

    def _seen(self, got: Any) -> Any:
        return own(got, *self.given)

    def __getattr__(self, name: str) -> Any:
        return self._seen(getattr(self.walk, name))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.walk, name, value)

    def __enter__(self) -> nditer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.walk.close()

    def __iter__(self) -> nditer:
        return self

    def __next__(self) -> Any:
        return self._seen(next(self.walk))

    def __len__(self) -> int:
        return len(self.walk)

    def __getitem__(self, at: Any) -> Any:
        return self._seen(self.walk[at])

    def __setitem__(self, at: Any, value: Any) -> None:
        self[at][...] = value


class BroadcastElements:
    """The object of numpy.broadcast for traced arrays: their common shape, and their elements side by side."""

    def __init__(self, arrays: list[Any]) -> None:
        self.shape = broadcast_shapes("broadcast", [a.shape for a in arrays])
        self.ndim = self.nd = len(self.shape)
        self.size = math.prod(self.shape)
        self.numiter = len(arrays)
        self.index = 0
        self.iters = tuple([np.broadcast_to(a, self.shape).flat for a in arrays])

    def __iter__(self) -> BroadcastElements:
        return self

    def __next__(self) -> tuple[Any, ...]:
        if self.index >= self.size:
            raise StopIteration
        self.index += 1
        return tuple([elements[self.index - 1] for elements in self.iters])

    def reset(self) -> None:
        """Go back to the first elements."""
        self.index = 0


def broadcast(*args: Any) -> Any:
    """numpy.broadcast."""
    arrays = [x if type(x) is FreshArray else lift(x) if is_traced(x) else np.asarray(x) for x in args]
    return BroadcastElements(arrays) if any(type(a) is not np.ndarray for a in arrays) else np.broadcast(*args)


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
        core = None if self.signature is None else Core(self.signature)
        counts = [0] * len(arrays) if core is None else core.counts(arrays)
        lead = broadcast_shapes("vectorize", [a.shape[: a.ndim - k] for a, k in zip(arrays, counts, strict=True)])
        wide = [
            (broadcast_to if isinstance(a, Array) else np.broadcast_to)(a, (*lead, *a.shape[a.ndim - k :]))
            for a, k in zip(arrays, counts, strict=True)
        ]
        found = [one(*[a[at] for a in wide]) for at in np.ndindex(*lead)]
        if not found:
            return self._of_nothing(lead)
        many = isinstance(found[0], tuple)
        rows = [list(column) for column in zip(*found, strict=True)] if many else [found]
        if core is not None:
            core.check(rows, many)
        made = tuple([self._stacked(row, lead, i) for i, row in enumerate(rows)])
        return made if many else made[0]

    def _of_nothing(self, lead: tuple[Any, ...]) -> Any:
        """The results where there is no element to call the function on; raises ValueError where no dtype is stated."""
        if self.otypes is None or self.signature is not None:
            raise ValueError("cannot call `vectorize` on size 0 inputs unless `otypes` is set")
        made = tuple([np.zeros(lead, dtype) for dtype in self.otypes])
        return made if len(made) > 1 else made[0]

    def _stacked(self, row: list[Any], lead: tuple[Any, ...], i: int) -> Any:
        first = np.asarray(row[0]).dtype if not is_traced(row[0]) else lift(row[0]).dtype
        dtype = first if self.otypes is None else np.dtype(self.otypes[i])
        if not is_traced(row):
            plain = np.asarray(row, dtype)
            return plain.reshape(*lead, *plain.shape[1:])
        items = [lift(r).astype(dtype) for r in row]
        return Array(reshape(stack(items, 0), (*lead, *items[0].shape)).value)


_NAMES = r"\((?:\w+(?:,\w+)*)?\)"
_SIDE = rf"{_NAMES}(?:,{_NAMES})*"


class Core:
    """The core axes that a signature such as `(n),(n)->()` names; raises ParameterError for text that is none."""

    def __init__(self, signature: str) -> None:
        text = re.sub(r"\s+", "", signature)
        if not re.fullmatch(f"{_SIDE}->{_SIDE}", text):
            raise ParameterError(f"vectorize: signature={signature!r} is none such as '(n),(n)->()'")
        sides = [[group.split(",") if group else [] for group in re.findall(r"\((.*?)\)", s)] for s in text.split("->")]
        self.signature = signature
        self.inputs, self.outputs = sides
        self.sizes: dict[str, Any] = {}

    def counts(self, arrays: list[Any]) -> list[int]:
        """The number of core axes of each argument, whose sizes are those of the names from here on."""
        n = len(self.inputs)
        if n != len(arrays):
            raise UnsupportedError(
                f"vectorize: the signature {self.signature!r} names {n} arguments, the call has {len(arrays)}"
            )
        for a, names in zip(arrays, self.inputs, strict=True):
            self.take(a.shape[max(a.ndim - len(names), 0) :], names)
        return [len(names) for names in self.inputs]

    def take(self, shape: tuple[Any, ...], names: list[str]) -> None:
        """Raise ShapeError for core axes of other sizes than their names have elsewhere."""
        if len(shape) != len(names) or any(self.sizes.setdefault(k, n) != n for k, n in zip(names, shape, strict=True)):
            known = ", ".join(f"{name} = {self.sizes[name]}" for name in names if name in self.sizes)
            raise ShapeError(
                f"vectorize: core axes of shape {shape} do not fit ({','.join(names)}) of the signature "
                f"{self.signature!r}" + (f", where {known}" if known else "")
            )

    def check(self, rows: list[list[Any]], many: bool) -> None:
        """Raise ShapeError for results that are not those of the signature."""
        if many != (len(self.outputs) > 1) or len(rows) != len(self.outputs):
            raise ShapeError(f"vectorize: the function gives other outputs than the signature {self.signature!r}")
        for row, names in zip(rows, self.outputs, strict=True):
            for made in row:
                self.take(np.shape(made), names)
