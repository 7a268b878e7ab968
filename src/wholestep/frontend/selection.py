"""`x[mask]` with an abstract mask: work on the whole array, of which only the chosen elements are ever read."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from wholestep import dtypes, tree
from wholestep.errors import ShapeError, ValueDependentError
from wholestep.frontend import ufuncs
from wholestep.frontend.array import KNOWN, Array
from wholestep.frontend.array_methods import METHODS
from wholestep.frontend.dispatch import FUNCTIONS
from wholestep.frontend.promotion import WEAK, assignable, broadcast_shapes, broadcast_to, cast_to, full_of, lift
from wholestep.ir.graph import OPS, Value
from wholestep.primitives.logic import select
from wholestep.primitives.movement import reshape

HINT = (
    "np.where(mask, x, other) keeps the shape; reductions such as x[mask].sum() and np.max(x[mask]) are covered;"
    " x[mask].size is the number as a traced integer"
)


ALIKE = 200
"""Pairs of values that are compared at most to find out whether two masks are one."""


def same_selection(x: Value, y: Value) -> bool:
    """Test whether two values are made alike, so that `x[m > 0]` and `x[m > 0]` choose the same elements."""
    pairs, seen = [(x, y)], {(x, y)}
    while pairs:
        v, w = pairs.pop()
        if v is w:
            continue
        a, b = v.node, w.node
        if a is None or b is None or a.op is not b.op or len(a.outputs) != 1 or len(seen) > ALIKE:
            return False
        if a.op.literal or v.type is not w.type or a.params != b.params:
            return False
        new = {pair for pair in zip(a.inputs, b.inputs, strict=True) if pair not in seen}
        seen |= new
        pairs.extend(new)
    return True


def widen_mask(mask: Value, shape: tuple[Any, ...]) -> Value:
    """A mask over the leading axes, repeated along the others."""
    if mask.ndim < len(shape):
        mask = reshape(mask, shape=(*mask.shape, *[1] * (len(shape) - mask.ndim)))
    return broadcast_to(mask, shape)


def refused(what: str) -> Callable[..., Any]:
    """A method that chosen elements do not have, since it needs their number."""
    return lambda self, *args, **kwargs: self.refuse(what)


class Selection(np.lib.mixins.NDArrayOperatorsMixin):
    """The elements that a mask with no value yet chooses: NumPy's `x[mask]`, a copy of unknown length.

    `full` has the mask's axes and then those that the mask leaves whole; the mask's axes stand for one axis of unknown
    length. The elements of `full` where the mask is false reach no result and no derivative: there a function gets an
    operand that lies in its domain.
    """

    __slots__ = ("full", "mask")
    __array_priority__ = 2000.0

    def __init__(self, full: Any, mask: Value) -> None:
        # NumPy copies the elements that a mask chooses: later writes to x, or to the mask, do not reach the copy.
        self.full = full if isinstance(full, Array) else Array(full)
        self.mask = mask

    # Properties

    @property
    def rest(self) -> tuple[Any, ...]:
        """The sizes of the axes after the one of unknown length."""
        return self.full.shape[self.mask.ndim :]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return 1 + len(self.rest)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self.full.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the axes, the first of them a traced integer."""
        return (FUNCTIONS[np.sum](Array(self.mask)), *self.rest)

    @property
    def size(self) -> Any:
        """The number of elements, a traced integer."""
        return self.shape[0] * math.prod(self.rest)

    @property
    def T(self) -> Selection:
        """The selection itself where it has one axis; refused where it has more."""
        return self if self.ndim == 1 else self.refuse("transpose")

    @property
    def real(self) -> Any:
        """The real part."""
        return np.real(self)

    @property
    def imag(self) -> Any:
        """The imaginary part."""
        return np.imag(self)

    def __repr__(self) -> str:
        return f"Array({dtypes.short(self.dtype)}[{', '.join(['?', *map(str, self.rest)])}])"

    def refuse(self, what: str, hint: str = HINT) -> NoReturn:
        """Raise ValueDependentError: this needs the number of chosen elements."""
        raise ValueDependentError(
            f"{what}: the number of elements that a mask chooses from {self.full.type} is not known while the program"
            " is being written",
            hint=hint,
        )

    def chosen(self) -> Value:
        """The mask at the shape of `full`."""
        return widen_mask(self.mask, self.full.shape)

    def filled(self, number: Any) -> Array:
        """The whole array with a number, or a value of its shape, in place of the elements that the mask leaves out."""
        x = self.full.value
        other = number if isinstance(number, Value) else full_of(number, x.shape, x.dtype)
        return Array(select(self.chosen(), x, other))

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        for x in inputs:
            if not isinstance(x, (Selection, *KNOWN)) and hasattr(x, "__array_ufunc__"):
                return NotImplemented
        if method == "reduce" and ufunc.__name__ in ufuncs.REDUCE:
            return SELECTED[ufuncs.REDUCE[ufunc.__name__]](inputs[0], *inputs[1:], **{"axis": 0, **options})
        if ufunc in SELECTED and method == "__call__" and not options:
            return SELECTED[ufunc](*inputs)
        if method != "__call__" or options.keys() - {"out", "dtype"} or ufunc in FUNCTIONS:
            self.refuse(ufunc.__name__ if method == "__call__" else f"{ufunc.__name__}.{method}")
        made = self.apply(ufunc, inputs, options.get("dtype"))
        out = options.get("out")
        if out is None:
            return made
        results = made if isinstance(made, tuple) else (made,)
        written = tuple([self._write_out(ufunc.__name__, t, m) for t, m in zip(out, results, strict=True)])
        return written if isinstance(made, tuple) else written[0]

    def _write_out(self, name: str, target: Any, made: Selection) -> Any:
        if target is None:
            return made
        if not isinstance(target, Selection) or not same_selection(target.mask, self.mask):
            self.refuse(f"{name}: out=", hint="assign the result instead: y[mask] = f(x[mask])")
        ufuncs.assign_out(name, target.full, made.full)
        return target

    def apply(self, ufunc: np.ufunc, inputs: Sequence[Any], dtype: Any = None) -> Any:
        """An elementwise function of elements that one mask chooses, of scalars, and of arrays like one such row."""
        operands = self.aligned(ufunc.__name__, inputs)
        mask = widen_mask(self.mask, (*self.mask.shape, *[1] * len(self.rest)))
        made = ufuncs.general(ufunc, tuple(operands), None if dtype is None else np.dtype(dtype), mask)
        return tuple([Selection(m, self.mask) for m in made]) if isinstance(made, tuple) else Selection(made, self.mask)

    def aligned(self, name: str, inputs: Sequence[Any]) -> list[Any]:
        """The operands of an elementwise function as they broadcast against the whole array."""
        return [self._aligned(name, x) for x in inputs]

    def _aligned(self, name: str, x: Any) -> Any:
        if isinstance(x, Selection):
            if not same_selection(x.mask, self.mask):
                self.refuse(
                    f"{name}: operands are chosen by two masks", "choose both with one mask, named once and used twice"
                )
            if len(x.rest) != len(self.rest):
                raise ShapeError(f"{name}: {self} and {x} do not broadcast", hint="insert axes with x[mask][:, None]")
            return x.full
        if type(x) in WEAK or isinstance(x, np.generic | bool):
            return x
        a = lift(x)
        if a.ndim > len(self.rest):
            a = Array(assignable(a.value, len(self.rest)))
        if a.ndim > len(self.rest):
            self.refuse(f"{name}: an operand {a.type} beside chosen elements")
        return a

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        implementation = SELECTED.get(func)
        if implementation is None:
            first(args, kwargs).refuse(func.__name__)
        return implementation(*args, **kwargs)

    # Reading and writing a part

    def __getitem__(self, index: Any) -> Selection:
        if isinstance(index, Selection) and index.dtype.kind == "b":
            return Selection(self.full.value, self._narrowed(index))
        return Selection(self.full[self.behind(index, 1)], self.mask)

    def __setitem__(self, index: Any, new: Any) -> None:
        if isinstance(index, Selection) and index.dtype.kind == "b":
            mask = self._narrowed(index)
            put(self.full, mask, new, "")
            return
        target = self.full[self.behind(index)]
        put(target, self.mask, new, "")

    def _narrowed(self, index: Selection) -> Value:
        """The mask of the elements that both this selection and a mask over it choose."""
        if not same_selection(index.mask, self.mask):
            self.refuse("boolean indexing")
        made: Value = widen_mask(self.mask, index.full.shape) & index.full.value
        return made

    def behind(self, index: Any, arrays: int = 0) -> tuple[Any, ...]:
        """The index of the whole array for one that leaves the axis of unknown length as it is.

        So many of its other items may be index arrays: one in a copy, none in a view, which is written through.
        """
        items = list(index) if isinstance(index, tuple) else [index]
        dots = [i for i, item in enumerate(items) if item is Ellipsis]
        if dots:
            count = self.ndim - sum([item is not None for item in items]) + 1
            items[dots[0] : dots[0] + 1] = [slice(None)] * count
        others = [item for item in items if not (item is None or isinstance(item, slice | int | np.integer))]
        if len(others) > arrays or not items or not isinstance(items[0], slice) or items[0] != slice(None):
            self.refuse(
                "indexing", "x[mask][:, i] and x[mask][x[mask] > 0] are covered, since they leave the length alone"
            )
        return (*[slice(None)] * self.mask.ndim, *items[1:])

    # Methods

    def __getattr__(self, name: str) -> Any:
        if name in METHODS:
            return functools.partial(METHODS[name], self)
        if name.startswith("__") or not hasattr(np.ndarray, name):
            raise AttributeError(f"'Array' object has no attribute {name!r}")
        self.refuse(name)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Selection:
        """The elements cast to another dtype."""
        return Selection(self.filled(1).astype(dtype, *args, **kwargs), self.mask)

    def copy(self, order: str = "C") -> Selection:
        """A copy that shares nothing."""
        return Selection(self.full.value, self.mask)

    def ravel(self, order: str = "C") -> Selection:
        """The chosen elements as one axis, row by row; a copy."""
        if order != "C" and self.rest:
            self.refuse("ravel")
        return Selection(self.full.value, self.chosen())

    flatten = ravel

    def reshape(self, *shape: Any, order: str = "C") -> Selection:
        """The chosen elements as one axis; any other shape is refused."""
        if shape not in ((-1,), ((-1,),)):
            self.refuse("reshape")
        return self.ravel(order)

    def conj(self) -> Any:
        """The complex conjugate."""
        return np.conjugate(self)

    conjugate = conj

    def fill(self, value: Any) -> None:
        """Write one number everywhere."""
        self[:] = value

    def __copy__(self) -> Selection:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Selection:
        return self.copy()

    # Refused conversions

    def __hash__(self) -> int:
        raise TypeError("unhashable type: 'Array'")

    __len__, __bool__, __iter__ = refused("len"), refused("bool"), refused("iteration")
    __float__, __complex__ = refused("float"), refused("complex")
    __int__, __index__ = refused("int"), refused("index")
    __array__ = refused("array conversion")

    def __contains__(self, item: Any) -> bool:
        return bool(np.any(self == item))


SELECTED: dict[Any, Any] = {}
"""NumPy function -> its implementation for chosen elements; filled by `frontend.chosen`."""


def untaken(s: Selection) -> NoReturn:
    """Refuse chosen elements as an argument or a result of a transform, which has to know its arrays' types."""
    s.refuse(f"passed to a transform, or returned from a function: {s}")


tree.register(Selection, untaken, lambda extra, children: untaken(*children))


def first(args: Any, kwargs: Any) -> Selection:
    """The first selection among the arguments of a call, or in a list among them."""
    for x in (*args, *kwargs.values()):
        if isinstance(x, Selection):
            return x
        if isinstance(x, list | tuple):
            found = [item for item in x if isinstance(item, Selection)]
            if found:
                return found[0]
    raise TypeError("no selection among the arguments")


def put(x: Array, mask: Value, new: Any, join: str) -> None:
    """Write to the elements of x that a mask over its leading axes chooses, whose number is not known."""
    rest = x.shape[mask.ndim :]
    if isinstance(new, Selection):
        if not same_selection(new.mask, mask):
            new.refuse("assignment: elements that another mask chooses", "read and write with one mask: y[m] = f(x[m])")
        v, own = cast_to(new.full.value, x.dtype), new.rest
    else:
        v = full_of(new, (), x.dtype) if type(new) in WEAK else cast_to(lift(new).value, x.dtype)
        v = assignable(v, len(rest))
        own = v.shape
        if len(own) > len(rest):
            Selection(x, mask).refuse(f"assignment of {v.type}", "np.where(mask, new, x) takes a new value for each")
    if len(own) > len(rest) or broadcast_shapes("assignment", [own, rest]) != rest:
        raise ShapeError(
            f"assignment: {v.type} does not fit a place of shape {rest} in {x.type}",
            hint="the value must broadcast to what the index reads",
        )
    if isinstance(new, Selection):
        v = reshape(v, shape=(*mask.shape, *[1] * (len(rest) - len(own)), *own))
    v = broadcast_to(v, x.shape)
    x.write(select(widen_mask(mask, x.shape), OPS[join](x.value, v) if join else v, x.value))
