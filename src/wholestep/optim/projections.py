"""Sets that constrain parameters: projections onto them, and an optimizer that projects after every update."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, field
from typing import Any, TypeVar

from wholestep import dtypes, numpy as wnp, tree
from wholestep.errors import DtypeError, ParameterError, TreeError
from wholestep.frontend.control import cond
from wholestep.frontend.marks import stop_gradient
from wholestep.numpy.working_precision import working_array
from wholestep.optim.averaging import Wrapper
from wholestep.optim.chaining import global_norm
from wholestep.optim.hyper import Fields, label, number_in
from wholestep.optim.paths import Choice, chosen_parameters, parameter_paths
from wholestep.optim.protocol import call_update, scalar_like

T = TypeVar("T")


class ConvexSet(Fields):
    """A set, as the projection of a tree of arrays onto it; all numbers of the tree are one vector.

    Arithmetic is carried out in `working_array` precision, and arrays keep their dtypes.
    """

    def __call__(self, x: T) -> T:
        """The nearest point."""
        leaves, structure = tree.flatten(x)
        for leaf in leaves:
            self.refuse(leaf)
        found = self.nearest([working_array(leaf) for leaf in leaves])
        pairs = zip(found, leaves, strict=True)
        made: T = tree.unflatten(structure, [new.astype(wnp.asarray(old).dtype, copy=False) for new, old in pairs])
        return made

    def refuse(self, x: Any) -> None:
        """Raise DtypeError for a complex array, whose numbers have no order."""
        if dtypes.is_complex(wnp.asarray(x).dtype):
            raise DtypeError(f"{label(self)}: complex numbers have no order", hint="ws.optim.l2_ball takes them")

    def nearest(self, xs: list[Any]) -> list[Any]:
        """The arrays of the nearest point."""
        raise NotImplementedError


class Interval(ConvexSet):
    """The numbers from `lower` to `upper`, each of which may be None: `optim.interval(-1.0, 1.0)(x)` clips x to them.

    Shapes: a tree of floating arrays; the same.
    Raises: ParameterError for a lower bound above the upper one, DtypeError for complex arrays.
    Source: `optax.projections.projection_box`.

    >>> import numpy as np, wholestep as ws
    >>> ws.optim.interval(-1.0, 2.0)(np.array([-3.0, 0.5, 4.0])).tolist()
    [-1.0, 0.5, 2.0]
    """

    lower: float | None = field(default=None, metadata=number_in(-math.inf, optional=True))
    upper: float | None = field(default=None, metadata=number_in(-math.inf, optional=True))

    def agree(self) -> None:
        if self.lower is not None and self.upper is not None and self.lower > self.upper:
            raise ParameterError(f"interval: there is nothing between {self.lower:g} and {self.upper:g}")

    def nearest(self, xs: list[Any]) -> list[Any]:
        return [clipped_between(x, self.lower, self.upper) for x in xs]


class NonNegative(ConvexSet):
    """The numbers from 0 on: `optim.non_negative()(x)` has 0 in place of negative numbers.

    Shapes: a tree of floating arrays; the same.
    Raises: DtypeError for complex arrays.
    Source: `optax.projections.projection_non_negative`, and `optax.keep_params_nonnegative` inside of `projected`.

    >>> import numpy as np, wholestep as ws
    >>> ws.optim.non_negative()(np.array([-3.0, 0.5])).tolist()
    [0.0, 0.5]
    """

    def nearest(self, xs: list[Any]) -> list[Any]:
        return [clipped_between(x, 0.0, None) for x in xs]


class Hypercube(ConvexSet):
    """The numbers from 0 to `scale`: `optim.hypercube()(x)` is the nearest point of the unit cube.

    Shapes: a tree of floating arrays; the same.
    Raises: ParameterError for a scale that is not positive, DtypeError for complex arrays.
    Source: `optax.projections.projection_hypercube`.

    >>> import numpy as np, wholestep as ws
    >>> ws.optim.hypercube(2.0)(np.array([-3.0, 0.5, 4.0])).tolist()
    [0.0, 0.5, 2.0]
    """

    scale: float = field(default=1.0, metadata=number_in(strictly=True))

    def nearest(self, xs: list[Any]) -> list[Any]:
        return [clipped_between(x, 0.0, self.scale) for x in xs]


class LinfBall(ConvexSet):
    """The numbers of absolute value `scale` at most: `optim.linf_ball(0.1)(x)` is the nearest such.

    Shapes: a tree of floating arrays; the same.
    Raises: ParameterError for a scale that is not positive, DtypeError for complex arrays.
    Source: `optax.projections.projection_linf_ball`.

    >>> import numpy as np, wholestep as ws
    >>> ws.optim.linf_ball(2.0)(np.array([-3.0, 0.5])).tolist()
    [-2.0, 0.5]
    """

    scale: float = field(default=1.0, metadata=number_in(strictly=True))

    def nearest(self, xs: list[Any]) -> list[Any]:
        return [clipped_between(x, -self.scale, self.scale) for x in xs]


class Simplex(ConvexSet):
    """The numbers that are not negative and add up to `scale`: `optim.simplex()(x)` is the nearest distribution.

    The same number is subtracted from all elements that stay above 0, so the derivative subtracts their mean.

    Shapes: a tree of floating arrays; the same, all of it together one vector.
    Raises: ParameterError for a scale that is not positive, DtypeError for complex arrays.
    Source: Duchi, Shalev-Shwartz, Singer and Chandra, "Efficient projections onto the l1-ball for learning in high
    dimensions", 2008; `optax.projections.projection_simplex`.

    >>> import numpy as np, wholestep as ws
    >>> ws.optim.simplex()(np.array([0.75, 0.5, -2.0])).tolist()
    [0.625, 0.375, 0.0]
    """

    scale: float = field(default=1.0, metadata=number_in(strictly=True))

    def nearest(self, xs: list[Any]) -> list[Any]:
        return on_simplex(xs, self.scale)


class L1Sphere(ConvexSet):
    """The numbers whose absolute values add up to `scale`: `optim.l1_sphere()(x)` is a nearest such.

    A zero counts as positive, so that the result lies on the sphere for every x.

    Shapes: a tree of floating arrays; the same, all of it together one vector.
    Raises: ParameterError for a scale that is not positive, DtypeError for complex arrays.
    Source: as `simplex`; `optax.projections.projection_l1_sphere`.

    >>> import numpy as np, wholestep as ws
    >>> ws.optim.l1_sphere(2.0)(np.array([-3.0, 2.0])).tolist()
    [-1.5, 0.5]
    """

    scale: float = field(default=1.0, metadata=number_in(strictly=True))

    def nearest(self, xs: list[Any]) -> list[Any]:
        return on_l1_sphere(xs, self.scale)


class L1Ball(ConvexSet):
    """The numbers whose absolute values add up to `scale` at most: `optim.l1_ball()(x)` is the nearest such.

    Shapes: a tree of floating arrays; the same, all of it together one vector.
    Raises: ParameterError for a scale that is not positive, DtypeError for complex arrays.
    Source: as `simplex`; `optax.projections.projection_l1_ball`.

    >>> import numpy as np, wholestep as ws
    >>> ws.optim.l1_ball(2.0)(np.array([-3.0, 2.0])).tolist(), ws.optim.l1_ball(9.0)(np.array([-3.0, 2.0])).tolist()
    ([-1.5, 0.5], [-3.0, 2.0])
    """

    scale: float = field(default=1.0, metadata=number_in(strictly=True))

    def nearest(self, xs: list[Any]) -> list[Any]:
        length = sum(wnp.sum(wnp.abs(stop_gradient(x))) for x in xs)
        return inside_or(length <= self.scale, lambda xs: on_l1_sphere(xs, self.scale), xs)


class L2Sphere(ConvexSet):
    """The vectors of length `scale`: `optim.l2_sphere()(x)` is x over its norm, and for x = 0 a constant vector.

    Shapes: a tree of floating or complex arrays; the same, all of it together one vector.
    Raises: ParameterError for a scale that is not positive.
    Source: `optax.projections.projection_l2_sphere`.

    >>> import numpy as np, wholestep as ws
    >>> ws.optim.l2_sphere(10.0)({"a": np.array([3.0]), "b": np.array([4.0])})
    {'a': array([6.]), 'b': array([8.])}
    """

    scale: float = field(default=1.0, metadata=number_in(strictly=True))

    def refuse(self, x: Any) -> None:
        """Accept every array, since a norm needs no order."""

    def nearest(self, xs: list[Any]) -> list[Any]:
        nothing = stop_gradient(global_norm(xs)) == 0
        somewhere = [wnp.where(nothing, wnp.ones_like(x), x) for x in xs]
        return lengthened(somewhere, self.scale)


class L2Ball(ConvexSet):
    """The vectors of length `scale` at most: `optim.l2_ball(3.0)(x)` is x, scaled down where it is longer.

    Shapes: a tree of floating or complex arrays; the same, all of it together one vector.
    Raises: ParameterError for a scale that is not positive.
    Source: `optax.projections.projection_l2_ball`.

    >>> import numpy as np, wholestep as ws
    >>> ws.optim.l2_ball(1.0)(np.array([3.0, 4.0])).round(6).tolist(), ws.optim.l2_ball(9.0)(np.array([3.0])).tolist()
    ([0.6, 0.8], [3.0])
    """

    scale: float = field(default=1.0, metadata=number_in(strictly=True))

    def refuse(self, x: Any) -> None:
        """Accept every array, since a norm needs no order."""

    def nearest(self, xs: list[Any]) -> list[Any]:
        length = stop_gradient(global_norm(xs))
        return inside_or(length <= self.scale, lambda xs: lengthened(xs, self.scale), xs)


class Projected(Wrapper):
    """Project the parameters onto a set after every update of an optimizer: projected gradient descent.

    `onto` is a set such as `l2_ball(1.0)`, or a function of your own from a tree to such a tree. `only` selects the
    parameters: a function of the path, a table, patterns, or None for all. The selected parameters are one vector
    together, given to `onto` as a dictionary by path where they are not all, or with `each=True` one array after the
    other.

    Shapes: trees of floating or complex arrays; the state is that of the optimizer.
    Raises: DtypeError for an argument that is no optimizer or function, ParameterError for a pattern that matches
    nothing, TreeError where `onto` returns another structure.
    Source: `optax.projections`; `optax.keep_params_nonnegative` is that with `non_negative()`.

    >>> import numpy as np, wholestep as ws
    >>> optimizer, p = ws.optim.projected(ws.optim.sgd(1.0), ws.optim.simplex()), np.array([0.5, 0.5])
    >>> optimizer.update(np.array([0.25, 0.0]), optimizer.init(p), p)[0].tolist()
    [0.375, 0.625]
    """

    optimizer: Any
    onto: Callable[[Any], Any]
    _: KW_ONLY
    only: Choice = None
    each: bool = False

    def resolved(self) -> Any:
        """The same object; raises DtypeError for an argument that is no optimizer, or an `onto` that is no function."""
        if not callable(self.onto) or isinstance(self.onto, type):
            raise DtypeError(f"projected: onto is {self.onto!r}", hint="give a set, such as ws.optim.l2_ball(1.0)")
        return super().resolved()

    def init(self, params: Any) -> Any:
        """The optimizer's state."""
        chosen_parameters("projected", self.only, params)
        return self.optimizer.init(params)

    def update(self, grads: Any, state: Any, params: Any, **extras: Any) -> tuple[Any, Any]:
        """New parameters in the set, and a new state."""
        new, inner = call_update(self.optimizer, grads, state, params, extras)
        if self.only is None:
            return self.inside(new), inner
        leaves, structure = tree.flatten(new)
        yes = chosen_parameters("projected", self.only, new)
        held = {path: p for path, p, chosen in zip(parameter_paths(new), leaves, yes, strict=True) if chosen}
        found = self.inside(held)
        moved = [found.get(path, p) for path, p in zip(parameter_paths(new), leaves, strict=True)]
        return tree.unflatten(structure, moved), inner

    def inside(self, params: T) -> T:
        """The nearest parameters in the set."""
        made: T = tree.map(self.onto, params) if self.each else self.onto(params)
        if tree.structure(made) != tree.structure(params):
            raise TreeError(
                f"projected: onto made a {tree.structure(made)} of a {tree.structure(params)}",
                hint="it returns a tree like the one that it is given",
            )
        return made


def clipped_between(x: Any, lower: Any, upper: Any) -> Any:
    """The nearest number in an interval; nan stays nan, and None is no bound."""
    if lower is not None:
        x = wnp.maximum(x, scalar_like(lower, x))
    return x if upper is None else wnp.minimum(x, scalar_like(upper, x))


def inside_or(inside: Any, moved: Callable[[list[Any]], list[Any]], xs: list[Any]) -> list[Any]:
    """The same arrays if they are inside a set, else the results of a function of them."""
    found: list[Any] = cond(inside, lambda xs: xs, moved, [wnp.asarray(x) for x in xs])
    return found


def lengthened(xs: list[Any], scale: Any) -> list[Any]:
    """The arrays scaled so that their global norm is `scale`."""
    factor = scale / global_norm(xs)
    return [x * scalar_like(factor, x) for x in xs]


def on_simplex(xs: list[Any], scale: Any) -> list[Any]:
    """The nearest arrays whose numbers are not negative and add up to `scale`."""
    if not xs:
        return xs
    flat = wnp.concatenate([x.reshape(-1) for x in xs])
    scale = scalar_like(scale, flat)
    falling = wnp.sort(stop_gradient(flat))[::-1]
    ranks = wnp.arange(1, flat.size + 1).astype(flat.dtype)
    least = (wnp.cumsum(falling) - scale) / ranks
    count = wnp.maximum(wnp.sum(falling > least), 1)
    kept = stop_gradient(flat) >= falling[count - 1]
    taken = (wnp.sum(wnp.where(kept, flat, 0)) - scale) / wnp.maximum(wnp.sum(kept), 1).astype(flat.dtype)
    return [wnp.maximum(x - taken.astype(x.dtype), 0) for x in xs]


def on_l1_sphere(xs: list[Any], scale: Any) -> list[Any]:
    """Nearest arrays whose absolute values add up to `scale`."""
    signs = [wnp.where(x < 0, -1, 1).astype(x.dtype) for x in xs]
    found = on_simplex([x * sign for x, sign in zip(xs, signs, strict=True)], scale)
    return [x * sign for x, sign in zip(found, signs, strict=True)]
