"""`dtype=` of NumPy's functions: values, dtypes and refusals are NumPy's, and shared options are refused as there."""

import warnings

import numpy as np
import pytest

import wholestep as ws
from wholestep import dtypes
from wholestep.errors import WholestepError
from wholestep.frontend.tracing import enter, scope

NAMES = ("bool", "int8", "uint8", "int64", "float32", "float64", "complex64")
TOTALS = {
    name: getattr(np, name)
    for name in "sum prod cumsum cumprod mean var std trace cumulative_sum cumulative_prod".split()
}
NANS = {name: getattr(np, name) for name in "nansum nanprod nanmean nanvar nanstd nancumsum nancumprod".split()}
UFUNCS = {
    **{name: getattr(np, name) for name in "exp sign logical_not isfinite".split()},
    "add": lambda x, **o: np.add(x, x, **o),
    "less": lambda x, **o: np.less(x, np.flip(x), **o),
    "divide": lambda x, **o: np.divide(x, np.add(x, 1), **o),
    "unsafe": lambda x, **o: np.multiply(x, x, casting="unsafe", **o),
    "safe": lambda x, **o: np.multiply(x, x, casting="safe", **o),
}
METHODS = {
    f"{name}.{method}": getattr(getattr(np, name), method)
    for name in "add multiply maximum logical_and hypot divide".split()
    for method in ("reduce", "accumulate")
    if (name, method) != ("logical_and", "accumulate")
}
OTHERS = {
    "add.reduceat": lambda x, **o: np.add.reduceat(x, [0, 1], **o),
    "add.outer": lambda x, **o: np.add.outer(x, x, **o),
    "einsum": lambda x, **o: np.einsum("ij->i", x, **o),
    "cov": np.cov,
    "corrcoef": np.corrcoef,
    "initial": lambda x, **o: np.sum(x, initial=0.5, **o),
    "where": lambda x, **o: np.prod(x, where=np.array([True, False, True]), **o),
    "some axes": lambda x, **o: np.mean(x, axis=0, **o),
    "a deviation each": lambda x, **o: np.std(x, axis=0, **o),
}
FUNCTIONS = {**TOTALS, **NANS, **UFUNCS, **METHODS, **OTHERS}
NOT_COVERED = {("maximum.accumulate", "complex64")}


def ended(call):
    """The result of a call as an array, or None where it is refused by a documented error."""
    try:
        return np.asarray(call())
    except (WholestepError, TypeError, ValueError):
        return None


def traced(f, x, **options):
    with scope("test") as work:
        return work.leave(f(enter(x), **options))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_dtype_is_what_numpy_makes_of_it(name):
    f = FUNCTIONS[name]
    for given in NAMES:
        x = (np.arange(6).reshape(2, 3) % 4).astype(given)
        for asked in NAMES:
            if {(name, asked), (name, given)} & NOT_COVERED:
                continue
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                want, got = ended(lambda: f(x, dtype=asked)), ended(lambda: traced(f, x, dtype=asked))  # noqa: B023
            assert (got is None) == (want is None), (given, asked)
            if want is not None:
                assert (got.dtype, got.shape) == (want.dtype, want.shape), (given, asked)
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, err_msg=f"{given} as {asked}")


def test_truths_have_no_derivative_and_are_compiled():
    x = np.array([[0.5, 0.0, -2.0], [0.0, 0.0, 0.0]])

    def f(x):
        return np.sum(x * np.sum(x, axis=1, keepdims=True, dtype=bool) + np.prod(x, dtype=bool))

    value, gradient = ws.value_and_grad(f)(x)
    assert value == f(x) == -1.5
    assert gradient.tolist() == [[1.0] * 3, [0.0] * 3]
    assert ws.jit(f)(x) == value
    assert ws.jit(lambda x: np.sum(x, axis=1, dtype=bool))(x).tolist() == [True, False]


SHARED = [
    (lambda x: np.add(x, x, casting="no such rule"), ValueError),
    (lambda x: np.exp(x, casting=0), TypeError),
    (lambda x: np.exp(x, order=1), TypeError),
    (lambda x: np.add(x, 1.5, dtype=int), TypeError),
    (lambda x: np.exp(x, dtype=np.int64), TypeError),
    (lambda x: np.copy(x, order="no such order"), ValueError),
    (lambda x: np.ones_like(x, device="gpu"), ValueError),
    (lambda x: np.zeros_like(x, subok="C"), TypeError),
    (lambda x: np.vstack([x, x], casting=True), TypeError),
    (lambda x: np.sort(x, kind="axis"), ValueError),
    (lambda x: np.may_share_memory(x, x, "axis"), (TypeError, ValueError)),
    (lambda x: np.isin(x, [1.0], kind="no such kind"), ValueError),
    (lambda x: np.sum(x, keepdims="yes"), TypeError),
    (lambda x: np.max(x, axis=True), (TypeError, ValueError)),
    (lambda x: np.sum(x, axis=[0]), (TypeError, ValueError)),
    (lambda x: np.cumsum(x, axis=False), (TypeError, ValueError)),
    (lambda x: np.argmax(x, axis=True), (TypeError, ValueError)),
    (lambda x: np.ravel(x).astype(float, casting="no such rule"), (TypeError, ValueError)),
]


@pytest.mark.parametrize(("call", "error"), SHARED, ids=[str(i) for i in range(len(SHARED))])
def test_options_without_meaning_are_refused_as_by_numpy(call, error):
    x = np.array([[1.0, 2.0], [3.0, 5.0]])
    with pytest.raises((TypeError, ValueError)):
        call(x)
    with pytest.raises(error):
        traced(call, x)


def test_options_that_numpy_takes_are_taken():
    x = np.array([3.0, 1.0, 2.0])
    for call in (
        lambda x: np.sort(x, kind="stable"),
        lambda x: np.partition(x, 1, kind="introselect"),
        lambda x: np.copy(x, order="f"),
        lambda x: np.ones_like(x, device="cpu", subok=False),
        lambda x: np.exp(x, order="K", casting="unsafe", dtype="float32"),
        lambda x: np.sum(x, keepdims=1),
        lambda x: np.sum(x, axis=np.int8(0)),
    ):
        got, want = traced(call, x), call(x)
        np.testing.assert_allclose(got, want, rtol=1e-6)
        assert got.dtype == want.dtype


def test_a_number_is_no_key_of_dtypes():
    assert dtypes.check(np.float64(0.0)) == np.float64
    for number in (0, 0.0, False):
        with pytest.raises(TypeError, match="not supported"):
            dtypes.check(number)
    with pytest.raises(WholestepError, match="of an array"):
        traced(lambda x: np.ones_like(x, dtype=x), np.ones(2))
