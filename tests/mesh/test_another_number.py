"""A run goes on in another number of processes with the bits of one process whose micro-batches change alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.mesh import trainings

import wholestep as ws
from wholestep.train.loop.ranks import Ranks
from wholestep_tools.audit.workers.equal_runs import take_steps
from wholestep_tools.audit.workers.threads import AXIS, Threads

NUMBERS = (2, 3, 1, 4)


def go_on(step: Any, batch: Any, file: Path) -> list[Any]:
    """The losses of some steps that go on from a file, if there is one; it is written anew."""
    if file.exists():
        step.load(file)
    losses = take_steps(step, batch)
    Ranks(step).save(step, file, None, None)
    return losses


@pytest.mark.parametrize("options", [{}, {"shard": "optimizer"}])
def test_each_number_goes_on_with_the_bits_of_its_micro_batches(tmp_path: Path, options: dict[str, Any]) -> None:
    job = trainings.perceptron(trainings.ADAM).with_options({"device": "reference"})
    shared, alone = tmp_path / "shared.safetensors", tmp_path / "alone.safetensors"

    def life(ranks: Threads) -> list[Any]:
        own = ws.mesh.rows(job.batch, ranks)
        return go_on(job.step(own, mesh={AXIS: ranks}, **options), own, shared)

    for size in NUMBERS:
        wanted = go_on(job.step(job.batch, microbatch=trainings.ROWS // size), job.batch, alone)
        assert Threads(size).run(life) == [wanted] * size
        assert shared.read_bytes() == alone.read_bytes()
