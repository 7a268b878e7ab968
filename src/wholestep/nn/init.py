"""`ws.nn.init`: initial values of parameters; every draw takes a key, or a seed, and a shape.

The spread of the numbers follows from the fan-in, the number of inputs of one output, and the fan-out, the number of
outputs of one input. Layers assign the drawn arrays to fields, and a field can be assigned anew:

>>> import wholestep as ws
>>> layer = ws.nn.Linear(3, 4, key=0)
>>> layer.weight = ws.nn.init.orthogonal(1, layer.weight.shape)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp, random
from wholestep.errors import ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn.keys import as_key, drawn_as_zeros
from wholestep.nn.large_draws import draw_many
from wholestep.random.keys import shape_of


def fans(shape: Sequence[int], layout: str | None = None) -> tuple[int, int]:
    """Fan-in and fan-out of a weight.

    `layout` "io" is [in, out], as of Linear, and "oi" is [out, in, *size], as of a convolution, where each element of
    the window counts; if not given, "io" for two axes and "oi" for more. In a convolution with groups, "in" is the
    number of channels that a group reads.

    Shapes: a shape of two sizes or more; two integers.
    Raises: ShapeError for less than two axes and for no elements, ParameterError for another layout.
    Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks", 2010.

    >>> import wholestep as ws
    >>> ws.nn.init.fans((300, 10)), ws.nn.init.fans((16, 3, 5, 5))
    ((300, 10), (75, 400))
    """
    if layout not in (None, "io", "oi"):
        raise ParameterError(f"fans: layout is {layout!r}", hint='"io" and "oi" are known')
    shape = shape_of("fans", shape)
    if len(shape) < 2 or (layout == "io" and len(shape) > 2):
        raise ShapeError(f"fans: a weight of shape {shape} has no fan-in and fan-out in layout {layout}")
    inputs, outputs = shape[:2] if layout == "io" or (layout is None and len(shape) == 2) else (shape[1], shape[0])
    inside = math.prod(shape[2:])
    if not inputs * inside or not outputs:
        raise ShapeError(f"fans: a weight of shape {shape} has no elements, and what is drawn is divided by its fans")
    return inputs * inside, outputs * inside


GAINS = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": 2**0.5, "selu": 0.75}


def gain_of(nonlinearity: str, a: float = 0.0) -> float:
    """The factor that keeps the variance through a nonlinearity, `a` being the slope of "leaky_relu".

    Shapes: no arrays; a Python float.
    Raises: ParameterError for a nonlinearity without a factor.
    Source: PyTorch's calculate_gain.

    >>> import wholestep as ws
    >>> ws.nn.init.gain_of("tanh")
    1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + a * a))
    if nonlinearity not in GAINS:
        raise ParameterError(f"gain_of: {nonlinearity!r} has no gain", hint=f"{', '.join(GAINS)}, leaky_relu have one")
    return GAINS[nonlinearity]


def zeros(shape: Sequence[int], dtype: Any = dtypes.DRAWN) -> NDArray:
    """Zeros, as of biases.

    Shapes: zeros of `shape` and `dtype`.
    Raises: ShapeError for a shape that is not made of integers, TypeError for a dtype that is not supported.

    >>> import wholestep as ws
    >>> ws.nn.init.zeros((2,)).tolist()
    [0.0, 0.0]
    """
    return np.zeros(shape_of("zeros", shape), dtypes.check(dtype))


def ones(shape: Sequence[int], dtype: Any = dtypes.DRAWN) -> NDArray:
    """Ones, as of gains.

    Shapes: ones of `shape` and `dtype`.
    Raises: as `zeros` does.

    >>> import wholestep as ws
    >>> ws.nn.init.ones((2,)).tolist()
    [1.0, 1.0]
    """
    return np.ones(shape_of("ones", shape), dtypes.check(dtype))


def constant(shape: Sequence[int], value: float, dtype: Any = dtypes.DRAWN) -> NDArray:
    """`value` everywhere.

    Shapes: an array of `shape` and `dtype`.
    Raises: as `zeros` does.

    >>> import wholestep as ws
    >>> ws.nn.init.constant((2,), 0.5).tolist()
    [0.5, 0.5]
    """
    return np.full(shape_of("constant", shape), value, dtypes.check(dtype))


def scaled(drawn: Any, std: Any, mean: Any) -> Any:
    """drawn * std + mean in drawn's own memory."""
    drawn *= std
    drawn += mean
    return drawn


def normal(key: Any, shape: Sequence[int], std: float = 1.0, mean: float = 0.0, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Normal numbers of the mean `mean` and the standard deviation `std`.

    Shapes: key a seed or a key; floats of `shape` and `dtype`.
    Raises: as `ws.random.normal` does.
    Source: as `ws.random.normal`.

    >>> import wholestep as ws
    >>> ws.nn.init.normal(0, (2, 3), std=0.02).dtype
    dtype('float32')
    """
    if drawn_as_zeros.get():
        return zeros(shape, dtype)
    return scaled(draw_many(random.normal, key, shape, dtype), std, mean)


def truncated_normal(
    key: Any,
    shape: Sequence[int],
    std: float = 1.0,
    mean: float = 0.0,
    low: float = -2.0,
    high: float = 2.0,
    dtype: Any = dtypes.DRAWN,
) -> NDArray:
    """Normal numbers, only those between `low` and `high` standard deviations from the mean.

    `mean` and `std`, the standard deviation, are those before numbers are left out.

    Shapes: key a seed or a key; floats of `shape` and `dtype`.
    Raises: as `ws.random.truncated_normal` does.
    Source: as `ws.random.truncated_normal`.

    >>> import numpy as np, wholestep as ws
    >>> bool(np.abs(ws.nn.init.truncated_normal(0, (100,), std=0.5)).max() <= 1.0)
    True
    """
    if drawn_as_zeros.get():
        return zeros(shape, dtype)
    return scaled(draw_many(random.truncated_normal, key, shape, dtype, lower=low, upper=high), std, mean)


def uniform(key: Any, shape: Sequence[int], low: float = 0.0, high: float = 1.0, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Uniform numbers from [low, high).

    Shapes: key a seed or a key; floats of `shape` and `dtype`.
    Raises: as `ws.random.uniform` does.
    Source: as `ws.random.uniform`.

    >>> import numpy as np, wholestep as ws
    >>> bool(np.abs(ws.nn.init.uniform(0, (100,), -0.5, 0.5)).max() <= 0.5)
    True
    """
    if drawn_as_zeros.get():
        return zeros(shape, dtype)
    return draw_many(random.uniform, key, shape, dtype, minval=low, maxval=high)


def xavier_uniform(
    key: Any, shape: Sequence[int], gain: float = 1.0, *, layout: str | None = None, dtype: Any = dtypes.DRAWN
) -> NDArray:
    """Uniform numbers of variance gain**2 * 2 / (fan-in + fan-out); `layout` as in `fans`.

    Shapes: key a seed or a key; floats of `shape`, of two sizes or more, and `dtype`.
    Raises: as `fans` does.
    Source: as `fans`.

    >>> import numpy as np, wholestep as ws
    >>> bool(np.abs(ws.nn.init.xavier_uniform(0, (3, 3))).max() <= 1.0)
    True
    """
    return symmetric(key, shape, gain * (6 / sum(fans(shape, layout))) ** 0.5, dtype)


def xavier_normal(
    key: Any, shape: Sequence[int], gain: float = 1.0, *, layout: str | None = None, dtype: Any = dtypes.DRAWN
) -> NDArray:
    """Normal numbers of variance gain**2 * 2 / (fan-in + fan-out); `layout` as in `fans`.

    Shapes: key a seed or a key; floats of `shape`, of two sizes or more, and `dtype`.
    Raises: as `fans` does.
    Source: as `fans`.

    >>> import wholestep as ws
    >>> bool(0.09 < ws.nn.init.xavier_normal(0, (100, 100)).std() < 0.11)
    True
    """
    return normal(key, shape, gain * (2 / sum(fans(shape, layout))) ** 0.5, dtype=dtype)


def kaiming_uniform(
    key: Any,
    shape: Sequence[int],
    *,
    nonlinearity: str = "leaky_relu",
    a: float = 0.0,
    mode: str = "fan_in",
    layout: str | None = None,
    dtype: Any = dtypes.DRAWN,
) -> NDArray:
    """Uniform numbers of variance gain**2 / fan, the gain that of `nonlinearity` and `a`, as `gain_of` says.

    `mode`, "fan_in" or "fan_out", is which fan; `layout` is as in `fans`. With a = 5**0.5 the numbers lie within
    fan_in**-0.5, as those of new layers here and in PyTorch.

    Shapes: key a seed or a key; floats of `shape`, of two sizes or more, and `dtype`.
    Raises: as `fans` does, and ParameterError for a nonlinearity without a gain or another mode.
    Source: He, Zhang, Ren and Sun, "Delving deep into rectifiers", 2015.

    >>> import numpy as np, wholestep as ws
    >>> bool(np.abs(ws.nn.init.kaiming_uniform(0, (100, 7), a=5**0.5)).max() <= 0.1)
    True
    """
    return symmetric(key, shape, gain_of(nonlinearity, a) * (3 / fan_of(shape, mode, layout)) ** 0.5, dtype)


def kaiming_normal(
    key: Any,
    shape: Sequence[int],
    *,
    nonlinearity: str = "leaky_relu",
    a: float = 0.0,
    mode: str = "fan_in",
    layout: str | None = None,
    dtype: Any = dtypes.DRAWN,
) -> NDArray:
    """Normal numbers of variance gain**2 / fan; options are those of `kaiming_uniform`.

    Shapes: key a seed or a key; floats of `shape`, of two sizes or more, and `dtype`.
    Raises: as `kaiming_uniform` does.
    Source: as `kaiming_uniform`.

    >>> import wholestep as ws
    >>> bool(0.13 < ws.nn.init.kaiming_normal(0, (100, 100)).std() < 0.15)
    True
    """
    return normal(key, shape, gain_of(nonlinearity, a) * fan_of(shape, mode, layout) ** -0.5, dtype=dtype)


def lecun_uniform(key: Any, shape: Sequence[int], *, layout: str | None = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Uniform numbers of variance 1 / fan-in; `layout` as in `fans`.

    Shapes: key a seed or a key; floats of `shape`, of two sizes or more, and `dtype`.
    Raises: as `fans` does.
    Source: LeCun, Bottou, Orr and Müller, "Efficient backprop", 1998.

    >>> import numpy as np, wholestep as ws
    >>> bool(np.abs(ws.nn.init.lecun_uniform(0, (3, 5))).max() <= 1.0)
    True
    """
    return symmetric(key, shape, (3 / fans(shape, layout)[0]) ** 0.5, dtype)


def lecun_normal(key: Any, shape: Sequence[int], *, layout: str | None = None, dtype: Any = dtypes.DRAWN) -> NDArray:
    """Normal numbers of variance 1 / fan-in; `layout` as in `fans`.

    Shapes: key a seed or a key; floats of `shape`, of two sizes or more, and `dtype`.
    Raises: as `fans` does.
    Source: as `lecun_uniform`.

    >>> import wholestep as ws
    >>> bool(0.09 < ws.nn.init.lecun_normal(0, (100, 100)).std() < 0.11)
    True
    """
    return normal(key, shape, fans(shape, layout)[0] ** -0.5, dtype=dtype)


def orthogonal(key: Any, shape: Sequence[int], gain: float = 1.0, *, dtype: Any = dtypes.DRAWN) -> NDArray:
    """A matrix [shape[0], the rest] with orthonormal rows or columns, whichever are fewer, times `gain`.

    Shapes: key a seed or a key; floats of `shape`, of two sizes or more, and `dtype`.
    Raises: ShapeError for less than two axes.
    Source: Saxe, McClelland and Ganguli, "Exact solutions to the nonlinear dynamics of learning in deep linear neural
    networks", 2014.

    >>> import numpy as np, wholestep as ws
    >>> w = ws.nn.init.orthogonal(0, (3, 5), dtype="float64")
    >>> bool(np.allclose(w @ w.T, np.eye(3)))
    True
    """
    shape = shape_of("orthogonal", shape)
    if len(shape) < 2:
        raise ShapeError(f"orthogonal: shape {shape} has less than two axes")
    if drawn_as_zeros.get():
        return zeros(shape, dtype)
    rows, columns = shape[0], math.prod(shape[1:])
    drawn = random.normal(as_key(key), (max(rows, columns), min(rows, columns)), np.float64)
    q, r = wnp.linalg.qr(drawn)
    q = q * wnp.where(wnp.diagonal(r) < 0, -1.0, 1.0)
    return (gain * (q.T if rows < columns else q)).reshape(shape).astype(dtypes.check(dtype))


def delta_orthogonal(key: Any, shape: Sequence[int], gain: float = 1.0, *, dtype: Any = dtypes.DRAWN) -> NDArray:
    """A weight [out, in, *size] of a convolution: an orthogonal matrix in the middle of the window, and 0 elsewhere.

    The number of outputs must be at least that of inputs: the convolution then preserves the norm of its input. The
    matrix is multiplied by `gain`.

    Shapes: key a seed or a key; floats of `shape`, of three to five sizes, and `dtype`.
    Raises: ShapeError for another number of axes, and for fewer outputs than inputs.
    Source: Xiao et al., "Dynamical isometry and a mean field theory of CNNs", 2018.

    >>> import numpy as np, wholestep as ws
    >>> w = ws.nn.init.delta_orthogonal(0, (4, 2, 3), dtype="float64")
    >>> bool(np.allclose(w[:, :, 1].T @ w[:, :, 1], np.eye(2))), float(abs(w[:, :, ::2]).max())
    (True, 0.0)
    """
    shape = shape_of("delta_orthogonal", shape)
    if not 3 <= len(shape) <= 5 or shape[0] < shape[1]:
        raise ShapeError(
            f"delta_orthogonal: shape {shape} must be [out, in, *size] of three to five sizes",
            hint="with at least as many outputs as inputs",
        )
    made = wnp.zeros(shape, dtypes.check(dtype))
    middle = (slice(None), slice(None), *[(n - 1) // 2 for n in shape[2:]])
    made[middle] = orthogonal(key, shape[:2], gain, dtype=dtype)
    return made


SPREADS = {"truncated_normal": 0.87962566103423978, "normal": 1.0, "uniform": 1.0}
"""The distributions of `variance_scaling`, each with the standard deviation that its numbers have of the one given."""


def variance_scaling(
    key: Any,
    shape: Sequence[int],
    scale: float = 1.0,
    *,
    mode: str = "fan_in",
    distribution: str = "truncated_normal",
    layout: str | None = None,
    dtype: Any = dtypes.DRAWN,
) -> NDArray:
    """Numbers of variance scale / fan; `layout` as in `fans`.

    `mode` says which fan: "fan_in", "fan_out" or "fan_avg", the mean of both. `distribution` is "truncated_normal", of
    two standard deviations, "normal" or "uniform".

    Shapes: key a seed or a key; floats of `shape`, of two sizes or more, and `dtype`.
    Raises: ParameterError for another mode or distribution and for a scale that is not positive, and as `fans` does.
    Source: `jax.nn.initializers.variance_scaling`; `keras.initializers.VarianceScaling`.

    >>> import wholestep as ws
    >>> bool(0.13 < ws.nn.init.variance_scaling(0, (100, 100), 2.0).std() < 0.15)
    True
    """
    if distribution not in SPREADS:
        raise ParameterError(
            f"variance_scaling: distribution is {distribution!r}", hint=f"{', '.join(SPREADS)} are known"
        )
    if mode not in ("fan_in", "fan_out", "fan_avg"):
        raise ParameterError(f"variance_scaling: mode is {mode!r}", hint="fan_in, fan_out and fan_avg are known")
    if not scale > 0:
        raise ParameterError(f"variance_scaling: scale is {scale}; it must be positive")
    inputs, outputs = fans(shape, layout)
    fan = {"fan_in": inputs, "fan_out": outputs, "fan_avg": (inputs + outputs) / 2}[mode]
    deviation = math.sqrt(scale / fan)
    if distribution == "uniform":
        return symmetric(key, shape, math.sqrt(3) * deviation, dtype)
    drawn = normal if distribution == "normal" else truncated_normal
    return drawn(key, shape, deviation / SPREADS[distribution], dtype=dtype)


def symmetric(key: Any, shape: Sequence[int], bound: float, dtype: Any) -> Any:
    """Uniform numbers from [-bound, bound)."""
    return uniform(key, shape, -bound, bound, dtype)


def fan_of(shape: Sequence[int], mode: str, layout: str | None) -> int:
    """Fan-in or fan-out, by name."""
    if mode not in ("fan_in", "fan_out"):
        raise ParameterError(f"kaiming: mode is {mode!r}", hint='"fan_in" and "fan_out" are known')
    return fans(shape, layout)[mode == "fan_out"]
