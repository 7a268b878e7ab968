"""A step counter that could wrap around is refused where it comes in."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import tree
from wholestep.errors import CheckpointError, ParameterError


@pytest.mark.parametrize("count", [2**63 - 1, 2**62 + 1, -1, -(2**63)])
def test_a_counter_out_of_range_is_refused_and_nothing_is_changed(count, tmp_path, monkeypatch):
    step = ws.compile(lambda w, x: np.sum(w * x), np.ones(2), optimizer=ws.optim.adam(0.1), batch=np.ones(2))
    step(np.ones(2))
    before = step.state
    wrong = {**before, "counters": {**before["counters"], "step": np.array(count)}}
    with pytest.raises(ParameterError, match="it must be from 0 to"):
        step.load_state(wrong)
    with monkeypatch.context() as patch:
        patch.setitem(step._engine.state.tree["counters"], "step", np.array(count))
        step.save(tmp_path / "wrong.safetensors")
    with pytest.raises(CheckpointError, match="it must be from 0 to"):
        step.load(tmp_path / "wrong.safetensors")
    for old, new in zip(tree.leaves(before), tree.leaves(step.state), strict=True):
        np.testing.assert_array_equal(old, new)


def test_the_largest_counter_trains():
    step = ws.compile(lambda w, x: np.sum(w * x), np.ones(2), optimizer=ws.optim.sgd(0.1), batch=np.ones(2))
    state = step.state
    step.load_state({**state, "counters": {**state["counters"], "step": np.array(2**62)}})
    assert step(np.ones(2)).status == "completed"
    assert step.steps == 2**62 + 1
