"""A loader gives every batch that it should, the same on every machine, and goes on exactly where it was."""

import json
import os
import signal
import threading
import traceback
import zipfile
from itertools import islice

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from wholestep import tree
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError, UnsupportedError
from wholestep.train.data import csv, prefetch
from wholestep.train.data.file_errors import open_arrays
from wholestep.train.data.loader import Loader
from wholestep.train.data.sampling import RandomWords, Weighted
from wholestep.train.data.sources import padded
from wholestep_tools.audit.hostile import datafiles
from wholestep_tools.audit.hostile.files import MEMORY, bounded

N = 13


def data():
    return {"x": np.arange(3.0 * N).reshape(N, 3), "y": np.arange(N)}


class Dataset:
    def __len__(self):
        return N

    def __getitem__(self, i):
        if not 0 <= i < N:
            raise IndexError(i)
        return {"x": np.arange(3.0 * i, 3 * i + 3), "y": i}


class Restartable:
    def __iter__(self):
        return (Dataset()[i] for i in range(N))


def generated():
    yield from Restartable()


def files(folder):
    rows = data()
    np.save(folder / "rows.npy", rows["x"])
    np.savez(folder / "rows.npz", **rows)
    np.savez_compressed(folder / "small.npz", **rows)
    lines = ["a,b", *[f"{i},{i / 2}" for i in range(N)]]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("data")
    files(made)
    return made


SOURCES = {
    "arrays": lambda folder: data(),
    "array": lambda folder: np.arange(float(N)),
    "tuple": lambda folder: tuple(data().values()),
    "memmap": lambda folder: np.load(folder / "rows.npy", mmap_mode="r"),
    "npy": lambda folder: folder / "rows.npy",
    "npz": lambda folder: str(folder / "rows.npz"),
    "csv": lambda folder: folder / "rows.csv",
    "object": lambda folder: Dataset(),
    "list": lambda folder: [Dataset()[i] for i in range(N)],
}
STREAMS = {"function": lambda folder: generated, "iterable": lambda folder: Restartable()}


def evens(rng):
    return rng.permutation(N)[: 5 + rng.integers(N - 5)] // 2 * 2


def noisy(batch, *, key):
    return tree.map(lambda x: x + int(key[0]), batch)


DRAWN = {
    "shuffled": {},
    "in order": {"shuffle": False},
    "weights": {"weights": np.arange(N)},
    "draws": {"sampler": Weighted(np.arange(N) + 1.0, draws=9, replacement=False)},
    "buckets": {"buckets": (4, 9, 20), "length": np.arange(N)},
    "sampler": {"sampler": evens},
}


def same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert tree.structure(x) == tree.structure(y)
        for u, v in zip(tree.leaves(x), tree.leaves(y), strict=True):
            assert u.dtype == v.dtype and type(u) is np.ndarray
            np.testing.assert_array_equal(u, v)


def epochs(loader, n=3):
    return [batch for _ in range(n) for batch in loader]


def no_thread():
    assert not [t for t in threading.enumerate() if t.name == "wholestep loader"]


@settings(max_examples=60)
@given(draw=st.data())
def test_what_follows_a_restore_is_what_would_have_followed(folder, draw):
    stream = draw.draw(st.booleans())
    source = draw.draw(st.sampled_from(sorted(STREAMS if stream else SOURCES)))
    options = draw.draw(st.sampled_from([{"shuffle": False}, {"buffer": 4}] if stream else list(DRAWN.values())))
    options = options | {"transform": draw.draw(st.sampled_from([None, noisy])), "drop_last": draw.draw(st.booleans())}
    size, count = draw.draw(st.sampled_from([1, 2, 5])), draw.draw(st.sampled_from([1, 3]))

    def made(key, **more):
        return Loader((STREAMS if stream else SOURCES)[source](folder), size, key=key, **options, **more)

    whole = epochs(made(7, prefetch=0, steps_per_call=count))
    first = made(7, prefetch=draw.draw(st.sampled_from([0, 1, 3])), steps_per_call=count)
    reading = (batch for _ in range(3) for batch in first)
    taken = list(islice(reading, draw.draw(st.integers(0, len(whole)))))
    state = json.loads(json.dumps(first.state()))
    reading.close()
    second = made(8, prefetch=draw.draw(st.sampled_from([0, 2])), steps_per_call=count)
    second.restore(state)
    same(taken + epochs(second, 3 - state["epoch"]), whole)
    no_thread()


@pytest.mark.parametrize("options", DRAWN.values(), ids=DRAWN)
def test_reading_ahead_changes_nothing(options):
    same(epochs(Loader(data(), 4, prefetch=0, **options)), epochs(Loader(data(), 4, prefetch=3, **options)))


@pytest.mark.parametrize("count", [2, 4, 20])
@pytest.mark.parametrize("drop_last", [False, True])
def test_stacks_hold_the_same_batches_and_a_place_in_them_is_a_place_in_all(count, drop_last):
    options = {"drop_last": drop_last, "buckets": (4, 20), "length": np.arange(N) % 7}
    single = epochs(Loader(data(), 3, **options), 2)
    stacks = Loader(data(), 3, steps_per_call=count, **options)
    same([{n: x[i] for n, x in s.items()} for _ in range(2) for s in stacks for i in range(len(s["y"]))], single)
    assert all(len(s["y"]) <= count for s in stacks)
    half = Loader(data(), 3, steps_per_call=count, **options)
    next(iter(half))
    other = Loader(data(), 3, **options)
    other.restore(half.state())
    rest = list(other)
    assert rest
    same(rest, single[half.position :][: len(rest)])


def test_every_row_comes_once_and_each_epoch_is_another_order():
    loader = Loader(data(), 4)
    first, second = [np.concatenate([b["y"] for b in loader]) for _ in range(2)]
    assert sorted(first) == sorted(second) == list(range(N))
    assert first.tolist() != second.tolist()
    assert (loader.epoch, loader.position, len(loader), loader.steps) == (2, 0, 4, 4)
    assert first.tolist() == np.concatenate([b["y"] for b in Loader(data(), 5)]).tolist()
    assert first.tolist() != np.concatenate([b["y"] for b in Loader(data(), 4, key=1)]).tolist()


def test_the_order_is_the_same_everywhere():
    # Philox 4x64-10 is a published function: these words and this order hold on any machine.
    assert RandomWords(1, 2).draw(2).tolist() == [5705853004827290377, 6584680345644299050]
    assert next(iter(Loader(np.arange(8), 8, key=1))).tolist() == [3, 5, 2, 7, 0, 6, 1, 4]


@pytest.mark.parametrize("name", [*SOURCES, *STREAMS])
def test_rows_of_every_source_are_the_rows(folder, name):
    source = (SOURCES | STREAMS)[name](folder)
    batches = list(Loader(source, 5, shuffle=False))
    x = tree.leaves(batches[1])[0]
    expected = {"array": np.arange(5.0, 10), "csv": np.arange(5, 10)}.get(name, data()["x"][5:10])
    np.testing.assert_array_equal(x, expected)
    assert [len(tree.leaves(b)[0]) for b in batches] == [5, 5, 3]
    assert x.flags.owndata or x.base is not source


def test_the_last_batch_holds_what_is_left_over_unless_it_is_dropped():
    assert [len(b["y"]) for b in Loader(data(), 5)] == [5, 5, 3]
    assert [len(b["y"]) for b in Loader(data(), 5, drop_last=True)] == [5, 5]
    assert [len(b["y"]) for b in Loader(generated, 5, drop_last=True, shuffle=False)] == [5, 5]
    with pytest.raises(ShapeError, match=r"13 rows of .* give no batch of 20"):
        list(Loader(data(), 20, drop_last=True))


def test_weights_draw_in_proportion_and_never_a_row_of_weight_zero():
    weights = np.array([0.0, 1.0, 3.0, 0.0])
    drawn = np.concatenate(epochs(Loader(np.arange(4), 4, weights=weights), 2000))
    counts = np.bincount(drawn, minlength=4)
    assert counts[0] == counts[3] == 0
    # Within five standard deviations of a quarter.
    assert abs(counts[1] - 2000) < 5 * np.sqrt(8000 * 0.25 * 0.75)


def test_without_replacement_no_row_comes_twice_and_heavy_ones_come_first():
    loader = Loader(np.arange(5), 5, sampler=Weighted([1, 1, 1, 1, 16], replacement=False))
    orders = epochs(loader, 500)
    assert all(sorted(order) == [0, 1, 2, 3, 4] for order in orders)
    heavy = sum(order[0] == 4 for order in orders)
    assert abs(heavy - 400) < 5 * np.sqrt(500 * 0.8 * 0.2)


def test_a_batch_comes_from_one_bucket():
    lengths, bounds = np.arange(50) * 7 % 50, (10, 30, 49)
    loader = Loader([np.zeros(n) for n in lengths], 4, buckets=bounds, length=len, collate=list)
    for batches in (list(loader), list(loader)):
        assert sorted(len(x) for batch in batches for x in batch) == sorted(lengths)
        assert all(len({np.searchsorted(bounds, len(x)) for x in batch}) == 1 for batch in batches)
    first, second = [[len(x) for b in loader for x in b] for _ in range(2)]
    assert first != second


def test_rows_of_different_lengths_are_filled_up():
    rows = [(np.arange(n), n) for n in (1, 3, 4, 6)]
    batches = list(Loader(rows, 2, shuffle=False, collate=padded((4, 8), value=-1)))
    assert [b[0].tolist() for b in batches] == [
        [[0, -1, -1, -1], [0, 1, 2, -1]],
        [[0, 1, 2, 3, -1, -1, -1, -1], [0, 1, 2, 3, 4, 5, -1, -1]],
    ]
    assert batches[1][1].tolist() == [4, 6]
    with pytest.raises(ShapeError, match="a row of length 6 is longer than the last of"):
        list(Loader(rows, 4, collate=padded((4,))))


def test_a_buffer_shuffles_what_comes_one_after_the_other():
    loader = Loader(generated, 4, buffer=5)
    first, second = [np.concatenate([b["y"] for b in loader]) for _ in range(2)]
    assert sorted(first) == sorted(second) == list(range(N))
    assert first.tolist() != second.tolist() != list(range(N))
    assert all(y < i + 5 for i, y in enumerate(first))


def test_items_that_are_batches_are_left_alone():
    batches = [np.arange(3), np.arange(5)]
    assert list(Loader(iter(batches), None, shuffle=False, prefetch=0))[1] is batches[1]
    assert [len(b) for b in Loader(batches, None, shuffle=False)] == [3, 5]


def test_a_loop_that_is_left_takes_nothing_away_unless_it_is_held():
    loader = Loader(data(), 4)
    whole = list(Loader(data(), 4))
    same([loader.example], whole[:1])
    for _ in loader:
        break
    assert loader.state()["position"] == 1
    same(list(loader), whole)
    next(iter(loader))
    loader.hold()
    same(list(loader), epochs(Loader(data(), 4), 2)[5:])
    reading = iter(loader)
    next(reading), next(reading)
    reading.close()
    loader.hold(back=1)
    assert (loader.epoch, loader.position) == (2, 1)


def test_the_place_after_the_last_batch_is_the_beginning_of_the_next_epoch():
    loader = Loader(data(), 5)
    reading = iter(loader)
    for _ in range(3):
        next(reading)
    assert (loader.state()["epoch"], loader.state()["position"]) == (1, 0)
    loader.hold()
    assert (loader.epoch, loader.position) == (1, 0)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_an_error_comes_where_its_batch_would_have_come_with_its_own_traceback(prefetch):
    def transform(batch):
        if 7 in batch["y"]:
            raise LookupError("seven")
        return batch

    loader, seen = Loader(data(), 2, prefetch=prefetch, shuffle=False, transform=transform), 0
    with pytest.raises(LookupError, match="seven") as caught:
        for _ in loader:
            seen += 1
    assert seen == 3
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].line == 'raise LookupError("seven")' and {frame.filename for frame in frames} == {__file__}
    no_thread()


def test_a_thread_ends_with_its_loop():
    loader = Loader(data(), 2, prefetch=2)
    for _ in loader:
        break
    no_thread()
    reading = iter(loader)
    next(reading)
    assert [t for t in threading.enumerate() if t.name == "wholestep loader"]
    del reading
    no_thread()
    with pytest.raises(ZeroDivisionError):
        for _ in loader:
            1 / 0  # noqa: B018
    no_thread()


def test_reading_ahead_is_bounded():
    made = []
    loader = Loader(data(), 1, transform=lambda b: made.append(1) or b, prefetch=3)
    reading = iter(loader)
    next(reading)
    while len(made) < 4:
        pass
    assert not loader.position - 1
    reading.close()
    assert len(made) <= 5


def test_a_thread_reads_ahead_where_it_pays():
    large = np.zeros((8, 10_000))
    assert [Loader(x, 2).prefetch for x in (data(), large, [1, 2])] == [0, 2, 2]
    assert [Loader(data(), 2, **more).prefetch for more in ({"prefetch": 4}, {"transform": len})] == [4, 2]


def test_a_thread_that_is_gone_is_an_error(monkeypatch):
    monkeypatch.setattr(prefetch, "LOOK", 0.01)
    monkeypatch.setattr(prefetch.Ahead, "work", lambda self: None)
    with pytest.raises(RuntimeError, match="thread that reads ahead is gone"):
        list(Loader(data(), 2, prefetch=2))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # of JAX, where a test beside this one has imported it
def test_a_fork_goes_on_where_its_parent_was():
    loader = Loader(data(), 2, prefetch=2)
    whole = [b["y"].tolist() for b in Loader(data(), 2, prefetch=2)]
    reading = iter(loader)
    seen = [next(reading)["y"].tolist() for _ in range(2)]
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            rest = [b["y"].tolist() for b in reading]
            os.write(write, json.dumps(rest).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as file:
        told = json.loads(file.read())
    os.waitpid(child, 0)
    assert seen + told == whole
    assert seen + [b["y"].tolist() for b in reading] == whole
    no_thread()


def test_an_iterator_is_read_once():
    loader = Loader(generated(), 4, shuffle=False)
    assert len(list(loader)) == 4
    with pytest.raises(ParameterError, match=r"generated was begun already(.|\n)*give a function that makes it"):
        list(loader)
    with pytest.raises(UnsupportedError, match="to look at the first item of an iterator is to take it away"):
        _ = Loader(generated(), 4, shuffle=False).example
    with pytest.raises(TypeError, match="nobody knows"):
        len(loader)
    cut, rest = Loader(generated(), 4, shuffle=False, prefetch=0), Loader(generated(), 4, shuffle=False)
    next(iter(cut))
    rest.restore(cut.state())
    assert [b["y"].tolist() for b in rest] == [[4, 5, 6, 7], [8, 9, 10, 11], [12]]


def test_a_state_is_for_its_own_data_and_order():
    state = Loader(data(), 4).state()
    for other in (Loader(np.arange(N), 4), Loader(data(), 5), Loader(data(), 4, shuffle=False)):
        with pytest.raises(ParameterError, match=r"restore: the state is for (data|order)"):
            other.restore(state)
    with pytest.raises(ParameterError, match="lengths"):
        a, b = [Loader(data(), 4, buckets=(20,), length=n) for n in (np.arange(N), np.arange(N)[::-1])]
        a.restore(b.state())
    for bad in (None, {}, state | {"position": -1}, state | {"epoch": "1"}):
        with pytest.raises(ParameterError, match="restore"):
            Loader(data(), 4).restore(bad)
    once = Loader(iter([]), 4, shuffle=False)
    with pytest.raises(ParameterError, match="has no second epoch"):
        once.restore(once.state() | {"epoch": 1})


def test_csv_columns_are_integers_or_floats(tmp_path, monkeypatch):
    path = tmp_path / "t.CSV"
    path.write_text('\ufeffid,"price, net",z\n1,2,nan\n\n2,"3.5",-1e3\n3,4,0\n', encoding="utf-8")
    for chunk in (1, 2, 100):
        monkeypatch.setattr(csv, "CHUNK", chunk)
        rows = open_arrays(path)
        assert list(rows) == ["id", "price, net", "z"]
        assert [x.dtype.name for x in rows.values()] == ["int64", "float64", "float64"]
        assert rows["price, net"].tolist() == [2, 3.5, 4]
        assert np.isnan(rows["z"][0])


@pytest.mark.parametrize(
    ("text", "error", "says"),
    [
        ("", ParameterError, "names every column"),
        ("1,2\n3,4\n", ParameterError, "holds numbers"),
        ("a,a\n1,2\n", ParameterError, "each by its own name"),
        ("a,b\n", ShapeError, "has no rows"),
        ("a,b\n1,2\n3\n", ShapeError, "line 3 has 1 fields, not 2"),
        ("a,b\n1,2\n\n3,\n", DtypeError, "column b: '' in line 4 is no number"),
        ("a\n1\nred\n", DtypeError, "'red'(.|\n)*get_dummies"),
        ("a,b\n1, \n", DtypeError, "is no number(.|\n)*write nan"),
        ("a;b\n1;2,5\n", ShapeError, "line 2 has 2 fields, not 1(.|\n)*by commas, and here by ';'"),
        ("a\n1_000\n", DtypeError, "'1_000' in line 2 is no number"),
        ("a\n1;2\n", DtypeError, "separated by commas, and here by ';'"),
        ("a\n1\n9223372036854775808\n", DtypeError, "column a: the integer in line 3 is outside int64"),
        ("a\n1\n-9223372036854775809\n", DtypeError, "column a: the integer in line 3 is outside int64"),
        ("a\n1\n" + "9" * 5000, DtypeError, "column a: the integer in line 3 is outside int64"),
        ("a\0\n1\n", DtypeError, "is no text"),
        ("a\n" + "1" * 200_000, DtypeError, r"t\.csv is no \.csv file of numbers: field larger"),
    ],
)
def test_a_bad_table_is_refused(tmp_path, text, error, says):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(error, match=says):
        Loader(tmp_path / "t.csv", 2)


@pytest.mark.parametrize("chunk", [1, 100])
def test_integers_beyond_int64_are_floats_only_among_floats(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(csv, "CHUNK", chunk)
    (tmp_path / "t.csv").write_text("a,b\n18446744073709551616,-9223372036854775808\n0.5,9223372036854775807\n")
    rows = open_arrays(tmp_path / "t.csv")
    assert rows["a"].tolist() == [2.0**64, 0.5]
    assert rows["b"].tolist() == [-(2**63), 2**63 - 1]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_tables_are_text_with_a_byte_order_mark_or_utf8(tmp_path, encoding):
    (tmp_path / "t.csv").write_bytes("größe,b\n1,2.5\n".encode(encoding))
    assert {name: x.tolist() for name, x in open_arrays(tmp_path / "t.csv").items()} == {"größe": [1], "b": [2.5]}


def test_text_in_another_encoding_is_refused_with_a_way_out(tmp_path):
    (tmp_path / "t.csv").write_bytes("größe\n1\n".encode("latin-1"))
    with pytest.raises(
        DtypeError, match=r"t\.csv is no \.csv file of numbers: it is no utf-8 text(.|\n)*hint: save it as UTF-8"
    ):
        Loader(tmp_path / "t.csv", 1)


def test_nothing_is_allocated_for_what_a_file_only_promises(tmp_path):
    promise = datafiles.with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (400000000000,), }", b"")
    for name, data in {
        "a.npy": promise,
        "b.npz": datafiles.npz({"x.npy": promise}, zipfile.ZIP_STORED),
        "c.npz": datafiles.npz({"x.npy": promise}, zipfile.ZIP_DEFLATED),
    }.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(DtypeError, match=f"{name} is no .* promises 3,200,000,000,000 bytes, and 0 are there"):
            Loader(tmp_path / name, 1)


def test_no_member_is_larger_than_what_it_is_packed_in(tmp_path):
    promise = datafiles.with_header("{'descr': '<f8', 'fortran_order': False, 'shape': (500000000,), }", b"")
    data = bytearray(datafiles.npz({"x.npy": promise}, zipfile.ZIP_DEFLATED))
    at = data.index(b"PK\x01\x02") + 24
    data[at : at + 4] = (4_100_000_000).to_bytes(4, "little")
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(DtypeError, match=r"x\.npy cannot be 4,100,000,000 bytes out of \d\d"), bounded(MEMORY):
        Loader(tmp_path / "a.npz", 1)


def test_what_is_not_there_or_no_plain_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.csv"):
        Loader(tmp_path / "none.csv", 1)
    os.mkfifo(tmp_path / "pipe.npy")
    with pytest.raises(ParameterError, match=r"pipe\.npy is no plain file"):
        Loader(tmp_path / "pipe.npy", 1)


def test_a_damaged_file_is_read_as_numpy_reads_it_or_refused():
    seed = int.from_bytes(os.urandom(4))
    found, failures = datafiles.audit(1000, np.random.default_rng(seed), lambda: bounded(MEMORY))
    assert failures == [], seed
    assert 300 < found["data files that were refused"] < 1000


def test_arrays_of_npz_files_stay_on_disk_where_they_can(folder):
    stored, packed = open_arrays(folder / "rows.npz"), open_arrays(folder / "small.npz")
    assert all(isinstance(x, np.memmap) for x in stored.values())
    for name, x in data().items():
        np.testing.assert_array_equal(stored[name], x)
        np.testing.assert_array_equal(packed[name], x)


def test_other_layouts_in_npz_files(tmp_path):
    arrays = {"f": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "e": np.zeros((2, 0)), "b": np.array([True, False])}
    np.savez(tmp_path / "a.npz", **arrays)
    for name, x in open_arrays(tmp_path / "a.npz").items():
        np.testing.assert_array_equal(x, arrays[name])


@pytest.mark.parametrize("name", ["a.npy", "a.npz"])
def test_what_is_no_file_of_numbers_is_refused(tmp_path, name):
    objects = np.array([{}, {}], object)
    (np.save if name.endswith("npy") else np.savez)(tmp_path / name, objects)
    with pytest.raises(DtypeError, match=r"is no .np[yz] file of numbers"):
        Loader(tmp_path / name, 1)
    (tmp_path / name).write_bytes(b"nothing of the kind")
    with pytest.raises(DtypeError, match=r"is no .np[yz] file of numbers"):
        Loader(tmp_path / name, 1)


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (lambda: Loader({"x": np.zeros(3), "y": np.zeros(4)}, 2), ShapeError, r"data.x is float64\[3\] and data.y"),
        (lambda: Loader({"x": np.float64(1)}, 2), DtypeError, r"data\.x is a float64, not an array"),
        (lambda: Loader(np.zeros(()), 2), ShapeError, "no axis of rows"),
        (lambda: Loader({}, 2), TreeError, "holds no arrays"),
        (lambda: Loader(np.zeros((0, 3)), 2), ShapeError, "has no rows"),
        (lambda: Loader([], 2), ShapeError, "has no rows"),
        (lambda: Loader(np.array(["a"]), 1), DtypeError, "compute with numbers"),
        (lambda: Loader(3, 2), DtypeError, "data is an int"),
        (lambda: Loader("rows.txt", 2), ParameterError, r"files end in \.npy, \.npz, \.csv"),
        (lambda: Loader(np.zeros(3), 0), ParameterError, "loader: batch_size is 0"),
        (lambda: Loader(np.zeros(3), 2, steps_per_call=0), ParameterError, "steps_per_call is 0"),
        (lambda: Loader(np.zeros(3), 2, transform=3), ParameterError, "transform is 3; it must be a function"),
        (lambda: Loader(np.zeros(3), 2, sampler=[0, 1]), ParameterError, r"sampler is \[0, 1\]; it must be a function"),
        (lambda: list(Loader(np.zeros(3), 2, transform=lambda b: None)), ParameterError, "transform returned None"),
        (lambda: Loader(np.zeros(3), 2).hold(1), ParameterError, "back is 1, and this loop has given out 0 batches"),
        (lambda: Loader(np.zeros(3), 2, prefetch=-1), ParameterError, "prefetch is -1"),
        (lambda: Loader(np.zeros(3), 2, weights=[1, 2]), ShapeError, "2 weights and 3 rows"),
        (lambda: Loader(np.zeros(2), 2, weights=[1, -2]), ParameterError, "none is negative"),
        (lambda: Loader(np.zeros(2), 2, weights=[0, 0]), ParameterError, "one is more than zero"),
        (lambda: Weighted([1, 0], draws=2, replacement=False), ParameterError, "2 draws without replacement, and 1"),
        (lambda: Loader(np.zeros(2), 2, weights=[1, 1], sampler=evens), ParameterError, "sampler and weights each"),
        (lambda: Loader(np.zeros(2), 2, buckets=(3,)), ParameterError, "buckets= and length= go together"),
        (lambda: Loader(np.zeros(2), 2, buckets=(3, 3), length=[1, 2]), ParameterError, "do not rise"),
        (lambda: Loader(np.zeros(2), 2, buckets=(3,), length=[1, 4]), ParameterError, "row 1 has length 4"),
        (lambda: Loader(np.zeros(2), 2, buckets=(3,), length=[1]), ShapeError, "1 lengths and 2 rows"),
        (lambda: Loader(np.zeros(2), 2, buffer=3), ParameterError, "these can be asked for"),
        (lambda: Loader(np.zeros(2), 2, collate=list), ParameterError, "is a tree of arrays"),
        (lambda: Loader([1], None, collate=list), ParameterError, "takes each item for a batch"),
        (lambda: Loader(generated, 2, shuffle=True), ParameterError, "buffer=1000 shuffles them"),
        (lambda: Loader(generated, 2, shuffle=False, buffer=2), ParameterError, "shuffle is False"),
        (lambda: Loader(generated, 2, weights=[1]), ParameterError, "weights= asks for rows by number"),
        (lambda: list(Loader([1, (2,)], 2)), TreeError, r"item [01] of a batch"),
        (
            lambda: list(Loader([{"x": 1}, None], 2, shuffle=False)),
            TreeError,
            r"holds nothing, and item 0 holds item\.x",
        ),
        (lambda: list(Loader([np.zeros(1), np.zeros(2)], 2)), ShapeError, r"collate=padded"),
        (lambda: list(Loader([1, 2.0], 2)), DtypeError, "item is"),
        (lambda: list(Loader(["a", "b"], 2)), DtypeError, "compute with numbers"),
        (lambda: list(Loader(np.zeros(2), 2, sampler=lambda rng: [0, 2])), ParameterError, "drew row 2 of 2"),
        (lambda: list(Loader(np.zeros(2), 2, sampler=lambda rng: [0.5])), DtypeError, "not row numbers"),
    ],
)
def test_what_does_not_go_together_is_refused(make, error, says):
    with pytest.raises(error, match=says):
        make()
    no_thread()


@pytest.mark.parametrize("data", [np.ma.masked_array(np.ones((4, 2)), mask=True), [np.ma.masked_array([1.0, 2.0])] * 4])
def test_masked_arrays_are_refused(data):
    with pytest.raises(DtypeError, match=r"MaskedArray is not supported[\s\S]*filled"):
        list(Loader(data, 2))
