"""Keys of random numbers, and the words and fractions that every distribution is computed from."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from wholestep import dtypes
from wholestep.boundary.public import boundary
from wholestep.contents import sha256
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.promotion import broadcast_shapes, broadcast_to, cast_to, checked, full_of, lift, wrap
from wholestep.frontend.tracing import scope
from wholestep.ir.graph import NDArray, Value
from wholestep.ir.types import Shape
from wholestep.primitives.creation import cast, like
from wholestep.primitives.logic import right_shift, select
from wholestep.primitives.movement import concat, reshape, slice_
from wholestep.primitives.random import WORD, random_bits
from wholestep.words import type_in_words

F = TypeVar("F", bound=Callable[..., Any])

BITS, SPLIT, FOLD, GAMMA, POISSON, BINOMIAL, VONMISES = range(7)
"""Numbers of independent streams: a key's draws never coincide with the keys that it is split or folded into."""

WIDE = np.dtype(np.uint64)
_ZERO = np.zeros((), WORD)


def run_in_trace(f: F) -> F:
    """Run f in the current trace, or in one of its own that gives plain results, so that the bits are the same."""

    own = boundary(f)

    @boundary
    @functools.wraps(f)
    def draw(*args: Any, **kwargs: Any) -> Any:
        with scope("random") as work, work.last_walk():
            return work.leave(own(*args, **kwargs))

    return draw  # type: ignore[return-value]


def drawn_numbers(v: Value) -> NDArray:
    """An array of drawn numbers, which `run_in_trace` makes plain outside of a program."""
    made: Any = wrap(v)
    return made


def key_of(name: str, key: Any) -> Value:
    """A key as a value; raises DtypeError or ShapeError for a value that is no key."""
    return lift(checked_key(name, key)).value


def checked_key(name: str, key: Any) -> Any:
    """A key as it is, traced or plain; raises DtypeError or ShapeError for a value that is no key."""
    hint = "make one with ws.random.key(seed)"
    if not isinstance(key, Array | np.ndarray):
        raise DtypeError(f"{name}: the key is {type_in_words(key)}, not two uint32 words", hint=hint)
    if key.dtype != WORD:
        raise DtypeError(f"{name}: the key is of dtype {key.dtype}, not uint32", hint=hint)
    if key.shape != (2,):
        hint = "map over many keys with ws.vmap" if key.ndim > 1 and key.shape[-1] == 2 else hint
        raise ShapeError(f"{name}: the key has shape {key.shape}, not (2,)", hint=hint)
    return key


def shape_of(name: str, shape: Any) -> Shape:
    """Sizes from an int or a sequence of them; raises ShapeError for negative ones."""
    sizes = tuple(shape) if np.iterable(shape) else (shape,)
    try:
        found = tuple([n if type(n).__name__ == "Dim" else operator.index(n) for n in sizes])
    except TypeError:
        hint = "give an integer, or a tuple of them: (2, 3)"
        raise ShapeError(f"{name}: shape {shape!r} is not made of integers", hint=hint) from None
    if any(isinstance(n, int) and n < 0 for n in found):
        raise ShapeError(f"{name}: shape {found} has a negative size")
    return found


def float_of(name: str, dtype: Any, *, complexes: bool = False) -> np.dtype[Any]:
    """A floating dtype, complex where that is allowed; raises DtypeError otherwise."""
    found = checked(dtype)
    if dtypes.is_float(found) or (complexes and dtypes.is_complex(found)):
        return found
    raise DtypeError(f"{name}: dtype {found} is not floating", hint="float64, float32, float16 and bfloat16 are")


def broadcast_parameters(name: str, shape: Any, dtype: np.dtype[Any], *given: Any) -> tuple[Shape, list[Value]]:
    """The shape of the result, which parameters broadcast to, and the parameters as values of that shape."""
    values = []
    for x in given:
        v = lift(x).value
        if dtypes.is_complex(v.dtype):
            raise DtypeError(f"{name}: a parameter is {v.type}, not real")
        values.append(cast_to(v, dtype))
    common = broadcast_shapes(name, [v.shape for v in values])
    wanted = common if shape is None else shape_of(name, shape)
    if broadcast_shapes(name, [common, wanted]) != wanted:
        raise ShapeError(f"{name}: parameters of shape {common} do not broadcast to shape {wanted}")
    return wanted, [broadcast_to(v, wanted) for v in values]


def require_known(name: str, what: str, holds: Callable[..., Any], *values: Value) -> None:
    """Raise ParameterError where values that are known break a rule; values without data are taken on trust."""
    if any(v.data is None for v in values):
        return
    if not np.all(holds(*[v.data for v in values])):
        raise ParameterError(f"{name}: {what}")


def valid_or_nan(name: str, what: str, holds: Callable[..., Any], *values: Value) -> list[Value]:
    """Parameters of one shape that keep a rule: ParameterError where known ones break it, NaN where others do.

    A factor of 1 or NaN makes what is computed from them, and its derivative, NaN too.
    """
    require_known(name, what, holds, *values)
    if all(v.data is not None for v in values):
        return list(values)
    kept = lift(holds(*map(wrap, values))).value
    return [v * select(kept, like(v, 1), like(v, np.nan)) for v in values]


def random_words(key: Value, shape: Shape, count: int, *, stream: int = BITS, data: Value | None = None) -> list[Value]:
    """`count` words for each element, each a u32 of that shape: element i has the words from i count on."""
    data = full_of(_ZERO[()], (), WORD) if data is None else data
    if count == 1:
        return [random_bits(key, data, shape=shape, stream=stream)]
    whole = random_bits(key, data, shape=(*shape, count), stream=stream)
    return [word_column(whole, i) for i in range(count)]


def word_column(x: Value, i: int) -> Value:
    """x[..., i]."""
    lead = x.shape[:-1]
    start, stop = (*[0] * len(lead), i), (*lead, i + 1)
    out: Value = reshape(slice_(x, start=start, stop=stop, step=(1,) * x.ndim), shape=lead)
    return out


def uint64_of_words(low: Value, high: Value) -> Value:
    """high * 2**32 + low as uint64."""
    both: Value = cast(high, dtype=WIDE) * 2**32 + cast(low, dtype=WIDE)
    return both


def shift_right(x: Value, places: int) -> Value:
    """x >> places."""
    out: Value = right_shift(x, like(x, places))
    return out


def words_per_number(dtype: np.dtype[Any]) -> int:
    """The number of words that a number of this dtype is made from."""
    return 2 if dtype.itemsize == 8 else 1


def integer(parts: Sequence[Value]) -> Value:
    """One or two words as one unsigned integer."""
    return parts[0] if len(parts) == 1 else uint64_of_words(parts[0], parts[1])


def unit_fraction(parts: Sequence[Value], dtype: np.dtype[Any]) -> Value:
    """A multiple of 2**-p in [0, 1) from the top p bits, p the precision of the dtype: every one is exact."""
    bits = integer(parts)
    precision = {"f8": 53, "f4": 24, "f2": 11}.get(f"{dtype.kind}{dtype.itemsize}", 8)
    top = shift_right(bits, 8 * bits.dtype.itemsize - precision)
    out: Value = cast(top, dtype=dtype) * 2.0**-precision
    return out


class Tail(NamedTuple):
    """A uniform number as its distance p from the nearer end, in (0, 1/2], and whether that end is 1.

    p has all its digits however small it is, 2**-65 at least in double precision and 2**-33 in single, so functions
    that grow without bound at both ends are as exact at one as at the other.
    """

    p: Value
    upper: Value

    def pick(self, upper: Value, lower: Value) -> Value:
        out: Value = select(self.upper, upper, lower)
        return out

    def signed(self, x: Value) -> Value:
        """x on the upper side, -x on the lower."""
        return self.pick(x, -x)


def normal_tail(parts: Sequence[Value], dtype: np.dtype[Any]) -> Tail:
    """The lowest bit chooses the end, the others the distance; dtype is float32 or float64."""
    bits = integer(parts)
    size = 8 * bits.dtype.itemsize
    p = (cast(shift_right(bits, 1), dtype=dtype) + 0.5) * 2.0**-size
    return Tail(p, (bits & like(bits, 1)).equals(1))


def tail_of(key: Value, shape: Shape, dtype: np.dtype[Any]) -> Tail:
    """A fresh Tail for each element; half precisions are worked out in single."""
    computed = dtypes.compute_dtype(dtype)
    return normal_tail(random_words(key, shape, words_per_number(computed)), computed)


@run_in_trace
def key(seed: Any) -> NDArray:
    """Make a key, u32[2], from an integer of any size.

    A `seed` of up to 64 bits, negative ones as two's complement, gives a key of its own; it may be traced or a NumPy
    integer, and equal integers of any dtypes give equal keys. Using one key twice gives the same numbers twice:
    `split` it, or `fold_in` a counter, for fresh ones. Under `ws.vmap` a key that is not mapped is shared by all
    elements.

    Shapes: an integer, or an integer scalar that may be traced; u32[2].
    Raises: DtypeError for a seed that is not an integer, ShapeError for an array of them.

    >>> import wholestep as ws
    >>> ws.random.key(7).tolist()
    [7, 0]
    """
    low, high, *rest = integer_words("key", seed)
    made = key_of_words(low, high)
    for word in rest:
        made = fold_word(made, word)
    return drawn_numbers(made)


def integer_words(name: str, x: Any) -> list[Value]:
    """An integer as 32-bit words, the lowest first, two at least."""
    if isinstance(x, int) and not isinstance(x, bool):
        count = max(2, -(-(x.bit_length() + (x < -(2**63))) // 32))
        return [full_of(x >> 32 * i & 0xFFFFFFFF, (), WORD) for i in range(count)]
    v = lift(x).value
    if not dtypes.is_integer(v.dtype):
        raise DtypeError(f"{name}: {v.type} is not an integer")
    if v.shape != ():
        raise ShapeError(f"{name}: takes one integer, not {v.type}", hint="map over many with ws.vmap")
    v = cast_to(v, WIDE)
    return [cast(v & like(v, 0xFFFFFFFF), dtype=WORD), cast(shift_right(v, 32), dtype=WORD)]


def key_of_words(low: Value, high: Value) -> Value:
    """Two words as a key."""
    out: Value = concat(reshape(low, shape=(1,)), reshape(high, shape=(1,)), axis=0)
    return out


def fold_word(k: Value, word: Value) -> Value:
    """A new key from a key and a word."""
    out: Value = random_bits(k, word, shape=(2,), stream=FOLD)
    return out


@run_in_trace
def split(key: Any, num: Any = 2) -> NDArray:
    """Make `num` fresh keys from one: u32[num, 2], or u32[*num, 2] for a tuple.

    Keys from one split, from splits of different keys and the key itself give independent numbers. The first keys of a
    longer split are those of a shorter one.

    Shapes: key u32[2]; u32[num, 2].
    Raises: DtypeError or ShapeError for a bad key.
    Source: blocks of Philox 4x32-10, as `bits`.

    >>> import wholestep as ws
    >>> first, second = ws.random.split(ws.random.key(0))
    >>> first.shape, bool((first == second).all())
    ((2,), False)
    """
    shape = shape_of("split", num)
    k = key_of("split", key)
    return drawn_numbers(random_bits(k, full_of(_ZERO[()], (), WORD), shape=(*shape, 2), stream=SPLIT))


@run_in_trace
def fold_in(key: Any, data: Any) -> NDArray:
    """Make a fresh key, u32[2], from a key and an integer, such as a step counter, that may be traced; or from a name.

    Different integers of up to 64 bits, negative ones as two's complement, give different keys, for every dtype. A
    name, a string, counts as the integer of the first 16 hexadecimal digits of its SHA-256.

    Shapes: key u32[2], `data` an integer scalar or a string; u32[2].
    Raises: DtypeError or ShapeError for a bad key or for data that is neither one integer nor a string.
    Source: one block of Philox 4x32-10, as `bits`.

    >>> import wholestep as ws
    >>> key = ws.random.key(0)
    >>> bool((ws.random.fold_in(key, 1) == ws.random.fold_in(key, 2)).all())
    False
    """
    k = key_of("fold_in", key)
    if isinstance(data, str):
        data = int(sha256(np.frombuffer(data.encode(), np.uint8))[:16], 16)
    low, high, *rest = integer_words("fold_in", data)
    made = fold_word(k, low)
    if not (isinstance(data, int) and 0 <= data < 2**32):
        made = select(broadcast_to(high.equals(0), (2,)), made, fold_word(made, high))
    for word in rest:
        made = fold_word(made, word)
    return drawn_numbers(made)


@run_in_trace
def bits(key: Any, shape: Any = (), dtype: Any = np.uint32) -> NDArray:
    """Draw uniform unsigned integers of a dtype, uint32 by default, over its whole range.

    The elements of a larger shape begin with those of a smaller one.

    Shapes: key u32[2]; unsigned integers of `dtype` and `shape`.
    Raises: DtypeError for a dtype that is not unsigned, and DtypeError or ShapeError for a bad key.
    Source: Philox 4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011.

    >>> import wholestep as ws
    >>> [hex(word) for word in ws.random.bits(ws.random.key(0), (4,))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    wanted = checked(dtype)
    if wanted.kind != "u":
        raise DtypeError(f"bits: dtype {wanted} is not an unsigned integer", hint="use randint for the others")
    found = integer(random_words(key_of("bits", key), shape_of("bits", shape), words_per_number(wanted)))
    return drawn_numbers(cast_to(found, wanted))
