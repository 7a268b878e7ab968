"""x[mask] inside jit and vmap, where its length is unknown: NumPy's values, eager derivatives, and clear refusals."""

import operator

import numpy as np
import pytest

import wholestep as ws
import wholestep.numpy as wnp
from wholestep import nn
from wholestep.errors import BoundsError, MutationError, ValueDependentError, WholestepError

RNG = np.random.default_rng(5)
M = np.array([1, 0, 1, 1, 0, 1, 0], bool)
BAD = np.array([np.nan, np.inf, -np.inf])
V = RNG.uniform(0.5, 3.0, 7)
V[~M] = BAD
ROWS = RNG.uniform(0.5, 3.0, (7, 3))
ROWS[~M] = BAD[:, None]
WHOLE = RNG.integers(-4, 5, 7)
W = RNG.normal(size=(3, 2))
TABLE = RNG.normal(size=(5, 3))

SAME = {
    "sum": lambda v, r, m: np.sum(v[m]) + v[m].sum() + np.sum(v[m], axis=0) + np.add.reduce(v[m]),
    "row sums": lambda v, r, m: r[m].sum(axis=0) + np.sum(r[m], 0, keepdims=True)[0] + np.sum(r[m]),
    "across": lambda v, r, m: (r[m].sum(axis=1) * v[m]).sum() + r[m].max(axis=-1).sum() + np.prod(r[m], (0, 1)),
    "mean": lambda v, r, m: v[m].mean() * r[m].mean(0) + np.average(v[m]),
    "weighted": lambda v, r, m: np.average(v[m], weights=v[m] ** 2) * np.average(r[m], axis=0, weights=v[m]),
    "extrema": lambda v, r, m: np.log(v[m]).max() + v[m].min() + r[m].max(axis=0) - np.amin(r[m], axis=0),
    "spread": lambda v, r, m: np.var(v[m]) + v[m].std(ddof=1) + np.std(r[m], axis=0) + np.ptp(v[m]),
    "prod": lambda v, r, m: np.prod(v[m]) + r[m].prod(axis=0),
    "truth": lambda v, r, m: np.any(v[m] > 2.9) + np.all(v[m] > 0) + 2.0 * np.any(r[m] > 1, axis=0),
    "counts": lambda v, r, m: np.count_nonzero(v[m] > 1) + v[m].size + r[m].size + r[m].shape[0] + 0.0 * np.sum(v[m]),
    "positions": lambda v, r, m: v[m].argmax() + 10 * np.argmin(v[m]) + r[m].argmax(axis=1).sum() + v[m].sum(),
    "quantiles": lambda v, r, m: np.median(v[m]) + np.quantile(v[m], 0.3) + np.percentile(r[m], 80, axis=0),
    "nan": lambda v, r, m: np.nansum(v[m]) + np.nanmean(r[m], axis=0) + np.nanmax(v[m]) + np.nanmedian(v[m]),
    "norm": lambda v, r, m: np.linalg.norm(v[m]) + np.linalg.norm(r[m]) + np.linalg.norm(r[m], axis=0),
    "norms": lambda v, r, m: (
        np.linalg.norm(r[m], axis=1).sum() + np.linalg.norm(v[m], 1) + np.linalg.norm(v[m], np.inf)
    ),
    "operators": lambda v, r, m: (-v[m] + abs(v[m]) + 2 / v[m] - 1 + v[m] // 0.7 + v[m] % 0.7 + 2.0 ** v[m]).sum(),
    "comparisons": lambda v, r, m: ((v[m] > 1) & ~(v[m] >= 2) | (v[m] == 1) | (v[m] != v[m])).sum() * 1.0,
    "entropy": lambda v, r, m: -(v[m] * np.log(v[m])).sum(),
    "scalar": lambda v, r, m: (v[0] / v[m] + v[m] ** v[0] + np.arctan2(v[0], v[m])).sum(),
    "row operand": lambda v, r, m: ((r[m] - r[0]) * np.array([1.0, 2.0, 3.0]) / r[m].mean(axis=0)).sum(axis=0),
    "columns": lambda v, r, m: (r[m][:, 0] * v[m] + r[m, 1] + r[m][..., 2]).sum() + (v[m][:, None] * r[m]).sum(0),
    "narrower": lambda v, r, m: v[m][v[m] > 1].sum() + r[m][r[m] > 1].mean(),
    "ravel": lambda v, r, m: r[m].ravel().max() + r[m].flatten().sum() + np.ravel(v[m]).sum(),
    "elementwise": lambda v, r, m: (np.clip(v[m], 1, 2) + np.where(v[m] > 1, v[m], 0.0) + np.sinc(v[m])).sum(),
    "more": lambda v, r, m: (np.round(v[m], 1) + np.isclose(v[m], 1) + np.ones_like(v[m]) + np.nan_to_num(v[m])).sum(),
    "select": lambda v, r, m: np.select([v[m] > 2, v[m] > 1], [np.sqrt(v[m]), v[m]], 0.5).sum(),
    "astype": lambda v, r, m: v[m].astype(np.float32).astype(np.float64).sum() + v[m].astype(int).sum(),
    "vdot": lambda v, r, m: np.vdot(v[m], v[m]) + np.vdot(r[m], r[m]) + r[m].reshape(-1).sum(),
    "matmul": lambda v, r, m: (r[m] @ W).sum(axis=0)[0] + v[m] @ v[m] + np.dot(v[m], v[m]) + (r[m] @ r[0]).sum(),
    "contraction": lambda v, r, m: v[m] @ r[m],
    "divmod": lambda v, r, m: sum([part.sum() for part in divmod(v[m], 0.4)]) + np.modf(v[m])[0].sum(),
    "complex": lambda v, r, m: (np.sqrt(v[m] * 1j).real + abs(1 / (v[m] + 1j)) + np.angle(v[m] - 2j)).sum(),
    "compressed": lambda v, r, m: np.compress(m, r, axis=0).sum(axis=0) + np.compress(m, v).sum() + v.compress(m).max(),
    "extracted": lambda v, r, m: np.log(np.extract(m, v)).sum() + np.delete(v, ~m).sum() + np.delete(r, ~m, 0).sum(0),
    "one or none": lambda v, r, m: v[m[0]].shape[0] + (v[m[0]][:, ::3] * 2.0)[:, 0].sum() + v[m[1]].sum(),
    "some columns": lambda v, r, m: r[m][:, [0, 2]].sum(axis=0)[0] + r[m][:, np.array([True, False, True])].sum(),
    "running": lambda v, r, m: np.cumsum(r[m], axis=1).sum(axis=0) + np.sort(r[m], axis=-1)[:, 0].sum(),
    "table": lambda v, r, m: wnp.array(TABLE)[np.floor(v[m]).astype(int)].sum(axis=0),
    "piecewise": lambda v, r, m: np.piecewise(v, [m], [lambda u: u - u.mean() + np.log(u), 0.0]).sum(),
    "piecewise scalar": lambda v, r, m: np.piecewise(v[0] * 1.0, [v[0] > 0], [np.log, np.exp]) + 0.0,
    "variance of a choice": lambda v, r, m: np.var(v, where=m) + np.std(r, axis=0, where=m[:, None]),
    "divided": lambda v, r, m: sum(
        [p.sum() for p in np.divmod(v, 0.4, out=(np.zeros_like(v), np.zeros_like(v)), where=m)]
    ),
}


def written(change):
    """A program that changes a copy of v and then reads the elements under the mask."""

    def program(v, r, m):
        v, r = v.copy(), r.copy()
        change(v, r, m)
        return np.where(m, v, 0.0).sum() + np.where(m[:, None], r, 0.0).sum(axis=0)

    return program


def in_place(v, r, m):
    v[m] *= 2
    v[m] **= 0.5
    r[m] -= v[0]
    r[m, 1] /= v[m]
    r[m] += np.ones((1, 3))


def copied(v, r, m):
    s, t = v[m], r[m]
    v[0] = 5.0
    r[...] = 2.0
    v[m] += s
    r[m] += t


def shared(v, r, m):
    s = v[m]
    t = s
    s += 1.0
    s[s > 2] = 0.25
    s[:] = s * 2
    np.exp(s, out=s)
    v[m] = t
    u = r[m]
    u[:, 0] = 3.0
    u[:, 1] *= 2
    r[m] = u


def changed_mask(v, r, m):
    k = m.copy()
    s = v[k]
    k[0] = False
    v[0] = s.sum()
    v[m] = s


def from_above(v, r, m):
    v[m] = r[m][:, 1]
    r[m] = v[m][:, None]
    v[1:][m[1:]] += 1.0
    np.add.at(v, m, 2.0)


SAME |= {f.__name__: written(f) for f in (in_place, copied, shared, changed_mask, from_above)}


def gradients(f):
    """The gradient of the sum of a program's results."""
    return ws.grad(lambda v, r, m: np.sum(f(v, r, m)), argnums=(0, 1))


def eager(f):
    """The values of f without a trace: NumPy's own, if the program is plain NumPy."""
    with np.errstate(all="ignore"):
        return f(V, ROWS, M)


@pytest.mark.parametrize("name", SAME)
def test_chosen_elements_mean_what_they_mean_in_numpy(name):
    f = SAME[name]
    want = eager(f)
    slopes = gradients(f)(V, ROWS, M)
    assert all(np.isfinite(s).all() and not np.any(s[~M]) for s in slopes), slopes
    value, traced = ws.jit(lambda v, r, m: (f(v, r, m), gradients(f)(v, r, m)), device="reference")(V, ROWS, M)
    assert np.shape(value) == np.shape(want) and np.allclose(value, want, rtol=1e-13)
    for made, slope in zip(traced, slopes, strict=True):
        assert np.allclose(made, slope, rtol=1e-11, atol=1e-13), (made, slope)
    mapped = ws.vmap(f)(V[None], ROWS[None], M[None])
    assert np.allclose(mapped[0], want, rtol=1e-13)
    if f is not SAME["changed_mask"]:  # a plain array that changes after its use is refused
        constant = ws.jit(lambda v, r: f(v, r, M), device="reference")
        assert np.allclose(constant(V, ROWS), want, rtol=1e-13)


def test_compiled_programs_mean_the_same():
    every = ws.jit(lambda v, r, m: [(f(v, r, m), gradients(f)(v, r, m)) for f in SAME.values()])
    for (name, f), (value, slopes) in zip(SAME.items(), every(V, ROWS, M), strict=True):
        assert np.allclose(value, eager(f), rtol=1e-13), name
        for made, slope in zip(slopes, gradients(f)(V, ROWS, M), strict=True):
            assert np.allclose(made, slope, rtol=1e-11, atol=1e-13), name


REFUSED = {
    "result": lambda x: x[x > 0],
    "len": lambda x: len(x[x > 0]),
    "first": lambda x: x[x > 0][0],
    "two index arrays": lambda x: (x[:, None] * np.ones(2))[x > 0, [1]].sum(),
    "part": lambda x: x[x > 0][::2].sum(),
    "sort": lambda x: np.sort(x[x > 0]),
    "cumsum": lambda x: np.cumsum(x[x > 0]),
    "joined": lambda x: np.concatenate([x[x > 0], x]),
    "two masks": lambda x: (x[x > 0] + x[x > 1]).sum(),
    "beside": lambda x: (x[x > 0] + x).sum(),
    "loop": lambda x: [v for v in x[x > 0]],
    "float": lambda x: float(x[x > 0]),
    "if": lambda x: 1 if x[x > 0] else 2,
    "stack": lambda x: wnp.stack([x[x > 0]]),
    "other mask": lambda x: x.copy().__setitem__(x > 1, x[x > 0]),
    "no mask": lambda x: x.copy().__setitem__(slice(None), x[x > 0]),
    "left matmul": lambda x: np.ones((2, 3)) @ x[x > 0],
    "method": lambda x: x[x > 0].byteswap(),
    "grad": lambda x: ws.grad(lambda v: v.sum())(x[x > 0]),
    "vmap": lambda x: ws.vmap(lambda v: v * 2)(x[x > 0]),
    "scan": lambda x: ws.scan(lambda c, v: (c + v, c), 0.0, x[x > 0]),
    "carry": lambda x: ws.fori_loop(0, 3, lambda i, v: v + 1, x[x > 0]),
    "checkpoint": lambda x: ws.checkpoint(lambda v: v.sum())(x[x > 0]),
    "activation": lambda x: nn.relu(x[x > 0]),
    "in place": lambda x: np.add(x, x[x > 0], out=x.copy()),
    "added": lambda x: operator.iadd(x.copy(), x[x > 0]),
    "reshape": lambda x: x[x > 0].reshape(-1, 1),
    "ufunc method": lambda x: np.add.accumulate(x[x > 0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_length_is_refused_with_the_line(name):
    with pytest.raises(
        ValueDependentError, match=r"a mask chooses from (f64|bool)\[3(.|\n)*test_selections.py:\d+"
    ) as caught:
        ws.jit(REFUSED[name])(np.ones(3))
    assert "Selection" not in str(caught.value)


def test_marks_are_put_on_chosen_elements():
    f = lambda x: (ws.stop_gradient(x[x > 0]) * ws.keep(x[x > 0]) * ws.capture("h", x[x > 0])).sum()  # noqa: E731
    assert (
        ws.jit(ws.grad(f))(np.array([2.0, -1.0])).tolist() == ws.grad(f)(np.array([2.0, -1.0])).tolist() == [8.0, 0.0]
    )


def test_a_mask_may_be_written_twice_however_it_is_made():
    def f(x):
        outliers = lambda: np.abs(x - np.mean(x)) > 1.1 * np.std(x)  # noqa: E731
        return (x[outliers()] * np.log(x[outliers()])).sum()

    x = np.array([1.0, 2.0, 3.0, 9.0, 0.5])
    assert np.isclose(ws.jit(f, device="reference")(x), f(x))


def test_a_method_that_no_array_has():
    with pytest.raises(AttributeError, match="'Array' object has no attribute 'foo'"):
        ws.jit(lambda x: x[x > 0].foo)(np.ones(3))


@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_the_extremum_of_nothing_is_an_error_when_it_is_met(device):
    f = ws.jit(lambda x: (np.max(x[x > 0]), np.min(x[x > 0], initial=7.0)), device=device)
    assert f(np.array([1.0, 2.0])) == (2.0, 1.0)
    with pytest.raises(BoundsError, match=r"test_selections\.py"):
        f(np.zeros(2))


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize(
    "name, way_out", [("max", "initial="), ("amin", "initial="), ("argmin", "cond"), ("ptp", "cond")]
)
def test_the_extremum_of_nothing_names_its_call(name, way_out, device):
    f = ws.jit(lambda x: getattr(np, name)(x[x > 0]), device=device)
    assert f(np.array([2.0, 3.0])) == getattr(np, name)([2.0, 3.0])
    with pytest.raises(BoundsError, match=f"^{name}: no element to choose from(.|\n)*test_selections(.|\n)*{way_out}"):
        f(np.zeros(2))


def test_the_sum_and_mean_of_nothing_are_numpys():
    total, mean, product = ws.jit(lambda x: (x[x > 9].sum(), x[x > 9].mean(), x[x > 9].prod()))(V[M])
    assert total == 0 and np.isnan(mean) and product == 1


def test_integers_are_chosen_too():
    f = lambda n: (n[n > 0].max(), n[n > 0].min(), n[n != 0].prod(), (12 // n[n != 0]).sum(), n[n > 0].mean())  # noqa: E731
    got = ws.jit(f)(WHOLE)
    for a, b in zip(got, f(WHOLE), strict=True):
        assert a == b and np.asarray(a).dtype == np.asarray(b).dtype


CONSTANT = {
    "ratio": lambda x: x[M] / V[M],
    "matmul": lambda x: x[M] @ ROWS[M],
    "shape": lambda x: np.ones(x[M].shape) * x[M],
    "result": lambda x: x[M],
    "column": lambda x: (x[:, None] * np.ones(3))[M, 1],
    "traced twice": lambda x: x[wnp.array(M)][0] + x[M][1:].sum(),
    "write": lambda x: written(lambda v, r, m: v.__setitem__(M, V[M] * x[M]))(x, ROWS, M),
    "sorted": lambda x: np.sort(x[M])[::-1],
}


@pytest.mark.parametrize("name", CONSTANT)
def test_a_plain_mask_is_its_indices(name):
    f = CONSTANT[name]
    x = np.where(M, V, 3.0)
    want = f(x)
    for made in (ws.jit(f, device="reference")(x), ws.vmap(f)(x[None])[0]):
        assert np.shape(made) == np.shape(want) and np.allclose(made, want, rtol=1e-14)
    slope = ws.grad(lambda x: np.sum(f(x) ** 2))(x)
    assert np.allclose(ws.jit(ws.grad(lambda x: np.sum(f(x) ** 2)), device="reference")(x), slope, rtol=1e-13)


def test_plain_masks_in_a_compiled_step():
    def objective(p, batch):
        return np.sum((p["x"][M] / V[M] - batch["y"]) ** 2)

    step = ws.compile(objective, {"x": np.ones(7)}, optimizer=ws.optim.sgd(0.1), batch={"y": np.zeros(4)})
    assert np.isclose(step({"y": np.zeros(4)}).loss, np.sum(V[M] ** -2))


@pytest.mark.parametrize("index", ["rows", "columns"])
def test_a_plain_mask_that_changes_is_noticed(index):
    mask = M.copy()
    f = ws.jit(lambda x: x[mask].sum() if index == "rows" else x.T[:, mask].sum(), device="reference")
    x = np.ones((7, 2))
    assert f(x) == 8
    mask[:] = True
    with pytest.raises(MutationError):
        f(x)


def test_masked_training_moves():
    def entropy(p, batch):
        w = p["w"]
        return -(w[w > 0] * np.log(w[w > 0])).sum() + np.divide(1.0, w, out=np.zeros_like(w), where=w > 0).sum()

    step = ws.compile(entropy, {"w": np.array([0.0, 0.5, -1.0])}, optimizer=ws.optim.sgd(0.1), batch={"z": np.zeros(1)})
    assert step({"z": np.zeros(1)}).loss == pytest.approx(-0.5 * np.log(0.5) + 2)
    want = 0.5 - 0.1 * (-np.log(0.5) - 1 - 4)
    assert np.allclose(step.params["w"], [0.0, want, -1.0])


def test_errors_are_ours():
    for f in (lambda x: x[x > 0] + np.ones((2, 2)), lambda x: x.copy().__setitem__(x > 0, np.ones((2, 2)))):
        with pytest.raises(WholestepError):
            ws.jit(f)(np.ones(3))


WHERE = {
    "sum": np.sum,
    "prod": np.prod,
    "mean": np.mean,
    "var": np.var,
    "std": np.std,
    "max": lambda x, **k: np.max(x, initial=0.0, **k),
    "min": lambda x, **k: np.min(x, initial=9.0, **k),
    "any": lambda x, **k: np.any(x > 2, **k) * np.sum(x, **k),
    "add.reduce": np.add.reduce,
    "maximum.reduce": lambda x, **k: np.maximum.reduce(x, initial=0.0, **k),
    "hypot.reduce": np.hypot.reduce,
    "nansum": np.nansum,
    "nanmean": np.nanmean,
    "nanvar": np.nanvar,
    "nanstd": lambda x, **k: np.nanstd(x, ddof=1, **k),
    "nanprod": np.nanprod,
}


@pytest.mark.parametrize("name", WHERE)
def test_where_of_a_reduction_leaves_out_of_derivatives_too(name):
    f = WHERE[name]
    masked = lambda x, m: f(x, where=m)  # noqa: E731
    want, slope = f(V[M]), ws.grad(f)(V[M])
    for run in (lambda g: g(V, M), lambda g: ws.jit(g, device="reference")(V, M)):
        assert np.isclose(run(masked), want, rtol=1e-14)
        made = run(ws.grad(masked))
        assert np.allclose(made[M], slope, rtol=1e-13) and not np.any(made[~M]), made
        twice = run(ws.grad(lambda x, m: np.sum(ws.grad(masked)(x, m)[0] ** 2)))
        assert np.isfinite(twice).all() and not np.any(twice[~M]), twice


def test_masks_over_an_axis_of_symbolic_size():
    size = ws.Dim("n")

    def objective(p, batch):
        r = batch["x"] @ p["w"]
        x = batch["x"] * p["w"]
        x[r > 0] -= 1.0
        y = r.copy()
        y[y > 0] **= 0.5
        return np.max(r[r > 0]) + np.std(x[r > 0], axis=0).sum() + np.mean(np.log(r[r > 0])) + y.sum() / y[y > 0].size

    params, x = {"w": np.ones(3)}, RNG.normal(size=(8, 3))
    kinds = {"x": ws.ShapeDtype((size, 3), "float64")}
    step = ws.compile(objective, params, optimizer=ws.optim.sgd(0.1), batch=kinds)
    value, slopes = ws.value_and_grad(objective)(params, {"x": x})
    assert np.isclose(step({"x": x}).loss, value)
    assert np.allclose(step.params["w"], 1 - 0.1 * slopes["w"])


@pytest.mark.parametrize("write", [False, True])
def test_a_mask_behind_another_axis_is_refused_at_its_line_with_the_way_out(write):
    def f(x):
        x = x.copy()
        m = x[0] > 0
        if write:
            x[:, m] = 0.0
            return x
        return x[:, m]

    with pytest.raises(ValueDependentError) as caught:
        ws.jit(f)(ROWS)
    line = "x[:, m] = 0.0" if write else "return x[:, m]"
    assert line in str(caught.value) and "hint: np.where(mask, x, other)" in str(caught.value)
