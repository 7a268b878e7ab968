"""One training step as a plain function of state, hyper-parameters and batch, which is traced once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wholestep import numpy as wnp, random, tree
from wholestep.boundary.answers import check_fits
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError
from wholestep.frontend.array import Array
from wholestep.frontend.control import cond
from wholestep.frontend.copied_calls import CopiedCalls
from wholestep.frontend.entered import Entered
from wholestep.frontend.gradients import loss_value, with_gradient
from wholestep.frontend.printing import take_prints
from wholestep.frontend.source.entrance import ordinary
from wholestep.frontend.tracing import type_of
from wholestep.ir.build import blaming_one_line, current
from wholestep.ir.graph import Node
from wholestep.lower.remat.memory_budget import MemoryBudget
from wholestep.nn.keys import takes_key
from wholestep.optim.chaining import global_norm
from wholestep.optim.hyper import with_hyper
from wholestep.optim.protocol import call_update
from wholestep.train.program.mesh import MeshAxis
from wholestep.train.program.microbatches import Differentiated, average_over_parts
from wholestep.train.program.shards import Shards
from wholestep.train.state.loss_scaling import Scaling
from wholestep.train.state.model_state import ModelStructure
from wholestep.train.state.offloaded_state import OffloadedState, init_optimizer_by_rows
from wholestep.train.state.precision import loss_in_precision
from wholestep.words import first_few

GUARDS = ("gradients", "loss", None)
UNROLLS = ("stop", "through")


@dataclass(frozen=True)
class StepFunction:
    """The definition of a step: a loss, an optimizer, and the options of both.

    The state is a dictionary of params, buffers, optimizer and counters. Counters count all steps, those that the guard
    skipped too, so that no random key is used twice.
    """

    loss: Callable[..., Any]
    optimizer: Any
    with_buffers: bool
    has_aux: bool
    guard: str | None
    captures: tuple[str, ...]
    precision: str | None = None
    scaling: Scaling | None = None
    model: ModelStructure | None = None
    budget: MemoryBudget | None = None
    microbatch: int | None = None
    unroll: str = "stop"
    roll: bool | str = "auto"
    blocks: bool | None = None
    winograd: bool = False
    stream: OffloadedState | None = None
    folder: Path | None = None
    """The folder of files: those of streamed state, and those of values spilled under a budget."""
    allow_unused: bool | None = None
    grad_norm: bool = False
    mesh: MeshAxis | None = None
    """The axis of processes over which the loss and its gradients are averaged."""
    shards: Shards | None = None
    """The layout of the optimizer's state where each process of the mesh keeps a part of it."""
    unreached: list[int] = field(default_factory=list, compare=False)
    """The numbers of the parameters that no gradient reached when a step was last traced."""

    @property
    def name(self) -> str:
        """The user's name for the loss."""
        return str(getattr(self.loss, "__name__", type(self.loss).__name__))

    def begun(self, params: Any) -> Any:
        """The initial state of the optimizer."""
        if self.optimizer is None:
            return None
        if self.shards is not None:
            return self.shards.begun(self.optimizer, params)
        return (
            self.optimizer.init(params)
            if self.stream is None
            else init_optimizer_by_rows(self.optimizer.init, params, self.stream)
        )

    def step(self, state: Any, hyper: Any, batch: Any) -> Any:
        """(new state, loss, True if the step was finite, aux, captures)."""
        counters = state["counters"]
        builder = current()
        assert builder is not None
        start = len(builder.nodes)
        given = state if self.mesh is None else {**state, "counters": self.own_counters(counters, self.mesh)}
        value, grads, buffers, aux = self.gradient(given, batch)
        seen = select_captures(builder.nodes[start:], self.captures, self.name)
        finite = self.finite(value, grads)
        kept = {name: state[name] for name in ("params", "buffers", "optimizer")}
        extras = {"loss": value, "objective": self.mean_loss(given, batch), "aux": aux}
        with nullcontext() if self.shards is None else self.shards.norms():
            if self.grad_norm:
                seen[GRAD_NORM] = global_norm(grads)
            if self.shards is not None:
                kept["params"] = self.shards.own_parts(kept["params"])
            new = self.guarded(finite, kept, with_hyper(self.optimizer, hyper), grads, buffers, extras)
        if self.shards is not None:
            new["params"] = self.shards.gathered(new["params"], state["params"])
        new["counters"] = self.counted(counters, finite)
        said = take_prints()
        return new, value, finite, aux, {**seen, PRINTED: said} if said else seen

    def gradient(self, state: Any, batch: Any) -> tuple[Any, Any, Any, Any]:
        """The loss, its gradient (None without an optimizer), new buffers and aux; by parts with `microbatch`.

        Loss, gradient and floating buffers are means over the processes of a mesh.
        """

        def whole(state: Any, batch: Any) -> tuple[Any, Any, Any, Any]:
            return self.differentiated(self.objective(state, batch), state["params"], state["counters"])

        value, grads, buffers, aux = self.over_parts(whole, state, batch, self.optimizer is not None)
        return (*self.over_mesh(value, grads, buffers), aux)

    def over_parts(
        self, differentiated: Callable[[Any, Any], Differentiated], state: Any, batch: Any, trained: bool
    ) -> Differentiated:
        """The results of a function of a batch, averaged over its parts with `microbatch`."""
        if self.microbatch is None:
            return differentiated(state, batch)
        return average_over_parts(differentiated, state, batch, self.microbatch, trained)

    def over_mesh(self, value: Any, grads: Any = None, buffers: Any = None) -> tuple[Any, Any, Any]:
        """The means of loss, gradients and buffers over the processes of a mesh; without a mesh, the arguments."""
        if self.mesh is None:
            return value, grads, buffers
        if self.shards is None or grads is None:
            return self.mesh.average(value, grads, buffers)
        value, _, buffers = self.mesh.average(value, None, buffers)
        return value, self.shards.mean_parts(grads), buffers

    def mean_loss(self, state: Any, batch: Any) -> Callable[[Any], Any]:
        """The loss of a step as a function of params, for optimizers that compute it again: a mean over parts and
        processes as that of `gradient` is, with the same random keys, and so are its derivatives.
        """

        def loss(state: Any, batch: Any) -> tuple[Any, Any, Any, Any]:
            value, (buffers, _) = self.objective(state, batch)(state["params"])
            return value, None, buffers, None

        def mean(params: Any) -> Any:
            own = {**state, "params": params if self.mesh is None else self.mesh.replicated(params)}
            value, *_ = self.over_parts(loss, own, batch, False)
            return self.over_mesh(value)[0]

        return mean

    def own_counters(self, counters: Any, mesh: MeshAxis) -> dict[str, Any]:
        """The counters with the random key of this process."""
        return {**counters, "key": mesh.key(counters["key"])}

    @property
    def guards(self) -> bool:
        """True if the update of a step that is not finite is skipped."""
        return self.guard is not None and (self.optimizer is not None or self.with_buffers)

    def counted(self, counters: Any, finite: Any) -> dict[str, Any]:
        """The counters after a step, and the loss scale."""
        new = {**counters, "step": counters["step"] + 1}
        if self.guards:
            new["skipped"] = counters["skipped"] + wnp.where(finite, 0, 1)
        return new if self.scaling is None else {**new, **self.scaling.after(counters, finite)}

    def objective(self, state: Any, batch: Any) -> Callable[[Any], Any]:
        """The function of params that is differentiated; it gives (loss, (new buffers, aux))."""
        counters = state["counters"]
        keys = {"key": random.fold_in(counters["key"], counters["step"])} if takes_key(self.loss) else {}
        self.check_signature(keys)
        own = ordinary(self.loss)
        loss = loss_in_precision(own if self.model is None else self.model.loss(own), self.precision)

        def objective(params: Any) -> Any:
            # Copied handles, so that assignments of the loss into its buffers do not change the kept ones.
            buffers = tree.map(lambda x: Array(x.value, x._scalar), state["buffers"])
            if self.model is not None:
                out, buffers = loss(params, buffers, batch, **keys)
                value, (_, aux) = self.parts(out, False)
                return value, (buffers, aux)
            given = (buffers, batch) if self.with_buffers else (batch,)
            return self.parts(loss(params, *given, **keys), self.with_buffers)

        return objective

    def check_signature(self, keys: dict[str, Any]) -> None:
        """Raise ArgumentError for a loss that does not take the arguments of a step."""
        given = ("params", "buffers", "batch") if self.with_buffers and self.model is None else ("params", "batch")
        wanted = f"a step calls {self.name}({', '.join(given)})"
        check_fits(
            f"compile: {self.name}",
            self.loss,
            given,
            keys,
            f"{wanted}; one that draws random numbers takes a key by name: ({', '.join(given)}, *, key)",
        )

    def differentiated(self, objective: Callable[[Any], Any], params: Any, counters: Any) -> tuple[Any, Any, Any, Any]:
        """The loss, its gradient (None without an optimizer), new buffers and aux."""
        if self.optimizer is None:
            value, (buffers, aux) = objective(params)
            return loss_value(value, "compile", False), None, buffers, aux
        if self.scaling is None:
            (value, (buffers, aux)), grads = with_gradient(objective, 0, self.look, has_aux=True)(params)
            return value, grads, buffers, aux
        scaling = self.scaling

        def scaled(params: Any) -> Any:
            value, rest = objective(params)
            return scaling.scaled(loss_value(value, "grad", False), counters), (value, rest)

        (_, (value, (buffers, aux))), grads = with_gradient(scaled, 0, self.look, has_aux=True)(params)
        return value, scaling.unscaled(grads, counters), buffers, aux

    def look(self, entered: Entered, gradient: Sequence[Any]) -> None:
        """Record the parameters that no gradient reaches."""
        self.unreached[:] = [i for i, g in enumerate(gradient) if g is None]

    def parts(self, out: Any, with_buffers: bool) -> Any:
        """(loss, (new buffers, aux)) from the result of the user's function."""
        wanted = ["loss", *["new_buffers"] * with_buffers, *["aux"] * self.has_aux]
        if len(wanted) == 1:
            return loss_value(out, "compile", False, self.loss), (None, None)
        if not isinstance(out, tuple) or len(out) != len(wanted):
            raise TreeError(
                f"compile: {self.name} returned {describe_output(out)}, not ({', '.join(wanted)})",
                hint="buffers= and has_aux=True say what the loss returns beside its value",
            )
        rest = list(out[1:])
        buffers = rest.pop(0) if with_buffers else None
        return loss_value(out[0], "compile", False, self.loss), (buffers, rest[0] if self.has_aux else None)

    def finite(self, value: Any, grads: Any) -> Any:
        """True if the loss, and the gradients if the guard tests them, are finite."""
        flag = wnp.isfinite(value)
        everywhere = CopiedCalls(lambda arrays: {FINITE: wnp.isfinite(*arrays).all()})
        with blaming_one_line():
            for g in tree.leaves(grads) if self.guard == "gradients" else []:
                flag = flag & everywhere([g])[FINITE]
        return flag if self.shards is None or self.guard != "gradients" else self.shards.everywhere(flag)

    def guarded(
        self, finite: Any, kept: Any, optimizer: Any, grads: Any, buffers: Any, extras: dict[str, Any]
    ) -> dict[str, Any]:
        """The state after the step: updated where the step was finite, unchanged elsewhere.

        The optimizer gets those of the extras that its update names. Extras that it does not use are eliminated.
        """

        def update(kept: Any, grads: Any, buffers: Any) -> dict[str, Any]:
            new = dict(kept)
            if self.with_buffers:
                new["buffers"] = same_types(kept["buffers"], buffers, "buffers", self.name)
            if optimizer is not None:
                params, state = call_update(optimizer, grads, kept["optimizer"], kept["params"], extras)
                new["params"] = same_types(kept["params"], params, "params", "the optimizer")
                new["optimizer"] = same_types(kept["optimizer"], state, "optimizer", "the optimizer")
            return new

        if not self.guards:
            return update(kept, grads, buffers)
        made: dict[str, Any] = cond(finite, update, lambda kept, grads, buffers: dict(kept), kept, grads, buffers)
        return made


def describe_output(out: Any) -> str:
    """A short description of the result of a function."""
    return f"a tuple of {len(out)}" if isinstance(out, tuple) else "one value"


def same_types(old: Any, new: Any, root: str, who: str) -> Any:
    """A part of the new state; raises TreeError, ShapeError or DtypeError where its types differ from the old ones."""
    if tree.structure(old) != tree.structure(new):
        had, has = tree.paths(old, root), tree.paths(new, root)
        lost, found = [path for path in had if path not in has], [path for path in has if path not in had]
        said = [f"no {first_few(lost, 6)}"] * bool(lost) + [f"{first_few(found, 6)} besides"] * bool(found)
        raise TreeError(
            f"compile: {who} gives {root} another structure: {'; '.join(said) or 'other containers around its arrays'}",
            hint=f"return what was given, with other arrays in it: {first_few(had, 6)}",
        )
    for i, (a, b) in enumerate(zip(tree.leaves(old), tree.leaves(new), strict=True)):
        before, after = type_of(a), type_of(b)
        if before is not after:
            told = f"compile: {who} turns {tree.paths(old, root)[i]} from {before} into {after}"
            if before.shape != after.shape:
                raise ShapeError(told, hint="state keeps its shapes from step to step")
            raise DtypeError(told, hint="state keeps its dtypes from step to step; cast what is returned with .astype")
    return new


def capture_names(captures: Any) -> tuple[str, ...]:
    """The labels that `captures=` names; raises ParameterError for anything else."""
    names = (captures,) if isinstance(captures, str) else captures
    if not isinstance(names, Iterable) or not all([isinstance(name, str) for name in names]):
        raise ParameterError(
            f"compile: captures is {captures!r}, and takes the labels of values",
            hint='ws.capture("hidden", h) in the loss marks one: captures=["hidden"]',
        )
    return tuple(names)


def select_captures(nodes: Sequence[Node], labels: Sequence[str], name: str) -> dict[str, Any]:
    """The values that the loss captured under these labels; a list for a label that was used several times."""
    known = [(n.params["label"], Array(n.outputs[0], n.outputs[0].type.ndim == 0)) for n in nodes if n.op.name == MARK]
    found: dict[str, Any] = {}
    for label in labels:
        own = [array for given, array in known if given == label]
        if not own:
            names = sorted({given for given, _ in known})
            raise TreeError(
                f"compile: {name} names no value {label!r}",
                hint=f"it names {', '.join(names)}"
                if names
                else "name one with ws.capture(label, x), outside of loops and of ws.checkpoint",
            )
        found[label] = own[0] if len(own) == 1 else own
    return found


FINITE = "finite"
"""The name of the test of one gradient among the results of a call."""

PRINTED = "ws.print"
"""The key among the captures of the values that the loss prints."""

GRAD_NORM = "gradient norm"
"""The key among the captures of the global norm of the gradients."""

MARK = "capture"
"""The primitive that names a value."""
