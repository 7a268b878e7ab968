"""Runs that train nothing, because their step has no optimizer or is skipped again and again."""

from __future__ import annotations

from typing import Any

from wholestep.errors import ParameterError, SkippedStepWarning, warn
from wholestep.train.loop.run import TrainingRun
from wholestep.train.program.skipped_steps import searching, warn_of_skipped
from wholestep.train.step.step import Step

PATIENCE = 20
"""Skipped steps in a row after which a run stops."""


def check_trains(step: Step) -> None:
    """Raise ParameterError for a step that changes nothing: it has no optimizer, and no buffers."""
    step_function = step._engine.step_function
    if step_function.optimizer is None and not step_function.with_buffers:
        raise ParameterError(
            f"fit: the step of {step_function.name} has no optimizer, so that nothing would be trained",
            hint="ws.compile(..., optimizer=ws.optim.adam(1e-3)), or step.replace(optimizer=...)",
        )


def look_at_skipped(run: TrainingRun, batch: Any) -> None:
    """Warn of the first skipped steps in a call of `fit`, and stop the run after too many in a row."""
    step_function, result = run.step._engine.step_function, run.result
    assert result is not None
    if not run.warned and not searching(step_function):
        run.warned = True
        warn_of_skipped(step_function, "fit", result.skipped, result.steps)
    if run.skipped_last >= PATIENCE:
        give_up(run, batch, f"the last {run.skipped_last} steps were left out")


def look_at_epoch(run: TrainingRun, batch: Any, steps: int) -> None:
    """Stop the run at the end of an epoch of so many steps where all of them were skipped."""
    if 1 < steps <= run.skipped_last and not run.history.stopped and not searching(run.step._engine.step_function):
        give_up(run, batch, f"all {steps} steps of an epoch were left out")


def give_up(run: TrainingRun, batch: Any, why: str) -> None:
    """End a run, with a warning that names the cause of its last non-finite step."""
    found = run.step.diagnose(batch)
    run.stop(why)
    warn(f"fit: stopped, since {why}\n{found}", SkippedStepWarning, hint="mend the data or the loss, or lower the rate")
