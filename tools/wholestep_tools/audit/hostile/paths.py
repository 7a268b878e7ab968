"""`wholestep audit paths`: no checkpoint names a file that lies elsewhere and has it opened."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from wholestep.errors import CheckpointError
from wholestep.train.checkpoint.safetensors_header import SEAL
from wholestep.train.checkpoint.write import MANIFEST, signed
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record
from wholestep_tools.audit.resumption.faults import tiny
from wholestep_tools.audit.trainings.jobs import sha256

CLAIM = "No file that a checkpoint names is opened outside of its folder, through a link, or where it is no plain file"
PIECES = (
    "..",
    ".",
    "/",
    "\\",
    "//",
    "\0",
    "%2e%2e",
    "%2f",
    "\u2024\u2024",
    "\uff0f",
    "~",
    "$HOME",
    "C:",
    "\\\\?\\",
    "//server/share/",
    "CON",
    "NUL",
    "aux.safetensors",
    "file:",
    " ",
    "\n",
    "\u202e",
    "\ud800",
    "x" * 300,
    "-rf",
    "*",
    ":stream",
    "outside",
    "part",
    ".safetensors",
    "PART",
    "manifest.json",
)
"""The parts of hostile names."""


class Place:
    """A checkpoint in parts, the same parts in a folder beside it, and everything between that could lead there."""

    def __init__(self, folder: Path) -> None:
        self.step = tiny()
        self.step(np.ones(3))
        self.inside, self.outside = folder / "inside", folder / "outside"
        for place in (self.inside, self.outside):
            self.step.save(place, max_shard_bytes=60)
        self.table = json.loads((self.inside / MANIFEST).read_bytes())
        self.table.pop(SEAL)
        self.parts = sorted(self.table["parts"])
        self.saved = sha256(self.step.state)
        self.links = list(self.linked(self.outside / self.parts[0]))

    def linked(self, target: Path) -> Iterator[str]:
        """Names in the folder that are links to a part, or no plain files at all."""
        for name, make in (
            ("symbolic.safetensors", lambda at: at.symlink_to(target)),
            ("relative.safetensors", lambda at: at.symlink_to(Path("..") / "outside" / target.name)),
            ("hard.safetensors", lambda at: os.link(target, at)),
            ("folder.safetensors", lambda at: at.mkdir()),
            ("pipe.safetensors", lambda at: os.mkfifo(at)),
            ("device.safetensors", lambda at: at.symlink_to("/dev/zero")),
        ):
            with suppress(OSError, AttributeError):
                make(self.inside / name)
                yield name

    def drawn(self, rng: np.random.Generator) -> str:
        """A hostile name of a part; many lead to one that exists."""
        part, kind = str(rng.choice(self.parts)), int(rng.integers(6))
        if kind == 0:
            return str(rng.choice(self.links))
        if kind == 1:
            return str(self.outside / part)
        ways = (
            "../outside/",
            "./",
            "a/../",
            "..//outside/",
            "../inside/../outside/",
            f"../inside/{part}/../",
            "..\\outside\\",
        )
        if kind == 2:
            return ways[int(rng.integers(len(ways)))] + part
        if kind == 3:
            return part + str(rng.choice(["/", "/.", "\0", " ", ".", ":$DATA", "\n"]))
        if kind == 4:
            return part.swapcase()
        return "".join([PIECES[int(k)] for k in rng.integers(0, len(PIECES), int(rng.integers(1, 6)))])

    def manifest(self, name: str) -> bytes:
        """A manifest, rightly signed, in which one part has this name."""
        old = self.parts[0]
        seals = {name if part == old else part: seal for part, seal in self.table["parts"].items()}
        where = {key: name if part == old else part for key, part in self.table["weight_map"].items()}
        return signed({**self.table, "parts": seals, "weight_map": where})


OPENED: list[str] = []
_hooked: list[bool] = []


@contextmanager
def watched() -> Iterator[list[str]]:
    """The paths that are opened inside."""

    def hook(event: str, given: tuple[Any, ...]) -> None:
        if event == "open" and _hooked[-1] and isinstance(given[0], str | bytes):
            OPENED.append(os.fsdecode(given[0]))

    if not _hooked:
        _hooked.append(False)
        sys.addaudithook(hook)
    OPENED.clear()
    _hooked[-1] = True
    try:
        yield OPENED
    finally:
        _hooked[-1] = False


def problem(place: Place, name: str) -> str:
    """The fault in how a checkpoint is treated whose manifest names this part."""
    manifest = place.inside / MANIFEST
    manifest.unlink()
    manifest.write_bytes(place.manifest(name))
    with watched() as opened:
        try:
            place.step.load(place.inside)
            return "it was accepted"
        except CheckpointError:
            pass
        except BaseException as error:
            return f"{type(error).__name__}: {error}"[:200]
        elsewhere = [path for path in opened if not plain(place, path)]
    if elsewhere:
        return f"it had {elsewhere[0]!r} opened"
    return "" if sha256(place.step.state) == place.saved else "the state has changed"


def plain(place: Place, path: str) -> bool:
    """Test whether a path that was opened is a plain name in the folder, or one of Python's own files."""
    return os.path.dirname(os.path.abspath(path)) == str(place.inside) or path.endswith((".py", ".pyc"))


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many hostile names; the record of it."""
    seen, rng = Seen(), np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder).resolve())
        place.step.load(place.inside)
        for i in range(count):
            name = place.links[i] if i < len(place.links) else place.drawn(rng)
            try:
                place.manifest(name)
            except UnicodeEncodeError:
                name = ascii(name)
            if name in place.parts:
                continue
            wrong = problem(place, name)
            seen.count("names that were refused", int(not wrong))
            seen.right(not wrong, f"name {i}, {name!r}: {wrong}")
    checks = {"names": count, **seen.checks, "links and other kinds of files": len(place.links)}
    return record("paths", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "paths",
    audit,
    2000,
    "load checkpoints that name files elsewhere",
    """\
The manifest of a checkpoint in parts, with right checksums, calls one of them by a hostile name: absolute, with
`..`, with separators of both kinds, NUL, names of devices, another case, marks of direction, 300 letters; or by
that of a symbolic or hard link, a folder, a pipe or a device. A whole part lies in the folder beside, where many
of the names lead. Loading must end in CheckpointError with the state as it was, and an audit hook of the
interpreter must see nothing opened but plain names in the folder.""",
)
