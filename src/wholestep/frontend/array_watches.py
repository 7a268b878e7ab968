"""Arrays that functions read by name, and a cheap look at each call whether one has changed since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.contents import same_bits
from wholestep.errors import Where
from wholestep.frontend.closure_reads import closure_values, family, items
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray

WHOLE_BYTES = 16384
"""Bytes up to which an array is compared whole at each call."""

WINDOW_BYTES = 4096
"""Bytes of a larger array that are compared at each call, a new stretch each time."""

COPIED_BYTES = 1 << 26
"""Bytes up to which an array that is only named, and no constant of the program, is copied to be compared with."""

SAMPLES = 64
"""Elements of a larger array, evenly spread, that are compared at each call besides."""


class ArrayWatch:
    """A watch of one array: a small one is compared whole, a large one in a sample and a moving window.

    A change of one element of a large array is found after size / WINDOW calls at the latest, and a change of most
    elements at once. `whole` compares everything. Large arrays that do not lie row by row are always compared whole.
    """

    __slots__ = ("array", "at", "flat", "sample", "seen", "seen_flat", "seen_sample", "then", "where")

    def __init__(self, array: NDArray, then: NDArray, where: Where) -> None:
        # The constant of a program is in the machine's byte order; here the bytes are compared.
        then = then.astype(array.dtype, copy=False)
        self.array, self.then, self.where = array, then, where
        self.at = 0
        self.flat: Any = None
        self.seen = b""
        if then.nbytes > WHOLE_BYTES and array.flags.c_contiguous:
            self.flat, self.seen_flat = [x.reshape(-1).view("u1") for x in (array, then)]
            step = then.size // SAMPLES
            self.sample, seen = [x.reshape(-1)[::step] for x in (array, then)]
            self.seen_sample = seen.tobytes()
        elif then.nbytes <= WHOLE_BYTES:
            self.seen = then.tobytes()

    def same(self) -> bool:
        """True if the part that is sampled is unchanged."""
        if self.flat is None:
            if self.then.nbytes > WHOLE_BYTES:
                return self.whole()
            return bool(self.array.tobytes() == self.seen and self.array.shape == self.then.shape)
        start, stop = self.at, self.at + WINDOW_BYTES
        self.at = stop if stop < self.flat.size else 0
        if self.sample.tobytes() != self.seen_sample:
            return False
        return bool(self.flat[start:stop].tobytes() == self.seen_flat[start:stop].tobytes())

    def whole(self) -> bool:
        """True if every element is unchanged."""
        return same_bits(self.array, self.then)

    def __str__(self) -> str:
        return str(type_of(self.array))


def watch_named(functions: Iterable[Any], others: set[int]) -> list[ArrayWatch]:
    """A watch of each array that these functions read by name, except the immutable, the large and those in `others`.

    NumPy may have turned an array into a number before the program saw it, so that the captured arrays are not all.
    """
    found: dict[int, ArrayWatch] = {}
    for array, where in [pair for f in functions for pair in arrays_read_by_name(f)]:
        if (
            id(array) not in others
            and id(array) not in found
            and not is_immutable(array)
            and array.nbytes <= COPIED_BYTES
        ):
            found[id(array)] = ArrayWatch(array, np.array(array, order="C", copy=True), where)
    return list(found.values())


def is_immutable(array: NDArray) -> bool:
    """True if an array cannot be written, and views nothing that could be."""
    return not array.flags.writeable and array.base is None


def arrays_read_by_name(f: Any) -> Iterator[tuple[NDArray, Where]]:
    """The arrays that a function, and the user's functions that it names, can read by name; with where it begins.

    Those are in closures, globals and defaults, alone or in lists, tuples and dictionaries.
    """
    for g in family(f):
        for value in closure_values(g):
            for x in items(value):
                if type(x) is np.ndarray and dtypes.is_supported(x.dtype):
                    yield x, (g.__code__, 0)
