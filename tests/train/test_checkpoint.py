"""A step that was saved and loaded goes on with the same bits, and a file that does not fit changes nothing."""

import os
import re
import subprocess
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy as outside
from tests.train.by_hand import rows
from tests.train.models import MODELS, Model, perceptron
from tests.train.pressing import Pressing, press

import wholestep as ws
from wholestep import nn, tree
from wholestep.errors import CheckpointError
from wholestep.train.checkpoint import writers
from wholestep.train.data.loader import Loader
from wholestep.train.program.engine import Engine, UnfinishedEpoch
from wholestep.train.program.resident_epochs import ResidentData
from wholestep.train.program.step_loops import epoch_order

DOCS = Path(__file__).parents[2] / "docs"


def compiled(model=None, **options):
    model = model or perceptron()
    settings = {"batch": rows(model.data, slice(0, 6)), "optimizer": ws.optim.adam(0.01), "device": "reference"}
    return ws.compile(model.loss, model.params, **{**settings, **options})


def equal(a, b):
    assert tree.structure(a) == tree.structure(b)
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        assert x.dtype == y.dtype
        assert x.tobytes() == y.tobytes()


@pytest.mark.parametrize("most", [None, 100], ids=["one file", "parts"])
@pytest.mark.parametrize("make", MODELS)
def test_a_loaded_step_goes_on_with_the_same_bits(tmp_path, make, most):
    model = make()
    step, other = compiled(model), compiled(model, key=5)
    step.run(model.data, 1, 6)
    step.set(lr=0.02)
    step.save(tmp_path / "a.safetensors", max_shard_bytes=most)
    found = other.load(tmp_path / "a.safetensors")
    equal(other.state, step.state)
    assert other.hyper == step.hyper and found.version == ws.__version__
    assert other.run(model.data, 2, 6).losses.tolist() == step.run(model.data, 2, 6).losses.tolist()
    equal(other.state, step.state)


def test_the_file_is_one_that_the_safetensors_library_reads(tmp_path):
    step = compiled()
    step.save(tmp_path / "a.safetensors")
    found = outside.load_file(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(found["params.w1"], step.params["w1"])
    assert {"optimizer.m.w1", "counters.step", "counters.key", "hyper.lr"} <= found.keys()


KINDS = [
    ml_dtypes.bfloat16,
    np.bool_,
    np.int8,
    np.uint16,
    np.int64,
    np.float16,
    np.float32,
    np.float64,
    np.complex64,
    np.complex128,
]


def kinds():
    """Buffers of every dtype, some without elements or axes."""
    found = {str(np.dtype(k)): np.arange(6).reshape(2, 3).astype(k) for k in KINDS}
    found["c"] = np.array([1 - 2j, complex(np.nan, -0.0)])
    odd = {"empty": np.zeros((0, 3), np.int32), "scalar": np.array(7, np.uint8), "none": None, "odd name": [np.ones(1)]}
    return {**found, **odd}


@pytest.mark.parametrize("most", [None, 8], ids=["one file", "parts"])
def test_every_dtype_and_shape_comes_back(tmp_path, most):
    def loss(p, buffers, x):
        return np.mean((p - x) ** 2), buffers

    step = ws.compile(loss, np.zeros(2), buffers=kinds(), batch=np.ones(2), device="reference")
    step.save(tmp_path / "a", max_shard_bytes=most)
    before = step.state
    step.set(buffers=tree.map(np.zeros_like, step.buffers))
    step.load(tmp_path / "a")
    equal(step.state, before)


def test_names_are_the_paths_of_the_state(tmp_path):
    params = {"layers": [{"w": np.ones(2)}, {"w": np.ones(2)}], "a b": np.ones(2)}
    step = ws.compile(lambda p, x: np.sum(p["layers"][1]["w"] * x), params, batch=np.ones(2), device="reference")
    step.save(tmp_path / "a")
    names = step.load(tmp_path / "a").names
    assert {n for n in names if n.startswith("params")} == {
        "params.layers[0].w",
        "params.layers[1].w",
        "params['a b']",
    }


class Net(nn.Module):
    """Trained, frozen, tied and reassigned arrays."""

    def __init__(self):
        self.layers = [nn.Linear(3, 4, key=0), nn.BatchNorm(4)]
        self.again = self.layers[0]
        self.scale = nn.frozen(np.full(4, 2.0, np.float32))
        self.table = nn.frozen(np.arange(3))

    def __call__(self, batch):
        return np.mean((self.layers[1](self.again(batch["x"])) * self.scale - batch["y"]) ** 2)


def test_a_module_comes_back(tmp_path):
    model = Model(lambda net, batch: net(batch), Net(), perceptron().data)
    step, other = compiled(model), compiled(model, key=5)
    step.run(model.data, 1, 6)
    step.save(tmp_path / "a")
    names = other.load(tmp_path / "a").names
    assert {"params.layers[0].weight", "buffers.layers[1].mean", "buffers.table"} <= set(names)
    assert not [name for name in names if "again" in name]
    assert step.run(model.data, 1, 6).losses.tolist() == other.run(model.data, 1, 6).losses.tolist()
    equal(other.state, step.state)


def test_what_a_user_adds_comes_back(tmp_path):
    step = compiled()
    step.save(tmp_path / "a", metadata={"accuracy": 0.5, "note": ["é", None, True]})
    found = step.load(tmp_path / "a")
    assert found.metadata == {"accuracy": 0.5, "note": ["é", None, True]}
    assert found.optimizer.startswith("adam(lr=0.01") and found.path == tmp_path / "a" and found.damage is None


@pytest.mark.parametrize("wrong", [{"a": np.ones(1)}, {1: 2}, (1, 2), float("nan"), "x" * (2 << 20), "\ud800x"])
def test_what_json_cannot_hold_is_refused(tmp_path, wrong):
    step = compiled()
    if wrong == "\ud800x":
        step.save(tmp_path / "a", metadata=wrong)
        assert step.load(tmp_path / "a").metadata == wrong
        return
    with pytest.raises(CheckpointError, match="metadata"):
        step.save(tmp_path / "a", metadata=wrong)
    assert not list(tmp_path.iterdir())


def test_the_newest_two_are_kept(tmp_path):
    step, model = compiled(), perceptron()
    for place, other in ((tmp_path / "a.safetensors", "a.previous.safetensors"), (tmp_path / "many", None)):
        counts = []
        for _ in range(4):
            step.run(model.data, 1, 6)
            step.save(place, max_shard_bytes=None if other else 50)
            counts.append(len(list(tmp_path.iterdir())) if other else len(list(place.iterdir())))
        newest = step.state
        assert counts[1] == counts[2] == counts[3]
        (place if other else place / "manifest.json").write_bytes(b"damaged")
        with pytest.raises(CheckpointError, match="fallback=True"):
            step.load(place)
        equal(step.state, newest)
        found = step.load(place, fallback=True)
        assert step.state["counters"]["step"] == newest["counters"]["step"] - 4
        assert "previous" in found.path.name and str(place) in found.damage
        step.load_state(newest)


def test_a_file_that_is_gone_falls_back_too(tmp_path):
    step = compiled()
    step.save(tmp_path / "a.safetensors"), step.save(tmp_path / "a.safetensors")
    (tmp_path / "a.safetensors").unlink()
    assert "No such file" in step.load(tmp_path / "a.safetensors", fallback=True).damage
    with pytest.raises(CheckpointError, match=r"b\.safetensors.*b\.previous\.safetensors"):
        step.load(tmp_path / "b.safetensors", fallback=True)


@contextmanager
def process():
    """The id of an idle process."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as running:
        yield running.pid
        running.communicate(b"\n")


def tagged(monkeypatch, pid):
    """The tag of a process with this id."""
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: pid)
        return writers.tag()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nobody says whether a process has ended")
@pytest.mark.parametrize("most", [None, 50])
def test_what_a_killed_save_left_is_removed_by_the_next_one(tmp_path, monkeypatch, most):
    step, place = compiled(), tmp_path / "a"
    step.save(place, max_shard_bytes=most)

    def leftover(tag):
        left = tmp_path / f".a.{tag}.tmp" if most is None else place / f"part-{tag}-1-of-2.safetensors"
        left.write_bytes(b"half")
        return left

    with process() as pid:
        alive = leftover(tagged(monkeypatch, pid))
        step.save(place, max_shard_bytes=most)
        assert alive.exists()
    others = [leftover("0123456789abcdef"), leftover("0" * 40), leftover(writers.tag())]
    reused = tagged(monkeypatch, os.getppid())
    reused = leftover(reused[:20] + f"{int(reused[20:32], 16) + 1:012x}" + reused[32:])  # another began since
    step.save(place, max_shard_bytes=most)
    assert not alive.exists() and not reused.exists() and all(path.exists() for path in others)


def test_no_part_is_removed_where_a_manifest_is_damaged(tmp_path, monkeypatch):
    step = compiled()
    step.save(tmp_path, max_shard_bytes=50)
    held = (tmp_path / "manifest.json").read_bytes()
    monkeypatch.setattr(writers, "gone", lambda tag: True)
    (tmp_path / "manifest.json").write_bytes(held[:-9])
    parts = set(tmp_path.glob("part-*"))
    step.save(tmp_path, max_shard_bytes=50)
    assert parts and all(path.exists() for path in parts)


def test_folders_are_made_and_other_files_left_alone(tmp_path):
    step = compiled()
    place = tmp_path / "new" / "folder" / "parts"
    step.save(place, max_shard_bytes=100)
    mine = place / "part-of-mine.safetensors"
    mine.write_bytes(b"mine")
    for _ in range(3):
        step.save(place, max_shard_bytes=100)
    assert mine.read_bytes() == b"mine"


def test_paths_that_no_file_is_to_have(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")  # as a device, it would be lost for all programs
    step = compiled()
    for path, told in (
        ("~/run", "expanduser"),
        ("a\0b", "null character"),
        ("\ud800/run", "has no"),
        ("pipe", "no plain file"),
    ):
        with pytest.raises(CheckpointError, match=told):
            step.save(path)
    assert [found.name for found in tmp_path.iterdir()] == ["pipe"] and Path("pipe").is_fifo()


def test_a_file_in_place_of_a_folder_and_the_other_way_round(tmp_path):
    step = compiled()
    step.save(tmp_path / "parts", max_shard_bytes=100), step.save(tmp_path / "file")
    with pytest.raises(CheckpointError, match="is a folder"):
        step.save(tmp_path / "parts")
    with pytest.raises(CheckpointError, match="is a file"):
        step.save(tmp_path / "file", max_shard_bytes=100)
    part = next((tmp_path / "parts").glob("part-*"))
    with pytest.raises(CheckpointError, match="one part of a checkpoint"):
        step.load(part)


@pytest.mark.parametrize(("most", "error"), [(0, ws.errors.ParameterError), (1.5, ws.errors.DtypeError)])
def test_a_size_of_parts_is_a_count(tmp_path, most, error):
    with pytest.raises(error, match="max_shard_bytes"):
        compiled().save(tmp_path / "a", max_shard_bytes=most)


def test_too_many_parts_are_refused(tmp_path):
    step = ws.compile(lambda p, x: np.sum(p[0] * x), [np.ones(1)] * 600, batch=np.ones(1), device="reference")
    with pytest.raises(CheckpointError, match="more than 512"):
        step.save(tmp_path / "a", max_shard_bytes=1)


class Late(Pressing):
    """Ctrl-C when some steps have been taken."""

    def __call__(self, arrays, strict=False):
        timer = threading.Timer(0.005, press)
        timer.start()
        outs = self.instance(arrays, strict)
        timer.join()
        return outs


@pytest.mark.parametrize(("count", "shuffle"), [(1, True), (3, True), (1, False)])
def test_an_epoch_that_was_cut_is_continued(tmp_path, device, count, shuffle):
    model, steps = perceptron(), 200 if device == "reference" else 4_000
    data = tree.map(lambda x: np.resize(x, (6 * steps + 2, *x.shape[1:])), model.data)
    batch = rows(model.data, slice(0, 6))
    batch = batch if count == 1 else tree.map(lambda x: np.stack([x] * count), batch)
    whole, cut, other = [compiled(device=device, batch=batch, steps_per_call=count, key=k) for k in (3, 3, 4)]
    whole.run(data, 2, 6, shuffle=shuffle)
    bound = ResidentData(cut._engine, data, 6, shuffle, False).programs()[0]
    bound.instance = Late(bound.instance)
    assert cut.run(data, 2, 6, shuffle=shuffle).interrupted
    assert int(cut.state["counters"]["step"]) <= steps
    cut.save(tmp_path / "a")
    other.load(tmp_path / "a")
    losses = other.run(data, 2, 6, shuffle=shuffle, resume=True)
    assert len(losses) == 2 * (steps + 1) - int(cut.state["counters"]["step"])
    equal(other.state, whole.state)


def interrupted(data, done):
    """A step whose second epoch was interrupted after some batches."""
    step = compiled()
    step.run(data, 1, 6)
    start = int(step.state["counters"]["step"])
    step._engine.unfinished = UnfinishedEpoch(start, done, 23, 6, 1, 0)
    order = np.asarray(epoch_order(step.state["counters"], 23, 0))
    for i in range(done):
        step(rows(data, order[6 * i : 6 * i + 6]))
    return step


@pytest.mark.parametrize("done", [1, 2, 3])
def test_the_rest_of_an_epoch_is_what_was_left_of_it(done):
    data = perceptron().data
    whole, step = compiled(), interrupted(data, done)
    whole.run(data, 2, 6)
    assert len(step.run(data, 1, 6, resume=True)) == 4 - done
    equal(step.state, whole.state)
    assert step._engine.unfinished is None
    equal(whole.run(data, 1, 6).losses, step.run(data, 1, 6, resume=True).losses)


def test_another_epoch_cannot_be_continued():
    data = perceptron().data
    step = interrupted(data, 2)
    for options in ({"shuffle": False}, {"batch_size": 5}, {"drop_last": True}):
        with pytest.raises(ws.errors.ParameterError, match="cut short"):
            step.run(data, 1, resume=True, **options)
    with pytest.raises(ws.errors.ParameterError, match=r"23 rows in batches of 6.*22 rows"):
        step.run(tree.map(lambda x: x[:22], data), 1, resume=True)


@pytest.mark.parametrize("forget", ["reset", "load_state", "set", "run"])
def test_what_was_cut_is_forgotten_where_it_is_over(forget):
    data = perceptron().data
    step = interrupted(data, 2)
    {
        "reset": step.reset,
        "load_state": lambda: step.load_state(step.state),
        "set": lambda: step.set(key=1),
        "run": lambda: step.run(data, 1, 6),
    }[forget]()
    assert step._engine.unfinished is None


def test_an_error_in_the_middle_is_noted(monkeypatch):
    data = perceptron().data
    step = compiled()
    calls = []

    def failing(engine, bound, arrays):
        calls.append(bound)
        if len(calls) == 2:
            raise LookupError
        return bound.run((*engine.head, *arrays))

    monkeypatch.setattr(Engine, "call", failing)
    with pytest.raises(LookupError):
        step.run(data, 1, 6)
    assert step._engine.unfinished == UnfinishedEpoch(0, 3, 23, 6, 1, 0)


def test_the_position_in_the_data_comes_back(tmp_path):
    data = perceptron().data
    whole, step, other = compiled(), compiled(), compiled(key=9)
    a, b, c = [Loader(data, 6, key=4) for _ in range(3)]
    for _ in range(2):
        for batch in a:
            whole(batch)
    for i, batch in enumerate(b):
        step(batch)
        if i == 1:
            break
    step.save(tmp_path / "a", loader=b)
    assert other.load(tmp_path / "a", loader=c).data == b.state()
    while c.epoch < 2:
        for batch in c:
            other(batch)
    equal(other.state, whole.state)


def test_a_loader_that_does_not_fit_leaves_the_step_alone(tmp_path):
    data = perceptron().data
    step = compiled()
    step.run(data, 1, 6)
    step.save(tmp_path / "with", loader=Loader(data, 6)), step.save(tmp_path / "without")
    step.run(data, 1, 6)
    before = step.state
    with pytest.raises(CheckpointError, match="its position in the data: loader: restore: the state is for order"):
        step.load(tmp_path / "with", loader=Loader(data, 5))
    with pytest.raises(CheckpointError, match="no position in the data"):
        step.load(tmp_path / "without", loader=Loader(data, 6))
    equal(step.state, before)


def test_another_model_is_told_apart(tmp_path):
    step = compiled()
    step.save(tmp_path / "a")
    sgd = compiled(optimizer=ws.optim.sgd(0.1))
    before = sgd.state
    with pytest.raises(CheckpointError, match=r"unexpected .*optimizer\.m"):
        sgd.load(tmp_path / "a")
    found = sgd.load(tmp_path / "a", strict=False)
    assert "optimizer.m.w1" in found.unexpected
    sgd.load_state(before)
    assert sgd.load(tmp_path / "a", only="params").names == ("params.b1", "params.w1", "params.w2")
    with pytest.raises(CheckpointError, match=r"there are params, buffers"):
        sgd.load(tmp_path / "a", only=["weights"])


def test_other_shapes_and_dtypes_are_told_apart(tmp_path):
    compiled().save(tmp_path / "a")
    model = perceptron()
    wide = compiled(
        model._replace(
            params={
                **model.params,
                "w1": np.ones((3, 7), np.float32),
                "b1": np.ones(7, np.float32),
                "w2": np.ones((7, 1), np.float32),
            }
        )
    )
    with pytest.raises(CheckpointError, match=r"params.b1 is f32\[5\] in the file and f32\[7\] here"):
        wide.load(tmp_path / "a", only="params")


def test_the_page_on_files_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for source in re.findall(r"```python\n(.*?)```", (DOCS / "files.md").read_text(encoding="utf-8"), flags=re.DOTALL):
        exec(compile(source, "files.md", "exec"), names)
    assert names["found"].data["epoch"] == 1 and len(names["result"]) == 14
