"""One line that moves on a terminal, one line per period where output goes to a file."""

from __future__ import annotations

import importlib.util
from types import TracebackType
from typing import Any, TextIO


class Progress:
    """Show how far a loop is: `with Progress(n, stream) as progress: progress(i, "loss 0.1")`.

    On a terminal, where rich is installed, the line is redrawn; elsewhere about `lines` lines are printed in all.
    """

    def __init__(self, total: int, stream: TextIO, lines: int = 10) -> None:
        self.total = total
        self.stream = stream
        self.every = max(1, total // lines)
        self.bar: Any = None
        self.task: Any = None
        if stream.isatty() and importlib.util.find_spec("rich") is not None:
            from rich.console import Console
            from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            columns = (TextColumn("epoch {task.completed}/{task.total}"), BarColumn(), TextColumn("{task.description}"))
            self.bar = Bar(*columns, TimeRemainingColumn(), console=Console(file=stream))
            self.task = self.bar.add_task("", total=total)

    def __enter__(self) -> Progress:
        if self.bar is not None:
            self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.bar is not None:
            self.bar.stop()

    def __call__(self, done: int, says: str) -> None:
        """Say that `done` of the periods are over."""
        if self.bar is not None:
            self.bar.update(self.task, completed=done, description=says)
        elif done % self.every == 0 or done in (1, self.total):
            print(f"epoch {done:{len(str(self.total))}}/{self.total}  {says}", file=self.stream, flush=True)
