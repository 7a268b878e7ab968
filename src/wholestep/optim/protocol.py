"""The protocols of optimizers and of gradient transforms, and the arithmetic that they share."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np

from wholestep import dtypes, numpy as wnp
from wholestep.boundary.answers import check_fits, our_name
from wholestep.errors import DtypeError, ImpurityError, ParameterError, TreeError
from wholestep.ir.build import current
from wholestep.words import type_in_words, with_article


class Optimizer(Protocol):
    """Two pure functions of trees of arrays, which run eagerly and inside a compiled step.

    Shapes: trees of floating or complex arrays; states are trees of arrays, whose types stay.
    Raises: in `init` and `update`, errors of the optimizer.

    >>> import numpy as np, wholestep as ws
    >>> class Halve:
    ...     def init(self, params):
    ...         return None
    ...     def update(self, grads, state, params):
    ...         return params / 2, state
    >>> ws.compile(lambda p, x: (p * x).sum(), np.ones(2), optimizer=Halve(), batch=np.ones(2))(np.ones(2)).loss
    2.0
    """

    def init(self, params: Any) -> Any:
        """The initial state, a tree of arrays."""

    def update(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """New parameters and a new state, of the structures and types of the old ones."""


class Transform(Protocol):
    """Two pure functions that change gradients before an optimizer uses them; `chain` puts them before it.

    Shapes: trees of arrays like the parameters; states are trees of arrays, whose types stay.
    Raises: in `init` and `apply`, errors of the transform.

    >>> import numpy as np, wholestep as ws
    >>> class Negate:
    ...     def init(self, params):
    ...         return None
    ...     def apply(self, grads, state, params):
    ...         return -grads, state
    >>> optimizer = ws.optim.chain(Negate(), ws.optim.sgd(1.0))
    >>> optimizer.update(np.ones(1), optimizer.init(np.zeros(1)), np.zeros(1))[0].tolist()
    [1.0]
    """

    def init(self, params: Any) -> Any:
        """The initial state, or None."""

    def apply(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """New gradients and a new state."""


FOREIGN = {
    "optax": "Optax, whose update gives what is added to the parameters",
    "torch": "PyTorch, which updates tensors of its own",
    "keras": "Keras, which updates variables of its own",
}
"""Libraries by the packages of their optimizers, with what makes these other ones than ours."""


def check_optimizer(who: str, x: Any, optional: bool = False) -> None:
    """Raise DtypeError for an object without init and update, and for optimizers of other libraries."""
    kind = x if isinstance(x, type) else type(x)
    library = FOREIGN.get(kind.__module__.partition(".")[0])
    if library is not None:
        ours = our_name("ws.optim", kind.__name__)
        hint = f"{ours}(1e-3) is one" if ours else "ws.optim has its names: ws.optim.adam(1e-3), ws.optim.chain(...)"
        raise DtypeError(f"{who} is {with_article(kind.__name__)} of {library}", hint=hint)
    if (optional and x is None) or (callable(getattr(x, "init", None)) and callable(getattr(x, "update", None))):
        return
    name = getattr(x, "__name__", "")
    if callable(x) and name:
        made = "class" if kind is x else "function"
        ours = our_name("ws.optim", name)
        hint = f"call it: {f'{ours}(1e-3)' if ours else f'{name}(...)'}"
        raise DtypeError(f"{who} is the {made} {name}, not what it returns", hint=hint)
    what = f"the text {x!r}" if isinstance(x, str) else type_in_words(x)
    transform = callable(getattr(x, "init", None)) and callable(getattr(x, "apply", None))
    raise DtypeError(
        f"{who} is {what}, not an optimizer",
        hint="it transforms gradients: ws.optim.chain(it, ws.optim.adam(1e-3)) is an optimizer"
        if transform
        else "ws.optim.adam(1e-3) is one",
    )


def call_update(optimizer: Any, grads: Any, state: Any, params: Any, extras: Mapping[str, Any]) -> Any:
    """The result of `update`, called with those of the extras that it names.

    Extras are `loss`, the value of the loss; `objective`, a function of params that computes it again; and `aux`, the
    loss function's further results. Raises ArgumentError for an update with other parameters, and TreeError where it
    returns no pair.
    """
    named = {name: extras[name] for name in accepted_extras(optimizer.update, extras)}
    name = type(optimizer).__name__
    check_fits(f"{name}.update", optimizer.update, (grads, state, params), named, UPDATE_HINT)
    before = numbers_of(optimizer)
    made = optimizer.update(grads, state, params, **named)
    changed = [field for field, x in before if getattr(optimizer, field, x) is not x]
    if changed and current() is not None:
        raise ImpurityError(
            f"{name}.update assigns its field {changed[0]}, and runs once, while the step is compiled",
            hint="keep it in the state: init returns the first one as an array, update each next one",
        )
    if not isinstance(made, tuple) or len(made) != 2:
        what = f"a tuple of {len(made)}" if isinstance(made, tuple) else type_in_words(made)
        raise TreeError(f"{name}.update returned {what}, not (params, state)", hint=UPDATE_HINT)
    return made


def numbers_of(optimizer: Any) -> list[tuple[str, Any]]:
    """The fields of an optimizer, those of its class among them, that hold plain numbers."""
    held = {**vars(type(optimizer)), **getattr(optimizer, "__dict__", {})}
    return [(field, x) for field, x in held.items() if isinstance(x, int | float)]


UPDATE_HINT = "def update(self, grads, state, params): return new_params, new_state"
"""The form of an update."""


def accepted_extras(f: Callable[..., Any], extras: Mapping[str, Any]) -> list[str]:
    """The extras that a function takes by keyword."""
    try:
        known = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return []
    if any(p.kind is p.VAR_KEYWORD for p in known):
        return list(extras)
    return [p.name for p in known if p.name in extras and p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]


def required_extra(name: str, what: str, extras: Mapping[str, Any]) -> Any:
    """An extra that this update requires; raises ParameterError where it was not given."""
    if extras.get(what) is None:
        raise ParameterError(
            f"{name}: update was not given {what}=",
            hint="a compiled step gives it, but not inside ws.optim.accumulate; "
            "pass it on from an optimizer of your own, or to update where you call it",
        )
    return extras[what]


def scalar_like(x: Any, like: Any) -> Any:
    """A number in the precision of an array, so that arithmetic with it stays there."""
    return wnp.asarray(x).astype(dtypes.real_of(like.dtype))


def running_mean(mean: Any, x: Any, keep: Any) -> Any:
    """A running mean after one more value: keep * mean + (1 - keep) * x."""
    return scalar_like(keep, mean) * mean + scalar_like(1 - keep, mean) * x


def squared_magnitude(x: Any) -> Any:
    """|x|**2."""
    return x.real * x.real + x.imag * x.imag if dtypes.is_complex(x.dtype) else x * x


def root_of_squares(x: Any) -> Any:
    """The root of sums or means of squares, without the infinite slope at 0, of which derivatives through the update
    would be nan.

    One number has the root 0 and the slope 0 there. To the elements of an array the smallest normal number is added,
    which takes one operation, and changes no number that an `eps` is added to.
    """
    if x.ndim:
        return wnp.sqrt(x + scalar_like(np.finfo(x.dtype).smallest_normal, x))
    nothing = x == 0
    return wnp.where(nothing, 0, wnp.sqrt(wnp.where(nothing, 1, x)))


def working_zeros(x: Any) -> Any:
    """Zeros like a parameter, in the dtype of arithmetic on it."""
    array = wnp.asarray(x)
    # Unlike zeros_like, this takes no memory from the system until the first write.
    return wnp.zeros(array.shape, dtypes.compute_dtype(array.dtype))


def real_zeros(x: Any) -> Any:
    """Zeros like the squared absolute value of a parameter."""
    array = wnp.asarray(x)
    return wnp.zeros(array.shape, dtypes.real_of(dtypes.compute_dtype(array.dtype)))
