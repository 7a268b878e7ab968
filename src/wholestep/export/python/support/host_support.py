"""Functions that run on the host: loops and branches of Python, and of NumPy arrays matrix functions and orders."""

import numpy as np
import scipy.linalg


def loop_while(test, body, for_test, for_body, carry):
    """A loop while a predicate of its carry holds."""
    while test(*for_test, *carry)[0]:
        carry = body(*for_body, *carry)
    return carry


def choose_branch(branches, index):
    """The function that an index names, clipped to those that there are."""
    return branches[min(max(int(index), 0), len(branches) - 1)]


def comparable(x):
    """The same order in a dtype that puts NaN last."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


def around_places(x, axis, kth):
    """Elements around the places that they would have in order, as NumPy permutes them, and where each came from."""
    values = np.partition(comparable(x), kth, axis).astype(x.dtype)
    order, places = np.empty(x.shape, np.int64), np.argsort(comparable(values), axis=axis, kind="stable")
    np.put_along_axis(order, places, np.argsort(comparable(x), axis=axis, kind="stable"), axis)
    return values, order


def each_matrix(f, *stacks, **options):
    """A function of matrices along the leading axes of stacks."""
    out = np.empty(stacks[-1].shape, stacks[-1].dtype)
    for at in np.ndindex(*out.shape[:-2]) if out.size else ():
        out[at] = f(*[x[at] for x in stacks], **options)
    return out


def real_root(x):
    """The square root of a matrix, which must be real where the matrix is."""
    root = scipy.linalg.sqrtm(x)
    if x.dtype.kind != "c" and root.dtype.kind == "c":
        if np.abs(root.imag).max() > 100 * np.finfo(x.dtype).eps * np.abs(root).max():
            raise ValueError("sqrtm: the root of a real matrix is complex")
        root = root.real
    return root


def matrix_roots(x):
    """The square roots of matrices."""
    return each_matrix(real_root, x)


def sylvester_solutions(a, b, q):
    """x with a x + x b = q for each matrix."""
    return each_matrix(scipy.linalg.solve_sylvester, a, b, q)


def schur_forms(x):
    """A triangle and a unitary factor of each matrix; the largest component of a complex column is positive."""
    t, z = np.empty_like(x), np.empty_like(x)
    for at in np.ndindex(*x.shape[:-2]) if x.size else ():
        t[at], z[at] = scipy.linalg.schur(x[at], "complex" if x.dtype.kind == "c" else "real")
    if x.dtype.kind == "c" and x.size:
        top = np.take_along_axis(z, np.argmax(np.abs(z), axis=-2)[..., None, :], -2)
        phase = np.conj(top) / np.abs(top)
        t, z = np.swapaxes(np.conj(phase), -1, -2) * t * phase, z * phase
    return t, z


def packed_lu(x):
    """Elimination with pivots: both triangles in one matrix, the exchanges counted from 0, and the order of rows."""
    packed = np.array(x)
    lead, (m, n) = x.shape[:-2], x.shape[-2:]
    pivots = np.zeros((*lead, min(m, n)), np.int32)
    order = np.broadcast_to(np.arange(m), (*lead, m)).copy()
    (getrf,) = scipy.linalg.get_lapack_funcs(("getrf",), (x,))
    for at in np.ndindex(*lead) if packed.size else ():
        packed[at], pivots[at], _ = getrf(x[at])
        for i, j in enumerate(pivots[at]):
            order[at][[i, j]] = order[at][[j, i]]
    return packed, pivots, order
