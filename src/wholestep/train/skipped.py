"""Steps whose update was left out, since the loss or a gradient is not finite: a warning says so."""

from __future__ import annotations

from wholestep.errors import SkippedStepWarning, warn
from wholestep.train.recipe import Recipe


def searching(recipe: Recipe) -> bool:
    """Whether a loss scale is being looked for, so that a few skipped steps are as they should be."""
    return recipe.scaling is not None and recipe.scaling.interval is not None


def warn_of_skipped(recipe: Recipe, what: str, skipped: int, steps: int) -> None:
    """Warn of steps that were left out."""
    if skipped and not (searching(recipe) and skipped < steps):
        said = "a step was" if steps == 1 else f"{skipped} of {steps} steps were"
        warn(
            f"{what}: {said} skipped, since the loss or a gradient is not finite; the parameters stay as they were",
            SkippedStepWarning,
            hint="step.diagnose, given the same data, says what made the first nan or infinity",
        )
