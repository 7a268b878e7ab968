"""Connectionist temporal classification: the chance of a label sequence when only its order in time is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from wholestep import numpy as wnp
from wholestep.errors import DtypeError, ShapeError
from wholestep.frontend.control import scan
from wholestep.frontend.tracing import type_of
from wholestep.ir.graph import NDArray
from wholestep.nn.cross_entropies import checked_index, index_called
from wholestep.nn.exponentials import finite_maximum
from wholestep.nn.reduction import Reduction, real_floating, reduce_losses
from wholestep.numpy.conditions import where_holds

INFINITY = float("inf")
BLANK_LABEL = (
    "ctc_loss: a target has the label {0} within its length, which is the blank\n"
    "number the labels without the blank's class, say blank=, or give the lengths without padding"
)
"""The message, and a way out, for targets whose alignments nothing counts rightly."""


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
    reduction: Reduction = "mean",
) -> NDArray:
    """-log of the probability of each target sequence, summed over all of its alignments in time.

    `log_probs` are logarithms of probabilities over classes at each time, `targets` labels; `input_lengths` and
    `target_lengths` are the used lengths of both, and elements beyond them are ignored. `blank` is the class that
    stands for no label and parts repeated ones. The mean is of each loss divided by its target's length, as in PyTorch.
    A target that does not fit into its input has the loss infinity, or 0 with `zero_infinity`, and no gradient.

    Shapes: `log_probs` floats [T, N, C], `targets` integers [N, L], both lengths integers [N]; a scalar, or [N] with
    `reduction="none"`.
    Raises: BoundsError for a label outside the classes or a length beyond the arrays, ParameterError for a label that
    is the blank (BoundsError in a compiled program), ShapeError and DtypeError for operands that do not fit.
    Source: Graves, Fernández, Gomez and Schmidhuber, "Connectionist temporal classification", 2006, section 4.1, in
    logarithms.

    >>> import numpy as np, wholestep as ws
    >>> even = np.log(np.full((3, 1, 2), 0.5))
    >>> loss = ws.nn.ctc_loss(even, np.array([[1]]), np.array([3]), np.array([1]))
    >>> float(np.exp(-loss).round(3))  # 6 of the 8 ways: one run of ones
    0.75
    """
    x, labels = real_floating("ctc_loss", log_probs, "log_probs"), wnp.asarray(targets)
    check_shapes(x, labels, input_lengths, target_lengths)
    times, _, classes = x.shape
    inputs, lengths = length_of("input", input_lengths, times), length_of("target", target_lengths, labels.shape[1])
    place = int(checked_index("ctc_loss", np.asarray(blank), classes))
    there = wnp.arange(labels.shape[1]) < lengths[:, None]
    used = checked_index("ctc_loss", wnp.where(there, labels, place), classes)
    states = extended(where_holds(used, ~wnp.any(there & (labels == place)), BLANK_LABEL.format(place)), place)
    chance = at_end(forward(x, states, inputs, place), lengths)
    losses = wnp.where(chance == -INFINITY, 0 if zero_infinity else INFINITY, -chance)
    if reduction == "mean":
        losses = losses / wnp.maximum(lengths, 1).astype(x.dtype)
    return reduce_losses("ctc_loss", log_probs, losses, reduction)


def check_shapes(x: Any, labels: Any, input_lengths: Any, target_lengths: Any) -> None:
    """Raise ShapeError or DtypeError where the arguments do not fit together."""
    if x.ndim != 3 or labels.ndim != 2 or labels.shape[0] != x.shape[1]:
        raise ShapeError(
            f"ctc_loss: log_probs are {type_of(x)}, and targets {type_of(labels)}",
            hint="log_probs are [times, samples, classes], targets [samples, labels]",
        )
    for name, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if wnp.asarray(lengths).shape != x.shape[1:2]:
            raise ShapeError(
                f"ctc_loss: {name} are {type_of(wnp.asarray(lengths))}, and there are {x.shape[1]} samples"
            )
    for name, given in (("targets", labels), ("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        if wnp.asarray(given).dtype.kind not in "iu":
            raise DtypeError(f"ctc_loss: {name} are {type_of(wnp.asarray(given))}, not integers")


def length_of(what: str, lengths: Any, most: int) -> Any:
    """Lengths in int64; raises BoundsError for a length beyond the array, in a compiled program by a gather."""
    checked = checked_index("ctc_loss", wnp.asarray(lengths), most + 1, what=f"{what} length")
    with index_called(f"ctc_loss: {what} length"):
        return wnp.take(wnp.arange(most + 1), checked)


def extended(labels: Any, blank: int) -> Any:
    """i[N, 2 L + 1]: the labels with blanks around and between them."""
    rows, count = labels.shape
    made = wnp.full((rows, 2 * count + 1), blank, np.int64)
    made[:, 1::2] = labels
    return made


def forward(x: Any, states: Any, inputs: Any, blank: int) -> Any:
    """f[N, S]: the logarithm of the chance to be in each state at the end of the input.

    A path stays in a state, comes from the state before, or skips the blank between two labels that differ.
    """
    times, rows, _ = x.shape
    count = states.shape[1]
    with index_called("ctc_loss: label"):
        emitted = wnp.take_along_axis(x, wnp.broadcast_to(states, (times, rows, count)), axis=2)
    skips = wnp.concatenate([wnp.zeros((rows, 2), bool), states[:, 2:] != states[:, :-2]], axis=1)[:, :count]
    skips = skips & (states != blank)
    first = wnp.where(wnp.arange(count) == 0, 0, wnp.full((rows, count), -INFINITY, x.dtype))

    def step(alpha: Any, now: Any) -> tuple[Any, None]:
        t, emission = now
        stay, come, skip = [shift_states(alpha, by) for by in range(3)]
        # Before the first input the only place is ahead of the first state, from where it and the second are reached.
        reached = log_sum(wnp.stack([stay, come, wnp.where(skips, skip, -INFINITY)]))
        return wnp.where(t < inputs[:, None], reached + emission, alpha), None

    return scan(step, first, (wnp.arange(times), emitted))[0]


def shift_states(alpha: Any, by: int) -> Any:
    """Each state's chance moved on by some states."""
    kept = alpha[:, : alpha.shape[1] - by]
    return wnp.concatenate(
        [wnp.full((alpha.shape[0], alpha.shape[1] - kept.shape[1]), -INFINITY, alpha.dtype), kept], 1
    )


def at_end(alpha: Any, lengths: Any) -> Any:
    """The chance to have ended: in the last label or in the blank after it."""
    last = 2 * lengths[:, None]
    ends = wnp.take_along_axis(alpha, wnp.concatenate([last, wnp.maximum(last - 1, 0)], axis=1), axis=1)
    both = wnp.where(wnp.concatenate([last >= 0, last > 0], axis=1), ends, -INFINITY)
    return log_sum(both.T)


def log_sum(x: Any) -> Any:
    """log(sum(exp(x))) along the first axis; -inf without a gradient where all of x is -inf."""
    top = finite_maximum(x, 0)
    total = wnp.sum(wnp.exp(x - top), axis=0)
    possible = total > 0
    return wnp.where(possible, wnp.log(wnp.where(possible, total, 1)) + top[0], -INFINITY)
