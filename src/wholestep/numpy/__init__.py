"""NumPy as a namespace that also takes traced arrays where NumPy itself cannot dispatch: `np.array([x, y])`.

Every function returns NumPy's own result for plain arguments. Names that are not listed here are NumPy's.
"""

# ruff: noqa: I001
# fmt: off
from __future__ import annotations

from typing import Any

import numpy

from wholestep.numpy import fallback, ordinary, ufunc_methods
from wholestep.numpy import fft as fft, linalg as linalg, polynomial as polynomial
from wholestep.numpy.application import (
    apply_along_axis as apply_along_axis, apply_over_axes as apply_over_axes, broadcast as broadcast,
    ndenumerate as ndenumerate, nditer as nditer, vectorize as vectorize,
)
from wholestep.numpy.axes import (
    atleast_1d as atleast_1d, atleast_2d as atleast_2d, atleast_3d as atleast_3d, fliplr as fliplr, flipud as flipud,
    matrix_transpose as matrix_transpose, roll as roll, rollaxis as rollaxis, rot90 as rot90,
)
from wholestep.numpy.bits import packbits as packbits, unpackbits as unpackbits
from wholestep.numpy.calculus import (
    convolve as convolve, correlate as correlate, cumulative_prod as cumulative_prod, cumulative_sum as cumulative_sum,
    diff as diff, ediff1d as ediff1d, gradient as gradient, interp as interp, trapezoid as trapezoid, unwrap as unwrap,
)
from wholestep.numpy.contractions import (
    dot as dot, inner as inner, kron as kron, outer as outer, tensordot as tensordot, vdot as vdot,
)
from wholestep.numpy.creation import (
    arange as arange, array as array, asanyarray as asanyarray, asarray as asarray,
    asarray_chkfinite as asarray_chkfinite, ascontiguousarray as ascontiguousarray, asfortranarray as asfortranarray,
    empty as empty, empty_like as empty_like, eye as eye, fromfunction as fromfunction, fromiter as fromiter,
    full as full, full_like as full_like, geomspace as geomspace, identity as identity, linspace as linspace,
    logspace as logspace, ones as ones, ones_like as ones_like, require as require, tri as tri, zeros as zeros,
    zeros_like as zeros_like,
)
from wholestep.numpy.diagonals import (
    diag as diag, diag_indices_from as diag_indices_from, diagflat as diagflat, diagonal as diagonal,
    fill_diagonal as fill_diagonal, trace as trace, tril as tril, tril_indices_from as tril_indices_from, triu as triu,
    triu_indices_from as triu_indices_from,
)
from wholestep.numpy.einsum import einsum as einsum, einsum_path as einsum_path
from wholestep.numpy.elementwise import (
    allclose as allclose, angle as angle, around as around, array_equal as array_equal, array_equiv as array_equiv,
    astype as astype, fix as fix, i0 as i0, imag as imag, isclose as isclose, iscomplex as iscomplex,
    isneginf as isneginf, isposinf as isposinf, isreal as isreal, nan_to_num as nan_to_num, real as real,
    real_if_close as real_if_close, round as round, sinc as sinc,
)
from wholestep.numpy.histograms import (
    histogram as histogram,
    histogram_bin_edges as histogram_bin_edges,
    histogram2d as histogram2d,
    histogramdd as histogramdd,
)
from wholestep.numpy.grids import c_ as c_, meshgrid as meshgrid, r_ as r_
from wholestep.numpy.indexing import (
    argwhere as argwhere, choose as choose, compress as compress, copyto as copyto, count_nonzero as count_nonzero,
    extract as extract, flatnonzero as flatnonzero, ix_ as ix_, nonzero as nonzero, place as place, put as put,
    put_along_axis as put_along_axis, putmask as putmask, ravel_multi_index as ravel_multi_index, take as take,
    take_along_axis as take_along_axis, unravel_index as unravel_index,
)
from wholestep.numpy.joining import (
    append as append, block as block, column_stack as column_stack, delete as delete, dstack as dstack,
    hstack as hstack, insert as insert, repeat as repeat, resize as resize, tile as tile, vstack as vstack,
)
from wholestep.numpy.movement import (
    broadcast_arrays as broadcast_arrays, broadcast_to as broadcast_to, concatenate as concatenate,
    expand_dims as expand_dims, flip as flip, moveaxis as moveaxis, ravel as ravel, reshape as reshape,
    squeeze as squeeze, stack as stack, swapaxes as swapaxes, transpose as transpose,
)
from wholestep.numpy.nans import (
    nanargmax as nanargmax, nanargmin as nanargmin, nancumprod as nancumprod, nancumsum as nancumsum, nanmax as nanmax,
    nanmean as nanmean, nanmin as nanmin, nanprod as nanprod, nanstd as nanstd, nansum as nansum, nanvar as nanvar,
)
from wholestep.numpy.padding import pad as pad
from wholestep.numpy.polynomials import (
    poly as poly, polyadd as polyadd, polyder as polyder, polydiv as polydiv, polyfit as polyfit, polyint as polyint,
    polymul as polymul, polysub as polysub, polyval as polyval, roots as roots, vander as vander,
)
from wholestep.numpy.products import cross as cross
from wholestep.numpy.quantiles import (
    median as median, nanmedian as nanmedian, nanpercentile as nanpercentile, nanquantile as nanquantile,
    percentile as percentile, quantile as quantile,
)
from wholestep.numpy.queries import (
    array2string as array2string, array_repr as array_repr, array_str as array_str, can_cast as can_cast,
    common_type as common_type, iscomplexobj as iscomplexobj, isrealobj as isrealobj,
    may_share_memory as may_share_memory, min_scalar_type as min_scalar_type, ndim as ndim, result_type as result_type,
    shape as shape, shares_memory as shares_memory, size as size,
)
from wholestep.numpy.reductions import (
    all as all, any as any, argmax as argmax, argmin as argmin, cumprod as cumprod, cumsum as cumsum, max as max,
    mean as mean, min as min, prod as prod, std as std, sum as sum, var as var,
)
from wholestep.numpy.selection import (
    clip as clip, copy as copy, piecewise as piecewise, select as select, where as where,
)
from wholestep.numpy.sets import (
    intersect1d as intersect1d, isin as isin, setdiff1d as setdiff1d, setxor1d as setxor1d, trim_zeros as trim_zeros,
    union1d as union1d, unique as unique, unique_all as unique_all, unique_counts as unique_counts,
    unique_inverse as unique_inverse, unique_values as unique_values,
)
from wholestep.numpy.sorting import (
    argpartition as argpartition, argsort as argsort, digitize as digitize, lexsort as lexsort, partition as partition,
    searchsorted as searchsorted, sort as sort, sort_complex as sort_complex,
)
from wholestep.numpy.splitting import (
    array_split as array_split, dsplit as dsplit, hsplit as hsplit, split as split, unstack as unstack,
    vsplit as vsplit,
)
from wholestep.numpy.statistics import (
    amax as amax, amin as amin, average as average, bincount as bincount, corrcoef as corrcoef, cov as cov, ptp as ptp,
)
from wholestep.numpy.fallback import isscalar as isscalar
from wholestep.numpy.types import (
    bool_ as bool_, complex128 as complex128, complex64 as complex64, float16 as float16, float32 as float32,
    float64 as float64, int16 as int16, int32 as int32, int64 as int64, int8 as int8, ndarray as ndarray,
    uint16 as uint16, uint32 as uint32, uint64 as uint64, uint8 as uint8,
)
# fmt: on

PARTS = (ordinary, ufunc_methods)
"""Modules that register themselves in the tables of the frontend and have no name of their own here."""

globals().update(__all__=[name for name in numpy.__all__ if name in globals()])


def __getattr__(name: str) -> Any:
    found = fallback.from_numpy(name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals()["__all__"], *dir(numpy)})
