"""Answers to calls of NumPy and SciPy in rewritten functions: traced values get ours, plain ones fresh arrays."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep.dims import Dim
from wholestep.errors import ConversionError, ValueDependentError
from wholestep.frontend.conversions import plain_target
from wholestep.frontend.dispatch import (
    DECIDING,
    DOCUMENTED,
    EVALUATED,
    FUNCTIONS,
    HOOKS,
    JOINERS,
    REPLACED,
    SEQUENCES,
    WAYS_OUT,
    home_of,
    is_traced,
    public_name,
    raised_inside,
    unsupported,
    with_documented_errors,
)
from wholestep.frontend.promotion import lift
from wholestep.frontend.source.fresh import WRITES, FreshArray, add_reader, as_fresh, live, read_view
from wholestep.frontend.traced_reads import reads_traced
from wholestep.ir.build import current

WRITING = frozenset((np.copyto, np.put, np.place, np.putmask, np.put_along_axis, np.fill_diagonal))
"""Functions that write their first argument."""

INSTEAD = {np.empty: np.zeros, np.empty_like: np.zeros_like}
"""Arrays without values, which would become constants of the program, have zeros."""


def answer(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call of NumPy's or SciPy's, in whose arguments there may be traced and fresh arrays."""
    given, named = live(args), live(kwargs)
    if f in DECIDING:
        return own(with_documented_errors(implementation(f), f, given, named), args, kwargs)
    if not (is_traced(given) or is_traced(named) or any(map(is_reading_function, (*given, *named.values())))):
        made = INSTEAD.get(f, f)(*given, **named)
        if type(made).__module__ != "builtins" and not isinstance(made, np.ndarray | np.generic | tuple | list):
            for x in arrays_in((*given, *named.values())):
                add_reader(x)
        out = kwargs.get("out")
        return own(made, args, kwargs) if out is None else given_out(out, made)
    out = kwargs.get("out")
    if f in WRITING or (isinstance(getattr(f, "__self__", None), np.ufunc) and f.__name__ == "at"):
        target(args[0])
    for x in out if type(out) is tuple else (out,):
        target(x)
    # The written array is traced from here on, and so are arguments that share its memory: look at them again.
    made = with_documented_errors(implementation(f), f, live(args), live(kwargs))
    return made if out is None else given_out(out, made)


def is_reading_function(x: Any) -> bool:
    """Test whether an argument is a function that reads traced arrays, such as the right side of an equation."""
    return callable(x) and not isinstance(x, type | np.ufunc) and current() is not None and reads_traced(x)


def implementation(f: Any) -> Callable[..., Any]:
    """The function that answers a call with traced arguments."""
    if isinstance(getattr(f, "__self__", None), np.ufunc) and f.__name__ == "at":
        return lambda a, index, *args: f(a, index, *map(one_operand, args))  # a tuple is an index for several axes
    if isinstance(f, np.ufunc) or isinstance(getattr(f, "__self__", None), np.ufunc):
        return functools.partial(dispatched, f)
    if f not in FUNCTIONS and f not in REPLACED:
        cover_scipy(home_of(f))
    owner: Any = getattr(f, "__self__", None)
    hashing: Any = type(owner).__hash__
    if type(f) in EVALUATED:
        return EVALUATED[type(f)](f)
    if type(owner) in EVALUATED:
        return getattr(EVALUATED[type(owner)](owner), f.__name__)
    if f not in FUNCTIONS and hashing is object.__hash__ and owner in REPLACED:
        return getattr(REPLACED[owner], f.__name__, f)  # the method of a distribution that refuses traced arrays
    found = REPLACED.get(f) or FUNCTIONS.get(f)
    return found or (named_in_failures(f) if home_of(f).startswith("scipy.") else f)


def method_in_c(f: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The result of a method in C of an object of another package, whose errors for traced arrays name it."""
    given, named = live(args), live(kwargs)
    return named_in_failures(f)(*given, **named) if is_traced((given, named)) else f(*args, **kwargs)


def on_read_views(f: Any, /, *args: Any, **kwargs: Any) -> Any:
    """The result of a function of another package, which may keep the memory of arrays and read it later."""
    given = [read_view(x) if type(x) is FreshArray else x for x in args]
    return f(*given, **{k: read_view(x) if type(x) is FreshArray else x for k, x in kwargs.items()})


def may_read_memory(module: str) -> bool:
    """Test whether functions in C of a module read the memory of arrays: not if they are Python's containers."""
    root = module.partition(".")[0]
    return root not in sys.stdlib_module_names or root in ("_ctypes", "ctypes")


FAILURES: tuple[type[Exception], ...] = (ValueDependentError, *DOCUMENTED)
"""The errors of a function that meets a traced array where it wants a number."""


def named_in_failures(f: Any) -> Callable[..., Any]:
    """A function that is not covered, such as one of SciPy's: it may do with traced arrays, or the error names it.

    A function that reads traced arrays is refused at once, since compiled code calls it and loses its errors.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        if any(map(is_reading_function, (*args, *kwargs.values()))):
            raise unsupported(public_name(f), WAYS_OUT.get(f, ""))
        try:
            return f(*args, **kwargs)
        except FAILURES as error:
            if isinstance(error, ConversionError) or not raised_inside(error):
                raise
            raise unsupported(public_name(f), WAYS_OUT.get(f, "")) from error

    return call


def dispatched(f: Any, *args: Any, **kwargs: Any) -> Any:
    """A call of a ufunc or a method of one: NumPy looks for traced arrays in operands and `out=`, not in `initial=`."""
    given = [one_operand(x) for x in args]
    if given and is_traced(kwargs) and not is_traced((*given, kwargs.get("out"))):
        given[0] = lift(given[0])
    return f(*given, **kwargs)


def cover_scipy(module: str) -> None:
    """Import the covering module of a part of SciPy, if it is not imported yet."""
    root, _, rest = module.partition(".")
    part = rest.partition(".")[0]
    if root == "scipy" and part in SCIPY_PARTS:
        HOOKS.scipy_part(part)


SCIPY_PARTS = frozenset("fft integrate interpolate linalg ndimage optimize signal sparse spatial special stats".split())


def one_operand(x: Any) -> Any:
    """A list that holds traced arrays as one array, and a symbolic size as a number; anything else as it is."""
    return lift(x) if type(x) is Dim or (isinstance(x, SEQUENCES) and is_traced(x)) else x


def target(x: Any) -> None:
    """Let a fresh array that is to be written take traced values."""
    if type(x) is FreshArray:
        x.__written__()


def given_out(out: Any, made: Any) -> Any:
    """The result of a call with `out=`: the arrays that were given, and a new one in the place of None."""
    places, results = [x if type(x) is tuple else (x,) for x in (out, made)]
    kept = tuple([x if place is None else place for place, x in zip(places, results, strict=True)])
    return kept if type(made) is tuple else kept[0]


def own(made: Any, args: Any, kwargs: Any) -> Any:
    """A result whose arrays, where nothing outside shares their memory, can take traced values."""
    kind = type(made)
    if isinstance(made, np.ndarray):
        return as_fresh(made, *arrays_in(args), *arrays_in(tuple(kwargs.values())))
    if isinstance(made, tuple | list) and any(isinstance(x, np.ndarray) for x in made):
        items = [own(x, args, kwargs) for x in made]
        return kind(*items) if hasattr(kind, "_fields") else kind(items)
    return made


def arrays_in(items: Any) -> list[Any]:
    """The arrays among arguments, in lists and tuples too."""
    found = []
    for x in items:
        if isinstance(x, np.ndarray):
            found.append(x)
        elif isinstance(x, list | tuple):
            found += arrays_in(x)
    return found


def method_answer(array: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
    """The result of a method of a plain array."""
    given, named = live(args), live(kwargs)
    if is_traced(given) or is_traced(named):
        if name in WRITES:
            raise plain_target(name, array)
        return getattr(lift(array), name)(*given, **named)
    return own(getattr(array, name)(*given, **named), (array, *args), kwargs)


class IndexedArray:
    """A plain array that is about to be read at an index, which may be traced."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def __getitem__(self, index: Any) -> Any:
        at = live(index)
        if is_traced(at):
            return lift(self.array)[at]
        got = self.array[at]
        return own(got, (self.array,), {})


def read_at(x: Any) -> Any:
    """The object that an index expression of a rewritten function reads from."""
    if type(x) is np.ndarray:
        return IndexedArray(x) if current() is not None else x
    if type(x) in JOINERS and current() is not None:
        return JOINERS[type(x)]
    return x


def result(x: Any) -> Any:
    """The result of an operator, as an array that can take traced values."""
    return as_fresh(x) if type(x) is np.ndarray and x.base is None and current() is not None else x


HOOKS.answer = answer
