"""Calls of numpy.linalg for the coverage tests."""

import numpy as np
from tests.coverage.cases import Case

import wholestep as ws

rng = np.random.default_rng(11)


def real(*shape, dtype="f8"):
    return rng.normal(size=shape).astype(dtype)


def cplx(*shape, dtype="c16"):
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


def regular(*shape, of=real, **options):
    return (of(*shape, **options) + 3 * np.eye(shape[-1])).astype(options.get("dtype", "f8" if of is real else "c16"))


def positive(*shape, of=real):
    a = of(*shape)
    return a @ np.conj(np.swapaxes(a, -1, -2)) + 2 * np.eye(shape[-1])


def spread(*shape, of=real):
    """Symmetric matrices with eigenvalues far from each other."""
    a = 0.3 * of(*shape)
    return a + np.conj(np.swapaxes(a, -1, -2)) + np.diag(3.0 * np.arange(shape[-1])) - 1


A, B, S, P = regular(3, 3), regular(2, 3, 3), spread(3, 3), positive(3, 3)
C = regular(3, 3, of=cplx)
F4 = regular(3, 3, dtype="f4")
I8 = np.array([[2, 1, 0], [1, 3, 1], [0, 1, 4]])
TALL, WIDE, CTALL = real(4, 3), real(3, 4), cplx(4, 3)
linalg = np.linalg
FORMS = (A, B, C, F4, I8)


def each(f, arrays=FORMS, **options):
    return [Case(f, a, **options) for a in arrays]


def singular_values(**options):
    return lambda a: linalg.svd(a, **options)


def norms():
    vector, matrix = real(4), real(3, 4)
    cases = [Case(lambda x, o=o: linalg.norm(x, o), vector) for o in (None, 0, 1, -1, 2, -2, 3, 0.5, np.inf, -np.inf)]
    for o in (None, "fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        cases.append(Case(lambda x, o=o: linalg.norm(x, o), matrix))
        cases.append(Case(lambda x, o=o: linalg.norm(x, o, axis=(0, 2), keepdims=True), real(3, 2, 2)))
        cases.append(Case(lambda x, o=o: linalg.norm(x, o), cplx(3, 2)))
    for o in (None, 0, 1, 2, 3, np.inf, -np.inf):
        cases.append(Case(lambda x, o=o: linalg.norm(x, o, axis=1, keepdims=True), matrix))
        cases.append(Case(lambda x, o=o: linalg.norm(x, o, axis=-1), cplx(2, 3)))
    cases += [
        Case(linalg.norm, x) for x in (real(2, 3, 2), cplx(2, 2, 2), real(3, dtype="f4"), I8, real(2, 3, 1)[0, 0])
    ]
    cases += [Case(linalg.norm, real(3).astype("f2"), grad=False), Case(lambda x: linalg.norm(x, keepdims=True), A)]
    return cases


CASES = {
    "numpy.linalg.solve": [
        Case(linalg.solve, A, real(3)),
        Case(linalg.solve, A, real(3, 2)),
        Case(linalg.solve, B, real(3)),
        Case(linalg.solve, B, real(2, 3, 2)),
        Case(linalg.solve, B[:, None], real(4, 3, 1)),
        Case(linalg.solve, A, real(2, 3, 1)),
        Case(linalg.solve, C, cplx(3)),
        Case(linalg.solve, C, real(3, 2)),
        Case(linalg.solve, F4, real(3, dtype="f4")),
        Case(linalg.solve, I8, np.array([1, 2, 3])),
        Case(linalg.solve, F4, np.array([1, 2, 3])),
    ],
    "numpy.linalg.inv": each(linalg.inv),
    "numpy.linalg.det": each(linalg.det),
    "numpy.linalg.slogdet": each(linalg.slogdet),
    "numpy.linalg.cholesky": [
        *each(linalg.cholesky, (P, positive(2, 3, 3), positive(3, 3, of=cplx), P.astype("f4"), I8)),
        *each(lambda a: linalg.cholesky(a, upper=True), (P, positive(3, 3, of=cplx))),
    ],
    "numpy.linalg.qr": [
        *each(linalg.qr, (A, B, C, F4, I8, TALL, WIDE, CTALL)),
        *each(lambda a: linalg.qr(a, mode="r"), (TALL, WIDE, C)),
        *each(lambda a: linalg.qr(a, mode="complete"), (A, WIDE)),
        Case(lambda a: linalg.qr(ws.stop_gradient(a), mode="complete"), TALL, grad=False),
    ],
    "numpy.linalg.eigh": [
        *each(linalg.eigh, (S, spread(2, 3, 3), spread(3, 3, of=cplx), S.astype("f4"), I8)),
        *each(lambda a: linalg.eigh(a, UPLO="U"), (S, spread(3, 3, of=cplx))),
    ],
    "numpy.linalg.eigvalsh": [
        *each(linalg.eigvalsh, (S, spread(2, 3, 3), spread(3, 3, of=cplx), S.astype("f4"), I8)),
        *each(lambda a: linalg.eigvalsh(a, UPLO="u"), (S, spread(3, 3, of=cplx))),
    ],
    "numpy.linalg.eig": [
        Case(lambda a: linalg.eig(a.astype(complex)), spread(3, 3) + 0.1 * real(3, 3)),
        Case(linalg.eig, cplx(3, 3)),
        Case(linalg.eig, cplx(2, 3, 3)),
        Case(linalg.eig, np.array([[1.0, -4.0, 0.3], [1.0, 1.2, 0.1], [0.2, -0.1, 3.0]])),
    ],
    "numpy.linalg.eigvals": [
        Case(linalg.eigvals, cplx(3, 3)),
        Case(linalg.eigvals, np.array([[1.0, -4.0, 0.3], [1.0, 1.2, 0.1], [0.2, -0.1, 3.0]])),
        Case(linalg.eigvals, np.array([[1, -4], [1, 1]], dtype="f4")),
    ],
    "numpy.linalg.svd": [
        *each(linalg.svd, (A, B, C, F4, I8)),
        *each(singular_values(full_matrices=False), (TALL, WIDE, CTALL)),
        *each(singular_values(compute_uv=False), (TALL, WIDE, CTALL, I8)),
        *each(singular_values(hermitian=True), (S, spread(3, 3, of=cplx))),
        Case(singular_values(hermitian=True, compute_uv=False), S),
        Case(lambda a: linalg.svd(ws.stop_gradient(a)), TALL, grad=False),
    ],
    "numpy.linalg.svdvals": each(linalg.svdvals, (A, B, C, TALL, WIDE, I8)),
    "numpy.linalg.lstsq": [
        Case(linalg.lstsq, real(5, 3), real(5)),
        Case(linalg.lstsq, real(5, 3), real(5, 2)),
        Case(linalg.lstsq, cplx(5, 3), cplx(5)),
        Case(linalg.lstsq, real(3, 5), real(3)),
        Case(linalg.lstsq, A, real(3)),
        Case(lambda a, b: linalg.lstsq(a, b, rcond=1e-3), real(5, 3), real(5)),
        Case(linalg.lstsq, I8, np.array([1, 2, 3])),
    ],
    "numpy.linalg.pinv": [
        *each(linalg.pinv, (A, B, C, TALL, WIDE, CTALL, F4, I8)),
        *each(lambda a: linalg.pinv(a, hermitian=True), (S, spread(3, 3, of=cplx))),
        Case(lambda a: linalg.pinv(a, rtol=1e-3), TALL),
        Case(lambda a: linalg.pinv(a, rtol=None), TALL),
        Case(lambda a: linalg.pinv(a, 1e-3), TALL),
    ],
    "numpy.linalg.norm": norms(),
    "numpy.linalg.vector_norm": [
        Case(linalg.vector_norm, A),
        Case(lambda x: linalg.vector_norm(x, axis=(0, 2), keepdims=True), B),
        Case(lambda x: linalg.vector_norm(x, axis=(2, 0), ord=3), B),
        Case(lambda x: linalg.vector_norm(x, axis=1, ord=np.inf), C),
        Case(lambda x: linalg.vector_norm(x, ord=1, keepdims=True), B),
    ],
    "numpy.linalg.matrix_norm": [
        Case(linalg.matrix_norm, B),
        *[Case(lambda x, o=o: linalg.matrix_norm(x, ord=o), B) for o in ("nuc", 1, -1, 2, -2, np.inf, -np.inf)],
        Case(lambda x: linalg.matrix_norm(x, keepdims=True), C),
    ],
    "numpy.linalg.matrix_power": [
        *[Case(lambda a, n=n: linalg.matrix_power(a, n), A) for n in (0, 1, 2, 3, 7, -1, -3)],
        Case(lambda a: linalg.matrix_power(a, 3), C),
        Case(lambda a: linalg.matrix_power(a, 5), I8),
        Case(lambda a: linalg.matrix_power(a, 0), I8),
        Case(lambda a: linalg.matrix_power(a, -2), B),
    ],
    "numpy.linalg.matrix_rank": [
        *each(linalg.matrix_rank, (A, B, C, np.ones((3, 3)), np.zeros((2, 2)), real(3), np.zeros(3), I8), grad=False),
        Case(lambda a: linalg.matrix_rank(a, hermitian=True), S, grad=False),
        Case(lambda a: linalg.matrix_rank(a, tol=5.0), A, grad=False),
        Case(lambda a: linalg.matrix_rank(a, rtol=0.5), A, grad=False),
    ],
    "numpy.linalg.cond": [
        *each(linalg.cond, (A, B, C, TALL, I8)),
        *[Case(lambda a, p=p: linalg.cond(a, p), B) for p in (2, -2, 1, -1, "fro", np.inf, -np.inf)],
    ],
    "numpy.linalg.multi_dot": [
        Case(lambda a, b: linalg.multi_dot([a, b]), real(2, 3), real(3, 4)),
        Case(lambda a, b, c: linalg.multi_dot([a, b, c]), real(9, 2), real(2, 8), real(8, 1)),
        Case(lambda a, b, c, d: linalg.multi_dot([a, b, c, d]), real(3), real(3, 8), real(8, 2), real(2)),
        Case(lambda a, b, c: linalg.multi_dot((a, b, c)), cplx(2, 3), real(3, 3), real(3)),
    ],
    "numpy.linalg.tensorinv": [
        Case(linalg.tensorinv, np.eye(6).reshape(2, 3, 3, 2) + 0.1 * real(2, 3, 3, 2)),
        Case(lambda a: linalg.tensorinv(a, ind=1), np.eye(6).reshape(6, 3, 2) + 0.1 * real(6, 3, 2)),
    ],
    "numpy.linalg.tensorsolve": [
        Case(linalg.tensorsolve, np.eye(6).reshape(2, 3, 3, 2) + 0.1 * real(2, 3, 3, 2), real(2, 3)),
        Case(
            lambda a, b: linalg.tensorsolve(a, b, axes=(0, 2)),
            np.eye(6).reshape(3, 6, 2).copy() + 0.1 * real(3, 6, 2),
            real(6),
        ),
    ],
    "numpy.linalg.cross": [
        Case(linalg.cross, real(3), real(3)),
        Case(linalg.cross, real(2, 3), real(3)),
        Case(lambda x, y: linalg.cross(x, y, axis=0), cplx(3, 2), cplx(3, 2)),
    ],
    "numpy.linalg.outer": [Case(linalg.outer, real(2), real(3)), Case(linalg.outer, cplx(2), real(3))],
    "numpy.linalg.tensordot": [
        Case(linalg.tensordot, real(2, 3, 4), real(3, 4, 2)),
        Case(lambda x, y: linalg.tensordot(x, y, axes=((0, 2), (1, 0))), real(2, 3, 4), real(4, 2)),
    ],
    "numpy.linalg.matmul": [Case(linalg.matmul, B, A), Case(linalg.matmul, A, real(3))],
    "numpy.linalg.vecdot": [
        Case(linalg.vecdot, cplx(2, 3), cplx(3)),
        Case(lambda x, y: linalg.vecdot(x, y, axis=0), real(2, 3), real(2, 3)),
    ],
    "numpy.linalg.matrix_transpose": each(linalg.matrix_transpose, (A, TALL, B, I8)),
    "numpy.linalg.trace": [
        *each(linalg.trace, (A, B, TALL, C, I8)),
        Case(lambda x: linalg.trace(x, offset=1), TALL),
        Case(lambda x: linalg.trace(x, dtype=np.float32), A, grad=False),
    ],
    "numpy.linalg.diagonal": [
        *each(linalg.diagonal, (A, B, TALL, C)),
        Case(lambda x: linalg.diagonal(x, offset=-1), TALL),
    ],
}
