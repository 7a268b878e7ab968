"""Several processes that train together are one process that takes their rows one part after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.mesh import programs
from tests.mesh.processes import run_processes

import wholestep as ws

ROWS = 24
CASES = [
    ("plain", "adam", ROWS, {}),
    ("plain", "clip", ROWS, {"guard": None}),
    ("dropped", "adam", ROWS, {"precision": "bfloat16"}),
    ("dropped", "clip", ROWS, {"roll": False, "grad_norm": True}),
]
"""(program, optimizer, rows of the whole batch, options)"""


def alone(name: str, how: str, rows: int, options: dict[str, Any], size: int) -> list[bytes]:
    """The same training in one process, by micro-batches."""
    loss, params, batch = programs.start(name, rows)
    step = ws.compile(loss, params, optimizer=programs.optimizer(how), batch=batch, microbatch=rows // size, **options)
    return programs.trained(step, batch)


@pytest.mark.parametrize("size", [2, 3])
def test_processes_have_the_bits_of_micro_batches(size: int) -> None:
    for number, ranks in enumerate(zip(*run_processes(size, programs.train, CASES), strict=True)):
        wanted = alone(*CASES[number], size)
        for rank, found in enumerate(ranks):
            assert found == wanted, (CASES[number], rank)


def test_a_mean_over_the_axis_in_the_loss_is_that_of_the_whole_batch() -> None:
    cases = [("normalized", "adam", ROWS, {})]
    (first,), (second,) = run_processes(2, programs.train, cases)
    assert first == second
    loss, params, batch = programs.start("normalized", ROWS)

    def mapped(params: Any, batch: Any) -> Any:
        parts = {name: x.reshape(2, ROWS // 2, -1) for name, x in batch.items()}
        return ws.vmap(lambda part: loss(params, part), axis_name="data")(parts).mean()

    step = ws.compile(mapped, params, optimizer=programs.optimizer("adam"), batch=batch)
    wanted = programs.trained(step, batch)
    for a, b in zip(first[: programs.STEPS], wanted[: programs.STEPS], strict=True):
        np.testing.assert_allclose(np.frombuffer(a), np.frombuffer(b), rtol=1e-6)


def test_ranks_that_differ_are_refused_at_the_start() -> None:
    for f, what in ((programs.other_parameters, "state"), (programs.other_shapes, "program")):
        for said in run_processes(2, f):
            assert f"rank 1 of mesh axis 'data' has another {what} than rank 0" in said


def test_a_rank_that_ends_is_an_error_of_the_others_and_costs_no_state() -> None:
    said, same, steps = run_processes(2, programs.ends_early)[0]
    assert "psum over 'data'" in said
    assert same
    assert steps == 1


def test_sums_are_exact_and_send_no_more_than_they_must() -> None:
    for small, least, most, sent in run_processes(3, programs.sums):
        assert small == [0, 6, 12, 18, 24]
        assert (least, most) == (6, 6)
        assert sent <= 2 * 2 * (-(-13000 // 3)) * 8


class Alone:
    """A communicator of one process."""

    rank, size = 0, 1

    def all_gather(self, send: Any, receive: Any) -> None:
        receive[0] = send

    all_to_all = all_gather


def test_a_mesh_is_checked() -> None:
    loss, params, batch = programs.start("plain", 8)
    one = Alone()
    for mesh, wrong in (
        (one, ws.errors.ParameterError),
        ({"data": object()}, ws.errors.ParameterError),
    ):
        with pytest.raises((ws.errors.DtypeError, wrong)):
            ws.compile(loss, params, batch=batch, mesh=mesh)  # type: ignore[arg-type]
    with pytest.raises(ws.errors.ParameterError, match="averages over one"):
        ws.compile(loss, params, batch=batch, mesh={"a": one, "b": one})
    step = ws.compile(loss, params, batch=batch, mesh={"alone": one})
    with pytest.raises(ws.errors.ParameterError, match="another communicator"):
        ws.compile(loss, params, batch=batch, mesh={"alone": Alone()})
    with pytest.raises(ws.errors.ShapeError, match="compiled for"):
        step({name: x[:4] for name, x in batch.items()})


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_one_process_is_the_step_without_a_mesh(device: str) -> None:
    loss, params, batch = programs.start("plain", 8)
    options: dict[str, Any] = {"optimizer": programs.optimizer("adam"), "batch": batch, "device": device}
    step = ws.compile(loss, params, **options, mesh={f"alone_{device}": Alone()})
    assert programs.trained(step, batch) == programs.trained(ws.compile(loss, params, **options), batch)


def test_rows_are_shared_in_the_order_of_ranks() -> None:
    parts = [ws.mesh.rows({"x": np.arange(6)}, Rank(rank))["x"] for rank in range(3)]
    np.testing.assert_array_equal(np.concatenate(parts), np.arange(6))
    with pytest.raises(ws.errors.ShapeError, match="cannot share"):
        ws.mesh.rows(np.arange(7), Rank(0))


class Rank(Alone):
    """A communicator that knows its place."""

    size = 3

    def __init__(self, rank: int) -> None:
        self.rank = rank
