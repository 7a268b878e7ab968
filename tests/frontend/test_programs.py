"""Programs as people write them: dynamic programming, stencils, filters, swaps, masks, try and except."""

import numpy as np
import pytest

import wholestep as ws
import wholestep.numpy as wnp

X = np.random.default_rng(1).normal(size=6) + 0.1
PROGRAMS = {}


def program(f):
    PROGRAMS[f.__name__] = f
    return f


@program
def dynamic_programming(x):
    table = wnp.zeros((5, 5))
    for i in range(1, 5):
        for j in range(1, 5):
            table[i, j] = np.logaddexp(table[i - 1, j], table[i, j - 1]) + x[i - 1] * x[j]
    return table[-1, -1]


@program
def swapped_rows_and_columns(x):
    y = x.reshape(2, 3).copy()
    y[[0, 1]] = y[[1, 0]]
    y[:, 0], y[:, 1] = y[:, 1].copy(), y[:, 0].copy()
    return (y * np.arange(6.0).reshape(2, 3)).sum()


@program
def masks(x):
    y = x.copy()
    y[y > 0] *= -2
    y[~(x > 0)] += x[~(x > 0)] ** 2
    y[np.abs(y) > 1] = 0.5
    return (y * x).sum() + y[y < 0].sum()


@program
def stencil(x):
    u = x.copy()
    for _ in range(4):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
    return (u**2).sum()


@program
def kalman_filter(x):
    p, m, likelihood = np.eye(2), np.zeros(2), 0.0
    a, h = np.array([[1, 0.1], [0, 1]]), np.array([[1.0, 0]])
    for i in range(6):
        m, p = a @ m, a @ p @ a.T + 0.1 * np.eye(2)
        s = h @ p @ h.T + 0.5
        k, r = p @ h.T / s, x[i] - h @ m
        likelihood = likelihood - 0.5 * (r @ r / s[0, 0] + np.log(s[0, 0]))
        m, p = m + k @ r, p - k @ h @ p
    return likelihood


@program
def accumulated(x):
    total = 0
    for v in x:
        total += v * v
    bins = wnp.zeros(3)
    np.add.at(bins, [0, 1, 1, 2, 0, 0], x)
    return total * bins[1] + bins.prod()


@program
def views_of_views(x):
    y = x * 1.0
    a, b = y[::2], y[1::2]
    a += b
    b *= a
    c = y.reshape(2, 3)
    c[:, 1] = c[:, 0] * c[:, 2]
    d = c.T
    d[0] -= 1
    np.multiply(d, 2, out=d)
    return np.sin(y).sum() + a[0] * b[1]


@program
def numpy_scalars_are_rebound(x):
    a = x[0]
    b = a
    a += 1
    c = x.sum()
    d = c
    c *= 2
    return a * b + c * d


@program
def fancy(x):
    y = x.reshape(2, 3)
    rows, columns = np.array([0, 1, 1]), np.array([2, 0, 0])
    return y[rows, columns].prod() + y[:, [0, 2]].sum() ** 2 + y[y > 0].sum() + y[np.ix_([1], [0, 2])].sum()


@program
def products(x):
    return (
        np.einsum("i,j,ij->", x, x, np.ones((6, 6))) + np.outer(x, x)[2, 3] + np.tensordot(x, x, 1) + np.kron(x, x)[7]
    )


@program
def linear_algebra(x):
    a = np.outer(x, x) + np.diag(np.arange(1.0, 7))
    factor = np.linalg.cholesky(a)
    return np.log(np.diag(factor)).sum() + x @ np.linalg.solve(a, x) + np.linalg.eigvalsh(a)[-1]


@program
def spectrum(x):
    return (np.abs(np.fft.rfft(x)) ** 2).sum() + np.fft.ifft(np.fft.fft(x) * np.arange(6)).real[2]


@program
def a_closed_over_array_changes(x):
    w = np.arange(36.0).reshape(6, 6) / 36
    h = np.tanh(w @ x)
    w[0] = 0
    return (h * (w @ x)).sum()


EAGER = {}


def eager(f):
    EAGER[f.__name__] = f
    return f


@eager
def builtins_on_values(x):
    return sum(v**3 for v in x) + max(x) * min(x) + abs(x[1])


@eager
def try_and_except(x):
    k = np.outer(x, x) - np.eye(6)
    while True:
        try:
            factor = np.linalg.cholesky(k)
            break
        except np.linalg.LinAlgError:
            k = k + 3.1 * np.eye(6)
    return factor[2, 1] + factor[5, 5]


def differences(f, x, h=1e-4):
    weights = ((-2, 1 / 12), (-1, -8 / 12), (1, 8 / 12), (2, -1 / 12))
    return np.array([sum(w * float(np.asarray(f(x + k * h * e)).sum()) for k, w in weights) / h for e in np.eye(6)])


WAYS = {
    "eager": ws.grad,
    "jit": lambda f: ws.jit(ws.grad(f)),
    "forward": ws.jacfwd,
    "vmap": lambda f: lambda x: ws.vmap(ws.grad(f))(np.stack([x, 0.9 * x]))[0],
    "checkpoint": lambda f: ws.grad(ws.checkpoint(f)),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, way):
    f = PROGRAMS[name]
    scalar = lambda x: f(x).sum()  # noqa: E731
    np.testing.assert_allclose(WAYS[way](scalar)(X), differences(f, X), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", EAGER)
def test_program_that_asks_for_values(name):
    f = EAGER[name]
    np.testing.assert_allclose(ws.grad(f)(X), differences(f, X), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(ws.jacfwd(f)(X), differences(f, X), rtol=1e-6, atol=1e-7)
