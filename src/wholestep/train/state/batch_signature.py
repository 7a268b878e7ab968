"""Batch signatures: the structure, shapes and dtypes that batches are checked for, with a fast path for plain trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy import ndarray

from wholestep import dtypes, tree
from wholestep.dims import Dim, Size, bind, names
from wholestep.errors import DtypeError, ShapeError, TreeError, here, show
from wholestep.frontend import outside
from wholestep.frontend.argument_kinds import number_kind
from wholestep.frontend.shapes import ShapeDtype
from wholestep.frontend.structures import first_difference
from wholestep.frontend.tracing import PLAIN, type_of
from wholestep.ir.graph import NDArray
from wholestep.ir.types import Type
from wholestep.words import first_few, type_in_words

MAX_PATHS = 6
"""The number of paths that a message lists."""

ARRAY_KINDS = (ndarray, np.generic, ShapeDtype)

DEEPEST = 8
"""The deepest nesting of containers that the fast reader reads."""

Reader: TypeAlias = Callable[[Any], tuple[Any, ...] | None]

READY = 0x101
"""NumPy's flags of an array that programs can read: C-contiguous and aligned."""


class LeafSignature(NamedTuple):
    """One array of a tree: its path, its type, and True if a plain Python number stands for it."""

    path: str
    type: Type
    number: bool


class BatchSignature:
    """The structure and types of a tree of arrays, and the check that another one has the same."""

    def __init__(self, example: Any, root: str, what: str) -> None:
        self.what = what
        self.root = root
        self.where = here()
        given, self.structure = tree.flatten(example)
        paths = tree.paths(example, root)
        leaves = [declared_type(x, path, what) for x, path in zip(given, paths, strict=True)]
        self.leaves = [LeafSignature(path, *leaf) for path, leaf in zip(paths, leaves, strict=True)]
        self.symbolic = any(isinstance(n, Dim) for leaf in self.leaves for n in leaf.type.shape)
        self.pick = leaf_reader(example)
        """The function that gives the unchecked leaves of a plain tree like the example, and None for another tree."""
        sizes = {n for leaf in self.leaves for n in leaf.type.shape if isinstance(n, Dim)}
        rows = [n for n in sizes if len(sizes) == 1 and str(n).isidentifier()]
        opened = [bool(rows) and list(leaf.type.shape[:1]) == rows for leaf in self.leaves]
        self.facts = [(x.type.dtype, x.type.shape[on:], on) for x, on in zip(self.leaves, opened, strict=True)]
        """The dtype, shape and flag of each leaf; the flag says that the shape lacks a first axis of symbolic rows."""

    def glance(self, given: Any) -> tuple[NDArray, ...] | None:
        """The arrays of a plain tree that fits by a fast check; None for a tree that needs `checked`.

        A batch without rows gives None too, since `checked` raises its error.
        """
        leaves, rows = self.pick(given), ()
        for x, (dtype, shape, opened) in zip(leaves or (), self.facts, strict=bool(leaves)):
            if type(x) is not ndarray or x.dtype is not dtype or not x.flags.carray:
                return None
            if opened:
                rows = rows or x.shape[:1]
                shape = (*rows, *shape)
            if x.shape != shape or (opened and not any(rows)):
                return None
        return leaves

    def arrays(self, given: Any) -> tuple[NDArray, ...]:
        """The arrays of `checked`, found by the fast check of `glance` where that is possible."""
        found = self.glance(given)
        return self.checked(given) if found is None else found

    def checked(self, given: Any) -> tuple[NDArray, ...]:
        """The arrays of a tree like the example, in order, each in row-major layout.

        Raises TreeError, ShapeError or DtypeError for a tree that is unlike the example.
        """
        return self.match_leaves(self.ordered(given))

    def ordered(self, given: Any) -> list[Any]:
        """The leaves of a tree of the example's structure, with foreign arrays converted to NumPy's.

        Raises TreeError for a tree of another structure.
        """
        leaves, structure = tree.flatten(given)
        if structure == self.structure and all([isinstance(x, PLAIN) for x in leaves]):
            return leaves
        given = match_containers(tree.unflatten(self.structure, self.leaves), given, self.root, self.what)
        leaves, structure = tree.flatten(given)
        if structure != self.structure:
            words, hint = self.difference(given)
            raise TreeError(words, hint=hint)
        return leaves

    def fitted_data(self, data: Any, what: str) -> Any:
        """Data, whose rows make such batches, with NumPy's arrays and the containers of the example.

        A data frame is a matrix where the example has one array. Parts that are unlike the example stay as they are.
        """
        leaves = [leaf._replace(path=leaf.path.replace(self.root, "data", 1)) for leaf in self.leaves]
        fitting = match_containers(tree.unflatten(self.structure, leaves), data, "data", what)
        return outside.taken_over(fitting, "data", what)

    def resized(self, leaves: Sequence[Any]) -> BatchSignature:
        """The signature of trees of this structure with leaves like these."""
        return BatchSignature(tree.unflatten(self.structure, leaves), self.root, self.what)

    def match_leaves(self, leaves: Sequence[Any]) -> tuple[NDArray, ...]:
        """These leaves as arrays; raises ShapeError or DtypeError where their types are not those of the example."""
        arrays = tuple([self.one(x, leaf) for x, leaf in zip(leaves, self.leaves, strict=True)])
        if self.symbolic:
            self.sizes(arrays)
        return arrays

    def sizes(self, arrays: Sequence[NDArray]) -> dict[str, Size]:
        """The values of the symbolic sizes for these arrays; raises ShapeError where two arrays disagree."""
        first: dict[str, tuple[int, str]] = {}
        for x, leaf in zip(arrays, self.leaves, strict=True):
            for pattern, n in zip(leaf.type.shape, x.shape, strict=True):
                if (name := str(pattern)) not in names(pattern):
                    continue
                known, path = first.setdefault(name, (n, leaf.path))
                if known != n:
                    raise ShapeError(
                        f"{self.what}: {name} is {known} in {path} and {n} in {leaf.path}", hint=self.asked()
                    )
        found: dict[str, Size] = {}
        for x, leaf in zip(arrays, self.leaves, strict=True):
            try:
                bind(leaf.type.shape, x.shape, found)
            except ValueError as error:
                raise ShapeError(f"{self.what}: {leaf.path}: {error}", hint=self.asked()) from None
        return found

    def asked(self) -> str:
        """The signature in words, with the user's line that defined it."""
        place = show(self.where)
        return f"it was compiled for {self}{f' at {place}' if place else ''}"

    def check_stacked(self, count: int) -> None:
        """Raise ShapeError for an array whose first axis does not have `count` batches."""
        for leaf in self.leaves:
            if leaf.type.shape[:1] != (count,):
                raise ShapeError(
                    f"compile: {leaf.path} is {leaf.type}, and {count} steps a call take {count} batches",
                    hint="stack them: the first axis of every array in the batch counts the steps",
                )

    def takes(self, other: BatchSignature) -> bool:
        """True if every tree that fits another signature fits this one too."""
        return self.structure == other.structure and all(
            own.type.dtype == leaf.type.dtype
            and own.number == leaf.number
            and matches_pattern(leaf.type.shape, own.type.shape)
            for own, leaf in zip(self.leaves, other.leaves, strict=True)
        )

    def one(self, x: Any, leaf: LeafSignature) -> NDArray:
        """One leaf as an array that a program can read."""
        if type(x) is ndarray and x.dtype is leaf.type.dtype and x.shape == leaf.type.shape:
            return as_contiguous(x)
        if leaf.number and type(x) is int and leaf.type.dtype.kind == "f":
            x = float(x)
        own = checked_type(x, leaf.path, self.what)
        if not matches_pattern(own.shape, leaf.type.shape):
            raise ShapeError(f"{self.what}: {leaf.path} is {own}, and it was compiled for {leaf.type}")
        if own.dtype != leaf.type.dtype:
            raise DtypeError(
                f"{self.what}: {leaf.path} is {own}, and it was compiled for {leaf.type}",
                hint=conversion(own.dtype, leaf.type.dtype),
            )
        return as_contiguous(np.asarray(x, leaf.type.dtype))

    def difference(self, given: Any) -> tuple[str, str]:
        """The difference of another tree's structure in words, and a hint."""
        wanted, found = [leaf.path for leaf in self.leaves], tree.paths(given, self.root)
        missing = [path for path in wanted if path not in found]
        unknown = [path for path in found if path not in wanted]
        parts = [f"no {first_few(missing, MAX_PATHS)}"] if missing else []
        parts += [f"{first_few(unknown, MAX_PATHS)} unexpected"] if unknown else []
        hint = f"it was compiled for {self}"
        if not parts:
            other = first_difference(tree.unflatten(self.structure, [0] * len(wanted)), given, self.root)
            parts, hint = [str(other or "other containers around its arrays")], (other and other.hint) or hint
        return f"{self.what}: {self.root} has another structure: {'; '.join(parts)}", hint

    def abstract(self) -> Any:
        """The tree with placeholder arrays, which take no memory, for tracing."""
        return tree.unflatten(self.structure, [placeholder(leaf) for leaf in self.leaves])

    def __str__(self) -> str:
        return ", ".join(f"{leaf.path}: {leaf.type}" for leaf in self.leaves) or "nothing"


def match_containers(pattern: Any, given: Any, path: str, what: str) -> Any:
    """Convert a tree to the pattern's: foreign arrays to NumPy's, and lists, tuples and tables to its containers.

    A list of numbers, a data frame and a tensor are arrays where the example had one. Other parts that are unlike the
    pattern stay as they are.
    """
    if isinstance(pattern, LeafSignature):
        return convert_leaf(pattern, given, what)
    columns = outside.columns_of(given, path, what) if type(pattern) is dict else None
    if columns is not None:
        if columns.keys() != pattern.keys():
            return columns
        return {key: match_containers(pattern[key], columns[key], tree.access(path, key), what) for key in pattern}
    sequence = type(pattern) in (list, tuple) and type(given) in (list, tuple)
    if sequence and len(pattern) == len(given):
        items = [
            match_containers(p, x, tree.access(path, i), what)
            for i, (p, x) in enumerate(zip(pattern, given, strict=True))
        ]
        return type(pattern)(items)
    return given


def convert_leaf(leaf: LeafSignature, given: Any, what: str) -> Any:
    """Convert an object that was given in the place of an array to an array where that is possible."""
    if isinstance(given, list | tuple):
        for text in filter(outside.textual, outside.flat(given)):
            outside.numeric(text, leaf.path, what)
        held = leaf.type.ndim and outside.held(given)
        return outside.numbers(given, leaf.type.dtype, leaf.path, what) if held else given
    if isinstance(given, Mapping):
        return given
    return outside.array(given, leaf.path, what) if outside.foreign(given) else outside.numeric(given, leaf.path, what)


def matches_pattern(shape: Sequence[Size], pattern: Sequence[Size]) -> bool:
    """True if a shape is the pattern, symbolic sizes being any number."""
    return len(shape) == len(pattern) and all(n == m or isinstance(m, Dim) for n, m in zip(shape, pattern, strict=True))


def leaf_reader(example: Any) -> Reader:
    """A function that reads the leaves of plain tuples, lists and dictionaries of arrays, nested as in the example; it
    returns None for every other tree."""
    return nested_reader(example, DEEPEST) or (lambda given: None)


def nested_reader(example: Any, depth: int) -> Reader | None:
    """The reader of a tree whose containers are nested at most `depth` deep; None for a tree that is not plain."""
    if isinstance(example, ARRAY_KINDS):
        return lambda given: (given,)
    kind, get = type(example), child_getter(example)
    children = get(example) if get is not None and depth else ()
    inner = {i: nested_reader(x, depth - 1) for i, x in enumerate(children) if not isinstance(x, ARRAY_KINDS)}
    if get is None or not children or None in inner.values():
        return None

    def read(given: Any, count: int = len(children)) -> tuple[Any, ...] | None:
        if type(given) is not kind or len(given) != count:
            return None
        try:
            found = get(given)
        except KeyError:
            return None
        return concatenated_leaves(found, inner) if inner else found

    return read


def concatenated_leaves(children: tuple[Any, ...], inner: Mapping[int, Reader | None]) -> tuple[Any, ...] | None:
    """The leaves of children, some of which have readers of their own; None where such a reader returns None."""
    leaves: list[Any] = []
    for i, child in enumerate(children):
        reader = inner.get(i)
        if reader is None:
            leaves.append(child)
        elif (found := reader(child)) is None:
            return None
        else:
            leaves += found
    return tuple(leaves)


def child_getter(example: Any) -> Callable[[Any], tuple[Any, ...]] | None:
    """A function that reads the children of a tuple, list or dictionary in the order of its leaves."""
    if type(example) in (tuple, list):
        return tuple
    if type(example) is not dict or not example:
        return None
    names = list(example)
    # The order is that of the flattening itself, which sorts names where it can.
    order = [names[i] for i in tree.leaves({name: i for i, name in enumerate(names)})]
    return itemgetter(*order) if len(order) > 1 else lambda given: (given[order[0]],)


def declared_type(x: Any, path: str, what: str) -> tuple[Type, bool]:
    """The type of an example's leaf, and True for a Python number."""
    if isinstance(x, ShapeDtype):
        return x.type, False
    return checked_type(x, path, what), number_kind(x)[1]


def checked_type(x: Any, path: str, what: str) -> Type:
    """The type of a leaf; raises DtypeError for a leaf that is no array."""
    if not isinstance(x, PLAIN):
        raise DtypeError(
            f"{what}: {path} is {type_in_words(x)}, not an array", hint="convert it with np.asarray, or leave it out"
        )
    if isinstance(x, np.ndarray) and not x.dtype.isnative:
        raise DtypeError(
            f"{what}: {path} has the byte order of another machine",
            hint="convert it with .astype(x.dtype.newbyteorder('='))",
        )
    return type_of(outside.numeric(x, path, what))


def conversion(own: np.dtype[Any], wanted: np.dtype[Any]) -> str:
    """The hint for a leaf of one dtype where another is wanted: how to convert it, or what a conversion would lose."""
    cut = dtypes.is_inexact(own) and not dtypes.is_inexact(wanted)
    turned = dtypes.is_complex(own) and not dtypes.is_complex(wanted)
    if cut or turned or (dtypes.is_bool(wanted) and own != wanted):
        lost = "fractions" if cut else "imaginary parts" if turned else "all but whether it is 0"
        return f"a conversion would lose {lost}: give {wanted.name}, or compile for an example of {own.name}"
    return f"convert it with .astype(np.{wanted.name}); nothing is cast in silence"


def as_contiguous(x: NDArray) -> NDArray:
    """The array itself if it is C-contiguous and aligned, else a copy."""
    return x if x.flags.num & READY == READY else np.array(x, order="C", copy=True)


def placeholder(leaf: LeafSignature) -> Any:
    """A placeholder of a leaf's type for tracing, which takes no memory."""
    if any(isinstance(n, Dim) for n in leaf.type.shape):
        return ShapeDtype(leaf.type.shape, leaf.type.dtype)
    zero = np.zeros((), leaf.type.dtype)
    return zero.item() if leaf.number else np.broadcast_to(zero, leaf.type.shape)
