"""Loops over equal layers, written out, become loops of the program: the same numbers, one layer's worth of code."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest
from tests.reroll import law
from tests.reroll.models import CASES, Case, D, X, Y, compiled, layers, perceptron, plain

import wholestep as ws
from wholestep import tree
from wholestep.errors import BoundsError, ParameterError
from wholestep_tools.drawn.rounds import drawn

ROLLED = re.compile(r"(\d+) equal layers rolled")


def counts(step: Any) -> list[int]:
    return [int(n) for n in ROLLED.findall(step.reasons[0])]


def same_bits(a: Any, b: Any) -> bool:
    pairs = zip(tree.leaves(a), tree.leaves(b), strict=True)
    return all(x.tobytes() == y.tobytes() and x.dtype == y.dtype for x, y in pairs)


@pytest.mark.parametrize("name", CASES)
def test_a_rolled_step_is_the_step_to_the_bit(name: str) -> None:
    case = CASES[name]()
    written, rolled = [compiled(case, roll, device="reference") for roll in (False, True)]
    assert counts(written) == [] and counts(rolled) == case.rolled
    for _ in range(3):
        a, b = written(case.batch), rolled(case.batch)
        assert a.loss == b.loss and same_bits(dict(a.captures), dict(b.captures))
    assert same_bits(written.state, rolled.state)
    assert tree.structure(written.params) == tree.structure(rolled.params)


@pytest.mark.parametrize("name", ["plain", "clipped", "dropped", "there_and_back", "transformer"])
def test_machine_code_gives_the_same_bits_too(name: str) -> None:
    case = CASES[name]()
    written, rolled = compiled(case, False), compiled(case, "auto")
    assert counts(rolled) == case.rolled
    for _ in range(3):
        assert written(case.batch).loss == rolled(case.batch).loss
    assert same_bits(written.state, rolled.state)
    assert len(rolled.kernels) < 0.5 * len(written.kernels)


@functools.cache
def problem(seed: int) -> tuple[str, int]:
    return law.problem(drawn(np.random.default_rng(seed)), seed)


@pytest.mark.parametrize("seed", range(24))
def test_random_steps_over_layers_keep_their_meaning(seed: int) -> None:
    assert problem(seed)[0] == ""


def test_most_random_steps_have_loops() -> None:
    assert sum(problem(seed)[1] > 0 for seed in range(24)) >= 18


def test_program_size_does_not_depend_on_the_number_of_layers() -> None:
    sizes = set()
    for n in (6, 24):
        step = ws.compile(perceptron, layers(n), optimizer=ws.optim.adam(1e-2), batch=(X, Y))
        sizes.add((len(step.kernels), len(list(step.plan.launches())), len(step.graph.inputs)))
    assert len(sizes) == 1


WEIGHTS = np.full(8, 1 / 8, "f"), np.full(6, 1 / 6, "f")


def transport(rounds: int, roll: bool | str) -> Any:
    """A step through so many rounds of Sinkhorn's iteration, whose backward pass reads two rounds at a time."""

    def loss(cost: Any, batch: Any) -> Any:
        (a, b), kernel = batch, np.exp(-cost)
        v = np.ones(6, np.float32)
        for _ in range(rounds):
            u = a / (kernel @ v)
            v = b / (kernel.T @ u)
        return np.sum(u[:, None] * kernel * v * cost)

    cost = np.random.default_rng(0).normal(size=(8, 6)).astype("f")
    return ws.compile(loss, cost, optimizer=ws.optim.sgd(0.1), batch=WEIGHTS, roll=roll)


def test_operands_of_another_round_than_most_cut_no_round_off() -> None:
    sizes = []
    for rounds in (20, 30):
        step, plain = transport(rounds, True), transport(rounds, False)
        for _ in range(2):
            assert step(WEIGHTS).loss == plain(WEIGHTS).loss
        assert same_bits(step.params, plain.params)
        sizes.append(str(step.plan).count("\n"))
        assert sizes[-1] < str(plain.plan).count("\n") / 2
    assert abs(sizes[1] - sizes[0]) <= 1


def test_stacking_may_copy_a_little_of_each_round() -> None:
    assert str(transport(400, "auto").plan).count("\n") < 60


def test_nothing_of_the_state_is_copied_to_be_stacked() -> None:
    step = compiled(plain(), True)
    steps = [node for part in step.graph.family() for node in part.nodes]
    assert not [n for n in steps if n.op.name == "concat" and n.outputs[0].type.nbytes >= 5 * 4 * D * D]
    assert {"params_all_w", "params_0_w"} <= set(step.graph.input_names)


def test_the_state_is_read_and_written_as_ever() -> None:
    case = plain()
    written, rolled = [compiled(case, roll, device="reference") for roll in (False, True)]
    for step in (written, rolled):
        step(case.batch)
    before = rolled.state
    rolled(case.batch)
    rolled.load_state(before)
    assert same_bits(rolled.state, written.state)
    params = written.params
    params[2]["w"] = params[2]["w"] * 2
    for step in (written, rolled):
        step.set(params=params, lr=0.05)
        step(case.batch)
    assert same_bits(rolled.state, written.state) and rolled.params[2]["w"].shape == (D, D)
    rolled.reset()
    assert same_bits(rolled.params, case.params)


def test_other_programs_share_the_state() -> None:
    case = plain()
    written, rolled = [compiled(case, roll) for roll in (False, True)]
    data = tuple([np.concatenate([x, 0.5 * x, x[:2]]) for x in case.batch])
    for step in (written, rolled):
        step.run(data, epochs=2, batch_size=4)
        step(tuple([x[:3] for x in case.batch]))
    assert same_bits(rolled.state, written.state)
    predicted = [s.attach(lambda p, b: np.tanh(b @ p[3]["w"] + p[0]["b"]))(X) for s in (written, rolled)]
    assert same_bits(*predicted)
    assert all(ROLLED.search(reason) for reason in rolled.reasons[:3])


def test_many_steps_a_call_are_rolled_inside_their_loop() -> None:
    case = plain()
    batches = Case(case.loss, case.params, tuple([np.stack([x, 2 * x, -x]) for x in case.batch]), case.rolled, {})
    one = compiled(case, True)
    many = compiled(batches, True, steps_per_call=3)
    assert counts(many) == case.rolled
    losses = [one(tuple([x[k] for x in batches.batch])).loss for k in range(3)]
    assert losses == list(many(batches.batch).losses) and same_bits(one.state, many.state)


def test_parts_of_a_batch_go_through_rolled_layers() -> None:
    case = plain()
    case = case._replace(batch=tuple([np.concatenate([x] * 4) for x in case.batch]))
    written, rolled = [compiled(case, roll, microbatch=4, device="reference") for roll in (False, True)]
    assert counts(rolled) == case.rolled
    assert len(rolled.graph.inputs) < 0.5 * len(written.graph.inputs)
    for _ in range(2):
        assert written(case.batch).loss == rolled(case.batch).loss
    assert same_bits(written.state, rolled.state)


def test_a_layer_that_fails_leaves_the_state() -> None:
    case = CASES["looked_up"]()
    step = compiled(case, True)
    step(case.batch)
    before = step.state
    with pytest.raises(BoundsError):
        step((X, Y, np.full((4, D), D)))
    assert same_bits(before, step.state)
    assert not step._engine.main.program.executable.artefact.undone


def test_what_is_not_finite_is_left_out() -> None:
    step = compiled(plain(), True)
    before = step.params
    assert step((X * np.float32(np.nan), Y)).status == "skipped"
    assert same_bits(before, step.params)


def test_estimate_knows_of_it() -> None:
    case = plain()
    step = compiled(case, "auto")
    memory = ws.estimate(case.loss, case.params, optimizer=ws.optim.adam(1e-2), batch=case.batch)
    assert (memory.arena, memory.state) == (step.memory.arena, step.memory.state)
    written = ws.estimate(case.loss, case.params, optimizer=ws.optim.adam(1e-2), batch=case.batch, roll=False)
    assert written.arena == compiled(case, False).memory.arena


def test_it_is_said_and_can_be_chosen() -> None:
    case = plain()
    assert "5 equal layers rolled" in compiled(case, True).explain()
    assert counts(compiled(case, "auto", device="reference")) == []
    small = Case(perceptron, layers(3), (X, Y), [], {})
    assert counts(compiled(small, True)) == []
    with pytest.raises(ParameterError, match="roll is 'yes'"):
        compiled(case, "yes")


def test_a_few_elementwise_layers_are_left_as_they_are() -> None:
    def loss(p: Any, batch: Any) -> Any:
        h = batch[0]
        for layer in p:
            h = np.sin(h * layer["b"] + layer["b"])
        return np.mean((h - batch[1]) ** 2)

    case = Case(loss, [{"b": x["b"]} for x in layers(7)], (X, Y), [6, 6], {})
    assert counts(compiled(case, "auto")) == [] and counts(compiled(case, True)) == case.rolled
