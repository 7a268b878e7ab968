"""A step whose stack lies in files: the same bits as in memory, for every optimizer and everything a step can do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn, tree
from wholestep.errors import DtypeError, ParameterError, TreeError, UnsupportedError
from wholestep.lower.program.steps import ForLoop, RoutineCall, walk_steps
from wholestep.runtime.memory import mapped_arrays
from wholestep.runtime.memory.mapped_arrays import is_file_backed
from wholestep.testing import guarded

LAYERS, WIDTH, ROWS = 5, 16, 6


pytestmark = pytest.mark.usefixtures("small_pieces")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make chunks so small that the stacks have several."""
    monkeypatch.setattr(mapped_arrays, "CHUNK_BYTES", 2048)


def make(i: int) -> dict[str, np.ndarray]:
    """One layer."""
    rng = np.random.default_rng(i)
    return {"w": (rng.normal(size=(WIDTH, WIDTH)) / WIDTH).astype("f4"), "b": rng.normal(size=WIDTH).astype("f4") / 9}


def parameters() -> dict[str, object]:
    return {"layers": ws.stacked(make, LAYERS), "head": np.linspace(-1, 1, WIDTH, dtype="f4")}


def loss(params, x):
    def layer(h, p):
        return h + np.tanh(h @ p["w"] + p["b"]), None

    h, _ = ws.scan(ws.checkpoint(layer), x, params["layers"])
    return np.mean((h @ params["head"] - 1.0) ** 2)


BATCH = np.random.default_rng(1).normal(size=(ROWS, WIDTH)).astype("f4")


def pair(folder: Path, **options):
    """The same step in memory, and with its layers in files."""
    given = {"optimizer": ws.optim.adam(1e-2), "batch": BATCH, **options}
    return (
        ws.compile(loss, parameters(), **given),
        ws.compile(loss, parameters(), stream="layers.*", folder=folder, **given),
    )


def bits(step) -> list[bytes]:
    return [np.asarray(x).tobytes() for x in tree.leaves(step.state)]


OPTIMIZERS = {
    "adam": ws.optim.adam(1e-2),
    "clipped adamw": ws.optim.chain(ws.optim.clip_by_global_norm(0.1), ws.optim.adamw(ws.optim.cosine(1e-2, 9))),
    "momentum": ws.optim.sgd(0.1, momentum=0.9, nesterov=True),
    "adafactor": ws.optim.adafactor(1e-2),
    "average": ws.optim.ema(ws.optim.sgd(0.1), 0.9),
    "lamb": ws.optim.lamb(1e-2),
    "accumulated": ws.optim.accumulate(ws.optim.adam(1e-2), 2),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_comes_to_the_same_bits(name: str, tmp_path: Path) -> None:
    memory, files = pair(tmp_path, optimizer=OPTIMIZERS[name])
    for _ in range(3):
        assert memory(BATCH).loss == files(BATCH).loss
    assert bits(memory) == bits(files)
    kept = files.state["params"]["layers"]
    assert is_file_backed(kept["w"]) and is_file_backed(kept["b"]) and not is_file_backed(files.params["head"])


@pytest.mark.parametrize("name", [name for name in OPTIMIZERS if name != "adafactor"])
def test_the_arena_does_not_grow_with_the_stack(name: str) -> None:
    def needed(layers: int):
        shapes = {"w": ws.ShapeDtype((layers, 64, 64), np.float32), "b": ws.ShapeDtype((layers, 64), np.float32)}
        params = {"layers": shapes, "head": ws.ShapeDtype((64,), np.float32)}
        batch = ws.ShapeDtype((2, 64), np.float32)
        return ws.estimate(loss, params, optimizer=OPTIMIZERS[name], batch=batch, stream="layers.*")

    few, many = needed(4), needed(64)
    assert many.arena - few.arena < 60 * 64 * 4 and many.state == few.state
    assert many.file > 10 * few.file


def test_the_state_of_the_stack_is_in_files_and_the_rest_is_not(tmp_path: Path) -> None:
    _, files = pair(tmp_path)
    where = {
        path: is_file_backed(x) for path, x in zip(files._engine.state.paths, files._engine.state.arrays, strict=True)
    }
    layers = {f"{part}.layers.{name}" for part in ("params", "optimizer.m", "optimizer.v") for name in "bw"}
    assert {path for path, on in where.items() if on} == layers
    assert files.memory.file == files.plan.file + 3 * LAYERS * WIDTH * (WIDTH + 1) * 4
    assert "file" in str(files.memory) and f"in files    6 arrays, {3 * LAYERS * WIDTH * (WIDTH + 1) * 4:,} bytes" in (
        files.explain()
    )
    estimated = ws.estimate(loss, parameters(), optimizer=ws.optim.adam(1e-2), batch=BATCH, stream="layers.*")
    known = files.memory
    assert estimated._replace(code=0, peak=()) == known._replace(code=0, peak=())


def test_the_update_goes_piece_by_piece(tmp_path: Path) -> None:
    _, files = pair(tmp_path)
    loops = [s for s in walk_steps(files.plan.steps) if isinstance(s, ForLoop)]
    assert len(loops) >= 3 and any(s.trips * 1024 >= LAYERS * WIDTH * WIDTH * 4 for s in loops[2:])


def test_a_budget_counts_what_is_in_memory(tmp_path: Path) -> None:
    memory, files = pair(tmp_path)
    given = {"optimizer": ws.optim.adam(1e-2), "batch": BATCH, "stream": "layers.*", "folder": tmp_path}
    need = files.memory.total - files.memory.code
    within = ws.compile(loss, parameters(), memory_budget=need, **given)
    with pytest.raises(ws.errors.BudgetError):
        ws.compile(loss, parameters(), memory_budget=files.memory.state, **given)
    for step in (memory, files, within):
        step(BATCH)
    assert bits(memory) == bits(files) == bits(within)


def test_several_steps_a_call_and_several_threads(tmp_path: Path) -> None:
    memory, files = pair(tmp_path, batch=np.stack([BATCH, BATCH * 2, BATCH - 1]), steps_per_call=3)
    batches = np.stack([BATCH, BATCH * 2, BATCH - 1])
    assert memory(batches).losses.tolist() == files(batches).losses.tolist()
    assert bits(memory) == bits(files)


def test_a_step_that_is_not_finite_changes_nothing(tmp_path: Path) -> None:
    memory, files = pair(tmp_path)
    bad = BATCH.copy()
    bad[0, 0] = np.nan
    for step in (memory, files):
        assert [step(x).status for x in (BATCH, bad, BATCH)] == ["completed", "skipped", "completed"]
    assert bits(memory) == bits(files)


@pytest.mark.parametrize("shuffle", [False, True])
def test_epochs_and_batches_of_other_sizes(shuffle: bool, tmp_path: Path) -> None:
    memory, files = pair(tmp_path)
    data = np.concatenate([BATCH] * 3)[:16]
    for step in (memory, files):
        step.run(data, epochs=2, shuffle=shuffle)
        step(BATCH[:2])
    assert bits(memory) == bits(files)


def test_a_run_that_may_fail_between_two_steps_is_refused(tmp_path: Path) -> None:
    def chosen(params, rows):
        return loss(params, params["rows"][rows])

    params, rows = {**parameters(), "rows": BATCH}, np.arange(ROWS)
    files = ws.compile(chosen, params, optimizer=ws.optim.sgd(0.1), batch=rows, stream="layers.*", folder=tmp_path)
    before = bits(files)
    with pytest.raises(UnsupportedError, match="state in files is not put back"):
        files.run(np.concatenate([rows] * 3))
    assert bits(files) == before


@pytest.mark.parametrize("shards", [None, 3000])
def test_a_file_holds_the_same_bytes_and_loads_into_files(shards: int | None, tmp_path: Path) -> None:
    memory, files = pair(tmp_path)
    for step, name in ((memory, "a"), (files, "b")):
        step(BATCH)
        step.save(tmp_path / name, max_shard_bytes=shards)
    if shards is None:
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    saved = bits(files)
    for step in (memory, files):
        step(BATCH)
    after = bits(files)
    for step in (memory, files):
        step.load(tmp_path / "a")
        assert bits(step) == saved
        step(BATCH)
        assert bits(step) == after


def test_damage_is_found_in_what_is_read_in_chunks(tmp_path: Path) -> None:
    _, files = pair(tmp_path)
    files.save(tmp_path / "a.safetensors")
    raw = bytearray((tmp_path / "a.safetensors").read_bytes())
    raw[-40] ^= 1
    (tmp_path / "a.safetensors").write_bytes(raw)
    before = bits(files)
    with pytest.raises(ws.errors.CheckpointError, match="checksum"):
        files.load(tmp_path / "a.safetensors")
    assert bits(files) == before


def test_what_is_read_is_ones_own_and_what_is_set_is_taken_over(tmp_path: Path) -> None:
    memory, files = pair(tmp_path)
    mine = files.params
    before = mine["layers"]["w"].copy()
    files(BATCH)
    assert is_file_backed(mine["layers"]["w"]) and mine["layers"]["w"].tobytes() == before.tobytes()
    mine["layers"]["w"][...] = 0
    assert files.params["layers"]["w"].any()
    memory(BATCH)
    for step in (memory, files):
        step.set(params=tree.map(lambda x: x * 0.5, memory.params) if step is memory else half(files.params))
    assert bits(memory) == bits(files)
    start = bits(files)
    state = files.state
    files(BATCH)
    files.load_state(state)
    assert bits(files) == start


def half(params):
    return tree.map(lambda x: x * np.float32(0.5), params)


def test_reset_and_replace(tmp_path: Path) -> None:
    memory, files = pair(tmp_path, optimizer=ws.optim.ema(ws.optim.adam(1e-2), 0.9))
    begun = bits(files)
    assert bits(memory) == begun
    for step in (memory, files):
        step(BATCH)
        step.reset()
    assert bits(memory) == bits(files) == begun
    for step in (memory, files):
        step(BATCH)
        step.replace(optimizer=ws.optim.adamw(1e-2))
        step(BATCH)
    assert bits(memory) == bits(files)
    kept = files._engine.state.tree["optimizer"]
    assert is_file_backed(kept["m"]["layers"]["w"]) and not is_file_backed(kept["m"]["head"])


def test_attached_functions_pass_through_it_too(tmp_path: Path) -> None:
    memory, files = pair(tmp_path)
    seen = [step.attach(lambda params, x: loss(params, x) * 2.0)(BATCH) for step in (memory, files)]
    assert seen[0] == seen[1]
    assert bits(memory) == bits(files)


def test_a_profile_runs_on_a_copy_in_files(tmp_path: Path) -> None:
    memory, files = pair(tmp_path)
    before = bits(files)
    files.profile(BATCH)
    assert bits(files) == before
    assert memory(BATCH).loss == files(BATCH).loss and bits(memory) == bits(files)


def test_a_model_of_modules(tmp_path: Path) -> None:
    def objective(model, x):
        return np.mean(model(x) ** 2)

    def built():
        return nn.Sequential(nn.Linear(WIDTH, 40, key=0), np.tanh, nn.Linear(40, 3, key=1))

    given = {"optimizer": ws.optim.adam(1e-2), "batch": BATCH}
    memory = ws.compile(objective, built(), **given)
    files = ws.compile(objective, built(), stream=lambda path: "weight" in path, folder=tmp_path, **given)
    for step in (memory, files):
        step(BATCH)
        step(BATCH)
    assert bits(memory) == bits(files)
    assert memory.model(BATCH).tobytes() == files.model(BATCH).tobytes()
    assert sum(map(is_file_backed, files._engine.state.arrays)) == 6


class Blocks(nn.Module):
    """A model with a stack of layers and a head."""

    def __init__(self, keep) -> None:
        self.blocks = nn.Stack(lambda key: nn.Linear(WIDTH, WIDTH, key=key), 4, key=ws.random.key(0), keep=keep)
        self.head = nn.Linear(WIDTH, 2, key=1)

    def __call__(self, x):
        return self.head(np.tanh(self.blocks(x)))


@pytest.mark.parametrize("keep", ["all", "inputs", 2])
def test_a_stack_of_modules(keep, tmp_path: Path) -> None:
    def objective(model, x):
        return np.mean(model(x) ** 2)

    given = {"optimizer": ws.optim.adam(1e-2), "batch": BATCH}
    memory = ws.compile(objective, Blocks(keep), **given)
    files = ws.compile(objective, Blocks(keep), stream="blocks.*", folder=tmp_path, **given)
    for _ in range(2):
        assert memory(BATCH).loss == files(BATCH).loss
    assert bits(memory) == bits(files)
    assert sum(map(is_file_backed, files._engine.state.arrays)) == 6
    assert files.plan.file and any(
        s.routine.startswith("advise") for s in walk_steps(files.plan.steps) if isinstance(s, RoutineCall)
    )


def test_layers_in_a_python_loop_stay_apart(tmp_path: Path) -> None:
    def objective(params, x):
        for w in params["w"]:
            x = x + np.tanh(x @ w)
        return np.mean(x**2)

    rng = np.random.default_rng(2)
    params = {"w": [rng.normal(size=(WIDTH, WIDTH)).astype("f4") / WIDTH for _ in range(12)]}
    given = {"optimizer": ws.optim.adam(1e-2), "batch": BATCH}
    rolled = ws.compile(objective, params, **given)
    assert any("rolled" in why for why in rolled.reasons)
    memory = ws.compile(objective, params, roll=False, **given)
    files = ws.compile(objective, params, stream="w*", folder=tmp_path, **given)
    assert not any("rolled" in why for why in files.reasons)
    for _ in range(2):
        assert memory(BATCH).loss == files(BATCH).loss
    assert bits(memory) == bits(files)
    assert sum(map(is_file_backed, files._engine.state.arrays)) == 36
    for made in (ws.compile, ws.estimate):
        folder = {"folder": tmp_path} if made is ws.compile else {}
        with pytest.raises(UnsupportedError, match="roll=True joins arrays"):
            made(objective, params, roll=True, stream="w*", **folder, **given)


def test_what_reset_goes_back_to_is_kept_in_files_too(tmp_path: Path) -> None:
    memory, files = pair(tmp_path)
    stack = LAYERS * WIDTH * (WIDTH + 1) * 4
    assert memory.memory.kept - files.memory.kept == stack
    shapes = {"w": ws.ShapeDtype((LAYERS, WIDTH, WIDTH), np.float32), "b": ws.ShapeDtype((LAYERS, WIDTH), np.float32)}
    known = ws.estimate(
        loss,
        {"layers": shapes, "head": ws.ShapeDtype((WIDTH,), np.float32)},
        optimizer=ws.optim.adam(1e-2),
        batch=BATCH,
        stream="layers.*",
    )
    assert known.kept == files.memory.kept and known.file == files.memory.file and known.arena == files.memory.arena


def test_the_reference_takes_the_same_state(tmp_path: Path) -> None:
    step = ws.compile(
        loss, parameters(), batch=BATCH, optimizer=ws.optim.sgd(0.1), device="reference", stream="*.w", folder=tmp_path
    )
    step(BATCH)
    assert is_file_backed(step._engine.state.tree["params"]["layers"]["w"])


# Layers made one at a time.


def test_layers_are_made_one_at_a_time(tmp_path: Path) -> None:
    asked: list[int] = []

    def noted(i: int):
        asked.append(i)
        return make(i)

    step = ws.compile(loss, {**parameters(), "layers": ws.stacked(noted, LAYERS)}, batch=BATCH)
    assert asked == list(range(LAYERS))
    whole = tree.map(lambda *rows: np.stack(rows), *[make(i) for i in range(LAYERS)])
    assert all(step.params["layers"][name].tobytes() == whole[name].tobytes() for name in "bw")


def test_layers_that_differ_are_refused() -> None:
    with pytest.raises(TreeError, match="layer 2 is another one than layer 0"):
        ws.compile(loss, ws.stacked(lambda i: np.zeros(3 if i == 2 else 2), 4), batch=BATCH)
    with pytest.raises(ParameterError, match="count is 0"):
        ws.stacked(make, 0)
    with pytest.raises(DtypeError, match="not an integer"):
        ws.stacked(make, 2.5)


def test_an_optimizer_that_does_not_begin_row_by_row_is_refused(tmp_path: Path) -> None:
    class Total:
        lr = 0.1

        def init(self, params):
            return {"total": np.sum(params["layers"]["w"])}

        def update(self, grads, state, params):
            return tree.map(lambda p, g: p - 0.1 * g, params, grads), state

    with pytest.raises(UnsupportedError, match=r"keeps optimizer\.total, .* not made layer by layer"):
        ws.compile(loss, parameters(), optimizer=Total(), batch=BATCH, stream="layers.*", folder=tmp_path)


def test_what_cannot_be_streamed_says_so(tmp_path: Path) -> None:
    given = {"optimizer": ws.optim.sgd(0.1), "batch": BATCH}
    with pytest.raises(ParameterError, match="no parameter matches 'layer'"):
        ws.compile(loss, parameters(), stream="layer", folder=tmp_path, **given)
    with pytest.raises(ParameterError, match="folder is None"):
        ws.compile(loss, parameters(), stream="layers.*", **given)
    with pytest.raises(ParameterError, match="a folder that is there"):
        ws.compile(loss, parameters(), stream="layers.*", folder=tmp_path / "nowhere", **given)
    with pytest.raises(ParameterError, match="without stream"):
        ws.compile(loss, parameters(), folder=tmp_path, **given)
    with pytest.raises(UnsupportedError, match="float64"):
        ws.compile(loss, parameters(), stream="layers.*", folder=tmp_path, precision="float64", **given)
    with pytest.raises(DtypeError, match="no function of a path"):
        ws.compile(loss, parameters(), stream=3, folder=tmp_path, **given)
    given["batch"] = ws.ShapeDtype((ws.Dim("B"), WIDTH), np.float32)
    with pytest.raises(UnsupportedError, match="rows of known size, and the batch has symbolic sizes"):
        ws.compile(loss, parameters(), stream="layers.*", folder=tmp_path, **given)
    with pytest.raises(UnsupportedError, match="rows of known size, and the batch has symbolic sizes"):
        ws.estimate(loss, parameters(), stream="layers.*", **given)
    with pytest.raises(ParameterError, match="where a stack lies is said when its step is compiled"):
        Blocks("streamed")


def test_nothing_is_left_in_the_folder(tmp_path: Path) -> None:
    _, files = pair(tmp_path)
    files(BATCH)
    assert not list(tmp_path.iterdir())


def test_guarded_memory_refuses_state_in_files(tmp_path: Path) -> None:
    in_memory, streamed = pair(tmp_path)
    assert guarded.check_guarded(*guarded.of_step(in_memory, BATCH)).problems == []
    with pytest.raises(UnsupportedError, match=r"lies in a file(.|\n)*without stream="):
        guarded.check_guarded(*guarded.of_step(streamed, BATCH))
