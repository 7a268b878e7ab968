"""NumPy as a namespace that also takes traced arrays where NumPy itself cannot dispatch: `np.array([x, y])`.

Every function gives what NumPy's own gives for plain arguments. Names that are not listed here are NumPy's.
"""

# ruff: noqa: I001
# fmt: off
from __future__ import annotations

from typing import Any

import numpy

from wholestep.numpy import fft, linalg, polynomial, ufunc_methods
from wholestep.numpy.application import apply_along_axis, apply_over_axes, vectorize
from wholestep.numpy.axes import (
    atleast_1d, atleast_2d, atleast_3d, fliplr, flipud, matrix_transpose, roll, rollaxis, rot90,
)
from wholestep.numpy.calculus import (
    convolve, correlate, cumulative_prod, cumulative_sum, diff, ediff1d, gradient, interp, trapezoid, unwrap,
)
from wholestep.numpy.contractions import dot, inner, kron, outer, tensordot, vdot
from wholestep.numpy.creation import (
    arange, array, asanyarray, asarray, asarray_chkfinite, ascontiguousarray, asfortranarray, empty, empty_like,
    eye, fromfunction, full, full_like, geomspace, identity, linspace, logspace, ones, ones_like, require, tri,
    zeros, zeros_like,
)
from wholestep.numpy.diagonals import (
    diag, diag_indices_from, diagflat, diagonal, fill_diagonal, trace, tril, tril_indices_from, triu,
    triu_indices_from,
)
from wholestep.numpy.einsum import einsum, einsum_path
from wholestep.numpy.elementwise import (
    allclose, angle, around, array_equal, array_equiv, astype, fix, i0, imag, isclose, iscomplex, isneginf,
    isposinf, isreal, nan_to_num, real, real_if_close, round, sinc,
)
from wholestep.numpy.histograms import histogram
from wholestep.numpy.grids import c_, meshgrid, r_
from wholestep.numpy.indexing import (
    argwhere, choose, compress, copyto, count_nonzero, extract, flatnonzero, ix_, nonzero, place, put,
    put_along_axis, putmask, ravel_multi_index, take, take_along_axis, unravel_index,
)
from wholestep.numpy.joining import (
    append, block, column_stack, delete, dstack, hstack, insert, repeat, resize, tile, vstack,
)
from wholestep.numpy.movement import (
    broadcast_arrays, broadcast_to, concatenate, expand_dims, flip, moveaxis, ravel, reshape, squeeze, stack,
    swapaxes, transpose,
)
from wholestep.numpy.nans import (
    nanargmax, nanargmin, nancumprod, nancumsum, nanmax, nanmean, nanmin, nanprod, nanstd, nansum, nanvar,
)
from wholestep.numpy.padding import pad
from wholestep.numpy.polynomials import (
    poly, polyadd, polyder, polydiv, polyfit, polyint, polymul, polysub, polyval, roots, vander,
)
from wholestep.numpy.products import cross
from wholestep.numpy.quantiles import median, nanmedian, nanpercentile, nanquantile, percentile, quantile
from wholestep.numpy.queries import (
    array2string, array_repr, array_str, can_cast, common_type, iscomplexobj, isrealobj, may_share_memory,
    min_scalar_type, ndim, result_type, shape, shares_memory, size,
)
from wholestep.numpy.reductions import (
    all_ as all, any_ as any, argmax, argmin, cumprod, cumsum, max, mean, min, prod, std, sum, var,
)
from wholestep.numpy.selection import clip, copy, piecewise, select, where
from wholestep.numpy.sets import (
    intersect1d, isin, setdiff1d, setxor1d, trim_zeros, union1d, unique, unique_all, unique_counts, unique_inverse,
    unique_values,
)
from wholestep.numpy.sorting import (
    argpartition, argsort, digitize, lexsort, partition, searchsorted, sort, sort_complex,
)
from wholestep.numpy.splitting import array_split, dsplit, hsplit, split, unstack, vsplit
from wholestep.numpy.statistics import amax, amin, average, bincount, corrcoef, cov, ptp
from wholestep.numpy.fallback import from_numpy, isscalar
from wholestep.numpy.types import (
    bool_, complex128, complex64, float16, float32, float64, int16, int32, int64, int8, ndarray, uint16, uint32,
    uint64, uint8,
)

__all__ = [
    "all",
    "allclose",
    "amax",
    "amin",
    "angle",
    "any",
    "append",
    "apply_along_axis",
    "apply_over_axes",
    "arange",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "argwhere",
    "around",
    "array",
    "array2string",
    "array_equal",
    "array_equiv",
    "array_repr",
    "array_split",
    "array_str",
    "asanyarray",
    "asarray",
    "asarray_chkfinite",
    "ascontiguousarray",
    "asfortranarray",
    "astype",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "average",
    "bincount",
    "block",
    "bool_",
    "broadcast_arrays",
    "broadcast_to",
    "c_",
    "can_cast",
    "choose",
    "clip",
    "column_stack",
    "common_type",
    "complex64",
    "complex128",
    "compress",
    "concatenate",
    "convolve",
    "copy",
    "copyto",
    "corrcoef",
    "correlate",
    "count_nonzero",
    "cov",
    "cross",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "delete",
    "diag",
    "diag_indices_from",
    "diagflat",
    "diagonal",
    "diff",
    "digitize",
    "dot",
    "dsplit",
    "dstack",
    "ediff1d",
    "einsum",
    "einsum_path",
    "empty",
    "empty_like",
    "expand_dims",
    "extract",
    "eye",
    "fft",
    "fill_diagonal",
    "fix",
    "flatnonzero",
    "flip",
    "fliplr",
    "flipud",
    "float16",
    "float32",
    "float64",
    "fromfunction",
    "full",
    "full_like",
    "geomspace",
    "gradient",
    "histogram",
    "hsplit",
    "hstack",
    "i0",
    "identity",
    "imag",
    "inner",
    "insert",
    "int8",
    "int16",
    "int32",
    "int64",
    "interp",
    "intersect1d",
    "isclose",
    "iscomplex",
    "iscomplexobj",
    "isin",
    "isneginf",
    "isposinf",
    "isreal",
    "isrealobj",
    "isscalar",
    "ix_",
    "kron",
    "lexsort",
    "linalg",
    "linspace",
    "logspace",
    "matrix_transpose",
    "max",
    "may_share_memory",
    "mean",
    "median",
    "meshgrid",
    "min",
    "min_scalar_type",
    "moveaxis",
    "nan_to_num",
    "nanargmax",
    "nanargmin",
    "nancumprod",
    "nancumsum",
    "nanmax",
    "nanmean",
    "nanmedian",
    "nanmin",
    "nanpercentile",
    "nanprod",
    "nanquantile",
    "nanstd",
    "nansum",
    "nanvar",
    "ndarray",
    "ndim",
    "nonzero",
    "ones",
    "ones_like",
    "outer",
    "pad",
    "partition",
    "percentile",
    "piecewise",
    "place",
    "poly",
    "polyadd",
    "polyder",
    "polydiv",
    "polyfit",
    "polyint",
    "polymul",
    "polynomial",
    "polysub",
    "polyval",
    "prod",
    "ptp",
    "put",
    "put_along_axis",
    "putmask",
    "quantile",
    "r_",
    "ravel",
    "ravel_multi_index",
    "real",
    "real_if_close",
    "repeat",
    "require",
    "reshape",
    "resize",
    "result_type",
    "roll",
    "rollaxis",
    "roots",
    "rot90",
    "round",
    "searchsorted",
    "select",
    "setdiff1d",
    "setxor1d",
    "shape",
    "shares_memory",
    "sinc",
    "size",
    "sort",
    "sort_complex",
    "split",
    "squeeze",
    "stack",
    "std",
    "sum",
    "swapaxes",
    "take",
    "take_along_axis",
    "tensordot",
    "tile",
    "trace",
    "transpose",
    "trapezoid",
    "tri",
    "tril",
    "tril_indices_from",
    "trim_zeros",
    "triu",
    "triu_indices_from",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "union1d",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unravel_index",
    "unstack",
    "unwrap",
    "vander",
    "var",
    "vdot",
    "vectorize",
    "vsplit",
    "vstack",
    "where",
    "zeros",
    "zeros_like",
]
# fmt: on

PARTS = (ufunc_methods,)
"""Modules that register themselves in the tables of the frontend and have no name of their own here."""


def __getattr__(name: str) -> Any:
    found = from_numpy(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *dir(numpy)})
