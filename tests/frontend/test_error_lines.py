"""Errors of Python, NumPy and SciPy inside traced functions: every one names the user's file and line."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.special

import wholestep as ws
from wholestep import errors
from wholestep.errors import UnsupportedError
from wholestep.frontend.dispatch import NAMES

GIVEN = [(), (np.ones((4, 5)),), (-5,), ([10], 1.0), (None,)]
ARRAYS = [np.ones((2, 3)), np.arange(3)]


def applied(call, *args, **kwargs):
    def user(x):
        call(x, *args, **kwargs)  # the line of the user
        return x

    return user


@pytest.mark.parametrize("letter", sorted({name.split(".")[-1][0] for name in NAMES}))
def test_errors_of_covered_functions_name_the_line(letter):
    without = []
    for name in (name for name in NAMES if name.split(".")[-1].startswith(letter)):
        for given in GIVEN:
            for options in ({}, {"axis": 7}):
                for x in ARRAYS:
                    try:
                        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
                            ws.trace(applied(NAMES[name], *given, **options))(x)
                    except Exception as error:  # of any kind: each must name the line
                        if "call(x, *args, **kwargs)  # the line" not in str(error):
                            without.append((name, given, options, repr(error)))
    assert without == []


@pytest.mark.parametrize(
    ("f", "kind", "text"),
    [
        (lambda x: np.delete(x, 10), errors.BoundsError, "numpy.delete: index 10 is out of bounds"),
        (lambda x: np.put(x.copy(), [10], 1.0), errors.BoundsError, "numpy.put: index 10"),
        (lambda x: np.zeros(-2) + x, ValueError, "negative dimensions"),
        (lambda x: x.reshape("abc"), TypeError, ""),
        (
            lambda x: x.astype(np.uint8) + 300,
            OverflowError,
            "add: Python integer 300 out of bounds for uint8",
        ),
    ],
)
def test_one_mechanism(f, kind, text):
    for transform in (ws.jit, ws.grad, ws.vmap):
        with pytest.raises(kind, match=rf"{text}(.|\n)*at .*test_error_lines.py:\d+"):
            transform(lambda x, f=f: np.sum(f(x)))(np.ones((3, 3)))


def test_errors_of_the_user_stay_as_they_are():
    def user(x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        ws.jit(user)(1.0)
    with pytest.raises(ValueError, match=r"^mine$"):
        ws.grad(lambda x: np.sum(ws.vmap(user)(x)))(np.ones(2))


def test_a_program_that_fails_names_one_line():
    for transform in (ws.jit, ws.vmap, ws.grad):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix") as caught:
            transform(lambda x: np.sum(np.linalg.inv(np.broadcast_to(x, (2, 2)))))(np.zeros((2, 2)))
        assert str(caught.value).count("  at ") == 1


def test_derivatives_that_are_not_known_name_the_line_of_the_value():
    def order(x):
        return sum(scipy.special.kv(x[0, 0], x[1]))  # the line of the value

    def columns(x):
        return np.sum(np.linalg.qr(x, mode="complete")[0])  # the line of the value

    def vectors(x):
        return np.sum(np.linalg.svd(x)[0])  # the line of the value

    for f in (order, columns, vectors):
        for transform in (ws.grad, ws.jacfwd, lambda f: ws.jit(ws.grad(f))):
            with pytest.raises(errors.DerivativeError, match="# the line of the value"):
                transform(f)(np.arange(1.0, 7.0).reshape(3, 2))


def test_a_function_of_torch_on_a_traced_array_names_ours():
    def relu(x):  # as torch's functions do with an argument that is no tensor
        return type(x).__torch_function__(relu, (type(x),), (x,))

    for transform in (ws.jit, ws.grad):
        with pytest.raises(UnsupportedError, match=r"torch: relu is called(.|\n)*use ws\.nn\.relu"):
            transform(relu)(np.ones(3))


def test_products_with_tables_name_the_way_out():
    pandas = pytest.importorskip("pandas", reason="pandas is in the test extra; not installed")
    table, hint = pandas.DataFrame({"a": [1.0, 2.0]}), r"hint: a table of pandas or polars .* x\.to_numpy\(\)"
    with pytest.raises(errors.ConversionError, match=hint):
        ws.grad(lambda x: np.sum(table @ x))(np.ones(1))
    with pytest.raises(errors.ConversionError, match=hint):
        ws.jit(lambda x: np.sum(x[0] * table["a"] - 1))(np.ones(1))


def test_masked_arrays_as_operands_name_the_way_out():
    part = np.ma.masked_array(np.ones(3), [0, 1, 0])
    for f in (lambda x: np.sum(part * x), lambda x: np.sum(part + 2 * x)):
        with pytest.raises(errors.ConversionError, match=r"hint: masked arrays .*np\.where\(mask, x, 0\)"):
            ws.grad(f)(np.ones(3))


def test_a_dictionary_of_columns_as_an_operand_is_told_how_to_become_an_array():
    for columns in ({"a": np.ones(2)}, {"b": 1.0}):
        with pytest.raises(errors.DtypeError, match=r"^array: dict is not an array\n.*\n.*np\.stack\(list\(x\.values"):
            ws.jit(lambda w, table: np.sum(table @ w))(np.ones(1), columns)


@pytest.mark.parametrize(
    "call",
    [lambda x: x.mean(dim=0, keepdim=True), lambda x: np.mean(x, dim=0, keepdim=True)],
    ids=["method", "function"],
)
def test_names_of_arguments_of_other_libraries_are_answered_by_numpys(call):
    with pytest.raises(
        errors.ArgumentError, match=r"numpy\.mean: [\s\S]*axis= instead of dim=, keepdims= instead of k"
    ):
        ws.jit(call)(np.ones((2, 3)))


@pytest.mark.parametrize("text", [lambda x: f"{x:.3f}", str, "{:.2f}".format])
def test_the_text_of_a_traced_value_is_no_number(text):
    for transform in (ws.grad, ws.jit):
        with pytest.raises(ws.errors.ConversionError, match=r"is the text of a traced array(.|\n)*test_error_lines.py"):
            transform(lambda x: float(text(x)) * x)(2.0)
    said = []
    ws.grad(lambda x: said.append(text(x)) or x * x)(2.0)
    assert "x = " + said[0] in ("x = 2.000", "x = 2.0", "x = 2.00") and type(pickle.loads(pickle.dumps(said[0]))) is str
