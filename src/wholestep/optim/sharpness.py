"""Sharpness-aware minimization: the gradient is taken at the nearby point of largest loss."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from wholestep import numpy as wnp, tree
from wholestep.frontend.gradients import grad
from wholestep.numpy.working_precision import working_array
from wholestep.optim.averaging import Wrapper
from wholestep.optim.chaining import global_norm
from wholestep.optim.hyper import number_in
from wholestep.optim.protocol import call_update, required_extra, scalar_like


class Sam(Wrapper):
    """Give an optimizer the gradient at p + rho * g / |g|, where g is the gradient at p and |g| its norm over all.

    Each update computes the objective and its gradient once more. A compiled step gives it the objective, and eagerly
    `update` takes `objective=`, a function of the parameters.

    Shapes: trees of floating or complex arrays; the state is that of the optimizer.
    Raises: ParameterError for a negative rho, and in `update` where the objective is not given; DtypeError for an
    argument that is no number or optimizer.
    Source: Foret et al., "Sharpness-aware minimization for efficiently improving generalization", 2021.

    >>> import numpy as np, wholestep as ws
    >>> f, p = lambda p: np.sum(p**2), np.array([3.0, 4.0])
    >>> optimizer = ws.optim.sam(ws.optim.sgd(0.5), 5.0)
    >>> optimizer.update(ws.grad(f)(p), optimizer.init(p), p, objective=f)[0].round(6).tolist()
    [-3.0, -4.0]
    """

    optimizer: Any
    rho: float = field(default=0.05, metadata=number_in())

    def init(self, params: Any) -> Any:
        """The optimizer's state."""
        return self.optimizer.init(params)

    def update(self, grads: Any, state: Any, params: Any, **extras: Any) -> tuple[Any, Any]:
        """New parameters, and a new state."""
        objective = required_extra("sam", "objective", extras)
        norm = global_norm(grads)
        reach = self.rho / wnp.where(norm > 0, norm, 1)

        def climbed(p: Any, g: Any) -> Any:
            wide = working_array(p)
            return (wide + scalar_like(reach, wide) * working_array(g)).astype(wnp.asarray(p).dtype)

        above = grad(objective)(tree.map(climbed, params, grads))
        return call_update(self.optimizer, above, state, params, extras)
