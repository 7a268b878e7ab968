"""Sources of rows: arrays, objects with items, files; each gives requested rows as a batch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from wholestep import tree
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError
from wholestep.frontend import outside
from wholestep.frontend.promotion import refuse_subclass
from wholestep.ir.graph import NDArray
from wholestep.train.data.file_errors import open_arrays
from wholestep.words import first_few, type_in_words

Collate = Callable[[list[Any]], Any]
"""The type of a function that makes a batch of a list of items."""

NUMERIC = "biufcV"
"""Kinds of dtypes that a batch may hold; V is NumPy's kind of bfloat16 and similar dtypes."""


class Source(Protocol):
    """The interface of data whose rows are read by number."""

    def __len__(self) -> int: ...

    def item(self, i: int) -> Any:
        """One row."""

    def listed(self, which: list[int]) -> list[Any]:
        """A list of these rows."""

    def rows(self, which: NDArray) -> Any:
        """A copy of these rows as a batch."""

    def __str__(self) -> str:
        """A description of the rows, by which `Loader.restore` detects other data."""


class Arrays:
    """A tree of arrays with rows along their first axis; memory-mapped arrays are read row by row on request.

    `name` is the name of the data in errors.

    Raises DtypeError for a leaf that is no array, ShapeError where arrays differ in rows or there is none.
    """

    def __init__(self, data: Any, name: str = "data") -> None:
        leaves, self.structure = tree.flatten(data)
        self.name, self.paths = name, tree.paths(data, "data")
        paths = tree.paths(data, name)
        if not leaves:
            raise TreeError(f"loader: {name} holds no arrays")
        for x, path in zip(leaves, paths, strict=True):
            if not isinstance(x, np.ndarray):
                raise DtypeError(
                    f"loader: {path} is {type_in_words(x)}, not an array",
                    hint="convert it with np.asarray; samples that are trees go into a list",
                )
            refuse_subclass(numeric_array(x, path))
            if x.ndim == 0:
                raise ShapeError(f"loader: {path} is {typename(x)}, which has no axis of rows")
            if len(x) != len(leaves[0]):
                raise ShapeError(f"loader: {paths[0]} is {typename(leaves[0])} and {path} {typename(x)}: rows differ")
        self.mapped = any(isinstance(x, np.memmap) for x in leaves)
        self.row_bytes = sum(x.nbytes for x in leaves) // max(len(leaves[0]), 1)
        # A view of the plain class, so that batches of mapped files are plain arrays too.
        self.arrays = [x.view(np.ndarray) for x in leaves]

    def __len__(self) -> int:
        return len(self.arrays[0])

    def item(self, i: int) -> Any:
        return tree.unflatten(self.structure, [x[i] for x in self.arrays])

    def listed(self, which: list[int]) -> list[Any]:
        return [self.item(i) for i in which]

    def rows(self, which: NDArray) -> Any:
        return tree.unflatten(self.structure, [x.take(which, axis=0) for x in self.arrays])

    def __str__(self) -> str:
        return f"{len(self)} rows of {', '.join(map(row_of, self.paths, self.arrays))}"


class Items:
    """An object with `__len__` and `__getitem__`, such as a list of samples; `collate` makes batches of its items.

    The method `__getitems__`, which data sets of other libraries may have, is called with all rows of a batch at once.
    """

    def __init__(self, data: Any, collate: Collate) -> None:
        self.data, self.collate = data, collate

    def __len__(self) -> int:
        return len(self.data)

    def item(self, i: int) -> Any:
        return self.data[i]

    def listed(self, which: list[int]) -> list[Any]:
        get = getattr(self.data, "__getitems__", None)
        return [self.data[i] for i in which] if get is None else list(get(which))

    def rows(self, which: NDArray) -> Any:
        return self.collate(self.listed(which.tolist()))

    def __str__(self) -> str:
        return f"{len(self)} items of {type_in_words(self.data)}"


class Stream:
    """Items of an iterable, or of the iterator that a function makes.

    A function, and an object whose every `iter` begins anew, can be read again each epoch; an iterator only once.
    """

    def __init__(self, data: Any, collate: Collate) -> None:
        self.data, self.collate = data, collate
        self.once = not callable(data) and iter(data) is data
        self.begun = False
        self.name = str(getattr(data, "__name__", type(data).__name__))

    def begin(self) -> Iterator[Any]:
        """An iterator at the first item; raises ParameterError where an iterator cannot be restarted."""
        if self.once and self.begun:
            raise ParameterError(
                f"loader: the {self.name} was begun already, and an iterator can be read once",
                hint="give a function that makes it, or an object whose iter() begins anew",
            )
        self.begun = True
        return iter(self.data() if callable(self.data) else self.data)

    def __str__(self) -> str:
        return f"items of the {'iterator' if self.once else 'iterable'} {self.name}"


def source_of(data: Any, collate: Collate | None) -> Source | Stream:
    """The source for a loader's data, by its type and methods; raises DtypeError for data of no accepted kind."""
    if isinstance(data, str | os.PathLike):
        return Arrays(open_arrays(Path(data)), Path(data).name)
    if isinstance(data, np.ndarray) or outside.foreign(data) or (not isinstance(data, list) and not is_leaf(data)):
        if collate is not None:
            raise ParameterError(
                "loader: collate= makes batches of items, and this data is a tree of arrays",
                hint="transform= is given the batch",
            )
        return Arrays(outside.taken_over(data, "data", "loader"))
    collate = stack_items if collate is None else collate
    if hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return Items(data, collate)
    if isinstance(data, Iterable) or callable(data):
        return Stream(data, collate)
    raise DtypeError(
        f"loader: data is {type_in_words(data)}",
        hint="give a tree of arrays, a path, an iterable, or an object with __len__ and __getitem__",
    )


def is_leaf(data: Any) -> bool:
    """True if a tree is one leaf."""
    found = tree.leaves(data)
    return len(found) == 1 and found[0] is data


def stack_items(items: list[Any]) -> Any:
    """Items of one structure as a batch, with a new first axis; Python's numbers become NumPy's, and tensors arrays.

    A list of numbers in an item is an array, and a tuple or a dictionary a container.

    Raises TreeError, ShapeError or DtypeError where items differ or hold a value that is no number.

    >>> stack_items([(1.0, 2), (3.0, 4)])
    (array([1., 3.]), array([2, 4]))
    """
    items = [outside.taken_over(item, "item", "loader") for item in items]
    structure = tree.structure(items[0])
    for i, item in enumerate(items):
        if tree.structure(item) != structure:
            own, first = [first_few(tree.paths(x, "item"), 8) or "nothing" for x in (item, items[0])]
            if own == first:
                own, first = f"a {tree.structure(item)}", f"a {structure}"
            raise TreeError(f"loader: item {i} of a batch holds {own}, and item 0 holds {first}")
    paths = tree.paths(items[0], "item")
    columns = zip(*[tree.leaves(item) for item in items], strict=True)
    return tree.unflatten(structure, [stack_leaf(column, path) for column, path in zip(columns, paths, strict=True)])


def stack_leaf(column: Sequence[Any], path: str) -> NDArray:
    """The same leaf of several items as one array."""
    for x in column:
        refuse_subclass(x)
    arrays = [np.asarray(x) for x in column]
    first = numeric_array(arrays[0], path)
    for i, x in enumerate(arrays):
        if x.shape != first.shape:
            raise ShapeError(
                f"loader: {path} is {typename(first)} in item 0 of a batch and {typename(x)} in item {i}",
                hint="collate=padded(lengths) fills up rows of different lengths",
            )
        if x.dtype != first.dtype:
            raise DtypeError(f"loader: {path} is {typename(first)} in item 0 of a batch and {typename(x)} in item {i}")
    return np.stack(arrays)


def padded(lengths: Sequence[int], value: float = 0) -> Collate:
    """A `collate` that pads the first axis of every array with `value`, to the first of `lengths` that fits all rows.

    Few lengths make few shapes; each shape has a program. Raises ShapeError for a row longer than the last length.

    >>> import numpy as np
    >>> padded((2, 4))([np.array([1, 2, 3]), np.array([4])])
    array([[1, 2, 3, 0],
           [4, 0, 0, 0]])
    """

    def collate(items: list[Any]) -> Any:
        longest = max((len(x) for item in items for x in tree.leaves(item) if np.ndim(x)), default=0)
        room = next((n for n in lengths if n >= longest), None)
        if room is None:
            raise ShapeError(f"padded: a row of length {longest} is longer than the last of {list(lengths)}")

        def fill(x: Any) -> Any:
            return np.pad(x, [(0, room - len(x))] + [(0, 0)] * (np.ndim(x) - 1), constant_values=value)

        return stack_items([tree.map(lambda x: fill(x) if np.ndim(x) else x, item) for item in items])

    return collate


def numeric_array(x: NDArray, path: str) -> NDArray:
    """The array; raises DtypeError where it holds text or objects."""
    outside.numeric(x, path, "loader")
    if x.dtype.kind not in NUMERIC or x.dtype.names is not None:
        raise DtypeError(f"loader: {path} is {typename(x)}, which holds no numbers")
    return x


def typename(x: Any) -> str:
    """dtype[shape]."""
    return f"{np.asarray(x).dtype}{list(np.shape(x))}"


def row_of(path: str, x: NDArray) -> str:
    """The description of a row: its path and its type."""
    return f"{path.removeprefix('data').removeprefix('.') or 'data'}: {x.dtype}{list(x.shape[1:])}"
