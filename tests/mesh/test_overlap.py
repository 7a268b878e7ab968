"""Gradients are sent in buckets while others are computed, and no bytes more than a sum of all of them takes."""

from __future__ import annotations

import math
import sys
import threading
from typing import Any

import numpy as np
import pytest
from tests.mesh import trainings

import wholestep as ws
from wholestep import tree
from wholestep.collectives import BEGUN, Link, enter_axis, exchange_bytes, part_of_sum, traffic_of_sum
from wholestep.lower.program.steps import Launch, RoutineCall
from wholestep.runtime.cpu.collective_calls import collective_address
from wholestep.runtime.cpu.exchanges import Exchanges
from wholestep.train.program.mesh import BUCKET_BYTES
from wholestep_tools.audit.workers.equal_runs import Job
from wholestep_tools.audit.workers.threads import AXIS, Threads

WIDTH, LAYERS = 520, 4


def deep() -> Job:
    """Dense layers, each with a weight a little larger than a bucket."""
    rng = np.random.default_rng(8)
    params = [np.asarray(rng.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)), np.float32) for _ in range(LAYERS)]

    def loss(params: Any, batch: Any) -> Any:
        h = batch
        for w in params:
            h = np.tanh(h @ w)
        return np.mean(h * h)

    return Job(loss, params, np.asarray(rng.normal(size=(24, WIDTH)), np.float32), trainings.ADAM, {"roll": False})


def sent_by(job: Job, size: int, **more: Any) -> tuple[list[str], Any, Any]:
    """The names of the first process's kernels and routines in order, its measured traffic in a call, and the predicted
    traffic."""

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
    """The reduce-scatter of gradients and the all-gather of parameters send as many bytes as an all-reduce."""
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
    exchanges.begin(failing, beside=False)
    assert not exchanges.leave(memory=None)
    assert exchanges.running == {}, "a program that was left waits for nothing any more"


def test_an_exchange_that_goes_on_keeps_the_memory_of_the_program_that_was_left() -> None:
    exchanges, free, memory = Exchanges(), threading.Event(), np.zeros(3)

    def exchange() -> Any:
        assert free.wait(60)
        return np.zeros(1)

    exchanges.begin(exchange, beside=True)
    (running,) = exchanges.running.values()
    assert exchanges.leave(memory)
    assert exchanges.running == {} and running.held is memory
    free.set()
    assert running.done.wait(60)


class Slow:
    """A communicator of two ranks with equal data; its first exchange blocks until `free` is set."""

    rank, size = 0, 2

    def __init__(self) -> None:
        self.free, self.calls = threading.Event(), 0

    def all_gather(self, send: Any, receive: Any) -> None:
        receive[:] = send
        self.calls += 1
        assert self.calls > 1 or self.free.wait(60)

    def all_to_all(self, send: Any, receive: Any) -> None:
        receive[:] = send


def test_what_an_interrupted_call_still_receives_is_not_in_the_memory_of_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow, x = Slow(), np.arange(2000.0)
    enter_axis("slow", slow)
    double = ws.jit(lambda x: ws.psum(x, "slow"))
    wait = Exchanges.end

    def interrupted(exchanges: Exchanges, number: int) -> Any:
        raise KeyboardInterrupt

    def freed(exchanges: Exchanges, number: int) -> Any:
        slow.free.set()
        return wait(exchanges, number)

    monkeypatch.setattr(Exchanges, "end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        double(x)
    monkeypatch.setattr(Exchanges, "end", freed)
    second = double(x + 1)
    assert slow.calls == 2
    assert second.reshape(2, -1).tolist() == [list((x + 1)[:1000] + (x + 1)[1000:])] * 2


@pytest.mark.parametrize("collective", BEGUN)
def test_an_exchange_takes_the_memory_that_its_program_has_for_it(collective: str) -> None:
    rng = np.random.default_rng(5)
    for trial in range(60):
        size, dtype = int(rng.integers(1, 9)), np.dtype(rng.choice(["i1", "f4", "f8"]))
        count = int(rng.integers(0, 6000)) * (size if collective == "psum_scatter" else 1)
        shape = (size, count // size) if collective == "psum_scatter" else (count,)
        taken = []

        def room(shape: tuple[int, ...], dtype: Any, taken: list[int] = taken) -> Any:
            taken.append(math.prod(shape) * dtype.itemsize)
            return np.empty(shape, dtype)

        ranks = Threads(size)
        ranks.own.set(0)
        enter_axis(f"{collective}{trial}", ranks)
        BEGUN[collective](f"{collective}{trial}", np.zeros(shape, dtype), room)
        assert sum(taken) == exchange_bytes(collective, count, dtype.itemsize, size)


def test_threads_that_compile_at_once_call_the_same_functions() -> None:
    """Compiled code holds the address of a function that must stay alive: a second one made at once would not."""
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
