"""The Fourier transforms agree with their definition as sums, and transpose into each other exactly."""

import numpy as np
import pytest

from wholestep import dtypes
from wholestep.backends.reference import interpret
from wholestep.errors import DtypeError, ShapeError
from wholestep.ir.build import build, inline
from wholestep.ir.types import array_type
from wholestep.primitives.family import REGISTRY, zeros
from wholestep.primitives.fft import fft, irfft, rfft
from wholestep.transforms.reverse import vjp


def graph_of(primitive, *types, **params):
    return build(lambda *xs: [primitive(*xs, **params)], types)[0]


def typed(shape, dtype):
    return array_type(shape, dtypes.from_short(dtype))


def fourier(n, sign):
    """The matrix of e^(sign 2 pi i j k / n)."""
    k = np.arange(n)
    return np.exp(sign * 2j * np.pi * np.outer(k, k) / n)


def real_matrix(graph, n_in, n_out):
    """The matrix of a linear graph over the real numbers, by unit vectors; a complex number is two coordinates."""

    def split(z):
        return np.concatenate([z.real, z.imag]) if np.iscomplexobj(z) else z

    t = graph.in_types[0]
    units = np.eye(n_in)
    if t.dtype.kind == "c":
        units = np.concatenate([units, 1j * units])
    assert graph.out_types[0].shape == (n_out,)
    return np.stack([split(interpret(graph, [u.astype(t.dtype)])[0]) for u in units], axis=1)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("inverse", [False, True])
def test_fft_is_the_sum_and_its_transpose_the_conjugate(n, inverse, rng):
    z = rng.normal(size=n) + 1j * rng.normal(size=n)
    graph = graph_of(fft, typed((n,), "c128"), axes=(0,), inverse=inverse)
    sign = 1 if inverse else -1
    np.testing.assert_allclose(interpret(graph, [z])[0], fourier(n, sign) @ z, atol=1e-12)
    pulled = interpret(vjp(graph, (True,), (True,)), [z, z])[0]
    np.testing.assert_allclose(pulled, fourier(n, sign).conj().T @ z, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 8])
def test_real_transforms_are_exact_adjoints(n):
    half = n // 2 + 1
    forth = graph_of(rfft, typed((n,), "f64"), axis=0)
    back = graph_of(irfft, typed((half,), "c128"), axis=0, n=n)
    for graph, sizes in ((forth, (n, half)), (back, (half, n))):
        matrix = real_matrix(graph, *sizes)
        pull = vjp(graph, (True,), (True,))
        free = build(lambda g, p=pull, t=graph.in_types[0]: _inlined(p, t, g), [graph.out_types[0]])[0]
        np.testing.assert_allclose(real_matrix(free, *sizes[::-1]), matrix.T, atol=1e-12)


def _inlined(pull, of, g):
    """The pullback as a function of the cotangent alone: that of a linear function does not depend on the primal."""
    return inline(pull, [zeros(of), g])


@pytest.mark.parametrize("n", [6, 7])
def test_irfft_ignores_what_a_real_signal_cannot_have(n):
    z = np.arange(1.0, n // 2 + 2) + 1j
    y = interpret(graph_of(irfft, typed(z.shape, "c128"), axis=0, n=n), [z])[0]
    z[0] = z[0].real
    if n % 2 == 0:
        z[-1] = z[-1].real
    whole = np.concatenate([z, z[1 : (n + 1) // 2][::-1].conj()])
    np.testing.assert_allclose(y, (fourier(n, 1) @ whole).real, atol=1e-12)


def test_single_precision_stays():
    for primitive, t, params in (
        (fft, typed((4,), "c64"), {"axes": (0,), "inverse": False}),
        (rfft, typed((4,), "f32"), {"axis": 0}),
        (irfft, typed((3,), "c64"), {"axis": 0, "n": 4}),
    ):
        graph = graph_of(primitive, t, **params)
        assert interpret(graph, [np.ones(t.shape, t.dtype)])[0].dtype == graph.out_types[0].dtype
        assert graph.out_types[0].dtype.itemsize in (4, 8)


@pytest.mark.parametrize(
    ("name", "type", "params", "error", "text"),
    [
        ("fft", typed((3,), "f64"), {"axes": (0,), "inverse": False}, DtypeError, "fft: does not take f64"),
        ("rfft", typed((3,), "f16"), {"axis": 0}, DtypeError, "rfft: does not take f16"),
        ("rfft", typed((3,), "c128"), {"axis": 0}, DtypeError, "rfft: does not take c128"),
        ("rfft", typed((2, 0), "f64"), {"axis": 1}, ShapeError, r"rfft: no element to transform in f64\[2, 0\]"),
        ("fft", typed((3,), "c64"), {"axes": (0, 0), "inverse": True}, ShapeError, "fft: axes .* repeat"),
        ("fft", typed((3,), "c64"), {"axes": (1,), "inverse": True}, ShapeError, "fft: axis 1 is outside"),
        ("irfft", typed((3,), "c64"), {"axis": 0, "n": 6}, ShapeError, "irfft: 6 numbers come of 4 terms"),
        ("irfft", typed((1,), "c64"), {"axis": 0, "n": 0}, ShapeError, "irfft: no element"),
    ],
)
def test_refusals_name_the_operation_and_the_type(name, type, params, error, text):
    with pytest.raises(error, match=text):
        graph_of(REGISTRY[name], type, **params)


@pytest.fixture
def rng():
    return np.random.default_rng(0)
