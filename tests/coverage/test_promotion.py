"""NEP 50 to the letter: the dtype of every result is NumPy's, for all pairs of dtypes and Python numbers."""

import warnings

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import DtypeError, UnsupportedError, ValueDependentError
from wholestep.frontend.derivatives import vjp
from wholestep.frontend.promotion import lift
from wholestep.frontend.tracing import trace_flat
from wholestep.ir.types import array_type

NAMES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
         "float64", "complex64", "complex128")  # fmt: skip
DTYPES = [np.dtype(n) for n in NAMES]
PYTHON = (True, 2, 2.5, 2.5j)

BINARY = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "floor_divide": np.floor_divide,
    "power": np.power,
    "maximum": np.maximum,
    "equal": np.equal,
    "less": np.less,
    "logical_and": np.logical_and,
    "bitwise_and": np.bitwise_and,
    "left_shift": np.left_shift,
    "arctan2": np.arctan2,
    "hypot": np.hypot,
    "matmul": lambda x, y: np.matmul(np.reshape(x, (1, -1)), np.reshape(y, (-1, 1))),
    "where": lambda x, y: np.where(np.array([True, False]), x, y),
    "clip": lambda x, y: np.clip(x, y, y),
    "concatenate": lambda x, y: np.concatenate([np.ravel(x), np.ravel(y)]),
    "stack": lambda x, y: np.stack([x, x + y * 0]),
    "average": lambda x, y: np.average(np.ravel(x), weights=np.ravel(y) + np.ravel(x)),
    "interp": lambda x, y: np.interp(x, [0, 1, 2], [3, 4, 5]),
    "operator": lambda x, y: (x + y) * y,
}
UNARY = {
    "sum": np.sum, "prod": np.prod, "mean": np.mean, "var": np.var, "cumsum": np.cumsum, "max": np.max, "any": np.any,
    "sin": np.sin, "sqrt": np.sqrt, "absolute": np.absolute, "sign": np.sign, "square": np.square, "floor": np.floor,
    "negative": np.negative, "isnan": np.isnan, "logical_not": np.logical_not, "median": np.median, "diff": np.diff,
    "round": np.round, "real": np.real, "angle": np.angle, "sort": np.sort, "trace": lambda x: np.trace(np.diag(x)),
    "count_nonzero": lambda x: np.count_nonzero(x, axis=0), "nanmean": np.nanmean,
    "linspace": lambda x: np.linspace(x, x, 3),
    "reciprocal": np.reciprocal, "sinc": np.sinc, "std": np.std, "argmax": np.argmax, "vander": np.vander,
    "gradient": np.gradient, "trapezoid": np.trapezoid, "cov": np.cov, "quantile": lambda x: np.quantile(x, 0.5),
    "i0": np.i0, "polyint": np.polyint, "polyder": np.polyder, "ediff1d": np.ediff1d, "ptp": np.ptp,
    "nansum": np.nansum,
}  # fmt: skip


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def result(f, *xs):
    """The dtype of f(*xs), or None where NumPy refuses the operands."""
    try:
        return np.asarray(f(*xs)).dtype
    except (TypeError, ValueError, OverflowError):
        return None


def traced(f, *arrays):
    """The dtype of f traced on arrays of these types, without their values."""
    types = [array_type(a.shape, a.dtype) for a in arrays]
    return trace_flat(f, types, [False] * len(arrays), reason="jit").graph.outputs[0].dtype


def sample(dtype):
    return np.array([1, 2], dtype)


def same(f, arrays, whole):
    """Assert that the traced dtype is NumPy's; only calls with complex numbers may be refused."""
    expected = result(whole, *arrays)
    supported = expected is not None and expected in DTYPES
    if supported:
        try:
            found = traced(f, *arrays)
        except (UnsupportedError, DtypeError):
            assert any(np.asarray(a).dtype.kind == "c" for a in (*arrays, expected.type(0))), "refused"
            return
        assert found == expected, f"{found}, NumPy has {expected}"


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("left", DTYPES, ids=str)
def test_two_arrays(name, left):
    for right in DTYPES:
        same(BINARY[name], (sample(left), sample(right)), BINARY[name])


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("number", PYTHON, ids=repr)
def test_an_array_and_a_python_number(name, number):
    f = BINARY[name]
    for dtype in DTYPES:
        same(lambda x: f(x, number), (sample(dtype),), lambda x: f(x, number))
        same(lambda x: f(number, x), (sample(dtype),), lambda x: f(number, x))


def test_a_bound_by_a_traced_python_number_is_weak():
    def bounded(x):
        return np.clip(x, 0.0, float(np.sum(x)))

    x = np.ones(3, np.float32)
    assert ws.trace(bounded)(x).out_types[0].dtype == bounded(x).dtype == np.float32


@pytest.mark.parametrize("name", BINARY)
def test_an_array_and_a_numpy_scalar(name):
    f = BINARY[name]
    for dtype in DTYPES:
        for scalar in (np.float32(1.5), np.int8(2), np.float64(0.5), np.complex64(1), np.bool_(True)):
            same(lambda x, s=scalar: f(x, s), (sample(dtype),), lambda x, s=scalar: f(x, s))


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_array(name, dtype):
    same(UNARY[name], (sample(dtype),), UNARY[name])


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind in "fc"], ids=str)
def test_a_gradient_has_the_dtype_of_its_argument(dtype):
    out, pullback = vjp(lambda x: np.sum(x * 2.0 + x.astype(np.complex128).real), sample(dtype))
    assert pullback(out)[0].dtype == dtype


@pytest.mark.parametrize("dtype", ["float128", "complex256", "O", "M8[s]", "U3"])
def test_what_the_language_does_not_have_is_refused(dtype):
    with pytest.raises(DtypeError):
        vjp(lambda x: x.astype(dtype), np.ones(2))


def test_python_integers_that_do_not_fit_are_refused():
    for f in (lambda x: x + 300, lambda x: np.maximum(x, -1)):
        with pytest.raises(OverflowError):
            f(sample("uint8"))
        with pytest.raises(OverflowError):
            traced(f, sample("uint8"))


def test_where_lets_python_integers_wrap_around():
    made = vjp(lambda x: (x, np.where(x > 0, np.uint8(7), -1)), np.array([1.0, -1.0]))[0][1]
    assert made.tolist() == [7, 255] and made.dtype == np.uint8


SIGNED, UNSIGNED = np.array([-1, 0, 5, 2**62]), np.array([2**64 - 1, 0, 7, 2**62], "u8")


@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
def test_comparisons_across_signs_are_exact(name):
    for a, b in ((SIGNED, UNSIGNED), (UNSIGNED, SIGNED)):
        made = vjp(lambda x, a=a, b=b: (x, getattr(np, name)(lift(a), b)), 1.0)[0][1]
        assert made.tolist() == getattr(np, name)(a, b).tolist()


def test_comparisons_with_python_integers_that_do_not_fit():
    assert traced(lambda x: x < 300, sample("uint8")) == np.dtype(bool)
    assert vjp(lambda x: (x, np.uint8([1]) < 300), np.ones(1))[0][1].tolist() == [True]


def test_a_square_of_flags_is_of_int8_as_in_numpy():
    for flags in (np.ones(2, bool), np.array(True), np.True_):
        found, expected = ws.jit(lambda x: x**2)(flags), flags**2
        assert found.dtype == expected.dtype and np.all(found == expected)


def test_an_integer_scalar_repeats_a_list_where_it_is_known():
    def repeated(x, n):
        return np.concatenate([x] * n), np.stack(n * (x[0],))

    x, n = np.array([1.0, 2.0]), np.int64(3)
    for found, expected in zip(ws.jit(repeated, static_argnames="n")(x, n), repeated(x, n), strict=True):
        np.testing.assert_array_equal(found, expected)
    known = ws.vjp(lambda x: repeated(x, np.argmax(x) + 2), x)[0]
    np.testing.assert_array_equal(known[0], repeated(x, n)[0])
    with pytest.raises(ValueDependentError, match="index: the value of a traced i64"):
        ws.jit(repeated)(x, 3)
