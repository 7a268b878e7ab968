"""Activations: functions of one number each.

At a kink the derivative is 0 where one side is flat, so relu'(0) = 0.
"""

from __future__ import annotations

import math
from typing import Any

from wholestep import numpy as wnp
from wholestep.boundary.public import boundary
from wholestep.errors import ParameterError, ShapeError
from wholestep.ir.graph import NDArray
from wholestep.nn.exponentials import in_single, pointwise

SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772
"""The constants for which mean 0 and variance 1 are a fixed point of `selu`."""


def relu(x: Any) -> NDArray:
    """max(x, 0), with derivative 0 at 0.

    nan stays nan.

    Shapes: x of any shape and numeric dtype; the same.
    Raises: nothing of its own.
    Source: Nair and Hinton, "Rectified linear units improve restricted Boltzmann machines", 2010.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.relu(np.array([-1.0, 2.0])).tolist(), float(ws.grad(ws.nn.relu)(0.0))
    ([0.0, 2.0], 0.0)
    """
    a = wnp.asarray(x)
    return wnp.where(a <= 0, 0, a)


def relu6(x: Any) -> NDArray:
    """min(max(x, 0), 6).

    Shapes: x of any shape and numeric dtype; the same.
    Raises: nothing of its own.
    Source: Krizhevsky, "Convolutional deep belief networks on CIFAR-10", 2010.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.relu6(np.array([-1.0, 3.0, 9.0])).tolist()
    [0.0, 3.0, 6.0]
    """
    return hardtanh(x, 0, 6)


def hardtanh(x: Any, low: float = -1, high: float = 1) -> NDArray:
    """x held between `low` and `high`, with derivative 0 at the bounds themselves.

    Shapes: x of any shape, real; the same shape and dtype.
    Raises: ParameterError where the bounds are equal or in the wrong order.
    Source: Collobert, "Large scale machine learning", 2004.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.hardtanh(np.array([-3.0, 0.5])).tolist()
    [-1.0, 0.5]
    """
    if not low < high:
        wrong = "are equal, which leaves one number" if low == high else "are not in order"
        raise ParameterError(f"hardtanh: the bounds {low} and {high} {wrong}", hint="give the lower one first: -1, 1")
    return in_single(lambda a: wnp.where(a <= low, low, wnp.where(a >= high, high, a)), x)


def leaky_relu(x: Any, slope: float = 0.01) -> NDArray:
    """x where it is positive, slope * x elsewhere.

    Shapes: x floats of any shape; the same.
    Raises: nothing of its own.
    Source: Maas, Hannun and Ng, "Rectifier nonlinearities improve neural network acoustic models", 2013.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.leaky_relu(np.array([-2.0, 2.0]), 0.5).tolist()
    [-1.0, 2.0]
    """
    return in_single(lambda a: wnp.where(a > 0, a, slope * a), x)


def prelu(x: Any, slope: Any) -> NDArray:
    """Leaky ReLU with slopes that are trained: one for all, or one for each channel (axis 1).

    Shapes: x floats [n, channels, ...], slope a scalar, [1] or [channels]; the shape of x.
    Raises: ShapeError for slopes that are neither.
    Source: He, Zhang, Ren and Sun, "Delving deep into rectifiers", 2015.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.prelu(np.array([[-2.0, -2.0]]), np.array([0.5, 0.25])).tolist()
    [[-1.0, -0.5]]
    """
    a, each = wnp.asarray(x), wnp.asarray(slope)
    if each.ndim > 1 or (each.size > 1 and (a.ndim < 2 or a.shape[1] != each.shape[0])):
        raise ShapeError(
            f"prelu: slopes of shape {each.shape} for x of shape {a.shape}", hint="one slope, or x.shape[1]"
        )
    if each.size > 1:
        each = each.reshape(-1, *[1] * (a.ndim - 2))
    return wnp.where(a > 0, a, each * a)


def elu(x: Any, alpha: float = 1.0) -> NDArray:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere.

    Shapes: x floats of any shape; the same.
    Raises: nothing of its own.
    Source: Clevert, Unterthiner and Hochreiter, "Fast and accurate deep network learning by exponential linear units",
    2016.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.elu(np.array([-1.0, 2.0])).round(4).tolist()
    [-0.6321, 2.0]
    """
    return in_single(lambda a: wnp.where(a > 0, a, alpha * wnp.expm1(wnp.where(a > 0, 0, a))), x)


def selu(x: Any) -> NDArray:
    """ELU with the two constants that keep mean 0 and variance 1.

    Shapes: x floats of any shape; the same.
    Raises: nothing of its own.
    Source: Klambauer, Unterthiner, Mayr and Hochreiter, "Self-normalizing neural networks", 2017.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.selu(np.array([-1.0, 1.0])).round(4).tolist()
    [-1.1113, 1.0507]
    """
    return in_single(lambda a: SELU_SCALE * elu(a, SELU_ALPHA), x)


def celu(x: Any, alpha: float = 1.0) -> NDArray:
    """x where it is positive, alpha * (exp(x / alpha) - 1) elsewhere: smooth for every alpha.

    Shapes: x floats of any shape; the same.
    Raises: ParameterError for alpha 0.
    Source: Barron, "Continuously differentiable exponential linear units", 2017.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.celu(np.array([-1.0, 2.0]), 2.0).round(4).tolist()
    [-0.7869, 2.0]
    """
    if alpha == 0:
        raise ParameterError("celu: alpha is 0")
    return in_single(lambda a: wnp.where(a > 0, a, alpha * wnp.expm1(wnp.where(a > 0, 0, a) / alpha)), x)


def normal_cdf(a: Any) -> Any:
    """The normal distribution function."""
    import scipy.special

    return 0.5 * (1 + scipy.special.erf(a * 0.5**0.5))


def density(a: Any) -> Any:
    """The normal density, the derivative of `normal_cdf`."""
    return (2 * math.pi) ** -0.5 * wnp.exp(-0.5 * a * a)


def near_normal(a: Any) -> Any:
    """An approximation of the normal distribution function."""
    return 0.5 * (1 + tanh((2 / math.pi) ** 0.5 * (a + 0.044715 * a * a * a)))


def near_slope(a: Any) -> Any:
    """The derivative of a * near_normal(a)."""
    share = near_normal(a)
    return share + (8 / math.pi) ** 0.5 * share * (1 - share) * (a + 3 * 0.044715 * a * a * a)


def gelu(x: Any, approximate: str = "none") -> NDArray:
    """x times the normal distribution function at x.

    `approximate="tanh"` takes 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3))) in its place.

    Shapes: x floats of any shape; the same.
    Raises: ParameterError for another word.
    Source: Hendrycks and Gimpel, "Gaussian error linear units (GELUs)", 2016.

    >>> import wholestep as ws
    >>> round(float(ws.nn.gelu(1.0)), 4), round(float(ws.nn.gelu(1.0, "tanh")), 4)
    (0.8413, 0.8412)
    """
    if approximate == "none":
        return in_single(pointwise(lambda a: a * normal_cdf(a), lambda a: normal_cdf(a) + a * density(a), "gelu"), x)
    if approximate == "tanh":
        return in_single(pointwise(lambda a: a * near_normal(a), near_slope, "gelu"), x)
    raise ParameterError(f"gelu: approximate is {approximate!r}", hint='"none" and "tanh" are known')


def tanh(x: Any) -> NDArray:
    """The hyperbolic tangent, (exp(x) - exp(-x)) / (exp(x) + exp(-x)).

    Shapes: x floats or complex numbers of any shape; the same.
    Raises: nothing of its own.
    Source: "NIST handbook of mathematical functions", 2010, section 4.28.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.tanh(np.array([0.0, 1.0])).round(4).tolist()
    [0.0, 0.7616]
    """
    return in_single(wnp.tanh, x)


def sigmoid(x: Any) -> NDArray:
    """1 / (1 + exp(-x)), without overflow.

    Shapes: x floats of any shape; the same.
    Raises: TypeError for complex numbers.
    Source: Verhulst, "Recherches mathématiques sur la loi d'accroissement de la population", 1845.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.sigmoid(np.array([0.0, -1000.0])).tolist()
    [0.5, 0.0]
    """
    import scipy.special

    return in_single(scipy.special.expit, x)


def silu(x: Any) -> NDArray:
    """x * sigmoid(x), also called swish.

    Shapes: x floats of any shape; the same.
    Raises: TypeError for complex numbers.
    Source: Elfwing, Uchibe and Doya, "Sigmoid-weighted linear units for neural network function approximation in
    reinforcement learning", 2018.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.silu(np.array([0.0, 1.0])).round(4).tolist()
    [0.0, 0.7311]
    """

    def slope(a: Any) -> Any:
        share = sigmoid(a)
        return share * (1 + a * (1 - share))

    return in_single(pointwise(lambda a: a * sigmoid(a), slope, "silu"), x)


def mish(x: Any) -> NDArray:
    """x * tanh(softplus(x)).

    Shapes: x floats of any shape; the same.
    Raises: TypeError for complex numbers.
    Source: Misra, "Mish: a self regularized non-monotonic activation function", 2019.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.mish(np.array([0.0, 1.0])).round(4).tolist()
    [0.0, 0.8651]
    """

    def slope(a: Any) -> Any:
        share = tanh(softplus(a))
        return share + a * (1 - share * share) * sigmoid(a)

    return in_single(pointwise(lambda a: a * tanh(softplus(a)), slope, "mish"), x)


def softplus(x: Any, beta: float = 1.0) -> NDArray:
    """log(1 + exp(beta * x)) / beta, without overflow.

    Shapes: x floats of any shape; the same.
    Raises: ParameterError for beta 0 or less.
    Source: Dugas et al., "Incorporating second-order functional knowledge for better option pricing", 2001.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.softplus(np.array([0.0, 1000.0])).round(4).tolist()
    [0.6931, 1000.0]
    """
    if not beta > 0:
        raise ParameterError(f"softplus: beta is {beta}; it must be positive")
    return in_single(lambda a: wnp.logaddexp(a if beta == 1 else beta * a, 0) / beta, x)


def softsign(x: Any) -> NDArray:
    """x / (1 + |x|).

    Shapes: x floats of any shape; the same.
    Raises: nothing of its own.
    Source: Turian, Bergstra and Bengio, "Quadratic features and deep architectures for chunking", 2009.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.softsign(np.array([-1.0, 3.0])).tolist()
    [-0.5, 0.75]
    """
    a = wnp.asarray(x)
    return a / (1 + wnp.abs(a))


def hardsigmoid(x: Any) -> NDArray:
    """relu6(x + 3) / 6.

    Shapes: x floats of any shape; the same.
    Raises: nothing of its own.
    Source: Howard et al., "Searching for MobileNetV3", 2019.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.hardsigmoid(np.array([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """
    return relu6(wnp.asarray(x) + 3) / 6


def hardswish(x: Any) -> NDArray:
    """x * relu6(x + 3) / 6.

    Shapes: x floats of any shape; the same.
    Raises: nothing of its own.
    Source: Howard et al., "Searching for MobileNetV3", 2019.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.hardswish(np.array([-1.0, 0.0, 4.0])).round(4).tolist()
    [-0.3333, 0.0, 4.0]
    """
    return wnp.asarray(x) * hardsigmoid(x)


def tanhshrink(x: Any) -> NDArray:
    """x - tanh(x).

    Shapes: x floats of any shape; the same.
    Raises: nothing of its own.
    Source: PyTorch's Tanhshrink.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.tanhshrink(np.array([0.0, 1.0])).round(4).tolist()
    [0.0, 0.2384]
    """
    return in_single(lambda a: a - tanh(a), x)


def softshrink(x: Any, bound: float = 0.5) -> NDArray:
    """x moved towards 0 by `bound`, and 0 where it is no further away than that.

    Shapes: x floats of any shape; the same.
    Raises: nothing of its own.
    Source: Donoho and Johnstone, "Ideal spatial adaptation by wavelet shrinkage", 1994.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.softshrink(np.array([-2.0, 0.25, 2.0])).tolist()
    [-1.5, 0.0, 1.5]
    """
    return in_single(lambda a: wnp.where(a > bound, a - bound, wnp.where(a < -bound, a + bound, 0 * a)), x)


def hardshrink(x: Any, bound: float = 0.5) -> NDArray:
    """x where it is further than `bound` from 0, and 0 elsewhere.

    Shapes: x floats of any shape; the same.
    Raises: nothing of its own.
    Source: Donoho and Johnstone, "Ideal spatial adaptation by wavelet shrinkage", 1994.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.hardshrink(np.array([-2.0, 0.25, 2.0])).tolist()
    [-2.0, 0.0, 2.0]
    """
    return in_single(lambda a: wnp.where(wnp.abs(a) <= bound, 0, a), x)


def threshold(x: Any, bound: float, value: float) -> NDArray:
    """x where it exceeds a bound, and a value elsewhere.

    Shapes: x floats of any shape; the same.
    Raises: nothing of its own.
    Source: PyTorch's Threshold.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.threshold(np.array([-1.0, 2.0]), 0.5, 7.0).tolist()
    [7.0, 2.0]
    """
    return in_single(lambda a: wnp.where(a <= bound, value, a), x)


def log_sigmoid(x: Any) -> NDArray:
    """The logarithm of the sigmoid, -log(1 + exp(-x)), exact also where the sigmoid rounds to 0.

    Shapes: x real floats of any shape; the same.
    Raises: nothing of its own.
    Source: Verhulst, "Notice sur la loi que la population suit dans son accroissement", 1838.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.log_sigmoid(np.array([-1000.0, 0.0])).round(4).tolist()
    [-1000.0, -0.6931]
    """
    return in_single(lambda a: -wnp.logaddexp(0, -a), x)


def squareplus(x: Any, b: float = 4.0) -> NDArray:
    """(x + sqrt(x**2 + b)) / 2: a softplus without exponentials.

    Shapes: x real floats of any shape; the same.
    Raises: ParameterError for a b that is not positive.
    Source: Barron, "Squareplus: a softplus-like algebraic rectifier", 2021.

    >>> import numpy as np, wholestep as ws
    >>> ws.nn.squareplus(np.array([0.0, 1.5])).tolist()
    [1.0, 2.0]
    """
    if not b > 0:
        raise ParameterError(f"squareplus: b is {b}; it must be positive")
    return in_single(lambda a: (a + wnp.sqrt(a * a + b)) / 2, x)


# Layers keep these in fields, where `is` and pickle expect the functions that callers get.
globals().update(
    {name: boundary(f) for name, f in tuple(globals().items()) if getattr(f, "__module__", "") == __name__}
)
