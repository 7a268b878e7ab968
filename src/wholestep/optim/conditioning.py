"""Gradient transforms for one parameter, unit or element at a time: clipping, centering, zeros for nan."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, field
from typing import Any

from wholestep import numpy as wnp, tree
from wholestep.numpy.working_precision import working_array
from wholestep.optim.chaining import Stateless, global_norm
from wholestep.optim.hyper import number_in
from wholestep.optim.paths import Choice, chosen_parameters
from wholestep.optim.protocol import root_of_squares, scalar_like, squared_magnitude


class AdaptiveClip(Stateless):
    """Clip the gradient norm of each unit to `clipping` times the norm of its weights, taken as at least `eps`.

    A unit is an index along the last axis of a matrix, or along the first axis of a kernel of three axes or more; each
    element of a vector is a unit. `only` selects the parameters: a function of the path, a table, patterns, or None
    for all.

    Shapes: a tree of floating or complex arrays; the same.
    Raises: ParameterError for numbers that are not positive and for a pattern that matches nothing.
    Source: Brock, De, Smith and Simonyan, "High-performance large-scale image recognition without normalization", 2021.

    >>> import numpy as np, wholestep as ws
    >>> g, p = np.array([[3.0, 0.0], [4.0, 1.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    >>> ws.optim.adaptive_clip(0.5).apply(g, None, p)[0].round(6).tolist()
    [[0.3, 0.0], [0.4, 0.5]]
    """

    clipping: float = field(default=0.01, metadata=number_in(strictly=True))
    eps: float = field(default=1e-3, metadata=number_in(strictly=True))
    _: KW_ONLY
    only: Choice = None

    def apply(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """Gradients with the norm of each unit clipped."""
        leaves, structure = tree.flatten(params)
        yes = chosen_parameters("adaptive_clip", self.only, params)
        each = zip(leaves, tree.below(structure, grads), yes, strict=True)
        made = [self.clip_units(working_array(p), working_array(g)) if y else g for p, g, y in each]
        return tree.unflatten(structure, made), None

    def clip_units(self, p: Any, g: Any) -> Any:
        """One gradient."""
        size, slope = unit_norms(p), unit_norms(g)
        most = scalar_like(self.clipping, p) * wnp.maximum(size, scalar_like(self.eps, p))
        over = slope > most
        return g * wnp.where(over, most / wnp.where(over, slope, 1), 1)


class ClipByBlockRms(Stateless):
    """Scale the gradient of each parameter so that its root mean square is at most `most`.

    Shapes: a tree of floating or complex arrays; the same.
    Raises: ParameterError for a number that is not positive, DtypeError for an argument that is no number.
    Source: Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost", 2018, section 6; Optax's
    clip_by_block_rms.

    >>> import numpy as np, wholestep as ws
    >>> grads = {"a": np.full(4, 6.0), "b": np.full(2, 0.5)}
    >>> ws.optim.clip_by_block_rms(2.0).apply(grads, None, None)[0]
    {'a': array([2., 2., 2., 2.]), 'b': array([0.5, 0.5])}
    """

    most: float = field(metadata=number_in(strictly=True))

    def apply(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """Gradients with a root mean square of at most `most` each."""
        return tree.map(self.shortened, grads), None

    def shortened(self, g: Any) -> Any:
        """One gradient."""
        g = working_array(g)
        if not g.size:
            return g
        size = global_norm(g) / scalar_like(math.sqrt(g.size), g)
        over = size > self.most
        factor = wnp.where(over, scalar_like(self.most, g) / wnp.where(over, size, 1), 1)
        return g * wnp.where(wnp.isnan(size), size, factor)


def unit_norms(x: Any) -> Any:
    """The norm of each unit of a parameter, shaped to multiply it."""
    axes = () if x.ndim < 2 else (0,) if x.ndim == 2 else tuple(range(1, x.ndim))
    squares = squared_magnitude(x)
    total = wnp.sum(squares, axis=axes, keepdims=True) if axes else squares
    return root_of_squares(total)


class Centralize(Stateless):
    """Subtract from the gradient of each unit its mean; vectors and scalars stay as they are.

    A unit is an index along the last axis of a matrix, or along the first axis of a kernel of three axes or more.

    Shapes: a tree of floating or complex arrays; the same.
    Raises: nothing of its own.
    Source: Yong, Huang, Hua and Zhang, "Gradient centralization: a new optimization technique for deep neural
    networks", 2020.

    >>> import numpy as np, wholestep as ws
    >>> ws.optim.centralize().apply(np.array([[1.0, 4.0], [3.0, 4.0]]), None, None)[0].tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """

    def apply(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """Gradients of units whose mean is 0."""
        return tree.map(subtract_unit_mean, grads), None


def subtract_unit_mean(g: Any) -> Any:
    """One gradient without the mean of each unit."""
    g = working_array(g)
    if g.ndim < 2:
        return g
    return g - wnp.mean(g, axis=0 if g.ndim == 2 else tuple(range(1, g.ndim)), keepdims=True)


class ZeroNans(Stateless):
    """Replace each nan in a gradient by 0; infinities stay.

    The guard of a step tests the gradients before this transform, and with `guard="gradients"` skips the update.

    Shapes: a tree of floating or complex arrays; the same.
    Raises: nothing of its own.
    Source: Optax's zero_nans.

    >>> import numpy as np, wholestep as ws
    >>> ws.optim.zero_nans().apply(np.array([np.nan, 2.0]), None, None)[0].tolist()
    [0.0, 2.0]
    """

    def apply(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """Gradients without nan."""
        return tree.map(lambda g: wnp.where(wnp.isnan(working_array(g)), 0, working_array(g)), grads), None
