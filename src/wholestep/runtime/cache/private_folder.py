"""A private folder of checked files: its owner, its permissions, its entries and its size limit."""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SIZE_CAP = 256 << 20
"""The most bytes of a folder; the least recently used entries are removed first."""
MAX_ENTRY_BYTES = 64 << 20
"""The most bytes of an entry; a larger one is neither stored nor read."""
HOUR = 3600.0
SUFFIX = ".code"
TEMPORARY = ".tmp"
HASH_BYTES = 65
"""A SHA-256 in hexadecimal, and the end of its line."""
OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class FolderUnusable(Exception):
    """The reason why a folder cannot be used."""


class FolderMissing(FolderUnusable):
    """The folder, or one that holds it, is not there."""


@dataclass(frozen=True)
class CacheEntry:
    """A cached entry: pieces of code, and metadata in JSON."""

    pieces: tuple[bytes | memoryview, ...]
    facts: dict[str, Any]


class PrivateFolder:
    """The entries in one folder; every method raises FolderUnusable if the folder is not private or the system refuses
    access."""

    def __init__(self, place: Path, cap: int = SIZE_CAP) -> None:
        self.place = place
        self.cap = cap

    def get(self, name: str) -> CacheEntry | None:
        """The verified entry of this name; None where there is none."""
        try:
            with self._opened() as folder:
                data = _read_file(folder, name + SUFFIX)
        except FolderMissing:
            return None
        return None if data is None else decode_entry(name, data)

    def put(self, name: str, entry: CacheEntry) -> None:
        """Store an entry: written whole under a temporary name, then renamed."""
        most = min(MAX_ENTRY_BYTES, self.cap)
        if sum(map(len, entry.pieces)) > most:  # before anything of that size is made
            return
        data = encode_entry(name, entry)
        if sum(map(len, data)) > most:
            return
        with self._refused():
            for above in reversed((self.place, *self.place.parents)):
                if not above.exists():
                    above.mkdir(mode=0o700, exist_ok=True)
        with self._opened() as folder:
            temporary = f"{os.urandom(16).hex()}{TEMPORARY}"
            try:
                _write_file(folder, temporary, data)
                os.rename(temporary, name + SUFFIX, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError:
                _remove(folder, temporary)
                raise
            self._tidy(folder, HOUR)

    def tidy(self, older: float = HOUR) -> None:
        """Remove entries beyond the cap, and temporary files older than `older` seconds, left by interrupted writes."""
        with self._opened() as folder:
            self._tidy(folder, older)

    def state(self) -> str:
        """A few words on whether the folder can be used."""
        try:
            with self._opened():
                return "private to this user"
        except FolderMissing:
            return "not made yet"

    def usage(self) -> tuple[int, int]:
        """Return the number of entries and their bytes."""
        try:
            with self._opened() as folder:
                sizes = [info.st_size for name, info in _plain_files(folder) if name.endswith(SUFFIX)]
        except FolderMissing:
            return 0, 0
        return len(sizes), sum(sizes)

    @contextmanager
    def _refused(self) -> Iterator[None]:
        """Turn an OSError into FolderUnusable."""
        try:
            yield
        except OSError as error:
            kind = FolderMissing if isinstance(error, FileNotFoundError) else FolderUnusable
            raise kind(f"{self.place}: {error.strerror}") from None

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """A descriptor of the folder, after checks of its owner, its permissions, and the folders above it."""
        with self._refused():
            folder = os.open(self.place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                self._trust(folder)
                yield folder
            finally:
                os.close(folder)

    def _trust(self, folder: int) -> None:
        info = os.fstat(folder)
        if info.st_uid != os.geteuid():
            raise FolderUnusable(f"{self.place} belongs to another user")
        if info.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise FolderUnusable(f"{self.place} is open to other users; its mode must be 700")
        up, inner = "..", info
        # The system follows links on the way up; names are found out for the message alone.
        while not os.path.samestat(about := os.stat(up, dir_fd=folder), inner):  # the root is above itself
            # In a sticky folder, such as that for temporary files, only its owner can rename a folder.
            if about.st_mode & OTHERS_MAY_WRITE and not about.st_mode & stat.S_ISVTX:
                raise FolderUnusable(f"other users can write {self._above(up)}, which holds {self.place}")
            if about.st_uid not in (0, os.geteuid()):
                raise FolderUnusable(f"{self._above(up)}, which holds {self.place}, belongs to another user")
            up, inner = f"{up}/..", about

    def _above(self, up: str) -> str:
        return os.path.normpath(os.path.join(os.path.realpath(self.place), up))

    def _tidy(self, folder: int, older: float) -> None:
        now, entries = time.time(), []
        for name, info in _plain_files(folder):
            if name.endswith(SUFFIX):
                entries.append((info.st_mtime_ns, info.st_size, name))
            elif name.endswith(TEMPORARY) and now - info.st_mtime >= older:
                _remove(folder, name)
        total = sum(size for _, size, _ in entries)
        for _, size, name in sorted(entries):
            if total <= self.cap:
                return
            _remove(folder, name)
            total -= size


def encode_entry(name: str, entry: CacheEntry) -> tuple[bytes | memoryview, ...]:
    """An entry as the parts of a file: its hash, a line of JSON, and the pieces of code."""
    head = {"name": name, "sizes": [len(piece) for piece in entry.pieces], "facts": entry.facts}
    rest = (json.dumps(head, sort_keys=True).encode() + b"\n", *entry.pieces)
    digest = hashlib.sha256()
    for part in rest:
        digest.update(part)
    return digest.hexdigest().encode() + b"\n", *rest


def decode_entry(name: str, data: bytes) -> CacheEntry | None:
    """The entry in a file; None where the file's hash does not match, or the entry has another name."""
    rest = memoryview(data)[HASH_BYTES:]  # large constants are not copied once more
    if data[:HASH_BYTES] != hashlib.sha256(rest).hexdigest().encode() + b"\n":
        return None
    line = data.index(b"\n", HASH_BYTES)
    head, body = json.loads(data[HASH_BYTES:line]), memoryview(data)[line + 1 :]
    if head["name"] != name:
        return None
    ends = itertools.accumulate(head["sizes"])
    pieces = tuple(body[end - size : end] for size, end in zip(head["sizes"], ends, strict=True))
    return CacheEntry(pieces, head["facts"])


def _read_file(folder: int, name: str) -> bytes | None:
    """A file of this user's, whole; None where it is not there or not a plain file. It counts as used."""
    try:
        file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO):
            return None
        raise
    info = os.fstat(file)
    mine = stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid() and not info.st_mode & OTHERS_MAY_WRITE
    if not mine or info.st_size > MAX_ENTRY_BYTES:
        os.close(file)
        return None
    with os.fdopen(file, "rb", buffering=0) as stream:
        with suppress(OSError):  # noted as used where the system lets one
            os.utime(file)
        return stream.read(info.st_size)  # and not the most that it may be, for which room would be made


def _write_file(folder: int, name: str, data: tuple[bytes | memoryview, ...]) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o600, dir_fd=folder), "wb") as stream:
        stream.writelines(data)


def _remove(folder: int, name: str) -> None:
    """Remove a file if it is still there."""
    with suppress(OSError):
        os.unlink(name, dir_fd=folder)


def _plain_files(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    """The plain files of a folder; one that another process removes meanwhile is left out."""
    for name in os.listdir(folder):
        try:
            info = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(info.st_mode):
            yield name, info
