"""numpy.polynomial's derivatives, integrals and fits: linear in coefficients or values, by NumPy's own matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy.polynomial as outside

from wholestep.dims import Dim
from wholestep.errors import UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.dispatch import covers, is_traced
from wholestep.numpy.movement import axis_of, reshape, traced_array
from wholestep.numpy.outside import np

KINDS: dict[type, Any] = {
    outside.Polynomial: (outside.polynomial.polyder, outside.polynomial.polyint, outside.polynomial.polyfit),
    outside.Chebyshev: (outside.chebyshev.chebder, outside.chebyshev.chebint, outside.chebyshev.chebfit),
    outside.Legendre: (outside.legendre.legder, outside.legendre.legint, outside.legendre.legfit),
    outside.Hermite: (outside.hermite.hermder, outside.hermite.hermint, outside.hermite.hermfit),
    outside.HermiteE: (outside.hermite_e.hermeder, outside.hermite_e.hermeint, outside.hermite_e.hermefit),
    outside.Laguerre: (outside.laguerre.lagder, outside.laguerre.lagint, outside.laguerre.lagfit),
}
"""NumPy's class of a series -> its functions of derivatives, integrals and fits."""


def by_unit_vectors(function: Any, x: Any, axis: int, matrix_of: Callable[[Any], Any]) -> Any:
    """A linear function along an axis, by its values on unit vectors in the rows of the argument of `matrix_of`."""
    n = x.shape[axis]
    if isinstance(n, Dim):
        raise UnsupportedError(f"{function.__name__}: the number of coefficients or points is symbolic")
    x = x.astype(np.float64) if x.dtype.kind in "biu" else x
    matrix, dtype = matrix_of(np.eye(n)), matrix_of(np.zeros(n, x.dtype)).dtype
    return np.moveaxis(np.tensordot(matrix.astype(dtype), np.moveaxis(x.astype(dtype), axis, 0), 1), 0, axis)


def coefficients_of(c: Any) -> Array:
    """Coefficients with an axis."""
    x = traced_array(c)
    return reshape(x, (1,)) if x.ndim == 0 else x


def refuse_traced_options(function: Any, **others: Any) -> None:
    """Raise UnsupportedError for arguments other than the linear one that are traced."""
    for name, given in others.items():
        if is_traced(given):
            raise UnsupportedError(f"{function.__name__}: {name} is traced", hint=f"make {name} plain numbers")


def derivative_rule(function: Any) -> Callable[..., Any]:
    """The implementation of one of NumPy's functions for the derivative of a series."""

    def implementation(c: Any, m: Any = 1, scl: Any = 1, axis: Any = 0) -> Any:
        refuse_traced_options(function, m=m, scl=scl)
        x = coefficients_of(c)
        return by_unit_vectors(
            function, x, axis_of(function.__name__, axis, x.ndim), lambda unit: function(unit, m, scl)
        )

    return registered(function, implementation, "differentiable in the coefficients")


def integral_rule(function: Any) -> Callable[..., Any]:
    """The implementation of one of NumPy's functions for the integral of a series."""

    def implementation(c: Any, m: Any = 1, k: Any = (), lbnd: Any = 0, scl: Any = 1, axis: Any = 0) -> Any:
        refuse_traced_options(function, m=m, k=k, lbnd=lbnd, scl=scl)
        x = coefficients_of(c)
        place = axis_of(function.__name__, axis, x.ndim)
        made = by_unit_vectors(function, x, place, lambda unit: function(unit, m, [], lbnd, scl))
        constants = function(np.zeros(x.shape[place]), m, list(k) if np.iterable(k) else [k], lbnd, scl)
        return made + constants.astype(made.dtype).reshape((-1, *[1] * (x.ndim - 1 - place)))

    return registered(function, implementation, "differentiable in the coefficients")


def fit_rule(function: Any) -> Callable[..., Any]:
    """The implementation of one of NumPy's functions for fits by least squares."""

    def implementation(x: Any, y: Any, deg: Any, rcond: Any = None, full: Any = False, w: Any = None) -> Any:
        refuse_traced_options(function, x=x, deg=deg, rcond=rcond, w=w)
        if full:
            raise UnsupportedError(f"{function.__name__}: full=True is not covered for traced values")
        values = traced_array(y)
        if values.ndim not in (1, 2) or values.shape[0] != np.size(x):
            raise TypeError("expected x and y to have same length, and y to have one or two axes")
        return by_unit_vectors(function, values, 0, lambda unit: function(x, unit, deg, rcond, False, w))

    return registered(function, implementation, "differentiable in the values")


def registered(function: Any, implementation: Callable[..., Any], note: str) -> Callable[..., Any]:
    """The implementation, registered under the name of NumPy's function."""
    implementation.__name__ = implementation.__qualname__ = function.__name__
    implementation.__doc__ = f"numpy.polynomial's {function.__name__}, {note}."
    return covers(function)(implementation)


LINEAR = {
    kind: (derivative_rule(der), integral_rule(integ), fit_rule(fitted)) for kind, (der, integ, fitted) in KINDS.items()
}
"""NumPy's class of a series -> the functions of its derivatives, integrals and fits."""
