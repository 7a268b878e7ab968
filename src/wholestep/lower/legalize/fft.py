"""Fourier transforms as steps, each of which transforms a few numbers and multiplies them by roots of unity.

    n = r m, input at j m + p, output at l r + k:  X[l r + k] = sum_p w_m^(p l) w_n^(p k) sum_j w_r^(j k) x[j m + p]

(Cooley and Tukey, 1965.) The transforms of r numbers end beside each other, so that the steps leave the terms in order
(Stockham, 1966): [..., r, m, s] becomes [..., m, r, s], for s numbers that were transformed before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from wholestep import dtypes
from wholestep.ir.graph import OPS, NDArray, Value
from wholestep.lower.legalize.internal_ops import dft_step, paired_terms
from wholestep.lower.legalize.sort import along_axis, slice_last
from wholestep.primitives.contraction import LETTERS
from wholestep.primitives.creation import constant
from wholestep.primitives.family import conj, zeros
from wholestep.primitives.movement import slice_along

RADIX = 16
"""Maximum number of elements whose transform is written out."""
DIRECT = 128
"""Maximum length of a prime transform, and of one of real numbers, by one matrix."""
DIRECT_PAIRS = 48
"""Maximum length by one matrix of a transform of real numbers that come in pairs. Measured."""


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
def turns_of_step(r: int, m: int, inverse: bool, name: str) -> NDArray:
    """The factors w_n^(p k) of a step: [k, p]."""
    return np.ascontiguousarray(roots_of_unity(r, m, r * m, inverse), dtypes.from_short(name))


@cache
def turns_of_pairs(n: int, inverse: bool, name: str) -> NDArray:
    """The factors of the differences between terms of half a real transform of length n, as `paired_terms` has them."""
    w = roots_of_unity(2, n // 2, n, inverse)[1]
    return np.ascontiguousarray(w * (1j if inverse else -0.5j), dtypes.from_short(name))


def constant_like(array: NDArray, like: Value) -> Value:
    """A constant in the precision of a value."""
    kind = dtypes.complex_of if array.dtype.kind == "c" else dtypes.real_of
    return constant(value=np.ascontiguousarray(array, kind(like.dtype)))


def scale_along(x: Value, table: Value, axes: tuple[int, ...]) -> Value:
    """x times a constant that has these axes."""
    return x * OPS["broadcast"](table, shape=x.shape, axes=axes)


def contract_axis(x: Value, matrix: NDArray, axis: int) -> Value:
    """x with an axis contracted with the first of a matrix."""
    letters = LETTERS[: x.ndim]
    there = f"{letters[:axis]}Y{letters[axis + 1 :]}"
    return OPS["contract"](x, constant_like(matrix, x), spec=f"{letters},{letters[axis]}Y->{there}")


def split_parts(z: Value, axis: int) -> Value:
    """The real and the imaginary parts, beside each other along a new axis."""
    shape = (*z.shape[:axis], 1, *z.shape[axis:])
    joined: Value = OPS["concat"](*[OPS["reshape"](OPS[part](z), shape=shape) for part in ("real", "imag")], axis=axis)
    return joined


def join_parts(x: Value, axis: int) -> Value:
    """The complex numbers whose parts lie beside each other along an axis, which is dropped."""
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    found: Value = OPS["make_complex"](*[OPS["reshape"](slice_along(x, axis, i, i + 1), shape=shape) for i in (0, 1)])
    return found


# Steps.


def choose_radix(n: int) -> int:
    """A factor up to `RADIX` that splits evenly; else the least prime factor."""
    least = next((r for r in range(2, math.isqrt(n) + 1) if n % r == 0), n)
    fitting = [r for r in range(2, min(RADIX, n) + 1) if n % r == 0]
    levels = math.ceil(math.log(n) / math.log(RADIX) - 1e-9)
    return min(fitting, key=lambda r: abs(math.log(r) - math.log(n) / levels)) if fitting else least


def complex_dft(x: Value, inverse: bool, axis: int) -> Value:
    """The complex transform along an axis."""
    shape, lead, m, s = x.shape, x.shape[:axis], x.shape[axis], math.prod(x.shape[axis + 1 :])
    while m > 1:
        r = choose_radix(m)
        m //= r
        x = transform_step(OPS["reshape"](x, shape=(*lead, r, m, s)), inverse)
        s *= r
    return OPS["reshape"](x, shape=shape)


def transform_step(x: Value, inverse: bool) -> Value:
    """One step: the transforms of r numbers in one kernel, by a matrix, or by a convolution."""
    r, m, _ = x.shape[-3:]
    turns = constant(value=turns_of_step(r, m, inverse, dtypes.short(x.dtype)))
    if r <= RADIX:
        return dft_step(x, turns, inverse=inverse)
    (found,) = (step_by_matrix if r <= DIRECT else step_by_convolution)(x, turns, inverse=inverse)
    return found


def step_by_matrix(x: Value, turns: Value, *, inverse: bool) -> Sequence[Value]:
    """One step as a contraction of the real and the imaginary plane."""
    k = x.ndim - 3
    planes = split_parts(x, k)
    matrix = constant(value=dft_matrix(x.shape[k], inverse, dtypes.short(planes.dtype)))
    lead = LETTERS[:k]
    found = OPS["contract"](matrix, planes, spec=f"WXYZ,{lead}WXUV->{lead}YUZV")
    return (scale_along(join_parts(found, k), OPS["permute"](turns, axes=(1, 0)), (k, k + 1)),)


def step_by_convolution(x: Value, turns: Value, *, inverse: bool) -> Sequence[Value]:
    """One step of a long prime radix."""
    k = x.ndim - 3
    transform = rader if is_rader_length(x.shape[k]) else bluestein
    found = scale_along(along_axis(lambda y: transform(y, inverse), x, k), turns, (k, k + 1))
    return (OPS["permute"](found, axes=(*range(k), k + 1, k, k + 2)),)


# Transforms of a long prime length as convolutions.


def needs_convolution(n: int) -> bool:
    """Test whether a transform of this length contains one of a long prime length."""
    if n <= DIRECT:
        return False
    r = choose_radix(n)
    return r == n or needs_convolution(n // r)


def dft_of_last(x: Value, inverse: bool) -> Value:
    """The complex transform along the last axis."""
    return OPS["fft"](x, axes=(x.ndim - 1,), inverse=inverse)


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
    bent = scale_along(dft_of_last(padded, False), constant_like(np.fft.fft(kernel) / size, x), axis)
    return scale_along(slice_last(dft_of_last(bent, True), n), constant_like(wave, x), axis)


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
    made = dft_of_last(scale_along(dft_of_last(in_order_of_powers(x), False), kernel, (axis,)), True)
    whole = plus_first(take_last(made, powers_of_root(n)[1]), slice_last(x, 1))
    return OPS["concat"](total_last(x), whole, axis=axis)


def total_last(x: Value) -> Value:
    """The sum along the last axis, which stays."""
    return OPS["reshape"](OPS["sum"](x, axes=(x.ndim - 1,)), shape=(*x.shape[:-1], 1))


def real_rader(x: Value) -> Value:
    """The first half of the transform of real numbers of a prime length."""
    n, axis = x.shape[-1], x.ndim - 1
    terms, order = OPS["rfft"](in_order_of_powers(x), axis=axis), powers_of_root(n)[1][: n // 2]
    scaled = [
        scale_along(terms, constant_like(kernel[: n // 2 + 1], terms), (axis,)) for kernel in rader_kernels(n, False)
    ]
    re, im = (take_last(OPS["irfft"](part, axis=axis, n=n - 1), order) for part in scaled)
    rest = OPS["make_complex"](plus_first(re, slice_last(x, 1)), im)
    total = total_last(x)
    return OPS["concat"](OPS["make_complex"](total, zeros(total.type)), rest, axis=axis)


def inverse_real_rader(z: Value) -> Value:
    """The real transform of a prime length of whole rows, in which each term is the conjugate of another one."""
    n, axis = z.shape[-1], z.ndim - 1
    terms = in_order_of_powers(z)
    re, im = (
        scale_along(OPS["rfft"](OPS[part](terms), axis=axis), constant_like(kernel[: n // 2 + 1], z), (axis,))
        for part, kernel in zip(("real", "imag"), rader_kernels(n, True), strict=True)
    )
    made = take_last(OPS["irfft"](re - im, axis=axis, n=n - 1), powers_of_root(n)[1])
    parts = OPS["real"](z)
    return OPS["concat"](total_last(parts), plus_first(made, slice_last(parts, 1)), axis=axis)


# Expansions.


def expand_fft(x: Value, *, axes: tuple[int, ...], inverse: bool) -> Sequence[Value]:
    """One axis after another."""
    for axis in axes:
        x = complex_dft(x, inverse, axis)
    return (x,)


def expand_rfft(x: Value, *, axis: int) -> Sequence[Value]:
    """Of many pairs of numbers, the first ones become real parts, and the others imaginary parts."""
    n = x.shape[axis]
    if n % 2 or n <= DIRECT_PAIRS:
        return rfft_in_primitives(x, axis=axis)
    lead, behind = x.shape[:axis], x.shape[axis + 1 :]
    pairs = OPS["reshape"](x, shape=(*lead, n // 2, 2, *behind))
    return (pair_terms(complex_dft(join_parts(pairs, axis + 1), False, axis), axis, inverse=False),)


def rfft_in_primitives(x: Value, *, axis: int) -> Sequence[Value]:
    """The transform of real numbers by a matrix, by convolutions, or as the first half of that of complex numbers."""
    n = x.shape[axis]
    if n <= DIRECT:
        table = roots_of_unity(n, n // 2 + 1, n, False)
        return (OPS["make_complex"](*[contract_axis(x, t, axis) for t in (table.real, table.imag)]),)
    if is_rader_length(n):
        return (along_axis(real_rader, x, axis),)
    found = OPS["fft"](OPS["make_complex"](x, zeros(x.type)), axes=(axis,), inverse=False)
    return (slice_along(found, axis, 0, n // 2 + 1),)


def pair_terms(z: Value, axis: int, *, inverse: bool) -> Value:
    """The terms of a real transform from those of its pairs of numbers, or the other way round."""
    half = z.shape[axis] - inverse
    turns = constant(value=turns_of_pairs(2 * half, inverse, dtypes.short(z.dtype)))
    lead, behind = z.shape[:axis], z.shape[axis + 1 :]
    found = paired_terms(OPS["reshape"](z, shape=(*lead, half + inverse, math.prod(behind))), turns, inverse=inverse)
    return OPS["reshape"](found, shape=(*lead, half + 1 - inverse, *behind))


def whole_terms(z: Value, axis: int, n: int) -> Value:
    """All terms of a real transform; the first one, and the middle one, lose their imaginary parts."""
    half = n // 2
    first, inner = slice_along(z, axis, 0, 1), slice_along(z, axis, 1, half + n % 2)
    middle = [] if n % 2 else [drop_imaginary(slice_along(z, axis, half, half + 1))]
    return OPS["concat"](drop_imaginary(first), inner, *middle, OPS["flip"](conj(inner), axes=(axis,)), axis=axis)


def drop_imaginary(z: Value) -> Value:
    """z without its imaginary parts."""
    re = OPS["real"](z)
    return OPS["make_complex"](re, zeros(re.type))


def expand_irfft(z: Value, *, axis: int, n: int) -> Sequence[Value]:
    """The inverse real transform; that of many terms has pairs of numbers for complex ones."""
    if n % 2 or n <= DIRECT_PAIRS:
        return irfft_in_primitives(z, axis=axis, n=n)
    found = complex_dft(pair_terms(z, axis, inverse=True), True, axis)
    return (OPS["reshape"](split_parts(found, axis + 1), shape=(*z.shape[:axis], n, *z.shape[axis + 1 :])),)


def irfft_in_primitives(z: Value, *, axis: int, n: int) -> Sequence[Value]:
    """The inverse real transform by a matrix, by convolutions, or as one of complex numbers."""
    half = n // 2
    if n <= DIRECT:
        weights = np.where((np.arange(half + 1) * 2 % n == 0), 1.0, 2.0)
        table = roots_of_unity(n, half + 1, n, True).T * weights[:, None]
        return (contract_axis(OPS["real"](z), table.real, axis) - contract_axis(OPS["imag"](z), table.imag, axis),)
    whole = whole_terms(z, axis, n)
    if is_rader_length(n):
        return (along_axis(inverse_real_rader, whole, axis),)
    return (OPS["real"](OPS["fft"](whole, axes=(axis,), inverse=True)),)


EXPANSIONS: dict[str, Callable[..., Sequence[Value] | None]] = {
    "fft": expand_fft,
    "rfft": expand_rfft,
    "irfft": expand_irfft,
}
"""Expansion of each transform."""
IN_PRIMITIVES = {**EXPANSIONS, "rfft": rfft_in_primitives, "irfft": irfft_in_primitives, "dft_step": step_by_matrix}
"""Expansions in which primitives alone remain."""
