"""Programs of PyTorch are functions here: their numbers, gradients, buffers, ties, keys and sizes, and their errors."""

import numpy as np
import pytest

import wholestep as ws
from wholestep.errors import DtypeError, ParameterError, ShapeError, TreeError, UnsupportedError

torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
operators = pytest.importorskip("torch._higher_order_ops")
pytestmark = [pytest.mark.filterwarnings("ignore")]
tn = torch.nn


@pytest.fixture(autouse=True)
def seeded():
    """Weights that are the same in any order of the tests."""
    torch.manual_seed(0)


class Tied(tn.Module):
    """A model with a tied weight, attention, and a parameter that is not trained."""

    def __init__(self):
        super().__init__()
        self.embedding = tn.Embedding(11, 8, padding_idx=0)
        self.scale = tn.Parameter(torch.ones(8), requires_grad=False)
        self.norm = tn.LayerNorm(8)
        self.head = tn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids) * self.scale
        x = x + tn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        return {"scores": self.head(self.norm(x)), "mean": x.mean()}


def images():
    torch.manual_seed(0)
    return tn.Sequential(
        tn.Conv2d(2, 4, 3, padding=1), tn.BatchNorm2d(4), tn.ReLU(), tn.MaxPool2d(2), tn.Flatten(), tn.Linear(16, 3)
    )


IMAGES = np.random.default_rng(0).normal(size=(5, 2, 4, 4)).astype(np.float32)
IDS = np.random.default_rng(0).integers(0, 11, (2, 5))


def test_a_program_has_the_numbers_gradients_and_buffers_of_its_module():
    net = images().train()
    f, params, buffers = ws.from_torch_export(net, IMAGES)
    assert set(params) == {name for name, _ in net.named_parameters()}
    assert set(buffers) == {name for name, _ in net.named_buffers()}

    def loss(params):
        out, new = f(params, buffers, IMAGES)
        return np.sum(out * out), (out, new)

    gradients, (out, new) = ws.jit(ws.grad(loss, has_aux=True))(params)
    expected = net(torch.tensor(IMAGES))
    (expected * expected).sum().backward()
    np.testing.assert_allclose(out, expected.detach().numpy(), rtol=1e-4, atol=1e-5)
    for name, p in net.named_parameters():
        np.testing.assert_allclose(
            gradients[name], p.grad.numpy(), rtol=1e-4, atol=1e-4 * float(p.grad.abs().max() + 1)
        )
    for name, b in net.named_buffers():
        np.testing.assert_allclose(new[name], b.numpy(), rtol=1e-5)


def test_a_step_trains_a_program_as_pytorch_trains_its_module():
    net = images().train()
    f, params, buffers = ws.from_torch_export(net, IMAGES)

    def loss(params, buffers, batch):
        out, buffers = f(params, buffers, batch)
        return np.mean(out**2), buffers

    step = ws.compile(loss, params, buffers=buffers, optimizer=ws.optim.sgd(0.05), batch=IMAGES)
    optimizer = torch.optim.SGD(net.parameters(), 0.05)
    for _ in range(4):
        ours = step(IMAGES).loss
        optimizer.zero_grad()
        theirs = (net(torch.tensor(IMAGES)) ** 2).mean()
        theirs.backward()
        optimizer.step()
        assert float(ours) == pytest.approx(theirs.item(), rel=1e-4)
    assert int(step.buffers["1.num_batches_tracked"]) == 4


class Detached(tn.Module):
    """A model that detaches values in each of PyTorch's ways, and updates a buffer without gradients."""

    def __init__(self):
        super().__init__()
        self.w = tn.Parameter(torch.tensor([0.5, -1.5, 2.0]))
        self.register_buffer("center", torch.zeros(3))

    def forward(self, x):
        y = self.w * x
        with torch.no_grad():
            self.center.mul_(0.9).add_(y, alpha=0.1)
            target = torch.softmax(y, 0)
            with torch.enable_grad():
                inner = y * target
        rounded = y + (torch.round(y) - y).detach()
        kept = torch.cond(x.sum() > 0, lambda y: y.detach() * y, lambda y: y * 2, (y,))
        return rounded * target, inner, kept, (y * y).detach_() * y, (y - self.center) ** 2


def test_what_is_detached_or_without_gradients_gets_none():
    module, x = Detached(), np.array([0.5, 1.0, -0.25], np.float32)
    program = torch.export.export(module, (torch.tensor(x),))
    before = program.graph_module.code
    f, params, buffers = ws.from_torch_export(program)
    assert program.graph_module.code == before
    given = torch.tensor(x, requires_grad=True)
    sum(part.sum() for part in module(given)).backward()
    slopes = ws.grad(lambda params, x: sum(map(np.sum, f(params, buffers, x)[0])), argnums=(0, 1))(params, x)
    np.testing.assert_allclose(slopes[0]["w"], module.w.grad, rtol=1e-5)
    np.testing.assert_allclose(slopes[1], given.grad, rtol=1e-5)
    np.testing.assert_allclose(f(params, buffers, x)[1]["center"], module.center, rtol=1e-6)


FINITE = {
    "softplus": tn.functional.softplus,
    "mish": tn.functional.mish,
    "celu": tn.functional.celu,
    "sinc": torch.sinc,
    "log_ndtr": torch.special.log_ndtr,
    "std": lambda x: x - (x * 0).std(),
    "std_mean": lambda x: x - torch.std_mean(x * 0)[0],
    "bce": lambda x: tn.functional.binary_cross_entropy(torch.sigmoid(x), (x.flip(0) > 1).float(), reduction="none"),
    "angle": torch.angle,
    "norm": lambda x: torch.linalg.vector_norm(x * 0, 2.5) + x,
}


@pytest.mark.parametrize("name", FINITE)
def test_slopes_are_finite_where_those_of_pytorch_are(name):
    class Elementwise(tn.Module):
        def forward(self, x):
            return FINITE[name](x)

    x = np.array([-200, -1, 0, 1, 200], np.float32)
    given = torch.tensor(x, requires_grad=True)
    Elementwise()(given).sum().backward()
    f, params, buffers = ws.from_torch_export(Elementwise(), x)
    slopes = ws.grad(lambda x: np.sum(f(params, buffers, x)[0]))(x)
    np.testing.assert_allclose(slopes, given.grad, rtol=1e-3, atol=1e-6)


def test_ties_structures_and_what_is_not_trained_are_kept():
    net = Tied()
    f, params, buffers = ws.from_torch_export(net, IDS)
    assert sorted(params) == ["embedding.weight", "norm.bias", "norm.weight"] and list(buffers) == ["scale"]
    (out, _), expected = f(params, buffers, IDS), net(torch.tensor(IDS))
    np.testing.assert_allclose(out["scores"], expected["scores"].detach().numpy(), rtol=1e-5, atol=1e-5)
    gradient = ws.grad(lambda params: np.sum(f(params, buffers, IDS)[0]["scores"] ** 2))(params)
    (expected["scores"] ** 2).sum().backward()
    wanted = net.embedding.weight.grad.numpy()
    np.testing.assert_allclose(gradient["embedding.weight"], wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_an_inverse_by_a_factor_has_the_gradient_of_pytorch():
    class Inverse(tn.Module):
        def forward(self, x):
            return torch.cholesky_inverse(torch.linalg.cholesky(x.T @ x + torch.eye(4)))[0].sum()

    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
    f, params, buffers = ws.from_torch_export(Inverse(), x)
    given = torch.tensor(x, requires_grad=True)
    wanted = Inverse()(given)
    wanted.backward()
    value, slope = ws.value_and_grad(lambda x: f(params, buffers, x)[0])(x)
    np.testing.assert_allclose(value, wanted.detach(), rtol=1e-5)
    np.testing.assert_allclose(slope, given.grad, rtol=1e-4, atol=1e-5)


def test_distributions_draw_by_our_keys():
    class Drawn(tn.Module):
        def forward(self, mean, rate):
            d = torch.distributions
            gamma = d.Gamma(rate, rate, validate_args=False).rsample()
            return d.Normal(mean, rate, validate_args=False).sample(), gamma, torch.poisson(rate)

    mean, rate = np.full(4000, 3, np.float32), np.full(4000, 2, np.float32)
    f, params, buffers = ws.from_torch_export(Drawn(), mean, rate)
    made = ws.jit(lambda: f(params, buffers, mean, rate, key=0)[0])()
    for x, middle, spread in zip(made, (3, 1, 2), (2, np.sqrt(0.5), np.sqrt(2)), strict=True):
        assert x.dtype == np.float32 and abs(x.mean() - middle) < 0.15 and abs(x.std() - spread) < 0.15
    with pytest.raises(ParameterError, match="key"):
        f(params, buffers, mean, rate)


def test_dropout_draws_by_our_keys():
    net = tn.Sequential(tn.Linear(3, 64), tn.Dropout(0.5)).train()
    f, params, buffers = ws.from_torch_export(net, np.ones((4, 3), np.float32))
    x = np.ones((4, 3), np.float32)
    first, again, other = [np.asarray(f(params, buffers, x, key=k)[0]) for k in (0, 0, 1)]
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() and 0.3 < (first == 0).mean() < 0.7
    with pytest.raises(ParameterError, match="no key to draw from"):
        f(params, buffers, x)


def test_places_in_memory_are_those_of_the_layout():
    class Strided(tn.Module):
        def forward(self, x):
            turned = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2) * 2
            return torch.as_strided(turned, (2, 12), (24, 2), 1)

    x = np.random.default_rng(0).normal(size=(2, 3, 2, 4)).astype(np.float32)
    f, params, buffers = ws.from_torch_export(Strided(), x)
    np.testing.assert_allclose(f(params, buffers, x)[0], Strided()(torch.tensor(x)).numpy(), rtol=1e-6)


def test_tables_of_a_program_meet_traced_positions():
    class Table(tn.Module):
        def forward(self, at):
            return torch.arange(3.0)[at] + torch.tensor([[1.0, 2, 3], [4, 5, 6]]).gather(1, at)

    at = torch.tensor([[0, 2], [1, 1]])
    f, params, buffers = ws.from_torch_export(Table(), at)
    np.testing.assert_array_equal(ws.jit(lambda at: f(params, buffers, at)[0])(at.numpy()), Table()(at))


def test_sizes_that_were_exported_as_dynamic_may_vary():
    net = tn.Sequential(tn.Flatten(), tn.Linear(4, 2))
    batch = torch.export.Dim("batch", min=2)
    program = torch.export.export(net, (torch.ones(3, 2, 2),), dynamic_shapes=({0: batch},))
    f, params, buffers = ws.from_torch_export(program)
    for n in (2, 7):
        x = np.random.default_rng(n).normal(size=(n, 2, 2)).astype(np.float32)
        np.testing.assert_allclose(f(params, buffers, x)[0], net(torch.tensor(x)).detach().numpy(), rtol=1e-5)


def test_a_file_is_read_and_branches_are_kept(tmp_path):
    class Branch(tn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    path = tmp_path / "branch.pt2"
    torch.export.save(torch.export.export(Branch(), (torch.ones(3),)), path)
    f, params, buffers = ws.from_torch_export(path)
    for sign in (1, -1):
        x = np.full(3, 0.5 * sign, np.float32)
        np.testing.assert_allclose(
            ws.jit(lambda x: f(params, buffers, x)[0])(x), np.sin(x) if sign > 0 else np.cos(x), rtol=1e-6
        )


def test_a_quantised_program_gives_the_same_integers():
    class Quantised(tn.Module):
        def __init__(self):
            super().__init__()
            self.layer = tn.Linear(6, 4)

        def forward(self, x):
            ops = torch.ops.quantized_decomposed
            q = ops.quantize_per_tensor(x, 0.05, 3, -128, 127, torch.int8)
            return self.layer(ops.dequantize_per_tensor(q, 0.05, 3, -128, 127, torch.int8))

    pytest.importorskip("torch.ao.quantization.fx._decomposed")
    net, x = Quantised().eval(), np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    f, params, buffers = ws.from_torch_export(net, x)
    np.testing.assert_allclose(f(params, buffers, x)[0], net(torch.tensor(x)).detach().numpy(), rtol=1e-5)


def test_a_safe_softmax_of_a_row_that_sees_nothing_is_zero():
    class Weights(tn.Module):
        def forward(self, x):
            return torch._safe_softmax(x, 1)

    x = np.array([[0.5, -1.0, 2.0], [-np.inf, -np.inf, -np.inf], [-np.inf, 0.0, 1.0]], np.float32)
    f, params, buffers = ws.from_torch_export(Weights(), x)
    expected = Weights()(torch.tensor(x)).numpy()
    np.testing.assert_allclose(f(params, buffers, x)[0], expected, rtol=1e-6)
    slope = ws.grad(lambda x: np.sum(f(params, buffers, x)[0] * x[0]))(x)
    np.testing.assert_array_equal(slope[1], 0)


def test_operators_that_are_not_covered_are_listed_at_once():
    class Odd(tn.Module):
        def forward(self, x):
            return torch.geqrf(x)[0] + torch.special.airy_ai(x)

    with pytest.raises(
        UnsupportedError, match=r"2 operators of PyTorch are not covered\n(.*geqrf.*\n.*airy_ai|.*airy_ai.*\n.*geqrf)"
    ):
        ws.from_torch_export(Odd(), np.eye(3, dtype=np.float32))


def test_bits_read_in_another_width_are_refused():
    class Bits(tn.Module):
        def forward(self, x):
            return x.view(torch.int16)

    f, params, buffers = ws.from_torch_export(Bits(), np.ones(3, np.int32))
    with pytest.raises(UnsupportedError, match="the bits of int32 read as int16"):
        ws.jit(f)(params, buffers, np.ones(3, np.int32))


FACTORED = {
    "solve": lambda x: torch.linalg.solve(x, x @ x + 1),
    "inv": lambda x: torch.linalg.inv(x),
    "cholesky": lambda x: torch.linalg.inv(torch.linalg.cholesky(x)),
    "cholesky_solve": lambda x: torch.cholesky_solve(x @ x + 1, torch.linalg.cholesky(x)),
    "cholesky_solve of upper ones": lambda x: torch.cholesky_solve(x @ x, torch.linalg.cholesky(x, upper=True), True),
}


@pytest.mark.parametrize("name", FACTORED)
def test_checks_of_factorizations_leave_the_program_as_it_is(name):
    """PyTorch writes the checks as ordered effects, with a token as argument and result."""

    class Factored(tn.Module):
        def forward(self, x):
            return FACTORED[name](x)

    x = np.random.default_rng(0).normal(size=(3, 3))
    x = x @ x.T + np.eye(3)
    f, params, buffers = ws.from_torch_export(Factored(), x)
    given = torch.tensor(x, requires_grad=True)
    expected = Factored()(given)
    (expected**2).sum().backward()
    np.testing.assert_allclose(f(params, buffers, x)[0], expected.detach().numpy(), rtol=1e-9)
    slope = ws.grad(lambda x: np.sum(f(params, buffers, x)[0] ** 2))(x)
    np.testing.assert_allclose(slope, given.grad.numpy(), rtol=1e-8)
    with pytest.raises(np.linalg.LinAlgError):
        f(params, buffers, np.zeros((3, 3)))


def test_inputs_that_do_not_fit_are_refused():
    f, params, buffers = ws.from_torch_export(tn.Linear(3, 2), np.ones((4, 3), np.float32))
    with pytest.raises(ShapeError, match=r"f32\[5, 3\], and was exported as \[4, 3\]"):
        f(params, buffers, np.ones((5, 3), np.float32))
    with pytest.raises(DtypeError, match="was exported as float32"):
        f(params, buffers, np.ones((4, 3), np.int64))
    with pytest.raises(TreeError, match="2, and was exported with 1 items"):
        f(params, buffers, 1, 2)
    with pytest.raises(TreeError, match="no parameter 'bias'"):
        f({"weight": params["weight"]}, buffers, np.ones((4, 3), np.float32))
    with pytest.raises(ShapeError, match=r"bias is f32\[1\], and was exported as \[2\]"):
        f({**params, "bias": np.ones(1, np.float32)}, buffers, np.ones((4, 3), np.float32))
    with pytest.raises(ParameterError, match="is no program"):
        ws.from_torch_export(3)
    with pytest.raises(ParameterError, match="no example"):
        ws.from_torch_export(tn.Linear(3, 2))


@pytest.mark.parametrize("enabled", [True, False])
def test_the_casts_of_autocast_are_kept(enabled):
    class Cast(tn.Module):
        def __init__(self):
            super().__init__()
            self.layer = tn.Linear(4, 3)

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
                return self.layer(x)

    module, x = Cast(), np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)
    f, params, buffers = ws.from_torch_export(module, x)
    found, wanted = ws.jit(f)(params, buffers, x)[0], module(torch.tensor(x)).detach()
    assert str(found.dtype) == ("bfloat16" if enabled else "float32") == str(wanted.dtype).removeprefix("torch.")
    np.testing.assert_allclose(np.float32(found), wanted.float().numpy(), rtol=0.01 if enabled else 1e-5, atol=1e-6)


class Loops(tn.Module):
    """Loops of PyTorch's that stay loops in its programs: one until a test fails, one over rows, and a map."""

    def forward(self, x):
        mapped, scan, while_loop = (getattr(operators, name) for name in ("map", "scan", "while_loop"))
        count, _ = while_loop(lambda i, c: c.sum() < 9, lambda i, c: (i + 1, c * 2), (torch.tensor(0), x.detach() ** 2))
        last, rows = scan(lambda c, r: (torch.tanh(c * x.mean() + r), c * r), x[0] * 0, x, reverse=True)
        return count, last, rows, mapped(lambda r, shift: torch.sin(r * shift), x, x[0].clone())


def test_loops_stay_loops():
    x = np.random.default_rng(3).normal(size=(4, 3))
    f, params, buffers = ws.from_torch_export(Loops(), x)
    given = torch.tensor(x, requires_grad=True)
    wanted = Loops()(given)
    found = ws.jit(f)(params, buffers, x)[0]
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs.detach().numpy(), rtol=1e-9)
    sum((part * part).sum() for part in wanted[1:]).backward()
    slope = ws.grad(lambda x: sum(np.sum(part * part) for part in f(params, buffers, x)[0][1:]))(x)
    np.testing.assert_allclose(slope, given.grad.numpy(), rtol=1e-8)
