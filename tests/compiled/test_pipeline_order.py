"""A graph goes through the compiler in one direction: the rooms of the pipeline are entered in their order."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import config
from wholestep.ir.graph import Graph
from wholestep.lower.buffers.tasks import TaskGraph
from wholestep.lower.program.program import LoweredProgram

SOURCE = Path(ws.__file__).parent
CARRIED = (Graph, TaskGraph, LoweredProgram)
ROOMS = {
    "trace": "frontend",
    "find attention": "passes/attention_pattern",
    "differentiate": "transforms",
    "update rows": "passes/sparse_rows",
    "reroll": "passes/reroll",
    "graph passes": "passes",
    "legalize": "lower/legalize",
    "fuse": "lower/fusion",
    "schedule": "lower/kernels lower/schedule",
    "assign buffers": "lower/buffers",
    "rematerialize and offload": "lower/remat lower/offload",
    "emit": "backends",
    "load": "runtime",
}
"""The rooms of the pipeline in their order, and the folders and files of each."""
TOOLS = ("named_pass", "optional", "pipeline", "rewrite", "differential_check", "inline_bodies", "cse", "dce")
"""The modules of `passes` that are no room: the pass manager, and the parts of rerolling and legalizing passes.

Neither are the drivers that call the rooms: `train/program`, `compiler`, `lower/compile.py`, `lower/lower_graph.py`.
"""
DEVICE_DRIVERS = ("runtime/cpu/backend.py", "runtime/cpu/artifact_entry.py")
"""The drivers of a device: its backend, and the artifact that it has emitted and loads."""
MAX_CLIMBS = 4
"""The allowed steps back: each of the two graphs of the guard's branches is fused while the tasks of the outer graph
are written, and the budget solver assigns buffers for a branch and for the whole."""


def room_of(filename: str) -> int | None:
    """The number of the room of a file, by the longest matching path; None for a file outside of the rooms."""
    path = filename.removeprefix(f"{SOURCE}/")
    if path == filename or path in [*DEVICE_DRIVERS, *[f"passes/{tool}.py" for tool in TOOLS]]:
        return None
    found = {p: n for n, paths in enumerate(ROOMS.values()) for p in paths.split() if path.startswith(f"{p}/")}
    return found[max(found, key=len)] if found else None


class Walk:
    """The sequence of rooms with a call that takes a graph, a task graph or a lowered program."""

    def __init__(self) -> None:
        self.rooms: list[int] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        room = room_of(frame.f_code.co_filename) if event == "call" else None
        if room is None or (self.rooms and self.rooms[-1] == room):
            return
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if any(isinstance(frame.f_locals.get(name), CARRIED) for name in names):
            self.rooms.append(room)

    def climbs(self) -> list[str]:
        """The moves from a room to an earlier one of the pipeline."""
        names = list(ROOMS)
        pairs = zip(self.rooms, self.rooms[1:], strict=False)
        return [f"{names[here]} -> {names[there]}" for here, there in pairs if there < here]


def test_compiling_a_step_goes_through_the_rooms_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_place", lambda: "off")
    monkeypatch.setattr(config, "check", lambda: False)
    weights = {"first": np.full((8, 16), 0.1, np.float32), "second": np.full((16, 4), 0.1, np.float32)}
    batch = {"x": np.ones((32, 8), np.float32), "y": np.ones((32, 4), np.float32)}

    def loss(weights: Any, batch: Any) -> Any:
        return np.mean((np.tanh(batch["x"] @ weights["first"]) @ weights["second"] - batch["y"]) ** 2)

    walk, before = Walk(), sys.getprofile()
    sys.setprofile(walk)
    try:
        ws.compile(loss, weights, optimizer=ws.optim.adam(1e-3), batch=batch)
    finally:
        sys.setprofile(before)
    rooms = [list(ROOMS)[n] for n in walk.rooms]
    assert list(dict.fromkeys(rooms)) == [name for name in ROOMS if name in rooms], "first entered in their order"
    assert {"graph passes", "legalize", "fuse", "assign buffers", "emit", "load"} <= set(rooms)
    assert len(walk.climbs()) <= MAX_CLIMBS, walk.climbs()
