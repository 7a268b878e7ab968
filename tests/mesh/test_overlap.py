"""Gradients are sent in buckets while others are computed, and no bytes more than a sum of all of them takes."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pytest
from tests.mesh import trainings

import wholestep as ws
from wholestep import tree
from wholestep.collectives import Link, part_of_sum, traffic_of_sum
from wholestep.lower.program.steps import Launch, RoutineCall
from wholestep.runtime.cpu.collective_calls import collective_address
from wholestep.runtime.cpu.exchanges import Exchanges
from wholestep.train.program.mesh import BUCKET_BYTES
from wholestep_tools.audit.workers.equal_runs import Job
from wholestep_tools.audit.workers.threads import AXIS, Threads

WIDTH, LAYERS = 520, 4


def deep() -> Job:
    """Dense layers whose weights have a little more than a bucket each."""
    rng = np.random.default_rng(8)
    params = [np.asarray(rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)), np.float32) for _ in range(LAYERS)]

    def loss(params: Any, batch: Any) -> Any:
        h = batch
        for w in params:
            h = np.tanh(h @ w)
        return np.mean(h * h)

    return Job(loss, params, np.asarray(rng.normal(size=(24, WIDTH)), np.float32), trainings.ADAM, {"roll": False})


def sent_by(job: Job, size: int, **more: Any) -> tuple[list[str], Any, Any]:
    """The calls of the first process in their order, contractions among them; its traffic in a call, and that which
    the step predicts."""

    def life(ranks: Threads) -> Any:
        own = ws.mesh.rows(job.batch, ranks)
        step = job.step(own, mesh={AXIS: ranks}, **more)
        before = ranks.sent[ranks.rank]
        step(own)
        after, plan = ranks.sent[ranks.rank], step.plan
        names = [x.kernel.name if isinstance(x, Launch) else x.routine for x in plan.steps if has_name(x)]
        predicted = step.cost(mesh=Link(1e-6, 1e9)).at(size)
        return names, (after.messages - before.messages, after.bytes - before.bytes), predicted[1:3]

    first, *others = Threads(size).run(life)
    assert all(other == first for other in others), "a process sends as much as any other, in one order"
    return first


def has_name(step: Any) -> bool:
    """True for a kernel that contracts, and for a collective."""
    contracts = isinstance(step, Launch) and step.kernel.name.startswith("contract")
    return contracts or (isinstance(step, RoutineCall) and step.routine.startswith("collective"))


@pytest.mark.parametrize("size", [2, 3, 4])
def test_buckets_are_sent_between_contractions_and_waited_for_at_the_end(size: int) -> None:
    names, sent, predicted = sent_by(deep(), size)
    begun = [i for i, name in enumerate(names) if name.startswith("collective.begin")]
    ended = [i for i, name in enumerate(names) if name.startswith("collective.end")]
    contractions = [i for i, name in enumerate(names) if name.startswith("contract")]
    assert len(begun) == len(ended) == LAYERS, "a bucket for each layer, the first of them with the loss"
    assert sum(i < contractions[-1] for i in begun) >= LAYERS - 1, names
    assert min(ended) > max(contractions)
    counts = [WIDTH * WIDTH + 1, *[WIDTH * WIDTH] * (LAYERS - 1)]
    traffic = [traffic_of_sum(n, 4, size) for n in counts]
    assert sent == predicted == (sum(x.messages for x in traffic), sum(x.bytes for x in traffic))
    least = 2 * (size - 1) * sum(counts) * 4 / size
    assert least <= sent[1] < least + LAYERS * 2 * size * 4, "up to the padding of the last part"


@pytest.mark.parametrize("size", [2, 3, 4])
def test_a_sharded_step_sends_as_many_bytes(size: int) -> None:
    """Each process sends its part of the gradient to every other one, and of the parameters: a sum's two halves."""
    names, sent, predicted = sent_by(deep(), size, shard="optimizer")
    scattered = [i for i, name in enumerate(names) if name.startswith("collective.begin_psum_scatter")]
    contractions = [i for i, name in enumerate(names) if name.startswith("contract")]
    assert sum(i < contractions[-1] for i in scattered) >= LAYERS - 1, names
    small = traffic_of_sum(1, 4, size).bytes  # the loss, and whether all is finite
    part = part_of_sum(WIDTH * WIDTH, size)
    assert sent == predicted
    assert sent[1] == 2 * (size - 1) * LAYERS * part * 4 + 2 * small


def test_small_gradients_share_a_bucket() -> None:
    names, sent, _ = sent_by(trainings.perceptron(trainings.ADAM), 2)
    count = sum(x.size for x in tree.leaves(trainings.perceptron(trainings.ADAM).params)) + 1
    assert 4 * count < BUCKET_BYTES
    assert sum(name.startswith("collective.begin") for name in names) == 1
    assert sent == traffic_of_sum(count, 4, 2)


def test_exchanges_run_in_order_beside_the_thread_that_began_them() -> None:
    exchanges, free, seen = Exchanges(), threading.Event(), []

    def exchange(number: int) -> Any:
        assert free.wait(60)
        seen.append((number, threading.current_thread().name))
        return np.full(1, number)

    numbers = [exchanges.begin(lambda i=i: exchange(i), beside=True) for i in range(3)]
    assert seen == [], "they wait, and this thread does not"
    free.set()
    assert [int(exchanges.end(number)[0]) for number in reversed(numbers)] == [2, 1, 0]
    assert seen == [(i, "exchanges") for i in range(3)]


def test_an_exchange_that_fails_is_an_error_where_it_is_waited_for() -> None:
    exchanges = Exchanges()

    def failing() -> Any:
        raise OSError("planted")

    for beside in (True, False):
        number = exchanges.begin(failing, beside)
        with pytest.raises(OSError, match="planted"):
            exchanges.end(number)
    exchanges.begin(failing, beside=True)
    exchanges.forget()
    assert exchanges.running == {}, "a program that was left waits for nothing any more"


def test_threads_that_compile_at_once_call_the_same_functions() -> None:
    """An address in compiled code is that of a function that lives on: of two made at once one would not."""
    together, before = threading.Barrier(8), sys.getswitchinterval()
    names = [f"begin_psum.axis{i}" for i in range(200)]

    def addresses(found: list[int]) -> None:
        for name in names:
            together.wait(60)
            found.append(collective_address(name))

    found: list[list[int]] = [[] for _ in range(8)]
    threads = [threading.Thread(target=addresses, args=(own,)) for own in found]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert all(own == found[0] and len(own) == len(names) for own in found)


class Here(Threads):
    """A communicator whose calls must come from the thread that called the step."""

    beside = False

    def exchange(self, send: Any, parts: Any, receive: Any) -> None:
        assert threading.current_thread().name != "exchanges"
        super().exchange(send, parts, receive)


def test_a_communicator_may_ask_for_the_calling_thread() -> None:
    job = trainings.perceptron(trainings.ADAM)

    def life(ranks: Threads) -> float:
        own = ws.mesh.rows(job.batch, ranks)
        return float(job.step(own, mesh={AXIS: ranks})(own).loss)

    assert Here(2).run(life) == Threads(2).run(life)
