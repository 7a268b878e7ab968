"""Optimizers against their textbook formulas, in every dtype, eagerly and traced."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import errors, optim, tree
from wholestep.optim.hyper import hyper_of, with_hyper

RNG = np.random.default_rng(4)
PARAMS = {"w": RNG.normal(size=(3, 2)), "b": (np.array(0.5), RNG.normal(size=4))}
GRADS = [tree.map(lambda p: np.asarray(RNG.normal(size=p.shape)), PARAMS) for _ in range(4)]
MADE = {
    "sgd": optim.sgd(0.1),
    "momentum": optim.sgd(0.1, momentum=0.9),
    "nesterov": optim.sgd(0.1, 0.9, nesterov=True),
    "adam": optim.adam(0.01, 0.8, 0.95, 1e-3),
    "scheduled": optim.adam(lambda t: 0.1 / (1 + t) ** 0.5),
}


OTHERS = {
    "amsgrad": optim.adam(0.01, amsgrad=True),
    "adamw": optim.adamw(0.01),
    "nadam": optim.nadam(0.01),
    "radam": optim.radam(0.01, b2=0.9),
    "adamax": optim.adamax(0.01),
    "lion": optim.lion(0.01, weight_decay=0.1),
    "lamb": optim.lamb(0.01),
    "adabelief": optim.adabelief(0.01, eps=1e-4, weight_decay=0.1),
    "yogi": optim.yogi(0.01),
    "adan": optim.adan(0.01, weight_decay=0.1),
    "lars": optim.lars(0.5, trust=0.1, weight_decay=0.1),
    "fromage": optim.fromage(0.01),
    "novograd": optim.novograd(0.01, weight_decay=0.1),
    "asgd": optim.asgd(0.1, pull=0.1, start=1, weight_decay=0.1),
    "ademamix": optim.ademamix(0.01, weight_decay=0.1),
    "schedule_free_sgd": optim.schedule_free_sgd(0.1, weight_decay=0.1),
    "schedule_free_adamw": optim.schedule_free_adamw(0.01, weight_decay=0.1),
    "prodigy": optim.prodigy(first=0.1, weight_decay=0.1),
    "dadapt_adamw": optim.dadapt_adamw(first=0.1, weight_decay=0.1),
    "dog": optim.dog(first=0.1, weight_decay=0.1),
    "adopt": optim.adopt(0.1, weight_decay=0.1),
    "madgrad": optim.madgrad(0.1, weight_decay=0.1),
    "conditioned": optim.chain(
        optim.zero_nans(),
        optim.clip_by_block_rms(0.5),
        optim.centralize(),
        optim.adaptive_clip(0.5),
        optim.add_decayed_weights(0.1),
        optim.sgd(0.1),
    ),
    "rmsprop": optim.rmsprop(0.01, momentum=0.9, centered=True),
    "adagrad": optim.adagrad(0.1),
    "adadelta": optim.adadelta(),
    "wrapped": optim.ema(optim.lookahead(optim.chain(optim.clip_by_global_norm(1.0), optim.adamw(0.01)), 2)),
    "accumulated": optim.accumulate(optim.adam(0.1), 2),
}
REAL = {
    "adafactor": optim.adafactor(0.1),
    "muon": optim.muon(0.1, rest=optim.adam(0.01)),
    "lbfgs": optim.lbfgs(0.1, 3, line_search=None),
    "rprop": optim.rprop(0.01),
    "shampoo": optim.shampoo(0.1, eps=0.01, every=2, weight_decay=0.1),  # roots of small numbers amplify rounding
    "signum": optim.signum(0.01, weight_decay=0.1),
    "sm3": optim.sm3(0.1),
    "soap": optim.soap(0.01, eps=1e-3, every=2),
}


def textbook(name, p, grads):
    """One parameter after these gradients, as the papers write it."""
    m = v = np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        if name == "sgd":
            p = p - 0.1 * g
        elif name in ("momentum", "nesterov"):
            m = 0.9 * m + g
            p = p - 0.1 * (g + 0.9 * m if name == "nesterov" else m)
        else:
            lr, b1, b2, eps = (0.01, 0.8, 0.95, 1e-3) if name == "adam" else (0.1 / t**0.5, 0.9, 0.999, 1e-8)
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
            p = p - lr * (m / (1 - b1**t)) / (np.sqrt(v / (1 - b2**t)) + eps)
    return p


def updated(optimizer, params, grads):
    state = optimizer.init(params)
    for g in grads:
        params, state = optimizer.update(g, state, params)
    return params, state


@pytest.mark.parametrize("name", MADE)
def test_updates_are_those_of_the_textbook(name):
    params, state = updated(MADE[name], PARAMS, GRADS)
    for found, p, *gs in zip(*[tree.leaves(t) for t in (params, PARAMS, *GRADS)], strict=True):
        np.testing.assert_allclose(found, textbook(name, p, gs), rtol=1e-12)
    assert state["count"] == 4
    assert tree.structure(params) == tree.structure(PARAMS)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("name", [*MADE, *OTHERS, *REAL])
def test_dtypes_stay_and_halves_compute_in_single(name, dtype):
    if name in REAL and dtype.startswith("complex"):
        pytest.skip("refused; test_groups.py sees to it")
    dtype = ws.ShapeDtype((), dtype).dtype
    params = {"x": np.linspace(-1, 1, 6).astype(dtype).reshape(3, 2), "s": np.ones((), dtype)}
    optimizer = {**MADE, **OTHERS, **REAL}[name]
    new, state = updated(optimizer, params, [params, params])
    assert [x.dtype for x in tree.leaves(new)] == [dtype, dtype]
    assert all((x != p).any() for x, p in zip(tree.leaves(new), tree.leaves(params), strict=True))
    assert [x.dtype for x in tree.leaves(state)] == [x.dtype for x in tree.leaves(optimizer.init(params))]
    kept = {x.dtype.name for x in tree.leaves(state) if x.ndim == 2}
    wide = {"float16": "float32", "bfloat16": "float32"}.get(dtype.name, dtype.name)
    real = {"complex64": "float32", "complex128": "float64"}.get(dtype.name, wide)
    assert kept <= {wide, real}


@pytest.mark.parametrize("name", MADE)
def test_traced_updates_are_the_eager_ones_to_the_bit(name):
    params = tree.map(lambda x: x.astype(np.float32), PARAMS)
    grads = tree.map(lambda x: x.astype(np.float32), GRADS[0])
    optimizer = MADE[name]
    traced = ws.jit(lambda hyper, g, s, p: with_hyper(optimizer, hyper).update(g, s, p))
    state = optimizer.init(params)
    for _ in range(3):
        expected = optimizer.update(grads, state, params)
        found = traced(hyper_of(optimizer), grads, state, params)
        for a, b in zip(tree.leaves(found), tree.leaves(expected), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_array_equal(a, b)
        params, state = found


@pytest.mark.parametrize("name", [*OTHERS, *REAL])
def test_traced_updates_are_the_eager_ones(name):
    params = tree.map(lambda x: x.astype(np.float32), PARAMS)
    optimizer = {**OTHERS, **REAL}[name]
    traced = ws.jit(lambda hyper, g, s, p: with_hyper(optimizer, hyper).update(g, s, p))
    (found, found_state), (expected, state) = [(params, optimizer.init(params))] * 2
    for g in GRADS:
        g = tree.map(lambda x: x.astype(np.float32), g)
        expected, state = optimizer.update(g, state, expected)
        found, found_state = traced(hyper_of(optimizer), g, found_state, found)
    assert tree.structure((found, found_state)) == tree.structure((expected, state))
    for a, b in zip(tree.leaves((found, found_state)), tree.leaves((expected, state)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", [*MADE, *OTHERS, *REAL])
def test_a_loop_by_hand_is_compiled_once(name):
    optimizer = (MADE | OTHERS | REAL)[name]
    params, grads = {"w": PARAMS["w"]}, {"w": GRADS[0]["w"]}
    step, state = ws.jit(optimizer.update), optimizer.init(params)
    for _ in range(3):
        params, state = step(grads, state, params)
    assert step.reasons == ["first call"]


def test_complex_steps_are_no_longer_than_the_rate():
    params, _ = updated(optim.adam(0.1), 0j, [3 + 4j])
    np.testing.assert_allclose(params, -0.1 * (0.6 + 0.8j), rtol=1e-6)


def test_updates_are_pure():
    for optimizer in (*MADE.values(), *OTHERS.values(), *REAL.values()):
        state = optimizer.init(PARAMS)
        _, state = optimizer.update(GRADS[0], state, PARAMS)
        kept = [x.copy() for x in tree.leaves((PARAMS, GRADS, state))]
        optimizer.update(GRADS[1], state, PARAMS)
        for a, b in zip(tree.leaves((PARAMS, GRADS, state)), kept, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_python_number_is_a_parameter_too():
    params, _ = updated(optim.sgd(0.5), 1.0, [2.0])
    assert params == 0.0


def test_hyper_parameters_are_the_fields_with_floats():
    assert hyper_of(optim.adam(1)) == {"lr": 1.0, "b1": 0.9, "b2": 0.999, "eps": 1e-8}
    assert hyper_of(optim.sgd(0.1)) == {"lr": 0.1}
    assert hyper_of(optim.sgd(lambda t: 0.1, 0.9)) == {"momentum": 0.9}
    assert hyper_of(object()) == {}


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: optim.sgd(-1.0), ws.errors.ParameterError),
        (lambda: optim.sgd(float("nan")), ws.errors.ParameterError),
        (lambda: optim.sgd(0.1, 1.0), ws.errors.ParameterError),
        (lambda: optim.sgd(0.1, nesterov=True), ws.errors.ParameterError),
        (lambda: optim.sgd("fast"), ws.errors.DtypeError),
        (lambda: optim.sgd(True), ws.errors.DtypeError),
        (lambda: optim.adam(0.1, b1=1.0), ws.errors.ParameterError),
        (lambda: optim.adam(0.1, b2=-0.1), ws.errors.ParameterError),
        (lambda: optim.adam(0.1, eps=-1), ws.errors.ParameterError),
        (lambda: optim.adam(0.1, eps=None), ws.errors.DtypeError),
    ],
)
def test_what_is_no_hyper_parameter_is_refused(make, error):
    with pytest.raises(error, match=r"^(sgd|adam): "):
        make()


TRACED = {
    "adamw": lambda x: optim.adamw(x, weight_decay=x),
    "sgd": lambda x: optim.sgd(x, momentum=x),
    "rmsprop": lambda x: optim.rmsprop(x, keep=x, momentum=x),
    "lion": lambda x: optim.lion(x, x),
    "chain": lambda x: optim.chain(optim.clip_by_global_norm(x), optim.adam(optim.warmup(optim.cosine(x, 3), 2))),
    "one_cycle": lambda x: optim.sgd(optim.one_cycle(x, 10)),
    "ema": lambda x: optim.ema(optim.lookahead(optim.nadam(x), 2, x), x),
}


@pytest.mark.parametrize("name", TRACED)
def test_numbers_may_be_traced_swept_and_differentiated(name):
    def trained(x):
        return updated(TRACED[name](x), PARAMS, GRADS)[0]

    rates = np.array([0.3, 0.05])
    swept = ws.jit(ws.vmap(trained))(rates)
    apart = [trained(np.array(rate)) for rate in rates]  # an array without axes is a number too
    tree.map(lambda a, *b: np.testing.assert_allclose(a, np.stack(b), rtol=1e-12), swept, *apart)
    slope = ws.grad(lambda x: np.sum(trained(x)["w"]))(0.3)
    up, down = [np.sum(trained(x)["w"]) for x in (0.3 + 1e-6, 0.3 - 1e-6)]
    np.testing.assert_allclose(slope, (up - down) / 2e-6, rtol=1e-5)


def test_a_traced_array_with_axes_is_no_number():
    with pytest.raises(ws.errors.DtypeError, match=r"^adam: lr is f64\[2\], not a number"):
        ws.grad(lambda x: updated(optim.adam(x), PARAMS, GRADS)[0]["w"].sum())(np.ones(2))


def test_a_model_in_the_place_of_a_rate_is_no_schedule():
    with pytest.raises(ws.errors.DtypeError, match=r"^adam: lr is a Linear, not a number\n.*\n.*ws\.compile"):
        optim.adam(ws.nn.Linear(3, 1, key=0))


def test_updates_without_parameters_or_with_the_state_in_their_place_are_named():
    optimizer = optim.adam(0.1)
    with pytest.raises(errors.ArgumentError, match=r"Adam\.update: params is missing"):
        optimizer.update(GRADS[0], optimizer.init(PARAMS))
    with pytest.raises(
        errors.TreeError, match=r"adam: the state is a dict.* without count\n(.|\n)*update\(grads, state, p"
    ):
        optimizer.update(GRADS[0], PARAMS, optimizer.init(PARAMS))
