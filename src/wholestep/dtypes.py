"""Facts about the dtypes of the language, each one dictionary lookup."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np

from wholestep.errors import DtypeError

DType: TypeAlias = np.dtype[Any]
T = TypeVar("T")

_NUMPY_NAMES = {
    "bool": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    "bf16": "bfloat16",
    "c64": "complex64",
    "c128": "complex128",
}
_SHORT_NAMES = {name: short for short, name in _NUMPY_NAMES.items()}
SUPPORTED = tuple(_NUMPY_NAMES)

DRAWN = np.float32
"""The dtype of random and initial numbers where none is asked for: that of `ws.random`, `nn.init` and every layer."""

_KINDS = {name: "i" if name[0] == "u" else name[0] for name in SUPPORTED} | {"bf16": "f"}
_REAL = {"c64": "f32", "c128": "f64", **{short: short for short in ("f16", "bf16", "f32", "f64")}}
_COMPLEX = {"f16": "c64", "bf16": "c64", "f32": "c64", "f64": "c128", "c64": "c64", "c128": "c128"}
_COMPUTE = {**{short: short for short in SUPPORTED}, "f16": "f32", "bf16": "f32"}


class _Facts(dict[Any, T]):
    """Facts of each dtype, computed when one is first asked for."""

    def __init__(self, fact: Callable[[Any], T]) -> None:
        self.fact = fact

    def __missing__(self, dtype: Any) -> T:
        found = self[dtype] = self.fact(dtype)
        return found


def check(dtype_like: Any) -> DType:
    """Return the supported dtype, in native byte order, that a description has in NumPy.

    Raises DtypeError for unsupported dtypes: extended precision, objects, text, times, records, float8.

    >>> check(float), check(">f4")
    (dtype('float64'), dtype('float32'))
    """
    try:
        found = _CHECKED.get(dtype_like)
    except TypeError:  # a description that cannot be hashed, such as a list of fields
        found = None
    return _canonical(dtype_like) if found is None else found


def short(dtype: Any) -> str:
    """Return the short name of a dtype, as types are printed.

    Raises DtypeError when the dtype is not supported.

    >>> short(np.float32), short(bool), short(np.dtype("u1"))
    ('f32', 'bool', 'u8')
    """
    name: str = _SHORT[dtype]
    return name


def from_short(name: str) -> DType:
    """Return the dtype that a short name stands for.

    Raises DtypeError when it stands for none.

    >>> from_short("i64")
    dtype('int64')
    """
    found: DType = _FROM_SHORT[name]
    return found


def letters(dtype: DType) -> int:
    """The short name of a dtype as a number of 64 bits, for compiled code to pass on.

    >>> from_letters(letters(np.dtype("int16")))
    dtype('int16')
    """
    return int.from_bytes(short(dtype).encode(), "little")


def from_letters(number: int) -> DType:
    """The dtype that a number made by `letters` stands for."""
    return from_short(number.to_bytes(8, "little").rstrip(b"\0").decode())


def is_float(dtype: Any) -> bool:
    """Say whether a dtype is a supported real floating-point one, float16 and bfloat16 included.

    >>> is_float(np.float16), is_float(np.complex64), is_float(object)
    (True, False, False)
    """
    return _KIND[dtype] == "f"


def is_complex(dtype: Any) -> bool:
    """Say whether a dtype is a supported complex one.

    >>> is_complex(complex), is_complex(float)
    (True, False)
    """
    return _KIND[dtype] == "c"


def is_supported(dtype: Any) -> bool:
    """Say whether a dtype is a supported one, bfloat16 included, which is of no kind of NumPy's own.

    >>> is_supported("bfloat16"), is_supported(bool), is_supported(object)
    (True, True, False)
    """
    return _KIND[dtype] != "unsupported"


def is_inexact(dtype: Any) -> bool:
    """Say whether a dtype is a supported floating-point or complex one, that is, has derivatives.

    >>> is_inexact(np.float32), is_inexact(complex), is_inexact(int)
    (True, True, False)
    """
    return _KIND[dtype] in ("f", "c")


def is_integer(dtype: Any) -> bool:
    """Say whether a dtype is a supported integer one, signed or not; bool is none.

    >>> is_integer(np.uint8), is_integer(bool)
    (True, False)
    """
    return _KIND[dtype] == "i"


def counts_back(dtype: Any) -> bool:
    """Say whether an index of an integer dtype, read as int64 as NumPy reads it, can be negative: uint64 wraps.

    >>> counts_back(np.int8), counts_back(np.uint32), counts_back(np.uint64)
    (True, False, True)
    """
    return not np.can_cast(dtype, np.uint32)


def is_bool(dtype: Any) -> bool:
    """Say whether a dtype is the boolean one.

    >>> is_bool(bool), is_bool(np.uint8)
    (True, False)
    """
    return _KIND[dtype] == "b"


def real_of(dtype: Any) -> DType:
    """Return the dtype of the real part of an inexact dtype.

    Raises DtypeError when the dtype is not inexact.

    >>> real_of(np.complex128), real_of(np.float32)
    (dtype('float64'), dtype('float32'))
    """
    return _REAL_OF[dtype]


def complex_of(dtype: Any) -> DType:
    """Return the smallest complex dtype that holds an inexact dtype.

    Raises DtypeError when the dtype is not inexact.

    >>> complex_of(np.float16), complex_of(np.float64)
    (dtype('complex64'), dtype('complex128'))
    """
    return _COMPLEX_OF[dtype]


def compute_dtype(dtype: Any) -> DType:
    """Return the dtype in which arithmetic on a dtype is carried out: float32 for the half precisions.

    Raises DtypeError when the dtype is not supported.

    >>> compute_dtype(np.float16), compute_dtype(np.int8)
    (dtype('float32'), dtype('int8'))
    """
    return _COMPUTE_OF[dtype]


def promoted_dtype(*kinds: Any) -> DType:
    """Return the dtype that NumPy promotes dtypes and Python numbers to.

    NumPy has none for bfloat16 beside float16 or integers of more than 8 bits; its ufuncs then take bfloat16 for
    float32, and so does this.

    >>> promoted_dtype(np.float32, np.int64, 1.0), promoted_dtype(check("bfloat16"), np.int16)
    (dtype('float64'), dtype('float32'))
    """
    try:
        found: DType = np.result_type(*kinds)
    except np.exceptions.DTypePromotionError:
        wide = [np.float32 if isinstance(k, type | np.dtype) and np.dtype(k).name == "bfloat16" else k for k in kinds]
        found = np.result_type(*wide)
    return found


def limits(dtype: Any) -> Any:
    """Return NumPy's `finfo` of a floating-point dtype, bfloat16 included, or of the parts of a complex one.

    >>> float(limits("bfloat16").eps), limits(np.complex64).nmant
    (0.0078125, 23)
    """
    return _LIMITS[dtype]


def _canonical(dtype_like: Any) -> DType:
    if isinstance(dtype_like, str) and dtype_like == "bfloat16":
        dtype = _bfloat16()
    elif dtype_like is None:
        raise _refusal("None")  # NumPy would take it for float64
    elif hasattr(dtype_like, "ndim") and not isinstance(dtype_like, type | np.dtype | np.generic):
        raise _refusal("of an array")  # NumPy would take its dtype, if it is none of its own arrays
    else:
        try:
            dtype = np.dtype(dtype_like)
        except TypeError:
            raise _refusal(repr(dtype_like)) from None
    if dtype.name not in _SHORT_NAMES:
        raise _refusal(str(dtype), way_out(dtype))
    if dtype.name != "bfloat16":
        dtype = np.dtype(dtype.name)  # one object for all byte orders and C names
    if isinstance(dtype_like, str | type | np.dtype):  # a number, which NumPy asks for its dtype, equals others
        _CHECKED[dtype_like] = dtype
    return dtype


def _refusal(what: str, hint: str | None = None) -> DtypeError:
    return DtypeError(
        f"array: dtype {what} is not supported; the supported ones are {', '.join(_SHORT_NAMES)}", hint=hint
    )


def way_out(dtype: DType) -> str | None:
    """The way out for an array of a dtype that the language lacks; None where the dtype is bytes without a meaning."""
    kind = dtype.kind
    if kind in "UST":
        return "give numbers in place of words: np.unique(words, return_inverse=True)[1] numbers them, before the call"
    if kind == "O":
        return "x.astype(float) converts objects that are numbers; rows of different lengths are to be padded"
    if kind in "mM":
        return "x.astype('int64') is the count of its units; (x - x[0]) / np.timedelta64(1, 's') is seconds"
    if dtype.names:
        return f"give its fields as arrays of their own: x[{dtype.names[0]!r}]"
    return None if dtype.type is np.void else f"x.astype('{'complex128' if kind == 'c' else 'float64'}') converts it"


def _bfloat16() -> DType:
    import ml_dtypes

    found: DType = np.dtype(ml_dtypes.bfloat16)
    return found


def _limits(dtype: Any) -> Any:
    real = real_of(dtype)
    if short(real) != "bf16":
        return np.finfo(real)
    import ml_dtypes

    return ml_dtypes.finfo(real)  # type: ignore[no-untyped-call]


def _from_short(name: str) -> DType:
    if name not in _NUMPY_NAMES:
        raise DtypeError(f"{name!r} is no dtype; the short names are {', '.join(SUPPORTED)}")
    return check(_NUMPY_NAMES[name])


def _kind(dtype: Any) -> str:
    try:
        return _KINDS[short(dtype)]
    except TypeError:
        return "unsupported"


def _counterpart(table: dict[str, str], word: str) -> Callable[[Any], DType]:
    def fact(dtype: Any) -> DType:
        name = short(dtype)
        if name not in table:
            raise DtypeError(f"dtype {check(dtype)} has no {word} counterpart: it is not floating-point or complex")
        return from_short(table[name])

    return fact


_CHECKED: dict[Any, DType] = {}
_SHORT = _Facts(lambda dtype: _SHORT_NAMES[check(dtype).name])
_FROM_SHORT = _Facts(_from_short)
_KIND = _Facts(_kind)
_LIMITS = _Facts(_limits)
_REAL_OF = _Facts(_counterpart(_REAL, "real"))
_COMPLEX_OF = _Facts(_counterpart(_COMPLEX, "complex"))
_COMPUTE_OF = _Facts(_counterpart(_COMPUTE, "computing"))
