"""Fourier transforms as real contractions with small DFT matrices and twiddle factors between them.

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
from wholestep.lower.legalize.sort import along_axis, slice_last
from wholestep.primitives.contraction import LETTERS
from wholestep.primitives.creation import constant
from wholestep.primitives.family import conj, zeros

RADIX = 16
"""Maximum radix of a factorization."""
DIRECT = 128
"""Maximum length of a prime or real transform by one matrix."""


# Constants, computed in double precision from exponents reduced exactly.


def roots_of_unity(rows: int, columns: int, n: int, inverse: bool) -> NDArray:
    """w_n^(row * column)."""
    powers = np.outer(np.arange(rows), np.arange(columns)) % n
    return np.asarray(np.exp((2j if inverse else -2j) * np.pi / n * powers))


@cache
def dft_matrix(r: int, inverse: bool, name: str) -> NDArray:
    """The matrix of a transform on planes: [plane, position, plane, position]."""
    w = roots_of_unity(r, r, r, inverse)
    made = np.array([[w.real, w.imag], [-w.imag, w.real]])  # [from plane, to plane, from place, to place]
    return np.ascontiguousarray(made.transpose(0, 2, 1, 3), dtypes.from_short(name))


@cache
def twiddle_factors(r: int, m: int, inverse: bool, name: str) -> tuple[NDArray, NDArray]:
    """The factors of the planes and of the exchanged planes: [k, i] and [k, plane, i]."""
    w = roots_of_unity(r, m, r * m, inverse)
    turned = np.stack([-w.imag, w.imag], axis=1)
    dtype = dtypes.from_short(name)
    return np.ascontiguousarray(w.real, dtype), np.ascontiguousarray(turned, dtype)


def constant_like(array: NDArray, like: Value) -> Value:
    """A constant in the precision of a value."""
    kind = dtypes.complex_of if array.dtype.kind == "c" else dtypes.real_of
    return constant(value=np.ascontiguousarray(array, kind(like.dtype)))


def scale_along(x: Value, table: Value, axes: tuple[int, ...]) -> Value:
    """x times a constant that has these axes."""
    return x * OPS["broadcast"](table, shape=x.shape, axes=axes)


def contract_last(x: Value, matrix: Value) -> Value:
    """x with its last axis contracted with the first of a matrix."""
    lead = LETTERS[: x.ndim - 1]
    return OPS["contract"](x, matrix, spec=f"{lead}X,XY->{lead}Y")


# Transforms of planes.


def choose_radix(n: int) -> int:
    """A factor up to `RADIX` that splits evenly; else the least prime factor."""
    least = next((r for r in range(2, math.isqrt(n) + 1) if n % r == 0), n)
    fitting = [r for r in range(2, min(RADIX, n) + 1) if n % r == 0]
    levels = math.ceil(math.log(n) / math.log(RADIX) - 1e-9)
    return min(fitting, key=lambda r: abs(math.log(r) - math.log(n) / levels)) if fitting else least


def dft_of_planes(y: Value, inverse: bool) -> Value:
    """[..., 2, n] to [..., 2, digits of the frequency, the most significant one first]."""
    n, k = y.shape[-1], y.ndim - 2
    if n == 1:
        return y
    r = choose_radix(n)
    lead, name = y.shape[:k], dtypes.short(y.dtype)
    letters = LETTERS[:k]
    if r == n and n > DIRECT:
        return bluestein(y, inverse)
    matrix = constant(value=dft_matrix(r, inverse, name))
    if r == n:
        return OPS["contract"](matrix, y, spec=f"WXYZ,{letters}WX->{letters}YZ")
    m = n // r
    split = OPS["reshape"](y, shape=(*lead, 2, r, m))
    found = OPS["contract"](matrix, split, spec=f"WXYZ,{letters}WXV->{letters}ZYV")  # [..., k, plane, i]
    straight, exchanged = (constant(value=t) for t in twiddle_factors(r, m, inverse, name))
    turned = scale_along(found, straight, (k, k + 2)) + scale_along(
        OPS["flip"](found, axes=(k + 1,)), exchanged, (k, k + 1, k + 2)
    )
    outer = dft_of_planes(turned, inverse)  # [..., k, plane, digits of l]
    return OPS["permute"](outer, axes=(*range(k), *range(k + 1, outer.ndim), k))


def bluestein(y: Value, inverse: bool) -> Value:
    """A long prime length as a convolution with w^(j^2 / 2) of a length with small factors (Bluestein, 1970)."""
    n = y.shape[-1]
    size = 1 << (2 * n - 2).bit_length()
    wave = np.exp((1j if inverse else -1j) * np.pi / n * (np.arange(n) ** 2 % (2 * n)))
    kernel = np.zeros(size, np.complex128)
    kernel[:n], kernel[size - n + 1 :] = wave.conj(), wave.conj()[:0:-1]
    x = join_planes(y, y.ndim - 2)
    axis, nothing = (x.ndim - 1,), (0,) * x.ndim
    padded = OPS["pad"](
        scale_along(x, constant_like(wave, x), axis), before=nothing, after=(*nothing[1:], size - n), interior=nothing
    )
    bent = scale_along(complex_dft(padded, False), constant_like(np.fft.fft(kernel) / size, x), axis)
    return split_planes(scale_along(slice_last(complex_dft(bent, True), n), constant_like(wave, x), axis))


# Conversion between complex numbers and planes.


def split_planes(x: Value) -> Value:
    """[..., n] to [..., 2, n]."""
    k = x.ndim - 1
    shape = (*x.shape[:k], 1, x.shape[k])
    return OPS["concat"](*[OPS["reshape"](OPS[f](x), shape=shape) for f in ("real", "imag")], axis=k)


def join_planes(y: Value, lead: int) -> Value:
    """[..., 2, digits] to [..., n], with `lead` axes before the planes."""
    front, digits = y.shape[:lead], y.shape[lead + 1 :]

    def plane(i: int) -> Value:
        start, stop = (*[0] * lead, i, *[0] * len(digits)), (*front, i + 1, *digits)
        return OPS["slice"](y, start=start, stop=stop, step=(1,) * y.ndim)

    parts = [OPS["reshape"](plane(i), shape=(*front, *digits)) for i in (0, 1)]
    return OPS["reshape"](OPS["make_complex"](*parts), shape=(*front, math.prod(digits)))


def complex_dft(x: Value, inverse: bool) -> Value:
    """The complex transform along the last axis."""
    return join_planes(dft_of_planes(split_planes(x), inverse), x.ndim - 1)


def mirror_frequencies(x: Value) -> Value:
    """x[(-k) mod n] along the last axis."""
    axis = x.ndim - 1
    return OPS["concat"](slice_last(x, 1), OPS["flip"](slice_last(x, x.shape[-1], 1), axes=(axis,)), axis=axis)


def drop_imaginary(z: Value) -> Value:
    """z without its imaginary parts."""
    re = OPS["real"](z)
    return OPS["make_complex"](re, zeros(re.type))


# Expansions.


def expand_fft(x: Value, *, axes: tuple[int, ...], inverse: bool) -> Sequence[Value]:
    """One axis after another."""
    for axis in axes:
        x = along_axis(lambda y: complex_dft(y, inverse), x, axis)
    return (x,)


def expand_rfft(x: Value, *, axis: int) -> Sequence[Value]:
    """Short lengths by a matrix; else even positions become one plane, and odd ones the other."""
    return (along_axis(real_dft, x, axis),)


def real_dft(x: Value) -> Value:
    n, axis = x.shape[-1], x.ndim - 1
    half = n // 2
    if n <= DIRECT:
        table = roots_of_unity(n, half + 1, n, False)
        return OPS["make_complex"](*[contract_last(x, constant_like(t, x)) for t in (table.real, table.imag)])
    if n % 2:
        return slice_last(complex_dft(OPS["make_complex"](x, zeros(x.type)), False), half + 1)
    pairs = OPS["reshape"](x, shape=(*x.shape[:-1], half, 2))
    swapped = OPS["permute"](pairs, axes=(*range(axis), axis + 1, axis))
    z = join_planes(dft_of_planes(swapped, False), axis)
    back = conj(mirror_frequencies(z))
    even, odd = (z + back) * 0.5, (z - back) * -0.5j
    turned = scale_along(odd, constant_like(roots_of_unity(2, half, n, False)[1], x), (axis,))
    return OPS["concat"](even + turned, slice_last(even, 1) - slice_last(odd, 1), axis=axis)


def expand_irfft(z: Value, *, axis: int, n: int) -> Sequence[Value]:
    """The inverse real transform."""
    return (along_axis(lambda y: inverse_real_dft(y, n), z, axis),)


def inverse_real_dft(z: Value, n: int) -> Value:
    half, axis = n // 2, z.ndim - 1
    if n <= DIRECT:
        weights = np.where((np.arange(half + 1) * 2 % n == 0), 1.0, 2.0)
        table = roots_of_unity(n, half + 1, n, True).T * weights[:, None]
        return contract_last(OPS["real"](z), constant_like(table.real, z)) - contract_last(
            OPS["imag"](z), constant_like(table.imag, z)
        )
    if n % 2:
        rest = OPS["flip"](conj(slice_last(z, half + 1, 1)), axes=(axis,))
        whole = OPS["concat"](drop_imaginary(slice_last(z, 1)), slice_last(z, half + 1, 1), rest, axis=axis)
        return OPS["real"](complex_dft(whole, True))
    inner = slice_last(z, half, 1)
    x = OPS["concat"](drop_imaginary(slice_last(z, 1)), inner, axis=axis)
    y = OPS["concat"](drop_imaginary(slice_last(z, half + 1, half)), OPS["flip"](conj(inner), axes=(axis,)), axis=axis)
    turned = scale_along(x - y, constant_like(roots_of_unity(2, half, n, True)[1], z), (axis,))
    found = dft_of_planes(split_planes(x + y + turned * 1j), True)
    pairs = OPS["permute"](found, axes=(*range(axis), *range(axis + 1, found.ndim), axis))
    return OPS["reshape"](pairs, shape=(*z.shape[:-1], n))


EXPANSIONS: dict[str, Callable[..., Sequence[Value] | None]] = {
    "fft": expand_fft,
    "rfft": expand_rfft,
    "irfft": expand_irfft,
}
"""Expansion of each transform."""
