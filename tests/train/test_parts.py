"""Splits of a data set have every row once, by the lengths or the fractions asked for, and concatenations all rows."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import wholestep as ws
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError

N = 13
DATA = {"x": np.arange(2.0 * N, dtype=np.float32).reshape(N, 2), "y": np.arange(N)}


class Squares:
    """Items that count how often they are asked for together."""

    def __init__(self, count, first=0):
        self.count, self.first, self.calls = count, first, 0

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return {"x": np.full(2, 2.0 * i + self.first, np.float32), "y": np.int64(i + self.first)}

    def __getitems__(self, rows):
        self.calls += 1
        return [self[i] for i in rows]


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(any), st.integers(0, 2**40))
@settings(max_examples=40, deadline=None)
def test_a_split_has_every_row_once_in_the_lengths_asked_for(lengths, seed):
    rows = np.arange(sum(lengths))
    parts = ws.random_split({"a": rows, "b": -rows}, lengths, key=seed)
    assert [len(part["a"]) for part in parts] == lengths
    whole = np.concatenate([part["a"] for part in parts])
    np.testing.assert_array_equal(np.sort(whole), rows)
    np.testing.assert_array_equal(np.concatenate([part["b"] for part in parts]), -whole)


def test_a_split_is_a_function_of_its_key_and_shuffles():
    first, again, other = [ws.random_split(DATA, [9, 4], key=key)[0]["y"].tolist() for key in (3, ws.random.key(3), 4)]
    assert first == again
    assert first != other
    assert first != sorted(first)
    order = [y for batch in ws.Loader(DATA, 1, key=3) for y in batch["y"].tolist()]
    assert first != order[:9]  # a loader of the same key draws another order


@pytest.mark.parametrize(
    "fractions", [[0.8, 0.2], [0.5, 0.25, 0.25], [1 / 3, 1 / 3, 1 / 3], [0.1] * 10, [1.0], [0.29, 0.71]]
)
@pytest.mark.parametrize("count", [10, 13, 100, 1001])
def test_fractions_are_those_of_torch(fractions, count):
    parts = ws.random_split(np.arange(count), fractions)
    least = [int(round(count * share, 6)) for share in fractions]
    assert sum(map(len, parts)) == count
    assert [len(part) for part in parts] == [n + (i < count - sum(least)) for i, n in enumerate(least)]
    data = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed").utils.data
    expected = [len(part) for part in data.random_split(range(count), fractions)]
    assert [len(part) for part in parts] == expected


def test_a_fraction_of_a_hundred_rows_is_that_many():
    assert 0.29 * 100 < 29
    assert [len(part) for part in ws.random_split(np.arange(100), [0.71, 0.29])] == [71, 29]
    assert [len(part) for part in ws.random_split(np.arange(7), [0.0, 1.0])] == [0, 7]


def test_items_and_files_are_split_without_being_read(tmp_path):
    squares = Squares(N)
    train, test = ws.random_split(squares, [0.7, 0.3], key=1)
    held = ws.random_split(DATA, [0.7, 0.3], key=1)[0]["y"]
    assert (len(train), len(test), squares.calls) == (10, 3, 0)
    assert [int(train[i]["y"]) for i in range(10)] == held.tolist()
    (batch,) = ws.Loader(train, 10, shuffle=False)
    np.testing.assert_array_equal(batch["y"], held)
    assert squares.calls == 1
    np.save(tmp_path / "rows.npy", DATA["x"])
    part = ws.random_split(tmp_path / "rows.npy", [10, 3], key=1)[0]
    assert not isinstance(part, np.ndarray)
    (batch,) = ws.Loader(part, 10, shuffle=False)
    np.testing.assert_array_equal(batch, DATA["x"][held])
    again = ws.random_split(train, [4, 6])
    assert {int(item["y"]) for part in again for item in part} == set(held.tolist())


def test_lengths_that_do_not_add_up_are_refused():
    for lengths in ([5, 5], [0.5, 0.6], [0.5], [], [14, -1], [13.0], [True] * 13, [-0.5, 1.5], [np.nan, 1.0]):
        with pytest.raises(ParameterError, match=r"^random_split: lengths are .*13 rows"):
            ws.random_split(DATA, lengths)
    with pytest.raises(ParameterError, match=r"^random_split: .*one after the other"):
        ws.random_split((i for i in range(3)), [1, 2])


def test_arrays_one_after_another():
    first, second, third = ws.random_split(DATA, [5, 2, 6], key=2)
    whole = ws.concat_rows([first, second, third])
    np.testing.assert_array_equal(whole["y"], np.concatenate([p["y"] for p in (first, second, third)]))
    assert whole["x"].dtype == np.float32
    np.testing.assert_array_equal(whole["x"], DATA["x"][whole["y"]])


def test_items_one_after_another(tmp_path):
    np.savez(tmp_path / "rows.npz", **DATA)
    few, many = Squares(3, 100), Squares(4, 200)
    both = ws.concat_rows([few, Squares(0), tmp_path / "rows.npz", many, DATA])
    expected = [100, 101, 102, *range(N), 200, 201, 202, 203, *range(N)]
    assert [int(both[i]["y"]) for i in range(len(both))] == expected
    assert int(both[-1]["y"]) == N - 1
    for row in (len(both), -len(both) - 1):
        with pytest.raises(IndexError):
            _ = both[row]
    batches = list(ws.Loader(both, 11, key=5))
    assert sorted(np.concatenate([b["y"] for b in batches]).tolist()) == sorted(expected)
    for batch in batches:
        plain = batch["y"] < 100
        np.testing.assert_array_equal(batch["x"][plain], DATA["x"][batch["y"][plain]])
    assert few.calls <= len(batches)


def test_torch_takes_what_was_put_together():
    data = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed").utils.data
    parts = [Squares(3), Squares(5, 50)]
    ours, theirs = ws.concat_rows(parts), data.ConcatDataset(parts)
    assert [int(ours[i]["y"]) for i in range(-8, 8)] == [int(theirs[i]["y"]) for i in range(-8, 8)]
    loaded = [y for batch in data.DataLoader(ours, batch_size=3) for y in batch["y"].tolist()]
    assert loaded == [0, 1, 2, 50, 51, 52, 53, 54]


def test_rows_that_differ_are_refused():
    for other, error in (
        ({"x": DATA["x"]}, TreeError),
        ({**DATA, "x": DATA["x"][:, :1]}, ShapeError),
        ({**DATA, "x": DATA["x"].astype(float)}, DtypeError),
    ):
        with pytest.raises(error, match=r"^concat_rows: .*data set 1"):
            ws.concat_rows([DATA, other])
    with pytest.raises(ParameterError, match=r"^concat_rows: no data"):
        ws.concat_rows([])
    with pytest.raises(ParameterError, match=r"^concat_rows: .*one after the other"):
        ws.concat_rows([DATA, iter([1])])
