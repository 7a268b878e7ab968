"""Making, converting and asking arrays, for the coverage tests; these are written with wholestep.numpy."""

import numpy as np
from tests.coverage.cases import Case

import wholestep.numpy as wnp

rng = np.random.default_rng(31)
A, V, S = rng.normal(size=(3, 4)), rng.normal(size=4), np.float64(0.7)
C, F4, I8 = rng.normal(size=(2, 3)) + 1j, rng.normal(size=(2, 3)).astype("f4"), np.arange(6).reshape(2, 3)


def filled(make):
    """An array that a traced value is written into."""

    def f(x):
        y = make()
        y[1] = x
        return y * 2

    return f


def like(f):
    """Cases with a traced prototype, with a plain one whose result takes a traced value, and with another dtype."""

    def assigned(x):
        y = f(np.ones((2, 4)))
        y[...] = 0.0
        y[0] = x
        return y

    return [
        Case(lambda x: f(x) * 0 + x, A),
        Case(assigned, V),
        Case(lambda x: f(x, dtype="f4") * 0, A),
        Case(lambda x: f(x, shape=(2,)) * 0, A),
    ]


CASES = {
    "numpy.zeros": [
        Case(filled(lambda: wnp.zeros((3, 4))), V),
        Case(filled(lambda: wnp.zeros(3, "f4")), S, grad=False),
        Case(filled(lambda: wnp.zeros((2, 2), int)), np.int64(3)),
    ],
    "numpy.ones": [Case(filled(lambda: wnp.ones((3, 4))), V), Case(filled(lambda: wnp.ones(3, dtype=complex)), S)],
    "numpy.empty": [Case(lambda x: filled(lambda: wnp.empty((3, 4)))(x)[1], V)],
    "numpy.full": [
        Case(filled(lambda: wnp.full((3, 4), 2.5)), V),
        Case(lambda x: wnp.full(3, x), S),
        Case(lambda x: wnp.full((2, 4), x), V),
        Case(filled(lambda: wnp.full(3, 2)), np.int64(7)),
    ],
    "numpy.eye": [Case(filled(lambda: wnp.eye(3, 4, 1)), V), Case(filled(lambda: wnp.eye(3)), S)],
    "numpy.identity": [
        Case(filled(lambda: wnp.identity(4)), V),
        Case(filled(lambda: wnp.identity(3, "f4")), S, grad=False),
    ],
    "numpy.tri": [Case(filled(lambda: wnp.tri(3, 4, -1)), V)],
    "numpy.zeros_like": like(wnp.zeros_like),
    "numpy.ones_like": like(wnp.ones_like),
    "numpy.empty_like": [*like(wnp.empty_like)[1:2]],
    "numpy.full_like": [*like(lambda x, **k: wnp.full_like(x, 2.0, **k)), Case(lambda x, v: wnp.full_like(x, v), A, S)],
    "numpy.array": [
        Case(lambda x: wnp.array(x), A),
        Case(lambda x: wnp.array([x, x * 2, 3.0]), S),
        Case(lambda x, y: wnp.array([[x, 1], [y, 2]]), S, np.float64(2.0)),
        Case(lambda x: wnp.array([x, [1, 2, 3, 4]]), V),
        Case(lambda x: wnp.array([x, 2]), np.float32(0.3)),
        Case(lambda x: wnp.array([x, 1j]), S),
        Case(lambda x: wnp.array([x], dtype="f4", ndmin=3), S, grad=False),
        Case(lambda x: wnp.array(x, ndmin=2), V),
        Case(lambda x: wnp.array((x, (1.0, 2.0, 3.0, 4.0))), V),
        Case(filled(lambda: wnp.array([[1.0, 2.0], [3.0, 4.0]])), S),
        Case(lambda x: wnp.add([x, 1.0], 2.0), S),
        Case(lambda x: wnp.sum([x, x**2]), S),
        Case(lambda x: wnp.r_[x, 1.0, 2:4], V),
        Case(lambda x, y: wnp.c_[x, y], V, V * 2),
        Case(lambda x, y: wnp.c_[x, y], A, V[:3]),
        Case(lambda x: wnp.r_["0,2", x, x], V),
        Case(lambda x: wnp.r_["1,2,0", x, x], V),
        Case(lambda x: wnp.r_[x, 2], F4[0]),
        Case(lambda x, y: wnp.vectorize(lambda a, b: a * b if np.shape(a) == () else 0)(x, y), A, V),
        Case(lambda x: wnp.vectorize(lambda a: (a, a * 2))(x), V),
        Case(lambda x: wnp.vectorize(lambda a: np.outer(a, a), signature="(n)->(n,n)")(x), A),
        Case(lambda x: wnp.float32(x) * 2, S, grad=False),
        Case(lambda x: wnp.float64(x), F4),
        Case(lambda x: x.astype(wnp.float32), A, grad=False),
    ],
    "numpy.asarray": [
        Case(lambda x: wnp.asarray(x), A),
        Case(lambda x: wnp.asarray([x, 1.0]), S),
        Case(lambda x: wnp.asarray(x, "c8"), F4, grad=False),
        Case(lambda x: wnp.asarray(x), S),
    ],
    "numpy.asanyarray": [Case(lambda x: wnp.asanyarray(x), A)],
    "numpy.ascontiguousarray": [
        Case(lambda x: wnp.ascontiguousarray(x.T), A),
        Case(lambda x: wnp.ascontiguousarray(x), S),
    ],
    "numpy.asfortranarray": [Case(lambda x: wnp.asfortranarray(x), A), Case(lambda x: wnp.asfortranarray(x), V)],
    "numpy.asarray_chkfinite": [Case(lambda x: wnp.asarray_chkfinite(x), A)],
    "numpy.require": [
        Case(lambda x: wnp.require(x, "f8", ["C", "W"]), A),
        Case(lambda x: wnp.require(x, None, "F"), A),
    ],
    "numpy.arange": [
        Case(lambda x: wnp.arange(x, 5.0), S, known=True),
        Case(lambda x, h: wnp.arange(x, 5.0, h), S, np.float64(1.3), known=True),
    ],
    "numpy.fromfunction": [Case(lambda x: wnp.fromfunction(lambda i, j, v: i * v[0] + j, (2, 3), v=x), V)],
    "numpy.fromiter": [
        Case(lambda x: wnp.fromiter((2 * v for v in x), float), V),
        Case(lambda x: wnp.fromiter(x, "f4", 2), V, grad=False),
    ],
    "numpy.astype": [Case(lambda x: np.astype(x, np.complex128), A), Case(lambda x: np.astype(x, "f4"), A, grad=False)],
    "numpy.shape": [Case(lambda x: np.zeros(np.shape(x)) + x, A), Case(lambda x: wnp.shape([x, 1.0])[0] * x, S)],
    "numpy.ndim": [Case(lambda x: np.ndim(x) * x, A)],
    "numpy.size": [Case(lambda x: np.size(x) * x, A), Case(lambda x: np.size(x, 1) * x, A)],
    "numpy.result_type": [Case(lambda x: np.zeros(2, np.result_type(x, 1.0, np.int8)) + x[0, 0], F4)],
    "numpy.can_cast": [Case(lambda x: x * np.can_cast(x.dtype, "f4"), A)],
    "numpy.min_scalar_type": [Case(lambda x: np.zeros(2, np.min_scalar_type(x)) + x[0, 0], F4)],
    "numpy.common_type": [Case(lambda x: np.zeros(2, np.common_type(x, I8)) + x[0, 0], F4)],
    "numpy.iscomplexobj": [Case(lambda x: x * np.iscomplexobj(x), C), Case(lambda x: x * np.iscomplexobj(x), A)],
    "numpy.isrealobj": [Case(lambda x: x * np.isrealobj(x), C)],
    "numpy.isscalar": [Case(lambda x: x * wnp.isscalar(x), A), Case(lambda x: x * wnp.isscalar(x), S)],
    "numpy.may_share_memory": [Case(lambda x: x * np.may_share_memory(x, x[1:]) + np.may_share_memory(x, x * 1), A)],
    "numpy.shares_memory": [
        Case(lambda x: x * np.shares_memory(x[:2], x[1:]) + np.shares_memory(x[:, ::2], x[:, 1::2]), A)
    ],
    "numpy.array_repr": [Case(lambda x: x * (len(np.array_repr(x)) > 3), A)],
    "numpy.array_str": [Case(lambda x: x * (len(np.array_str(x)) > 3), A)],
    "numpy.array2string": [Case(lambda x: x * (len(np.array2string(x)) > 3), A)],
}
