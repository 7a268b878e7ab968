"""A step compiled for a symbolic batch: one trace, any size, the numbers of a step compiled for that size."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import ParameterError, ShapeError, UnsupportedError
from wholestep_tools.bench import models, spec

B = ws.Dim("B")


def small_mlp(rng):
    params = spec.dense(rng, (7, 20, 6, 3), 2.0)
    return models.mlp, params, {"x": spec.normal(rng, (130, 7)), "y": spec.labels(rng, 3, (130,))}


def small_gpt(rng):
    d, time, signs = 16, 6, 11
    params = {"wte": spec.normal(rng, (signs, d), 0.3), "wpe": spec.normal(rng, (time, d), 0.3)}
    for i in range(models.LAYERS):
        for norm in ("a", "f"):
            params |= {f"gain_{norm}{i}": np.ones(d, np.float32), f"bias_{norm}{i}": np.zeros(d, np.float32)}
        params |= {f"qkv{i}": spec.normal(rng, (d, 3 * d), 0.2), f"proj{i}": spec.normal(rng, (d, d), 0.2)}
        params |= {f"up{i}": spec.normal(rng, (d, 4 * d), 0.2), f"down{i}": spec.normal(rng, (4 * d, d), 0.2)}
    params |= {"gain": np.ones(d, np.float32), "bias": np.zeros(d, np.float32)}
    params["head"] = spec.normal(rng, (d, signs), 0.2)
    return models.gpt, params, {name: spec.labels(rng, signs, (65, time)) for name in ("x", "y")}


def symbolic(batch, size=B):
    return {name: ws.ShapeDtype((size, *x.shape[1:]), x.dtype) for name, x in batch.items()}


@pytest.mark.parametrize(("make", "sizes"), [(small_mlp, (1, 2, 31, 64, 65, 130)), (small_gpt, (1, 3, 8, 65))])
def test_any_size_trains_as_a_step_of_that_size(make, sizes):
    loss, params, data = make(np.random.default_rng(0))
    step = ws.compile(loss, params, optimizer=ws.optim.sgd(0.1), batch=symbolic(data))
    for n in sizes:
        batch = {name: x[:n] for name, x in data.items()}
        step.reset()
        losses = [step(batch).loss for _ in range(2)]
        value, grads = ws.value_and_grad(loss)(params, batch)
        np.testing.assert_allclose(losses[0], value, rtol=2e-5)
        assert losses[1] < losses[0]
        step.reset()
        step(batch)
        for name, grad in grads.items():
            np.testing.assert_allclose(step.params[name], params[name] - 0.1 * grad, rtol=1e-4, atol=2e-6)
    assert step.traces == 1 and len(step.reasons) == 1


def test_what_disagrees_is_named_and_nothing_runs():
    step = ws.compile(lambda p, b: np.mean((b["x"] * p - b["y"]) ** 2), np.ones(3), batch=two(B))
    ones = {"x": np.ones((32, 3)), "y": np.ones((31, 3))}
    with pytest.raises(ShapeError, match=r"step: B is 32 in batch.x and 31 in batch.y"):
        step(ones)
    with pytest.raises(ShapeError, match=r"batch.x: axis 0 has size 0, which B is for no B of at least 1"):
        step({"x": np.ones((0, 3)), "y": np.ones((0, 3))})
    with pytest.raises(ShapeError, match=r"batch.y is f64\[4, 2\], and it was compiled for f64\[B, 3\]"):
        step({"x": np.ones((4, 3)), "y": np.ones((4, 2))})
    assert step.steps == 0
    assert step({"x": np.ones((4, 3)), "y": np.ones((4, 3))}).loss == 0.0


def two(size):
    return {"x": ws.ShapeDtype((size, 3)), "y": ws.ShapeDtype((size, 3))}


def test_sizes_may_be_stated_as_multiples():
    step = ws.compile(lambda p, b: np.mean((b["x"].reshape(-1, 4, 3).sum(axis=1) * p) ** 2), 1.0, batch=two(4 * B))
    x = np.random.default_rng(0).normal(size=(8, 3))
    np.testing.assert_allclose(step({"x": x, "y": x}).loss, np.mean(x.reshape(2, 4, 3).sum(axis=1) ** 2))
    with pytest.raises(ShapeError, match=r"axis 0 has size 6, which 4\*B is for no B"):
        step({"x": x[:6], "y": x[:6]})


def test_what_cannot_be_one_program_says_so_and_is_compiled_for_each_size():
    def loss(p, b):
        return np.mean((np.sort(b["x"], axis=0) * p) ** 2)

    step = ws.compile(loss, 1.0, batch=two(B))
    assert "for each size by itself" in step.reasons[0] and "sort" in step.reasons[0]
    x = np.random.default_rng(0).normal(size=(5, 3))
    for n in (5, 3, 5):
        np.testing.assert_allclose(step({"x": x[:n], "y": x[:n]}).loss, np.mean(x[:n] ** 2))
    assert step.reasons[1:] == [f"step of loss at B={n}, compiled and not traced" for n in (5, 3)]


def test_many_steps_a_call_and_a_key():
    def loss(p, b, *, key):
        noise = ws.random.normal(key, b["x"].shape)
        return np.mean((b["x"] * p + noise - b["y"]) ** 2)

    batch = {name: ws.ShapeDtype((3, B, 2), "float64") for name in ("x", "y")}
    step = ws.compile(loss, np.ones(2), optimizer=ws.optim.sgd(0.1), batch=batch, steps_per_call=3)
    for n in (5, 2):
        rng = np.random.default_rng(n)
        given = {name: rng.normal(size=(3, n, 2)) for name in ("x", "y")}
        same = ws.compile(loss, np.ones(2), optimizer=ws.optim.sgd(0.1), batch=given, steps_per_call=3)
        step.reset()
        np.testing.assert_allclose(step(given).losses, same(given).losses, rtol=1e-12)
        np.testing.assert_allclose(step.params, same.params, rtol=1e-12)
    assert step.reasons == ["step of loss on batch.x: f64[3, B, 2], batch.y: f64[3, B, 2]"]


def test_a_size_with_a_code_of_its_own():
    loss, params, data = small_mlp(np.random.default_rng(0))
    step = ws.compile(loss, params, optimizer=ws.optim.sgd(0.1), batch=symbolic(data))
    losses = {}
    for special in (False, True):
        if special:
            step.specialize(B=32)
        for n in (31, 32):
            step.reset()
            losses[special, n] = [step({name: x[:n] for name, x in data.items()}).loss for _ in range(3)]
    assert losses[False, 31] == losses[True, 31]
    np.testing.assert_allclose(losses[False, 32], losses[True, 32], rtol=1e-5)
    assert step.reasons[1:] == ["step of mlp at B=32, compiled and not traced"]
    for wrong, match in (({"C": 3}, "the sizes are B, not C"), ({"B": 0}, "B is 0")):
        with pytest.raises(ParameterError, match=match):
            step.specialize(**wrong)
    same = ws.compile(loss, params, batch={name: x[:4] for name, x in data.items()})
    with pytest.raises(UnsupportedError, match="no symbolic size"):
        same.specialize(B=4)
    with pytest.raises(ParameterError, match="run: the step takes batches of B rows"):
        step.run(data)
    assert len(step.run(data, batch_size=50)) == 3


def test_memory_is_an_expression_that_calls_keep_to():
    loss, params, data = small_mlp(np.random.default_rng(0))
    kind = {"optimizer": ws.optim.adam(0.1), "batch": symbolic(data)}
    step, known = ws.compile(loss, params, **kind), ws.estimate(loss, params, **kind)
    assert str(step.memory.inputs) == "32*B + 32" and step.memory.arena == known.arena
    assert known.at(B=100).inputs == 3232 and isinstance(known.at(B=100).total, int)
    assert "for B = 128" in str(known) and "B" in str(step.explain())
    instance = step._engine.main.instance
    for n, most in ((3, 64), (130, 192), (64, 192)):
        step({name: x[:n] for name, x in data.items()})
        (arena,) = instance.current._frame.arenas.values()
        assert arena.nbytes == known.at(B=most).arena and instance.arena is arena
    sorted_loss = lambda p, b: np.mean(np.sort(b["x"], axis=0) * p)  # noqa: E731
    with pytest.raises(UnsupportedError, match="sort"):
        ws.estimate(sorted_loss, 1.0, batch=two(B))
    with pytest.raises(UnsupportedError, match="no one program for all sizes"):
        _ = ws.compile(sorted_loss, 1.0, batch=two(B)).memory


def test_an_attached_function_of_any_size():
    loss, params, data = small_mlp(np.random.default_rng(0))
    step = ws.compile(loss, params, optimizer=ws.optim.sgd(0.1), batch=symbolic(data))
    attached = step.attach(loss, batch=symbolic(data))
    sized = step.attach(loss)
    for n in (1, 7, 130):
        batch = {name: x[:n] for name, x in data.items()}
        np.testing.assert_allclose(attached(batch), sized(batch), rtol=1e-5)
    made = [reason for reason in step.reasons if reason.startswith("attached")]
    assert len(made) == 4 and "x: f32[B, 7]" in made[0]
    assert attached({"x": data["x"].astype(np.float64), "y": data["y"]}).dtype == np.float64
    sorting = step.attach(lambda p, b: np.sort(b["x"], axis=0), batch=symbolic(data))
    np.testing.assert_array_equal(sorting({name: x[:5] for name, x in data.items()}), np.sort(data["x"][:5], axis=0))
    assert "for each size by itself" in step.reasons[-2] and step.reasons[-1].startswith("attached <lambda> at B=5")


def causal(params, ids):
    """A loss over texts of any length, with a mask, rotations and an identity of its size."""
    x = params["e"][ids[:, :-1]]
    n = x.shape[1]
    scores = ws.nn.rope(x @ params["q"]) @ np.swapaxes(ws.nn.rope(x), -1, -2) + np.eye(n) + np.full(n, 0.5)
    scores = np.where(np.tril(np.ones((n, n), bool)) & ~np.tri(n, k=-3, dtype=bool), scores, -1e9)
    return ws.nn.cross_entropy((x + ws.nn.softmax(scores) @ x) @ params["e"].T, ids[:, 1:])


def test_a_mask_of_a_symbolic_size_is_that_of_the_size():
    rng = np.random.default_rng(0)
    params = {"e": rng.normal(size=(9, 4)), "q": rng.normal(size=(4, 4))}
    step = ws.compile(params=params, loss=causal, optimizer=None, batch=ws.ShapeDtype((2, ws.Dim("T")), np.int64))
    for n in (2, 3, 9, 40):
        ids = rng.integers(0, 9, (2, n))
        np.testing.assert_allclose(step(ids).loss, causal(params, ids), rtol=1e-12)
    assert all("not traced" in reason for reason in step.reasons[1:]), step.reasons


@pytest.mark.parametrize("k", [-1, 0, 2])
def test_triangles_and_identities_of_symbolic_sizes(k):
    def f(x):
        square = np.exp(x[:, :1]) * x[:, 1]
        made = np.tril(square, k), np.triu(square, k), np.tri(x.shape[0], 4, k), np.eye(x.shape[0], 3, k, dtype=int)
        return (*made, np.identity(x.shape[0]))

    run = ws.jit(f)
    run.any_size(ws.ShapeDtype((ws.Dim("N"), 2), np.float64))
    for n in (1, 3, 6):
        x = np.random.default_rng(n).normal(size=(n, 2))
        for ours, plain in zip(run(x), f(x), strict=True):
            assert ours.dtype == plain.dtype
            np.testing.assert_allclose(ours, plain, rtol=1e-14)
