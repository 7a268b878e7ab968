"""N processes are the same step under `vmap` over N parts of the rows, and one process that takes part after part."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from tests.mesh import trainings

import wholestep as ws
from wholestep import tree
from wholestep_tools.audit.workers import drawn_jobs
from wholestep_tools.audit.workers.equal_runs import (
    Job,
    NoMean,
    Run,
    by_micro_batches,
    distance,
    in_processes,
    pairs_of,
    under_vmap,
    unlike,
)
from wholestep_tools.audit.workers.threads import AXIS, Threads
from wholestep_tools.bench.draws import dense

SIZES = (1, 2, 3, 4)
BOUND = 1e-4
"""The allowed difference after three steps whose sums are split differently, relative to an array's largest element."""


def close(a: Any, b: Any) -> bool:
    """True where two runs differ by rounding at most."""
    return all(distance(x, y) < BOUND for name, x, y in pairs_of(a, b) if not name.endswith("counters.key"))


COMPILED = [*[("W1", size) for size in SIZES], *[(name, 2 + i % 3) for i, name in enumerate(trainings.JOBS)][1:]]
"""The compiled cases, few since compilation takes long: W1 in every number of processes, the others in one each."""
ROWS_OF_EACH = 3
IN_NUMPY = {"device": "reference"}

# A loss scale is found by raising it until a gradient overflows, of which NumPy warns.
overflowing = pytest.mark.filterwarnings("ignore:overflow encountered", "ignore:invalid value encountered")
by_parts = pytest.mark.filterwarnings("ignore:compile. microbatch=. takes batch statistics of each part")


def besides_buffers(lines: Iterable[str]) -> list[str]:
    """The lines about other arrays than buffers, which are carried by micro-batches and averaged over processes."""
    return [line for line in lines if not line.startswith("state.buffers")]


@by_parts
@pytest.mark.parametrize(("name", "size"), COMPILED)
def test_processes_have_the_bits_of_micro_batches_and_are_close_to_vmap(name: str, size: int) -> None:
    job = trainings.JOBS[name]()
    ranks, alone = in_processes(job, Threads(size)), by_micro_batches(job, size)
    for run, mapped in zip(ranks.runs, under_vmap(job, ranks), strict=True):
        assert not besides_buffers(unlike(run, alone))
        assert not [*unlike(run, ranks.runs[0])]
        assert close(run, mapped), [*unlike(run, mapped)]


@by_parts
@overflowing
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", trainings.JOBS)
def test_in_numpy_the_three_are_the_same_to_the_bit(name: str, size: int) -> None:
    job = trainings.JOBS[name]().with_options(IN_NUMPY)
    ranks, alone = in_processes(job, Threads(size)), by_micro_batches(job, size)
    for run, mapped in zip(ranks.runs, under_vmap(job, ranks), strict=True):
        assert not [*unlike(run, mapped)]
        assert not besides_buffers(unlike(run, alone))


@pytest.mark.parametrize("size", SIZES)
def test_what_processes_share_in_the_loss_is_shared_under_vmap(size: int) -> None:
    for job in (trainings.shared_statistics(), trainings.shared_statistics().with_options(IN_NUMPY)):
        ranks = in_processes(job, Threads(size))
        for run, mapped in zip(ranks.runs, under_vmap(job, ranks), strict=True):
            assert close(run, mapped), [*unlike(run, mapped)]
            assert not [*unlike(run, ranks.runs[0])]


EVALUATED = {
    "sam": ws.optim.sam(ws.optim.sgd(0.1)),
    "sophia": ws.optim.sophia(1e-2, every=2),
    "lbfgs": ws.optim.lbfgs(0.1),
    "lbfgs, backtracking": ws.optim.lbfgs(0.1, line_search="backtracking"),
    "groups": ws.optim.groups({"w0": ws.optim.sam(ws.optim.sgd(0.1))}, ws.optim.sgd(0.1)),
}
"""Optimizers that compute the loss and its derivatives themselves."""


@pytest.mark.parametrize("name", EVALUATED)
@pytest.mark.parametrize("more", [{}, {"precision": "float16"}])
def test_an_optimizer_that_computes_the_loss_gets_that_of_all_processes(name: str, more: dict[str, Any]) -> None:
    params = dense(np.random.default_rng(6), (64, 20, 16, 10), 1.0)
    job = Job(trainings.mlp, params, trainings.pictures(64), EVALUATED[name], more)
    ranks = in_processes(job, Threads(3))
    for run, mapped in zip(ranks.runs, under_vmap(job, ranks), strict=True):
        assert not [*unlike(run, ranks.runs[0])]
        assert close(run, mapped), [*unlike(run, mapped)]
    if not more:  # half precision may choose another step length by rounding
        assert close(ranks.runs[0], by_micro_batches(job, 1))


@pytest.mark.parametrize("optimizer", [trainings.ADAM, EVALUATED["sam"]], ids=str)
def test_slopes_along_hyper_parameters_are_those_of_all_rows(optimizer: Any) -> None:
    rng = np.random.default_rng(6)
    params = {"w": rng.normal(size=(6, 3))}
    batches = {"x": rng.normal(size=(3, 12, 6)), "y": rng.normal(size=(3, 12, 3))}

    def loss(params: Any, batch: Any) -> Any:
        return np.mean((np.tanh(batch["x"] @ params["w"]) - batch["y"]) ** 2)

    def slopes(batches: Any, **more: Any) -> dict[str, float]:
        options = {"steps_per_call": 3, "unroll": "through", **more}
        step = ws.compile(loss, params, optimizer=optimizer, batch=batches, **options)
        return dict(step(batches).hypergradients)

    def life(communicator: Threads) -> dict[str, float]:
        own = tree.map(lambda x: np.ascontiguousarray(np.split(x, communicator.size, 1)[communicator.rank]), batches)
        return slopes(own, mesh={AXIS: communicator})

    first, *others = Threads(3).run(life)
    assert all(other == first for other in others)
    for name, wanted in slopes(batches).items():
        np.testing.assert_allclose(first[name], wanted, rtol=1e-8, err_msg=name)


@overflowing
@pytest.mark.parametrize("make", [drawn_jobs.layered, drawn_jobs.operations])
def test_random_trainings_are_the_same_in_all_three_ways(make: Any) -> None:
    """Losses that are no means over rows, such as those with a branch on a sum over rows, have no micro-batches."""
    means, rounded = 0, 0
    for seed in range(20):
        size = SIZES[seed % 4]
        job = make(seed, size, **IN_NUMPY)
        ranks = in_processes(job, Threads(size))
        with contextlib.suppress(NoMean):
            assert not [*unlike(ranks.runs[0], by_micro_batches(job, size))], seed
            means += 1
        for run, mapped in zip(ranks.runs, under_vmap(job, ranks), strict=True):
            assert not [*unlike(run, ranks.runs[0])], seed
            assert close(run, mapped), (seed, [*unlike(run, mapped)])
        rounded += bool([*unlike(run, mapped)])
    assert means >= 18
    assert rounded <= 3, "sums over several axes, whose order in NumPy depends on those beside them"


@pytest.mark.parametrize("size", [*SIZES, 8])
def test_sharded_states_have_the_bits_of_whole_ones(size: int) -> None:
    """Each process keeps an equal part of the optimizer's state, and reports the bytes of that part."""
    job = trainings.perceptron(trainings.ADAM).with_options(IN_NUMPY)
    job = job._replace(batch={name: np.concatenate([x, x])[: ROWS_OF_EACH * size] for name, x in job.batch.items()})
    whole, parts = in_processes(job, Threads(size)), in_processes(job, Threads(size), shard="optimizer")
    for a, b in zip(whole.runs, parts.runs, strict=True):
        assert a.losses == b.losses
        assert not [*unlike(Run([], of(a, "params")), Run([], of(b, "params")))]
    kept = sum(x.nbytes for x in of(parts.runs[0], "optimizer").values())
    sizes = [x.size for x in tree.leaves(job.params)]
    assert kept == 8 + 2 * 4 * sum(-(-n // size) for n in sizes), "two moments and a counter"
    params, counters = (sum(x.nbytes for x in of(parts.runs[0], part).values()) for part in ("params", "counters"))
    assert parts.engine.state.nbytes == kept + params + counters


def of(run: Run, part: str) -> dict[str, Any]:
    """The arrays of a part of the state."""
    return {path: x for path, x in run.state.items() if path.startswith(f"state.{part}")}
