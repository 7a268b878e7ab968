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


def needs_convolution(n: int) -> bool:
    """Test whether a transform of this length contains one of a long prime length."""
    if n <= DIRECT:
        return False
    r = choose_radix(n)
    return r == n or needs_convolution(n // r)


def dft_of_planes(y: Value, inverse: bool, after: int = 0) -> Value:
    """[..., 2, n] to [..., 2, digits of the frequency, the most significant one first], before `after` more axes."""
    k = y.ndim - 2 - after
    n, lead, behind = y.shape[k + 1], y.shape[:k], y.shape[k + 2 :]
    if n == 1:
        return y
    r, name = choose_radix(n), dtypes.short(y.dtype)
    letters, rest = LETTERS[:k], LETTERS[k : k + after]
    if r == n and n > DIRECT:
        x = join_planes(y, k)
        return split_planes(rader(x, inverse) if is_rader_length(n) else bluestein(x, inverse))
    matrix = constant(value=dft_matrix(r, inverse, name))
    if r == n:
        return OPS["contract"](matrix, y, spec=f"WXYZ,{letters}WX{rest}->{letters}YZ{rest}")
    m = n // r
    split = OPS["reshape"](y, shape=(*lead, 2, r, m, *behind))
    found = OPS["contract"](matrix, split, spec=f"WXYZ,{letters}WXV{rest}->{letters}ZYV{rest}")  # [..., k, plane, i]
    straight, exchanged = (constant(value=t) for t in twiddle_factors(r, m, inverse, name))
    turned = scale_along(found, straight, (k, k + 2)) + scale_along(
        OPS["flip"](found, axes=(k + 1,)), exchanged, (k, k + 1, k + 2)
    )
    outer = dft_of_planes(turned, inverse, after)  # [..., k, plane, digits of l]
    end = outer.ndim - after
    return OPS["permute"](outer, axes=(*range(k), *range(k + 1, end), k, *range(end, outer.ndim)))


def bluestein(x: Value, inverse: bool) -> Value:
    """A long prime length as a convolution with w^(j^2 / 2) of a length with small factors (Bluestein, 1970)."""
    n = x.shape[-1]
    size = 1 << (2 * n - 2).bit_length()
    wave = np.exp((1j if inverse else -1j) * np.pi / n * (np.arange(n) ** 2 % (2 * n)))
    kernel = np.zeros(size, np.complex128)
    kernel[:n], kernel[size - n + 1 :] = wave.conj(), wave.conj()[:0:-1]
    axis, nothing = (x.ndim - 1,), (0,) * x.ndim
    padded = OPS["pad"](
        scale_along(x, constant_like(wave, x), axis), before=nothing, after=(*nothing[1:], size - n), interior=nothing
    )
    bent = scale_along(complex_dft(padded, False), constant_like(np.fft.fft(kernel) / size, x), axis)
    return scale_along(slice_last(complex_dft(bent, True), n), constant_like(wave, x), axis)


# Transforms of a prime length as cyclic convolutions of one element less (Rader, 1968). Powers of a primitive root g
# number the elements:  X[g^q] - x[0] = sum_p x[g^-p] w^(g^(q - p)).  The cosines and the sines are real kernels.


def is_rader_length(n: int) -> bool:
    """Test whether n is a long prime for which the convolution has short factors."""
    return n > DIRECT and choose_radix(n) == n and not needs_convolution(n - 1)


@cache
def powers_of_root(n: int) -> tuple[NDArray, NDArray]:
    """The powers of the least primitive root of a prime, and the exponents of 1, 2, ..., n - 1."""
    factors = [f for f in range(2, DIRECT + 1) if (n - 1) % f == 0]
    root = next(g for g in range(2, n) if all(pow(g, (n - 1) // f, n) != 1 for f in factors))
    found = np.ones(1, np.int64)
    while len(found) < n - 1:
        found = np.concatenate([found, found * pow(root, len(found), n) % n])
    found = found[: n - 1]
    return found, np.argsort(found)


@cache
def rader_kernels(n: int, inverse: bool) -> tuple[NDArray, NDArray]:
    """The transforms of the cosines and of the sines, over their number."""
    wave = np.exp((2j if inverse else -2j) * np.pi / n * powers_of_root(n)[0])
    cosines, sines = np.fft.fft(wave.real) / (n - 1), np.fft.fft(wave.imag) / (n - 1)
    return cosines, sines


def take_last(x: Value, places: NDArray) -> Value:
    """The elements at these places along the last axis."""
    axis = x.ndim - 1
    found = OPS["gather"](x, constant(value=places), axes=(axis,))
    return OPS["permute"](found, axes=(*range(1, x.ndim), 0))


def in_order_of_powers(x: Value) -> Value:
    """The elements x[g^-p] along the last axis."""
    return take_last(x, np.roll(powers_of_root(x.shape[-1])[0][::-1], 1))


def plus_first(x: Value, first: Value) -> Value:
    """x plus one number for each row."""
    return x + OPS["broadcast"](
        OPS["reshape"](first, shape=first.shape[:-1]), shape=x.shape, axes=tuple(range(x.ndim - 1))
    )


def rader(x: Value, inverse: bool) -> Value:
    """The complex transform of a prime length along the last axis."""
    n, axis = x.shape[-1], x.ndim - 1
    cosines, sines = rader_kernels(n, inverse)
    kernel = constant_like(cosines + 1j * sines, x)
    made = complex_dft(scale_along(complex_dft(in_order_of_powers(x), False), kernel, (axis,)), True)
    whole = plus_first(take_last(made, powers_of_root(n)[1]), slice_last(x, 1))
    return OPS["concat"](total_last(x), whole, axis=axis)


def total_last(x: Value) -> Value:
    """The sum along the last axis, which stays."""
    return OPS["reshape"](OPS["sum"](x, axes=(x.ndim - 1,)), shape=(*x.shape[:-1], 1))


def real_rader(x: Value) -> Value:
    """The first half of the transform of real numbers of a prime length."""
    n, axis = x.shape[-1], x.ndim - 1
    first, terms, order = slice_last(x, 1), real_dft(in_order_of_powers(x)), powers_of_root(n)[1][: n // 2]
    re, im = (
        take_last(
            inverse_real_dft(scale_along(terms, constant_like(kernel[: n // 2 + 1], terms), (axis,)), n - 1), order
        )
        for kernel in rader_kernels(n, False)
    )
    rest = OPS["make_complex"](plus_first(re, first), im)
    total = total_last(x)
    return OPS["concat"](OPS["make_complex"](total, zeros(total.type)), rest, axis=axis)


def inverse_real_rader(z: Value) -> Value:
    """The real transform of a prime length of whole rows, in which each term is the conjugate of another one."""
    n, axis = z.shape[-1], z.ndim - 1
    terms = in_order_of_powers(z)
    re, im = (
        scale_along(real_dft(OPS[part](terms)), constant_like(kernel[: n // 2 + 1], z), (axis,))
        for part, kernel in zip(("real", "imag"), rader_kernels(n, True), strict=True)
    )
    made = take_last(inverse_real_dft(re - im, n - 1), powers_of_root(n)[1])
    parts = OPS["real"](z)
    return OPS["concat"](total_last(parts), plus_first(made, slice_last(parts, 1)), axis=axis)


# Conversion between complex numbers and planes.


def split_planes(x: Value, after: int = 0) -> Value:
    """[..., n] to [..., 2, n], before `after` more axes."""
    k = x.ndim - 1 - after
    shape = (*x.shape[:k], 1, *x.shape[k:])
    return OPS["concat"](*[OPS["reshape"](OPS[f](x), shape=shape) for f in ("real", "imag")], axis=k)


def join_planes(y: Value, lead: int, after: int = 0) -> Value:
    """[..., 2, digits] to [..., n], with `lead` axes before the planes and `after` more at the end."""
    front, rest = y.shape[:lead], y.shape[lead + 1 :]

    def plane(i: int) -> Value:
        start, stop = (*[0] * lead, i, *[0] * len(rest)), (*front, i + 1, *rest)
        return OPS["slice"](y, start=start, stop=stop, step=(1,) * y.ndim)

    parts = [OPS["reshape"](plane(i), shape=(*front, *rest)) for i in (0, 1)]
    digits, behind = rest[: len(rest) - after], rest[len(rest) - after :]
    return OPS["reshape"](OPS["make_complex"](*parts), shape=(*front, math.prod(digits), *behind))


def complex_dft(x: Value, inverse: bool, after: int = 0) -> Value:
    """The complex transform along the last axis, or along one before `after` others."""
    return join_planes(dft_of_planes(split_planes(x, after), inverse, after), x.ndim - 1 - after, after)


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
    """One axis after another, each in its place where its transform needs no convolution."""
    for axis in axes:
        if needs_convolution(x.shape[axis]):
            x = along_axis(lambda y: complex_dft(y, inverse), x, axis)
        else:
            x = complex_dft(x, inverse, after=x.ndim - 1 - axis)
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
    if is_rader_length(n):
        return real_rader(x)
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
        return inverse_real_rader(whole) if is_rader_length(n) else OPS["real"](complex_dft(whole, True))
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
