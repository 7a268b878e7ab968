"""Views by reshape: results have the memory order of NumPy's, so that writes reach the same arrays as there."""

import numpy as np
import pytest

import wholestep as ws

X = np.arange(24.0).reshape(2, 3, 4) / 10
F = np.asfortranarray(np.arange(24.0).reshape(2, 3, 4))

SOURCES = {
    "row by row": lambda x: x + 1,
    "transposed": lambda x: x.T + 1,
    "permuted": lambda x: np.sin(x.transpose(1, 2, 0)),
    "two orders": lambda x: x.transpose(2, 1, 0) * x.transpose(2, 1, 0).copy(),
    "broadcast": lambda x: x.transpose(2, 0, 1) + x[0, 0, 0],
    "with a plain column-major array": lambda x: np.moveaxis(x, 0, -1) * np.moveaxis(F, 0, -1),
    "with a closed-over one": lambda x: F * 2.0 * x[0, 0, 0] + x * 0.0,
    "copy method": lambda x: x.T.copy(),
    "np.copy": lambda x: np.copy(x.T),
    "column-major copy": lambda x: x.copy(order="F"),
    "astype": lambda x: x.T.astype(np.float32),
    "of a result": lambda x: np.exp((x.T * 2) - 1),
    "flipped": lambda x: x[::-1, :, ::-1] * 2,
    "every second": lambda x: x[:, ::2].T * 2,
}
RESHAPES = {
    "flat": lambda z: z.reshape(-1),
    "ravel": lambda z: z.ravel(),
    "merged": lambda z: z.reshape(z.shape[0], -1),
    "split": lambda z: z.reshape(z.shape[0], 2, -1),
    "transposed back": lambda z: z.T.reshape(-1),
}


def program(source, reshape):
    def f(x):
        z = SOURCES[source](x)
        w = RESHAPES[reshape](z)
        w[0] = 99.0
        z[-1, -1, -1] = -5.0
        return z * 1.0, w * 1.0

    return f


@pytest.mark.parametrize("reshape", RESHAPES)
@pytest.mark.parametrize("source", SOURCES)
def test_writes_reach_what_they_reach_in_numpy(source, reshape):
    f = program(source, reshape)
    expected = f(X.copy())
    for found in (ws.jit(f)(X), ws.jvp(f, (X,), (X,))[0], ws.vmap(f)(X[None].repeat(2, 0))):
        for a, b in zip(found, expected, strict=True):
            b = np.broadcast_to(b, a.shape)
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_column_major_argument_is_copied_by_reshape():
    def f(x):
        w = x.reshape(-1)
        w[0] = 99.0
        return (x * x).sum() + w.sum()

    x = np.asfortranarray(X[0])
    expected = 2 * x + 1
    expected[0, 0] -= 1
    np.testing.assert_allclose(ws.grad(f)(x), expected)
    np.testing.assert_allclose(ws.value_and_grad(f)(x)[0], f(x.copy(order="F")))


@pytest.mark.parametrize(
    "moved",
    [
        lambda x: x.reshape(np.array([3, 2])),
        lambda x: np.reshape(x, range(1, 4)),
        lambda x: x.transpose(np.argsort((1, 0))),
        lambda x: np.broadcast_to(x, np.array([4, 2, 3])),
        lambda x: np.resize(x, np.array([2, 2])),
    ],
)
def test_arrays_of_sizes_and_axes_are_taken_as_numpy_takes_them(moved):
    x = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(ws.jit(moved)(x), moved(x))
