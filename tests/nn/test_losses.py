"""Every loss against PyTorch, value and gradient, over random configurations; and refused arguments."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import wholestep as ws
from wholestep import errors, nn
from wholestep.nn.cross_entropies import cross_entropy, focal, nll_loss, poly_cross_entropy
from wholestep.nn.ctc import ctc_loss
from wholestep.nn.losses import gaussian_nll, huber, log_cosh, mae, mse, poisson_nll, smooth_l1
from wholestep.nn.probabilities import bce, bce_with_logits, binary_focal, kl_div
from wholestep.nn.ranking_losses import cosine_loss, cosine_similarity, hinge, multiclass_hinge, triplet

torch = pytest.importorskip("torch", reason="PyTorch is an outside oracle; not installed")
F = torch.nn.functional

REDUCTIONS = st.sampled_from(["mean", "sum", "none"])
SEEDS = st.integers(0, 2**32 - 1)


def same(ours, theirs, x, *, rtol=1e-10):
    """Assert that two functions of one array have equal values, and equal gradients of a random weighting."""
    found, tensor = ours(x), torch.tensor(x, requires_grad=True)
    expected = theirs(tensor)
    np.testing.assert_allclose(found, expected.detach().numpy(), rtol=rtol, atol=rtol)
    pull = np.random.default_rng(0).normal(size=np.shape(found))
    (expected * torch.tensor(pull)).sum().backward()
    gradient = ws.grad(lambda x: np.sum(ours(x) * pull))(x)
    assert gradient.dtype == x.dtype
    np.testing.assert_allclose(gradient, tensor.grad.numpy(), rtol=10 * rtol, atol=rtol)


def soft_ones(rng, shape):
    """Positive numbers that do not sum to 1."""
    return rng.uniform(0.0, 1.0, size=shape)


def pairs(rng):
    shape = tuple(rng.integers(1, 5, size=rng.integers(0, 4)))
    return rng.normal(size=shape) * 2, rng.normal(size=shape) * 2


NUMBERS = {
    "mse": (mse, lambda x, t, **k: F.mse_loss(x, t, **k)),
    "mae": (mae, lambda x, t, **k: F.l1_loss(x, t, **k)),
    "huber": (functools.partial(huber, delta=0.7), lambda x, t, **k: F.huber_loss(x, t, delta=0.7, **k)),
    "smooth_l1": (functools.partial(smooth_l1, beta=0.3), lambda x, t, **k: F.smooth_l1_loss(x, t, beta=0.3, **k)),
    "smooth_l1 of 0": (functools.partial(smooth_l1, beta=0), lambda x, t, **k: F.smooth_l1_loss(x, t, beta=0, **k)),
    "hinge": (
        lambda x, t, **k: hinge(x, np.sign(t), margin=0.4, **k),
        lambda x, t, reduction: torch_reduced((0.4 - torch.sign(t) * x).clamp(min=0), reduction),
    ),
    "log_cosh": (log_cosh, lambda x, t, reduction: torch_reduced(torch.log(torch.cosh(x - t)), reduction)),
    "poisson_nll": (
        lambda x, t, **k: poisson_nll(x, np.abs(t), **k),
        lambda x, t, **k: F.poisson_nll_loss(x, t.abs(), **k),
    ),
    "poisson_nll, full": (
        lambda x, t, **k: poisson_nll(np.abs(x), np.abs(t), log_input=False, full=True, **k),
        lambda x, t, **k: F.poisson_nll_loss(x.abs(), t.abs(), log_input=False, full=True, **k),
    ),
    "gaussian_nll": (
        lambda x, t, **k: gaussian_nll(x, t, np.abs(t) + 0.1, full=True, **k),
        lambda x, t, **k: F.gaussian_nll_loss(x, t, t.abs() + 0.1, full=True, **k),
    ),
    "bce": (
        lambda x, t, **k: bce(1 / (1 + np.exp(-x)), 1 / (1 + np.exp(-t)), **k),
        lambda x, t, **k: F.binary_cross_entropy(torch.sigmoid(x), torch.sigmoid(t), **k),
    ),
    "bce_with_logits": (
        lambda x, t, **k: bce_with_logits(x * 20, t > 0, pos_weight=2.5, **k),
        lambda x, t, **k: F.binary_cross_entropy_with_logits(
            x * 20, (t > 0).double(), pos_weight=torch.tensor(2.5), **k
        ),
    ),
    "binary_focal": (
        lambda x, t, **k: binary_focal(x, 1 / (1 + np.exp(-t)), gamma=1.5, **k),
        lambda x, t, reduction: torch_reduced(torch_focal(x, torch.sigmoid(t), 1.5, 0.25), reduction),
    ),
}


def torch_reduced(losses, reduction):
    return {"mean": torch.mean, "sum": torch.sum, "none": lambda x: x}[reduction](losses)


def torch_focal(x, t, gamma, alpha):
    """As torchvision writes sigmoid_focal_loss."""
    p = torch.sigmoid(x)
    ce = F.binary_cross_entropy_with_logits(x, t, reduction="none")
    chance = p * t + (1 - p) * (1 - t)
    return (alpha * t + (1 - alpha) * (1 - t)) * ce * (1 - chance) ** gamma


@pytest.mark.parametrize("name", NUMBERS)
@settings(max_examples=12)
@given(seed=SEEDS, reduction=REDUCTIONS)
def test_losses_of_numbers(name, seed, reduction):
    x, t = pairs(np.random.default_rng(seed))
    ours, theirs = NUMBERS[name]
    same(
        lambda x: ours(x, t, reduction=reduction),
        lambda x: theirs(x, torch.tensor(t), reduction=reduction),
        x,
    )


def classes(rng, most=4):
    """A shape with at least two axes, and which of them the classes are on."""
    shape = tuple(int(n) for n in rng.integers(2, most + 1, size=rng.integers(2, 5)))
    return shape, int(rng.integers(-len(shape), len(shape)))


@settings(max_examples=60)
@given(seed=SEEDS, reduction=REDUCTIONS, weighted=st.booleans(), ignoring=st.booleans(), smooth=st.booleans())
def test_cross_entropy_with_labels(seed, reduction, weighted, ignoring, smooth):
    rng = np.random.default_rng(seed)
    shape, axis = classes(rng)
    count = shape[axis]
    x = rng.normal(size=shape) * 3
    rest = np.delete(shape, axis)
    labels = rng.integers(0, count, size=rest)
    if ignoring:
        labels.flat[: labels.size // 2] = -100
    weights = rng.uniform(0.5, 2.0, size=count) if weighted else None
    eps = 0.3 if smooth else 0.0
    same(
        lambda x: cross_entropy(
            x,
            labels,
            axis=axis,
            ignore_index=-100 if ignoring else None,
            label_smoothing=eps,
            class_weights=weights,
            reduction=reduction,
        ),
        lambda x: F.cross_entropy(
            x.movedim(axis, 1),
            torch.tensor(labels),
            weight=None if weights is None else torch.tensor(weights),
            ignore_index=-100,
            label_smoothing=eps,
            reduction=reduction,
        ),
        x,
    )


@settings(max_examples=40)
@given(seed=SEEDS, reduction=REDUCTIONS, weighted=st.booleans(), smooth=st.booleans())
def test_cross_entropy_with_soft_targets_that_sum_to_anything(seed, reduction, weighted, smooth):
    rng = np.random.default_rng(seed)
    shape, axis = classes(rng)
    x, t = rng.normal(size=shape) * 3, soft_ones(rng, shape)
    weights = rng.uniform(0.5, 2.0, size=shape[axis]) if weighted else None
    eps = 0.3 if smooth else 0.0
    losses = cross_entropy(x, t, axis=axis, label_smoothing=eps, class_weights=weights, reduction=reduction)
    # PyTorch's mean divides by the size of axis 0 alone, the number of samples.
    theirs = F.cross_entropy(
        torch.tensor(x).movedim(axis, 1),
        torch.tensor(t).movedim(axis, 1),
        weight=None if weights is None else torch.tensor(weights),
        label_smoothing=eps,
        reduction=reduction,
    ).numpy()
    np.testing.assert_allclose(losses, theirs, rtol=1e-10)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_the_gradient_with_soft_targets_is_exact(axis):
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(3, 4, 5)), soft_ones(rng, (3, 4, 5))
    found = ws.grad(lambda x: cross_entropy(x, t, axis=axis, reduction="sum"))(x)
    powers = np.exp(x)
    softmax = powers / powers.sum(axis=axis, keepdims=True)
    np.testing.assert_allclose(found, softmax * t.sum(axis=axis, keepdims=True) - t, rtol=1e-12, atol=1e-14)


@settings(max_examples=20)
@given(seed=SEEDS, reduction=REDUCTIONS, weighted=st.booleans())
def test_nll_loss(seed, reduction, weighted):
    rng = np.random.default_rng(seed)
    x, labels = rng.normal(size=(6, 4, 2)), rng.integers(0, 4, size=(6, 2))
    weights = rng.uniform(0.5, 2.0, size=4) if weighted else None
    same(
        lambda x: nll_loss(x, labels, axis=1, ignore_index=3, class_weights=weights, reduction=reduction),
        lambda x: F.nll_loss(
            x,
            torch.tensor(labels),
            weight=None if weights is None else torch.tensor(weights),
            ignore_index=3,
            reduction=reduction,
        ),
        x,
    )


@settings(max_examples=20)
@given(seed=SEEDS, logs=st.booleans())
def test_kl_div(seed, logs):
    rng = np.random.default_rng(seed)
    x, t = rng.normal(size=(2, 5, 3)).reshape(2, 15)[:, :7], rng.dirichlet(np.ones(7), size=2)
    t[0, 2] = t[0, 2] if logs else 0.0
    given_ = np.log(t) if logs else t
    same(
        lambda x: kl_div(x - np.log(np.sum(np.exp(x), axis=1, keepdims=True)), given_, log_targets=logs),
        lambda x: F.kl_div(F.log_softmax(x, 1), torch.tensor(given_), log_target=logs, reduction="batchmean"),
        x,
    )


@settings(max_examples=20)
@given(seed=SEEDS, reduction=REDUCTIONS, power=st.sampled_from([1, 2]))
def test_multiclass_hinge(seed, reduction, power):
    rng = np.random.default_rng(seed)
    x, labels = rng.normal(size=(5, 4)), rng.integers(0, 4, size=5)
    same(
        lambda x: multiclass_hinge(x, labels, margin=0.8, power=power, reduction=reduction),
        lambda x: F.multi_margin_loss(x, torch.tensor(labels), p=power, margin=0.8, reduction=reduction),
        x,
    )


@settings(max_examples=20)
@given(seed=SEEDS, reduction=REDUCTIONS, swap=st.booleans(), p=st.sampled_from([1.0, 2.0, 3.0]))
def test_vectors(seed, reduction, swap, p):
    rng = np.random.default_rng(seed)
    x, y, z = rng.normal(size=(3, 4, 5))
    t = rng.choice([-1, 1], size=4)
    b, c = torch.tensor(y), torch.tensor(z)
    same(
        lambda x: cosine_similarity(x, y[0], axis=1),
        lambda x: F.cosine_similarity(x, b[:1], dim=1),
        x,
    )
    same(
        lambda x: cosine_loss(x, y, t, margin=0.1, reduction=reduction),
        lambda x: F.cosine_embedding_loss(x, b, torch.tensor(t), margin=0.1, reduction=reduction),
        x,
        rtol=1e-7,  # PyTorch adds 1e-12 to the squared lengths
    )
    same(
        lambda x: triplet(x, y, z, p=p, swap=swap, reduction=reduction),
        lambda x: F.triplet_margin_loss(x, b, c, p=p, swap=swap, reduction=reduction),
        x,
    )


@settings(max_examples=12)
@given(seed=SEEDS)
def test_focal_is_cross_entropy_where_gamma_is_0_and_its_formula_elsewhere(seed):
    rng = np.random.default_rng(seed)
    x, labels = rng.normal(size=(5, 4)), rng.integers(0, 4, size=5)
    np.testing.assert_allclose(focal(x, labels, gamma=0.0), cross_entropy(x, labels), rtol=1e-12)
    same(
        lambda x: focal(x, labels, gamma=1.7),
        lambda x: torch.mean(
            (lambda logs: -((1 - logs.exp()) ** 1.7) * logs)(F.log_softmax(x, 1)[torch.arange(5), torch.tensor(labels)])
        ),
        x,
    )


def test_the_poly_loss_is_cross_entropy_and_a_share_of_what_is_missed():
    rng = np.random.default_rng(3)
    x, labels = rng.normal(size=(5, 4)), rng.integers(0, 4, size=5)
    np.testing.assert_allclose(poly_cross_entropy(x, labels, epsilon=0.0), cross_entropy(x, labels), rtol=1e-12)
    same(
        lambda x: poly_cross_entropy(x, labels, epsilon=0.7),
        lambda x: torch.mean(
            (lambda logs: 0.7 * (1 - logs.exp()) - logs)(F.log_softmax(x, 1)[torch.arange(5), torch.tensor(labels)])
        ),
        x,
    )


def ctc_case(rng):
    times, rows, count, most = int(rng.integers(1, 9)), int(rng.integers(1, 4)), int(rng.integers(2, 5)), 4
    blank = int(rng.integers(count))
    others = np.delete(np.arange(count), blank)
    targets = rng.choice(others, size=(rows, most))
    inputs, lengths = rng.integers(1, times + 1, size=rows), rng.integers(0, most + 1, size=rows)
    return rng.normal(size=(times, rows, count)) * 2, targets, inputs, lengths, blank


@settings(max_examples=25)
@given(seed=SEEDS, reduction=REDUCTIONS)
def test_ctc_loss(seed, reduction):
    rng = np.random.default_rng(seed)
    x, targets, inputs, lengths, blank = ctc_case(rng)
    padded = np.where(np.arange(targets.shape[1]) < lengths[:, None], targets, -7)

    def ours(x, zero=True):
        logs = x - np.log(np.sum(np.exp(x), axis=2, keepdims=True))
        return ctc_loss(logs, padded, inputs, lengths, blank=blank, zero_infinity=zero, reduction=reduction)

    def theirs(x, zero=True):
        given_ = [torch.tensor(a) for a in (targets, inputs, lengths)]
        return F.ctc_loss(F.log_softmax(x, 2), *given_, blank=blank, reduction=reduction, zero_infinity=zero)

    np.testing.assert_allclose(ours(x, False), theirs(torch.tensor(x), False).numpy(), rtol=1e-9)
    same(ours, theirs, x, rtol=1e-9)


def test_weights_count_as_repetitions():
    rng = np.random.default_rng(1)
    x, labels, counts = rng.normal(size=(6, 3)), rng.integers(0, 3, size=6), np.array([0, 1, 2, 3, 1, 2])
    again = np.repeat(np.arange(6), counts)
    weights = rng.uniform(0.5, 2.0, size=3)
    for f in (
        lambda i, **k: cross_entropy(x[i], labels[i], class_weights=weights, label_smoothing=0.1, **k),
        lambda i, **k: cross_entropy(x[i], np.exp(x[i]), **k),
        lambda i, **k: nll_loss(x[i], labels[i], class_weights=weights, ignore_index=1, **k),
        lambda i, **k: mse(x[i], np.sin(x[i]), **k),
        lambda i, **k: huber(x[i, 0], np.sin(x[i, 1]), **k),
    ):
        np.testing.assert_allclose(f(np.arange(6), weights=counts), f(again), rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_what_goes_in_comes_out(dtype):
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=(2, 4, 3)).astype(dtype)
    labels = rng.integers(0, 3, size=4)
    made = [
        *[f(x, t) for f in (mse, mae, huber, smooth_l1, log_cosh, cosine_loss)],
        *[poisson_nll(x, np.abs(t)), hinge(x, np.sign(t))],
        *[f(x, t > 0) for f in (bce_with_logits, binary_focal, mse)],
        *[f(x, labels) for f in (cross_entropy, nll_loss, focal, poly_cross_entropy, multiclass_hinge)],
        cross_entropy(x, labels, class_weights=np.ones(3), label_smoothing=0.1, weights=np.ones(4)),
        cross_entropy(x, np.abs(t)),
        kl_div(x, np.abs(t)),
        bce(np.abs(x) / 9, t > 0),
        triplet(x, t, -t),
        gaussian_nll(x, t, np.abs(t)),
        ctc_loss(x[:, None], np.array([[1, 2]]), np.array([4]), np.array([2])),
    ]
    assert {np.asarray(y).dtype.name for y in made} == {dtype}


def test_extremes_stay_finite():
    x = np.array([[1e4, -1e4], [-1e4, 1e4]], np.float32)
    labels = np.array([0, 0])
    losses, gradient = ws.value_and_grad(lambda x: cross_entropy(x, labels, reduction="sum"))(x)
    assert losses == 2e4
    np.testing.assert_array_equal(gradient, [[0, 0], [-1, 1]])
    value, gradient = ws.value_and_grad(lambda x: bce_with_logits(x, np.zeros_like(x), reduction="sum"))(x)
    assert value == 2e4
    np.testing.assert_array_equal(gradient, [[1, 0], [0, 1]])
    impossible = np.array([[0.0, -np.inf]])
    gradient = ws.grad(lambda x: cross_entropy(x, np.array([0])))(impossible)
    np.testing.assert_array_equal(gradient, [[0, 0]])


def test_a_variance_that_is_too_small_can_grow():
    gradient = ws.grad(lambda v: gaussian_nll(np.zeros(1), np.ones(1), v))(np.array([1e-9]))
    assert gradient[0] < -1e5


def of_targets(name, targets):
    scores = [np.ones(2)] * (1 + (name == "margin_ranking"))
    return lambda: getattr(nn, name)(*scores, targets)


REFUSALS = {
    "shapes that would broadcast": (lambda: mse(np.ones((3, 1)), np.ones(3)), errors.ShapeError),
    "predictions that are integers": (lambda: mse(np.ones(3, int), np.ones(3)), errors.DtypeError),
    "complex predictions": (lambda: mae(np.ones(3) + 0j, np.ones(3)), errors.DtypeError),
    "a reduction that is not there": (lambda: mse(np.ones(3), np.ones(3), reduction="max"), errors.ParameterError),
    "weights that do not fit": (lambda: mse(np.ones((3, 2)), np.ones((3, 2)), weights=np.ones(2)), errors.ShapeError),
    "weights that are words": (lambda: mse(np.ones(1), np.ones(1), weights=["x"]), errors.DtypeError),
    "complex weights": (lambda: mse(np.ones(1), np.ones(1), weights=[1j]), errors.DtypeError),
    "targets that are words": (lambda: mse(np.ones(1), ["x"]), errors.DtypeError),
    "negative delta": (lambda: huber(np.ones(3), np.ones(3), delta=-1.0), errors.ParameterError),
    "a delta of 0": (lambda: huber(np.ones(3), np.ones(3), delta=np.float32(0.0)), errors.ParameterError),
    "epsilon below -1": (
        lambda: poly_cross_entropy(np.ones((3, 2)), np.zeros(3, int), epsilon=-1.5),
        errors.ParameterError,
    ),
    "negative gamma": (lambda: focal(np.ones((3, 2)), np.zeros(3, int), gamma=-1.0), errors.ParameterError),
    "smoothing beyond 1": (
        lambda: cross_entropy(np.ones((3, 2)), np.zeros(3, int), label_smoothing=1.5),
        errors.ParameterError,
    ),
    "a power of three": (lambda: multiclass_hinge(np.ones((3, 2)), np.zeros(3, int), power=3), errors.ParameterError),
    "labels that are booleans": (lambda: cross_entropy(np.ones((3, 2)), np.zeros(3, bool)), errors.DtypeError),
    "labels in another shape": (lambda: cross_entropy(np.ones((3, 2)), np.zeros((3, 1), int)), errors.ShapeError),
    "soft labels in another shape": (lambda: cross_entropy(np.ones((3, 2)), np.zeros(3)), errors.ShapeError),
    "soft targets to ignore": (
        lambda: cross_entropy(np.ones((3, 2)), np.zeros((3, 2)), ignore_index=0),
        errors.DtypeError,
    ),
    "an axis that is not there": (lambda: cross_entropy(np.ones((3, 2)), np.zeros(3, int), axis=2), errors.AxisError),
    "class weights of another number": (
        lambda: cross_entropy(np.ones((3, 2)), np.zeros(3, int), class_weights=np.ones(3)),
        errors.ShapeError,
    ),
    "a label that is negative": (lambda: nll_loss(np.ones((3, 2)), np.array([0, -1, 1])), errors.BoundsError),
    "a label too large": (lambda: multiclass_hinge(np.ones((3, 2)), np.array([0, 2, 1])), errors.BoundsError),
    **{
        f"targets of 0 and 1 in {name}": (of_targets(name, np.array([0, 1])), errors.ParameterError)
        for name in ("hinge", "hinge_embedding", "soft_margin", "margin_ranking")
    },
    **{
        f"targets of -1 and 1 in {name}": (of_targets(name, np.array([-1, 1])), errors.ParameterError)
        for name in ("bce", "bce_with_logits", "binary_focal", "dice", "poisson_nll")
    },
    "probabilities that are scores": (lambda: nn.bce(np.array([1.5]), np.array([1])), errors.ParameterError),
    "a blank too large": (
        lambda: ctc_loss(np.ones((3, 1, 2)), np.ones((1, 1), int), np.array([3]), np.array([1]), blank=2),
        errors.BoundsError,
    ),
    "an input too long": (
        lambda: ctc_loss(np.ones((3, 1, 2)), np.ones((1, 1), int), np.array([4]), np.array([1])),
        errors.BoundsError,
    ),
    "targets without an axis": (
        lambda: ctc_loss(np.ones((3, 1, 2)), np.ones(1, int), np.array([3]), np.array([1])),
        errors.ShapeError,
    ),
    "lengths of another number": (
        lambda: ctc_loss(np.ones((3, 1, 2)), np.ones((1, 1), int), np.array([3, 3]), np.array([1])),
        errors.ShapeError,
    ),
    "lengths that are no integers": (
        lambda: ctc_loss(np.ones((3, 1, 2)), np.ones((1, 1), int), np.array([3.0]), np.array([1])),
        errors.DtypeError,
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refused(name):
    call, error = REFUSALS[name]
    with pytest.raises(error, match=r"^\w+: ") as caught:
        call()
    assert "test_losses.py" in str(caught.value), "the message names the user's line"


def test_targets_of_a_margin_loss_are_looked_at_when_a_program_runs():
    step = ws.jit(lambda x, t: hinge(x, t))
    assert step(np.ones(2), np.array([1.0, -1.0])) == 1.0
    with pytest.raises(
        errors.BoundsError, match=r"hinge: there are targets other[\s\S]*test_losses.py[\s\S]*2 \* t - 1"
    ):
        step(np.ones(2), np.array([0.0, 1.0]))


def test_chances_are_looked_at_when_a_program_runs_and_may_be_rounded_or_missing():
    step = ws.jit(lambda x, t: nn.bce_with_logits(x, t))
    assert step(np.zeros(2), np.array([-1e-7, 1 + 1e-7])) == pytest.approx(np.log(2))
    assert np.isnan(step(np.zeros(2), np.array([0.0, np.nan])))
    with pytest.raises(errors.BoundsError, match=r"targets outside \[0, 1\][\s\S]*test_losses.py[\s\S]*\(t \+ 1\) / 2"):
        step(np.zeros(2), np.array([-1.0, 1.0]))


def test_the_message_of_a_label_outside_the_classes():
    with pytest.raises(IndexError, match=r"cross_entropy: label -1 at \[1, 0\], but there are 3 classes") as caught:
        cross_entropy(np.zeros((2, 2, 3)), np.array([[0, 2], [-1, 3]]))
    assert "hint: classes count from 0; ignore_index=" in str(caught.value)


@pytest.mark.parametrize("bad", [-1, 3, -4])
def test_a_label_outside_the_classes_leaves_a_compiled_step_as_it_was(bad):
    def loss(params, batch):
        return cross_entropy(batch["x"] @ params, batch["y"])

    rng = np.random.default_rng(0)
    batch = {"x": rng.normal(size=(4, 2)), "y": np.array([0, 1, 2, 1])}
    step = ws.compile(loss, np.ones((2, 3)), optimizer=ws.optim.sgd(0.1), batch=batch)
    step(batch)
    before = step.state
    with pytest.raises(errors.BoundsError, match=rf"label {bad}, but there are 3 classes[\s\S]*test_losses.py"):
        step({**batch, "y": np.array([0, bad, 2, 1])})
    after = step.state
    np.testing.assert_array_equal(after["params"], before["params"])
    assert after["counters"]["step"] == before["counters"]["step"] == 1
    ignoring = ws.jit(lambda x, y: cross_entropy(x, y, ignore_index=bad))
    x, y = rng.normal(size=(4, 3)), np.array([0, bad, 2, 1])
    np.testing.assert_allclose(ignoring(x, y), cross_entropy(x, y, ignore_index=bad), rtol=1e-12)


def test_compiled_losses_are_the_eager_ones():
    rng = np.random.default_rng(3)
    x, t = rng.normal(size=(2, 6, 4)).astype(np.float32)
    labels, lengths = rng.integers(1, 4, size=6), np.array([1, 0, 2, 1, 2, 2])
    times, targets = rng.normal(size=(5, 6, 4)).astype(np.float32), rng.integers(1, 4, size=(6, 2))

    def every(x, t, labels, times, targets, lengths):
        return (
            [f(x, t) for f in (mse, mae, huber, smooth_l1, log_cosh, cosine_loss)]
            + [poisson_nll(x, np.abs(t)), hinge(x, np.sign(t))]
            + [f(x, t > 0) for f in (bce_with_logits, binary_focal)]
            + [f(x, labels) for f in (cross_entropy, nll_loss, focal, multiclass_hinge)]
            + [cross_entropy(x, labels, label_smoothing=0.1, ignore_index=1, class_weights=np.arange(1, 5))]
            + [triplet(x, t, -t), gaussian_nll(x, t, np.abs(t)), cross_entropy(x, np.abs(t)), kl_div(x, np.abs(t))]
            + [ctc_loss(times, targets, np.full(6, 5), lengths)]
        )

    given_ = (x, t, labels, times, targets, lengths)

    def total(*args):
        return sum(every(*args))

    for found, expected in zip(ws.jit(every)(*given_), every(*given_), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5)
    for wrt in (0, 3):
        found, expected = ws.jit(ws.grad(total, wrt))(*given_), ws.grad(total, wrt)(*given_)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
