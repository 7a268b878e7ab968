"""`wholestep audit folders`: a folder that cannot be used costs a warning and a compilation, and no result."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import wholestep as ws
from wholestep import config
from wholestep.runtime.cache import code_cache, private_folder
from wholestep_tools.audit.campaign import Audit, Seen
from wholestep_tools.audit.record import record

CLAIM = "Whatever the system refuses the cache, programs compile and are right, with one warning that says why"
PROGRAMS = 3


def refusing(number: int) -> Callable[..., Any]:
    """A call that the system refuses."""

    def call(*_: Any, **__: Any) -> Any:
        raise OSError(number, os.strerror(number))

    return call


@contextmanager
def variables(**changes: str | None) -> Iterator[None]:
    """Variables of the environment, set or left out."""
    with mock.patch.dict(os.environ):
        for name, value in changes.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value
        config.reread()
        yield
    config.reread()


@contextmanager
def no_working_directory(folder: Path) -> Iterator[None]:
    """A relative place, in a folder that is gone."""
    before = os.open(".", os.O_RDONLY)
    gone = folder / "gone"
    gone.mkdir()
    os.chdir(gone)
    gone.rmdir()
    try:
        with variables(WHOLESTEP_CACHE="cache"):
            yield
    finally:
        os.chdir(before)
        os.close(before)


@contextmanager
def in_the_way(folder: Path) -> Iterator[None]:
    """A file where the folder should be."""
    (folder / "cache").write_text("in the way")
    yield


@contextmanager
def opened(folder: Path) -> Iterator[None]:
    """A folder that others may read."""
    (folder / "cache").mkdir(mode=0o755)
    yield


@contextmanager
def behind_a_link(folder: Path) -> Iterator[None]:
    """A folder that is a symbolic link."""
    (folder / "real").mkdir(mode=0o700)
    (folder / "cache").symlink_to(folder / "real")
    yield


@contextmanager
def unreadable(folder: Path) -> Iterator[None]:
    """A disk that fails."""
    (folder / "cache").mkdir(mode=0o700)
    with mock.patch.object(private_folder, "_read_file", refusing(5)):
        yield


Trouble = Callable[[Path], Any]
TROUBLES: Mapping[str, tuple[Trouble, str]] = {
    "a full disk": (lambda f: mock.patch.object(private_folder, "_write_file", refusing(28)), "No space left"),
    "a rename that fails": (lambda f: mock.patch.object(os, "rename", refusing(116)), "Stale file handle"),
    "a read-only system": (lambda f: mock.patch.object(Path, "mkdir", refusing(30)), "Read-only file system"),
    "no permission": (lambda f: mock.patch.object(Path, "mkdir", refusing(13)), "Permission denied"),
    "no descriptors": (lambda f: mock.patch.object(private_folder, "_write_file", refusing(24)), "Too many open"),
    "a file in its place": (in_the_way, "Not a directory"),
    "a folder open to others": (opened, "open to other users"),
    "a symbolic link": (behind_a_link, "cache: "),
    "a disk that fails": (unreadable, "Input/output error"),
    "no home": (
        lambda f: variables(WHOLESTEP_CACHE=None, XDG_CACHE_HOME=None, HOME=str(f / "missing")),
        "the user has no home folder",
    ),
    "no such user": (lambda f: variables(WHOLESTEP_CACHE="~nobody-of-this-name/c"), "WHOLESTEP_CACHE=~nobody-of-this"),
    "no working directory": (no_working_directory, "WHOLESTEP_CACHE=cache: "),
}
"""The troubles by name: a function that makes the context manager of one, and the text of its warning."""


def problem(name: str, folder: Path) -> str:
    """The fault in how programs compile under this trouble; empty where there is none."""
    make, words = TROUBLES[name]
    x = np.arange(3.0)
    with mock.patch.object(code_cache, "_warned", []), mock.patch.object(code_cache, "_STARTED", 1e12):
        code_cache.code_version.cache_clear()
        with variables(WHOLESTEP_CACHE=str(folder / "cache")), warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with make(folder):
                found = [ws.jit(lambda x, k=k: x * k + 1.0)(x) for k in range(PROGRAMS)]
    code_cache.code_version.cache_clear()
    if not all((y == x * k + 1.0).all() for k, y in enumerate(found)):
        return "a result is wrong"
    seen = [str(w.message) for w in told]
    if [w.category for w in told] != [code_cache.CacheWarning] or words not in seen[0]:
        return f"the warnings are {seen}"
    left = [path.name for path in folder.rglob("*") if path.suffix in (private_folder.SUFFIX, private_folder.TEMPORARY)]
    return f"there is {left[0]}" if left else ""


def audit(count: int, seed: int) -> dict[str, Any]:
    """Each trouble so often; the record of it."""
    seen = Seen()
    for name in TROUBLES:
        for _ in range(count):
            with tempfile.TemporaryDirectory() as folder:
                wrong = problem(name, Path(folder).resolve())
            seen.count(f"times: {name}")
            seen.right(not wrong, f"{name}: {wrong}")
    checks = {"kinds of trouble": len(TROUBLES), "programs compiled": len(TROUBLES) * count * PROGRAMS, **seen.checks}
    return record("folders", CLAIM, checks, seen.failures, seed=seed)


AUDIT = Audit(
    "folders",
    audit,
    5,
    "compile where the folder of the cache cannot be used",
    """\
The disk is full, read-only or fails; a rename fails, as it does on network file systems; there are no descriptors,
no permission, no home, no such user, no working directory; the folder is a file, a symbolic link, or open to
others. Under each of them three programs compile: they must be right, there must be one warning that says what is
wrong, and no file may be left. There is no compiler outside of the process that could be missing or hang.""",
)
