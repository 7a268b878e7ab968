"""Dispatch of NumPy calls: one table from NumPy's functions to ours, and a clear error for the rest."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from wholestep.boundary.answers import keyword, located
from wholestep.dims import Dim, SymbolicError
from wholestep.errors import (
    ArgumentError,
    AxisError,
    BoundsError,
    ParameterError,
    RangeError,
    UnsupportedError,
    WholestepError,
    here,
    is_internal,
)
from wholestep.frontend.options import check_options, options_among
from wholestep.ir.build import current

F = TypeVar("F", bound=Callable[..., Any])


class Hooks:
    """Operations of an array that other modules of the frontend define; each enters itself when it is imported."""

    ufunc: Callable[..., Any]
    """(ufunc, *operands) -> Array"""
    getitem: Callable[..., Any]
    setitem: Callable[..., Any]
    astype: Callable[..., Any]
    assemble: Callable[..., Any]
    """A nested list that holds traced arrays -> Array"""
    assign_out: Callable[..., Any]
    """(name, out=, result, casting) -> the result, or `out=` with the result in it"""
    answer: Callable[..., Any]
    """(function of NumPy's, args, kwargs) -> the result, where fresh arrays are among the arguments"""
    scipy_part: Callable[[str], Any]
    """A part of SciPy, such as "stats" -> the module that covers it, imported when it is asked for"""
    is_fresh: Callable[..., bool]
    """plain array -> its memory is of the traced function's own making"""


HOOKS = Hooks()

FUNCTIONS: dict[Any, Callable[..., Any]] = {}
"""NumPy (and SciPy) function -> our implementation, for traced arguments."""

NAMES: dict[str, Any] = {}
"""Public name, such as "numpy.mean" or "scipy.special.erf" -> the outside function that it covers."""

traced_types: list[type] = []
"""The class of traced arrays, once it exists; a list so that this module need not import it."""


REPLACED: dict[Any, Callable[..., Any]] = {}
"""NumPy's classes -> ours, for calls in rewritten functions."""

DECIDING: set[Any] = set()
"""Functions that ours answer in every case, and decide whether a traced value takes part: as where they iterate."""

WAYS_OUT: dict[Any, str] = {}
"""Functions of NumPy and SciPy that are not covered -> the hint of their error, where a covered call does the same."""

INSTANCES: dict[type, Callable[[Any], Callable[..., Any]]] = {}
"""NumPy's classes of callable objects -> the function from an instance to the one that answers its calls."""

EVALUATED: dict[type, Callable[[Any], Any]] = {}
"""SciPy's classes of objects made of plain numbers, such as splines -> ours of one, for calls with traced arrays."""

JOINERS: dict[type, Any] = {}
"""The classes of NumPy's objects that are indexed to make arrays, such as r_ -> ours."""

late_types: list[type] = []
"""Classes whose instances stand for an array that may change; `__live__()` returns the present one."""


SEQUENCES = (list, tuple, deque)
"""Containers that NumPy makes arrays of."""

CONTAINERS = (*SEQUENCES, dict)
"""Containers that may hold traced arrays."""


def is_traced(x: Any) -> bool:
    """Test whether a value is a traced array, a symbolic size, or a container that holds one."""
    kind = type(x)
    if kind in traced_types or kind is Dim:
        return True
    if kind is list or kind is tuple or isinstance(x, CONTAINERS):
        return _holds_traced(x)
    if kind in late_types:
        return is_traced(x.__live__())
    return isinstance(x, tuple(traced_types))


def _holds_traced(container: Any) -> bool:
    """Test whether a container, however deep, holds a traced array or a symbolic size; it may contain itself."""
    waiting, seen = [container], {id(container)}
    while waiting:
        x = waiting.pop()
        for item in x.values() if isinstance(x, dict) else x:
            kind = type(item)
            if kind is float or kind is int:
                continue
            if isinstance(item, CONTAINERS):
                if id(item) not in seen:
                    seen.add(id(item))
                    waiting.append(item)
            elif is_traced(item):
                return True
    return False


def covers(function: Any, name: str | None = None, *, creates: bool = False) -> Callable[[F], F]:
    """Register an implementation of an outside function; plain arguments still go to the outside function itself.

    With `creates` the call gives a traced array inside every trace, so that traced values can be assigned into it.
    """

    def register(implementation: F) -> F:
        implementation = with_checked_options(implementation, name or public_name(function))
        FUNCTIONS[function] = implementation
        NAMES[name or public_name(function)] = function

        @functools.wraps(implementation)
        def call(*args: Any, **kwargs: Any) -> Any:
            if (creates and current() is not None) or is_traced(args) or (kwargs and is_traced(kwargs)):
                return with_documented_errors(implementation, function, args, kwargs)
            return function(*args, **kwargs)

        return call  # type: ignore[return-value]

    return register


DOCUMENTED: dict[type[Exception], type[WholestepError]] = {
    **{TypeError: ArgumentError, ValueError: ParameterError, IndexError: BoundsError},
    **{OverflowError: RangeError, np.exceptions.AxisError: AxisError, AttributeError: ArgumentError},
}
"""The errors of Python and NumPy that a call raises -> ours in their place."""


def with_documented_errors(implementation: Callable[..., Any], function: Any, args: Any, kwargs: Any) -> Any:
    """The result of a call; an error that Python or NumPy raises in it becomes one that names the function.

    Errors of functions of the user's, which some implementations call, stay as they are.
    """
    try:
        return implementation(*args, **kwargs)
    except SymbolicError as error:
        if error.told:
            raise
        raise located(error, here(), f"{public_name(function)}: ") from None
    except tuple(DOCUMENTED) as error:
        kind = DOCUMENTED.get(type(error))
        if kind is None or not raised_inside(error):
            raise
        given = ", ".join([*map(argument_text, args), *[f"{name}={argument_text(x)}" for name, x in kwargs.items()]])
        raise kind(
            f"{public_name(function)}: {error}: ({given})",
            hint=f"its arguments are those of NumPy's function{meant_instead(implementation, kwargs)}",
        ) from error


def meant_instead(implementation: Callable[..., Any], kwargs: Mapping[str, Any]) -> str:
    """NumPy's names for the arguments of a call that are named as in another library, as the end of a hint."""
    names = [*inspect.signature(implementation).parameters]
    pairs = [(keyword(foreign, names), foreign) for foreign in kwargs if foreign not in names]
    said = ", ".join([f"{ours}= instead of {foreign}=" for ours, foreign in pairs if ours])
    return said and f": {said}"


def raised_inside(error: BaseException) -> bool:
    """Test whether an error was raised by this library or NumPy, with no frame of the user's below the call."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
        if not is_internal(at.tb_frame.f_code.co_filename):
            return False
    return True


def argument_text(x: Any) -> str:
    """An argument in a message: the type of a traced array, the text of anything small."""
    if type(x) in traced_types:
        return str(x.type)
    text = repr(x)
    return text if len(text) < 40 else type(x).__name__


def with_checked_options(implementation: F, name: str) -> F:
    """An implementation that refuses options that NumPy refuses, where its own parameters are among the shared ones."""
    code = getattr(implementation, "__code__", None)
    parameters = () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    options = options_among(parameters)
    if not options:
        return implementation
    places = parameters[: code.co_argcount]  # type: ignore[union-attr]

    @functools.wraps(implementation)
    def checked(*args: Any, **kwargs: Any) -> Any:
        check_options(name, options, {**dict(zip(places, args, strict=False)), **kwargs})
        return implementation(*args, **kwargs)

    return checked  # type: ignore[return-value]


class Bound:
    """An implementation that gets its arguments by the names of the outside function's signature, which it has too.

    The signature of a function in C is in its docstring, which `python -OO` leaves out: `stated` is that signature.
    """

    def __init__(
        self, outside: Any, implementation: Callable[..., Any], ignored: str, casting: str, stated: str = ""
    ) -> None:
        self.__module__, self.__doc__ = implementation.__module__, implementation.__doc__
        self.__name__ = self.__qualname__ = outside.__name__
        self.outside, self.implementation = outside, implementation
        self.ignored, self.casting, self.stated = ignored.split(), casting, stated

    # Properties are computed at their first use, since parsing all signatures would slow down the library's import.

    @functools.cached_property
    def __signature__(self) -> inspect.Signature:
        text = getattr(inspect.unwrap(self.outside), "__text_signature__", None) or self.stated
        # `inspect` tokenizes the text of a C function, which takes longer than to make a function of it.
        return inspect.signature(eval("(lambda " + text.strip("()\n").rstrip(",") + ": 0)") if text else self.outside)

    @functools.cached_property
    def places(self) -> list[str]:
        """The names of the arguments that may come by position."""
        return [p.name for p in self.__signature__.parameters.values() if p.kind <= p.POSITIONAL_OR_KEYWORD]

    @functools.cached_property
    def names(self) -> frozenset[str]:
        """The names of all arguments."""
        return frozenset(self.__signature__.parameters)

    @functools.cached_property
    def options(self) -> tuple[str, ...]:
        """The shared options of NumPy among the arguments; SciPy's are others under the same names."""
        return options_among(self.names) if public_name(self.outside).startswith("numpy.") else ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and not kwargs:
            return self.implementation(**{self.places[0]: args[0]})
        given = dict(zip(self.places, args, strict=False))
        given.update(kwargs)
        if len(given) != len(args) + len(kwargs) or not self.names.issuperset(kwargs):
            try:
                self.__signature__.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self.__name__}() {error}") from None
        check_options(self.__name__, self.options, given)
        for parameter in self.ignored:
            given.pop(parameter, None)
        out = given.pop("out", None)
        if out is None:
            return self.implementation(**given)
        return HOOKS.assign_out(self.__name__, out, self.implementation(**given), self.casting)


def binds(
    function: Any,
    remark: str = "",
    *,
    ignored: str = "",
    casting: str = "same_kind",
    creates: bool = False,
    stated: str = "",
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`covers` for an implementation that takes its arguments by name, bound by the outside function's own signature.

    The implementation declares only the parameters that it uses: the `ignored` ones are accepted and have no effect. A
    result goes into `out=` by the rule `casting`, or "exact" for an equal type. A parameter that only a later NumPy has
    raises TypeError. An implementation without a docstring gets one of the function's name and the `remark`. `stated`
    is the signature of a function in C.
    """

    def register(implementation: Callable[..., Any]) -> Callable[..., Any]:
        implementation.__doc__ = implementation.__doc__ or f"{public_name(function)}{': ' * bool(remark)}{remark}."
        return covers(function, creates=creates)(Bound(function, implementation, ignored, casting, stated))

    return register


def bound(function: Any, remark: str, shared: Callable[..., Any], *known: Any, **options: Any) -> Callable[..., Any]:
    """`binds` for one of several functions that share an implementation, whose first arguments are `known` for each."""

    def implementation(**given: Any) -> Any:
        return shared(*known, **given)

    implementation.__module__ = shared.__module__
    return binds(function, remark, **options)(implementation)


def public_name(function: Any) -> str:
    """`numpy.linalg.solve` for np.linalg.solve, `numpy.add.at` for the method of a ufunc."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, np.ufunc):
        return f"{public_name(owner)}.{function.__name__}"
    parts = [part for part in (home_of(function) or "numpy").split(".") if not part.startswith("_")]
    if isinstance(function, np.ufunc):
        parts = ["numpy"] if getattr(np, function.__name__, None) is function else ["scipy", "special"]
    return ".".join([*parts, function.__name__])


def home_of(function: Any) -> str:
    """The module of a function, or the class of which it is a method in C; "" where it has none.

    >>> home_of(np.linalg.solve), home_of([].append)
    ('numpy.linalg', 'list')
    """
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None)
    if module or owner is None:
        return module or ""
    kind = type(owner)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def function(outside: Any) -> Callable[..., Any]:
    """Our implementation of an outside function; raises UnsupportedError that names the nearest covered one."""
    found = FUNCTIONS.get(outside)
    if found is None:
        raise unsupported(public_name(outside))
    return found


def refusing(outside: F, name: str) -> F:
    """An outside function that is not covered: plain arguments go to it, traced ones are refused under this name."""

    @functools.wraps(outside)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_traced(args) or is_traced(kwargs):
            raise unsupported(name)
        return outside(*args, **kwargs)

    return call  # type: ignore[return-value]


WRITERS = frozenset(("save", "savez", "savez_compressed", "savetxt"))
"""Functions of NumPy that write arrays into files."""


def unsupported(name: str, hint: str = "") -> UnsupportedError:
    """The error for a call that is not covered; its hint is an alternative, or the covered call of the nearest name."""
    short = name.rsplit(".", 1)[-1]
    if short in WRITERS:
        hint = "write what the function returns, or what ws.capture keeps"
    known = {full.rsplit(".", 1)[-1]: full for full in NAMES}
    close = importlib.import_module("difflib").get_close_matches(short, list(known), n=1, cutoff=0.75)
    near = f"the nearest covered call is {known[close[0]]}; " if close else ""
    return UnsupportedError(
        f"{name}: not covered for traced arrays",
        hint=hint or f"{near}compose it from covered calls, or give it a derivative with ws.custom_vjp",
    )
