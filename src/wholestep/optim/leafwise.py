"""Leafwise optimizers: a class states the update of one parameter, which its base applies to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import field
from typing import Any

import numpy as np

from wholestep import numpy as wnp, tree
from wholestep.errors import TreeError
from wholestep.frontend.copied_calls import CopiedCalls
from wholestep.ir.build import blaming_one_line
from wholestep.numpy.working_precision import working_array
from wholestep.optim.hyper import Fields, Rate, label, number_or_schedule, rate_at
from wholestep.optim.paths import chosen_parameters
from wholestep.optim.protocol import scalar_like
from wholestep.words import type_in_words

PARAMETER = ""
"""The key of the new parameter in the dictionary of an update's results."""
ORDER = "params, state = optimizer.update(grads, state, params), where the first state is optimizer.init(params)"


class Leafwise(Fields):
    """The base of optimizers whose state is a dictionary of scalars such as `count`, and a tree for each key of `kept`.

    Arithmetic is carried out in `working_array` precision, and parameters stay in the dtype that they have.
    """

    lr: Rate = field(metadata=number_or_schedule())

    def common(self) -> dict[str, Any]:
        """The initial scalars of the state."""
        return {"count": np.int64(0)}

    def numbers(self, common: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The scalars of the rule, computed once a step, by default the rate; and the new scalars of the state."""
        return rate_at(self.lr, common["count"]), increment_count(common)

    def kept(self, p: Any) -> dict[str, Any]:
        """The initial state of one parameter."""
        return {}

    def moved(self, p: Any, g: Any, kept: dict[str, Any], numbers: Any, decay: Any) -> tuple[Any, dict[str, Any]]:
        """One parameter and its state after the update; `decay` is None where the parameter does not decay."""
        raise NotImplementedError

    def decays(self, params: Any) -> list[Any]:
        """The weight decay of each parameter, None where it does not decay; raises for an invalid `decay`."""
        rate, choice = getattr(self, "weight_decay", None), getattr(self, "decay", None)
        return [rate if yes else None for yes in chosen_parameters(label(self), choice, params)]

    def lazy_ones(self, params: Any) -> list[bool]:
        """True for each parameter whose rows without a gradient stay; raises for an invalid `lazy`."""
        choice: Any = getattr(self, "lazy", False)
        if isinstance(choice, bool):
            return [choice for _ in tree.leaves(params)]
        return chosen_parameters(label(self), choice, params)

    def init(self, params: Any) -> Any:
        """The initial state."""
        leaves, structure = tree.flatten(params)
        self.decays(params)
        self.lazy_ones(params)
        return {**self.common(), **dict_of_trees([self.kept(p) for p in leaves], structure)}

    def update(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """New parameters and a new state."""
        leaves, structure = tree.flatten(params)
        if not (isinstance(state, Mapping) and self.common().keys() <= state.keys()):
            raise TreeError(
                f"{label(self)}: the state is {type_in_words(state)} without {', '.join(self.common())}", hint=ORDER
            )
        common = {name: state[name] for name in self.common()}
        numbers, common = self.numbers(common)
        names = [name for name in state if name not in common]
        olds = [tree.below(structure, state[name]) for name in names]
        rows = zip(leaves, tree.below(structure, grads), *olds, strict=True)

        def moved(row: Sequence[Any], decay: Any, lazy: bool) -> dict[str, Any]:
            p, g, *rest = row
            p, old = wnp.asarray(p), dict(zip(names, rest, strict=True))
            new, kept = self.moved(working_array(p), working_array(g), old, numbers, decay)
            if lazy:
                new, kept = only_touched(working_array(g), (new, kept), (working_array(p), old))
            return {PARAMETER: new.astype(p.dtype, copy=False), **kept}

        own = type(self).__module__.startswith("wholestep.")
        call = CopiedCalls(moved) if own else moved
        choices = zip(rows, self.decays(params), self.lazy_ones(params), strict=True)
        with blaming_one_line() if own else nullcontext():
            news = [call(row, decay, lazy) for row, decay, lazy in choices]
        made = dict_of_trees(news, structure)
        return made.pop(PARAMETER, params), {**common, **made}


def only_touched(g: Any, new: Any, old: Any) -> Any:
    """The new arrays in the rows that have a gradient, and the old ones in those whose gradient is zero."""
    touched = g != 0
    if g.ndim > 1:
        touched = wnp.any(touched, axis=tuple(range(1, g.ndim)), keepdims=True)
    return tree.map(lambda a, b: wnp.where(touched, a, b), new, old)


def dict_of_trees(kept: list[dict[str, Any]], structure: tree.TreeDef) -> dict[str, Any]:
    """A dictionary of trees from a dictionary for each leaf."""
    names = kept[0] if kept else ()
    return {name: tree.unflatten(structure, [each[name] for each in kept]) for name in names}


def increment_count(common: dict[str, Any]) -> dict[str, Any]:
    """The scalars of a state after one more update, for states with only the number of updates."""
    return {"count": common["count"] + 1}


def add_weight_decay(p: Any, g: Any, decay: Any) -> Any:
    """A gradient plus that of the penalty decay * |p|**2 / 2: weight decay that goes through the optimizer."""
    return g if decay is None else g + scalar_like(decay, p) * p


def decay_parameter(p: Any, rate: Any, decay: Any) -> Any:
    """(1 - rate * decay) * p: decoupled weight decay."""
    return p if decay is None else p * scalar_like(1 - rate * decay, p)
