"""Matrix functions expanded into factorizations and simpler operations: determinants, exponentials, adjugates."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes
from wholestep.ir.build import build
from wholestep.ir.graph import OPS, Value
from wholestep.ir.types import array_type
from wholestep.lower.legalize.cofactors import LARGEST, small_adjugate, small_adjugate_tangent
from wholestep.lower.legalize.internal_ops import require, triangular_root
from wholestep.lower.legalize.small_matrices import (
    is_small,
    pivots_of,
    unroll_cholesky,
    unroll_solve,
    unroll_triangular_solve,
)
from wholestep.primitives.family import conj, ones, zeros
from wholestep.primitives.linalg import lu, solve
from wholestep.primitives.matrices import (
    along_columns,
    along_rows,
    as_dtype,
    diagonal,
    eye,
    mh,
    mm,
    mt,
    on_diagonal,
    real_part,
    row,
)
from wholestep.primitives.reduction import products_of_others
from wholestep.primitives.spectral import reciprocal, svd
from wholestep.transforms.forward import inline_jvp

INTEGER, INT, DOUBLE = np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.float64)

Values = Sequence[Value]
Rules = dict[str, Callable[..., Values | None]]


def complex_valued(a: Value) -> bool:
    return dtypes.is_complex(a.dtype)


def modulus(x: Value) -> Value:
    """The absolute values."""
    return OPS["hypot"](OPS["real"](x), OPS["imag"](x)) if complex_valued(x) else OPS["abs"](x)


def via_double(rule: Callable[..., Values | None]) -> Callable[..., Any]:
    """A rule in double precision, as in NumPy, so that vectors have the same signs."""

    def wide(*xs: Value, **params: Any) -> Values | None:
        if dtypes.real_of(xs[0].dtype) == DOUBLE:
            return rule(*xs, **params)
        complex_too = dtypes.complex_of(DOUBLE)
        found = rule(*[OPS["cast"](x, dtype=complex_too if complex_valued(x) else DOUBLE) for x in xs], **params)
        narrow = {DOUBLE: dtypes.real_of(xs[0].dtype), complex_too: dtypes.complex_of(xs[0].dtype)}
        return found and [OPS["cast"](y, dtype=narrow[y.dtype]) for y in found]

    return wide


# Determinants, and the pseudo-inverse.


def expand_slogdet(a: Value) -> Values:
    """Sign and logarithm of the product of U's diagonal; each row exchange flips the sign."""
    if a.shape[-1] == 0:
        real = array_type(a.shape[:-2], dtypes.real_of(a.dtype))
        return ones(array_type(a.shape[:-2], a.dtype)), zeros(real)
    if is_small(a):
        return small_slogdet(a)
    packed, pivots, _ = lu(a)
    d = diagonal(packed)
    last = (d.ndim - 1,)
    here = OPS["iota"](shape=pivots.shape, axis=pivots.ndim - 1, dtype=INT)
    exchanges = OPS["sum"](OPS["cast"](OPS["not_equal"](pivots, here), dtype=INT), axes=last)
    odd = exchanges & OPS["full"](value=1, shape=a.shape[:-2], dtype=INT)
    turned = OPS["cast"](1 - odd - odd, dtype=a.dtype)
    size = modulus(d)
    nothing = OPS["any"](size.equals(0), axes=last)
    signs = OPS["prod"](sign_of_pivots(d, size), axes=last)
    return of_singular(nothing, signs * turned, OPS["sum"](OPS["log"](size), axes=last))


def small_slogdet(a: Value) -> Values:
    """Sign and logarithm of the product of the pivots; each row exchange flips the sign."""
    pivots, exchanges = pivots_of(a)
    sizes = [modulus(d) for d in pivots]
    sign = functools.reduce(OPS["mul"], [sign_of_pivots(d, size) for d, size in zip(pivots, sizes, strict=True)])
    for exchanged in exchanges:
        sign = OPS["select"](exchanged, -sign, sign)
    logs = functools.reduce(OPS["add"], [OPS["log"](size) for size in sizes])
    nothing = functools.reduce(OPS["bitwise_or"], [size.equals(0) for size in sizes])
    return of_singular(nothing, sign, logs)


def of_singular(nothing: Value, sign: Value, logs: Value) -> Values:
    """The sign 0 and the logarithm of 0 for matrices with a pivot that is nothing."""
    least = OPS["full"](value=-np.inf, shape=logs.shape, dtype=logs.dtype)
    return OPS["select"](nothing, zeros(sign.type), sign), OPS["select"](nothing, least, logs)


def sign_of_pivots(x: Value, size: Value) -> Value:
    """The numbers divided by their absolute values; of a real NaN the sign 1, as NumPy has it."""
    if complex_valued(x):
        return x * as_dtype(reciprocal(size), x.dtype)
    return OPS["select"](x < zeros(x.type), -ones(x.type), ones(x.type))


def expand_det(a: Value) -> Values:
    sign, logs = expand_slogdet(a)
    return (sign * as_dtype(OPS["exp"](logs), a.dtype),)


def expand_pinv(a: Value, *, rcond: float) -> Values:
    if a.type.size == 0:
        return (zeros(mt(a).type),)
    u, s, vh = svd(a, full_matrices=False)
    most = OPS["max"](s, axes=(s.ndim - 1,))
    shape = s.shape
    large = s > OPS["broadcast"](most * rcond, shape=shape, axes=tuple(range(len(shape) - 1)))
    share = OPS["select"](large, 1 / OPS["select"](large, s, ones(s.type)), zeros(s.type))
    uh = mh(u)
    return (mm(mh(vh), as_dtype(along_columns(share, uh.shape), a.dtype) * uh),)


# Adjugates: see the references in `primitives.linalg`.


def svd_with_determinant(a: Value) -> tuple[Value, Value, Value, Value]:
    """u, s and v of a = u diag(s) v^H, and the determinant of u v^H for each matrix."""
    u, s, vh = svd(a, full_matrices=True)
    return u, s, mh(vh), OPS["det"](u) * OPS["det"](vh)


def expand_adjugate(a: Value) -> Values:
    if 0 < a.shape[-1] <= LARGEST:
        return (small_adjugate(a),)
    u, s, v, turn = svd_with_determinant(a)
    scaled = v * along_rows(as_dtype(products_of_others(s, s.ndim - 1), a.dtype), a.shape)
    return (scale_matrices(turn, mm(scaled, mh(u))),)


def scale_matrices(turn: Value, x: Value) -> Value:
    """Each matrix times its factor."""
    return OPS["broadcast"](turn, shape=x.shape, axes=tuple(range(x.ndim - 2))) * x


def expand_adjugate_tangent(a: Value, e: Value) -> Values:
    if 0 < a.shape[-1] <= LARGEST:
        return (small_adjugate_tangent(a, e),)
    u, s, v, turn = svd_with_determinant(a)
    middle = on_diagonal(a.shape)
    real = array_type(a.shape, s.dtype)
    rest = products_of_others(OPS["select"](middle, ones(real), along_rows(s, a.shape)), a.ndim - 1)
    rest = as_dtype(OPS["select"](middle, zeros(real), rest), a.dtype)
    inside = mm(mh(u), mm(e, v))
    ends = OPS["reshape"](diagonal(inside), shape=(*s.shape, 1))
    sums = OPS["reshape"](mm(rest, ends), shape=s.shape)
    moved = OPS["select"](middle, along_rows(sums, a.shape), -(inside * rest))
    return (scale_matrices(turn, mm(v, mm(moved, mh(u)))),)


# The exponential: Higham, "The scaling and squaring method for the matrix exponential revisited" (2005).

PADE_COEFFICIENTS = (
    *(64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000, 10559470521600),
    *(670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1),
)
PADE_NORM = 5.371920351148152
"""Maximum norm for which the quotient of two polynomials of degree 13 is exact to rounding."""


def expand_expm(a: Value) -> Values:
    if a.type.size == 0:
        return (zeros(a.type),)
    steps = squaring_steps(a)
    factor = as_dtype(OPS["exp2"](-OPS["cast"](steps, dtype=dtypes.real_of(a.dtype))), a.dtype)
    return (square_repeatedly(pade_quotient(scale_matrices(factor, a)), steps),)


def squaring_steps(a: Value) -> Value:
    """The number of squarings for each matrix; 0 for one that is not finite."""
    sums = OPS["sum"](modulus(OPS["stop_gradient"](a)), axes=(a.ndim - 2,))
    norm = OPS["max"](sums, axes=(sums.ndim - 1,))
    known = OPS["isfinite"](norm) & (norm > PADE_NORM)
    times = OPS["ceil"](OPS["log2"](OPS["select"](known, norm, ones(norm.type) * PADE_NORM) * (1 / PADE_NORM)))
    return OPS["cast"](OPS["maximum"](times, zeros(times.type)), dtype=INTEGER)


def pade_quotient(a: Value) -> Value:
    """The Pade approximant near 0."""
    one, two = eye(a.type), mm(a, a)
    four = mm(two, two)
    six = mm(two, four)
    b = [float(c) for c in PADE_COEFFICIENTS]
    odd = mm(six, six * b[13] + four * b[11] + two * b[9]) + six * b[7] + four * b[5] + two * b[3] + one * b[1]
    odd = mm(a, odd)
    even = mm(six, six * b[12] + four * b[10] + two * b[8]) + six * b[6] + four * b[4] + two * b[2] + one * b[0]
    return solve(even - odd, even + odd)


def square_repeatedly(x: Value, steps: Value) -> Value:
    """Each matrix squared as often as its steps say."""
    count = zeros(array_type((), steps.dtype))

    def wide(k: Value, shape: Any) -> Value:
        return OPS["broadcast"](k, shape=shape, axes=())

    def going(k: Value, steps: Value, x: Value) -> Values:
        return (OPS["any"](wide(k, steps.shape) < steps, axes=tuple(range(steps.ndim))),)

    def square(k: Value, steps: Value, x: Value) -> Values:
        more = OPS["broadcast"](wide(k, steps.shape) < steps, shape=x.shape, axes=tuple(range(x.ndim - 2)))
        return k + 1, steps, OPS["select"](more, mm(x, x), x)

    types = [v.type for v in (count, steps, x)]
    predicate, _ = build(going, types, name="going")
    body, _ = build(square, types, name="square")
    found: Any = OPS["while_loop"](count, steps, x, predicate=predicate, body=body, constants=(0, 0))
    result: Value = found[2]
    return result


def expand_expm_tangent(a: Value, e: Value) -> Values:
    """The tangent of `expand_expm`."""
    if a.type.size == 0:
        return (zeros(a.type),)
    graph, _ = build(expand_expm, [a.type], name="expm")
    _, (tangent,) = inline_jvp(graph, [a], [e])
    assert tangent is not None
    return (tangent,)


def root_by_schur_form(a: Value, t: Value, z: Value) -> Values:
    """The root of matrices from an upper triangle and a unitary factor, a = z t z^H; of a real matrix it must be real.

    Bjorck and Hammarling, "A Schur method for the square root of a matrix" (1983).
    """
    roots = OPS["sqrt"](diagonal(t))
    shares = reciprocal(along_columns(roots, t.shape) + along_rows(roots, t.shape))
    root = mm(z, mm(triangular_root(t, roots, shares), mh(z)))
    if complex_valued(a):
        return (as_dtype(root, a.dtype),)
    found = as_dtype(real_part(root), a.dtype)
    if a.type.size == 0:
        return (found,)
    axes = (a.ndim - 2, a.ndim - 1)
    most, rest = (OPS["max"](modulus(x), axes=axes) for x in (root, OPS["imag"](root)))
    unreal = rest > most * (100 * float(np.finfo(a.dtype).eps))
    holds = OPS["all"](~unreal, axes=tuple(range(a.ndim - 2)))
    message = f"sqrtm: the root of a real matrix is complex: {array_type(a.shape[-2:], a.dtype)}"
    return (require(found, holds, kind="dtype", message=message, hint="cast the matrix to complex first"),)


def with_real_tops(t: Value, z: Value) -> Values:
    """Schur forms of complex matrices, the columns of z turned so that the largest component of each is positive."""
    size = modulus(z)
    at = row(z.shape).equals(along_rows(OPS["argmax"](size, axis=z.ndim - 2), z.shape))
    top = OPS["sum"](OPS["select"](at, z, zeros(z.type)), axes=(z.ndim - 2,))
    phase = conj(top) * as_dtype(1 / modulus(top), z.dtype)
    return along_columns(conj(phase), t.shape) * t * along_rows(phase, t.shape), z * along_rows(phase, z.shape)


EXPANSIONS: Rules = {
    "slogdet": via_double(expand_slogdet),
    "det": via_double(expand_det),
    "pinv": expand_pinv,
    "adjugate": expand_adjugate,
    "adjugate_tangent": expand_adjugate_tangent,
    "expm": expand_expm,
    "expm_tangent": expand_expm_tangent,
}
"""Expansion of each operation."""


def unrolled_expansions(doubles: bool) -> Rules:
    """Expansions on small matrices for targets without routines, in the precision of the matrices where there are no
    doubles."""
    rules: Rules = {"slogdet": expand_slogdet, "det": expand_det, "cholesky": unroll_cholesky, "solve": unroll_solve}
    precise = {name: via_double(rule) for name, rule in rules.items()} if doubles else rules
    return {**precise, "triangular_solve": unroll_triangular_solve}
