"""Tiled products: tiles of every shape give the sums of the contraction that they are made of, in any order of threads,
and the card's text of a tile whose threads share no terms gives them to the bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.backends.cards import CardKernels, device_for_tests
from tests.kernel.interpret import run_kernel
from tests.kernel.parse import parse_kernel

from wholestep.backends.gpu.cuda import Cuda
from wholestep.backends.gpu.find_products import find_product
from wholestep.backends.gpu.kernel_writer import write_kernel
from wholestep.backends.gpu.target import PAGE_TILES
from wholestep.backends.gpu.tile_products import TiledProduct, choose_shape, tile_product
from wholestep.backends.gpu.tile_shapes import PLAIN_SHAPES, SHAPES, CardTiles, TileShape
from wholestep.errors import KernelError
from wholestep.kernel.lang import Barrier, Kernel, Loop, Statement, walk
from wholestep.kernel.verify import verify_kernel
from wholestep.runtime.gpu.driver import KernelShape, MemoryPlace
from wholestep_tools.drawn import cuda_cpp
from wholestep_tools.drawn.cuda_card import card_without_one

Array = np.ndarray[Any, Any]

TILES = CardTiles(SHAPES, shared=48 * 1024)

SMALL = (
    TileShape(4, 2, 2, 4, 8, 1.0, 1.0),
    TileShape(2, 4, 4, 2, 4, 1.0, 1.0, (2, 2)),
    TileShape(2, 2, 8, 4, 6, 1.0, 1.0, (2, 1)),
    TileShape(4, 2, 2, 4, 8, 1.0, 1.0, compact=True),
)
"""Shapes with few threads, which the interpreter runs one after another."""


def product(
    rows: int, columns: int, terms: int, x: str = "", w: str = "", first: str = "v1", init: str = "f32(0.0)"
) -> Kernel:
    """rows x terms times terms x columns, with a column's number added; `x` and `w` are the places of the factors."""
    x, w = x or f"{terms}*i0 + r1", w or f"{columns}*r1 + i1"
    text = f"""
kernel contract(b0: f32[{rows * terms}], b1: f32[{terms * columns}], b2: f32[{columns}], mut b3: f32[{rows * columns}]):
    v0 = {init}
    for i0 in {rows}:
        for i1 in {columns}:
            for r1 in {terms}:
                v1 = b0[{x}]
                v2 = b1[{w}]
                v6 = max(v1, v2)
                v7 = v1 * v1
                fold v3 = fma({first}, v2) from v0
            v4 = b2[i1]
            v5 = v3 + v4
            b3[{columns}*i0 + i1] = v5
"""
    kept = [line for line in text.splitlines() if line.split(" =")[0].strip() not in {"v6", "v7"} - {first}]
    return parse_kernel("\n".join(kept))


TWO_TERMS = """
kernel contract(b0: f32[1152], b1: f32[1536], mut b2: f32[432]):
    v0 = f32(0.0)
    for i0 in 2:
        for i1 in 12:
            for i2 in 18:
                for r1 in 4:
                    carry v1 from v0
                    for r2 in 12:
                        v2 = b0[576*i0 + 144*r1 + 12*i1 + r2]
                        v3 = b1[288*r1 + 24*r2 + i2]
                        fold v4 = fma(v2, v3) from v1
                    next v1 = v4, after v5
                b2[216*i0 + 18*i1 + i2] = v5
"""
KERNELS = {
    "even": product(16, 16, 16),
    "odd": product(19, 17, 13),
    "rows read along their columns": product(18, 16, 20, x="18*r1 + i0"),
    "columns read along their terms": product(18, 16, 20, w="20*i1 + r1"),
    "a factor that is computed": product(16, 17, 12, first="v7"),
    "a sum that starts from something": product(9, 10, 11, init="f32(3.0)"),
    "two axes of terms, and products beside each other": parse_kernel(TWO_TERMS),
}


def whole(kernel: Kernel) -> list[Array]:
    """Small whole numbers, whose sums are exact in any order, for the buffers of a kernel."""
    rng = np.random.default_rng(1)
    return [rng.integers(-4, 5, b.size).astype(np.float32) for b in kernel.buffers]


def tiled(kernel: Kernel, shape: TileShape) -> TiledProduct:
    found = find_product(kernel)
    assert found is not None
    made = TiledProduct(found, shape)
    slices = shape.slices[0] * shape.slices[1]
    return made if made.depth % slices == 0 else TiledProduct(found, shape._replace(slices=(1, 1)))


def reverse(count: int) -> Sequence[int]:
    return range(count)[::-1]


@pytest.mark.parametrize("shape", SMALL, ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_tiles_give_the_sums(name: str, shape: TileShape) -> None:
    kernel = KERNELS[name]
    made = tiled(kernel, shape).kernel()
    expected, forward, backward = whole(kernel), whole(kernel), whole(kernel)
    run_kernel(kernel, expected)
    for arrays in (forward, backward):
        arrays[-1][:] = np.nan  # each element must be written
    run_kernel(made, forward)
    run_kernel(made, backward, order=reverse)
    for found in (forward, backward):
        np.testing.assert_array_equal(found[-1], expected[-1])


@pytest.mark.parametrize("shape", (*SHAPES, *PLAIN_SHAPES, *PAGE_TILES.shapes), ids=str)
def test_tiles_without_a_rest_are_shown_to_be_free_of_races(shape: TileShape) -> None:
    verify_kernel(TiledProduct(find_or_fail(product(2 * shape.height, 2 * shape.width, 128)), shape).kernel())


def find_or_fail(kernel: Kernel) -> Any:
    found = find_product(kernel)
    assert found is not None
    return found


def without_barrier(body: tuple[Statement, ...], left_out: Barrier) -> tuple[Statement, ...]:
    kept = [s for s in body if s is not left_out]
    return tuple([s._replace(body=without_barrier(s.body, left_out)) if isinstance(s, Loop) else s for s in kept])


@pytest.mark.parametrize("shape", (*SHAPES, *PLAIN_SHAPES, *PAGE_TILES.shapes), ids=str)
def test_no_barrier_of_a_tile_may_be_left_out(shape: TileShape) -> None:
    made = TiledProduct(find_or_fail(product(shape.height, shape.width, 128)), shape).kernel()
    barriers = [s for s in walk(made.body) if isinstance(s, Barrier)]
    assert len(barriers) == (3 if shape.sliced else 2)
    for barrier in barriers:
        with pytest.raises(KernelError, match="part them by a barrier"):
            verify_kernel(replace(made, body=without_barrier(made.body, barrier)))


@pytest.mark.skipif(cuda_cpp.COMPILER is None, reason="kernels are compiled by g++ on Linux; not installed")
def test_sums_of_tiles_have_the_bits_of_sums_without_tiles() -> None:
    """On a card compiled by g++, each element is one chain of products in the order of its terms."""
    driver = card_without_one().driver
    kernel = product(33, 40, 37)
    rng = np.random.default_rng(2)
    given = [rng.standard_normal(b.size).astype(np.float32) for b in kernel.buffers]
    found = []
    shape = TileShape(8, 8, 4, 4, 16, 1.0, 1.0)
    for one in (kernel, tiled(kernel, shape).kernel()):
        code = write_kernel(one, "k0", Cuda())
        built = driver.build(driver.compile(Cuda().module([code.text])), [KernelShape("k0", code.groups, code.threads)])
        places = [MemoryPlace(driver.allocate(a.nbytes), 0) for a in given]
        for place, array in zip(places, given, strict=True):
            driver.write(place, array.view(np.uint8))
        driver.launch(built[0], places)
        found.append(np.full_like(given[-1], np.nan))
        driver.read(places[-1], found[-1].view(np.uint8))
    np.testing.assert_array_equal(found[0], found[1])


@pytest.mark.parametrize("shape", [*PLAIN_SHAPES, *PAGE_TILES.shapes], ids=str)
@pytest.mark.parametrize("device", ["opencl", "webgpu"])
@pytest.mark.parametrize("name", ["rows read along their columns", "columns read along their terms", "larger"])
def test_tiles_of_cards_give_the_sums_of_the_interpreter(device: str, name: str, shape: TileShape) -> None:
    kernel = product(70, 33, 37) if name == "larger" else KERNELS[name]
    with device_for_tests(device):
        card = CardKernels([tiled(kernel, shape).kernel()], device)
        expected, found = whole(kernel), whole(kernel)
        found[-1][:] = np.nan
        run_kernel(kernel, expected)
        card.run(0, found)
        np.testing.assert_array_equal(found[-1], expected[-1])


def test_the_shape_is_chosen_by_the_size() -> None:
    sizes = [(128, 128, 256), (1024, 128, 512), (1024, 512, 128), (1024, 1024, 1024), (4096, 4096, 4096)]
    shapes = [choose_shape(find_or_fail(product(*size)), TILES) for size in sizes]
    assert [shape and (shape.height, shape.width) for shape in shapes] == [
        (16, 16),
        (32, 32),
        (64, 64),
        (64, 128),
        (128, 128),
    ]


SIZES = [(16, 16, 64), (128, 256, 784), (1024, 128, 512), (1024, 512, 128), (1024, 1024, 1024), (4096, 4096, 4096)]


@pytest.mark.parametrize("shared", [1, 8, 16, 32, 48])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_tile_has_no_more_shared_memory_than_there_is(dtype: str, shared: int) -> None:
    """Factors that are contiguous along their terms need the most; with too little shared memory there are no tiles."""
    tiles = CardTiles(SHAPES, shared=shared * 1024)
    for rows, columns, terms in SIZES:
        for x, w in (("", ""), (f"{rows}*r1 + i0", f"{terms}*i1 + r1")):
            text = str(product(rows, columns, terms, x, w)).replace("f32", dtype)
            made = tile_product(parse_kernel(text), tiles)
            held = 0 if made is None else sum([b.size * b.dtype.itemsize for b in made.scratch])
            assert held <= tiles.shared, (rows, columns, terms)
            assert (made is None) == (shared < (16 if dtype == "f32" else 32)), (rows, columns, terms)


def test_few_results_are_no_tiles_where_they_keep_no_card_busy() -> None:
    tiles = CardTiles(PLAIN_SHAPES, shared=16 * 1024, least=2**17)
    assert [tile_product(product(*size), tiles) is None for size in SIZES] == [True, True, False, False, False, False]


def test_few_results_of_many_terms_are_tiles_for_each_is_a_long_chain() -> None:
    tiles = CardTiles(PLAIN_SHAPES, shared=16 * 1024, least=2**17, chain=512)
    assert [tile_product(product(*size), tiles) is None for size in SIZES] == [True, False, False, False, False, False]


def test_few_rows_or_columns_have_a_shape_of_few() -> None:
    tiles = CardTiles(PLAIN_SHAPES, shared=16 * 1024, processors=4)
    shapes = [
        choose_shape(find_or_fail(product(*size)), tiles) for size in [(512, 512, 64), (512, 16, 64), (16, 512, 64)]
    ]
    assert [shape and (shape.height, shape.width) for shape in shapes] == [(32, 32), (64, 16), (16, 32)]


def test_less_work_than_asked_for_is_no_tiles() -> None:
    tiles = CardTiles(PLAIN_SHAPES, shared=16 * 1024, work=2**26)
    assert [tile_product(product(*size), tiles) is None for size in SIZES] == [True, True, False, False, False, False]


def test_few_rows_columns_or_terms_are_no_tiles() -> None:
    for size in ((8, 128, 128), (128, 8, 128), (128, 128, 8)):
        assert tile_product(product(*size), TILES) is None
