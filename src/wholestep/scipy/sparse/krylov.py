"""Krylov solvers as loops: each takes a product, a preconditioner and a guess, and goes on until the residual is small.

A solver is given `(product, precondition, b, x, limit, most)` and returns `(x, info)`: 0 where the norm of the residual
b - product(x) has come below the limit, else the steps it took, or a negative number where it broke down.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wholestep import dtypes
from wholestep.frontend.control import while_loop
from wholestep.frontend.promotion import lift
from wholestep.scipy.linalg import solve_triangular
from wholestep.scipy.outside import np, ratio

Map = Callable[[Any], Any]
"""A linear function of a vector."""
NO_PROGRESS, NO_DIRECTION = -10, -11
"""SciPy's numbers for the two ways in which BiCGSTAB breaks down."""


def conjugate_gradients(product: Map, precondition: Map, b: Any, x: Any, limit: Any, most: Any) -> tuple[Any, Any]:
    """Conjugate gradients, for Hermitian positive definite products: Saad, "Iterative methods", algorithm 9.1."""

    def going(carry: Any) -> Any:
        _, r, _, _, k = carry
        return (np.linalg.norm(r) > limit) & (k < most)

    def body(carry: Any) -> Any:
        x, r, p, before, k = carry
        image = product(p)
        step = before / np.vdot(p, image).real
        x, r = x + step * p, r - step * image
        z = precondition(r)
        after = np.vdot(r, z).real
        return x, r, z + (after / before) * p, after, k + 1

    r = b - product(x)
    z = precondition(r)
    x, r, _, _, k = while_loop(going, body, (x, r, z, np.vdot(r, z).real, lift(np.int64(0))))
    return x, np.where(np.linalg.norm(r) <= limit, 0, k)


def stabilized_gradients(product: Map, precondition: Map, b: Any, x: Any, limit: Any, most: Any) -> tuple[Any, Any]:
    """BiCGSTAB, for any product: van der Vorst, "Bi-CGSTAB", 1992, with the preconditioner on the right."""

    def going(carry: Any) -> Any:
        _, r, _, _, _, k, broken = carry
        return (np.linalg.norm(r) > limit) & (k < most) & (broken == 0)

    def body(carry: Any) -> Any:
        x, r, p, image, (rho, alpha, omega), k, _ = carry
        now = np.vdot(shadow, r)
        p = r + now / rho * (alpha / omega) * (p - omega * image)
        direction = precondition(p)
        image = product(direction)
        alpha = ratio(now, np.vdot(shadow, image))
        s = r - alpha * image
        there = np.linalg.norm(s) <= limit
        second = precondition(s)
        t = product(second)
        omega = np.where(there, 0, ratio(np.vdot(t, s), np.vdot(t, t)))
        broken = np.where(omega == 0, NO_DIRECTION, np.where(now == 0, NO_PROGRESS, 0))
        x = x + alpha * direction + omega * second
        return x, s - omega * t, p, image, (now, alpha, omega), k + 1, np.where(there, 0, broken)

    shadow = r = b - product(x)
    one, none = lift(b.dtype.type(1)), lift(np.int64(0))
    start = (x, r, np.zeros_like(b), np.zeros_like(b), (one, one, one), none, none)
    x, r, _, _, _, k, broken = while_loop(going, body, start)
    return x, np.where(np.linalg.norm(r) <= limit, 0, np.where(broken == 0, k, broken))


def beyond(x: Any, least: Any) -> Any:
    """x, and 0 where it is no larger than `least`, its rounding errors."""
    return np.where(x > least, x, 0)


def minimal_residuals(restart: Any) -> Callable[..., tuple[Any, Any]]:
    """GMRES, for any product: Saad, "Iterative methods", algorithm 9.5, begun anew after `restart` steps.

    A cycle that does not make the residual smaller is the last one.
    """

    def solver(product: Map, precondition: Map, b: Any, x: Any, limit: Any, most: Any) -> tuple[Any, Any]:
        size = min(restart, b.shape[0])

        def going(carry: Any) -> Any:
            _, _, now, before, k = carry
            return (now > limit) & (now < before) & (k < most)

        def body(carry: Any) -> Any:
            x, r, now, _, k = carry
            x = x + precondition(correction(lambda v: product(precondition(v)), r, now, limit, size))
            r = b - product(x)
            return x, r, np.linalg.norm(r), now, k + 1

        r = b - product(x)
        now = np.linalg.norm(r)
        x, _, now, _, k = while_loop(going, body, (x, r, now, np.full_like(now, np.inf), lift(np.int64(0))))
        return x, np.where(now <= limit, 0, k)

    return solver


def correction(product: Map, r: Any, norm: Any, limit: Any, size: int) -> Any:
    """The vector of a Krylov space of at most `size` dimensions whose image is nearest to r.

    The matrix of Arnoldi's basis is turned into a triangle by Givens rotations as it grows; `turns` is their product,
    whose first column says how large the residual is.
    """
    places, eps = np.arange(size + 1), float(dtypes.limits(r.dtype).eps)

    def going(carry: Any) -> Any:
        _, _, turns, j = carry
        return (j < size) & (norm * np.abs(turns[j, 0]) > limit)

    def body(carry: Any) -> Any:
        basis, triangle, turns, j = carry
        image = product(basis[j])
        column = np.conj(basis) @ image
        rest = image - column @ basis
        again = np.conj(basis) @ rest  # orthogonalized twice, against rounding errors
        rest, column = rest - again @ basis, column + again
        least = eps * np.linalg.norm(image)
        length = beyond(np.linalg.norm(rest), least)
        column = np.where(places == j + 1, length, column)
        basis = np.where((places == j + 1)[:, None], ratio(rest, length), basis)
        above = turns[j] @ column
        radius = beyond(np.sqrt(np.abs(above) ** 2 + length**2), least)
        c, s = np.where(radius == 0, 1, ratio(above, radius)), ratio(length, radius)
        first, second = np.conj(c) * turns[j] + s * turns[j + 1], c * turns[j + 1] - s * turns[j]
        turns = np.where((places == j)[:, None], first, np.where((places == j + 1)[:, None], second, turns))
        # A direction whose image adds nothing gets a share of next to none.
        column = np.where(places[:size] == j, np.where(radius == 0, eps**-2, radius), (turns @ column)[:size])
        return basis, np.where(places[:size] == j, column[:, None], triangle), turns, j + 1

    first = np.where((places == 0)[:, None], r / norm, np.zeros((size + 1, 1), r.dtype))
    start = (first, lift(np.eye(size, dtype=r.dtype)), lift(np.eye(size + 1, dtype=r.dtype)), lift(np.int64(0)))
    basis, triangle, turns, j = while_loop(going, body, start)
    target = np.where(places[:size] < j, norm * turns[:size, 0], 0)
    return solve_triangular(triangle, target) @ basis[:size]
