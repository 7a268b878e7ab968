"""The file system calls of a save, gathered in one class, so that a test can make each of them fail."""

from __future__ import annotations

import errno
import glob
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wholestep.train.checkpoint import writers

HOUR = 3600.0
TEMPORARY = ".tmp"
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
BINARY = getattr(os, "O_BINARY", 0)
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EXDEV)
"""The error numbers of file systems without hard links."""


class Disk:
    """The file system; each method is one call of it and raises OSError where that fails."""

    def create(self, path: Path) -> int:
        """Create and open a file for writing; it must not exist."""
        return os.open(path, NEW | BINARY, 0o666)

    def write(self, file: int, data: memoryview) -> int:
        """Write some or all of the bytes; the number written."""
        return os.write(file, data)

    def sync(self, file: int) -> None:
        """Wait until the bytes written to a file are on stable storage, which survives a power cut."""
        os.fsync(file)

    def close(self, file: int) -> None:
        os.close(file)

    def link(self, old: Path, new: Path) -> None:
        """Make a hard link, a second name for a file."""
        os.link(old, new)

    def replace(self, old: Path, new: Path) -> None:
        """Rename a file; a file that has the new name is replaced."""
        os.replace(old, new)

    def remove(self, path: Path) -> None:
        os.unlink(path)

    def sync_folder(self, folder: Path) -> None:
        """Wait until the names in a folder are on stable storage; Windows does so by itself."""
        if os.name != "nt":
            opened = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)


DISK = Disk()


def previous(path: Path) -> Path:
    """The path at which the checkpoint before the newest one is kept.

    >>> previous(Path("run/digits.safetensors")).as_posix()
    'run/digits.previous.safetensors'
    """
    return path.with_name(f"{path.stem}.previous{path.suffix}")


def temporary(path: Path) -> Path:
    """A unique name beside a file, with the tag of the process that writes it."""
    return path.with_name(f".{path.name}.{writers.tag()}{TEMPORARY}")


def make_folder(folder: Path) -> None:
    """Make a folder with those above it; raises OSError where that fails, and for names that would surprise."""
    if folder.parts[:1] and folder.parts[0].startswith("~") and not folder.exists():
        raise OSError(
            errno.ENOENT, f"only shells read {folder.parts[0]} as a home folder: Path(path).expanduser() does too"
        )
    check_name(folder)
    folder.mkdir(parents=True, exist_ok=True)


def check_name(path: Path) -> None:
    """Raise OSError for a path that no file of this system can have, for which Python raises a ValueError."""
    try:
        encoded = os.fsencode(path)
    except UnicodeEncodeError as error:
        wrong = error.object[error.start]
        raise OSError(errno.EINVAL, f"file names are {error.encoding} here, which has no {wrong!a}") from None
    if b"\0" in encoded:
        raise OSError(errno.EINVAL, "its name holds a null character")


def written_beside(disk: Disk, path: Path, pieces: Iterable[Any]) -> Path:
    """Write a temporary file beside a path, without the leftovers of others; it is to take the path's name.

    Raises OSError where no file can have that name, or something has it that a rename would destroy, such as a device.
    """
    check_name(path)
    if path.exists() and not path.is_file():
        raise OSError(errno.EEXIST, "something that is no plain file is there")
    sweep(disk, path)
    new = temporary(path)
    write_new(disk, new, pieces)
    return new


def write_new(disk: Disk, path: Path, pieces: Iterable[Any]) -> None:
    """Write a new file and sync it to stable storage; remove it again where that fails."""
    file = disk.create(path)
    try:
        try:
            for piece in pieces:
                rest = memoryview(piece)
                while rest:
                    rest = rest[disk.write(file, rest) :]
            disk.sync(file)
        finally:
            disk.close(file)
    except BaseException:
        remove_file(disk, path)
        raise


def replace_file(disk: Disk, path: Path, pieces: Iterable[Any]) -> None:
    """Replace or create a file in one instant; the previous file is kept under another name.

    After a failure at any point the file is the old one or the new one, whole. Without hard links in the file
    system there is an instant at which only the other name exists.
    """
    swap(disk, path, pieces)
    disk.sync_folder(path.parent)


def swap(disk: Disk, path: Path, pieces: Iterable[Any]) -> None:
    """Do the first half of `replace_file`, without the sync of the folder; a failure leaves the old file in place."""
    new = written_beside(disk, path, pieces)
    try:
        keep_previous(disk, path)
        disk.replace(new, path)
    except BaseException:
        remove_file(disk, new)
        raise


def put_file(disk: Disk, path: Path, pieces: Iterable[Any]) -> None:
    """Replace or create a file in one instant, without keeping the previous file."""
    new = written_beside(disk, path, pieces)
    try:
        disk.replace(new, path)
    except BaseException:
        remove_file(disk, new)
        raise
    disk.sync_folder(path.parent)


def sweep(disk: Disk, path: Path) -> None:
    """Remove the temporary files of interrupted saves beside a file, so that a new save has the space."""
    before, after = f".{path.name}.", TEMPORARY
    for leftover in path.parent.glob(f"{glob.escape(before)}*{after}"):
        if writers.gone(leftover.name[len(before) : -len(after)]) or stale(leftover):
            remove_file(disk, leftover)


def keep_previous(disk: Disk, path: Path) -> None:
    """Give the file at a path the name of the previous checkpoint too; without hard links, rename it so."""
    if not path.exists():
        return
    second = temporary(path)
    try:
        disk.link(path, second)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        disk.replace(path, previous(path))
        return
    try:
        disk.replace(second, previous(path))
    finally:
        remove_file(disk, second)  # a rename between two links to one file leaves both


def remove_file(disk: Disk, path: Path) -> None:
    """Remove a file; errors, as of a missing file, are ignored."""
    try:
        disk.remove(path)
    except OSError:
        return


def stale(path: Path) -> bool:
    """True if the last write to a file was an hour ago or earlier."""
    try:
        return time.time() - path.stat().st_mtime >= HOUR
    except OSError:
        return False
