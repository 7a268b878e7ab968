"""A public report of a wrong answer, as a program of its kind with the right answer beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Report(NamedTuple):
    """A public report, what went wrong in it, a program of its kind, where it is taken, and the right answer.

    A program that compiles a step of its own trains by itself, and is not traced once more.
    """

    reference: str
    wrong: str
    program: Callable[..., Any]
    at: tuple[Any, ...]
    right: Any
    trains: bool = False
