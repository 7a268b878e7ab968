"""The step of `wholestep train digits` in ONNX Runtime is as near to ours as ours is to itself, a rounding apart.

Adam divides a gradient by its own size, so that one of nothing but rounding moves a parameter by a whole rate, and a
rectifier that is given 0 and a rounding chooses another branch: how far such runs part is a property of the job.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep import tree
from wholestep.cli import digits
from wholestep.cli.train.digits import DigitsRun
from wholestep.train.data.datasets import split_digits

runtime = pytest.importorskip("onnxruntime")
pytest.importorskip("sklearn")
CALLS, NUDGED, SEED = 20, 8, 2
SIZE = 32
"""Images in a batch."""


class Handed:
    """The step on digits with a rate of 0.01, the batches of its first calls, and its file."""

    def __init__(self, folder: Path) -> None:
        run = DigitsRun(split_digits(SEED), SEED, 20, SIZE)
        optimizer = ws.optim.adam(1e-2)
        self.step = ws.compile(
            digits.digits_loss, run.model, optimizer=optimizer, batch=run.batch, key=ws.random.key(SEED)
        )
        self.batches = [tuple([np.array(x) for x in b]) for b, _ in zip(run.loader, range(CALLS), strict=False)]
        self.start = tree.map(lambda x: np.array(x) if isinstance(x, np.ndarray) else x, self.step.state)
        self.model, self.state = self.step.export(folder / "digits.onnx")

    def theirs(self) -> Iterator[dict[str, Any]]:
        """The results of each call in ONNX Runtime."""
        run = runtime.InferenceSession(self.model.read_bytes(), providers=["CPUExecutionProvider"])
        state = pytest.importorskip("safetensors.numpy").load_file(self.state)
        kinds, outputs = {i.name: i.shape for i in run.get_inputs()}, [o.name for o in run.get_outputs()]
        for batch in self.batches:
            known = state | dict(zip(tree.paths(batch, "batch"), tree.leaves(batch), strict=True))
            given = {name: np.reshape(known[name], shape) for name, shape in kinds.items()}
            found = dict(zip(outputs, run.run(None, given), strict=True))
            state |= {name.removeprefix("next."): x for name, x in found.items() if name.startswith("next.")}
            yield found

    def ours(self, nudge: int | None = None) -> np.ndarray[Any, Any]:
        """The losses of the step here; `nudge` is a seed by which each parameter is moved one rounding up or down."""
        rng = np.random.default_rng(nudge)

        def nudged(x: Any) -> Any:
            ends = [np.nextafter(x, np.float32(end)) for end in (np.inf, -np.inf)]
            return np.where(rng.random(x.shape) < 0.5, *ends)

        params = self.start["params"] if nudge is None else tree.map(nudged, self.start["params"])
        self.step.load_state({**self.start, "params": params})
        return np.array([float(self.step(batch).loss) for batch in self.batches])


@pytest.fixture(scope="module")
def handed(tmp_path_factory: pytest.TempPathFactory) -> Handed:
    return Handed(tmp_path_factory.mktemp("digits"))


def apart(x: Any, y: Any) -> float:
    return float(np.max(np.abs(x - y) / y))


def test_losses_are_no_further_apart_than_those_of_our_own_step_by_a_rounding(handed: Handed) -> None:
    ours, theirs = handed.ours(), np.array([float(found["loss"]) for found in handed.theirs()])
    own = [apart(handed.ours(k), ours) for k in range(NUDGED)]
    assert apart(theirs[:5], ours[:5]) < 1e-6
    assert apart(theirs, ours) <= max(1e-5, 2 * max(own)), own


def moments(step: Any) -> dict[str, Any]:
    """The first moments by their paths: after one call, a tenth of the gradient."""
    found = step.state["optimizer"]["m"]
    return dict(zip(tree.paths(found), tree.leaves(found), strict=True))


def test_gradients_are_as_near_to_those_of_float64_as_ours(handed: Handed) -> None:
    handed.step.load_state(handed.start)
    model = tree.map(lambda x: x.astype(np.float64), handed.step.model)
    x, labels = handed.batches[0]
    wide = (x.astype(np.float64), labels)
    exact = ws.compile(digits.digits_loss, model, optimizer=ws.optim.adam(1e-2), batch=wide, key=ws.random.key(SEED))
    exact(wide)
    handed.step(handed.batches[0])
    first, ours = next(handed.theirs()), moments(handed.step)
    for path, m in moments(exact).items():
        size = np.abs(m).max()
        theirs, own = (np.abs(g - m).max() / size for g in (first[f"next.optimizer.m.{path}"], ours[path]))
        assert theirs <= max(2 * own, 2e-6), (path, theirs, own)
