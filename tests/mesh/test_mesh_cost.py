"""The predicted bytes of a call in N processes are those that N processes send."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from tests.mesh import programs
from tests.mesh.processes import run_processes
from tests.mesh.test_overlap import deep

import wholestep as ws
from wholestep.collectives import GATHERED_BYTES, traffic_of_sum
from wholestep.report.mesh_table import MeshCosts, SentArray
from wholestep_tools.audit.workers.threads import AXIS, Threads

SIZES = (1, 2, 3, 4)
ROWS = 24
CASES = [
    ("plain", "adam", ROWS, {}),
    ("normalized", "clip", ROWS, {"precision": "bfloat16"}),
    ("looped", "adam", ROWS, {"guard": None}),
    ("plain", "adam", ROWS, {"microbatch": 2}),
    ("contrasted", "adam", ROWS, {}),
]
LINK = ws.mesh.Link(latency_seconds=2e-6, bytes_per_second=1e10)


def test_the_bytes_of_a_call_are_predicted_from_any_number_of_processes() -> None:
    runs = {size: run_processes(size, programs.sent_bytes, CASES, SIZES) for size in SIZES}
    predicted = [forecast for _, forecast in runs[1][0]]
    assert all(forecast[0] == (0, 0) < forecast[1] for forecast in predicted)
    for size, ranks in runs.items():
        for rank in ranks:
            for number, (sent, forecast) in enumerate(rank):
                assert forecast == predicted[number], CASES[number]
                nbytes, messages = forecast[SIZES.index(size)]
                assert sent == (3 * nbytes, 3 * messages), (CASES[number], size)


@pytest.mark.parametrize("itemsize", [2, 4, 8])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 4096])
def test_a_sum_sends_the_least_bytes_up_to_padding(itemsize: int, size: int) -> None:
    """The bytes are an all-reduce's lower bound, 2 (N - 1) / N of its operand, plus less than an element a part."""
    for count in (GATHERED_BYTES // itemsize + 1, 10_007, 1 << 20):
        messages, nbytes = traffic_of_sum(count, itemsize, size)
        least = 2 * (size - 1) * count * itemsize / size
        assert least <= nbytes < least + 2 * size * itemsize
        assert messages == 2 * (size - 1)
    assert traffic_of_sum(GATHERED_BYTES // itemsize, itemsize, size) == (size - 1, (size - 1) * GATHERED_BYTES)


class Alone:
    """A communicator of one process."""

    rank, size = 0, 1

    def all_gather(self, send: Any, receive: Any) -> None:
        receive[0] = send

    all_to_all = all_gather


ALONE = Alone()


def compiled(**options: Any) -> Any:
    return ws.compile(lambda w, x: np.mean((x @ w) ** 2), np.ones((64, 64)), batch=np.ones((4, 64)), **options)


def test_a_table_of_processes() -> None:
    step = compiled(mesh={"priced": ALONE})
    cost = step.cost(mesh=LINK)
    rows = cost.rows()
    assert [row.processes for row in rows] == [2**i for i in range(13)]
    assert len(str(cost).splitlines()) == 2 + 1 + len(rows) and repr(cost) == str(cost)
    assert rows[0].seconds == rows[0].own_seconds and rows[0].efficiency == 1
    for row in rows:
        assert row.communication_seconds == row.messages * 2e-6 + row.bytes / 1e10
        assert row.seconds == row.own_seconds + row.waiting_seconds
        assert 0.5 * row.communication_seconds <= row.waiting_seconds <= row.communication_seconds + 1e-12
    assert [row.efficiency for row in rows] == sorted([row.efficiency for row in rows], reverse=True)
    assert 0 < 1e6 * rows[0].seconds < step.cost().microseconds, "the own time has no wait for others"


def test_a_link_is_checked() -> None:
    step = compiled(mesh={"priced": ALONE})
    with pytest.raises(ws.errors.ParameterError, match="the step has no mesh"):
        compiled().cost(mesh=LINK)
    for wrong in (ALONE, (1e-6, 1e9), ws.mesh.Link("fast", 1e9)):  # type: ignore[arg-type]
        with pytest.raises(ws.errors.DtypeError, match="not a link"):
            step.cost(mesh=wrong)
    for latency, rate in ((-1e-6, 1e9), (1e-6, 0.0), (1e-6, float("nan")), (float("nan"), 1e9)):
        with pytest.raises(ws.errors.ParameterError, match="negative latency, or no rate"):
            step.cost(mesh=ws.mesh.Link(latency, rate))
    with pytest.raises(ws.errors.ParameterError, match="at least 1"):
        step.cost(mesh=LINK).at(0)


def test_what_is_sent_beside_work_is_not_waited_for() -> None:
    first = SentArray("psum", 250_000, 4, 1, begun=1.0, needed=3.0)
    cost = MeshCosts("two sums", ws.mesh.Link(0.0, 1e6), 3.5, (first, first._replace(begun=2.5, needed=3.2)))
    assert cost.at(2).communication_seconds == 2.0, "a second each"
    assert cost.at(2).waiting_seconds == pytest.approx(0.3), "from 1 to 2, and from 2.5 to 3.5"
    assert cost.at(2).seconds == pytest.approx(3.8)
    assert cost.at(1).seconds == 3.5


SLOW = ws.mesh.Link(latency_seconds=5e-3, bytes_per_second=2e7)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_no_step_is_faster_than_its_links_are_predicted_to_be(size: int) -> None:
    """The links take much longer than any work. The excess over the prediction depends on the load of the machine; a
    test of bytes checks that a step sends no more than predicted."""

    def life(ranks: Threads) -> tuple[float, float]:
        job = deep()
        own = ws.mesh.rows(job.batch, ranks)
        step, taken = job.step(own, mesh={AXIS: ranks}), []
        for _ in range(3):
            before = time.perf_counter()
            step(own)
            taken.append(time.perf_counter() - before)
        return min(taken), step.cost(mesh=SLOW).at(size).seconds

    for taken, predicted in Threads(size, SLOW).run(life):
        assert taken > 0.95 * predicted
