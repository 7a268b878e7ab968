"""Long loops in a second thread, so that the main one receives Ctrl-C and SIGTERM, which end them between steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wholestep.ir.graph import NDArray
from wholestep.runtime.executable import BoundExecutable

NOTICEABLE_SECONDS = 0.05
"""Seconds of delay after Ctrl-C that a user notices."""

POLL_SECONDS = 0.005
"""Seconds between two checks; a run that had not begun when it was asked to stop is asked again."""


TERMINATED = 143
"""The exit code of a process that ends after SIGTERM: 128 plus the number of the signal."""


class InterruptFlag:
    """A handler that records Ctrl-C, asks the loop to stop, and records it in the handler around it too."""

    def __init__(self, stop: Callable[[], None], around: InterruptFlag | None = None) -> None:
        self.any = False
        self.stop = stop
        self.around = around

    def __call__(self, *_: Any) -> None:
        self.any = True
        self.stop()
        if self.around is not None:
            self.around.any = True


class SecondInterruptRaises(InterruptFlag):
    """A handler under which a second Ctrl-C raises KeyboardInterrupt at once, without waiting for the call."""

    def __call__(self, *_: Any) -> None:
        if self.any:
            raise KeyboardInterrupt
        super().__call__()


def run_in_thread(
    instance: BoundExecutable, arrays: Sequence[NDArray], strict: bool = False
) -> tuple[Sequence[NDArray], bool]:
    """Run in a thread while the main one handles signals; returns the results, and True if Ctrl-C ended the loop early.

    A native program does not return to Python until it is done, and only the main thread receives signals. An exception
    of the user's own signal handler is raised once the loop has ended.
    """
    found: dict[str, Any] = {}
    done = threading.Event()

    def work() -> None:
        try:
            found["outs"] = instance(arrays, strict)
        except BaseException as error:
            found["error"] = error
        finally:
            done.set()

    raised: BaseException | None = None
    with catching_interrupts(instance.stop) as pressed:
        thread = threading.Thread(target=work, name="wholestep", daemon=True)
        begun = False
        while not done.is_set():
            try:
                if not begun:
                    begun = True
                    thread.start()
                done.wait(POLL_SECONDS)
            except BaseException as error:
                raised = error
                if thread.ident is None and not done.wait(1.0) and thread.ident is None:
                    raise  # the thread could not be started
            if pressed.any or raised is not None:
                instance.stop()
        thread.join()
    if "error" in found:
        raise found["error"]
    if raised is not None and not isinstance(raised, KeyboardInterrupt):
        raise raised
    return found["outs"], pressed.any or raised is not None


@contextmanager
def catching_interrupts(stop: Callable[[], None], kind: type[InterruptFlag] = InterruptFlag) -> Iterator[InterruptFlag]:
    """A context in which Ctrl-C is recorded instead of raised; a handler of the user's own is left in place."""
    before = signal.getsignal(signal.SIGINT)
    presses = kind(stop, before if isinstance(before, InterruptFlag) else None)
    here = threading.current_thread() is threading.main_thread()
    if not here or (before is not signal.default_int_handler and presses.around is None):
        yield presses
        return
    signal.signal(signal.SIGINT, presses)
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def terminating_in_order() -> Iterator[None]:
    """A context in which SIGTERM acts as Ctrl-C does, and the process exits when the block has ended in order.

    A handler of the user's own is left in place, and only the main thread may have one.
    """
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    asked = False

    def end(number: int, frame: Any) -> None:
        nonlocal asked
        asked = True
        pressed = signal.getsignal(signal.SIGINT)
        if not callable(pressed):  # a background process ignores SIGINT from its start
            raise KeyboardInterrupt
        pressed(signal.SIGINT, frame)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if asked:
        raise SystemExit(TERMINATED)
