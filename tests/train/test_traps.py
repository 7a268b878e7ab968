"""Programs that would train nothing, or on numbers that never change, are errors or warnings that name the line."""

import datetime
import functools
import json
import random
import secrets
import time
import types
from time import perf_counter as seconds

import numpy as np
import pytest
from numpy.random import normal
from scipy import stats

import wholestep as ws
from wholestep import errors, nn, optim
from wholestep.dtypes import DRAWN
from wholestep.train.loop.loggers import JsonLogger
from wholestep.train.state.loss_scaling import Scaling

X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
BATCH = {"x": X, "y": X[:, :1]}
TWO = {"a": np.ones((3, 1), np.float32), "c": np.full((3, 1), 2.0, np.float32)}
MODEL = nn.Linear(3, 1, key=0)


def of_a(p, b):
    return nn.mse(b["x"] @ p["a"], b["y"])


def step(loss=of_a, params=TWO, **options):
    return ws.compile(loss, params, **{"optimizer": optim.sgd(0.1), "batch": BATCH, **options})


# Parameters that no gradient reaches.


def around(model, b):
    return nn.mse(MODEL(b["x"]), b["y"])


def test_a_loss_of_the_model_around_it_is_an_error_that_names_arrays_and_line():
    with pytest.raises(errors.DerivativeError) as found:
        step(around, MODEL)
    assert "none of the 2 parameters" in str(found.value) and "it reads bias, weight from around it" in str(found.value)
    assert 'nn.mse(MODEL(b["x"])' in str(found.value) and "def around(model, batch)" in str(found.value)


UNREACHED = {
    "not read": lambda p, b: of_a(p, b),
    "multiplied by nothing that is differentiated": lambda p, b: of_a(p, b) + ws.stop_gradient(p["c"]).sum(),
    "counted": lambda p, b: of_a(p, b) + (p["c"] > 0).sum(),
    "rounded to integers": lambda p, b: of_a(p, b) + p["c"].astype(int).sum(),
}


@pytest.mark.parametrize("options", [{}, {"microbatch": 4}, {"guard": None}, {"precision": "bfloat16"}], ids=str)
@pytest.mark.parametrize("what", UNREACHED)
def test_a_parameter_that_is_never_trained_is_named(what, options):
    with pytest.warns(errors.UnusedParameterWarning, match="1 of the 2 parameters.*: c") as found:
        step(UNREACHED[what], **options)
    assert len(found) == 1 and found[0].filename == __file__


def test_what_allow_unused_says_of_it():
    step(allow_unused=True)
    step(lambda p, b: b["x"].sum(), allow_unused=True)
    with pytest.raises(errors.DerivativeError, match=r"1 of the 2 parameters.*: c"):
        step(allow_unused=False)
    with pytest.raises(errors.DerivativeError, match="none of the 2 parameters"):
        step(lambda p, b: b["x"].sum())


def test_what_is_meant_to_stay_is_not_named():
    step(optimizer=optim.groups({"c": None}, optim.sgd(0.1)))
    step(optimizer=None)
    step(lambda m, b: nn.mse(m[0](b["x"]), b["y"]), [MODEL, nn.frozen(np.ones(3))])
    with pytest.raises(errors.DerivativeError, match="none of the 1 parameters"):
        step(lambda p, b: (p["c"] * b["x"][0, 0]).sum(), optimizer=optim.groups({"c": None}, optim.sgd(0.1)))


def test_every_parameter_that_moves_is_reached_and_the_others_are_named():
    """The law: named parameters do not move, and all others do, for every subset that the loss reads."""
    for mask in range(1, 8):
        read = [i for i in range(3) if mask >> i & 1]
        params = {f"p{i}": np.full(2, 1.0 + i) for i in range(3)}
        made = functools.partial(
            ws.compile,
            lambda p, b: sum(np.sum(p[f"p{i}"] * b) ** 2 for i in read),  # noqa: B023
            params,
            optimizer=optim.sgd(0.1),
            batch=np.ones(2),
        )
        named = []
        if len(read) < 3:
            with pytest.warns(errors.UnusedParameterWarning) as found:
                made()
            named = str(found[0].message).split("never trained: ")[1].split("\n")[0].split(", ")
        one = made(allow_unused=True)
        one(np.ones(2))
        assert named == [name for name in params if np.array_equal(one.params[name], params[name])]


def test_replace_looks_as_well():
    one = step(lambda p, b: of_a(p, b) + p["c"].sum())
    with pytest.warns(errors.UnusedParameterWarning, match=": c"):
        one.replace(of_a)
    with pytest.raises(errors.DerivativeError, match="none of the 2"):
        one.replace(lambda p, b: b["x"].sum())


# Random numbers that a trace would make constant.

RNG, STATE, PYTHON = np.random.default_rng(0), np.random.RandomState(0), random.Random(0)
randn = STATE.randn
HELD = types.SimpleNamespace(rng=np.random.default_rng(1), deep={"one": [np.random.default_rng(2)]})


class Noisy:
    def __init__(self):
        self.rng = np.random.default_rng(3)

    def __call__(self, x):
        return x + self.rng.normal()

    def method(self, x):
        return x + self.rng.normal()


NOISY = Noisy()


def helper(x):
    return x + np.random.normal()


def default(x, rng=np.random.default_rng(4)):  # noqa: B008
    return x + rng.normal()


def inner(x):
    def within(y):
        return y + np.random.rand()

    return within(x)


def closure():
    rng = np.random.default_rng(5)
    return lambda x: x + rng.normal()


IMPURE = {
    "numpy": lambda x: x + np.random.normal(size=3),
    "numpy by name": lambda x: x + normal(),
    "numpy shuffled": lambda x: x[np.random.permutation(3)],
    "python": lambda x: x + random.random(),
    "python gauss": lambda x: x + random.gauss(0, 1),
    "global generator": lambda x: x + RNG.normal(),
    "global state": lambda x: x + STATE.normal(),
    "global python": lambda x: x + PYTHON.random(),
    "bound method": lambda x: x + randn(),
    "attribute": lambda x: x + HELD.rng.normal(),
    "deep attribute": lambda x: x + HELD.deep["one"][0].normal(),
    "callable object": NOISY,
    "object that is called": lambda x: NOISY(x),
    "method": NOISY.method,
    "partial": functools.partial(lambda rng, x: x + rng.normal(), np.random.default_rng(6)),
    "helper": lambda x: helper(x),
    "default": default,
    "inner": inner,
    "closure": closure(),
    "in a loop": lambda x: ws.scan(lambda c, _: (c + RNG.normal(), None), x, None, 3)[0],
    "in a gradient": lambda x: ws.grad(lambda x: np.sum(x * RNG.normal()))(x),
    "unseeded": lambda x: x + np.random.default_rng().normal(),
    "secret": lambda x: x + secrets.randbelow(9),
    "quasi-random": lambda x: x + stats.qmc.Sobol(1).random(2)[1],
    "time": lambda x: x + time.time(),
    "time by name": lambda x: x + seconds(),
    "monotonic": lambda x: x + time.monotonic_ns(),
    "date": lambda x: x + datetime.datetime.now().microsecond,
}

TRACED = {
    "jit": lambda f: ws.jit(f)(np.ones(3)),
    "compile": lambda f: ws.compile(
        lambda p, b: np.sum(p * f(b)), np.ones(3), optimizer=optim.sgd(0.1), batch=np.ones(3)
    ),
    "several steps": lambda f: ws.compile(
        lambda p, b: np.sum(p * f(b)), np.ones(3), optimizer=optim.sgd(0.1), batch=np.ones((2, 3)), steps_per_call=2
    ),
    "attach": lambda f: ws.compile(lambda p, b: np.sum(p * b), np.ones(3), batch=np.ones(3)).attach(lambda p, b: f(b))(
        np.ones(3)
    ),
    "scan": lambda f: ws.scan(lambda c, _: (f(c), None), np.ones(3), None, 2),
    "while_loop": lambda f: ws.while_loop(lambda c: c.sum() < 10, f, np.ones(3)),
}


@pytest.mark.parametrize("what", IMPURE)
@pytest.mark.parametrize("where", ["jit", "compile"])
def test_a_number_of_the_trace_alone_is_an_error(what, where):
    with pytest.raises(errors.ImpurityError) as found:
        TRACED[where](IMPURE[what])
    assert "test_traps.py" in str(found.value) and "hint" in str(found.value)


@pytest.mark.parametrize("where", TRACED)
def test_it_is_in_everything_that_keeps_its_trace(where):
    for what in ("numpy", "global generator", "time"):
        with pytest.raises(errors.ImpurityError):
            TRACED[where](IMPURE[what])


def test_numbers_of_torch_are_no_others():
    torch = pytest.importorskip("torch", reason="torch is in the test extra; not installed")
    with pytest.raises(errors.ImpurityError, match=r"drawn from PyTorch's own generator(.|\n)*test_traps\.py"):
        ws.jit(lambda x: x + torch.rand(1).item())(np.ones(3))


def test_the_line_of_the_draw_is_named():
    for f, line in ((IMPURE["helper"], "return x + np.random.normal()"), (NOISY, "return x + self.rng.normal()")):
        with pytest.raises(errors.ImpurityError) as found:
            ws.jit(f)(np.ones(3))
        assert line in str(found.value)


def test_what_draws_anew_each_time_or_the_same_each_time_is_right():
    for f in (
        lambda: ws.grad(lambda x: np.sum(x * STATE.randn()))(np.ones(3)),
        lambda: ws.vmap(lambda x: x * np.random.normal())(np.ones(3)),
        lambda: ws.jit(lambda x: x + np.random.default_rng(0).normal())(np.ones(3)),
        lambda: ws.jit(lambda x: x + ws.random.normal(ws.random.key(0), (3,)))(np.ones(3)),
        lambda: ws.jit(lambda x: x + (0 if x.shape else time.time()))(np.ones(3)),
    ):
        f()
    assert len({ws.grad(lambda x: x * STATE.randn())(1.0) for _ in range(3)}) == 3


# Steps that do nothing.

DATA = {"x": np.tile(X, (6, 1)), "y": np.tile(X[:, :1], (6, 1))}


def test_fit_refuses_a_step_without_an_optimizer():
    with pytest.raises(errors.ParameterError, match="no optimizer") as found:
        ws.fit(step(MODEL_LOSS, MODEL, optimizer=None), DATA, progress=None)
    assert "optimizer=ws.optim.adam" in str(found.value)


def MODEL_LOSS(model, b):
    return nn.mse(model(b["x"]), b["y"])


def with_nan(every):
    x = DATA["x"].copy()
    x[::every, 0] = np.nan
    return {**DATA, "x": x}


def test_the_first_skipped_step_is_said_and_they_are_shown(capsys):
    one = step(MODEL_LOSS, MODEL)
    data = {**DATA, "x": DATA["x"].copy()}
    data["x"][0, 0] = np.nan
    with pytest.warns(errors.SkippedStepWarning, match="a step was skipped") as found:
        history = ws.fit(one, data, epochs=3, progress="plain")
    assert len(found) == 1 and history.status == "completed" and len(history.losses) == 18
    assert "skipped 3" in capsys.readouterr().out and str(history).endswith("3 of 18 steps were skipped")


def test_an_epoch_of_skipped_steps_ends_the_run_with_what_is_wrong():
    with pytest.warns(errors.SkippedStepWarning) as found:
        history = ws.fit(step(MODEL_LOSS, MODEL), with_nan(1), epochs=9, progress=None)
    assert len(history.losses) == 6 and "all 6 steps" in history.status
    assert "batch.x holds nan: 8 of the 24 elements" in str(found[-1].message)


def test_twenty_skipped_steps_in_a_row_end_the_run():
    many = {name: np.tile(x, (10, 1)) for name, x in with_nan(1).items()}
    for count in (1, 4):
        one = step(MODEL_LOSS, MODEL, steps_per_call=count, batch={n: np.stack([x] * count) for n, x in BATCH.items()})
        loader = ws.Loader(many, 8, steps_per_call=count)
        if count == 1:
            one = step(MODEL_LOSS, MODEL)
        with pytest.warns(errors.SkippedStepWarning) as found:
            history = ws.fit(one, loader, epochs=9, progress=None)
        assert "batch.x holds nan" in str(found[-1].message)
        assert len(history.losses) == 20 and "last 20 steps" in history.status


def test_run_says_what_it_has_skipped():
    with pytest.warns(errors.SkippedStepWarning, match="6 of 6 steps were skipped"):
        step(MODEL_LOSS, MODEL).run(with_nan(1))


def test_a_loss_scale_that_is_looked_for_is_no_fault():
    one = step(MODEL_LOSS, MODEL, loss_scale=Scaling(2.0**127))
    history = ws.fit(one, DATA, epochs=4, progress=None)
    assert 0 < history.skipped < 20 and history.status == "completed"


# Precisions.


def test_random_and_initial_numbers_are_of_one_dtype():
    key = ws.random.key(0)
    for name in ("uniform", "normal", "exponential", "gumbel", "laplace", "logistic", "cauchy"):
        assert getattr(ws.random, name)(key, (2,)).dtype == DRAWN
    for name, given in {"gamma": (2.0,), "beta": (2.0, 1.0), "chisquare": (2.0,), "t": (2.0,)}.items():
        assert getattr(ws.random, name)(key, *given, (2,)).dtype == DRAWN
    assert ws.random.truncated_normal(key, -1, 1, (2,)).dtype == ws.random.dirichlet(key, np.ones(2)).dtype == DRAWN
    for name in ("normal", "uniform", "xavier_normal", "kaiming_uniform", "lecun_normal", "orthogonal"):
        assert getattr(nn.init, name)(0, (2, 2)).dtype == DRAWN
    assert {x.dtype for x in ws.tree.leaves(nn.TransformerBlock(8, 2, key=0))} == {np.dtype(DRAWN)}


MIXED = {"layers": [np.ones((3, 1), np.float32)], "shift": np.zeros(1)}


def of_mixed(p, b):
    return nn.mse(b["x"] @ p["layers"][0] + p["shift"], b["y"])


def test_parameters_of_two_precisions_are_said_once_with_the_first_of_each():
    with pytest.warns(errors.MixedPrecisionWarning, match=r"float32 \(layers\[0\]\) and of float64 \(shift\)") as found:
        one = step(of_mixed, MIXED)
    assert len(found) == 1 and found[0].filename == __file__
    explained = one.explain()
    assert "precision   as given" in explained and "parameters  float32 1, float64 1" in explained
    begins = next(line for line in explained.splitlines() if line.startswith("double"))
    assert 'p["layers"][0] + p["shift"]' in begins


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_precision_is_that_of_everything(dtype):
    one = step(of_mixed, MIXED, precision=dtype)
    assert {x.dtype for x in ws.tree.leaves(one.params)} == {np.dtype(dtype)}
    other = {"float32": "float64", "float64": "float32"}[dtype]
    operations = next(line for line in one.explain().splitlines() if line.startswith("operations"))
    assert f"{dtype} " in operations and (dtype == "float64" or other not in operations)
    same = {name: x.astype(dtype) for name, x in BATCH.items()}
    params = ws.tree.map(lambda x: x.astype(dtype), MIXED)
    plain = step(of_mixed, params, batch=same)
    for _ in range(3):
        assert one(BATCH).loss == plain(same).loss
    one.replace(params=MIXED)
    assert {x.dtype for x in ws.tree.leaves(one.params)} == {np.dtype(dtype)}


# Keys.


def test_parameters_drawn_from_one_key_are_said_with_their_paths():
    def loss(m, b):
        return nn.mse(m(b["x"]), b["x"])

    with pytest.warns(errors.RepeatedKeyWarning, match=r"layers\[0\].bias and layers\[2\].bias") as found:
        step(loss, nn.Sequential(nn.Linear(3, 3, key=0), nn.tanh, nn.Linear(3, 3, key=0)))
    assert len(found) == 1 and found[0].filename == __file__
    step(loss, nn.Sequential(nn.Linear(3, 3, key=0), nn.tanh, nn.Linear(3, 3, key=1)))


def test_equal_parameters_that_are_not_drawn_are_no_twins():
    for x in (np.zeros((2, 3)), np.ones((2, 3)), np.full((2, 3), 0.1), np.eye(3), np.arange(6.0), np.linspace(0, 1, 7)):
        ws.compile(lambda p, b: sum(np.sum(x * b) for x in p), [x, x.copy()], optimizer=optim.sgd(0.1), batch=1.0)


# The norm of the gradients.


def of_both(p, b):
    return nn.mse(b["x"] @ (p["a"] + p["c"] ** 2), b["y"])


@pytest.mark.parametrize("options", [{}, {"microbatch": 2}, {"loss_scale": 8.0}, {"guard": None}], ids=str)
def test_the_norm_of_the_gradients_is_that_of_the_whole_gradient(options):
    one, plain = step(of_both, grad_norm=True, **options), step(of_both, **options)
    for _ in range(3):
        g = ws.grad(of_both)(one.params, BATCH)
        expected = np.sqrt(sum(np.sum(x.astype(float) ** 2) for x in g.values()))
        result, other = one(BATCH), plain(BATCH)
        np.testing.assert_allclose(result.grad_norm, expected, rtol=1e-5)
        assert (result.loss, dict(result.captures), other.grad_norm) == (other.loss, {}, None)
    many = step(
        of_both, grad_norm=True, steps_per_call=3, batch={n: np.stack([x] * 3) for n, x in BATCH.items()}, **options
    )
    single = step(of_both, grad_norm=True, **options)
    found = many({n: np.stack([x] * 3) for n, x in BATCH.items()})
    assert found.grad_norm.tolist() == [single(BATCH).grad_norm for _ in range(3)]


def test_fit_and_loggers_show_it(capsys, tmp_path):
    ws.fit(
        step(of_both, grad_norm=True, optimizer=optim.sgd(0.001)),
        DATA,
        epochs=2,
        progress="plain",
        logger=JsonLogger(tmp_path / "log"),
        log_every=2,
    )
    assert capsys.readouterr().out.count("grad_norm ") == 2
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert sum("grad_norm" in line for line in lines) == 6
    with pytest.raises(errors.ParameterError, match="grad_norm"):
        step(of_both, optimizer=None, grad_norm=True)


# Variables that a loss reads from outside.


def test_a_number_that_is_bound_anew_stops_the_step_and_what_is_attached():
    rate, mode, flag = 0.5, "mean", True

    def loss(p, b):
        return of_a(p, b) * rate * (1.0 if mode == "mean" and flag else 2.0)

    made = step(loss, allow_unused=True)
    seen, attached = made(BATCH).loss, made.attach(loss, batch=BATCH)
    rate = 0.25 * 2  # an equal number is the same number
    assert attached(BATCH) < seen and made(BATCH).status == "completed"
    rate = 0.75
    for call in (made, attached, lambda b: made.run(b, 1), lambda b: made(dict(b, x=b["x"][:4], y=b["y"][:4]))):
        with pytest.raises(errors.MutationError, match=r"rate was 0\.5 when .* 0\.75 now"):
            call(BATCH)
    rate = 0.5
    mode = "sum"
    with pytest.raises(errors.MutationError, match=r"mode was 'mean' when .* 'sum' now"):
        made(BATCH)
    mode = "mean"
    assert made(BATCH).status == "completed" and "rate=0.5" in made.explain()
    made.replace(lambda p, b: loss(p, b))  # a new compilation reads the variables again
    assert made(BATCH).status == "completed" and flag


def test_two_variables_of_one_name_are_two():
    def weighted(lam):
        def term(p):
            return lam * np.sum(p["a"] ** 2)

        def change(value):
            nonlocal lam
            lam = value

        return term, change

    (first, _), (second, change) = weighted(1.0), weighted(2.0)
    made = step(lambda p, b: first(p) + second(p), allow_unused=True)
    made(BATCH)
    change(3.0)
    with pytest.raises(errors.MutationError, match=r"lam was 2\.0"):
        made(BATCH)


def test_a_rate_that_a_schedule_reads_by_name_stops_the_step():
    peak = 0.5
    made = step(optimizer=optim.sgd(lambda count: peak / (1.0 + count)), allow_unused=True)
    made(BATCH)
    peak = 0.1
    with pytest.raises(errors.MutationError, match="peak was"):
        made(BATCH)
