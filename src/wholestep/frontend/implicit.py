"""Solutions of equations: found by any solver, and differentiated by what they solve instead of through its steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wholestep import tree
from wholestep.errors import DtypeError, ShapeError
from wholestep.frontend.custom import custom_jvp, custom_vjp
from wholestep.frontend.derivatives import jvp, vjp
from wholestep.frontend.jacobians import jacfwd
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray


def custom_root(f: Callable[..., Any], guess: Any, solve: Callable[..., Any], *args: Any) -> NDArray:
    """x with f(x, *args) = 0, as `solve(g, guess)` finds it for g(x) = f(x, *args), differentiated as that root.

    The derivative in the arguments is that of the implicit function theorem, of every order and in both modes, whatever
    the solver does: it may be a `while_loop`. It takes the Jacobian of f in x, a matrix, and a solution with it. The
    guess has no derivative. What is to be differentiated goes through `args`.

    Shapes: guess real floats of any shape, which f and the solver keep; args trees of any arrays.
    Raises: DtypeError or ShapeError where the guess, the root and f of it are not such arrays, DerivativeError where f
    or the solver reads something else that is differentiated, numpy.linalg.LinAlgError for a singular Jacobian.
    Source: Blondel et al., "Efficient and modular implicit differentiation", 2022.

    >>> import numpy as np, wholestep as ws
    >>> def newton(g, x):
    ...     return ws.while_loop(lambda x: abs(g(x)) > 1e-12, lambda x: x - g(x) / ws.grad(g)(x), x)
    >>> root = lambda a: ws.custom_root(lambda x, a: x**2 - a, 1.0, newton, a)
    >>> round(float(root(9.0)), 6), round(float(ws.grad(root)(9.0)), 6)
    (3.0, 0.166667)
    """
    equation = ordinary(f)

    @custom_jvp
    def root(start: Any, given: Any) -> Any:
        found = ordinary(solve)(lambda x: equation(x, *given), start)
        return found, checked_image("custom_root: f", found, equation(found, *given), start)

    def rule(primals: Any, tangents: Any) -> Any:
        start, given = primals
        x, image = root(start, given)  # whose own derivative is wanted for higher orders
        at_root, leaves, moving = of_inexact(lambda *given: equation(x, *given), given)
        slopes = tree.leaves(tangents[1])
        residual = np.zeros_like(x)
        if moving:
            residual = jvp(at_root, [leaves[i] for i in moving], [slopes[i] for i in moving])[1]
        size = int(np.prod(x.shape))
        matrix = np.reshape(jacfwd(lambda x: equation(x, *given))(x), (size, size))
        slope = np.reshape(-np.linalg.solve(matrix, np.reshape(residual, (size,))), x.shape)
        return (x, image), (slope, np.zeros_like(x))

    root.defjvp(rule)
    if not type_of(guess).inexact or np.iscomplexobj(guess):
        raise DtypeError(f"custom_root: the guess is {type_of(guess)}, not real floats")
    return root(guess, args)[0]


def custom_linear_solve(
    matvec: Callable[..., Any],
    b: Any,
    solve: Callable[..., Any],
    *args: Any,
    transpose_solve: Callable[..., Any] | None = None,
) -> NDArray:
    """x with matvec(x, *args) = b, as `solve(g, b)` finds it for g(x) = matvec(x, *args), differentiated as that x.

    `matvec` is linear in x. Its derivative in b and in the arguments, in reverse mode and of every order, is one more
    solution, with the transpose: by `transpose_solve(g, b)`, which is given the transpose of matvec, or by `solve`
    where matvec is symmetric. Neither is differentiated, so both may be loops that end when they are done.

    Shapes: b real floats of any shape, which matvec and the solvers keep; args trees of any arrays.
    Raises: DtypeError or ShapeError where b, x and matvec of it are not such arrays, DerivativeError where matvec or
    the solver reads something else that is differentiated.
    Source: Blondel et al., "Efficient and modular implicit differentiation", 2022.

    >>> import numpy as np, wholestep as ws
    >>> def iterate(g, b):  # Richardson's iteration
    ...     return ws.fori_loop(0, 60, lambda i, x: x + 0.4 * (b - g(x)), np.zeros_like(b))
    >>> f = lambda a: ws.custom_linear_solve(lambda x, a: a * x, np.array([2.0, 4.0]), iterate, a).sum()
    >>> round(float(f(2.0)), 6), round(float(ws.grad(f)(2.0)), 6)
    (3.0, -1.5)
    """
    product = ordinary(matvec)
    back = solve if transpose_solve is None else transpose_solve

    @custom_vjp
    def solution(b: Any, given: Any) -> Any:
        found = ordinary(solve)(lambda x: product(x, *given), b)
        return found, checked_image("custom_linear_solve: matvec", found, product(found, *given), b)

    def forward(b: Any, given: Any) -> Any:
        x, image = solution(b, given)
        return (x, image), (x, given)

    def backward(kept: Any, slopes: Any) -> Any:
        x, given = kept

        def transposed(y: Any, *given: Any) -> Any:
            return product(y, *given) if transpose_solve is None else vjp(lambda x: product(x, *given), x)[1](y)[0]

        w = custom_linear_solve(transposed, slopes[0], back, *given, transpose_solve=transpose_solve and solve)
        pushed, leaves, moving = of_inexact(lambda *given: product(x, *given), given)
        found: dict[int, Any] = {}
        if moving:
            found = dict(zip(moving, vjp(pushed, *[leaves[i] for i in moving])[1](-w), strict=True))
        return w, tree.unflatten(
            tree.structure(given), [found.get(i, np.zeros(np.shape(x))) for i, x in enumerate(leaves)]
        )

    solution.defvjp(forward, backward)
    if not type_of(b).inexact or np.iscomplexobj(b):
        raise DtypeError(f"custom_linear_solve: b is {type_of(b)}, not real floats")
    return solution(b, args)[0]


def of_inexact(f: Callable[..., Any], given: Any) -> tuple[Callable[..., Any], list[Any], list[int]]:
    """f as a function of those of its arguments' leaves that have slopes; all leaves, and the numbers of these."""
    leaves, structure = tree.flatten(given)
    moving = [i for i, leaf in enumerate(leaves) if type_of(leaf).inexact]

    def of(*inexact: Any) -> Any:
        whole = dict(zip(moving, inexact, strict=True))
        return f(*tree.unflatten(structure, [whole.get(i, leaf) for i, leaf in enumerate(leaves)]))

    return of, leaves, moving


def checked_image(who: str, found: Any, image: Any, like: Any) -> Any:
    """The image of a solution under a function; raises ShapeError where either has another type than what was given.

    It is a result beside the solution, so that whatever the function reads is seen, if the solver does not call it.
    """
    name = who.partition(":")[0]
    for what, x in ((f"{name}: the solver", found), (who, image)):
        if type_of(x) != type_of(like):
            raise ShapeError(f"{what} gives {type_of(x)} where {type_of(like)} was given")
    return image
