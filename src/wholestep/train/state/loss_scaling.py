"""Loss scaling: gradients that would underflow in half precision are scaled up, and scaled back before their use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wholestep import numpy as wnp, tree
from wholestep.errors import DtypeError, ParameterError
from wholestep.numpy.working_precision import working_array
from wholestep.optim.protocol import scalar_like
from wholestep.words import type_in_words

LEAST, MOST = 2.0**-24, 2.0**24
"""The bounds of a dynamic scale."""


@dataclass(frozen=True)
class Scaling:
    """A scale that multiplies the loss before it is differentiated, and by which the gradients are divided.

    The scale is part of the state. With `interval=None` it is constant. Otherwise it is halved after a step whose loss
    or gradients are not finite, and doubled after `interval` finite steps in a row. Powers of two change no digit.
    After Micikevicius et al., "Mixed precision training", ICLR 2018.

    >>> s = Scaling(8.0, interval=2)
    >>> state = s.init()
    >>> for finite in (True, True, False):
    ...     state = s.after(state, np.array(finite))
    ...     print(float(state["scale"]))
    8.0
    16.0
    8.0
    """

    initial: float = 2.0**16
    interval: int | None = 2000

    def init(self) -> dict[str, Any]:
        """The initial scale, and for a dynamic one the number of finite steps since it changed."""
        streak = {} if self.interval is None else {"streak": np.zeros((), np.int64)}
        return {"scale": np.array(self.initial, np.float32), **streak}

    def scaled(self, loss: Any, counters: Any) -> Any:
        """The loss to differentiate."""
        return loss * scalar_like(counters["scale"], loss)

    def unscaled(self, grads: Any, counters: Any) -> Any:
        """The unscaled gradients; those of half precisions in float32, where they do not underflow."""
        shrink = 1 / counters["scale"]
        return tree.map(lambda g: working_array(g) * scalar_like(shrink, working_array(g)), grads)

    def after(self, counters: Any, finite: Any) -> dict[str, Any]:
        """The scale after a step."""
        scale = counters["scale"]
        if self.interval is None:
            return {"scale": scale}
        streak = counters["streak"] + 1
        full = streak >= self.interval
        grown = wnp.where(full, wnp.minimum(scale * 2, MOST), scale)
        return {
            "scale": wnp.where(finite, grown, wnp.maximum(scale / 2, LEAST)),
            "streak": wnp.where(finite & ~full, streak, 0),
        }

    def before(self, counters: Any, skips: int) -> dict[str, Any]:
        """The scale before that many skipped steps; the streak is left out, since no step's results depend on it."""
        return {} if self.interval is None else {"scale": np.asarray(counters["scale"] * np.float32(2.0**skips))}


def scaling_of(given: Any, precision: str | None, guard: str | None, trained: bool) -> Scaling | None:
    """The loss scaling of the option `loss_scale`; raises DtypeError or ParameterError for an invalid option."""
    if given == "auto":
        given = "dynamic" if precision == "float16" and trained else None
    if given is None:
        return None
    if not trained:
        raise ParameterError("compile: loss_scale without an optimizer", hint="there are no gradients to be scaled")
    found = given if isinstance(given, Scaling) else Scaling() if given == "dynamic" else Scaling(scale_of(given), None)
    if found.interval is not None and guard != "gradients":
        raise ParameterError(
            f"compile: a dynamic loss_scale with guard={guard!r}",
            hint="it needs guard='gradients', which leaves out the steps that overflow; or give a number",
        )
    return found


def scale_of(given: Any, who: str = "compile") -> float:
    """The scale as a float; raises DtypeError for another type, ParameterError for a number not positive and finite."""
    if isinstance(given, bool | str) or not isinstance(given, int | float | np.integer | np.floating):
        what = repr(given) if isinstance(given, str) else type_in_words(given)
        raise DtypeError(f"{who}: loss_scale is {what}, not a number", hint="a number, 'dynamic' or None")
    found = float(given)
    if not 0 < found < np.inf:
        raise ParameterError(f"{who}: loss_scale is {found:g}; it must be positive and finite")
    return found
