"""Compiled Fourier transforms of every kind of length, along every axis: those of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.lower.test_added_rows import kernels_of

import wholestep as ws
from wholestep.kernel.lang import axes_of
from wholestep.lower.legalize.fft import is_rader_length, needs_convolution, powers_of_root

LENGTHS = (1, 2, 9, 38, 60, 91, 121, 128, 131, 257, 262, 263, 323, 1000, 17161)
"""Among them products of all prime factors up to 13, primes whose convolutions have short factors and not, and their
multiples."""


def numbers(*shape: int, complex_too: bool = True) -> Any:
    rng = np.random.default_rng(0)
    return rng.normal(size=shape) + (1j * rng.normal(size=shape) if complex_too else 0)


def test_lengths_are_of_every_kind() -> None:
    kinds = {(is_rader_length(n), needs_convolution(n), n % 2) for n in LENGTHS}
    assert len(kinds) == 5  # by factors or by convolutions of two kinds, odd and even


@pytest.mark.parametrize("n", LENGTHS)
def test_transforms_of_every_length_are_those_of_numpy(n: int) -> None:
    x, z, half = numbers(3, n, complex_too=False), numbers(3, n), numbers(3, n // 2 + 1)
    cases = ((np.fft.fft, z), (np.fft.ifft, z), (np.fft.fft, x), (np.fft.ifft, x), (np.fft.rfft, x))
    rows = ((lambda z: np.fft.fft(z, axis=0), z.T), (lambda x: np.fft.rfft(x, axis=0), x.T))
    inverse = ((lambda h: np.fft.irfft(h, n), half), (lambda h: np.fft.irfft(h, n, axis=0), half.T))
    for function, given in (*cases, *rows, *inverse):
        found, want = ws.jit(function)(given), function(given)
        assert found.dtype == want.dtype
        np.testing.assert_allclose(found, want, rtol=0, atol=1e-13 * np.abs(want).max())


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1), (1, 0), (2, 0), (0, 1, 2), (0, 0)])
@pytest.mark.parametrize("inverse", [False, True])
def test_real_numbers_have_half_of_the_terms_computed(axes: tuple[int, ...], inverse: bool) -> None:
    x = numbers(5, 4, 3, complex_too=False)

    def function(x: Any) -> Any:
        return (np.fft.ifftn if inverse else np.fft.fftn)(x, axes=axes)

    np.testing.assert_allclose(ws.jit(function)(x), function(x), rtol=0, atol=1e-12)
    y = function(x)
    slope = ws.jit(ws.grad(lambda x: np.sum(np.abs(function(x)) ** 3)))(x)
    want = function(3 * np.abs(y) * np.conj(y)).real  # the transform is its own transpose
    np.testing.assert_allclose(slope, want, rtol=0, atol=1e-12 * np.abs(want).max())
    whole = [node for node in ws.trace(function)(x).nodes if node.op.name == "rfft"]
    assert bool(whole) == (len(set(axes)) == len(axes))


def test_a_row_does_not_change_the_rows_beside_it() -> None:
    x = numbers(4, 131, complex_too=False)
    want = np.fft.fft(x[1:])
    x[0] = np.nan
    np.testing.assert_allclose(ws.jit(np.fft.fft)(x)[1:], want, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [131, 257, 65537])
def test_powers_of_a_root_are_all_numbers_but_0(n: int) -> None:
    powers, exponents = powers_of_root(n)
    np.testing.assert_array_equal(np.sort(powers), np.arange(1, n))
    np.testing.assert_array_equal(powers[exponents], np.arange(1, n))


def test_a_transform_has_one_kernel_for_each_factor() -> None:
    names = [kernel.name for kernel in kernels_of(np.fft.rfft, (3, 2048))]
    assert names == ["dft", "dft", "dft", "paired_terms"]


def test_vectors_lie_along_a_transform_whose_terms_alternate() -> None:
    for kernel in kernels_of(np.fft.rfft, (300, 128)):
        assert [axis.extent for axis in axes_of(kernel) if axis.lanes > 1] in ([8], [31])
