"""The hook of rewritten functions: from a callable to the function that answers its calls inside a trace."""

from __future__ import annotations

import builtins
import contextlib
import functools
import itertools
import operator
import weakref
from collections.abc import Callable
from dataclasses import is_dataclass
from types import BuiltinFunctionType, CellType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any

import numpy as np

from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import INSTANCES, JOINERS, REPLACED, is_traced
from wholestep.frontend.foreign_calls import ROOTS, named_in_foreign_failures
from wholestep.frontend.source import answers, members
from wholestep.frontend.source.class_patterns import pattern_class
from wholestep.frontend.source.constructors import completed, constructed, is_completed
from wholestep.frontend.source.direct_answers import DISPATCHING, are_simple, direct_answer
from wholestep.frontend.source.fresh import FreshArray, FreshMethod, live
from wholestep.frontend.source.members import MARKED, Operand, Owner, function_of, member_of, names_in
from wholestep.frontend.source.python_calls import PYTHON, is_instance, memory_view
from wholestep.frontend.source.rewriting import rewritten_code
from wholestep.frontend.source.wrappers import (
    CACHED,
    CHOSEN_METHOD,
    cached_call,
    choice_answer,
    chosen_method_call,
    remembered,
)
from wholestep.ir.build import current

Answer = Callable[..., Any]


class CallHook:
    """The one constant of a rewritten function that is not the user's; each method answers one question."""

    __slots__ = ()

    def call(self, f: Any) -> Any:
        """The function to call in place of `f`."""
        if current() is None:
            return f
        return KINDS.get(type(f), of_instance)(f)

    def indexed(self, x: Any) -> Any:
        """The object that an index expression reads from, or writes to."""
        return answers.read_at(x) if type(x) in PLAIN or type(x) in JOINERS else self.operand(x)

    def operand(self, x: Any) -> Any:
        """The object that stands beside an operator."""
        kind = type(x)
        if kind in PLAIN or current() is None or not has_operators(kind):
            return x
        return Operand(x, rewritten_function)

    def update(self, x: Any, y: Any, name: str) -> Any:
        """The result of `x op= y`."""
        if type(x) in PLAIN or current() is None or not has_operators(type(x)):
            return getattr(operator, f"i{name}")(x, self.operand(y))
        return members.updated_operand(name, rewritten_function, x, y)

    def owner(self, x: Any, name: str) -> Any:
        """The object of which an attribute is read."""
        kind = type(x)
        if kind in PLAIN or current() is None or kind.__getattribute__ is not READING:
            return x
        member = member_of(kind, name)
        getter = function_of(member)
        code = None if getter is None else rewritten_code(getter, HOOK)
        if getter is None or code is None:
            return x
        read = functools.partial(value_of_property, with_code(getter, code), x, name)
        if type(member) is property:
            return Owner(read)
        if name in vars(x):
            return x
        return Owner(lambda: remembered(("property", id(x), name), read, x))

    result = staticmethod(answers.result)
    pattern_class = staticmethod(pattern_class)


HOOK = CallHook()


PLAIN = frozenset((Array, np.ndarray, FreshArray, float, int, bool, complex, str, tuple, list, dict, ModuleType))
"""Kinds of objects that have no members of the user's."""

READING: Any = object.__getattribute__

_with_operators: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()


def has_operators(kind: type) -> bool:
    """Test whether a class, or one that it is derived from, has operators of the user's."""
    found = _with_operators.get(kind)
    if found is None:
        found = any([MARKED in names_in(base) for base in kind.__mro__])
        _with_operators[kind] = found
    return found


def rewritten_function(f: FunctionType) -> FunctionType:
    """A function, rewritten where it is the user's."""
    code = rewritten_code(f, HOOK)
    return f if code is None else with_code(f, code)


def value_of_property(getter: Answer, x: Any, name: str) -> Any:
    """The value of a rewritten property; where it finds no attribute, the class is asked, as Python does."""
    try:
        return getter(x)
    except AttributeError:
        instead = getattr(type(x), "__getattr__", None)
        if instead is None:
            raise
        return instead(x, name)


def unchanged(f: Any) -> Any:
    return f


def of_function(f: FunctionType) -> Any:
    """A Python function: the user's is rewritten, NumPy's answered."""
    code = rewritten_code(f, HOOK)
    if code is not None:
        return with_code(f, code)
    if f.__code__ is MANAGED:
        return managed(f)
    answer = choice_answer(f)
    return of_library(f) if answer is None else functools.partial(answer, HOOK.call, f)


def of_chosen_method(f: Any) -> Any:
    """A method that is chosen by the class of its first argument, as an object of Python's own."""
    return functools.partial(chosen_method_call, HOOK.call, f)


def of_cached(f: Any) -> Any:
    """A function with a cache."""
    return functools.partial(cached_call, HOOK.call, f)


_maker: Any = contextlib.contextmanager
MANAGED = _maker(lambda: iter(())).__code__
"""The code of every function that `contextlib.contextmanager` makes; the user's generator is in its closure."""


def managed(f: FunctionType) -> FunctionType:
    """The function of a context manager, around the rewritten generator."""
    cells = [CellType(HOOK.call(c.cell_contents)) for c in f.__closure__ or ()]
    return FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, tuple(cells))


def with_code(f: FunctionType, code: Any) -> FunctionType:
    """The same function, its globals, defaults and closure its own, with other code."""
    made = FunctionType(code, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    made.__kwdefaults__ = f.__kwdefaults__
    return made


_answered: dict[int, tuple[Any, Answer]] = {}


def of_library(f: Any) -> Any:
    """A function of a package: NumPy's and SciPy's are answered, ours get the arrays that fresh ones stand for."""
    found = _answered.get(id(f))
    if found is not None and found[0] is f:
        return found[1]
    root = (getattr(f, "__module__", None) or "").partition(".")[0]
    if root in ("numpy", "scipy"):
        made: Answer = numpy_answer(f)
    elif root == "wholestep":
        made = functools.partial(on_live_arrays, f)
        if isinstance(f, FunctionType) and f.__closure__:
            return made  # functions made by transforms come and go
    else:
        return of_others(f, f)
    _answered[id(f)] = (f, made)
    return made


def of_others(f: Any, otherwise: Any) -> Any:
    """A function of another package: where it has arrays of its own, its errors for traced ones name it."""
    owner = getattr(f, "__self__", None)
    written = getattr(f, "__globals__", {}).get("__name__")  # a transformed function has the module of the user's
    module = written or getattr(f, "__module__", None) or type(f if owner is None else owner).__module__
    package = ROOTS.get(str(module).partition(".")[0])
    if package is not None:
        return functools.partial(answers.on_read_views, named_in_foreign_failures(package, f))
    reads = type(f) is BuiltinFunctionType and answers.may_read_memory(str(module))
    return functools.partial(answers.on_read_views, otherwise) if reads else otherwise


def numpy_answer(f: Any) -> Answer:
    """A function of NumPy's, whose arguments may be functions of the user's."""

    inputs = f.nin if isinstance(f, np.ufunc) else MANY
    dispatches = type(f) in DISPATCHING
    direct = direct_answer(f) if dispatches else None

    def answered(*args: Any, **kwargs: Any) -> Any:
        if dispatches and not kwargs and are_simple(args):
            if direct is not None and len(args) == direct.operands:
                return direct.answer(f, args)
            return f(*args)  # NumPy dispatches to the traced array
        if len(args) > inputs:
            args, kwargs = args[:inputs], {**kwargs, "out": (*args[inputs:], *[None] * (inputs + f.nout - len(args)))}
        return answers.answer(f, hooked_arguments(args), {k: hooked(v) for k, v in kwargs.items()})

    return answered


MANY = 64


def on_live_arrays(f: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A call of this library, which writes into `out=` where a method of a traced array has it."""
    out = kwargs.get("out")
    answers.target(out)
    made = f(*live(args), **live(kwargs))
    return out if type(out) is FreshArray else made


def hooked(x: Any) -> Any:
    """An argument; a function, or each one in a list, is replaced by the function that answers its calls."""
    kind = type(x)
    if kind in CALLED:
        return HOOK.call(x)
    if (kind is list or kind is tuple) and any(type(item) in CALLED for item in x):
        return kind([hooked(item) for item in x])
    return x


def hooked_arguments(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([hooked(x) for x in args])


CALLED = frozenset((FunctionType, MethodType, functools.partial))


def of_builtin(f: Any) -> Any:
    """A function in C: of `math` and of Python, or a method of a plain array."""
    found = BUILT_IN.get(id(f))
    if found is not None:
        return found
    owner = f.__self__
    if isinstance(owner, ModuleType) or owner is None:
        return of_library(f)
    if type(owner) is np.ndarray or type(owner) is FreshArray:
        return functools.partial(answers.method_answer, owner, f.__name__)
    if isinstance(owner, np.ufunc) or type(owner).__module__.startswith("numpy.random"):
        return numpy_answer(f)
    if f.__name__ == "sort" and type(owner) is list:
        return functools.partial(with_hooked_arguments, f)
    if getattr(builtins, type(owner).__name__, None) is type(owner):
        return f
    return of_others(f, functools.partial(answers.method_in_c, f))


def with_hooked_arguments(f: Any, /, *args: Any, **kwargs: Any) -> Any:
    """A built-in function that calls its arguments."""
    given = [HOOK.call(x) if type(x) in KINDS else x for x in args]
    return f(*given, **{k: HOOK.call(v) if type(v) in KINDS else v for k, v in kwargs.items()})


def of_python(f: Any, ours: Answer) -> Answer:
    """A function of Python's that we answer where a traced value takes part."""

    def answered(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and type(args[0]) in GENERATED:
            args = (list(args[0]),)
        if is_traced(args):
            return ours(*hooked_arguments(args), **{k: hooked(v) for k, v in kwargs.items()})
        return f(*hooked_arguments(args), **{k: hooked(v) for k, v in kwargs.items()})

    return answered


def of_operator(f: Any) -> Answer:
    """A function of Python's that is an operator."""
    return lambda *args: f(*map(HOOK.operand, args))


def sum_by_operators(items: Any, /, start: Any = 0) -> Any:
    """`sum`, by the operators of the user's where items have some."""
    given = list(items)
    if not any([type(x) not in PLAIN and has_operators(type(x)) for x in given]):
        return sum(given, start)
    return functools.reduce(of_operator(operator.add), given, start)


GENERATED = frozenset((GeneratorType, map, zip, filter))
"""Iterators, whose items cannot be inspected without consuming them."""


def of_type(kind: type) -> Any:
    """A class: a type of NumPy's, or one of the user's whose constructor is the user's too."""
    answers.cover_scipy(kind.__module__)
    found = BUILT_IN.get(id(kind)) or REPLACED.get(kind)
    if found is not None:
        return found
    root = kind.__module__.partition(".")[0]
    if root == "scipy":
        return functools.partial(answers.on_read_views, kind)  # a tree keeps the memory of its points
    if root == "numpy" and issubclass(kind, np.ndarray):
        return numpy_answer(kind)
    construct = getattr(kind, "__init__", None)
    usual = getattr(kind, "__new__", None) is OBJECT_NEW and type(kind).__call__ is TYPE_CALL
    if type(construct) is FunctionType and usual:
        code = rewritten_code(construct, HOOK)
        if code is not None:
            return functools.partial(constructed, kind, with_code(construct, code))
        after = getattr(kind, "__post_init__", None)
        if usual and is_dataclass(kind) and type(after) is FunctionType and is_completed(kind):
            code = rewritten_code(after, HOOK)
            return kind if code is None else functools.partial(completed, kind, with_code(after, code))
    return kind


OBJECT_NEW: Any = object.__new__
TYPE_CALL: Any = type.__call__


def of_method(f: MethodType) -> Any:
    """A bound method of a user's class."""
    function = f.__func__
    if type(function) is FunctionType:
        code = rewritten_code(function, HOOK)
        if code is not None:
            return MethodType(with_code(function, code), f.__self__)
        if function.__module__.partition(".")[0] in ("numpy", "scipy"):
            return numpy_answer(f)  # a method of a distribution, or of a class of series
    return functools.partial(of_cached(function), f.__self__) if type(function) is CACHED else of_others(f, f)


def of_partial(f: functools.partial[Any]) -> Any:
    """A partial application of the function that answers for the original one."""
    answer = HOOK.call(f.func)
    return f if answer is f.func else functools.partial(answer, *f.args, **f.keywords)


_classes: weakref.WeakKeyDictionary[type, Any] = weakref.WeakKeyDictionary()


def of_instance(f: Any) -> Any:
    """An object that can be called: by a method of the user's class, or of this library."""
    kind = type(f)
    if isinstance(f, type):
        return of_type(f)
    found = INSTANCES.get(kind)
    if found is not None:
        return found(f)
    if kind.__module__ == "uarray":
        return of_library(f)  # the functions of scipy.fft
    call = getattr(kind, "__call__", None)  # noqa: B004 (the class's own method is wanted, and no answer yes or no)
    if type(call) is FunctionType:
        code = rewritten_code(call, HOOK)
        if code is not None:
            return MethodType(with_code(call, code), f)
        root = kind.__module__.partition(".")[0]
        if root == "wholestep" and kind is not FreshMethod:
            return functools.partial(on_live_arrays, f)
        if root == "scipy":
            return numpy_answer(f)  # a distribution, to which parameters are given
    return of_others(f, f)


BUILT_IN: dict[int, Answer] = {
    **{id(f): of_python(f, ours) for f, ours in PYTHON.items()},
    **{id(f): functools.partial(with_hooked_arguments, f) for f in (map, filter, sorted, functools.reduce)},
    **{id(f): functools.partial(with_hooked_arguments, f) for f in (itertools.accumulate, itertools.starmap)},
    **{id(f): of_operator(f) for f in members.OF_PYTHON},
    id(sum): sum_by_operators,
    id(isinstance): is_instance,
    id(memoryview): memory_view,
}
"""The ids of Python's functions, which live as long as Python does -> the functions that answer for them."""

KINDS: dict[type, Callable[[Any], Any]] = {
    FunctionType: of_function,
    BuiltinFunctionType: of_builtin,
    MethodType: of_method,
    type: of_type,
    np.ufunc: of_library,
    type(np.sum): of_library,
    functools.partial: of_partial,
    CACHED: of_cached,
    FreshMethod: unchanged,
    **({} if CHOSEN_METHOD is None else {CHOSEN_METHOD: of_chosen_method}),
}
