"""scipy.ndimage's linear filters: sums of weighted neighbours, of an array that goes on beyond its edges."""

from __future__ import annotations

import numbers
from typing import Any

import scipy.ndimage

from wholestep import dtypes
from wholestep.errors import DtypeError, UnsupportedError
from wholestep.frontend.dispatch import binds, is_traced
from wholestep.frontend.promotion import lift, wrap
from wholestep.numpy.contractions import products_summed
from wholestep.numpy.movement import axis_of, traced_array
from wholestep.numpy.selection import known_of
from wholestep.primitives.contraction import LETTERS, window
from wholestep.scipy.outside import np

outside: Any = scipy.ndimage

BEYOND = {
    "reflect": "symmetric",
    "grid-mirror": "symmetric",
    "constant": "constant",
    "grid-constant": "constant",
    "nearest": "edge",
    "mirror": "reflect",
    "wrap": "wrap",
    "grid-wrap": "wrap",
}
"""SciPy's name of an extension beyond the edges -> the mode of `numpy.pad` that computes it."""


def each_axis(given: Any, n: int) -> list[Any]:
    """An option for each of n axes: one for all, or a sequence."""
    if isinstance(given, str) or not np.iterable(given):
        return [given] * n
    if len(given) != n:
        raise RuntimeError("sequence argument must have length equal to input rank")
    return list(given)


def chosen_axes(name: str, axes: Any, ndim: int) -> list[int]:
    """Non-negative axes, all of them for None."""
    if axes is None:
        return list(range(ndim))
    found = [axis_of(name, axis, ndim) for axis in (axes if np.iterable(axes) else (axes,))]
    if len(set(found)) != len(found):
        raise ValueError("axes must be unique")
    return found


def result_dtype(name: str, x: Any, output: Any, *weights: Any) -> Any:
    """The dtype of a filter's result; raises DtypeError for those that SciPy's filters have no loop for."""
    if output is not None and not isinstance(output, str | type | np.dtype):
        raise UnsupportedError(
            f"{name}: output= is a dtype for traced arrays", hint="write into the array: out[...] = the result"
        )
    wanted = x.dtype if output is None else np.dtype(output)
    if "c" in [v.dtype.kind for v in (x, *weights)] and wanted.kind != "c":
        if output is not None:
            raise RuntimeError("output must have complex dtype")
        wanted = np.result_type(x.dtype, np.complex64)
    for dtype in (x.dtype, wanted):
        if dtype.kind == "b" or dtypes.short(dtype) in ("f16", "bf16"):
            raise DtypeError(f"{name}: does not filter {dtypes.short(dtype)}", hint="cast to float32 or float64 first")
    return wanted


def correlated(name: str, x: Any, weights: Any, origins: Any, mode: Any, cval: Any, wanted: Any) -> Any:
    """The sum of weights times neighbours around each element, in the wanted dtype.

    Weights have as many axes as the array. SciPy cuts whole results off, which a rounding of the sum would decide:
    therefore weights of these are whole numbers, whose products have exact sums.
    """
    if mode not in BEYOND:
        raise RuntimeError("boundary mode not supported")
    if wanted.kind in "iu" and (x.dtype.kind == "f" or not is_whole(weights)):
        raise UnsupportedError(
            f"{name}: a result in {dtypes.short(wanted)} is cut off from a sum that roundings decide",
            hint="ask for output=np.float64, or cast the array to float64 first",
        )
    common = np.result_type(x.dtype, weights.dtype if weights.dtype.kind == "c" else wanted, wanted)
    working = np.dtype(np.float64) if common.kind in "iu" else dtypes.compute_dtype(common)
    widths = []
    for size, origin in zip(weights.shape, origins, strict=True):
        if not -(size // 2) <= origin <= (size - 1) // 2:
            raise ValueError(
                "Invalid origin; origin must satisfy -(weights.shape[k] // 2) <= origin[k] <= (weights.shape[k]-1) // 2"
            )
        widths.append((size // 2 + origin, size - size // 2 - 1 - origin))
    if 0 in x.shape:
        return np.zeros_like(x, dtype=wanted)
    filled = {"constant_values": cval} if BEYOND[mode] == "constant" else {}
    wide = np.pad(x.astype(working, copy=False), widths, BEYOND[mode], **filled)
    ones = (1,) * x.ndim
    seen = window(wide.value, size=weights.shape, stride=ones, dilation=ones)
    places, inner = LETTERS[: x.ndim], LETTERS[x.ndim : 2 * x.ndim]
    made: Any = wrap(
        products_summed(seen, lift(weights.astype(working)).value, spec=f"{places}{inner},{inner}->{places}")
    )
    return like_c(made, wanted)


def is_whole(weights: Any) -> bool:
    """Test whether weights are plain whole numbers."""
    return not is_traced(weights) and weights.dtype.kind != "c" and bool(np.all(weights == np.trunc(weights)))


def like_c(x: Any, dtype: Any) -> Any:
    """A new array in a dtype: integers without their fractions, round the ends of the unsigned ones."""
    return x.astype(np.int64).astype(dtype) if dtype.kind in "iu" else x.astype(dtype)


def along(x: Any, weights: Any, axis: int) -> Any:
    """Weights of one axis as weights of all."""
    return weights.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


def operands(input: Any, weights: Any) -> tuple[Any, Any]:
    """A traced array and its weights, plain ones in double precision."""
    w = traced_array(weights) if is_traced(weights) else np.asarray(weights)
    return traced_array(input), w if w.dtype.kind in "fc" else w.astype(np.float64)


@binds(outside.correlate1d, "in the precision of the array; whole results of whole weights alone")
def correlate1d(
    input: Any,
    weights: Any,
    axis: Any = -1,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
) -> Any:
    x, w = operands(input, weights)
    if w.ndim != 1 or w.shape[0] < 1:
        raise RuntimeError("no filter weights given")
    at = axis_of("correlate1d", axis, x.ndim)
    w = np.conjugate(w) if w.dtype.kind == "c" else w
    origins = [origin if i == at else 0 for i in range(x.ndim)]
    return correlated("correlate1d", x, along(x, w, at), origins, mode, cval, result_dtype("correlate1d", x, output, w))


@binds(outside.convolve1d, "in the precision of the array; whole results of whole weights alone")
def convolve1d(
    input: Any,
    weights: Any,
    axis: Any = -1,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
) -> Any:
    x, w = operands(input, weights)
    w = w[::-1]
    turned = -origin if w.shape[0] % 2 else -origin - 1
    return correlate1d(x, np.conjugate(w) if w.dtype.kind == "c" else w, axis, output, mode, cval, turned)


def over_axes(
    name: str, input: Any, weights: Any, output: Any, mode: Any, cval: Any, origin: Any, axes: Any, turn: bool
) -> Any:
    """A correlation over some axes, or where the weights turn a convolution."""
    x, w = operands(input, weights)
    chosen = chosen_axes(name, axes, x.ndim)
    # The axes of SciPy's weights keep their order; its origins follow the axes as given, where these are not all.
    chosen = sorted(chosen) if len(chosen) == x.ndim else chosen
    if w.ndim != len(chosen):
        raise RuntimeError(f"weights.ndim ({w.ndim}) must match len(axes) ({len(chosen)})")
    wanted = result_dtype(name, x, output, w)
    origins = each_axis(origin, len(chosen))
    if turn:
        w = np.flip(w)
        by_axis = dict(zip(sorted(chosen), w.shape, strict=True))
        origins = [-o if by_axis[axis] % 2 else -o - 1 for axis, o in zip(chosen, origins, strict=True)]
    elif w.dtype.kind == "c":
        w = np.conjugate(w)
    sizes = iter(w.shape)
    spread = w.reshape([next(sizes) if i in chosen else 1 for i in range(x.ndim)])
    shifts = dict(zip(chosen, origins, strict=True))
    return correlated(name, x, spread, [shifts.get(i, 0) for i in range(x.ndim)], mode, cval, wanted)


@binds(outside.correlate, "as `correlate1d`; a NaN counts under a weight of 0 too")
def correlate(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    axes: Any = None,
) -> Any:
    return over_axes("correlate", input, weights, output, mode, cval, origin, axes, False)


@binds(outside.convolve, "as `convolve1d`; a NaN counts under a weight of 0 too")
def convolve(
    input: Any,
    weights: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    axes: Any = None,
) -> Any:
    return over_axes("convolve", input, weights, output, mode, cval, origin, axes, True)


@binds(outside.uniform_filter1d)
def uniform_filter1d(
    input: Any, size: Any, axis: Any = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, origin: Any = 0
) -> Any:
    if size < 1:
        raise RuntimeError("incorrect filter size")
    if not 0 <= size // 2 + origin < size:
        raise ValueError("invalid origin")
    x = traced_array(input)
    wanted = result_dtype("uniform_filter1d", x, output)
    total = correlate1d(x, np.ones(size), axis, np.result_type(wanted, np.float32), mode, cval, origin)
    return like_c(total / size, wanted)


@binds(outside.uniform_filter)
def uniform_filter(
    input: Any,
    size: Any = 3,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
    axes: Any = None,
) -> Any:
    x = traced_array(input)
    wanted = result_dtype("uniform_filter", x, output)
    chosen = chosen_axes("uniform_filter", axes, x.ndim)
    options = [each_axis(option, len(chosen)) for option in (size, origin, mode)]
    for axis, n, at, kind in zip(chosen, *options, strict=True):
        if n > 1:
            x = uniform_filter1d(x, int(n), axis, wanted, kind, cval, at)
    return like_c(x, wanted)


def bell(sigma: Any, order: int, radius: int) -> Any:
    """The weights of a Gaussian from -radius to radius, or of its derivative of an order."""
    if order < 0:
        raise ValueError("order must be non-negative")
    x = np.arange(-radius, radius + 1).astype(np.float64)
    density = np.exp(-0.5 / (sigma * sigma) * x**2)
    density = density / np.sum(density)
    # The derivative of a polynomial q times the density is q' - x q / sigma**2 times the density.
    q: list[Any] = [1.0, *[0.0] * order]
    for _ in range(order):
        raised = [(k + 1) * c for k, c in enumerate(q[1:])] + [0.0]
        lowered = [0.0, *[c / (sigma * sigma) for c in q[:-1]]]
        q = [a - b for a, b in zip(raised, lowered, strict=True)]
    return sum(c * x**k for k, c in enumerate(q)) * density


@binds(outside.gaussian_filter1d, "differentiable in sigma, whose value must be known unless radius= is given")
def gaussian_filter1d(
    input: Any,
    sigma: Any,
    axis: Any = -1,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: Any = 4.0,
    radius: Any = None,
) -> Any:
    width = lift(sigma).astype(np.float64) if is_traced(sigma) else float(sigma)
    if radius is None:
        number = known_of("gaussian_filter1d without radius=", width) if is_traced(width) else width
        radius = int(truncate * float(number) + 0.5)
    if not isinstance(radius, numbers.Integral) or radius < 0:
        raise ValueError("Radius must be a nonnegative integer.")
    return correlate1d(input, bell(width, order, int(radius))[::-1], axis, output, mode, cval)


@binds(outside.gaussian_filter, "as `gaussian_filter1d`; a traced sigma is above 0")
def gaussian_filter(
    input: Any,
    sigma: Any,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: Any = 4.0,
    radius: Any = None,
    axes: Any = None,
) -> Any:
    x = traced_array(input)
    wanted = result_dtype("gaussian_filter", x, output)
    chosen = chosen_axes("gaussian_filter", axes, x.ndim)
    vector = is_traced(sigma) and not isinstance(sigma, list | tuple) and lift(sigma).ndim == 0
    sigmas = [sigma] * len(chosen) if vector else each_axis(sigma, len(chosen))
    options = [each_axis(option, len(chosen)) for option in (order, mode, radius)]
    for axis, width, degree, kind, reach in zip(chosen, sigmas, *options, strict=True):
        if is_traced(width) or width > 1e-15:
            x = gaussian_filter1d(x, width, axis, degree, wanted, kind, cval, truncate, radius=reach)
    return like_c(x, wanted)


def slope(name: str, across: list[int], input: Any, axis: Any, output: Any, mode: Any, cval: Any) -> Any:
    """The differences of neighbours along an axis, smoothed along the others."""
    x = traced_array(input)
    wanted, at = result_dtype(name, x, output), axis_of(name, axis, x.ndim)
    modes = each_axis(mode, x.ndim)
    x = correlate1d(x, [-1, 0, 1], at, wanted, modes[at], cval)
    for i in [i for i in range(x.ndim) if i != at]:
        x = correlate1d(x, across, i, wanted, modes[i], cval)
    return x


@binds(outside.sobel)
def sobel(input: Any, axis: Any = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    return slope("sobel", [1, 2, 1], input, axis, output, mode, cval)


@binds(outside.prewitt)
def prewitt(input: Any, axis: Any = -1, output: Any = None, mode: Any = "reflect", cval: Any = 0.0) -> Any:
    return slope("prewitt", [1, 1, 1], input, axis, output, mode, cval)


@binds(outside.laplace)
def laplace(input: Any, output: Any = None, mode: Any = "reflect", cval: Any = 0.0, axes: Any = None) -> Any:
    x = traced_array(input)
    wanted, chosen = result_dtype("laplace", x, output), chosen_axes("laplace", axes, x.ndim)
    made = [
        correlate1d(x, [1, -2, 1], axis, wanted, kind, cval)
        for axis, kind in zip(chosen, each_axis(mode, len(chosen)), strict=True)
    ]
    return sum(made[1:], start=made[0]) if made else like_c(x, wanted)
