"""scipy.fft: Fourier transforms, those of numpy.fft, and by them the cosine and sine transforms of types 1 to 4."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import scipy.fft

from wholestep.errors import ParameterError
from wholestep.frontend.dispatch import bound, covers
from wholestep.frontend.promotion import inexact_array, lift, wrap
from wholestep.numpy import fft as numpys
from wholestep.numpy.movement import axis_of
from wholestep.scipy.outside import fallback, np

outside: Any = scipy.fft
_PLAN = "overwrite_x workers plan"


def __getattr__(name: str) -> Any:
    return fallback(outside, name)


def operand(x: Any) -> Any:
    """An array to transform: half precision in float32, as in SciPy."""
    a = lift(x)
    return a.astype(np.float32) if a.dtype == np.float16 else a


def in_numpy(name: str, x: Any, **given: Any) -> Any:
    """numpy.fft's transform of this name; raises ParameterError where an axis is named twice."""
    a = operand(x)
    for option in ("s", "axes"):
        if isinstance(given.get(option), int):
            given[option] = (given[option],)
    check_axes(name, a, given.get("axes"))
    return getattr(numpys, name)(a, **given)


def check_axes(name: str, a: Any, axes: Any) -> None:
    """Raise ParameterError where an axis is named twice."""
    found = [] if axes is None else [axis_of(name, axis, a.ndim) for axis in axes]
    if len({*found}) < len(found):
        raise ParameterError(f"{name}: an axis is named twice in axes={axes}")


fft = bound(outside.fft, "", in_numpy, "fft", ignored=_PLAN)
ifft = bound(outside.ifft, "", in_numpy, "ifft", ignored=_PLAN)
rfft = bound(outside.rfft, "", in_numpy, "rfft", ignored=_PLAN)
irfft = bound(outside.irfft, "", in_numpy, "irfft", ignored=_PLAN)
hfft = bound(outside.hfft, "", in_numpy, "hfft", ignored=_PLAN)
ihfft = bound(outside.ihfft, "", in_numpy, "ihfft", ignored=_PLAN)
fft2 = bound(outside.fft2, "", in_numpy, "fft2", ignored=_PLAN)
ifft2 = bound(outside.ifft2, "", in_numpy, "ifft2", ignored=_PLAN)
rfft2 = bound(outside.rfft2, "", in_numpy, "rfft2", ignored=_PLAN)
irfft2 = bound(outside.irfft2, "", in_numpy, "irfft2", ignored=_PLAN)
fftn = bound(outside.fftn, "", in_numpy, "fftn", ignored=_PLAN)
ifftn = bound(outside.ifftn, "", in_numpy, "ifftn", ignored=_PLAN)
rfftn = bound(outside.rfftn, "", in_numpy, "rfftn", ignored=_PLAN)
irfftn = bound(outside.irfftn, "", in_numpy, "irfftn", ignored=_PLAN)
fftshift = bound(outside.fftshift, "", lambda x, axes=None: np.fft.fftshift(lift(x), axes))
ifftshift = bound(outside.ifftshift, "", lambda x, axes=None: np.fft.ifftshift(lift(x), axes))


@covers(outside.fftfreq)
def fftfreq(n: Any, d: Any = 1.0, *, xp: Any = None, device: Any = None) -> Any:
    """scipy.fft.fftfreq, the spacing traced."""
    return np.fft.fftfreq(n, 1.0) / d


@covers(outside.rfftfreq)
def rfftfreq(n: Any, d: Any = 1.0, *, xp: Any = None, device: Any = None) -> Any:
    """scipy.fft.rfftfreq, the spacing traced."""
    return np.fft.rfftfreq(n, 1.0) / d


def alternating(x: Any) -> Any:
    """x with the sign of every second element along the last axis turned."""
    signs = np.ones(int(x.shape[-1]), x.dtype)
    signs[1::2] = -1
    return x * signs


def turns(count: int, step: float, dtype: Any) -> Any:
    """exp(i step k) for k below a count, as complex numbers of a real dtype's precision."""
    return np.exp(1j * step * np.arange(count)).astype(np.result_type(dtype, np.complex64))


def cosine_1(x: Any) -> Any:
    """Sums with cos(pi k n / (N - 1)): the transform of x and its mirror image."""
    if x.shape[-1] < 2:
        raise ParameterError("dct: type 1 takes two elements or more")
    return np.fft.rfft(np.concatenate([x, x[..., -2:0:-1]], axis=-1)).real


def cosine_2(x: Any) -> Any:
    """Sums with cos(pi k (2n + 1) / 2N): the transform of the even places and, backwards, the odd ones.

    Source: Makhoul, "A fast cosine transform in one and two dimensions", 1980.
    """
    n = int(x.shape[-1])
    found = np.fft.fft(np.concatenate([x[..., ::2], x[..., 1::2][..., ::-1]], axis=-1))
    return 2 * (found * turns(n, -math.pi / (2 * n), x.dtype)).real


def cosine_3(x: Any) -> Any:
    """Sums with cos(pi (2k + 1) n / 2N), of which the first counts half: the inverse of `cosine_2`, times 2N."""
    n = int(x.shape[-1])
    back = np.concatenate([np.zeros_like(x[..., :1]), x[..., :0:-1]], axis=-1)
    found = np.fft.ifft((x - 1j * back) * turns(n, math.pi / (2 * n), x.dtype), norm="forward").real
    places = np.arange(n)
    return found[..., np.where(places % 2 == 0, places // 2, n - 1 - places // 2)]


def cosine_4(x: Any) -> Any:
    """Sums with cos(pi (2k + 1) (2n + 1) / 4N)."""
    n = int(x.shape[-1])
    step = -math.pi / (2 * n)
    found = np.fft.fft(x * turns(n, step, x.dtype), 2 * n)[..., :n]
    return (found * (2 * np.exp(0.5j * step) * turns(n, step, np.float64)).astype(found.dtype)).real


def sine_1(x: Any) -> Any:
    """Sums with sin(pi (k + 1) (n + 1) / (N + 1)): the transform of x and its mirror image turned over."""
    nothing = np.zeros((*x.shape[:-1], 1), x.dtype)
    whole = np.concatenate([nothing, x, nothing, -x[..., ::-1]], axis=-1)
    return -np.fft.rfft(whole).imag[..., 1:-1]


def sine_2(x: Any) -> Any:
    """Sums with sin(pi (k + 1) (2n + 1) / 2N)."""
    return cosine_2(alternating(x))[..., ::-1]


def sine_3(x: Any) -> Any:
    """Sums with sin(pi (2k + 1) (n + 1) / 2N), of which the last counts half."""
    return alternating(cosine_3(x[..., ::-1]))


def sine_4(x: Any) -> Any:
    """Sums with sin(pi (2k + 1) (2n + 1) / 4N)."""
    return alternating(cosine_4(x[..., ::-1]))


_COSINES = {1: cosine_1, 2: cosine_2, 3: cosine_3, 4: cosine_4}
_SINES = {1: sine_1, 2: sine_2, 3: sine_3, 4: sine_4}
_ENDS = {(True, 1): (0, -1), (True, 2): (0,), (True, 3): (0,), (False, 2): (-1,), (False, 3): (-1,)}
"""(whether of cosines, type) -> the places that an orthogonal transform scales, after it or before it."""


def along_last(cosines: bool, kind: Any, inverse: bool, x: Any, norm: Any, orthogonalize: Any) -> Any:
    """A cosine or sine transform along the last axis."""
    if x.dtype.kind == "c":
        parts = [along_last(cosines, kind, inverse, part, norm, orthogonalize) for part in (x.real, x.imag)]
        return parts[0] + 1j * parts[1]
    if norm not in (None, "backward", "ortho", "forward"):
        raise ParameterError(f'Invalid norm value {norm!r}, should be "backward", "ortho" or "forward"')
    if kind not in _COSINES:
        raise ParameterError(f"invalid {'DCT' if cosines else 'DST'} type {kind!r}, which is one of 1, 2, 3 and 4")
    kind = {2: 3, 3: 2}.get(kind, kind) if inverse else kind
    size = int(x.shape[-1])
    if size < 1:
        raise ParameterError(f"a transform of no elements: {x.type}")
    count = 2 * (size + (0 if kind > 1 else -1 if cosines else 1))
    ends = np.ones(size, x.dtype)
    if norm == "ortho" if orthogonalize is None else orthogonalize:
        ends[list(_ENDS.get((cosines, kind), ()))] = math.sqrt(2)
    if kind in (1, 3):
        x = x * ends
    made = (_COSINES if cosines else _SINES)[kind](x)
    if kind in (1, 2):
        made = made / ends
    if norm == "ortho":
        return made * (1 / math.sqrt(count))
    return made * (1 / count) if (norm == "forward") is not inverse else made


def along_axis(
    cosines: bool,
    inverse: bool,
    x: Any,
    type: Any = 2,
    n: Any = None,
    axis: Any = -1,
    norm: Any = None,
    orthogonalize: Any = None,
) -> Any:
    """A cosine or sine transform along an axis, cropped or padded with zeros to n elements."""
    a = inexact_array(operand(x))
    place = axis_of("dct" if cosines else "dst", axis, a.ndim)
    size = numpys.checked_length(n, a.shape[place])
    rows = np.moveaxis(wrap(numpys.resize_axis(a.value, place, size)), place, -1)
    return np.moveaxis(along_last(cosines, type, inverse, rows, norm, orthogonalize), -1, place)


def along_each_axis(
    along: Callable[..., Any],
    x: Any,
    type: Any = 2,
    s: Any = None,
    axes: Any = None,
    norm: Any = None,
    orthogonalize: Any = None,
) -> Any:
    """A cosine or sine transform along several axes, one after the other."""
    a = operand(x)
    sizes, axes = [(i,) if isinstance(i, int) else i for i in (s, axes)]
    check_axes("dctn", a, axes)
    for n, axis in zip(*numpys.sizes_and_axes("dctn", a, sizes, axes), strict=True):
        a = along(x=a, type=type, n=n, axis=axis, norm=norm, orthogonalize=orthogonalize)
    return a


_WORK = "overwrite_x workers"
dct = bound(outside.dct, "types 1 to 4", along_axis, True, False, ignored=_WORK)
idct = bound(outside.idct, "types 1 to 4", along_axis, True, True, ignored=_WORK)
dst = bound(outside.dst, "types 1 to 4", along_axis, False, False, ignored=_WORK)
idst = bound(outside.idst, "types 1 to 4", along_axis, False, True, ignored=_WORK)
dctn = bound(outside.dctn, "types 1 to 4", along_each_axis, dct, ignored=_WORK)
idctn = bound(outside.idctn, "types 1 to 4", along_each_axis, idct, ignored=_WORK)
dstn = bound(outside.dstn, "types 1 to 4", along_each_axis, dst, ignored=_WORK)
idstn = bound(outside.idstn, "types 1 to 4", along_each_axis, idst, ignored=_WORK)
