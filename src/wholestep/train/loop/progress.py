"""The display of a run: redrawn on a terminal, updated in a notebook, plain lines elsewhere."""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TextIO

from wholestep.errors import MissingExtraError, ParameterError
from wholestep.train.loop.history import show_metrics
from wholestep.train.loop.loss_chart import svg_chart
from wholestep.words import preformatted

PAUSE = 0.25
"""Seconds between two updates of the display."""

PERIOD = 30.0
"""Seconds between plain lines within a long epoch."""

BAR = 12
"""Characters of the bar on a terminal."""

FIRST_OUT = ("arena", "memory", "rate", "bar", "left")
"""The parts that are left out of a line on a narrow terminal, in this order."""

LINES = 100
"""The approximate number of plain lines for the epochs of a run."""

POINTS = 400
"""The most points of a curve in a notebook."""

MODES = ("auto", "rich", "plain", "notebook", None)


@dataclass(frozen=True)
class Status:
    """The progress of a run. `whole` is the number of steps that it will have, `epochs` that of epochs, where known.

    >>> print(Status(2, 3, 40, 60, {"loss": 0.25}, rate=1250.0, left=0.016))
    epoch 2/3  step 40/60  loss 0.25  1250 steps/s  eta 0:00
    """

    epoch: int
    epochs: int | None
    steps: int
    whole: int | None
    values: Mapping[str, float] = field(default_factory=dict)
    rate: float = 0.0
    left: float | None = None
    memory: int | None = None
    arena: int | None = None
    skipped: int = 0

    def __str__(self) -> str:
        return self.without("bar")

    @property
    def brief(self) -> str:
        """The line without time, speed and memory."""
        return self.without("bar", "left", "memory", "arena")

    def within(self, width: int) -> str:
        """The line with a bar, cut to a width: memory is left out first, then the speed, the bar and the time.

        >>> status = Status(2, 3, 40, 60, {"loss": 0.25}, rate=1250.0, left=0.016, memory=2 * 10**8, arena=10**6)
        >>> for width in (99, 60, 45):
        ...     print(status.within(width))
        ━━━━━━━━      epoch 2/3  step 40/60  loss 0.25  1250 steps/s  eta 0:00  memory 200 MB (arena 1 MB)
        ━━━━━━━━      epoch 2/3  step 40/60  loss 0.25  eta 0:00
        epoch 2/3  step 40/60  loss 0.25  eta 0:00
        """
        lines = [self.without(*FIRST_OUT[:count]) for count in range(len(FIRST_OUT) + 1)]
        return next((line for line in lines if len(line) <= width), lines[-1])

    def without(self, *names: str) -> str:
        """The line without the named parts."""
        parts: dict[str, str] = {}
        if self.whole:
            parts["bar"] = f"{'━' * round(BAR * self.steps / self.whole):<{BAR}}"
        parts["place"] = f"epoch {of(self.epoch, self.epochs)}  step {of(self.steps, self.whole)}"
        if self.values:
            parts["values"] = show_metrics(self.values)
        if self.skipped:
            parts["skipped"] = f"skipped {self.skipped}"
        if self.rate:
            parts["rate"] = f"{self.rate:.4g} steps/s"
        if self.left is not None:
            parts["left"] = f"eta {clock(self.left)}"
        if self.memory is not None:
            arena = f" (arena {show_bytes(self.arena)})" if self.arena and "arena" not in names else ""
            parts["memory"] = f"memory {show_bytes(self.memory)}{arena}"
        return "  ".join([part for name, part in parts.items() if name not in names])


class Display:
    """The interface of displays of a run; this one shows nothing."""

    def move(self, status: Status) -> None:
        """Called a few times a second while the run goes on."""

    def line(self, status: Status) -> None:
        """Called at the end of an epoch."""

    def close(self, text: str) -> None:
        """Called at the end of the run; `text` is a closing message, or empty."""


class Plain(Display):
    """Lines of text: one for each epoch, of many epochs about a hundred, and one every half minute of a long epoch."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.last = time.perf_counter()

    def move(self, status: Status) -> None:
        if time.perf_counter() - self.last >= PERIOD:
            self.say(str(status))

    def line(self, status: Status) -> None:
        every = -(-(status.epochs or 1) // LINES)
        if status.epoch % every == 0 or status.epoch in (1, status.epochs):
            self.say(str(status))

    def close(self, text: str) -> None:
        if text:
            self.say(text)

    def say(self, text: str) -> None:
        print(text, file=self.stream, flush=True)
        self.last = time.perf_counter()


class Rich(Display):
    """A line at the bottom of the terminal that is redrawn, and a line above it for each epoch."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        # The line is redrawn on new values, so that no thread of rich competes with the step.
        self.live = Live(console=Console(file=stream, highlight=False), auto_refresh=False, transient=True)
        self.live.start()

    def move(self, status: Status) -> None:
        from rich.text import Text

        line = status.within(self.live.console.width)
        self.live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

    def line(self, status: Status) -> None:
        self.live.console.print(status.brief, markup=False)

    def close(self, text: str) -> None:
        self.live.stop()
        if text:
            self.live.console.print(text, markup=False)


class Notebook(Display):
    """A chart of the losses under a cell, and lines, of which the last one is updated."""

    def __init__(self) -> None:
        from IPython import display

        self.kind: Any = display.HTML
        self.lines: list[str] = []
        self.curves: dict[str, list[tuple[int, float]]] = {}
        self.handle = display.display(self.made(""), display_id=True)  # type: ignore[no-untyped-call]

    def made(self, last: str) -> Any:
        """The cell's HTML: the chart, the lines so far and a last one."""
        return self.kind(svg_chart(self.curves) + preformatted("\n".join([*self.lines, last])))

    def draw(self, status: Status) -> None:
        """Add the losses to the chart; of too many points every second one is dropped."""
        for name, x in status.values.items():
            if name.endswith("loss"):
                points = self.curves.setdefault(name, [])
                points.append((status.steps, x))
                if len(points) > POINTS:
                    del points[1::2]

    def move(self, status: Status) -> None:
        self.draw(status)
        self.handle.update(self.made(str(status)))

    def line(self, status: Status) -> None:
        self.draw(status)
        self.lines.append(status.brief)
        self.handle.update(self.made(""))

    def close(self, text: str) -> None:
        self.handle.update(self.made(text))


def display_for(mode: Any, stream: TextIO | None = None) -> Display:
    """The display of a mode: `auto`, `rich`, `plain`, `notebook`, or None for nowhere.

    Raises ParameterError for another mode, MissingExtraError where the package of the mode is not installed.
    """
    stream = sys.stdout if stream is None else stream
    if mode is False or mode is None or stream is None:  # a program without a console has no stdout
        return Display()
    mode = "auto" if mode is True else mode
    if mode == "auto":
        mode = "notebook" if in_notebook() else "rich" if moving(stream) else "plain"
    if mode == "plain":
        return Plain(stream)
    if mode not in MODES:
        raise ParameterError(f"fit: progress is {mode!r}; it is one of {', '.join(map(repr, MODES))}")
    try:
        return Rich(stream) if mode == "rich" else Notebook()
    except ImportError as error:
        raise MissingExtraError(f"fit: progress={mode!r}: {error.name} is not installed") from None


def in_notebook() -> bool:
    """True in the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def moving(stream: TextIO) -> bool:
    """True where a line can be redrawn: on a terminal, where rich is installed."""
    return stream.isatty() and importlib.util.find_spec("rich") is not None


def of(done: int, whole: int | None) -> str:
    """`3/10`, or `3`."""
    return f"{done}" if whole is None else f"{done:{len(str(whole))}}/{whole}"


def clock(seconds: float) -> str:
    """`0:09`, `1:00:00`."""
    if not math.isfinite(seconds):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def show_bytes(n: int) -> str:
    """Bytes with a decimal unit."""
    for unit, scale in (("GB", 10**9), ("MB", 10**6), ("KB", 10**3)):
        if n >= scale:
            return f"{n / scale:.3g} {unit}" if n < 1000 * scale else f"{n // scale} {unit}"
    return f"{n} bytes"


def resident() -> int | None:
    """The resident memory of this process in bytes; None where the system does not report it."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    except (OSError, ValueError, AttributeError):
        return None
