"""A process that works for another one: an order in a line of its input, the answer in a line of JSON."""

from __future__ import annotations

import json
import os
import traceback
from collections.abc import Callable, Iterable
from typing import Any, TextIO


def replies() -> TextIO:
    """The output of this process, reserved for answers: from now on prints of libraries go to the standard error
    stream."""
    found = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return found


def say(answers: TextIO, **answer: Any) -> None:
    """Write an answer: one line, in one write."""
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def serve(
    obey: Callable[[str], dict[str, Any]],
    orders: Iterable[str],
    answers: TextIO,
    failed: Callable[[str], dict[str, Any]] = lambda said: {"error": said},
    lasting: bool = True,
) -> None:
    """Answer every order, or report its error and go on with the next order if `lasting`."""
    for order in orders:
        try:
            answer = obey(order)
        except Exception as error:  # of any kind; the one who asked says so
            traceback.print_exc()
            say(answers, **failed(f"{type(error).__name__}: {error}".splitlines()[0]))
            if not lasting:
                return
        else:
            say(answers, **answer)
