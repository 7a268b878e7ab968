"""Modules that were made without a key: their construction is deferred until the key of their path is known."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from wholestep import containers, random, tree
from wholestep.boundary.answers import called
from wholestep.boundary.declared import OPEN_ENDED, is_ours, misfit
from wholestep.boundary.frames import cut_frames
from wholestep.boundary.public import boundary
from wholestep.errors import ParameterError, UnknownNameError, Where, here, show
from wholestep.nn.keys import as_key

HINT = "ws.nn.initialized(model, key=0) draws all that waits; or pass key=, or give one to the model around it"
note = object.__setattr__


class Waiting(NamedTuple):
    """The state of a module that waits: the arguments of its constructor, and the line that made it."""

    given: Mapping[str, Any]
    signature: inspect.Signature
    where: Where
    frozen: bool = False
    """True if its parameters are frozen when it is drawn."""

    def arguments(self, module: Any, key: PathKey) -> inspect.BoundArguments:
        """All arguments of the constructor."""
        named = {"key": key.value()} if "key" in self.signature.parameters else {}
        first = next(iter(self.signature.parameters))
        return inspect.BoundArguments(self.signature, {**self.given, first: module, **named})

    def __reduce__(self) -> tuple[Any, ...]:
        """The parts that pickles hold: all but the line, which belongs to this process."""
        return Waiting, (self.given, self.signature, None, self.frozen)


class Building(NamedTuple):
    """The state of a module whose constructor runs: the key that it was given, if any."""

    key: PathKey | None


class PathKey:
    """The key of a path: that of the path before it with the last name folded in, computed once and when asked for.

    That of the empty path is a seed or a key.
    """

    __slots__ = ("_made", "before", "name")

    def __init__(self, made: Any, before: PathKey | None = None, name: Any = None) -> None:
        self._made, self.before, self.name = made, before, name

    def at(self, name: Any) -> PathKey:
        """The key of a field or an item; a key of a dictionary that is neither a string nor an integer is its repr."""
        known = isinstance(name, str | int | np.integer) and not isinstance(name, bool)
        return PathKey(None, self, name if known else repr(name))

    def value(self) -> Any:
        """The key itself."""
        if self.before is None:
            self._made = as_key(self._made)
        elif self._made is None:
            self._made = random.fold_in(self.before.value(), self.name)
        return self._made

    def path(self) -> str:
        """The path itself."""
        return "" if self.before is None else tree.access(self.before.path(), self.name)


def prepare(cls: Any) -> None:
    """Let instances of a class wait: once for each class, at its first instance, so after decorators like `dataclass`.

    The constructor is wrapped in the class that defines it, which subclasses without one of their own share.
    """
    owner = next(base for base in cls.__mro__ if "__init__" in vars(base))
    home = owner if getattr(owner, "_is_module", False) else cls
    if owner is not object and "_wrapped" not in vars(home):
        init = cls.__init__
        home.__init__ = construction(boundary(init) if is_ours(home) else init)
        home._wrapped = True
    cls._prepared = True


def construction(init: Callable[..., None]) -> Callable[..., None]:
    """A constructor, deferred if it needs a key and has none; with one it draws the deferred modules in its fields."""
    signature = inspect.signature(init)
    keyed, ours = "key" in signature.parameters, is_ours(init)

    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        if self._pending is not None:  # reached from the constructor of a subclass
            return init(self, *args, **kwargs)
        key = kwargs.get("key")
        if key is None and (keyed or self._drawn_first):
            given = arguments_of(signature, (self, *args), kwargs)
            key = given.get("key")
            if key is None and given and must_wait(type(self), signature, given):
                own = {name: value for name, value in given.items() if value is not self}
                return note(self, "_pending", Waiting(own, signature, here(2)))
        root = None if key is None else PathKey(key)
        note(self, "_pending", Building(root))
        try:
            if root is not None and self._drawn_first:
                given = arguments_of(signature, (self, *args), kwargs)
                for name in self._drawn_first:
                    draw_waiting(given.get(name), root.at(name))
            init(self, *args, **kwargs)
            if root is not None:
                for name, value in list(vars(self).items()):
                    draw_waiting(value, root.at(name))
        finally:
            note(self, "_pending", None)

    @functools.wraps(init)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            if ours:
                check_declared(init, (self, *args), kwargs)
            begun(self, *args, **kwargs)
        except BaseException as error:
            cut_frames(error)
            raise

    return construct


def check_declared(init: Callable[..., None], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise ParameterError for an argument that is not of its declared type: a layer keeps it, and would fail later."""
    fault = misfit(init, args, kwargs)
    if fault is not None:
        raise ParameterError(f"{called(init, args)}: {fault}")


def arguments_of(signature: inspect.Signature, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, possibly without a key; empty if they do not fit, for which the call itself raises."""
    try:
        given = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return {}
    needed = [p.name for p in signature.parameters.values() if p.default is p.empty and p.kind not in OPEN_ENDED]
    return dict(given) if all(name in given or name == "key" for name in needed) else {}


def must_wait(cls: Any, signature: inspect.Signature, given: Mapping[str, Any]) -> bool:
    """Test whether a constructor that was given no key cannot run without one."""
    found = signature.parameters.get("key")
    if found is not None and (found.default is found.empty or cls._waits(given)):
        return True
    return found is None and any(map(waiting_in, map(given.get, cls._drawn_first)))


def waits(x: Any) -> bool:
    """Test whether a module waits for its key."""
    return isinstance(x._pending, Waiting)


def waiting_in(x: Any, at: PathKey | None = None) -> list[tuple[PathKey, Any]]:
    """The modules that wait in a value, each once and with the key of its first path."""
    return list(found_waiting(x, at or PathKey(None), set()))


def found_waiting(x: Any, at: PathKey, met: set[int]) -> Iterator[tuple[PathKey, Any]]:
    """One value of `waiting_in`; `met` holds the modules that were seen before."""
    if getattr(type(x), "_is_module", False):
        if id(x) not in met:
            met.add(id(x))
            if waits(x):
                yield at, x
            for name, value in vars(x).items():
                yield from found_waiting(value, at.at(name), met)
        return
    level = None if x is None or isinstance(x, str | np.ndarray) else containers.one_level(x)
    if level is not None:
        for name, value in zip(level.keys, level.children, strict=True):
            yield from found_waiting(value, at.at(name), met)


def draw_waiting(x: Any, key: PathKey) -> None:
    """Construct the deferred modules in a value, in place, each with the key of its path."""
    for at, module in waiting_in(x, key):
        if waits(module):  # and was not drawn as an argument of another
            complete(module, at)


def complete(module: Any, key: PathKey) -> None:
    """Construct a deferred module; if that fails it stays deferred, and the error names the line that made it."""
    waiting = module._pending
    for name in module._drawn_first:
        draw_waiting(waiting.given.get(name), key.at(name))
    given = waiting.arguments(module, key)
    note(module, "_pending", None)
    try:
        type(module).__init__(*given.args, **given.kwargs)
        if waiting.frozen:
            module._freeze()
    except BaseException as error:
        vars(module).clear()
        note(module, "_pending", waiting)
        error.add_note(f"  in {key.path() or 'the model'} ({type(module).__name__}), made at {show(waiting.where)}")
        raise


def apart(x: Any, made: dict[int, Any]) -> Any:
    """A value with new modules and containers around the same arrays; `made` maps ids of modules to their copies."""
    if getattr(type(x), "_is_module", False):
        if id(x) not in made:
            made[id(x)] = new = bare(x)
            for name in ("_marks", "_odd", "_sealed", "_ties"):
                note(new, name, getattr(x, name))
            if waits(x):
                given = {name: apart(value, made) for name, value in x._pending.given.items()}
                note(new, "_pending", x._pending._replace(given=given))
            vars(new).update({name: apart(value, made) for name, value in vars(x).items()})
        return made[id(x)]
    level = None if x is None or isinstance(x, str | np.ndarray) else containers.one_level(x)
    if level is None:
        return x
    return containers.rebuild(type(x), level.metadata, [apart(child, made) for child in level.children])


def bare(x: Any) -> Any:
    """A module of the same class, without fields."""
    new: Any = type(x).__new__
    return new(type(x))


def made_text(module: Any) -> str:
    """A module that waits, as the call that made it."""
    _own, *names = module._pending.signature.parameters
    given = module._pending.given
    shown = [f"{name}={given[name]!r}" for name in names if name in given]
    return f"{type(module).__name__}({', '.join(shown)})"


def not_drawn(module: Any, path: str) -> ParameterError:
    """The error for a module that is used while it waits."""
    place = f"{path} is " if path else ""
    return ParameterError(
        f"nn: {place}{made_text(module)}, which was made without a key and is not drawn yet",
        where=module._pending.where,
        hint=HINT,
    )


def without_field(module: Any, name: str) -> UnknownNameError:
    """The error for a field that is read while a module waits."""
    return UnknownNameError(
        f"nn: {made_text(module)} was made without a key and is not drawn yet, so that it has no {name!r}",
        where=module._pending.where,
        hint=HINT,
    )
