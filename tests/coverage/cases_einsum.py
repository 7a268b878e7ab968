"""Products of arrays for the coverage tests: einsum in its many forms, matmul and its kin in every rank."""

import numpy as np
from tests.coverage.cases import Case

rng = np.random.default_rng(13)


def real(*shape, dtype="f8"):
    return np.asarray(rng.normal(size=shape)).astype(dtype)


def cplx(*shape, dtype="c16"):
    return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


SPECS = {
    "ij,jk": ((2, 3), (3, 4)),
    "ii": ((3, 3),),
    "ii->i": ((3, 3),),
    "iji->j": ((3, 2, 3),),
    "iii->i": ((2, 2, 2),),
    "ijij->ji": ((2, 3, 2, 3),),
    "...ij,...jk->...ik": ((5, 2, 3), (3, 4)),
    "...ij , ...jk": ((1, 2, 3), (4, 3, 2)),
    "...,...": ((2, 1), (3,)),
    "i...->...": ((2, 3),),
    "i...i->...": ((3, 2, 3),),
    "i,i": ((1,), (3,)),
    "i,i->i": ((3,), (1,)),
    "ij->": ((2, 3),),
    "ba": ((2, 3),),
    "i,j->ji": ((2,), (3,)),
    "ij,k->": ((2, 3), (4,)),
    ",ij->ij": ((), (2, 3)),
    "aab,b->a": ((2, 2, 3), (3,)),
    "ab,bc,cd": ((2, 3), (3, 4), (4, 2)),
    "ab,bc,cd,de->ae": ((2, 3), (3, 4), (4, 2), (2, 2)),
    "ij,ij,ij->i": ((2, 3), (2, 3), (2, 3)),
    "bhid,bhjd->bhij": ((2, 2, 3, 4), (2, 2, 3, 4)),
    "ii->": ((0, 0),),
    "ij,jk->ik": ((2, 0), (0, 3)),
}


def einsums():
    cases = []
    for spec, shapes in SPECS.items():

        def f(*xs, spec=spec):
            return np.einsum(spec, *xs)

        cases += [Case(f, *[real(*s) for s in shapes]), Case(f, *[cplx(*s) for s in shapes])]
        cases += [Case(f, *[real(*s, dtype="f4") for s in shapes])]
        cases += [Case(f, *[(3 * real(*s)).astype("i4") for s in shapes])]
    x, y = real(2, 3), real(3, 4)
    cases += [
        Case(lambda a, b: np.einsum("ij,jk", a, b), x > 0, y > 0),
        Case(lambda a, b: np.einsum("ij,jk", a, b), x.astype("f4"), y),
        Case(lambda a, b: np.einsum("ij,jk", a, b), x, (3 * y).astype("i4")),
        Case(lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [2, 0]), x, y),
        Case(lambda a, b: np.einsum(a, [0, 1], b, [1, 2]), x, y),
        Case(lambda a, b: np.einsum(a, [..., 1], b, [1, 2]), x, y),
        Case(lambda a: np.einsum(a, [0, 0]), real(3, 3)),
        Case(lambda a: np.einsum("i,", a, 2.0), real(3, dtype="f4")),
        Case(lambda a: np.einsum("i,i", a, a, dtype=np.float64), real(3, dtype="f4")),
    ]
    for optimize in (True, False, "greedy", "optimal", ["einsum_path", (1, 2), (0, 1)]):
        f = lambda a, b, c, o=optimize: np.einsum("ab,bc,cd->da", a, b, c, optimize=o)  # noqa: E731
        cases.append(Case(f, real(2, 3), real(3, 4), real(4, 2)))
    return cases


SHAPES = ((), (3,), (3, 3), (2, 3, 3), (4, 1, 3, 3))
DTYPES = ("f8", "c16", "f4", "i4", "?")


def products(f, kinds=DTYPES, ranks=SHAPES):
    """Products of every pair of ranks that NumPy takes; with every dtype for ranks below 3."""
    cases = []
    for left in ranks:
        for right in ranks:
            try:
                f(np.ones(left), np.ones(right))
            except (ValueError, IndexError):
                continue
            few = kinds if len(left) < 3 and len(right) < 3 else kinds[:2]
            for kind in few:
                of = cplx if kind == "c16" else real
                x, y = of(*left), of(*right)
                cases.append(Case(f, (3 * x).astype(kind), (3 * y).astype(kind)))
    return cases


def mixed(f):
    """Operands of two dtypes."""
    return [Case(f, real(3, 3), cplx(3, 3)), Case(f, real(3, 3, dtype="f4"), np.arange(9).reshape(3, 3))]


CASES = {
    "numpy.einsum": einsums(),
    "numpy.einsum_path": [Case(lambda x: np.einsum_path("ij,jk", x, x)[0] and x, real(2, 2))],
    "numpy.matmul": [*products(np.matmul), *mixed(np.matmul)],
    "numpy.dot": [*products(np.dot), *mixed(np.dot), Case(lambda x: np.dot(x, 2.0), real(3, dtype="f4"))],
    "numpy.inner": [*products(np.inner, ranks=SHAPES[:4]), *mixed(np.inner)],
    "numpy.outer": products(np.outer, ranks=SHAPES[:3]),
    "numpy.vdot": [*products(np.vdot, ranks=SHAPES[:4]), *mixed(np.vdot)],
    "numpy.vecdot": [
        *products(np.vecdot),
        Case(lambda x, y: np.vecdot(x, y, axis=0), cplx(3, 2), cplx(3, 2)),
    ],
    "numpy.matvec": [*products(np.matvec), Case(np.matvec, real(2, 3), real(3))],
    "numpy.vecmat": [*products(np.vecmat), Case(np.vecmat, cplx(2), cplx(2, 3))],
    "numpy.kron": [
        *products(np.kron, ranks=SHAPES[:4]),
        Case(np.kron, real(2, 3), real(2)),
        Case(np.kron, real(1, 2), 3),
    ],
    "numpy.tensordot": [
        *products(lambda x, y: np.tensordot(x, y, 1), ranks=SHAPES[:4]),
        *products(lambda x, y: np.tensordot(x, y, 0), ranks=SHAPES[:3]),
        Case(np.tensordot, real(2, 3, 4), real(3, 4, 2)),
        Case(lambda x, y: np.tensordot(x, y, ((0, -1), (1, 0))), cplx(2, 3, 4), cplx(4, 2)),
        Case(lambda x, y: np.tensordot(x, y, (1, 0)), real(2, 3), real(3)),
    ],
}
