"""Functions of SciPy are found by name, and are the right ones."""

import ctypes

import numpy as np
import pytest
import scipy.special

from wholestep.errors import UnsupportedError
from wholestep.runtime.cpu.external_symbols import c_signature, resolve_symbol, type_letters

D, F, INT = ctypes.c_double, ctypes.c_float, ctypes.c_int


@pytest.mark.parametrize(
    ("name", "types", "arguments"),
    [
        ("gammaln", (D, D), (3.7,)),
        ("ndtri", (D, D), (0.3,)),
        ("psi:dd", (D, D), (2.5,)),
        ("erf:dd", (D, D), (0.4,)),
        ("betainc:dddd", (D, D, D, D), (2.0, 3.0, 0.4)),
        ("betainc:ffff", (F, F, F, F), (2.0, 3.0, 0.25)),
        ("gammainc", (D, D, D), (2.0, 3.0)),
    ],
)
def test_a_special_function_is_scipys(name, types, arguments):
    # The last argument, which Cython adds, is 0.
    found = ctypes.CFUNCTYPE(*types, INT)(resolve_symbol(f"special.{name}"))(*arguments, 0)
    wanted = getattr(scipy.special, name.partition(":")[0])(*np.array(arguments, types[0]))
    assert types[0](found).value == types[0](wanted).value


def test_lapack_and_blas_are_called_as_in_fortran():
    a = np.array([[4.0, 2.0], [2.0, 5.0]])
    n, info = INT(2), INT(-1)
    factor = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(resolve_symbol("lapack.dpotrf"))
    upper = ctypes.create_string_buffer(b"L")
    factor(*map(ctypes.addressof, (upper, n)), a.ctypes.data, ctypes.addressof(n), ctypes.addressof(info))
    assert info.value == 0 and np.allclose(np.triu(a).T, np.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]]))
    assert resolve_symbol("blas.dgemm") != resolve_symbol("blas.sgemm")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("special.psi", r"'special.psi' has several signatures\n(.*\n)?  hint: dd; zz"),
        ("special.psi:ff", "is not in the installed SciPy"),
        ("special.no_such", "is not in the installed SciPy"),
        ("lapack.potrf", "is not in the installed SciPy"),
        ("libc.system", "unknown library function 'libc.system'"),
        ("dgemm", "unknown library function"),
    ],
)
def test_a_name_that_says_too_little_is_refused(name, message):
    with pytest.raises(UnsupportedError, match=message):
        resolve_symbol(name)


def test_signatures_are_scipys():
    assert c_signature("special.betainc:ffff") == "float (float, float, float, int __pyx_skip_dispatch)"
    assert type_letters("__pyx_t_double_complex (double, __pyx_t_double_complex, int __pyx_skip_dispatch)") == "zdz"
