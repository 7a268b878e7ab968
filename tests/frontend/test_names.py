"""A program is made anew where a name that it reads from around it is bound to something else."""

import dis
import importlib
import inspect

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import FrozenValueWarning, MutationError
from wholestep.frontend.closure_reads import ASSIGNING, argument_of, readings, returns
from wholestep.frontend.source.reading import nested_codes

X = np.ones((2, 3), np.float32)
scale = 2.0


def dense():
    return nn.Sequential(nn.Linear(3, 4, key=0), nn.relu, {"last": nn.Linear(4, 1, key=1)}["last"])


def assign(model):
    model.layers[0].weight = np.zeros((3, 4), np.float32)


def replace(model):
    model.layers[2] = nn.Linear(4, 1, key=7)


def freeze(model):
    model.layers[0].bias = nn.frozen(np.ones(4, np.float32))


def switch(model):
    model.layers[1] = nn.tanh


@pytest.mark.parametrize("change", [assign, replace, freeze, switch])
def test_a_model_that_is_closed_over_may_change(change):
    model = dense()
    f = ws.jit(lambda x: model(x))
    f(X)
    f(X)
    assert f.traces == 1
    change(model)
    np.testing.assert_allclose(f(X), model(X), rtol=1e-6)
    np.testing.assert_allclose(f(X), model(X), rtol=1e-6)
    assert f.traces == 2
    assert f.reasons[1] == "model has changed since it was traced"


def test_a_model_is_a_function_and_so_are_its_methods():
    model = dense()
    for f in (ws.jit(model), ws.jit(model.__call__)):
        f(X)
        assign(model)
        np.testing.assert_allclose(f(X), model(X), rtol=1e-6)
        model.layers[0].weight = np.ones((3, 4), np.float32)
        np.testing.assert_allclose(f(X), model(X), rtol=1e-6)
        assert f.traces == 3


def test_names_of_arrays_numbers_containers_and_functions():
    w, n, table = np.ones(3), 2, {"a": [np.ones(3)]}

    def first(x):
        return x + 1

    inner = first

    def outer(x):
        return inner(x) * w * n * table["a"][0]

    f = ws.jit(outer)
    assert f(1.0).tolist() == [4.0] * 3
    w = np.zeros(3)
    assert f(1.0).tolist() == [0.0] * 3
    w, n = np.ones(3), 3
    assert f(1.0).tolist() == [6.0] * 3
    table["a"][0] = np.full(3, 2.0)
    assert f(1.0).tolist() == [12.0] * 3

    def other(x):
        return x + 2

    inner = other
    assert f(1.0).tolist() == [18.0] * 3
    assert f.traces == 5
    assert f.reasons[1:] == [f"{name} since it was traced" for name in SAID]


SAID = (
    "w is bound to something else",
    "n is bound to something else",
    "table has changed",
    "inner is bound to something else",
)


def test_globals_that_a_named_function_reads(monkeypatch):
    f = ws.jit(lambda x: scaled(x))
    assert f(1.0) == 2.0
    monkeypatch.setitem(globals(), "scale", 5.0)
    assert f(1.0) == 5.0
    monkeypatch.setitem(globals(), "scale", 4.0 + 1.0)  # another object, the same number
    assert f(1.0) == 5.0 and f.traces == 2


def scaled(x):
    return x * scale


def test_programs_for_several_kinds_of_arguments_are_all_made_anew():
    w = 2.0
    f = ws.jit(lambda x: x * w)
    f(1.0), f(np.ones(2))
    w = 3.0
    assert f(np.ones(2)).tolist() == [3.0, 3.0] and f(1.0) == 3.0 and f.traces == 4


def test_what_a_function_assigns_itself_is_its_own_business():
    calls, seen = 0, []

    def f(x):
        nonlocal calls
        calls += 1
        seen.append(x)
        return x * 2.0

    g = ws.jit(f)
    g(1.0), g(1.0), g(np.ones(2)), g(1.0)
    assert calls == g.traces == 2


def test_what_an_inner_trace_closes_over_is_not_kept():
    def outer(x):
        inner = ws.jit(lambda y: x * y)
        assert inner(2.0) is not None and inner.names == []
        return ws.grad(inner)(3.0)

    assert ws.grad(outer)(5.0) == 1.0


def test_large_containers_are_compared_by_identity_alone():
    numbers = list(range(10_000))
    (found,) = [r for r in readings(lambda x: x + numbers[0]) if r.name == "numbers"]
    assert found.held is None and found.same()


def test_a_compiled_step_refuses_a_changed_model():
    teacher = dense()

    def loss(w, x):
        return np.mean((x @ w - teacher(x)) ** 2)

    step = ws.compile(loss, np.zeros((3, 1), np.float32), optimizer=ws.optim.sgd(0.1), batch=X)
    step(X)
    assert "captured    what teacher holds" in step.explain()
    assign(teacher)
    for call in (lambda: step(X), lambda: step.run(X, batch_size=2), lambda: step(X[:1])):
        with pytest.raises(MutationError, match="has changed since: what teacher holds"):
            call()
    assert step.steps == 1


@pytest.mark.parametrize("module", ["argparse", "ast", "dataclasses", "functools", "inspect", "typing"])
def test_names_of_instructions_are_those_of_the_disassembler(module):
    whole = compile(inspect.getsource(importlib.import_module(module)), module, "exec")
    for operation in ("LOAD_GLOBAL", *ASSIGNING):
        wanted = [i.argval for code in nested_codes(whole) for i in dis.get_instructions(code) if i.opname == operation]
        assert argument_of(whole, operation) == tuple(wanted)


def test_the_last_return_is_the_one_of_the_disassembler():
    for f in (dense, assign, test_names_of_arrays_numbers_containers_and_functions):
        wanted = [i.offset for i in dis.get_instructions(f.__code__) if i.opname in ("RETURN_VALUE", "RETURN_CONST")]
        assert returns(f) == (f.__code__, wanted[-1])


class Settings:
    shared = 1.0

    def __init__(self, beta):
        self.beta = beta

    @property
    def computed(self):
        raise AssertionError("code of the user's runs where the function runs, and nowhere else")


class Slotted:
    __slots__ = ("beta",)


class Trainer:
    def __init__(self, settings):
        self.settings, self.calls = settings, 0

    def scaled(self, x):
        self.calls = self.calls + 1
        return x * self.settings.beta * max(self.calls, 1) ** 0


def test_attributes_and_items_of_names_are_read_again():
    settings, slotted, table = Settings(2.0), Slotted(), {"beta": 3.0, "other": 0.0}
    slotted.beta = 5.0
    f = ws.jit(lambda x: x * settings.beta * settings.shared * slotted.beta * table["beta"])
    assert f(1.0) == f(1.0) == 30.0 and f.traces == 1
    settings.beta = 4.0
    assert f(1.0) == 60.0 and f.reasons[1] == "settings.beta is bound to something else since it was traced"
    slotted.beta, settings.shared = 1.0, 2.0
    assert f(1.0) == 24.0
    del settings.shared
    assert f(1.0) == 12.0 and f.traces == 4


def test_a_method_reads_the_fields_of_its_object_and_may_assign_some():
    trainer = Trainer(Settings(2.0))
    f = ws.jit(trainer.scaled)
    with pytest.warns(FrozenValueWarning, match=r"self\.calls was 0 and became 1"):
        assert f(1.0) == f(1.0) == 2.0 and f.traces == 1
    trainer.settings.beta = 3.0
    with pytest.warns(FrozenValueWarning, match=r"self\.calls was 1 and became 2"):
        assert f(1.0) == 3.0 and f.traces == 2


def test_what_code_of_the_users_computes_is_no_field():
    settings = Settings(2.0)
    assert [r.name for r in readings(lambda x: settings.computed + settings.beta + np.pi)] == [
        "settings",
        "settings.beta",
    ]


def test_a_compiled_step_names_a_field_or_an_item_that_has_changed():
    settings, table = Settings(2.0), {"beta": 3.0, "steps": 0}

    def loss(w, x):
        return settings.beta * table["beta"] * np.sum(w * x)

    step = ws.compile(loss, np.ones(3), optimizer=ws.optim.sgd(0.1), batch=np.ones(3))
    table["steps"] += 1
    step(np.ones(3))
    settings.beta = 0.5
    with pytest.raises(MutationError, match=r"settings\.beta was 2\.0 when .* 0\.5 now\n.*\n.*batch\['beta'\]"):
        step(np.ones(3))
    settings.beta, table["beta"] = 2.0, 4.0
    with pytest.raises(MutationError, match=r"table\['beta'\] was 3\.0 when .* 4\.0 now\n.*\n.*batch\['beta'\]"):
        step(np.ones(3))
