"""The names that a function reads besides its arguments: in its closure, its globals and its defaults."""

from __future__ import annotations

import functools
import opcode
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from wholestep import containers, tree
from wholestep.errors import EscapedError, Where, is_internal
from wholestep.frontend.argument_kinds import static_key
from wholestep.frontend.attribute_reads import (
    NOTHING,
    ROOTS,
    ReadChain,
    chains,
    end_of_chain,
    instruction_name,
    instruction_words,
)
from wholestep.frontend.plain_trees import Reader, reader
from wholestep.frontend.source.reading import nested_codes
from wholestep.frontend.tracing import PLAIN

MOST = 4096
"""A tree of more leaves is compared by identity alone."""
ASSIGNING = ("STORE_GLOBAL", "STORE_DEREF", "DELETE_GLOBAL", "DELETE_DEREF")
"""The instructions that assign names outside of their own code."""
RETURNING = [opcode.opmap[name] for name in ("RETURN_VALUE", "RETURN_CONST") if name in opcode.opmap]


class Reading(NamedTuple):
    """One name that a function reads: the object that it was bound to, and a function that looks it up again."""

    name: str
    look: Callable[[], Any]
    then: Any
    held: Any
    """The leaves and the structure of a tree; None where the object is no tree."""
    read: Reader | None
    """The reader of such a tree, where there is one."""

    def same(self) -> bool:
        """Test whether the name is bound to the same object, and the object has the same contents."""
        return self.stays() and self.holds()

    def stays(self) -> bool:
        """Test whether the name is bound to the same object, or to an equal number."""
        now = self.look()
        return now is self.then or equal_plain(now, self.then)

    def holds(self) -> bool:
        """Test whether the contents of the object are unchanged."""
        if self.held is None:
            return True
        before, shape = self.held
        found: list[Any] = []
        if self.read is not None and self.read(self.then, found):
            return all([a is b or equal_plain(a, b) for a, b in zip(found, before, strict=True)])
        leaves, structure = tree.flatten(self.then)
        same = len(leaves) == len(before) and all(
            [a is b or equal_plain(a, b) for a, b in zip(leaves, before, strict=True)]
        )
        return bool(same and structure == shape)

    def __str__(self) -> str:
        return f"{self.name or 'the function'} {'has changed' if self.stays() else 'is bound to something else'}"


def readings(f: Any) -> list[Reading]:
    """Every name that a function, and the user's functions that it names, read and do not assign themselves."""
    found = [reading("", lambda: f)] if not isinstance(f, FunctionType | MethodType) and containers.one_level(f) else []
    if isinstance(f, MethodType):
        found.append(reading("self", lambda: f.__self__))
    functions = list(family(f))
    own = {name for g in functions for name in argument_of(g.__code__, *ASSIGNING)}
    found += [reading(name, look) for g in functions for name, look in looks(g) if name not in own]
    found = [r for r in found if not isinstance(r.then, ModuleType | type)]
    owners = {unwrapped(f): f.__self__} if isinstance(f, MethodType) else {}
    for g in functions:
        parts = [chain for chain, stored in chains(g.__code__).items() if not stored and chain.name not in own]
        found += [r for r in readings_of_parts(g, parts, owners) if is_number_or_word(r.then)]
    return found


def value_readings(functions: Iterable[FunctionType], owners: Mapping[Any, Any]) -> list[Reading]:
    """The numbers, words and arrays that functions, methods of these owners among them, read by name.

    What a function assigns is among them, unless only an update reads it, such as `name += 1`.
    """
    found: list[Reading] = []
    for g in functions:
        read = names_read_beyond_updates(g.__code__)
        found += [Reading(name, look, look(), None, None) for name, look in looks(g) if name in read]
        found += readings_of_parts(g, chains(g.__code__), owners)
    return [r for r in found if is_number_or_word(r.then) or isinstance(r.then, np.ndarray)]


def readings_of_parts(g: FunctionType, parts: Iterable[ReadChain], owners: Mapping[Any, Any]) -> list[Reading]:
    """The attributes and items of what a function names; the first parameter of a method is a name, too."""
    at = dict(looks(g))
    if g in owners:
        at[g.__code__.co_varnames[0]] = functools.partial(owners.get, g)
    found = {
        str(chain): functools.partial(end_of_chain, at[chain.name], chain.links) for chain in parts if chain.name in at
    }
    return [Reading(name, look, look(), None, None) for name, look in found.items()]


def reading(name: str, look: Callable[[], Any]) -> Reading:
    """A name as it is bound now."""
    then = look()
    held = read = None
    if not isinstance(then, PLAIN) and containers.one_level(then) is not None:
        leaves, structure = tree.flatten(then)
        if len(leaves) <= MOST:
            held = (leaves, structure)
            with suppress(EscapedError):  # a model that holds arrays of a surrounding trace
                read = reader(structure)
    return Reading(name, look, then, held, read)


def is_number_or_word(x: Any) -> bool:
    """Test whether an object is a number or a word."""
    return isinstance(x, int | float | complex | str)


def equal_plain(a: Any, b: Any) -> bool:
    """Test whether two objects are one number or one word."""
    return is_number_or_word(a) and bool(static_key(a) == static_key(b))


def looks(f: FunctionType) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The names in a closure and the globals that some code reads, and how to look at each."""
    for name, cell in zip(f.__code__.co_freevars, f.__closure__ or (), strict=True):
        yield name, functools.partial(content, cell)
    for name in dict.fromkeys(global_names(f.__code__)):
        if name in f.__globals__:
            yield name, functools.partial(f.__globals__.get, name, NOTHING)


def content(cell: Any) -> Any:
    """The content of a cell of a closure."""
    try:
        return cell.cell_contents
    except ValueError:  # a name that is bound later
        return NOTHING


def family(f: Any) -> Iterator[FunctionType]:
    """A function and the user's functions that it names, each once."""
    waiting, seen = [f], set()
    while waiting:
        g = unwrapped(waiting.pop())
        if not isinstance(g, FunctionType) or id(g) in seen or of_a_library(g):
            continue
        seen.add(id(g))
        yield g
        waiting += [x for value in closure_values(g) for x in items(value) if callable(x)]


def of_a_library(f: FunctionType) -> bool:
    """Test whether a function is Python's, ours or of an installed package, whose arrays users do not change."""
    root = (f.__module__ or "").partition(".")[0]
    return root == "wholestep" or root in sys.stdlib_module_names or "site-packages" in f.__code__.co_filename


def unwrapped(f: Any) -> Any:
    """The function under a method or a partial application."""
    while isinstance(f, MethodType | functools.partial):
        f = f.__func__ if isinstance(f, MethodType) else f.func
    return getattr(f, "__wrapped__", f)


def returns(f: Any) -> Where:
    """The last return instruction of a function: its code and offset; None for a function that is not the user's."""
    code = getattr(unwrapped(f), "__code__", None)
    if code is None or is_internal(code.co_filename):
        return None
    found = [2 * place for place, (operation, _) in enumerate(instruction_words(code)) if operation in RETURNING]
    return (code, found[-1]) if found else None


def closure_values(f: FunctionType) -> Iterator[Any]:
    """The values in a function's closure and defaults, and of the globals that its code reads."""
    for cell in f.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # a name that is bound later
            continue
    yield from f.__defaults__ or ()
    yield from (f.__kwdefaults__ or {}).values()
    for name in dict.fromkeys(global_names(f.__code__)):
        if name in f.__globals__:
            yield f.__globals__[name]


def global_names(code: CodeType) -> tuple[str, ...]:
    """The globals that some code reads, that of the functions in it included."""
    return argument_of(code, "LOAD_GLOBAL")


@functools.lru_cache(maxsize=1024)
def argument_of(code: CodeType, *operations: str) -> tuple[str, ...]:
    """The names that these instructions are about."""
    wanted = {opcode.opmap[name]: name for name in operations}
    return tuple(
        [
            instruction_name(one, wanted[operation], argument)
            for one in nested_codes(code)
            for operation, argument in instruction_words(one)
            if operation in wanted
        ]
    )


@functools.lru_cache(maxsize=1024)
def names_read_beyond_updates(code: CodeType) -> frozenset[str]:
    """The names from around some code that it reads elsewhere than in `name += 1`, and before it assigns them."""
    read: set[tuple[str, Any]] = set()
    stored: set[tuple[str, Any]] = set()
    for one in nested_codes(code):
        assigned: dict[str, bool] = {}
        for (operation, argument), position in zip(instruction_words(one), one.co_positions(), strict=True):
            word = opcode.opname[operation]
            if word in (*ROOTS, *ASSIGNING):
                name = instruction_name(one, word, argument)
                if not assigned.setdefault(name, word in ASSIGNING):
                    (read if word in ROOTS else stored).add((name, position))
    return frozenset([name for name, _ in read - stored])


def items(value: Any) -> Iterable[Any]:
    """The items of a plain container; another value is its own only item."""
    if type(value) in (list, tuple):
        return value
    return value.values() if type(value) is dict else (value,)
