"""File-system faults: every call that a save makes of the file system fails in every way that it can."""

from __future__ import annotations

import errno
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import count, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import wholestep as ws
from wholestep.errors import CheckpointError
from wholestep.train.checkpoint.filesystem import Disk
from wholestep.train.checkpoint.steps import save_step
from wholestep.train.step.step import Step
from wholestep_tools.audit.trainings.jobs import sha256

FAULTS = (
    *("error", "interrupted", "signal", "full", "short", "crash"),
    *("power cut", "power cut, names lost", "power cut, last name kept"),
)
RAISED: dict[str, BaseException] = {
    "error": OSError(errno.EIO, os.strerror(errno.EIO)),
    "interrupted": InterruptedError(errno.EINTR, os.strerror(errno.EINTR)),
    "signal": KeyboardInterrupt(),  # a handler that raises, which the interpreter calls between two system calls
}
"""The errors of faults that leave the process alive, and the disk as it was."""
BEFORE = (0, 1, 3)
"""Saves that there were before the one with the fault."""
PARTS = (None, 60)
"""Bytes of a part: one file, or several."""


class Crash(BaseException):
    """The process ended here."""


class Faulty(Disk):
    """A file system in which one call, by its number, fails; it keeps the state that a power cut would leave in
    memory."""

    def __init__(self, folder: Path, at: int = -1, fault: str = "", links: bool = True) -> None:
        self.folder, self.at, self.fault, self.links = folder, at, fault, links
        self.calls, self.dead = 0, False
        self.loose: set[int] = set()  # files that a power cut takes the end of
        self.names = self.listed()
        self.last: Callable[[], Any] = lambda: None

    def listed(self) -> dict[Path, bytes]:
        """The content of every file."""
        return {path: path.read_bytes() for path in self.folder.rglob("*") if path.is_file()}

    def call(self, writing: bool = False) -> bool:
        """Count a call, and let it fail if it is its turn; whether a write is to be a short one."""
        if self.dead:
            raise Crash
        self.calls += 1
        if self.calls - 1 != self.at:
            return self.fault == "full" and writing and -1 < self.at < self.calls - 1
        if self.fault in RAISED:
            raise RAISED[self.fault]
        if self.fault in ("full", "short") and writing:
            return True
        if self.fault == "full":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.fault != "short":
            self.end()
        return False

    def end(self) -> None:
        """Crash, and leave the files that a power cut would leave."""
        self.dead = True
        if self.fault.startswith("power cut"):
            for path in self.listed():
                if path.stat().st_ino in self.loose:
                    os.truncate(path, path.stat().st_size // 2)
        if self.fault.startswith("power cut, "):
            for path in self.listed():
                path.unlink()
            for path, content in self.names.items():
                path.write_bytes(content)
            if self.fault.endswith("kept"):
                self.last()
        raise Crash

    def create(self, path: Path) -> int:
        self.call()
        file = super().create(path)
        self.loose.add(os.fstat(file).st_ino)
        return file

    def write(self, file: int, data: memoryview) -> int:
        if self.call(writing=True):
            if len(data) < 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = data[: len(data) // 2]
        self.loose.add(os.fstat(file).st_ino)
        return super().write(file, data)

    def sync(self, file: int) -> None:
        self.call()
        self.loose.discard(os.fstat(file).st_ino)

    def close(self, file: int) -> None:
        super().close(file)
        self.call()

    def link(self, old: Path, new: Path) -> None:
        self.call()
        if not self.links:
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))
        super().link(old, new)

    def replace(self, old: Path, new: Path) -> None:
        self.call()
        content = old.read_bytes()
        if old.stat().st_ino in self.loose:
            content = content[: len(content) // 2]
        super().replace(old, new)
        self.last = lambda: new.write_bytes(content)

    def remove(self, path: Path) -> None:
        self.call()
        super().remove(path)

    def sync_folder(self, folder: Path) -> None:
        self.call()
        self.names, self.last = self.listed(), lambda: None


def tiny() -> Step:
    """A step with a state of a few bytes."""
    optimizer = ws.optim.sgd(0.1)
    return ws.compile(
        lambda p, x: np.mean((p["w"] - x) ** 2), {"w": np.zeros(3)}, optimizer=optimizer, batch=np.ones(3)
    )


class Case(NamedTuple):
    """A fault at one call."""

    most: int | None
    links: bool
    before: int
    fault: str
    at: int

    def __str__(self) -> str:
        kind = "one file" if self.most is None else "parts"
        return f"{self.fault} at call {self.at} of a save after {self.before}, {kind}, links {self.links}"


def tries(befores: Sequence[int] = BEFORE) -> Iterator[tuple[Case, list[str]]]:
    """Each fault at each call, with its failures."""
    step = tiny()
    for most, links, before, fault in product(PARTS, (True, False), befores, FAULTS):
        for at in count():
            case = Case(most, links, before, fault, at)
            with tempfile.TemporaryDirectory() as folder:
                found = outcome(step, Path(folder), case)
            if found is None:
                break
            yield case, found


def faults(befores: Sequence[int] = BEFORE) -> tuple[dict[str, int], list[str]]:
    """Try all faults; the number of trials of each kind, and the failures."""
    tried, wrong = Counter[str](), list[str]()
    for case, found in tries(befores):
        tried[f"saves with: {case.fault}"] += 1
        wrong += [f"{case}: {what}" for what in found]
    return dict(tried), wrong


def outcome(step: Step, folder: Path, case: Case) -> list[str] | None:
    """The failure that was seen; None where the save had fewer calls."""
    path, held = folder / "state.safetensors", ""
    step.reset()
    for _ in range(case.before):
        step(np.ones(3))
        save_step(step._engine, path, None, None, case.most, Faulty(folder, links=case.links))
        held = sha256(step.state)
    step(np.ones(3))
    new = sha256(step.state)
    disk, done = Faulty(folder, case.at, case.fault, case.links), False
    with suppress(CheckpointError, Crash, KeyboardInterrupt):
        save_step(step._engine, path, None, None, case.most, disk)
        done = True
    if disk.calls <= case.at:
        return None
    allowed = {new} if done else {new, held}
    found = [
        f"what is there is {'' if there else 'not '}readable, and wrong" for there in judged(step, path, case, allowed)
    ]
    if not disk.dead and case.fault not in RAISED and any(folder.rglob(".*.tmp")):
        found.append("half a file is left over")
    step(np.ones(3))
    after = sha256(step.state)
    save_step(step._engine, path, None, None, case.most, Faulty(folder, links=case.links))
    step.load(path)
    return found if sha256(step.state) == after else [*found, "the save after it is not what is there"]


def judged(step: Step, path: Path, case: Case, allowed: set[str]) -> Iterator[bool]:
    """Test whether it could be read, where that is wrong."""
    try:
        step.load(path, fallback=not case.links)
    except CheckpointError:
        if "" not in allowed:
            yield False
        return
    if sha256(step.state) not in allowed:
        yield True
