"""Transposed convolutions: the input gradient of a convolution, used forward to make an array larger."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.nn.convolution import check_kernel, check_kernel_axes, correlated, with_bias
from wholestep.nn.spatial import by_rank
from wholestep.nn.windows import (
    Ints,
    Padding,
    Pairs,
    Slide,
    pad_axes,
    padding_pairs,
    per_axis,
    rank_is,
    type_text,
    windows,
)


def conv_transpose(
    name: str,
    n: int,
    x: Any,
    w: Any,
    b: Any = None,
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    output_padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Any:
    """The transpose of `conv2d`.

    The kernel has the layout of the convolution whose input gradient this is: axis 0 is the channels of x, as in
    PyTorch. An axis of size m becomes (m - 1) * stride - before - after + dilation * (size - 1) + 1 + output_padding,
    where padding (before, after) is cut off and `output_padding`, smaller than stride or dilation, is added after.
    `stride`, `dilation` and `padding` are an integer or one for each axis, `padding` also a pair for each.

    Shapes: x [n, c, height, width], w [c, o / groups, i, j] and b [o]; [n, o, ...].
    Raises: ShapeError for arrays that do not fit, ParameterError for invalid options.
    Source: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.conv_transpose2d(np.ones((1, 4, 7, 7)), np.ones((4, 2, 4, 4)), stride=2, padding=1).shape
    (1, 2, 14, 14)
    """
    # With stride s, element q s + r of the result is a sum over m of x[q - m] w[r + s m]: a convolution that makes s
    # elements of each place, as further channels, which are then put side by side.
    x, w = wnp.asarray(x), wnp.asarray(w)
    rank_is(name, x, n + 2, "[n, channels, ...]")
    at = layout(name, w, n, stride, padding, dilation)
    check_kernel(name, x, w, n, groups, inputs=w.shape[0], split=w.shape[0])
    more = extra(name, output_padding, at)
    each, outputs = w.shape[0] // groups, w.shape[1]
    kernel, apart = by_phase(w, at)
    size = kernel.shape[2::2]
    turned = kernel[(..., *[slice(None, None, -1), slice(None)] * n)].reshape(groups, each, *kernel.shape[1:])
    order = (0, 2, *range(4, 2 * n + 3, 2), 1, *range(3, 2 * n + 2, 2))
    own = turned.transpose(order).reshape(groups * outputs * math.prod(at.stride), each, *size)
    reach = tuple([((m - 1) * d, (m - 1) * d) for m, d in zip(size, apart, strict=True)])
    seen = windows(pad_axes(x, reach), Slide(size, (1,) * n, apart, reach))
    made = channels_to_elements(correlated(seen, own, n, groups), at.stride)
    lengths = [(m - 1) * s + span for m, s, span in zip(x.shape[2:], at.stride, at.span, strict=True)]
    return with_bias(name, crop_padding(name, x, made, lengths, at.around, more), b, n)


conv_transpose1d, conv_transpose2d, conv_transpose3d = by_rank(
    conv_transpose,
    """
    >>> import numpy as np, wholestep as ws
    >>> ws.nn.conv_transpose1d(np.array([[[1.0, 2.0]]]), np.array([[[1.0, 10.0, 100.0]]]), stride=2).tolist()
    [[[1.0, 10.0, 102.0, 20.0, 200.0]]]
    """,
    """
    >>> import numpy as np, wholestep as ws
    >>> ws.nn.conv_transpose3d(np.ones((1, 2, 3, 3, 3)), np.ones((2, 5, 2, 2, 2)), stride=2).shape
    (1, 5, 6, 6, 6)
    """,
)


def layout(name: str, w: Any, n: int, stride: Ints, padding: Padding, dilation: Ints) -> Slide:
    """The windows of the convolution whose transpose is taken."""
    check_kernel_axes(name, w, n)
    if isinstance(padding, str):
        raise ParameterError(f"{name}: padding is {padding!r}; a transposed convolution takes integers or pairs")
    size, steps = per_axis(name, "size", w.shape[2:], n), per_axis(name, "stride", stride, n)
    plain = Slide(size, steps, per_axis(name, "dilation", dilation, n), ((0, 0),) * n)
    return plain._replace(around=padding_pairs(name, padding, (0,) * n, plain))


def extra(name: str, output_padding: Ints, at: Slide) -> tuple[int, ...]:
    """The output padding of each axis; raises ParameterError where that is no smaller than stride and dilation."""
    found = per_axis(name, "output_padding", output_padding, len(at.size), 0)
    if any(e >= max(s, d) for e, s, d in zip(found, at.stride, at.dilation, strict=True)):
        raise ParameterError(f"{name}: output_padding {output_padding} must be smaller than stride or dilation")
    return found


def by_phase(w: Any, at: Slide) -> tuple[Any, tuple[int, ...]]:
    """A kernel [in, out, m, s, ...], element m s + r of each axis at [m, r], and the windows' remaining dilation."""
    apart = tuple([d if s == 1 else 1 for s, d in zip(at.stride, at.dilation, strict=True)])
    wide = spaced(w, tuple([d // left for d, left in zip(at.dilation, apart, strict=True)]))
    full = pad_axes(wide, tuple([(0, -m % s) for m, s in zip(wide.shape[2:], at.stride, strict=True)]))
    split = [size for m, s in zip(full.shape[2:], at.stride, strict=True) for size in (m // s, s)]
    return full.reshape(*w.shape[:2], *split), apart


def spaced(x: Any, distance: tuple[int, ...]) -> Any:
    """x with distance - 1 zeros between neighbours along each of its last axes."""
    if set(distance) == {1}:
        return x
    n = len(distance)
    lengths = [(m - 1) * d + 1 for m, d in zip(x.shape[x.ndim - n :], distance, strict=True)]
    wide = wnp.zeros((*x.shape[: x.ndim - n], *lengths), x.dtype)
    wide[(..., *[slice(None, None, d) for d in distance])] = x
    return wide


def channels_to_elements(y: Any, stride: tuple[int, ...]) -> Any:
    """Further channels as further elements: [batch, o * s ..., q ...] -> [batch, o, q * s, ...]."""
    n, places = len(stride), y.shape[2:]
    parted = y.reshape(y.shape[0], y.shape[1] // math.prod(stride), *stride, *places)
    order = [axis for i in range(n) for axis in (2 + n + i, 2 + i)]
    turned = parted.transpose(0, 1, *order)
    return turned.reshape(*turned.shape[:2], *[q * s for q, s in zip(places, stride, strict=True)])


def crop_padding(name: str, x: Any, made: Any, lengths: Sequence[int], around: Pairs, more: Sequence[int]) -> Any:
    """The result without its padding, and with zeros after it where that asks for more than there is."""
    ends = [m - after + e for m, (_, after), e in zip(lengths, around, more, strict=True)]
    starts = [before for before, _ in around]
    if any(end <= start for start, end in zip(starts, ends, strict=True)):
        raise ShapeError(f"{name}: the padding cuts off all that {type_text(x)} gives", hint="less padding")
    lacking = [max(end - have, 0) for end, have in zip(ends, made.shape[2:], strict=True)]
    wide = pad_axes(made, tuple([(0, m) for m in lacking]))
    return wide[(..., *[slice(start, end) for start, end in zip(starts, ends, strict=True)])]
