"""Errors for names of other libraries, and for arguments that a function does not take, with the replacement."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wholestep.boundary.declared import misfit
from wholestep.boundary.foreign import GIVEN, KEYWORDS, NAMES, OWN_CALL
from wholestep.boundary.frames import raised_below
from wholestep.boundary.renaming import Ours
from wholestep.dims import SymbolicError
from wholestep.errors import ArgumentError, ConversionError, UnknownNameError, Where, WholestepError, in_full

PLACES = ("ws.nn", "ws.optim", "ws.random", "ws.nn.metrics", "ws.nn.init", "ws")
"""Namespaces in which a name is looked for."""


def unknown(place: str, name: str, shown: str = "", what: str = "attribute") -> AttributeError:
    """The error for a name that `place`, a key of the table of foreign names, does not have.

    A name of another library, or of another namespace here, gets an answer, and one that is like names of a namespace
    gets these; any other is a plain AttributeError.
    """
    shown = shown or f"module '{place.replace('ws', 'wholestep', 1)}'"
    answer = NAMES[place].get(name) or elsewhere(place, name) or without_a_suffix(place, name)
    near = near_names(place, name) if answer is None else []
    if answer is None and not near:
        return AttributeError(f"{shown} has no {what} {name!r}", name=name)
    hint = f"names like it: {', '.join(near)}" if answer is None else instead(answer)
    return UnknownNameError(f"{shown} has no {what} {name!r}", hint=hint)


def instead(answer: Ours) -> str:
    """The answer as a sentence."""
    names = answer.names.replace(", ", " or ")
    return f"use {names}{'; ' * bool(answer.remark)}{answer.remark}"


def elsewhere(place: str, name: str) -> Ours | None:
    """The same name in another namespace, or in another case."""
    if name.startswith("_") or not place.startswith("ws"):
        return None
    for other in (place, *PLACES):
        module = sys.modules.get("wholestep" + other.removeprefix("ws"))
        known = public_names(module)
        if name in known and other != place:
            return Ours(f"{other}.{name}")
        same = [n for n in known if n.lower() == name.lower()]
        if same and other == place:
            return Ours(f"{other}.{min(same, key=str.isupper)}")
    return None


SUFFIXES = {
    "_with_indices": "it gives no indices",
    "_": "arrays are assigned by their own name: x = f(x)",
}
"""Endings of names of PyTorch, with what to do without them."""


def without_a_suffix(place: str, name: str) -> Ours | None:
    """The name without an ending of PyTorch's, where that is a name here or one that has an answer."""
    known = public_names(sys.modules.get("wholestep" + place.removeprefix("ws")))
    for suffix, remark in SUFFIXES.items():
        plain = name.removesuffix(suffix)
        answer = Ours(f"{place}.{plain}") if plain in known else NAMES[place].get(plain)
        if plain != name and answer is not None:
            return Ours(answer.names, remark)
    return None


def our_name(place: str, name: str) -> str:
    """Our first name, in small letters, for what a namespace or another library calls so; "" where there is none.

    >>> import wholestep as ws
    >>> our_name("ws.optim", "StepLR"), our_name("ws.optim", "Adam"), our_name("ws.optim", "Own")
    ('ws.optim.step_decay', 'ws.optim.adam', '')
    """
    known = public_names(sys.modules.get("wholestep" + place.removeprefix("ws")))
    same = [n for n in known if n.lower() == name.lower()]
    answer = Ours(f"{place}.{max(same)}") if same else NAMES[place].get(name) or elsewhere(place, name)
    return answer.names.split(", ")[0] if answer is not None else ""


def near_names(place: str, name: str, count: int = 3) -> list[str]:
    """Public names of a namespace that are spelled much like a name, or that have a word of it."""
    if name.startswith("_") or not place.startswith("ws"):
        return []
    known = [
        n
        for n in public_names(sys.modules.get("wholestep" + place.removeprefix("ws")))
        if n[0].isupper() == name[0].isupper()
    ]
    found = close_names(name, known, count)
    words = {word for word in name.lower().split("_") if len(word) > 3}
    found += [n for n in known if n not in found and not words.isdisjoint(n.split("_"))]
    return [f"{place}.{n}" for n in found[:count]]


def close_names(name: str, known: Sequence[str], count: int) -> list[str]:
    """The names that are spelled most like another one."""
    # Most programs never ask for it, nor for the module that knows.
    found: list[str] = importlib.import_module("difflib").get_close_matches(name, known, n=count, cutoff=0.75)
    return found


def public_names(module: Any) -> Sequence[str]:
    """The public names of a module."""
    return getattr(module, "__all__", ())


def answered(
    f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], error: Exception
) -> BaseException | None:
    """The error that a caller of `f` gets in the place of one that Python or NumPy raised; None to keep it."""
    if isinstance(error.__cause__, ConversionError):
        # NumPy raises a ValueError of its own, caused by the error of an element's conversion.
        return error.__cause__.with_traceback(error.__traceback__)
    if isinstance(error, SymbolicError):
        return None if error.told else located(error, raised_below(error.__traceback__)[0])
    if isinstance(error, WholestepError):
        return None
    if type(error) is TypeError and error.__traceback__ is not None and error.__traceback__.tb_next is None:
        return call_error(f, args, kwargs, error)
    fault = misfit(f, args, kwargs) if raised_below(error.__traceback__)[1] else None
    return None if fault is None else ArgumentError(f"{called(f, args)}: {fault}")


def located(error: SymbolicError, where: Where, who: str = "") -> SymbolicError:
    """An error about a symbolic size with the user's line and the way out."""
    made = SymbolicError(in_full(f"{who}{error}", where, error.hint), error.hint)
    made.told = True
    return made.with_traceback(error.__traceback__)


def call_error(f: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], error: TypeError) -> TypeError:
    """The error for a call that does not fit the parameters of a function."""
    try:
        parameters = inspect.signature(f).parameters
    except (TypeError, ValueError):
        return error
    name = called(f, args)
    own = [p for p in parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name != "self"]
    names = [p.name for p in own]
    given = list(args[1:] if "self" in parameters else args)
    extra = [k for k in kwargs if k not in names]
    if extra:
        meant = keyword(extra[0], [n for n in names if n not in kwargs])
        hint = f"it is {meant}" if meant else f"the parameters are {', '.join(names)}"
        return ArgumentError(f"{name} has no parameter {extra[0]}", hint=hint)
    ordered = [p.name for p in own if p.kind is not p.KEYWORD_ONLY]
    if len(given) > len(ordered):
        rest = ", ".join(f"{n}=" for n in names if n not in ordered)
        takes = f"{name} takes {', '.join(ordered) or 'nothing'} by position, and got {len(given)} arguments"
        hint = f"by name: {rest}" if rest else f"call {name}({', '.join(ordered)})"
        return ArgumentError(takes, hint=OWN_CALL.format(name) if ordered == ["f"] else hint)
    twice = [n for n in ordered[: len(given)] if n in kwargs]
    if twice:
        return ArgumentError(
            f"{name}: {', '.join(twice)} is given twice, by position and by name",
            hint=f"call {name}({', '.join(names)})",
        )
    needed = [p.name for p in own if p.default is p.empty]
    missing = [n for n in needed if n not in kwargs and n not in ordered[: len(given)]]
    if not missing:
        return error
    made = maker(f, name)
    if made is not None:
        return ArgumentError(f"{name} is what ws.optim.{made} makes, and has no defaults", hint=f"call ws.optim.{made}")
    hint = GIVEN.get(missing[0], f"call {name}({', '.join(needed)})")
    return ArgumentError(f"{name}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing", hint=hint)


def check_fits(who: str, f: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any], hint: str) -> None:
    """Raise ArgumentError where a function of the user's does not take these arguments."""
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*args, **named)
    except TypeError as error:
        raise ArgumentError(f"{who}{signature}: {error}", hint=hint) from None


def called(f: Callable[..., Any], args: Sequence[Any]) -> str:
    """A function as its caller names it: a class for its constructor, and for the call of an object of it."""
    owner, _, name = f.__qualname__.rpartition(".")
    owner = owner.rpartition(".")[2]
    if name in ("__init__", "__call__") and args:
        return type(args[0]).__name__
    if not owner or owner == "<locals>":
        return name
    classes = [cls.__name__ for cls in type(args[0]).__mro__] if args else []
    return f"{classes[0] if owner in classes else owner}.{name}"


def maker(f: Callable[..., Any], name: str) -> str | None:
    """The function that makes the objects of an optimizer's class, whose constructor has no defaults."""
    if not f.__qualname__.endswith("__init__") or not str(f.__module__).startswith("wholestep.optim."):
        return None
    return next((n for n in public_names(sys.modules["wholestep.optim"]) if n.replace("_", "") == name.lower()), None)


def keyword(foreign: str, names: Sequence[str]) -> str:
    """The name among these for a parameter of another library, or "" where there is nothing like it."""
    table = KEYWORDS.get(foreign, ())
    if len(table) > 1 and foreign == "betas" and set(table) <= set(names):
        return " and ".join(table)
    found = [n for n in table if n in names] or close_names(foreign, names, 1)
    return (found or [""])[0]
