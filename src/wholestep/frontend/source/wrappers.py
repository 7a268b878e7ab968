"""Functions that Python's functools wraps, called in a trace: caches that last as long as it, and choices by type."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import is_traced, late_types
from wholestep.ir.build import GraphBuilder, current

Call = Callable[[Any], Any]
"""A function that is about to be called -> the one to call in its place."""

CACHED: Any = type(functools.lru_cache(lambda: None))
"""The class of functions with a cache."""
CHOOSING: CodeType = functools.singledispatch(lambda x: x).__code__  # type: ignore[attr-defined]
"""The code of every function that `functools.singledispatch` makes."""


def _method_code() -> CodeType | None:
    """The code of the bound method of `functools.singledispatchmethod`, where it is a Python function."""
    of_get = functools.singledispatchmethod.__get__.__code__.co_consts
    return next((c for c in of_get if isinstance(c, CodeType) and c.co_name == "_method"), None)


CHOOSING_METHOD = _method_code()
CHOSEN_METHOD: Any = getattr(functools, "_singledispatchmethod_get", None)
"""The class of that bound method from Python 3.14 on; None before."""


def remembered(key: Any, make: Callable[[], Any], *held: Any) -> Any:
    """The result under a key in this trace, or in one around it; the key's objects, `held`, live as long."""
    builder: GraphBuilder | None = current()
    assert builder is not None
    while builder is not None:
        if key in builder.remembered:
            return builder.remembered[key][0]
        builder = builder.parent
    made = make()
    here = current()
    if here is not None:
        here.remembered[key] = (made, held)
    return made


def holds_traced(x: Any) -> bool:
    """Test whether an argument is traced, or an object of which an attribute is."""
    return is_traced(x) or is_traced(getattr(x, "__dict__", None) or ())


def cached_call(call: Call, f: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A call of a function with a cache: with traced values its results are kept for this trace, and nowhere else."""
    if not any(map(holds_traced, (*args, *kwargs.values()))):
        return f(*args, **kwargs)
    key = ("called", id(f), *map(argument_key, args), *[(name, argument_key(x)) for name, x in kwargs.items()])
    return remembered(key, lambda: call(f.__wrapped__)(*args, **kwargs), f, args, kwargs)


def argument_key(x: Any) -> Any:
    """An argument as a part of a key; raises TypeError for arrays, as a cache does."""
    if type(x) is not Array:
        hash(x)
        return x
    if not x._scalar:
        raise TypeError("unhashable type: 'numpy.ndarray'")
    return "traced", id(x.value), x._weak


def class_of(x: Any) -> type:
    """The class of an argument, of a traced array that of the plain one in its place."""
    if type(x) in late_types:
        return np.ndarray
    if type(x) is not Array:
        return type(x)
    if not x._scalar:
        return np.ndarray
    one = np.zeros((), x.dtype)[()]
    return type(one.item() if x._weak else one)


def chosen_call(call: Call, f: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A call of a function of `functools.singledispatch`."""
    if not args:
        return f(*args, **kwargs)
    return call(f.dispatch(class_of(args[0])))(*args, **kwargs)


def chosen_method_call(call: Call, f: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A call of a method of `functools.singledispatchmethod`, of the object that it holds."""
    dispatch, obj, owner = held_choice(f)
    if not args or dispatch is None:
        return f(*args, **kwargs)
    return call(dispatch(class_of(args[0])).__get__(obj, owner))(*args, **kwargs)


def held_choice(f: Any) -> tuple[Any, Any, Any]:
    """The function that chooses a method by a class, and the object and the class that it is a method of."""
    if not isinstance(f, FunctionType):
        return f._dispatch, f._obj, f._cls
    held = dict(zip(f.__code__.co_freevars, [c.cell_contents for c in f.__closure__ or ()], strict=True))
    whole = held.get("self")  # the descriptor in the first versions of 3.11 and 3.12, and then its function alone
    dispatch = held.get("dispatch") if whole is None else whole.dispatcher.dispatch
    return dispatch, held.get("obj"), held.get("cls")


def choice_answer(f: FunctionType) -> Any:
    """The answer to a function that chooses by the class of its first argument; None for other functions."""
    if f.__code__ is CHOOSING and hasattr(f, "dispatch"):
        return chosen_call
    return chosen_method_call if f.__code__ is CHOOSING_METHOD else None
