"""Steps of a program on a card, those that it runs without the host together; and as values for the disk cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from wholestep.backends.gpu.host_scalars import HostStep
from wholestep.lower.program.steps import (
    ForLoop,
    MemRef,
    RoutineCall,
    StatusCheck,
    Switch,
    WhileLoop,
    map_nested,
    nested_steps,
    walk_steps,
)
from wholestep.runtime.gpu.conditions import copies_may_overlap


@dataclass(frozen=True)
class NumberedLaunch:
    """The launch of the kernel of this number on the buffers at these places."""

    kernel: int
    refs: tuple[MemRef, ...]


@dataclass(frozen=True, eq=False)
class DeviceSteps:
    """Consecutive launches, copies and loops of them, which the card runs without the host.

    The commands are the same whenever these `loops` around them are in the same trips, and these `slots` at the same
    addresses.
    """

    steps: tuple[Any, ...]
    loops: tuple[int, ...]
    slots: tuple[int, ...]


CardStep = NumberedLaunch | HostStep | RoutineCall | StatusCheck | ForLoop | WhileLoop | Switch | DeviceSteps

STEPS = (NumberedLaunch, HostStep, RoutineCall, StatusCheck, ForLoop, WhileLoop, Switch)
PACKED: dict[str, Any] = {kind.__name__: kind for kind in (*STEPS, MemRef)}
"""The classes of which steps consist, by their names."""


def packed(x: Any) -> Any:
    """A step, a part of one, or a tuple of such, as a JSON value: its class and its fields.

    >>> packed((MemRef(2, 64),))
    [{'MemRef': [2, 64, []]}]
    """
    name = type(x).__name__
    if name in PACKED:
        return {name: [packed(getattr(x, field)) for field in PACKED[name].__match_args__]}
    return list(map(packed, x)) if isinstance(x, tuple) else x


def unpack_steps(x: Any) -> Any:
    """The value that a JSON value stands for.

    >>> unpack_steps(packed((MemRef(2, 64),)))
    (MemRef(slot=2, offset=64, moves=()),)
    """
    if isinstance(x, dict):
        ((name, fields),) = x.items()
        return PACKED[name](*map(unpack_steps, fields))
    return tuple(map(unpack_steps, x)) if isinstance(x, list) else x


def steps_in_groups(steps: Iterable[Any]) -> tuple[Any, ...]:
    """Steps with consecutive ones that need no host as `DeviceSteps`, inside loops and branches too."""
    out: list[Any] = []
    together: list[Any] = []
    for step in steps:
        inside: Any = map_nested(step, steps_in_groups)
        if needs_no_host(inside):
            together.append(step)
            continue
        out += device_steps(together)
        out.append(inside)
        together = []
    return (*out, *device_steps(together))


def device_steps(steps: list[Any]) -> Iterator[DeviceSteps]:
    """Steps that need no host as one; nothing for none."""
    if steps:
        inside: list[Any] = list(walk_steps(tuple(steps)))
        refs = [ref for step in inside if not isinstance(step, ForLoop) for ref in step.refs]
        loops = {loop for ref in refs for loop, _ in ref.moves} - {s.loop for s in inside if isinstance(s, ForLoop)}
        yield DeviceSteps(tuple(steps), tuple(sorted(loops)), tuple(sorted({ref.slot for ref in refs})))


def needs_no_host(step: CardStep) -> bool:
    """Test whether a card runs a step without the host; copies within one array may need temporary memory."""
    if isinstance(step, RoutineCall):
        return not copies_may_overlap(step)
    if isinstance(step, ForLoop):
        return not step.outermost and all(isinstance(inside, DeviceSteps) for inside in step.body)
    return isinstance(step, NumberedLaunch)


def flat_loop(loop: ForLoop) -> ForLoop:
    """A loop that needs no host, with the steps inside its body's `DeviceSteps` as its body."""
    inside: Any = loop.body  # `DeviceSteps` alone, as `needs_no_host` has found
    return replace(loop, body=tuple([step for together in inside for step in together.steps]))


def launches_and_copies(steps: Iterable[Any]) -> Iterator[NumberedLaunch | RoutineCall]:
    """The launches and copies of a program, in its order."""
    for step in steps:
        if isinstance(step, NumberedLaunch | RoutineCall):
            yield step
        for inside in (step.steps,) if isinstance(step, DeviceSteps) else nested_steps(step):
            yield from launches_and_copies(inside)
