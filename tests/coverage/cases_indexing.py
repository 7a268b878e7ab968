"""Calls that read and write at positions, choose, sort and search, for the coverage tests."""

import numpy as np
from tests.coverage.cases import Case

rng = np.random.default_rng(23)


def real(*shape, dtype="f8"):
    return np.asarray(rng.normal(size=shape)).astype(dtype)


def cplx(*shape):
    return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape))


A, B, C, V, S = real(3, 4), real(2, 3, 4), cplx(2, 3), real(5), np.float64(0.7)
I8, M = np.arange(12).reshape(3, 4), rng.integers(0, 2, (3, 4)) > 0
K = np.array([[2, 0], [1, 1]])
SPREAD = rng.permutation(12).reshape(3, 4) * 0.7 - 3.0
NAN = np.array([3.0, np.nan, 1.0, 2.0, np.nan])
TIES = np.array([2.0, 1.0, 2.0, 1.0, 3.0])


def each(f, *arrays, **options):
    return [Case(f, a, **options) for a in arrays]


def written(call):
    """A function that copies its first argument, lets the call write into the copy, and returns the copy."""

    def f(x, *rest):
        y = np.copy(x, order="C")
        call(y, *rest)
        return y

    return f


def viewed(call):
    """The same through a strided view."""

    def f(x, *rest):
        y = np.copy(x, order="C")
        call(y[::-1].T, *rest)
        return y

    return f


CASES = {
    "numpy.take": [
        *[Case(lambda x, i=i: np.take(x, i), A) for i in (3, -1, [0, 5, 11], K, np.array(2), [])],
        *[Case(lambda x, i=i: np.take(x, i, axis=1), A) for i in (3, -1, [0, 3, 3], K, [True, False])],
        *[Case(lambda x, m=m: np.take(x, [-5, 0, 7], axis=0, mode=m), A) for m in ("wrap", "clip")],
        Case(lambda x, i: np.take(x, i, axis=-1), A, K),
        Case(lambda x: x.take([1, 2], 0), A),
        Case(written(lambda y, z: np.take(z, [0, 1, 2], out=y)), V[:3], V),
    ],
    "numpy.take_along_axis": [
        Case(lambda x, i: np.take_along_axis(x, i, 1), A, np.array([[0], [3], [-1]])),
        Case(lambda x: np.take_along_axis(x, np.argsort(x, 0), 0), SPREAD),
        Case(lambda x: np.take_along_axis(x, K.ravel(), None), A),
        Case(lambda x: np.take_along_axis(x, np.zeros((1, 2), int)), A),
    ],
    "numpy.put_along_axis": [
        Case(written(lambda y, v: np.put_along_axis(y, np.array([[0], [3], [-1]]), v, 1)), A, S),
        Case(viewed(lambda y, v: np.put_along_axis(y, np.array([[2, 0, 1]]), v, 0)), A, V[:3]),
        Case(written(lambda y, v: np.put_along_axis(y, np.array([2, 5]), v, None)), A, V[:2]),
    ],
    "numpy.put": [
        Case(written(lambda y, v: np.put(y, [0, 5, -1], v)), A, V[:2]),
        Case(viewed(lambda y, v: np.put(y, [0, 5, 3], v)), A, V),
        Case(written(lambda y, v: y.put([22, -30], v, mode="clip")), A, S),
        Case(written(lambda y, v: np.put(y, K, v, mode="wrap")), A, V[:4]),
    ],
    "numpy.putmask": [
        Case(written(lambda y, v: np.putmask(y, y > 0, v)), A, S),
        Case(written(lambda y, v: np.putmask(y, M, v)), A, V),
        Case(viewed(lambda y, v: np.putmask(y, M.T, v)), A, real(4, 3)),
    ],
    "numpy.place": [
        Case(written(lambda y, v: np.place(y, y > 0, v)), A, V[:2]),
        Case(viewed(lambda y, v: np.place(y, M.T, v)), A, V),
    ],
    "numpy.copyto": [
        Case(written(lambda y, v: np.copyto(y, v)), A, V[:4]),
        Case(written(lambda y, v: np.copyto(y, v, where=M)), A, S),
        Case(viewed(lambda y, v: np.copyto(y, 2.0, where=y > 0)), A, S),
    ],
    "numpy.choose": [
        Case(lambda x, y: np.choose([0, 1, 1, 0], [x, y]), A, V[:4]),
        Case(lambda i, x, y: np.choose(i, [x, y, 1.0]), K, real(2, 2), S),
        *[Case(lambda x, m=m: np.choose([-1, 5, 1, 0], [x, 2 * x], mode=m), A) for m in ("wrap", "clip")],
        Case(lambda i, x: np.choose(i, x), np.array([2, 0, 1, 1]), A),
        Case(lambda x: np.choose([0, 1, 1, 0], [x, 2]), I8.astype(np.uint8)),
    ],
    "numpy.compress": [
        Case(lambda x: np.compress([True, False, True], x, axis=0), A),
        Case(lambda x: np.compress([0, 1, 1], x), A),
        Case(lambda x: x.compress([False, True], axis=1), A),
        Case(lambda x: np.compress(x > 0, x), V, known=True),
    ],
    "numpy.extract": [Case(lambda x: np.extract(M, x), A), Case(lambda x: np.extract(x > 0, x * 2), A, known=True)],
    "numpy.nonzero": [
        Case(lambda x: np.nonzero(x > 0), A, known=True),
        Case(lambda x: (x > 0).nonzero(), A, known=True),
    ],
    "numpy.argwhere": [Case(lambda x: np.argwhere(x > 0), A, known=True)],
    "numpy.flatnonzero": [Case(lambda x: np.flatnonzero(x > 0), A, known=True)],
    "numpy.count_nonzero": [
        Case(lambda x: np.count_nonzero(x), I8, types=False),
        Case(lambda x: np.count_nonzero(x > 0, axis=1), A),
        Case(lambda x: np.count_nonzero(x, axis=0, keepdims=True), A),
    ],
    "numpy.where": [
        Case(lambda x, y: np.where(x > 0, x, y), A, real(4)),
        Case(lambda x: np.where(M, x, 0), A),
        Case(lambda x: np.where(M, x, 1.0), A.astype("f4")),
        Case(lambda x, y: np.where(M, x, y), A, cplx(3, 4)),
        Case(lambda x: np.where(x > 0, x, 3), S),
        Case(lambda x: np.where(x, x, 5), A),
        Case(lambda x: np.where(x > 0), A, known=True),
    ],
    "numpy.select": [
        Case(lambda x, y: np.select([x > 1, x > 0], [x, y * 2]), A, real(4)),
        Case(lambda x: np.select([x > 1, M], [x, x**2], default=-1.5), A),
        Case(lambda x: np.select([x > 1], [1], 2), A),
        Case(lambda x: np.select([M], [x], np.float64(3)), A.astype("f4")),
    ],
    "numpy.piecewise": [
        Case(lambda x: np.piecewise(x, [x < 0, x >= 0], [lambda v: -v, lambda v: v**2]), A),
        Case(lambda x: np.piecewise(x, [x < -1, x > 1], [2.0, lambda v: 3 * v, np.exp]), A),
        Case(lambda x: np.piecewise(x, x > 0, [np.sin, 1]), V),
        Case(lambda x: np.piecewise(x, [M], [lambda v, k: k * v], 3.0), A),
        Case(lambda x: np.piecewise(x, [x > 0], [np.sin, np.cos]), np.array(0.3)),
    ],
    "numpy.clip": [
        Case(lambda x: np.clip(x, -0.5, 0.5), A),
        Case(lambda x: np.clip(x, 0, None), A),
        Case(lambda x: np.clip(x, None, 0.3), A.astype("f4")),
        Case(np.clip, A, -np.abs(real(4)), S),
        Case(lambda x: np.clip(x, min=-0.5, max=0.5), A),
        Case(lambda x: x.clip(0.1), A),
        Case(lambda x: x.clip(min=-1, max=1), S),
        Case(lambda x: np.clip(x, 2, 7), I8),
        Case(lambda x: np.clip(x, 2.5, 7), I8),
        Case(lambda x: np.clip(x, 0, 1), NAN, grad=False),
        Case(lambda x: np.clip(x, np.nan, 1), A, grad=False),
        Case(written(lambda y: np.clip(y, -0.2, 0.2, out=y)), A),
    ],
    "numpy.copy": [*each(np.copy, A, S, C, I8), Case(lambda x: x.copy(), A)],
    "numpy.sort": [
        *each(np.sort, SPREAD, C, I8),
        Case(lambda x: np.sort(x, axis=0), SPREAD),
        Case(lambda x: np.sort(x, axis=None), SPREAD),
        Case(written(lambda y: y.sort(0)), SPREAD),
        Case(viewed(lambda y: y.sort()), SPREAD),
        Case(lambda x: np.sort(x, stable=True), SPREAD),
        *each(np.sort, TIES, NAN, grad=False),
    ],
    "numpy.argsort": [
        Case(np.argsort, SPREAD),
        Case(lambda x: np.argsort(x, axis=None), SPREAD),
        Case(lambda x: x.argsort(axis=0, kind="stable"), SPREAD),
        Case(lambda x: np.argsort(x, kind="stable"), TIES),
        Case(lambda x: np.argsort(x, kind="stable"), NAN),
    ],
    "numpy.partition": [
        Case(lambda x: np.partition(x, 2), SPREAD),
        Case(lambda x: np.partition(x, (0, -1), axis=0), SPREAD),
        Case(lambda x: np.partition(x, 5, axis=None), SPREAD),
        Case(written(lambda y: y.partition(1)), SPREAD),
    ],
    "numpy.argpartition": [
        Case(lambda x: np.argpartition(x, 2), SPREAD),
        Case(lambda x: x.argpartition(1, axis=0), SPREAD),
    ],
    "numpy.lexsort": [
        Case(lambda x, y: np.lexsort((x, y)), TIES, np.array([1, 1, 0, 0, 0])),
        Case(np.lexsort, I8 % 3),
    ],
    "numpy.sort_complex": [
        Case(np.sort_complex, V),
        Case(np.sort_complex, cplx(4)),
        *each(np.sort_complex, I8, I8.astype("i2"), V.astype("f4")),
    ],
    "numpy.searchsorted": [
        *[Case(lambda v, s=s: np.searchsorted([0.0, 0.5, 0.5, 1.0], v, side=s), A) for s in ("left", "right")],
        *[Case(lambda v, s=s: np.searchsorted(np.sort(v), NAN, side=s), NAN) for s in ("left", "right")],
        Case(lambda a, v: np.searchsorted(a, v), np.arange(5.0), S),
        Case(lambda a: a.searchsorted(0.5, sorter=[2, 1, 0]), np.array([3.0, 0.2, -1.0])),
        Case(lambda a: np.searchsorted(a, [1, 2.5]), np.arange(5)),
        Case(lambda a: np.searchsorted(a, 0.1, side="right"), np.array([0.1, 0.2], np.float32), grad=False),
        Case(lambda a: np.searchsorted(a, 300), np.arange(5, dtype=np.uint8)),
    ],
    "numpy.digitize": [
        *[Case(lambda x, r=r: np.digitize(x, [-1, 0, 1], right=r), A) for r in (False, True)],
        *[Case(lambda x, r=r: np.digitize(x, [1, 0, -1.0], right=r), A) for r in (False, True)],
        Case(lambda x: np.digitize(x, [0.0, 1.0]), S),
    ],
    "numpy.unravel_index": [
        *[Case(lambda i, o=o: np.unravel_index(i, (3, 4), order=o), np.array([2, 11, 5])) for o in "CF"]
    ],
    "numpy.ravel_multi_index": [
        Case(lambda i, j: np.ravel_multi_index((i, j), (3, 4)), np.array([2, 0]), np.array([3, 1])),
        Case(
            lambda i, j: np.ravel_multi_index((i, j), (3, 4), mode="wrap", order="F"),
            np.array([5, -1]),
            np.array([3, 1]),
        ),
        Case(
            lambda i, j: np.ravel_multi_index((i, j), (3, 4), mode=("clip", "wrap")),
            np.array([5, -1]),
            np.array([7, 1]),
        ),
    ],
    "numpy.fill_diagonal": [
        Case(written(lambda y, v: np.fill_diagonal(y, v)), A, S),
        Case(written(lambda y, v: np.fill_diagonal(y, v)), real(4, 3), V[:2]),
        Case(written(lambda y, v: np.fill_diagonal(y, v, wrap=True)), real(7, 3), V[:2]),
        Case(viewed(lambda y, v: np.fill_diagonal(y, v)), A, S),
        Case(written(lambda y, v: np.fill_diagonal(y, v)), real(3, 3, 3), V[:3]),
    ],
    "numpy.unique": [
        Case(np.unique, SPREAD, known=True),
        Case(np.unique, TIES, known=True, grad=False),
        Case(lambda x: np.unique(x, True, True, True), TIES, known=True, grad=False),
        Case(lambda x: np.unique(x, return_inverse=True), SPREAD, known=True),
        Case(lambda x: np.unique(x, axis=0), np.array([[1.0, 2.0], [0.0, 1.0], [1.0, 2.0]]), known=True, grad=False),
        Case(lambda x: np.unique(x, axis=1), SPREAD, known=True),
        Case(np.unique, NAN, known=True, grad=False),
        Case(lambda x: np.unique(x, equal_nan=False), NAN, known=True, grad=False),
        Case(np.unique, I8 % 5, known=True),
    ],
    "numpy.unique_values": [Case(lambda x: np.sort(np.unique_values(x)), SPREAD, known=True)],
    "numpy.unique_counts": [Case(lambda x: tuple(np.unique_counts(x)), SPREAD, known=True)],
    "numpy.unique_inverse": [Case(lambda x: tuple(np.unique_inverse(x)), SPREAD, known=True)],
    "numpy.unique_all": [Case(lambda x: tuple(np.unique_all(x)), SPREAD, known=True)],
    "numpy.isin": [
        Case(lambda x: np.isin(x, [1, 3, 20]), I8),
        Case(lambda x, y: np.isin(x, y, invert=True), TIES, np.array([1.0, 7.0])),
    ],
    "numpy.union1d": [Case(np.union1d, V, SPREAD, known=True)],
    "numpy.intersect1d": [
        Case(lambda x: np.intersect1d(x, [1.0, 3.0, 9.0]), TIES, known=True, grad=False),
        Case(lambda x, y: np.intersect1d(x, y, return_indices=True), V, V[1:3] * 1.0, known=True, grad=False),
    ],
    "numpy.setdiff1d": [
        Case(lambda x: np.setdiff1d(x, [1.0]), TIES, known=True, grad=False),
        Case(np.setdiff1d, V, A, known=True),
    ],
    "numpy.setxor1d": [Case(np.setxor1d, V, SPREAD, known=True)],
    "numpy.trim_zeros": [
        *[
            Case(lambda x, t=t: np.trim_zeros(x, t), np.array([0, 0, 1.5, 0, 2, 0]), known=True, grad=False)
            for t in ("fb", "f", "b")
        ],
        Case(np.trim_zeros, np.zeros(3), known=True, grad=False),
        Case(lambda x: np.trim_zeros(x, axis=1), np.array([[0, 1.0, 0], [0, 0, 0]]), known=True, grad=False),
    ],
}
