"""Kernels that are joined row by row: programs mean the same in the interpreter, and rows that meet stay apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.backends.test_join_kernels import BUFFERS, DOUBLED, ShuffledThreads, joined_steps, ran
from tests.kernel.parse import parse_kernel

from wholestep.backends.gpu.join_kernels import LAUNCH
from wholestep.backends.gpu.join_rows import PlacedKernel, joined_rows
from wholestep.backends.gpu.launch_order import CardPart, LaunchOrder, order_launches
from wholestep.backends.gpu.share_loops import share_loops
from wholestep.backends.gpu.target import OPENCL
from wholestep.kernel.lang import Barrier, Kernel, walk
from wholestep.kernel.workgroups import find_workgroup
from wholestep.lower.compile import lower_program
from wholestep.lower.program.steps import MemRef
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep_tools.drawn.law import unexplained
from wholestep_tools.drawn.training import training

DOTS = """\
kernel dots(x: f32[{rows}], w: f32[{terms}], mut y: f32[{n}]):
    v0 = f32(0.0)
    for i in {n}:
        for k in {terms}:
            v1 = x[{terms}*i + k]
            v2 = w[k]
            fold v3 = fma(v1, v2) from v0
        y[i] = v3
"""
OUTER = """\
kernel outer(y: f32[{n}], v: f32[{wide}], mut z: f32[{size}]):
    for i in {n}:
        v0 = y[{at}]
        for j in {wide}:
            v1 = v[j]
            v2 = v0 * v1
            z[{wide}*i + j] = v2
"""
N = 300
PADDED = f"""\
kernel padded(y: f32[{N}], mut z: f32[{2 * N}]):
    for i in {2 * N}:
        v0 = index(i)
        v1 = i64({N})
        v2 = v0 < v1
        v3 = f32(0.0)
        for one in 1 if v2:
            v4 = y[i]
            fold v5 = add(v4) from v3
        z[i] = v5
"""


def dots(terms: int = 32, shared: bool = False) -> CardPart:
    """Products of rows, at 0, 10**7 and 2 * 10**7; by workgroups where their threads share the terms."""
    kernel = parse_kernel(DOTS.format(n=N, terms=terms, rows=N * terms))
    return CardPart(share_loops(kernel) if shared else kernel, (MemRef(0), MemRef(0, 10**7), MemRef(0, 2 * 10**7)))


def outer(wide: int = 20, at: str = "i", places: Sequence[int] = (2 * 10**7, 3 * 10**7, 4 * 10**7)) -> CardPart:
    """A launch that reads a product for each row."""
    kernel = parse_kernel(OUTER.format(n=N, wide=wide, size=N * wide, at=at))
    return CardPart(kernel, tuple([MemRef(0, place) for place in places]))


def in_rows(parts: Sequence[Any], buffers: int = BUFFERS, **limits: Any) -> list[Any]:
    """The launches in their order, with rows joined where possible."""
    return LaunchOrder(parts, buffers, {}, limits.get("shared", 8192), limits.get("narrow", True)).ordered(True)


@pytest.mark.parametrize(("shared", "wide"), [(False, 1), (False, 20), (False, 70), (True, 64)])
def test_a_row_is_done_where_the_row_before_it_was(shared: bool, wide: int) -> None:
    first = dots(128 if shared else 32, shared)
    (found,) = in_rows([first, outer(wide)])
    group = find_workgroup(found.kernel)
    assert [a.extent for a in group.grid] == [N] and [a.extent for a in group.threads] == ([64] if shared else [])
    assert len(found.refs) == len(set(found.refs)) == 5, "a place is one buffer"
    rng = np.random.default_rng(0)
    terms = 128 if shared else 32
    x, w, v = (rng.integers(-3, 4, shape).astype("f") for shape in ((N, terms), terms, wide))
    zeros = {2 * 10**7: np.zeros(N, "f"), 4 * 10**7: np.zeros(N * wide, "f")}
    given = {0: x.ravel(), 10**7: w, 3 * 10**7: v, **zeros}
    arrays = ran(found.kernel, [given[int(ref.offset)] for ref in found.refs])
    got = dict(zip([int(ref.offset) for ref in found.refs], arrays, strict=True))
    np.testing.assert_array_equal(got[2 * 10**7], x @ w)
    np.testing.assert_array_equal(got[4 * 10**7].reshape(N, wide), np.outer(x @ w, v))
    assert sum(isinstance(s, Barrier) for s in walk(found.kernel.body)) == (4 if shared else 0)


def test_joined_rows_as_text(golden: Any) -> None:
    made = joined_rows([PlacedKernel(*p[:2]) for p in (dots(), outer())])
    assert made is not None
    golden(made.kernel)


@pytest.mark.parametrize(
    ("second", "why"),
    [
        (outer(at=f"-i + {N - 1}"), "it reads another row"),
        (outer(wide=LAUNCH + 1), "it takes long"),
        (outer(places=(2 * 10**7 + 4, 3 * 10**7, 4 * 10**7)), "a place is met in part"),
        (outer(places=(2 * 10**7, 3 * 10**7, 40)), "it writes over what other rows read"),
        (
            outer()._replace(kernel=parse_kernel(OUTER.format(n=100, wide=20, size=2000, at="i"))),
            "there are other rows",
        ),
        (CardPart(parse_kernel(PADDED), tuple([MemRef(0, k * 10**7) for k in (2, 4)])), "there are more rows"),
        (
            outer()._replace(
                kernel=parse_kernel(OUTER.format(n=N, wide=20, size=N * 20, at="i").replace("f32", "i32"))
            ),
            "its elements are of another kind",
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_does_not_read_its_own_row_alone_is_another_launch(second: CardPart, why: str) -> None:
    assert in_rows([dots(), second]) == [dots_of(second), second], why


def dots_of(second: CardPart) -> Any:
    """An object equal to any launch of the unjoined kernel `dots`."""

    class Same:
        def __eq__(self, other: object) -> bool:
            return isinstance(other, CardPart) and isinstance(other.kernel, Kernel) and other.kernel.name == "dots"

    return Same()


def test_rows_are_joined_within_the_limits_of_a_launch() -> None:
    parts = [dots(), outer()]
    assert len(in_rows(parts, 5)) == 1 and len(in_rows(parts, 4)) == 2
    parts = [dots(128, shared=True), outer(64)]
    assert len(in_rows(parts, shared=288)) == 1 and len(in_rows(parts, shared=287)) == 2
    narrow = outer()._replace(
        kernel=parse_kernel(
            OUTER.format(n=N, wide=20, size=N * 20, at="i")
            .replace("mut z: f32", "mut z: bool")
            .replace("*  v1", "")
            .replace("v2 = v0 * v1", "v2 = v0 < v1")
        )
    )
    assert len(in_rows([dots(), narrow])) == 2 and len(in_rows([dots(), narrow], narrow=False)) == 1
    pairs = CardPart(parse_kernel(DOUBLED.format(n=N)), (MemRef(0, 4 * 10**7), MemRef(0, 5 * 10**7)))
    assert len(in_rows([dots(), outer(1), pairs])) == 1, "one after the other"
    other = dots()._replace(refs=(MemRef(0), MemRef(0, 10**7), MemRef(0, 6 * 10**7)))
    both = outer(1, places=(2 * 10**7, 6 * 10**7, 4 * 10**7))
    assert len(in_rows([dots(), other, both])) == 2, "it waits for two"


def test_rows_are_joined_where_that_saves_a_launch() -> None:
    parts = [dots(), outer()]
    assert len(order_launches(parts, BUFFERS)) == 2 and len(order_launches(parts, BUFFERS, rows=True)) == 1
    alone = [outer(64), outer(64, places=(6 * 10**7, 3 * 10**7, 7 * 10**7))]
    (found,) = order_launches(alone, BUFFERS, rows=True)
    assert [kernel.name for kernel, _ in found.alone()] == ["outer", "outer"]


def by_rows(parts: Sequence[Any]) -> Sequence[Any]:
    """Launches in order, joined row by row."""
    return LaunchOrder(parts, BUFFERS, {}, 8192, True).ordered(True, True)


@pytest.mark.parametrize("seed", range(12))
def test_a_program_in_joined_rows_means_the_same(seed: int) -> None:
    made = training((seed, 6), 12)
    plan = lower_program(run_passes(made.graph, ALL_PASSES), OPENCL, made.resident)
    object.__setattr__(plan, "steps", joined_steps(plan.steps, by_rows))
    assert not unexplained(made.graph, made.args, ShuffledThreads(plan)(made.args))
