"""Inspection of a compiled step: its program, its memory, its predicted cost and its measured time."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

from wholestep.boundary.counts import whole_number
from wholestep.boundary.public import bounded
from wholestep.collectives import Link
from wholestep.errors import UnsupportedError
from wholestep.frontend.array_watches import ArrayWatch
from wholestep.ir.graph import Graph
from wholestep.report.cost_table import Costs
from wholestep.report.graph_drawing import html_drawing, html_fold
from wholestep.report.mesh_table import MeshCosts, count_mesh
from wholestep.train.inspect.explain import explained, lines
from wholestep.train.inspect.profile import Profile, profiled
from wholestep.train.program.engine import CompilationLog, Engine
from wholestep.words import Words, preformatted, printable

if TYPE_CHECKING:
    from wholestep.train.inspect.verification.findings import Verification

VERIFY = "wholestep.train.inspect.verification.verify"
"""The module that verifies steps, imported when one is."""

CARD = 10
"""Lines that a notebook shows of a step; the rest is folded away."""


@bounded
class Inspected:
    """The methods that inspect a step, for a class with an engine."""

    __slots__ = ()

    _engine: Engine
    _lock: AbstractContextManager[Any]
    _log: CompilationLog

    @property
    def traces(self) -> int:
        """The number of programs that were compiled for this step, those of `run` and `attach` among them."""
        return len(self._log.reasons)

    @property
    def reasons(self) -> list[str]:
        """The reason for each compilation."""
        return list(map(printable, self._log.reasons))

    @property
    def compile_seconds(self) -> float:
        """The time that these compilations took, in seconds."""
        return self._log.seconds

    @property
    def constants(self) -> list[Any]:
        """The arrays that are constants of the step and are checked for changes; read-only arrays are left out."""
        return [watch.array for watch in self._engine.watches if isinstance(watch, ArrayWatch)]

    @property
    def graph(self) -> Graph:
        """The graph of the step, from state, hyper-parameters and batch to new state, loss, flag and other results."""
        return self._engine.main.program.graph

    @property
    def kernels(self) -> Any:
        """The kernels of the compiled program."""
        return self._ask("kernels")

    @property
    def plan(self) -> Any:
        """The steps of the compiled program and the places of its values in memory."""
        return self._ask("plan")

    @property
    def memory(self) -> Any:
        """The memory that the compiled program takes, by purpose; printed, it is a table.

        Memory of the caller is left out, such as the parameters that were given; so is the memory of `run`, of batches
        of other sizes and of attached functions, which are programs with an arena each.
        """
        found = self._ask("memory")
        return found._replace(kept=found.kept + self._engine.state.initial_bytes)

    @overload
    def cost(self, mesh: None = ...) -> Costs: ...
    @overload
    def cost(self, mesh: Link) -> MeshCosts: ...
    def cost(self, mesh: Link | None = None) -> Costs | MeshCosts:
        """The predicted cost of a call: arithmetic, bytes and time, by kernel and by line of the loss.

        Printed it is a table with the hot spots first; `ws.calibrate()` measures the rates by which time is predicted.
        With the link between processes for `mesh`, it is the cost of a call in N processes with this many rows each:
        the bytes that a process sends, and the time with communication, for N = 1, 2, 4, ..., 4096.

        Shapes: no arrays; floating-point operations, bytes and seconds.
        Raises: with a link, ParameterError for a step that has no mesh or symbolic sizes, or for a link with a negative
        latency or without a rate, and DtypeError for a `mesh` that is no link.

        >>> import numpy as np, wholestep as ws
        >>> step = ws.compile(lambda w, x: np.mean((x @ w) ** 2), np.ones((3, 5)), optimizer=ws.optim.sgd(0.1),
        ...                   batch=np.ones((7, 3)))
        >>> step.cost().contraction == 2 * (2 * 7 * 3 * 5)
        True
        """
        found: Costs = self._ask("cost")()
        return found if mesh is None else count_mesh(self._ask("plan"), found, self._engine.step_function.mesh, mesh)

    def profile(self, batch: Any, calls: int = 10) -> Profile:
        """The time of each kernel of a call, measured in a program with clocks in it that runs on a copy of the state.

        The state stays as it is, to the last bit. Printed, the result is a table of measured and predicted times of the
        fastest of `calls` calls; its `save("trace.json")` writes a trace for Perfetto. Reading the clock takes some 30
        ns, which are part of each kernel's time. On a card it is the card's clock, and one launch may run several
        kernels.

        Shapes: a batch as the step was compiled for; times in microseconds.
        Raises: as a call does for a batch of another kind, ParameterError for less than one call, and UnsupportedError
        on a device without a clock.

        >>> import numpy as np, wholestep as ws
        >>> step = ws.compile(lambda w, x: np.mean((x @ w) ** 2), np.ones((3, 5)), batch=np.ones((7, 3)))
        >>> profile = step.profile(np.ones((7, 3)))
        >>> 0 < profile.inside <= profile.microseconds, step.steps
        (True, 0)
        """
        count = whole_number("calls", calls, "profile")
        with self._lock:
            self._ask("plan")
            return profiled(self._engine, batch, count)

    def verify(self, batch: Any, *, rows: int | None = None, seed: int = 0) -> Verification:
        """Verify the numbers of this step: those of its own program, on its own state and a batch.

        The compiled step, its gradient and its update are compared with the traced program evaluated in float64, node
        by node in NumPy; so is each operation by itself, given the same operands, to find the user's line of the first
        real difference. The gradient is compared with differences of the loss in directions that follow from `seed`;
        where it is wrong, the rules of single operations are compared too, to find the rule and the line. The loss is
        also run on plain NumPy arrays. docs/verification.md has the bounds. The report prints as tables; `report.ok` is
        True if all values agree, and `report.check()` raises otherwise. The step does not change. `rows` takes only the
        first rows of the batch, since all intermediate values are in memory at once.

        Shapes: a batch as a call takes; `rows` of each of its arrays that has as many as the first one.
        Raises: TreeError, ShapeError or DtypeError for a batch of another kind, ParameterError for more rows than there
        are; `check` of the result raises VerificationError.

        >>> import numpy as np, wholestep as ws
        >>> step = ws.compile(lambda w, x: np.mean(np.tanh(x @ w) ** 2), np.ones(3), optimizer=ws.optim.adam(0.1),
        ...                   batch=np.ones((4, 3)))
        >>> report = step.verify(np.ones((4, 3)))
        >>> report.ok, step.steps
        (True, 0)
        """
        with self._lock:
            found: Verification = importlib.import_module(VERIFY).verified_batch(self._engine, batch, rows, seed)
            return found

    def source(self) -> str:
        """The generated code, in the language of the device's compiler.

        Shapes: no arrays; text.
        Raises: nothing of its own.

        >>> import numpy as np, wholestep as ws
        >>> step = ws.compile(lambda p, x: np.mean((x @ p) ** 2), np.ones(3), batch=np.ones((4, 3)))
        >>> "define" in step.source()
        True
        """
        return str(self._ask("source")())

    def explain(self) -> str:
        """A description of the step in words: its state, its cost, its programs and the reason for each.

        Shapes: no arrays; text with sizes in bytes.
        Raises: nothing of its own.

        >>> import numpy as np, wholestep as ws
        >>> step = ws.compile(lambda p, x: np.mean((x @ p) ** 2), np.ones(3), batch=np.ones((4, 3)))
        >>> "f64[4, 3]" in step.explain()
        True
        """
        with self._lock:
            return Words(explained(self._engine))

    def _repr_html_(self) -> str:
        """The view of a step in a notebook: a few lines, and the rest folded away."""
        with self._lock:
            said = html_fold("memory, kernels, and what was compiled", preformatted(explained(self._engine)))
            drawn = html_fold("program", html_drawing(self.graph))
            return preformatted("\n".join(islice(lines(self._engine), CARD))) + said + drawn

    def _ask(self, what: str) -> Any:
        program = self._engine.main.program
        why = getattr(program, "why", "")
        if why:
            raise UnsupportedError(
                f"step.{what}: there is no one program for all sizes of the batch: {why}",
                hint="compile the step with numbers for the sizes and ask that one",
            )
        if not hasattr(program, what):
            raise UnsupportedError(
                f"step.{what}: the device {self._engine.device!r} runs the graph as it is and has none",
                hint="compile for another device, or read step.graph",
            )
        return getattr(program, what)
