"""The handle of a compiled training step, with calls, runs over data, attached functions and replacement."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from wholestep import forks
from wholestep.boundary.attributes import answering
from wholestep.boundary.counts import whole_number
from wholestep.boundary.frames import cut_frames
from wholestep.boundary.public import bounded
from wholestep.errors import ArgumentError, UnsupportedError
from wholestep.frontend import outside
from wholestep.nn.trained import give
from wholestep.optim.hyper import hyper_of
from wholestep.train.inspect.diagnose import Diagnosis
from wholestep.train.inspect.inspection import Inspected
from wholestep.train.inspect.replayed_step import Course, Past, course_of, diagnosed
from wholestep.train.program import resident_epochs as epoch_runs
from wholestep.train.program.batch_shapes import ProgramsByShape
from wholestep.train.program.engine import CompilationLog, Engine
from wholestep.train.program.exclusive_access import ExclusiveAccess, reentrancy_error
from wholestep.train.program.interruptible import terminating_in_order
from wholestep.train.program.shards import with_new_owners
from wholestep.train.program.skipped_steps import warn_of_skipped
from wholestep.train.program.step_function import StepFunction
from wholestep.train.state.model_state import SAME, check_predicts, split_model
from wholestep.train.state.parameter_checks import warn_of_suspect_parameters
from wholestep.train.state.precision import convert_floats
from wholestep.train.state.result import Result
from wholestep.train.state.state import STATE_PARTS
from wholestep.train.step.attached import NO_BATCH, Attached
from wholestep.train.step.export import ExportedStep
from wholestep.train.step.held_state import HeldState
from wholestep.train.step.save_load import SavedState
from wholestep.words import printable


@bounded
@answering("step")
class Step(ExclusiveAccess, HeldState, SavedState, ExportedStep, Inspected):
    """A compiled training step; `wholestep.compile` makes one.

    It owns its state: parameters, buffers, the optimizer's state and counters. Calls from several threads take turns.
    """

    # There is no `__dict__`, so that `step.lr = 0.1` is an error and not an unused attribute.
    __slots__ = ("__weakref__", "_course", "_engine", "_kinds", "_last", "_log", "_measurer", "_predictor", "strict")

    def __init__(
        self,
        step_function: StepFunction,
        parts: dict[str, Any],
        batch: Any,
        count: int,
        device: str,
        strict: bool = False,
    ) -> None:
        super().__init__()
        self.strict = strict
        """True if a call refuses every batch of another shape than the compiled one."""
        self._log = CompilationLog()
        self._predictor: Attached | None = None
        self._measurer: tuple[list[Any], tuple[str, ...], Attached] | None = None
        """The functions that `fit` measured by last, their names, and the attached function that calls them."""
        self._take(Engine(step_function, parts, {}, batch, count, device, self._log))
        forks.heir(self)

    def _take(self, engine: Engine) -> None:
        self._engine = engine
        self._kinds = ProgramsByShape(engine)
        self._last: Result | None = None
        self._course: Course | None = None

    def _write(self, parts: dict[str, Any], hyper: Mapping[str, Any] | None = None) -> None:
        self._last = None if parts else self._last
        self._engine.state.write(parts)
        for name, value in (hyper or {}).items():
            self._engine.hyper[name][...] = value

    def __call__(self, batch: Any = NO_BATCH, *more: Any, **named: Any) -> Result:
        """Run one step, or K, and return the result.

        The batch may have other sizes than the one that the step was compiled for, such as the last one of an epoch:
        each shape is compiled once, an LRU cache keeps the last sixteen programs, and `traces` and `reasons` count and
        name them. With K steps a call the first axis is the number of steps. Structure, dtypes and the number of axes
        must be those of the example batch, and all sizes too where the step is `strict`.

        Raises TreeError, ShapeError or DtypeError for a batch that does not fit, ArgumentError for none or several,
        MutationError where a captured array has changed, and errors of the program itself, such as BoundsError; the
        state is then as it was. Raises ReentrancyError in a signal handler or a finalizer that runs inside a call by
        the same thread, which goes on. Gives RecompilationWarning where it was compiled for many sizes of one axis.
        """
        try:
            with self._lock:
                if self._busy or more or named or batch is NO_BATCH:
                    raise reentrancy_error() if self._busy else no_single_batch_error(batch, more, named)
                self._busy = True
                try:
                    result = self._engine.attempt(batch)
                    if result is None:
                        result = self._kinds.step(batch, self.strict)
                    self._last, self._course = result, None
                    return result
                finally:
                    self._busy = False
        except BaseException as error:
            cut_frames(error)  # here, since a boundary around a call would take microseconds
            raise

    def specialize(self, **sizes: int) -> None:
        """Compile code for given values of the symbolic sizes, which is used for these sizes from now on.

        It is a little faster, mostly where a step is small, and may round differently from the code for all sizes. The
        code of the last eight sizes is kept, and `reasons` names them.

        Shapes: sizes are integers of 1 or more, by the names of the batch's `ws.Dim`s.
        Raises: UnsupportedError where the batch has no symbolic size, ParameterError for other names than its sizes
        have, and for sizes below 1.

        >>> import numpy as np, wholestep as ws
        >>> batch = ws.ShapeDtype((ws.Dim("B"), 3), "float64")
        >>> step = ws.compile(lambda w, x: np.mean((x @ w) ** 2), np.ones(3), optimizer=ws.optim.sgd(0.1), batch=batch)
        >>> step.specialize(B=32)
        >>> step.reasons[1]
        'step of <lambda> at B=32, compiled and not traced'
        """
        with self._lock:
            self._engine.specialize(sizes)

    @property
    def batch_size(self) -> int:
        """The number of rows of the batch that the step was compiled for: the first axis of its first array."""
        return epoch_runs.default_batch_size(self._engine)

    @property
    def steps_per_call(self) -> int:
        """The number of steps that a call takes."""
        return self._engine.count

    def run(
        self,
        data: Any,
        epochs: int = 1,
        batch_size: int | None = None,
        *,
        shuffle: bool = True,
        drop_last: bool = False,
        progress: epoch_runs.EpochCallback | None = None,
        resume: bool = False,
    ) -> Result:
        """Train over data, a tree like the batch whose arrays have rows; the result holds the loss of every step.

        The order of the rows is drawn from the step's own key and counter, so it differs each epoch, and is the same
        for the same state; with `shuffle=False` it is that of the data. The last batch may have fewer rows; `drop_last`
        leaves such a batch out. `batch_size` is that of the compiled batch by default; each size has a program of its
        own. There are `epochs` passes over the data; after each, `progress` is called with the number of epochs done
        and the result of this epoch. Ctrl-C ends the run after the current step; the result then says so. SIGTERM does
        the same, and then ends the process, by SystemExit with the code 143.

        With `resume` the first epoch is the remainder of an interrupted epoch, of this step or of the one that saved
        the loaded checkpoint; without an interrupted epoch it is an epoch like any other.

        Shapes: data [rows, ...] of the dtypes of the batch; `losses` of the result are f64[steps].
        Raises: TreeError, ShapeError or DtypeError for data that does not fit, ParameterError for counts below 1 and
        for an epoch to be resumed over other data.

        >>> import numpy as np, wholestep as ws
        >>> step = ws.compile(lambda p, x: np.mean((p - x) ** 2), 0.0, optimizer=ws.optim.sgd(0.5), batch=np.ones(2))
        >>> step.run(np.ones(6), epochs=2).losses.tolist()
        [1.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        """
        count = whole_number("epochs", epochs, "run")

        def begin() -> tuple[epoch_runs.ResidentData, Course]:
            rows = epoch_runs.ResidentData(self._engine, data, batch_size, shuffle, drop_last)
            course = course_of(rows, resume)
            self._last = None
            return rows, course

        rows, course = self._turn(begin)
        with terminating_in_order():
            result = epoch_runs.run_epochs(rows, count, progress, self._turn, self._kinds.step if resume else None)
            self._last, self._course = result, course
            warn_of_skipped(self._engine.step_function, "run", result.skipped, result.steps)
            return result

    def diagnose(self, batch: Any) -> Diagnosis:
        """The origin of the last skipped step's inf or nan, found by replaying that step in the reference interpreter.

        `batch` is the argument of the last call: its batch, its K batches, or the data of `run`. The replay has the
        key, the loss scale and the state of the step, which a skipped step leaves unchanged. Where the call went on
        with steps that were not skipped, the state has changed, and the diagnosis says so; load the state from before
        the call for an exact replay. Where no step was skipped, the next step is replayed. The state is not changed.

        Shapes: a batch like that of the last call.
        Raises: TreeError, ShapeError or DtypeError for a batch of another kind.

        >>> import numpy as np, wholestep as ws
        >>> step = ws.compile(lambda w, x: np.mean(np.log(w * x)), np.ones(2), optimizer=ws.optim.sgd(0.1),
        ...                   batch=np.ones(2))
        >>> step(np.array([1.0, 0.0])).status
        'skipped'
        >>> found = step.diagnose(np.array([1.0, 0.0]))
        >>> found.operation, found.phase, found.step
        ('log', 'forward', 0)
        """
        with self._lock:
            past = None if self._last is None else Past(self._last, self._course)
            return diagnosed(self._engine, past, batch)

    def attach(self, f: Callable[..., Any], *, batch: Any = None, training: bool = False) -> Attached:
        """Attach another function to the same state: `f(params, batch)`, or `f(params, buffers, batch)` with buffers.

        With a module it is `f(model, batch)`, in evaluation mode unless `training`; its assignments are not kept. The
        result is called with a batch of any kind and compiles for each kind; with `batch` it compiles for that one now.
        One program with symbolic sizes serves all sizes. Where f has a keyword-only parameter `key`, as a function that
        draws samples has, the call is given one: `attached(batch, key=ws.random.key(0))`, or a seed. An f without a
        batch, `f(model)` or `f(model, *, key)`, is called without one.

        Shapes: a batch of any structure, shapes and dtypes that f takes; the result of f is a tree of arrays.
        Raises: in the call, exceptions of f, DtypeError for a result that is no array, and ParameterError for a key
        that f does not take or is not given.

        >>> import numpy as np, wholestep as ws
        >>> step = ws.compile(lambda p, x: np.mean((x @ p) ** 2), np.ones(3), batch=np.ones((4, 3)))
        >>> step.attach(lambda p, x: x @ p)(np.ones((2, 3))).tolist()
        [3.0, 3.0]
        """
        attached = Attached(f, lambda: self._engine, lambda: self._lock, training)
        if batch is not None:
            with self._lock:
                attached.entry(outside.taken_over(batch, "batch", attached.name), attached.needs_key)
        return attached

    def predict(self, x: Any) -> Any:
        """`model(x)` for the current model, in evaluation mode, compiled once for each shape of `x`.

        It is `step.attach(lambda model, x: model(x))`, made at the first call; `step.model` is the model itself.

        Shapes: x as the model takes it; the result of the model.
        Raises: UnsupportedError where the step has no single model: it has plain parameters, or a tree with modules in
        it.

        >>> import numpy as np, wholestep as ws
        >>> model = ws.nn.Linear(3, 1, key=0)
        >>> batch = {"x": np.eye(3, dtype=np.float32), "y": np.ones((3, 1), np.float32)}
        >>> def loss(model, batch):
        ...     return ws.nn.mse(model(batch["x"]), batch["y"])
        >>> step = ws.compile(loss, model, optimizer=ws.optim.sgd(0.5), batch=batch)
        >>> losses = [step(batch).loss for _ in range(100)]
        >>> step.predict(np.eye(3, dtype=np.float32)).round(1).tolist()
        [[1.0], [1.0], [1.0]]
        """
        check_predicts(self._engine.step_function.model)
        if self._predictor is None:
            self._predictor = self.attach(predict)
        return self._predictor(x)

    def replace(
        self,
        loss: Callable[..., Any] | None = None,
        params: Any = SAME,
        *,
        batch: Any = SAME,
        buffers: Any = SAME,
        optimizer: Any = SAME,
    ) -> None:
        """Compile another loss, other parameters, another batch or optimizer into this handle.

        `loss`, `params`, `buffers`, `batch` and `optimizer` are those of `ws.compile`. Other parts stay: state,
        counters, and hyper-parameters that the optimizer still has. New parameters or a new optimizer begin with a
        fresh optimizer state. Attached functions follow at their next call.

        Shapes: those of the new parts.
        Raises: as `compile` does; the step is then as it was.

        >>> import numpy as np, wholestep as ws
        >>> step = ws.compile(lambda p, x: np.mean((p - x) ** 2), 0.0, optimizer=ws.optim.sgd(0.5), batch=np.ones(2))
        >>> step.replace(lambda p, x: np.mean(np.abs(p - x)))
        >>> step(np.ones(2)).loss
        1.0
        """
        with self._lock:
            old, model = self._engine, params
            changes: dict[str, Any] = {} if loss is None else {"loss": loss}
            if optimizer is not SAME:
                changes["optimizer"] = optimizer
            if params is not SAME:
                changes["model"], params, buffers = split_model(params, buffers, old.step_function.model)
                warn_of_suspect_parameters(params, old.step_function.precision)
            if buffers is not SAME:
                changes["with_buffers"] = buffers is not None
            step_function = dataclasses.replace(old.step_function, **changes)
            parts = {name: old.state.read(name) for name in STATE_PARTS}
            for name, given in (("params", params), ("buffers", buffers)):
                if given is not SAME:
                    parts[name] = convert_floats(given, step_function.precision)
            if params is not SAME or optimizer is not SAME:
                step_function = with_new_owners(step_function, parts["params"])
                parts["optimizer"] = step_function.begun(parts["params"])
            hyper = hyper_of(optimizer) if optimizer is not SAME else self.hyper
            example = old.signature.abstract() if batch is SAME else outside.taken_over(batch, "batch", "replace")
            self._take(Engine(step_function, parts, hyper, example, old.count, old.device, self._log))
            give(model, self, step_function.name)

    def __repr__(self) -> str:
        engine = self._engine
        return printable(f"<step of {engine.step_function.name} on {engine.signature}, device {engine.device!r}>")

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise UnsupportedError(
            "step: a compiled step cannot be copied or pickled",
            hint="keep step.state, which can, and give it to load_state of a step compiled from the same loss",
        )


def predict(model: Any, x: Any) -> Any:
    """Call the model: the function that `Step.predict` attaches."""
    return model(x)


def no_single_batch_error(batch: Any, more: tuple[Any, ...], named: dict[str, Any]) -> ArgumentError:
    """The error for a batch in several arguments, in arguments with names of their own, or in none."""
    if named:
        got, items = f"the arguments {', '.join(named)}", ", ".join([f"{name!r}: {name}" for name in named])
        return ArgumentError(
            f"step: it takes one batch, and got {got}", hint=f"give the batch as one tree: step({{{items}}})"
        )
    return ArgumentError(
        f"step: it takes one batch, and got {(batch is not NO_BATCH) + len(more)} arguments",
        hint="give the batch as one tree: step((x, y)), or step({'x': x, 'y': y})",
    )
