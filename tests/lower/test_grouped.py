"""Contractions with several axes of terms: convolutions and sums over sequences, in groups of packed rows."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from tests.backends.program_interpreter import ProgramInterpreter
from tests.conftest import Golden
from tests.lower.quick_code import drawn_code, quick_code
from tests.lower.test_blocking import (
    COUNT,
    SEED,
    Array,
    graph_of,
    never,
    plan_of,
    printed,
    several,
    shared,
    sizes,
    stay_within,
)

import wholestep as ws
from wholestep import nn
from wholestep.backends.cpu.compiler import machine_model
from wholestep.backends.cpu.cpu_features import named_target
from wholestep.lower.blocking.block_sizes import AxisPart, BlockSizes, even_parts, split_axis
from wholestep.lower.blocking.group_kernels import choose_groups
from wholestep.lower.blocking.grouped_contraction import bounded_parts, ends_apart
from wholestep.lower.compile import lower_program
from wholestep.lower.program.program import LoweredProgram
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep.runtime.cpu import thread_pool
from wholestep_tools.drawn.law import compiled

__all__ = ["several", "shared", "sizes"]

Program = Callable[..., Any]
SEQUENCES = ("bti,tbj->ij", "bti,btj->ij", "tbi,btj->ji", "bik,kbj->ij", "cti,tjc->ij", "bti,tcj->bcij")


@pytest.fixture(params=range(COUNT))
def draw(request: pytest.FixtureRequest) -> random.Random:
    return random.Random(f"{SEED}, {request.param}")


def drawn_groups(draw: random.Random) -> Callable[[int], BlockSizes]:
    """Random blocks, small enough that most contractions are several."""
    rows, vectors, terms = draw.choice((1, 2, 4, 6)), draw.choice((1, 2, 3)), draw.choice((3, 8, 16, 40, 256))
    group, scratch, unroll = draw.choice((1, 7, 24, 96)), draw.choice((400, 3000, 1 << 20)), draw.choice((1, 2, 4))
    blocks = {"group": group, "scratch": scratch, "scratch_sums": 2 * scratch, "paired": draw.random() < 0.7}
    return lambda lanes: BlockSizes(lanes, rows, vectors, terms, 64, 64, unroll, **blocks)


def drawn_convolution(draw: random.Random) -> tuple[Program, list[Array]]:
    """A convolution with an epilogue and both its gradients, channels first or last, and its arguments."""
    n, c, o = draw.choice((1, 2, 3)), draw.choice((1, 3, 8, 17)), draw.choice((4, 8, 18, 33))
    stride, dilation, padding = draw.choice((1, 1, 2)), draw.choice((1, 1, 2)), draw.choice((0, 1, 2))
    groups, k, axes = draw.choice((1, 1, 1, 2)), draw.choice((1, 2, 3)), draw.choice((1, 2))
    size = [draw.choice((5, 6, 8, 11)) for _ in range(axes)]
    shapes = [(n, c * groups, *size), (o * groups, c, *[k] * axes)]
    rng, last = np.random.default_rng(draw.randrange(1 << 30)), draw.random() < 0.5
    dtype = np.dtype(draw.choice(("float32", "float32", ml_dtypes.bfloat16)))
    x, w = [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes]
    x = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last else x
    convolved = {1: nn.conv1d, 2: nn.conv2d}[axes]

    def loss(w: Any, x: Any) -> Any:
        x = np.moveaxis(x, -1, 1) if last else x
        y = convolved(x * 2, w, stride=stride, dilation=dilation, padding=padding, groups=groups)
        return np.sum(np.maximum(y, 0) * 2 - y)

    return lambda w, x: (loss(w, x), ws.grad(loss, (0, 1))(w, x)), [w, x]


def drawn_sequence(draw: random.Random) -> tuple[Program, list[Array]]:
    """A sum over several axes with an epilogue, and its arguments."""
    spec = draw.choice(SEQUENCES)
    extents = {c: draw.choice((2, 3, 8, 13, 20)) for c in "btcik"} | {"j": draw.choice((8, 13, 16, 40))}
    operands = spec.split("->")[0].split(",")
    rng, plain = np.random.default_rng(draw.randrange(1 << 30)), draw.random() < 0.5
    dtype = np.dtype(draw.choice(("float32", "float32", ml_dtypes.bfloat16)))
    args = [rng.integers(-3, 4, [extents[c] for c in labels]).astype(dtype) for labels in operands]
    if plain:
        return lambda a, b: np.einsum(spec, a, b), args
    return lambda a, b: np.maximum(np.einsum(spec, a, b), 0) * 2, args


def drawn_program(draw: random.Random) -> tuple[Program, list[Array]]:
    return (drawn_convolution if draw.random() < 0.7 else drawn_sequence)(draw)


def groups_of(plan: LoweredProgram) -> list[str]:
    """The names of the kernels of groups."""
    return [k.name for k in plan.kernels() if k.name.endswith("_groups")]


def flat(results: Any) -> list[Array]:
    return [np.array(x) for x in results]


# Bits.


def test_groups_and_threads_do_not_show(several: dict[str, random.Random], sizes: Any) -> None:
    for number, (name, draw) in enumerate(several.items()):
        compare_groups(name, draw, sizes, number)


def compare_groups(name: str, draw: random.Random, sizes: Any, number: int) -> None:
    """One contraction by one kernel, and by drawn groups with several counts of threads: the same bits."""
    f, args = drawn_program(draw)
    graph = graph_of(f, args)
    sizes(never)
    with thread_pool.threads(1), quick_code():
        plain = flat(compiled(graph)(args))
    wanted = f(*[a.astype("d") for a in args]) if args[0].dtype == np.float32 else plain
    for x, y in zip(plain, ws.tree.flatten(wanted)[0], strict=True):
        assert np.array_equal(x, y), f"draw {name}: small integers are exact"
    sizes(drawn_groups(draw))
    with drawn_code(number):
        program = compiled(graph)
    for count in (1, 2, 3, 4):
        with thread_pool.threads(count):
            found = flat(program(args))
        assert [x.tobytes() for x in found] == [x.tobytes() for x in plain], f"draw {name}, {count} threads"


def test_rounded_sums_have_the_bits_of_one_kernel(sizes: Any) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 7, 9, 21)).astype("f"), rng.normal(size=(24, 21, 3, 3)).astype("f")

    def loss(w: Any, x: Any) -> Any:
        y = nn.conv2d(np.moveaxis(x, -1, 1), w, padding=1)
        return np.mean(np.tanh(y))

    graph = graph_of(ws.grad(loss, (0, 1)), [w, x])
    sizes(never)
    plain = flat(compiled(graph)([w, x]))
    for terms in (9, 40, 400):
        sizes(lambda lanes, terms=terms: BlockSizes(lanes, 6, 2, terms, 64, 64, group=20, scratch=4000))
        assert len(groups_of(plan_of(graph))) >= 3
        for a, b in zip(flat(compiled(graph)([w, x])), plain, strict=True):
            assert a.tobytes() == b.tobytes()


def test_rows_that_few_panels_use_are_read_in_place(sizes: Any) -> None:
    """Windows of three lines of an image: its lines lie apart, and the elements of one line are contiguous."""
    rng = np.random.default_rng(0)
    x, w = [rng.normal(size=shape).astype("f") for shape in ((2, 14, 16, 17), (3, 3, 17, 24))]

    def f(x: Any, w: Any) -> Any:
        return np.maximum(np.einsum("nxycij,ijco->nxyo", sliding_window_view(x, (3, 3), axis=(1, 2)), w), 0)

    graph = graph_of(f, [x, w])
    sizes(never)
    (plain,) = compiled(graph)([x, w])
    for terms in (51, 160):
        sizes(lambda lanes, terms=terms: BlockSizes(lanes, 6, 2, terms, 64, 64, group=96, scratch=1 << 20))
        groups = [str(k) for k in plan_of(graph).kernels() if k.name.endswith("_groups")]
        assert groups
        assert not any("packed_rows" in text for text in groups)
        assert any("for a in 3" in text for text in groups) == (terms == 160)
        (found,) = compiled(graph)([x, w])
        assert found.tobytes() == plain.tobytes()


def test_columns_that_lie_as_they_would_be_packed_are_read_in_place(sizes: Any) -> None:
    """Kernels of as many filters as a panel has columns, filters last, and a gradient over as many of them."""
    rng = np.random.default_rng(0)
    x, w, g = [rng.normal(size=shape).astype("f") for shape in ((2, 9, 9, 17), (3, 3, 17, 32), (2, 7, 7, 32))]

    def f(x: Any, w: Any, g: Any) -> Any:
        seen = sliding_window_view(x, (3, 3), axis=(1, 2))
        return np.einsum("nxycij,ijco->nxyo", seen, w), np.einsum("nxycij,nxyo->cijo", seen, g)

    graph = graph_of(f, [x, w, g])
    sizes(never)
    plain = compiled(graph)([x, w, g])
    for terms in (14, 51, 160):
        sizes(lambda lanes, terms=terms: BlockSizes(lanes, 6, 32 // lanes, terms, 64, 64, group=40, scratch=1 << 20))
        groups = [str(k) for k in plan_of(graph).kernels() if k.name.endswith("_groups")]
        assert groups
        assert not any("packed_columns" in text for text in groups)
        for found, expected in zip(compiled(graph)([x, w, g]), plain, strict=True):
            assert found.tobytes() == expected.tobytes()


def test_columns_whose_terms_lie_apart_are_packed(sizes: Any) -> None:
    """A gradient over a part of each line of an image, so that the distance of lines is more than their length."""
    rng = np.random.default_rng(0)
    x, g = [rng.integers(-3, 4, shape).astype("f") for shape in ((2, 9, 9, 17), (2, 7, 9, 32))]

    def f(x: Any, g: Any) -> Any:
        return np.einsum("nxycij,nxyo->cijo", sliding_window_view(x, (3, 3), axis=(1, 2)), g[:, :, 1:8])

    graph = graph_of(f, [x, g])
    for terms, packed in ((4, False), (40, True)):
        sizes(lambda lanes, terms=terms: BlockSizes(lanes, 6, 32 // lanes, terms, 64, 64, group=40, scratch=1 << 20))
        groups = [str(k) for k in plan_of(graph).kernels() if k.name.endswith("_groups")]
        assert groups
        assert any("packed_columns" in text for text in groups) == packed
        (found,) = compiled(graph)([x, g])
        assert np.array_equal(found, f(x.astype("d"), g.astype("d")))


def test_kernels_of_convolutions_are_moved_to_panels_and_never_packed() -> None:
    """Filters first, as users store them: one copy arranges panels of columns, which blocks of terms read in place."""
    rng = np.random.default_rng(0)
    x, w = [rng.integers(-3, 4, shape).astype("f") for shape in ((2, 12, 12, 32), (128, 32, 3, 3))]

    def f(x: Any, w: Any) -> Any:
        seen = sliding_window_view(x, (3, 3), axis=(1, 2))
        return np.maximum(np.einsum("nxycij,ocij->nxyo", seen, w) * 2, 1)

    graph = graph_of(f, [x, w])
    plan = plan_of(graph)
    assert groups_of(plan)
    assert not [k.name for k in plan.kernels() if k.name.endswith("_pack_columns")]
    (found,) = compiled(graph)([x, w])
    assert np.array_equal(found, f(x.astype("d"), w.astype("d")))


def test_filters_of_symbolic_number_are_moved_as_they_are() -> None:
    """A symbolic number of filters cannot be split into panels."""
    size = ws.Dim("C")
    types = {"x": ws.ShapeDtype((2, 32, 8, 8), "float32"), "w": ws.ShapeDtype((size, 32, 3, 3), "float32")}
    scale = {"a": np.ones(32, "f")}

    def loss(params: Any, batch: Any) -> Any:
        return np.mean(nn.conv2d(batch["x"] * params["a"][:, None, None], batch["w"], padding=1) ** 2)

    step = ws.compile(loss, scale, optimizer=ws.optim.sgd(0.0), batch=types)
    rng = np.random.default_rng(0)
    for filters in (96, 128):
        drawn = {"x": (2, 32, 8, 8), "w": (filters, 32, 3, 3)}
        batch = {name: rng.normal(size=shape).astype("f") for name, shape in drawn.items()}
        assert np.allclose(step(batch).loss, loss(scale, batch), rtol=1e-4)


def test_sums_of_many_columns_wait_for_rows_that_lie_apart(sizes: Any) -> None:
    """The addend of the sums has the rows in another order, so that they are not one axis."""
    rng = np.random.default_rng(0)
    args = [rng.integers(-3, 4, shape).astype("f") for shape in ((6, 4, 6, 4), (4, 6, 64), (4, 6, 64))]

    def f(a: Any, b: Any, c: Any) -> Any:
        return np.maximum(np.einsum("btih,tbj->ihj", a, b), 0) + c.transpose(1, 0, 2)

    sizes(lambda lanes: BlockSizes(lanes, 6, 2, 8, 64, 64, group=12, scratch=300, scratch_sums=600))
    graph = graph_of(f, args)
    assert groups_of(plan_of(graph))
    (found,) = compiled(graph)(args)
    assert np.array_equal(found, f(*args))


def test_sums_of_many_columns_wait_for_terms_that_are_taken_step_by_step(sizes: Any) -> None:
    """Blocks of one step of an axis are of one kind, of which there are several: no block of columns may read another's
    sums from the scratch memory.
    """
    rng = np.random.default_rng(0)
    x, w = [rng.integers(-3, 4, shape).astype("f") for shape in ((2, 5, 6, 17), (2, 2, 17, 18))]

    def f(x: Any, w: Any) -> Any:
        y = np.einsum("nxycij,ijco->nxyo", sliding_window_view(x, (2, 2), axis=(1, 2)), w)
        return np.maximum(y, 0), y * 2

    sizes(lambda lanes: BlockSizes(8, 4, 2, 16, 64, 64, group=96, scratch=400, scratch_sums=800))
    graph = graph_of(f, [x, w])
    assert groups_of(plan_of(graph))
    for found, wanted in zip(compiled(graph)([x, w]), f(x.astype("d"), w.astype("d")), strict=True):
        assert np.array_equal(found, wanted)


def test_most_of_what_is_drawn_is_grouped(sizes: Any) -> None:
    found = 0
    for n in range(40):
        draw = random.Random(f"{SEED}, {n}")
        f, args = drawn_program(draw)
        sizes(drawn_groups(draw))
        found += bool(groups_of(plan_of(graph_of(f, args))))
    assert found >= 20


def test_kernels_of_groups_stay_within_their_buffers(draw: random.Random, sizes: Any) -> None:
    """Every kernel on arrays between pages that may not be touched, against its meaning in NumPy."""
    f, args = drawn_program(draw)
    sizes(drawn_groups(draw))
    plan = lower_program(graph_of(f, args), machine_model(named_target("x86-64-v2")))
    names = {*groups_of(plan)}
    stay_within([k for k in plan.kernels() if k.name in names or k.name.endswith("_pack_columns")][:4], bound=0.0)


def test_the_interpreter_of_programs_agrees(sizes: Any) -> None:
    rng = np.random.default_rng(0)
    x, w = [rng.integers(-3, 4, shape).astype("f") for shape in ((2, 6, 7, 9), (3, 3, 9, 20))]

    def f(x: Any, w: Any) -> Any:
        return np.maximum(np.einsum("nxycij,ijco->nxyo", sliding_window_view(x, (3, 3), axis=(1, 2)), w), 0)

    sizes(lambda lanes: BlockSizes(lanes, 6, 2, 20, 64, 64, group=10, scratch=2000, scratch_sums=4000))
    plan = plan_of(graph_of(f, [x, w]))
    assert groups_of(plan)
    (found,) = ProgramInterpreter(plan)([x, w])
    assert np.array_equal(found, f(x.astype(float), w))


# Plans.


def test_a_convolution_in_groups(golden: Golden, sizes: Any) -> None:
    args = [np.zeros(shape, "f") for shape in ((2, 6, 6, 16), (3, 3, 16, 24))]

    def f(x: Any, w: Any) -> Any:
        return np.maximum(np.einsum("nxycij,ijco->nxyo", sliding_window_view(x, (3, 3), axis=(1, 2)), w), 0)

    sizes(lambda lanes: BlockSizes(lanes, 6, 2, 48, 64, 64, group=12, scratch=2000, scratch_sums=4000))
    assert printed(plan_of(graph_of(f, args))) == golden


def test_windows_are_never_an_array_of_their_own() -> None:
    args = [np.zeros(shape, "f") for shape in ((16, 34, 34, 64), (3, 3, 64, 128))]

    def f(x: Any, w: Any) -> Any:
        return np.tanh(np.einsum("nxycij,ijco->nxyo", sliding_window_view(x, (3, 3), axis=(1, 2)), w))

    plan = plan_of(graph_of(f, args))
    assert groups_of(plan)
    assert plan.arena <= 17 << 20 < 9 * args[0].nbytes


def test_a_depthwise_convolution_makes_no_windows() -> None:
    """Between pointwise convolutions values have their channels last, with vectors along them, forward and backward."""
    x, point, depth = [np.zeros(shape, "f") for shape in ((2, 16, 12, 12), (16, 16, 1, 1), (16, 1, 3, 3))]

    def loss(point: Any, depth: Any, x: Any) -> Any:
        h = np.maximum(nn.conv2d(x, point), 0)
        h = np.maximum(nn.conv2d(h, depth, padding=1, groups=16), 0)
        return np.sum(nn.conv2d(h, point) ** 2)

    plan = plan_of(run_passes(graph_of(ws.grad(loss, (0, 1)), [point, depth, x]), ALL_PASSES))
    assert max(b.size for k in plan.kernels() for b in k.buffers) <= 2 * 16 * 14 * 14
    inside = [k for k in plan.kernels() if k.name.startswith("contract") and re.search(r"for [ir]\d in 3\b", str(k))]
    assert len(inside) == 3
    assert all("for i3 in 16 lanes 8" in str(k) or "for i2 in 16 lanes 8" in str(k) for k in inside)


def test_a_depthwise_convolution_of_tokens_has_vectors_along_channels() -> None:
    """Tokens of a product are read as images: they keep their channels last, forward and backward."""
    shapes = {"tokens": (2, 144, 8), "up": (8, 16), "bias": (16,), "depth": (16, 1, 3, 3), "down": (16, 8)}
    args = {name: np.zeros(shape, "f") for name, shape in shapes.items()}

    def loss(tokens: Any, up: Any, bias: Any, depth: Any, down: Any) -> Any:
        h = np.swapaxes(tokens @ up + bias, 1, 2).reshape(2, 16, 12, 12)
        h = nn.conv2d(h, depth, padding=1, groups=16)
        return np.sum((np.swapaxes(h.reshape(2, 16, 144), 1, 2) @ down) ** 2)

    graph = graph_of(ws.grad(loss, tuple(range(5))), list(args.values()))
    plan = plan_of(run_passes(graph, ALL_PASSES))
    assert max(b.size for k in plan.kernels() for b in k.buffers) <= 2 * 16 * 14 * 14
    inside = [k for k in plan.kernels() if k.name.startswith("contract") and re.search(r"for [ir]\d in 3\b", str(k))]
    assert len(inside) == 3
    assert all(re.search(r"for i\d in 16 lanes 8", str(k)) for k in inside)


def test_a_padded_pool_between_convolutions_lies_channels_last() -> None:
    """The border of -inf and the derivatives have the layout of the convolution."""
    x, w = [np.zeros(shape, "f") for shape in ((2, 16, 12, 12), (16, 16, 3, 3))]

    def loss(w: Any, x: Any) -> Any:
        h = nn.max_pool2d(np.maximum(nn.conv2d(x, w, padding=1), 0), 3, 2, 1)
        return np.sum(nn.conv2d(h, w, padding=1) ** 2)

    plan = plan_of(run_passes(graph_of(ws.grad(loss, (0, 1)), [w, x]), ALL_PASSES))
    pools = [k for k in plan.kernels() if "not_equal" in k.name or "pad_pad" in k.name]
    assert pools
    assert all(re.search("for i[23] in (16|96) lanes 8", str(k)) for k in pools)


def packing_of(spec: str, *shapes: tuple[int, ...]) -> str:
    """The first loop with vectors, that of the packing, of a product of windows of 3 by 3; its numbers are right.

    The first operand is windows of an array of the first shape, along the axes of x and y.
    """
    rng = np.random.default_rng(0)
    x, y = [rng.integers(-3, 4, shape).astype("f") for shape in shapes]
    axes = (spec.index("x"), spec.index("y"))

    def f(x: Any, y: Any) -> Any:
        return np.einsum(spec, sliding_window_view(x, (3, 3), axis=axes), y)

    graph = graph_of(f, [x, y])
    (groups,) = {k for k in plan_of(graph).kernels() if k.name.endswith("_groups")}
    (found,) = compiled(graph)([x, y])
    assert np.array_equal(found, f(x.astype("d"), y.astype("d")))
    return next(line for line in str(groups).splitlines() if "lanes" in line)


def test_rows_that_lie_side_by_side_are_packed_without_turning() -> None:
    """The weight gradient of a convolution: its rows are channels, so that each term is packed by vector loads."""
    assert "in 32 lanes 8" in packing_of("nxycij,nxyo->cijo", (4, 12, 12, 32), (4, 10, 10, 48))


def test_images_with_channels_first_are_packed_along_their_places() -> None:
    """A window of 3 by 3 is contiguous for 3 terms: vectors are along the places of a row."""
    assert "in 32 lanes 8" in packing_of("ncxyij,ocij->nxyo", (4, 24, 34, 34), (40, 24, 3, 3))


def test_images_whose_terms_lie_apart_are_packed_by_the_thread_that_uses_them() -> None:
    rng = np.random.default_rng(0)
    x, w = [rng.integers(-3, 4, shape).astype("f") for shape in ((8, 48, 24, 24), (40, 48))]

    def f(x: Any, w: Any) -> Any:
        return np.einsum("ncxy,oc->nxyo", x, w)

    graph = graph_of(f, [x, w])
    names = {k.name for k in plan_of(graph).kernels()}
    assert "contract_groups" in names and "contract_pack_rows" not in names
    (found,) = compiled(graph)([x, w])
    assert np.array_equal(found, f(x.astype("d"), w.astype("d")))


def test_few_products_over_several_axes_stay_loops() -> None:
    args = [np.zeros(shape, "f") for shape in ((2, 6, 6, 8), (3, 3, 8, 16))]

    def f(x: Any, w: Any) -> Any:
        return np.einsum("nxycij,ijco->nxyo", sliding_window_view(x, (3, 3), axis=(1, 2)), w)

    assert not groups_of(plan_of(graph_of(f, args)))


def test_groups_are_whole_parts_of_rows() -> None:
    for extents in ((32, 8, 8), (4, 7, 7), (1, 13, 13), (64,), (1021,), (5, 97)):
        for most in (1, 20, 96):
            groups = choose_groups(extents, len(extents), 6, most)
            assert extents[groups.axis] % groups.steps == 0
            # 97 is prime, so that a group is a whole row of it
            larger = (extents, most) == ((5, 97), 20)
            assert groups.size(extents) == 97 if larger else groups.size(extents) <= most + most // 2


def test_parts_of_several_axes_cover_all_points_in_order() -> None:
    for extents in ((32, 8, 8), (3, 3, 64), (3, 3, 700), (5, 1), (7,)):
        axes: Any = [type("Axis", (), {"extent": n}) for n in extents]
        for most in (1, 20, 100, 5000):
            for split in (split_axis, even_parts):
                parts = bounded_parts(axes, most, split)
                for extent, found in zip(extents, parts, strict=True):
                    for first, last in ((False, False), (True, False), (False, True), (True, True)):
                        at = 0
                        for part in (apart := ends_apart(found, first, last)):
                            assert part.start == at
                            at += part.extent * part.trips
                        assert at == extent
                        assert not first or apart[0].trips == 1
                        assert not last or apart[-1].trips == 1
                cut = [any(p != AxisPart(0, n) for p in found) for n, found in zip(extents, parts, strict=True)]
                assert cut == sorted(cut, reverse=True), "no axis inside one that is cut is cut, but for single steps"
