"""`wholestep audit entries`: an entry of the cache that is damaged, replaced or not the user's is never loaded."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from wholestep.runtime.cache.private_folder import SUFFIX, CacheEntry, PrivateFolder, encode_entry
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record

CLAIM = "A cached entry of which one bit is another, or which is no plain private file, is made anew and never loaded"
NAME = "0" * 64
ENTRY = CacheEntry((b"code" * 100, b"", bytes(range(256))), {"entry": "main", "slots": [1, 2]})


def flipped(data: bytes, draw: random.Random) -> bytes:
    """One bit turned over."""
    at = draw.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :]


def holed(data: bytes, draw: random.Random) -> bytes:
    """A stretch left out."""
    low, high = sorted(draw.sample(range(len(data) + 1), 2))
    return data[:low] + data[high:]


DAMAGE: Mapping[str, Callable[[bytes, random.Random], bytes]] = {
    "flip": flipped,
    "cut": lambda data, draw: data[: draw.randrange(len(data))],
    "grow": lambda data, draw: data + draw.randbytes(draw.randrange(1, 9)),
    "hole": holed,
    "noise": lambda data, draw: draw.randbytes(len(data)),
    "other name": lambda data, draw: b"".join(encode_entry(f"{draw.getrandbits(256):064x}", ENTRY)),
}
"""Kinds of damage to the bytes of an entry."""


def linked(file: Path, whole: Path) -> None:
    """A symbolic link to a whole entry."""
    file.symlink_to(whole)


def opened(file: Path, whole: Path) -> None:
    """A whole entry that others may write."""
    file.write_bytes(whole.read_bytes())
    file.chmod(0o622)


def foreign(file: Path, whole: Path) -> None:
    """A whole entry of another user, where this one may give files away."""
    file.write_bytes(whole.read_bytes())
    with suppress(PermissionError):
        os.chown(file, 12345, -1)
        return
    file.unlink()


REPLACED: Mapping[str, Callable[[Path, Path], None]] = {
    "symbolic link": linked,
    "pipe": lambda file, whole: os.mkfifo(file),
    "folder": lambda file, whole: file.mkdir(),
    "open to others": opened,
    "of another user": foreign,
    "empty": lambda file, whole: file.touch(),
}
"""Kinds of files in the place of an entry."""
SHARE = 0.1
"""The part of the trials in which another thing stands in its place."""


def removed(file: Path) -> None:
    """Remove a file, a link or an empty folder, if it exists."""
    if file.is_dir() and not file.is_symlink():
        file.rmdir()
    else:
        file.unlink(missing_ok=True)


def audit(count: int, seed: int) -> dict[str, Any]:
    """So many entries; the record of it."""
    seen, draw = Seen(), random.Random(seed)
    with tempfile.TemporaryDirectory() as place:
        folder, real = PrivateFolder(Path(place) / "cache"), Path(place) / "whole"
        folder.put(NAME, ENTRY)
        file = folder.place / (NAME + SUFFIX)
        whole = file.read_bytes()
        real.write_bytes(whole)
        real.chmod(0o600)
        for i in range(count):
            removed(file)
            if draw.random() < SHARE:
                kind = draw.choice(list(REPLACED))
                REPLACED[kind](file, real)
            else:
                kind = draw.choice(list(DAMAGE))
                file.write_bytes(DAMAGE[kind](whole, draw))
                file.chmod(0o600)
            seen.count(f"entries: {kind}")
            try:
                seen.right(folder.get(NAME) is None, f"entry {i}, {kind}: it was believed")
            except Exception as error:
                seen.failures.append(f"entry {i}, {kind}: {type(error).__name__}: {error}")
        removed(file)
        folder.put(NAME, ENTRY)
        seen.right(folder.get(NAME) == ENTRY, "a whole entry was not read")
    return record("entries", CLAIM, {"entries": count, **dict(sorted(seen.checks.items()))}, seen.failures, seed=seed)


AUDIT = Audit(
    "entries",
    audit,
    20_000,
    "damage or replace entries of the cache",
    """\
An entry of the cache has a bit flipped, is cut, grown, holed, noise, or one of another name; or in its place is a
symbolic link to a whole one, a pipe, a folder, an empty file, a file that others may write, or one of another
user. It must be taken for absent, so that the program is compiled again. A whole entry must be read.""",
)
