"""Planted faults: each breaks one rule in a copy of the source; tests and verification must notice."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import cache_from_source
from pathlib import Path
from typing import NamedTuple

SOURCES = ("src", "tools")
"""The folders of a checkout that a copy has."""


class Mutant(NamedTuple):
    """A planted fault: a file, the text to remove, its replacement, the name of the fault, and tests that should find
    it."""

    file: str
    old: str
    new: str
    name: str
    tests: tuple[str, ...] = ()


def read(file: Path) -> list[Mutant]:
    """The faults of a file: `@ path: name of the fault`, then lines to remove (-) and lines to insert (+).

    The path may be followed by the tests that should find the fault, where the tables of `tests/mutants.py` do not name
    them.
    """
    found = []
    for block in file.read_text(encoding="utf-8").split("\n@ ")[1:]:
        head, *lines = block.split("\n")
        places, _, name = head.partition(": ")
        where, *tests = places.split()
        old, new = ("\n".join(line[1:] for line in lines if line.startswith(mark)) for mark in "-+")
        found.append(Mutant(where, old, new, name, tuple(tests)))
    return found


def broken_file(mutant: Mutant, root: Path) -> Path:
    """The file that a mutant breaks, in a folder that has `src` and `tools`."""
    return root / mutant.file if mutant.file.startswith("tools/") else root / "src" / "wholestep" / mutant.file


def plant(mutant: Mutant | None, root: Path, copy: Path) -> None:
    """Copy the sources of a checkout, with one fault or none."""
    copy_sources(root, copy)
    if mutant is not None:
        file = broken_file(mutant, copy)
        write_source(file, file.read_text(encoding="utf-8").replace(mutant.old, mutant.new))


def copy_sources(root: Path, copy: Path) -> None:
    """Copy the sources of a checkout."""
    for source in SOURCES:
        shutil.copytree(root / source, copy / source, ignore=shutil.ignore_patterns("__pycache__"))


@contextmanager
def faulty(copy: Path, mutant: Mutant) -> Iterator[None]:
    """Plant a fault in a copy of the sources for as long as a block runs, so that one copy serves many."""
    file = broken_file(mutant, copy)
    whole = file.read_text(encoding="utf-8")
    write_source(file, whole.replace(mutant.old, mutant.new))
    try:
        yield
    finally:
        write_source(file, whole)


def write_source(file: Path, text: str) -> None:
    """Write a source file, and drop its compiled form, which could pass for that of the new text."""
    file.write_text(text, encoding="utf-8")
    Path(cache_from_source(str(file))).unlink(missing_ok=True)
