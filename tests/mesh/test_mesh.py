"""Several processes that train together are one process that takes their rows one part after another."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.mesh import programs
from tests.mesh.processes import run_processes

import wholestep as ws

ROWS = programs.ROWS
CASES = [
    ("plain", "adam", ROWS, {}),
    ("plain", "clip", ROWS, {"guard": None}),
    ("dropped", "adam", ROWS, {"precision": "bfloat16"}),
    ("dropped", "clip", ROWS, {"roll": False, "grad_norm": True}),
]
"""Cases: (program, optimizer, rows of the whole batch, options)."""


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
            assert f"rank 1 of axis 'data' has another {what} than rank 0" in said


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


def by_micro_batches(folder: str, size: int) -> list[object]:
    """The run of `programs.fitted` in one process."""
    loss, params, data = programs.start("plain", 100)
    batch = {name: x[:ROWS] for name, x in data.items()}
    options: dict[str, Any] = {"optimizer": programs.optimizer("clip"), "batch": batch}
    step = ws.compile(loss, params, microbatch=ROWS // size, **options)
    loader = ws.Loader(data, ROWS, key=step.state["counters"]["key"], drop_last=True)
    history = ws.fit(step, loader, epochs=4, validation=ws.Loader(data, ROWS // size, shuffle=False), progress=None)
    values = [np.asarray(x).tobytes() for x in programs.ws_leaves(step)]
    return [values, [x.hex() for x in history["val_loss"].tolist()], history.losses.tolist()]


def test_fit_shares_out_rows_and_another_number_of_processes_resumes_it(tmp_path: Path) -> None:
    run_processes(2, programs.fitted, str(tmp_path), 2, False)
    wanted = by_micro_batches(str(tmp_path), 2)
    for rank, found in enumerate(run_processes(2, programs.fitted, str(tmp_path), 4, True)):
        assert [found[0], found[1], found[3]] == [wanted[0], wanted[1], wanted[2][8:]]  # type: ignore[index]
        assert found[2] == (rank == 0), "rank 0 alone prints"
    others = run_processes(3, programs.fitted, str(tmp_path), 6, True)
    assert others[0][0] == others[1][0] == others[2][0]
    assert len(others[0][3]) == 8


def test_one_rank_stops_all_of_them() -> None:
    first, second = run_processes(2, programs.stopped)
    assert first == [3, "stopped by another process"]
    assert second == [3, "enough"]


def test_loops_of_steps_go_in_step() -> None:
    first, second = run_processes(2, programs.looped)
    assert first == second
    assert len(first[0]) == 2
    assert len(first[1]) == 6


def test_ranks_that_drift_apart_are_an_error() -> None:
    for said in run_processes(2, programs.drifting):
        assert "rank 1 of axis 'data' has another state than rank 0" in said


def test_buffers_are_means_and_those_of_integers_rank_zeros() -> None:
    ranks = run_processes(2, programs.counted)
    mean = np.mean([np.mean(np.float32(found[3]), axis=0) for found in ranks], axis=0)
    for seen, any_, found, _ in ranks:
        assert (seen, any_) == (1, True)
        np.testing.assert_allclose(found, mean, rtol=1e-6)


def test_a_loader_shares_each_batch() -> None:
    data, mesh = np.arange(24), {"shared": Rank(0)}
    whole = [*ws.Loader(data, 6, key=3)]
    try:
        for rank in range(3):
            mesh["shared"].rank = rank
            own = ws.Loader(data, 6, key=3, mesh=mesh)
            assert own.state() == ws.Loader(data, 6, key=3).state(), "any number of processes goes on from it"
            for batch, part in zip(whole, own, strict=True):
                np.testing.assert_array_equal(part, batch[2 * rank : 2 * rank + 2])
    finally:
        mesh["shared"].rank = 0
    with pytest.raises(ws.errors.ParameterError, match="3 processes cannot share batches of 4 rows"):
        ws.Loader(data, 4, mesh=mesh)
    with pytest.raises(ws.errors.ShapeError, match=r"cannot share a batch of 1 rows equally"):
        next(iter(ws.Loader(np.arange(25), 6, mesh=mesh)))
    assert len(ws.Loader(np.arange(25), 6, mesh=mesh, drop_last=True)) == 4
    for items in (iter(range(3)), [np.zeros(2)]):
        with pytest.raises(ws.errors.ParameterError, match="shares out rows by their numbers"):
            ws.Loader(items, None, mesh=mesh)
