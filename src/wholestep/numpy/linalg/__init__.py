"""numpy.linalg, which also takes lists of traced arrays."""

# ruff: noqa: I001
# fmt: off
import numpy as np
from numpy.linalg import LinAlgError as LinAlgError

from wholestep.numpy.linalg.factors import (
    cholesky as cholesky, det as det, eig as eig, eigh as eigh, eigvals as eigvals, eigvalsh as eigvalsh, inv as inv,
    lstsq as lstsq, matrix_rank as matrix_rank, pinv as pinv, qr as qr, slogdet as slogdet, solve as solve, svd as svd,
    svdvals as svdvals,
)
from wholestep.numpy.linalg.norms import (
    cond as cond, matrix_norm as matrix_norm, norm as norm, vector_norm as vector_norm,
)
from wholestep.numpy.linalg.products import (
    cross as cross, diagonal as diagonal, matmul as matmul, matrix_power as matrix_power,
    matrix_transpose as matrix_transpose, multi_dot as multi_dot, outer as outer, tensordot as tensordot,
    tensorinv as tensorinv, tensorsolve as tensorsolve, trace as trace, vecdot as vecdot,
)
# fmt: on

globals().update(__all__=[name for name in np.linalg.__all__ if name in globals()])
