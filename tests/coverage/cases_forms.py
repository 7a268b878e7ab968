"""Forms of matrices of scipy.linalg, integrals of scipy.special, and modes of scipy.stats."""

import numpy as np
from tests.coverage.cases import Case

from wholestep.scipy import linalg, special, stats

RNG = np.random.default_rng(8)


def real(*shape):
    return RNG.normal(size=shape)


def cplx(*shape):
    return real(*shape) + 1j * real(*shape)


def unsigned(*args, **options):
    """Eigenvalues, and the sizes of the vectors' components: SciPy's driver chooses other signs than NumPy's."""
    w, v = linalg.eigh_tridiagonal(*args, **options)
    return w, np.abs(v)


def sizes(t, z):
    """The squares of absolute values: SciPy's columns have other phases."""
    return (t * t.conj()).real, (z * z.conj()).real


def product_of(t, z):
    """The matrix of a Schur form: the product of its factors."""
    return z @ t @ np.conj(z).T


SPREAD, TURNED = (
    np.diag([1.0, 2.0, 4.0, 7.0]) + 0.2 * real(4, 4),
    np.array([[1.0, -4.0, 0.3], [1.0, 1.2, 0.1], [0.2, -0.1, 3.0]]),
)
JORDAN, MIXED = np.diag([2.0] * 3) + np.eye(3, k=1), SPREAD[:3, :3] + 0.3j * SPREAD[1:, 1:]
D, E = np.array([1.0, 3.0, 6.0, 10.0]) + 0.1 * real(4), real(3)
REFLECTED = [real(4, 4), cplx(4, 4), real(2, 2), real(5, 5).astype("f4"), cplx(1, 1)]
BOTH = np.array([0.05, 0.9, 1.0 + 2e-3, 3.0, 40.0])
HOLES = np.array([np.nan, 1.0, np.nan, 2.0, 2.0, np.nan])
CASES = {
    "scipy.linalg.polar": [
        Case(lambda a, s=side: linalg.polar(a, s), m, rtol=1e-11)
        for m in (real(3, 3), real(5, 3), real(2, 4), cplx(3, 3), cplx(4, 2), linalg.qr(real(3, 3))[0])
        for side in ("right", "left")
    ],
    "scipy.linalg.hessenberg": [
        *[
            Case(lambda a: linalg.hessenberg(a, calc_q=True), m, rtol=1e-5 if m.dtype == "f4" else 1e-11)
            for m in REFLECTED
        ],
        Case(linalg.hessenberg, np.triu(real(4, 4), -1), grad=False, rtol=1e-12),
        Case(linalg.hessenberg, real(4, 4), rtol=1e-11),
    ],
    "scipy.linalg.schur": [
        *[
            Case(linalg.schur, m, rtol=1e-5 if m.dtype == "f4" else 1e-11)
            for m in (TURNED, SPREAD, SPREAD.astype("f4"))
        ],
        Case(lambda a: linalg.schur(a, output="c"), np.diag([3.0, 1.0, 2.0]), grad=False, rtol=1e-12),
        Case(lambda a: sizes(*linalg.schur(a)), cplx(4, 4), rtol=1e-11),
        Case(lambda a: sizes(*linalg.schur(a, output="complex")), TURNED, rtol=1e-11),
    ],
    "scipy.linalg.rsf2csf": [Case(lambda a: product_of(*linalg.rsf2csf(*linalg.schur(a))), TURNED, rtol=1e-11)],
    "scipy.linalg.eigh_tridiagonal": [
        Case(unsigned, D, E, rtol=1e-12),
        Case(lambda d, e: unsigned(d, e, select="i", select_range=(1, 2)), D, E, rtol=1e-12),
    ],
    "scipy.linalg.eigvalsh_tridiagonal": [
        Case(linalg.eigvalsh_tridiagonal, D, E, rtol=1e-12),
        Case(lambda d, e: linalg.eigvalsh_tridiagonal(d, e, "i", (0, 1)), D, E, rtol=1e-12),
    ],
    "scipy.linalg.funm": [
        Case(lambda a: linalg.funm(a, np.sin), SPREAD, rtol=1e-10),
        Case(lambda a: linalg.funm(a, np.exp), TURNED, rtol=1e-10),
        Case(lambda a: linalg.funm(a, lambda z: z * z + 2.0 * z), cplx(3, 3), rtol=1e-10),
        Case(lambda a, k: linalg.funm(a, lambda z: np.exp(k * z)), SPREAD, np.float64(0.3), rtol=1e-10),
        Case(lambda a: linalg.funm(a, np.cos), np.eye(3) * 0.7, rtol=1e-12),
        Case(lambda a: linalg.funm(a, np.cos), np.diag([0.7, 0.7 + 1e-7, 2.0]), rtol=1e-12),
    ],
    **{
        f"scipy.linalg.{name}": [Case(getattr(linalg, name), m, rtol=1e-11) for m in (TURNED, MIXED)]
        for name in ("cosm", "sinm", "tanm", "coshm", "sinhm", "tanhm")
    },
    "scipy.linalg.signm": [Case(linalg.signm, m, rtol=1e-11) for m in (np.diag([1.0, -2.0, 3.0]) + 0.2, MIXED)],
    "scipy.linalg.logm": [
        Case(linalg.logm, TURNED, rtol=1e-11),
        Case(linalg.logm, MIXED, grad=False, rtol=1e-11),
        Case(linalg.logm, 1e60 * JORDAN, grad=False, rtol=1e-9),
        Case(lambda a: linalg.logm(a).real.astype("f4"), JORDAN.astype("f4"), grad=False, rtol=1e-5),
    ],
    "scipy.linalg.fractional_matrix_power": [
        Case(lambda a, p: linalg.fractional_matrix_power(a, p).real, TURNED, np.float64(0.3), rtol=1e-11),
        *[
            Case(lambda a, p=p: linalg.fractional_matrix_power(a, p), MIXED, grad=False, rtol=1e-10)
            for p in (-0.7, 3, -1)
        ],
    ],
    "scipy.special.sici": [
        Case(special.sici, np.array([0.1, 1.0, 3.9, 4.1, 9.0, 40.0]), rtol=1e-13),
        Case(special.sici, np.array([0.0, -0.5, -7.0, 1e-9, 1e5, np.inf, -np.inf, np.nan]), grad=False, rtol=1e-12),
        Case(special.sici, np.array([0.5, 12.0], "f4"), rtol=1e-5),
    ],
    "scipy.special.shichi": [
        Case(special.shichi, np.array([0.1, 1.0, 1.9, 2.1, 9.0]), rtol=1e-13),
        Case(special.shichi, np.array([-0.5, -7.0, 1e-9, 40.0, 0.0, np.nan]), grad=False, rtol=1e-12),
        Case(special.shichi, np.array([0.5, 12.0], "f4"), rtol=1e-5),
    ],
    "scipy.special.expn": [
        *[Case(lambda x, n=n: special.expn(n, x), BOTH, rtol=1e-13, drtol=1e-5) for n in (0, 1, 2, 5, 40)],
        Case(lambda x: special.expn(np.arange(5), x), BOTH.astype("f4"), rtol=1e-6),
        Case(lambda x: special.expn(3, x), np.array([0.0, np.inf, np.nan, -1.0]), grad=False, rtol=1e-13),
        Case(lambda n: special.expn(n, BOTH), np.array([0, 1, 2, -1, 7]), grad=False, rtol=1e-13),
    ],
    "scipy.special.fresnel": [
        Case(special.fresnel, np.array([-7.0, -1.3, -1.19, -0.2, 0.1, 1.1, 1.21, 3.0]), rtol=1e-13),
        Case(special.fresnel, np.array([0.0, np.inf, -np.inf, np.nan, 20.0, 1e-9, 300.0]), grad=False, rtol=1e-11),
        Case(special.fresnel, real(5).astype("f4"), rtol=1e-6),
        Case(special.fresnel, np.array([0.2 + 0.3j, -1.3 + 0.1j, 1.0 - 2.0j, 0.9j, -2.5j, -3.0 - 1.0j]), rtol=1e-12),
        Case(special.fresnel, cplx(3).astype("c8"), rtol=1e-5),
    ],
    "scipy.special.wofz": [
        Case(special.wofz, cplx(5), rtol=1e-12),
        Case(special.wofz, real(5), rtol=1e-12),
        Case(special.wofz, cplx(3).astype("c8"), rtol=1e-5),
    ],
    "scipy.stats.mode": [
        Case(lambda x, a=axis, k=k: tuple(stats.mode(x, axis=a, keepdims=k)), x, grad=False)
        for axis in (0, -1, None)
        for k in (False, True)
        for x in (RNG.integers(0, 4, (5, 7)), RNG.integers(0, 3, (4, 6)).astype(float), HOLES)
    ],
}
