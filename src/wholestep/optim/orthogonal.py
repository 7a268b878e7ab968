"""Muon: steps of matrices along the orthogonal matrix that is nearest to their momentum."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any

from wholestep import dtypes, numpy as wnp, tree
from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep.numpy.working_precision import working_array
from wholestep.optim.grouping import Divided
from wholestep.optim.hyper import Rate, check_numbers, number_in
from wholestep.optim.leafwise import Leafwise, decay_parameter
from wholestep.optim.paths import Choice, parameter_paths
from wholestep.optim.protocol import (
    Optimizer,
    check_optimizer,
    root_of_squares,
    running_mean,
    scalar_like,
    working_zeros,
)

QUINTIC = (3.4445, -4.7750, 2.0315)
"""Coefficients of x, x**3 and x**5 that bring singular values fastest into [0.7, 1.2], but no nearer to 1."""

SIZES = ("original", "rms", None)


class Muon(Leafwise):
    """The optimizer that `muon` makes, for matrices only: p -= lr * s * orthogonalised(momentum).

    Arguments are those of `muon`.

    Shapes: matrices of real floats; the state has an array like each.
    Raises: as `muon` does.
    Source: as `muon`.

    >>> import wholestep as ws
    >>> isinstance(ws.optim.muon(0.1), ws.optim.Muon)
    True
    """

    momentum: float = field(metadata=number_in(0.0, 1.0))
    nesterov: bool
    iterations: int
    eps: float = field(metadata=number_in(strictly=True))
    weight_decay: float = field(metadata=number_in())
    size: str | None
    decay: Choice = None

    def init(self, params: Any) -> Any:
        """The number of updates and a momentum for each parameter; raises ShapeError for one that is no matrix."""
        for name, p in zip(parameter_paths(params), tree.leaves(params), strict=True):
            if wnp.ndim(p) != 2:
                raise ShapeError(
                    f"muon: {name or 'the parameter'} has {wnp.ndim(p)} axes, and only matrices are orthogonalised",
                    hint="rest=ws.optim.adamw(3e-4) is for all other parameters; groups makes finer choices",
                )
        return super().init(params)

    def kept(self, p: Any) -> dict[str, Any]:
        if dtypes.is_complex(working_array(p).dtype):
            raise UnsupportedError("muon: complex parameters are not covered", hint="adam takes them")
        return {"momentum": working_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        m = running_mean(kept["momentum"], g, self.momentum)
        direction = orthogonalised(
            running_mean(g, m, 1 - self.momentum) if self.nesterov else m, self.iterations, self.eps
        )
        rate = numbers * self.stretch(p.shape)
        return decay_parameter(p, numbers, decay) - scalar_like(rate, p) * direction, {"momentum": m}

    def stretch(self, shape: tuple[int, ...]) -> float:
        """The factor of the rate for a matrix of this shape."""
        rows, columns = shape
        if self.size is None:
            return 1.0
        return (
            0.2 * math.sqrt(max(rows, columns)) if self.size == "rms" else math.sqrt(max(1.0, rows / max(columns, 1)))
        )


class Matrices(Divided):
    """One optimizer for the matrices and another for the rest."""

    matrices: Any
    rest: Any

    def parts(self) -> dict[str, Any]:
        """The optimizer of the matrices and that of the rest."""
        return {"matrices": self.matrices, "rest": self.rest}

    def assigned(self, params: Any) -> list[str]:
        """The part of each parameter, by its number of axes."""
        return ["matrices" if wnp.ndim(p) == 2 else "rest" for p in tree.leaves(params)]

    def __repr__(self) -> str:
        return f"{self.matrices!r}"[:-1] + f", rest={self.rest!r})"


def orthogonalised(x: Any, iterations: int, eps: Any) -> Any:
    """An approximation of u @ vt of the singular value decomposition of x, by a quintic Newton-Schulz iteration."""
    a, b, c = [scalar_like(k, x) for k in QUINTIC]
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / wnp.maximum(root_of_squares(wnp.sum(x * x)), scalar_like(eps, x))
    for _ in range(iterations):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if tall else x


def muon(
    lr: Rate,
    momentum: float = 0.95,
    nesterov: bool = True,
    *,
    iterations: int = 5,
    eps: float = 1e-7,
    weight_decay: float = 0.1,
    size: str | None = "original",
    decay: Choice = None,
    rest: Optimizer | None = None,
) -> Muon | Matrices:
    """Muon: each matrix moves along the momentum of its gradient, made orthogonal by a Newton-Schulz iteration.

    The momentum is a running mean with decay `momentum`, looking one update ahead with `nesterov`. The rate of an
    (m, n) matrix is multiplied by sqrt(max(1, m / n)) where `size` is "original", by 0.2 * sqrt(max(m, n)) where it is
    "rms" (steps of the root mean square of AdamW's), and by 1 where it is None. The iteration has `iterations` steps,
    and begins with the momentum over its norm, taken as at least `eps`. `lr` is as in `adam`, and
    `lr * weight_decay * p` is subtracted from the matrices that `decay` selects, as in `adamw`. `rest` is the optimizer
    of all parameters that are no matrices. The formulas are those of torch.optim.Muon, which iterates in bfloat16,
    while this optimizer iterates in the precision of the parameters.

    Shapes: matrices of real floats, and with `rest` any other parameters; the state has an array like each matrix.
    Raises: ParameterError for numbers out of range, DtypeError for a value that is no number; in `init`, ShapeError for
    parameters that are no matrices where there is no `rest`, UnsupportedError for complex ones.
    Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.

    >>> import numpy as np, wholestep as ws
    >>> optimizer = ws.optim.muon(0.1, rest=ws.optim.adamw(3e-4))
    >>> params = {"w": np.zeros((2, 2)), "b": np.zeros(2)}
    >>> grads = {"w": np.array([[3.0, 0.0], [0.0, 0.1]]), "b": np.ones(2)}
    >>> moved, state = optimizer.update(grads, optimizer.init(params), params)
    >>> moved["w"].round(1).tolist(), moved["b"].round(6).tolist()
    ([[-0.1, 0.0], [0.0, -0.1]], [-0.0003, -0.0003])
    """
    if isinstance(iterations, bool) or not isinstance(iterations, int) or not 0 < iterations < 100:
        raise ParameterError(f"muon: iterations is {iterations!r}; it must be an integer from 1 to 99")
    if size not in SIZES:
        raise ParameterError(f"muon: size is {size!r}; it is one of {', '.join(map(repr, SIZES))}")
    made = check_numbers(Muon(lr, momentum, bool(nesterov), iterations, eps, weight_decay, size, decay))
    if rest is None:
        return made
    check_optimizer("muon: rest", rest)
    return Matrices(made, rest)
