"""Maps and scans over rows that need not go one after another: by batches, and by a tree of an associative function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from wholestep import tree
from wholestep.boundary.counts import whole_number
from wholestep.errors import AxisError, ShapeError, TreeError
from wholestep.frontend.batching import vmap
from wholestep.frontend.control import scan
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import type_of
from wholestep.words import with_article

T = TypeVar("T")


def map(f: Callable[[Any], T], xs: Any, *, batch_size: int | None = None) -> T:
    """f of each row of xs: one after another as a loop of the program, or `batch_size` of them at a time by `vmap`.

    The memory is that of one row, or of one batch. A last batch may be smaller. The results are stacked.

    Shapes: xs a tree of arrays [n, ...], of which f gets a tree of [...]; results [n, ...].
    Raises: ShapeError where lengths differ or there are no rows to tell them from, ParameterError for a batch size that
    is no positive integer, and as `scan` and `vmap` do.

    >>> import numpy as np, wholestep as ws
    >>> ws.map(lambda x: np.sum(x**2), np.arange(6.0).reshape(3, 2), batch_size=2).tolist()
    [1.0, 13.0, 41.0]
    """
    if batch_size is None:
        return scan(lambda carry, x: (carry, ordinary(f)(x)), (), xs)[1]
    size, n = whole_number("batch_size", batch_size, "map"), rows_of("map", xs)
    whole = n // size * size
    if n <= size:
        return vmap(f)(xs)
    cut = tree.map(lambda x: np.reshape(x[:whole], (n // size, size, *x.shape[1:])), xs)
    many = scan(lambda carry, x: (carry, vmap(f)(x)), (), cut)[1]
    many = tree.map(lambda y: np.reshape(y, (whole, *y.shape[2:])), many)
    if whole == n:
        return many
    rest = vmap(f)(tree.map(lambda x: x[whole:], xs))
    return tree.map(lambda a, b: np.concatenate([a, b]), many, rest)


def associative_scan(f: Callable[[Any, Any], T], xs: T, *, reverse: bool = False, axis: int = 0) -> T:
    """The results of `f` over the first elements of xs: x[0], f(x[0], x[1]), f(f(x[0], x[1]), x[2]), and so on.

    `f(a, b)` takes and returns trees like xs, of any number of elements along the axis at once, and is associative:
    f(f(a, b), c) is f(a, f(b, c)). It is then called about 2 * log2(n) times, each time on many elements, where `scan`
    goes through n steps. With `reverse` it begins at the last element and goes back:
    the last result is x[-1], that before it f(x[-1], x[-2]).

    Shapes: xs a tree of arrays with n elements along the axis; the same.
    Raises: TreeError for no arrays and for an f that returns another tree, ShapeError where lengths or shapes differ,
    AxisError for an axis that is not there.
    Source: Blelloch, "Prefix sums and their applications", 1990.

    >>> import numpy as np, wholestep as ws
    >>> ws.associative_scan(lambda a, b: a * b, np.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [1.0, 2.0, 6.0, 24.0]
    """
    for leaf in tree.leaves(xs):
        if not -np.ndim(leaf) <= axis < np.ndim(leaf):
            raise AxisError(f"associative_scan: axis {axis} of {type_of(leaf)}")
    turned = tree.map(lambda x: np.moveaxis(x, axis, 0), xs)
    rows_of("associative_scan", turned)
    leaves, structure = tree.flatten(tree.map(lambda x: np.flip(x, 0), turned) if reverse else turned)

    def joined(a: list[Any], b: list[Any]) -> list[Any]:
        pair = [tree.unflatten(structure, half) for half in (a, b)]
        made, found = tree.flatten(ordinary(f)(*pair))
        if found != structure:
            raise TreeError(f"associative_scan: xs are {structure}, and the function returns {found}")
        for x, y in zip(a, made, strict=True):
            if type_of(x) != type_of(y):
                raise ShapeError(f"associative_scan: the function turns {type_of(x)} into {type_of(y)}")
        return made

    made = tree.unflatten(structure, prefixes(joined, leaves))
    return tree.map(lambda x: np.moveaxis(np.flip(x, 0) if reverse else x, 0, axis), made)


def prefixes(f: Callable[[list[Any], list[Any]], list[Any]], rows: list[Any]) -> list[Any]:
    """All prefixes: those of neighbours joined to pairs, which end at every other row, and the others from them."""
    n = rows[0].shape[0]
    if n < 2:
        return rows
    pairs = f([x[: n - 1 : 2] for x in rows], [x[1::2] for x in rows])
    odd = prefixes(f, pairs)
    if n == 2:
        return [np.concatenate([x[:1], y]) for x, y in zip(rows, odd, strict=True)]
    even = f([x[: (n - 1) // 2] for x in odd], [x[2::2] for x in rows])
    return [rows_in_turn(np.concatenate([x[:1], e]), o) for x, e, o in zip(rows, even, odd, strict=True)]


def rows_in_turn(even: Any, odd: Any) -> Any:
    """Rows in turn, the first of `even` first; it may have one more."""
    m, rest = odd.shape[0], even.shape[1:]
    both = np.reshape(np.stack([even[:m], odd], axis=1), (2 * m, *rest))
    return both if even.shape[0] == m else np.concatenate([both, even[m:]])


def rows_of(name: str, xs: Any) -> int:
    """The number of rows that all arrays of a tree have."""
    leaves = tree.leaves(xs)
    if not leaves:
        raise TreeError(f"{name}: xs holds no arrays")
    for leaf in leaves:
        if not np.ndim(leaf):
            raise ShapeError(f"{name}: xs holds {with_article(type_of(leaf))}, which has no axis to go along")
        if np.shape(leaf)[0] != np.shape(leaves[0])[0]:
            raise ShapeError(f"{name}: lengths differ: {type_of(leaves[0])} and {type_of(leaf)}")
    return int(np.shape(leaves[0])[0])
