"""Samplers: the order of rows and their batches, functions of a key and the number of the epoch."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from wholestep.boundary.counts import whole_number
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.ir.graph import NDArray


@dataclass(frozen=True)
class Plan:
    """The batches of an epoch: batch i is the rows `order[ends[i - 1] : ends[i]]`, where batch 0 begins at 0."""

    order: NDArray
    ends: NDArray

    def __len__(self) -> int:
        return len(self.ends)

    def size(self, i: int) -> int:
        """The number of rows of batch i."""
        return int(self.ends[i] - (self.ends[i - 1] if i else 0))

    def rows(self, first: int, last: int | None = None) -> NDArray:
        """The rows of batch `first`, or of the batches from `first` up to `last`, exclusive."""
        return self.order[self.ends[first - 1] if first else 0 : self.ends[first if last is None else last - 1]]

    def shared(self, rank: int, size: int) -> Plan:
        """The batches of one of `size` processes: its equal part of each; raises ShapeError where there is none."""
        sizes = np.diff(self.ends, prepend=0)
        if (sizes % size).any():
            raise ShapeError(
                f"loader: {size} processes cannot share a batch of {sizes[sizes % size > 0][0]} rows equally",
                hint="drop_last=True leaves out the last batch of an epoch where it is smaller",
            )
        place = np.arange(self.ends[-1]) - np.repeat(self.ends - sizes, sizes)
        own = place // np.repeat(sizes // size, sizes) == rank
        return Plan(self.order[: self.ends[-1]][own], self.ends // size)


class Sampler(Protocol):
    """A rule that draws the batches of an epoch."""

    def plan(self, words: RandomWords, size: int, drop_last: bool) -> Plan:
        """The batches, of `size` rows each, where the last may be smaller; a function of the random words alone."""

    def __str__(self) -> str:
        """A description of the options on which the batches depend."""


class RandomWords:
    """Random 64-bit words: Philox 4x64-10 with key and epoch as its key, and the stream in the counter's last word.

    The words, unlike the distributions of numpy.random, are the same in every version of NumPy.
    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011.
    """

    def __init__(self, key: int, epoch: int, stream: int = 0) -> None:
        self.bits = np.random.Philox(
            counter=np.array([0, 0, 0, stream], np.uint64), key=np.array([key, epoch], np.uint64)
        )

    def draw(self, n: int) -> NDArray:
        """The next n words, u64[n]."""
        return np.asarray(self.bits.random_raw(n), np.uint64)

    def key(self) -> NDArray:
        """A key for wholestep.random, u32[2]."""
        (word,) = self.draw(1).tolist()
        return np.array([word & 0xFFFFFFFF, word >> 32], np.uint32)

    def permutation(self, n: int) -> NDArray:
        """The numbers below n in the order of n words, i64[n]."""
        return np.argsort(self.draw(n), kind="stable")

    def uniform(self, n: int) -> NDArray:
        """Numbers f64[n] in (0, 1]."""
        uniform: NDArray = ((self.draw(n) >> np.uint64(11)) + np.uint64(1)) * 2.0**-53
        return uniform


@dataclass(frozen=True)
class Rows:
    """Every row once, shuffled or in order."""

    count: int
    shuffle: bool

    def plan(self, words: RandomWords, size: int, drop_last: bool) -> Plan:
        order = words.permutation(self.count) if self.shuffle else np.arange(self.count)
        return cut_batches(order, size, drop_last)

    def __str__(self) -> str:
        return "shuffled" if self.shuffle else "in order"


class Weighted:
    """A sampler of `draws` rows an epoch, each with a probability in proportion to its weight.

    Without replacement no row comes twice in an epoch: the rows with the smallest -log(u) / w are taken, in that order.
    The default of `draws` is the number of rows, or without replacement that of rows with a weight above zero.
    Source: Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006.
    Raises ParameterError for weights that are negative, not finite or all zero, and where there are too few rows.

    >>> len(Weighted([1.0, 0.0, 3.0], draws=8).plan(RandomWords(0, 0), 4, False).rows(0))
    4
    """

    def __init__(self, weights: Any, draws: int | None = None, replacement: bool = True) -> None:
        w = np.asarray(weights)
        if w.dtype.kind not in "iuf" or w.ndim != 1:
            raise ShapeError(f"weighted: weights are {w.dtype}{list(w.shape)}, not one number for each row")
        self.weights = w.astype(np.float64)
        if not np.all(np.isfinite(self.weights)) or np.any(self.weights < 0) or not np.any(self.weights > 0):
            raise ParameterError("weighted: weights are finite, none is negative, and one is more than zero")
        self.draws = len(w) if draws is None else whole_number("draws", draws, "weighted")
        self.replacement = replacement
        able = int(np.count_nonzero(self.weights))
        if not replacement and draws is None:
            self.draws = able
        if not replacement and self.draws > able:
            raise ParameterError(
                f"weighted: {self.draws} draws without replacement, and {able} rows have a weight above zero",
                hint="draws=None takes each of them once",
            )

    def plan(self, words: RandomWords, size: int, drop_last: bool) -> Plan:
        if self.replacement:
            sums = np.cumsum(self.weights)
            spot = words.uniform(self.draws) * sums[-1]
            # The first row whose sum reaches the spot has a weight above zero, since the spot is above zero.
            order = np.searchsorted(sums, spot, side="left")
        else:
            with np.errstate(divide="ignore"):
                waits = -np.log(words.uniform(len(self.weights))) / self.weights
            waits[self.weights == 0] = np.inf
            order = np.argsort(waits, kind="stable")[: self.draws]
        return cut_batches(order, size, drop_last)

    def __str__(self) -> str:
        how = "with" if self.replacement else "without"
        return f"{self.draws} draws {how} replacement by weights {short_digest(self.weights)}"


class Buckets:
    """Batches of rows of about one length: those up to the first bound, then up to the second, and so on.

    Rows are shuffled inside their bucket and the batches of all buckets among each other. The last batch of each bucket
    may be smaller; `drop_last` leaves it out. Raises ParameterError for bounds that do not rise and for a row that is
    longer than the last.

    >>> plan = Buckets([3, 9, 2, 8], (4, 10), shuffle=False).plan(RandomWords(0, 0), 2, False)
    >>> [plan.rows(i).tolist() for i in range(len(plan))]
    [[0, 2], [1, 3]]
    """

    def __init__(self, lengths: Any, bounds: Sequence[int], shuffle: bool = True) -> None:
        self.lengths, self.bounds = np.asarray(lengths), np.asarray(bounds)
        self.shuffle = shuffle
        for name, x in (("lengths", self.lengths), ("bounds", self.bounds)):
            if x.dtype.kind not in "iu" or x.ndim != 1 or not x.size:
                raise ParameterError(f"buckets: {name} are {x.dtype}{list(x.shape)}, not a list of integers")
        if np.any(np.diff(self.bounds) <= 0):
            raise ParameterError(f"buckets: the bounds {self.bounds.tolist()} do not rise")
        at = int(np.argmax(self.lengths))
        if self.lengths[at] > self.bounds[-1]:
            raise ParameterError(
                f"buckets: row {at} has length {self.lengths[at]}, more than the last bound {self.bounds[-1]}",
                hint="add a bound, or cut the row",
            )

    def plan(self, words: RandomWords, size: int, drop_last: bool) -> Plan:
        order = words.permutation(len(self.lengths)) if self.shuffle else np.arange(len(self.lengths))
        place = np.searchsorted(self.bounds, self.lengths[order], side="left")
        parts: list[NDArray] = []
        for i in range(len(self.bounds)):
            plan = cut_batches(order[place == i], size, drop_last)
            parts += [plan.rows(j) for j in range(len(plan))]
        if self.shuffle:
            parts = [parts[i] for i in words.permutation(len(parts))]
        ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        return Plan(np.concatenate(parts) if parts else np.zeros(0, np.int64), ends)

    def __str__(self) -> str:
        bounds = ", ".join(map(str, self.bounds.tolist()))
        how = "shuffled" if self.shuffle else "in order"
        return f"{how} in buckets up to {bounds} by lengths {short_digest(self.lengths.astype(np.int64))}"


class Drawn:
    """The sampler of a user's function: `f(rng)` gives the row numbers of an epoch.

    `rng` is a numpy.random.Generator that is a function of key and epoch. The number of rows may be any, and may
    differ from epoch to epoch. Raises DtypeError where `f` returns no list of integers, ParameterError for a row
    number out of range.
    """

    def __init__(self, f: Callable[[np.random.Generator], Any], count: int) -> None:
        self.f, self.count = f, count
        self.name = str(getattr(f, "__name__", type(f).__name__))

    def plan(self, words: RandomWords, size: int, drop_last: bool) -> Plan:
        order = np.asarray(self.f(np.random.Generator(words.bits)))
        if order.dtype.kind not in "iu" or order.ndim != 1:
            raise DtypeError(f"loader: the sampler {self.name} gave {order.dtype}{list(order.shape)}, not row numbers")
        outside = order[(order < 0) | (order >= self.count)]
        if outside.size:
            raise ParameterError(f"loader: the sampler {self.name} drew row {outside[0]} of {self.count}")
        return cut_batches(order.astype(np.int64), size, drop_last)

    def __str__(self) -> str:
        return f"drawn by {self.name}"


def shuffle_buffered(items: Iterator[Any], size: int, words: RandomWords) -> Iterator[Any]:
    """Items shuffled in a buffer of `size` items."""
    waiting: list[Any] = []
    for item in items:
        if len(waiting) < size:
            waiting.append(item)
            continue
        at = int(words.draw(1)[0]) % size
        yield waiting[at]
        waiting[at] = item
    for i in words.permutation(len(waiting)):
        yield waiting[i]


def cut_batches(order: NDArray, size: int, drop_last: bool) -> Plan:
    """Consecutive batches of `size` rows; the last may be smaller."""
    whole = len(order) // size
    ends = np.arange(1, whole + 1, dtype=np.int64) * size
    if len(order) % size and not drop_last:
        ends = np.append(ends, len(order))
    return Plan(order, ends)


def short_digest(x: NDArray) -> str:
    """An eight-character digest of an array."""
    return f"{zlib.crc32(np.ascontiguousarray(x).tobytes()):08x}"
