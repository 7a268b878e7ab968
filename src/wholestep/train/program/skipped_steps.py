"""The warning about steps whose update was skipped, since the loss or a gradient is not finite."""

from __future__ import annotations

from wholestep.errors import SkippedStepWarning, warn
from wholestep.train.program.step_function import StepFunction


def searching(step_function: StepFunction) -> bool:
    """True for a dynamic loss scale, under which a few skipped steps are expected."""
    return step_function.scaling is not None and step_function.scaling.interval is not None


def warn_of_skipped(step_function: StepFunction, what: str, skipped: int, steps: int) -> None:
    """Warn of steps that were skipped."""
    if skipped and not (searching(step_function) and skipped < steps):
        said = "a step was" if steps == 1 else f"{skipped} of {steps} steps were"
        warn(
            f"{what}: {said} skipped, since the loss or a gradient is not finite; the parameters stay as they were",
            SkippedStepWarning,
            hint="step.diagnose, given the same data, says what made the first nan or infinity",
        )
