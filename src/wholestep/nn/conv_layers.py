"""Convolution layers: a kernel, a bias, and the stride, padding and dilation of their windows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from wholestep.errors import ParameterError
from wholestep.nn import init
from wholestep.nn.convolution import conv1d, conv2d, conv3d
from wholestep.nn.keys import keys_from
from wholestep.nn.linears import sized
from wholestep.nn.module import Module
from wholestep.nn.spatial import like_images
from wholestep.nn.transposed import conv_transpose1d, conv_transpose2d, conv_transpose3d
from wholestep.nn.windows import PADDING_MODES, Ints, Padding, per_axis


class Convolution(Module):
    """The common part of convolutions: `function` over `n` axes, with a kernel and a bias [out].

    Both are drawn uniformly within fan_in**-0.5, as in PyTorch, where the fan-in is axis 1 of the kernel times the
    window.
    """

    undecayed = ("bias",)
    n: ClassVar[int]
    function: ClassVar[Callable[..., Any]]
    transposed: ClassVar[bool] = False
    window_options: ClassVar[tuple[str, ...]] = ("stride", "padding", "dilation", "groups", "padding_mode")

    _draws = True

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: Ints,
        *,
        key: Any = None,
        stride: Ints = 1,
        padding: Padding = 0,
        dilation: Ints = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        name = type(self).__name__
        sized(name, inputs=inputs, outputs=outputs, groups=groups)
        if inputs % groups or outputs % groups:
            raise ParameterError(f"{name}: {groups} groups do not divide {inputs} and {outputs} channels")
        if padding_mode not in (PADDING_MODES if "padding_mode" in self.window_options else ("zeros",)):
            known = (
                "a transposed convolution pads with zeros"
                if self.transposed
                else f"{', '.join(PADDING_MODES)} are known"
            )
            raise ParameterError(f"{name}: padding_mode is {padding_mode!r}", hint=known)
        first, second = (inputs, outputs) if self.transposed else (outputs, inputs)
        shape = (first, second // groups, *per_axis(name, "size", size, self.n))
        for_weight, for_bias = keys_from(key, 2)
        self.weight = init.kaiming_uniform(for_weight, shape, a=5**0.5, layout="oi", dtype=dtype)
        bound = init.fans(shape, "oi")[0] ** -0.5
        self.bias = init.symmetric(for_bias, (outputs,), bound, dtype) if bias else None
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.padding_mode = padding_mode

    def __call__(self, x: Any) -> Any:
        return type(self).function(x, self.weight, self.bias, **self.options())

    def options(self) -> dict[str, Any]:
        """The options of the windows."""
        return {name: getattr(self, name) for name in self.window_options}


class Conv2d(Convolution):
    """`conv2d` with a kernel and a bias of its own.

    `inputs` and `outputs` are numbers of channels, `size` is that of the kernel, an integer or one for each axis;
    `stride`, `padding`, `dilation`, `groups` and `padding_mode` are those of `conv2d`. `key` is a seed or a key,
    `bias=False` leaves the bias out, and `dtype` is that of both. Kernel and bias are drawn uniformly within (inputs /
    groups * i * j)**-0.5, as in PyTorch.

    Shapes: x floats [n, inputs, height, width]; [n, outputs, ...]. `weight` is [outputs, inputs / groups, i, j].
    Raises: ParameterError for sizes that are not positive integers and for groups that do not divide the channels, and
    as `conv2d` does.
    Source: as `conv2d`.

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.Conv2d(3, 8, 3, key=0, padding="same")
    >>> layer(np.ones((2, 3, 5, 5), np.float32)).shape
    (2, 8, 5, 5)
    """

    n, function = 2, staticmethod(conv2d)


@like_images(1, Conv2d)
class Conv1d(Convolution):
    n, function = 1, staticmethod(conv1d)


@like_images(3, Conv2d)
class Conv3d(Convolution):
    n, function = 3, staticmethod(conv3d)


class TransposedConvolution(Convolution):
    """The common part of transposed convolutions."""

    transposed = True
    window_options = Convolution.window_options[:-1]

    def __init__(
        self, inputs: int, outputs: int, size: Ints, *, key: Any = None, output_padding: Ints = 0, **options: Any
    ) -> None:
        super().__init__(inputs, outputs, size, key=key, **options)
        self.output_padding = output_padding

    def options(self) -> dict[str, Any]:
        return {**super().options(), "output_padding": self.output_padding}


class ConvTranspose2d(TransposedConvolution):
    """`conv_transpose2d` with a kernel and a bias of its own.

    Arguments and `options` are those of `Conv2d` but for `padding_mode`, and `output_padding` is that of
    `conv_transpose2d`. Kernel and bias are drawn uniformly within (outputs / groups * i * j)**-0.5, as in PyTorch.

    Shapes: x floats [n, inputs, height, width]; [n, outputs, ...]. `weight` is [inputs, outputs / groups, i, j].
    Raises: as `Conv2d` and `conv_transpose2d` do.
    Source: as `conv_transpose2d`.

    >>> import numpy as np, wholestep as ws
    >>> layer = ws.nn.ConvTranspose2d(8, 3, 4, key=0, stride=2, padding=1)
    >>> layer(np.ones((2, 8, 5, 5), np.float32)).shape
    (2, 3, 10, 10)
    """

    n, function = 2, staticmethod(conv_transpose2d)


@like_images(1, ConvTranspose2d)
class ConvTranspose1d(TransposedConvolution):
    n, function = 1, staticmethod(conv_transpose1d)


@like_images(3, ConvTranspose2d)
class ConvTranspose3d(TransposedConvolution):
    n, function = 3, staticmethod(conv_transpose3d)
