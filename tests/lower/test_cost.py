"""Costs of kernels: counts by hand and by walking through every point, the roofline, and a ledger that adds up."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
from tests.kernel.parse import parse_kernel

import wholestep as ws
from wholestep.backends.cpu.target.machine import CpuMachine
from wholestep.kernel.lang import Axis, Buffer, Index, Kernel, Loop, Statement, Store, Var, walk
from wholestep.lower.compile import lower_program
from wholestep.lower.cost.cache_reuse import cache_misses
from wholestep.lower.cost.roofline import (
    DEFAULT_RATES,
    INSTRUCTION_COST,
    NO_ARITHMETIC,
    KernelCounts,
    Rates,
    count_kernel,
    expected_steps,
    flops_of,
    microseconds,
    predict_time,
    total_microseconds,
    transfer_seconds,
    vector_instructions,
)
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import RELOAD_COPY, SPILL_COPY, ForLoop, Launch, RoutineCall, Switch, nested_steps
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep.report.cost_table import NO_USER_LINE, Costs, apportion, count_costs
from wholestep.report.table_format import SHOWN, ReportTable, tables_as_text
from wholestep_tools.drawn.training import training

MACHINE = CpuMachine(vector=32, registers=16)
F32 = np.dtype(np.float32)


def planned(f, *args) -> LoweredProgram:
    return lower_program(run_passes(ws.jit(f).lower(*args), ALL_PASSES), MACHINE)


@pytest.fixture(scope="module")
def drawn() -> list[LoweredProgram]:
    made = [training((33, i), 12 + i) for i in range(10)]
    return [lower_program(run_passes(m.graph, ALL_PASSES), MACHINE, m.resident) for m in made]


def mlp(params, batch):
    h = batch["x"]
    for i in range(3):
        h = h @ params[f"w{i}"] + params[f"b{i}"]
        if i < 2:
            h = np.maximum(h, 0)
    h = h - h.max(axis=-1, keepdims=True)
    return np.mean(np.log(np.exp(h).sum(axis=-1)) - np.take_along_axis(h, batch["y"][:, None], axis=-1)[:, 0])


def test_an_mlp_costs_what_a_hand_counts():
    sizes, rows = (784, 256, 128, 10), 128
    shapes = {f"w{i}": (m, n) for i, (m, n) in enumerate(itertools.pairwise(sizes))}
    shapes |= {f"b{i}": (n,) for i, n in enumerate(sizes[1:])}
    params = {name: ws.ShapeDtype(shape, F32) for name, shape in shapes.items()}
    batch = {"x": ws.ShapeDtype((rows, 784), F32), "y": ws.ShapeDtype((rows,), np.int32)}
    found = ws.estimate(mlp, params, optimizer=ws.optim.adam(1e-3), batch=batch).cost()
    forward = [2 * rows * m * n for m, n in itertools.pairwise(sizes)]
    # The backward pass has two products for each one, but no gradient of the data.
    assert found.contraction == 3 * sum(forward) - forward[0]
    # Adam takes 14 operations for a parameter; all other operations are few.
    numbers = sum(m * n + n for m, n in itertools.pairwise(sizes))
    assert 14 * numbers < found.flops - found.contraction < 14 * numbers * 1.5
    # At least everything is touched: 3 numbers are read and written for a parameter, and its gradient.
    assert found.bytes > 4 * 7 * numbers


def test_a_small_loss_costs_exactly_what_a_hand_counts():
    def f(x, w, y):
        return np.mean((x @ w - y) ** 2)

    (product, sums) = [
        launch.kernel for launch in planned(f, np.ones((7, 5)), np.ones((5, 3)), np.ones((7, 3))).launches()
    ]
    assert count_kernel(product) == KernelCounts(2 * 7 * 5 * 3, 0, 8 * (2 * 105 + 21), 8 * (35 + 15 + 21))
    # A difference, a square and a sum for each of 21 elements, and the division.
    assert count_kernel(sums) == KernelCounts(0, 3 * 21 + 1, 8 * (2 * 21 + 1), 8 * (2 * 21 + 1))


# Bytes.


RARE = """\
kernel rare(x: f64[8], mut y: f64[8]):
    v0 = f64(0.0)
    for i in 8:
        v1 = x[i]
        v2 = v1 + v1
        y[i] = v2
        v3 = v1 < v0
        for r in {often} if v3:
            v4 = v1 / v2
            y[i] = v4
"""


def test_a_rare_case_costs_nothing_and_a_guarded_loop_its_steps():
    rare, often = (count_kernel(parse_kernel(RARE.format(often=n))) for n in (1, 3))
    assert (rare.other, rare.moved) == (16, 8 * 16)
    assert (often.other, often.moved) == (16 + 3 * 8, 8 * (16 + 3 * 8))


def walked(kernel: Kernel) -> int | None:
    """The bytes of the distinct elements, found by going to every point; None where an index is looked up.

    Elements outside of a buffer are excluded by a guard.
    """
    reads: dict[Buffer, set[int]] = {}
    writes: dict[Buffer, set[int]] = {}

    def value(index: Index, at: dict[Axis, int]) -> int:
        return index.const + sum(c * at[k] for k, c in index.terms.items())

    def visit(body: tuple[Statement, ...], at: dict[Axis, int]) -> bool:
        for s in body:
            if isinstance(s, Loop):
                if not all(visit(s.body, at | {s.axis: i}) for i in range(s.axis.extent)):
                    return False
                continue
            seen = (writes, s.buffer, s.index) if isinstance(s, Store) else (reads, *s.attr) if s.op == "load" else None
            if seen is not None:
                if seen[2].values():
                    return False
                seen[0].setdefault(seen[1], set()).add(value(seen[2], at))
        return True

    if not visit(kernel.body, {}):
        return None
    found = [(b, places & set(range(b.size))) for touched in (reads, writes) for b, places in touched.items()]
    return sum(len(places) * b.dtype.itemsize for b, places in found)


SHAPES = {
    "elementwise": (lambda x, y: x * y + x, (6, 10), (6, 10)),
    "broadcast": (lambda x, y: x + y[:, None], (6, 10), (6,)),
    "turned": (lambda x, y: x.T + y, (6, 10), (10, 6)),
    "softmax": (
        lambda x: np.exp(x - x.max(-1, keepdims=True)) / np.exp(x - x.max(-1, keepdims=True)).sum(-1)[:, None],
        (5, 300),
    ),
    "product": (lambda x, y: x @ y, (6, 10), (10, 7)),
    "strided": (lambda x: x[::2, 1:] * 3.0, (6, 10)),
    "windows of a part": (lambda x: np.lib.stride_tricks.sliding_window_view(x[5:12], 3).sum(-1), (20,)),
    "windows": (lambda x: np.lib.stride_tricks.sliding_window_view(x, 3).sum(-1), (20,)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_each_element_counts_once(name):
    f, *shapes = SHAPES[name]
    for launch in planned(f, *[np.ones(shape, np.float32) for shape in shapes]).launches():
        assert count_kernel(launch.kernel).distinct == walked(launch.kernel)


def test_bytes_lie_between_the_distinct_and_the_moved(drawn):
    seen = 0
    for launch in itertools.chain.from_iterable(p.launches() for p in drawn):
        found = count_kernel(launch.kernel)
        size = sum(b.size * b.dtype.itemsize * (1 + b.written) for b in launch.kernel.buffers)
        assert found.distinct <= min(found.moved, size)
        points = math.prod(max(a.extent, 1) for a in axes(launch.kernel.body))
        exact = walked(launch.kernel) if points < 20_000 else None
        if exact is not None:
            seen += 1
            assert exact <= found.distinct
    assert seen > 100


def axes(body):
    for s in body:
        if isinstance(s, Loop):
            yield s.axis
            yield from axes(s.body)


def test_what_is_looked_up_is_no_more_than_there_is():
    def f(x, i):
        return x[i]

    small, large = (planned(f, np.ones(50), np.zeros(n, int)) for n in (10, 1000))
    assert [count_kernel(p.kernels()[-1]).distinct for p in (small, large)] == [8 * 30, 8 * (1000 + 50 + 1000)]
    twice = planned(lambda x, i, j: x[i] + x[j], np.ones(50), np.zeros(10, int), np.zeros(10, int))
    assert count_kernel(twice.kernels()[-1]).distinct == 8 * (2 * 10 + 2 * 10 + 10)


# Time.


def kernel_of(f, *shapes) -> Launch:
    launches = list(planned(f, *[np.ones(shape, np.float32) for shape in shapes]).launches())
    return max(launches, key=lambda s: count_kernel(s.kernel).moved)


def scaled(by: float) -> Rates:
    """The rates of a machine that is faster by a factor in every respect."""
    per_second = ("contraction", "elementwise", "cache", "memory", "memory_all", "copy", "disk_write", "disk_read")
    faster = {name: getattr(DEFAULT_RATES, name) * by for name in per_second}
    return DEFAULT_RATES._replace(**faster, launch=DEFAULT_RATES.launch / by, sharing=DEFAULT_RATES.sharing / by)


def test_twice_as_fast_is_half_the_time(drawn):
    for p in drawn:
        assert total_microseconds(p.steps, scaled(2.0)) == pytest.approx(total_microseconds(p.steps) / 2)


def test_a_roofline_has_two_sides():
    product, chain = kernel_of(lambda x, y: x @ y, (256, 256), (256, 256)), kernel_of(lambda x: x + 1, (1 << 22,))
    assert predict_time(product).bound == "arithmetic" and predict_time(chain).bound == "memory"
    assert microseconds(product, DEFAULT_RATES._replace(contraction=DEFAULT_RATES.contraction / 4)) > 3 * microseconds(
        product
    )
    assert microseconds(product, DEFAULT_RATES._replace(memory_all=DEFAULT_RATES.memory_all / 4)) == microseconds(
        product
    )
    slow = microseconds(chain, DEFAULT_RATES._replace(memory_all=DEFAULT_RATES.memory_all / 4))
    assert 2 * microseconds(chain) < slow and microseconds(
        chain, DEFAULT_RATES._replace(contraction=1.0)
    ) == microseconds(chain)


def test_one_product_takes_what_its_flops_take():
    launch = kernel_of(lambda x, y: x @ y, (96, 96), (96, 96))
    rates = DEFAULT_RATES._replace(cores=1, launch=0.0, elementwise=1e15)
    assert microseconds(launch, rates) == pytest.approx(1e6 * 2 * 96**3 / rates.contraction)


def test_cores_share_what_is_worth_sharing():
    large, small = kernel_of(np.tanh, (1 << 18,)), kernel_of(np.tanh, (1 << 10,))
    one, four = (DEFAULT_RATES._replace(cores=n, sharing=0.0) for n in (1, 4))
    assert microseconds(large, one) > 3 * microseconds(large, four)
    assert microseconds(small, one) == microseconds(small, four)


def test_bytes_beyond_the_caches_come_from_memory():
    near, both = (transfer_seconds(n * DEFAULT_RATES.cached, 0.0, 1, DEFAULT_RATES) for n in (1, 2))
    assert near == DEFAULT_RATES.cached / DEFAULT_RATES.cache
    assert both - near == pytest.approx(DEFAULT_RATES.cached / DEFAULT_RATES.memory)
    assert transfer_seconds(1e6, 1e6, 1, DEFAULT_RATES) == 1e6 / DEFAULT_RATES.memory
    assert transfer_seconds(1e6, 1e6, 2, DEFAULT_RATES) == 1e6 / DEFAULT_RATES.memory_all


def test_scalars_take_longer_than_vectors():
    vectors, scalars = kernel_of(lambda x: x * 3, (4096,)), kernel_of(lambda x: x[::7] * 3, (7 * 4096,))
    assert predict_time(scalars).arithmetic > 1.5 * predict_time(vectors).arithmetic


def test_a_vector_that_a_tile_holds_is_loaded_once():
    kernel = kernel_of(lambda x, y: x @ y, (96, 96), (96, 96)).kernel
    assert [(a.lanes, a.tile) for a in axes(kernel.body)][:2] == [(1, 6), (8, 2)]
    products, others = vector_instructions(kernel, MACHINE.vector)
    assert products == 96**3 / 8
    # One load of the left matrix serves 16 columns, one of the right matrix 6 rows; then the result is stored.
    assert others == 96**3 / 16 + 96**3 / 8 / 6 + 96**2 / 8


def test_a_rare_case_costs_nothing():
    kernel = kernel_of(np.sin, (1 << 12,)).kernel
    rare = [s for s in walk(kernel.body) if isinstance(s, Loop) and s.guard is not None]
    free = [s for loop in rare for s in walk(loop.body) if isinstance(s, Var) and s.op in NO_ARITHMETIC]
    inside = sum(isinstance(s, Var) for loop in rare for s in walk(loop.body)) - len(free)
    every = sum(flops_of(s) for s in walk(kernel.body) if isinstance(s, Var) and s.op not in NO_ARITHMETIC)
    assert inside > 10 and count_kernel(kernel).other <= (every - inside) * (1 << 12)
    assert vector_instructions(kernel, 32)[1] < 2 * (every - inside) * (1 << 12) / 8


def test_dividing_takes_longer_than_adding_and_by_a_constant_less():
    def per_element(f, *arrays):
        launch = max(planned(f, *arrays).launches(), key=lambda s: count_kernel(s.kernel).moved)
        return vector_instructions(launch.kernel, MACHINE.vector)[1] / 1024

    x, n = np.ones(1024, np.float32), np.full(1024, 7)
    assert (
        per_element(lambda x, y: x / y, x, x)
        == per_element(lambda x, y: x + y, x, x) + (INSTRUCTION_COST["div"] - 1) / 8
    )
    assert per_element(lambda n, m: n // m, n, n) > per_element(lambda n: n // 3, n) + 2


def test_routines_are_priced():
    n, k = 4096, 64
    copy, longer = (RoutineCall("copy", (), (size,)) for size in (n, 1000 * n))
    assert 0 < microseconds(copy) < microseconds(longer)
    for routine, speed in ((SPILL_COPY, DEFAULT_RATES.disk_write), (RELOAD_COPY, DEFAULT_RATES.disk_read)):
        assert microseconds(RoutineCall(routine, (), (n,))) == pytest.approx(microseconds(copy) + 1e6 * n / speed)
    (eigen,) = [
        s for s in planned(np.linalg.eigh, np.eye(k)).steps if isinstance(s, RoutineCall) and "lapack" in s.routine
    ]
    assert microseconds(eigen) > 10
    for f in (np.linalg.cholesky, np.linalg.slogdet):
        small, large = [next(s for s in planned(f, np.eye(m)).steps if isinstance(s, RoutineCall)) for m in (k, 4 * k)]
        assert 0 < 10 * microseconds(small) < microseconds(large) < 64 * microseconds(small)
    for length, each in ((n, 1e-2 * 40 / 300), (4 * n, 1e-2)):  # by a network, and by the digits of keys
        sort = next(s for s in planned(np.sort, np.ones((8, length))).steps if isinstance(s, RoutineCall))
        assert microseconds(sort) == pytest.approx(each * 8 * length, rel=0.01)


# The contents of the caches.


def missing(plan: LoweredProgram, cached: float) -> list[float]:
    found = cache_misses(plan.steps, DEFAULT_RATES._replace(cached=cached))
    return [found[id(s)] for s in plan.launches()]


def test_what_was_just_touched_is_in_the_caches():
    def f(x, y):
        return np.cumsum(np.cumsum(x)), np.cumsum(y)

    n = 1000
    made = planned(f, np.ones(n), np.ones(n))
    assert len(list(made.launches())) == 3
    # All arrays fit; none does; or the array that the previous kernel has written.
    assert missing(made, 8.0 * 7 * n) == [0.0, 0.0, 0.0]
    assert missing(made, 8.0) == [16.0 * n] * 3
    order = [launch.refs for launch in made.launches()]
    shared = [bool(set(a) & set(b)) for a, b in itertools.pairwise(order)]
    assert sum(shared) == 1
    assert [16.0 * n - m for m in missing(made, 8.0 * 2 * n)] == [0.0] + [8.0 * n if s else 0.0 for s in shared]


def test_a_loop_finds_what_it_keeps_and_misses_what_is_new():
    n, trips = 500, 40
    made = planned(
        lambda w, xs: ws.scan(lambda h, x: (np.tanh(w * h) + x, None), w, xs)[0], np.ones(n), np.ones((trips, n))
    )
    (loop,) = [s for s in made.steps if isinstance(s, ForLoop)]
    (body,) = [s for s in loop.body if isinstance(s, Launch)]
    found = cache_misses(made.steps, DEFAULT_RATES._replace(cached=8.0 * 10 * n))
    # The row of each trip comes from memory; weights and carry are in the cache since the trip before.
    assert 8 * n <= found[id(body)] < 8 * n * (1 + 4 / trips)
    assert cache_misses(made.steps, DEFAULT_RATES._replace(cached=8.0 * 10 * trips * n))[id(body)] == 0.0


def test_what_a_loop_keeps_is_there_behind_it():
    def f(w, xs):
        return np.cumsum(w * ws.scan(lambda h, x: (np.tanh(w * h) + x, None), w, xs)[0])

    n = 500
    made = planned(f, np.ones(n), np.ones((40, n)))
    loop, product, sums = made.launches()
    assert len(loop.refs) == 4 and product.refs[0] == loop.refs[0]
    # After the loop weights and carry are in the cache; the result's memory was last accessed in the run before.
    assert missing(made, 8.0 * 10 * n)[1:] == [0.0, 8.0 * n] and sums.refs[1].slot == 4


def test_bytes_from_memory_take_longer():
    launch = kernel_of(lambda x, y: x + y, (4096,), (4096,))
    assert (
        predict_time(launch, DEFAULT_RATES, 3 * 4 * 4096).bytes
        == 3 * 4 * 4096 / DEFAULT_RATES.memory
        > predict_time(launch, DEFAULT_RATES).bytes
    )
    copy = RoutineCall("copy", (), (4096,))
    assert predict_time(copy, DEFAULT_RATES, 2 * 4096).bytes == 4096 / DEFAULT_RATES.copy


# Loops and branches.


def looped(w, xs):
    def step(h, x):
        h = ws.cond(x[0] > 0, lambda h: np.tanh(w @ np.tanh(w @ h)), lambda h: h * 2.0, h)
        return h, np.sum(h)

    return np.sum(ws.scan(step, np.ones(6), xs)[1])


def test_a_loop_counts_its_trips_and_a_branch_its_longest_case():
    found = planned(looped, np.ones((6, 6)), np.ones((5, 4)))
    assert count_costs(found).contraction == 5 * 2 * (2 * 6 * 6)
    (loop,) = [s for s in found.steps if isinstance(s, ForLoop)]
    (branch,) = [s for s in loop.body if isinstance(s, Switch)]
    assert len({len(case) for case in branch.cases}) > 1
    runs = dict((id(s), n) for s, n in expected_steps(found.steps))
    taken = [case for case in branch.cases if all(id(s) in runs for s in case)]
    assert len(taken) == 1 and total_microseconds(taken[0]) == max(map(total_microseconds, branch.cases))
    assert {runs[id(s)] for s in taken[0]} == {5}


def test_a_loop_of_unknown_length_counts_one_trip():
    found = planned(lambda x: ws.while_loop(lambda x: np.sum(x) < 100, lambda x: x @ x, x), np.ones((4, 4)))
    assert count_costs(found).contraction == 2 * 4**3


# The ledger.


def test_a_ledger_adds_up(drawn):
    for p in drawn:
        found = count_costs(p)
        assert found.flops == sum(x.flops for x in found.lines)
        assert found.bytes == sum(x.bytes for x in found.lines)
        assert found.microseconds == pytest.approx(sum(x.microseconds for x in found.lines))
        # These programs are small, so that all their accesses hit the caches.
        assert found.microseconds == pytest.approx(total_microseconds(p.steps))
        times = [k.microseconds for k in found.kernels]
        assert times == sorted(times, reverse=True)
        inner = [s for s in p.steps if nested_steps(s)]
        assert len(found.kernels) <= len(list(p.launches())) + sum(isinstance(s, RoutineCall) for s in p.steps) or inner


def test_a_line_gets_what_is_done_for_it():
    def f(x, w):
        h = np.tanh(x)
        y = h @ w
        return np.sum(y * y)

    found = count_costs(planned(f, np.ones((30, 20)), np.ones((20, 40))))
    by_line = {re.search(r"(\w) = ", x.line).group(1): x for x in found.lines if " = " in x.line}
    assert by_line["y"].flops == found.contraction == 2 * 30 * 20 * 40
    assert by_line["h"].flops > 5 * 600
    assert sum(x.flops for x in found.lines) == found.flops


def test_what_no_line_asks_for_has_a_line_of_its_own():
    step = ws.estimate(lambda w, x: np.mean((w * x) ** 2), np.ones(3), batch=np.ones(3))
    assert NO_USER_LINE in [x.line for x in step.cost().lines]


def test_parts_are_whole_and_add_up():
    rng = np.random.default_rng(0)
    for _ in range(200):
        weights = [int(w) for w in rng.integers(0, 5, rng.integers(1, 9))]
        amount = int(rng.integers(0, 1000))
        found = apportion(amount, weights)
        assert sum(found) == amount and min(found) >= 0
        if any(weights):
            exact = [amount * w / sum(weights) for w in weights]
            assert all(abs(a - b) < 1 for a, b in zip(found, exact, strict=True))


def test_a_table_shows_the_hot_spots_and_counts_the_rest():
    rows = [(0.5 / 2**i, 1234.5, 10 + i, f"<k{i}>") for i in range(SHOWN + 3)]
    found = tables_as_text("all", [ReportTable(("share", "µs", "n", "name"), rows)]).splitlines()
    assert found[0] == "all" and found[3].split() == ["50.0%", "1,234.50", "10", "<k0>"]
    assert len(found) == 3 + SHOWN + 1 and found[-1].endswith("3 more")


def test_a_ledger_is_a_table_in_a_notebook():
    found: Costs = count_costs(planned(lambda x, y: x @ y, np.ones((3, 4)), np.ones((4, 5))))
    page = found._repr_html_()
    assert page.count("<table>") == 2 and "<td>contract</td>" in page
    assert "default rates" in found.title()
    assert "measured" in count_costs(planned(np.tanh, np.ones(3)), DEFAULT_RATES._replace(cores=3)).title()
    assert [v for v in str(found).splitlines() if "contract" in v]
