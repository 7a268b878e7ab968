"""Packages whose public names stand in a module `public` of theirs, read when the first of them is asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from wholestep.boundary.answers import unknown
from wholestep.boundary.public import boundary, published
from wholestep.collector import without_garbage_collection

NOTHING: Mapping[str, str] = MappingProxyType({})


def late(package: str, name: str, module: str) -> Any:
    """A name of a package from the module that has it, or the package inside it of that name; imported now."""
    with without_garbage_collection(lasting=True):
        home = importlib.import_module(module)
    found = sys.modules.get(f"{package}.{name}") or published(getattr(home, name))
    return vars(sys.modules[package]).setdefault(name, found)


def names_of(
    package: str, above: Mapping[str, str] = NOTHING, modules: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package, whose public names are imported when the first of them is read.

    `above` maps public names to the modules that define them on higher floors of the library; `modules` are public
    modules of the package, which its other modules import before there are any names. A name that the package does not
    have is an error, with the replacement where another library has the name.
    """

    def public() -> dict[str, Any]:
        found = vars(importlib.import_module(f"{package}.public"))
        return {name: thing for name, thing in found.items() if not name.startswith("_")}

    def get(name: str) -> Any:
        if name in above:
            return late(package, name, above[name])
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name == "__all__":
            return names()
        found = public()
        if name not in found:
            raise unknown(package.replace("wholestep", "ws", 1), name)
        own = vars(sys.modules[package])
        own.update({known: published(thing) for known, thing in found.items()})
        return own[name]

    def names() -> list[str]:
        return sorted({*public(), *above})

    return boundary(get), names
