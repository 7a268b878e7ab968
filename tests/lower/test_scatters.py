"""Scatters on targets whose work items run side by side: in every way the bits of NumPy's, which goes in order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.backends.program_interpreter import ProgramInterpreter

import wholestep as ws
from wholestep import dtypes
from wholestep.backends.gpu.limits import check_program
from wholestep.backends.gpu.target import CUDA, WEBGPU
from wholestep.frontend.tracing import type_of
from wholestep.ir.build import build
from wholestep.ir.graph import OPS, Graph
from wholestep.lower.compile import lower_program
from wholestep.lower.legalize.scatter_places import scatter_way
from wholestep.lower.program.steps import Launch, StatusCheck
from wholestep.lower.target import LookLimits, Target
from wholestep.lower.verify_program import verify_program
from wholestep.passes.pipeline import ALL_PASSES, run_passes

Array = np.ndarray[Any, Any]

WAYS: dict[str, Target] = {
    "by element": replace(CUDA, looks=LookLimits(2**20, 2**40, 0)),
    "sorted": replace(CUDA, looks=LookLimits(0, 0, 0)),
    "in order": replace(CUDA, looks=LookLimits(0, 0, 2**20)),
}
DTYPES = ("f4", "f8", "c8", "i4", "?", "f2")
INDEX_DTYPES = ("i8", "i4", "u4", "i1", "u2")


def draw_scatter(seed: int) -> tuple[Graph, list[Array]]:
    """A random scatter, and its operands: indices that meet, that count from the end, and that count up."""
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 6, rng.integers(1, 4)).tolist())
    axes = tuple(np.flatnonzero(rng.random(len(shape)) < 0.6).tolist()) or (0,)
    places = tuple(rng.integers(0 if seed % 10 == 0 else 1, 7, rng.integers(0, 3)).tolist())
    dtype = np.dtype(INDEX_DTYPES[seed % len(INDEX_DTYPES)])
    indices = [rng.integers(0 if dtype.kind == "u" else -shape[a], shape[a], places).astype(dtype) for a in axes]
    fitting = [next((d for d, n in enumerate(places) if n <= shape[a]), None) for a in axes]
    counts = [d if rng.random() < 0.3 else None for d in fitting]
    kind = np.dtype(DTYPES[seed % len(DTYPES)])
    rest = [n for a, n in enumerate(shape) if a not in axes]
    x, u = [(10 * rng.normal(size=s)).astype(kind) for s in (shape, (*places, *rest))]
    zero, held = seed % 3 == 0, seed % 4 == 1
    names = ("scatter_add", "scatter", *(("scatter_max", "scatter_min") if kind.kind != "c" else ()))
    name = names[rng.integers(len(names))]

    def written(*given: Any) -> Any:
        base = OPS["full"](value=0, shape=shape, dtype=kind) if zero else given[0]
        known = [OPS["constant"](value=i) for i in indices] if held else given[2:]
        at = [
            i if d is None else OPS["iota"](shape=places, axis=d, dtype=i.dtype)
            for i, d in zip(known, counts, strict=True)
        ]
        return (OPS[name](base, given[1], *at, axes=axes),)

    arrays = [x, u, *indices]
    return build(written, [type_of(a) for a in arrays])[0], arrays


def wanted(graph: Graph, arrays: list[Array]) -> Array:
    """The result of the graph by NumPy, operation by operation."""
    known = dict(zip(graph.inputs, arrays, strict=True))
    for node in graph.nodes:
        found = node.op.ref(*[known[v] for v in node.inputs], **node.params)
        known[node.outputs[0]] = np.broadcast_to(found, node.outputs[0].shape)
    return known[graph.outputs[0]]


@pytest.mark.parametrize("way", WAYS)
def test_random_scatters_have_the_bits_of_numpy(way: str) -> None:
    taken = set()
    for seed in range(120):
        graph, arrays = draw_scatter(seed)
        taken.add(scatter_way(graph.nodes[-1], WAYS[way].looks))
        plan = lower_program(run_passes(graph, ALL_PASSES), WAYS[way])
        verify_program(plan)
        (found,) = ProgramInterpreter(plan)(arrays)
        np.testing.assert_array_equal(found, wanted(graph, arrays), err_msg=f"seed {seed}\n{graph}")
    assert {way, "at once"} <= taken <= {way, "at once", "by element"}  # scatters of no elements are "by element"


def plan_of(function: Any, *arrays: Array, target: Target = CUDA) -> Any:
    """The program of a function on arrays for a target."""
    graph, _ = build(lambda *xs: (function(*xs),), [type_of(a) for a in arrays])
    return lower_program(run_passes(graph, ALL_PASSES), target)


def names_of(plan: Any) -> list[str]:
    """The kernels in their order, but for the checks of indices."""
    return [step.kernel.name for step in plan.steps if isinstance(step, Launch) and step.kernel.name != "check"]


ROWS, TOKENS = 40_000, 9_000
TABLE = np.zeros((ROWS, 2), np.float32)


def test_a_table_is_looked_at_by_element_and_a_larger_one_sorted() -> None:
    ids = np.arange(TOKENS, dtype=np.int32)

    def gradient(u: Any, i: Any) -> Any:
        return OPS["scatter_add"](OPS["full"](value=0, shape=(ROWS, 2), dtype=u.dtype), u, i, axes=(0,))

    few = plan_of(gradient, TABLE[:500], ids[:500])
    assert names_of(few) == ["scatter_add"]  # and writes the zeros too
    many = plan_of(gradient, TABLE[:TOKENS], ids)
    assert names_of(many)[-2:] == ["run_starts", "collect"]
    assert names_of(many).count("merge") == (TOKENS - 1).bit_length()


@pytest.mark.parametrize("places", [(70,), (3, 64), (37,)], ids=str)
def test_places_are_asked_some_at_a_time(places: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x, u, i = rng.normal(size=(5, 2)), rng.normal(size=(*places, 2)), np.sort(rng.integers(-5, 5, places))
    for op in (OPS["scatter_add"], OPS["scatter"]):
        plan = plan_of(lambda x, u, i: op(x, u, i, axes=(0,)), x, u, i)  # noqa: B023
        verify_program(plan)
        np.testing.assert_array_equal(ProgramInterpreter(plan)([x, u, i])[0], op.ref(x, u, i, axes=(0,)))


def test_scatters_at_the_same_places_sort_them_once() -> None:
    def moments(m: Any, v: Any, u: Any, i: Any) -> Any:
        return OPS["scatter"](m, u, i, axes=(0,)) + OPS["scatter_add"](v, u, i, axes=(0,))

    names = names_of(plan_of(moments, TABLE, TABLE, TABLE[:8000], np.arange(8000)))
    assert [names.count(name) for name in ("ranks", "run_starts", "collect")] == [1, 1, 2]


def test_places_that_ascend_are_not_sorted_again() -> None:
    def summed(ids: Any, u: Any) -> Any:
        found, _ = OPS["sort"](ids, axis=0)
        last = OPS["full"](value=ROWS - 1, shape=(TOKENS,), dtype=ids.dtype)
        return OPS["scatter_add"](
            OPS["full"](value=0, shape=(ROWS, 2), dtype=u.dtype), u, OPS["minimum"](found, last), axes=(0,)
        )

    ids = (np.arange(TOKENS) * 7 % 5000).astype(np.uint32)
    names = names_of(plan_of(summed, ids, TABLE[:TOKENS]))
    assert names.count("merge") == (TOKENS - 1).bit_length() and names[-1] == "collect"
    signed = names_of(plan_of(summed, ids.astype(np.int32), TABLE[:TOKENS]))
    assert signed.count("merge") == 2 * names.count("merge")  # negative indices count from the end, and are sorted too


def test_places_that_a_program_holds_are_sorted_with_it() -> None:
    where = (np.arange(40) * 7 % 19).reshape(4, 10)
    u, x = np.random.default_rng(0).normal(size=(4, 10, 3)).astype("f"), np.ones((19, 3), np.float32)

    def biased(u: Any, at: Any) -> Any:
        zeros = OPS["full"](value=0, shape=x.shape, dtype=x.dtype)
        return OPS["scatter_add"](zeros, u, OPS["constant"](value=at), axes=(0,))

    plan = plan_of(lambda u: biased(u, where), u)
    assert names_of(plan) == ["collect"]
    np.testing.assert_array_equal(ProgramInterpreter(plan)([u])[0], OPS["scatter_add"].ref(x * 0, u, where, axes=(0,)))
    wrong = plan_of(lambda u: biased(u, where + 1), u)
    assert names_of(wrong) == ["scatter_add"] and any(isinstance(step, StatusCheck) for step in wrong.steps)


def test_running_sums_of_integers_look_at_all_before() -> None:
    for reverse in (False, True):
        x = np.random.default_rng(0).integers(-9, 9, (2, 130)).astype(np.int32)
        plan = plan_of(lambda x: OPS["cumsum"](x, axis=1, reverse=reverse), x)  # noqa: B023
        verify_program(plan)
        (found,) = ProgramInterpreter(plan)([x])
        np.testing.assert_array_equal(found, OPS["cumsum"].ref(x, axis=1, reverse=reverse))
        assert any(b.space == "shared" for kernel in plan.kernels() for b in kernel.scratch)


def test_an_index_that_is_too_narrow_for_its_axis_meets_no_other_place() -> None:
    i, u = np.array([-126, 5, -126], np.int8), np.arange(1, 4, dtype=np.float32)
    x = np.zeros(200, np.float32)
    plan = plan_of(lambda x, u, i: OPS["scatter_add"](x, u, i, axes=(0,)), x, u, i)
    (found,) = ProgramInterpreter(plan)([x, u, i])
    assert np.flatnonzero(found).tolist() == [5, 74] and found[74] == 4


def test_a_work_item_of_a_browser_takes_few_trips() -> None:
    """A work item takes about as many trips as one loop over all indices did."""
    ids = np.zeros(50_000, np.int32)
    for name in ("scatter", "scatter_add"):
        plan = plan_of(
            lambda x, u, i: OPS[name](x, u, i, axes=(0,)),  # noqa: B023
            np.zeros((60_000, 32), np.float32),
            np.zeros((50_000, 32), np.float32),
            ids,
            target=WEBGPU,
        )
        check_program(plan, WEBGPU, doubles=False)
        assert "collect" in names_of(plan)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_updates_of_one_element_add_up_in_single_precision(dtype):
    table, ids = np.zeros((2, 3), dtypes.check(dtype)), np.zeros(5000, np.int64)
    found = ws.jit(ws.grad(lambda table: np.sum(table[ids].astype(np.float32))))(table)
    assert found.dtype == table.dtype and found[0].astype(float).tolist() == [float(table.dtype.type(5000))] * 3
