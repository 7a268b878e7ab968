"""The options that `compile` and `estimate` share, and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wholestep.boundary.counts import checked_count
from wholestep.compiler.devices import check_winograd
from wholestep.errors import ParameterError
from wholestep.lower.remat.memory_budget import parse_memory_budget
from wholestep.optim.hyper import hyperparameters_of
from wholestep.optim.protocol import check_optimizer
from wholestep.passes.attention_pattern.replace import check_blocks
from wholestep.train.program.microbatches import check_microbatch
from wholestep.train.program.step_function import GUARDS, UNROLLS, capture_names
from wholestep.train.program.traced_step import check_roll
from wholestep.train.state.loss_scaling import scaling_of
from wholestep.train.state.offloaded_state import folder_of
from wholestep.train.state.precision import PRECISIONS


def shared_options(
    *,
    optimizer: Any,
    has_aux: bool,
    captures: Sequence[str],
    steps_per_call: Any,
    guard: Any,
    precision: Any,
    loss_scale: Any,
    memory_budget: Any,
    microbatch: Any,
    unroll: Any,
    roll: Any,
    blocks: Any,
    winograd: Any,
    stream: Any,
    folder: Any,
    grad_norm: bool,
    device: str,
) -> dict[str, Any]:
    """The options as fields of a `StepFunction`; raises for unknown options and options that contradict each other."""
    check_optimizer("compile: optimizer", optimizer, optional=True)
    checked_count("steps_per_call", steps_per_call, "compile")
    check_choice("guard", guard, GUARDS)
    check_choice("precision", precision, (None, *PRECISIONS))
    check_roll(roll, stream)
    check_blocks("compile", blocks)
    check_winograd("compile", winograd, device)
    scaling = scaling_of(loss_scale, precision, guard, optimizer is not None)
    budget = parse_memory_budget(memory_budget)
    place = folder_of(folder, stream, budget)
    check_unroll(unroll, int(steps_per_call), optimizer)
    names = capture_names(captures)
    check_microbatch(microbatch, has_aux, bool(names))
    check_norm(grad_norm, optimizer)
    return {
        "optimizer": optimizer,
        "has_aux": has_aux,
        "captures": names,
        "guard": guard,
        "precision": precision,
        "scaling": scaling,
        "budget": budget if budget is None or place is None else budget.with_spilling(),
        "microbatch": None if microbatch == "auto" else microbatch,
        "unroll": unroll,
        "roll": roll,
        "blocks": blocks,
        "winograd": winograd,
        "folder": place,
        "grad_norm": bool(grad_norm),
    }


def check_choice(name: str, given: Any, choices: tuple[Any, ...]) -> None:
    """Raise ParameterError for an option that is none of its choices."""
    if given not in choices:
        raise ParameterError(f"compile: {name} is {given!r}; it is one of {', '.join(map(repr, choices))}")


def check_unroll(unroll: Any, count: int, optimizer: Any) -> None:
    """Raise ParameterError for an unknown choice, and for `unroll="through"` without updates to differentiate."""
    check_choice("unroll", unroll, UNROLLS)
    if unroll == "through" and count == 1:
        raise ParameterError(
            "compile: unroll='through' with one step a call: its loss comes before its update",
            hint="say steps_per_call=K with a K of 2 or more",
        )
    if unroll == "through" and not hyperparameters_of(optimizer):
        raise ParameterError(
            "compile: unroll='through', and the optimizer has no hyper-parameters",
            hint="give an optimizer with floats in its fields, such as ws.optim.sgd(0.1)",
        )


def check_norm(asked: bool, optimizer: Any) -> None:
    """Raise ParameterError for `grad_norm` in a step without gradients."""
    if asked and optimizer is None:
        raise ParameterError("compile: grad_norm without an optimizer", hint="there are no gradients; give optimizer=")
