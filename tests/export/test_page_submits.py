"""Steps of a page have the same bits however they are submitted, together, one by one or in parts, and in each run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wholestep as ws
from wholestep_tools.audit.trainings.exported_steps import STEPS
from wholestep_tools.browser import CHROMIUM, MISSING, Open, Tab

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason=MISSING)
PREPARE = """
globalThis.submits = 0;
const queue = training.device.queue, submit = queue.submit.bind(queue);
queue.submit = (list) => { submits++; submit(list); };
globalThis.bits = (numbers) => Array.from(new Uint32Array(Float32Array.from(numbers).buffer));
globalThis.trained = async (counts, parts) => {
  await training.reset();
  const found = { losses: [], finite: [], captures: {}, failed: null };
  submits = 0;
  for (let left = [...counts]; left[0] && !found.failed; left = left.filter((x) => x)) {
    training.parts = parts;
    const one = await training.queued(() => training.steps(left[0], training.rows));
    left[0] -= one.losses.length;
    found.losses.push(...bits(one.losses));
    found.finite.push(...one.finite);
    for (const [path, x] of Object.entries(one.captures)) found.captures[path] = bits(x);
    found.failed = one.failed;
  }
  return { ...found, submits, state: Array.from(await training.save()) };
};
"""
"""A script that trains from the initial state in a page's worker: several steps a submit, or several submits a step.

A submit ends early after a skipped step, since the scalars that the host computes for later steps depend on it.
"""


def trained(tab: Tab, counts: list[int], parts: int = 1) -> dict[str, Any]:
    """The bits of losses, captures and the whole file of the state after steps, and the submits that these took."""
    found: dict[str, Any] = tab.evaluate(f"trained({counts}, {parts})", tab.worker())
    return found


def prepared(tab: Tab) -> Tab:
    """A page whose worker trains as it is told."""
    tab.evaluate(f"(() => {{ {PREPARE} }})()", tab.worker())
    return tab


def runs(tab: Tab, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Runs of as many steps, and how they were submitted."""
    yield "one by one", trained(tab, [1] * count)
    yield "some together", trained(tab, [1, count - 1])
    yield "each in parts", trained(tab, [count - 1, 1], 3)
    yield "once more", trained(tab, [count])


def same(found: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Test whether two runs have the same bits."""
    return all(found[name] == wanted[name] for name in ("losses", "finite", "captures", "failed", "state"))


def noisy(params: Any, batch: Any, *, key: Any) -> Any:
    noise = ws.random.uniform(key, batch["x"].shape, np.float32, -1, 1)
    hidden = np.tanh((batch["x"] + noise) @ params["w"])
    return np.mean((ws.capture("hidden", hidden) - params["table"][batch["label"]]) ** 2)


def with_everything(rows: int) -> tuple[Any, Any]:
    """A step with noise by keys, a schedule in float64, a capture, an index, and rows that are not finite; its data."""
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(rows, 3)).astype("f"), "label": (np.arange(rows) % 5).astype(np.int32)}
    params = {"w": np.full((3,), 0.5, "f"), "table": np.linspace(-1, 1, 5, dtype="f")}
    optimizer = ws.optim.adam(ws.optim.cosine(1e-2, 40))
    batch = {k: v[:8] for k, v in data.items()}
    return ws.compile(noisy, params, optimizer=optimizer, batch=batch, captures="hidden"), data


@pytest.mark.parametrize(("name", "count"), [("W1", 3), ("W4", 12), ("everything", 12)])
def test_steps_together_have_the_bits_of_steps_alone(opened: Open, name: str, count: int) -> None:
    """Twelve steps with every feature are more than two epochs."""
    step, data = with_everything(45) if name == "everything" else STEPS[name]()
    if name == "everything":
        data["x"][9] = np.nan
    tab = prepared(opened(step, data))
    wanted = trained(tab, [count])
    assert len(wanted["losses"]) == count and len(set(wanted["losses"])) >= count - 3
    assert wanted["submits"] == 1 + wanted["finite"].count(False) < count
    assert name != "everything" or (False in wanted["finite"] and "captures.hidden" in wanted["captures"])
    for how, found in runs(tab, count):
        assert same(found, wanted), how
        assert (found["submits"] > count) is (how == "each in parts"), how
    again = trained(prepared(opened(step, data)), [count])
    assert same(again, wanted), "in a page that is opened anew"


def test_a_step_that_fails_ends_both_at_the_same_bits(opened: Open) -> None:
    step, data = with_everything(45)
    data["label"][20] = 7
    tab = prepared(opened(step, data, shuffle=False))
    together, alone = trained(tab, [6]), trained(tab, [1] * 6)
    assert len(together["losses"]) == 2 and "index 7 is out of bounds" in together["failed"]
    assert together["submits"] == 1 and alone["submits"] == 3
    assert same(together, alone | {"captures": {}}), "a submit that fails has no captures"
