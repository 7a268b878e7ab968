"""Blocked contractions: exact, with the bits of the kernel that they replace, for all blocks and numbers of threads."""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tests.backends.native_kernels import Native, fenced
from tests.backends.program_interpreter import ProgramInterpreter
from tests.conftest import Golden
from tests.kernel.interpret import run_kernel
from tests.kernel.parse import KernelParser
from tests.lower.quick_code import drawn_code, quick_code

import wholestep as ws
from wholestep.backends.cpu.compiler import llvm_source, machine_model
from wholestep.backends.cpu.cpu_features import named_target
from wholestep.backends.cpu.llvm_jit import assembly
from wholestep.backends.cpu.target import machine, schedule
from wholestep.backends.cpu.target.blocking import Caches, block_terms
from wholestep.ir.graph import Graph
from wholestep.kernel.text import format_kernel
from wholestep.lower.blocking.block_sizes import AxisPart, BlockSizes, even_parts, split_axis
from wholestep.lower.blocking.blocked_contraction import block_contraction
from wholestep.lower.blocking.contraction_nest import find_contraction
from wholestep.lower.blocking.paired_terms import WORD
from wholestep.lower.compile import lower_program
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import ForLoop, Launch, walk_steps
from wholestep.lower.verify_program import kernel_footprint, overwrites_after_read, verify_program
from wholestep.runtime.cpu import thread_pool
from wholestep_tools.drawn.law import compiled

COUNT, SEED = int(os.environ.get("BLOCKING_COUNT", "120")), int(os.environ.get("BLOCKING_SEED", "1"))
MANY, CHUNK = int(os.environ.get("BLOCKING_MANY", "1000")), 20
"""The number of contractions whose bits are compared, and the number of them in one test."""
V3 = machine_model(named_target("x86-64-v3"))
EXTENTS = (1, 2, 3, 5, 7, 8, 9, 13, 16, 17, 24, 31, 33, 48, 64, 65, 100)
LARGE, MOST_PRODUCTS = (128, 200, 257, 333, 512, 700), 1 << 24
"""Extents of a part of the contractions, and the most products that these may have."""
SPECS = (
    *("ik,kj->ij", "ki,kj->ij", "ik,jk->ij", "ki,jk->ij", "ik,kj->ji", "bik,kj->bij", "bki,kj->bji"),
    *("bik,khj->bhij", "ik,khj->hij", "bik,bjk->bij", "bik,bij->kj", "ik,khj->ihj"),
    *("bhik,kj->bhij", "bhik,jk->bhij", "bhki,kj->bihj", "hbik,jk->bhij"),
    *("bik,bkj->bij", "bki,bjk->ibj", "bhik,bhkj->bhij", "bik,hbkj->bhij", "hbik,bkj->bhij"),
)
EPILOGUES: dict[str, Callable[[Any, Any], Any]] = {
    "plain": lambda y, c: y,
    "bias": lambda y, c: y + c[..., :1],
    "relu": lambda y, c: np.maximum(y, 0),
    "residual": lambda y, c: c - y,
    "twice": lambda y, c: (y, y * 2 + c),
    "tanh": lambda y, c: np.tanh(y) * c,
}
Array = np.ndarray[Any, Any]


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], BlockSizes | None]], None]:
    """A function that replaces the choice of block sizes, given the number of lanes, for all contractions."""

    def choose(chosen: Callable[[int], BlockSizes | None]) -> None:
        def block_sizes(nest: Any, target: Any, caches: Caches, dot_bf16: bool) -> BlockSizes | None:
            found = chosen(target.lanes(nest.dtype.itemsize))
            return found and found._replace(paired=found.paired and not found.strip and nest.multiplies_bf16)

        monkeypatch.setattr(machine, "block_sizes", block_sizes)

    return choose


def drawn_sizes(draw: random.Random) -> Callable[[int], BlockSizes]:
    """Random blocks."""
    rows, vectors, terms = draw.choice((1, 2, 4, 6, 14)), draw.choice((1, 2, 3)), draw.choice((3, 8, 16, 40, 256))
    columns, most, unroll = draw.choice((1, 2, 3, 50)), draw.choice((5, 7, 28, 4096)), draw.choice((1, 2, 4))
    panels, together, strip = draw.random() < 0.5, draw.choice((1, 1, 2, 3)), draw.choice((0, 0, 1, 3, 8))
    group, scratch = draw.choice((1, 3, 96)), draw.choice((0, 384, 1 << 20))
    gathered, ahead = strip > 0 and draw.random() < 0.5, draw.choice((0, 1, 2))
    near, shares = draw.choice((0, 0, 16, 4096)), draw.choice((0, 1, 2, 8))
    paired, waiting = draw.random() < 0.7, draw.choice((100, 1 << 21))

    def sizes(lanes: int) -> BlockSizes:
        wide = strip * lanes * vectors
        across = columns * lanes * 2
        found = BlockSizes(lanes, rows, vectors, terms, across, most, unroll, panels, group, scratch, together=together)
        found = found._replace(strip=wide, gathered=gathered, ahead=ahead, near=near, shares=shares)
        return found._replace(paired=paired, scratch_sums=waiting)

    return sizes


def drawn_extents(draw: random.Random) -> dict[str, int]:
    """Extents by label, every fourth time large ones."""
    while True:
        known = LARGE if draw.random() < 0.25 else EXTENTS
        found = dict(zip("ikj", [draw.choice((*known, *known, draw.choice(EXTENTS))) for _ in range(3)], strict=True))
        found |= {c: draw.choice((1, 2, 3)) for c in "bh"}
        if math.prod(found.values()) <= MOST_PRODUCTS:
            return found


def never(lanes: int) -> None:
    """No blocks."""


def drawn_program(draw: random.Random) -> tuple[Callable[..., Any], list[Array], Array | None]:
    """A contraction with an epilogue, its arguments, and its exact value, or None for operands that round."""
    extents = drawn_extents(draw)
    spec, name = draw.choice(SPECS), draw.choice(list(EPILOGUES))
    bfloat16 = ml_dtypes.bfloat16
    dtype = np.dtype(draw.choice(("float32", "float32", "float64", "float16", bfloat16, bfloat16)))
    (x, y), out = spec.split("->")[0].split(","), spec.split("->")[1]
    rng, exact = np.random.default_rng(draw.randrange(1 << 30)), draw.random() < 0.5
    shapes = [tuple([extents[c] for c in labels]) for labels in (x, y, out)]
    made = [rng.integers(-4, 5, shape) if exact else rng.normal(size=shape) for shape in shapes]
    args = [a.astype(dtype) for a in made]
    epilogue = EPILOGUES[name]
    whole = np.einsum(spec, *[a.astype(np.float64) for a in args[:2]])
    wanted = whole.astype(dtype) if exact and name == "plain" else None
    return lambda a, b, c: epilogue(np.einsum(spec, a, b), c), args, wanted


def graph_of(f: Callable[..., Any], args: Sequence[Array]) -> Graph:
    return ws.trace(f)(*args)


def plan_of(graph: Graph) -> LoweredProgram:
    """The verified program of a graph for a processor with AVX2."""
    plan = lower_program(graph, V3)
    verify_program(plan)
    return plan


def blocks_of(plan: LoweredProgram) -> list[str]:
    """The names of the kernels of blocks."""
    return [
        k.name
        for k in plan.kernels()
        if k.name.endswith(("_pack_rows", "_pack_columns", "_tiles", "_panels", "_strips", "_dots"))
    ]


@pytest.fixture(autouse=True)
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel that can be is shared out among threads."""
    monkeypatch.setattr(schedule, "SHARED_POINTS", 1)


@pytest.fixture(params=range(COUNT))
def draw(request: pytest.FixtureRequest) -> Iterator[random.Random]:
    yield random.Random(f"{SEED}, {request.param}")


@pytest.fixture(params=range(0, MANY, CHUNK))
def several(request: pytest.FixtureRequest) -> dict[str, random.Random]:
    """The generators of several draws, each by the seed that repeats it."""
    return {f"{SEED}, {n}": random.Random(f"{SEED}, {n}") for n in range(request.param, request.param + CHUNK)}


# Bits.


def test_blocks_and_threads_do_not_show(several: dict[str, random.Random], sizes: Any) -> None:
    for number, (name, draw) in enumerate(several.items()):
        compare_blocks(name, draw, sizes, number)


def compare_blocks(name: str, draw: random.Random, sizes: Any, number: int) -> None:
    """One contraction by one kernel, and by drawn blocks with several counts of threads: the same bits."""
    f, args, wanted = drawn_program(draw)
    graph = graph_of(f, args)
    sizes(never)
    with thread_pool.threads(1), quick_code():
        plain = [np.array(x) for x in compiled(graph)(args)]
    if wanted is not None:
        # A contraction of one term is the product itself, so that a zero keeps its sign.
        assert np.array_equal(plain[0], wanted), f"draw {name}: small integers are exact"
    for code in (drawn_code(number), quick_code()):
        sizes(drawn_sizes(draw))
        with code:
            program = compiled(graph)
        for count in (1, 2, 3, 4):
            with thread_pool.threads(count):
                found = [np.array(x) for x in program(args)]
            assert [x.tobytes() for x in found] == [x.tobytes() for x in plain], f"draw {name}, {count} threads"


def test_places_of_images_are_one_axis_that_threads_share() -> None:
    """A pointwise convolution: all of its axes are one axis of contiguous rows."""
    args = [np.ones(shape, "f") for shape in ((16, 32, 32, 32), (64, 32), (64,))]
    plan = plan_of(graph_of(lambda x, w, b: np.maximum(np.einsum("nhwc,oc->nhwo", x, w) + b, 0), args))
    (tiles,) = [s for s in walk_steps(plan.steps) if isinstance(s, Launch) and s.kernel.name.endswith("_tiles")]
    assert tiles.parallel
    assert tiles.kernel.outer is not None
    assert tiles.kernel.outer.extent == 16 * 32 * 32
    assert not any(isinstance(s, ForLoop) for s in walk_steps(plan.steps))


def test_most_of_what_is_drawn_is_blocked(sizes: Any) -> None:
    found = 0
    for n in range(40):
        draw = random.Random(f"{SEED}, {n}")
        f, args, _ = drawn_program(draw)
        sizes(drawn_sizes(draw))
        found += bool(blocks_of(plan_of(graph_of(f, args))))
    assert found >= 20


def test_the_blocks_that_a_target_chooses_have_the_bits_of_one_kernel(sizes: Any) -> None:
    rng = np.random.default_rng(0)
    for m, k, n in ((40, 700, 600), (700, 300, 400)):
        args = [rng.normal(size=shape).astype("f") for shape in ((k, m), (k, n), (m, n))]
        graph = graph_of(lambda a, b, c: np.tanh(a.T @ b) + c, args)
        assert blocks_of(plan_of(graph))
        (found,) = [np.array(x) for x in compiled(graph)(args)]
        chosen = machine.block_sizes
        sizes(never)
        (plain,) = compiled(graph)(args)
        machine.block_sizes = chosen  # type: ignore[attr-defined]
        assert found.tobytes() == np.asarray(plain).tobytes()


def test_kernels_of_blocks_stay_within_their_buffers(draw: random.Random, sizes: Any) -> None:
    """Every kernel on arrays between pages that may not be touched, against its meaning in NumPy."""
    f, args, _ = drawn_program(draw)
    sizes(drawn_sizes(draw))
    plan = lower_program(graph_of(f, args), machine_model(named_target("x86-64-v2")))
    stay_within(plan.kernels() if blocks_of(plan) else [])


def stay_within(kernels: Iterable[Any], bound: float = 1e-2) -> None:
    """Run kernels that call nothing between pages that may not be touched, and in the interpreter."""
    rng = np.random.default_rng(0)
    for kernel in [k for k in kernels if not calls(k)]:
        native = Native([kernel], None, {})
        for right in (False, True):
            given = [drawn_elements(rng, b.size, b.dtype) for b in kernel.buffers]
            wanted = [a.copy() for a in given]
            run_kernel(kernel, wanted)
            held = [fenced(a, right) for a in given]
            native.run(0, [a for a, _ in held])
            for (a, _), b in zip(held, wanted, strict=True):
                np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=bound, atol=bound)


def drawn_elements(rng: np.random.Generator, size: int, dtype: np.dtype[Any]) -> Array:
    """Small integers; as words, pairs of bfloat16 numbers."""
    if dtype != WORD:
        return rng.integers(-3, 4, size).astype(dtype)
    return rng.integers(-3, 4, 2 * size).astype(ml_dtypes.bfloat16).view(WORD)


def calls(kernel: Any) -> bool:
    """True if a kernel calls functions that would have to be linked."""
    return "call(" in str(kernel)


def test_the_interpreter_of_programs_agrees(sizes: Any) -> None:
    rng = np.random.default_rng(0)
    args = [rng.integers(-4, 5, shape).astype("f") for shape in ((30, 70), (70, 50), (30, 50))]
    graph = graph_of(lambda a, b, c: np.maximum(a @ b, 0) + c, args)
    for panels in (False, True):
        sizes(lambda lanes, panels=panels: BlockSizes(lanes, 6, 2, 16, 32, 12, 4, panels))
        (found,) = ProgramInterpreter(plan_of(graph))(args)
        assert np.array_equal(found, np.maximum(args[0].astype(float) @ args[1], 0) + args[2])


# Plans.


def printed(plan: LoweredProgram) -> str:
    return "\n".join([str(plan), *map(str, plan.kernels())])


def test_a_sum_that_goes_on_in_scratch_memory(golden: Golden, sizes: Any) -> None:
    args = [np.zeros(shape, "f") for shape in ((14, 64), (40, 64), (40,))]
    sizes(lambda lanes: BlockSizes(lanes, 6, 2, 16, 16, 4096))
    assert printed(plan_of(graph_of(lambda a, b, c: np.maximum(a @ b.T + c, 0), args))) == golden


def test_a_sum_that_goes_on_where_it_ends_up(golden: Golden, sizes: Any) -> None:
    args = [np.zeros(shape, "f") for shape in ((64, 14), (64, 40))]
    sizes(lambda lanes: BlockSizes(lanes, 6, 2, 16, 32, 4096, panels_outermost=True))
    assert printed(plan_of(graph_of(lambda a, b: a.T @ b, args))) == golden


def test_equal_blocks_of_terms_are_one_kernel() -> None:
    for terms in (2048, 4096):
        args = [np.zeros(shape, "f") for shape in ((1024, terms), (terms, 512))]
        plan = plan_of(graph_of(lambda a, b: np.maximum(a @ b, 0), args))
        assert len(blocks_of(plan)) == 4, "the packing, and the tiles of the first, a middle and the last block"


def test_scratch_memory_is_bounded_and_planned() -> None:
    args = [np.zeros(shape, "f") for shape in ((4200, 300), (300, 2500))]
    plan = plan_of(graph_of(lambda a, b: np.tanh(a.T.T @ b) * 2, args))
    assert blocks_of(plan)
    assert plan.arena <= 10 << 20 < args[0].nbytes + 4200 * 2500 * 4
    assert plan.arena == sum(h.nbytes for h in plan.live_ranges)
    assert {h.what for h in plan.live_ranges} == {"scratch"}


def test_a_product_is_not_left_between_its_blocks() -> None:
    args = [np.zeros(shape, "f") for shape in ((1024, 2048), (2048, 1024))]
    plan = plan_of(graph_of(lambda a, b: a @ b, args))
    loops = [s for s in walk_steps(plan.steps) if isinstance(s, ForLoop)]
    assert loops
    assert not any(s.outermost for s in loops)


def test_what_is_small_or_has_few_rows_is_read_in_place() -> None:
    for m, k, n in ((8, 256, 256), (96, 96, 96), (4096, 16, 4096), (512, 48, 1), (1, 256, 256)):
        args = [np.zeros(shape, "f") for shape in ((m, k), (k, n))]
        assert not blocks_of(plan_of(graph_of(lambda a, b: a @ b, args)))


def test_few_rows_go_over_strips_of_a_large_matrix(sizes: Any) -> None:
    rng = np.random.default_rng(0)
    for m, k, n in ((1, 300, 1000), (3, 301, 700), (15, 500, 1100)):
        args = [rng.normal(size=shape).astype("f") for shape in ((m, k), (k, n), (n,))]
        graph = graph_of(lambda a, b, c: np.maximum(a @ b + c, 0), args)
        assert {name.rpartition("_")[2] for name in blocks_of(plan_of(graph))} == {"strips"}
        (found,) = [np.array(x) for x in compiled(graph)(args)]
        chosen = machine.block_sizes
        sizes(never)
        (plain,) = compiled(graph)(args)
        machine.block_sizes = chosen  # type: ignore[attr-defined]
        assert found.tobytes() == np.asarray(plain).tobytes()


def test_strips_of_a_matrix_in_no_cache_ask_for_their_columns_early() -> None:
    for m, n, wanted in ((8, 4096, True), (8, 2040, False), (1, 4096, False)):
        args = [np.zeros(shape, "f") for shape in ((m, 2048), (2048, n))]
        graph = graph_of(lambda a, b: a @ b, args)
        for level in ("x86-64-v3", "x86-64-v4"):
            target = named_target(level)
            plan = lower_program(graph, machine_model(target))
            text = "\n".join([assembly(module, target) for module in llvm_source(plan, target).modules])
            places = re.findall(r"prefetcht1\s+(-?\d*)\(", text)
            # one prefetch for each cache line of two vectors, for eight terms
            assert len(places) == (wanted and target.vector_bytes // 32 * 8), (m, n, level)
            assert any("ahead 1" in format_kernel(kernel) for kernel in plan.kernels()) == wanted


def test_rows_and_sums_of_a_strip_lie_close_together() -> None:
    args = [np.zeros(shape, "f") for shape in ((8, 2048), (2048, 2048))]
    graph = graph_of(lambda a, b: a @ b, args)
    wide = lower_program(graph, machine_model(named_target("x86-64-v4")))
    assert {name.rpartition("_")[2] for name in blocks_of(wide)} == {"rows", "strips"}
    strips = format_kernel(wide.kernels()[-1])
    (pitch,) = {int(n) for n in re.findall(r"packed_rows\[(\d+)\*", strips)}
    assert pitch * 4 % 4096 == 64, "rows do not share the sets of a cache"
    assert "partial_sums[" in strips and re.search(r"results_\w+\[.*\] = ", strips), "and then go where they belong"


def test_a_matrix_along_its_terms_is_packed_where_it_lies() -> None:
    for m, k, n in ((32, 64, 48), (32, 600, 700), (16, 33, 17)):
        args = [np.zeros(shape, "f") for shape in ((m, k), (n, k))]
        plan = plan_of(graph_of(lambda a, b: a @ b.T, args))
        assert len(plan.kernels()) == len(blocks_of(plan)) >= 1, (m, k, n)
        assert plan.arena < args[1].nbytes or n * k < 5000, "no copy of the whole matrix"


@pytest.mark.parametrize("spec", ["bki,khj->bhij", "bki,kj->jbi", "kbi,khj->hbij", "bik,hkj->bhij"])
def test_several_axes_of_rows_and_of_columns(spec: str, sizes: Any) -> None:
    extents = {"b": 3, "i": 14, "k": 40, "h": 2, "j": 40}
    (x, y), out = spec.split("->")[0].split(","), spec.split("->")[1]
    rng = np.random.default_rng(0)
    args = [rng.integers(-4, 5, [extents[c] for c in labels]).astype("f") for labels in (x, y, out)]
    graph = graph_of(lambda a, b, c: np.maximum(np.einsum(spec, a, b), c), args)
    for panels in (False, True):
        sizes(lambda lanes, panels=panels: BlockSizes(lanes, 6, 2, 16, 32, 8, 4, panels))
        assert blocks_of(plan_of(graph))
        (found,) = compiled(graph)(args)
        assert np.array_equal(found, np.maximum(np.einsum(spec, *args[:2]), args[2]))


def test_large_products_of_a_batch_are_shared_one_after_the_other() -> None:
    """Each is blocked as a product of its own; small ones are each read in place by one thread."""
    rng = np.random.default_rng(0)
    for n, wanted in ((208, True), (64, False)):
        x, y = [rng.integers(-4, 5, (3, n, n)).astype("f") for _ in range(2)]
        for f in (lambda x, y: x @ y, lambda x, y: x @ y.mT, lambda x, y: np.einsum("gki,gkj->igj", x, y)):
            graph = graph_of(f, [x, y])
            plan = plan_of(graph)
            assert bool(blocks_of(plan)) == wanted
            trips = [s.trips for s in plan.steps if isinstance(s, ForLoop)]
            assert trips == ([3] if wanted else [])
            assert not wanted or plan.arena < 2 * x.nbytes // 3, "one product's panels, and no copy in another order"
            (found,) = compiled(graph)([x, y])
            assert np.array_equal(found, f(x.astype("d"), y.astype("d")))


def test_single_rows_of_a_batch_are_chains_whatever_their_size() -> None:
    rows, matrices = np.zeros((2, 1, 2048), "f"), np.zeros((2, 4096, 2048), "f")

    def f(x: Any, y: Any) -> Any:
        return x @ y.mT

    assert blocks_of(plan_of(graph_of(f, [rows[0], matrices[0]]))) == ["contract_dots"]
    assert not blocks_of(plan_of(graph_of(f, [rows, matrices])))


def test_a_batch_whose_number_is_in_the_values_is_one_kernel() -> None:
    """The kernel of a block would be right for one product alone."""
    source = """kernel k(a: f32[480], b: f32[1152], mut c: f32[1920]):
    v0 = f32(0.0)
    for g in 2:
        v1 = index(g)
        for i in 20:
            for j in 48 lanes 8:
                for k in 12:
                    v2 = a[240*g + 12*i + k]
                    v3 = b[576*g + 48*k + j]
                    fold v4 = fma(v2, v3) from v0
                v5 = f32(v1)
                v6 = v4 + v5
                c[960*g + 48*i + j] = v6
"""
    plain = source.replace("                v5 = f32(v1)\n", "").replace("v5", "v4")
    for text, wanted in ((source, False), (plain, True)):
        nest = find_contraction(KernelParser(text).kernel())
        assert nest is not None and [axis.extent for axis in nest.batch] == [2]
        found = block_contraction(nest, BlockSizes(8, 6, 2, 16, 64, 64), lambda: 0, lambda kernel: False)
        assert (found is not None) == wanted


def test_terms_of_masked_operands_are_few_blocks_or_none() -> None:
    """The code of a mask depends on its offset along the terms, so that each block is packed by code of its own."""
    source = """kernel k(a: f32[2720], b: f32[6528], mut c: f32[960]):
    v0 = f32(0.0)
    for i in 20:
        for j in 48 lanes 8:
            v1 = index(j)
            v2 = index(i)
            for k in 136:
                v3 = a[136*i + k]
                v4 = b[48*k + j]
                v5 = index(k)
                v6 = v2 < v5
                v7 = select(v6, v3, v0)
                v8 = v5 < v1
                v9 = select(v8, v4, v0)
                fold v10 = fma(v7, v9) from v0
            c[48*i + j] = v10
"""
    nest = find_contraction(KernelParser(source).kernel())
    assert nest is not None
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 5, (20, 136)).astype("f"), rng.integers(-4, 5, (136, 48)).astype("f")
    for terms, count in ((144, 1), (48, 3), (16, 9), (8, 0)):
        for panels in (False, True):
            sizes = BlockSizes(8, 6, 2, terms, 64, 64, 4, panels)
            blocked = block_contraction(nest, sizes, lambda: 0, lambda kernel: False)
            if blocked is None:
                assert not count
                continue
            launches = [step for step in walk_steps(blocked.steps) if isinstance(step, Launch)]
            assert [launch.kernel.name for launch in launches].count("k_pack_rows") == count
            tiles = {id(launch.kernel) for launch in launches if launch.kernel.name == "k_tiles"}
            assert len(tiles) <= 3, "the first block, those like each other, and the last one"
            memory = [
                a.reshape(-1),
                b.reshape(-1),
                np.zeros(960, "f"),
                *[np.zeros(n // 4, "f") for n in blocked.scratch],
            ]
            for launch in launches:
                places = [memory[ref.slot][ref.offset // 4 :] for ref in launch.refs]
                run_kernel(launch.kernel, [x[: y.size] for x, y in zip(places, launch.kernel.buffers, strict=True)])
            assert np.array_equal(memory[2].reshape(20, 48), np.triu(a, 1) @ np.triu(b, 1))


def test_padded_terms_are_few_blocks_or_none(sizes: Any) -> None:
    rng = np.random.default_rng(0)
    args = [rng.integers(-4, 5, shape).astype("f") for shape in ((20, 60), (64, 40))]

    def f(a: Any, b: Any) -> Any:
        return np.pad(a, ((0, 0), (1, 3))) @ b

    for terms in (16, 256):
        sizes(lambda lanes, terms=terms: BlockSizes(lanes, 6, 2, terms, 32, 12))
        (found,) = compiled(graph_of(f, args))(args)
        assert np.array_equal(found, f(*args))


def test_operands_that_go_backwards_are_one_block(sizes: Any) -> None:
    rng = np.random.default_rng(0)
    args = [rng.integers(-4, 5, shape).astype("f") for shape in ((20, 60), (60, 40), (40, 8), (20,))]

    def f(a: Any, b: Any, c: Any, i: Any) -> Any:
        return (a[:, ::-1] @ b, a[::-1] @ b[:, ::-1], a @ b + c.T[i.astype(int)])

    for columns, rows in ((16, 6), (4096, 4096)):
        sizes(lambda lanes, columns=columns, rows=rows: BlockSizes(lanes, 6, 2, 16, columns, rows))
        args[3] = rng.integers(0, 8, 20).astype("f")
        found = compiled(graph_of(f, args))(args)
        for x, y in zip(found, f(*args), strict=True):
            assert np.array_equal(x, y)


def test_targets_choose_blocks_by_registers_and_caches() -> None:
    class Nest:
        row_count, column_count, term_count = 1024, 1024, 4096
        batch = rows = columns = ()
        terms = (type("Terms", (), {"extent": 4096}),)

    found = {}
    for level in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64-neon"):
        target = machine_model(named_target(level))
        for name in ("f4", "f8"):
            nest: Any = type("Nest", (Nest,), {"dtype": np.dtype(name)})
            made = machine.block_sizes(nest, target, target.caches)
            assert made is not None
            found[level, name] = (made.tile_rows, made.panel, made.terms, made.columns)
    assert found == {
        ("x86-64-v2", "f4"): (6, 8, 1024, 256),
        ("x86-64-v2", "f8"): (6, 4, 1024, 128),
        ("x86-64-v3", "f4"): (6, 16, 512, 512),
        ("x86-64-v3", "f8"): (6, 8, 512, 256),
        ("x86-64-v4", "f4"): (6, 64, 256, 512),
        ("x86-64-v4", "f8"): (6, 32, 256, 256),
        ("aarch64-neon", "f4"): (6, 16, 512, 256),
        ("aarch64-neon", "f8"): (6, 8, 512, 128),
    }


def test_few_panels_are_narrow_where_their_columns_have_one_axis() -> None:
    """Threads then have panels of their own, and none of them waits for panels that another one packs."""
    target = machine_model(named_target("x86-64-v4"))

    def chosen(spec: str, *shapes: tuple[int, ...]) -> tuple[set[str], set[str]]:
        args = [np.zeros(shape, "f") for shape in shapes]
        plan = lower_program(graph_of(lambda a, b: np.einsum(spec, a, b), args), target)
        texts = [format_kernel(kernel) for kernel in plan.kernels()]
        tiles = {n for text in texts for n in re.findall(r"for i\d* in \d+ tile (\d+)", text)}
        return {name.rpartition("_")[2] for name in blocks_of(plan)}, tiles

    for columns in (256, 384, 500):
        assert chosen("ik,kj->ij", (240, 256), (256, columns)) == ({"panels"}, {"12"})
    assert chosen("ik,kj->ij", (240, 256), (256, 512)) == ({"panels"}, {"6"}), "there are enough wide ones"
    assert chosen("ik,kj->ij", (240, 256), (256, 250)) == ({"columns", "tiles"}, {"6"}), "seven are too few, too"
    assert chosen("ik,hkj->ihj", (240, 256), (4, 256, 64))[1] == {"6"}, "columns may lie in wide panels already"


def test_rows_side_by_side_are_read_in_place_where_their_terms_are_near() -> None:
    for level in ("x86-64-v3", "x86-64-v4"):
        target = machine_model(named_target(level))
        for dtype in ("f4", "f8"):
            near = 1024 // np.dtype(dtype).itemsize
            for rows in (near, near + 8):
                args = [np.zeros((600, m), dtype) for m in (rows, 512)]
                plan = lower_program(graph_of(lambda a, b: a.T @ b, args), target)
                packed = {name.rpartition("_")[2] for name in blocks_of(plan)} - {"panels", "columns", "tiles"}
                assert packed == ({"rows"} if rows > near else set()), (level, dtype, rows)


def test_pairs_are_read_as_words_where_they_are_words(sizes: Any) -> None:
    """Terms at odd places, or strided ones, are packed one by one: the bits are those of one kernel."""
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(40, 132)).astype(ml_dtypes.bfloat16)
    right = rng.normal(size=(40, 66)).astype(ml_dtypes.bfloat16)
    parts = (np.s_[:, :66], np.s_[:, 1:67], np.s_[:, 2:68], np.s_[:, ::2], np.s_[1:, 3:69])
    for columns in (132, 131):
        for part in parts:
            args = [np.ascontiguousarray(whole[:, :columns]), right]
            graph = graph_of(lambda a, b, part=part: (a[part] @ b.T, b @ a[part].T), args)
            results = []
            for chosen in (never, lambda lanes: BlockSizes(lanes, 4, 2, 32, 64, 64, paired=True)):
                sizes(chosen)
                results.append([np.array(x).tobytes() for x in compiled(graph)(args)])
            assert results[0] == results[1], (columns, part)


def test_processors_that_multiply_pairs_of_bfloat16_do() -> None:
    """In tiles over packed words, for operands that are bfloat16 numbers, and only for those."""
    cpu = replace(named_target("x86-64-v4"), features="+avx512bf16", dot_bf16=True)
    for dtype, epilogue, pairs in (
        (ml_dtypes.bfloat16, False, True),
        (np.float32, True, True),
        (np.float32, False, False),
    ):
        args = [np.zeros((256, 301), dtype), np.zeros((301, 512), dtype)]

        def f(a: Any, b: Any, narrow: bool = epilogue) -> Any:
            return ws.autocast(np.matmul, "bfloat16")(a, b) if narrow else a @ b

        for target, wanted in ((cpu, pairs), (named_target("x86-64-v4"), False)):
            plan = lower_program(graph_of(f, args), machine_model(target))
            verify_program(plan)
            text = "\n".join([assembly(module, target) for module in llvm_source(plan, target).modules])
            assert ("dot_bf16x2" in printed(plan)) == ("vdpbf16ps" in text) == wanted
            assert not re.findall(r"zmm.*\(%rsp\)|\(%rsp\).*zmm", text)


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("columns", [256, 512])
def test_tiles_keep_their_sums_in_registers(level: str, dtype: str, columns: int) -> None:
    """LLVM loads columns of the next term early, so that registers must be left for them."""
    args = [np.zeros((256, 512), dtype), np.zeros((512, columns), dtype)]
    target = named_target(level)
    plan = lower_program(graph_of(lambda a, b: a @ b, args), machine_model(target))
    assert blocks_of(plan)
    text = "\n".join([assembly(module, target) for module in llvm_source(plan, target).modules])
    assert "vfmadd" in text
    assert not re.findall(r"[yz]mm.*\(%rsp\)|\(%rsp\).*[yz]mm", text)


def test_columns_along_their_terms_are_read_in_long_pieces_where_rows_are_few() -> None:
    machine = machine_model(named_target("x86-64-v4"))
    for m, transposed, terms in ((64, True, 1024), (64, False, 256), (200, True, 256)):
        args = [np.zeros(shape, "f") for shape in ((m, 2048), (2048, 2048))]
        graph = graph_of(
            lambda a, b, t=transposed: a @ (b.T if t else b), [args[0], args[1].T if transposed else args[1]]
        )
        texts = [format_kernel(kernel) for kernel in lower_program(graph, machine).kernels()]
        assert {int(n) for text in texts for n in re.findall(r"for k\d* in (\d+)", text)} == {terms}
        if transposed and m == 64:
            packed = {int(n) for text in texts for n in re.findall(r"for p\d+ in (\d+)", text)}
            assert packed == {2}, "panels that are packed together fill half of the second cache"


def test_a_panel_of_a_block_fills_the_first_cache_or_has_256_terms() -> None:
    caches = machine_model(named_target("x86-64-v3")).caches
    found = {panel: block_terms(panel, caches) for panel in (32, 64, 128, 256)}
    assert found == {32: 1024, 64: 512, 128: 256, 256: 256}


@pytest.mark.parametrize("split", [split_axis, even_parts])
def test_parts_of_an_axis_are_all_of_it(split: Callable[[int, int, int], list[AxisPart]]) -> None:
    for extent in range(1, 130):
        for most in (1, 3, 8, 50, 64):
            for multiple in (1, 6, 8):
                at = 0
                for part in split(extent, most, multiple):
                    assert part.start == at
                    assert part.extent > 0 < part.trips
                    assert part.extent <= -(-most // multiple) * multiple + multiple
                    at += part.extent * part.trips
                assert at == extent


# The verifier.


def loads_first(source: str) -> bool:
    """True if a kernel may load an element that it has not stored itself."""
    return any(not span.written for span in kernel_footprint(KernelParser(source).kernel()))


def test_what_a_step_has_stored_it_may_load() -> None:
    source = """kernel k(mut p: f32[64], mut y: f32[64]):
    v0 = f32(1.0)
    for i in 4:
        for j in {count}:
            p[16*i + j] = v0
        for m in 16:
            v1 = p[{place}]
            y[16*i + m] = v1
"""
    assert not loads_first(source.format(count=16, place="16*i + m"))
    assert loads_first(source.format(count=15, place="16*i + m"))
    assert loads_first(source.format(count=16, place="15*i + m"))
    assert loads_first(source.format(count=16, place="m"))


BLOCKS = """\
kernel blocks(b0: f32[960], mut b1: f32[960]):
    v0 = f32(2.0)
    for i in 10:
        for j in 64:
            v1 = b0[96*i + j]
            v2 = v1 * v0
            b1[96*i + j] = v2
        for j_1 in 31:
            v3 = b0[96*i + j_1 + {start}]
"""
COPIED = """\
            b1[96*i + j_1 + 64] = v3
"""
SUMMED = """\
            fold v4 = add(v3) from v0
        b1[96*i + 95] = v4
"""


@pytest.mark.parametrize("last", [COPIED, SUMMED])
@pytest.mark.parametrize(("start", "fits"), [(64, True), (63, False), (0, False)])
def test_blocks_of_columns_may_go_where_their_operand_was(last: str, start: int, fits: bool) -> None:
    """Each block has loops of its own; one that reads another block's columns would read overwritten elements."""
    kernel = KernelParser((BLOCKS + last).format(start=start)).kernel()
    assert overwrites_after_read(kernel, *kernel.buffers) == fits
