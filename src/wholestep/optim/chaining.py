"""Gradient transforms in front of an optimizer: clipping, normalisation, decayed weights."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, field
from typing import Any

import numpy as np

from wholestep import dtypes, numpy as wnp, tree
from wholestep.errors import DtypeError, ParameterError, UnsupportedError
from wholestep.frontend.batching import all_gather
from wholestep.frontend.control import cond
from wholestep.ir.graph import NDArray
from wholestep.numpy.working_precision import working_array
from wholestep.optim.hyper import Fields, label, labels, number_in
from wholestep.optim.leafwise import add_weight_decay
from wholestep.optim.paths import Choice, chosen_parameters
from wholestep.optim.protocol import (
    Optimizer,
    Transform,
    call_update,
    check_optimizer,
    root_of_squares,
    scalar_like,
    squared_magnitude,
)
from wholestep.words import type_in_words


class Chain(Fields):
    """The optimizer that `chain` makes: transforms, each applied to the result of the previous one, and an optimizer.

    Shapes: as `chain`.
    Raises: as `chain` does.

    >>> import wholestep as ws
    >>> len(ws.optim.chain(ws.optim.clip_by_value(1.0), ws.optim.sgd(0.1)).links)
    2
    """

    links: tuple[Any, ...]

    def init(self, params: Any) -> Any:
        """The state of each link by its name."""
        return {name: link.init(params) for name, link in zip(labels(self.links), self.links, strict=True)}

    def update(self, grads: Any, state: Any, params: Any, **extras: Any) -> tuple[Any, Any]:
        """New parameters and a new state."""
        new = {}
        *transforms, last = labels(self.links)
        for name, link in zip(transforms, self.links[:-1], strict=True):
            grads, new[name] = link.apply(grads, state[name], params)
        moved, new[last] = call_update(self.links[-1], grads, state[last], params, extras)
        return moved, new

    def __repr__(self) -> str:
        return f"chain({', '.join(map(repr, self.links))})"


class Stateless(Fields):
    """A transform without a state."""

    def init(self, params: Any) -> Any:
        """No state."""
        return None


class ClipByGlobalNorm(Stateless):
    """Scale all gradients by one number so that their global norm is at most `max_norm`.

    Gradients whose norm is `max_norm` or less are unchanged. The scale is max_norm / norm, without an epsilon.

    Shapes: a tree of floating or complex arrays; the same.
    Raises: ParameterError for a norm that is not positive, DtypeError for a norm that is no number.
    Source: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013.

    >>> import numpy as np, wholestep as ws
    >>> ws.optim.clip_by_global_norm(2.5).apply({"a": np.array([3.0]), "b": np.array([4.0])}, None, None)[0]
    {'a': array([1.5]), 'b': array([2.])}
    """

    max_norm: float = field(metadata=number_in(strictly=True))

    def apply(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """Gradients whose norm is max_norm at most."""
        norm = global_norm(grads)
        over = norm > self.max_norm
        factor = wnp.where(over, self.max_norm / wnp.where(over, norm, 1), 1)
        # A nan compares as False, and must not pass for a small norm.
        factor = wnp.where(wnp.isnan(norm), norm, factor)
        return tree.map(lambda g: working_array(g) * scalar_like(factor, working_array(g)), grads), None


class ClipByValue(Stateless):
    """Clip each element of every gradient to [-limit, limit].

    Shapes: a tree of real floating arrays; the same.
    Raises: ParameterError for a limit that is not positive, DtypeError for a limit that is no number, and
    UnsupportedError for complex gradients.
    Source: Mikolov, "Statistical language models based on neural networks", 2012.

    >>> import numpy as np, wholestep as ws
    >>> ws.optim.clip_by_value(1.0).apply(np.array([-3.0, 0.5]), None, None)[0].tolist()
    [-1.0, 0.5]
    """

    limit: float = field(metadata=number_in(strictly=True))

    def apply(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """Gradients of which no element is larger than the limit."""
        return tree.map(self.clipped, grads), None

    def clipped(self, g: Any) -> Any:
        """One gradient."""
        g = working_array(g)
        if dtypes.is_complex(g.dtype):
            raise UnsupportedError(
                "clip_by_value: complex gradients have no order", hint="clip_by_global_norm takes them"
            )
        # A zero stays 0 for any limit, so that sparse gradients of a table keep their zero rows.
        return wnp.where(g == 0, g, wnp.clip(g, scalar_like(-self.limit, g), scalar_like(self.limit, g)))


class Normalize(Stateless):
    """Divide the gradient of each parameter by its own norm plus eps.

    `only` selects the parameters: a function of the path, a table, patterns, or None for all.

    Shapes: a tree of floating or complex arrays; the same.
    Raises: ParameterError for a negative eps or a pattern that matches nothing.
    Source: Hazan, Levy and Shalev-Shwartz, "Beyond convexity: stochastic quasi-convex optimization", 2015.

    >>> import numpy as np, wholestep as ws
    >>> g = np.array([3.0, 4.0])
    >>> ws.optim.normalize().apply(g, None, g)[0].round(6).tolist()
    [0.6, 0.8]
    """

    eps: float = field(default=1e-8, metadata=number_in())
    _: KW_ONLY
    only: Choice = None

    def apply(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """Gradients of norm 1 for the parameters that `only` selects; the others are unchanged."""
        structure = tree.structure(params)
        pairs = zip(tree.below(structure, grads), chosen_parameters("normalize", self.only, params), strict=True)
        return tree.unflatten(structure, [self.normalized(working_array(g)) if yes else g for g, yes in pairs]), None

    def normalized(self, g: Any) -> Any:
        """One gradient divided by its norm plus eps."""
        return g / (scalar_like(global_norm(g), g) + scalar_like(self.eps, g))


class AddDecayedWeights(Stateless):
    """Add weight_decay * p to the gradient of each parameter p that `decay` selects.

    The added term is the gradient of the penalty weight_decay * p**2 / 2.

    Shapes: a tree of floating or complex arrays; the same.
    Raises: ParameterError for a negative number or a pattern that matches nothing.
    Source: Krogh and Hertz, "A simple weight decay can improve generalization", 1992.

    >>> import numpy as np, wholestep as ws
    >>> ws.optim.add_decayed_weights(0.1).apply(np.zeros(1), None, np.ones(1))[0].tolist()
    [0.1]
    """

    weight_decay: float = field(metadata=number_in())
    _: KW_ONLY
    decay: Choice = None

    def apply(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """Gradients with the decay term of the parameters that `decay` selects."""
        leaves, structure = tree.flatten(params)
        yes = chosen_parameters("add_decayed_weights", self.decay, params)
        each = zip(leaves, tree.below(structure, grads), yes, strict=True)
        made = [
            add_weight_decay(working_array(p), working_array(g), self.weight_decay if y else None) for p, g, y in each
        ]
        return tree.unflatten(structure, made), None


def global_norm(grads: Any) -> NDArray:
    """The norm of all arrays of a tree taken together: the root of the sum of |g|**2.

    Numbers whose squares would overflow are divided by the largest first. In a step whose processes have parts of the
    gradients it is the norm of all parts.

    Shapes: grads a tree of floating or complex arrays; a real scalar.
    Raises: nothing of its own.

    >>> import numpy as np
    >>> float(global_norm({"w": np.array([3.0]), "b": np.array([4.0])}))
    5.0
    """
    own = norm_of_arrays([working_array(g) for g in tree.leaves(grads) if wnp.size(g)])
    axis_name = _parts_over.get()
    return own if axis_name is None else norm_of_arrays([all_gather(own, axis_name)])


def norm_of_arrays(arrays: Sequence[Any]) -> Any:
    """The norm of all these arrays together, none of which is empty."""
    if not arrays:
        return wnp.zeros(())

    def plain(total: Any) -> Any:
        return root_of_squares(total)

    def careful(total: Any) -> Any:
        largest = functools.reduce(wnp.maximum, [wnp.max(abs(g)) for g in arrays])
        with np.errstate(invalid="ignore"):
            parts = [wnp.sum(squared_magnitude(g / scalar_like(largest, g))) for g in arrays]
        return (largest * root_of_squares(functools.reduce(wnp.add, parts))).astype(total.dtype)

    with np.errstate(over="ignore"):
        total = wnp.asarray(functools.reduce(wnp.add, [wnp.sum(squared_magnitude(g)) for g in arrays]))
    return cond(wnp.isfinite(total), plain, careful, total)


_parts_over: ContextVar[str | None] = ContextVar("the axis over whose processes gradients lie in parts", default=None)


@contextmanager
def norms_over(axis_name: str) -> Iterator[None]:
    """A context in which `global_norm` is that of arrays of which each process of an axis has a part."""
    before = _parts_over.set(axis_name)
    try:
        yield
    finally:
        _parts_over.reset(before)


def chain(*links: Transform | Optimizer) -> Chain:
    """Transforms and, at the end, an optimizer that gets the gradients after all transforms.

    A transform is an object with `init(params) -> state` and `apply(grads, state, params) -> (grads, state)`.

    Shapes: trees of arrays; the state is a dictionary of those of the links, by their names.
    Raises: ParameterError where there is nothing to chain, DtypeError for a link that is no transform, or a last one
    that is no optimizer.

    >>> import numpy as np, wholestep as ws
    >>> optimizer = ws.optim.chain(ws.optim.clip_by_global_norm(1.0), ws.optim.sgd(0.5))
    >>> optimizer.update(np.ones(4), optimizer.init(np.zeros(4)), np.zeros(4))[0].tolist()
    [-0.25, -0.25, -0.25, -0.25]
    """
    if not links:
        raise ParameterError("chain: there is nothing to chain", hint="chain(clip_by_global_norm(1.0), adamw(1e-3))")
    for link in links[:-1]:
        if not callable(getattr(link, "apply", None)) or not callable(getattr(link, "init", None)):
            raise DtypeError(
                f"chain: {type_in_words(link)} stands before the end, and is no transform",
                hint="a transform has init and apply; the optimizer comes last",
            )
    check_optimizer(f"chain: the last link, {label(links[-1])},", links[-1])
    return Chain(links)
