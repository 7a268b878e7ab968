"""Fourier transforms as real contractions with small constant matrices, with factors between them.

    n = r m, input at j m + i, output at l r + k:  X[l r + k] = sum_i w_m^(i l) w_n^(i k) sum_j w_r^(j k) x[j m + i]

(Cooley and Tukey, 1965.) Complex numbers are two planes of real ones, an axis of size 2 before the transformed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import OPS, NDArray, Value
from wholestep.lower.sorting import from_last, last_axis
from wholestep.primitives.contraction import LETTERS
from wholestep.primitives.creation import constant
from wholestep.primitives.family import conj, zeros

RADIX = 16
"""Lengths are split into factors up to this one, where they have them."""
DIRECT = 128
"""Up to this length a prime, or real numbers, are transformed by one matrix."""


# Constants, computed in double precision from exponents reduced exactly.


def roots(rows: int, columns: int, n: int, inverse: bool) -> NDArray:
    """w_n^(row * column)."""
    powers = np.outer(np.arange(rows), np.arange(columns)) % n
    return np.asarray(np.exp((2j if inverse else -2j) * np.pi / n * powers))


@cache
def crossed(r: int, inverse: bool, name: str) -> NDArray:
    """The matrix of a transform as it acts on planes: [plane, place, plane, place]."""
    w = roots(r, r, r, inverse)
    made = np.array([[w.real, w.imag], [-w.imag, w.real]])  # [from plane, to plane, from place, to place]
    return np.ascontiguousarray(made.transpose(0, 2, 1, 3), dtypes.from_short(name))


@cache
def twiddles(r: int, m: int, inverse: bool, name: str) -> tuple[NDArray, NDArray]:
    """What the planes are multiplied by, and what the exchanged planes are: [k, i] and [k, plane, i]."""
    w = roots(r, m, r * m, inverse)
    turned = np.stack([-w.imag, w.imag], axis=1)
    dtype = dtypes.from_short(name)
    return np.ascontiguousarray(w.real, dtype), np.ascontiguousarray(turned, dtype)


def literal(array: NDArray, like: Value) -> Value:
    """A constant in the precision of a value."""
    kind = dtypes.complex_of if array.dtype.kind == "c" else dtypes.real_of
    made: Value = constant(value=np.ascontiguousarray(array, kind(like.dtype)))
    return made


def over(x: Value, table: Value, axes: tuple[int, ...]) -> Value:
    """x times a constant that has these axes."""
    made: Value = x * OPS["broadcast"](table, shape=x.shape, axes=axes)
    return made


def times(x: Value, matrix: Value) -> Value:
    """x, its last axis contracted with the first of a matrix."""
    lead = LETTERS[: x.ndim - 1]
    made: Value = OPS["contract"](x, matrix, spec=f"{lead}X,XY->{lead}Y")
    return made


# The transform of planes.


def factor(n: int) -> int:
    """A factor up to `RADIX` with which all come out about equal; else the least prime factor."""
    least = next((r for r in range(2, math.isqrt(n) + 1) if n % r == 0), n)
    fitting = [r for r in range(2, min(RADIX, n) + 1) if n % r == 0]
    levels = math.ceil(math.log(n) / math.log(RADIX) - 1e-9)
    return min(fitting, key=lambda r: abs(math.log(r) - math.log(n) / levels)) if fitting else least


def spectrum(y: Value, inverse: bool) -> Value:
    """[..., 2, n] to [..., 2, digits of the place in the spectrum, the most significant one first]."""
    n, k = y.shape[-1], y.ndim - 2
    if n == 1:
        return y
    r = factor(n)
    lead, name = y.shape[:k], dtypes.short(y.dtype)
    letters = LETTERS[:k]
    if r == n and n > DIRECT:
        return chirp(y, inverse)
    matrix = constant(value=crossed(r, inverse, name))
    if r == n:
        last: Value = OPS["contract"](matrix, y, spec=f"WXYZ,{letters}WX->{letters}YZ")
        return last
    m = n // r
    split = OPS["reshape"](y, shape=(*lead, 2, r, m))
    found = OPS["contract"](matrix, split, spec=f"WXYZ,{letters}WXV->{letters}ZYV")  # [..., k, plane, i]
    straight, exchanged = (constant(value=t) for t in twiddles(r, m, inverse, name))
    turned = over(found, straight, (k, k + 2)) + over(OPS["flip"](found, axes=(k + 1,)), exchanged, (k, k + 1, k + 2))
    outer = spectrum(turned, inverse)  # [..., k, plane, digits of l]
    made: Value = OPS["permute"](outer, axes=(*range(k), *range(k + 1, outer.ndim), k))
    return made


def chirp(y: Value, inverse: bool) -> Value:
    """A long prime length: a convolution with w^(j^2 / 2), of a length that has small factors (Bluestein, 1970)."""
    n = y.shape[-1]
    size = 1 << (2 * n - 2).bit_length()
    wave = np.exp((1j if inverse else -1j) * np.pi / n * (np.arange(n) ** 2 % (2 * n)))
    kernel = np.zeros(size, np.complex128)
    kernel[:n], kernel[size - n + 1 :] = wave.conj(), wave.conj()[:0:-1]
    x = joined(y, y.ndim - 2)
    axis, nothing = (x.ndim - 1,), (0,) * x.ndim
    padded = OPS["pad"](
        over(x, literal(wave, x), axis), before=nothing, after=(*nothing[1:], size - n), interior=nothing
    )
    bent = over(transform(padded, False), literal(np.fft.fft(kernel) / size, x), axis)
    return planes(over(part(transform(bent, True), n), literal(wave, x), axis))


# Complex numbers as planes, and back.


def planes(x: Value) -> Value:
    """[..., n] to [..., 2, n]."""
    k = x.ndim - 1
    shape = (*x.shape[:k], 1, x.shape[k])
    made: Value = OPS["concat"](*[OPS["reshape"](OPS[f](x), shape=shape) for f in ("real", "imag")], axis=k)
    return made


def joined(y: Value, lead: int) -> Value:
    """[..., 2, digits] to [..., n], where `lead` axes come before the planes."""
    front, digits = y.shape[:lead], y.shape[lead + 1 :]

    def plane(i: int) -> Value:
        start, stop = (*[0] * lead, i, *[0] * len(digits)), (*front, i + 1, *digits)
        found: Value = OPS["slice"](y, start=start, stop=stop, step=(1,) * y.ndim)
        return found

    parts = [OPS["reshape"](plane(i), shape=(*front, *digits)) for i in (0, 1)]
    made: Value = OPS["reshape"](OPS["make_complex"](*parts), shape=(*front, math.prod(digits)))
    return made


def transform(x: Value, inverse: bool) -> Value:
    """The complex transform along the last axis."""
    return joined(spectrum(planes(x), inverse), x.ndim - 1)


def part(x: Value, stop: int, start: int = 0) -> Value:
    """A stretch of the last axis."""
    lead = (0,) * (x.ndim - 1)
    made: Value = OPS["slice"](x, start=(*lead, start), stop=(*x.shape[:-1], stop), step=(1,) * x.ndim)
    return made


def mirrored(x: Value) -> Value:
    """x[(-k) mod n] along the last axis."""
    axis = x.ndim - 1
    made: Value = OPS["concat"](part(x, 1), OPS["flip"](part(x, x.shape[-1], 1), axes=(axis,)), axis=axis)
    return made


def unturned(z: Value) -> Value:
    """z without its imaginary parts."""
    re = OPS["real"](z)
    made: Value = OPS["make_complex"](re, zeros(re.type))
    return made


# The operations of the language.


def fft(x: Value, *, axes: tuple[int, ...], inverse: bool) -> Sequence[Value]:
    """One axis after another."""
    for axis in axes:
        x = from_last(transform(last_axis(x, axis), inverse), axis)
    return (x,)


def rfft(x: Value, *, axis: int) -> Sequence[Value]:
    """Short lengths by a matrix; else even places become one plane, and odd ones the other."""
    return (from_last(real_transform(last_axis(x, axis)), axis),)


def real_transform(x: Value) -> Value:
    n, axis = x.shape[-1], x.ndim - 1
    half = n // 2
    if n <= DIRECT:
        table = roots(n, half + 1, n, False)
        made: Value = OPS["make_complex"](*[times(x, literal(t, x)) for t in (table.real, table.imag)])
        return made
    if n % 2:
        return part(transform(OPS["make_complex"](x, zeros(x.type)), False), half + 1)
    pairs = OPS["reshape"](x, shape=(*x.shape[:-1], half, 2))
    swapped = OPS["permute"](pairs, axes=(*range(axis), axis + 1, axis))
    z = joined(spectrum(swapped, False), axis)
    back = conj(mirrored(z))
    even, odd = (z + back) * 0.5, (z - back) * -0.5j
    turned = over(odd, literal(roots(2, half, n, False)[1], x), (axis,))
    joint: Value = OPS["concat"](even + turned, part(even, 1) - part(odd, 1), axis=axis)
    return joint


def irfft(z: Value, *, axis: int, n: int) -> Sequence[Value]:
    """The way back."""
    return (from_last(inverse_real(last_axis(z, axis), n), axis),)


def inverse_real(z: Value, n: int) -> Value:
    half, axis = n // 2, z.ndim - 1
    if n <= DIRECT:
        weights = np.where((np.arange(half + 1) * 2 % n == 0), 1.0, 2.0)
        table = roots(n, half + 1, n, True).T * weights[:, None]
        made: Value = times(OPS["real"](z), literal(table.real, z)) - times(OPS["imag"](z), literal(table.imag, z))
        return made
    if n % 2:
        rest = OPS["flip"](conj(part(z, half + 1, 1)), axes=(axis,))
        whole = OPS["concat"](unturned(part(z, 1)), part(z, half + 1, 1), rest, axis=axis)
        real: Value = OPS["real"](transform(whole, True))
        return real
    inner = part(z, half, 1)
    x = OPS["concat"](unturned(part(z, 1)), inner, axis=axis)
    y = OPS["concat"](unturned(part(z, half + 1, half)), OPS["flip"](conj(inner), axes=(axis,)), axis=axis)
    turned = over(x - y, literal(roots(2, half, n, True)[1], z), (axis,))
    found = spectrum(planes(x + y + turned * 1j), True)
    pairs = OPS["permute"](found, axes=(*range(axis), *range(axis + 1, found.ndim), axis))
    joint: Value = OPS["reshape"](pairs, shape=(*z.shape[:-1], n))
    return joint


EXPANSIONS: dict[str, Callable[..., Sequence[Value] | None]] = {"fft": fft, "rfft": rfft, "irfft": irfft}
"""What each transform is."""
