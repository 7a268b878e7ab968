"""Odd arguments: those that NumPy takes are taken, and refusals name the function and the types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wholestep as ws
import wholestep.numpy as wnp
from wholestep.errors import ArgumentError, DtypeError, ParameterError, ShapeError

X = np.array([1.0, -2.0, 3.0, 0.5])


@pytest.mark.parametrize(
    ("f", "operand"),
    [
        (lambda x: np.sign(x, None), X),
        (lambda x: np.frexp(x, None), X),
        (lambda x: np.frexp(x, wnp.zeros((2, 4), np.float64)), X),
        (lambda x: wnp.full_like(7, x), np.ones((1, 1))),
        (lambda x: np.fft.ifft(x, np.int64(2)), X),
        (lambda x: np.fft.irfft(x), X.astype(np.float16)),
        (lambda x: np.fft.hfft(x), X.astype(np.float16)),
        (lambda x: np.fft.irfftn(x), X.astype(np.float16).reshape(2, 2)),
        (lambda x: np.fft.fftn(x), np.float64(2.0)),
        (lambda x: np.asfortranarray(x), np.array(2.0)),
        (lambda x: np.polymul((0, 0), x), X),
        (lambda x: np.polymul(x, (0, 1, 2)), X),
        (lambda x: np.polyder(x, 100), X),
        (lambda x: np.diff(x, 100), X),
        (lambda x: np.polynomial.polynomial.polyval(0.5, x), X.astype(np.float32)),
        (lambda x: np.polynomial.polynomial.polyval(True, x), X.astype(np.float32)),
        (lambda x: np.polynomial.polynomial.polyval(2.0, x), np.arange(3)),
        (lambda x: np.linalg.solve(np.eye(4, dtype=np.uint8), x), X.astype(np.complex64)),
        (lambda x: np.linspace(x, 1, 0, retstep=True), X),
        (lambda x: np.add(1, x, out=x.copy()), np.arange(4, dtype=np.uint8)),
    ],
)
def test_what_numpy_takes_has_its_values_and_types(f: Any, operand: Any) -> None:
    wanted, found = [x if isinstance(x, tuple) else (x,) for x in (f(operand), ws.jit(f)(operand))]
    for x, y in zip(found, wanted, strict=True):
        assert (x.shape, x.dtype) == (np.shape(y), np.asarray(y).dtype)
        np.testing.assert_allclose(x, y, rtol=1e-2 if x.dtype == np.float16 else 1e-6)


@pytest.mark.parametrize(
    ("f", "kind", "text"),
    [
        (lambda x: np.tile(x, b"x"), ArgumentError, r"numpy.tile: 'bytes' object .*: \(f64\[4\], b'x'\)"),
        (lambda x: np.nanmean(x, where="left"), DtypeError, "array: str is not an array"),
        (lambda x: np.fft.fft(x, 0), ParameterError, "numpy.fft.fft: Invalid number of FFT data points"),
        (lambda x: np.logical_and(x, "C", wnp.zeros(4, bool)), DtypeError, "array: str is not an array"),
        (lambda x: np.require(x, requirements=(0,)), ParameterError, "require: requirements="),
        (lambda x: np.histogram(x * 1j), DtypeError, "histogram: complex numbers"),
        (lambda x: np.array_split(x, 2**40), ParameterError, "array_split: 1099511627776 parts"),
        (lambda x: np.vander(x, 2**40), ParameterError, "vander: 1099511627776 parts"),
        (lambda x: np.vander(x, -1), ParameterError, "vander: N=-1"),
        (lambda x: np.polyder(np.outer(x, x)), ShapeError, "polyder: coefficients are an array of one axis"),
        (lambda x: np.max(x, initial=(1, 2)), ParameterError, "max: initial= is one number"),
        (lambda x: np.interp(x * 1j, X, X), DtypeError, r"interp: complex places have no order: x is c128\[4\]"),
        (lambda x: np.round(x > 0, 1), DtypeError, "round: booleans have no decimals"),
        (lambda x: np.bincount([0, 1, 2, 1], weights=x * 1j), DtypeError, r"bincount: weights of c128\[4\] would lose"),
        (lambda x: np.tile(x, -1), ShapeError, r"shape: a size of \(-1, 4\) is negative"),
        (lambda x: np.repeat(x, -1), ShapeError, r"shape: a size of \(4, -1\) is negative"),
        (lambda x: np.full(-2, x[0]), ShapeError, r"shape: a size of \(-2,\) is negative"),
        (lambda x: np.histogram(x, 0), ParameterError, "histogram: bins=0 is not positive"),
        (lambda x: np.gradient(x, edge_order=0), ParameterError, "gradient: edge_order=0"),
        (lambda x: wnp.full((), x), ShapeError, "full: .* does not broadcast to shape"),
        (lambda x: np.cov(x, fweights=3), ShapeError, r"cov: fweights= of shape \(\) for 4 observations"),
    ],
)
def test_what_is_refused_names_the_function_and_the_line(f: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=rf"{text}(.|\n)*test_odd_arguments"):
        ws.jit(f)(X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.max(x, initial=-1),
        lambda x: np.sum(x, initial=-1),
        lambda x: np.full_like(x, 300),
        lambda x: np.insert(x, 0, [300]),
        lambda x: np.piecewise(x, [x > 1], [300, 0]),
        lambda x: np.put(x.copy(), 0, 300),
        lambda x: np.putmask(x.copy(), x > 1, 300),
        lambda x: np.place(x.copy(), x > 1, [300]),
        lambda x: np.fill_diagonal(np.outer(x, x), 300),
    ],
)
def test_a_python_integer_that_does_not_fit_does_not_wrap_around(f: Any) -> None:
    for run in (f, ws.jit(f)):
        with pytest.raises(OverflowError, match="out of bounds for uint"):
            run(np.arange(4, dtype=np.uint8))


def test_the_larger_of_a_number_and_one_that_does_not_fit_is_none() -> None:
    with pytest.raises(OverflowError, match="300 out of bounds for uint8"):
        ws.jit(lambda x: max(x[0], 300))(np.arange(4, dtype=np.uint8))


def test_copyto_does_not_cut_off_a_python_number() -> None:
    with pytest.raises(DtypeError, match="copyto: cannot write f64 into i64"):
        ws.jit(lambda x: np.copyto(x.copy(), 1.5))(np.arange(4))


def test_an_error_of_the_users_own_function_stays_as_it_is() -> None:
    def own(row: Any) -> Any:
        raise ValueError("the user's own")

    with pytest.raises(ValueError, match=r"^the user's own$") as caught:
        ws.jit(lambda x: np.apply_along_axis(own, 0, x))(X)
    assert type(caught.value) is ValueError


@pytest.mark.parametrize("ord", [1, 2, np.inf])
def test_norms_and_ranks_of_nothing_are_zero(ord: Any) -> None:
    nothing = np.zeros((0, 0))
    assert ws.jit(lambda x: np.linalg.norm(x, ord))(nothing) == 0
    assert ws.jit(lambda x: np.linalg.norm(x[:, None] * np.ones(2), ord, axis=0))(np.zeros(0)).tolist() == [0, 0]
    assert ws.jit(np.linalg.matrix_rank)(nothing) == 0
    assert ws.grad(lambda x: np.linalg.norm(x, ord))(nothing).shape == (0, 0)


def test_a_histogram_of_nothing_is_empty_bins_from_0_to_1() -> None:
    counts, edges = ws.jit(lambda x: np.histogram(x, 2))(np.zeros(0))
    assert counts.tolist() == [0, 0] and edges.tolist() == [0, 0.5, 1]
