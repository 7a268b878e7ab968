"""Solutions of equations: found by any solver, and differentiated by the implicit function theorem."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, overload

import numpy as np

from wholestep import containers, tree
from wholestep.errors import ArgumentError, DtypeError, ShapeError, TreeError
from wholestep.frontend.custom import custom_jvp, custom_vjp
from wholestep.frontend.derivatives import jvp, vjp
from wholestep.frontend.jacobians import jacfwd
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray


@overload
def custom_root(f: Callable[..., Any], guess: Any, solve: Callable[..., Any], *args: Any) -> NDArray: ...
@overload
def custom_root(
    f: Callable[..., Any], guess: Any, solve: Callable[..., Any], *args: Any, has_aux: bool
) -> tuple[NDArray, Any]: ...
def custom_root(
    f: Callable[..., Any], guess: Any, solve: Callable[..., Any], *args: Any, has_aux: bool = False
) -> NDArray | tuple[NDArray, Any]:
    """x with f(x, *args) = 0, as `solve(g, guess)` finds it for g(x) = f(x, *args), differentiated as that root.

    The derivative in the arguments is that of the implicit function theorem, of every order and in both modes, for any
    solver, even a `while_loop`. It takes the Jacobian of f in x, a matrix, and a solution with it. The guess has no
    derivative. Values to be differentiated go through `args`. With `has_aux` the solver returns
    `(x, aux)`, a tree of arrays without a derivative beside x, and so does the call.

    Shapes: guess real floats of any shape, which f and the solver keep; args trees of any arrays.
    Raises: DtypeError or ShapeError where the guess, the root and f of it are not such arrays, TreeError where the
    solver gives no such pair, DerivativeError where f or the solver reads something else that is differentiated,
    numpy.linalg.LinAlgError for a singular Jacobian.
    Source: Blondel et al., "Efficient and modular implicit differentiation", 2022.

    >>> import numpy as np, wholestep as ws
    >>> def newton(g, x):
    ...     return ws.while_loop(lambda x: abs(g(x)) > 1e-12, lambda x: x - g(x) / ws.grad(g)(x), x)
    >>> root = lambda a: ws.custom_root(lambda x, a: x**2 - a, 1.0, newton, a)
    >>> round(float(root(9.0)), 6), round(float(ws.grad(root)(9.0)), 6)
    (3.0, 0.166667)
    """
    if not type_of(guess).inexact or np.iscomplexobj(guess):
        raise DtypeError(f"custom_root: the guess is {type_of(guess)}, not real floats")
    refuse_functions("custom_root", args, "a tangent_solve is not needed: the derivative solves with the Jacobian of f")
    equation, solver = ordinary(f), with_aux("custom_root", solve, has_aux)
    found = implicit_root(
        "custom_root: f", equation, guess, args, lambda x, given: solver(lambda x: equation(x, *given), x)
    )
    return found if has_aux else found[0]


def refuse_functions(who: str, args: Any, hint: str) -> None:
    """Raise ArgumentError for a function where the arguments of the equation stand, as in the order of JAX."""
    if any(callable(x) and containers.one_level(x) is None for x in args):
        raise ArgumentError(f"{who}: after solve come the arguments of the equation, and one is a function", hint=hint)


def implicit_root(
    who: str, equation: Callable[..., Any], guess: Any, given: Any, solve: Callable[[Any, Any], tuple[Any, Any]]
) -> tuple[Any, Any]:
    """x with equation(x, *given) = 0, as `solve(guess, given)` finds it, and the solver's auxiliary output."""

    @custom_jvp
    def root(start: Any, given: Any) -> Any:
        found, aux = solve(start, given)
        return found, checked_image(who, found, equation(found, *given), start), aux

    def rule(primals: Any, tangents: Any) -> Any:
        start, given = primals
        x, image, aux = root(start, given)  # the call with its own derivative, for higher orders
        at_root, leaves, moving = of_inexact(lambda *given: equation(x, *given), given)
        slopes = tree.leaves(tangents[1])
        residual = np.zeros_like(x)
        if moving:
            residual = jvp(at_root, [leaves[i] for i in moving], [slopes[i] for i in moving])[1]
        size = int(np.prod(x.shape))
        matrix = np.reshape(jacfwd(lambda x: equation(x, *given))(x), (size, size))
        slope = np.reshape(-np.linalg.solve(matrix, np.reshape(residual, (size,))), x.shape)
        return (x, image, aux), (slope, np.zeros_like(x), tree.map(np.zeros_like, aux))

    root.defjvp(rule)
    x, _, aux = root(guess, given)
    return x, aux


@overload
def custom_linear_solve(
    matvec: Callable[..., Any], b: Any, solve: Callable[..., Any], *args: Any, transpose_solve: Any = ...
) -> NDArray: ...
@overload
def custom_linear_solve(
    matvec: Callable[..., Any],
    b: Any,
    solve: Callable[..., Any],
    *args: Any,
    transpose_solve: Any = ...,
    has_aux: bool,
) -> tuple[NDArray, Any]: ...
def custom_linear_solve(
    matvec: Callable[..., Any],
    b: Any,
    solve: Callable[..., Any],
    *args: Any,
    transpose_solve: Callable[..., Any] | None = None,
    has_aux: bool = False,
) -> NDArray | tuple[NDArray, Any]:
    """x with matvec(x, *args) = b, as `solve(g, b)` finds it for g(x) = matvec(x, *args), differentiated as that x.

    `matvec` is linear in x. Its derivative in b and in the arguments, in reverse mode and of every order, is one more
    solution, with the transpose: by `transpose_solve(g, b)`, which is given the transpose of matvec, the conjugate one
    of complex numbers, or by `solve` where matvec is symmetric or Hermitian. Neither is differentiated, so both may be
    loops that end when they are done. With `has_aux` both return `(x, aux)`, a tree of arrays without a derivative
    beside x, and so does the call.

    Shapes: b floats or complex numbers of any shape, which matvec and the solvers keep; args trees of any arrays.
    Raises: DtypeError or ShapeError where b, x and matvec of it are not such arrays, TreeError where a solver gives no
    such pair, DerivativeError where matvec or the solver reads something else that is differentiated.
    Source: Blondel et al., "Efficient and modular implicit differentiation", 2022.

    >>> import numpy as np, wholestep as ws
    >>> def iterate(g, b):  # Richardson's iteration
    ...     return ws.fori_loop(0, 60, lambda i, x: x + 0.4 * (b - g(x)), np.zeros_like(b))
    >>> f = lambda a: ws.custom_linear_solve(lambda x, a: a * x, np.array([2.0, 4.0]), iterate, a).sum()
    >>> round(float(f(2.0)), 6), round(float(ws.grad(f)(2.0)), 6)
    (3.0, -1.5)
    """
    refuse_functions("custom_linear_solve", args, "give the solver of the transpose by name: transpose_solve=")
    if not type_of(b).inexact:
        raise DtypeError(f"custom_linear_solve: b is {type_of(b)}, not floats or complex numbers")
    product = ordinary(matvec)
    equation = LinearEquation("custom_linear_solve: matvec", product, product if transpose_solve is None else None)
    solvers = [with_aux("custom_linear_solve", f, has_aux) for f in (solve, transpose_solve or solve)]
    x, aux = equation.solution(b, args, (), *solvers)
    return (x, aux) if has_aux else x


def with_aux(name: str, solve: Callable[..., Any], has_aux: bool) -> Callable[..., Any]:
    """A user's solver as one that gives a pair, its second item None where it has none."""

    def solver(*given: Any) -> tuple[Any, Any]:
        found = ordinary(solve)(*given)
        if not has_aux:
            return found, None
        if not isinstance(found, tuple) or len(found) != 2:
            raise TreeError(f"{name}: with has_aux the solver returns (x, aux)")
        return found

    return solver


class LinearEquation(NamedTuple):
    """product(x, *given) = b, linear in x; `who` is the product's name in messages.

    A product that is its own transpose is `shared` by the solvers of both equations.
    """

    who: str
    product: Callable[..., Any]
    shared: Callable[..., Any] | None = None

    def solution(
        self, b: Any, given: Any, helping: Any, solve: Callable[..., Any], back: Callable[..., Any]
    ) -> tuple[Any, Any]:
        """x and the auxiliary output of `solve(g, b, *helping)`; `back` solves with the transpose, for the derivative.

        The values in `helping` make a solver faster, and have no derivative.
        """

        inside = self.shared or self.product

        @custom_vjp
        def solution(b: Any, given: Any, helping: Any) -> Any:
            x, aux = solve(lambda x: inside(x, *given), b, *helping)
            return x, checked_image(self.who, x, self.product(x, *given), b), aux

        def forward(b: Any, given: Any, helping: Any) -> Any:
            x, image, aux = solution(b, given, helping)
            return (x, image, aux), (x, given, helping)

        def backward(kept: Any, slopes: Any) -> Any:
            x, given, helping = kept
            w, _ = self.transposed().solution(slopes[0], given, helping, back, solve)
            return w, self.slopes(x, given, w), None

        solution.defvjp(forward, backward)
        x, _, aux = solution(b, given, helping)
        return x, aux

    def transposed(self) -> LinearEquation:
        """The equation with the transposed product."""
        return self._replace(product=lambda y, *given: vjp(lambda x: self.product(x, *given), y)[1](y)[0])

    def slopes(self, x: Any, given: Any, w: Any) -> Any:
        """The cotangents of the product's operands besides x, where w is that of b."""
        pushed, leaves, moving = of_inexact(lambda *given: self.product(x, *given), given)
        found: dict[int, Any] = {}
        if moving:
            found = dict(zip(moving, vjp(pushed, *[leaves[i] for i in moving])[1](-w), strict=True))
        filled = [found.get(i, np.zeros(np.shape(leaf))) for i, leaf in enumerate(leaves)]
        return tree.unflatten(tree.structure(given), filled)


def of_inexact(f: Callable[..., Any], given: Any) -> tuple[Callable[..., Any], list[Any], list[int]]:
    """f as a function of its arguments' inexact leaves; all leaves, and the indices of the inexact ones."""
    leaves, structure = tree.flatten(given)
    moving = [i for i, leaf in enumerate(leaves) if type_of(leaf).inexact]

    def of(*inexact: Any) -> Any:
        whole = dict(zip(moving, inexact, strict=True))
        return f(*tree.unflatten(structure, [whole.get(i, leaf) for i, leaf in enumerate(leaves)]))

    return of, leaves, moving


def checked_image(who: str, found: Any, image: Any, like: Any) -> Any:
    """The image of a solution under a function; raises ShapeError where the type of either is not that of `like`.

    The image is a result beside the solution, so that the function is traced even if the solver does not call it.
    """
    name = who.partition(":")[0]
    for what, x in ((f"{name}: the solver", found), (who, image)):
        if type_of(x) != type_of(like):
            raise ShapeError(f"{what} gives {type_of(x)} where {type_of(like)} was given")
    return image
