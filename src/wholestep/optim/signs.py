"""Signum and Fromage: steps whose direction, but not length, depends on the gradient."""

from __future__ import annotations

from dataclasses import KW_ONLY, field
from typing import Any

from wholestep import dtypes, numpy as wnp
from wholestep.errors import UnsupportedError
from wholestep.optim.hyper import number_in
from wholestep.optim.layerwise import vector_length
from wholestep.optim.leafwise import Leafwise, decay_parameter
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import running_mean, scalar_like, working_zeros


class Signum(Leafwise):
    """Signum: p -= lr * sign(m), with m a running mean of the gradient; with momentum 0 it is SignSGD.

    `lr` is as in `adam`, and `momentum` is the decay rate of m. `weight_decay` is decoupled, as in `adamw`, for the
    parameters that `decay` selects.

    Shapes: trees of real floating arrays; the state has an array like each.
    Raises: as `sgd` does; UnsupportedError for complex parameters.
    Source: Bernstein et al., "signSGD: compressed optimisation for non-convex problems", 2018, algorithm 2.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.signum(0.1), np.zeros(3)
    >>> optimizer.update(np.array([5.0, -0.1, 0.0]), optimizer.init(p), p)[0].tolist()
    [-0.1, 0.1, 0.0]
    """

    momentum: float = field(default=0.9, metadata=number_in(0.0, 1.0))
    _: KW_ONLY
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    decay: Choice = None

    def kept(self, p: Any) -> dict[str, Any]:
        """A running mean."""
        if dtypes.is_complex(wnp.asarray(p).dtype):
            raise UnsupportedError("signum: complex parameters are not covered", hint="give real and imaginary parts")
        return {"m": working_zeros(p)}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        m = running_mean(kept["m"], g, self.momentum)
        return decay_parameter(p, numbers, decay) - scalar_like(numbers, p) * wnp.sign(m), {"m": m}


class Fromage(Leafwise):
    """Fromage: p = (p - lr * g * |p| / |g|) / sqrt(1 + lr**2), with the norms of each parameter and its gradient.

    Where p or its gradient is 0, the gradient itself takes the place of g * |p| / |g|. The rate 0.01 is suitable for
    many networks.

    Shapes: trees of floating or complex arrays; the state is the number of updates.
    Raises: as `sgd` does.
    Source: Bernstein et al., "On the distance between two neural networks and the stability of learning", 2020,
    algorithm 1.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.fromage(0.75), np.array([3.0, 4.0])
    >>> optimizer.update(np.array([0.0, 10.0]), optimizer.init(p), p)[0].round(6).tolist()
    [2.4, 0.2]
    """

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        size, slope = vector_length(p), vector_length(g)
        usable = (size > 0) & (slope > 0)
        scale = wnp.where(usable, size / wnp.where(usable, slope, 1), 1)
        whole = scalar_like((1 + numbers * numbers) ** -0.5, p)
        return (p - scalar_like(numbers, p) * scale * g) * whole, kept
