"""Addresses of other libraries' compiled functions, by name: `lapack.dpotrf`, `blas.dgemm`, `special.gammaln`.

They are the functions that SciPy offers to Cython, which is its supported way in, the system's clock, and the
collectives of this process. A function of scipy.special that has several signatures is named with the one wanted:
`special.psi:d`; the letters are the types of result and arguments.
"""

from __future__ import annotations

import ctypes
import importlib
import re
from functools import cache
from typing import Any

from wholestep.backends.cpu.gate import GATE
from wholestep.errors import UnsupportedError
from wholestep.runtime.cpu import clock
from wholestep.runtime.cpu.collective_calls import collective_address

MODULES = {
    "lapack": "scipy.linalg.cython_lapack",
    "blas": "scipy.linalg.cython_blas",
    "special": "scipy.special.cython_special",
}
LETTERS = {"double": "d", "float": "f", "long double": "g", "__pyx_t_double_complex": "z", "long": "l", "int": "i"}
"""The letters of the types in a signature."""
HIDDEN = "int __pyx_skip_dispatch"
"""A last argument that Cython adds; a caller passes 0."""


@cache
def resolve_symbol(name: str) -> int:
    """Return the address of a function; raises UnsupportedError for a name that the installed SciPy does not have.

    >>> resolve_symbol("lapack.dpotrf") != resolve_symbol("blas.dgemm")
    True
    """
    family, _, rest = name.partition(".")
    if family == "collective":
        return collective_address(rest)
    return clock.clock_symbols()[name] if name in clock.clock_symbols() else _find(name)[0]


@cache
def c_signature(name: str) -> str:
    """The C signature of a function, as SciPy states it; a last `int __pyx_skip_dispatch` is passed 0.

    >>> c_signature("special.gammaln")
    'double (double, int __pyx_skip_dispatch)'
    """
    return _find(name)[1]


def _find(name: str) -> tuple[int, str]:
    family, _, rest = name.partition(".")
    base, _, letters = rest.partition(":")
    if family not in MODULES:
        raise UnsupportedError(f"compile: unknown library function {name!r}")
    with GATE:
        offered = importlib.import_module(MODULES[family]).__pyx_capi__
    found = []
    for key, capsule in offered.items():
        if re.fullmatch(rf"(__pyx_fuse(_\d+)+)?{re.escape(base)}", key):
            stated = _signature(capsule)
            if not letters or type_letters(stated) == letters:
                found.append((capsule, stated))
    if len(found) != 1:
        wrong = "has several signatures" if found else "is not in the installed SciPy"
        hint = "; ".join(sorted(type_letters(stated) for _, stated in found)) or None
        raise UnsupportedError(f"compile: the library function {name!r} {wrong}", hint=hint)
    capsule, stated = found[0]
    return _pointer(capsule, stated), stated


def type_letters(stated: str) -> str:
    """The types of a signature as letters, the result first; a type without a letter is a question mark.

    >>> type_letters("double (double, long, int __pyx_skip_dispatch)")
    'ddl'
    """
    result, _, arguments = stated.partition(" (")
    types = [part for part in arguments.rstrip(")").split(", ") if part != HIDDEN]
    return "".join(LETTERS.get(part, "?") for part in (result, *types))


def _signature(capsule: Any) -> str:
    name = ctypes.pythonapi.PyCapsule_GetName
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    return str(name(capsule).decode())


def _pointer(capsule: Any, stated: str) -> int:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return int(pointer(capsule, stated.encode()))
