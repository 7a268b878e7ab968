"""unroll: K optimizer steps as one traced function, so that the result of training can be differentiated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from wholestep import dtypes, nn, random, tree
from wholestep.boundary.counts import whole_number
from wholestep.boundary.public import bounded
from wholestep.errors import DtypeError, ParameterError, ShapeError
from wholestep.frontend.array import Array
from wholestep.frontend.checkpoint import checkpoint as recomputed
from wholestep.frontend.control import scan
from wholestep.frontend.gradients import loss_value, value_and_grad
from wholestep.frontend.marks import stop_gradient
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import type_of
from wholestep.nn.keys import takes_key
from wholestep.optim.hyper import Number, checked_number, full_name, hyperparameters_of, label, with_hyper
from wholestep.optim.protocol import Optimizer, call_update, check_optimizer
from wholestep.train.program.hyperparameters import ANY_NUMBER
from wholestep.train.state.model_state import is_model

Through: TypeAlias = bool | Literal["first_order"]

Unrolled: TypeAlias = Callable[..., tuple[Any, Any, Any]]
"""(params, opt_state, batches, hyper=None, *, key=None) -> (params, opt_state, losses)."""


@dataclass(frozen=True)
@bounded
class InnerStep:
    """One step of the unrolled training, as the body of a loop."""

    loss: Callable[..., Any]
    optimizer: Any
    through: Through

    def step(self, carry: Any, given: Any) -> Any:
        """((params, state, buffers), loss) after one step on (its number, batch, key, hyper-parameters)."""
        if self.through is False:
            carry = stop_gradient(carry)
        params, state, buffers = carry
        i, batch, key, hyper = given
        keys = {"key": random.fold_in(key, i)} if takes_key(self.loss) else {}

        def objective(params: Any) -> Any:
            model = nn.join(params, buffers=buffers) if buffers else params
            value = ordinary(self.loss)(model, batch, **keys)
            return value, nn.buffers(model) if buffers else {}

        (value, buffers_after), grads = value_and_grad(objective, has_aux=True)(params)
        if self.through == "first_order":
            grads = stop_gradient(grads)
        extras = {"loss": value, "objective": lambda params: objective(params)[0], "aux": None}
        params, state = call_update(with_hyper(self.optimizer, hyper), grads, state, params, extras)
        return (params, state, buffers_after), loss_value(value, "unroll", False)


def unroll(
    loss: Callable[..., Any],
    optimizer: Optimizer,
    steps: int | None = None,
    *,
    through: Through = True,
    checkpoint: bool = True,
) -> Unrolled:
    """`steps` optimizer steps on `loss(params, batch)` as a function that is differentiated like any other.

    The result is called as `(params, opt_state, batches, hyper=None, *, key=None)` and returns `(params, opt_state,
    losses)`: the final parameters and state, and the loss before each step. It is one loop in a program, for any number
    of `steps`, for `ws.grad`, `ws.vmap`, `ws.jit`, and losses of `ws.compile`. `params` is a tree or a model, whose
    buffers are carried along; with `opt_state` None it begins with `optimizer.init(params)`. The arrays of `batches`
    have a first axis of steps; with `batches` None the loss is given None. `hyper` holds other values for
    hyper-parameters, by the names of `step.hyper`: numbers, traced ones too, or an array of one for each step. If the
    loss has a keyword-only parameter `key`, step n gets `fold_in(key, n)`, as in a compiled step.

    With `through` True derivatives go through the updates. With False each step takes its initial parameters and state
    as constants, so that its results depend on its own batch and hyper-parameters alone. "first_order" goes through the
    updates and takes the gradients within them as constants. With `checkpoint` the backward pass keeps the state of
    each step and recomputes its other residuals; without it all residuals are kept. Neither changes a value.

    No step is skipped: a loss that is not finite enters the update.

    Shapes: parameters and state keep theirs; batches [steps, ...]; the losses f[steps].
    Raises: ParameterError for a name that is no hyper-parameter or a number that the optimizer would not take,
    DtypeError and ShapeError for values that are no numbers or not one for each step, and exceptions of the loss.
    Source: Maclaurin, Duvenaud and Adams, "Gradient-based hyperparameter optimization through reversible learning",
    2015; Finn, Abbeel and Levine, "Model-agnostic meta-learning", 2017, for "first_order" too.

    >>> import numpy as np, wholestep as ws
    >>> train = ws.unroll(lambda w, x: np.sum((w - x) ** 2) / 2, ws.optim.sgd(0.5), steps=2)
    >>> def trained(lr):
    ...     w, state, losses = train(np.array([8.0]), None, np.zeros((2, 1)), {"lr": lr})
    ...     return w[0]  # 8 * (1 - lr) ** 2
    >>> trained(0.5), ws.grad(trained)(0.5)
    (np.float64(2.0), np.float64(-8.0))
    """
    check_optimizer("unroll: the optimizer", optimizer)
    count = None if steps is None else whole_number("steps", steps, "unroll")
    if through not in (True, False, "first_order"):
        raise ParameterError(f"unroll: through is {through!r}; it is True, False or 'first_order'")
    body = InnerStep(loss, optimizer, through).step
    body = recomputed(body) if checkpoint else body
    known = hyperparameters_of(optimizer)

    def unrolled(params: Any, opt_state: Any, batches: Any, hyper: Any = None, *, key: Any = None) -> Any:
        if takes_key(loss) and key is None:
            raise ParameterError("unroll: the loss takes a key, and none was given", hint="give key=ws.random.key(0)")
        n = common_step_count(batches, count)
        fixed, moving = split_hyperparameters(known, label(optimizer), hyper, n)
        buffers = nn.buffers(params) if holds_models(params) else {}
        state = optimizer.init(params) if opt_state is None else opt_state

        def one(carry: Any, given: Any) -> Any:
            i, batch, own = given
            return body(carry, (i, batch, key, {**fixed, **own}))

        given = (np.arange(n), batches, moving)
        (params, state, buffers), losses = scan(one, (params, state, buffers), given)
        return nn.join(params, buffers=buffers) if buffers else params, state, losses

    return unrolled


def common_step_count(batches: Any, steps: int | None) -> int:
    """The number of steps: the first axis of every array of the batches, and `steps` where it was given."""
    found = None if steps is None else (steps, "steps")
    for x, path in zip(tree.leaves(batches), tree.paths(batches, "batches"), strict=True):
        t = type_of(x)
        if t.ndim == 0:
            raise ShapeError(f"unroll: {path} is {t}, which has no axis of steps", hint="stack one batch for each step")
        if found is not None and t.shape[0] != found[0]:
            raise ShapeError(f"unroll: {path} is {t}, and {found[1]} says {found[0]} steps")
        found = found or (t.shape[0], path)
    if found is None:
        raise ShapeError("unroll: no batches and no steps", hint="give steps=, how many there are")
    return found[0]


def split_hyperparameters(
    known: Mapping[str, Number], who: str, hyper: Any, steps: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Hyper-parameters by full name: those with one value for all steps, and those with a value for each step."""
    fixed: dict[str, Any] = {}
    moving: dict[str, Any] = {}
    for given, value in (hyper or {}).items():
        name = full_name(known, given)
        if name is None:
            raise ParameterError(
                f"unroll: {given} is no hyper-parameter of {who}",
                hint=f"there are {', '.join(known)}" if known else "its fields hold no floats",
            )
        value, several = checked_value(given, value, known[name], steps)
        (moving if several else fixed)[name] = value
    return fixed, moving


def checked_value(name: str, value: Any, about: Number, steps: int) -> tuple[Any, bool]:
    """A hyper-parameter's value, and True if it has one for each step; the number of a traced value is not checked."""
    if not isinstance(value, Array | np.ndarray):
        return checked_number("unroll", name, value, about.range or ANY_NUMBER), False
    t = type_of(value)
    if t.shape not in ((), (steps,)):
        raise ShapeError(f"unroll: {name} is {t}; it is one number, or one for each of the {steps} steps")
    if not dtypes.is_float(t.dtype):
        raise DtypeError(f"unroll: {name} is {t}, not a real number", hint="convert it with .astype(float)")
    for x in [] if isinstance(value, Array) else np.atleast_1d(value):
        checked_number("unroll", name, x, about.range or ANY_NUMBER)
    return value, bool(t.shape)


def holds_models(params: Any) -> bool:
    """True if a tree has modules, or frozen arrays, in it."""
    return any(is_model(x) for x in tree.flatten(params, is_model)[0])
