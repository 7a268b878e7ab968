"""Products of matrices, convolutions, linear algebra and Fourier transforms of PyTorch."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wholestep import dtypes, nn, numpy as wnp
from wholestep.errors import UnsupportedError
from wholestep.frontend.marks import stop_gradient
from wholestep.interop.handlers import Handlers
from wholestep.interop.torch.promotion import cast
from wholestep.interop.torch.reductions import vector_norm
from wholestep.numpy.working_precision import working_array
from wholestep.scipy import linalg as scipy_linalg

CONTRACTIONS = Handlers()
entry = CONTRACTIONS.entry
CONVOLUTIONS = {1: nn.conv1d, 2: nn.conv2d, 3: nn.conv3d}
TRANSPOSED = {1: nn.conv_transpose1d, 2: nn.conv_transpose2d, 3: nn.conv_transpose3d}

CONTRACTIONS.update(
    {
        "mm": wnp.matmul,
        "bmm": wnp.matmul,
        "mv": wnp.matmul,
        "dot": wnp.matmul,
        "vdot": wnp.vdot,
        "matmul": wnp.matmul,
        "linalg_det": wnp.linalg.det,
        "outer": np.multiply.outer,
        "linalg_cross": lambda x, y, *, dim=-1: wnp.cross(x, y, axis=dim),
    }
)


@entry("einsum")
def einsum(spec: str, xs: Sequence[Any], *, path: Any = None) -> Any:
    """NumPy's einsum; axes under dots that the result does not have are summed."""
    given, arrow, kept = spec.partition("->")
    if not arrow or "..." not in given or "..." in kept:
        return wnp.einsum(spec, *xs)
    made = wnp.einsum(f"{given}->...{kept}", *xs)
    return wnp.sum(made, axis=tuple(range(made.ndim - len(kept.replace(" ", "")))))


@entry("_trilinear")
def trilinear(
    x: Any, y: Any, z: Any, of_x: Sequence[int], of_y: Sequence[int], of_z: Sequence[int], summed: Sequence[int],
    unrolled: int = 1,
) -> Any:  # fmt: skip
    """A product of three arrays, each without some of the axes, added up along others."""
    axes = range(x.ndim + len(of_x))
    spec = ",".join("".join("abcdefgh"[i] for i in axes if i not in lacking) for lacking in (of_x, of_y, of_z))
    return wnp.einsum(f"{spec}->{''.join('abcdefgh'[i] for i in axes if i not in summed)}", x, y, z)


@entry("linear")
def linear(x: Any, weight: Any, bias: Any = None) -> Any:
    turned = wnp.swapaxes(weight, 0, 1) if weight.ndim == 2 else weight
    return x @ turned if bias is None else rounded_once(wnp.matmul, bias, x, turned)


@entry("addmm", "addmv", "baddbmm")
def addmm(c: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return rounded_once(wnp.matmul, c, x, y, beta, alpha)


@entry("addbmm")
def addbmm(c: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    return rounded_once(functools.partial(wnp.einsum, "bij,bjk->ik"), c, x, y, beta, alpha)


def rounded_once(product: Callable[..., Any], c: Any, x: Any, y: Any, beta: Any = 1, alpha: Any = 1) -> Any:
    """alpha * product(x, y) + beta * c, which half precisions hold after the sum, and not after the product too."""
    made = scaled(product(working_array(x), working_array(y)), alpha) + scaled(working_array(c), beta)
    return made.astype(x.dtype, copy=False)


@entry("_grouped_mm", "grouped_mm_fallback")
def grouped_mm(x: Any, weight: Any, ends: Any = None, bias: Any = None, dtype: Any = None) -> Any:
    """Rows in groups that end at `ends`, each times the matrix of its group; rows behind the last group give 0."""
    if ends is None or bias is not None or x.ndim != 2 or weight.ndim != 3:
        raise UnsupportedError("_grouped_mm: from PyTorch only groups of the rows of one matrix are covered")
    groups = wnp.searchsorted(ends, np.arange(x.shape[0]), side="right")[:, None]
    return sum([wnp.where(groups == i, x @ weight[i], cast(0, x.dtype)) for i in range(weight.shape[0])])


def scaled(x: Any, factor: Any) -> Any:
    """x times a number, which is mostly 1."""
    return x if factor == 1 else x * cast(factor, x.dtype)


@entry("convolution")
def convolution(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    n = weight.ndim - 2
    options: dict[str, Any] = {
        "stride": filled(stride, n),
        "padding": filled(padding, n),
        "dilation": filled(dilation, n),
        "groups": groups,
    }
    if transposed:
        return TRANSPOSED[n](x, weight, bias, output_padding=filled(output_padding, n), **options)
    return CONVOLUTIONS[n](x, weight, bias, **options)


def filled(given: Any, n: int) -> tuple[int, ...]:
    """One number for each of n axes, of which PyTorch may give one for all."""
    items = tuple(given) if isinstance(given, Sequence) else (given,)
    return items * n if len(items) == 1 else items


def hermitian(x: Any, upper: bool = False) -> Any:
    """The Hermitian matrix of which x has one triangle; the slopes of both go to both, as in PyTorch."""
    half = wnp.triu(x, 1) if upper else wnp.tril(x, -1)
    value = half + wnp.conj(wnp.swapaxes(half, -1, -2)) + wnp.triu(wnp.tril(x))
    mean = (x + wnp.conj(wnp.swapaxes(x, -1, -2))) / 2
    return stop_gradient(value) + (mean - stop_gradient(mean))


@entry("linalg_cholesky_ex")
def cholesky_ex(x: Any, *, upper: bool = False, check_errors: bool = False) -> tuple[Any, Any]:
    lower = wnp.linalg.cholesky(hermitian(x, upper))
    return wnp.conj(wnp.swapaxes(lower, -1, -2)) if upper else lower, no_faults(x)


@entry("cholesky")
def cholesky(x: Any, upper: bool = False) -> Any:
    return cholesky_ex(x, upper=upper)[0]


def no_faults(x: Any) -> Any:
    """LAPACK's answers for matrices all of which are regular."""
    return wnp.zeros(x.shape[:-2], np.int32)


@entry("linalg_inv_ex")
def inv_ex(x: Any, *, check_errors: bool = False) -> tuple[Any, Any]:
    return wnp.linalg.inv(x), no_faults(x)


@entry("inverse")
def inverse(x: Any) -> Any:
    return wnp.linalg.inv(x)


@entry("_linalg_det")
def determinant(x: Any) -> tuple[Any, ...]:
    return wnp.linalg.det(x), None, None


@entry("_linalg_slogdet")
def slogdet(x: Any) -> tuple[Any, ...]:
    return (*wnp.linalg.slogdet(x), None, None)


@entry("_linalg_solve_ex")
def solve_ex(x: Any, y: Any, *, left: bool = True, check_errors: bool = False) -> tuple[Any, ...]:
    if not left:
        return (
            wnp.swapaxes(wnp.linalg.solve(wnp.swapaxes(x, -1, -2), wnp.swapaxes(y, -1, -2)), -1, -2),
            None,
            None,
            no_faults(x),
        )
    column = y.ndim == 1 or (x.ndim - 1 == y.ndim and x.shape[:-1] == y.shape)
    made = wnp.linalg.solve(x, y[..., None] if column else y)
    return made[..., 0] if column else made, None, None, no_faults(x)


@entry("linalg_solve_triangular")
def solve_triangular(x: Any, y: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    solve = functools.partial(scipy_linalg.solve_triangular, unit_diagonal=unitriangular)
    if left:
        return solve(x, y, lower=not upper)
    return wnp.swapaxes(solve(wnp.swapaxes(x, -1, -2), wnp.swapaxes(y, -1, -2), lower=upper), -1, -2)


@entry("cholesky_solve")
def cholesky_solve(y: Any, factor: Any, upper: bool = False) -> Any:
    other = wnp.conj(wnp.swapaxes(factor, -1, -2))
    lower, higher = (other, factor) if upper else (factor, other)
    return solve_triangular(higher, solve_triangular(lower, y, upper=False), upper=True)


@entry("cholesky_inverse")
def cholesky_inverse(factor: Any, upper: bool = False) -> Any:
    return cholesky_solve(np.eye(factor.shape[-1], dtype=factor.dtype), factor, upper)


@entry("triangular_solve")
def old_triangular_solve(
    y: Any, x: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Any, Any]:
    a = wnp.swapaxes(x, -1, -2) if transpose else x
    return solve_triangular(a, y, upper=upper != transpose, unitriangular=unitriangular), x


@entry("linalg_lu_factor_ex")
def lu_factor(x: Any, *, pivot: bool = True, check_errors: bool = False) -> tuple[Any, Any, Any]:
    refuse_unpivoted(pivot)
    factors, places = scipy_linalg.lu_factor(x)
    return factors, (places + 1).astype(np.int32), no_faults(x)


@entry("linalg_lu")
def lu(x: Any, *, pivot: bool = True) -> tuple[Any, Any, Any]:
    refuse_unpivoted(pivot)
    return tuple(scipy_linalg.lu(x))


@entry("linalg_lu_solve")
def lu_solve(factors: Any, pivots: Any, y: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    if not left:
        turned = lu_solve(factors, pivots, wnp.conj(wnp.swapaxes(y, -1, -2)), adjoint=not adjoint)
        return wnp.conj(wnp.swapaxes(turned, -1, -2))
    return scipy_linalg.lu_solve((factors, pivots - 1), y, trans=2 if adjoint else 0)


def refuse_unpivoted(pivot: bool) -> None:
    """Raise UnsupportedError for an elimination without exchanges of rows."""
    if not pivot:
        raise UnsupportedError(
            "from_torch_export: an LU factorization without pivots is not covered", hint="pivot=True"
        )


@entry("linalg_lstsq")
def least_squares(x: Any, y: Any, rcond: Any = None, *, driver: Any = None) -> tuple[Any, Any, None, None]:
    found = pinv(x, rtol=rcond) @ y
    squares = wnp.abs(x @ found - y) ** 2
    told = driver not in (None, "gelsy") and x.shape[-2] > x.shape[-1]
    return found, wnp.sum(squares, axis=-2) if told else squares[..., :0, 0], None, None


@entry("linalg_eig")
def eig(x: Any) -> tuple[Any, Any]:
    values, vectors = wnp.linalg.eig(x)
    kind = dtypes.complex_of(x.dtype)
    return values.astype(kind), vectors.astype(kind)


@entry("_linalg_eigvals")
def eigvals(x: Any) -> Any:
    return wnp.linalg.eigvals(x).astype(dtypes.complex_of(x.dtype))


@entry("linalg_pinv")
def pinv(x: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    if atol is not None or rtol is not None:
        raise UnsupportedError("linalg_pinv: a tolerance that is given is not covered")
    least = max(x.shape[-2:]) * float(np.finfo(x.dtype).eps)
    return wnp.linalg.pinv(x, rcond=least, hermitian=hermitian)


@entry("linalg_qr")
def qr(x: Any, mode: str = "reduced") -> tuple[Any, Any]:
    if mode == "r":
        return wnp.zeros((0,), x.dtype), wnp.linalg.qr(x, mode="r")
    q, r = wnp.linalg.qr(x, mode=mode)
    return q, r


@entry("linalg_householder_product")
def householder_product(v: Any, factors: Any) -> Any:
    rows = np.arange(v.shape[-2])
    made = wnp.broadcast_to(np.eye(*v.shape[-2:], dtype=v.dtype), v.shape)
    for i in reversed(range(factors.shape[-1])):  # the last reflection comes first
        w = wnp.where(rows > i, v[..., i], (rows == i).astype(v.dtype))[..., None]
        made = made - factors[..., i, None, None] * (w @ (wnp.conj(wnp.swapaxes(w, -1, -2)) @ made))
    return made


@entry("_linalg_svd")
def svd(x: Any, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None) -> tuple[Any, ...]:
    if not compute_uv:
        return None, wnp.linalg.svd(x, compute_uv=False), None
    return tuple(wnp.linalg.svd(x, full_matrices=full_matrices))


@entry("_linalg_eigh")
def eigh(x: Any, uplo: str = "L", compute_v: bool = True) -> tuple[Any, ...]:
    whole = hermitian(x, uplo == "U")
    return tuple(wnp.linalg.eigh(whole)) if compute_v else (wnp.linalg.eigvalsh(whole), None)


@entry("linalg_matrix_exp")
def matrix_exp(x: Any) -> Any:
    return scipy_linalg.expm(x)


@entry("_cdist_forward")
def cdist(x: Any, y: Any, order: float, mode: int | None = None) -> Any:
    return vector_norm(x[..., :, None, :] - y[..., None, :, :], order, [-1])


@entry("_pdist_forward")
def pdist(x: Any, order: float = 2) -> Any:
    rows, columns = np.triu_indices(x.shape[0], 1)
    return vector_norm(x[rows] - x[columns], order, [-1])


@entry("kron")
def kron(x: Any, y: Any) -> Any:
    return wnp.kron(x, y)


def transformed(f: Callable[..., Any], x: Any, axes: Sequence[int], norm: int, forward: bool, sizes: Any = None) -> Any:
    """A Fourier transform of NumPy with PyTorch's number for its divisor: 1, or n or its square root."""
    name = ("backward", "ortho", "forward")[norm] if forward else ("forward", "ortho", "backward")[norm]
    made = f(x, sizes, tuple(axes), norm=name)
    single = x.dtype in (np.float32, np.complex64)
    real = dtypes.is_float(made.dtype)
    return made.astype((np.float32 if real else np.complex64) if single else made.dtype)


@entry("_fft_c2c")
def fft_c2c(x: Any, axes: Sequence[int], norm: int, forward: bool) -> Any:
    return transformed(wnp.fft.fftn if forward else wnp.fft.ifftn, x, axes, norm, forward) if axes else x


@entry("_fft_r2c")
def fft_r2c(x: Any, axes: Sequence[int], norm: int, onesided: bool) -> Any:
    return transformed(wnp.fft.rfftn if onesided else wnp.fft.fftn, x, axes, norm, True)


@entry("_fft_c2r")
def fft_c2r(x: Any, axes: Sequence[int], norm: int, last: int) -> Any:
    sizes = (*[x.shape[i] for i in axes[:-1]], last)
    return transformed(wnp.fft.irfftn, x, axes, norm, False, sizes)
