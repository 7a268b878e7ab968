"""Text that is on every machine: the source of Python's own standard library, as numbers from 0 to 95."""

from __future__ import annotations

import sysconfig
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wholestep.errors import ParameterError
from wholestep.ir.graph import NDArray

CHARACTERS = "\n" + "".join(map(chr, range(32, 127)))
"""The vocabulary, in which a character's index is its token; a tab is read as spaces, other characters as "?"."""

LEFT_OUT = {"test", "tests", "idle_test", "encodings", "pydoc_data", "lib2to3", "site-packages", "dist-packages"}
"""Folders that are not read: tests are not always installed, and repetitive tables would make the task easy."""

ONE_IN = 16
"""One of this many files is held out."""

LARGEST = 1 << 24
"""The most characters that are read."""

_NUMBERS = np.full(256, CHARACTERS.index("?"), np.uint8)
_NUMBERS[[ord(c) for c in CHARACTERS]] = np.arange(len(CHARACTERS))


class Corpus(NamedTuple):
    """Characters u8[n] to train on, those of other files to test on, and the numbers of files of both."""

    train: NDArray
    test: NDArray
    files: tuple[int, int]


def encode(text: str) -> NDArray:
    """A text as numbers, u8[n].

    >>> encode("a = 1").tolist()
    [66, 1, 30, 1, 18]
    """
    return _NUMBERS[np.frombuffer(text.expandtabs().encode("ascii", "replace"), np.uint8)]


def decode(numbers: NDArray) -> str:
    """The text of numbers, as the inverse of `encode`.

    >>> decode(encode("def f():\\n\\treturn 1"))
    'def f():\\n        return 1'
    """
    return "".join(CHARACTERS[i] for i in np.asarray(numbers).reshape(-1))


def corpus_files(root: Path) -> Iterator[tuple[str, Path]]:
    """(name, path) of the modules under a folder, in the order of their names, which is the same everywhere."""
    found = [(path.relative_to(root), path) for path in root.rglob("*.py")]
    for name, path in sorted(found, key=lambda pair: pair[0].as_posix()):
        folders = name.parts[:-1]
        of_this_machine = name.name.startswith("_sysconfigdata") or any(f.startswith("config-") for f in folders)
        if not of_this_machine and LEFT_OUT.isdisjoint(folders):
            yield name.as_posix(), path


def held_out(name: str) -> bool:
    """True for a file of the test split: a function of its name alone, so that it is the same on every machine."""
    return zlib.crc32(name.encode()) % ONE_IN == 0


def corpus(root: Path | None = None) -> Corpus:
    """The source of the running Python's standard library, about ten million characters, split by file.

    A file's name alone decides if it is held out; the contents depend on Python's version. `root` is another folder of
    Python files. Raises ParameterError for a folder that has no two files to split.

    >>> text = corpus()
    >>> text.train.dtype, len(text.train) > 10 * len(text.test) > 1_000_000
    (dtype('uint8'), True)
    """
    folder = Path(sysconfig.get_paths()["stdlib"]) if root is None else root
    parts: tuple[list[NDArray], list[NDArray]] = ([], [])
    room = LARGEST
    for name, path in corpus_files(folder):
        text = encode(path.read_text(encoding="utf-8", errors="replace"))[:room]
        parts[held_out(name)].append(text)
        room -= len(text)
        if not room:
            break
    if not all(parts):
        raise ParameterError(
            f"corpus: no Python source to train and to test on in {folder}",
            hint="install Python with its standard library as files, or give another folder",
        )
    train, test = [np.concatenate(part) for part in parts]
    return Corpus(train, test, (len(parts[0]), len(parts[1])))


def text_windows(text: NDArray, length: int) -> NDArray:
    """A text cut into pieces of `length` characters and the one that follows, u8[n, length + 1]; the rest is left out.

    Every piece begins with the last character of the one before, so that each character but the first is predicted
    once. Raises ParameterError for a text that is too short.

    >>> text_windows(np.arange(8, dtype=np.uint8), 3).tolist()
    [[0, 1, 2, 3], [3, 4, 5, 6]]
    """
    count = (len(text) - 1) // length
    if count < 1:
        raise ParameterError(f"windows: a text of {len(text)} characters holds no piece of {length} and the next one")
    return np.lib.stride_tricks.sliding_window_view(text, length + 1)[::length][:count]
