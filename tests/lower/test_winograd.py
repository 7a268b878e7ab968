"""Convolutions by tiles: within the bound of their roundings, the same for all threads, and only where they are asked
for and pay."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view

import wholestep as ws
from wholestep import config
from wholestep.backends.cpu.compiler import machine_model
from wholestep.backends.cpu.cpu_features import host_target
from wholestep.backends.reference import interpret
from wholestep.compiler.driver import compile_graph
from wholestep.errors import ParameterError, UnsupportedError
from wholestep.ir.graph import Graph, NDArray
from wholestep.lower.compile import lower_program
from wholestep.lower.legalize import tiled_convolutions
from wholestep.lower.legalize.pipeline import legalize
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep.runtime.cpu import thread_pool
from wholestep.train.inspect.verification.subject import Subject

MACHINE = machine_model(host_target())
DATA = np.array([[1, 0, -1, 0], [0, 1, 1, 0], [0, -1, 1, 0], [0, 1, 0, -1]])
KERNEL = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
RESULT = np.array([[1, 1, 1, 0], [0, 1, -1, -1]])
"""The matrices of F(2x2, 3x3) as Lavin and Gray (2016) print them."""
ADDED = 24
"""The roundings of a result beside those of its sum over channels or tiles: 2 of a transformed tile, 9 of a kernel or
2 of a tile of cotangents, 6 of the transform back, and a margin for the conversion of the sum of these to a
factor."""


FORWARD_AND_GRADIENTS = ["a convolution", "a convolution", "the gradient of a kernel"]
"""The tiled operations for a convolution and its gradients; the gradient of the images is another convolution."""


def kinds(notes: Iterable[str]) -> list[str]:
    """The kinds of operations that these notes say are computed by tiles."""
    assert all([note.startswith("by tiles: ") for note in notes]), notes
    return sorted([note.removeprefix("by tiles: ").partition(",")[0] for note in notes])


def convolved(x: Any, k: Any, pad: int) -> Any:
    """A convolution of [n, c, h, w] with [o, c, i, j]."""
    windows = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))), k.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, k)


def forward_and_gradients(x: Any, k: Any, g: Any, pad: int) -> Any:
    """A convolution, and the gradients of its product with g."""
    y, pull = ws.vjp(lambda x, k: convolved(x, k, pad), x, k)
    return y, *pull(g)


def flipped(k: NDArray) -> NDArray:
    """The kernel of the input's gradient."""
    return np.flip(k, (2, 3)).swapaxes(0, 1)


def exact(x: NDArray, k: NDArray, g: NDArray, pad: int) -> list[NDArray]:
    """The convolution and its gradients in a wider dtype, by their definition."""
    x, k, g = [a.astype(np.longdouble if a.dtype == np.float64 else np.float64) for a in (x, k, g)]
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    gk = np.einsum("nchwij,nohw->ocij", sliding_window_view(padded, (3, 3), axis=(2, 3)), g)
    return [convolved(x, k, pad), convolved(g, flipped(k), 2 - pad), gk]


def tile_sizes(x: NDArray, g: NDArray, k: NDArray | None) -> NDArray:
    """The bound of the intermediate sums of a convolution by tiles, or of a kernel's gradient for `k` None, computed
    with absolute values of operands and coefficients."""
    a, b, c = abs(RESULT), abs(DATA), abs(KERNEL)
    h, w = [x.shape[i] - 2 for i in (2, 3)]
    whole = np.pad(abs(x), ((0, 0), (0, 0), (0, h % 2), (0, w % 2)))
    tiles = np.einsum("ai,bj,nctsij->nctsab", b, b, sliding_window_view(whole, (4, 4), axis=(2, 3))[:, :, ::2, ::2])
    if k is not None:
        factors = np.einsum("ai,bj,ocij->ocab", c, c, abs(k))
        found = np.einsum("ua,vb,nctsab,ocab->notusv", a, a, tiles, factors, optimize=True)
        return found.reshape(*found.shape[:2], 2 * found.shape[2], -1)[:, :, :h, :w]
    results = np.pad(abs(g), ((0, 0), (0, 0), (0, h % 2), (0, w % 2)))
    pairs = results.reshape(*results.shape[:2], -(-h // 2), 2, -(-w // 2), 2)
    spread = np.einsum("ua,vb,notusv->notsab", a, a, pairs)
    return np.einsum("ai,bj,nctsab,notsab->ocij", c, c, tiles, spread, optimize=True)


def bounds(x: NDArray, k: NDArray, g: NDArray, pad: int) -> list[NDArray]:
    """The bounds of the errors of a convolution and of its gradients, by tiles."""
    unit = np.finfo(x.dtype).eps / 2
    wide = [np.pad(a.astype(np.float64), ((0, 0), (0, 0), (p, p), (p, p))) for a, p in ((x, pad), (g, 2 - pad))]
    back = flipped(k).astype(np.float64)
    tiles = g.shape[0] * -(-g.shape[2] // 2) * -(-g.shape[3] // 2)
    return [
        (k.shape[1] + ADDED) * unit * tile_sizes(wide[0], g, k.astype(np.float64)),
        (k.shape[0] + ADDED) * unit * tile_sizes(wide[1], x, back),
        (tiles + ADDED) * unit * tile_sizes(wide[0], g.astype(np.float64), None),
    ]


def drawn(seed: int, into: int, onto: int, dtype: str, most: int = 5) -> tuple[NDArray, NDArray, NDArray, int]:
    """Images, a kernel, cotangents and a padding; sizes odd and even."""
    rng = np.random.default_rng(seed)
    n, pad = int(rng.integers(1, most + 1)), int(rng.integers(0, 3))
    h, w = [int(rng.integers(4, 14)) for _ in range(2)]
    shapes = (n, into, h, w), (onto, into, 3, 3), (n, onto, h + 2 * pad - 2, w + 2 * pad - 2)
    x, k, g = [rng.normal(size=shape).astype(dtype) for shape in shapes]
    return x, k, g, pad


@pytest.fixture
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use tiles for any number of channels and tiles."""
    monkeypatch.setattr(tiled_convolutions, "CHANNELS", 1)
    monkeypatch.setattr(tiled_convolutions, "TILES", 1)


def check_bounds(found: Any, x: NDArray, k: NDArray, g: NDArray, pad: int) -> None:
    """Compare results with the exact ones."""
    for name, y, z, most in zip("y x k".split(), found, exact(x, k, g, pad), bounds(x, k, g, pad), strict=True):
        assert y.dtype == x.dtype and (abs(y - z) <= most).all(), f"{name}: {(abs(y - z) / most).max()} of the bound"


def tiled(graph: Graph) -> tuple[Graph, tuple[str, ...]]:
    """A graph after the passes with its convolutions by tiles."""
    return tiled_convolutions.convolutions_by_tiles(run_passes(graph, ALL_PASSES))


@pytest.mark.parametrize("seed", range(12))
def test_small_convolutions_are_within_their_bounds(seed: int, everywhere: None) -> None:
    x, k, g, pad = drawn(seed, 1 + seed % 4, 1 + seed % 3, "f4" if seed % 2 else "f8")
    graph, notes = tiled(ws.jit(lambda x, k, g: forward_and_gradients(x, k, g, pad)).lower(x, k, g))
    assert kinds(notes) == FORWARD_AND_GRADIENTS
    assert not any([node.op.name == "window" for node in graph.nodes])
    check_bounds(interpret(graph, [x, k, g]), x, k, g, pad)


@pytest.mark.parametrize(("into", "onto"), [(64, 64), (65, 66), (128, 64), (130, 67)])
def test_compiled_convolutions_are_within_their_bounds(into: int, onto: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiled_convolutions, "CHANNELS", 64)
    monkeypatch.setattr(tiled_convolutions, "TILES", 1)
    x, k, g, pad = drawn(into + onto, into, onto, "f4")
    program = compile_graph(ws.jit(lambda x, k, g: forward_and_gradients(x, k, g, pad)).lower(x, k, g), winograd=True)
    assert kinds(program.plan.notes) == FORWARD_AND_GRADIENTS
    check_bounds(program([x, k, g]), x, k, g, pad)


def test_images_with_channels_last_and_other_orders_of_kernels(everywhere: None) -> None:
    rng = np.random.default_rng(3)
    x, k = rng.normal(size=(2, 7, 6, 3)), rng.normal(size=(3, 3, 3, 4))

    def f(x: Any, k: Any) -> Any:
        return np.einsum("nhwcij,ijco->onwh", sliding_window_view(x, (3, 3), axis=(1, 2)), k)

    graph, (note,) = tiled(ws.jit(f).lower(x, k))
    assert note.startswith("by tiles: a convolution")
    np.testing.assert_allclose(interpret(graph, [x, k])[0], f(x, k), rtol=0, atol=1e-12)


def test_what_is_no_such_convolution_stays(everywhere: None) -> None:
    x, k = np.ones((2, 3, 9, 9), np.float32), np.ones((4, 3, 3, 3), np.float32)

    def notes(f: Any, *args: Any) -> list[str]:
        graph = ws.jit(f).lower(*args)
        made, found = tiled(graph)
        assert made is run_passes(graph, ALL_PASSES) or str(made) == str(run_passes(graph, ALL_PASSES))
        return [note.partition(", at")[0] for note in found]

    said = "not by tiles: a convolution, since "
    assert notes(lambda x, k: convolved(x, k[..., :2, :2], 0), x, k) == [said + "its windows are 2 by 2"]
    assert notes(lambda x, k: convolved(x, k, 0), x.astype("f2"), k.astype("f2")) == [said + "its elements are float16"]
    groups = lambda x, k: np.einsum("nchwij,cij->nchw", sliding_window_view(x, (3, 3), axis=(2, 3)), k)  # noqa: E731
    assert notes(groups, x, k[0]) == [said + "its channels are in groups"]
    strided = lambda x, k: np.einsum("nchwij,ocij->nohw", sliding_window_view(x, (3, 3), axis=(2, 3))[:, :, ::2], k)  # noqa: E731
    assert notes(strided, x, k) == [said + "its windows have a stride or a dilation"]
    assert notes(lambda x, k: x @ x, x, k) == []


def test_few_channels_and_few_tiles_stay() -> None:
    def note(n: int, into: int, onto: int, h: int) -> str:
        given = np.ones((n, into, h, h), np.float32), np.ones((onto, into, 3, 3), np.float32)
        return tiled(ws.jit(lambda x, k: convolved(x, k, 1)).lower(*given))[1][0].partition(", at")[0]

    channels, tiles = tiled_convolutions.CHANNELS, tiled_convolutions.TILES
    assert note(tiles, channels, channels, 2) == "by tiles: a convolution"
    few = f"it has {channels - 1} channels, fewer than {channels}"
    assert note(tiles, channels - 1, channels, 2).endswith(few)
    assert note(tiles, channels, channels - 1, 2).endswith(few)
    assert note(tiles - 1, channels, channels, 1).endswith(f"it has {tiles - 1} tiles, fewer than {tiles}")


def loss(p: Any, batch: Any) -> Any:
    """The mean square of two convolutions, the second of which has a gradient for its input."""
    return np.mean(convolved(np.maximum(convolved(batch, p["first"], 1), 0), p["second"], 1) ** 2)


def parameters(c: int) -> dict[str, NDArray]:
    """Two random kernels [c, c, 3, 3]."""
    rng = np.random.default_rng(0)
    return {name: (rng.normal(size=(c, c, 3, 3)) / 30).astype(np.float32) for name in ("first", "second")}


def step_of(winograd: bool, c: int = 0, n: int = 4, **options: Any) -> tuple[Any, NDArray]:
    """A step with these kernels, and a batch."""
    c = c or tiled_convolutions.CHANNELS
    batch = np.random.default_rng(1).normal(size=(n, c, 9, 8)).astype(np.float32)
    made = ws.compile(loss, parameters(c), optimizer=ws.optim.sgd(0.1), batch=batch, winograd=winograd, **options)
    return made, batch


def test_threads_change_nothing() -> None:
    c = tiled_convolutions.CHANNELS
    x, k, g = [np.random.default_rng(0).normal(size=s).astype("f4") for s in ((5, c, 9, 9), (c, c, 3, 3), (5, c, 9, 9))]
    graph = ws.jit(lambda x, k, g: forward_and_gradients(x, k, g, 1)).lower(x, k, g)
    program = compile_graph(graph, winograd=True)
    assert all([note.startswith("by tiles") for note in program.plan.notes])
    with thread_pool.threads(1):
        alone = [y.tobytes() for y in program([x, k, g])]
    for count in (2, 3, 4):
        with thread_pool.threads(count):
            assert [y.tobytes() for y in program([x, k, g])] == alone


def test_without_the_option_nothing_changes() -> None:
    step, _ = step_of(False)
    assert "tiles" not in step.explain() and step.plan.notes == ()
    graph = run_passes(step.graph, ALL_PASSES)
    assert str(lower_program(graph, MACHINE)) == str(lower_program(graph, MACHINE, winograd=False))
    windows = [node for node in legalize(graph, MACHINE).graph.nodes if node.op.name == "window"]
    assert windows and not [n for n in legalize(graph, MACHINE, True).graph.nodes if n.op.name == "window"]


def test_the_step_says_what_it_computes_by_tiles() -> None:
    step, _ = step_of(True)
    lines = [line.strip() for line in step.explain().splitlines() if "by tiles" in line]
    assert kinds(lines) == FORWARD_AND_GRADIENTS
    assert len([line for line in lines if line.endswith('np.einsum("nchwij,ocij->nohw", windows, k)')]) == 2
    few, _ = step_of(True, c=3)
    (line, *_) = [line for line in few.explain().splitlines() if "by tiles" in line]
    assert "not by tiles: a convolution, since it has 3 channels, fewer than" in line
    none = ws.compile(lambda p, x: np.sum(p * x), np.ones(3), batch=np.ones(3), winograd=True)
    assert "by tiles: nothing, since there is no convolution over images" in none.explain()


def test_verification_raises_no_false_alarm() -> None:
    step, batch = step_of(True)
    step(batch)
    assert step.verify(batch).ok


def test_numpy_rounds_the_tiles_of_a_step_that_has_them() -> None:
    def windows(winograd: bool) -> int:
        step, _ = step_of(winograd)
        subject = SimpleNamespace(engine=SimpleNamespace(step_function=SimpleNamespace(winograd=winograd)))
        graph = Subject.rounded(subject, step.graph)  # type: ignore[arg-type]  # all that it looks at
        return len([node for node in graph.nodes if node.op.name == "window"])

    assert windows(False) > windows(True) == 0


def test_a_step_with_tiles_trains_as_one_without() -> None:
    (one, batch), (other, _) = step_of(True), step_of(False)
    found = [[step(batch).loss for _ in range(3)] for step in (one, other)]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)
    assert found[0] != found[1] or not np.array_equal(one.params["first"], other.params["first"])


def test_what_is_not_finite_spreads_no_further_than_its_tiles() -> None:
    c = tiled_convolutions.CHANNELS
    rng = np.random.default_rng(0)
    x, k = rng.normal(size=(4, c, 10, 10)).astype("f4"), rng.normal(size=(c, c, 3, 3)).astype("f4")
    f = ws.jit(lambda x, k: convolved(x, k, 0), winograd=True)
    before = f(x, k)
    x[1, 5, 4, 7] = np.inf
    after = f(x, k)
    # Pixel (4, 7) is in the tiles whose results are rows 2 to 5 and columns 4 to 7; windows reach it from 2..4, 5..7.
    beside = np.ones(after.shape, bool)
    beside[1, :, 2:6, 4:8] = False
    assert np.array_equal(after[beside], before[beside])
    assert not np.isfinite(after[1, :, 2:5, 5:8]).any()


def test_choices_that_are_none() -> None:
    with pytest.raises(ParameterError, match="jit: winograd is 'yes'"):
        ws.jit(np.sin, winograd="yes")  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="compile: winograd is 1"):
        ws.compile(loss, parameters(2), batch=np.ones((1, 2, 4, 4), np.float32), winograd=1)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="winograd=True on the device 'reference'"):
        ws.jit(np.sin, winograd=True, device="reference")
    with pytest.raises(UnsupportedError, match="compile: winograd=True on the device 'reference'"):
        step_of(True, c=2, device="reference")


def test_the_option_is_part_of_the_cached_code(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "cache_place", lambda: str(tmp_path))
    c = tiled_convolutions.CHANNELS
    x, k = [np.random.default_rng(0).normal(size=s).astype("f4") for s in ((5, c, 9, 9), (c, c, 3, 3))]
    graph = ws.jit(lambda x, k: convolved(x, k, 1)).lower(x, k)
    found = [compile_graph(graph, winograd=w)([x, k])[0].tobytes() for w in (False, True, False, True)]
    assert found[0] == found[2] != found[1] == found[3]
    assert any([file.is_file() for file in tmp_path.rglob("*")])


def test_the_option_goes_where_the_program_goes() -> None:
    f = pickle.loads(pickle.dumps(ws.jit(np.negative, winograd=True)))
    assert f.winograd and f.alike(np.negative).winograd
    step, batch = step_of(True)
    forecast = ws.estimate(loss, parameters(batch.shape[1]), optimizer=ws.optim.sgd(0.1), batch=batch, winograd=True)
    assert forecast.arena == step.memory.arena
    assert forecast.plan.notes == step.plan.notes


def test_convolutions_in_a_loop_are_computed_by_tiles() -> None:
    c = tiled_convolutions.CHANNELS
    batch = np.ones((2, 4, c, 9, 8), np.float32)
    step = ws.compile(loss, parameters(c), optimizer=ws.optim.sgd(0.1), batch=batch, steps_per_call=2, winograd=True)
    assert kinds(step.plan.notes) == FORWARD_AND_GRADIENTS
