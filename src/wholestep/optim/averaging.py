"""Averages of the trained weights: exponential moving averages, and lookahead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

import numpy as np

from wholestep import numpy as wnp, tree
from wholestep.errors import TreeError
from wholestep.frontend.control import cond
from wholestep.numpy.working_precision import working_array
from wholestep.optim.hyper import Fields, label, number_in
from wholestep.optim.protocol import call_update, check_optimizer, running_mean, scalar_like
from wholestep.tree import Tree


class Wrapper(Fields):
    """The base of optimizers that wrap another one, `optimizer`."""

    optimizer: Any

    def resolved(self) -> Any:
        """The same object; raises DtypeError for a first argument that is no optimizer."""
        check_optimizer(f"{label(self)}: the first argument", self.optimizer)
        return self


class Ema(Wrapper):
    """Keep a running mean of the parameters: average = decay * average + (1 - decay) * p after every update.

    The average begins as the initial parameters, is float32 for half precisions, and does not affect the training.
    `average(state)` reads it from the optimizer's state, and inside `with step.averaged():` it takes the place of the
    parameters, for an evaluation.

    Shapes: trees of floating or complex arrays; the state has an array like each, beside that of the optimizer.
    Raises: ParameterError for a decay outside [0, 1), DtypeError for an argument that is no number or optimizer.
    Source: Polyak and Juditsky, "Acceleration of stochastic approximation by averaging", 1992.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.ema(ws.optim.sgd(1.0), 0.5), np.zeros(1)
    >>> p, state = optimizer.update(np.ones(1), optimizer.init(p), p)
    >>> p.tolist(), ws.optim.average(state).tolist()
    ([-1.0], [-0.5])
    """

    optimizer: Any
    decay: float = field(default=0.999, metadata=number_in(0.0, 1.0))

    def init(self, params: Any) -> Any:
        """The optimizer's state, and the parameters as their own mean."""
        return {"optimizer": self.optimizer.init(params), "average": tree.map(working_copy, params)}

    def update(self, grads: Any, state: Any, params: Any, **extras: Any) -> tuple[Any, Any]:
        """New parameters, and a new state."""
        new, inner = call_update(self.optimizer, grads, state["optimizer"], params, extras)
        average = tree.map(lambda mean, p: running_mean(mean, working_array(p), self.decay), state["average"], new)
        return new, {"optimizer": inner, "average": average}


class Lookahead(Wrapper):
    """Lookahead: after every `steps` updates, slow += alpha * (p - slow), and the parameters p are set to slow.

    Shapes: trees of floating or complex arrays; the state has an array like each, beside that of the optimizer.
    Raises: ParameterError for fewer steps than one or a negative alpha, DtypeError for an argument that is no number or
    optimizer.
    Source: Zhang, Lucas, Hinton and Ba, "Lookahead optimizer: k steps forward, 1 step back", 2019.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.lookahead(ws.optim.sgd(1.0), 2, 0.5), np.zeros(1)
    >>> state, seen = optimizer.init(p), []
    >>> for _ in range(3):
    ...     p, state = optimizer.update(np.ones(1), state, p)
    ...     seen.append(float(p[0]))
    >>> seen
    [-1.0, -1.0, -2.0]
    """

    optimizer: Any
    steps: float = field(default=6, metadata=number_in(1.0))
    alpha: float = field(default=0.5, metadata=number_in(0.0, np.inf))

    def init(self, params: Any) -> Any:
        """The optimizer's state, the slow parameters, and the number of updates since they moved."""
        slow = tree.map(working_copy, params)
        return {"optimizer": self.optimizer.init(params), "slow": slow, "since": np.int64(0)}

    def update(self, grads: Any, state: Any, params: Any, **extras: Any) -> tuple[Any, Any]:
        """New parameters, which are the slow ones after every so many updates, and a new state."""
        new, inner = call_update(self.optimizer, grads, state["optimizer"], params, extras)
        since = state["since"] + 1

        def follow(fast: Any, slow: Any) -> tuple[Any, Any, Any]:
            slow = tree.map(lambda s, f: s + scalar_like(self.alpha, s) * (working_array(f) - s), slow, fast)
            return tree.map(lambda s, f: s.astype(f.dtype), slow, fast), slow, wnp.zeros_like(since)

        def go_on(fast: Any, slow: Any) -> tuple[Any, Any, Any]:
            return fast, slow, since

        moved, slow, since = cond(since >= self.steps, follow, go_on, tree.map(wnp.asarray, new), state["slow"])
        return moved, {"optimizer": inner, "slow": slow, "since": since}


def working_copy(x: Any) -> Any:
    """A copy of a parameter in the dtype of arithmetic on it."""
    return wnp.array(working_array(x))


def average(state: Any) -> Tree:
    """The mean of the parameters that `ema`, `asgd` or a schedule-free optimizer keeps in its state.

    Shapes: a state; a tree of arrays like the parameters, float32 for half precisions.
    Raises: TreeError where there is none, or more than one.

    >>> import numpy as np, wholestep as ws
    >>> optimizer = ws.optim.chain(ws.optim.clip_by_value(1.0), ws.optim.ema(ws.optim.sgd(0.1)))
    >>> ws.optim.average(optimizer.init({"w": np.ones(1)}))
    {'w': array([1.])}
    """
    found = list(averages(state))
    if len(found) != 1:
        raise TreeError(
            f"average: the optimizer's state holds {len(found) or 'no'} running mean{'s' * (len(found) > 1)}",
            hint="ws.optim.ema(optimizer, decay) keeps one",
        )
    return found[0]


def averages(state: Any) -> Iterator[Any]:
    """Every running mean in a state."""
    if isinstance(state, Mapping):
        if "average" in state and state.keys() & {"optimizer", "count"}:
            yield state["average"]
        for part in state.values():
            yield from averages(part)
