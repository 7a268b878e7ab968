"""Pooling and resampling as layers: a function of this package with its options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from wholestep.nn.module import Module
from wholestep.nn.pooling import (
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from wholestep.nn.resampling import upsample
from wholestep.nn.spatial import like_images
from wholestep.nn.unpooling import max_unpool1d, max_unpool2d, max_unpool3d
from wholestep.nn.windows import Ints, Padding


class Resampled(Module):
    """The common part of these layers: `function`, whose options are the fields."""

    function: ClassVar[Callable[..., Any]]

    def __call__(self, x: Any) -> Any:
        options = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return type(self).function(x, **options)


@dataclass(eq=False, repr=False)
class WindowPool(Resampled):
    """The common part of pools of windows."""

    size: Ints
    stride: Ints | None = None
    padding: Padding = 0
    ceil_mode: bool = False


@dataclass(eq=False, repr=False)
class MaxPool(WindowPool):
    """The common part of the maximum pools."""

    dilation: Ints = 1
    return_indices: bool = False


class MaxPool2d(MaxPool):
    """`max_pool2d` as a layer.

    Arguments are those of `max_pool2d`.

    Shapes: x floats [n, c, height, width]; [n, c, ...].
    Raises: in the call, as `max_pool2d` does.
    Source: as `max_pool2d`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.MaxPool2d(2)(np.ones((1, 3, 4, 4))).shape
    (1, 3, 2, 2)
    """

    function = staticmethod(max_pool2d)


@like_images(1, MaxPool2d)
class MaxPool1d(MaxPool):
    function = staticmethod(max_pool1d)


@like_images(3, MaxPool2d)
class MaxPool3d(MaxPool):
    function = staticmethod(max_pool3d)


@dataclass(eq=False, repr=False)
class AvgPool(WindowPool):
    """The common part of the mean pools."""

    count_include_pad: bool = True


class AvgPool2d(AvgPool):
    """`avg_pool2d` as a layer.

    Arguments are those of `avg_pool2d`.

    Shapes: x floats [n, c, height, width]; [n, c, ...].
    Raises: in the call, as `avg_pool2d` does.
    Source: as `avg_pool2d`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.AvgPool2d(3, stride=2, padding=1)(np.ones((1, 3, 4, 4))).shape
    (1, 3, 2, 2)
    """

    function = staticmethod(avg_pool2d)


@like_images(1, AvgPool2d)
class AvgPool1d(AvgPool):
    function = staticmethod(avg_pool1d)


@like_images(3, AvgPool2d)
class AvgPool3d(AvgPool):
    function = staticmethod(avg_pool3d)


@dataclass(eq=False, repr=False)
class LpPool(Resampled):
    """The common part of the pools by a norm."""

    p: float
    size: Ints
    stride: Ints | None = None
    padding: Padding = 0
    ceil_mode: bool = False


class LpPool2d(LpPool):
    """`lp_pool2d` as a layer.

    Arguments are those of `lp_pool2d`.

    Shapes: x floats [n, c, height, width]; [n, c, ...].
    Raises: in the call, as `lp_pool2d` does.
    Source: as `lp_pool2d`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.LpPool2d(3, 2)(np.ones((1, 3, 4, 4))).shape
    (1, 3, 2, 2)
    """

    function = staticmethod(lp_pool2d)


@like_images(1, LpPool2d)
class LpPool1d(LpPool):
    function = staticmethod(lp_pool1d)


@like_images(3, LpPool2d)
class LpPool3d(LpPool):
    function = staticmethod(lp_pool3d)


@dataclass(eq=False, repr=False)
class MaxUnpool(Module):
    """The common part of the partial inverses of maximum pools."""

    function: ClassVar[Callable[..., Any]]
    size: Ints
    stride: Ints | None = None
    padding: Ints = 0

    def __call__(self, x: Any, indices: Any, output_size: Ints | None = None) -> Any:
        return type(self).function(x, indices, self.size, self.stride, self.padding, output_size=output_size)


class MaxUnpool2d(MaxUnpool):
    """`max_unpool2d` as a layer of x and the indices that `MaxPool2d(..., return_indices=True)` gave.

    Arguments are those of `max_unpool2d`.

    Shapes: x floats [n, c, height, width], indices integers of that shape; [n, c, ...].
    Raises: in the call, as `max_unpool2d` does.
    Source: as `max_unpool2d`.

    >>> import numpy as np, wholestep as ws
    >>> x, at = ws.nn.MaxPool2d(2, return_indices=True)(np.ones((1, 3, 4, 4)))
    >>> ws.nn.MaxUnpool2d(2)(x, at).shape
    (1, 3, 4, 4)
    """

    function = staticmethod(max_unpool2d)


@like_images(1, MaxUnpool2d)
class MaxUnpool1d(MaxUnpool):
    function = staticmethod(max_unpool1d)


@like_images(3, MaxUnpool2d)
class MaxUnpool3d(MaxUnpool):
    function = staticmethod(max_unpool3d)


@dataclass(eq=False, repr=False)
class AdaptiveMaxPool(Resampled):
    """`adaptive_max_pool` as a layer.

    Shapes: x floats [n, c, ...]; [n, c, *size].
    Raises: in the call, as `adaptive_max_pool` does.
    Source: as `adaptive_max_pool`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.AdaptiveMaxPool((2, 3))(np.ones((1, 4, 8, 9))).shape
    (1, 4, 2, 3)
    """

    size: Ints
    function = staticmethod(adaptive_max_pool)


@dataclass(eq=False, repr=False)
class AdaptiveAvgPool(Resampled):
    """`adaptive_avg_pool` as a layer.

    Shapes: x floats [n, c, ...]; [n, c, *size].
    Raises: in the call, as `adaptive_avg_pool` does.
    Source: as `adaptive_avg_pool`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.AdaptiveAvgPool((2, 3))(np.ones((1, 4, 8, 9))).shape
    (1, 4, 2, 3)
    """

    size: Ints
    function = staticmethod(adaptive_avg_pool)


@dataclass(eq=False, repr=False)
class Upsample(Resampled):
    """`upsample` as a layer.

    Arguments are those of `upsample`.

    Shapes: x [n, c, ...]; [n, c, ...].
    Raises: in the call, as `upsample` does.
    Source: as `upsample`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.Upsample(2, mode="bilinear")(np.ones((1, 3, 4, 4))).shape
    (1, 3, 8, 8)
    """

    scale: float | Sequence[float] | None = None
    size: Ints | None = None
    mode: str = "nearest"
    function = staticmethod(upsample)
