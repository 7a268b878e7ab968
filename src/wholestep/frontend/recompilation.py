"""Recompilation counts: a warning where a function is compiled for many sizes of one axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from wholestep.errors import RecompilationWarning, warn

MANY = 8
"""Sizes of one axis for which there are programs, from which on it is said."""


class Sizes:
    """The sizes of each axis for which a program was made, by the path of the array."""

    def __init__(self, name: str, hint: str) -> None:
        self.name, self.hint = name, hint
        self.known: dict[tuple[str, int], dict[Any, None]] = {}
        self.told = False

    def made(self, leaves: Iterable[tuple[str, Sequence[Any]]]) -> None:
        """A program was made for arrays of these shapes; gives RecompilationWarning, once, where there are many."""
        for path, shape in leaves:
            for axis, n in enumerate(shape):
                sizes = self.known.setdefault((path, axis), {})
                sizes[n] = None
                if len(sizes) >= MANY and not self.told:
                    self.told = True
                    warn(
                        f"{self.name}: compiled for {len(sizes)} sizes of axis {axis} of {path}: "
                        f"{', '.join(map(str, sizes))}",
                        RecompilationWarning,
                        hint=f"each size is a program of its own; {self.hint}",
                    )
