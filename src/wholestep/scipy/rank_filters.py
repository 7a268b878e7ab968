"""scipy.ndimage's and scipy.signal's filters by order: the largest, the smallest, or another one of the neighbours."""

from __future__ import annotations

import operator
from typing import Any

import scipy.ndimage
import scipy.signal

from wholestep.errors import DtypeError
from wholestep.frontend.dispatch import binds
from wholestep.frontend.promotion import wrap
from wholestep.numpy.movement import axis_of, traced_array
from wholestep.primitives.contraction import window
from wholestep.scipy.filters import BEYOND, chosen_axes, each_axis, result_dtype
from wholestep.scipy.outside import np

outside: Any = scipy.ndimage
TIES = "elements that tie share the gradient"
EXTREMES = ("maximum_filter", "minimum_filter")


def neighbours(name: str, x: Any, shape: Any, places: Any, modes: Any, cval: Any, origins: Any) -> Any:
    """The elements around each one that a footprint of this shape has at these places, on a last axis."""
    if x.dtype.kind == "c":
        raise DtypeError(f"{name}: complex numbers such as {x.type} have no order", hint="filter x.real or abs(x)")
    for axis, (size, origin, mode) in enumerate(zip(shape, origins, modes, strict=True)):
        if mode not in BEYOND:
            raise RuntimeError("boundary mode not supported")
        if not 0 <= size // 2 + origin < size:
            raise ValueError("invalid origin")
        width = (size // 2 + origin, size - size // 2 - 1 - origin)
        if width != (0, 0):
            filled = {"constant_values": cval} if BEYOND[mode] == "constant" else {}
            x = np.pad(x, [width if i == axis else (0, 0) for i in range(x.ndim)], BEYOND[mode], **filled)
    ones = (1,) * x.ndim
    seen: Any = wrap(window(x.value, size=tuple(shape), stride=ones, dilation=ones))
    flat = seen.reshape((*seen.shape[: x.ndim], -1))
    return flat if len(places) == flat.shape[-1] else flat[..., places]


def footprint_of(name: str, size: Any, footprint: Any, ndim: int, chosen: list[int]) -> tuple[list[int], Any]:
    """The shape of a footprint over all axes, and the places in it that count."""
    if footprint is None:
        if size is None:
            raise RuntimeError("no footprint or filter size provided")
        sizes = [operator.index(n) for n in each_axis(size, len(chosen))]
        mask = np.ones(sizes, bool)
    else:
        mask = np.asarray(footprint, bool)
    if mask.ndim != len(chosen):
        raise RuntimeError(f"footprint.ndim ({mask.ndim}) must match len(axes) ({len(chosen)})")
    if not mask.any():
        raise ValueError("All-zero footprint is not supported.")
    by_axis = dict(zip(chosen, mask.shape, strict=True))
    return [by_axis.get(i, 1) for i in range(ndim)], np.flatnonzero(mask)


def by_rank(
    name: str,
    input: Any,
    rank_of: Any,
    size: Any,
    footprint: Any,
    output: Any,
    mode: Any,
    cval: Any,
    origin: Any,
    axes: Any,
) -> Any:
    """The neighbour at a place of their order, which `rank_of` finds from their number."""
    x = traced_array(input)
    wanted, chosen = result_dtype(name, x, output), chosen_axes(name, axes, x.ndim)
    if footprint is not None or not name.startswith(EXTREMES):
        chosen.sort()  # as SciPy pairs axes with sizes and footprints, except where it goes along one after the other
    shape, places = footprint_of(name, size, footprint, x.ndim, chosen)
    rank = rank_of(len(places))
    if not 0 <= rank < len(places):
        raise RuntimeError("rank not within filter footprint size")
    shifts, modes = [dict(zip(chosen, each_axis(option, len(chosen)), strict=True)) for option in (origin, mode)]
    everywhere = range(x.ndim)
    around = neighbours(
        name,
        x,
        shape,
        places,
        [modes.get(i, "reflect") for i in everywhere],
        cval,
        [shifts.get(i, 0) for i in everywhere],
    )
    if rank in (0, len(places) - 1):
        made = np.min(around, axis=-1) if rank == 0 else np.max(around, axis=-1)
    else:
        made = np.sort(around, axis=-1)[..., rank]
    return made.astype(wanted)


@binds(outside.maximum_filter, TIES)
def maximum_filter(
    input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    origin: Any = 0, axes: Any = None,
) -> Any:  # fmt: skip
    return by_rank("maximum_filter", input, lambda n: n - 1, size, footprint, output, mode, cval, origin, axes)


@binds(outside.minimum_filter, TIES)
def minimum_filter(
    input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    origin: Any = 0, axes: Any = None,
) -> Any:  # fmt: skip
    return by_rank("minimum_filter", input, lambda n: 0, size, footprint, output, mode, cval, origin, axes)


@binds(outside.median_filter)
def median_filter(
    input: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect", cval: Any = 0.0,
    origin: Any = 0, axes: Any = None,
) -> Any:  # fmt: skip
    return by_rank("median_filter", input, lambda n: n // 2, size, footprint, output, mode, cval, origin, axes)


@binds(outside.rank_filter)
def rank_filter(
    input: Any, rank: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, origin: Any = 0, axes: Any = None,
) -> Any:  # fmt: skip
    place = operator.index(rank)
    return by_rank(
        "rank_filter",
        input,
        lambda n: place + n if place < 0 else place,
        size,
        footprint,
        output,
        mode,
        cval,
        origin,
        axes,
    )


@binds(outside.percentile_filter)
def percentile_filter(
    input: Any, percentile: Any, size: Any = None, footprint: Any = None, output: Any = None, mode: Any = "reflect",
    cval: Any = 0.0, origin: Any = 0, axes: Any = None,
) -> Any:  # fmt: skip
    share = percentile + 100.0 if percentile < 0 else percentile
    if not 0 <= share <= 100:
        raise RuntimeError("invalid percentile")

    def rank_of(n: int) -> int:
        return n - 1 if share == 100 else int(n * share / 100.0)

    return by_rank("percentile_filter", input, rank_of, size, footprint, output, mode, cval, origin, axes)


def along_one(name: str, rank_of: Any, input: Any, size: Any, axis: Any, *options: Any) -> Any:
    """A filter along one axis."""
    x = traced_array(input)
    output, mode, cval, origin = options
    return by_rank(name, x, rank_of, size, None, output, mode, cval, origin, [axis_of(name, axis, x.ndim)])


@binds(outside.maximum_filter1d, TIES)
def maximum_filter1d(
    input: Any, size: Any, axis: Any = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0
) -> Any:
    return along_one("maximum_filter1d", lambda n: n - 1, input, size, axis, output, mode, cval, origin)


@binds(outside.minimum_filter1d, TIES)
def minimum_filter1d(
    input: Any, size: Any, axis: Any = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0
) -> Any:
    return along_one("minimum_filter1d", lambda n: 0, input, size, axis, output, mode, cval, origin)


@binds(scipy.signal.medfilt)
def medfilt(volume: Any, kernel_size: Any = None) -> Any:
    x = traced_array(volume)
    sizes = [3] * x.ndim if kernel_size is None else each_axis(kernel_size, x.ndim)
    if any(n % 2 != 1 for n in sizes):
        raise ValueError("Each element of kernel_size should be odd.")
    return median_filter(x, sizes, mode="constant")


@binds(scipy.signal.medfilt2d)
def medfilt2d(input: Any, kernel_size: Any = 3) -> Any:
    return medfilt(input, each_axis(kernel_size, 2))
