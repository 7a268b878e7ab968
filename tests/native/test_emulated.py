"""Objects for other processors, under QEMU: they train to the bits of the C source in the same order of sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.native.c_program import COMPILER, CProgram
from tests.native.emulated import BOARDS, LINUX, trained_on_board
from tests.native.steps import STEPS

from wholestep.backends.cpu.cpu_features import host_levels

STEPS_TAKEN = {"tiny": 20, "rnn": 20, "cnn": 5}
"""The steps of each training: an emulated convolution takes a second."""
FUSED = ["-std=c99", "-O1", "-march=x86-64-v3", "-ffp-contract=off"]
"""The compiler options with which this machine fuses multiply-adds in C."""


def by_source(name: str, processor: str, folder: Path) -> tuple[list[float], bytes]:
    """The losses and the state of a step whose C source sums in the order of another processor, run by this one."""
    if COMPILER is None or "x86-64-v3" not in host_levels():
        pytest.skip("there is no C compiler, or no fused multiply-add of this kind")
    folder.mkdir()
    step, batch = STEPS[name]()
    step.export(folder / "model.c", processor=processor)
    program = CProgram(folder, batch, ("model.c",), "", *FUSED)
    losses = program.train(folder / "model.safetensors", folder / "new.safetensors", STEPS_TAKEN[name])
    return losses, (folder / "new.safetensors").read_bytes()


def near_python(step: Any, batch: Any, losses: list[float]) -> None:
    """Assert that the losses are near those of the step in Python, whose sums have another order."""
    np.testing.assert_allclose(losses, [float(step(batch).loss) for _ in losses], rtol=1e-5)


@pytest.mark.parametrize("name", ["tiny", "rnn", "cnn"])
@pytest.mark.parametrize("processor", [pytest.param(key, marks=found.needed()) for key, found in LINUX.items()])
def test_an_object_of_another_processor_has_the_bits_of_its_source(name: str, processor: str, tmp_path: Path) -> None:
    step, batch = STEPS[name]()
    step.export(tmp_path / "model.o", processor=processor)
    compiler, runner = LINUX[processor]
    program = CProgram(tmp_path, batch, ("model_state.c", "model.o"), compiler=compiler, runner=runner)
    losses = program.train(tmp_path / "model.safetensors", tmp_path / "new.safetensors", STEPS_TAKEN[name])
    near_python(step, batch, losses)
    assert (losses, (tmp_path / "new.safetensors").read_bytes()) == by_source(name, processor, tmp_path / "source")
    step.load(tmp_path / "new.safetensors")
    assert step.steps == STEPS_TAKEN[name]


@pytest.mark.parametrize("board", [pytest.param(key, marks=found.needed()) for key, found in BOARDS.items()])
def test_a_microcontroller_trains_without_an_operating_system(board: str, tmp_path: Path) -> None:
    step, batch = STEPS["tiny"]()
    step.export(tmp_path / "model.o", processor="cortex-m4")
    losses, state = trained_on_board(BOARDS[board], tmp_path, batch, STEPS_TAKEN["tiny"])
    near_python(step, batch, losses)
    assert (losses, state) == by_source("tiny", "cortex-m4", tmp_path / "source")
    (tmp_path / "new.safetensors").write_bytes(state)
    step.load(tmp_path / "new.safetensors")
    assert step.steps == STEPS_TAKEN["tiny"]
