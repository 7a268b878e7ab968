"""The audit as a command: what is run how often, and what the page on reliability says of the way it is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple


class Audit(NamedTuple):
    """One campaign: a function of how many and of a seed, and what it does, in a line and in a paragraph."""

    name: str
    run: Callable[[int, int], dict[str, Any]]
    often: int
    about: str
    how: str


class Seen:
    """A count of each check that was made, and the failures."""

    def __init__(self) -> None:
        self.checks = Counter[str]()
        self.failures: list[str] = []

    def count(self, what: str, n: int = 1) -> None:
        """So many more of a check."""
        self.checks[what] += n

    def right(self, fine: bool, otherwise: str) -> None:
        """A failure, said in these words, unless all is fine."""
        if not fine:
            self.failures.append(otherwise)
