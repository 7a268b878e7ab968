"""The handle on a step: its state is read and set, reset, replaced, shared with other functions, and guarded."""

import copy
import pickle
import threading
from typing import NamedTuple

import numpy as np
import pytest
from tests.train.by_hand import rows, same
from tests.train.models import classifier, perceptron

import wholestep as ws
from wholestep import nn, tree
from wholestep.train.state.state import State, new_counters

NAN, INF = float("nan"), float("inf")


def line(device, **options):
    """Fits p to x, one parameter and a batch of two."""
    settings = {"optimizer": ws.optim.adam(0.1), "batch": np.ones(2), "device": device, **options}
    return ws.compile(lambda p, x: np.mean((p - x) ** 2) / 2, np.float64(0.0), **settings)


def equal(a, b):
    assert tree.structure(a) == tree.structure(b)
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("guard", ["gradients", "loss"])
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_step_that_is_not_finite_is_left_out(device, guard, bad):
    step = line(device, guard=guard)
    step(np.ones(2))
    before = step.state
    result = step(np.array([1.0, bad]))
    assert (result.status, result.finite, result.skipped, result.steps) == ("skipped", False, 1, 1)
    after = step.state
    for name in ("step", "skipped"):  # so that no key is used twice
        assert after["counters"].pop(name) == before["counters"].pop(name) + 1
    equal(after, before)
    assert step(np.ones(2)).status == "completed"


def test_the_guard_sees_a_gradient_that_the_loss_hides(device):
    def loss(p, x):
        return np.sqrt(np.sum(p * x))

    options = {"optimizer": ws.optim.sgd(0.1), "batch": np.zeros(2), "device": device}
    seen = ws.compile(loss, np.ones(2), **options)
    unseen = ws.compile(loss, np.ones(2), guard="loss", **options)
    assert seen(np.zeros(2)).status == "skipped" and seen(np.zeros(2)).loss == 0.0
    np.testing.assert_array_equal(seen.params, np.ones(2))
    assert unseen(np.zeros(2)).status == "completed"
    assert np.isnan(unseen.params).all()


def test_without_a_guard_everything_passes(device):
    step = line(device, guard=None)
    result = step(np.array([NAN, 1.0]))
    assert (result.status, result.finite) == ("completed", False)
    assert np.isnan(step.params)
    assert not any(node.op.name == "cond" for node in step.graph.nodes)


def test_a_skipped_step_among_k_and_in_a_run(device):
    x = np.array([[1.0, 1.0], [NAN, 1.0], [2.0, 2.0]])
    many, one = line(device, batch=x, steps_per_call=3), line(device)
    result = many(x)
    assert (result.status, result.skipped, result.steps, result.finite) == ("skipped", 1, 3, False)
    one(x[0]), one(x[2])
    equal(many.params, one.params)
    ran = line(device)
    with pytest.warns(ws.errors.SkippedStepWarning, match="1 of 3"):
        assert ran.run(x.reshape(-1), 1, 2, shuffle=False).skipped == 1
    equal(ran.params, one.params)


def test_a_skipped_step_keeps_buffers_that_the_loss_assigns_to(device):
    def loss(p, buffers, x):
        buffers["seen"] += np.sum(x)
        return p * np.sum(x), buffers

    step = ws.compile(
        loss, 1.0, buffers={"seen": np.zeros(())}, optimizer=ws.optim.sgd(0.1), batch=np.ones(2), device=device
    )
    step(np.ones(2)), step(np.array([NAN, 1.0]))
    assert step.buffers["seen"] == 2.0


def test_hyper_parameters_change_without_compiling_anew(device):
    step = line(device, optimizer=ws.optim.sgd(0.5))
    step(np.ones(2))
    assert step.params == 0.5
    step.set(lr=0.25)
    step(np.ones(2))
    assert (step.params, step.hyper, step.traces) == (0.625, {"lr": 0.25}, 1)


def test_a_schedule_counts_the_updates_from_zero(device):
    step = line(device, optimizer=ws.optim.sgd(lambda t: np.float64(1.0) / (1 + t)), batch=np.ones(2))
    assert step.hyper == {}
    step(np.array([3.0, NAN]))
    assert step.params == 0.0
    step(np.full(2, 2.0))
    assert step.params == 2.0, "what was skipped was no update"
    step(np.zeros(2))
    assert step.params == 1.0


def test_an_optimizer_of_ones_own(device):
    class Sign:
        def init(self, params):
            return None

        def update(self, grads, state, params):
            return tree.map(lambda p, g: p - 0.5 * np.sign(g), params, grads), state

    step = line(device, optimizer=Sign())
    step(np.ones(2))
    assert step.params == 0.5 and step.hyper == {}


def test_state_is_copied_in_and_out(device):
    params = {"w": np.ones(2)}
    step = ws.compile(
        lambda p, x: np.sum(p["w"] * x), params, optimizer=ws.optim.sgd(1.0), batch=np.ones(2), device=device
    )
    copied = step.params
    copied["w"][:] = 7.0
    params["w"][:] = 7.0
    step(np.ones(2))
    equal(step.params, {"w": np.zeros(2)})
    assert list(step.state) == ["params", "buffers", "optimizer", "counters"]


def test_state_moves_to_another_step_and_goes_on_the_same(device):
    model = perceptron()
    batch = rows(model.data, slice(0, 6))
    a, b = [
        ws.compile(model.loss, model.params, optimizer=ws.optim.adam(r), batch=batch, device=device, key=k)
        for r, k in ((0.01, 0), (0.01, 1))
    ]
    a.run(model.data, 2, 6)
    b.load_state(pickle.loads(pickle.dumps(a.state)))
    assert a.run(model.data, 2, 6).losses.tolist() == b.run(model.data, 2, 6).losses.tolist()
    equal(a.state, b.state)


def test_reset_goes_back_to_the_bit(device):
    model = perceptron()
    batch = rows(model.data, slice(0, 6))
    step = ws.compile(model.loss, model.params, optimizer=ws.optim.adam(0.01), batch=batch, device=device)
    start = step.state
    losses = step.run(model.data, 2, 6).losses
    later = step.state
    step.reset(optimizer=False)
    equal(step.params, start["params"])
    equal(step.state["optimizer"], later["optimizer"])
    assert step.state["counters"]["step"] == later["counters"]["step"]
    step.load_state(later)
    step.reset(params=False)
    equal(step.params, later["params"])
    equal(step.state["optimizer"], start["optimizer"])
    step.reset()
    equal(step.state, start)
    assert step.run(model.data, 2, 6).losses.tolist() == losses.tolist()


def wide(device):
    """A parameter of two megabytes, and a step over it."""
    w = np.random.default_rng(0).normal(size=(512, 1024)).astype(np.float32)
    options = {"optimizer": ws.optim.adam(0.1), "batch": np.ones(512, np.float32), "device": device}
    return w, ws.compile(lambda p, x: np.mean((x @ p) ** 2), w, **options)


def test_reset_goes_back_to_large_arrays_without_a_copy_of_them(device):
    w, step = wide(device)
    start = step.state
    losses = [float(step(np.ones(512, np.float32)).loss) for _ in range(3)]
    assert step._engine.state.beginning()["params"] is w
    step.reset()
    equal(step.state, start)
    assert [float(step(np.ones(512, np.float32)).loss) for _ in range(3)] == losses


def test_a_beginning_that_the_caller_has_overwritten_is_an_error_and_no_start(device):
    w, step = wide(device)
    first = step.params
    step(np.ones(512, np.float32))
    w[3, 5] += 1
    before = step.state
    with pytest.raises(ws.errors.ParameterError, match="reset: params was changed in place"):
        step.reset()
    equal(step.state, before)
    step.set(params=first)
    step.reset(params=False)
    equal(step.params, first)


def test_large_arrays_that_were_given_are_no_memory_of_the_step():
    w, step = wide("cpu")
    shape, batch = ws.ShapeDtype(w.shape, w.dtype), np.ones(512, np.float32)
    found = ws.estimate(lambda p, x: np.mean((x @ p) ** 2), shape, optimizer=ws.optim.adam(0.1), batch=batch)
    assert found.kept == step.memory.kept < 100


def test_what_is_kept_are_the_constants_and_the_beginning():
    table = np.arange(1000.0)
    step = ws.compile(lambda p, x: np.mean((p * table - x) ** 2), 0.0, optimizer=ws.optim.sgd(0.5), batch=np.ones(1000))
    assert 0 < step.memory.kept - table.nbytes < 100


def test_replace_puts_another_model_under_the_same_handle(device):
    model, other = perceptron(), classifier()
    step = ws.compile(
        model.loss,
        model.params,
        optimizer=ws.optim.adam(0.01),
        batch=rows(model.data, slice(0, 6)),
        device=device,
        key=9,
    )
    total = step.attach(lambda params, batch: sum(np.sum(p) for p in tree.leaves(params)) + batch)
    step.set(lr=0.5)
    step.run(model.data, 1, 6)
    assert total(1.0) != 0
    step.replace(other.loss, other.params, batch=rows(other.data, slice(0, 6)))
    assert step.hyper["lr"] == 0.5 and step.state["counters"]["step"] == 4
    np.testing.assert_allclose(total(1.0), 1 + sum(np.sum(p) for p in other.params))
    fresh = ws.compile(
        other.loss,
        other.params,
        optimizer=ws.optim.adam(0.5),
        batch=rows(other.data, slice(0, 6)),
        device=device,
        key=9,
    )
    batch = rows(other.data, slice(3, 9))
    assert step(batch).loss == fresh(batch).loss
    same(step.params, fresh.params, device)
    step.reset()
    equal(step.params, tree.map(np.asarray, other.params))


def test_replace_keeps_what_it_is_not_given(device):
    step = line(device)
    step(np.ones(2))
    before = step.state
    step.replace(lambda p, x: np.mean(np.abs(p - x)), batch=np.ones(3))
    equal(step.state, before)
    np.testing.assert_allclose(step(np.full(3, 2.0)).loss, 2.0 - before["params"], rtol=1e-14)
    step.replace(optimizer=ws.optim.sgd(0.0))
    assert list(step.state["optimizer"]) == ["count"] and step.hyper == {"lr": 0.0}


def test_a_replacement_that_fails_changes_nothing(device):
    step = line(device)
    step(np.ones(2))
    before, traces = step.state, step.traces
    with pytest.raises(ws.errors.NonScalarError):
        step.replace(lambda p, x: p - x)
    equal(step.state, before)
    assert step.traces == traces
    step(np.ones(2))


def test_attached_functions_see_the_state_as_it_is(device):
    step = line(device, optimizer=ws.optim.sgd(0.5))
    doubled = step.attach(lambda p, x: {"y": 2 * p * x, "n": len(x)}, batch=np.ones(3))
    assert step.traces == 2
    first = doubled(np.ones(3))
    step(np.ones(2))
    second = doubled(np.ones(3))
    np.testing.assert_array_equal(first["y"], np.zeros(3))
    np.testing.assert_array_equal(second["y"], np.ones(3))
    assert step.traces == 2 and second["n"] == 3
    assert doubled(np.ones((2, 2), np.float32))["y"].shape == (2, 2)
    assert step.reasons[-1] == "attached <lambda> on batch: f32[2, 2]"


def test_an_attached_function_takes_buffers_where_there_are_any(device):
    step = ws.compile(
        lambda p, b, x: (p * np.sum(x), {"n": b["n"] + 1}),
        1.0,
        buffers={"n": np.array(0)},
        optimizer=ws.optim.sgd(0.1),
        batch=np.ones(2),
        device=device,
    )
    count = step.attach(lambda p, b, x: b["n"] + x)
    step(np.ones(2))
    assert count(10) == 11


def test_an_attached_function_draws_by_the_key_of_the_call(device):
    step = line(device)
    step(np.ones(2))
    f = step.attach(lambda p, n, *, key: p + ws.random.normal(key, n.shape))
    for key in (ws.random.key(3), 3, np.int64(3)):
        expected = step.params + ws.random.normal(ws.random.key(3), (4,))
        np.testing.assert_allclose(f(np.ones(4), key=key), expected, 1e-6)
    assert not np.allclose(f(np.ones(4), key=4), expected) and step.traces == 2
    either = step.attach(lambda p, x, *, key=None: x if key is None else x + ws.random.normal(key, x.shape))
    for _ in range(2):  # one program with a key, one without
        assert either(np.ones(4)).tolist() == [1.0] * 4
        np.testing.assert_allclose(either(np.ones(4), key=3), 1 + ws.random.normal(ws.random.key(3), (4,)), 1e-6)
    assert step.traces == 4
    before = step.traces
    early = step.attach(lambda p, n, *, key: ws.random.normal(key, n.shape), batch=ws.ShapeDtype((ws.Dim("B"),), "f8"))
    for n in (2, 5):
        np.testing.assert_allclose(early(np.ones(n), key=3), ws.random.normal(ws.random.key(3), (n,)), 1e-5)
    assert early([1.0] * 3, key=3).shape == (3,)  # a list is not known at a glance
    assert step.traces == before + 1 or device == "reference"  # the reference makes a program for each size


def test_an_attached_function_of_a_model_draws_too(device):
    model = ws.nn.Sequential(ws.nn.Linear(3, 4, key=0), ws.nn.Dropout(0.5))
    batch = np.ones((2, 3), np.float32)

    def loss(model, x, *, key):
        return np.mean(model(x, key=key) ** 2)

    step = ws.compile(loss, model, optimizer=ws.optim.sgd(0.1), batch=batch, device=device)
    sample = step.attach(lambda m, x, *, key: m(x, key=key), training=True)
    np.testing.assert_allclose(sample(batch, key=5), model(batch, key=ws.random.key(5)), rtol=1e-6)


def test_an_attached_function_of_the_state_alone_is_called_without_a_batch(device):
    step = line(device)
    assert float(step.attach(lambda p: p + 1)()) == 1.0
    drawn = step.attach(lambda p, *, key: p + ws.random.normal(key, (3,)))(key=0)
    np.testing.assert_allclose(drawn, ws.random.normal(ws.random.key(0), (3,)), rtol=1e-6)
    with pytest.raises(ws.errors.ArgumentError, match=r"total: batch is missing(.|\n)*hint: total\(batch\)"):
        step.attach(total)()
    counted = ws.compile(lambda p, b, x: (np.sum(p * x), b + 1), np.ones(2), buffers=np.zeros(()), batch=np.ones(2))
    assert float(counted.attach(lambda p, b: b)()) == 0.0


def total(p, batch):
    return p + np.sum(batch)


def test_an_attached_function_keeps_eight_programs(device):
    step = line(device)
    f = step.attach(lambda p, x: np.sum(x) + p)
    for n in range(1, 8):
        assert f(np.ones(n)) == n
    with pytest.warns(ws.errors.RecompilationWarning, match="8 sizes of axis 0 of batch: 1, 2, 3"):
        assert f(np.ones(8)) == 8
    for n in range(1, 9):
        assert f(np.ones(n)) == n
    assert step.traces == 1 + 8
    f(np.ones(9))
    f(np.ones(8))
    assert step.traces == 1 + 9
    f(np.ones(1))
    assert step.traces == 1 + 10, "the one used longest ago went"


def test_calls_from_several_threads_take_turns(device):
    step = line(device, optimizer=ws.optim.sgd(0.0))
    look = step.attach(lambda p, x: p * x)
    errors = []

    def work():
        try:
            for _ in range(50):
                step(np.ones(2)), look(np.ones(2)), step.state
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert step.state["counters"]["step"] == 200


def test_a_captured_array_that_changes_stops_the_step_before_it_runs(device):
    small, large = np.arange(3.0), np.arange(200_000.0)
    step = ws.compile(
        lambda p, x: p * (np.sum(small) + np.sum(large * x)), 1.0, optimizer=ws.optim.sgd(0.0), batch=1.0, device=device
    )
    assert {id(a) for a in step.constants} == {id(small), id(large)}
    step(1.0)
    before = step.state
    for array, index in ((small, 1), (large, slice(None)), (large, slice(100, 9000))):
        kept = array[index].copy()
        array[index] += 1.0
        with pytest.raises(ws.errors.MutationError, match="captured"):
            step(1.0)
        array[index] = kept
        step.load_state(before)
    step(1.0)


def test_one_changed_element_of_a_large_array_is_found_within_a_round(device):
    large = np.arange(20_000.0)
    step = ws.compile(lambda p, x: p * np.sum(large * x), 1.0, optimizer=ws.optim.sgd(0.0), batch=1.0, device=device)
    large[12_345] += 1.0
    with pytest.raises(ws.errors.MutationError):
        for _ in range(large.nbytes // 4096 + 1):
            step(1.0)


def test_a_run_looks_at_the_whole_of_what_was_captured(device):
    large, x = np.arange(200_000.0), np.ones(4)
    step = ws.compile(
        lambda p, x: p * np.sum(large) * np.sum(x), 1.0, optimizer=ws.optim.sgd(0.0), batch=x, device=device
    )
    predict = step.attach(lambda p, x: large[:4] * x)
    predict(x)
    large[123_457] += 1.0
    for call in (lambda: step.run(x, 1, 2), lambda: predict(x)):
        with pytest.raises(ws.errors.MutationError):
            call()


def test_arrays_that_numpy_reads_before_the_program_sees_them_are_looked_at_too(device):
    closed, nested, default = np.arange(3.0), {"in": [np.arange(4.0)]}, np.arange(5.0)

    def helper(p, scale=default):
        return p * scale.sum() * TABLE.sum()

    def loss(p, x):
        return helper(p) + ws.scan(lambda c, row: (c + closed.sum() * row, None), 0.0, x)[0] + len(nested["in"])

    step = ws.compile(loss, 1.0, optimizer=ws.optim.sgd(0.0), batch=np.ones(2), device=device)
    step(np.ones(2))
    for array in (closed, default, TABLE):
        array[0] += 1.0
        with pytest.raises(ws.errors.MutationError, match="captured"):
            step(np.ones(2))
        array[0] -= 1.0
    step(np.ones(2))


TABLE = np.arange(6.0)


def test_an_array_that_cannot_be_written_is_not_looked_at(device):
    fixed = np.arange(3.0)
    fixed.flags.writeable = False
    step = ws.compile(lambda p, x: p * np.sum(fixed * x), 1.0, batch=1.0, device=device)
    assert step.constants == []


def test_an_index_out_of_range_leaves_the_state_alone(device):
    model = classifier()
    x, labels = rows(model.data, slice(0, 6))
    step = ws.compile(model.loss, model.params, optimizer=ws.optim.adam(0.1), batch=(x, labels), device=device)
    step((x, labels))
    before = step.state
    wrong = labels.copy()
    wrong[2] = 3
    with pytest.raises(IndexError, match=r"models\.py"):
        step((x, wrong))
    equal(step.state, before)
    with pytest.raises(IndexError):
        step.run((model.data[0], np.full(23, 3)), 1, 6)
    equal(step.state, before)


def test_numbers_where_numbers_were_declared(device):
    step = ws.compile(
        lambda p, b: np.sum(p * b["x"]) * b["scale"] + b["on"],
        np.ones(2, np.float32),
        optimizer=ws.optim.sgd(0.0),
        batch={"x": np.ones(2, np.float32), "scale": 1.0, "on": True},
        device=device,
    )
    x = np.ones(2, np.float32)
    assert step({"x": x, "scale": 3, "on": False}).loss == 6.0
    assert step({"x": x, "scale": np.float64(0.5), "on": np.True_}).loss == 2.0
    with pytest.raises(ws.errors.DtypeError, match=r"batch\.on"):
        step({"x": x, "scale": 1.0, "on": 1})


def test_a_step_is_declared_by_shapes_alone(device):
    step = line(device, batch=ws.ShapeDtype((2,), "float64"))
    assert step(np.ones(2)).loss == 0.5


def test_a_step_can_be_neither_copied_nor_pickled(device):
    step = line(device)
    attached = step.attach(lambda p, x: p)
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        for thing in (step, attached):
            with pytest.raises(
                TypeError, match=r"cannot be copied or pickled\n  at .*test_handle\.py:\d+:  act\(thing\)"
            ):
                act(thing)


def test_what_the_reference_does_not_have_it_says():
    step = line("reference")
    for ask in (lambda: step.kernels, lambda: step.plan, lambda: step.memory, step.source):
        with pytest.raises(ws.errors.UnsupportedError, match="reference"):
            ask()


def test_nothing_is_compiled_inside_a_trace(device):
    with pytest.raises(ws.errors.UnsupportedError, match="inside"):
        ws.jit(lambda x: x + line(device)(np.ones(2)).loss)(1.0)
    step = line(device)
    with pytest.raises(ws.errors.WholestepError):
        ws.jit(lambda x: step(x).loss)(np.ones(2))


def test_the_beginning_is_that_of_the_compilation():
    params, x = {"w": np.ones((3, 2))}, np.ones((4, 3))
    step = ws.compile(lambda p, x: np.mean((x @ p["w"]) ** 2), params, optimizer=ws.optim.adam(0.1), batch=x)
    params["w"][:] = 7.0
    np.testing.assert_array_equal(step.params["w"], np.ones((3, 2)))
    first = step(x).loss
    step.reset()
    np.testing.assert_array_equal(step.params["w"], np.ones((3, 2)))
    assert step(x).loss == first
    step.set(params={"w": np.zeros((3, 2))})
    step.reset()
    np.testing.assert_array_equal(step.params["w"], np.ones((3, 2)))


def test_the_beginning_is_kept_before_anything_is_written():
    x = np.ones((4, 3))

    def step():
        return ws.compile(lambda p, x: np.mean((x @ p) ** 2), np.ones(3), optimizer=ws.optim.sgd(0.1), batch=x)

    def ran(step):
        step.run(np.ones((8, 3)), batch_size=4)

    for change in (ran, lambda s: s(x[:2]), lambda s: s.set(params=np.zeros(3)), lambda s: s.load_state(s.state)):
        own = step()
        change(own)
        own.reset()
        np.testing.assert_array_equal(own.params, np.ones(3))


class Hoarder(NamedTuple):
    """An optimizer whose `init` returns an array that it also keeps."""

    kept: np.ndarray

    def init(self, params):
        return self.kept

    def update(self, grads, state, params):
        return params - 0.1 * grads, state + 1


def test_what_an_optimizer_keeps_for_itself_is_not_written():
    kept, x = np.zeros(3), np.ones((4, 3))
    step = ws.compile(lambda p, x: np.mean((x @ p) ** 2), np.ones(3), optimizer=Hoarder(kept), batch=x)
    step(x)
    np.testing.assert_array_equal(kept, np.zeros(3))
    np.testing.assert_array_equal(step.state["optimizer"], np.ones(3))


class Opaque:
    """A buffer of another device, with nothing but a shape, a dtype and a size."""

    def __init__(self, array):
        self.shape, self.dtype, self.nbytes, self.hidden = array.shape, array.dtype, array.nbytes, array


class OpaqueMemory:
    """A device memory whose buffers are no arrays."""

    def allocate(self, shape, dtype):
        return Opaque(np.zeros(shape, dtype))

    def upload(self, array):
        return Opaque(np.array(array, order="C"))

    def read(self, buffer):
        return buffer.hidden

    def download(self, buffer):
        return buffer.hidden.copy()

    def view(self, buffer, row):
        return Opaque(buffer.hidden[row, ...])

    def copy(self, target, source):
        target.hidden[...] = source.hidden if isinstance(source, Opaque) else source


def test_a_state_may_lie_in_memory_that_numpy_cannot_read():
    parts = {
        "params": {"a": np.arange(3.0), "b": np.ones(3)},
        "buffers": None,
        "optimizer": {"m": np.zeros(3)},
        "counters": new_counters(np.zeros(2, np.uint32), None),
    }
    state = State(parts, memory=OpaqueMemory())
    assert all(isinstance(x, Opaque) for x in state.arrays)
    state.stack([(state.paths.index("params.a"), state.paths.index("params.b"))])
    state.write({"params": {"a": np.full(3, 5.0), "b": np.full(3, 7.0)}})
    (stacked,) = [x for x in state.stacked_arrays(list(state.stacks)) if x.shape == (2, 3)]
    assert stacked.hidden.tolist() == [[5.0] * 3, [7.0] * 3]
    assert state.copy("params")["b"].tolist() == [7.0] * 3
    assert state.beginning()["params"]["a"].tolist() == [0.0, 1.0, 2.0]
    assert int(state.counter("step")) == 0 and state.nbytes == sum(x.nbytes for x in tree.leaves(parts))
    assert tree.structure(state.abstract()) == tree.structure(parts)


def test_zeros_of_equal_layers_are_stacked_without_being_written():
    rows = {
        "a": np.zeros((300, 300)),
        "b": np.zeros((300, 300)),
        "c": np.full((300, 300), -0.0),
        "d": np.zeros((300, 300)),
    }
    parts = {"params": rows, "buffers": None, "optimizer": None, "counters": new_counters(np.zeros(2, np.uint32), None)}
    state = State(parts)
    pairs = [tuple(state.paths.index(f"params.{name}") for name in names) for names in ("ab", "cd")]
    state.stack(pairs)
    blank, written = [state.stacks[places] for places in pairs]
    assert blank.shape == (2, 300, 300) and not blank.any()
    assert np.signbit(written[0]).all() and not np.signbit(written[1]).any()
    state.write({"params": {**rows, "b": np.ones((300, 300))}})
    assert not blank[0].any() and (blank[1] == 1.0).all()


def test_what_a_step_does_not_read_cannot_be_assigned(device):
    step = line(device)
    for name in ("lr", "optimizer", "params", "loss_scale"):
        with pytest.raises(AttributeError):
            setattr(step, name, 0.5)
    step.strict = True
    with pytest.raises(ws.errors.UnsupportedError, match="lr is set in a copy") as caught:
        step.hyper["lr"] = 0.5
    assert "step.set(lr=0.5)" in str(caught.value)
    assert pickle.loads(pickle.dumps(step.hyper)) == copy.deepcopy(step.hyper) == dict(step.hyper)


def stores(step):
    """Statements that store into a copy of the step's state, and keep no name of it."""

    def of_an_item():
        step.params["w"] = np.zeros(3)

    def of_elements():
        step.params["w"][0] += 1.0

    def of_the_state():
        step.state["params"]["w"][:] = 0.0

    def of_no_item():
        del step.buffers["w"]

    def by_a_method():
        step.params["w.weight"].fill(0.0)

    return of_an_item, of_elements, of_the_state, of_no_item, by_a_method


def test_a_store_into_a_copy_of_the_state_is_refused():
    model = nn.Linear(3, 1, key=0)
    rows = np.ones((4, 3), np.float32)
    step = ws.compile(lambda m, x: np.mean(m["w"](x) ** 2), {"w": model}, optimizer=ws.optim.sgd(0.1), batch=rows)
    for store in stores(step):
        with pytest.raises(
            ws.errors.UnsupportedError, match=r"it is a copy(.|\n)*test_handle.py(.|\n)*hint: .* = step\."
        ):
            store()
    with pytest.raises(ws.errors.UnsupportedError, match=r"step\.model: it is a copy"):
        step.model["w"].weight[:] = 0.0
    kept = {"before": step.params}
    params = kept["params"] = step.params
    params["w.weight"] *= 0.0
    step.params["w.weight"].ravel().sort()
    dict(step.params)["w.weight"] = step.params.copy()["w.weight"] = 0.0
    step.set(params=params)
    assert not np.any(step.model["w"].weight) and np.any(kept["before"]["w.weight"])


def test_an_optimizer_may_count_where_it_runs_eagerly():
    class Counting:
        count = 0

        def init(self, params):
            return None

        def update(self, grads, state, params):
            self.count += 1
            return params - grads / self.count, state

    optimizer = ws.optim.ema(Counting(), 0.5)
    state = optimizer.init(np.ones(2))
    for _ in range(2):
        params, state = optimizer.update(np.ones(2), state, np.ones(2))
    assert params.tolist() == [0.5, 0.5]
