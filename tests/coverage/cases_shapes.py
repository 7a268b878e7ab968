"""Calls that move elements, for the coverage tests: shapes, axes, joining, cutting, padding, diagonals."""

import numpy as np
from tests.coverage.cases import Case

rng = np.random.default_rng(19)


def real(*shape, dtype="f8"):
    return np.asarray(rng.normal(size=shape)).astype(dtype)


def cplx(*shape):
    return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape))


A, B, C, V, S = real(3, 4), real(2, 3, 4), cplx(2, 3), real(5), np.float64(0.7)
F4, I8, Q = real(2, 3, dtype="f4"), np.arange(12).reshape(3, 4), real(4, 4)


def each(f, *arrays, **options):
    return [Case(f, a, **options) for a in arrays]


def views(*fs, of=(A,)):
    """Each call on each array: its result, its result for a strided view, and writes through its result."""
    cases = []
    for f in fs:
        for a in of:
            cases += [Case(f, a), Case(lambda x, f=f: f(x[::-1]), a), Case(through(f), a)]
    return cases


def through(f):
    def g(x):
        y = np.copy(x, order="C")
        part = f(y)
        for p in part if isinstance(part, list | tuple) else [part]:
            p[...] = p * 3.0 + 1.0
        return y

    return g


PADS = [
    (1, {}), (((1, 2), (0, 3)), {"constant_values": 2.5}), (((1, 2), (0, 3)), {"constant_values": ((1, 2), (3, 4))}),
    *[(((2, 1), (1, 3)), {"mode": m}) for m in ("edge", "reflect", "symmetric", "wrap", "maximum", "minimum", "mean")],
    *[(((4, 5), (7, 6)), {"mode": m}) for m in ("reflect", "symmetric", "wrap", "edge")],
    *[(((1, 2), (2, 3)), {"mode": m, "reflect_type": "odd"}) for m in ("reflect", "symmetric")],
    *[(((5, 4), (7, 6)), {"mode": m, "reflect_type": "odd"}) for m in ("reflect", "symmetric")],
    *[(2, {"mode": m, "stat_length": 2}) for m in ("maximum", "minimum", "mean", "median")],
    (2, {"mode": "median"}), (((2, 3), (0, 2)), {"mode": "linear_ramp"}), ({-1: (1, 2)}, {}),
    ({0: 2}, {"mode": "edge"}),
    (((2, 3), (1, 2)), {"mode": "linear_ramp", "end_values": ((1.0, -2.0), (0.5, 3.0))}),
]  # fmt: skip


def pads():
    cases = [Case(lambda x, w=w, o=o: np.pad(x, w, **o), A) for w, o in PADS]
    cases += [Case(lambda x, w=w, o=o: np.pad(x, w, **o), I8) for w, o in PADS]
    cases.append(Case(lambda x, v: np.pad(x, 1, constant_values=v), V, S))

    def ends(vector, width, axis, options):
        vector[: width[0]] = 2 * vector[width[0]]
        vector[len(vector) - width[1] :] = options.get("fill", 10)

    cases.append(Case(lambda x: np.pad(x, ((1, 2), (2, 1)), ends, fill=4), A))
    return cases


CASES = {
    "numpy.packbits": [Case(np.packbits, I8 > 2), Case(lambda x: np.packbits(x, 1, bitorder="little"), I8)],
    "numpy.unpackbits": [Case(lambda x: np.unpackbits(x, 0, 3), np.arange(250, 256, dtype=np.uint8).reshape(2, 3))],
    "numpy.reshape": [
        *each(lambda x: np.reshape(x, (4, 3)), A, I8, F4.reshape(3, 2)[:, :1] * np.ones(4, "f4")),
        *each(lambda x: np.reshape(x, -1), A, B, S, C),
        *each(lambda x: np.reshape(x, (2, -1), order="F"), A, A.T, B),
        *each(lambda x: np.reshape(x, (2, -1), order="A"), A, B),
        Case(lambda x: x.reshape(2, 6), A),
        Case(lambda x: x.reshape((2, 6), order="F"), A),
        Case(lambda x: x.T.reshape(2, 6), A),
        Case(lambda x: x.reshape(2, 6, copy=True), A),
        *views(lambda x: x.reshape(2, 6), lambda x: x.T[1:3].reshape(3, 2, order="F")),
    ],
    "numpy.ravel": [
        *each(np.ravel, A, B, S, C, A.T),
        *each(lambda x: np.ravel(x, "F"), A, B),
        *each(lambda x: np.ravel(x.T, "K"), A, B),
        *each(lambda x: np.ravel(x.T, "A"), A),
        *views(np.ravel, lambda x: x.T.ravel(), lambda x: x.T.ravel("K"), lambda x: x.T.ravel("F")),
    ],
    "numpy.transpose": [
        *each(np.transpose, A, B, V, S, C),
        Case(lambda x: np.transpose(x, 0), V),
        Case(lambda x: np.transpose(x, [1, 0]), A),
        *views(lambda x: np.transpose(x, (2, 0, 1)), lambda x: x.transpose(1, -1, 0), lambda x: x.T, of=(B,)),
        *views(lambda x: x.mT, of=(B,)),
        Case(lambda x: np.permute_dims(x, (1, 0)), A),
    ],
    "numpy.matrix_transpose": views(np.matrix_transpose, of=(A, B)),
    "numpy.swapaxes": views(lambda x: np.swapaxes(x, 0, -1), lambda x: x.swapaxes(0, 1), of=(A, B)),
    "numpy.moveaxis": views(
        lambda x: np.moveaxis(x, 0, -1),
        lambda x: np.moveaxis(x, (0, 1), (-1, 0)),
        lambda x: np.moveaxis(x, [2], [0]),
        of=(B,),
    ),
    "numpy.rollaxis": views(
        lambda x: np.rollaxis(x, 2), lambda x: np.rollaxis(x, 0, 3), lambda x: np.rollaxis(x, 1, 2), of=(B,)
    ),
    "numpy.squeeze": [
        *views(np.squeeze, lambda x: np.squeeze(x, 0), lambda x: np.squeeze(x, (0, 2)), of=(real(1, 3, 1),)),
        Case(np.squeeze, real(1, 1)),
        Case(lambda x: x.squeeze(axis=-1), real(2, 1)),
    ],
    "numpy.expand_dims": [
        *views(lambda x: np.expand_dims(x, 1), lambda x: np.expand_dims(x, (0, -1))),
        Case(lambda x: np.expand_dims(x, 0), S),
    ],
    "numpy.broadcast_to": [
        *each(lambda x: np.broadcast_to(x, (2, 3, 4)), A, S),
        Case(lambda x: np.broadcast_to(x, 3), S),
        Case(lambda x: np.broadcast_to(x, (3, 4)) * 2, real(3, 1)),
    ],
    "numpy.broadcast_arrays": [Case(lambda *xs: np.broadcast_arrays(*xs), real(3, 1), real(4), S)],
    "numpy.flip": views(np.flip, lambda x: np.flip(x, 0), lambda x: np.flip(x, (0, -1)), of=(A, B)),
    "numpy.flipud": views(np.flipud),
    "numpy.fliplr": views(np.fliplr, of=(A, B)),
    "numpy.rot90": [
        *views(*[lambda x, k=k: np.rot90(x, k) for k in (0, 1, 2, 3, 5, -1)]),
        *views(lambda x: np.rot90(x, 1, (1, 2)), of=(B,)),
    ],
    "numpy.roll": [
        *each(lambda x: np.roll(x, 2), A, V, I8, C, S),
        *each(lambda x: np.roll(x, (1, -2), (0, 1)), A),
        *each(lambda x: np.roll(x, (1, 2), 1), A),
        *each(lambda x: np.roll(x, 1, (0, 1)), A),
        *each(lambda x: np.roll(x, -7, axis=-1), A),
        Case(lambda x: np.roll(x, 3), np.zeros((0,))),
        *[Case(lambda x, s: np.roll(x, s), A, s) for s in (np.int64(2), np.array([7, -3]))],
        Case(lambda x, s: np.roll(x, s, (0, 1)), A, np.array([1, -2])),
        Case(lambda x, s: np.roll(x, (s, 2 * s), (0, -1)), A, np.int64(-5)),
    ],
    "numpy.atleast_1d": [Case(np.atleast_1d, S), Case(lambda *xs: np.atleast_1d(*xs), S, A), *views(np.atleast_1d)],
    "numpy.atleast_2d": [
        Case(np.atleast_2d, S),
        Case(lambda *xs: np.atleast_2d(*xs), V, A),
        *views(np.atleast_2d, of=(V,)),
    ],
    "numpy.atleast_3d": [*each(np.atleast_3d, S, V, A, B), *views(np.atleast_3d, of=(V, A))],
    "numpy.concatenate": [
        Case(lambda *xs: np.concatenate(xs), A, real(2, 4)),
        Case(lambda *xs: np.concatenate(xs, axis=1), A, real(3, 1), F4[:1].T * np.ones(2, "f4")),
        Case(lambda *xs: np.concatenate(xs, axis=None), A, C, S),
        Case(lambda *xs: np.concatenate(xs, dtype="f4"), V, real(2), grad=False),
        Case(lambda x: np.concatenate(x), B),
        Case(lambda x: np.concat([x, [[1, 2, 3, 4]]]), A),
        Case(lambda x, y: np.concatenate([x, y]), F4, I8[:, :3]),
    ],
    "numpy.stack": [
        Case(lambda *xs: np.stack(xs), A, real(3, 4)),
        Case(lambda *xs: np.stack(xs, axis=-1), S, np.float64(0.2)),
        Case(lambda *xs: np.stack(xs, 1), V, np.arange(5)),
        Case(lambda x: np.stack(x, axis=1), A),
    ],
    "numpy.hstack": [Case(lambda *xs: np.hstack(xs), *xs) for xs in ((V, real(2)), (A, real(3, 1)), (S, V), (B, B))],
    "numpy.vstack": [Case(lambda *xs: np.vstack(xs), *xs) for xs in ((V, real(5)), (A, real(1, 4)), (S, S))],
    "numpy.dstack": [Case(lambda *xs: np.dstack(xs), *xs) for xs in ((V, real(5)), (A, A), (S, S), (B, B))],
    "numpy.column_stack": [Case(lambda *xs: np.column_stack(xs), *xs) for xs in ((V, real(5)), (A, V[:3]), (S, S))],
    "numpy.block": [
        Case(lambda x, y: np.block([[x, y], [y, x]]), A, real(3, 4)),
        Case(lambda x, y: np.block([x, y, 1.0]), V, real(2)),
        Case(lambda x, y: np.block([[x, np.zeros((3, 2))], [np.ones((1, 6))]]) * y, A, S),
        Case(lambda x: np.block(x), A),
        Case(lambda x, y: np.block([[x], [y]]), A, real(4)),
        Case(lambda x, y: np.block([[[x]], [[y]]]), A, B[:, :, :]),
    ],
    "numpy.append": [
        Case(np.append, A, V),
        Case(lambda x: np.append(x, [1, 2]), A),
        Case(lambda x, y: np.append(x, y, axis=0), A, real(2, 4)),
        Case(lambda x: np.append(x, 3), S),
    ],
    "numpy.tile": [
        *[Case(lambda x, r=r: np.tile(x, r), a) for r in (2, (2,), (2, 3), (2, 1, 2), (1, 2, 3, 1), 0) for a in (A, V)],
        Case(lambda x: np.tile(x, (2, 2)), S),
    ],
    "numpy.repeat": [
        *each(lambda x: np.repeat(x, 3), A, S, I8),
        *each(lambda x: np.repeat(x, 2, axis=1), A, B),
        *each(lambda x: np.repeat(x, [1, 0, 2], axis=0), A),
        Case(lambda x: x.repeat([2], 0), A),
        Case(lambda x: np.repeat(x, [1, 2, 0, 3, 1]), V),
    ],
    "numpy.resize": [Case(lambda x, s=s: np.resize(x, s), A) for s in ((2, 2), (5, 4), 7, (0,), (2, 3, 4))],
    "numpy.delete": [
        *[Case(lambda x, o=o: np.delete(x, o), V) for o in (0, -1, [1, 3], slice(None, None, 2), [], [-1, 0])],
        *[Case(lambda x, o=o: np.delete(x, o, axis=1), A) for o in (2, [0, 0, 1], slice(3, 0, -2))],
        Case(lambda x: np.delete(x, np.array([True, False, True]), 0), A),
        Case(lambda x: np.delete(x, [2, 5]), A),
    ],
    "numpy.insert": [
        *[Case(lambda x, o=o: np.insert(x, o, 9.0), V) for o in (0, 5, -1, [1, 3], [1, 1, 4], slice(0, 4, 2), [2])],
        *[Case(lambda x, v, o=o: np.insert(x, o, v), V, real(2)) for o in (1, [1], [4, 0])],
        Case(lambda x, v: np.insert(x, 1, v, axis=1), A, real(3)),
        Case(lambda x, v: np.insert(x, 1, v, axis=0), A, real(2, 4)),
        Case(lambda x, v: np.insert(x, [1], v, axis=1), A, real(3, 2)),
        Case(lambda x, v: np.insert(x, [1, 3], v, axis=1), A, real(3, 2)),
        Case(lambda x: np.insert(x, 2, 5), A),
        Case(lambda x: np.insert(x, np.array([True, False, True, False, False]), 7), V),
        Case(lambda x: np.insert(x, 1, 2.7), np.arange(4)),
    ],
    "numpy.array_split": [
        *[Case(lambda x, n=n: np.array_split(x, n), V) for n in (1, 2, 3, 7, [1, 3], [2, 2, 9], (4,))],
        *views(lambda x: np.array_split(x, 3, axis=1)),
    ],
    "numpy.split": [
        *views(lambda x: np.split(x, 2, 1), lambda x: np.split(x, [1, 2])),
        Case(lambda x: np.split(x, [9]), V),
    ],
    "numpy.hsplit": [*views(lambda x: np.hsplit(x, 2)), Case(lambda x: np.hsplit(x, [2]), V)],
    "numpy.vsplit": views(lambda x: np.vsplit(x, [1]), lambda x: np.vsplit(x, 3)),
    "numpy.dsplit": views(lambda x: np.dsplit(x, 2), of=(B,)),
    "numpy.unstack": [*views(np.unstack, lambda x: np.unstack(x, axis=-1)), Case(np.unstack, V)],
    "numpy.pad": pads(),
    "numpy.diag": [
        *[Case(lambda x, k=k: np.diag(x, k), a) for k in (0, 1, -2) for a in (V, A, Q, I8)],
        Case(np.diag, C),
        Case(np.diag, np.zeros(0)),
        Case(lambda x: np.diag(x, 9), A),
    ],
    "numpy.diagonal": [
        *[Case(lambda x, k=k: np.diagonal(x, k), A) for k in (0, 1, -2, 3, 7)],
        Case(lambda x: np.diagonal(x, 1, 0, 2), B),
        Case(lambda x: x.diagonal(0, -1, 0), B),
    ],
    "numpy.diagflat": [*each(np.diagflat, A, V, S), Case(lambda x: np.diagflat(x, -1), V)],
    "numpy.trace": [
        *each(np.trace, A, B, Q, I8, C, np.ones((2, 2), "i1"), np.ones((2, 2), "?")),
        Case(lambda x: np.trace(x, 1, 1, 2), B),
        Case(lambda x: x.trace(offset=-1), A),
        Case(lambda x: np.trace(x, dtype="f4"), A, grad=False),
    ],
    "numpy.tril": [*each(np.tril, A, B, V, I8), *[Case(lambda x, k=k: np.tril(x, k), A) for k in (1, -1)]],
    "numpy.triu": [*each(np.triu, A, B, V, C), *[Case(lambda x, k=k: np.triu(x, k), A) for k in (1, -1)]],
    "numpy.tril_indices_from": [Case(lambda x: x[np.tril_indices_from(x, -1)], Q)],
    "numpy.triu_indices_from": [Case(lambda x: x[np.triu_indices_from(x, 1)], A)],
    "numpy.diag_indices_from": [Case(lambda x: x[np.diag_indices_from(x)], Q)],
    "numpy.meshgrid": [
        Case(lambda *xs: np.meshgrid(*xs), V, real(3)),
        Case(lambda *xs: np.meshgrid(*xs, indexing="ij"), V, real(3), real(2)),
        Case(lambda *xs: np.meshgrid(*xs, sparse=True), V, real(3)),
        Case(lambda *xs: np.meshgrid(*xs, copy=False), V, real(3)),
        Case(lambda *xs: np.meshgrid(*xs), V),
    ],
    "numpy.ix_": [
        Case(lambda x, y: np.ix_(x, y), np.array([0, 2]), np.array([1, 3]), grad=False),
        Case(lambda x: np.ix_(x, []), np.array([0, 2]), grad=False),
    ],
    "numpy.lib.stride_tricks.sliding_window_view": [
        Case(lambda x: np.lib.stride_tricks.sliding_window_view(x, 3), V),
        Case(lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3)), A),
        Case(lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=0), A),
        Case(lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(-1, 1)), B),
        Case(lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(1, 1)), A),
    ],
}
