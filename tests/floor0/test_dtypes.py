"""The facts about dtypes agree with NumPy, and unsupported dtypes are refused."""

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from wholestep import dtypes

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
ALL = [dtypes.from_short(name) for name in dtypes.SUPPORTED]


@pytest.mark.parametrize("name", dtypes.SUPPORTED)
def test_short_names_are_one_to_one(name):
    dtype = dtypes.from_short(name)
    assert dtypes.short(dtype) == name
    assert dtypes.check(dtype) == dtype
    assert dtypes.short(dtype.type) == name
    bits = int("".join(c for c in name if c.isdigit()) or 8)
    assert dtype.itemsize * 8 == bits


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_kinds_are_numpys(dtype):
    float_like = np.issubdtype(dtype, np.floating) or dtype == BFLOAT16
    complex_like = np.issubdtype(dtype, np.complexfloating)
    assert dtypes.is_float(dtype) == float_like
    assert dtypes.is_complex(dtype) == complex_like
    assert dtypes.is_inexact(dtype) == (float_like or complex_like)
    assert dtypes.is_integer(dtype) == np.issubdtype(dtype, np.integer)
    assert dtypes.is_bool(dtype) == (dtype == np.bool_)


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "c8", "c16"])
def test_counterparts_are_numpys(dtype):
    one = np.ones((), dtype)
    assert dtypes.real_of(dtype) == one.real.dtype
    assert dtypes.complex_of(dtype) == np.result_type(one, np.complex64)


def test_half_precisions_are_computed_in_float32():
    assert dtypes.compute_dtype(np.float16) == dtypes.compute_dtype(BFLOAT16) == np.float32
    assert dtypes.complex_of(BFLOAT16) == np.complex64 and dtypes.real_of(BFLOAT16) == BFLOAT16
    assert all(dtypes.compute_dtype(dtype) == dtype for dtype in ALL if dtype.itemsize != 2 or dtype.kind in "iu")


@pytest.mark.parametrize("fact", [dtypes.real_of, dtypes.complex_of])
def test_integers_have_no_counterpart(fact):
    with pytest.raises(TypeError, match=r"int32 has no \w+ counterpart"):
        fact(np.int32)


@pytest.mark.parametrize(
    ("like", "wanted"),
    [
        (float, "f64"),
        (int, "i64"),
        (bool, "bool"),
        (complex, "c128"),
        ("i8", "i64"),
        ("float32", "f32"),
        (">i2", "i16"),
    ],
)
def test_check_follows_numpy(like, wanted):
    assert dtypes.short(dtypes.check(like)) == wanted
    assert dtypes.check(like).isnative


def test_equal_dtypes_become_one_object():
    assert dtypes.check(np.longlong) is dtypes.check(np.int64) is dtypes.check(">i8") is np.dtype("int64")


@pytest.mark.parametrize(
    "like",
    [
        np.longdouble, np.clongdouble, object, str, "U3", bytes, "datetime64[s]", "timedelta64", [("a", "i4")],
        np.dtype([("a", "i4")]), "V4", ml_dtypes.float8_e4m3fn, ml_dtypes.int4, None, np.floating, np.ones(2), 3, "f32",
    ],
    ids=str,
)  # fmt: skip
def test_the_rest_is_refused(like):
    with pytest.raises(TypeError, match="is not supported; the supported ones are bool, int8"):
        dtypes.check(like)


@pytest.mark.parametrize(
    ("like", "hint"),
    [
        ("U3", "np.unique"),
        (object, r"x.astype\(float\) converts objects that are numbers"),
        ("m8[s]", "np.timedelta64"),
        ([("mass", "f4"), ("charge", "i1")], r"x\['mass'\]"),
        (ml_dtypes.float8_e4m3fn, r"x.astype\('float64'\)"),
    ],
)
def test_the_error_for_a_dtype_names_what_to_give_instead(like, hint):
    with pytest.raises(TypeError, match=hint):
        dtypes.check(np.dtype(like))


def test_unsupported_dtypes_are_of_no_kind():
    for dtype in (np.dtype(object), np.dtype(np.longdouble), np.dtype("U3"), np.dtype(ml_dtypes.float8_e5m2)):
        kinds = (dtypes.is_float, dtypes.is_complex, dtypes.is_inexact, dtypes.is_integer, dtypes.is_bool)
        assert not any(kind(dtype) for kind in kinds)
        with pytest.raises(TypeError):
            dtypes.short(dtype)


def test_a_wrong_short_name_is_refused():
    with pytest.raises(TypeError, match="'float32' is no dtype; the short names are bool, i8"):
        dtypes.from_short("float32")


def test_bfloat16_is_loaded_when_its_name_is_asked_for():
    program = (
        "import sys; from wholestep import dtypes; dtypes.is_float('float32'); dtypes.limits('float32')\n"
        "assert 'ml_dtypes' not in sys.modules\n"
        "assert dtypes.from_short('bf16') == dtypes.check('bfloat16') and 'ml_dtypes' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
