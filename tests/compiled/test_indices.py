"""Indices of every integer dtype at their extremes, however read and written: NumPy's value, or its IndexError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import tree
from wholestep.errors import BoundsError

DTYPES = tuple(np.dtype(t) for t in "int8 int16 int32 int64 uint8 uint16 uint32 uint64".split())
ROWS, WIDTH = 4, 3
Form = Callable[[Any, Any], Any]
"""A function of an array and an index array, which runs in NumPy and in a program alike."""


def read(x: Any, i: Any) -> Any:
    return x[i]


def read_second(x: Any, i: Any) -> Any:
    return x.T[:, i]


def read_no_further(x: Any, i: Any) -> Any:
    return x[np.minimum(i, ROWS - 1)]


def read_pairs(x: Any, i: Any) -> Any:
    return x[i, i % 1]


def assigned(x: Any, i: Any) -> Any:
    y = x + 0.0
    y[i] = 7.0
    return y


def assigned_rows(x: Any, i: Any) -> Any:
    y = x * 2.0
    y.T[:, i] = x[:2].T
    return y


def increased(x: Any, i: Any) -> Any:
    y = x + 0.0
    y[i] += 2.0
    return y


def added(x: Any, i: Any) -> Any:
    y = x + 0.0
    np.add.at(y, i, x[1:3])
    return y


def taken(x: Any, i: Any) -> Any:
    return np.take(x, i, axis=0)


def taken_along(x: Any, i: Any) -> Any:
    return np.take_along_axis(x, i[:, None], 0)


def put_along(x: Any, i: Any) -> Any:
    y = x + 0.0
    np.put_along_axis(y, i[:, None], x[:2, :1], 0)
    return y


def counted(x: Any, i: Any) -> Any:
    y = np.zeros_like(x[:, 0])
    np.add.at(y, i, 1.0)
    return y * x[:, 0]


FORMS: tuple[Form, ...] = (
    read,
    read_second,
    read_no_further,
    read_pairs,
    assigned,
    assigned_rows,
    increased,
    added,
    taken,
    taken_along,
    put_along,
    counted,
)
KEY_FORMS = (read, assigned, added)

X = np.arange(1.0, 1.0 + ROWS * WIDTH).reshape(ROWS, WIDTH)


def extremes(dtype: np.dtype[Any]) -> list[int]:
    """Indices at the ends of an axis, of the dtype, and of dtypes that it could be mistaken for."""
    ends = [0, ROWS - 1, ROWS, -1, -ROWS, -ROWS - 1]
    ends += [
        sign * 2**bits + d for bits in (7, 8, 15, 16, 31, 32, 62, 63, 64) for sign in (-1, 1) for d in (-ROWS, -1, 0, 3)
    ]
    info = np.iinfo(dtype)
    return sorted({n for n in ends if info.min <= n <= info.max})


def outcome(f: Callable[[], Any]) -> Any:
    """The result of a call, or IndexError if it raises that."""
    try:
        return f()
    except IndexError:
        return IndexError


def each(f: Form) -> Callable[..., Any]:
    """The form with an index of every dtype in one program."""
    return lambda x, *indices: tuple([f(x, i) for i in indices])


def plain(f: Form) -> Callable[..., Any]:
    return ws.jit(each(f))


def differentiated(f: Form) -> Callable[..., Any]:
    def loss(x: Any, i: Any) -> Any:
        made = f(x, i)
        return np.sum(made * np.arange(1.0, 1 + made.size).reshape(made.shape))

    return ws.jit(each(ws.grad(loss)))


def mapped(f: Form) -> Callable[..., Any]:
    return ws.jit(each(lambda x, i: ws.vmap(f)(np.stack([x, x]), np.stack([i, i]))[1]))


def mapped_over_indices(f: Form) -> Callable[..., Any]:
    return ws.jit(each(lambda x, i: ws.vmap(lambda k: f(x, k))(np.stack([i, i]))[1]))


def in_scan(f: Form) -> Callable[..., Any]:
    def last(x: Any, i: Any) -> Any:
        return ws.scan(lambda c, k: (c + 0.0, f(x, k)), 0.0, np.stack([i, i]))[1][1]

    return ws.jit(each(last))


def in_cond(f: Form) -> Callable[..., Any]:
    def one(x: Any, i: Any) -> Any:
        return ws.cond(x[0, 0] > 0, lambda: f(x, i), lambda: f(x, i * 0))

    return ws.jit(each(one))


def in_while(f: Form) -> Callable[..., Any]:
    def summed(x: Any, i: Any) -> Any:
        return ws.while_loop(lambda c: c[0] < 1, lambda c: (c[0] + 1, f(x, c[2]), c[2]), (0, f(x, i * 0), i))[1]

    return ws.jit(each(summed))


def in_fori(f: Form) -> Callable[..., Any]:
    def summed(x: Any, i: Any) -> Any:
        rows = np.stack([i, i])
        return ws.fori_loop(0, 2, lambda k, c: f(x, rows[k]), f(x, i * 0))

    return ws.jit(each(summed))


def gradient(f: Form, x: np.ndarray, i: np.ndarray) -> np.ndarray:
    """The gradient of an affine form, by its values at the unit vectors."""
    base = f(np.zeros_like(x), i)
    weights = np.arange(1.0, 1 + base.size).reshape(base.shape)
    units = np.eye(x.size).reshape(-1, *x.shape)
    return np.array([np.sum((f(e, i) - base) * weights) for e in units]).reshape(x.shape)


PLACES = [(plain, f) for f in FORMS]
PLACES += [(differentiated, f) for f in FORMS if f is not counted]
PLACES += [
    (place, f) for place in (mapped, mapped_over_indices, in_scan, in_cond, in_while, in_fori) for f in KEY_FORMS
]


@pytest.mark.parametrize(("place", "form"), PLACES, ids=lambda f: f.__name__)
def test_an_index_of_any_dtype_means_what_it_means_in_numpy(place: Any, form: Form) -> None:
    program = place(form)
    oracle: Any = (lambda x, i: gradient(form, x, i)) if place is differentiated else form
    inside = [np.array([1, 2], t) for t in DTYPES]
    seen = {True: 0, False: 0}
    for at, dtype in enumerate(DTYPES):
        for n in extremes(dtype):
            index = np.array([1, n], dtype)
            wanted = outcome(lambda i=index: oracle(X, i))  # type: ignore[misc]
            given = [*inside[:at], index, *inside[at + 1 :]]
            found = outcome(lambda g=given, k=at: program(X, *g)[k])  # type: ignore[misc]
            seen[wanted is IndexError] += 1
            assert (wanted is IndexError) == (found is IndexError), (dtype, n)
            if wanted is not IndexError:
                np.testing.assert_array_equal(found, wanted, err_msg=f"{dtype} {n}")
    assert min(seen.values()) > len(DTYPES)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_table_of_labels_and_of_ids_in_training(dtype: np.dtype[Any]) -> None:
    """Ids may count from the end, labels may not; a refused step changes nothing."""

    def loss(p: Any, batch: Any) -> Any:
        ids, labels = batch
        rows = ws.nn.embedding(p, ids)
        return ws.nn.cross_entropy(rows, labels) + np.sum(ws.nn.one_hot(ids, ROWS) * 0.5)

    fine = np.array([0, 2], dtype)
    table = np.arange(12.0).reshape(4, 3)
    steps = [ws.compile(loss, table, optimizer=ws.optim.sgd(0.1), batch=(fine, fine)) for _ in range(2)]
    refused = 0
    for n in extremes(dtype):
        odd = np.array([1, n], dtype)
        for batch, valid in (((odd, fine), -ROWS <= signed(n) < ROWS), ((fine, odd), 0 <= n < 3)):
            steps[0].reset()
            before = steps[0].state
            run = lambda b=batch: steps[0].run((b[0], b[1]), shuffle=False)  # noqa: E731
            for call in (lambda b=batch: steps[0](b), run):
                if valid:
                    call()
                    continue
                refused += 1
                with pytest.raises(BoundsError):
                    call()
                for old, new in zip(tree.leaves(before), tree.leaves(steps[0].state), strict=True):
                    np.testing.assert_array_equal(old, new)
    assert refused > 4


def signed(n: int) -> int:
    """A number as int64 holds it."""
    return n - 2**64 if n >= 2**63 else n


@pytest.mark.parametrize("length", [1, 37])
@pytest.mark.parametrize("source", ["float32", "float64"])
@pytest.mark.parametrize("target", ["int32", "int64", "uint64"])
def test_an_index_cut_from_a_number_that_no_integer_stands_for(source: str, target: str, length: int) -> None:
    """Processors differ in the result of the cast; each result is a valid index or is refused."""

    @ws.jit
    def both(x: Any, y: Any) -> Any:
        made = x + 0.0
        made[(y * 1.0).astype(target)] = 5.0
        return x[(y * 1.0).astype(target)], made

    x = np.arange(4.0)
    for n in (np.nan, np.inf, -np.inf, 1e30, -1e30, 2.0**63, 4.0, -5.0):
        y = np.ones(length, source)
        y[-1] = n
        found = outcome(lambda y=y: both(x, y))  # type: ignore[misc]
        if n in (4.0, -5.0):
            assert found is IndexError
        elif found is not IndexError:
            at = np.flatnonzero(found[1] == 5.0)[-1]
            assert found[0][-1] == x[at] or at == 1


def test_an_index_into_an_axis_of_symbolic_size() -> None:
    rows = ws.ShapeDtype((ws.Dim("B"), 2), "float64")
    ids = ws.ShapeDtype((3,), "uint64")
    step = ws.compile(lambda p, b: np.sum(b[0][b[1]]) * p, 1.0, batch=(rows, ids), optimizer=ws.optim.sgd(0.0))
    for size in (4, 9):
        x = np.arange(2.0 * size).reshape(size, 2)
        for n in (size - 1, 2**64 - 1, 2**64 - size):
            index = np.array([0, n, 1], np.uint64)
            assert step((x, index)).loss == x[index].sum()
        for n in (size, 2**63, 2**64 - size - 1):
            with pytest.raises(IndexError):
                step((x, np.array([0, n, 1], np.uint64)))


def test_an_index_too_narrow_to_count_the_other_axes() -> None:
    """The sorting of 300 rows by their keys needs integers up to 300 along an axis whose own indices fit in int8."""
    x = np.arange(900.0).reshape(300, 3)
    index = np.arange(900).reshape(300, 3).astype(np.int8) % np.int8(3)
    found = ws.jit(ws.grad(lambda x, i: np.sum(np.take_along_axis(x, i, 1) ** 2)))(x, index)
    wanted = np.zeros_like(x)
    np.add.at(wanted, (np.arange(300)[:, None], index), 2 * np.take_along_axis(x, index, 1))
    np.testing.assert_array_equal(found, wanted)
