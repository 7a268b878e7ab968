"""Reports of derivatives that are wrong at ordinary points: products, transforms, nested and forward modes."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep as ws
from wholestep_tools.audit.correctness.reports.report import Report


def nested_slopes(x: Any) -> Any:
    """A derivative within a derivative, of two variables that must not be confused."""
    return x * ws.grad(lambda y: x + y)(1.0 * x)


def directional(x: Any, v: Any) -> Any:
    """The forward-mode derivative of a `where` with a constant branch."""
    return ws.jvp(lambda t: np.where(t > 100.0, np.nan, t * t), (x,), (v,))[1]


def curvature_of_product(x: Any) -> Any:
    """The second derivatives of a product."""
    return ws.hessian(np.prod)(x)


def power_spectrum(x: Any) -> Any:
    """The power in half of the frequencies."""
    kept = np.arange(16).reshape(4, 4) < 8
    return np.sum(np.abs(np.fft.fft2(x) * kept) ** 2)


def energy(x: Any, y: Any) -> Any:
    """The power of a transform of two real arrays as one complex one."""
    return np.sum(np.abs(np.fft.fft2(x + 1j * y)) ** 2)


def low_pass(x: Any) -> Any:
    """The square of a signal of which the real transform lost its last frequency."""
    return np.sum(np.fft.irfft(np.fft.rfft(x) * np.array([1.0, 1.0, 1.0, 0.0]), 6) ** 2) / 2


def normalized(x: Any, gamma: Any) -> Any:
    """A layer normalization over the channels of a signal, times a vector."""
    mean = x.mean(axis=1, keepdims=True)
    var = x.var(axis=1, keepdims=True)
    return np.sum(gamma * (x - mean) / np.sqrt(var + 1e-5))


def spread(x: Any, w: Any) -> Any:
    """A transposed convolution of one tap with steps of two, written out, and weighted."""
    y = np.zeros(2 * x.shape[-1] - 1)
    y[::2] = x * w
    return y * np.array([1.5, 0.0, 0.7])


def product_of_rest(x: Any) -> Any:
    """The derivative of a product in each factor, with zeros among the others."""
    return np.array([np.prod(np.delete(x, i)) for i in range(len(x))])


def cumulative_slopes(x: Any) -> Any:
    """The gradient of the sum of all products of first factors, term by term."""
    out = np.zeros(len(x))
    for last in range(len(x)):
        for i in range(last + 1):
            out[i] += np.prod(np.delete(x[: last + 1], i))
    return out


ZEROS = np.array([2.0, 0.0, 0.0, 3.0])
COMPLEX = np.array([1 + 2j, 3 - 1j, -2 + 0.5j])
GRID = np.cos(np.arange(16.0)).reshape(4, 4)
HALF = np.fft.ifft2(np.fft.fft2(GRID) * (np.arange(16).reshape(4, 4) < 8)).real * 32
SIGNAL = np.array([1.0, -2.0, 3.0, 0.5, 4.0, -1.0])
NYQUIST = np.array([1.0, -1.0] * 3)
ROWS = np.cos(np.arange(12.0)).reshape(1, 6, 2)
REPORTS = (
    Report(
        "denizyuret/AutoGrad.jl #75",
        "the derivatives of an inner and an outer function are confused",
        ws.grad(nested_slopes),
        (5.0,),
        1.0,
    ),
    Report(
        "tinygrad #9597",
        "two constants of the same value are taken for one, and each gets the gradient of both",
        ws.grad(lambda a, b: a + b, (0, 1)),
        (3.0, 3.0),
        (1.0, 1.0),
    ),
    Report(
        "mlx #2451",
        "the derivatives of an angle are divided by the square of the radius twice",
        ws.vmap(ws.grad(np.arctan2, (0, 1))),
        (np.array([1.0, 2.0]), np.array([2.0, 3.0])),
        (np.array([2 / 5, 3 / 13]), np.array([-1 / 5, -2 / 13])),
    ),
    Report(
        "mlx #3627",
        "a tangent is zero where the other branch of a choice is a constant",
        directional,
        (np.array([2.0, 3.0]), np.array([1.0, 10.0])),
        np.array([4.0, 60.0]),
    ),
    Report(
        "mlx #3433",
        "the gradient of a product of complex numbers lacks a conjugate",
        ws.grad(lambda z: np.real(np.prod(z))),
        (COMPLEX,),
        np.conj(product_of_rest(COMPLEX)),
    ),
    Report(
        "tinygrad #17404",
        "the gradient of a product is nan where a factor is zero",
        ws.grad(np.prod),
        (np.array([0.0, 2.0, 3.0]),),
        np.array([6.0, 0.0, 0.0]),
    ),
    Report(
        "pytorch #106789",
        "second derivatives of a product with two zeros are zero",
        curvature_of_product,
        (ZEROS,),
        np.array([[0.0] * 4, [0.0, 0.0, 6.0, 0.0], [0.0, 6.0, 0.0, 0.0], [0.0] * 4]),
    ),
    Report(
        "tensorflow #119430",
        "the gradient of a cumulative product is zero in factors that are zero",
        ws.grad(lambda x: np.sum(np.cumprod(x))),
        (ZEROS,),
        cumulative_slopes(ZEROS),
    ),
    Report(
        "tracel-ai/burn #3864",
        "the gradient of a cumulative product is nan from the first zero on",
        ws.grad(lambda x: np.sum(np.cumprod(x))),
        (np.array([2.0, 0.0, 3.0, 4.0]),),
        np.array([1.0, 32.0, 0.0, 0.0]),
    ),
    Report(
        "HIPS/autograd #185",
        "the gradient of a Fourier transform is the transform instead of its conjugate",
        ws.grad(power_spectrum),
        (GRID,),
        HALF,
    ),
    Report(
        "EnzymeAD/Enzyme-JAX #2071",
        "the gradient in the imaginary part of what is transformed has the wrong sign",
        ws.grad(energy, (0, 1)),
        (GRID, GRID.T**2),
        (32 * GRID, 32 * GRID.T**2),
    ),
    Report(
        "SciML/FluxNeuralOperators.jl #151",
        "the gradient of a real Fourier transform counts frequencies wrongly",
        ws.grad(low_pass),
        (SIGNAL,),
        SIGNAL - NYQUIST * (SIGNAL @ NYQUIST) / 6,
    ),
    Report(
        "apache/mxnet #18102",
        "the gradient of a contraction is that of other operands",
        ws.grad(lambda a, b: np.sum(np.einsum("bnij,bnjc->bnic", a, b) ** 2) / 2, (0, 1)),
        (GRID.reshape(1, 1, 4, 4), GRID[:, :2].reshape(1, 1, 4, 2)),
        ((GRID @ GRID[:, :2] @ GRID[:, :2].T)[None, None], (GRID.T @ GRID @ GRID[:, :2])[None, None]),
    ),
    Report(
        "LinjianMa/AutoHOOT #69",
        "the gradient of a contraction that only sums is wrong",
        ws.grad(lambda a: np.einsum("ij->", a) ** 2),
        (np.arange(6.0).reshape(2, 3),),
        np.full((2, 3), 30.0),
    ),
    Report(
        "pytorch #63314",
        "the gradient of a transposed convolution with steps of two is read from the wrong place",
        ws.grad(lambda x, w: np.sum(spread(x, w)), (0, 1)),
        (np.array([-1.9954, -0.3385]), -0.7767),
        (-0.7767 * np.array([1.5, 0.7]), 1.5 * -1.9954 + 0.7 * -0.3385),
    ),
    Report(
        "pytorch #108670",
        "a normalization has other gradients once it has been compiled and called again",
        ws.grad(normalized, (0, 1)),
        (ROWS, np.ones((1, 6, 1))),
        (
            np.zeros((1, 6, 2)),
            np.sum((ROWS - ROWS.mean(1, keepdims=True)) / np.sqrt(ROWS.var(1, keepdims=True) + 1e-5), 2, keepdims=True),
        ),
    ),
)
