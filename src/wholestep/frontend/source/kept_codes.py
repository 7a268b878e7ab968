"""Rewritten codes of earlier processes, on disk beside compiled programs: one entry for each source file.

An entry maps hashes of the user's codes to their copies. A code holds its file, lines, names and instructions, so that
an edited function has another hash. A copy that cannot be stored or verified is made again, like compiled programs.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import marshal
import os
import sys
from collections.abc import Callable
from types import CodeType

from wholestep import config
from wholestep.runtime.cache import code_cache
from wholestep.runtime.cache.private_folder import CacheEntry, FolderUnusable, PrivateFolder

FOLDER_NAME = "source"
"""The folder in that of compiled code."""
MOST = 500
"""The number of codes in an entry from which on codes that the running process has not used are dropped."""
MAKERS = tuple([f"frontend/source/{name}.py" for name in ("members", "reading", "rewriting")])
"""The files whose text determines the rewritten codes."""
PLAIN = 2
"""The version of `marshal` whose bytes do not depend on an object's reference count."""


def recalled(code: CodeType, members: frozenset[str], make: Callable[[], CodeType | None]) -> CodeType | None:
    """The rewritten copy of a code, from an earlier process or from `make`; the code itself where nothing changes.

    None, which `make` returns where it knows no copy, is not kept.
    """
    codes = file_codes(code.co_filename)
    if codes is None:
        return make()
    name = hashlib.sha256(marshal.dumps(code, PLAIN) + " ".join(sorted(members)).encode()).hexdigest()
    known = codes.before.get(name)
    if known is None:
        made = make()
        if made is not None:
            codes.used[name] = b"" if made is code else marshal.dumps(made)
            codes.grown = True
        return made
    codes.used[name] = known
    copy: CodeType = marshal.loads(known) if known else code
    return copy


class FileCodes:
    """The copies of the codes of one file: those on disk, and those that this process has used."""

    def __init__(self, folder: PrivateFolder, name: str) -> None:
        self.folder, self.name = folder, name
        found = folder.get(name)
        pairs = () if found is None else zip(found.facts["codes"], found.pieces, strict=True)
        self.before = {key: bytes(piece) for key, piece in pairs}
        self.used: dict[str, bytes] = {}
        self.grown = False

    def write(self) -> None:
        """Write the copies that are new to the entry on disk."""
        whole = {**self.before, **self.used} if len(self.before) < MOST else self.used
        self.folder.put(self.name, CacheEntry(tuple(whole.values()), {"codes": list(whole)}))


_files: dict[str, FileCodes | None] = {}


def file_codes(filename: str) -> FileCodes | None:
    """The copies of a file's codes; None where nothing is kept on disk, or the text is in no file."""
    if filename not in _files:
        if not _files:
            atexit.register(write_all)
        _files[filename] = opened(filename)
    return _files[filename]


def opened(filename: str) -> FileCodes | None:
    """The entry of a file, read."""
    if not os.path.isfile(filename):
        return None
    try:
        folder = source_folder(config.cache_place())
        if folder is None:
            return None
        key = f"{filename}\n{maker_version()}".encode()
        return FileCodes(folder, hashlib.sha256(key).hexdigest())
    except (FolderUnusable, code_cache.SourceUnknown):  # compilation warns about it, and every user compiles
        return None


@functools.cache
def source_folder(asked: str | None) -> PrivateFolder | None:
    """The folder of rewritten codes within the cache folder, for its setting by the user.

    It is found once; its privacy is checked for each file.
    """
    return code_cache.cache_folder(FOLDER_NAME)


@functools.cache
def maker_version() -> str:
    """The version of a copy's other dependencies: the text of the files that make it, and Python's version."""
    return f"{code_cache.files_version(MAKERS)} {sys.implementation.cache_tag} {sys.hexversion}"


def write_all() -> None:
    """Write the entries that have grown, as Python ends."""
    for codes in _files.values():
        if codes is not None and codes.grown:
            codes.grown = False
            try:
                codes.write()
            except FolderUnusable:
                return
