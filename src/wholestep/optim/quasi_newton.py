"""L-BFGS: Newton's direction, approximated from the last few steps and the changes of the gradient over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, field, replace
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp, tree
from wholestep.boundary.counts import whole_number
from wholestep.errors import ParameterError, UnsupportedError
from wholestep.frontend.control import cond, scan
from wholestep.frontend.gradients import value_and_grad
from wholestep.numpy.working_precision import working_array
from wholestep.optim.hyper import Fields, Rate, number_or_schedule, rate_at
from wholestep.optim.line_search import backtracking, strong_wolfe
from wholestep.optim.protocol import required_extra

SEARCHES: dict[str, Any] = {"backtracking": backtracking, "strong_wolfe": strong_wolfe}

CURVED = 1e-10
"""The least product of a step and the change of the gradient over it for the pair to be kept."""


class Lbfgs(Fields):
    """L-BFGS, for objectives that are the same at every update: the whole data in each batch, and no randomness.

    Each update is one iteration, with the last `history` steps and changes of the gradient. `line_search` is
    "strong_wolfe"; "backtracking", which computes values only where the other needs gradients too; or None for steps of
    `lr` times the direction (of min(1, 1 / |g|_1) times that at first), as torch.optim.LBFGS makes them with
    max_iter=1. A search evaluates the objective up to `tries` times, beginning with that length, and stays where it is
    if none was lower; a compiled step gives it the objective, and eagerly `update` takes `loss=` and `objective=`, a
    function of the parameters.

    Shapes: trees of real floating arrays; the state has 2 * `history` + 2 vectors of all their elements.
    Raises: ParameterError for wrong counts or another line search, and in `update` where an objective is needed and not
    given; UnsupportedError for complex parameters.
    Source: Liu and Nocedal, "On the limited memory BFGS method for large scale optimization", 1989.

    >>> import numpy as np, wholestep as ws
    >>> f = lambda p: np.sum(np.array([1.0, 30.0]) * (p - 1.0) ** 2)
    >>> optimizer, p = ws.optim.lbfgs(), np.zeros(2)
    >>> state = optimizer.init(p)
    >>> for _ in range(12):
    ...     value, g = ws.value_and_grad(f)(p)
    ...     p, state = optimizer.update(g, state, p, loss=value, objective=f)
    >>> p.round(4).tolist()
    [1.0, 1.0]
    """

    lr: Rate = field(default=1.0, metadata=number_or_schedule())
    history: int = 10
    _: KW_ONLY
    line_search: str | None = "strong_wolfe"
    tries: int = 20

    def resolved(self) -> Lbfgs:
        """The same object with counts as integers; raises ParameterError for an invalid count or line search."""
        counts: dict[str, Any] = {
            name: whole_number(name, getattr(self, name), "lbfgs") for name in ("history", "tries")
        }
        if self.line_search is not None and self.line_search not in SEARCHES:
            known = ", ".join(map(repr, (*SEARCHES, None)))
            raise ParameterError(f"lbfgs: line_search is {self.line_search!r}; it is one of {known}")
        return replace(self, **counts)

    def init(self, params: Any) -> Any:
        """The initial state: empty pairs, and the last step and gradient as one vector each."""
        p = flatten_arrays(params)
        pairs = np.zeros((self.history, p.size), p.dtype)
        vector, one = wnp.zeros_like(p), p.dtype.type(1)
        return {
            "count": np.int64(0),
            "steps": pairs,
            "changes": pairs,
            "curvatures": np.zeros(self.history, p.dtype),
            "scale": one,
            "step": vector,
            "gradient": vector,
        }

    def update(
        self, grads: Any, state: Any, params: Any, *, loss: Any = None, objective: Any = None
    ) -> tuple[Any, Any]:
        """New parameters and a new state."""
        p, g = flatten_arrays(params), flatten_arrays(grads)
        kept = remember_pair(state, g)
        d = two_loop_direction(kept, -g)
        rate = wnp.asarray(rate_at(self.lr, state["count"])).astype(p.dtype)
        length = wnp.where(state["count"] == 0, wnp.maximum(wnp.sum(abs(g)), 1), wnp.ones((), p.dtype))
        t = first = rate / length
        if self.line_search is not None:
            given = {"loss": loss, "objective": objective}
            value, f = [required_extra("lbfgs", name, given) for name in ("loss", "objective")]
            value = wnp.asarray(value).astype(p.dtype)
            slope = wnp.sum(g * d)
            t = SEARCHES[self.line_search](along_direction(f, params, p, d), first, value, slope, self.tries)
        step = t * d
        new = {"count": state["count"] + 1, **kept, "step": step, "gradient": g}
        return shaped(p + step, params), new


def remember_pair(state: Any, g: Any) -> Any:
    """The state with the pair of the last step and change of the gradient, if it has enough curvature."""
    s, y = state["step"], g - state["gradient"]
    curvature = wnp.sum(s * y)

    def take(kept: Any) -> Any:
        made = {"steps": s, "changes": y, "curvatures": 1 / curvature}
        longer = {name: wnp.concatenate([kept[name][1:], made[name][None]]) for name in made}
        return {**kept, **longer, "scale": curvature / wnp.sum(y * y)}

    names = ("steps", "changes", "curvatures", "scale")
    kept: dict[str, Any] = cond(curvature > CURVED, take, lambda kept: kept, {name: state[name] for name in names})
    return kept


def two_loop_direction(kept: Any, q: Any) -> Any:
    """The approximate inverse Hessian times a vector, by Nocedal's two loops over the pairs; empty ones do nothing."""
    pairs = (kept["steps"], kept["changes"], kept["curvatures"])

    def back(q: Any, pair: Any) -> Any:
        s, y, rho = pair
        a = rho * wnp.sum(s * q)
        return q - a * y, a

    def forth(r: Any, pair: Any) -> Any:
        (s, y, rho), a = pair
        return r + (a - rho * wnp.sum(y * r)) * s, None

    q, lengths = scan(back, q, pairs, reverse=True)
    return scan(forth, kept["scale"] * q, (pairs, lengths))[0]


def along_direction(objective: Callable[[Any], Any], params: Any, p: Any, d: Any) -> Callable[[Any], tuple[Any, Any]]:
    """The objective as a function of the length of the step, with its slope."""

    def at(t: Any) -> tuple[Any, Any]:
        value, slopes = value_and_grad(objective)(shaped(p + t * d, params))
        return wnp.asarray(value).astype(p.dtype), wnp.sum(flatten_arrays(slopes) * d)

    return at


def flatten_arrays(x: Any) -> Any:
    """A tree of arrays as one vector."""
    leaves = [working_array(leaf) for leaf in tree.leaves(x)]
    if any(dtypes.is_complex(leaf.dtype) for leaf in leaves):
        raise UnsupportedError("lbfgs: complex parameters are not covered", hint="give real and imaginary parts")
    return wnp.concatenate([leaf.reshape(-1) for leaf in leaves]) if leaves else wnp.zeros(0)


def shaped(vector: Any, like: Any) -> Any:
    """The vector as a tree of arrays like a given one."""
    made, begin = [], 0
    for leaf in [wnp.asarray(leaf) for leaf in tree.leaves(like)]:
        made.append(vector[begin : begin + leaf.size].reshape(leaf.shape).astype(leaf.dtype))
        begin += leaf.size
    return tree.unflatten(tree.structure(like), made)
