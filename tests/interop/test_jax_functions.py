"""Functions of JAX are functions here: numbers, derivatives, trees, keys, loops and errors beside JAX."""

import functools
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.ode import odeint
from scipy import special

import wholestep as ws
from wholestep.errors import DtypeError, ShapeError, TreeError, UnsupportedError
from wholestep.interop.jax.operators import PRIMITIVES
from wholestep.interop.jax.program import DRAWN, RULED


@pytest.fixture(autouse=True)
def single_precision():
    """JAX as it is by default: other tests of this process may have turned numbers of 64 bits on."""
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", False)
    yield
    jax.config.update("jax_enable_x64", before)


RNG = np.random.default_rng(3)


def f(*shape):
    return RNG.normal(size=shape).astype(np.float32)


def positive(*shape):
    return RNG.uniform(0.2, 2.0, shape).astype(np.float32)


def integers(*shape, high=9):
    return RNG.integers(1, high, shape).astype(np.int32)


@jax.custom_vjp
def doubled(x):
    return jnp.sin(x)


doubled.defvjp(lambda x: (jnp.sin(x), x), lambda kept, g: (2 * g * jnp.cos(kept),))


@jax.custom_jvp
def halved(x):
    return jnp.sin(x)


halved.defjvp(lambda primals, tangents: (jnp.sin(primals[0]), 0.5 * tangents[0]))


@jax.custom_batching.custom_vmap
def batched(x):
    return 2 * jnp.sin(x)


batched.def_vmap(lambda n, on, x: (batched(x), on[0]))
lax = jax.lax


def bounds(x, rows):
    return lax.pmax(x, rows) - 2 * lax.pmin(x, rows)


CAPTURED = jnp.array([1.0, 2.0, 3.0])


@jax.custom_vjp
def weighed(x):
    return x * CAPTURED


weighed.defvjp(lambda x: (weighed(x), x), lambda kept, g: (5 * g * CAPTURED,))


def later(a, b):
    """The larger number with its place, the later one of equals."""
    return jnp.maximum(a[0], b[0]), jnp.where(a[0] > b[0], a[1], b[1])


@jax.custom_jvp
def drawn(key, x):
    return x * jax.random.normal(key, x.shape)


drawn.defjvp(lambda primals, tangents: (drawn(*primals), 2 * tangents[1]))


SPD = (lambda a: a @ a.T + 3 * np.eye(4, dtype=np.float32))(f(4, 4))
GROUPS = np.array([2, 0, 4], np.int32)


def ragged(sums, rows, batch=None):
    """The numbers of axes of a product of groups: a pair that is summed, the groups' axis, a pair of batches."""
    batches = ((), ()) if batch is None else ((batch[0],), (batch[1],))
    return lax.RaggedDotDimensionNumbers((((sums[0],), (sums[1],)), batches), rows, [])


CASES = {
    "arithmetic": (lambda x, y: x * y - x / (y * y + 1) + x**3 - 2**x + (-x) ** 2, f(3), f(3)),
    "powers": (lambda x: x**-2 + jnp.sqrt(x) + lax.rsqrt(x) + jnp.cbrt(x) + x**0.3 + jnp.exp2(x), positive(4)),
    "trigonometry": (lambda x: jnp.tan(x) + jnp.arctan2(x, 2.0) + jnp.sinh(x) + jnp.cosh(x) + jnp.arctan(x), f(4)),
    "inverses": (lambda x: jnp.arcsin(x / 3) + jnp.arccos(x / 3) + jnp.arcsinh(x) + jnp.arctanh(x / 3), positive(4)),
    "above one": (lambda x: jnp.arccosh(x + 1) + jnp.log(x) + jnp.log1p(x) + jnp.expm1(x), positive(4)),
    "special": (lambda x: lax.lgamma(x) + lax.digamma(x) + lax.erf(x) + lax.erfc(x) + lax.erf_inv(x / 3), positive(4)),
    "bessel": (lambda x: lax.bessel_i0e(x) + lax.bessel_i1e(x), positive(4)),
    "zeta": (lambda x: lax.zeta(x + 2, 1.5) + lax.polygamma(1.0, x), positive(3)),
    "rounding": (lambda x: jnp.floor(x) + jnp.ceil(x) + jnp.round(x) + lax.round(x) + jnp.sign(x) + x, f(5)),
    "remainders": (lambda x: lax.rem(x, 0.7) + jnp.mod(x, 0.7) + lax.clamp(-1.0, x, 1.0) + jnp.abs(x), f(5)),
    "comparisons": (
        lambda x, y: jnp.where((x > y) & (x != 0) | ~(x <= y), x, jnp.maximum(x, jnp.minimum(y, 0.1))),
        f(4),
        f(4),
    ),
    "finite": (lambda x: jnp.where(jnp.isfinite(1 / x), x, 0.0), f(4)),
    "complex": (
        lambda x: jnp.abs(lax.complex(x, 2 * x) * jnp.conj(1j * x + 1)) + jnp.real(jnp.exp(1j * x)),
        positive(3),
    ),
    "integers": (lambda i: (i // 2 * 3 - i % 4, i << 2, i >> 1, i ^ 5, i | 8, i & 3, ~i, -(-i // 3)), integers(6)),
    "division": (lambda i: (lax.div(-i, 3), lax.rem(-i, 3), lax.shift_right_logical(-i, 3)), integers(6)),
    "bits": (lambda i: (lax.population_count(i), lax.clz(i), lax.bitcast_convert_type(i, np.float32)), integers(6)),
    "dtypes": (lambda x: (x.astype(np.int32), x > 0, x.astype(np.float16), lax.reduce_precision(x, 8, 7)), f(4)),
    "narrow numbers": (
        lambda x: [lax.reduce_precision(x, *bits) for bits in [(5, 2), (4, 3), (8, 10), (5, 10), (8, 7)]],
        np.array([0.3, -1e-5, 200.0, -230.0, 0.0146, 1.0625, 1.1875, 0.0], np.float32),
    ),
    "truth": (
        lambda x: (jnp.all(x > 0), jnp.any(x > 0, axis=1), (x > 0) ^ (x < 1), jnp.argmax(x), jnp.argmin(x, 0)),
        f(2, 3),
    ),
    "reductions": (lambda x: x.sum(0) + x.max(0) - x.min(0) + x.prod(0) + x.mean() + x.var(), f(4, 3)),
    "bitwise": (
        lambda i: (
            lax.reduce_and_p.bind(i, axes=(0,)),
            lax.reduce_or_p.bind(i, axes=(0,)),
            lax.reduce_xor_p.bind(i, axes=(0,)),
        ),
        integers(4, 3),
    ),
    "running": (lambda x: jnp.cumsum(x, 0) + jnp.cumprod(x, 1) + lax.cummax(x) + lax.cummin(x, reverse=True), f(4, 3)),
    "running sums of powers": (lambda x: lax.cumlogsumexp(x, 0), f(4, 3)),
    "general": (lambda x: lax.reduce(x, np.float32(2), lax.add, (0,)), f(4, 3)),
    "general windows": (
        lambda x: (
            lax.reduce_window(x, 1.0, lax.mul, (2, 1), (1, 2), "VALID")
            + lax.reduce_window(x, 0.5, lax.add, (2, 1), (1, 2), "SAME")[:3]
        ),
        f(4, 3),
    ),
    "min pool": (lambda x: lax.reduce_window(x, np.inf, lax.min, (2,), (2,), "VALID"), f(8)),
    "sorts": (lambda x: jnp.sort(x, 0) + jnp.take_along_axis(x, jnp.argsort(x, 1), 1), f(4, 3)),
    "several keys": (lambda i, x: lax.sort((i, x, 2 * x), num_keys=2), integers(6, high=3), f(6)),
    "largest": (lambda x: lax.top_k(x, 2), f(3, 5)),
    "nearly largest": (lambda x: lax.approx_max_k(x, 2)[0], f(3, 5)),
    "shapes": (lambda x: jnp.concatenate([x.reshape(3, 2).T, x[::-1], jnp.tile(x[:, :1], (1, 3))])[1:, ::2], f(2, 3)),
    "places": (
        lambda x: jnp.expand_dims(jnp.moveaxis(jnp.stack([x, x]), 0, -1), 0).squeeze(0) + jnp.arange(2),
        f(2, 3),
    ),
    "parts": (lambda x: jnp.split(x, [1, 3], axis=1) + list(jnp.unstack(x)), f(2, 5)),
    "padding": (lambda x: lax.pad(x, np.float32(7), [(1, 0, 1), (-1, 2, 0)]), f(3, 3)),
    "reads": (lambda x, i: x[i] + x[i, 1:2] + x[:, i].T[:, :3] + x[i[0]], f(3, 3), integers(3, high=3)),
    "outside": (
        lambda x, i: jnp.asarray(x).at[i].get(mode="fill", fill_value=-1) + jnp.asarray(x).at[i].get(mode="clip"),
        f(4),
        integers(5),
    ),
    "writes": (
        lambda x, i: (
            jnp.asarray(x).at[i].add(2.0).at[0, 1].set(3.0).at[1].subtract(0.5).at[:, 0].multiply(2.0).at[i].max(0.5)
        ),
        f(4, 3),
        integers(3, high=4),
    ),
    "writes outside": (
        lambda x, i: jnp.asarray(x).at[i].add(1.0).at[i + 2].set(3.0, mode="drop").at[0].min(0.0),
        f(4),
        integers(3),
    ),
    "windows at a place": (
        lambda x, i: lax.dynamic_update_slice(x, lax.dynamic_slice(x, (i[0], 1), (2, 2)), (0, i[1])),
        f(4, 4),
        integers(2),
    ),
    "products of groups": (lambda x, w: lax.ragged_dot(x, w, GROUPS), f(7, 3), f(3, 3, 2)),
    "products of groups that are summed": (
        lambda x, y, z: (
            lax.ragged_dot_general(x, y, GROUPS, ragged((0, 0), [0])),
            lax.ragged_dot_general(z, z, np.full(2, 1, np.int32), ragged((1, 1), [0], (0, 0))),
        ),
        f(7, 3),
        f(7, 2),
        f(2, 3, 4),
    ),
    "products": (
        lambda x, y: jnp.einsum("bij,bkj->bik", x, y) + jnp.matmul(x, jnp.swapaxes(y, 1, 2)),
        f(2, 3, 4),
        f(2, 5, 4),
    ),
    "wide products": (
        lambda x, y: lax.dot(x, y, preferred_element_type=np.float32),
        f(2, 3).astype(np.float16),
        f(3, 2).astype(np.float16),
    ),
    "convolution": (
        lambda x, w: lax.conv_general_dilated(
            x, w, (2, 1), [(1, 2), (0, 1)], dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=2
        ),
        f(2, 6, 5, 4),
        f(3, 2, 2, 6),
    ),
    "dilated convolution": (
        lambda x, w: lax.conv_general_dilated(x, w, (1,), [(2, 1)], (2,), (2,)),
        f(2, 3, 7),
        f(4, 3, 3),
    ),
    "transposed convolution": (lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), f(1, 3, 3, 2), f(3, 3, 2, 4)),
    "grouped batches": (
        lambda x, w: lax.conv_general_dilated(x, w, (1,), "VALID", batch_group_count=2),
        f(4, 3, 5),
        f(4, 3, 2),
    ),
    "max pool": (lambda x: lax.reduce_window(x, -np.inf, lax.max, (1, 3, 2), (1, 2, 1), "SAME"), f(2, 7, 5)),
    "mean pool": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 2), "VALID", window_dilation=(1, 2)),
        f(2, 9),
    ),
    "its slope": (
        jax.grad(lambda x: jnp.sum(jnp.sin(lax.reduce_window(x, -np.inf, lax.max, (1, 3), (1, 2), "SAME")))),
        f(2, 7),
    ),
    "solve": (lambda a, b: jnp.linalg.solve(a, b), SPD, f(4, 2)),
    "matrices": (
        lambda a: jnp.linalg.inv(a) + jnp.linalg.cholesky(a) + jnp.linalg.slogdet(a)[1] + jnp.linalg.det(a),
        SPD,
    ),
    "spectrum": (lambda a: jnp.linalg.eigh(a)[0] + jnp.linalg.svd(a, compute_uv=False), SPD),
    "triangle": (lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True, trans=1), SPD, f(4)),
    "orthogonal": (lambda a: jnp.abs(jnp.linalg.qr(a)[1]), SPD),
    "fourier": (
        lambda x: jnp.abs(jnp.fft.fft(x)) + jnp.fft.irfft(jnp.fft.rfft(x) * 2.0) + jnp.real(jnp.fft.ifft(x)),
        f(2, 6),
    ),
    "scan": (lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c.sum()), jnp.zeros(3), x, reverse=True), f(4, 3)),
    "counted": (lambda x: lax.fori_loop(0, 3, lambda i, v: v * 0.9 + i, x), f(3)),
    "cond": (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), f(3)),
    "slope of a cond": (jax.grad(lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x).sum()), f(3)),
    "switch": (lambda i, x: lax.switch(i[0], [jnp.sin, jnp.cos, lambda x: x], x), integers(2, high=4), f(3)),
    "rules": (lambda x: doubled(x) + halved(2 * x) + jax.nn.relu(x) + jax.nn.gelu(x), f(4)),
    "checkpoint": (jax.checkpoint(lambda x: jnp.sin(jnp.cos(x))), f(4)),
    "barrier": (
        lambda x: lax.optimization_barrier((x, 2 * x))[1] + lax.stop_gradient(jax.device_put(jnp.array(x, copy=True))),
        f(4),
    ),
    "collectives": (
        jax.vmap(lambda x: x * lax.pmean(x, "rows") + bounds(lax.stop_gradient(x), "rows"), axis_name="rows"),
        f(3, 4),
    ),
    "counters": (lambda x: jnp.zeros(()).at[...].set(x.sum()) + jnp.ones(()).at[...].add(x[0]), f(3)),
    "keys of a batch": (
        lambda x: (
            jax.vmap(lambda k: jax.random.uniform(jax.random.split(k, 4)[3], (2,)))(
                jax.random.split(jax.random.key(1), 3)
            ).sum()
            * x
        ),
        f(3),
    ),
    "named": (lambda x: checkpoint_name(jax.nn.sigmoid(x), "h") + jnp.imag(1j * x), f(4)),
    "sigmoid of complex numbers": (lambda x: jnp.real(jax.nn.sigmoid(x + 2j * x)), f(4)),
    "batched by rule": (batched, f(3)),
    "platforms": (lambda x: lax.platform_dependent(x, cpu=lambda x: 2 * x, default=lambda x: x), f(3)),
    "associative": (lambda x: lax.associative_scan(jnp.multiply, x), f(5)),
    "next": (lambda x: lax.nextafter(x, x + 1), f(3)),
    "factors": (lambda a: lax.linalg.lu(a)[2], SPD),
    "stateless": (lambda x: x * jax.random.normal(jax.random.PRNGKey(3), x.shape), f(2, 3)),
    "keys": (lambda x: x + jax.random.uniform(jax.random.split(jax.random.clone(jax.random.key(1)), 3)[1], (3,)), f(3)),
    "draws": (
        lambda x: (
            jax.random.permutation(jax.random.fold_in(jax.random.key(1), 7), x)
            + jax.random.bernoulli(jax.random.key(2), 0.5, (5,))
        ),
        f(5),
    ),
    "orders": (
        lambda a, x: (
            *(jnp.searchsorted(a, x), jnp.searchsorted(a, x, side="right")),
            *(lax.lt_to_p.bind(a, x), lax.le_to_p.bind(x, a), jnp.nonzero(x, size=3)[0]),
        ),
        np.arange(4, dtype=np.float32),
        np.array([-0.0, 0, 2.5, np.nan], np.float32),
    ),
    "words": (
        lambda x, i: (
            lax.bitcast_convert_type(x, np.int32),
            lax.bitcast_convert_type(i, np.float32),
            lax.population_count(i),
        ),
        np.array([0, -0.0, 1, -2.5, np.inf, -np.inf, 3e38, 2**-126], np.float32),
        np.array([0, 1 << 30, -(1 << 31), 0x7F800000, 0x3F800001], np.int32),
    ),
    "draws from a key": (lambda key, x: x * jax.random.normal(key, (4,)), np.array([0, 3], np.uint32), f(4)),
    "products at": (
        lambda x, i, v: jnp.asarray(x).at[i].multiply(v),
        f(5),
        np.array([1, 1, 3, 9], np.int32),
        np.array([2, 3, 4, 5], np.float32),
    ),
    "functions at": (
        lambda x, i: (jnp.asarray(x).at[i].apply(jnp.cos), jnp.asarray(x).at[1:3].apply(lambda a: 2 * a + 1)),
        f(4, 3),
        np.array([0, 0, 9, 2], np.int32),
    ),
    "any body": (lambda x: lax.reduce(x, -np.inf, jnp.logaddexp, (0, 2)), f(3, 2, 5)),
    "windows of any body": (
        lambda x, i: (
            lax.reduce_window((x, i), (-np.inf, np.int32(0)), later, (2, 3), (1, 2), "SAME"),
            lax.reduce_window(x > 0, False, lax.bitwise_or, (2, 1), (1, 1), "VALID"),
        ),
        f(4, 7),
        integers(4, 7),
    ),
    "gammas": (
        lambda a: jax.random.gamma(jax.random.key(0), a) + jax.random.loggamma(jax.random.key(1), a),
        positive(3),
    ),
    "rules that close over arrays": (lambda x: jax.jit(weighed)(x), f(3)),
    "ordinary differential equations": (
        lambda y, w: odeint(lambda y, t, w: -w * y, y, jnp.linspace(0.0, 1.0, 4), w),
        positive(2),
        positive(2),
    ),
    "keys with a rule": (lambda x: drawn(jax.random.key(3), x), f(3)),
    "eigenvalues": (lambda a: jnp.abs(jnp.linalg.eigvals(a)).sum() ** 2, f(4, 4)),
    "forms": (lambda a: (jax.scipy.linalg.schur(a), jnp.abs(jnp.linalg.eig(a)[1])), f(4, 4)),
    "choices": (
        lambda x: jax.random.categorical(jax.random.key(4), x) + jax.random.randint(jax.random.key(5), (2,), 0, 9),
        f(2, 5),
    ),
}
LOOP = (lambda x: lax.while_loop(lambda v: v.sum() < 9, lambda v: v * 2, x), positive(3))
ROUGH = {
    "zeta": 1e-4,
    "special": 3e-5,
    "matrices": 1e-4,
    "solve": 1e-4,
    "fourier": 3e-5,
    "spectrum": 1e-4,
}
WITHOUT_SLOPE = {
    "products of groups that are summed",
    *("zeta", "next", "general", "general windows", "batched by rule", "products at", "words"),
    *("functions at", "windows of any body", "forms"),
}
"""Cases without a derivative in JAX, or whose derivative there ignores the initial value."""
FAST = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def leaves(x):
    return [np.asarray(a) for a in jax.tree_util.tree_leaves(x)]


def called_by(function):
    """The primitives of a function, also inside of its loops and branches."""
    names = set()

    def note(program):
        for call in program.calls:
            names.add(call.name)
            for x in call.params.values():
                for body in x if isinstance(x, tuple) else [x]:
                    if hasattr(body, "program"):
                        note(body.program)

    for program, _ in function.programs.values():
        note(program)
    return names


def agree(name, found, wanted, rough):
    assert len(found) == len(wanted), name
    for x, y in zip(found, wanted, strict=True):
        assert (x.shape, x.dtype) == (y.shape, y.dtype), name
        if y.dtype.kind in "fc" and y.dtype != np.float16:
            np.testing.assert_allclose(
                x, y, rtol=rough, atol=rough * max(1, np.abs(y[np.isfinite(y)]).max(initial=0)), err_msg=name
            )
        else:
            np.testing.assert_array_equal(x, y, err_msg=name)


def total(apply, args, xp):
    """A number from all results that are float32, as a function of the arguments that are."""
    places = places_of(args)

    def of(*given):
        known = dict(zip(places, given, strict=True))
        outs = jax.tree_util.tree_leaves(apply(*[known.get(k, x) for k, x in enumerate(args)]))
        return sum((xp.sum(xp.sin(x)) for x in outs if x.dtype == np.float32), np.float32(0))

    return of


def places_of(args):
    return [k for k, x in enumerate(args) if x.dtype == np.float32]


def oracle(name):
    """A case in JAX: its results and gradients."""
    function, *args = CASES[name]
    if name in WITHOUT_SLOPE or not places_of(args):
        return lambda args: (function(*args), ())

    def of(args):
        floats = [args[k] for k in places_of(args)]
        return function(*args), jax.grad(total(function, args, jnp), argnums=range(len(floats)))(*floats)

    return of


@pytest.mark.parametrize("names", [list(CASES)[i : i + 8] for i in range(0, len(CASES), 8)], ids=", ".join)
def test_functions_give_the_numbers_and_gradients_of_jax(names):
    """The cases of a group are one program of JAX, since its compilations take most of the time."""
    together = jax.jit(lambda given: {name: oracle(name)(given[name]) for name in names}, compiler_options=FAST)
    wanted = together({name: CASES[name][1:] for name in names})
    for name in names:
        function, *args = CASES[name]
        rough = ROUGH.get(name, 1e-5)
        values, slopes = wanted[name]
        mine = ws.from_jax(function, *args)
        agree(name, leaves(mine(*args)), leaves(values), rough)
        if slopes:
            floats = [args[k] for k in places_of(args)]
            made = ws.grad(total(mine, args, np), argnums=tuple(range(len(floats))))(*floats)
            agree(f"slopes of {name}", leaves(made), leaves(slopes), 30 * rough)


def test_incomplete_functions_are_those_of_scipy():
    x = positive(4)
    mine = ws.from_jax(lambda x: (lax.igamma(2.0, x), lax.igammac(1.5, x), lax.betainc(2.0, 3.0, x / 3)), x)
    wanted = special.gammainc(2.0, x), special.gammaincc(1.5, x), special.betainc(2.0, 3.0, x / 3)
    agree("incomplete", leaves(mine(x)), [a.astype(np.float32) for a in wanted], 3e-6)
    slope, w = ws.from_jax(jax.grad(lambda a: lax.igamma(a, x).sum()), x + 1), np.float64(x + 1)
    apart = [(special.gammainc(w + 1e-4, x) - special.gammainc(w - 1e-4, x)) / 2e-4]
    agree("slope in the order", leaves(ws.jit(slope)(x + 1)), [a.astype(np.float32) for a in apart], 1e-5)


ENDS = np.array([0, -0.0, 1e-7, -1e-7, 0.5, -3, 1e8, 1e10, -1e10, 3e38, np.inf, -np.inf], np.float32)
FAR = {
    "a reciprocal of a power": (lambda x: lax.integer_pow(x, -3), 1e-37),
    "i1e": (lax.bessel_i1e, 1e-6),
}


@pytest.mark.parametrize("name", FAR)
def test_slopes_far_out_and_at_poles_are_those_of_jax(name):
    """Squares of powers overflow where the derivative of their reciprocal does not; SciPy's `ive` is NaN far out."""
    function, least = FAR[name]
    mine = ws.from_jax(function, ENDS)
    found = ws.jit(ws.grad(lambda x: np.sum(mine(x))))(ENDS)
    wanted = jax.grad(lambda x: function(x).sum())(ENDS)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=least)


def test_a_rule_without_results_is_passed_over():
    nothing = jax.custom_jvp(lambda: ())
    nothing.defjvp(lambda primals, tangents: ((), ()))
    x = f(3)
    mine = ws.from_jax(lambda x: (nothing(), jnp.sum(x**2))[1], x)
    np.testing.assert_allclose(ws.grad(mine)(x), 2 * x, rtol=1e-6)


@pytest.mark.parametrize("function", [lambda x: jnp.ldexp(x, 2), lambda x: jnp.frexp(x)[0] * jnp.frexp(x)[1]])
def test_rules_with_results_of_integers(function):
    x = np.array([1.0, 2.0, 3.0], np.float32)
    mine = ws.from_jax(lambda x: jnp.sum(function(x)), x)
    np.testing.assert_allclose(ws.grad(mine)(x), jax.grad(lambda x: function(x).sum())(x))


def test_clamp_has_no_slope_where_a_value_is_a_bound():
    low, high = np.full(7, -1, np.float32), np.full(7, 3, np.float32)
    low[6], high[5] = 3, 1
    given = low, np.array([-2, -1, 0, 3, 4, 1, np.nan], np.float32), high

    def weighed(*xs):
        return (lax.clamp(*xs) * np.arange(1, 8, dtype=np.float32)).sum()

    mine = ws.from_jax(weighed, *given)
    assert_same = np.testing.assert_array_equal
    for found in (ws.grad(mine, argnums=(0, 1, 2)), ws.jit(ws.grad(mine, argnums=(0, 1, 2)))):
        for made, wanted in zip(found(*given), jax.grad(weighed, (0, 1, 2))(*given), strict=True):
            assert_same(made, wanted)
    assert_same(ws.from_jax(lax.clamp, *given)(*given), lax.clamp(*given))


@pytest.mark.parametrize("name", ["orders", "words", "draws from a key", "products at"])
def test_what_is_traced_gives_the_bits_and_orders_of_jax(name):
    function, *args = CASES[name]
    agree(name, leaves(ws.jit(ws.from_jax(function, *args))(*args)), leaves(function(*args)), 1e-6)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_stays_what_it_is(dtype):
    x = np.asarray(jnp.array([[0.25, 0.5], [0.75, 1.5]], dtype))
    of = lambda x: (jax.nn.sigmoid(x), jax.nn.gelu(x, approximate=False), lax.lgamma(x), lax.erf_inv(x / 2), x @ x)  # noqa: E731
    mine, wanted = ws.from_jax(of, x), leaves(of(jnp.asarray(x)))
    for found in (leaves(mine(x)), leaves(ws.jit(mine)(x))):
        for a, b in zip(found, wanted, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a.astype(float), b.astype(float), rtol=0.02, atol=0.01)


def test_a_loop_in_a_batch_ends_for_each_element_by_itself():
    function = jax.vmap(lambda x: lax.while_loop(lambda v: v.sum() < 9, lambda v: v * 2, x))
    x = positive(5, 3)
    mine = ws.from_jax(function, x)
    for found in (mine(x), ws.jit(mine)(x)):
        agree("while", leaves(found), leaves(function(x)), 1e-6)


def test_a_loop_without_a_count_stays_one():
    function, x = LOOP
    mine = ws.from_jax(function, x)
    agree("while", leaves(ws.jit(mine)(x)), leaves(function(x)), 1e-6)
    assert "while" in called_by(mine)


def test_functions_compile_batch_and_take_trees():
    params = {"w": f(3, 2), "layers": [f(2), f(2)]}
    apply = lambda p, x: (jnp.tanh(x @ p["w"] + p["layers"][0]) * p["layers"][1]).sum()  # noqa: E731
    mine, x = ws.from_jax(apply, params, np.ones(3, np.float32)), f(5, 3)
    agree(
        "a batch",
        leaves(ws.jit(ws.vmap(mine, in_axes=(None, 0)))(params, x)),
        leaves(jax.vmap(apply, (None, 0))(params, x)),
        1e-5,
    )
    step = ws.compile(ws.from_jax(apply), params, optimizer=ws.optim.sgd(0.1), batch=x)
    gradient = jax.grad(apply)(params, x)
    step(x)
    np.testing.assert_allclose(step.params["w"], params["w"] - 0.1 * gradient["w"], rtol=1e-5)


def test_what_is_not_covered_is_listed_at_once():
    def odd(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct((3,), np.float32), x) + lax.rng_uniform(0.0, 1.0, (3,))

    with pytest.raises(
        UnsupportedError, match=r"2 primitives of JAX are not covered\n  pure_callback.*\n  rng_uniform"
    ):
        ws.from_jax(odd, np.ones(3, np.float32))


@pytest.mark.parametrize("dtype", [jnp.float8_e4m3fn, jnp.int4])
def test_numbers_of_a_few_bits_are_refused_when_the_function_is_read(dtype):
    with pytest.raises(
        UnsupportedError, match=r"convert_element_type with (float8_e4m3fn|int4) +at test_jax_functions"
    ):
        ws.from_jax(lambda x: x.astype(dtype).astype(x.dtype), np.ones(3, np.float32))


def test_what_is_not_covered_inside_of_a_draw_has_the_line_of_the_draw():
    with pytest.raises(UnsupportedError, match=r"rng_bit_generator +at test_jax_functions.py"):
        ws.from_jax(lambda s: jax.random.normal(jax.random.key(s, impl="rbg"), (3,)), np.int32(1))


def test_numpy_does_not_warn_where_jax_does_not():
    x = np.array([0, 1], np.float32)
    mine = ws.from_jax(lambda x: jnp.where(x > 0, jnp.log(x), 0), x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert mine(x).tolist() == [0, 0]


def test_arguments_that_differ_from_the_examples_are_refused():
    mine = ws.from_jax(lambda x: jnp.sin(x["y"][1]), {"y": (1, np.ones(3, np.float32))})
    with pytest.raises(ShapeError, match=r"from_jax: args\[0\]\['y'\]\[1\] is f32\[4\]"):
        mine({"y": (1, np.ones(4, np.float32))})
    with pytest.raises(DtypeError, match=r"from_jax: args\[0\]\['y'\]\[1\] is f64\[3\], and JAX made float32"):
        mine({"y": (1, np.ones(3))})
    with pytest.raises(TreeError, match="the examples were"):
        mine(np.ones(3, np.float32))


@jax.tree_util.register_pytree_with_keys_class
class Affine:
    """A layer registered as a tree in JAX, and its width as static data."""

    def __init__(self, w, b, width):
        self.w, self.b, self.width = w, b, width

    def tree_flatten_with_keys(self):
        key = jax.tree_util.GetAttrKey
        return ((key("w"), self.w), (key("b"), self.b)), self.width

    @classmethod
    def tree_unflatten(cls, width, children):
        return cls(*children, width)


def test_classes_that_jax_knows_as_trees_are_trees_here():
    layers = [Affine(f(3, 2), f(2), 2), None, Affine(f(2, 1), None, 1)]
    x = f(4, 3)

    def loss(layers, x):
        h = jnp.tanh(x @ layers[0].w + layers[0].b) * layers[0].width
        return jnp.sum(h @ layers[2].w)

    mine = ws.from_jax(loss, layers, x)
    slopes, wanted = ws.grad(mine)(layers, x), jax.grad(loss)(layers, x)
    assert type(slopes[0]) is Affine and (slopes[0].width, slopes[2].b) == (2, None)
    assert ws.tree.paths(layers) == ["[0].w", "[0].b", "[2].w"]
    agree("layers", leaves(slopes), leaves(wanted), 1e-5)
    step = ws.compile(mine, layers, optimizer=ws.optim.sgd(0.1), batch=x)
    step(x)
    agree("trained", leaves(step.params), leaves(jax.tree.map(lambda p, g: p - 0.1 * g, layers, wanted)), 1e-5)


def test_typed_keys_are_arguments_and_results_as_their_words():
    def split(key, x):
        key, own = jax.random.split(key)
        return key, x * jax.random.normal(own, x.shape)

    key, x = jax.random.key(3), f(4)
    wanted, numbers = split(key, x)
    for mine in (ws.from_jax(split, key, x), ws.from_jax(split)):
        for given in (key, np.asarray(jax.random.key_data(key))):
            words, found = mine(given, x)
            assert words.tolist() == jax.random.key_data(wanted).tolist()
            agree("numbers", [found], [numbers], 1e-6)
    with pytest.raises(DtypeError, match=r"buffers is a.* PRNGKeyArray(.|\n)*key_data"):
        ws.compile(lambda p, b, x: (np.sum(p * x), b), x, buffers=key, batch=x)


def test_a_collective_over_devices_is_refused():
    with pytest.raises(UnsupportedError, match="a collective over the axis 'rows' of a mesh"):
        PRIMITIVES["psum"](f(3), axes=("rows",))


OTHER_NAMES = {
    *("add_any", "custom_jvp_call_jaxpr", "custom_lin", "closed_call", "empty", "zeros_like", "checkpoint"),
    *("layout_constraint", "sharding_constraint", "pvary", "stage", "composite"),
    *("approx_top_k", "lu_pivots_to_permutation", "threefry2x32", "iota_2x32_shape"),
    *("scatter_mul", "scatter_min", "scatter_max", "igamma", "igammac", "regularized_incomplete_beta"),
    *("igamma_grad_a", "dce_sink", "tie"),
    *("polynomial", "log2", "one_minus_square", "mulhi", "Ldexp", "Frexp"),
    "debug_print",
    *("unvmap_any", "unvmap_all", "unvmap_max", "nonbatchable", "select_if_vmap"),
}
"""Primitives of JAX's own passes or of other versions, those inside of others, and those with tests of their own."""


def test_every_primitive_is_met():
    """Every handler is called by a case, but for `OTHER_NAMES`."""
    met = set().union(*[called_by(ws.from_jax(function, *args)) for function, *args in [*CASES.values(), LOOP]])
    assert (set(PRIMITIVES) | set(RULED) | set(DRAWN)) - met <= OTHER_NAMES


def test_numbers_too_large_for_so_many_bits_are_infinite():
    x = np.array([449.0, -7e4, np.inf, np.nan], np.float32)
    narrow = functools.partial(PRIMITIVES["reduce_precision"], exponent_bits=4, mantissa_bits=3)
    for found in (narrow(x), ws.jit(narrow)(x)):
        np.testing.assert_array_equal(found, [np.inf, -np.inf, np.inf, np.nan])


def test_prints_of_jax_are_printed_by_programs(capsys):
    def told(x):
        jax.debug.print("{{x}} {} {y:.2f} {s}", x[0], y=x[1], s="static")
        return jnp.sum(x)

    x = np.array([0.5, 1.25], np.float32)
    ws.jit(ws.grad(ws.from_jax(told, x)))(x)
    assert capsys.readouterr().out == "{x} 0.5 1.25 static\n"


def test_primitives_of_the_loops_of_equinox():
    x, goes = f(3), np.array([True, False, True])
    assert PRIMITIVES["unvmap_any"](goes) and not PRIMITIVES["unvmap_all"](goes)
    assert PRIMITIVES["unvmap_max"](x) == x.max() and PRIMITIVES["nonbatchable"](x, msg="") is x
    assert PRIMITIVES["select_if_vmap"](goes, x, -x).tolist() == [x[0], -x[1], x[2]]


def test_primitives_since_jax_0_12():
    x = np.array([[0.5, -2.0], [3.0, 1.25]], np.float32)
    coefficients = [np.float32(3), np.array([[1.0, 2.0]], np.float32), np.float32(-0.5)]
    found, slope = ws.value_and_grad(lambda x: np.sum(PRIMITIVES["polynomial"](x, *coefficients)))(x)
    np.testing.assert_allclose(found, np.sum(3 + coefficients[1] * x - 0.5 * x**2))
    np.testing.assert_allclose(slope, coefficients[1] - x)
    assert PRIMITIVES["polynomial"](x, np.float32(2)).tolist() == [[2, 2], [2, 2]]
    np.testing.assert_allclose(ws.grad(lambda x: np.sum(PRIMITIVES["one_minus_square"](x)))(x), -2 * x)
    np.testing.assert_allclose(PRIMITIVES["log2"](abs(x)), np.log2(abs(x)), rtol=1e-6)
    assert PRIMITIVES["Ldexp"](x, np.int32(3))[0].tolist() == (8 * x).tolist()
    assert [part.tolist() for part in PRIMITIVES["Frexp"](x)] == [part.tolist() for part in np.frexp(x)]
    for dtype in ("int8", "uint16", "int32", "uint32"):
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        n = np.array([least, most, most // 3, 5, 1], dtype)
        wanted = [int(a) * int(b) >> 8 * n.dtype.itemsize for a, b in zip(n, n[::-1], strict=True)]
        assert PRIMITIVES["mulhi"](n, n[::-1]).tolist() == wanted
    with pytest.raises(UnsupportedError, match="mulhi of int64"):
        PRIMITIVES["mulhi"](np.arange(3), np.arange(3))


@pytest.mark.parametrize("dtype", ["int32", "uint8"])
@pytest.mark.parametrize("op", ["div", "rem", "floor_divide", "remainder"])
def test_integers_over_zero_are_those_of_xla(op, dtype):
    x, y = np.array([7, -5, 3, 0], np.int32).astype(dtype), np.array([0, 0, 2, 0], dtype)
    compute = getattr(jax.lax, op, None) or getattr(jnp, op)
    np.testing.assert_array_equal(ws.from_jax(compute)(x, y), jax.jit(compute)(x, y))


def test_an_index_outside_passes_no_derivative_and_writes_nothing():
    x, i = np.arange(1, 6, dtype=np.float32), np.array([0, 7, -1, -9, 2], np.int32)

    def total(x, i):
        return jnp.sum(x[i] ** 2)

    mine = ws.from_jax(total, x, i)
    assert mine(x, i) == jax.jit(total)(x, i)
    np.testing.assert_array_equal(ws.grad(mine)(x, i), jax.grad(total)(x, i))
    added = lambda x, i: jnp.asarray(x).at[i].add(1, mode="promise_in_bounds")  # noqa: E731  (one line, as users write)
    np.testing.assert_array_equal(ws.from_jax(added, x, i)(x, i), added(x, i))
