"""Repeated calls take a fast path and give the results of the slow one: values, errors, new traces."""

import functools
import gc
import itertools
import threading
import tracemalloc
import weakref

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import BoundsError, DtypeError, MutationError
from wholestep.frontend.plain_trees import reader

X = np.array([0.5, -1.0, 2.0])
TREES = {
    "positional": (lambda x, y: x - y, (X, 2 * X), {}),
    "by name": (lambda x, *, y: x - y, (X,), {"y": 2 * X}),
    "list": (lambda xs: [xs[1], xs[0] + 1], ([X, 2 * X],), {}),
    "dictionary": (lambda d: {"b": d["a"], "a": d["c"] * 2}, ({"c": X, "a": 2 * X},), {}),
    "nested": (
        lambda d, t: {"b": (d["w"][0] @ t[0], [t[1]]), "a": None},
        ({"w": [X, 2 * X], "b": None}, (3 * X, 4 * X)),
        {},
    ),
    "one key, no key, no item": (lambda d, e, t: ({"k": d["k"]}, {}, (), [d["k"]]), ({"k": X}, {}, ()), {}),
    "deep": (lambda t: t, (functools.reduce(lambda t, _: [t], range(60), X),), {}),
    "Python numbers": (lambda x, a, n: x * a + n, (X, 0.5, 3), {}),
    "NumPy scalars": (lambda x, a: x * a, (X, np.float32(0.5)), {}),
    "scalar results": (lambda x: (x.sum(), x[0], np.array([1.0])), (X,), {}),
    "a flag": (lambda x, flag: x if flag else -x, (X, False), {}),
    "no arguments": (lambda: np.arange(3.0) * 2, (), {}),
    "no result": (lambda x: None, (X,), {}),
    "an empty array": (lambda x: x * 2, (np.zeros((0, 3)),), {}),
    "a module": (lambda model, x: model(x), (ws.nn.Linear(3, 2, key=0), X.astype(np.float32)), {}),
}


@pytest.mark.parametrize("name", TREES)
def test_the_second_call_gives_what_the_first_gave_in_memory_of_its_own(name):
    f, args, kwargs = TREES[name]
    compiled = ws.jit(f)
    first = compiled(*args, **kwargs)
    kept = ws.tree.map(np.copy, first)
    again, third = compiled(*args, **kwargs), compiled(*args, **kwargs)
    assert compiled.traces == 1 and compiled.last is not None
    for other in (again, third):
        assert ws.tree.structure(other) == ws.tree.structure(first)
        for a, b, was in zip(*map(ws.tree.leaves, (first, other, kept)), strict=True):
            assert type(a) is type(b) and a.dtype == b.dtype and np.array_equal(b, was)
            assert not np.shares_memory(a, b)


@pytest.mark.parametrize(
    "other",
    [
        X.astype(np.float32),
        X.astype(">f8"),
        np.ones(4),
        np.ones((3, 1)),
        X[::-1],
        np.ones(6)[::2],
        np.float64(2.0),
        np.array(2.0),
        2.0,
        2,
        True,
        np.arange(3),
        [X, X],
        (X,),
        {"a": X},
        [X, None],
        X.copy(),
    ],
    ids=repr,
)
def test_other_arguments_are_seen(other):
    def f(x):
        return ws.tree.map(lambda leaf: np.asarray(leaf) * 2 if isinstance(leaf, bool) else leaf * 2, x)

    compiled, alone = ws.jit(f), ws.jit(f)
    for _ in range(2):
        compiled(X)
    for given in (other, X, other):
        found, wanted = compiled(given), alone(given)
        assert ws.tree.structure(found) == ws.tree.structure(wanted)
        for a, b in zip(ws.tree.leaves(found), ws.tree.leaves(wanted), strict=True):
            assert type(a) is type(b) and np.asarray(a).dtype == np.asarray(b).dtype and np.array_equal(a, b)
    assert compiled.traces <= 2


@pytest.mark.parametrize(
    "other", [{"a": X}, {"a": X, "c": X}, {"a": X, "b": [X]}, {"a": X, "b": X, "c": X}, [X, X], {"b": X, "a": 3 * X}]
)
def test_other_trees_are_seen(other):
    compiled = ws.jit(lambda d: ws.tree.map(lambda x: x * 2, d))
    given = {"a": X, "b": 3 * X}
    for tried in (given, given, other, given, other):
        found = compiled(tried)
        assert ws.tree.structure(found) == ws.tree.structure(tried)
        for a, b in zip(ws.tree.leaves(found), ws.tree.leaves(tried), strict=True):
            assert np.array_equal(a, 2 * b)


def test_the_order_of_keys_is_that_of_the_function():
    f = ws.jit(lambda d: {"z": d["b"], "y": d["a"], "x": [d["a"]]})
    for given in ({"b": X, "a": 2 * X}, {"a": 2 * X, "b": X}, {"b": X, "a": 2 * X}):
        found = f(given)
        assert list(found) == ["z", "y", "x"]
        assert np.array_equal(found["z"], X) and np.array_equal(found["x"][0], 2 * X)


def test_numbers_beyond_the_kind_of_the_last_are_seen():
    f = ws.jit(lambda x, n: x + n)
    x = np.zeros(2, np.uint8)
    f(x, 1), f(x, 1)
    assert f(x, np.int64(5)).dtype == np.int64 and f(x, 2.5).tolist() == [2.5, 2.5] and f(x, 7).dtype == np.uint8


def test_a_flag_of_another_value_is_another_program():
    f = ws.jit(lambda x, mode, double: x * (2 if double else 1) + len(mode))
    for mode, double in (("a", True), ("a", True), ("a", False), ("bc", False), ("a", True)):
        assert f(X, mode, double).tolist() == (X * (2 if double else 1) + len(mode)).tolist()
    assert f.traces == 3


def test_static_arguments_are_looked_at_in_every_call():
    f = ws.jit(lambda x, n, *, k: x * n + k, static_argnums=1, static_argnames="k")
    for n, k in ((2, 1), (2, 1), (3, 1), (3, 2), (2, 1)):
        assert f(X, n, k=k).tolist() == (X * n + k).tolist()


def test_a_changed_constant_is_an_error_in_a_repeated_call():
    table = np.arange(3.0)
    f = ws.jit(lambda x: x * table)
    f(X), f(X)
    table[1] = 9.0
    with pytest.raises(MutationError, match="has changed since"):
        f(X)
    table[1] = 1.0
    assert f(X).tolist() == (X * table).tolist()


def test_a_name_that_is_bound_anew_is_read_again():
    scale = 2.0
    f = ws.jit(lambda x: x * scale)
    f(X), f(X)
    scale = 3.0
    assert f(X).tolist() == (3 * X).tolist() == f(X).tolist()
    assert f.traces == 2 and "bound to something else" in f.reasons[1]


def test_an_index_out_of_bounds_names_the_line_in_a_repeated_call():
    f = ws.jit(lambda x, i: x[i])
    f(X, np.array([1])), f(X, np.array([1]))
    with pytest.raises(BoundsError, match=r"out of bounds[\s\S]*test_repeated_calls.py:\d+"):
        f(X, np.array([3]))
    assert f(X, np.array([2])).tolist() == [2.0]


def test_traced_arguments_become_part_of_the_program_around():
    f = ws.jit(lambda x: np.sin(x) * x)
    f(X), f(X)
    np.testing.assert_allclose(ws.grad(lambda x: f(x).sum())(X), np.cos(X) * X + np.sin(X))
    np.testing.assert_allclose(ws.vmap(f)(X), np.sin(X) * X)
    assert ws.jit(lambda x: f(x) + f(X))(X).shape == (3,)
    with pytest.raises(DtypeError, match="shape and no array"):
        f(ws.ShapeDtype((3,), "float64"))


def test_foreign_arrays_and_subclasses_take_the_long_way():
    class Foreign:
        def __array__(self, dtype=None, copy=None):
            return X

    f = ws.jit(lambda x: x * 2)
    f(X), f(X)
    assert f(Foreign()).tolist() == f(Foreign()).tolist() == (2 * X).tolist()
    with pytest.raises(DtypeError, match="MaskedArray"):
        f(np.ma.masked_array(X))


def test_prints_come_with_every_call(capsys):
    def f(x):
        ws.print("{:.1f}", x)
        return x

    compiled = ws.jit(f)
    for i in range(3):
        compiled(float(i))
    assert capsys.readouterr().out == "0.0\n1.0\n2.0\n"


def test_nothing_given_or_returned_is_kept():
    f = ws.jit(lambda xs: [x + 1 for x in xs])
    xs = [np.ones(5), np.ones(7)]
    for _ in range(3):
        made = f(xs)
    seen = [weakref.ref(x) for x in (*xs, *made)]
    del xs, made
    assert not [r for r in seen if r() is not None]


def test_many_calls_take_no_memory():
    f = ws.jit(lambda d, a: {k: x * a for k, x in d.items()})
    given = {"a": np.ones(5), "b": np.ones(7)}
    tracemalloc.start()
    held = []
    for _ in range(5):
        for _ in range(1000):
            f(given, 2.0)
        gc.collect()
        held.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert min(b - a for a, b in itertools.pairwise(held)) < 512


def test_threads_share_a_function():
    f = ws.jit(lambda x, n: (x + n).cumsum())
    wrong = []

    def calls(first):
        for n in range(first, first + 300):
            x = np.full(64 + first % 2, float(n))
            if f(x, 1.0)[-1] != (n + 1.0) * len(x):
                wrong.append(n)

    threads = [threading.Thread(target=calls, args=(k,)) for k in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    assert not wrong and f.traces <= 8


class Layered(ws.nn.Module):
    def __init__(self):
        self.first = ws.nn.Linear(3, 3, key=0)
        self.parts = {"b": [ws.nn.Linear(3, 3, key=1)], "a": np.full(3, 2.0, np.float32)}
        self.again = self.first
        self.shift, self.count = ws.nn.frozen(np.ones(3)), ws.nn.buffer(np.zeros(3))
        self.power = 2

    def __call__(self, x):
        x = self.again(self.first(x)) * self.parts["a"] + self.shift + self.count
        for part in self.parts:
            x = self.parts["b"][0](x) if part == "b" else x - 1
        return (x if self.training else -x) ** self.power


def with_field(name, value):
    def change(model):
        setattr(model, name, value)

    return change


def reordered(model):
    model.parts = dict(sorted(model.parts.items()))


def tied(model):
    model.parts["b"][0].bias = model.first.bias


def untied(model):
    model.again = ws.nn.Linear(3, 3, key=2)


MODEL_CHANGES = {
    "other parameters": lambda model: vars(model.first).update(weight=2 * model.first.weight),
    "evaluation": lambda model: model.eval(),
    "a plain value": with_field("power", 3),
    "another frozen array": with_field("shift", np.zeros(3)),
    "another buffer": with_field("count", np.ones(3)),
    "a frozen parameter": lambda model: setattr(model.first, "weight", ws.nn.frozen(model.first.weight)),
    "a new field": with_field("more", np.ones(2)),
    "the order of keys": reordered,
    "a tie": tied,
    "no tie": untied,
    "a longer list": lambda model: model.parts["b"].append(ws.nn.Linear(3, 3, key=4)),
    "another class": lambda model: setattr(model, "first", ws.nn.Sequential(ws.nn.Linear(3, 3, key=5))),
    "another dtype": lambda model: setattr(model.first, "bias", np.zeros(3)),
}


@pytest.mark.parametrize("closed", [False, True], ids=["argument", "closure"])
@pytest.mark.parametrize("name", MODEL_CHANGES)
def test_a_change_of_a_model_is_seen_without_a_walk(name, closed):
    model = Layered()
    found = []
    assert reader(ws.tree.structure([model]))([model], found) and len(found) == len(ws.tree.leaves(model))
    x = X.astype(np.float32)
    own = ws.jit((lambda x: np.sum(model(x))) if closed else (lambda x, m: np.sum(m(x))))
    run = own if closed else (lambda x: own(x, model))
    before = [run(x), run(x)]
    assert own.last is not None and own.traces == 1 and before[0] == before[1]
    model = MODEL_CHANGES[name](model) or model
    np.testing.assert_allclose(run(x), np.sum(model(x)), rtol=1e-5)
    np.testing.assert_allclose(run(x), np.sum(model(x)), rtol=1e-5)
