"""Memory-mapped files change no result: random training steps with a mapped state, and each way to stream it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import wholestep as ws
from wholestep.backends.cpu.target import row_streaming, split_launches
from wholestep.backends.cpu.target.machine import CpuMachine
from wholestep.compiler.driver import compile_graph
from wholestep.errors import PlanError, StorageError, UnsupportedError
from wholestep.lower.buffers.tasks import ProgramBuilder
from wholestep.lower.compile import lower_program
from wholestep.lower.program.program import LoweredProgram
from wholestep.lower.program.steps import PREFETCH, RELEASE, ForLoop, Launch, RoutineCall, walk_steps
from wholestep.lower.verify_program import verify_program
from wholestep.passes.pipeline import ALL_PASSES, run_passes
from wholestep.runtime.cpu import page_prefetcher, thread_pool
from wholestep.runtime.memory import mapped_arrays
from wholestep.runtime.memory.mapped_arrays import FileInputs, is_file_backed, zeros_in_file
from wholestep_tools.drawn.training import Training, training

SEED, COUNT = 31, 16
MACHINE = CpuMachine(vector=32, registers=16)


pytestmark = pytest.mark.usefixtures("small_pieces")


def in_files(x: np.ndarray, folder: Path) -> np.ndarray:
    made = zeros_in_file(x.shape, x.dtype, folder)
    made[...] = x
    return made


def outputs(made: Training, streams: FileInputs) -> list[np.ndarray]:
    """All outputs of two calls on resident state, a part of which is memory-mapped."""
    state = [
        in_files(made.args[i], streams.folder) if i in streams.inputs else made.args[i].copy() for i, _ in made.resident
    ]
    program = compile_graph(made.graph, made.resident, None, streams)
    program.executable.artefact = replace(program.executable.artefact, undone=False)  # none of these fails
    instance = program.instance(state)
    rest = [[np.array(x) for x in instance(made.args[len(state) :])] for _ in range(2)]
    return [*state, *rest[0], *rest[1]]


@pytest.mark.parametrize("number", range(COUNT))
def test_what_lies_in_files_changes_nothing(number: int, tmp_path: Path) -> None:
    made = training((SEED, number), 25)
    rng = np.random.default_rng(number)
    inputs = tuple(i for i, _ in made.resident if rng.random() < 0.8)
    found = lower_program(run_passes(made.graph, ALL_PASSES), MACHINE, made.resident, None, inputs)
    verify_program(found)
    for x, y in zip(outputs(made, FileInputs()), outputs(made, FileInputs(inputs, tmp_path)), strict=True):
        assert x.tobytes() == y.tobytes()


def layer(x, p):
    return x + np.tanh(x @ p["w"] + p["b"]), None


def loss(params, x):
    return np.mean(ws.scan(ws.checkpoint(layer), x, params)[0] ** 2)


def stack(layers: int, width: int = 32) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(layers)
    return {"w": rng.normal(size=(layers, width, width)) / width, "b": np.zeros((layers, width))}


def stacked_plan(layers: int) -> LoweredProgram:
    """A step of descent through so many layers; its state, the parameters, lies in files."""

    def step(params, x):
        value, grads = ws.value_and_grad(loss)(params, x)
        return {name: p - 0.1 * grads[name] for name, p in params.items()}, value

    graph = ws.jit(step).lower(stack(layers), np.ones((4, 32)))
    return lower_program(run_passes(graph, ALL_PASSES), MACHINE, [(0, 0), (1, 1)], None, (0, 1))


def test_what_a_stack_keeps_lies_in_the_file_and_the_arena_is_that_of_one_layer() -> None:
    few, many = stacked_plan(4), stacked_plan(32)
    verify_program(many)
    assert few.arena == many.arena
    inputs, gradients = 4 * 32 * 8, 32 * (32 + 1) * 8
    assert few.file == 4 * (inputs + gradients) and many.file == 32 * (inputs + gradients)
    assert many.slots[-1].kind == "file" and many.slots[-1].type.nbytes == many.file
    assert not any(h.nbytes > 33 * 32 * 8 for h in many.live_ranges)
    assert len(list(walk_steps(few.steps))) == len(list(walk_steps(many.steps)))


def followed(steps, trips, files) -> Iterator[tuple[str, tuple[int, int]]]:
    """The events of a program in order: trips, and the addresses in files that it accesses, prefetches and releases."""
    for s in steps:
        if isinstance(s, ForLoop):
            for k in range(s.trips):
                trips[s.loop] = s.trips - 1 - k if s.reverse else k
                yield "trip", (s.loop, k)
                yield from followed(s.body, trips, files)
        elif isinstance(s, Launch | RoutineCall):
            places = [(r.slot, r.offset + sum(by * trips[loop] for loop, by in r.moves)) for r in s.refs]
            if isinstance(s, RoutineCall) and s.routine == PREFETCH:
                (slot, here), end = places
                yield from [("soon", (slot, here + s.params[1]))] * ((slot, here) != end)
            elif isinstance(s, RoutineCall):
                yield "done" if s.routine == RELEASE else s.routine, places[0]
            else:
                sizes = [b.size * b.dtype.itemsize for b in s.kernel.buffers]
                for (slot, at), n, b in zip(places, sizes, s.kernel.buffers, strict=True):
                    if slot in files and n >= row_streaming.EVICTED_BYTES:
                        yield "write" if b.written else "read", (slot, at)


def test_rows_are_asked_for_one_trip_early_and_let_go() -> None:
    made = stacked_plan(6)
    asked: set[tuple[int, int]] = set()
    before: set[tuple[int, int]] = set()
    open_now: set[tuple[int, int]] = set()
    reads = 0
    for what, where in followed(made.steps, {}, {2, 3, len(made.slots) + 1}):
        if what == "trip":
            before, asked = asked if where[1] else set(), set()
        elif what == "soon":
            asked.add(where)
        elif what == "done":
            open_now.discard(where)
        elif what in ("read", "write"):
            assert not before or where in before or what == "write" or where in open_now, where
            reads += what == "read" and where in before
            open_now.add(where)
    assert reads > 20
    assert not open_now, open_now


@pytest.mark.parametrize("n", [1024, 1040, 1000, 1001])
def test_a_long_launch_is_cut_and_nothing_is_left_out(n: int, tmp_path: Path) -> None:
    x = np.linspace(-1, 1, n).astype(np.float32)
    graph = ws.jit(lambda x, y: (x * 2.0 + y, np.sum(x))).lower(x, x)
    made = lower_program(run_passes(graph, ALL_PASSES), MACHINE, [(0, 0)], None, (0,))
    verify_program(made)
    assert any(isinstance(s, ForLoop) and any(isinstance(b, Launch) for b in s.body) for s in made.steps)
    state = [in_files(x, tmp_path)]
    out = compile_graph(graph, [(0, 0)], None, FileInputs((0,), tmp_path)).instance(state)([x[::-1].copy()])
    plain = compile_graph(graph)([x, x[::-1].copy()])
    assert state[0].tobytes() == plain[0].tobytes() and out[0].tobytes() == plain[1].tobytes()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.roll(x, 3),
        lambda x: np.pad(x, (3, 0))[:600] * 2.0,
        lambda x: x + np.argmax(np.outer(np.ones(4), x), axis=0),
        lambda x: x[::-1] * 2.0,
        lambda x: np.cumsum(x),
        lambda x: np.sort(x),
        lambda x: x[np.arange(600) % 7],
        lambda x: np.concatenate([x[300:], x[:300]]),
        lambda x: x + ws.random.uniform(ws.random.key(0), (600,), np.float64),
    ],
)
def test_what_knows_its_place_is_left_as_it_is(f, tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 600)
    graph = ws.jit(f).lower(x)
    state = [in_files(x, tmp_path)]
    compile_graph(graph, [(0, 0)], None, FileInputs((0,), tmp_path)).instance(state)([])
    assert state[0].tobytes() == compile_graph(graph)([x])[0].tobytes()


def test_a_copy_is_cut_too() -> None:
    step = RoutineCall("copy", (row_streaming.MemRef(2), row_streaming.MemRef(0)), (1300,))
    loop, rest = split_launches.split_step(step, {2}, ProgramBuilder(MACHINE).loop)
    assert (loop.trips, loop.body[0].params, rest.params, rest.refs[0].offset) == (2, (512,), (276,), 1024)
    assert split_launches.split_step(step, {2}, ProgramBuilder(MACHINE).loop) is not None
    assert split_launches.split_step(RoutineCall("copy", step.refs, (1000,)), {2}, ProgramBuilder(MACHINE).loop) is None


def test_memory_that_is_in_no_file_is_not_let_go(tmp_path: Path) -> None:
    x = np.ones(4096, np.float32)
    program = compile_graph(ws.jit(lambda x: x * 2.0).lower(x), [(0, 0)], None, FileInputs((0,), tmp_path))
    with pytest.raises(StorageError, match="must lie in a file"):
        program.instance([x])
    with pytest.raises(StorageError, match="must lie in a file"):
        program([x])
    mine = in_files(x, tmp_path)
    assert program([mine])[0].tobytes() == (x * 2).tobytes() and mine.tobytes() == x.tobytes()


def test_a_program_that_may_fail_in_between_is_refused(tmp_path: Path) -> None:
    def steps(table, rows):
        return ws.scan(lambda t, i: (t * 0.5 + np.sum(t[i]), None), table, rows)[0]

    table, rows = np.ones((8, 16)), np.zeros((3, 2), np.int64)
    program = compile_graph(ws.jit(steps).lower(table, rows), [(0, 0)], None, FileInputs((0,), tmp_path))
    assert program.executable.artefact.undone
    with pytest.raises(UnsupportedError, match="may fail between two of its steps"):
        program.instance([in_files(table, tmp_path)])


def test_a_program_that_fails_only_before_it_writes_needs_no_copy(tmp_path: Path) -> None:
    def step(table, rows):
        total = ws.scan(lambda t, i: (t + np.sum(table[i]), None), np.float64(0.0), rows)[0]
        return table * total

    table, rows = np.ones((8, 16)), np.zeros((3, 2), np.int64)
    program = compile_graph(ws.jit(step).lower(table, rows), [(0, 0)], None, FileInputs((0,), tmp_path))
    assert not program.executable.artefact.undone
    state = [in_files(table, tmp_path)]
    with pytest.raises(ws.errors.BoundsError):
        program.instance(state)([rows + 8])
    assert state[0].tobytes() == table.tobytes()


# Memory in files.


def test_a_file_is_gone_with_the_array(tmp_path: Path) -> None:
    x = zeros_in_file((3, 5), np.float32, tmp_path)
    assert not list(tmp_path.iterdir()) and not x.any() and x.flags.writeable
    assert (
        is_file_backed(x[1:, ::2]) and is_file_backed(x.reshape(-1).view(np.uint8)) and not is_file_backed(np.ones(3))
    )
    assert zeros_in_file((0, 4), np.float64, tmp_path).shape == (0, 4)


def test_copies_go_where_the_original_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_arrays, "CHUNK_BYTES", 64)
    x = in_files(np.arange(100.0).reshape(10, 10), tmp_path)
    copy = mapped_arrays.clone(x)
    assert is_file_backed(copy) and copy.tobytes() == x.tobytes()
    x[3] = 0
    assert copy[3, 3] == 33
    assert b"".join(bytes(piece) for piece in mapped_arrays.byte_chunks(copy)) == copy.tobytes()
    mapped_arrays.copy_chunked(x, np.ones((10, 10)))
    assert x.sum() == 100 and not is_file_backed(mapped_arrays.clone(np.ones(3)))


def test_what_has_no_room_says_so(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="cannot be kept in a file"):
        zeros_in_file((1 << 50,), np.float64, tmp_path)
    with pytest.raises(StorageError, match="cannot be kept in a file"):
        zeros_in_file((3,), np.float64, tmp_path / "nowhere")


def test_plans_that_advise_what_is_not_there_are_refused() -> None:
    made = stacked_plan(4)
    beyond = RoutineCall(RELEASE, (row_streaming.MemRef(2, 8),), (made.slots[0].type.nbytes, 0))
    made = replace(made, steps=(*made.steps, beyond))
    with pytest.raises(PlanError, match="are touched"):
        verify_program(made)


def test_notes_reach_the_reader(tmp_path: Path) -> None:
    if page_prefetcher.prefetch_requests() == 0:
        pytest.skip("only Linux has a reader")
    before = int(page_prefetcher._prefetcher.memory[0])
    params = {name: in_files(x, tmp_path) for name, x in stack(6).items()}
    graph = ws.jit(ws.grad(loss)).lower(stack(6), np.ones((4, 32)))
    program = compile_graph(graph, (), None, FileInputs((0, 1), tmp_path))
    with thread_pool.threads(2):
        program([params["b"], params["w"], np.ones((4, 32))])
    # Of 6 layers 5 are prefetched: b and w in both directions, and the saved inputs in the backward pass.
    assert int(page_prefetcher._prefetcher.memory[0]) - before == 5 * (2 + 3)
