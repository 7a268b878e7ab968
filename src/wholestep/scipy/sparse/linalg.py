"""scipy.sparse.linalg: iterative solvers of linear equations, differentiated as the solutions that they approach."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import scipy.sparse
import scipy.sparse.linalg

from wholestep import dtypes, tree
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError, UnsupportedError
from wholestep.frontend.array import Array
from wholestep.frontend.derivatives import vjp
from wholestep.frontend.dispatch import REPLACED
from wholestep.frontend.implicit import LinearEquation
from wholestep.frontend.promotion import lift, wrap
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import LEAVES, scope
from wholestep.frontend.transposition import hoisted
from wholestep.scipy.outside import fallback, lapack_operands, np, ratio
from wholestep.scipy.sparse.krylov import conjugate_gradients, minimal_residuals, stabilized_gradients
from wholestep.words import type_in_words

outside: Any = scipy.sparse.linalg


def __getattr__(name: str) -> Any:
    return fallback(outside, name)


class Unknowns:
    """A tree of arrays, which solvers see as one vector."""

    def __init__(self, name: str, example: Any) -> None:
        self.name = name
        leaves, self.structure = tree.flatten(example)
        if not leaves or not all(isinstance(leaf, LEAVES) for leaf in leaves):
            raise TreeError(f"{name}: b is an array, or a tree of them")
        self.shapes = [np.shape(leaf) for leaf in leaves]

    def vector(self, what: str, given: Any) -> Any:
        """A tree like the unknowns as a vector; raises TreeError or ShapeError for another one."""
        leaves, found = tree.flatten(given)
        if found != self.structure:
            raise TreeError(f"{self.name}: {what} is {found}, and b {self.structure}")
        for leaf, shape in zip(leaves, self.shapes, strict=True):
            if np.shape(leaf) != shape:
                raise ShapeError(f"{self.name}: {what} has shape {np.shape(leaf)} where b has {shape}")
        rows = [np.reshape(lift(leaf), (-1,)) for leaf in leaves]
        return rows[0] if len(rows) == 1 else np.concatenate(rows)

    def shaped(self, vector: Any) -> Any:
        """The tree of a vector."""
        leaves, start = [], 0
        for shape in self.shapes:
            stop = start + int(np.prod(shape))
            leaves.append(np.reshape(vector[start:stop], shape))
            start = stop
        return tree.unflatten(self.structure, leaves)

    def product(self, what: str, given: Any) -> tuple[Callable[[Any], Any], Any]:
        """A matrix, or a function of the unknowns, as a function of the vector; and the matrix, which has a dtype."""
        if scipy.sparse.issparse(given):
            self.check_size(what, given.shape)
            return sparse_product(given)
        if isinstance(given, outside.LinearOperator) or not (callable(given) or isinstance(given, (*LEAVES, list))):
            raise DtypeError(
                f"{self.name}: {what} is {type_in_words(given)}, not a matrix or a function",
                hint="give a function of x that returns its image",
            )
        if callable(given):
            return lambda v: self.vector(f"the result of {what}", ordinary(given)(self.shaped(v))), None
        matrix = lift(given)
        self.check_size(what, matrix.shape)
        return lambda v: matrix @ v, matrix

    def check_size(self, what: str, shape: Any) -> None:
        """Raise ShapeError for the shape of a matrix that is not square, with a row for each unknown."""
        size = sum(int(np.prod(shape)) for shape in self.shapes)
        if tuple(shape) != (size, size):
            raise ShapeError(f"{self.name}: {what} has shape {tuple(shape)}, and there are {size} unknowns")

    def hoisted(self, what: str, product: Callable[[Any], Any], example: Any) -> tuple[Callable[..., Any], Any]:
        """A product and the arrays that it closes over; raises DtypeError where it changes the dtype of a vector."""

        def kept(v: Any) -> Any:
            made = product(v)
            if made.dtype != v.dtype:
                raise DtypeError(f"{self.name}: {what} gives {made.type} for {v.type}", hint="cast b to that dtype")
            return made

        whole, closed = hoisted(kept, self.name, example)
        return whole, tuple(closed)


def sparse_product(matrix: Any) -> tuple[Callable[[Any], Any], Any]:
    """The product with a plain sparse matrix, by the places of its numbers; and these numbers."""
    places = matrix.tocoo()

    def product(v: Any) -> Any:
        out = lift(np.zeros(places.shape[0], dtypes.promoted_dtype(places.dtype, v.dtype)))
        np.add.at(out, places.row, places.data * v[places.col])
        return out

    return product, places.data


def solution(
    name: str,
    solver: Any,
    A: Any,
    b: Any,
    x0: Any,
    tol: Any,
    rtol: Any,
    atol: Any,
    maxiter: Any,
    M: Any,
    callback: Any,
    *,
    hermitian: bool = False,
) -> Any:
    """The unknowns of an equation, and how it went; with `hermitian` both A and M are their own transposes."""
    if callback is not None:
        raise UnsupportedError(f"{name}: callback= is not covered", hint="the solver is a loop of the program")
    with scope(name) as work:
        unknowns = Unknowns(name, b)
        product, matrix = unknowns.product("A", A)
        right = unknowns.vector("b", b)
        right = wrap(lapack_operands(name, right, *[] if matrix is None else [matrix])[0])
        start = np.zeros_like(right) if x0 is None else cast(name, "x0", unknowns.vector("x0", x0), right)
        product, closed = unknowns.hoisted("A", product, right)
        condition, read = unknowns.hoisted("M", (lambda v: v) if M is None else unknowns.product("M", M)[0], right)
        size = np.linalg.norm(right)
        relative = np.maximum(tol if rtol is None else rtol, ratio(atol, size))
        start = np.where(size == 0, 0, start)
        most = 10 * right.shape[0] if maxiter is None else maxiter
        forth = functools.partial(solved, solver, condition, True)
        back = functools.partial(solved, solver, condition if hermitian else turned(condition), False)
        helping = (start, relative.astype(size.dtype), most, read)
        equation = LinearEquation(f"{name}: A", product, product if hermitian else None)
        x, info = equation.solution(right, closed, helping, forth, back)
        return work.leave((unknowns.shaped(x), Array(info.value, True)))


def cast(name: str, what: str, x: Any, like: Any) -> Any:
    """A vector in the dtype of another; raises DtypeError where that has no room for it."""
    if not np.can_cast(x.dtype, like.dtype, "same_kind"):
        raise DtypeError(f"{name}: {what} is {x.type}, and b {like.type}")
    return x.astype(like.dtype, copy=False)


def turned(condition: Callable[..., Any]) -> Callable[..., Any]:
    """The transpose of a preconditioner."""
    return lambda v, *read: vjp(lambda v: condition(v, *read), v)[1](v)[0]


def solved(
    solver: Any,
    condition: Any,
    from_guess: bool,
    product: Any,
    b: Any,
    start: Any,
    relative: Any,
    most: Any,
    read: Sequence[Any],
) -> Any:
    """The result of a solver that begins at the guess, or at zero."""
    begin = start if from_guess else np.zeros_like(b)
    return solver(product, lambda v: condition(v, *read), b, begin, relative * np.linalg.norm(b), most)


def cg(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    rtol: Any = None,
    atol: Any = 0.0,
    maxiter: Any = None,
    M: Any = None,
    callback: None = None,
) -> tuple[Any, Any]:
    """x with A x = b by conjugate gradients, for a Hermitian positive definite A: `x, info = cg(A, b)`.

    A is a matrix, traced or plain, a plain sparse matrix, or a function of x; M, of the same kinds, is a preconditioner
    near the inverse of A, Hermitian as A is. The loop begins at x0 and ends where the norm of b - A x is at most tol
    times that of b, or atol, or after `maxiter` steps, ten times the unknowns if it is None; `rtol` is SciPy's name for
    tol. `info` is 0 where the tolerance was kept, else the number of steps.

    The derivative, of every order and in both modes, is that of the solution, in b and all values A reads: one more
    solution, with the conjugate transposes of A and M, as accurate as tol or atol made the first. x0 and M have none.

    Shapes: b an array of any shape, or a tree of arrays, in float32, float64 or complex numbers, integers as float64; x
    like b, in the dtype of b and of a matrix A; A and M [n, n] for n unknowns, or functions from x to a tree like x;
    info an int64 scalar.
    Raises: TreeError or ShapeError where A, M or x0 do not fit b, DtypeError for half precision and for an A that
    is no matrix, UnsupportedError for a callback.
    Source: Hestenes and Stiefel, "Methods of conjugate gradients for solving linear systems", 1952.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.sparse.linalg import cg
    >>> A, b = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    >>> np.round(ws.grad(lambda b: cg(A, b)[0].sum())(b), 6).tolist()
    [0.181818, 0.272727]
    """
    x, info = solution("cg", conjugate_gradients, A, b, x0, tol, rtol, atol, maxiter, M, callback, hermitian=True)
    return x, info


def bicgstab(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    rtol: Any = None,
    atol: Any = 0.0,
    maxiter: Any = None,
    M: Any = None,
    callback: None = None,
) -> tuple[Any, Any]:
    """x with A x = b by stabilized biconjugate gradients, for any A: `x, info = bicgstab(A, b)`.

    Arguments, derivatives and `info` as in `cg`; a negative `info`, -10 or -11, says that the method broke down.

    Shapes: as `cg`.
    Raises: as `cg`.
    Source: van der Vorst, "Bi-CGSTAB: a fast and smoothly converging variant of Bi-CG", 1992.

    >>> import numpy as np
    >>> from wholestep.scipy.sparse.linalg import bicgstab
    >>> x, info = bicgstab(np.array([[4.0, 1.0], [0.0, 2.0]]), np.array([6.0, 4.0]))
    >>> np.round(x, 6).tolist(), int(info)
    ([1.0, 2.0], 0)
    """
    x, info = solution("bicgstab", stabilized_gradients, A, b, x0, tol, rtol, atol, maxiter, M, callback)
    return x, info


def gmres(
    A: Any,
    b: Any,
    x0: Any = None,
    *,
    tol: Any = 1e-5,
    rtol: Any = None,
    atol: Any = 0.0,
    restart: int | None = 20,
    maxiter: Any = None,
    M: Any = None,
    callback: None = None,
    callback_type: None = None,
    solve_method: str = "incremental",
) -> tuple[Any, Any]:
    """x with A x = b by minimal residuals, for any A: `x, info = gmres(A, b)`.

    Arguments, derivatives and `info` as in `cg`. `restart` steps, 20 where it is None, make a cycle, which keeps that
    many vectors; `maxiter` and `info` count cycles. The preconditioner stands on the right, so that the residual is
    that of the equation itself. `solve_method` is JAX's choice of how a cycle is solved: here always incremental.

    Shapes: as `cg`.
    Raises: as `cg`, and ParameterError for a `restart` below 1 or another `solve_method`.
    Source: Saad and Schultz, "GMRES", 1986.

    >>> import numpy as np
    >>> from wholestep.scipy.sparse.linalg import gmres
    >>> x, info = gmres(lambda x: np.stack([4 * x[0] + x[1], 2 * x[1]]), np.array([6.0, 4.0]))
    >>> np.round(x, 6).tolist(), int(info)
    ([1.0, 2.0], 0)
    """
    steps = 20 if restart is None else int(restart)
    if steps < 1:
        raise ParameterError(f"gmres: restart is {restart}, and a cycle has at least 1 step")
    if solve_method not in ("incremental", "batched"):
        raise ParameterError(f"gmres: solve_method is {solve_method!r}, and 'incremental' or 'batched' in JAX")
    hook = callback if callback_type is None else callback_type
    x, info = solution("gmres", minimal_residuals(steps), A, b, x0, tol, rtol, atol, maxiter, M, hook)
    return x, info


for ours in (cg, bicgstab, gmres):
    REPLACED[getattr(outside, ours.__name__)] = ours
