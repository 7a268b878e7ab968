"""The attributes and items that some code reads of an object that it names: `config.beta`, `config["beta"]`."""

from __future__ import annotations

import functools
import opcode
import sys
from collections.abc import Callable, Iterator
from types import CodeType, MemberDescriptorType, ModuleType
from typing import Any, NamedTuple

from wholestep.frontend.source.reading import nested_codes

NOTHING: Any = object()
"""The binding of a name without a value."""
ROOTS = ("LOAD_GLOBAL", "LOAD_DEREF")
"""The instructions that read a name from around some code."""
SKIPPED = ("CACHE", "EXTENDED_ARG", "RESUME", "NOP")
SUBSCRIPT = 26
"""The argument of BINARY_OP, from Python 3.14 on, that reads an item (CPython, Include/opcode.h, NB_SUBSCR)."""


class ReadLink(NamedTuple):
    """One step from an object to a part of it: an attribute, or an item by a constant key."""

    key: Any
    is_item: bool

    def of(self, x: Any) -> Any:
        """The part of an object; NOTHING where it is not there, or where code of the user's computes it."""
        return stored_item(x, self.key) if self.is_item else stored_attribute(x, self.key)

    def __str__(self) -> str:
        return f"[{self.key!r}]" if self.is_item else f".{self.key}"


class ReadChain(NamedTuple):
    """A name, and the steps from its object to what is read."""

    name: str
    links: tuple[ReadLink, ...]

    def __str__(self) -> str:
        return self.name + "".join(map(str, self.links))


def instruction_words(code: CodeType) -> Iterator[tuple[int, int]]:
    """The operation and the argument at each place of some code; `dis`, which finds lines and objects too, takes ten
    times as long."""
    whole, high = code.co_code, 0
    for operation, low in zip(whole[::2], whole[1::2], strict=True):
        argument = high | low
        high = argument << 8 if operation == opcode.EXTENDED_ARG else 0
        yield operation, argument


def instruction_name(code: CodeType, operation: str, argument: int) -> str:
    """The name that an instruction is about, by the tables of its code."""
    if operation.endswith("_DEREF"):
        cells = [name for name in code.co_cellvars if name not in code.co_varnames]
        return (*code.co_varnames, *cells, *code.co_freevars)[argument]
    doubled = operation == "LOAD_GLOBAL" or (operation == "LOAD_ATTR" and sys.version_info >= (3, 12))
    return code.co_names[argument >> 1 if doubled else argument]


@functools.lru_cache(maxsize=1024)
def chains(code: CodeType) -> dict[ReadChain, bool]:
    """The parts that some code, and the functions in it, read of names around it and of its first parameter.

    The value says whether the code stores that part, too; `x.n += 1` alone does not read x.n.
    """
    found: dict[ReadChain, None] = {}
    stored = set()
    for one in nested_codes(code):
        words = [(opcode.opname[op], argument) for op, argument in instruction_words(one)]
        words = [word for word in words if word[0] not in SKIPPED]
        for at, (operation, argument) in enumerate(words):
            if operation in ROOTS or (one is code and loads_first_parameter(operation, argument)):
                name = instruction_name(one, operation, argument) if operation in ROOTS else code.co_varnames[0]
                if links := tuple(links_from(one, words, at + 1)):
                    found[ReadChain(name, links)] = None
            elif operation == "STORE_ATTR":
                stored.add(ReadLink(one.co_names[argument], False))
            elif operation == "STORE_SUBSCR" and words[at - 1][0] == "LOAD_CONST":
                stored.add(ReadLink(one.co_consts[words[at - 1][1]], True))
    return {chain: not stored.isdisjoint(chain.links) for chain in found}


def loads_first_parameter(operation: str, argument: int) -> bool:
    """Test whether an instruction loads the first parameter, last of two variables where it loads two."""
    return "LOAD_FAST" in operation and (argument & 15 if operation.count("_FAST") > 1 else argument) == 0


def links_from(code: CodeType, words: list[tuple[str, int]], at: int) -> Iterator[ReadLink]:
    """The steps that the instructions from some place on take."""
    while at < len(words):
        operation, argument = words[at]
        following = words[at + 1] if at + 1 < len(words) else ("", 0)
        is_subscript = following in (("BINARY_SUBSCR", 0), ("BINARY_OP", SUBSCRIPT))
        if operation == "LOAD_ATTR" and not (sys.version_info >= (3, 12) and argument & 1):
            yield ReadLink(instruction_name(code, operation, argument), False)
            at += 1
        elif operation == "LOAD_CONST" and is_subscript and isinstance(code.co_consts[argument], str):
            yield ReadLink(code.co_consts[argument], True)
            at += 2
        else:
            return


def end_of_chain(look: Callable[[], Any], links: tuple[ReadLink, ...]) -> Any:
    """The object at the end of a chain now; NOTHING where a part is not there."""
    x = look()
    for link in links:
        if x is NOTHING:
            break
        x = link.of(x)
    return x


def stored_attribute(x: Any, name: str) -> Any:
    """An attribute that an object, its class or a module of the user's stores."""
    if isinstance(x, ModuleType) and of_a_library_module(x):
        return NOTHING
    own = getattr(x, "__dict__", {})
    if name in own:
        return own[name]
    for cls in (x if isinstance(x, type) else type(x)).__mro__:
        if name in vars(cls):
            found = vars(cls)[name]
            if isinstance(found, MemberDescriptorType) and not isinstance(x, type):
                return getattr(x, name, NOTHING)
            return NOTHING if hasattr(found, "__get__") else found
    return NOTHING


def stored_item(x: Any, key: Any) -> Any:
    """An item that a plain dictionary holds."""
    return x.get(key, NOTHING) if type(x) is dict else NOTHING


def of_a_library_module(x: ModuleType) -> bool:
    """Test whether a module is Python's, ours or of an installed package, whose numbers users do not change."""
    root, file = x.__name__.partition(".")[0], getattr(x, "__file__", None)
    return root == "wholestep" or root in sys.stdlib_module_names or file is None or "site-packages" in file
