"""Packages whose public names stand in a module `public` of theirs, read when the first of them is asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any


def names_of(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a package; the names become its own when the first of them is asked for."""

    def public() -> Any:
        return importlib.import_module(f"{package}.public")

    def get(name: str) -> Any:
        found = public()
        if name != "__all__" and name not in found.__all__:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        own = vars(sys.modules[package])
        own.update({known: getattr(found, known) for known in ("__all__", *found.__all__)})
        return own[name]

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *public().__all__})

    return get, names
