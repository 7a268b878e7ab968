"""Groups of parameters, decay flags, and hyper-parameters found by name through everything that nests."""

from dataclasses import dataclass

import numpy as np
import pytest

import wholestep as ws
from wholestep import optim, tree
from wholestep.errors import DtypeError, ParameterError, ShapeError, UnsupportedError
from wholestep.optim.hyper import full_name, hyper_of, hyperparameters_of, with_hyper
from wholestep.optim.paths import parameter_paths

RNG = np.random.default_rng(8)
NESTED = {"layers": [{"bias": RNG.normal(size=2), "weight": RNG.normal(size=(2, 2))}], "head": RNG.normal(size=3)}
FLAT = dict(zip(parameter_paths(NESTED), tree.leaves(NESTED), strict=True))


def gradient(params):
    return tree.map(np.cos, params)


def updated(optimizer, params, steps=5):
    state = optimizer.init(params)
    for _ in range(steps):
        params, state = optimizer.update(gradient(params), state, params)
    return params, state


def test_flat_and_nested_parameters_have_the_same_names():
    assert parameter_paths(NESTED) == ["head", "layers[0].bias", "layers[0].weight"] == parameter_paths(FLAT)


@pytest.mark.parametrize(
    ("pattern", "path", "yes"),
    [
        ("*", "a.b", True),
        ("layers", "layers[0].weight", True),
        ("layers[0]", "layers[0].weight", True),
        ("layers[0]", "layers[01].weight", False),
        ("layer", "layers[0].weight", False),
        ("*.bias", "layers[0].bias", True),
        ("layers[*].bias", "layers[12].bias", True),
        ("layers.0.bias", "layers[0].bias", False),
    ],
)
def test_patterns(pattern, path, yes):
    assert tree.matches(pattern, path) is yes


def test_each_group_moves_as_it_would_alone():
    optimizer = optim.groups({"layers[*].bias": optim.sgd(0.5, 0.9), "head": {"lr": 0.3}}, optim.adam(0.1))
    for params in (NESTED, FLAT):
        moved, state = updated(optimizer, params)
        found = dict(zip(parameter_paths(moved), tree.leaves(moved), strict=True))
        for path, alone in (
            ("layers[0].bias", optim.sgd(0.5, 0.9)),
            ("head", optim.adam(0.3)),
            ("layers[0].weight", optim.adam(0.1)),
        ):
            np.testing.assert_array_equal(found[path], updated(alone, FLAT[path])[0])
        assert tree.structure(moved) == tree.structure(params)
        assert list(state) == ["layers[*].bias", "head", "default"]


def test_frozen_groups_stay_and_have_no_state():
    moved, state = updated(optim.groups({"layers": None}, optim.adam(0.1)), NESTED)
    assert moved["layers"][0]["bias"] is NESTED["layers"][0]["bias"]
    assert (moved["head"] != NESTED["head"]).all()
    assert [x.size for x in tree.leaves(state)] == [1, 3, 3]


@pytest.mark.parametrize(
    "decay",
    [
        "*.weight",
        ["*.weight"],
        lambda path: path.endswith("weight"),
        {"head": False, "layers[0].bias": False, "layers[0].weight": True},
    ],
)
def test_decay_is_by_flag(decay):
    moved, _ = updated(optim.adamw(0.1, weight_decay=0.5, decay=decay), NESTED)
    other, _ = updated(optim.adamw(0.1, weight_decay=0.5), NESTED)
    plain, _ = updated(optim.adam(0.1), NESTED)
    np.testing.assert_array_equal(moved["head"], plain["head"])
    np.testing.assert_array_equal(moved["layers"][0]["bias"], plain["layers"][0]["bias"])
    np.testing.assert_array_equal(moved["layers"][0]["weight"], other["layers"][0]["weight"])
    assert (moved["layers"][0]["weight"] != plain["layers"][0]["weight"]).all()


def test_names_are_as_short_as_they_can_be():
    optimizer = optim.groups(
        {"head": {"lr": 0.3}}, optim.chain(optim.clip_by_value(1.0), optim.clip_by_value(2.0), optim.sgd(0.1))
    )
    assert set(hyper_of(optimizer)) == {
        *(f"groups['head'].{name}" for name in ("clip_by_value[0].limit", "clip_by_value[1].limit", "sgd.lr")),
        *(f"default.{name}" for name in ("clip_by_value[0].limit", "clip_by_value[1].limit", "sgd.lr")),
    }
    wrapped = optim.ema(optim.accumulate(optim.adamw(optim.warmup(optim.cosine(1.0, 9), 3)), 2), 0.9)
    assert hyper_of(wrapped) == {
        **{"peak": 1.0, "then.steps": 9.0, "end": 0.0, "lr.steps": 3.0, "start": 0.0},
        **{"b1": 0.9, "b2": 0.999, "eps": 1e-8, "weight_decay": 0.01, "accumulate.steps": 2.0, "decay": 0.9},
    }
    assert hyper_of(optim.sgd(optim.multi_step(1.0, (3, 5)))) == {
        **{"value": 1.0, "milestones[0]": 3.0, "milestones[1]": 5.0, "factor": 0.1}
    }
    assert set(hyper_of(optim.muon(0.1, rest=optim.adam(0.2)))) >= {"matrices.lr", "rest.lr", "momentum", "b1"}


@dataclass(frozen=True)
class Outer:
    """A wrapper with a hyper-parameter of the same name as one of the optimizer inside."""

    lr: float
    optimizer: object


def test_a_name_that_is_the_end_of_another_is_written_in_full():
    nested = Outer(1.0, optim.sgd(2.0))
    assert hyper_of(nested) == {"outer.lr": 1.0, "sgd.lr": 2.0}
    assert with_hyper(nested, {"sgd.lr": 5.0}) == Outer(1.0, optim.sgd(5.0))


def test_replaced_numbers_come_out_again_and_nothing_else_changes():
    optimizer = optim.groups({"head": {"lr": 0.3}}, optim.lookahead(optim.adamw(optim.cyclic(0.1, 0.2, 3)), 4))
    values = {name: 0.001 * i for i, name in enumerate(hyper_of(optimizer), 1)}
    assert hyper_of(with_hyper(optimizer, values)) == values
    assert with_hyper(optimizer, hyper_of(optimizer)) == optimizer
    assert with_hyper(optimizer, {}) is optimizer


def test_any_end_of_a_path_that_is_clear_is_a_name():
    known = hyperparameters_of(optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(0.1)))
    for given in ("lr", "adamw.lr", "chain.adamw.lr"):
        assert full_name(known, given) == "lr"
    for given in ("w.lr", "clip.lr", "", "r"):
        assert full_name(known, given) is None


@pytest.mark.parametrize(
    "optimizer",
    [
        optim.chain(optim.clip_by_global_norm(1.0), optim.normalize(), optim.adamw(optim.cosine(0.1, 9), decay="w")),
        optim.groups({"head": {"lr": 0.3}, "b": None}, optim.plateau(optim.sgd(0.1, 0.9))),
        optim.muon(0.1, rest=optim.lamb(0.2)),
        optim.ema(optim.accumulate(optim.lion(0.1), 3, weight="n")),
        optim.lbfgs(line_search=None),
    ],
    ids=lambda o: type(o).__name__,
)
def test_an_optimizer_prints_as_the_call_that_makes_it(optimizer):
    assert eval(repr(optimizer), vars(optim)) == optimizer


@pytest.mark.parametrize("part", ["*.bias", "layers"])
def test_a_pattern_of_decay_is_one_of_all_parameters(part):
    """A group, or the default, may have no parameter that decays."""
    decaying = optim.adamw(0.1, weight_decay=0.5, decay="*.weight")
    optimizer = optim.groups({part: {"lr": 0.1}}, decaying)
    wanted = decaying.update(gradient(FLAT), decaying.init(FLAT), FLAT)[0]
    found = optimizer.update(gradient(FLAT), optimizer.init(FLAT), FLAT)[0]
    assert tree.leaves(tree.map(np.array_equal, found, wanted)) == [True] * 3
    with pytest.raises(ParameterError, match=r"no parameter matches 'weights'(.|\n)*there are head, layers\[0\]\.bias"):
        optim.groups({part: {"lr": 0.1}}, optim.adamw(0.1, decay="weights")).init(FLAT)


def test_nested_numbers_are_set_in_a_compiled_step():
    optimizer = optim.chain(optim.clip_by_global_norm(10.0), optim.groups({"head": {"lr": 0.2}}, optim.sgd(0.1)))
    ones = tree.map(np.ones_like, FLAT)
    step = ws.compile(
        lambda p, b: sum(np.sum(p[n] * b[n]) for n in b), tree.map(np.zeros_like, FLAT), optimizer=optimizer, batch=ones
    )
    step.set(max_norm=100.0)
    step.set(**{"groups['head'].lr": 3.0})
    step(ones)
    assert (step.params["head"] == -3.0).all()
    np.testing.assert_allclose(step.params["layers[0].bias"], -0.1)
    step.set(max_norm=0.3, **{"default.lr": 0.0})
    step(ones)
    np.testing.assert_allclose(step.params["head"], -3.0 - 3.0 * 0.3 / 3)
    np.testing.assert_allclose(step.params["layers[0].bias"], -0.1)
    assert step.traces == 1
    before = step.hyper
    for changes, error, message in (
        ({"lr": 1.0}, ParameterError, "step.set: lr is the name of several"),
        ({"max_norm": -1.0}, ParameterError, "step.set: max_norm is -1; it must be more than 0"),
        ({"max_norm": None}, DtypeError, "step.set: max_norm is a NoneType, not a number"),
        ({"default.lr": 1.0, "rate": 1.0}, ParameterError, "step.set: rate is not there to be set"),
    ):
        with pytest.raises(error, match=f"^{message}"):
            step.set(**changes)
    assert step.hyper == before


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: optim.groups({"head": {"rate": 1.0}}, optim.sgd(0.1)), ParameterError, "groups: which rate of sgd"),
        (lambda: optim.groups({"head": {"lr": -1.0}}, optim.sgd(0.1)), ParameterError, "sgd: lr is -1"),
        (lambda: optim.groups({"head": 0.1}, optim.sgd(0.1)), DtypeError, "groups: head is a float, not an optimizer"),
        (lambda: optim.groups({}, optim.clip_by_value(1.0)), DtypeError, r"groups: default is a Clip(.|\n)*chain\(it,"),
        (lambda: optim.groups({"default": None}, optim.sgd(0.1)), ParameterError, "groups: default is the name"),
        (lambda: optim.groups({3: None}, optim.sgd(0.1)), DtypeError, "groups: 3 is no pattern"),
        (
            lambda: optim.groups({"head": optim.sgd(0.1)}).init(NESTED),
            ParameterError,
            "groups: no pattern matches layers",
        ),
        (
            lambda: optim.groups({"head": {"lr": 1.0}}),
            ParameterError,
            "groups: head has other hyper-parameters than the",
        ),
        (lambda: optim.groups({"tail": None}, optim.sgd(0.1)).init(NESTED), ParameterError, "groups: no parameter"),
        (lambda: optim.adamw(0.1, decay="tail").init(NESTED), ParameterError, "adamw: no parameter matches 'tail'"),
        (lambda: optim.adamw(0.1, decay={"head": True}).init(NESTED), ParameterError, "adamw: the table says nothing"),
        (lambda: optim.adamw(0.1, decay=[3]).init(NESTED), DtypeError, "adamw: .* is no function of a path"),
        (lambda: optim.muon(0.1).init(NESTED), ShapeError, "muon: head has 1 axes"),
        (lambda: optim.muon(0.1, size="big"), ParameterError, "muon: size is 'big'"),
        (lambda: optim.muon(0.1, iterations=0), ParameterError, "muon: iterations is 0"),
        (lambda: optim.muon(0.1).init(np.ones((2, 2), complex)), UnsupportedError, "muon: complex"),
        (lambda: optim.adafactor().init(np.ones(2, complex)), UnsupportedError, "adafactor: complex"),
        (lambda: optim.adafactor(clip=0.0), ParameterError, "adafactor: clip is 0"),
        (lambda: optim.lion(0.1, b2=1.0), ParameterError, "lion: b2 is 1"),
        (lambda: optim.rmsprop(0.1, keep=None), DtypeError, "rmsprop: keep is a NoneType"),
        (lambda: optim.adam(0.1, b1=lambda t: 0.9), DtypeError, "adam: b1 is a function"),
        (lambda: optim.lbfgs(history=0), ParameterError, "lbfgs: history is 0"),
        (lambda: optim.lbfgs(line_search="golden"), ParameterError, "lbfgs: line_search is 'golden'"),
        (lambda: optim.lbfgs().init(1j), UnsupportedError, "lbfgs: complex"),
        (lambda: optim.rprop(0.1).init(np.ones(2, complex)), UnsupportedError, "rprop: complex"),
        (lambda: optim.rprop(0.1, least=2.0, most=1.0), ParameterError, "rprop: least is 2 and most 1"),
        (lambda: optim.rprop(0.1, grow=1.0), ParameterError, "rprop: grow is 1"),
        (lambda: optim.sm3(0.1).init(np.ones(2, complex)), UnsupportedError, "sm3: complex"),
        (lambda: optim.prodigy(first=0.0), ParameterError, "prodigy: first is 0"),
        (lambda: optim.dadapt_adamw(growth=0.5), ParameterError, "dadapt_adamw: growth is 0.5"),
        (lambda: optim.sophia(0.1, every=0), ParameterError, "sophia: every is 0"),
        (lambda: optim.sophia(0.1, every=2.5), DtypeError, "sophia: every is a float"),
        (lambda: optim.sophia(0.1, seed=0.5), DtypeError, "sophia: seed is a float"),
        (lambda: optim.sophia(0.1, gamma=0.0), ParameterError, "sophia: gamma is 0"),
        (lambda: optim.sophia(0.1).init(np.ones(2, complex)), UnsupportedError, "sophia: complex"),
        (lambda: optim.sophia(0.1).update(NESTED, None, NESTED), ParameterError, "sophia: update was not given obj"),
        (lambda: optim.ademamix(0.1, b3=1.0), ParameterError, "ademamix: b3 is 1"),
        (lambda: optim.schedule_free_sgd(0.1, 1.0), ParameterError, "schedule_free_sgd: momentum is 1"),
        (lambda: optim.asgd(0.1, start=-1), ParameterError, "asgd: start is -1"),
        (lambda: optim.clip_by_block_rms(0.0), ParameterError, "clip_by_block_rms: most is 0"),
        (lambda: optim.lars(0.1, trust=0.0), ParameterError, "lars: trust is 0"),
        (lambda: optim.sam(3.0), DtypeError, "sam: the first argument"),
        (lambda: optim.sam(optim.sgd(0.1)).update(NESTED, None, NESTED), ParameterError, "sam: update was not given"),
        (lambda: optim.adaptive_clip(only="tail").apply(NESTED, None, NESTED), ParameterError, "adaptive_clip: no par"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, message):
    with pytest.raises(error, match=f"^{message}"):
        call()
