"""Modules are trees: their leaves, tied parameters, refused attributes, and their text."""

import copy
import functools
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.nn.models import Centre, Dense, Net, data, loss

import wholestep as ws
from wholestep import nn, tree
from wholestep.errors import DtypeError, EscapedError, ParameterError, TreeError, UnsupportedError

PATHS = ["layers[0].weight", "layers[0].bias", "layers[2].weight", "layers[2].bias", "head.w"]
KEPT = ["layers[1].mean", "layers[1].calls", "scale"]


class Part(nn.Module):
    def __init__(self, **fields):
        for name, value in fields.items():
            setattr(self, name, value)


def net(seed=0):
    return Net(np.random.default_rng(seed))


def test_leaves_are_named_by_path_and_each_comes_once():
    assert tree.paths(net()) == PATHS
    assert tree.paths([{"net": net()}], "params")[0] == "params[0].net.layers[0].weight"
    params, buffers = nn.split(net())
    assert list(params) == PATHS
    assert list(buffers) == KEPT


values = st.recursive(
    st.one_of(
        st.integers(0, 3).map(lambda n: np.full(n, float(n))),
        st.sampled_from([1, 2.5, "a", None, np.tanh]),
        st.integers(0, 2).map(lambda n: nn.frozen(np.arange(n))),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from(["a", "b", "c d"]), inner, max_size=2),
        st.dictionaries(st.sampled_from(["f", "g", "h"]), inner, max_size=3).map(lambda d: Part(**d)),
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(values)
def test_taking_apart_and_putting_together_is_the_identity(value):
    module = Part(value=value, other=value)
    leaves, structure = tree.flatten(module)
    again = tree.unflatten(structure, leaves)
    found, same = tree.flatten(again)
    assert same == structure
    assert hash(same) == hash(structure)
    assert all(a is b for a, b in zip(leaves, found, strict=True))
    assert repr(again) == repr(module)
    assert tree.paths(again) == list(nn.named_parameters(module))
    # Trees of other leaves have the same structure.
    for stand_in in (lambda x: 0, lambda x: x > 0, lambda x: np.float64(2)):
        assert tree.structure(tree.map(stand_in, module)) == structure


def test_structures_differ_where_anything_but_parameters_does():
    table = np.arange(3)
    one = Part(w=np.ones(2), n=1, table=nn.frozen(table))
    same = Part(w=np.zeros(5), n=1, table=nn.frozen(table))
    assert tree.structure(one) == tree.structure(same)
    others = [
        Part(w=np.ones(2), n=2, table=nn.frozen(table)),
        Part(w=np.ones(2), n=1.0, table=nn.frozen(table)),
        Part(w=np.ones(2), n=1, table=nn.frozen(table.copy())),
        Part(w=np.ones(2), n=1, table=nn.buffer(table)),
        Part(n=1, w=np.ones(2), table=nn.frozen(table)).eval(),
    ]
    for other in others:
        assert tree.structure(one) != tree.structure(other)


def test_a_tie_of_modules_is_not_a_tie_of_one_array():
    part = Part(w=np.ones(2))
    assert tree.structure([Part(a=part, b=part)]) != tree.structure([Part(a=part, b=part.w)])
    assert tree.paths(Part(a=part, b=part)) == tree.paths(Part(a=part, b=part.w)) == ["a.w"]


def test_equal_arrays_are_not_tied_and_the_gradient_of_a_tie_is_the_sum():
    w = np.array([1.0, 2.0])
    assert tree.paths(Part(a=w, b=w.copy())) == ["a", "b"]

    def f(m):
        return np.sum(m.a * np.array([1.0, 10.0])) + np.sum(m.b**2)

    assert ws.grad(f)(Part(a=w, b=w)).a.tolist() == [1.0 + 2.0, 10.0 + 4.0]
    apart = ws.grad(f)(Part(a=w, b=w.copy()))
    assert (apart.a + apart.b).tolist() == [3.0, 14.0]


def test_gradients_that_share_an_array_do_not_tie_parameters():
    model = Part(a=np.ones(2), b=np.ones(2))
    gradient = ws.grad(lambda m: np.sum(m.a + m.b))(model)
    assert tree.structure(gradient) == tree.structure(model)
    assert len(tree.leaves(gradient)) == 2


def test_an_explicit_tie_follows_what_is_put_in_its_place():
    model = Part(table=np.ones((3, 2)), parts=[Part(w=np.zeros(1))])
    model.head = nn.tied(model.table)
    model.first = nn.tied("parts[0]")
    assert tree.paths(model) == ["table", "parts[0].w"]
    model.table = np.full((3, 2), 7.0)
    assert model.head is model.table
    assert model.first is model.parts[0]
    copied = copy.deepcopy(model)
    assert copied.head is copied.table is not model.table
    model.head = np.zeros(3)
    assert tree.paths(model) == ["table", "parts[0].w", "head"]
    with pytest.raises(TreeError, match="does not hold"):
        model.other = nn.tied(np.ones((3, 2)))
    with pytest.raises(TreeError, match=r"nothing at parts\[4\]"):
        model.other = nn.tied("parts[4]")


def test_a_tie_into_a_dictionary():
    model = Part(parts={"first": Part(w=np.ones(1)), "not a name": np.ones(2)})
    model.one, model.two = nn.tied(model.parts["first"]), nn.tied(model.parts["not a name"])
    assert model.one is model.parts["first"] and model.two is model.parts["not a name"]


def test_jit_traces_once_for_a_structure():
    f = ws.jit(lambda model, x: model(x))
    x = np.ones((2, 3), np.float32)
    model = net()
    y = f(model, x)
    assert f.traces == 1
    f(tree.map(lambda p: p + 1, model), x)
    assert f.traces == 1
    f(model.eval(), x)
    assert f.traces == 2
    assert np.allclose(y, copy.deepcopy(model)(x), atol=1e-6)


def test_transforms_take_modules_and_give_them_back():
    rng = np.random.default_rng(1)
    model, batch = net(), data(rng)
    value, gradient = ws.value_and_grad(loss)(model, batch)
    by_hand = ws.grad(lambda params: loss(nn.join(model, params), batch))(nn.split(model)[0])
    assert isinstance(gradient, Net)
    for path, g in nn.named_parameters(gradient).items():
        assert np.array_equal(g, by_hand[path])
    optimizer = ws.optim.adam(1e-2)
    state = optimizer.init(model)
    for _ in range(5):
        model, state = optimizer.update(ws.grad(loss)(model, batch), state, model)
    assert isinstance(model, Net)
    assert model.layers[3] is model.layers[2]
    assert loss(model.eval(), batch) < value
    stacked = ws.vmap(lambda m, x: m(x), in_axes=(None, 0))(model.eval(), np.stack([batch["x"]] * 2))
    assert np.allclose(stacked[1], model.eval()(batch["x"]), atol=1e-6)


def test_optimizers_go_on_when_buffers_have_changed():
    model, optimizer, batch = net(), ws.optim.sgd(0.1, momentum=0.9), data(np.random.default_rng(2))
    state = optimizer.init(model)
    for _ in range(2):
        gradient, buffers = ws.grad(lambda m, b: (loss(m, b), nn.buffers(m)), has_aux=True)(model, batch)
        model, state = optimizer.update(gradient, state, model)
        model = nn.join(model, buffers=buffers)
    assert int(model.layers[1].calls) == 2


def test_eager_calls_assign_buffers_in_the_model_itself():
    model = net()
    model(np.ones((2, 3), np.float32))
    assert int(model.layers[1].calls) == 1
    assert list(nn.buffers(model)) == KEPT
    model.eval()(np.ones((2, 3), np.float32))
    assert int(model.layers[1].calls) == 1


def test_modes_are_copies_that_share_arrays():
    model = net()
    evaluated = model.eval()
    assert (evaluated.training, evaluated.layers[1].training, model.layers[1].training) == (False, False, True)
    assert evaluated.layers[0].weight is model.layers[0].weight
    assert evaluated.layers[3] is evaluated.layers[2]
    assert tree.structure(evaluated.train()) == tree.structure(model)


def test_split_and_join_are_inverse_and_strict():
    model = net()
    params, buffers = nn.split(model)
    again = nn.join(net(1), params, buffers)
    assert np.array_equal(again.layers[2].weight, model.layers[2].weight)
    assert nn.join(model, params).layers[1].mean is model.layers[1].mean
    with pytest.raises(TreeError, match=r"no layers\[0\].bias; bias unexpected"):
        nn.join(model, {("bias" if p == "layers[0].bias" else p): x for p, x in params.items()})


def test_patterns_and_decay():
    model = net()
    assert nn.matching(model, "layers[*].bias") == ["layers[0].bias", "layers[2].bias"]
    assert nn.matching(model, "head") == ["head.w"]
    assert nn.decay_flags(model) == {p: not p.endswith("bias") for p in PATHS}
    assert nn.decay_flags(Part(gain=nn.no_decay(np.ones(2)), w=np.ones(1))) == {"gain": False, "w": True}
    with pytest.raises(ParameterError, match=r"no parameter matches 'layer'"):
        nn.matching(model, "layer")


def test_frozen_parts_have_no_leaves():
    model = net()
    model.layers = nn.frozen(model.layers)
    assert tree.paths(model) == ["head.w"]
    assert tree.leaves(nn.frozen(net())) == []
    gradient = ws.grad(loss)(model, data(np.random.default_rng(0)))
    assert np.any(gradient.head["w"])
    shared = np.ones(2)
    with pytest.raises(TreeError, match="frozen at the other"):
        tree.leaves(Part(a=shared, b=nn.frozen(shared)))


def test_a_frozen_leaf_of_plain_parameters_computes_as_its_array():
    table = np.array([3, 4])
    params = {"w": np.ones(2), "table": nn.frozen(table)}

    def f(p):
        return np.sum(p["w"] * p["table"][::-1]) + np.sum(np.concatenate([p["table"], p["w"]])) + p["table"].sum()

    assert ws.grad(f)(params)["w"].tolist() == [5.0, 4.0]
    assert ws.jit(f)(params) == f(params) == 7 + 9 + 7
    moved, _ = ws.optim.sgd(1.0).update(ws.grad(f)(params), ws.optim.sgd(1.0).init(params), params)
    assert moved["table"] is params["table"]
    assert type(params["table"] * 2) is np.ndarray
    assert type(params["table"].T) is np.ndarray
    with pytest.raises(ValueError, match="read-only"):
        params["table"][0] = 1
    assert type(copy.deepcopy(params)["table"]) is type(params["table"])
    with pytest.raises(DtypeError, match=r"p\[?.*table.* is i64\[2\](.|\n)*nn.frozen"):
        ws.grad(lambda p: np.sum(p["w"]))({"w": np.ones(1), "table": table})


@dataclass
class Affine(nn.Module):
    weight: np.ndarray
    size: int = 3

    def __call__(self, x):
        return x * self.weight


@dataclass(frozen=True)
class Fixed(nn.Module):
    weight: np.ndarray
    table: np.ndarray


def test_dataclasses_are_modules():
    model = Affine(np.ones(3))
    assert tree.paths(model) == ["weight"]
    assert ws.grad(lambda m: np.sum(m(np.arange(3.0))))(model).weight.tolist() == [0.0, 1.0, 2.0]
    fixed = Fixed(np.ones(2), nn.frozen(np.arange(2)))
    assert tree.paths(tree.map(lambda x: 2 * x, fixed)) == ["weight"]
    assert ws.grad(lambda m: np.sum(m.weight * m.table))(fixed).weight.tolist() == [0.0, 1.0]


def test_default_activations_are_the_public_functions_and_pickle():
    for model in (nn.MLP([2, 3], key=0), nn.FeedForward(2, 3, key=0), nn.TransformerBlock(4, 2, key=0)):
        again = pickle.loads(pickle.dumps(model))
        assert ws.tree.structure(again) == ws.tree.structure(model)
    assert ws.tree.structure(nn.MLP([2, 3], key=0)) == ws.tree.structure(nn.MLP([2, 3], key=0, activation=nn.relu))


def test_ufuncs_of_the_namespace_copy_and_pickle_as_themselves():
    model = nn.Sequential(nn.Linear(2, 3, key=0), ws.numpy.tanh, ws.numpy.abs)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert again[1] is ws.numpy.tanh and again[2] is ws.numpy.abs is ws.numpy.absolute


def test_copies_and_pickles_keep_marks_and_ties():
    model = net()
    for again in (copy.copy(model), copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert tree.paths(again) == PATHS
        assert list(nn.buffers(again)) == KEPT
        assert again.layers[3] is again.layers[2]
        assert again.first is again.layers[0].weight
    shallow = copy.copy(model)
    shallow.scale = np.ones(3, np.float32)
    del shallow.scale
    assert list(nn.buffers(model)) == KEPT


def test_numbers_that_numpy_makes_of_arrays_stay_arrays():
    model = Part(gain=np.array(1.0), count=nn.buffer(np.array(0)), scale=np.sqrt(2.0))
    assert tree.paths(model) == ["gain"]
    model.gain = model.gain * 2
    model.count = model.count + 1
    assert tree.paths(model) == ["gain"]
    assert list(nn.buffers(model)) == ["count"]
    new, _ = ws.optim.sgd(0.1).update(model, ws.optim.sgd(0.1).init(model), model)
    assert tree.paths(new) == ["gain"]


def test_cycles_are_walked_once():
    parent, child = Part(w=np.ones(1)), Part(w=np.zeros(1))
    parent.child, child.parent = child, parent
    again = tree.map(lambda x: x + 1, parent)
    assert again.child.parent is again
    assert tree.paths(parent) == ["w", "child.w"]


class Slotted:
    def method(self):
        return 0


def test_what_cannot_be_a_field_is_refused():
    with pytest.raises(DtypeError, match=r"Part.ids is int64\[3\](.|\n)*nn.frozen"):
        Part(ids=np.arange(3))
    with pytest.raises(DtypeError, match=r"Part.items\[0\].mask is bool\[2\]"):
        Part(items=[{"mask": np.ones(2, bool)}])
    with pytest.raises(TreeError, match=r"Part.items\[0\] is nn.buffer"):
        Part(items=[nn.buffer(np.ones(2))])
    with pytest.raises(DtypeError, match=r"nn\.frozen: 'x' is no array"):
        nn.frozen("x")
    with pytest.raises(DtypeError, match=r"Centre.mean is buffer, and None is no array"):
        Centre(2).mean = None
    part = Part(w=np.ones(2))
    with pytest.raises(TreeError, match="function that holds a Part"):
        part.f = lambda x: x * part.w
    with pytest.raises(TreeError, match="function that holds a Dense"):
        part.f = Dense(np.random.default_rng(0), 1, 1).__call__
    with pytest.raises(TreeError, match="function that holds a Part"):
        part.f = functools.partial(np.add, part)
    part.method = Slotted().method
    with pytest.raises(AttributeError, match="Part has no field 'bias'"):
        _ = part.bias
    with pytest.raises(UnsupportedError, match="has __slots__"):
        type("Bad", (nn.Module,), {"__slots__": ("w",)})


class Remembering(nn.Module):
    def __init__(self):
        self.w, self.seen = np.ones(2), nn.buffer(np.zeros(2))

    def __call__(self, x, how):
        if how == "parameter":
            self.w = self.w * x
        elif how == "new":
            self.last = self.w * x
        else:
            self.seen = self.w * x
        return np.sum(self.w * x)


def test_a_transform_lets_buffers_alone_be_assigned():
    model, x = Remembering(), np.ones(2)
    for how, name in (("parameter", "w"), ("new", "last")):
        with pytest.raises(UnsupportedError, match=rf"Remembering.{name} is assigned inside a traced function"):
            ws.grad(lambda m, how=how: m(x, how))(model)
    ws.grad(lambda m: m(x, "buffer"))(model)
    assert model.seen.tolist() == [0.0, 0.0]
    with pytest.raises(EscapedError, match="made outside of the traced function"):
        ws.grad(lambda x: model(x, "buffer"))(x)
    assert model.seen.tolist() == [0.0, 0.0]
    with pytest.raises(EscapedError, match="leaves a traced function"):
        ws.grad(lambda m: (m(x, "buffer"), m), has_aux=True)(model)


def test_a_module_is_shown_as_a_tree(golden):
    golden(repr(net()))


def test_a_summary_counts_what_is_there(golden):
    made = nn.summary(net(), (5, 3))
    golden(str(made))
    params, buffers = nn.split(net())
    assert made.parameters == sum(x.size for x in params.values())
    assert made.totals["buffer"][1] + made.totals["frozen"][1] == sum(x.nbytes for x in buffers.values())
    assert made.flops > 2 * 5 * (3 * 4 + 4 * 4 + 4 * 4 + 4)
    assert nn.summary(net()).flops is None
    assert made._repr_html_().count("<tr>") == len(made.rows) + 1


class Loop(nn.Module):
    def __init__(self, inner):
        self.inner = inner

    def __call__(self, x):
        return ws.scan(lambda h, _: (self.inner(h), None), x, None, 7)[0]


def test_a_summary_multiplies_loops_out():
    inner = Dense(np.random.default_rng(0), 4, 4)
    once = nn.summary(inner, (2, 4)).flops
    assert nn.summary(Loop(inner), (2, 4)).flops == 7 * once


def test_modules_by_path_are_each_there_once_and_before_their_parts():
    shared = nn.Linear(2, 2, key=0)
    model = nn.Sequential(shared, nn.Sequential(nn.BatchNorm(2), shared), nn.relu)
    found = nn.named_modules({"net": model, "scale": np.ones(2)})
    assert list(found) == ["net", "net.layers[0]", "net.layers[1]", "net.layers[1].layers[0]"]
    assert found["net"] is model
    assert found["net.layers[0]"] is shared
    assert list(nn.named_modules(model))[:2] == ["", "layers[0]"]
    assert nn.named_modules(np.ones(2)) == {}
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    theirs = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.BatchNorm1d(2), torch.nn.ReLU()))
    ours = nn.Sequential(nn.Linear(2, 2, key=0), nn.Sequential(nn.BatchNorm(2), nn.Identity()))
    names = [path.replace("layers[", "").replace("]", "") for path in nn.named_modules(ours)]
    assert names == [path for path, _ in theirs.named_modules()]


@pytest.mark.parametrize("thing", [3, "a", None, [1]])
def test_a_summary_is_of_parts_or_arrays(thing):
    with pytest.raises(DtypeError, match=r"summary: an? .* has no parts and no arrays"):
        nn.summary(thing)
