"""The code cache: entries found by a hash of all inputs of their compilation, and verified before they are loaded.

The folder is the user's own. An entry is one file: a hash, and then the hashed bytes, a line of JSON and the code. It
is read once, and the bytes that were hashed are the bytes that are used. A failure of the cache never makes a
compilation fail: an entry that cannot be stored or verified is compiled again, with one warning where the folder is at
fault. A process with the user's rights can write code into the user's folder, here as anywhere else.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from wholestep import config
from wholestep.errors import WholestepWarning, warn
from wholestep.runtime.cache.private_folder import CacheEntry, FolderUnusable, PrivateFolder

PACKAGES = "ir kernel primitives passes transforms lower backends runtime compiler".split()
"""The packages whose source, with that of the files beside them, determines the generated code and its calls."""

_STARTED = time.time()


class CacheWarning(WholestepWarning, RuntimeWarning):
    """The folder for compiled code cannot be used, so that every process compiles again."""


class SourceUnknown(Exception):
    """The running code may differ from the source files, so that no cache key can be computed."""


def cached_code(
    text: str, backend: Mapping[str, Any], flags: Mapping[str, Any], make: Callable[[], CacheEntry]
) -> CacheEntry:
    """Return the cached entry for this program, backend and flags, or the result of `make`.

    `text` is the program in canonical form, and `backend` the properties of the device that code depends on. Warns
    once, with a CacheWarning, where the folder cannot be used.
    """
    try:
        folder = cache_folder()
        name = "" if folder is None else cache_key(text, backend, flags)
        found = None if folder is None else folder.get(name)
    except SourceUnknown:
        return make()
    except FolderUnusable as error:
        _warn(error)
        return make()
    if found is not None:
        return found
    made = make()
    try:
        if folder is not None:
            folder.put(name, made)
    except FolderUnusable as error:
        _warn(error)
    return made


def cache_folder(part: str = "") -> PrivateFolder | None:
    """The folder that WHOLESTEP_CACHE names, or the user's default one; None where the cache is off or the system does
    not support it.

    A `part` is a folder inside it.

    Raises FolderUnusable where the user has no home, or the path of the named folder cannot be resolved.
    """
    asked = config.cache_place()
    if asked == "off" or os.open not in os.supports_dir_fd:
        return None
    try:
        return PrivateFolder((Path(asked).expanduser().absolute() if asked else _default()) / part)
    except (RuntimeError, OSError) as error:  # a user who is not there; a working directory that is gone
        raise FolderUnusable(f"WHOLESTEP_CACHE={asked}: {error}") from None


def _default() -> Path:
    home = Path(os.path.expanduser("~"))
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():
        return given / "wholestep"
    if not home.is_absolute() or not home.is_dir():
        raise FolderUnusable("the user has no home folder")
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "wholestep"


def cache_key(text: str, backend: Mapping[str, Any], flags: Mapping[str, Any]) -> str:
    """The name of an entry: a hash of all inputs of its compilation; `backend` and `flags` are JSON values.

    Raises SourceUnknown as `code_version` does.
    """
    facts = {
        "text": text,
        "backend": dict(backend),
        "flags": dict(flags),
        "code": code_version(),
        "abi": process_abi(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def process_abi() -> list[Any]:
    """Return the properties of the process that compiled code depends on, besides the processor."""
    return [sys.platform, sys.byteorder, struct.calcsize("P")]


@cache
def code_version() -> str:
    """A hash of the source files that generated code depends on.

    Raises SourceUnknown where a file is missing, or was written after this process read it.
    """
    return files_version(source_files(os.path.dirname(config.__file__)))


def files_version(files: Sequence[str]) -> str:
    """A hash of source files of the library, by their paths in it; raises SourceUnknown as `code_version` does."""
    root = os.path.dirname(config.__file__)
    digest = hashlib.sha256()
    for file in files:
        try:
            opened = open(os.path.join(root, file), "rb")
        except OSError:
            raise SourceUnknown(file) from None
        with opened:
            if os.fstat(opened.fileno()).st_mtime > _STARTED:
                raise SourceUnknown(file)
            text = opened.read()
        digest.update(f"{file.replace(os.sep, '/')} {len(text)}\n".encode() + text)
    if not files:
        raise SourceUnknown("no source files")
    return digest.hexdigest()


def source_files(root: str) -> list[str]:
    """The paths, from the root, of the source files that code depends on; plain strings, since each process asks."""
    found = [entry.name for entry in os.scandir(root) if entry.name.endswith(".py")]
    for package in PACKAGES:
        for folder, _, names in os.walk(os.path.join(root, package)):
            found += [os.path.join(folder[len(root) + 1 :], name) for name in names if name.endswith(".py")]
    return sorted(found)


_warned: list[str] = []


def _warn(error: FolderUnusable) -> None:
    """Warn once in a process."""
    if not _warned:
        _warned.append(str(error))
        hint = "WHOLESTEP_CACHE names another folder, or off for none"
        warn(f"compiled code is not kept between processes: {error}", CacheWarning, hint=hint)
