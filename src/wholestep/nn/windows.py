"""Windows that slide over the last axes of an array: their sizes, steps and padding, as every layer spells them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.frontend.tracing import type_of

Ints: TypeAlias = int | Sequence[int]
"""One integer for all axes, or one for each."""

Padding: TypeAlias = int | str | Sequence[Any]
"""One integer, one for each axis, a pair (before, after) for each axis, "same" or "valid"."""

Pairs: TypeAlias = tuple[tuple[int, int], ...]


class Slide(NamedTuple):
    """Sliding windows on the last axes: for each axis a size, a stride, a dilation and the padding around it."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    around: Pairs

    @property
    def span(self) -> tuple[int, ...]:
        """The extent of one window along each axis."""
        return tuple([(m - 1) * d + 1 for m, d in zip(self.size, self.dilation, strict=True)])


def floating(name: str, x: Any) -> Any:
    """A floating array; raises DtypeError for another."""
    a = wnp.asarray(x)
    if not dtypes.is_float(a.dtype):
        raise DtypeError(f"{name}: x is {type_text(a)}, not floating", hint="convert it with .astype(np.float32)")
    return a


def type_text(x: Any) -> str:
    """An array's dtype and shape, as errors show them."""
    return str(type_of(x))


def rank_is(name: str, x: Any, ndim: int, layout: str) -> None:
    """Raise ShapeError for an array of another number of axes."""
    if x.ndim != ndim:
        raise ShapeError(
            f"{name}: x is {type_text(x)}, and its axes must be {layout}",
            hint="add an axis for one sample with x[None]" if x.ndim == ndim - 1 else None,
        )


def per_axis(name: str, what: str, given: Any, n: int, least: int = 1) -> tuple[int, ...]:
    """One integer for each axis; raises ParameterError for another number of them, or one that is too small."""
    items = [given] * n if not isinstance(given, Sequence | np.ndarray) else list(given)
    try:
        found = tuple([operator.index(item) for item in items])
    except TypeError:
        raise ParameterError(f"{name}: {what} {given!r} is not made of integers") from None
    if len(found) != n or min(found, default=least) < least:
        raise ParameterError(f"{name}: {what} is {given!r}; it must be {n} integers, or one, of {least} or more")
    return found


def slide(name: str, x: Any, n: int, size: Ints, stride: Ints, padding: Padding, dilation: Ints = 1) -> Slide:
    """The windows over the last n axes of x; raises ParameterError, and ShapeError where x is too small for one."""
    plain = Slide(
        per_axis(name, "size", size, n),
        per_axis(name, "stride", stride, n),
        per_axis(name, "dilation", dilation, n),
        ((0, 0),) * n,
    )
    found = plain._replace(around=padding_pairs(name, padding, x.shape[x.ndim - n :], plain))
    for length, span, (before, after) in zip(x.shape[x.ndim - n :], found.span, found.around, strict=True):
        if length + before + after < span:
            raise ShapeError(
                f"{name}: a window covers {found.span}, more than {type_text(x)} padded by {found.around}",
                hint="a smaller window, less dilation or more padding",
            )
    return found


def padding_pairs(name: str, padding: Padding, lengths: Sequence[int], plain: Slide) -> Pairs:
    """The padding before and after each axis."""
    n = len(lengths)
    if padding == "valid":
        return ((0, 0),) * n
    if padding == "same":
        return tuple([same_padding(*facts) for facts in zip(lengths, plain.span, plain.stride, strict=True)])
    if isinstance(padding, str):
        raise ParameterError(f"{name}: padding is {padding!r}", hint='integers, pairs, "same" and "valid" are known')
    if isinstance(padding, Sequence) and padding and all(isinstance(pair, Sequence) for pair in padding):
        if len(padding) != n:
            raise ParameterError(f"{name}: padding is {padding!r}; it must be {n} pairs (before, after)")
        pairs = [per_axis(name, "padding", pair, 2, 0) for pair in padding]
        return tuple([(before, after) for before, after in pairs])
    return tuple([(p, p) for p in per_axis(name, "padding", padding, n, 0)])


def same_padding(length: int, span: int, stride: int) -> tuple[int, int]:
    """Padding that leaves ceil(length / stride) windows; where it is odd, one more after than before."""
    total = max((-(-length // stride) - 1) * stride + span - length, 0)
    return total // 2, total - total // 2


PADDING_MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
"""The padding modes of convolutions, and the modes of `np.pad` for them."""


def pad_axes(x: Any, pairs: Pairs, value: float = 0, mode: str = "constant") -> Any:
    """x with its last axes padded with a value, or in another mode of `np.pad`."""
    if not any(map(any, pairs)):
        return x
    around = (*[(0, 0)] * (x.ndim - len(pairs)), *pairs)
    return wnp.pad(x, around, constant_values=value) if mode == "constant" else wnp.pad(x, around, mode=mode)


def padded_as(name: str, x: Any, pairs: Pairs, mode: Any) -> Any:
    """x padded in a mode of convolutions; raises ParameterError for another, ShapeError where x is too small for it."""
    if mode not in PADDING_MODES:
        raise ParameterError(f"{name}: padding_mode is {mode!r}", hint=f"{', '.join(PADDING_MODES)} are known")
    most = {"reflect": -1, "circular": 0}.get(mode)
    for length, pair in zip(x.shape[x.ndim - len(pairs) :], pairs, strict=True):
        if most is not None and max(pair) > length + most:
            raise ShapeError(
                f"{name}: padding of {pair} is more than padding_mode={mode!r} can take from {type_text(x)}",
                hint="less padding, or padding_mode='replicate'",
            )
    return pad_axes(x, pairs, mode=PADDING_MODES[mode])


def windows(x: Any, at: Slide) -> Any:
    """Windows of an array that is padded already: `[..., *lengths] -> [..., *places, *size]`."""
    n = len(at.size)
    axes = tuple(range(x.ndim - n, x.ndim))
    seen = np.lib.stride_tricks.sliding_window_view(x, at.span, axis=axes)
    steps: list[Any] = [..., *[slice(None, None, s) for s in (*at.stride, *at.dilation)]]
    return seen[tuple(steps)]


def taps(x: Any, axis: int, size: int, stride: int, dilation: int = 1) -> list[Any]:
    """The elements that all windows have at each of their places along an axis, in order: `[..., places, ...]` each.

    A reduction over few places is a chain of these: one pass over memory. The axis is cut into as many phases as the
    stride, so that each of them is a slice without gaps, and so is the way back.
    """
    lead = (slice(None),) * axis
    span = (size - 1) * dilation + 1
    places, more = (x.shape[axis] - span) // stride + 1, -(-span // stride) - 1
    room = (places + more) * stride
    if room > x.shape[axis]:
        x = wnp.pad(x, [(0, room - x.shape[axis] if i == axis else 0) for i in range(x.ndim)])  # in no window
    cut = x[(*lead, slice(room))].reshape(*x.shape[:axis], places + more, stride, *x.shape[axis + 1 :])
    at = [j * dilation for j in range(size)]
    phases = {r: cut[(*lead, slice(None), r)] for r in sorted({j % stride for j in at})}
    return [phases[j % stride][(*lead, slice(j // stride, j // stride + places))] for j in at]
