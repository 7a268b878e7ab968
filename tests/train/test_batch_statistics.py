"""Statistics of batch norms that are measured anew are those that torch's `update_bn` gathers."""

import numpy as np
import pytest

import wholestep as ws
from wholestep import nn
from wholestep.errors import DtypeError, ParameterError

RNG = np.random.default_rng(2)
BATCHES = [RNG.normal(size=(n, 3, 5)).astype(np.float32) * 3 + 1 for n in (8, 8, 5)]


def network(**options):
    return nn.Sequential(
        nn.Conv1d(3, 4, 3, key=0), nn.BatchNorm(4, **options), nn.relu, nn.Flatten(), nn.Linear(12, 2, key=1),
        nn.BatchNorm(2, **options),
    )  # fmt: skip


@pytest.mark.parametrize("momentum", [0.0, 0.1, 1.0])
def test_the_statistics_are_those_of_torch(momentum):
    torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
    model = network(momentum=momentum)
    model(BATCHES[0] * 7)  # statistics of other data, which count for nothing
    theirs = torch.nn.Sequential(
        torch.nn.Conv1d(3, 4, 3), torch.nn.BatchNorm1d(4), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(12, 2),
        torch.nn.BatchNorm1d(2),
    )  # fmt: skip
    theirs.load_state_dict({name: torch.tensor(np.array(x)) for name, x in nn.to_torch(model).items()}, strict=False)
    torch.optim.swa_utils.update_bn([torch.tensor(x) for x in BATCHES], theirs)
    before = {name: x.copy() for name, x in nn.buffers(model).items()}
    found = ws.update_batch_norm(model, BATCHES)
    for ours, norm in ((found[1], theirs[1]), (found[5], theirs[5])):
        np.testing.assert_allclose(ours.mean, norm.running_mean.numpy(), rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(ours.var, norm.running_var.numpy(), rtol=2e-5)
        assert ours.momentum == momentum
    assert all(np.array_equal(x, before[name]) for name, x in nn.buffers(model).items())
    np.testing.assert_allclose(
        found.eval()(BATCHES[0]), theirs.eval()(torch.tensor(BATCHES[0])).detach().numpy(), rtol=1e-4, atol=1e-5
    )


def test_all_else_stays():
    model = nn.Sequential(nn.SpectralNorm(nn.Linear(3, 3, key=0), key=1), nn.BatchNorm(3)).eval()
    batches = [x.mean(axis=2) for x in BATCHES]
    found = ws.update_batch_norm(model, iter(batches))
    assert not found.training
    np.testing.assert_array_equal(found[0].left, model[0].left)
    for name, x in nn.named_parameters(found).items():
        assert x is nn.named_parameters(model)[name]
    assert not np.allclose(found[1].mean, 0.0)


def test_a_loader_and_a_call_of_one_s_own():
    data = {"x": np.concatenate(BATCHES), "y": np.arange(21)}
    loader = ws.Loader(data, 7, shuffle=False)
    found = ws.update_batch_norm(network(), loader, lambda model, batch: model(batch["x"]))
    expected = ws.update_batch_norm(network(), [data["x"][i : i + 7] for i in (0, 7, 14)])
    np.testing.assert_array_equal(found[1].var, expected[1].var)


def test_each_batch_has_a_key_of_its_own():
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm(3))
    ones = [np.ones((64, 3), np.float32)] * 2

    def forward(model, batch, *, key):
        return model(batch, key=key)

    first, again, other = [ws.update_batch_norm(model, ones, forward, key=key)[1].mean for key in (0, 0, 1)]
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, ws.update_batch_norm(model, ones[:1], forward, key=0)[1].mean)
    np.testing.assert_array_equal(first, ws.update_batch_norm(model, ones, key=0)[1].mean)


def test_the_norms_of_a_stack():
    stack = nn.Stack(lambda key: nn.Sequential(nn.Linear(3, 3, key=key), nn.BatchNorm(3)), 2, key=0)
    batch = BATCHES[0].mean(axis=2)
    found = ws.update_batch_norm(stack, [batch]).eval()
    layers = [ws.update_batch_norm(layer, [batch]) for layer in stack.to_layers()[:1]]
    np.testing.assert_allclose(found.to_layers()[0][1].mean, layers[0][1].mean, rtol=1e-6)
    np.testing.assert_allclose(found(batch).mean(axis=0), 0.0, atol=1e-5)


def test_what_cannot_be_measured_is_refused():
    x = np.ones((2, 3), np.float32)
    with pytest.raises(ParameterError, match=r"^update_batch_norm: this Linear has no nn.BatchNorm"):
        ws.update_batch_norm(nn.Linear(3, 3, key=0), [x])
    with pytest.raises(ParameterError, match=r"^update_batch_norm: there were no batches"):
        ws.update_batch_norm(nn.BatchNorm(3), [])
    with pytest.raises(DtypeError, match=r"^update_batch_norm: batches is a ndarray"):
        ws.update_batch_norm(nn.BatchNorm(3), x)
    with pytest.raises(ParameterError, match=r"^update_batch_norm: forward takes a key"):
        ws.update_batch_norm(nn.BatchNorm(3), [x], lambda model, batch, *, key: model(batch))
