"""Functions, models and steps handed over: other libraries differentiate, batch, compile and train them as here."""

from __future__ import annotations

import copy
import doctest
import io
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import wholestep as ws
from wholestep import nn, optim, tree
from wholestep.errors import ArgumentError, TreeError, UnsupportedError
from wholestep.train.handover import to_torch
from wholestep_tools.audit.trainings.small_steps import Reader, dense, images, rows


def energy(p: Any, x: Any) -> Any:
    return np.sum(np.tanh(x @ p["w"]) ** 2 + np.log1p(np.exp(p["b"])))


PARAMS = {"w": np.linspace(-1, 1, 6).reshape(3, 2), "b": np.array([0.5, -0.5])}
X = np.arange(12.0).reshape(4, 3) / 7


def test_jax_differentiates_batches_and_compiles_a_function(jax: Any) -> None:
    f = ws.to_jax(energy, PARAMS, X)
    assert float(f(PARAMS, X)) == pytest.approx(energy(PARAMS, X), rel=1e-12)
    got = jax.jit(jax.grad(f, argnums=(0, 1)))(PARAMS, X)
    for a, b in zip(tree.leaves(got), tree.leaves(ws.grad(energy, argnums=(0, 1))(PARAMS, X)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    many = np.stack([X, -X, 2 * X])
    np.testing.assert_allclose(jax.vmap(f, (None, 0))(PARAMS, many), [energy(PARAMS, x) for x in many], rtol=1e-12)


def straight_through(x: Any) -> Any:
    return np.sum((x + ws.stop_gradient(np.round(x) - x)) * x)


def test_jax_and_torch_stop_gradients(jax: Any) -> None:
    wanted = ws.grad(straight_through)(X)
    np.testing.assert_allclose(jax.grad(ws.to_jax(straight_through, X))(X), wanted, rtol=1e-12)
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    x = torch.tensor(X, requires_grad=True)
    ws.to_torch(straight_through, X)(x).backward()
    np.testing.assert_allclose(x.grad, wanted, rtol=1e-12)


def test_jax_divides_a_function_among_the_devices_of_a_mesh(jax: Any) -> None:
    f = ws.to_jax(ws.value_and_grad(energy), PARAMS, X)
    mesh, spec = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("rows",)), jax.sharding.PartitionSpec

    def of_device(p: Any, x: Any) -> Any:
        return jax.lax.psum(f(p, x), "rows")

    divided = jax.shard_map(of_device, mesh=mesh, in_specs=(spec(), spec("rows")), out_specs=spec())
    for a, b in zip(tree.leaves(divided(PARAMS, X)), tree.leaves(ws.value_and_grad(energy)(PARAMS, X)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_jax_takes_arrays_of_numpy(jax: Any) -> None:
    x, places = np.arange(5.0), np.array([[0], [4]])
    read = ws.to_jax(lambda x, i: x[i], x, places[0])
    np.testing.assert_array_equal(jax.vmap(read, (None, 0))(x, places), x[places])
    written = ws.to_jax(lambda x, i: ws.grad(lambda y: np.sum(y[i] ** 2))(x), x, places[0])
    np.testing.assert_array_equal(written(x, places[1]), [0, 0, 0, 0, 8])


def test_functions_that_jax_gets_wrong_are_scipys(jax: Any) -> None:
    """JAX's own diverge below -1, and lose all digits from -30 on; its integrals of [1e-10, 1] have no end.

    Its Pochhammer symbols of negative orders are nan.
    """
    x = np.array([-80.0, -30.0, -2.0, -0.5, -1e-10, 0.7])

    def f(x: Any) -> Any:
        others = scipy.special.expi(x), scipy.special.exp1(-x), scipy.special.poch(100.0, x)
        return scipy.special.hyp1f1(0.5, 1.5, x), scipy.special.hyp2f1(1.0, 1.0, 2.0, x), *others

    for a, b in zip(ws.to_jax(f, x)(x), f(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_functions_that_torch_gets_wrong_are_right() -> None:
    """Its own Bessel functions of float64 numbers from 5 to 8 have 7 digits; its normal distribution ends at -8."""
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    x = np.linspace(-30.0, 12.0, 85)

    def f(x: Any) -> Any:
        return scipy.special.ndtr(x), scipy.special.j0(x) + 2, scipy.special.y1(np.abs(x) + 1) + 2

    for a, b in zip(ws.to_torch(f, x)(torch.tensor(x)), f(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-13)


def test_jax_refuses_arguments_unlike_the_examples(jax: Any) -> None:
    f = ws.to_jax(lambda x: np.mean(x), X)
    with pytest.raises(ArgumentError, match=r"to_jax: x has the shape \(8, 3\), and the program .* \(4, 3\)"):
        f(np.ones((8, 3)))
    with pytest.raises(ArgumentError, match="x has the dtype int64, and the program was written for float64"):
        f(np.ones((4, 3), np.int64))


def test_a_module_refuses_other_dtypes_and_batch_sizes() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    model = nn.Sequential(nn.LayerNorm(3), nn.Linear(3, 2, key=0))
    x = X.astype(np.float32)
    net = ws.to_torch(model, x, module=True)
    with pytest.raises(ArgumentError, match=r"arguments\[0\] has the shape \(3, 3\)"):
        net(torch.tensor(x[:3]))
    with pytest.raises(ArgumentError, match=r"layers\.0\.bias has the dtype torch\.float64"):
        net.double()(torch.tensor(X))
    with pytest.raises(ArgumentError, match=r"to_torch: model\.layers\[0\]\.gain is a NumPy array, .* tensors\n"):
        ws.to_torch(lambda model, x: model(x), model, x)(model, torch.tensor(x))
    rows = ws.to_torch(model, ws.ShapeDtype((ws.Dim("B"), 3), "float32"), module=True)
    assert rows(torch.tensor(x[:3])).shape == (3, 2)


def test_a_module_is_copied_and_pickled_with_its_arrays() -> None:
    torch = torch_or_skip()
    x = X.astype(np.float32)
    net = ws.to_torch(Reader(), np.ones((2, 1, 8, 8), np.float32), module=True).eval()
    given = torch.tensor(np.random.default_rng(0).normal(size=(2, 1, 8, 8)).astype(np.float32))
    twin, file = copy.deepcopy(net), io.BytesIO()
    with torch.no_grad():
        next(iter(net.parameters())).add_(1.0)
    torch.save(net, file)
    file.seek(0)
    for other in (pickle.loads(pickle.dumps(net)), torch.load(file, weights_only=False)):
        assert torch.equal(other(given), net(given)) and not other.training
    assert not torch.equal(twin(given), net(given))
    energetic = ws.to_torch(energy, PARAMS, x.astype(float), module=True)
    assert torch.equal(pickle.loads(pickle.dumps(energetic))(torch.tensor(X)), energetic(torch.tensor(X)))


def test_torch_says_which_arguments_a_program_takes() -> None:
    torch = torch_or_skip()
    net = ws.to_torch(energy, PARAMS, X, module=True)
    with pytest.raises(ArgumentError, match=r"to_torch: x given by name(?s:.*)test_handover.py"):
        net(x=torch.tensor(X))
    for given, count in (((), "0"), ((torch.tensor(X), 3), "2")):
        with pytest.raises(TreeError, match=rf"to_torch: arguments: 1 items are asked for, and {count} given"):
            net(*given)


def test_torch_takes_python_numbers_where_an_input_holds_them() -> None:
    torch = torch_or_skip()

    def scaled(x: Any, s: Any) -> Any:
        return np.sum(x) * s

    assert float(ws.to_torch(scaled, X, 2.0)(torch.tensor(X), 3)) == pytest.approx(3 * X.sum())
    narrow = ws.to_torch(scaled, X, np.float32(2))
    assert narrow(torch.tensor(X), 3.0).dtype == torch.float64
    with pytest.raises(ArgumentError, match=r"to_torch: s has the dtype torch\.complex64, .* for torch\.float32"):
        narrow(torch.tensor(X), 1j)


def test_arrays_of_a_program_are_on_the_device_of_its_arguments() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    held = np.array([3.0, 1, 2])

    class Weighed(nn.Module):
        def __init__(self) -> None:
            self.linear = nn.Linear(3, 3, dtype=np.float64, key=0)

        def __call__(self, x: Any, factor: Any) -> Any:
            return np.tril(self.linear(x)[:3] * held) + factor * np.arange(3.0)

    elsewhere = torch.empty((4, 3), dtype=torch.float64, device="meta")
    assert ws.to_torch(Weighed(), X, 2.0, module=True).to("meta")(elsewhere, 2.0).device == elsewhere.device


def test_jax_trains_with_a_step_and_hands_its_state_back(jax: Any) -> None:
    step, batch = rows()
    f, state = jax.jit(ws.to_jax(step)), step.state
    for _ in range(20):
        state, results = f(state, batch)
        assert float(results["loss"]) == pytest.approx(float(step(batch).loss), rel=1e-5)
    want = step.state
    step.load_state(jax.tree.map(np.asarray, state))
    assert step.steps == 20
    for a, b in zip(tree.leaves(step.state), tree.leaves(want), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    step(batch)


def test_jax_without_wide_numbers_is_said(jax: Any) -> None:
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(UnsupportedError, match=r"jax_enable_x64 has not(?s:.*)jax_enable_x64"):
        ws.to_jax(energy, PARAMS, X)


NARROW: dict[str, Callable[[Any], Any]] = {
    "bounds": lambda x: np.clip(x, -1, 1),
    "deviations": np.std,
    "variances": lambda x: np.var(x, axis=0, ddof=1),
    "means of some": lambda x: np.mean(x, axis=0, where=x > 0),
    "variances of some": lambda x: np.nanvar(np.where(x > 0.5, np.nan, x), axis=0),
    "sorted": np.sort,
    "ranks": lambda x: np.argsort(x, axis=0),
    "the middle": lambda x: np.median(x, axis=1),
    "rows": lambda x: x[np.array([1, -1])],
    "places": lambda x: x[np.arange(len(x)), np.argmax(x, axis=1)],
    "counts": lambda x: np.sum(x > 0, axis=0),
    "the largest so far": np.maximum.accumulate,
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", NARROW)
def test_places_and_counts_have_32_bits_where_jax_has_no_more(jax: Any, name: str) -> None:
    """And JAX does not warn of a dtype that it cuts."""
    jax.config.update("jax_enable_x64", False)
    x, f = X.astype("f4"), NARROW[name]
    found, expected = jax.jit(ws.to_jax(f, x))(x), np.asarray(f(x))
    assert found.dtype == (np.int32 if expected.dtype == np.int64 else np.float32)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_other_wide_integers_are_refused_with_their_line(jax: Any) -> None:
    jax.config.update("jax_enable_x64", False)
    for f in (
        lambda x: x.astype(int) * 3,
        lambda x: np.sum(np.sign(x).astype(int)),
        lambda x: np.where(x > 0, 1 << 40, 0),
    ):
        with pytest.raises(UnsupportedError, match=r"makes i64(?s:.*)test_handover.py"):
            ws.to_jax(f, X.astype("f4"))


def test_jax_takes_python_numbers_where_an_input_holds_them(jax: Any) -> None:
    def scaled(x: Any, s: Any) -> Any:
        return np.sum(x) * s

    assert float(ws.to_jax(scaled, X, 2.0)(X, 3.0)) == pytest.approx(3 * X.sum())
    assert ws.to_jax(scaled, X.astype("f4"), np.float32(2))(X.astype("f4"), 3).dtype == np.float32
    narrow = ws.to_jax(scaled, X, np.int32(2))
    for number in (3.5, 2**40):
        with pytest.raises(ArgumentError, match=r"s has the dtype .*64, and the program was written for int32"):
            narrow(X, number)


def test_python_numbers_have_32_bits_where_jax_has_no_more(jax: Any) -> None:
    jax.config.update("jax_enable_x64", False)
    x = X.astype("f2")

    def read(x: Any, s: Any, i: Any) -> Any:
        return x[i] * s

    f = ws.to_jax(read, x, 0.5, 2)
    assert f(x, 0.25, 1).dtype == np.float16
    np.testing.assert_array_equal(f(x, 0.25, 1), read(x, 0.25, 1))
    model = nn.Linear(3, 2, key=0)
    np.testing.assert_allclose(ws.to_jax(model, X.astype("f4"))(X.astype("f4")), model(X.astype("f4")), rtol=1e-6)
    with pytest.raises(UnsupportedError, match=r"numbers of 64 bits(?s:.*)Python numbers alone"):
        ws.to_jax(lambda x, s: x * np.sin(s), X.astype("f4"), 0.5)


def test_a_python_bool_is_no_input(jax: Any) -> None:
    def chosen(x: Any, flag: Any) -> Any:
        return np.where(flag, x, -x)

    with pytest.raises(ArgumentError, match=r"to_jax: an example is True(?s:.*)np.bool_"):
        ws.to_jax(chosen, X, True)
    np.testing.assert_array_equal(ws.to_jax(chosen, X, np.bool_(True))(X, False), -X)


def test_draws_need_wide_numbers_of_jax(jax: Any) -> None:
    jax.config.update("jax_enable_x64", False)
    with pytest.raises(UnsupportedError, match=r"random bits(?s:.*)without jax_enable_x64 has not"):
        ws.to_jax(lambda key: ws.random.normal(key, (2,)), ws.random.key(0))


def test_other_structures_and_what_is_no_function_are_refused(jax: Any) -> None:
    with pytest.raises(TreeError, match="'b', 'w'"):
        ws.to_jax(energy, PARAMS, X)({"w": PARAMS["w"]}, X)
    step, batch = dense()
    with pytest.raises(ArgumentError, match="a step needs no examples"):
        ws.to_jax(step, batch)
    with pytest.raises(ArgumentError, match=r"to_jax: scale given by name(?s:.*)test_handover.py"):
        ws.to_jax(lambda x, scale=1.0: x * scale, X, X)(X, scale=X)
    with pytest.raises(ArgumentError, match=r"to_jax: 0 examples for energy\(.*missing(?s:.*)ws.ShapeDtype"):
        ws.to_jax(energy)


def torch_or_skip() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")


def test_the_example_runs() -> None:
    torch_or_skip()
    assert not doctest.testmod(to_torch).failed


def test_torch_trains_a_function_as_a_module() -> None:
    torch = torch_or_skip()
    net = ws.to_torch(energy, PARAMS, X, module=True)
    assert sorted(name for name, _ in net.named_parameters()) == ["b", "w"]
    net(torch.tensor(X)).backward()
    for name, slope in ws.grad(energy)(PARAMS, X).items():
        np.testing.assert_allclose(getattr(net, name).grad, slope, rtol=1e-12)
    with torch.no_grad():
        plain = ws.to_torch(energy, PARAMS, X)
        assert float(plain({k: torch.tensor(v) for k, v in PARAMS.items()}, torch.tensor(X))) == pytest.approx(
            energy(PARAMS, X), rel=1e-12
        )


def test_torch_trains_a_model_as_wholestep_does() -> None:
    torch = torch_or_skip()
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 3)).astype(np.float32), rng.normal(size=(8, 2)).astype(np.float32)
    model = nn.MLP([3, 4, 2], key=0)
    step = ws.compile(lambda m, b: nn.mse(m(b[0]), b[1]), model, optimizer=optim.sgd(0.1), batch=(x, y))
    net = ws.to_torch(model, x, module=True)
    other = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(20):
        other.zero_grad()
        loss = torch.nn.functional.mse_loss(net(torch.tensor(x)), torch.tensor(y))
        loss.backward()
        other.step()
        assert float(loss.detach()) == pytest.approx(float(step(batch=(x, y)).loss), rel=1e-5)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # TorchScript, which PyTorch has deprecated
def test_torch_traces_a_module_into_torchscript() -> None:
    torch = torch_or_skip()
    module = ws.to_torch(energy, PARAMS, X, module=True)
    x, file = torch.tensor(X), io.BytesIO()
    torch.jit.save(torch.jit.trace(module, (x,)), file)
    file.seek(0)
    assert torch.equal(torch.jit.load(file)(x), module(x))


def test_torch_holds_the_buffers_of_a_model() -> None:
    torch = torch_or_skip()
    model, x = Reader(), np.random.default_rng(0).normal(size=(2, 1, 8, 8)).astype(np.float32)
    net = ws.to_torch(model, x, module=True)
    held = dict(net.named_buffers())
    assert sorted(held) == ["body.layers.1.mean", "body.layers.1.var"]
    held["body.layers.1.mean"].fill_(0.25)
    assert not np.allclose(net(torch.tensor(x)).detach(), ws.to_torch(model, x)(torch.tensor(x)))


def test_torch_writes_the_last_of_equal_places_on_any_number_of_threads() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    i, x = np.random.default_rng(0).integers(-3, 3, 40_960), np.arange(40_960.0)

    def written(x: Any, i: Any) -> Any:
        y = np.zeros((3, 2))
        y[i, i % 2 - 2] = x
        return y

    f, threads = ws.to_torch(written, x, i), torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        for _ in range(10):
            np.testing.assert_array_equal(f(torch.tensor(x), torch.tensor(i)), written(x, i))
    finally:
        torch.set_num_threads(threads)


def test_torch_trains_with_a_step() -> None:
    torch = torch_or_skip()
    step, batch = images()
    f, state = ws.to_torch(step), tree.map(lambda x: torch.tensor(np.asarray(x)), step.state)
    given = tree.map(torch.tensor, batch)
    with torch.no_grad():
        for _ in range(20):
            state, results = f(state, given)
            assert float(results["loss"]) == pytest.approx(float(step(batch).loss), rel=1e-5)
    with pytest.raises(ArgumentError, match="a module is made of a model"):
        ws.to_torch(step, module=True)
