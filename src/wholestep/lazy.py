"""Packages whose public names stand in a module `public` of theirs, read when the first of them is asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

from wholestep.boundary.answers import unknown
from wholestep.boundary.public import boundary, published


def names_of(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package; the names become its own when the first of them is asked for.

    A name that it does not have is an error that says what to write, where another library has it.
    """

    def public() -> Any:
        return importlib.import_module(f"{package}.public")

    def get(name: str) -> Any:
        found = public()
        if name != "__all__" and name not in found.__all__:
            raise unknown(package.replace("wholestep", "ws", 1), name)
        own = vars(sys.modules[package])
        own.update({known: published(getattr(found, known)) for known in found.__all__})
        own["__all__"] = found.__all__
        return own[name]

    def names() -> list[str]:
        return sorted(public().__all__)

    return boundary(get), names
