"""Layers and functions against loops over single numbers, eagerly, differentiated, and compiled."""

import itertools

import numpy as np
import pytest

import wholestep as ws
from wholestep import errors, nn

RNG = np.random.default_rng(5)


def compiled_too(f, *arrays, rtol=1e-5):
    """The result of f, which is the same compiled in float32, and whose gradients pass a check."""
    made = f(*arrays)
    inexact = tuple(i for i, a in enumerate(arrays) if np.issubdtype(a.dtype, np.floating))
    small = [a.astype(np.float32) if i in inexact else a for i, a in enumerate(arrays)]
    found = ws.jit(f)(*small)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, made, rtol=rtol, atol=rtol)

    def of(*floats):
        full = list(arrays)
        for i, x in zip(inexact, floats, strict=True):
            full[i] = x
        return np.sum(np.sin(f(*full)))

    ws.gradcheck(of, *[arrays[i] for i in inexact], order=1)
    return made


@pytest.mark.parametrize("stride, padding, dilation", [(1, 0, 1), (2, 1, 1), ((1, 2), (0, 2), (2, 1))])
def test_unfold_and_fold_are_loops_and_transposes(stride, padding, dilation):
    x, size = RNG.normal(size=(2, 3, 6, 7)), (2, 3)
    options = {"stride": stride, "padding": padding, "dilation": dilation}
    steps, around, apart = [(v, v) if isinstance(v, int) else v for v in (stride, padding, dilation)]
    wide = np.pad(x, ((0, 0), (0, 0), (around[0],) * 2, (around[1],) * 2))
    counts = [(wide.shape[2 + i] - (size[i] - 1) * apart[i] - 1) // steps[i] + 1 for i in range(2)]
    columns = []
    for row, column in itertools.product(*map(range, counts)):
        top, left = row * steps[0], column * steps[1]
        window = wide[:, :, top : top + size[0] * apart[0] : apart[0], left : left + size[1] * apart[1] : apart[1]]
        columns.append(window[:, :, : size[0], : size[1]].reshape(2, -1))
    made = compiled_too(lambda x: nn.unfold(x, size, **options), x)
    np.testing.assert_array_equal(made, np.stack(columns, axis=-1))
    pulled = RNG.normal(size=made.shape)
    back = compiled_too(lambda c: nn.fold(c, (6, 7), size, **options), pulled)
    np.testing.assert_allclose(np.sum(back * x), np.sum(pulled * made))


def test_fold_refuses_columns_of_another_image():
    with pytest.raises(errors.ShapeError, match="an image of"):
        nn.fold(np.ones((1, 4, 3)), (2, 3), 2)
    with pytest.raises(errors.ShapeError, match="do not divide"):
        nn.fold(np.ones((1, 5, 2)), (2, 3), 2)


@pytest.mark.parametrize(
    "mode, outside, align", [*itertools.product(["bilinear", "nearest"], ["zeros", "border"], [0, 1])]
)
def test_grid_sample_is_a_loop(mode, outside, align):
    x = RNG.normal(size=(2, 3, 4, 5))
    # Positions away from elements and from midpoints between elements, where the result has kinks or jumps.
    places = RNG.integers(-2, 6, size=(2, 3, 2, 2)) + RNG.uniform(0.1, 0.4, size=(2, 3, 2, 2))
    sizes = np.array([5, 4])
    grid = places * 2 / (sizes - 1) - 1 if align else (places * 2 + 1) / sizes - 1

    def element(n, c, row, column):
        return x[n, c, row, column] if 0 <= row < 4 and 0 <= column < 5 else 0.0

    expected = np.zeros((2, 3, 3, 2))
    for n, c, i, j in np.ndindex(expected.shape):
        place = [
            (g + 1) * (s - 1) / 2 if align else ((g + 1) * s - 1) / 2
            for g, s in zip(grid[n, i, j], (5, 4), strict=True)
        ]
        if outside == "border":
            place = [min(max(p, 0), s - 1) for p, s in zip(place, (5, 4), strict=True)]
        if mode == "nearest":
            expected[n, c, i, j] = element(n, c, round(place[1]), round(place[0]))
            continue
        for down, right in itertools.product((0, 1), (0, 1)):
            column, row = int(np.floor(place[0])) + right, int(np.floor(place[1])) + down
            share = (1 - abs(place[0] - column)) * (1 - abs(place[1] - row))
            expected[n, c, i, j] += share * element(n, c, row, column)

    def sampled(x, grid):
        return nn.grid_sample(x, grid, mode=mode, outside=outside, align_corners=bool(align))

    np.testing.assert_allclose(compiled_too(sampled, x, grid), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("align", [False, True])
def test_the_grid_of_the_identity_reads_the_image_itself(align):
    identity = np.tile(np.array([[1.0, 0, 0], [0, 1, 0]]), (2, 1, 1))
    x = RNG.normal(size=(2, 1, 3, 4))
    grid = compiled_too(lambda theta: nn.affine_grid(theta, (3, 4), align_corners=align), identity)
    np.testing.assert_allclose(nn.grid_sample(x, grid, align_corners=align), x, rtol=1e-12)


def test_sparsemax_is_the_nearest_point_of_the_simplex():
    x = RNG.normal(size=(6, 5)) * 1.5
    made = compiled_too(lambda x: nn.sparsemax(x, axis=0), x)
    np.testing.assert_allclose(made.sum(0), 1)
    assert (made == 0).any()
    for scores, found in zip(x.T, made.T, strict=True):
        low, high = scores.min() - 1, scores.max()
        for _ in range(80):  # by bisection, the level above which the excess sums to 1
            middle = (low + high) / 2
            low, high = (middle, high) if np.maximum(scores - middle, 0).sum() > 1 else (low, middle)
        np.testing.assert_allclose(found, np.maximum(scores - high, 0), atol=1e-12)


def test_gumbel_softmax_draws_by_the_probabilities_and_has_the_soft_gradient():
    logits = np.log(np.array([0.2, 0.5, 0.3]))
    drawn = nn.gumbel_softmax(np.tile(logits, (20_000, 1)), ws.random.key(0), hard=True)
    assert set(np.unique(drawn)) == {0.0, 1.0}
    np.testing.assert_allclose(drawn.mean(0), [0.2, 0.5, 0.3], atol=0.015)
    weights = RNG.normal(size=3)

    def scored(x, hard):
        return np.sum(weights * nn.gumbel_softmax(x, ws.random.key(1), temperature=0.7, hard=hard))

    np.testing.assert_allclose(ws.grad(scored)(logits, True), ws.grad(scored)(logits, False), rtol=1e-12)
    with pytest.raises(errors.ParameterError, match="temperature"):
        nn.gumbel_softmax(logits, ws.random.key(0), temperature=0)


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
def test_distances_are_norms_of_differences(p):
    x, y = RNG.normal(size=(2, 4, 3)), RNG.normal(size=(5, 3))
    made = compiled_too(lambda x, y: nn.pairwise_distances(x, y, p=p), x, y)
    for n, i, j in np.ndindex(made.shape):
        np.testing.assert_allclose(made[n, i, j], np.linalg.norm(x[n, i] - y[j], ord=p))
    assert not ws.grad(lambda x: nn.pairwise_distances(x, p=p).sum())(np.ones((3, 2))).any()


def test_contrasts_of_views_are_cross_entropies_by_hand():
    a, b = RNG.normal(size=(2, 4, 3))
    views = [v / np.linalg.norm(v) for v in (*a, *b)]
    losses = np.zeros(8)
    for i in range(8):
        scores = [views[i] @ views[j] / 0.3 for j in range(8) if j != i]
        losses[i] = np.log(np.sum(np.exp(scores))) - views[i] @ views[(i + 4) % 8] / 0.3
    made = compiled_too(lambda a, b: nn.nt_xent(a, b, temperature=0.3, reduction="none"), a, b)
    np.testing.assert_allclose(made, (losses[:4] + losses[4:]) / 2)


def test_overlaps_and_margins_by_hand():
    p, t = RNG.uniform(size=(3, 2, 4)), RNG.integers(0, 2, size=(3, 2, 4))
    made = compiled_too(lambda p: nn.dice(p, t, smooth=0.5, reduction="none"), p)
    for i in range(3):
        both, total = (p[i] * t[i]).sum(), p[i].sum() + t[i].sum()
        np.testing.assert_allclose(made[i], 1 - (2 * both + 0.5) / (total + 0.5))
    x, y = RNG.normal(size=(2, 6))
    sign = RNG.choice([-1, 1], size=6)
    ranked = compiled_too(lambda x, y: nn.margin_ranking(x, y, sign, margin=0.3, reduction="none"), x, y)
    np.testing.assert_allclose(ranked, [max(0, 0.3 - s * (a - b)) for a, b, s in zip(x, y, sign, strict=True)])
    embedded = nn.hinge_embedding(x, sign, margin=0.7, reduction="none")
    np.testing.assert_allclose(embedded, [a if s > 0 else max(0, 0.7 - a) for a, s in zip(x, sign, strict=True)])
    softly = nn.soft_margin(x * 300, sign, reduction="none")
    np.testing.assert_allclose(softly, [np.logaddexp(0, -s * 300 * a) for a, s in zip(x, sign, strict=True)])


@pytest.mark.parametrize("mode", ["mean", "sum", "max"])
def test_bags_are_joined_rows(mode):
    table, ids = RNG.normal(size=(7, 3)), RNG.integers(0, 7, size=(5, 4))
    mask = RNG.uniform(size=ids.shape) < 0.6
    mask[0] = False
    ids[1, 0] = ids[1, 1] = 2
    join = {"mean": np.mean, "sum": np.sum, "max": np.max}[mode]
    made = compiled_too(lambda table: nn.embedding_bag(table, ids, mode=mode, mask=mask, padding_idx=2), table)
    for bag, inside, found in zip(ids, mask, made, strict=True):
        rows = [table[i] for i, there in zip(bag, inside, strict=True) if there and i != 2]
        np.testing.assert_allclose(found, join(rows, axis=0) if rows else np.zeros(3))


def test_a_bag_mask_of_another_kind_is_refused():
    for mask in (np.ones((2, 3)), np.ones((2, 2), bool)):
        with pytest.raises(errors.ShapeError, match="mask"):
            nn.embedding_bag(np.ones((4, 2)), np.zeros((2, 3), int), mask=mask)
    with pytest.raises(errors.ParameterError, match="mode"):
        nn.EmbeddingBag(3, 2, key=0, mode="median")


def test_a_bilinear_form_is_a_sum_over_both_inputs():
    x, y, w, b = (RNG.normal(size=s) for s in ((4, 3), (4, 2), (5, 3, 2), (5,)))
    made = compiled_too(nn.bilinear, x, y, w, b)
    for n, k in np.ndindex(made.shape):
        np.testing.assert_allclose(made[n, k], x[n] @ w[k] @ y[n] + b[k])


@pytest.mark.parametrize("size", [1, 2, 5])
def test_local_response_norm_is_a_loop_over_neighbours(size):
    x = RNG.normal(size=(2, 4, 3))
    made = compiled_too(lambda x: nn.local_response_norm(x, size, alpha=0.7, beta=0.6, k=1.5), x)
    for n, c, i in np.ndindex(x.shape):
        near = [x[n, j, i] ** 2 for j in range(c - size // 2, c + (size - 1) // 2 + 1) if 0 <= j < 4]
        np.testing.assert_allclose(made[n, c, i], x[n, c, i] / (1.5 + 0.7 * sum(near) / size) ** 0.6)


@pytest.mark.parametrize("mode, named", [("reflect", "reflect"), ("replicate", "edge"), ("circular", "wrap")])
def test_padding_modes_are_those_of_np_pad(mode, named):
    x, w = RNG.normal(size=(2, 3, 5, 6)), RNG.normal(size=(4, 3, 3, 3))
    pairs = ((1, 2), (0, 1))
    made = compiled_too(lambda x, w: nn.conv2d(x, w, padding=pairs, padding_mode=mode), x, w)
    np.testing.assert_allclose(made, nn.conv2d(np.pad(x, ((0, 0), (0, 0), *pairs), mode=named), w), rtol=1e-12)
    layer = nn.Conv2d(3, 4, 3, key=0, padding=1, padding_mode=mode)
    plain = nn.conv2d(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), mode=named), layer.weight, layer.bias)
    np.testing.assert_allclose(layer(x), plain, rtol=1e-6)


def test_paddings_that_an_image_cannot_give_are_refused():
    x, w = np.ones((1, 1, 3, 3)), np.ones((1, 1, 1, 1))
    with pytest.raises(errors.ShapeError, match="reflect"):
        nn.conv2d(x, w, padding=3, padding_mode="reflect")
    with pytest.raises(errors.ParameterError, match="padding_mode"):
        nn.conv2d(x, w, padding=1, padding_mode="mirror")
    with pytest.raises(errors.ParameterError, match="padding_mode"):
        nn.ConvTranspose2d(1, 1, 3, key=0, padding_mode="reflect")


def cubic(distance, a=-0.75):
    d = abs(distance)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


@pytest.mark.parametrize("length", [3, 5, 11])
def test_new_modes_of_upsampling_are_weighted_sums(length):
    x = RNG.normal(size=(1, 1, 5, 4))
    made = compiled_too(lambda x: nn.upsample(x, size=(length, 4), mode="bicubic"), x)
    for i, j in np.ndindex(length, 4):
        at = (i + 0.5) * 5 / length - 0.5
        taps = range(int(np.floor(at)) - 1, int(np.floor(at)) + 3)
        total = sum(cubic(at - tap) * x[0, 0, min(max(tap, 0), 4), j] for tap in taps)
        np.testing.assert_allclose(made[0, 0, i, j], total, atol=1e-12)
    pooled = compiled_too(lambda x: nn.upsample(x, size=(length, 4), mode="area"), x)
    np.testing.assert_allclose(pooled, nn.adaptive_avg_pool(x, (length, 4)), rtol=1e-12)


def test_alpha_dropout_keeps_mean_and_variance():
    x = RNG.normal(size=200_000)
    for p in (0.1, 0.5):
        made = nn.alpha_dropout(x, p, ws.random.key(3))
        assert abs(made.mean()) < 0.02 and abs(made.std() - 1) < 0.02
        values, counts = np.unique(made.round(9), return_counts=True)
        assert abs(counts.max() / x.size - p) < 0.01, values[counts.argmax()]
    assert not nn.alpha_dropout(x, 1.0, None).any()
    assert nn.alpha_dropout(x, 0.0, None) is x


@pytest.mark.parametrize("make", [lambda: nn.Linear(5, 3, key=0), lambda: nn.Conv2d(2, 3, 3, key=0)])
def test_a_normalized_weight_begins_as_it_was_and_trains(make):
    layer = make()
    x = RNG.normal(size=(4, 5) if isinstance(layer, nn.Linear) else (4, 2, 5, 5)).astype(np.float32)
    normed = nn.WeightNorm(layer)
    np.testing.assert_allclose(normed(x), layer(x), rtol=1e-5, atol=1e-6)
    assert sorted(nn.named_parameters(normed)) == ["direction", "gain", "layer.bias"]
    assert layer.weight is not None
    step = ws.compile(lambda m, x: np.mean(m(x) ** 2), normed, optimizer=ws.optim.sgd(0.1), batch=x)
    losses = [step(x).loss for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
    long = step.model.direction * 3
    step.set(params={**step.params, "direction": long})
    np.testing.assert_allclose(step(x).loss, np.mean(np.asarray(step.model(x)) ** 2), rtol=0.2)


@pytest.mark.parametrize("make", [lambda: nn.Linear(6, 4, key=0), lambda: nn.Conv2d(2, 3, 3, key=0)])
def test_a_spectral_norm_comes_to_one(make):
    layer = make()
    matrix = np.asarray(layer.weight)
    matrix = matrix.T if matrix.ndim == 2 else matrix.reshape(matrix.shape[0], -1)
    normed = nn.SpectralNorm(layer, key=1, steps=40)
    x = RNG.normal(size=(4, 6) if isinstance(layer, nn.Linear) else (4, 2, 5, 5)).astype(np.float32)
    layer.bias = normed.layer.bias = None
    np.testing.assert_allclose(normed(x) * np.linalg.norm(matrix, 2), layer(x), rtol=1e-3, atol=1e-5)
    held = np.array(normed.left)
    normed.eval()(x)
    np.testing.assert_array_equal(normed.left, held)
    step = ws.compile(lambda m, x: np.mean(m(x) ** 2), normed, optimizer=ws.optim.sgd(0.1), batch=x)
    first = np.array(step.buffers["left"])
    step(x)
    assert step.buffers["left"].shape == first.shape
    with pytest.raises(errors.ParameterError, match="LayerNorm"):
        nn.SpectralNorm(nn.LayerNorm(3), key=0)


@pytest.mark.parametrize("taps", [3, 5])
@pytest.mark.parametrize("size", [(7, 9), (3, 20), (15, 4), (1, 18)])
def test_lanczos_resampling(taps, size):
    x = RNG.normal(size=(2, 3, 7, 9))

    def along(count, length):
        made = np.zeros((count, length))
        for new in range(length):
            for old in range(count):
                d = abs((new + 0.5) * count / length - 0.5 - old) / max(count / length, 1)
                made[old, new] = np.sinc(d) * np.sinc(d / taps) if d < taps else 0
        return made / made.sum(axis=0)

    expected = np.einsum("nchw,hi,wj->ncij", x, along(7, size[0]), along(9, size[1]))
    mode = f"lanczos{taps}"
    np.testing.assert_allclose(nn.upsample(x, size=size, mode=mode), expected, atol=1e-13)
    ws.gradcheck(lambda x: nn.upsample(x, size=size, mode=mode), x, order=1)
    small = ws.jit(lambda x: nn.upsample(x, size=size, mode=mode))(x.astype(np.float32))
    np.testing.assert_allclose(small, expected, atol=1e-5)
    jax = pytest.importorskip("jax", reason="JAX is an outside oracle; not installed")
    with jax.enable_x64(True):
        theirs = jax.image.resize(x, (2, 3, *size), mode)
    np.testing.assert_allclose(expected, theirs, atol=1e-13)


@pytest.mark.parametrize("way", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize(
    "make", [lambda: nn.Linear(6, 4, key=0), lambda: nn.Linear(4, 4, key=0), lambda: nn.Conv2d(2, 3, 3, key=0)]
)
def test_an_orthogonal_weight_stays_orthogonal(make, way):
    layer = make()
    weight = np.asarray(layer.weight)
    matrix = weight.T if weight.ndim == 2 else weight.reshape(weight.shape[0], -1)
    held = nn.Orthogonal(layer, map=way)
    tall = matrix if matrix.shape[0] >= matrix.shape[1] else matrix.T
    q, r = np.linalg.qr(tall.astype(float))
    begin = q * np.sign(np.diagonal(r))
    np.testing.assert_allclose(held.orthonormal(), begin if tall is matrix else begin.T, atol=1e-6)
    x = RNG.normal(size=(4, weight.shape[0]) if weight.ndim == 2 else (4, 2, 5, 5)).astype(np.float32)
    step = ws.compile(lambda m, x: np.mean((m(x) - 1) ** 2), held, optimizer=ws.optim.adam(0.05), batch=x)
    losses = [step(x).loss for _ in range(50)]
    assert losses[-1] < losses[0]
    found = np.asarray(step.model.orthonormal())
    assert not np.allclose(found, np.asarray(held.orthonormal()), atol=1e-2)
    few = found @ found.T if found.shape[0] <= found.shape[1] else found.T @ found
    np.testing.assert_allclose(few, np.eye(len(few)), atol=3e-6)
    layer.weight = found.T if weight.ndim == 2 else found.reshape(weight.shape)
    layer.bias = step.model.layer.bias
    np.testing.assert_allclose(step.model(x), layer(x), atol=1e-5)
    assert nn.decay_flags(held) == {"raw": False, "layer.bias": False}


def test_orthogonal_weights_of_other_dtypes():
    held = nn.Orthogonal(nn.Linear(4, 3, key=0, dtype="float16"))
    assert held.orthonormal().dtype == np.float16
    np.testing.assert_allclose(held.orthonormal() @ held.orthonormal().T, np.eye(3), atol=2e-3)
    layer = nn.Linear(4, 3, key=0, bias=False)
    layer.weight = RNG.normal(size=(4, 3)) + 1j * RNG.normal(size=(4, 3))
    for way in ("matrix_exp", "cayley"):
        held = nn.Orthogonal(layer, map=way)
        held.raw = RNG.normal(size=(4, 3)) + 1j * RNG.normal(size=(4, 3))
        made = held.orthonormal()
        np.testing.assert_allclose(made @ made.conj().T, np.eye(3), atol=1e-12)
    for give, says in (
        (lambda: nn.Orthogonal(layer, map="householder"), "complex"),
        (lambda: nn.Orthogonal(nn.Linear(4, 3, key=0), map="exp"), "map is 'exp'"),
        (lambda: nn.Orthogonal(nn.LayerNorm(3)), "LayerNorm"),
    ):
        with pytest.raises(errors.ParameterError, match=rf"^Orthogonal: .*{says}"):
            give()


def test_a_decoder_block_sees_nothing_later_and_all_of_its_context():
    block = nn.TransformerDecoderBlock(8, 2, key=0)
    x, context = RNG.normal(size=(1, 5, 8)), RNG.normal(size=(1, 3, 8))
    slopes = ws.jacrev(lambda x: np.sum(block(x, context)[0], axis=-1))(x)[:, 0].any(-1)
    np.testing.assert_array_equal(slopes, np.tril(np.ones((5, 5), bool)))
    seen = ws.jacrev(lambda c: np.sum(block(x, c)[0], axis=-1))(context)[:, 0].any(-1)
    assert seen.all()
    hidden = np.array([True, True, False])
    masked = ws.jacrev(lambda c: np.sum(block(x, c, context_mask=hidden)[0], axis=-1))(context)[:, 0].any(-1)
    np.testing.assert_array_equal(masked, np.tile(hidden, (5, 1)))
    after = nn.TransformerDecoderBlock(8, 2, key=0, norm_first=False)
    np.testing.assert_allclose(after(x, context).mean(-1), 0, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "int16", "bool"])
@pytest.mark.parametrize(("axis", "k", "largest"), [(-1, 3, True), (0, 2, True), (1, 5, False), (-2, 0, True)])
def test_top_k_is_a_prefix_of_a_stable_order(dtype, axis, k, largest):
    x = np.random.default_rng(3).integers(0, 4, (4, 6)).astype(dtype)
    found, places = nn.top_k(x, k, axis, largest=largest)
    for a, b in zip(ws.jit(lambda x: nn.top_k(x, k, axis, largest=largest))(x), (found, places), strict=True):
        np.testing.assert_array_equal(a, b)
    rows = np.moveaxis(x, axis, -1)
    assert found.dtype == x.dtype and places.dtype == np.int64
    for row, values, order in zip(rows, np.moveaxis(found, axis, -1), np.moveaxis(places, axis, -1), strict=True):
        wanted = sorted(range(len(row)), key=lambda i, row=row: (-int(row[i]) if largest else int(row[i]), i))[:k]
        assert order.tolist() == wanted and np.array_equal(values, row[wanted])


def test_top_k_takes_nan_for_the_largest_and_has_the_derivative_of_what_it_takes():
    values, places = nn.top_k(np.array([1.0, np.nan, 3.0, -np.inf]), 2)
    assert np.isnan(values[0]) and values[1] == 3.0 and places.tolist() == [1, 2]
    slopes = ws.grad(lambda x: np.sum(nn.top_k(x, 2)[0] * np.array([2.0, 3.0])))(np.array([1.0, 5.0, 4.0]))
    assert slopes.tolist() == [0.0, 2.0, 3.0]


@pytest.mark.parametrize(("k", "axis"), [(4, -1), (-1, -1), (2.0, 0), (1, 2)])
def test_a_top_k_that_makes_no_sense_is_refused(k, axis):
    with pytest.raises((errors.ParameterError, errors.AxisError), match="top_k"):
        nn.top_k(np.ones((5, 3)), k, axis)
