"""Sophia: momentum over an estimate of the curvature of each parameter, with clipped steps."""

from __future__ import annotations

from dataclasses import KW_ONLY, field, replace
from typing import Any

from wholestep import dtypes, numpy as wnp, random, tree
from wholestep.boundary.counts import checked_count, is_integer
from wholestep.errors import DtypeError, UnsupportedError
from wholestep.frontend.control import cond
from wholestep.frontend.derivatives import jvp
from wholestep.frontend.gradients import grad
from wholestep.numpy.working_precision import working_array
from wholestep.optim.hyper import number_in, rate_at
from wholestep.optim.leafwise import Leafwise, decay_parameter, increment_count
from wholestep.optim.paths import Choice
from wholestep.optim.protocol import required_extra, running_mean, scalar_like, working_zeros
from wholestep.words import type_in_words


class Sophia(Leafwise):
    """Sophia-H: p -= lr * clip(m / max(gamma * h, eps), -1, 1), with means m of the gradient and h of the curvature.

    `b1` and `b2` are the decay rates of the means. The first update and every `every`-th after it estimate the diagonal
    of the Hessian by Hutchinson's method: u times the derivative of the gradient along u, where u are normal numbers
    that follow from `seed` and the number of the update. Such an update computes the objective and two more gradients.
    A compiled step gives it the objective, and eagerly `update` takes `objective=`, a function of the parameters. Where
    h is not positive, the step is lr times the sign of m. `weight_decay` is decoupled, as in `adamw`, for the
    parameters that `decay` selects.

    Shapes: trees of real floating arrays; the state has two arrays like each.
    Raises: as `adamw` does; ParameterError for an `every` below 1, and in `update` where the objective is not given;
    DtypeError for a seed that is no integer, UnsupportedError for complex parameters.
    Source: Liu et al., "Sophia: a scalable stochastic second-order optimizer for language model pre-training", 2023,
    algorithms 1 and 3.

    >>> import numpy as np, wholestep as ws
    >>> f, p = lambda p: np.sum(np.array([2.0, 50.0]) * p**2) / 2, np.array([3.0, 4.0])
    >>> optimizer = ws.optim.sophia(0.5, b1=0.0, b2=0.0, gamma=1.0)
    >>> state = optimizer.init(p)
    >>> optimizer.update(ws.grad(f)(p), state, p, objective=f)[0].tolist()
    [2.5, 3.5]
    """

    b1: float = field(default=0.96, metadata=number_in(0.0, 1.0))
    b2: float = field(default=0.99, metadata=number_in(0.0, 1.0))
    eps: float = field(default=1e-12, metadata=number_in(strictly=True))
    _: KW_ONLY
    gamma: float = field(default=0.01, metadata=number_in(strictly=True))
    every: int = 10
    weight_decay: float | None = field(default=0.0, metadata=number_in(off=0.0))
    seed: int = 0
    decay: Choice = None

    def resolved(self) -> Sophia:
        """The same object with checked integers."""
        if not is_integer(self.seed):
            raise DtypeError(f"sophia: seed is {type_in_words(self.seed)}, not an integer")
        return replace(self, every=checked_count("every", self.every, "sophia"), seed=int(self.seed))

    def kept(self, p: Any) -> dict[str, Any]:
        """The mean of the gradient and that of the curvature."""
        if dtypes.is_complex(wnp.asarray(p).dtype):
            raise UnsupportedError("sophia: complex parameters are not covered", hint="give real and imaginary parts")
        return {"m": working_zeros(p), "h": working_zeros(p)}

    def update(self, grads: Any, state: Any, params: Any, *, objective: Any = None) -> tuple[Any, Any]:
        """New parameters and a new state, whose curvature is estimated anew in every `every`-th update."""
        f, count = required_extra("sophia", "objective", {"objective": objective}), state["count"]

        def estimated(before: Any) -> Any:
            key = random.fold_in(random.key(self.seed), count)
            found = curvature_estimate(f, params, key)
            return tree.map(lambda h, x: running_mean(h, x, self.b2), before, found)

        # The other branch returns the old estimate, and costs nothing.
        curvature = cond(count % self.every == 0, estimated, lambda before: before, state["h"])
        return super().update(grads, {**state, "h": curvature}, params)

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The rate."""
        return rate_at(self.lr, common["count"]), increment_count(common)

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        m, h = running_mean(kept["m"], g, self.b1), kept["h"]
        least = scalar_like(self.eps, h)
        step = wnp.clip(m / wnp.maximum(scalar_like(self.gamma, h) * h, least), -1, 1)
        return decay_parameter(p, numbers, decay) - scalar_like(numbers, p) * step, {"m": m, "h": h}


def curvature_estimate(objective: Any, params: Any, key: Any) -> Any:
    """An estimate of the diagonal of the Hessian, a tree of arrays in working precision.

    Its mean over keys is the diagonal. Hutchinson, "A stochastic estimator of the trace of the influence matrix for
    Laplacian smoothing splines", 1989.

    >>> import numpy as np, wholestep as ws
    >>> f = lambda p: 3 * p[0] ** 2 + 5 * p[1] ** 2
    >>> key = ws.random.key(0)
    >>> np.mean([curvature_estimate(f, np.zeros(2), k) for k in ws.random.split(key, 4000)], axis=0).round().tolist()
    [6.0, 10.0]
    """
    leaves, structure = tree.flatten(params)
    arrays = [wnp.asarray(leaf) for leaf in leaves]
    probes = [random.normal(random.fold_in(key, i), p.shape, p.dtype) for i, p in enumerate(arrays)]
    along = tree.unflatten(structure, probes)
    _, curved = jvp(grad(objective), (tree.unflatten(structure, arrays),), (along,))
    found = [working_array(u) * working_array(x) for u, x in zip(probes, tree.leaves(curved), strict=True)]
    return tree.unflatten(structure, found)
