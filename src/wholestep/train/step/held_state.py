"""The state of a step: the properties that read it, and the methods that set it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from wholestep import random
from wholestep.boundary.counts import is_integer
from wholestep.boundary.lost_stores import refuse_lost_store
from wholestep.boundary.public import bounded
from wholestep.errors import TreeError, UnsupportedError
from wholestep.frontend import outside
from wholestep.ir.graph import NDArray
from wholestep.random.keys import checked_key
from wholestep.train.program.engine import Engine
from wholestep.train.program.hyperparameters import flush_accumulation, hyper_changes, with_averaged_parameters
from wholestep.train.state.loss_scaling import scale_of
from wholestep.train.state.model_state import given_parts
from wholestep.train.state.state import STATE_PARTS


class HyperParameters(dict[str, float]):
    """The hyper-parameters of a step: a read-only copy."""

    def __setitem__(self, name: str, value: float) -> None:
        raise UnsupportedError(
            f"step.hyper: {name} is set in a copy, which the step does not read",
            hint=f"step.set({name}={value!r})" if name.isidentifier() else f"step.set(**{{{name!r}: {value!r}}})",
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


@bounded
class HeldState(ABC):
    """A state that can be read, set and reset."""

    __slots__ = ()

    _engine: Engine
    _lock: AbstractContextManager[Any]

    @property
    def model(self) -> Any:
        """The model with its current parameters and buffers, in arrays of the caller's own.

        The model that was given to `compile` stays as it was. Raises UnsupportedError where the step was compiled from
        plain parameters.
        """
        refuse_lost_store("step.model", "model = step.model; change it; step.set(params=nn.split(model)[0])")
        with self._lock:
            model, state = self._engine.step_function.model, self._engine.state
            if model is None:
                raise UnsupportedError(
                    "step.model: the step was compiled from plain parameters", hint="see step.params"
                )
            return model.filled(state.copy("params"), state.copy("buffers"))

    @property
    def params(self) -> Any:
        """The current parameters, in arrays of the caller's own; those of a model by path.

        Raises UnsupportedError for a store into that copy, such as `step.params["w"] = x`, which would be lost.
        """
        refuse_lost_store("step.params", "params = step.params; change them; step.set(params=params)")
        with self._lock:
            return self._engine.state.copy("params")

    @property
    def buffers(self) -> Any:
        """The current buffers, in arrays of the caller's own."""
        refuse_lost_store("step.buffers", "buffers = step.buffers; change them; step.set(buffers=buffers)")
        with self._lock:
            return self._engine.state.copy("buffers")

    @property
    def state(self) -> dict[str, Any]:
        """The whole state, in arrays of the caller's own: a dictionary of params, buffers, optimizer and counters."""
        refuse_lost_store("step.state", "state = step.state; change it; step.load_state(state)")
        with self._lock:
            return self._engine.state.whole()

    @property
    def hyper(self) -> dict[str, float]:
        """The current hyper-parameters, in a read-only dictionary whose error names `step.set`."""
        return HyperParameters({name: float(x) for name, x in self._engine.hyper.items()})

    @property
    def steps(self) -> int:
        """The number of steps since the beginning, or since `reset`, skipped ones included."""
        return int(self._engine.state.counter("step"))

    @property
    def skipped(self) -> int:
        """The number of steps that the guard has skipped since the beginning, or since `reset`."""
        with self._lock:
            return int(self._engine.state.counter("skipped"))

    @property
    def loss_scale(self) -> float | None:
        """The factor of the loss before it is differentiated; None where there is none."""
        with self._lock:
            scaled = self._engine.step_function.scaling is not None
            return float(self._engine.state.counter("scale")) if scaled else None

    def load_state(self, state: dict[str, Any]) -> None:
        """Set the whole state to a dictionary as `state` gives it.

        Shapes: those of the step's own state, dtypes too.
        Raises: TreeError, ShapeError or DtypeError where it does not fit.

        >>> import numpy as np, wholestep as ws
        >>> step = ws.compile(lambda p, x: np.mean((p - x) ** 2), 0.0, optimizer=ws.optim.sgd(0.5), batch=np.ones(2))
        >>> before, _ = step.state, step(np.ones(2))
        >>> step.load_state(before)
        >>> float(step.params), step.steps
        (0.0, 0)
        """
        if not isinstance(state, dict) or set(state) != set(STATE_PARTS):
            raise TreeError(f"load_state: the state is a dictionary of {', '.join(STATE_PARTS)}")
        with self._lock:
            self._write(state)
            self._engine.unfinished = None

    @abstractmethod
    def _write(self, parts: dict[str, Any], hyper: Mapping[str, Any] | None = None) -> None:
        """Set parts of the state and hyper-parameters, or raise and set nothing."""

    def set(self, **changes: Any) -> None:
        """Set hyper-parameters by name, `key` (a key or a seed), `params`, `buffers` or `loss_scale`.

        Nothing is compiled anew, and parts that `changes` do not name stay. The hyper-parameters are those in `hyper`;
        a name such as `default.lr` may be shortened to any unambiguous ending, as `lr`.

        Shapes: hyper-parameters are numbers; parameters and buffers have those of the step's own.
        Raises: ParameterError for a name that is not there and a number that the optimizer would not take, DtypeError
        for a hyper-parameter that is no number, and errors as `load_state` does; nothing is changed then.

        >>> import numpy as np, wholestep as ws
        >>> step = ws.compile(lambda p, x: np.mean((p - x) ** 2), 0.0, optimizer=ws.optim.sgd(0.5), batch=np.ones(2))
        >>> step.set(lr=0.25)
        >>> step.hyper
        {'lr': 0.25}
        """
        with self._lock:
            engine = self._engine
            parts = given_parts(changes, engine.step_function.model)
            counters: dict[str, Any] = {}
            if "key" in changes:
                counters["key"] = base_key("step.set", changes.pop("key"))
            if "loss_scale" in changes and engine.step_function.scaling is not None:
                counters["scale"] = np.float32(scale_of(changes.pop("loss_scale"), "step.set"))
            if counters:
                parts["counters"] = {**engine.state.read("counters"), **counters}
            self._write(parts, hyper_changes(engine, changes))
            if "key" in counters:
                engine.unfinished = None

    def flush(self) -> None:
        """Update with the gradients that `ws.optim.accumulate` has accumulated so far, at the end of the data.

        Without accumulated gradients nothing is changed.

        Shapes: the state keeps its own.
        Raises: UnsupportedError where the optimizer is another one.

        >>> import numpy as np, wholestep as ws
        >>> optimizer = ws.optim.accumulate(ws.optim.sgd(0.5), 2)
        >>> step = ws.compile(lambda p, x: np.mean((p - x) ** 2), 0.0, optimizer=optimizer, batch=np.ones(2))
        >>> _ = step(np.ones(2))
        >>> step.flush()
        >>> float(step.params)
        1.0
        """
        with self._lock:
            self._write(flush_accumulation(self._engine))

    def averaged(self) -> AbstractContextManager[None]:
        """`with step.averaged():` the parameters are the averages that the optimizer keeps (`ws.optim.ema`).

        Shapes: the averages have those of the parameters.
        Raises: TreeError where there are none, and UnsupportedError at the end of a block in which the step was
        trained; the state is then that of before the block.

        >>> import numpy as np, wholestep as ws
        >>> optimizer = ws.optim.ema(ws.optim.sgd(0.5), 0.75)
        >>> step = ws.compile(lambda p, x: np.mean((p - x) ** 2), 0.0, optimizer=optimizer, batch=np.ones(2))
        >>> result = step(np.ones(2))
        >>> with step.averaged():
        ...     inside = float(step.params)
        >>> inside, float(step.params)
        (0.25, 1.0)
        """
        return with_averaged_parameters(self)

    def reset(self, params: bool = True, optimizer: bool = True) -> None:
        """Go back to the initial parameters and buffers, to a fresh optimizer state, or to both.

        `params` asks for the first, `optimizer` for the second. With both the counters go back too, and training
        repeats itself to the bit. Initial arrays of a megabyte or more are the caller's own arrays, without a copy.

        Shapes: the state keeps its own.
        Raises: ParameterError where such an array was changed in place since; the state stays as it is.

        >>> import numpy as np, wholestep as ws
        >>> step = ws.compile(lambda p, x: np.mean((p - x) ** 2), 0.0, optimizer=ws.optim.sgd(0.5), batch=np.ones(2))
        >>> _ = step(np.ones(2))
        >>> step.reset()
        >>> float(step.params), step.steps
        (0.0, 0)
        """
        with self._lock:
            parts = self._engine.state.beginning() if params else {}
            if not optimizer:
                parts.pop("counters", None)
            elif self._engine.step_function.optimizer is not None:
                given = parts["params"] if params else self._engine.state.read("params")
                parts["optimizer"] = self._engine.step_function.begun(given)
            self._write(parts)
            if "counters" in parts:
                self._engine.unfinished = None


def base_key(what: str, key: Any) -> NDArray:
    """The key of a seed, or the given key itself; raises DtypeError or ShapeError for what is neither."""
    given = outside.array(key, "key", what) if outside.foreign(key) else key
    made: NDArray = checked_key(what, random.key(given) if is_integer(given) else given)
    return made
