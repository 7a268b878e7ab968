"""Data sets made of other data sets: the parts of a random split, and a concatenation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.boundary.counts import is_integer
from wholestep.boundary.public import bounded
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError
from wholestep.ir.graph import NDArray
from wholestep.train.data.loader import seed_of
from wholestep.train.data.sampling import RandomWords
from wholestep.train.data.sources import Arrays, Items, Source, Stream, row_of, source_of
from wholestep.tree import Tree

SPLITTING = 1 << 63
"""An epoch number that no loader reaches, so that the split and the orders drawn from one key are independent."""


def random_split(data: Any, lengths: Sequence[float], *, key: Any = 0) -> list[Tree]:
    """The rows of a data set in several parts, shuffled by `key`: `train, test = ws.random_split(data, [0.8, 0.2])`.

    `lengths` are numbers of rows, which add up to all, or fractions, which add up to 1: each part then has its fraction
    rounded down, and the remaining rows go to the first parts, one each. `data` is any data that `ws.Loader` takes,
    except iterables and iterators. Arrays in memory are copied, as a tree of the same structure for each part; a part
    of an object with items, or of a file, is itself an object with items, which reads each item when it is requested.
    The split is a function of `key`, a seed or a key, and of the number of rows.

    Shapes: arrays [rows, ...] of any dtype; for each part the same with fewer rows.
    Raises: ParameterError for lengths that do not add up, and for data without a number of rows; else as `ws.Loader`
    does.
    Source: `torch.utils.data.random_split`.

    >>> import numpy as np, wholestep as ws
    >>> train, test = ws.random_split({"x": np.arange(10.0), "y": np.arange(10)}, [0.7, 0.3], key=0)
    >>> len(train["x"]), len(test["x"]), sorted([*train["y"].tolist(), *test["y"].tolist()]) == list(range(10))
    (7, 3, True)
    """
    source = countable(data, "random_split")
    sizes = counted_rows(lengths, len(source))
    order = RandomWords(seed_of(key), SPLITTING).permutation(len(source))
    parts = np.split(order, np.cumsum(sizes)[:-1])
    if isinstance(source, Arrays) and not source.mapped:
        return [source.rows(part) for part in parts]
    return [RowsOf(source, part) for part in parts]


def concat_rows(parts: Sequence[Any]) -> Tree:
    """The rows of several data sets one after another, as one data set: `ws.concat_rows([first, second])`.

    Each of `parts` is data that `ws.Loader` takes, except iterables and iterators. Arrays in memory become a tree of
    arrays with all rows; where one of the parts is an object with items or a file, the result is an object with items,
    which reads a row from the part that holds it.

    Shapes: arrays [rows, ...] of any dtype, alike but for the rows; the same with all rows.
    Raises: ParameterError for no data set and for one without a number of rows, TreeError, ShapeError or DtypeError
    where arrays differ in structure, in the shape of a row or in dtype; else as `ws.Loader` does.
    Source: `torch.utils.data.ConcatDataset`.

    >>> import numpy as np, wholestep as ws
    >>> ws.concat_rows([{"x": np.zeros((2, 3))}, {"x": np.ones((1, 3))}])["x"][:, 0].tolist()
    [0.0, 0.0, 1.0]
    >>> both = ws.concat_rows([["a", "b"], np.arange(3)])
    >>> len(both), both[1], int(both[-1])
    (5, 'b', 2)
    """
    sources = [countable(data, "concat_rows") for data in parts]
    if not sources:
        raise ParameterError("concat_rows: no data was given")
    held = [source for source in sources if isinstance(source, Arrays) and not source.mapped]
    if len(held) < len(sources):
        return Concatenated(sources)
    first = held[0]
    for i, source in enumerate(held):
        refuse_other_rows(first, source, i)
    return tree.unflatten(first.structure, [np.concatenate(x) for x in zip(*[s.arrays for s in held], strict=True)])


@bounded
class RowsOf:
    """Some rows of a source, by their numbers there, as an object with items."""

    def __init__(self, source: Source, which: NDArray) -> None:
        self.source, self.which = source, which

    def __len__(self) -> int:
        return len(self.which)

    def __getitem__(self, i: int) -> Any:
        return self.source.item(int(self.which[i]))

    def __getitems__(self, rows: list[int]) -> list[Any]:
        return self.source.listed(self.which[rows].tolist())

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {self.source}>"


@bounded
class Concatenated:
    """Several sources one after another, as an object with items."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.sources = list(sources)
        self.ends = np.cumsum([len(source) for source in sources])

    def __len__(self) -> int:
        return int(self.ends[-1])

    def __getitem__(self, i: int) -> Any:
        count = len(self)
        if not -count <= i < count:
            raise IndexError(f"concat_rows: row {i} of {count}")
        row = i % count
        at = int(np.searchsorted(self.ends, row, side="right"))
        return self.sources[at].item(row - self.begin(at))

    def __getitems__(self, rows: list[int]) -> list[Any]:
        """The items of these rows, each source read once."""
        numbers = np.asarray(rows, np.int64)
        at = np.searchsorted(self.ends, numbers, side="right")
        found: list[Any] = [None] * len(rows)
        for i in np.unique(at).tolist():
            places = np.flatnonzero(at == i).tolist()
            items = self.sources[i].listed((numbers[places] - self.begin(i)).tolist())
            for place, item in zip(places, items, strict=True):
                found[place] = item
        return found

    def begin(self, at: int) -> int:
        """The number of the first row of a source."""
        return int(self.ends[at - 1]) if at else 0

    def __repr__(self) -> str:
        return f"<{' and '.join(map(str, self.sources))}>"


def countable(data: Any, what: str) -> Source:
    """The source of data that knows its number of rows; raises ParameterError for items one after the other."""
    source = data if isinstance(data, Arrays | Items) else source_of(data, None)
    if isinstance(source, Stream):
        raise ParameterError(
            f"{what}: {source} come one after the other, and cannot be asked for by number",
            hint="make a list of them, if they fit into memory",
        )
    return source


def counted_rows(lengths: Sequence[float], count: int) -> list[int]:
    """The rows of each part; raises ParameterError for lengths that do not add up to all of them."""
    given = list(lengths)
    if given and all(is_integer(n) and n >= 0 for n in given) and sum(given) == count:
        return [int(n) for n in given]
    if given and all(isinstance(n, float | np.floating) and n >= 0 for n in given) and math.isclose(sum(given), 1):
        # A product such as 0.29 * 100 is a rounding error below the intended integer.
        sizes = [math.floor(round(float(n) * count, 9)) for n in given]
        for i in range(count - sum(sizes)):
            sizes[i % len(sizes)] += 1
        return sizes
    raise ParameterError(
        f"random_split: lengths are {given}, and there are {count} rows",
        hint="integers that add up to the rows, or floats that add up to 1",
    )


def refuse_other_rows(first: Arrays, other: Arrays, i: int) -> None:
    """Raise where the rows of data set `i` are of another type than those of the first."""
    if other.structure != first.structure:
        raise TreeError(f"concat_rows: data set {i} is a {other.structure}, and data set 0 a {first.structure}")
    for path, x, y in zip(first.paths, first.arrays, other.arrays, strict=True):
        if x.shape[1:] != y.shape[1:] or x.dtype != y.dtype:
            kind = ShapeError if x.shape[1:] != y.shape[1:] else DtypeError
            raise kind(
                f"concat_rows: a row of data set 0 is {row_of(path, x)}, and one of data set {i} {row_of(path, y)}"
            )
