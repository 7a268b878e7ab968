"""Verification of a step: it agrees where nothing is wrong, names the line where something is, and changes nothing."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import wholestep as ws
from wholestep import config, nn, tree
from wholestep.compiler import driver
from wholestep.errors import ParameterError, TreeError, VerificationError
from wholestep.ir.graph import OPS
from wholestep.primitives.movement import Flip
from wholestep.train.inspect.verification import verify
from wholestep.train.inspect.verification.findings import share_of_bound
from wholestep.train.inspect.verification.slopes import HeldRun
from wholestep.train.inspect.verification.verify import direction_groups
from wholestep.train.program.first_calls import observing

RNG = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def perceptron(params, batch):
    h = np.tanh(batch["x"] @ params["w"] + params["b"])
    return np.mean((h @ params["v"] - batch["y"]) ** 2)


PARAMS = {"w": normal(5, 19), "b": np.zeros(19, np.float32), "v": normal(19, 3)}
BATCH = {"x": normal(16, 5), "y": normal(16, 3)}


def step_of(loss=perceptron, params=PARAMS, batch=BATCH, **options):
    options = {"optimizer": ws.optim.adam(1e-2), **options}
    return ws.compile(loss, params, batch=batch, **options)


def bits(state):
    return [x.tobytes() for x in tree.leaves(state)]


def test_a_right_step_agrees_in_all_that_is_looked_at():
    report = step_of().verify(BATCH)
    assert report.check() is report and report.ok and not report.faults
    kinds = {value.kind for value in report.values}
    assert kinds == {"loss", "flag", "gradient", "parameter", "optimizer", "counter"}
    assert all(value.ok for value in report.values) and {"params.w", "loss"} <= {value.path for value in report.values}
    assert sum(line.operations for line in report.lines) == report.operations > 50
    assert any("np.tanh" in line.line for line in report.lines)
    assert [slope.params for slope in report.slopes[1:]] == [("params.b",), ("params.v",), ("params.w",)]
    assert all(slope.ok and slope.gap < 1e-8 for slope in report.slopes)
    assert "in float64" in report.plain
    text = str(report)
    assert "agrees with the reference" in text and "not checked:" in text and "<table>" in report._repr_html_()


def test_nothing_of_the_step_changes():
    def loss(params, batch, *, key):
        return perceptron(params, {**batch, "x": ws.nn.dropout(batch["x"], 0.3, key=key)})

    step, control = step_of(loss, key=3), step_of(loss, key=3)
    step(BATCH), control(BATCH)
    before = step.traces, step.reasons, bits(step.state)
    report = step.verify(BATCH)
    assert report.ok, report
    assert (step.traces, step.reasons, bits(step.state)) == before
    assert step(BATCH).loss == control(BATCH).loss and bits(step.state) == bits(control.state)
    assert report.step == 1


@pytest.mark.filterwarnings("ignore::wholestep.errors.BatchStatisticsWarning")
def test_micro_batches_have_statistics_and_keys_of_their_own_in_numpy_too():
    def noisy(model, batch, *, key):
        return module_loss(model, {**batch, "x": ws.nn.dropout(batch["x"], 0.3, key=key)})

    report = step_of(noisy, Normed(), microbatch=4).verify(BATCH)
    assert report.ok and "NumPy on the function itself: not run" not in str(report), report


class Normed(nn.Module):
    """Layers with buffers."""

    def __init__(self):
        self.norm = nn.BatchNorm(5)
        self.last = nn.Linear(5, 3, key=0)

    def __call__(self, x):
        return self.last(nn.relu(self.norm(x)))


def module_loss(model, batch):
    return nn.mse(model(batch["x"]), batch["y"])


def classes(params, batch):
    scores = np.maximum(batch["x"] @ params["w"] + params["b"], 0) @ params["v"]
    masked = np.where(batch["on"][:, None], scores, -np.inf)
    return nn.cross_entropy(np.where(np.isinf(masked), 0.0, masked), batch["label"])


LABELLED = {"x": BATCH["x"], "on": np.arange(16) % 3 > 0, "label": np.arange(16) % 3}
MODES = {
    "K steps": lambda: (step_of(batch=stacked(3), steps_per_call=3), stacked(3)),
    "through": lambda: (step_of(batch=stacked(2), steps_per_call=2, unroll="through"), stacked(2)),
    "micro-batches": lambda: (step_of(microbatch=4), BATCH),
    "accumulation": lambda: (step_of(optimizer=ws.optim.accumulate(ws.optim.sgd(0.1), 2)), BATCH),
    "bfloat16": lambda: (step_of(precision="bfloat16"), BATCH),
    "float16": lambda: (step_of(precision="float16"), BATCH),
    "buffers": lambda: (step_of(module_loss, Normed()), BATCH),
    "rolled": lambda: (step_of(layered, {"w": [normal(5, 5) for _ in range(6)]}, roll=True), BATCH),
    "checkpoint": lambda: (step_of(lambda p, b: ws.checkpoint(perceptron)(p, b)), BATCH),
    "symbolic": lambda: (step_of(batch=symbolic()), BATCH),
    "budget": lambda: (step_of(memory_budget="2MB"), BATCH),
    "integers": lambda: (step_of(classes, batch=LABELLED), LABELLED),
    "prints": lambda: (step_of(told), BATCH),
    "captures": lambda: (step_of(captured, captures=("h",), has_aux=True, grad_norm=True), BATCH),
    "reference": lambda: (step_of(device="reference"), BATCH),
    "no optimizer": lambda: (step_of(optimizer=None), BATCH),
    "another shape": lambda: (step_of(), {name: x[:7] for name, x in BATCH.items()}),
    "infinite": lambda: (step_of(infinite), BATCH),
}


def stacked(count):
    return {name: np.stack([x * (1 + k) for k in range(count)]) for name, x in BATCH.items()}


def symbolic():
    return {name: ws.ShapeDtype((ws.Dim("B"), *x.shape[1:]), x.dtype) for name, x in BATCH.items()}


def layered(params, batch):
    h = batch["x"]
    for w in params["w"]:
        h = h + np.tanh(h @ w)
    return np.mean(h**2)


def told(params, batch):
    value = perceptron(params, batch)
    ws.print("loss {:.3f} of {}", value, batch["x"][0])
    return value


def captured(params, batch):
    h = ws.capture("h", np.tanh(batch["x"] @ params["w"]))
    return np.mean((h @ params["v"] - batch["y"]) ** 2), {"most": np.max(h)}


def infinite(params, batch):
    return perceptron(params, batch) + np.log(params["b"][0]) * 0.0


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_of_a_step_is_verified(mode):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        step, batch = MODES[mode]()
        report = step.verify(batch)
    assert report.ok, report
    assert report.operations and len(report.values) > 3
    known = {
        "K steps": "the operations of 2 of the 3 steps",
        "no optimizer": "derivatives: the step has no optimizer",
        "infinite": "not finite",
    }
    assert known.get(mode, "the optimizer is meant to do") in "\n".join(report.unchecked)


def uncached(monkeypatch):
    """Compile without the cache, since the code that follows is broken."""
    monkeypatch.setattr(driver, "config", SimpleNamespace(check=lambda: True, debug=config.debug))


def broken_partial(monkeypatch, name, partial):
    monkeypatch.setattr(OPS[name], "partials", (partial,))


def test_a_wrong_derivative_rule_is_named_with_its_line(monkeypatch):
    broken_partial(monkeypatch, "tanh", lambda y, x: 1 - y)
    report = step_of().verify(BATCH)
    (fault,) = report.faults
    assert (fault.kind, fault.operation) == ("derivative", "tanh") and "h = np.tanh(" in fault.line
    assert not report.slopes[0].ok and all(value.ok for value in report.values)
    with pytest.raises(VerificationError, match="the derivative of tanh is off"):
        report.check()


def test_a_rule_inside_a_loop_is_named_with_its_line(monkeypatch):
    broken_partial(monkeypatch, "tanh", lambda y, x: 1 - y)

    def loss(params, batch):
        def body(h, x):
            y = np.tanh(h * params["b"][:5] + x)
            return y, np.sum(y)

        return np.mean(ws.scan(body, np.ones(5, np.float32), batch["x"])[1] ** 2)

    (fault,) = step_of(loss, {"b": normal(19)}).verify(BATCH).faults
    assert fault.operation == "tanh" and "y = np.tanh(h" in fault.line


def test_a_wrong_kernel_is_named_with_its_line(monkeypatch):
    uncached(monkeypatch)
    monkeypatch.setattr(Flip, "index_map", lambda self, builder, node, at: at)

    def loss(params, batch):
        h = np.tanh(batch["x"] @ params["w"])
        g = h[:, ::-1]
        return np.mean(g * params["b"]) + np.mean(h)

    report = step_of(loss, {"w": PARAMS["w"], "b": normal(19)}).verify(BATCH)
    assert not report.ok and all(fault.kind == "value" for fault in report.faults)
    assert report.faults[0].operation == "flip" and "h[:, ::-1]" in report.faults[0].line
    assert "float64 given the same operands" in report.faults[0].detail
    assert not all(value.ok for value in report.values)


def test_a_fault_that_is_gone_where_values_are_kept_is_found_in_the_whole(monkeypatch):
    uncached(monkeypatch)
    whole = verify.Subject.ran

    def ran(self, program, graph, groups):
        found = whole(self, program, graph, groups)
        at = self.engine.state.paths.index("params.b")
        found[at] = found[at] * np.float32(1 + 1e-5)
        return found

    monkeypatch.setattr(verify.Subject, "ran", ran)
    (fault,) = step_of().verify(BATCH).faults
    assert fault.kind == "value" and "params.b is 8" in fault.detail


def test_a_wrong_meaning_is_found_by_numpy_itself(monkeypatch):
    meaning = OPS["tanh"].ref
    monkeypatch.setattr(OPS["tanh"], "ref", lambda x, **params: meaning(x, **params) * x.dtype.type(1.001))
    report = step_of(device="reference").verify(BATCH)
    assert "function" in {fault.kind for fault in report.faults}
    assert "test_verify.py" in report.faults[-1].line and report.plain == "it differs"


def test_a_function_that_needs_a_trace_says_that_numpy_could_not_call_it():
    def loss(params, batch):
        if type(params["w"]) is not np.ndarray:
            return perceptron(params, batch)
        raise RuntimeError("traced, please")

    report = step_of(loss).verify(BATCH)
    assert report.ok and "it raised RuntimeError: traced, please" in "\n".join(report.unchecked)


def test_what_has_no_derivative_on_purpose_is_no_fault():
    def loss(params, batch):
        h = np.tanh(batch["x"] @ params["w"])
        rounded = h + ws.stop_gradient(np.round(h * 4) / 4 - h)
        largest = ws.stop_gradient(np.max(h))
        return perceptron(params, batch) + np.mean(rounded**2) / largest

    assert step_of(loss).verify(BATCH).ok


def test_a_derivative_that_the_user_states_otherwise_is_a_note():
    @ws.custom_vjp
    def clipped(x):
        return np.clip(x, -0.1, 0.1)

    clipped.defvjp(lambda x: (np.clip(x, -0.1, 0.1), None), lambda _, g: (g,))

    def loss(params, batch):
        return np.mean(clipped(batch["x"] @ params["w"]) ** 2)

    report = step_of(loss, {"w": PARAMS["w"]}).verify(BATCH)
    assert report.ok and any("stated for" in note for note in report.notes)
    assert any("the gradient as a whole" in text for text in report.unchecked)


def test_a_kink_at_the_parameters_is_a_note():
    def loss(params, batch):
        return np.mean(np.max(batch["x"] @ params["w"] + params["b"], axis=1))

    params = {"w": np.zeros((5, 19), np.float32), "b": np.zeros(19, np.float32)}
    report = step_of(loss, params).verify(BATCH)
    assert report.ok and any("kink" in note for note in report.notes)


def test_fewer_rows_take_less_memory():
    batch = {"x": normal(64, 5), "y": normal(64, 3)}
    step = step_of(batch=batch)
    whole, some = step.verify(batch), step.verify(batch, rows=4)
    assert some.ok and some.memory < whole.memory
    assert any("f32[4, 5]" in note for note in some.notes)
    with pytest.raises(ParameterError, match="rows is 99, and the batch has 64"):
        step.verify(batch, rows=99)
    with pytest.raises(TreeError, match=r"no batch\.y"):
        step.verify({"x": BATCH["x"]})


def test_an_observer_sees_the_first_call_of_each_program():
    seen = []

    class Observer:
        def made(self, engine):
            seen.append("made")

        def called(self, engine, feed, arrays):
            seen.append((str(feed), None if arrays is None else arrays[0].shape, int(engine.state.counter("step"))))

    with observing(Observer()):
        step = step_of()
        for rows in (16, 16, 7, 7):
            step({name: x[:rows].tolist() if rows == 7 else x[:rows] for name, x in BATCH.items()})
        step.run(BATCH, epochs=2, batch_size=5)
    step_of()(BATCH)
    assert seen[0] == "made" and [x[1:] for x in seen[1:]] == [((16, 5), 0), ((7, 5), 2), ((5, 5), 4), ((5, 5), 7)]


def test_groups_are_of_every_parameter():
    assert direction_groups(1) == [[0]]
    assert direction_groups(3) == [[0, 1, 2], [0], [1], [2]]
    assert (
        sorted(k for group in direction_groups(20)[1:] for k in group) == list(range(20))
        and len(direction_groups(20)) == 9
    )


def test_shares_of_bounds():
    assert [share_of_bound(0, 0), share_of_bound(1, 4), share_of_bound(1, np.inf), share_of_bound(2, 0)] == [
        0.0,
        0.25,
        0.0,
        np.inf,
    ]


def test_what_has_no_derivative_runs_as_it_ran_first():
    graph = ws.trace(lambda x: ws.stop_gradient(x) * x + np.floor(x) + np.where(x > 0, x, 2 * x))(np.ones(()))
    held = HeldRun()
    (first,) = held(graph, [np.asarray(1.5)])
    (again,) = held(graph, [np.asarray(-1.0)])
    assert first == 1.5 * 1.5 + 1.0 + 1.5 and again == 1.5 * -1.0 - 1.0 - 1.0
