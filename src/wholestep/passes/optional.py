"""Optional rewrites: where one fails, the program stays as it was and reports it, or raises with WHOLESTEP_STRICT=1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, TypeVar

from wholestep import config
from wholestep.dims import SymbolicError
from wholestep.errors import PlanError, Where, show
from wholestep.ir.graph import Node

G = TypeVar("G")
T = TypeVar("T")

PASSED_ON = (MemoryError, SymbolicError)
"""Exceptions that are no fault of a rewrite: exhausted memory, and the use of a symbolic size as a number."""


class LeftOut(NamedTuple):
    """A rewrite that failed: its name, the user's line of the node that it had reached, and the error."""

    name: str
    where: Where
    why: str

    def __str__(self) -> str:
        place = show(self.where)
        return f"{self.name}: left out, {self.why}" + (f", at {place}" if place else "")


_heard: ContextVar[tuple[list[LeftOut], ...]] = ContextVar("heard", default=())


@contextmanager
def collect_left_out() -> Iterator[list[LeftOut]]:
    """Collect the rewrites that are left out inside the block, each once; the blocks around it collect them too."""
    found: list[LeftOut] = []
    token = _heard.set((*_heard.get(), found))
    try:
        yield found
    finally:
        _heard.reset(token)


def report_left_out(left: LeftOut) -> None:
    """Report a rewrite that was left out to every collecting block around."""
    for found in _heard.get():
        if left not in found:
            found.append(left)


def try_rewrite(name: str, change: Callable[[G], T], given: G, otherwise: T) -> T:
    """The result of a rewrite; `otherwise`, the program without it, where the rewrite fails.

    No user code runs in a rewrite, so that an exception of any type is a fault of the rewrite. Interrupts and exhausted
    memory pass through. Raises PlanError instead where WHOLESTEP_STRICT=1 or WHOLESTEP_CHECK=1.
    """
    try:
        return change(given)
    except PASSED_ON:
        raise
    except Exception as error:
        first = str(error).partition("\n")[0]
        left = LeftOut(name, failing_line(error), f"{type(error).__name__}: {first}" if first else type(error).__name__)
        if config.strict() or config.check():
            raise PlanError(f"{name}: the rewriting failed: {left.why}", where=left.where) from error
    report_left_out(left)
    return otherwise


def failing_line(error: BaseException) -> Where:
    """The user's line of the node under rewriting when an error was raised: that of the innermost variable that holds
    a node."""
    found: Where = None
    trace = error.__traceback__
    while trace is not None:
        own = [x.where for x in trace.tb_frame.f_locals.values() if isinstance(x, Node) and x.where is not None]
        found = own[-1] if own else found
        trace = trace.tb_next
    return found
