"""Convolutions as windows contracted with a kernel, over one, two or three axes; kernels are OIHW."""

from __future__ import annotations

from typing import Any

from wholestep import numpy as wnp
from wholestep.errors import ParameterError, ShapeError
from wholestep.nn.spatial import by_rank
from wholestep.nn.windows import Ints, Padding, padded_as, rank_is, slide, type_text, windows

PLACES, INSIDE = "xyz", "ijk"
"""Labels of the places of windows, and of the places in one."""


def conv(
    name: str,
    n: int,
    x: Any,
    w: Any,
    b: Any = None,
    *,
    stride: Ints = 1,
    padding: Padding = 0,
    dilation: Ints = 1,
    groups: int = 1,
    padding_mode: str = "zeros",
) -> Any:
    """Correlate images with a kernel.

    `stride`, `padding` and `dilation` are an integer or one for each axis; padding may also be a pair (before, after)
    for each axis, "valid" for none, or "same" for the padding that makes ceil(size / stride) places, with one more
    after than before where the total is odd. The padding is zeros, or with `padding_mode` "reflect" the images
    reflected at their edge elements, with "replicate" copies of these, with "circular" the elements of the opposite
    side. Each of `groups` groups of output channels reads its own group of input channels.

    Shapes: x [n, c, height, width], w [o, c / groups, i, j] and b [o]; [n, o, ...], of the wider dtype.
    Raises: ShapeError for arrays that do not fit, ParameterError for invalid options.
    Source: Dumoulin and Visin, "A guide to convolution arithmetic for deep learning", 2016.

    >>> import numpy as np, wholestep as ws
    >>> x, w = np.ones((8, 3, 28, 28)), np.ones((16, 3, 5, 5))
    >>> ws.nn.conv2d(x, w, stride=2, padding=2).shape, ws.nn.conv2d(x, w, padding="same").shape
    ((8, 16, 14, 14), (8, 16, 28, 28))
    """
    x, w = wnp.asarray(x), wnp.asarray(w)
    rank_is(name, x, n + 2, "[n, channels, ...]")
    check_kernel_axes(name, w, n)
    check_kernel(name, x, w, n, groups, inputs=w.shape[1] * groups, split=w.shape[0])
    at = slide(name, x, n, w.shape[2:], stride, padding, dilation)
    return with_bias(name, correlated(windows(padded_as(name, x, at.around, padding_mode), at), w, n, groups), b, n)


conv1d, conv2d, conv3d = by_rank(
    conv,
    """
    >>> import numpy as np, wholestep as ws
    >>> ws.nn.conv1d(np.arange(4.0).reshape(1, 1, 4), np.array([[[-1.0, 1.0]]])).tolist()
    [[[1.0, 1.0, 1.0]]]
    """,
    """
    >>> import numpy as np, wholestep as ws
    >>> ws.nn.conv3d(np.ones((2, 3, 4, 4, 4)), np.ones((5, 3, 2, 2, 2)), stride=2).shape
    (2, 5, 2, 2, 2)
    """,
)


def check_kernel_axes(name: str, w: Any, n: int) -> None:
    """Raise ShapeError for a kernel that is not one over n axes."""
    if w.ndim != n + 2:
        raise ShapeError(f"{name}: the kernel is {type_text(w)}; it must have {n + 2} axes")


def check_kernel(name: str, x: Any, w: Any, n: int, groups: Any, *, inputs: Any, split: Any) -> None:
    """Raise ShapeError or ParameterError where a kernel that reads `inputs` channels does not fit x."""
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        raise ParameterError(f"{name}: groups is {groups!r}; it must be an integer of 1 or more")
    if x.shape[1] != inputs:
        raise ShapeError(
            f"{name}: x is {type_text(x)}, with {x.shape[1]} channels, and the kernel {type_text(w)} "
            f"with {groups} groups reads {inputs}",
            hint="the channels are axis 1, not the last one: np.moveaxis(x, -1, 1)"
            if x.shape[-1] == inputs
            else f"x is [n, channels, ...]; make the layer for {x.shape[1]} channels",
        )
    if split % groups:
        raise ShapeError(f"{name}: {groups} groups do not divide the {split} channels of the kernel {type_text(w)}")


def correlated(seen: Any, w: Any, n: int, groups: int) -> Any:
    """Windows [batch, c, *places, *size] and a kernel [o, c / groups, *size] -> [batch, o, *places]."""
    p, k = PLACES[:n], INSIDE[:n]
    if groups == 1:
        return wnp.einsum(f"nc{p}{k},oc{k}->no{p}", seen, w, optimize=True)
    batch, c, places, o = seen.shape[0], seen.shape[1], seen.shape[2 : 2 + n], w.shape[0]
    seen = seen.reshape(batch, groups, c // groups, *seen.shape[2:])
    own = w.reshape(groups, o // groups, *w.shape[1:])
    return wnp.einsum(f"ngc{p}{k},goc{k}->ngo{p}", seen, own, optimize=True).reshape(batch, o, *places)


def with_bias(name: str, y: Any, b: Any, n: int) -> Any:
    """y [batch, o, ...] and one number for each channel; raises ShapeError for another shape."""
    if b is None:
        return y
    each = wnp.asarray(b)
    if each.shape != (y.shape[1],):
        raise ShapeError(f"{name}: the bias is {type_text(each)}; it must be [{y.shape[1]}]")
    return y + each.reshape(-1, *[1] * n)
