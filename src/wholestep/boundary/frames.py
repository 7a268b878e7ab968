"""Tracebacks as a caller reads them: the caller's own frames, without those of this package.

The idea is that of JAX's traceback filtering: at each public function the traceback of an error that passes through is
rebuilt from the frames that are not internal.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Generator
from types import TracebackType
from typing import Any

from wholestep import config
from wholestep.dims import SymbolicError
from wholestep.errors import ParameterError, PlanError, Where, WholestepError, here, is_internal, is_own, show

LOCATED = (TypeError, ValueError, IndexError, ArithmeticError, RuntimeError)
"""Errors of Python, NumPy and SciPy that get the user's line where they are raised inside a call of this library."""


def cut_frames(error: BaseException) -> None:
    """Take the internal frames out of the traceback of an error, and of those that it came from.

    An error that this library raises on purpose keeps the frames of the caller alone. One that was raised by the
    caller's code keeps its frames, and those of other packages, without ours between them. Everything else is a fault
    of the library, and stays whole; its message has the caller's line. `WHOLESTEP_DEBUG=traceback` keeps all frames.
    """
    tell_line(error)
    if keeps_frames(error):
        return
    meant = deliberate(error)
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = visible(one, meant or deliberate(one))
            waiting += [one.__cause__, one.__context__]


def cut_in_loops(f: Callable[..., Generator[Any, Any, Any]]) -> Callable[..., Generator[Any, Any, Any]]:
    """A generator function whose errors are cut where they reach the caller's loop, long after its own call."""

    @functools.wraps(f)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        try:
            return (yield from f(*args, **kwargs))
        except BaseException as error:
            cut_frames(error)
            raise

    return generator


def keeps_frames(error: BaseException) -> bool:
    """Test whether WHOLESTEP_DEBUG asks for all frames; an unknown word in it is told below the error."""
    try:
        return config.debug("traceback")
    except ParameterError as wrong:
        told = str(wrong).partition("\n")[0]
        if not any(told in text for text in (str(error), *getattr(error, "__notes__", ()))):
            error.add_note(told)
        return False


def tell_line(error: BaseException) -> None:
    """Add the user's line to an error that was not raised on purpose, below the frames of this package.

    Errors that the user's own code raises stay as they are.
    """
    if not isinstance(error, LOCATED) or isinstance(error, WholestepError | SymbolicError):
        return
    where, ours = raised_below(error.__traceback__)
    told = [str(error), *getattr(error, "__notes__", ())]
    if not ours or where is None or any("  at " in text for text in told):
        return  # a program that runs names the line of its operation
    place = f"  at {show(where)}"
    if error.args == (str(error),):
        error.args = (f"{error}\n{place}",)
    else:
        error.add_note(place)


def raised_below(traceback: TracebackType | None) -> tuple[Where, bool]:
    """The innermost frame of the user's in a traceback, or the running one; True where frames of ours are below it."""
    found, ours = None, False
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if not is_internal(code.co_filename):
            found, ours = (code, traceback.tb_lasti), False
        ours |= is_own(code.co_filename)
        traceback = traceback.tb_next
    return found or here(2), ours


def deliberate(error: BaseException) -> bool:
    """Test whether an error reports a fault of the caller's program, and not of the library."""
    told = isinstance(error, SymbolicError) and error.told
    return told or (isinstance(error, WholestepError) and not isinstance(error, PlanError))


def mistaken(error: BaseException) -> bool:
    """Test whether the caller's function was called with arguments that it does not have, by a line that is right."""
    return type(error) is TypeError and re.search(r"\) (missing|takes|got) ", str(error)) is not None


def visible(error: BaseException, meant: bool) -> TracebackType | None:
    """The frames of an error that a caller gets to see."""
    frames: list[TracebackType] = []
    at = error.__traceback__
    while at is not None:
        frames.append(at)
        at = at.tb_next
    names = [frame.tb_frame.f_code.co_filename for frame in frames]
    raised_in = next((name for name in reversed(names) if is_own(name) or not is_internal(name)), "")
    if is_own(raised_in) and not meant and not mistaken(error):
        return error.__traceback__
    hidden = [is_internal(name) if meant else is_own(name) for name in names]
    if not any(hidden):
        return error.__traceback__
    made: TracebackType | None = None
    for frame, gone in zip(reversed(frames), reversed(hidden), strict=True):
        if not gone:
            made = TracebackType(made, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return made
