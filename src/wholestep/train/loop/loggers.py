"""Loggers: methods that take the numbers of a run, for a stream, lines of JSON, or TensorBoard."""

from __future__ import annotations

import json
import math
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np

from wholestep.errors import DtypeError, ShapeError
from wholestep.nn.model_graph import drawn_nodes
from wholestep.train.checkpoint.filesystem import make_folder
from wholestep.train.data.datasets import need
from wholestep.train.loop.graph_event import graph_bytes
from wholestep.train.loop.history import show_metrics
from wholestep.words import printable

FLUSH = 10.0
"""Seconds between flushes of TensorBoard's file to disk."""


class Logger(Protocol):
    """The interface of `fit(logger=...)`: any object with these four methods.

    An OSError of `start` ends the run before it begins. An OSError of another method ends the log, with a LogWarning,
    and the run goes on without it.
    """

    def start(self, config: Mapping[str, Any]) -> None:
        """Called when the run begins; `config` holds its options and hyper-parameters as plain values."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Called with numbers by name, after so many steps."""

    def note(self, step: int, text: str) -> None:
        """Called with a message, after so many steps."""

    def finish(self, status: str) -> None:
        """Called once at the end of every run: `completed`, `interrupted`, `failed`, or the reason of a stop."""


class ConsoleLogger:
    """A line on a stream, standard output by default, for each event that is logged.

    Shapes: no arrays.
    Raises: nothing of its own.

    >>> import sys
    >>> ConsoleLogger(sys.stdout).log(10, {"loss": 0.25})
    step 10  loss 0.25
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = sys.stdout if stream is None else stream

    def start(self, config: Mapping[str, Any]) -> None:
        self.say("start  " + "  ".join(f"{name}={value}" for name, value in config.items()))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.say(f"step {step}  {show_metrics(values)}")

    def note(self, step: int, text: str) -> None:
        self.say(f"step {step}  {text}")

    def finish(self, status: str) -> None:
        self.say(status)

    def say(self, line: str) -> None:
        print(printable(line), file=self.stream, flush=True)


class JsonLogger:
    """A file with a line of JSON for each event that is logged; an existing file is appended to.

    Each line has `event` (start, log, note or finish) and `seconds` since the start; a log its step and values. JSON
    has no nan and no infinity: they are the strings "nan", "inf" and "-inf", which `float` reads.

    Shapes: no arrays; `path` is the file.
    Raises: OSError, when a run begins, for a file that cannot be written.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     log = JsonLogger(pathlib.Path(folder) / "log.jsonl")
    ...     log.start({"epochs": 1})
    ...     log.log(10, {"loss": 0.25})
    ...     log.finish("completed")
    ...     len((pathlib.Path(folder) / "log.jsonl").read_text().splitlines())
    3
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.file: Any = None
        self.began = 0.0

    def start(self, config: Mapping[str, Any]) -> None:
        make_folder(self.path.parent)
        self.file = self.path.open("a", encoding="utf-8")
        self.began = time.perf_counter()
        self.write("start", config=dict(config))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self.write("log", step=step, **{name: json_number(x) for name, x in values.items()})

    def note(self, step: int, text: str) -> None:
        self.write("note", step=step, text=text)

    def finish(self, status: str) -> None:
        self.write("finish", status=status)
        with naming(self.path, self.file):
            self.file.close()

    def write(self, event: str, **values: Any) -> None:
        """Write and flush one line; an error closes the file and is raised as an OSError that names it."""
        line = {"event": event, "seconds": round(time.perf_counter() - self.began, 3), **values}
        with naming(self.path, self.file):
            self.file.write(json.dumps(line, allow_nan=False, default=str) + "\n")
            self.file.flush()


class TensorBoardLogger:
    """A folder that TensorBoard shows.

    The settings of a run are its hyper-parameters there. A callback may add distributions, pictures and the graph of a
    model between `start` and `finish`, by `histogram`, `image` and `graph`.

    Shapes: distributions of numbers of any shape; pictures [height, width], [height, width, 3] or [height, width, 4].
    Raises: MissingExtraError where tensorboardX is not installed, OSError, when a run begins, for a folder that cannot
    be written.

    >>> log = TensorBoardLogger("runs/first")
    """

    def __init__(self, folder: str | Path) -> None:
        need("tensorboardX", extra="train")
        self.folder = Path(folder)
        self.path = self.folder
        self.writer: Any = None
        self.flushed = 0.0

    def start(self, config: Mapping[str, Any]) -> None:
        from tensorboardX.record_writer import RecordWriter
        from tensorboardX.summary import hparams, text

        make_folder(self.folder)
        self.path = self.folder / f"events.out.tfevents.{time.time():.6f}.{socket.gethostname()}.{os.getpid()}"
        self.writer = RecordWriter(str(self.path))
        self.write(0, file_version="brain.Event:2")
        self.write(0, summary=text("config", "\n".join(f"    {name}: {value}" for name, value in config.items())))
        settings = {name: x if isinstance(x, bool | int | float) else str(x) for name, x in config.items()}
        for summary in hparams(settings, {})[:2]:
            self.write(0, summary=summary)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        from tensorboardX.summary import scalar

        for name, x in values.items():
            self.write(step, summary=scalar(name, x))

    def histogram(self, step: int, name: str, values: Any) -> None:
        """The distribution of the elements of an array; raises DtypeError where none is a finite number."""
        from tensorboardX.summary import histogram

        finite = np.asarray(values, np.float64).ravel()
        finite = finite[np.isfinite(finite)]
        if not finite.size:
            raise DtypeError(f"TensorBoardLogger: {name} has no finite number to count")
        self.write(step, summary=histogram(name, finite, "auto"))

    def image(self, step: int, name: str, pixels: Any) -> None:
        """A picture, [height, width] or [height, width, 3], of bytes or of floats from 0 to 1."""
        from tensorboardX.summary import image

        picture = np.asarray(pixels)
        if picture.ndim not in (2, 3) or (picture.ndim == 3 and picture.shape[2] != 3):
            raise ShapeError(
                f"TensorBoardLogger: {name} is of shape {picture.shape}; it is [height, width] or [..., 3]"
            )
        self.write(step, summary=image(name, picture, dataformats="HW" if picture.ndim == 2 else "HWC"))

    def graph(self, model: Any, *inputs: Any, **named: Any) -> None:
        """The arrays and operations of a model's call in evaluation mode, in boxes for the parts of the model.

        Inputs are arrays, `ShapeDtype`s or shapes, as `nn.summary` takes them; nothing is computed. A loop, a branch or
        another operation that holds programs is one node, with their text. Raises UnsupportedError without inputs.
        """
        self.write(0, graph_def=graph_bytes(drawn_nodes("TensorBoardLogger.graph", model, inputs, named)))

    def note(self, step: int, text: str) -> None:
        from tensorboardX import summary

        self.write(step, summary=summary.text("note", text))

    def finish(self, status: str) -> None:
        with naming(self.path, self.writer):
            self.writer.close()

    def write(self, step: int, **values: Any) -> None:
        """Write one event in this thread; the writer of tensorboardX hangs after an error in its own thread."""
        from tensorboardX.proto.event_pb2 import Event

        with naming(self.path, self.writer):
            self.writer.write(Event(wall_time=time.time(), step=step, **values).SerializeToString())
            if time.monotonic() - self.flushed > FLUSH:
                self.writer.flush()
                self.flushed = time.monotonic()


@contextmanager
def naming(path: Path, file: Any) -> Iterator[None]:
    """A context in which an OSError closes the file and names it."""
    try:
        yield
    except OSError as error:
        with suppress(OSError):
            file.close()
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def json_number(x: float) -> Any:
    """A number, or its name as a string where JSON has no such number."""
    return x if isinstance(x, int) or math.isfinite(x) else str(float(x))
