"""`ws.print` in traced functions: at once where values are known, else by the program, without a change of its bits."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import ParameterError, UnsupportedError

X = np.array([0.5, 1.5])


def square(x):
    ws.print("x is {:.1f}", x)
    return (x * x).sum()


def test_outside_of_programs_it_is_print(capsys):
    ws.print("a", 1, "b")
    ws.print(np.array([1.0, 2.0]))
    ws.print("{0:.2f} and {0[1]}", np.array([1.0, 2.0]))
    ws.print("no value")
    assert capsys.readouterr().out == "a 1 b\n[1. 2.]\n[1.00 2.00] and 2.0\nno value\n"


@pytest.mark.parametrize(
    "run",
    [
        lambda: square(X),
        lambda: ws.grad(square)(X),
        lambda: ws.jit(square)(X),
        lambda: ws.jit(ws.grad(square))(X),
        lambda: ws.grad(ws.jit(square))(X),
        lambda: ws.jit(square, device="reference")(X),
        lambda: ws.jit(ws.grad(ws.checkpoint(square)))(X),
        lambda: ws.grad(ws.checkpoint(square))(X),
        lambda: ws.jvp(square, (X,), (X,)),
        lambda: ws.jit(lambda x: ws.jvp(square, (x,), (x,)))(X),
        lambda: ws.jit(lambda x: ws.vjp(square, x)[0])(X),
        lambda: ws.jit(ws.composite(square))(X),
        lambda: ws.jit(lambda x: ws.autocast(square)(x))(X),
    ],
)
def test_it_is_printed_once(run, capsys):
    run()
    assert capsys.readouterr().out == "x is [0.5 1.5]\n"


def test_a_program_prints_at_every_call(capsys):
    f = ws.jit(square)
    f(X), f(X + 1.0)
    assert f.traces == 1
    assert capsys.readouterr().out == "x is [0.5 1.5]\nx is [1.5 2.5]\n"


@pytest.mark.parametrize("outer", [ws.jit, lambda f: f], ids=["jit", "eager"])
def test_a_mapped_function_prints_the_batch(outer, capsys):
    outer(ws.vmap(lambda x, y: (ws.print("{} {}", x, y), x * y)[1], in_axes=(0, None)))(X, 2.0)
    assert capsys.readouterr().out == "[0.5 1.5] [2. 2.]\n"


@pytest.mark.parametrize("outer", [ws.jit, lambda f: f], ids=["jit", "eager"])
@pytest.mark.parametrize("wrt", [lambda f: f, ws.grad], ids=["value", "gradient"])
def test_loops_print_each_step_in_order(outer, wrt, capsys):
    def rows(x):
        def row(total, x):
            ws.print("row", x)
            total, _ = ws.scan(lambda c, i: (ws.print("at {}", i), (c + x, None))[1], total, np.arange(2))
            ws.print("total", total)
            return total, None

        return ws.scan(row, 0.0, x, reverse=True)[0]

    outer(wrt(rows))(X)
    expected = ["row 1.5", "at 0", "at 1", "total 3.0", "row 0.5", "at 0", "at 1", "total 4.0"]
    assert capsys.readouterr().out.split("\n")[:-1] == expected


def test_fori_loop_prints(capsys):
    ws.jit(lambda x: ws.fori_loop(0, 3, lambda i, x: (ws.print("{} {}", i, x), x * 2.0)[1], x))(1.0)
    assert capsys.readouterr().out == "0 1.0\n1 2.0\n2 4.0\n"


def refused(x):
    @ws.custom_vjp
    def rule(x):
        ws.print("inside", x)
        return x

    rule.defvjp(lambda x: (x, None), lambda _, g: (g,))
    return rule(x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: ws.cond(x > 0, lambda x: (ws.print("x", x), x)[1], lambda x: x, x),
        lambda x: ws.while_loop(lambda x: x < 3, lambda x: (ws.print("x", x), x + 1)[1], x),
        refused,
    ],
)
def test_it_is_refused_where_values_do_not_come_out(f):
    with pytest.raises(UnsupportedError, match=r"print: values inside of .* do not leave it\n  at .*test_printing.py"):
        ws.jit(f)(1.0)


@pytest.mark.parametrize(("form", "values"), [("{} {}", (1,)), ("{:d}", (X,)), ("{name}", (1,)), ("{", (1,))])
def test_a_format_that_does_not_fit(form, values):
    for run in (lambda *xs: ws.print(form, *xs), ws.jit(lambda *xs: ws.print(form, *xs) or xs[0])):
        with pytest.raises(ParameterError, match="print: "):
            run(*values)


def model(says):
    def loss(params, batch):
        x = batch["x"]
        for i in range(4):
            x = np.tanh(x @ params["w"][i])
            says("layer {}: {}", i, x.mean())
        rest = x - batch["y"]
        says("rest {:.3f}", rest)
        return np.mean(rest * rest)

    return loss


def nothing(form, *values):
    pass


R = np.random.default_rng(0)
PARAMS = {"w": (R.normal(size=(4, 5, 5)) / 2).astype(np.float32)}
BATCH = {name: R.normal(size=(8, 5)).astype(np.float32) for name in "xy"}
STACKED = {name: np.stack([x, x + 1, x + 2]) for name, x in BATCH.items()}


@pytest.mark.parametrize(
    ("options", "batch", "lines"),
    [
        ({}, BATCH, 1),
        ({"steps_per_call": 3}, STACKED, 3),
        ({"microbatch": 4}, BATCH, 2),
        ({"precision": "bfloat16"}, BATCH, 1),
        ({"roll": True}, BATCH, 1),
        ({"device": "reference"}, BATCH, 1),
        ({"steps_per_call": 3, "unroll": "through"}, STACKED, 3),
    ],
)
def test_a_step_prints_and_keeps_its_bits(options, batch, lines, capsys):
    steps = [
        ws.compile(model(says), PARAMS, optimizer=ws.optim.adam(0.1), batch=batch, **options)
        for says in (ws.print, nothing)
    ]
    assert capsys.readouterr().out == ""
    for _ in range(3):
        results = [step(batch) for step in steps]
        assert results[0].losses.tobytes() == results[1].losses.tobytes()
        printed = capsys.readouterr().out
        assert [printed.count(f"layer {i}: ") for i in range(4)] == [lines] * 4 and printed.count("rest ") == lines
    assert steps[0].params["w"].tobytes() == steps[1].params["w"].tobytes()
    assert not results[0].captures


def test_what_is_printed_is_what_is_computed(capsys):
    def loss(w, x):
        value = np.mean((x @ w) ** 2)
        ws.print("{}", value)
        return value

    step = ws.compile(loss, np.ones(5), optimizer=ws.optim.sgd(0.1), batch=BATCH["x"].astype(np.float64))
    losses = [step(BATCH["x"].astype(np.float64)).loss for _ in range(3)]
    losses += step.run(np.concatenate([BATCH["x"]] * 2).astype(np.float64)[:12], shuffle=False).losses.tolist()
    assert [float(line) for line in capsys.readouterr().out.split()] == losses and len(losses) == 5
    step.attach(loss)(BATCH["x"][:3].astype(np.float64))
    assert len(capsys.readouterr().out.split()) == 1


def test_a_traced_array_shows_its_value_where_it_is_known():
    seen = []

    def f(x):
        total = x.sum()
        seen[:] = [str(x), repr(x), f"{total:.3f}", f"{total}", f"{x:.3f}"]
        return total

    ws.grad(f)(X)
    assert seen == ["[0.5 1.5]", "Array(f64[2], [0.5 1.5])", "2.000", "2.0", "[0.5 1.5]"]
    ws.jit(f)(X)
    assert seen == ["Array(f64[2])", "Array(f64[2])", "Array(f64)", "Array(f64)", "Array(f64[2])"]


def test_a_view_is_shown_as_it_is_now_and_not_after_the_trace():
    kept = []

    def f(x):
        y = x * 1.0
        kept.append(y[1:])
        y[1] = 7.0
        assert str(kept[0]) == "[7.]"
        return y.sum()

    ws.grad(f)(X)
    assert "Array(f64[1]" in repr(kept[0])
