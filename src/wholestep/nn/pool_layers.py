"""Pooling and resampling as layers: a function of this package with its options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from wholestep.nn.module import Module
from wholestep.nn.pooling import (
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    max_pool1d,
    max_pool2d,
    max_pool3d,
)
from wholestep.nn.resampling import upsample
from wholestep.nn.windows import Ints, Padding


@dataclass(eq=False, repr=False)
class MaxPool(Module):
    """The common part of the max pools."""

    size: Ints
    stride: Ints | None = None
    padding: Padding = 0
    ceil_mode: bool = False
    function: ClassVar[Callable[..., Any]]

    def __call__(self, x: Any) -> Any:
        return type(self).function(x, self.size, self.stride, self.padding, ceil_mode=self.ceil_mode)


class MaxPool1d(MaxPool):
    """`max_pool1d` as a layer.

    Shapes: x floats [n, c, length]; [n, c, ...].
    Raises: in the call, as `max_pool1d` does.
    Source: as `max_pool1d`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.MaxPool1d(2)(np.ones((1, 3, 4))).shape
    (1, 3, 2)
    """

    function = staticmethod(max_pool1d)


class MaxPool2d(MaxPool):
    """`max_pool2d` as a layer.

    Shapes: x floats [n, c, height, width]; [n, c, ...].
    Raises: in the call, as `max_pool2d` does.
    Source: as `max_pool2d`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.MaxPool2d(2)(np.ones((1, 3, 4, 4))).shape
    (1, 3, 2, 2)
    """

    function = staticmethod(max_pool2d)


class MaxPool3d(MaxPool):
    """`max_pool3d` as a layer.

    Shapes: x floats [n, c, depth, height, width]; [n, c, ...].
    Raises: in the call, as `max_pool3d` does.
    Source: as `max_pool3d`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.MaxPool3d(2)(np.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 2, 2, 2)
    """

    function = staticmethod(max_pool3d)


@dataclass(eq=False, repr=False)
class AvgPool(Module):
    """The common part of the mean pools."""

    size: Ints
    stride: Ints | None = None
    padding: Padding = 0
    ceil_mode: bool = False
    count_include_pad: bool = True
    function: ClassVar[Callable[..., Any]]

    def __call__(self, x: Any) -> Any:
        options = {"ceil_mode": self.ceil_mode, "count_include_pad": self.count_include_pad}
        return type(self).function(x, self.size, self.stride, self.padding, **options)


class AvgPool1d(AvgPool):
    """`avg_pool1d` as a layer.

    Shapes: x floats [n, c, length]; [n, c, ...].
    Raises: in the call, as `avg_pool1d` does.
    Source: as `avg_pool1d`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.AvgPool1d(2)(np.ones((1, 3, 4))).shape
    (1, 3, 2)
    """

    function = staticmethod(avg_pool1d)


class AvgPool2d(AvgPool):
    """`avg_pool2d` as a layer.

    Shapes: x floats [n, c, height, width]; [n, c, ...].
    Raises: in the call, as `avg_pool2d` does.
    Source: as `avg_pool2d`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.AvgPool2d(3, stride=2, padding=1)(np.ones((1, 3, 4, 4))).shape
    (1, 3, 2, 2)
    """

    function = staticmethod(avg_pool2d)


class AvgPool3d(AvgPool):
    """`avg_pool3d` as a layer.

    Shapes: x floats [n, c, depth, height, width]; [n, c, ...].
    Raises: in the call, as `avg_pool3d` does.
    Source: as `avg_pool3d`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.AvgPool3d(2)(np.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 2, 2, 2)
    """

    function = staticmethod(avg_pool3d)


@dataclass(eq=False, repr=False)
class AdaptiveMaxPool(Module):
    """`adaptive_max_pool` as a layer.

    Shapes: x floats [n, c, ...]; [n, c, *size].
    Raises: in the call, as `adaptive_max_pool` does.
    Source: as `adaptive_max_pool`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.AdaptiveMaxPool((2, 3))(np.ones((1, 4, 8, 9))).shape
    (1, 4, 2, 3)
    """

    size: Ints

    def __call__(self, x: Any) -> Any:
        return adaptive_max_pool(x, self.size)


@dataclass(eq=False, repr=False)
class AdaptiveAvgPool(Module):
    """`adaptive_avg_pool` as a layer.

    Shapes: x floats [n, c, ...]; [n, c, *size].
    Raises: in the call, as `adaptive_avg_pool` does.
    Source: as `adaptive_avg_pool`.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.AdaptiveAvgPool((2, 3))(np.ones((1, 4, 8, 9))).shape
    (1, 4, 2, 3)
    """

    size: Ints

    def __call__(self, x: Any) -> Any:
        return adaptive_avg_pool(x, self.size)


@dataclass(eq=False, repr=False)
class Upsample(Module):
    """`upsample` as a layer.

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

    def __call__(self, x: Any) -> Any:
        return upsample(x, self.scale, size=self.size, mode=self.mode)
