"""Reports of derivatives of factorizations: the triangle that is read, equal eigenvalues and singular values."""

from __future__ import annotations

from typing import Any

import numpy as np

import wholestep as ws
from wholestep_tools.audit.correctness.reports.report import Report


def log_determinant(a: Any) -> Any:
    """The logarithm of a determinant by a Cholesky factor, of the part of a matrix that is symmetric."""
    return 2 * np.sum(np.log(np.diagonal(np.linalg.cholesky((a + a.T) / 2))))


def inverse_trace(a: Any) -> Any:
    """The trace of an inverse by a Cholesky factor."""
    inverse = np.linalg.inv(np.linalg.cholesky((a + a.T) / 2))
    return np.sum(inverse * inverse)


def upper(a: Any) -> Any:
    """The sum of the upper Cholesky factor."""
    return np.sum(ws.scipy.linalg.cholesky(a, lower=False))


def log_eigenvalues(a: Any) -> Any:
    """The logarithm of a determinant by eigenvalues."""
    return np.sum(np.log(np.linalg.eigvalsh((a + a.T) / 2)))


def put_together(a: Any) -> Any:
    """The norm of a matrix that was taken apart into singular vectors and values, and put together."""
    u, s, v = np.linalg.svd(a, full_matrices=False)
    return np.linalg.norm((u * s) @ v)


def largest_part(a: Any) -> Any:
    """The norm of the first part of a singular value decomposition, where the others are zero."""
    u, s, v = np.linalg.svd(a)
    return np.sum((s[0] * np.outer(u[:, 0], v[0])) ** 2)


def spectral(a: Any) -> Any:
    """The sum of a function of a symmetric matrix whose eigenvalues are equal."""
    values, vectors = np.linalg.eigh(a)
    return np.trace((vectors * values**2) @ vectors.T)


def slope_of_upper(a: Any) -> Any:
    """The gradient of the sum of the upper factor of two rows, by the formulas of its three numbers."""
    p, q, r = a[0, 0], a[0, 1], a[1, 1]
    last = np.sqrt(r - q * q / p)
    return np.array(
        [
            [0.5 / np.sqrt(p) - 0.5 * q / p**1.5 + 0.5 * q * q / p**2 / last, 1 / np.sqrt(p) - q / p / last],
            [0.0, 0.5 / last],
        ]
    )


A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, -0.25], [0.5, -0.25, 2.0]])
TWO = np.array([[4.0, 1.0], [1.0, 3.0]])
TWINS = np.diag([1.0, 1.0, 2.0, 3.0])
REPORTS = (
    Report(
        "HIPS/autograd #56",
        "the gradient of a determinant by a Cholesky factor is not the inverse",
        ws.grad(log_determinant),
        (A,),
        np.linalg.inv(A),
    ),
    Report(
        "pytorch #18825",
        "the gradient by way of a Cholesky factor is another one than without",
        ws.grad(inverse_trace),
        (A,),
        -np.linalg.matrix_power(np.linalg.inv(A), 2),
    ),
    Report(
        "jax #40421",
        "the triangle that a factorization does not read gets a gradient",
        ws.grad(upper),
        (TWO,),
        slope_of_upper(TWO),
    ),
    Report(
        "pytorch #22807",
        "the gradient by way of eigenvalues is not symmetric",
        ws.grad(log_eigenvalues),
        (A,),
        np.linalg.inv(A),
    ),
    Report(
        "jax #8732",
        "a gradient through singular vectors is nan where two singular values are equal",
        ws.grad(put_together),
        (TWINS,),
        TWINS / np.linalg.norm(TWINS),
    ),
    Report(
        "jax #2311",
        "singular values of zero make the gradient of the others nan",
        ws.grad(largest_part),
        (np.ones((4, 4)),),
        2 * np.ones((4, 4)),
    ),
    Report(
        "tensorflow #17476",
        "the gradient through the factors of a rotation is nan",
        ws.grad(put_together),
        (np.eye(3),),
        np.eye(3) / np.sqrt(3.0),
    ),
    Report(
        "adtzlr/felupe #67",
        "a function of a matrix with an eigenvalue that comes twice has nan for a derivative",
        ws.grad(spectral),
        (np.eye(3) * 2.0,),
        4.0 * np.eye(3),
    ),
)
