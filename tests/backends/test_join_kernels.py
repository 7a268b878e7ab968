"""Small launches that are joined, and the order that brings them together: the same programs, in the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.backends.program_interpreter import ProgramInterpreter
from tests.kernel.interpret import run_kernel
from tests.kernel.parse import parse_kernel
from tests.kernel.workgroup_kernels import CASES

from wholestep.backends.gpu.access_rows import columns_are_apart, touched_columns
from wholestep.backends.gpu.join_kernels import LAUNCH, NEAR, TRIPS, joined_kernel, small_kernel
from wholestep.backends.gpu.kernel_writer import write_kernel
from wholestep.backends.gpu.launch_order import CardPart, accesses, conflict, order_launches
from wholestep.backends.gpu.share_loops import share_loops
from wholestep.backends.gpu.target import OPENCL
from wholestep.backends.gpu.wgsl import WGSL
from wholestep.kernel.lang import Barrier, Kernel, walk
from wholestep.kernel.verify import verify_kernel
from wholestep.kernel.workgroups import item_trips
from wholestep.lower.compile import lower_program
from wholestep.lower.program.steps import Launch, MemRef, Step, map_nested
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep_tools.drawn.law import unexplained
from wholestep_tools.drawn.training import training

BUFFERS = 60


def in_order(parts: Sequence[Any]) -> Sequence[Any]:
    """Launches in order, and joined."""
    return order_launches(parts, BUFFERS)


def joined_steps(steps: Sequence[Step], order: Callable[[Sequence[Any]], Sequence[Any]] = in_order) -> tuple[Step, ...]:
    """Steps with their consecutive launches in an order."""
    out: list[Step] = []
    parts: list[Any] = []

    def end() -> None:
        for part in order(parts):
            assert isinstance(part, CardPart)
            for kernel, refs in part.alone():
                verify_kernel(kernel)
                out.append(Launch(kernel, refs))
        parts.clear()

    for step in steps:
        if isinstance(step, Launch):
            parts.append(CardPart(step.kernel, step.refs))
        else:
            end()
            out.append(map_nested(step, partial(joined_steps, order=order)))
    end()
    return tuple(out)


class ShuffledThreads(ProgramInterpreter):
    """The threads of a workgroup run in an order that a generator draws."""

    rng = np.random.default_rng(0)

    def launch(self, kernel: Kernel, arrays: Any) -> None:
        run_kernel(kernel, arrays, order=lambda n: self.rng.permutation(n).tolist())


@pytest.mark.parametrize("seed", range(24))
def test_a_joined_program_means_the_same(seed: int) -> None:
    made = training((seed, 5), 12)
    plan = lower_program(run_passes(made.graph, ALL_PASSES), OPENCL, made.resident)
    object.__setattr__(plan, "steps", joined_steps(plan.steps))
    assert not unexplained(made.graph, made.args, ShuffledThreads(plan)(made.args))


DOUBLED = """\
kernel doubled(x: f32[{n}], mut y: f32[{n}]):
    for i in {n}:
        v0 = x[i]
        v1 = v0 + v0
        y[i] = v1
"""
TOTAL = """\
kernel total(x: f32[100], mut y: f32[1]):
    v0 = f32(0.0)
    for i in 100:
        v1 = x[i]
        fold v2 = add(v1) from v0
    y[0] = v2
"""
LONG = """\
kernel long(x: f32[{n}], mut y: f32[{n}]):
    v0 = f32(0.0)
    for i in {n}:
        for k in {long}:
            v1 = x[i]
            fold v2 = max(v1) from v0
        y[i] = v2
"""
SUMS = """\
kernel sums(x: f32[{size}], mut y: f32[{n}]):
    v0 = f32(0.0)
    for i in {n}:
        for k in 64:
            v1 = x[64*i + k]
            fold v2 = add(v1) from v0
        y[i] = v2
"""
NARROW = """\
kernel narrow(x: f32[{n}], mut y: bool[{n}]):
    for i in {n}:
        v0 = x[i]
        v1 = isfinite(v0)
        y[i] = v1
"""
COLUMNS = """\
kernel columns(x: f32[60], mut y: f32[60]):
    for i in 3:
        for j in 20:
            v0 = x[3*j + i]
            y[20*i + j] = v0
"""
ROWS = """\
kernel rows(x: f32[320], mut y: f32[320]):
    shared s: f32[64]
    for g in 5:
        for t in 64 thread:
            v0 = x[64*g + t]
            s[t] = v0
            barrier
            v1 = s[-t + 63]
            y[64*g + t] = v1
"""


def ran(kernel: Kernel, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    found = [x.copy() for x in arrays]
    run_kernel(kernel, found, order=lambda n: range(n - 1, -1, -1))
    return found


def test_each_kernel_sees_what_those_before_it_stored() -> None:
    kernels = [parse_kernel(DOUBLED.format(n=100)), parse_kernel(TOTAL), parse_kernel(COLUMNS)]
    kernel = joined_kernel([small for k in kernels if (small := small_kernel(k)) is not None])
    assert sum(isinstance(s, Barrier) for s in walk(kernel.body)) == 2
    x, z = np.arange(100, dtype="f"), np.arange(60, dtype="f")
    y = np.zeros(100, "f")
    found = ran(kernel, [x, y, 2 * x, np.zeros(1, "f"), z, np.zeros(60, "f")])
    np.testing.assert_array_equal(found[1], 2 * x)
    assert found[3][0] == (2 * x).sum()
    np.testing.assert_array_equal(found[5], z.reshape(20, 3).T.reshape(-1))


def test_a_joined_kernel_as_text(golden: Any) -> None:
    kernels = [parse_kernel(DOUBLED.format(n=100)), parse_kernel(TOTAL), parse_kernel(COLUMNS)]
    golden(joined_kernel([small for k in kernels if (small := small_kernel(k)) is not None]))


def test_workgroups_go_through_their_grid_one_after_the_other() -> None:
    for text, _, _ in CASES.values():
        assert small_kernel(parse_kernel(text)) is None, "its threads are not those of a joined kernel"
    kernel = parse_kernel(ROWS)
    small = small_kernel(kernel)
    assert small is not None and small.spread is None
    x, y = np.arange(320, dtype="f"), np.zeros(320, "f")
    found = ran(joined_kernel([small, small]), [x, y, x + 1, y])
    for n, given in ((1, x), (3, x + 1)):
        np.testing.assert_array_equal(found[n].reshape(5, 64), given.reshape(5, 64)[:, ::-1])


def test_large_kernels_stay_alone() -> None:
    most = NEAR // 8
    large = parse_kernel(DOUBLED.format(n=most + 64))
    assert small_kernel(large) is None
    small = small_kernel(parse_kernel(DOUBLED.format(n=most)))
    assert small is not None and item_trips(joined_kernel([small])) == small.trips == most // 64
    assert small_kernel(parse_kernel(LONG.format(n=64, long=TRIPS))) is None
    assert small_kernel(parse_kernel(LONG.format(n=64, long=TRIPS - 1))) is not None


def test_workgroups_that_would_wait_for_each_other_stay_alone() -> None:
    """A small kernel has one workgroup, which would compute all columns in turn; many columns are too many for it."""
    few, many = [share_loops(parse_kernel(SUMS.format(n=n, size=640 * n))) for n in (2, 20)]
    assert small_kernel(few) is not None and small_kernel(many) is None


def test_a_kernel_of_few_places_in_large_arrays_is_small() -> None:
    assert small_kernel(parse_kernel(DOUBLED.format(n=64).replace("x: f32[64]", "x: f32[100000]"))) is not None


LARGE = 64 * (TRIPS + 1)


def part(n: int, source: int, target: int, text: str = DOUBLED) -> CardPart:
    """A launch of a kernel that multiplies, or of one that adds if it is large."""
    text = text if n == LARGE else text.replace("v0 + v0", "v0 * v0")
    return CardPart(parse_kernel(text.format(n=n)), (MemRef(0, source), MemRef(0, target)))


def same(n: int, source: int, target: int) -> CardPart:
    """A small launch of the same operation as the large ones."""
    return CardPart(parse_kernel(DOUBLED.format(n=n)), (MemRef(0, source), MemRef(0, target)))


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ([part(8, 0, 32), part(8, 64, 96)], ["joined"]),
        ([part(8, 0, 32), part(LARGE, 10**6, 2 * 10**6), part(8, 64, 96)], ["3 doubled"]),
        ([part(8, 0, 32), part(LARGE, 10**6, 2 * 10**6), part(8, 32, 96)], ["2 doubled", "doubled"]),
        (
            [part(8, 9 * 10**6, 0), part(LARGE, 0, 10**6), part(8, 64 + 9 * 10**6, 9 * 10**6 + 96)],
            ["doubled", "2 doubled"],
        ),
        ([part(LARGE, 0, 10**6), part(8, 10**6, 0)], ["doubled", "doubled"]),
        ([part(8, 0, 10**7), part(LARGE, 10**6, 0), part(8, 0, 10**8)], ["doubled", "doubled", "doubled"]),
        ([part(8, 0, 32), part(LARGE, 48, 10**6)], ["doubled", "doubled"]),
        ([part(8, 0, 32), part(LARGE, 10**6, 48)], ["doubled", "doubled"]),
        (
            [part(LARGE, 0, 10**6), part(LARGE, 2 * 10**6, 3 * 10**6), part(8, 9 * 10**6, 10**7)],
            ["3 doubled"],
        ),
        (
            [part(LARGE, 0, 10**6), part(LARGE, 10**6, 3 * 10**6), part(LARGE, 4 * 10**6, 5 * 10**6)],
            ["2 doubled", "doubled"],
        ),
        ([same(8, 9 * 10**6, 10**7), part(8, 0, 32), part(LARGE, 32, 10**6)], ["doubled", "2 doubled"]),
        ([part(LARGE, 32, 10**6), same(8, 10**6, 10**7), part(8, 10**7, 0)], ["doubled", "joined"]),
        ([same(8, 0, 32), part(LARGE, 32, 10**6)], ["doubled", "doubled"]),
    ],
)
def test_launches_pass_those_that_they_have_nothing_to_do_with(parts: list[Any], names: list[str]) -> None:
    found = order_launches(parts, BUFFERS)
    alone = [[kernel.name for kernel, _ in p.alone()] for p in found if isinstance(p, CardPart)]
    assert [f"{len(own)} {own[0]}" if len(own) > 1 else own[0] for own in alone] == names
    launched = {ref.offset: n for n, p in enumerate(found) if isinstance(p, CardPart) for ref in p.refs[1::2]}
    for n, first in enumerate(parts):
        for later in parts[n + 1 :]:
            low, high = first.refs[1].offset, first.refs[1].offset + 4 * first.kernel.buffers[1].size
            if low <= later.refs[0].offset < high:
                apart = launched[later.refs[1].offset] - launched[low]
                together = getattr(found[launched[low]].kernel, "name", "") == "joined"
                assert apart > 0 or (apart == 0 and together), "what reads comes after what writes"


PAIRS = """\
kernel pairs(x: f32[{n}], mut y: f32[{n}]):
    for g in 3:
        for t in {threads} thread:
            v0 = x[{threads}*g + t]
            y[{threads}*g + t] = v0
"""


def test_workgroups_of_another_size_stay_alone() -> None:
    assert small_kernel(parse_kernel(PAIRS.format(n=192, threads=64))) is not None
    assert small_kernel(parse_kernel(PAIRS.format(n=384, threads=128))) is None


@pytest.mark.parametrize("first", [128, 256])
def test_points_are_beside_workgroups_of_any_size_and_these_beside_their_own(first: int) -> None:
    """Points are computed by workgroups of the same number of work items as the workgroups beside them."""
    pairs = [
        CardPart(parse_kernel(PAIRS.format(n=3 * threads, threads=threads)), (MemRef(0, at), MemRef(0, at + 10**6)))
        for at, threads in ((0, first), (10**7, 384 - first), (2 * 10**7, first))
    ]
    points = part(LARGE, 10**8, 2 * 10**8)
    found = [p for p in order_launches([points, *pairs], BUFFERS) if isinstance(p, CardPart)]
    assert [len(p.refs) for p in found] == [6, 2] and points.refs[0] in found[0].refs
    assert [write_kernel(p.kernel, "k0", WGSL()).threads for p in found] == [first, 384 - first]


def test_the_order_of_launches_is_that_of_what_they_write_and_read() -> None:
    """Two large launches of one kernel, the second of which reads the result of the first, and a small one after."""
    first, second = part(LARGE, 0, 10**6), part(LARGE, 10**6, 2 * 10**6)
    small, last = part(8, 2 * 10**6, 3 * 10**6), part(8, 3 * 10**6 + 16, 4 * 10**6)
    assert order_launches([first, second, small], BUFFERS) == [first, second, small]
    both, alone = order_launches([small, first, second], BUFFERS)
    assert len(both.refs) == 4 and alone == second
    (joined,) = order_launches([small, last], 2)[:1]
    assert joined == small


def test_small_kernels_that_no_large_one_waits_for_are_beside_it() -> None:
    """A small launch before a large one, one independent of it, and one after it."""
    first, other, large = part(8, 0, 32), part(8, 0, 10**8), part(LARGE, 32, 10**6)
    last = part(8, 10**6, 10**7)
    found = order_launches([first, other, large, last], BUFFERS)
    assert [len(p.refs) for p in found] == [2, 4, 2] and found[0] == first and found[2] == last


def test_small_kernels_that_take_long_in_turn_are_beside_each_other() -> None:
    """Two independent launches, and one that reads both results; each takes at most the time of launching it."""
    first, second = part(64, 0, 256, LONG.format(n=64, long=LAUNCH)), part(64, 512, 768, LONG.format(n=64, long=LAUNCH))
    last = part(128, 256, 2048)
    both, then = order_launches([first, second, last], BUFFERS)
    assert [kernel.name for kernel, _ in both.alone()] == ["long", "long"] and then == last
    short = part(64, 512, 768, LONG.format(n=64, long=LAUNCH // 2))
    (joined,) = order_launches([first, short, last], BUFFERS)
    assert joined.kernel.name == "joined"


def test_launches_of_narrow_elements_wait_until_there_are_more_of_them() -> None:
    """A chain of launches, each followed by one on narrow elements: all of the latter are one launch at the end."""
    places = [10**6 * n for n in range(8)]
    chain = [part(LARGE, places[n], places[n + 1]) for n in range(3)]
    narrow = [part(LARGE, places[n + 1], places[n + 5], NARROW) for n in range(3)]
    found = order_launches([x for pair in zip(chain, narrow, strict=True) for x in pair], BUFFERS)
    assert [[kernel.name for kernel, _ in p.alone()] for p in found] == [*[["doubled"]] * 3, ["narrow"] * 3]
    early = narrow[0]._replace(refs=(MemRef(1, 0), MemRef(1, 10**6)))
    assert order_launches([early, *chain], BUFFERS)[:2] == chain[:2], "nothing waits for the first one"
    flat = [early, chain[0]]
    assert len(order_launches(flat, BUFFERS)) == 2 and len(order_launches(flat, BUFFERS, narrow_apart=False)) == 1
    reader = part(LARGE, places[5], 10**8, DOUBLED.replace("x: f32", "x: bool").replace("v0 + v0", "f32(v0)"))
    found = order_launches([chain[0], narrow[0], reader], BUFFERS)
    assert [[kernel.name for kernel, _ in p.alone()] for p in found] == [["doubled"], ["narrow"], ["doubled"]]


def test_a_joined_launch_has_no_more_buffers_than_the_language_takes() -> None:
    parts = [part(8, 100 * i, 100 * i + 50) for i in range(10)]
    found = order_launches(parts, 8)
    assert [len(p.refs) for p in found] == [8, 8, 4]


def test_places_that_move_with_loops_otherwise_are_not_told_apart() -> None:
    moving = part(8, 64, 96)._replace(refs=(MemRef(0, 64, ((0, 4),)), MemRef(0, 96, ((0, 4),))))
    found = order_launches([part(LARGE, 10**6, 2 * 10**6), moving, part(LARGE, 3 * 10**6, 4 * 10**6)], BUFFERS)
    assert [len(p.kernel.buffers) for p in found if isinstance(p, CardPart)] == [2, 2, 2]


@pytest.mark.parametrize(("stride", "trips", "meet"), [(64, 3, True), (64, 2, False), (-64, 3, False)])
def test_places_in_loops_are_told_apart_by_all_their_trips(stride: int, trips: int, meet: bool) -> None:
    """One launch writes at 128 in every trip; the other one reads there in its third trip."""
    first = part(8, 1000, 128)
    moving = part(8, 0, 2000)._replace(refs=(MemRef(0, 0, ((7, stride),)), MemRef(0, 2000)))
    touched = [accesses(first), accesses(moving)]
    assert conflict(*touched, {7: trips}) == meet and conflict(*touched, {})


COLUMNS_OF_ROWS = """\
kernel columns(mut y: f32[{size}]):
    v0 = f32(1.0)
    for i in {rows}:
        for j in {wide}:
            y[{row}*i + {step}*j + {first}] = v0
"""


def test_columns_that_meet_nowhere_are_told_apart() -> None:
    """Columns of random widths, offsets and rows, compared by the bytes that they access."""
    rng = np.random.default_rng(0)
    apart = 0
    for _ in range(400):
        row = int(rng.integers(2, 12))
        found, touched = [], []
        for _ in range(2):
            rows, wide, step, first = (int(rng.integers(low, high)) for low, high in ((1, 4), (1, 6), (1, 3), (0, 5)))
            own = row * int(rng.integers(1, 3))
            size = own * rows + step * wide + first
            kernel = parse_kernel(
                COLUMNS_OF_ROWS.format(size=size, rows=rows, wide=wide, row=own, step=step, first=first)
            )
            at = 4 * int(rng.integers(0, 12))
            found.append((touched_columns(kernel)[kernel.buffers[0]], at))
            touched.append({at + 4 * (own * i + step * j + first) for i in range(rows) for j in range(wide)})
        (a, at), (b, other) = found
        told = columns_are_apart(a, at, b, other)
        apart += told
        assert not (told and touched[0] & touched[1]), (found, touched)
    assert apart > 40
