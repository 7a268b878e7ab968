"""The methods of arrays: NumPy's where they are covered, a clear refusal where they are not; and the namespace."""

import inspect

import numpy as np
import pytest
from tests.coverage.cases import Case, check_gradient, compare

import wholestep as ws
import wholestep.numpy as wnp
from wholestep.errors import ConversionError, UnsupportedError, ValueDependentError
from wholestep.frontend import dispatch
from wholestep.frontend.array import Array
from wholestep.frontend.derivatives import vjp
from wholestep.frontend.gradients import grad
from wholestep.frontend.source.entrance import verbatim

X = np.random.default_rng(5).permutation(12).reshape(3, 4) * 0.5 - 2.2
C = X[:2] + 1j
ATTRIBUTES = [n for n in dir(np.ndarray) if not n.startswith("_")]
REFUSED = {"tolist", "item", "tobytes"}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_every_attribute_is_there_or_refused(name):
    def f(x):
        try:
            found = getattr(x, name)
        except UnsupportedError as error:
            assert f"numpy.ndarray.{name}" in str(error)
            return x
        assert name in REFUSED or found is not None
        return x

    vjp(f, X)


@pytest.mark.parametrize("name", ["foo", "__array_interface__", "__cuda_array_interface__"])
def test_what_numpy_lacks_is_an_attribute_error(name):
    with pytest.raises(AttributeError):
        vjp(lambda x: getattr(x, name), X)


def mutated(call):
    def f(x):
        y = x.copy()
        call(y)
        return y

    return f


CALLS = {
    "all": lambda x: x.all(axis=0, keepdims=True),
    "any": lambda x: x.any(1),
    "argmax": lambda x: x.argmax(0),
    "argmin": lambda x: x.argmin(axis=1, keepdims=True),
    "argsort": lambda x: x.argsort(0),
    "sum": lambda x: x.sum(0, np.float64),
    "argpartition": lambda x: np.sort(x.argpartition(2, 1)[:, :2]),
    "clip": lambda x: x.clip(-1, max=1),
    "compress": lambda x: x.compress([True, False, True], 0),
    "copy": lambda x: x.copy(order="F"),
    "cumprod": lambda x: x.cumprod(1),
    "cumsum": lambda x: x.cumsum(),
    "diagonal": lambda x: x.diagonal(1),
    "dot": lambda x: x.dot(x.T),
    "max": lambda x: x.max(0),
    "mean": lambda x: x.mean((0, 1), keepdims=True),
    "min": lambda x: x.min(initial=0.1),
    "prod": lambda x: x.prod(1),
    "ravel": lambda x: x.ravel("F"),
    "repeat": lambda x: x.repeat([1, 0, 2], 0),
    "round": lambda x: x.round() * x,
    "reshape": lambda x: x.reshape(2, -1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "std": lambda x: x.std(axis=1, ddof=1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "take": lambda x: x.take([0, 5]),
    "trace": lambda x: x.trace(1),
    "T": lambda x: x.T,
    "transpose": lambda x: x.transpose((1, 0)),
    "var": lambda x: x.var(0, where=x > -9),
    "flatten": lambda x: x.flatten("F"),
    "view": lambda x: x.view(),
    "conj": lambda x: x.conj(),
    "conjugate": lambda x: x.conjugate(),
    "astype": lambda x: x.astype("c16"),
    "mT": lambda x: x.mT,
    "fill": mutated(lambda y: y.fill(2.0)),
    "sort": mutated(lambda y: y.sort(axis=0)),
    "put": mutated(lambda y: y.put([1], 4.0)),
    "partition": mutated(lambda y: y.partition(1, axis=0)),
    "real": lambda x: x.real,
    "imag": lambda x: x.imag + x,
    "flat": lambda x: x.flat[2:5],
    "size": lambda x: x * x.size,
    "ndim": lambda x: x * x.ndim,
    "shape": lambda x: x * x.shape[0],
    "itemsize": lambda x: x * x.itemsize,
    "nbytes": lambda x: x * x.nbytes,
    "dtype": lambda x: x.astype(x.dtype),
    "searchsorted": lambda x: np.sort(x.ravel()).searchsorted(0.2, side="right"),
    "choose": lambda x: (x > 0).astype(int).choose([x, 2 * x]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_method_is_numpys(name):
    case = Case(CALLS[name], X)
    compare(case.eager(), case.plain(), case)
    compare(case.abstract(), case.plain(), case)
    check_gradient(case)


def test_every_covered_method_is_called():
    def covered(name):
        try:
            vjp(lambda x: (x, getattr(x, name))[0], X)
        except UnsupportedError:
            return False
        return True

    assert {n for n in ATTRIBUTES if covered(n)} - REFUSED - {"nonzero"} == set(CALLS)


def test_nonzero_needs_values():
    assert (
        vjp(lambda x: (x * x.nonzero()[0][0], (x > 0).nonzero()), X)[0][1][0].tolist() == (X > 0).nonzero()[0].tolist()
    )
    with pytest.raises(ValueDependentError):
        Case(lambda x: x.nonzero(), X).abstract()


PLAIN = [
    lambda x: float(x.sum()),
    lambda x: x.item(),
    lambda x: x.tolist(),
    lambda x: x.tobytes(),
    lambda x: complex(x[0, 0]),
    lambda x: np.array(x),
    lambda x: np.array([x, x]),
    lambda x: memoryview(x),
    lambda x: np.ndarray.sum(x),
]


@pytest.mark.parametrize("f", PLAIN)
def test_nothing_turns_plain_unasked(f):
    with pytest.raises((ConversionError, TypeError)):
        vjp(verbatim(f), X)


SIGNATURES = [n for n in dispatch.NAMES if n.startswith("numpy.") and n.count(".") == 1]
ODD = {"numpy.arange"}
LATER = {"descending"}  # parameters of NumPy 2.5


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures_are_numpys(name):
    outside, ours = dispatch.NAMES[name], dispatch.FUNCTIONS[dispatch.NAMES[name]]
    try:
        expected = inspect.signature(outside)
    except ValueError:
        pytest.skip("NumPy tells no signature")
    if name in ODD or isinstance(outside, np.ufunc):
        return

    def shape(signature):
        return [(p.name, p.kind) for p in signature.parameters.values() if p.name not in ("array", "like")]

    found = shape(inspect.signature(inspect.unwrap(ours)))
    newer = [item for item in found if item[0] in LATER and item not in shape(expected)]
    found = [item for item in found if item not in newer]
    assert len(found) == len(shape(expected)), f"{found} instead of {expected}"
    for (own, kind), (other, other_kind) in zip(found, shape(expected), strict=True):
        free = inspect.Parameter.POSITIONAL_ONLY in (kind, other_kind) or kind in (
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        )
        assert own == other or free, f"{own} instead of {other}"


NAMESPACE = [n for n in dir(np) if not n.startswith("_")]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMESPACE)
def test_the_namespace_has_every_name_of_numpy(name):
    assert hasattr(wnp, name)
    assert name in dir(wnp)


def test_a_function_that_is_not_covered_refuses_traced_arrays():
    for f in (wnp.is_busday, np.is_busday, lambda x: wnp.mask_indices(x, 1)):
        with pytest.raises(UnsupportedError):
            vjp(f, X)
    assert wnp.histogram([1, 2], 2)[0].tolist() == [1, 1]


def test_dtypes_are_callables_and_dtypes():
    assert grad(lambda x: wnp.float32(x) * 2.0)(3.0) == 2.0
    assert vjp(lambda x: wnp.float32(x), X)[0].dtype == np.float32
    assert isinstance(wnp.float64("1.5"), np.float64) and isinstance(np.float64(1), wnp.float64)
    assert np.dtype(wnp.int8) == np.int8 and wnp.int8 == np.int8 and hash(wnp.int8) == hash(np.int8)
    assert np.zeros(2, wnp.float32).dtype == wnp.float32 and np.finfo(wnp.float32).eps == np.finfo(np.float32).eps
    assert np.issubdtype(wnp.float32, np.floating) and np.issubdtype(np.float32, wnp.float32)
    assert vjp(lambda x: x.astype(wnp.complex64), X)[0].dtype == wnp.complex64
    assert wnp.double is wnp.float64 and wnp.bool is wnp.bool_


def test_ndarray_means_plain_and_traced_arrays():
    seen = []
    vjp(lambda x: (seen.append(isinstance(x, wnp.ndarray)), x)[1], X)
    assert seen == [True] and isinstance(X, wnp.ndarray) and not isinstance([1], wnp.ndarray)
    assert issubclass(np.ndarray, wnp.ndarray) and issubclass(Array, wnp.ndarray)


def test_lists_of_traced_values_are_taken_as_arrays():
    def f(x):
        a, b = x[0, 0], x[1]
        total = wnp.sum([a, 2.0]) + wnp.mean([b, b * 2]) + wnp.add([a, 1.0], 2.0).sum() + wnp.max([a, -9.0])
        return total + wnp.concatenate([[a], b]).sum() + wnp.stack([a, a]).sum() + wnp.dot([a, a], [1.0, 2.0])

    check_gradient(Case(f, X))


def test_a_plain_call_is_numpys_own():
    assert type(wnp.sum([1, 2])) is np.int64 and type(wnp.zeros(2)) is np.ndarray
    assert wnp.where(X > 0, X, 0).tolist() == np.where(X > 0, X, 0).tolist()
    assert wnp.array(["a"]).dtype == np.array(["a"]).dtype


def test_creators_give_traced_arrays_inside_a_trace_only():
    kinds = []
    vjp(lambda x: (kinds.extend([type(wnp.zeros(2)), type(wnp.arange(3)), type(wnp.array(["a"]))]), x)[1], X)
    assert kinds == [Array, np.ndarray, np.ndarray]


@pytest.mark.parametrize("x", [X, X.astype(int), C, np.array([1.0, np.nan, 2.0, 1.0, 3.0]), X > 0], ids=str)
def test_sort_in_descending_order(x):
    """The order is that of NumPy 2.5: stable, NaN last."""
    values, places = ws.jit(lambda x: (np_sort(x), np_argsort(x)))(x)
    rows = np.where(np.isnan(x), -np.inf, x) if x.dtype.kind == "f" else x
    expected = np.stack(
        [sorted(row.tolist(), key=lambda v: (v.real, v.imag), reverse=True) for row in np.atleast_2d(rows)]
    )
    expected = np.where(expected == -np.inf, np.nan, expected) if x.dtype.kind == "f" else expected
    np.testing.assert_array_equal(np.atleast_2d(values), expected)
    np.testing.assert_array_equal(np.take_along_axis(x, places, -1), values)
    if x.ndim == 1:
        assert places.tolist() == [4, 2, 0, 3, 1]


def np_sort(x):
    return wnp.sort(x, descending=True)


def np_argsort(x):
    return wnp.argsort(x, descending=True)
