"""Tables of handlers: for each operator of another library the function that computes it here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Handlers(dict[str, Callable[..., Any]]):
    """Handlers by the names of their operators."""

    def entry(self, *names: str) -> Callable[[F], F]:
        """Enter a function under these names."""

        def enter(f: F) -> F:
            self.update(dict.fromkeys(names, f))
            return f

        return enter
