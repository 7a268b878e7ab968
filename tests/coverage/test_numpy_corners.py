"""Corners of NumPy's functions in compiled programs, beside NumPy itself: values, dtypes, and shapes."""

import numpy as np
import pytest
import scipy.special

import wholestep as ws
from wholestep.errors import (
    BoundsError,
    ConversionError,
    DtypeError,
    ParameterError,
    RangeError,
    ReadOnlyError,
    UnsupportedError,
    WholestepError,
)

NAN = np.nan
COMPLEX = np.array(
    [1 + 2j, complex(NAN, 1), complex(1, NAN), complex(0, NAN), complex(NAN, NAN), complex(NAN, 0), 3 - 1j, 1j]
)


def same(f, *args):
    with np.errstate(all="ignore"):
        wanted = np.asarray(f(*args))
    made = np.asarray(ws.jit(f)(*args))
    assert made.dtype == wanted.dtype
    np.testing.assert_array_equal(made, wanted)


def test_clip_takes_bounds_beyond_the_dtype_as_none():
    x = np.arange(3, dtype=np.uint8)
    for low, high in ((-1, 1), (1, 300), (-1, 300), (None, 256)):
        same(lambda x, low=low, high=high: np.clip(x, low, high), x)
    with pytest.raises(RangeError, match="300 out of bounds for uint8"):
        ws.jit(lambda x: np.clip(x, 300, None))(x)


@pytest.mark.parametrize("side", ["left", "right"])
def test_searchsorted_orders_complex_numbers_with_nan(side):
    same(lambda x: np.searchsorted(np.sort(x), x, side=side), COMPLEX)
    many = np.tile(COMPLEX, 40)
    same(lambda x: np.searchsorted(np.sort(x), x, side=side), many)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint8, np.uint64])
def test_reciprocal_of_integers(dtype):
    same(np.reciprocal, np.array([0, 1, 2], dtype))


def test_closeness_of_booleans():
    b = np.array([True, False])
    same(lambda x: np.isclose(x, x[::-1], equal_nan=True), b)
    same(lambda x: np.allclose(x, x, equal_nan=True), b)


def test_the_characteristic_polynomial_of_a_real_matrix_is_real():
    matrix = np.random.default_rng(0).normal(size=(3, 3))
    made = ws.jit(np.poly)(matrix)
    assert made.dtype == np.float64
    np.testing.assert_allclose(made, np.poly(matrix))
    assert ws.grad(lambda a: np.sum(np.poly(a) ** 2))(matrix).dtype == np.float64


@pytest.mark.parametrize("ufunc", [np.logical_and, np.logical_or])
@pytest.mark.parametrize("x", [np.array([1, 0, 2]), np.array([[1.0, 0], [1, 1]])])
def test_logical_reductions(ufunc, x):
    same(ufunc.accumulate, x)
    same(lambda x: ufunc.accumulate(x, axis=-1), x)
    for initial in (0, 2.5, None):
        same(lambda x, initial=initial: ufunc.reduce(x, initial=initial, keepdims=True), x)
    same(lambda x: ufunc.reduce(x[:0], initial=0), x)


@pytest.mark.parametrize("f", [scipy.special.pdtr, scipy.special.pdtrc])
def test_poisson_probabilities_of_negative_counts_are_nan(f):
    made = ws.jit(f)(np.array([-1.0, -0.5, 0.0, 2.5]), 2.0)
    np.testing.assert_allclose(made, f(np.array([-1.0, -0.5, 0.0, 2.5]), 2.0))
    assert np.isfinite(ws.grad(f, 1)(1.0, 2.0))


@pytest.mark.parametrize("f", [np.cumprod, lambda x: np.cumulative_prod(x, include_initial=True)])
def test_products_of_infinite_complex_numbers_begin_with_the_first(f):
    for x in (
        [complex(-np.inf, 1), 2],
        [complex(1, -np.inf), 1 + 1j],
        [complex(np.inf, np.inf), 0],
        [-1e308j, 1e10, 1],
    ):
        same(f, np.array(x, complex))
    same(lambda x: np.cumprod(x, axis=0), np.array([[1 + 2j, complex(np.inf, 0)], [3j, 2]]))


def test_interp_between_infinities():
    knots, at = np.array([-np.inf, 0, 1, 2, np.inf]), np.array([-np.inf, -1, 0, 0.5, 1.5, 2, 3, np.inf, NAN])
    for heights in ([1, 1, np.inf, np.inf, 3], [2, -np.inf, np.inf, 1, NAN], [-np.inf] * 5):
        same(np.interp, at, knots, np.array(heights))


def test_slogdet_of_a_matrix_with_nan_has_a_sign():
    sign, logabsdet = ws.jit(np.linalg.slogdet)(np.array([[1, NAN], [2, 3]]))
    assert (sign, np.isnan(logabsdet)) == (-1, True)


def test_at_the_one_place_of_an_array_without_axes():
    def tripled(x):
        y = np.copy(x)
        np.multiply.at(y, (), 3.0)
        return y

    same(tripled, np.array(2.0))
    with pytest.raises(BoundsError, match=r"numpy\.multiply\.at: too many indices"):
        ws.jit(lambda x: np.multiply.at(np.copy(x), 0, 3.0))(np.array(2.0))
    with pytest.raises(ReadOnlyError, match=r"add\.at: NumPy scalars cannot be written"):
        ws.jit(lambda x: np.add.at(x * 1, 0, 3.0))(np.array(2.0))


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_the_larger_of_complex_numbers(name):
    parts = (0.0, 1.0, np.inf, -np.inf, NAN)
    numbers = np.array([complex(a, b) for a in parts for b in parts])
    same(getattr(np, name).outer, numbers, numbers)


def test_packed_bits():
    truths = np.arange(22).reshape(2, 11) % 3 == 0
    for axis in (None, 0, -1):
        same(lambda x, axis=axis: np.packbits(x, axis), truths)
        same(lambda x, axis=axis: np.packbits(x, axis, bitorder="little"), truths * 6)
        for count in (None, 3, 40, -2):
            same(
                lambda x, axis=axis, count=count: np.unpackbits(x, axis, count), np.array([[3, 255], [0, 18]], np.uint8)
            )
    with pytest.raises(DtypeError, match="unpackbits: takes an array of uint8"):
        ws.jit(np.unpackbits)(np.arange(3))


def test_weights_of_quantiles_that_are_negative():
    weights = np.array([1.0, -1, 2])
    with pytest.raises(ParameterError, match="quantile: weights= are finite, and not negative"):
        ws.grad(lambda x: np.quantile(x, 0.5, weights=weights, method="inverted_cdf"))(np.arange(3.0))
    made = ws.jit(lambda x, w: np.quantile(x, 0.5, weights=w, method="inverted_cdf"))(np.arange(3.0), weights)
    assert np.isnan(made)


@pytest.mark.parametrize("right", [False, True])
def test_bins_that_the_program_gets(right):
    x = np.array([0.0, 0.5, 1, 2, 3, -1, NAN])
    for edges in ([0.0, 1, 2], [2.0, 1, 0], [1.0, 1, 2]):
        same(lambda x, e: np.digitize(x, e, right), x, np.array(edges))


@pytest.mark.parametrize(
    ("signature", "f", "text"),
    [
        ("(n),(n)->()", lambda x, y: np.sum(x * y), r"core axes of shape \(1,\) do not fit \(n\) of .*, where n = 3"),
        ("(n),(m)->(n)", lambda x, y: x[:2] * y, r"core axes of shape \(2,\) do not fit \(n\)"),
        ("(n),(m)->(n", lambda x, y: x * y, r"signature='\(n\),\(m\)->\(n' is none such as"),
    ],
)
def test_core_axes_that_do_not_fit_the_signature(signature, f, text):
    with pytest.raises(ValueError):
        np.vectorize(f, signature=signature)(np.ones((2, 3)), np.ones(1))
    with pytest.raises(WholestepError, match=rf"vectorize: {text}(.|\n)*test_numpy_corners"):
        ws.jit(lambda x, y: np.vectorize(f, signature=signature)(x, y))(np.ones((2, 3)), np.ones(1))


def test_vectorize_of_nothing_has_the_stated_dtype():
    same(lambda x: np.vectorize(np.sin, otypes="f")(x), np.ones((0, 2)))


def test_broadcast_of_traced_arrays():
    same(lambda x, y: np.array([a * b for a, b in np.broadcast(x, y)]), np.arange(6.0).reshape(2, 3), np.arange(3.0))
    assert ws.jit(lambda x, y: x.sum() * np.broadcast(x, y).size)(np.ones((2, 1)), np.ones(3)) == 12


def test_hints_for_what_takes_plain_arrays():
    def into_a_field(x):
        table = np.zeros(3, [("a", float), ("b", int)])
        table["a"] = x

    for f, text in (
        (lambda x: np.save("x.npy", x), "write what the function returns"),
        (lambda x: np.testing.assert_allclose(x, x), "assert_allclose on what the function returns"),
        (into_a_field, "structured arrays hold plain values: keep an array for each of a, b"),
    ):
        with pytest.raises(WholestepError, match=text):
            ws.jit(f)(np.ones(3))


@pytest.mark.parametrize("kind", ["Polynomial", "Chebyshev", "Legendre", "Hermite", "HermiteE", "Laguerre"])
def test_objects_of_series(kind):
    series = getattr(np.polynomial, kind)
    plain = series([1.0, 2, 0.5], domain=[0, 3])
    x = np.array([0.5, 2.0, -1])
    for f in (lambda c, x: plain(x) + plain.deriv()(x), lambda c, x: series(c, [0, 3])(x) * series(c).degree()):
        wanted, found = f(plain.coef, x), ws.jit(f)(plain.coef, x)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    ws.gradcheck(lambda c, x: series(c, window=[0, 2])(x), plain.coef, x)
    for f in (
        lambda c, x: series(c, [0, 3]).deriv(2)(x) + series(c, [0, 3]).integ(1, [0.5], 1.0)(x),
        lambda c, x: series.fit(np.arange(3), c, 1, w=[1, 2, 1])(x) * series.fit([0, 1, 3], c, 2, [0, 1]).coef[1],
    ):
        np.testing.assert_allclose(ws.jit(f)(plain.coef, x), f(plain.coef, x), rtol=1e-10)
        ws.gradcheck(f, plain.coef, x)
    with pytest.raises(UnsupportedError, match="fit: x is traced"):
        ws.jit(lambda x: series.fit(x, x, 1)(x))(x)
    for f, name in ((lambda c: series(c) * 2.0, r"\*"), (lambda c: series(c).roots(), "roots")):
        with pytest.raises(UnsupportedError, match=rf"{kind}.{name}: not covered for traced coefficients"):
            ws.jit(f)(x)
    with pytest.raises(ConversionError, match="plain takes plain values alone"):
        ws.jit(lambda x: plain(x), rewrite=False)(x)


def test_conditions_on_values_are_errors_when_the_program_runs():
    rows = np.array([[np.nan, np.nan], [1.0, np.nan]])
    for f, text in (
        (lambda x: np.nanargmax(x, axis=1), "nanargmax: All-NaN slice encountered"),
        (lambda x: np.nanargmin(x, axis=1), "nanargmin: All-NaN slice encountered"),
        (lambda x: np.histogram(x, 3)[0], "histogram: the range of data with nan or inf is not finite"),
        (lambda x: np.histogram_bin_edges(x, 3), "histogram: the range of data with nan or inf is not finite"),
    ):
        with pytest.raises(BoundsError, match=text):
            ws.jit(f)(rows)
        with pytest.raises(ValueError, match=text):
            ws.vjp(f, rows)
        np.testing.assert_array_equal(ws.jit(f)(np.nan_to_num(rows)), f(np.nan_to_num(rows)))


def test_complex_numbers_where_nan_is_or_grows():
    z = np.array([1 + 2j, 1 + 1j, 0j, 2 + 0j, complex(0, np.nan), 3])
    for ufunc in (np.maximum, np.minimum):
        np.testing.assert_array_equal(ws.jit(lambda z, f=ufunc: f.accumulate(z))(z), ufunc.accumulate(z))
    ws.gradcheck(lambda z: np.abs(np.maximum.accumulate(z)), z[1:4])
    places, heights = np.array([np.nan, 0.5]), np.array([0, 1 + 2j])
    np.testing.assert_array_equal(
        ws.jit(lambda x: np.interp(x, [0, 1], heights))(places), np.interp(places, [0, 1], heights)
    )


def test_pseudoinverses_with_a_cut_off_of_each():
    stack = np.random.default_rng(0).normal(size=(2, 3, 4, 3))
    cutoffs = np.array([[1e-15, 0.5, 0.3], [0.5, 0.5, 1e-15]])
    np.testing.assert_allclose(
        ws.jit(lambda a: np.linalg.pinv(a, cutoffs))(stack), np.linalg.pinv(stack, cutoffs), rtol=1e-10, atol=1e-13
    )
    ws.gradcheck(lambda a: np.linalg.pinv(a, rtol=[1e-15, 1e-10]), stack[0, :2])


def test_running_results_and_segments_take_as_many_operations_for_many_elements():
    starts = np.arange(0, 40, 4)
    for f in (
        np.logaddexp.accumulate,
        np.subtract.reduce,
        lambda x: np.logaddexp.reduceat(x, starts[starts < len(x)]),
    ):
        few, many = (len(ws.trace(f)(np.linspace(0, 1, n)).nodes) for n in (12, 40))
        assert few == many
        np.testing.assert_allclose(ws.jit(f)(np.linspace(0, 1, 40)), f(np.linspace(0, 1, 40)), rtol=1e-13)


def test_segments_of_every_order_and_length():
    x = np.random.default_rng(0).normal(size=(3, 11))
    for ufunc in (np.add, np.maximum, np.logaddexp, np.subtract, np.hypot):
        for starts in ([0, 3, 5, 9], [4, 2, 2, 9, 0], [], [10]):
            made = ws.jit(ufunc.reduceat, static_argnums=(1, 2))(x, tuple(starts), 1)
            np.testing.assert_allclose(made, ufunc.reduceat(x, starts, axis=1), rtol=1e-13)


def test_the_length_of_one_number_is_no_negative_one():
    same(np.hypot.reduce, np.array([-3.0]))
    same(np.hypot.accumulate, np.array([-3.0, 4.0]))


@pytest.mark.parametrize("f", [np.partition, np.argpartition])
def test_partitions_of_nothing_have_any_place(f):
    same(lambda x: f(x, 5), np.zeros((0, 3)))
