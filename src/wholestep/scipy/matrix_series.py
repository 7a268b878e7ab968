"""scipy.linalg: functions of a matrix that are made of exponentials and square roots, differentiable everywhere.

Source: Higham, "Functions of matrices", 2008, chapters 5, 11 and 12.
"""

from __future__ import annotations

from typing import Any

import numpy
import scipy.linalg

from wholestep import dtypes
from wholestep.frontend.control import cond, fori_loop
from wholestep.frontend.dispatch import covers, is_traced
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.promotion import lift, wrap
from wholestep.primitives import matrix_functions as mf
from wholestep.scipy.matrix_forms import complex_and_real, real_or_nan
from wholestep.scipy.outside import np, refuse_estimate, square_operand

outside: Any = scipy.linalg

NEAR_ONE = 0.25
"""The distance from the identity in which eight quotients give the logarithm to rounding."""
MOST_ROOTS = 40
"""The square roots that are taken at most: they bring a matrix there whose logarithm is of size 1e11 or less."""


def exponential(a: Any) -> Any:
    """The matrix exponential."""
    return wrap(mf.expm(a.value))


def even_part(a: Any, turn: complex) -> Any:
    """(exp(turn a) + exp(-turn a)) / 2; of a real matrix and an imaginary turn one exponential's real part."""
    if turn == 1j and a.dtype.kind != "c":
        return exponential(1j * a).real
    return (exponential(turn * a) + exponential(-turn * a)) / 2


def odd_part(a: Any, turn: complex) -> Any:
    """(exp(turn a) - exp(-turn a)) / (2 turn)."""
    if turn == 1j and a.dtype.kind != "c":
        return exponential(1j * a).imag
    return (exponential(turn * a) - exponential(-turn * a)) / (2 * turn)


@covers(outside.cosm)
def cosm(A: Any) -> Any:
    """scipy.linalg.cosm."""
    return even_part(wrap(square_operand("cosm", A)), 1j)


@covers(outside.sinm)
def sinm(A: Any) -> Any:
    """scipy.linalg.sinm."""
    return odd_part(wrap(square_operand("sinm", A)), 1j)


@covers(outside.tanm)
def tanm(A: Any) -> Any:
    """scipy.linalg.tanm."""
    a = wrap(square_operand("tanm", A))
    return np.linalg.solve(even_part(a, 1j), odd_part(a, 1j))


@covers(outside.coshm)
def coshm(A: Any) -> Any:
    """scipy.linalg.coshm."""
    return even_part(wrap(square_operand("coshm", A)), 1)


@covers(outside.sinhm)
def sinhm(A: Any) -> Any:
    """scipy.linalg.sinhm."""
    return odd_part(wrap(square_operand("sinhm", A)), 1)


@covers(outside.tanhm)
def tanhm(A: Any) -> Any:
    """scipy.linalg.tanhm."""
    a = wrap(square_operand("tanhm", A))
    return np.linalg.solve(even_part(a, 1), odd_part(a, 1))


@covers(outside.signm)
def signm(A: Any, disp: Any = True) -> Any:
    """scipy.linalg.signm: a times the inverse root of its square, and a step of Newton's iteration to all digits.

    No eigenvalue may be on the imaginary axis, where the sign is not defined.
    """
    refuse_estimate("signm", disp)
    a, real = complex_and_real("signm", A)
    sign = np.linalg.solve(wrap(mf.sqrtm((a @ a).value)), a)
    sign = (sign + np.linalg.inv(sign)) / 2
    return real_or_nan(sign) if real else sign


@covers(outside.logm)
def logm(A: Any, disp: Any = True) -> Any:
    """scipy.linalg.logm, by square roots until the matrix is near 1; of a real one real, or else NaN."""
    refuse_estimate("logm", disp)
    a, real = complex_and_real("logm", A)
    found = logarithm(a)
    return real_or_nan(found) if real else found


def logarithm(a: Any) -> Any:
    """The principal logarithm of complex matrices: that of a root near 1, times the number of roots' power of 2.

    Each matrix of a stack takes its own number of roots: more of them would cancel digits, and one without a logarithm,
    which no root brings near 1, is nan alone.
    """
    one = np.eye(int(a.shape[-1]), dtype=a.dtype)

    def is_near(root: Any) -> Any:
        sums = np.sum(np.abs(stop_gradient(root) - one), axis=-2, keepdims=True)
        return np.max(sums, axis=-1, keepdims=True, initial=0.0) <= NEAR_ONE

    def rooted(root: Any, near: Any) -> Any:
        return np.where(near, root, wrap(mf.sqrtm(root.value)))

    def halved(k: Any, held: Any) -> Any:
        root, power = held
        near = is_near(root)
        root = cond(np.all(near), lambda root, near: root, rooted, root, near)
        return root, np.where(near, power, 2 * power)

    powers = np.ones((*a.shape[:-2], 1, 1), dtypes.real_of(a.dtype))
    root, power = fori_loop(0, MOST_ROOTS, halved, (a, powers))
    near = is_near(root)
    return np.where(near, near_logarithm(np.where(near, root - one, 0), one) * power, np.nan)


def near_logarithm(x: Any, one: Any) -> Any:
    """log(1 + x) for a small x, by Gauss and Legendre's quadrature of x / (1 + s x) over s from 0 to 1."""
    places, weights = numpy.polynomial.legendre.leggauss(8)
    real = dtypes.real_of(x.dtype)
    each = [
        np.linalg.solve(one + x * real.type((1 + s) / 2), x * real.type(w / 2))
        for s, w in zip(places, weights, strict=True)
    ]
    return sum(each[1:], each[0])


@covers(outside.fractional_matrix_power)
def fractional_matrix_power(A: Any, t: Any) -> Any:
    """scipy.linalg.fractional_matrix_power: exp(t log A), and products for a whole plain power; differentiable in t."""
    if not is_traced(t) and int(t) == t:
        return np.linalg.matrix_power(wrap(square_operand("fractional_matrix_power", A)), int(t))
    a, real = complex_and_real("fractional_matrix_power", A)
    found = exponential(logarithm(a) * lift(t).astype(dtypes.real_of(a.dtype)))
    return real_or_nan(found) if real else found
