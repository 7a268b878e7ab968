"""Questions about the trace that is running, which the part that traces functions answers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from wholestep.errors import is_internal

GENERATED = "<string>"
"""The file of methods that a dataclass generates."""


class Traces:
    """The questions that only a trace can answer: whether one is running, and the call of a ufunc in it."""

    def __init__(self) -> None:
        self.running: Callable[[], bool] = lambda: False
        self.call: Callable[..., Any] = lambda *operands: NotImplemented


traces = Traces()


def answer_in_traces(running: Callable[[], bool], call: Callable[..., Any]) -> None:
    """Set the test whether a trace is running, and the function that calls a ufunc on sizes and arrays in it."""
    traces.running, traces.call = running, call


def asked_by_user() -> bool:
    """Test whether the comparison two frames above is written in the user's code, while that is traced."""
    name = sys._getframe(2).f_code.co_filename
    return traces.running() and name != GENERATED and not is_internal(name)
