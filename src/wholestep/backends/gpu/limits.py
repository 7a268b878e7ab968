"""Limits of cards: calls of the host's libraries are refused before anything runs, with the user's line."""

from __future__ import annotations

from collections.abc import Iterable

from wholestep import dtypes
from wholestep.backends.gpu.host_scalars import split_kernel
from wholestep.backends.gpu.target import CardTarget
from wholestep.errors import KernelError, UnsupportedError, Where
from wholestep.ir.graph import Node
from wholestep.kernel.lang import Kernel, Var, walk
from wholestep.kernel.workgroups import item_trips
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import COPY_ROUTINES, Launch, RoutineCall, walk_steps

LIBRARY_HINT = "use device='cpu', or write it with exp, log, tanh, erf and their like, which kernels compute themselves"
TRIPS_HINT = "use smaller batches or arrays, or device='cpu'"
DOUBLE_HINT = "give float32 parameters and batches, or use device='cpu'"


def check_program(plan: LoweredProgram, target: CardTarget, doubles: bool) -> None:
    """Raise UnsupportedError for a program that calls functions of libraries, computes with float64 where there are no
    `doubles` and the host cannot do it beforehand, or has symbolic sizes.
    """
    if plan.names:
        raise UnsupportedError(f"compile: the device {target.name!r} takes numbers for sizes: {', '.join(plan.names)}")
    for step in walk_steps(plan.steps):
        if isinstance(step, RoutineCall) and step.routine not in COPY_ROUTINES:
            raise device_refusal(target, step.routine, "is a library's of the host", LIBRARY_HINT, step.where)
        if isinstance(step, Launch):
            target.check_kernel(step.kernel)
            trips = item_trips(step.kernel)
            if target.trips is not None and trips > target.trips:
                what = f"takes {trips:,} trips of loops in one work item, of {target.trips:,} that are safe there"
                raise launch_refusal(target, step, (), what, TRIPS_HINT)
            called = next((str(v.attr) for v in values_of(step.kernel) if v.op == "call"), "")
            if called:
                named = [node for node in step.nodes if node.op.name in called]
                raise launch_refusal(target, step, named, f"calls {called}, a library's of the host", LIBRARY_HINT)
            if not doubles:
                try:
                    split_kernel(step.kernel)
                except KernelError:
                    what = "computes with float64, which it does not have"
                    raise launch_refusal(target, step, (), what, DOUBLE_HINT) from None


def values_of(kernel: Kernel) -> Iterable[Var]:
    """All values of a kernel."""
    return (s for s in walk(kernel.body) if isinstance(s, Var))


def launch_refusal(target: CardTarget, step: Launch, nodes: Iterable[Node], what: str, hint: str) -> UnsupportedError:
    """The error of a launch, which names one of its operations, preferably one of these."""
    node = next(iter((*nodes, *step.nodes)), None)
    if node is not None:
        return device_refusal(target, f"{node.op.name} of {', '.join(map(str, node.types))}", what, hint, node.where)
    # Kernels that lowering adds, such as copies of inputs to another dtype, are no operation's.
    arrays = ", ".join([f"{dtypes.short(b.dtype)}[{b.size}]" for b in step.kernel.buffers])
    return device_refusal(target, step.kernel.name or f"a kernel on {arrays}", what, hint, None)


def device_refusal(target: CardTarget, name: str, what: str, hint: str, where: Where) -> UnsupportedError:
    """The error of an operation that the device does not have."""
    return UnsupportedError(f"compile for {target.name!r}: {name} {what}", where=where, hint=hint)
