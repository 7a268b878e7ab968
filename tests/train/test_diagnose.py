"""The origin of the first number that is not finite: the operation and the line, in every kind of step and call."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import DtypeError, ShapeError, TreeError

NAN, INF = float("nan"), float("inf")
X = np.random.default_rng(0).normal(size=(8, 3)).astype("f")


def entropy(params, batch):
    p = np.abs(np.tanh(batch["x"] @ params["w"])).sum(axis=1)
    return -np.mean(np.log(p))


def length(params, batch):
    h = batch["x"] @ params["w"]
    return np.mean(np.sqrt(np.sum(h * h, axis=1)))


def compiled(loss, params=None, batch=None, **options):
    params = {"w": np.ones((3, 4), np.float32)} if params is None else params
    batch = {"x": X} if batch is None else batch
    return ws.compile(loss, params, optimizer=ws.optim.sgd(0.1), batch=batch, **options)


def with_zero_row(at=3):
    x = X.copy()
    x[at] = 0
    return {"x": x}


def test_a_result_says_where_to_ask_what_made_it_so():
    step = compiled(entropy)
    assert "diagnose" not in str(step({"x": X}))
    assert str(step(with_zero_row())) == "loss inf, skipped (step.diagnose with the same data says why)"


def test_message_of_the_forward_pass(golden, device):
    step = compiled(entropy, device=device)
    step({"x": X})
    assert step(with_zero_row()).status == "skipped"
    golden(plain(str(step.diagnose(with_zero_row()))))


def test_message_of_the_backward_pass(golden):
    step = compiled(length)
    assert np.isfinite(step(with_zero_row()).loss)
    golden(plain(str(step.diagnose(with_zero_row()))))


def plain(text):
    """The text without folders and line numbers, which change."""
    lines = [line if "test_diagnose.py" not in line else f"  at {line.split(':  ')[-1]}" for line in text.split("\n")]
    return "\n".join(lines)


@pytest.mark.parametrize(("loss", "name", "phase"), [(entropy, "log", "forward"), (length, "div", "backward")])
def test_the_operation_and_its_line(loss, name, phase):
    step = compiled(loss)
    step(with_zero_row())
    found = step.diagnose(with_zero_row())
    assert (found.operation, found.phase, found.step, found.exact) == (name, phase, 0, True)
    assert "test_diagnose.py" in found.line and "return" in found.line
    state = step.state
    step.diagnose(with_zero_row())
    assert str(state) == str(step.state), "nothing is changed"


@pytest.mark.parametrize("bad", [NAN, INF])
def test_what_was_given_is_named_by_its_path(bad):
    x = X.copy()
    x[2, 1] = bad
    step = compiled(length)
    step({"x": x})
    found = step.diagnose({"x": x})
    assert (found.operation, found.phase) == ("batch.x", "input")
    assert "1 of the 24 elements" in found.message
    step.set(params={"w": np.full((3, 4), NAN, np.float32)})
    assert step({"x": X}).status == "skipped"
    assert step.diagnose({"x": X}).operation == "params.w"


def test_infinities_that_are_meant_are_no_fault():
    def safe(w, batch):
        scores = np.where(batch["mask"], batch["x"] @ w, -np.inf)
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return np.sum(np.square(e / e.sum(axis=-1, keepdims=True))) + np.log(batch["last"])

    batch = {"x": X, "mask": np.ones((8, 4), bool), "last": np.float32(1.0)}
    batch["mask"][:, 1] = False
    step = compiled(safe, np.ones((3, 4), np.float32), batch)
    assert step(batch).status == "completed"
    batch["last"] = np.float32(0.0)
    assert step(batch).status == "skipped"
    assert step.diagnose(batch).operation == "log"
    batch["last"] = np.float32(1.0)
    batch["mask"][0] = False
    assert step(batch).status == "skipped"
    assert step.diagnose(batch).operation == "sub", "what makes nan of the infinities"


def test_within_a_loop():
    def recurrent(w, xs):
        def advance(h, x):
            h = np.exp(w * h + x)
            return h, np.sum(h)

        return np.mean(ws.scan(advance, np.zeros(2, np.float32), xs)[1])

    xs = np.ones((9, 2), np.float32)
    step = compiled(recurrent, np.ones(2, np.float32), xs)
    step(xs)
    found = step.diagnose(xs)
    assert found.operation == "exp" and "step 3 of the 9 of a loop" in found.message
    assert "np.exp(w * h + x)" in found.line


@pytest.mark.parametrize("wrap", [ws.checkpoint, lambda f: lambda x: ws.cond(x[0, 0] < 9, f, f, x), ws.composite])
def test_within_other_structures(wrap):
    inner = wrap(lambda h: np.log(np.abs(h)))
    step = compiled(lambda p, b: np.mean(inner(b["x"] @ p["w"])))
    step(with_zero_row())
    assert step.diagnose(with_zero_row()).operation == "log"


def test_steps_of_one_call():
    stacked = {"x": np.stack([X, *[with_zero_row()["x"]] * 3])}
    step = compiled(length, batch=stacked, steps_per_call=4)
    assert step(stacked).flags.tolist() == [True, False, False, False]
    found = step.diagnose(stacked)
    assert (found.step, found.exact, step.skipped) == (1, True, 3), "only skipped steps have come since"
    assert "step 1 of the 4 of the last call" in found.message
    mixed = {"x": stacked["x"][[1, 0, 0, 0]]}
    assert step(mixed).flags.tolist() == [False, True, True, True]
    found = step.diagnose(mixed)
    assert (found.step, found.exact, found.operation) == (4, False, "div")
    assert "updated 3 times since" in found.message


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_run_finds_the_rows(shuffle):
    step = compiled(length, batch={"x": X[:2]})
    data = with_zero_row(7)
    data["x"] = np.concatenate([data["x"], X[:1]])
    with pytest.warns(ws.errors.SkippedStepWarning):
        result = step.run(data, epochs=3, batch_size=2, shuffle=shuffle)
    assert result.skipped == 3 == step.skipped
    found = step.diagnose(data)
    assert (found.operation, found.step) == ("div", int(np.flatnonzero(~result.flags)[-1]))
    assert found.exact is not bool(result.flags[found.step + 1 :].any())


def test_the_key_of_the_step():
    def loss(w, x, *, key):
        return np.mean(np.log(w * (ws.random.uniform(key, (4,)) > 0.1)) * x)

    x = np.ones(4)
    step = ws.compile(loss, np.ones(4), optimizer=ws.optim.sgd(0.0), batch=x, key=3)
    while step(x).status == "completed":
        pass
    found = step.diagnose(x)
    assert (found.operation, found.step) == ("log", step.state["counters"]["step"] - 1)


def test_the_scale_of_the_step():
    x = np.full((1, 2), 8.0, np.float32)
    step = compiled(lambda w, x: np.sum((x @ w) ** 2), np.full((2, 1), 4.0, np.float32), x, precision="float16")
    step(x)
    found = step.diagnose(x)
    assert (found.operation, found.phase) == ("rounding to float16", "backward")
    assert "scaled by 65536" in found.message and step.loss_scale == 32768


def test_without_a_guard_the_state_is_to_blame():
    step = compiled(entropy, guard=None)
    step(with_zero_row())
    found = step.diagnose({"x": X})
    assert (found.operation, found.exact) == ("params.w", False)


def test_where_all_is_finite():
    step = compiled(entropy)
    found = step.diagnose({"x": X})
    assert (found.operation, found.phase, found.step) == (None, None, 0)
    assert "finite in the reference interpreter" in str(found)
    step(with_zero_row())
    assert "or this is another batch" in str(step.diagnose({"x": X}))
    step.load_state(step.state)
    assert "another batch" not in str(step.diagnose({"x": X})), "a state of one's own has no past"


def test_a_batch_of_another_kind_is_refused():
    step = compiled(entropy)
    with pytest.raises(TreeError, match=r"no batch\.x"):
        step.diagnose({"y": X})
    with pytest.raises((ShapeError, DtypeError)):
        step.diagnose({"x": X[:, :2]})
