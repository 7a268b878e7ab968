"""A compiled step is the same training as gradients and updates written out, however many steps a call makes."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
from tests.train.by_hand import rows, same, stacked, train
from tests.train.models import perceptron

import wholestep as ws
from wholestep import tree

OPTIMIZERS = {
    "sgd": lambda: ws.optim.sgd(0.1),
    "momentum": lambda: ws.optim.sgd(0.05, momentum=0.9),
    "nesterov": lambda: ws.optim.sgd(0.05, momentum=0.9, nesterov=True),
    "adam": lambda: ws.optim.adam(0.01),
    "schedule": lambda: ws.optim.adam(lambda t: 0.02 / (1 + t)),
}


def batches_of(data, count, size=6):
    rng = np.random.default_rng(7)
    n = len(tree.leaves(data)[0])
    return [rows(data, rng.permutation(n)[:size]) for _ in range(count)]


def compiled(model, batch, device, optimizer=None, **options):
    optimizer = ws.optim.adam(0.01) if optimizer is None else optimizer
    return ws.compile(model.loss, model.params, optimizer=optimizer, batch=batch, device=device, **options)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_what_they_are_by_hand(model, name, device):
    batches, optimizer = batches_of(model.data, 5), OPTIMIZERS[name]()
    step = compiled(model, batches[0], device, optimizer)
    losses = [step(batch).loss for batch in batches]
    params, state, expected = train(model.loss, model.params, optimizer, batches)
    same(np.asarray(losses, expected[0].dtype), np.array(expected), device)
    same(step.params, tree.map(np.asarray, params), device)
    same(step.state["optimizer"], tree.map(np.asarray, state), device)
    assert step.state["counters"]["step"] == 5
    assert step.traces == 1


@pytest.mark.parametrize("count", [1, 3, 7])
def test_k_steps_in_a_call_are_k_calls_to_the_bit(model, count, device):
    batches = batches_of(model.data, 21)
    one = compiled(model, batches[0], device)
    many = compiled(model, batches[0] if count == 1 else stacked(batches[:count]), device, steps_per_call=count)
    expected = [one(batch).loss for batch in batches]
    found = []
    for at in range(0, 21, count):
        result = many(batches[at] if count == 1 else stacked(batches[at : at + count]))
        assert (result.steps, result.status, result.finite) == (count, "completed", True)
        assert result.loss == result.losses[-1]
        found += result.losses.tolist()
    assert found == expected
    for a, b in zip(tree.leaves(one.state), tree.leaves(many.state), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_program_of_many_steps_is_no_longer(device):
    model = perceptron()
    batch = rows(model.data, slice(0, 6))
    sizes = [
        sum(1 for _ in walk(compiled(model, stacked([batch] * k), device, steps_per_call=k).graph)) for k in (2, 40)
    ]
    assert sizes[0] == sizes[1]


def walk(graph):
    yield from graph.nodes
    for inner in graph.subgraphs():
        yield from walk(inner)


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(
    ("size", "drop_last"), [(1, False), (6, False), (6, True), (23, False), (23, True), (40, False)]
)
def test_a_run_is_the_loop_over_the_same_rows(model, size, shuffle, drop_last, device):
    first = rows(model.data, slice(0, 6))
    run, loop = compiled(model, first, device, key=3), compiled(model, first, device, key=3)
    orders, seen = [], []
    for _ in range(2):
        orders.append(order_of(loop, 23) if shuffle else np.arange(23))
        stop = 23 // size * size if drop_last else 23
        for at in range(0, stop, size):
            batch = rows(model.data, orders[-1][at : min(at + size, stop)])
            loop.replace(batch=batch)
            seen.append(loop(batch).loss)
    result = run.run(model.data, 2, size, shuffle=shuffle, drop_last=drop_last)
    assert len(result) == len(seen)
    kind = loop.graph.out_types[-2].dtype
    same(result.losses.astype(kind), np.array(seen, kind), device)
    same(run.state, loop.state, device)
    assert not shuffle or (orders[0] != orders[1]).any()


def order_of(step, n):
    """The order of the next epoch, computed from the public state."""
    counters = step.state["counters"]
    stream = ws.random.split(counters["key"])[0]
    return ws.random.permutation(ws.random.fold_in(stream, counters["step"]), n)


def test_a_run_takes_no_copy_of_the_state():
    w, x = np.zeros(1 << 20), np.ones((10, 2))
    step = ws.compile(lambda w, x: np.mean((w[:2] - x) ** 2), w, optimizer=ws.optim.sgd(0.1, momentum=0.9), batch=x[:4])
    step.run(x)
    tracemalloc.start()
    step.run(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < w.nbytes / 8


def test_a_run_compiles_once_for_each_size(device):
    x = np.arange(10.0)
    step = ws.compile(lambda p, x: np.mean((p - x) ** 2), 0.0, optimizer=ws.optim.sgd(0.1), batch=x[:4], device=device)
    step.run(x, 3, 4)
    step.run(2 * x, 3)
    assert step.traces == 3, "the step, whole batches, and what is left over"
    step.run(x, 1, 5)
    assert step.traces == 4
    assert step.reasons[1] == "epoch over 10 rows in batches of 4, shuffled"
    assert step.state["counters"]["step"] == 3 * 3 + 3 * 3 + 2


def test_a_run_of_a_step_that_takes_k_batches_cuts_its_own(device):
    x = np.arange(12.0)
    step = ws.compile(
        lambda p, x: np.mean((p - x) ** 2),
        0.0,
        optimizer=ws.optim.sgd(0.1),
        batch=x.reshape(3, 4),
        steps_per_call=3,
        device=device,
    )
    assert len(step.run(x, 1)) == 3
    assert len(step.run(x, 1, 5)) == 3


def test_progress_hears_of_every_epoch(device):
    x, heard = np.arange(10.0), []
    step = ws.compile(lambda p, x: np.mean((p - x) ** 2), 0.0, optimizer=ws.optim.sgd(0.1), batch=x[:4], device=device)

    def progress(done, result):
        heard.append((done, len(result), float(step.params)))
        step.set(lr=0.0)

    result = step.run(x, 3, 4, progress=progress)
    assert [h[:2] for h in heard] == [(1, 3), (2, 3), (3, 3)]
    assert len({h[2] for h in heard}) == 1, "what progress sets holds from the next epoch on"
    assert len(result) == 9


def test_a_key_is_a_fresh_one_each_step_and_the_same_for_any_k(device):
    def loss(params, batch, *, key):
        return np.sum(params * ws.random.normal(key, (3,), np.float64) * batch)

    params, batch = np.ones(3), np.ones(3)
    step = ws.compile(loss, params, optimizer=ws.optim.sgd(0.0), batch=batch, device=device, key=5)
    found = [step(batch).loss for _ in range(4)]
    keys = [ws.random.fold_in(ws.random.key(5), i) for i in range(4)]
    np.testing.assert_allclose(found, [np.sum(ws.random.normal(k, (3,), np.float64)) for k in keys], rtol=1e-12)
    many = ws.compile(
        loss,
        params,
        optimizer=ws.optim.sgd(0.0),
        batch=np.ones((4, 3)),
        steps_per_call=4,
        device=device,
        key=ws.random.key(5),
    )
    assert many(np.ones((4, 3))).losses.tolist() == found


def test_buffers_and_aux_go_along(device):
    def loss(params, buffers, batch):
        mean = 0.9 * buffers["mean"] + 0.1 * batch.mean()
        return (params * (batch - mean) ** 2).mean(), {"mean": mean}, {"largest": batch.max(), "none": None}

    def arguments(k):
        batch = np.arange(3.0) if k == 1 else np.broadcast_to(np.arange(3.0), (k, 3))
        return {"optimizer": ws.optim.sgd(0.1), "batch": batch, "buffers": {"mean": np.zeros(())}, "has_aux": True}

    one, many = [ws.compile(loss, 1.0, steps_per_call=k, device=device, **arguments(k)) for k in (1, 2)]
    results = [one(np.arange(3.0)) for _ in range(2)]
    both = many(np.ascontiguousarray(arguments(2)["batch"]))
    assert results[0].aux == {"largest": 2.0, "none": None}
    np.testing.assert_allclose(one.buffers["mean"], 0.1 + 0.09)
    np.testing.assert_array_equal(both.aux["largest"], [2.0, 2.0])
    np.testing.assert_array_equal(both.losses, [r.loss for r in results])
    np.testing.assert_array_equal(one.buffers["mean"], many.buffers["mean"])


def test_without_an_optimizer_the_parameters_stay(device):
    step = ws.compile(lambda p, x: np.sum(p * x), np.ones(3), batch=np.ones(3), device=device)
    assert step(np.arange(3.0)).loss == 3.0
    np.testing.assert_array_equal(step.params, np.ones(3))
    assert step.state["optimizer"] is None
    assert not any(node.op.name == "cond" for node in step.graph.nodes)


def test_captures_are_returned_where_they_are_asked_for(device):
    def loss(w, x):
        h = ws.capture("h", np.sin(w * x))
        return np.sum(ws.capture("twice", h) * ws.capture("twice", 2.0 * x))

    x = np.arange(3.0)
    plain = ws.compile(loss, 1.0, optimizer=ws.optim.sgd(0.1), batch=x, device=device)
    assert dict(plain(x).captures) == {}
    asked = ws.compile(loss, 1.0, optimizer=ws.optim.sgd(0.1), batch=x, captures=("h", "twice"), device=device)
    found = asked(x).captures
    np.testing.assert_allclose(found["h"], np.sin(x), rtol=1e-12)
    np.testing.assert_allclose(found["twice"][1], 2 * x)
    np.testing.assert_array_equal(plain.params, asked.params)
    stacks = ws.compile(
        loss,
        1.0,
        optimizer=ws.optim.sgd(0.1),
        batch=np.stack([x, x]),
        steps_per_call=2,
        captures="h",
        device=device,
    )
    np.testing.assert_array_equal(stacks(np.stack([x, x])).captures["h"][0], found["h"])


INLINED = {
    "precision bfloat16": (lambda f: f, "bfloat16"),
    "precision float16": (lambda f: f, "float16"),
    "autocast": (ws.autocast, "float32"),
    "vmap": (lambda f: ws.vmap(f, in_axes=(None, 0)), "float32"),
    "jit": (ws.jit, "float32"),
    "autocast of vmap of jit": (lambda f: ws.autocast(ws.vmap(ws.jit(f), in_axes=(None, 0))), "float32"),
}


@pytest.mark.parametrize("used", [True, False], ids=["used", "unused"])
@pytest.mark.parametrize("name", INLINED)
def test_a_named_value_is_found_in_what_is_traced_apart_whether_a_result_needs_it_or_not(name, used):
    transform, precision = INLINED[name]

    def row(p, x):
        h = x @ p
        named = ws.capture("h", h)
        return named if used else h

    def loss(p, x):
        return np.mean(transform(row)(p, x) ** 2)

    p, x = np.float32([[1, 2], [3, 4], [5, 6]]), np.float32([[1, 2, 3], [4, 5, 6]])
    step = ws.compile(loss, p, optimizer=ws.optim.sgd(0.0), batch=x, captures="h", precision=precision)
    np.testing.assert_array_equal(np.float32(step(x).captures["h"]), x @ p)
    plain = ws.compile(loss, p, optimizer=ws.optim.sgd(0.0), batch=x, precision=precision)
    assert used or not any(node.op.name == "capture" for node in plain.graph.nodes)


def test_a_jitted_function_computes_no_named_value_that_nobody_asks_for():
    graph = ws.trace(ws.jit(lambda x: (ws.capture("h", np.sin(x)), x * 2.0)[1]))(1.0)
    assert not any(node.op.name == "sin" for node in graph.nodes)


def test_results_do_not_change_with_the_next_call(device):
    step = ws.compile(
        lambda p, x: (np.sum(p * x), x + p),
        np.zeros(2),
        optimizer=ws.optim.sgd(1.0),
        batch=np.ones(2),
        has_aux=True,
        device=device,
    )
    first = step(np.ones(2))
    kept, params = first.aux.copy(), step.params
    step(np.full(2, 5.0))
    np.testing.assert_array_equal(first.aux, kept)
    np.testing.assert_array_equal(params, [-1.0, -1.0])


def test_complex_parameters_descend(device):
    step = ws.compile(
        lambda z, target: np.abs(z - target) ** 2, 0j, optimizer=ws.optim.adam(0.1), batch=1 + 2j, device=device
    )
    for _ in range(300):
        loss = step(1 + 2j).loss
    assert loss < 1e-3


def test_a_result_is_copied_and_pickled():
    step = ws.compile(lambda p, x: np.mean((p - x) ** 2), np.ones(3), optimizer=ws.optim.sgd(0.1), batch=np.zeros(3))
    result = step(np.zeros(3))
    for made in (copy.deepcopy(result), pickle.loads(pickle.dumps(result))):
        assert made.loss == result.loss and made.captures == {}


def test_what_results_share_is_not_written_to():
    step = ws.compile(lambda p, x: np.mean((p - x) ** 2), np.ones(3), optimizer=ws.optim.sgd(0.1), batch=np.zeros(3))
    result = step(np.zeros(3))
    with pytest.raises(TypeError):
        result.captures["mine"] = 1
    assert result.captures == result.hypergradients == {} and "mine" not in result.captures
