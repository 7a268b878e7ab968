"""Data of users: tensors, data frames, lists of numbers and labels are taken wherever a batch or data is given."""

import collections
import doctest
from pathlib import Path

import numpy as np
import pytest
from tests.train.lent import DataLoader, Exported, Rows, Series, Tensor, TensorDataset, bfloat16

import wholestep as ws
from wholestep import tree
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError
from wholestep.frontend import outside
from wholestep.train.data import labels
from wholestep.train.state.batch_signature import BatchSignature

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(12, 3)), RNG.normal(size=12)
BATCH = {"x": X, "y": Y}


def loss(params, batch):
    x, y = (batch["x"], batch["y"]) if isinstance(batch, dict) else batch
    return np.mean((x @ params - y) ** 2)


def made(batch=BATCH, **options):
    return ws.compile(loss, np.zeros(3), optimizer=ws.optim.sgd(0.1), batch=batch, **options)


EXPECTED = made()(BATCH).loss
MAKERS = {
    "tensor": Tensor,
    "tensor with a gradient": lambda x: Tensor(x, requires_grad=True),
    "dlpack": Exported,
    "to_numpy": Series,
    "list": np.ndarray.tolist,
    "list of tuples": lambda x: list(map(tuple, x.tolist())) if x.ndim > 1 else tuple(x.tolist()),
}


@pytest.mark.parametrize("name", MAKERS)
def test_a_batch_of_what_users_hold_is_the_batch_of_arrays(name):
    make = MAKERS[name]
    given = {"x": make(X), "y": make(Y)}
    step = made()
    assert step(given).loss == EXPECTED
    assert step.traces == 1
    assert step(collections.UserDict(given)).loss != EXPECTED
    if name != "list of tuples":  # a tuple without an array before it is a container
        f = step.attach(loss)
        assert f(given) == f(BATCH) and step.traces == 2
        assert made(given)(BATCH).loss == EXPECTED
        assert made()(BATCH).loss == made().run(given, batch_size=12, shuffle=False).loss
        assert ws.Loader(given, 12, shuffle=False).example["x"].tolist() == X.tolist()
        shapes = [ws.estimate(loss, np.zeros(3), batch=b).arena for b in (given, BATCH)]
        assert shapes[0] == shapes[1]
        assert made().diagnose(given).operation is None


def test_tensors_are_read_where_they_lie():
    x = Tensor(X)
    (found,) = BatchSignature(X, "batch", "step").arrays(x)
    assert np.shares_memory(found, X)


def test_bfloat16_has_the_same_bits():
    x = bfloat16(X)
    (found,) = BatchSignature(x.values, "batch", "step").arrays(x)
    assert found.dtype == x.values.dtype and found.tobytes() == x.values.tobytes()


def test_other_shapes_of_what_users_hold_are_other_shapes():
    step = made()
    for n in (5, 7, 5):
        given, plain = {"x": Tensor(X[:n]), "y": Y[:n].tolist()}, {"x": X[:n], "y": Y[:n]}
        before = step.state
        result = step(given).loss
        step.load_state(before)
        assert step(plain).loss == result
    assert step.traces == 3


def test_numbers_take_the_dtype_of_their_place_and_arrays_keep_theirs():
    pattern = BatchSignature(
        {"f": np.zeros(2, np.float32), "i": np.zeros(2, np.uint8), "b": np.zeros(2, bool)}, "batch", "step"
    )
    fine = {"f": [1, 2.5], "i": [1, 255], "b": [True, False]}
    assert [x.dtype for x in pattern.arrays(fine)] == [np.bool_, np.float32, np.uint8]
    for wrong, says in [
        ({"f": [True, False]}, r"batch\.f is bool\[2\]"),
        ({"f": [np.float64(1), 2.0]}, r"batch\.f is f64\[2\].*\n.*\n.*astype\(np\.float32\)"),
        ({"f": Tensor(np.zeros(2))}, r"batch\.f is f64\[2\].*\n.*\n.*astype\(np\.float32\)"),
        ({"i": [1, 256]}, r"batch\.i: Python integer 256 out of bounds"),
        ({"i": [1.0, 2.0]}, r"batch\.i is f64\[2\]"),
        ({"b": [0, 1]}, r"batch\.b is i64\[2\]"),
        ({"f": ["a", "b"]}, r"batch\.f is the text 'a'.*\n.*\n.*encode_labels"),
        ({"f": np.array(["a", "b"])}, r"batch\.f holds <U1.*\n.*\n.*encode_labels"),
        ({"f": np.array(["a", "b"], object)}, r"batch\.f holds text as objects"),
        ({"f": np.array([1.0, None], object)}, r"batch\.f holds object.*\n.*\n.*fillna"),
        ({"f": np.array(["2020-01-01"] * 2, "M8[D]")}, r"batch\.f holds datetime64\[D\], times"),
        (
            {"f": Tensor(np.zeros(2, np.float32), device="cuda:0")},
            r"batch\.f is a Tensor on cuda:0.*\n.*\n.*x\.cpu\(\)",
        ),
        ({"f": Series(3)}, r"batch\.f"),
    ]:
        with pytest.raises((DtypeError, ShapeError), match=says):
            pattern.arrays({**fine, **wrong})
    with pytest.raises(ShapeError, match=r"batch\.f is a list of rows of different lengths"):
        pattern.arrays({**fine, "f": [[1.0], [1.0, 2.0]]})
    with pytest.raises(TreeError, match=r"no batch\.f; batch\.f\[0\], batch\.f\[1\], .* and 4 more unexpected"):
        pattern.arrays({**fine, "f": [np.zeros(2)] * 10})


def test_lists_and_tuples_stand_for_each_other_where_there_is_one():
    step = made((X, Y))
    assert step([X, Y]).loss == EXPECTED
    assert made([X, Y])((Tensor(X), Y.tolist())).loss == EXPECTED
    with pytest.raises(TreeError):
        step([X, Y, Y])


def test_an_example_of_lists_is_of_arrays_and_containers_stay():
    given = {"x": [[1.0, 2.0], [3.0, 4.0]], "k": (1.0, [X, Y]), "n": None, "e": []}
    found = outside.taken_over(given, "batch", "compile")
    assert found["x"].tolist() == given["x"] and found["k"][1] is not None and found["k"][0] == 1.0
    assert tree.structure(found) == tree.structure({**given, "x": 0})
    assert outside.taken_over(BATCH, "batch", "compile") is BATCH
    with pytest.raises(DtypeError, match=r"compile: batch\.y\[1\] is the text 'a'"):
        outside.taken_over({"x": X, "y": [0, "a"]}, "batch", "compile")
    with pytest.raises(DtypeError, match=r"jit: batch\['a b'\] is a Broken, of which NumPy makes no array: too far\n"):
        outside.taken_over({"a b": Broken()}, "batch", "jit")


class Broken:
    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("too far\naway")


def test_jit_takes_tensors_and_leaves_lists_to_python():
    f = ws.jit(lambda x, k=2: x * k)
    np.testing.assert_array_equal(f(Tensor(X)), X * 2)
    np.testing.assert_array_equal(f(Exported(X), k=Tensor(np.array(3.0))), X * 3.0)
    assert f([1.0, 2.0]) == [1.0, 2.0, 1.0, 2.0]
    assert f(Tensor(X)) is not None and f.traces == 3
    with pytest.raises(DtypeError, match=r"<lambda>: x is a Tensor on cuda"):
        f(Tensor(X, device="cuda:0"))
    assert ws.jit(lambda t: np.zeros(2, t))(np.float32).dtype == np.float32


BARE = {
    "data loader": lambda: DataLoader(X, Y, size=5),
    "generator": lambda: (b for b in list(DataLoader(X, Y, size=5))),
    "function": lambda: lambda: iter(DataLoader(X, Y, size=5)),
    "list of batches": lambda: [(X[i : i + 5], Y[i : i + 5]) for i in range(0, 12, 5)],
}


@pytest.mark.parametrize("name", BARE)
def test_fit_takes_bare_batches_as_they_come(name):
    step, plain = made((X[:5], Y[:5])), made((X[:5], Y[:5]))
    epochs = 1 if name == "generator" else 2
    if name == "list of batches":
        history = ws.fit(step, ws.Loader(BARE[name](), None, shuffle=False), epochs=epochs, progress=None)
        assert ws.fit(made((X[:5], Y[:5])), BARE[name](), epochs=1, progress=None).losses.size == 3
    else:
        history = ws.fit(step, BARE[name](), epochs=epochs, validation=BARE[name](), progress=None)
        np.testing.assert_allclose(history["val_loss"][-1], plain_loss(step.params))
    losses = [plain(b).loss for _ in range(epochs) for b in BARE["list of batches"]()]
    np.testing.assert_allclose(history.losses, losses, rtol=1e-12)


def plain_loss(params):
    return np.mean((X @ params - Y) ** 2)


@pytest.mark.parametrize("data", [TensorDataset(X, Y), (Tensor(X), Tensor(Y)), list(zip(X, Y, strict=True))], ids=type)
def test_fit_takes_data_sets_by_number_in_the_order_that_it_draws(data):
    step, plain = made((X[:5], Y[:5])), made((X[:5], Y[:5]))
    np.testing.assert_array_equal(
        ws.fit(step, data, epochs=2, progress=None).losses, ws.fit(plain, (X, Y), epochs=2, progress=None).losses
    )


def test_rows_of_lists_and_numbers_are_asked_for_a_batch_at_a_time():
    rows = Rows(x=X, y=Y)
    step = made({"x": X[:5], "y": Y[:5]})
    history = ws.fit(step, rows, epochs=1, progress=None)
    plain = ws.fit(made({"x": X[:5], "y": Y[:5]}), BATCH, epochs=1, progress=None)
    np.testing.assert_array_equal(history.losses, plain.losses)
    assert sorted(i for which in rows.asked for i in which) == list(range(12))
    with pytest.raises(DtypeError, match=r"item\.s is the text 'a'"):
        _ = ws.Loader([{"s": "a"}], 1).example


def test_labels_have_codes_and_a_way_back():
    names = np.array(["b", "a", "c", "a"])
    for given in (names, names.tolist(), names.astype(object), Tensor(names)):
        codes, classes = ws.encode_labels(given)
        assert codes.dtype == np.int64 and classes[codes].tolist() == names.tolist()
        assert classes.tolist() == ["a", "b", "c"]
    codes, classes = ws.encode_labels(["a", "c"], ["c", "b", "a"])
    assert codes.tolist() == [2, 0] and classes.tolist() == ["c", "b", "a"]
    codes, classes = ws.encode_labels(np.array([[3, 7], [7, 9]]))
    assert codes.tolist() == [[0, 1], [1, 2]]
    for labels_, classes_, error, says in [
        (["a", "d"], ["a", "b"], ParameterError, "label 'd' is none of the 2 classes"),
        (["a"], ["a", "a"], ParameterError, "comes twice"),
        (["a"], [["a"]], ShapeError, "2 axes"),
        (np.array(["a", None], object), None, DtypeError, "cannot be compared"),
        ([1.0, np.nan], None, DtypeError, "label nan"),
        (["a", np.nan], None, DtypeError, "there is text, and a label nan of type float"),
        ("abc", None, ShapeError, "no list of labels"),
    ]:
        with pytest.raises(error, match=says):
            ws.encode_labels(labels_, classes_)
    assert not doctest.testmod(labels).failed


class Frame:
    """A table by the methods that the library asks for."""

    columns = ("a", "b", "c")

    def to_numpy(self):
        return X

    def __getitem__(self, name):
        return X[:, self.columns.index(name)]


def test_a_frame_in_the_place_of_one_array_is_a_matrix_for_all_rows_too():
    ran = [made().run(data, batch_size=4).losses.tolist() for data in ({"x": Frame(), "y": Y}, BATCH)]
    assert ran[0] == ran[1]
    fitted = [ws.fit(made(), data, epochs=1, progress=None) for data in ({"x": Frame(), "y": Y}, BATCH)]
    assert fitted[0].losses.tolist() == fitted[1].losses.tolist()
    with pytest.raises(TreeError, match=r"step: batch has another structure: no batch\.x; batch\.x\.a unexpected"):
        made()({"x": {"a": X}, "y": Y})


@pytest.mark.parametrize("path", ["rows.npy", Path("rows.npy")])
def test_the_path_of_a_file_is_no_data_of_a_run(path):
    with pytest.raises(DtypeError, match=r"run: data is the path 'rows\.npy', and run takes arrays(.|\n)*np\.load"):
        made().run(path)


def test_a_data_frame_is_a_dictionary_of_its_columns():
    pandas = pytest.importorskip("pandas", reason="pandas is in the test extra; not installed")
    frame = pandas.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    check_frame(frame, frame.assign(name="k"), frame[["a", "b"]])
    step = made()
    assert step({"x": pandas.DataFrame(X), "y": pandas.Series(Y)}).loss == EXPECTED
    assert step({"x": X, "y": pandas.Series(Y).astype("Float64")}).loss != EXPECTED
    with pytest.raises(TreeError, match="data has two columns 'a'"):
        ws.Loader(pandas.concat([frame, frame], axis=1), 3)
    with pytest.raises(DtypeError, match=r"batch\.y is a Series that lacks 6 of its values"):
        step({"x": X, "y": pandas.Series([1, None] * 6, dtype="Int64")})
    assert step({"x": X, "y": pandas.Series([1.0, np.nan] * 6)}).status == "skipped"
    codes, classes = ws.encode_labels(pandas.Series(["u", "v"] * 6, dtype="category"))
    assert classes[codes].tolist() == ["u", "v"] * 6


def test_a_polars_frame_is_one_too():
    polars = pytest.importorskip("polars", reason="polars is in the test extra; not installed")
    frame = polars.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": Y})
    check_frame(frame, frame.with_columns(name=polars.lit("k")), frame[["a", "b"]])
    step = made()
    assert step({"x": polars.DataFrame(X), "y": polars.Series(Y)}).loss == EXPECTED
    with pytest.raises(DtypeError, match=r"batch\.y is a Series that lacks 1 of its values.*\n.*\n.*fill_null"):
        step({"x": X, "y": polars.Series([1.0] * 11 + [None])})


def check_frame(frame, with_text, with_less):
    def of_columns(params, batch):
        return np.mean((batch["a"] * params[0] + batch["b"] * params[1] - batch["y"]) ** 2)

    def compiled(batch):
        return ws.compile(of_columns, np.zeros(2), optimizer=ws.optim.sgd(0.1), batch=batch)

    plain = {"a": X[:, 0].copy(), "b": X[:, 1].copy(), "y": Y}
    step, other = compiled(frame[:5]), compiled({name: x[:5] for name, x in plain.items()})
    assert step(frame[:5]).loss == other({name: x[:5] for name, x in plain.items()}).loss
    np.testing.assert_array_equal(
        ws.fit(step, frame, epochs=2, validation=frame, progress=None)["val_loss"],
        ws.fit(other, plain, epochs=2, validation=plain, progress=None)["val_loss"],
    )
    assert step.run(frame, 2).losses.tolist() == other.run(plain, 2).losses.tolist()
    np.testing.assert_array_equal(ws.jit(lambda d: d["a"] + d["y"])(frame), plain["a"] + Y)
    with pytest.raises(DtypeError, match=r"data\.name holds (text as objects|<U1|object)"):
        ws.Loader(with_text, 3)
    with pytest.raises(TreeError, match=r"no batch\.y"):
        step(with_less)
    with pytest.raises(TreeError, match=r"batch\.name unexpected"):
        step(with_text)


def test_arrays_of_jax_go_in():
    jnp = pytest.importorskip("jax.numpy", reason="JAX is in the test extra; not installed")
    x, y = X.astype(np.float32), Y.astype(np.float32)
    step = ws.compile(loss, np.zeros(3, np.float32), batch={"x": x, "y": y})
    assert step({"x": jnp.asarray(x), "y": jnp.asarray(y)}).loss == step({"x": x, "y": y}).loss
    half = jnp.asarray(x, jnp.bfloat16)
    (found,) = BatchSignature(np.asarray(half), "batch", "step").arrays(half)
    assert found.tobytes() == np.asarray(half).tobytes()
    with pytest.raises(DtypeError, match=r"batch\.x is f32\[12, 3\].*\n.*\n.*astype\(np\.float64\)"):
        made()({"x": jnp.asarray(x), "y": Y})


def test_tensors_of_torch_go_in():
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    data = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    step, plain = made((X[:5], Y[:5])), made((X[:5], Y[:5]))
    assert step([torch.tensor(X[:5], requires_grad=True), torch.tensor(Y[:5])]).loss == plain((X[:5], Y[:5])).loss
    np.testing.assert_array_equal(
        ws.fit(step, torch.utils.data.DataLoader(data, batch_size=5), progress=None).losses,
        [plain((X[i : i + 5], Y[i : i + 5])).loss for i in (0, 5, 10)],
    )
    np.testing.assert_array_equal(ws.fit(step, data, progress=None).losses, ws.fit(plain, (X, Y), progress=None).losses)
    half = torch.tensor(X).to(torch.bfloat16)
    (found,) = BatchSignature(half.float().numpy().astype("bfloat16"), "batch", "step").arrays(half)
    np.testing.assert_array_equal(found.astype(np.float32), half.float().numpy())


def test_a_module_in_a_batch_with_other_buffers_is_refused_by_the_path_of_a_buffer():
    judge, x = ws.nn.BatchNorm(3), np.ones((4, 3), np.float32)

    def judged(scale, batch):
        return np.mean(batch["judge"](scale * batch["x"]) ** 2)

    step = ws.compile(judged, np.float32(1), optimizer=ws.optim.sgd(0.1), batch={"judge": judge, "x": x})
    with pytest.raises(TreeError, match=r"structure: batch\.judge\.mean: another buffer array\n.*\n.*nn\.split"):
        step({"judge": ws.nn.BatchNorm(3), "x": x})
