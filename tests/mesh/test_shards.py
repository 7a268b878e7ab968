"""Processes that keep a part of the optimizer's state each train as those that keep all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.mesh import programs
from tests.mesh.processes import run_processes
from tests.mesh.test_mesh import Alone, alone
from tests.optim.test_optimizers import GRADS, MADE, OTHERS, PARAMS, REAL

import wholestep as ws
from wholestep import optim, tree
from wholestep.train.program.mesh import mesh_axis
from wholestep.train.program.shards import Shards, checked_owners, uncut

ROWS = programs.ROWS
CASES = [
    ("plain", "adam", ROWS, {}),
    ("plain", "groups", ROWS, {"guard": None}),
    ("dropped", "averaged", ROWS, {"precision": "bfloat16"}),
    ("dropped", "accumulate", ROWS, {"precision": "float16"}),
    ("plain", "adam", ROWS, {"roll": False, "guard": "loss"}),
]
NORMS = [("plain", "clip", ROWS, {}), ("dropped", "clip", ROWS, {"precision": "float16", "grad_norm": True})]
"""Cases with a global norm, whose sum over parts rounds differently."""


def elements_of(name: str, how: str, rows: int, options: dict[str, Any]) -> list[tuple[int, int]]:
    """(elements, bytes of one) of each array of the optimizer's state."""
    _, params, _ = programs.start(name, rows)
    return [(np.size(x), np.asarray(x).itemsize) for x in tree.leaves(programs.optimizer(how).init(params))]


@pytest.mark.parametrize("size", [2, 3])
def test_parts_have_the_bits_and_a_share_of_the_memory_of_the_whole(size: int) -> None:
    for number, ranks in enumerate(zip(*run_processes(size, programs.sharded, [*CASES, *NORMS]), strict=True)):
        case = [*CASES, *NORMS][number]
        wanted = alone(*case, size)
        counters = 8 * {"adam": 1, "groups": 2, "averaged": 2, "accumulate": 4, "clip": 1}[case[1]]
        whole = sum(n * itemsize for n, itemsize in elements_of(*case)) - counters
        for rank, (found, nbytes) in enumerate(ranks):
            if case in CASES:
                assert found == wanted, (case, rank)
            assert found == ranks[0][0], "all ranks have the same state"
            for a, b in zip(found, wanted, strict=True):
                kind = np.float64 if len(a) == 8 else np.float32
                np.testing.assert_allclose(np.frombuffer(a, kind), np.frombuffer(b, kind), rtol=1e-5, atol=1e-7)
            least = (whole + size - 1) // size
            assert least <= nbytes - counters <= least + 4 * size * len(elements_of(*case)), "up to padding"


def test_a_checkpoint_of_parts_is_whole_and_any_number_of_processes_goes_on(tmp_path: Path) -> None:
    run_processes(2, programs.fitted_in_parts, str(tmp_path), 2)
    first = run_processes(3, programs.fitted_in_parts, str(tmp_path), 4)
    assert first[0] == first[1] == first[2]
    loss, params, data = programs.start("plain", 100)
    by = programs.optimizer("averaged")
    one = ws.compile(loss, params, optimizer=by, batch={name: x[:ROWS] for name, x in data.items()})
    one.load(tmp_path / "run.safetensors")
    with one.averaged():
        means = tree.leaves(one.params)
    assert [np.asarray(x).tobytes() for x in (*means, *programs.ws_leaves(one))] == first[0]


def test_state_is_changed_from_outside_in_parts_as_it_is_whole() -> None:
    for whole, parts in run_processes(2, programs.flushed):
        assert whole == parts


def test_a_part_that_is_not_finite_is_left_out_by_all() -> None:
    assert run_processes(2, programs.infinite_in_one_part) == [["skipped", 1, True]] * 2


class Pretended(Alone):
    """A communicator that claims two processes and is one."""

    size = 2

    def all_gather(self, send: Any, receive: Any) -> None:
        receive[:] = send


ELEMENTWISE = {**MADE, **OTHERS, "groups": optim.groups({"w": optim.sgd(0.1)}, optim.adam(0.1))}
REFUSED = {
    "lamb": "elements that depend on other elements",
    "adafactor": "like no parameter",
    "muon": "like no parameter",
    "lbfgs": "like no parameter",
    "fromage": "elements that depend on other elements",
    "shampoo": "like no parameter",
    "soap": "like no parameter",
    "lars": "elements that depend on other elements",
    "novograd": "elements that depend on other elements",
    "prodigy": "elements that depend on other elements",
    "dadapt_adamw": "maximum makes one number of a process",
    "dog": "elements that depend on other elements",
    "sm3": "like no parameter",
    "conditioned": "takes elements from other places",
}


@pytest.mark.parametrize("name", [*ELEMENTWISE, *REAL])
def test_each_optimizer_is_proved_elementwise_or_refused(name: str) -> None:
    optimizer, axis = {**ELEMENTWISE, **REAL}[name], mesh_axis({"pretended": PRETENDED})
    assert axis is not None
    params = tree.map(np.float32, PARAMS)
    if name in REFUSED:
        with pytest.raises(ws.errors.UnsupportedError, match=REFUSED[name]):
            checked_owners(axis, optimizer, params)
        return
    owners = checked_owners(axis, optimizer, params)
    if name == "wrapped":
        return  # it clips by a norm that processes add up
    whole = updated_twice(optimizer, optimizer.init(params), params, GRADS)
    for size in (2, 3):
        shards, rows = Shards(axis._replace(size=size), owners), []
        for rank in range(size):
            PRETENDED.rank = rank
            own, *grads = [tree.map(shards.cut, x) for x in (params, *tree.map(np.float32, GRADS))]
            rows.append(updated_twice(optimizer, optimizer.init(own), own, grads))
        PRETENDED.rank = 0
        for *parts, wanted in zip(*map(tree.leaves, (*rows, whole)), strict=True):
            found = uncut(np.stack(parts), wanted.shape) if np.shape(parts[0]) else parts[0]
            np.testing.assert_array_equal(found, wanted)


PRETENDED = Pretended()


def updated_twice(optimizer: Any, state: Any, params: Any, grads: Any) -> Any:
    """Parameters and state after two updates."""
    for g in grads[:2]:
        params, state = optimizer.update(tree.map(np.float32, g), state, params)
    return params, state


class ByPlace:
    """An optimizer whose rate depends on where an element is."""

    def init(self, params: Any) -> Any:
        return None

    def update(self, grads: Any, state: Any, params: Any) -> Any:
        return tree.map(lambda p, g: p - g * np.arange(p.size, dtype=p.dtype).reshape(p.shape), params, grads), state


class BySize:
    """An optimizer whose rate depends on the number of elements."""

    def init(self, params: Any) -> Any:
        return None

    def update(self, grads: Any, state: Any, params: Any) -> Any:
        return tree.map(lambda p, g: p - g / np.float32(p.size), params, grads), state


class Shuffling(BySize):
    """An optimizer that moves elements."""

    def update(self, grads: Any, state: Any, params: Any) -> Any:
        return tree.map(lambda p, g: (p.reshape(-1) - g.reshape(-1)[::-1]).reshape(p.shape), params, grads), state


class ByOwnSum(BySize):
    """An optimizer that stops by the sum of a process's own part."""

    def update(self, grads: Any, state: Any, params: Any) -> Any:
        return tree.map(lambda p, g: np.where(g.sum() > 0, p - g, p), params, grads), state


@pytest.mark.parametrize(
    ("optimizer", "why"),
    [
        (ByPlace(), "whose elements have places"),
        (BySize(), "depends on the shapes"),
        (Shuffling(), "from other places"),
        (ByOwnSum(), "depend on other elements"),
        (optim.adam(0.1, lazy=True), "from other places"),
        (optim.chain(optim.clip_by_value(1.0), optim.lbfgs()), "like no parameter"),
    ],
)
def test_what_needs_more_than_a_part_is_refused(optimizer: Any, why: str) -> None:
    loss, params, batch = programs.start("plain", 8)
    with pytest.raises(ws.errors.UnsupportedError, match=why):
        ws.compile(loss, params, optimizer=optimizer, batch=batch, mesh={"pretended": PRETENDED}, shard="optimizer")


def test_the_option_is_checked() -> None:
    loss, params, batch = programs.start("plain", 8)
    given: dict[str, Any] = {"optimizer": optim.adam(0.1), "batch": batch}
    with pytest.raises(ws.errors.ParameterError, match="without mesh="):
        ws.compile(loss, params, shard="optimizer", **given)
    mesh: Any = {"pretended": PRETENDED}
    with pytest.raises(ws.errors.ParameterError, match="without optimizer="):
        ws.compile(loss, params, batch=batch, shard="optimizer", mesh=mesh)
    with pytest.raises(ws.errors.ParameterError, match="whole in every process"):
        ws.compile(loss, params, shard="params", mesh=mesh, **given)  # type: ignore[arg-type]
    with pytest.raises(ws.errors.UnsupportedError, match="does not go with unroll='through'"):
        stacked = {name: np.stack([x, x]) for name, x in batch.items()}
        more: Any = {"steps_per_call": 2, "unroll": "through", "shard": "optimizer", "mesh": mesh}
        ws.compile(loss, params, **{**given, "batch": stacked}, **more)
