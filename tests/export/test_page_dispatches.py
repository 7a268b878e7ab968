"""Launches of a step of each workload, on a WebGPU device and in a page, and the bytes of a page: they stay as few."""

from __future__ import annotations

import gzip
import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from wholestep.backends.gpu.wgsl import WGSL
from wholestep.compiler.backends import page_target
from wholestep.export.page.files import page_text
from wholestep.lower.program.steps import ForLoop, Switch
from wholestep.runtime.gpu.card_program import CardModule
from wholestep.runtime.gpu.card_steps import NumberedLaunch
from wholestep.train.step.native_export import step_plan
from wholestep.train.step.page_export import page_program

PAGES = Path(__file__).parents[2] / "examples" / "pages"


def launches(steps: Sequence[Any]) -> int:
    """The number of launches of a device's steps, with all trips of loops and the longest case of each branch."""
    count = 0
    for step in steps:
        if isinstance(step, NumberedLaunch):
            count += 1
        elif isinstance(step, ForLoop):
            count += int(step.trips) * launches(step.body)
        elif isinstance(step, Switch):
            count += max(map(launches, step.cases))
    return count


def engine_of(name: str) -> Any:
    """The engine of a workload's step."""
    ours = pytest.importorskip("wholestep_tools.bench.peers.wholestep", reason="the tools are not installed")
    return ours.trained(name, *ours.WORKLOADS[name].data(), 1).step._engine


def test_a_page_without_weights_and_data_is_small() -> None:
    program = page_program(engine_of("W1"), None, True, {}) | {"start": ""}
    assert len(gzip.compress(page_text("a step", program).encode(), 9)) <= 20 * 1024


def engine_of_page(name: str) -> Any:
    """The engine of the step of one of the pages among the examples."""
    step = runpy.run_path(str(PAGES / f"{name}.py"))["step"]
    return step._engine


@pytest.mark.parametrize(
    ("name", "device", "page"),
    [
        ("W1", 11, 11),
        ("W2", 20, 20),
        ("W3", 113, 110),
        ("W4", 2, 2),
        ("mlp_sine", 7, 7),
        ("digits_cnn", 20, 20),
        ("transformer", 54, 54),
    ],
)
def test_a_step_takes_no_more_launches_than_it_did(name: str, device: int, page: int) -> None:
    """Both targets join small kernels; a page has its loops written out, and computes counters ahead."""
    engine = engine_of_page(name) if (PAGES / f"{name}.py").exists() else engine_of(name)
    steps = CardModule(step_plan(engine, "page", page_target()).plan, WGSL(), False).steps
    entries = page_program(engine, None, True, {})["step"]["entries"]
    found = launches(steps), sum(entry[0] == "launch" for entry in entries)
    assert found[0] <= device and found[1] <= page, found
