"""Products, convolutions, linear algebra and Fourier transforms of lax."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import dtypes, nn, numpy as wnp
from wholestep.errors import UnsupportedError
from wholestep.frontend.dispatch import is_traced
from wholestep.interop.handlers import Handlers
from wholestep.interop.jax.structure import padded
from wholestep.scipy import linalg

CONTRACTIONS = Handlers()
entry = CONTRACTIONS.entry
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
CONVOLUTIONS = {1: nn.conv1d, 2: nn.conv2d, 3: nn.conv3d}


@entry("dot_general")
def dot_general(x: Any, y: Any, *, dimension_numbers: Any, preferred_element_type: Any = None, **params: Any) -> Any:
    (x_sum, y_sum), (x_batch, y_batch) = dimension_numbers
    names = iter(LETTERS)
    left = [next(names) for _ in range(x.ndim)]
    right = [next(names) for _ in range(y.ndim)]
    for i, j in [*zip(x_sum, y_sum, strict=True), *zip(x_batch, y_batch, strict=True)]:
        right[j] = left[i]
    out = [left[i] for i in x_batch]
    out += [name for i, name in enumerate(left) if i not in x_sum and i not in x_batch]
    out += [name for j, name in enumerate(right) if j not in y_sum and j not in y_batch]
    if preferred_element_type is not None:
        x, y = (a.astype(dtypes.check(preferred_element_type)) for a in (x, y))
    spec, wide = f"{''.join(left)},{''.join(right)}->{''.join(out)}", dtypes.compute_dtype(x.dtype)
    if wide != x.dtype and not is_traced((x, y)):  # NumPy has no sums of products of bfloat16
        return np.einsum(spec, x.astype(wide), y.astype(wide)).astype(x.dtype)
    return wnp.einsum(spec, x, y)


@entry("ragged_dot_general")
def ragged_dot_general(
    x: Any,
    y: Any,
    sizes: Any,
    *,
    ragged_dot_dimension_numbers: Any,
    preferred_element_type: Any = None,
    group_offset: Any = None,
    **params: Any,
) -> Any:
    """A product in which rows of x belong to groups, one after the other: each is a product of its own."""
    numbers = ragged_dot_dimension_numbers
    (x_sum, y_sum), (x_batch, y_batch) = numbers.dot_dimension_numbers
    (rows,) = numbers.lhs_ragged_dimensions
    if sizes.ndim != 1 or group_offset is not None:
        raise UnsupportedError("from_jax: of ragged_dot_general only the same groups for a whole batch are covered")
    if rows in x_batch:
        return dot_general(
            x, y, dimension_numbers=numbers.dot_dimension_numbers, preferred_element_type=preferred_element_type
        )
    x_later, x_batch_later = ([axis + 1 for axis in axes] for axes in (x_sum, x_batch))
    if rows in x_sum:
        y = in_groups(y, y_sum[x_sum.index(rows)], sizes)
        later = (x_later, [axis + 1 for axis in y_sum]), ([0, *x_batch_later], [0, *[axis + 1 for axis in y_batch]])
    else:
        later = ([*x_later, 0], [*y_sum, *numbers.rhs_group_dimensions]), (x_batch_later, y_batch)
    grouped = in_groups(x, rows, sizes)
    return dot_general(grouped, y, dimension_numbers=later, preferred_element_type=preferred_element_type)


def in_groups(x: Any, axis: int, sizes: Any) -> Any:
    """The array once for each group, along a new first axis, with 0 in the rows of other groups."""
    ends, rows = wnp.cumsum(sizes), np.arange(x.shape[axis])
    inside = (rows >= (ends - sizes)[:, None]) & (rows < ends[:, None])
    shape = [1] * (x.ndim + 1)
    shape[0], shape[axis + 1] = sizes.shape[0], x.shape[axis]
    return wnp.where(inside.reshape(shape), x, np.zeros((), x.dtype))


@entry("conv_general_dilated")
def conv_general_dilated(
    x: Any,
    w: Any,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    preferred_element_type: Any = None,
    **params: Any,
) -> Any:
    d, n = dimension_numbers, len(window_strides)
    if n not in CONVOLUTIONS:
        raise UnsupportedError(f"from_jax: a convolution over {n} axes is not covered", hint="1 to 3 axes are")
    if preferred_element_type is not None:
        x, w = (a.astype(dtypes.check(preferred_element_type)) for a in (x, w))
    images, kernel = wnp.transpose(x, tuple(d.lhs_spec)), wnp.transpose(w, tuple(d.rhs_spec))
    config = [(0, 0, 0)] * 2 + [(a, b, s - 1) for (a, b), s in zip(padding, lhs_dilation, strict=True)]
    images = padded(images, np.zeros((), images.dtype), config)
    convolve = functools.partial(
        CONVOLUTIONS[n], stride=tuple(window_strides), dilation=tuple(rhs_dilation), groups=feature_group_count
    )
    if batch_group_count == 1:
        made = convolve(images, kernel)
    else:
        parts = zip(wnp.split(images, batch_group_count), wnp.split(kernel, batch_group_count), strict=True)
        made = wnp.concatenate([convolve(a, b) for a, b in parts], axis=1)
    return wnp.transpose(made, tuple(int(i) for i in np.argsort(d.out_spec)))


@entry("fft")
def fft(x: Any, *, fft_type: Any, fft_lengths: Sequence[int], **params: Any) -> Any:
    name = str(getattr(fft_type, "name", fft_type)).lower().rpartition(".")[2]
    transform = {"fft": wnp.fft.fftn, "ifft": wnp.fft.ifftn, "rfft": wnp.fft.rfftn, "irfft": wnp.fft.irfftn}[name]
    made = transform(x, tuple(fft_lengths), tuple(range(x.ndim - len(fft_lengths), x.ndim)))
    real, single = name == "irfft", x.dtype in (np.float32, np.complex64)
    return made.astype((np.float32 if real else np.complex64) if single else made.dtype)


@entry("cholesky")
def cholesky(x: Any, *, symmetrize_input: bool = False, **params: Any) -> Any:
    if symmetrize_input:
        x = (x + wnp.conj(wnp.swapaxes(x, -1, -2))) / 2
    return wnp.linalg.cholesky(x)


@entry("triangular_solve")
def triangular_solve(
    a: Any,
    b: Any,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: Any = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
    **params: Any,
) -> Any:
    a = wnp.conj(a) if conjugate_a else a
    if transpose_a:
        a, lower = wnp.swapaxes(a, -1, -2), not lower
    if left_side:
        return linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit_diagonal)
    turned = linalg.solve_triangular(
        wnp.swapaxes(a, -1, -2), wnp.swapaxes(b, -1, -2), lower=not lower, unit_diagonal=unit_diagonal
    )
    return wnp.swapaxes(turned, -1, -2)


@entry("eigh")
def eigh(x: Any, *, lower: bool = True, **params: Any) -> list[Any]:
    values, vectors = wnp.linalg.eigh(x, UPLO="L" if lower else "U")
    return [vectors, values]


@entry("eig")
def eig(
    x: Any, *, compute_left_eigenvectors: bool = True, compute_right_eigenvectors: bool = True, **params: Any
) -> list[Any]:
    if compute_left_eigenvectors:
        raise UnsupportedError("from_jax: left eigenvectors are not covered", hint="they are those of x.T to the right")
    dtype = dtypes.complex_of(x.dtype)
    if not compute_right_eigenvectors:
        return [wnp.linalg.eigvals(x).astype(dtype)]
    return [a.astype(dtype) for a in wnp.linalg.eig(x)]


@entry("schur")
def schur(
    x: Any, *, compute_schur_vectors: bool = True, sort_eig_vals: bool = False, select_callable: Any = None, **p: Any
) -> list[Any]:
    if sort_eig_vals or select_callable is not None:
        raise UnsupportedError("from_jax: schur with sorted eigenvalues is not covered")
    form, vectors = linalg.schur(x)
    return [form, vectors] if compute_schur_vectors else [form]


@entry("svd")
def svd(x: Any, *, full_matrices: bool = True, compute_uv: bool = True, **params: Any) -> list[Any]:
    if not compute_uv:
        return [wnp.linalg.svd(x, compute_uv=False)]
    u, s, v = wnp.linalg.svd(x, full_matrices=full_matrices)
    return [s, u, v]


@entry("qr")
def qr(x: Any, *, pivoting: bool = False, full_matrices: bool = True, **params: Any) -> list[Any]:
    if pivoting:
        raise UnsupportedError("from_jax: qr with pivoting is not covered")
    return list(wnp.linalg.qr(x, mode="complete" if full_matrices else "reduced"))


@entry("lu")
def lu(x: Any, **params: Any) -> list[Any]:
    factors, pivots = linalg.lu_factor(x)
    exchanges = pivots.astype(np.int32)
    return [factors, exchanges, lu_pivots_to_permutation(exchanges, permutation_size=x.shape[-2])]


@entry("lu_pivots_to_permutation")
def lu_pivots_to_permutation(pivots: Any, *, permutation_size: int, **params: Any) -> Any:
    rows = np.arange(permutation_size, dtype=np.int32)
    order = wnp.broadcast_to(rows, (*pivots.shape[:-1], permutation_size))
    for i in range(pivots.shape[-1]):
        j = pivots[..., i : i + 1]
        there = wnp.take_along_axis(order, j.astype(np.int64), axis=-1)
        order = wnp.where(rows == i, there, wnp.where(rows == j, order[..., i : i + 1], order))
    return order
