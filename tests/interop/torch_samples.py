"""Samples of PyTorch's operators: arguments for each, arrays as NumPy has them."""

from __future__ import annotations

import numpy as np
import scipy.linalg

RNG = np.random.default_rng(11)


def f(*shape, low=-2.0, high=2.0):
    """Floats between two bounds."""
    return RNG.uniform(low, high, shape).astype(np.float32)


def positive(*shape):
    return f(*shape, low=0.2, high=3.0)


def small(*shape):
    return f(*shape, low=-0.9, high=0.9)


def apart(*shape):
    """Floats no two of which are near to each other."""
    n = int(np.prod(shape))
    return (RNG.permutation(n).reshape(shape) * 0.37 - n * 0.15).astype(np.float32)


def i(*shape, low=-5, high=6):
    return RNG.integers(low, high, shape)


def b(*shape):
    return RNG.random(shape) < 0.5


def c(*shape):
    return (f(*shape) + 1j * f(*shape)).astype(np.complex64)


def regular(n):
    return f(n, n) + 4 * np.eye(n, dtype=np.float32)


def spd(n):
    a = f(n, n)
    return a @ a.T + 2 * np.eye(n, dtype=np.float32)


class Dtype(str):
    """The name of a dtype among arguments."""


FLOATS = Dtype("float32")
S = {}


def sample(names, *samples):
    for name in names.split():
        S[name] = list(samples)


def of(*args, **options):
    return args, options


sample("neg abs sgn square sin cos tanh sinh cosh atan asinh exp expm1 exp2 erf erfc sigmoid tan", of(f(2, 3)), of(f()))
sample("sin exp sqrt reciprocal sigmoid", of(positive(3)), of(np.float64(positive(2))), of(i(4, low=1)))
sample(
    "sqrt rsqrt log log2 log10 log1p lgamma digamma reciprocal i0 special_i0e special_i1 special_i1e", of(positive(5))
)
sample("special_erfcx special_ndtri", of(f(5, low=0.1, high=0.9)))
sample("special_log_ndtr special_bessel_j0 special_bessel_j1 sinc deg2rad rad2deg", of(f(5)))
sample("asin acos atanh erfinv", of(small(5)))
sample("acosh", of(positive(4) + 1))
sample("ceil floor trunc sign frac round", of(f(6)), of(np.array([1.0, 2.5, -2.5], np.float32)))
sample("ceil floor trunc round", of(f(6)), of(i(3)), of(np.array([0.5, 1.5, 2.5, -0.5], np.float32)))
sample("sign", of(f(4)), of(i(4)))
sample("isnan isinf isfinite isposinf isneginf signbit", of(np.array([1, -np.inf, np.inf, np.nan, -0.0], np.float32)))
sample("add sub", of(f(2, 3), f(3)), of(f(3), 2), of(i(3), 1.5), of(i(3), f(), alpha=2), of(f(3), f(3), alpha=0.5))
sample("rsub", of(f(3), 1.5), of(f(3), 2, 3))
sample("mul", of(f(2, 3), f(3)), of(i(3), 0.5), of(b(3), b(3)), of(f(3), i(3)), of(c(3), f(3)), of(i(3), np.float32(2)))
sample(
    "div", of(f(3), positive(3)), of(i(3), 2), of(f(3), 1.5, rounding_mode="floor"), of(i(5), 2, rounding_mode="trunc")
)
S["div"] += [of(f(4), 0.7, rounding_mode="trunc"), of(i(5), -2, rounding_mode="floor")]
sample("maximum minimum fmax fmin", of(f(2, 3), f(3)), of(i(3), i(3)))
sample("fmod remainder", of(f(5), np.float32(0.7)), of(i(5), 3), of(f(5), positive(5)))
sample("floor_divide", of(i(5), 3), of(f(5), 0.7))
sample("gcd lcm", of(i(5), i(5)))
sample("heaviside", of(np.array([-1, 0, 2], np.float32), f(3)))
sample("eq ne lt le gt ge", of(i(5), i(5)), of(f(5), 0.5), of(i(4), 1.5))
sample("bitwise_and bitwise_or bitwise_xor", of(i(5), i(5)), of(i(5), 3), of(b(4), b(4)))
sample("bitwise_not", of(i(5)), of(b(4)))
sample("bitwise_left_shift bitwise_right_shift __lshift__ __rshift__", of(i(5), i(5, low=0, high=4)))
sample("logical_and logical_or logical_xor", of(b(5), b(5)), of(i(5), f(5)))
sample("logical_not", of(b(5)), of(i(5)))
sample("atan2 hypot copysign", of(f(5), f(5)))
sample("nextafter", of(f(5), f(5)))
sample("logaddexp logaddexp2", of(f(5), f(5)))
sample("xlogy special_xlog1py igamma igammac", of(positive(5), positive(5)))
sample("special_zeta", of(positive(3) + 1.5, positive(3)))
sample("polygamma", of(0, positive(3)), of(2, positive(3)))
sample("real imag angle _conj _conj_physical conj conj_physical resolve_conj view_as_real", of(c(3)))
sample("resolve_neg detach detach_copy alias alias_copy lift_fresh_copy clone contiguous", of(f(3)))
sample("view_as_complex", of(f(3, 2)))
sample("complex polar", of(f(3), f(3)))
sample("relu relu6 silu mish hardswish hardsigmoid softshrink hardshrink", of(f(7, low=-5, high=8)))
sample("gelu", of(f(5)), of(f(5), approximate="tanh"))
sample("leaky_relu", of(f(5)), of(f(5), 0.2))
sample("elu", of(f(5)), of(f(5), 0.7, 1.2, 0.8), of(np.zeros(2, np.float32)))
WIDE = np.array([-200, -1, 0, 1, 200], np.float32)
sample("celu", of(WIDE), of(WIDE, 0.7))
sample("prelu _prelu_kernel", of(f(2, 3), positive(3)))
sample("softplus", of(f(5)), of(f(5, low=-9, high=9), 3, 4))
sample("threshold", of(f(5), 0.1, 7.0))
sample("glu", of(f(3, 4)), of(f(4, 2), 0))
sample("hardtanh clamp clip", of(f(5), -0.5, 0.7))
sample("clamp clip", of(f(5), -0.5, 0.7), of(f(5), None, 0.3), of(i(5), 0), of(i(5), 0.5), of(f(2, 3), f(3), None))
sample("clamp_min clamp_max", of(f(5), 0.3), of(i(5), 1), of(WIDE, 1.0), of(WIDE, np.ones(5, np.float32)))
sample(
    "pow",
    of(positive(4), 2),
    of(positive(4), 0.5),
    of(2.0, f(3)),
    of(f(4), 3),
    of(positive(3), f(3)),
    of(i(3, low=0), 2),
)
sample("where", of(b(3), f(3), f(3)), of(b(2, 3), f(3), np.float32(1)))
sample("masked_fill", of(f(3), b(3), 2.0))
sample("logit", of(f(4, low=0.1, high=0.9)), of(f(4, low=-0.2, high=1.2), 0.1))
sample(
    "nan_to_num",
    of(np.array([np.nan, np.inf, -np.inf, 1], np.float32)),
    of(np.array([np.nan, np.inf], np.float32), 1.0, 2.0),
)
sample("lerp", of(f(3), f(3), 0.3), of(f(3), f(3), f(3)))
sample("addcmul addcdiv", of(f(3), f(3), positive(3), value=0.5), of(f(3), f(3), positive(3)))
sample("frexp", of(positive(3)))
sample("_to_copy", of(f(3), dtype=Dtype("int64")), of(i(3), dtype=FLOATS), of(f(3)), of(f(3), dtype=Dtype("bool")))
sample("copy", of(f(2, 3), f(3)))
sample("view.dtype", of(f(3), Dtype("int32")))

sample("view reshape _unsafe_view", of(f(2, 6), [3, -1]), of(f(4), [2, 2]))
sample("permute", of(f(2, 3, 4), [2, 0, 1]), of(f(2, 3, 4), [-1, 0, 1]))
sample("transpose", of(f(2, 3, 4), 0, -1))
sample("t", of(f(2, 3)), of(f(3)))
sample("unsqueeze", of(f(2, 3), 1), of(f(2, 3), -1))
sample("squeeze", of(f(1, 2, 1)), of(f(1, 2, 1), 0), of(f(1, 2, 1), 1), of(f(1, 2, 1), [0, 1, 2]))
sample("flatten", of(f(2, 3, 4)), of(f(2, 3, 4), 1), of(f()))
sample("expand", of(f(3, 1), [2, -1, 4]), of(f(), [2]))
sample("cat", of([f(2, 3), f(1, 3)]), of([f(2, 3), f(2, 1)], -1), of([f(0), f(2)]), of([f(2), i(2)]))
sample("stack", of([f(2), f(2)]), of([f(2), f(2)], -1))
sample("flip", of(f(2, 3), [1]), of(f(2, 3), [0, -1]))
sample("select", of(f(2, 3), 1, -1), of(f(2, 3), 0, 1))
sample("slice", of(f(5, 2), 0, 1, 4), of(f(5, 2), 0, 1, (1 << 63) - 1, 2), of(f(3, 5), -1, -3, -1), of(f(3), 0, 0, 9))
sample("slice_scatter", of(f(5, 2), f(3, 2), 0, 1, 4), of(f(5), f(2), 0, 1, (1 << 63) - 1, 2))
sample("select_scatter", of(f(3, 2), f(2), 0, -1), of(f(3, 2), f(3), 1, 0))
sample("diagonal_scatter", of(f(3, 3), f(3)), of(f(3, 4), f(3), 1), of(f(3, 2, 3), f(2, 2), -1, 0, 2))
sample("unbind", of(f(2, 3)), of(f(2, 3), 1))
sample("split_with_sizes split_with_sizes_copy", of(f(5, 2), [1, 4]), of(f(2, 3), [2, 1], -1))
sample("split", of(f(5, 2), 2), of(f(2, 4), 4, 1))
sample("split_copy", of(f(5, 2), 2))
sample("chunk", of(f(5, 2), 3), of(f(2, 4), 2, 1))
sample("diagonal", of(f(3, 4)), of(f(2, 3, 4), 1, 1, 2), of(f(3, 4), -1))
sample("tril triu", of(f(3, 4)), of(f(2, 3, 3), 1), of(f(3, 4), -1))
sample("repeat", of(f(2, 3), [2, 1]), of(f(2), [3, 2]))
sample("repeat_interleave", of(f(2, 3), 2, 0), of(f(2, 3), 2), of(f(3), np.array([1, 0, 2]), 0))
sample("roll", of(f(5), [2]), of(f(2, 3), [1, -1], [0, 1]), of(f(2, 3), [1]))
sample("movedim", of(f(2, 3, 4), [0], [2]))
sample("scalar_tensor", of(1.5), of(2, dtype=FLOATS))
sample("full", of([2, 3], 1.5), of([2], 3), of([2], 3, dtype=FLOATS), of([], True))
sample("ones zeros", of([2, 3]), of([2], dtype=Dtype("int64")))
sample("full_like", of(f(2), 3), of(i(2), 1.0, dtype=FLOATS))
sample("zeros_like ones_like", of(f(2)), of(i(2)), of(f(2), dtype=Dtype("bool")))
sample("new_zeros new_ones", of(f(2), [3]), of(i(2), [1, 2]))
sample("new_full", of(f(2), [3], 4))
sample("fill", of(f(2), 3.0))
sample("eye", of(3), of(2, 3))
sample("tril_indices triu_indices", of(3, 4), of(3, 3, 1))
sample("arange", of(4), of(1, 5), of(0.5, 3, 0.5), of(1, 9, 2), of(4, dtype=FLOATS))
sample("linspace", of(0, 1, 5), of(-1.5, 2, 4))
sample("constant_pad_nd", of(f(2, 3), [1, 2]), of(f(2, 3), [1, 0, 0, 2], 7), of(f(3, 4), [-1, 2]))
sample("pad", of(f(2, 3), [1, 2]))
sample("reflection_pad1d", of(f(1, 2, 4), [1, 2]))
sample("reflection_pad2d", of(f(1, 2, 4, 3), [1, 2, 0, 1]))
sample("reflection_pad3d", of(f(1, 1, 3, 4, 3), [1, 2, 0, 1, 1, 1]))
sample("replication_pad1d", of(f(1, 2, 4), [1, 2]))
sample("replication_pad2d", of(f(1, 2, 4, 3), [1, 2, 0, 1]))
sample("replication_pad3d", of(f(1, 1, 3, 4, 3), [1, 2, 0, 1, 1, 1]))
sample("pixel_shuffle", of(f(1, 8, 2, 3), 2))
sample("pixel_unshuffle", of(f(1, 2, 4, 6), 2))
sample("channel_shuffle", of(f(1, 6, 2, 2), 3))
sample("as_strided", of(f(2, 3), [3, 2], [1, 2]), of(f(2, 3), [2, 2], [1, 1], 2), of(f(2, 3), [6], [1]))
sample("unfold", of(f(2, 7), 1, 3, 2), of(f(5, 2), 0, 2, 1))

sample(
    "embedding",
    of(f(5, 3), i(2, 4, low=0, high=5)),
    of(f(5, 3), np.array([1, 4, 1, 1]), -1, True),
    of(f(5, 3), i(6, low=0, high=5), 2),
)
BAGS, STARTS = np.array([0, 2, 2, 4, 1]), np.array([0, 2, 2])
sample(
    "_embedding_bag",
    *[of(f(5, 3), BAGS, STARTS, False, mode, False, None, False, padding) for mode in (0, 1, 2) for padding in (-1, 2)],
    of(f(5, 3), BAGS, np.array([0, 2, 5]), False, 1, False, None, True),
    of(f(5, 3), BAGS, STARTS, False, 0, False, f(5), False, 2),
)
sample("index_select", of(f(4, 3), 0, i(5, low=0, high=4)), of(f(4, 3), -1, i(2, low=0, high=3)))
sample("take", of(f(2, 3), i(4, low=0, high=6)))
sample("gather", of(f(3, 4), 1, i(3, 2, low=0, high=4)), of(f(3, 4), 0, i(2, 3, low=0, high=3)))
ROWS, COLUMNS = i(4, low=0, high=3), i(4, low=0, high=5)
sample(
    "index",
    of(f(3, 5), [ROWS]),
    of(f(3, 5), [None, COLUMNS]),
    of(f(3, 5), [ROWS, COLUMNS]),
    of(f(3, 2, 5), [ROWS, None, COLUMNS]),
)
sample("_unsafe_index", of(f(3, 5), [ROWS, COLUMNS]))
sample("index_put _unsafe_index_put", of(f(3, 5), [np.array([0, 2])], f(5)), of(f(3, 5), [ROWS, COLUMNS], f(4), True))
sample("_index_put_impl", of(f(3, 5), [np.array([0, 2])], f(5)))
sample("index_add", of(f(3, 2), 0, i(4, low=0, high=3), f(4, 2)), of(f(2, 3), 1, np.array([0, 2]), f(2, 2), alpha=2))
sample("index_copy", of(f(3, 2), 0, np.array([2, 0]), f(2, 2)))
sample("index_fill", of(f(3, 2), 0, np.array([2, 0]), 1.5))
sample("scatter", of(f(3, 5), 1, np.array([[0, 2], [1, 4]]), f(2, 2)), of(f(3, 5), 0, np.array([[0, 2, 1]]), 3.0))
sample("scatter_add", of(f(3, 5), 1, i(3, 4, low=0, high=5), f(3, 4)), of(f(3, 5), 0, i(2, 4, low=0, high=3), f(2, 5)))
sample(
    "scatter_reduce",
    *[of(f(3, 4), 1, i(3, 5, low=0, high=4), apart(3, 5), r) for r in ("sum", "prod", "amax", "amin", "mean")],
)
S["scatter_reduce"] += [
    of(f(3, 4), 1, i(3, 5, low=0, high=4), apart(3, 5), r, include_self=False) for r in ("sum", "amax", "mean")
]
sample("masked_scatter", of(f(5), np.array([True, False, True, True, False]), f(4)))
sample("sort", of(apart(3, 4)), of(apart(3, 4), 0, True), of(i(6)))
sample("sort.stable", of(apart(3, 4), stable=True, dim=0), of(i(9, low=0, high=3), stable=True, descending=True))
sample("argsort", of(apart(3, 4)), of(apart(3, 4), 0, True))
sample("argsort.stable", of(i(9, low=0, high=3), stable=True))
sample("topk", of(apart(3, 5), 2), of(apart(3, 5), 2, 0), of(apart(6), 3, -1, False))
sample("kthvalue", of(apart(3, 5), 2), of(apart(3, 5), 2, 0, True))
sample("median", of(apart(7)), of(apart(2, 4)))
sample("median.dim", of(apart(3, 4), 1), of(apart(3, 5), 0, True))
sample("searchsorted", of(np.sort(f(6)), f(4)), of(np.sort(i(6)), i(2, 2), right=True, out_int32=True))
sample("bucketize", of(f(4), np.sort(f(6))), of(i(4), np.sort(i(5)), right=True))
sample("bincount", of(i(8, low=0, high=5), None, 6))
sample(
    "histc", of(f(9), 4, -1.5, 1.5), of(f(7), 3), of(np.ones(4, np.float32), 2), of(i(9, low=0, high=4) * 1.0, 4, 0, 3)
)
sample("nonzero", of(np.array([[1, 0], [0, 2.0]], np.float32)))
sample("masked_select", of(f(2, 3), b(2, 3)))

sample(
    "sum",
    *[of(f(2, 3)), of(f(2, 3), [1]), of(i(2, 3), [0], True), of(b(4)), of(f(2, 3), None, dtype=Dtype("float64"))],
    of(b(4), dtype=Dtype("int32")),
)
sample("mean", of(f(2, 3)), of(f(2, 3), [1], True), of(i(2, 3), [0], dtype=FLOATS))
sample("prod", of(f(2, 3)), of(f(2, 3), 1), of(i(3), 0, True))
sample("amax amin", of(apart(2, 3), [1]), of(apart(2, 3), [0, 1], True), of(apart(2, 3)))
sample("any all", of(b(2, 3)), of(b(2, 3), 1), of(i(2, 3), 0, True))
sample("nansum", of(np.array([1, np.nan, 2], np.float32)))
sample("max min", of(apart(2, 3)), of(i(4)))
sample("max.dim min.dim", of(apart(2, 3), 1), of(apart(2, 3), 0, True))
sample("argmax argmin", of(apart(2, 3)), of(apart(2, 3), 1), of(apart(2, 3), 0, True))
sample("logsumexp", of(f(2, 3), [1]), of(f(2, 3), [0, 1], True))
sample(
    "cumsum cumprod",
    of(f(2, 3), 1),
    of(i(4), 0),
    of(f(3), 0, dtype=Dtype("float64")),
    of(i(4), 0, dtype=Dtype("int16")),
)
sample("cummax cummin", of(apart(2, 5), 1), of(apart(4), 0))
sample("logcumsumexp", of(f(2, 5), 1))
sample("std", of(np.ones((2, 3), np.float32)))
sample("var std", of(f(2, 3)), of(f(2, 3), [1]), of(f(2, 3), [0], correction=0, keepdim=True))
sample("var_mean std_mean", of(f(2, 3), [1], correction=1), of(f(2, 3), [0], correction=0, keepdim=True))
sample("linalg_vector_norm", *[of(f(2, 3), p) for p in (2, 1, np.inf, 3, 0, -np.inf)], of(f(2, 3), 2, [1], True))
sample("norm", of(f(2, 3)), of(f(2, 3), 2, [1], True))
sample("dist", of(f(3), f(3)))
sample("count_nonzero", of(i(3, 4)), of(i(3, 4), [1]))

sample("mm matmul", of(f(2, 3), f(3, 4)))
sample("_grouped_mm", of(f(8, 4), f(3, 4, 8), np.array([3, 3, 8], np.int32)))
sample("bmm", of(f(2, 2, 3), f(2, 3, 4)))
sample("mv", of(f(2, 3), f(3)))
sample("dot vdot", of(f(3), f(3)))
sample("matmul", of(f(2, 3), f(3, 4)), of(f(3), f(3)), of(f(2, 2, 3), f(3)), of(f(2, 1, 2, 3), f(4, 3, 2)))
sample("einsum", of("ij,kj->ik", [f(2, 3), f(4, 3)]), of("...i,...j->ij", [f(2, 3), f(2, 4)]))
sample("outer", of(f(3), f(2)))
sample("linalg_cross", of(f(2, 3), f(2, 3)))
sample("_trilinear", of(f(5, 3), f(2, 3, 4), f(5, 4), [1, 3], [0], [1, 2], [2, 3]))
sample("linear", of(f(2, 3), f(4, 3), f(4)), of(f(2, 2, 3), f(4, 3)))
sample("addmm", of(f(4), f(2, 3), f(3, 4)), of(f(2, 4), f(2, 3), f(3, 4), beta=0.5, alpha=2))
sample("addmv", of(f(2), f(2, 3), f(3)))
sample("baddbmm", of(f(2, 2, 4), f(2, 2, 3), f(2, 3, 4), beta=0.5))
sample(
    "convolution",
    of(f(2, 3, 8), f(4, 3, 3), f(4), [2], [1], [1], False, [0], 1),
    of(f(2, 4, 6, 6), f(4, 2, 3, 3), None, [1, 1], [1, 2], [2, 1], False, [0, 0], 2),
    of(f(1, 2, 4, 4, 4), f(3, 2, 2, 2, 2), f(3), [1, 1, 1], [0, 0, 0], [1, 1, 1], False, [0, 0, 0], 1),
    of(f(2, 3, 4, 4), f(3, 2, 3, 3), f(2), [2, 2], [1, 1], [1, 1], True, [1, 1], 1),
    of(f(2, 4, 4), f(4, 2, 3), f(4), [2], [1], [1], True, [0], 2),
)
sample("linalg_cholesky_ex", of(spd(3)))
sample("linalg_inv_ex linalg_matrix_exp", of(regular(3)))
sample("_linalg_det _linalg_slogdet", of(regular(3)))
sample("_linalg_solve_ex", of(regular(3), f(3, 2)), of(regular(3), f(3)), of(regular(3), f(2, 3), left=False))
sample("linalg_pinv", of(f(4, 3)), of(regular(3)))
sample("linalg_solve_triangular", of(regular(3), f(3, 2), upper=True), of(regular(3), f(2, 3), upper=False, left=False))
sample("linalg_qr", of(regular(3)), of(f(4, 3)))
sample("_linalg_svd", of(f(3, 2)))
sample("_linalg_eigh", of(spd(3)))
sample("_cdist_forward", of(f(3, 2), f(4, 2), 2.0, None), of(f(2, 3, 2), f(2, 4, 2), 1.0, None))
sample("_pdist_forward", of(f(4, 2)))
sample("kron", of(f(2, 2), f(1, 3)))
sample("_fft_c2c", of(c(2, 4), [1], 0, True), of(c(2, 4), [0, 1], 1, False), of(c(4), [0], 2, False))
sample("_fft_r2c", of(f(2, 4), [1], 0, True), of(f(2, 4), [0, 1], 2, False))
sample("_fft_c2r", of(c(2, 3), [1], 2, 4), of(c(2, 3), [0, 1], 0, 5))

sample("_softmax _log_softmax", of(f(2, 3), 1, False), of(f(2, 3), 0, False))
sample("softmax log_softmax", of(f(2, 3), 1))
sample("_safe_softmax", of(f(2, 3), 1))
sample("native_layer_norm", of(f(2, 3, 4), [4], f(4), f(4), 1e-5), of(f(2, 3, 4), [3, 4], None, None, 1e-5))
sample("layer_norm", of(f(2, 3, 4), [4], f(4), f(4), 1e-5))
sample("rms_norm", of(f(2, 3, 4), [4], f(4), 1e-5), of(f(2, 4), [4]))
sample(
    "native_group_norm", of(f(2, 4, 3, 2), f(4), f(4), 2, 4, 6, 2, 1e-5), of(f(2, 4, 5), None, None, 2, 4, 5, 2, 1e-5)
)
sample("group_norm", of(f(2, 4, 5), 2, f(4), f(4)))
sample("_native_batch_norm_legit_no_training", of(f(2, 3, 4), f(3), f(3), f(3), positive(3), 0.1, 1e-5))
sample(
    "_native_batch_norm_legit_functional",
    of(f(2, 3, 4), f(3), f(3), f(3), positive(3), True, 0.1, 1e-5),
    of(f(4, 3), None, None, f(3), positive(3), True, 0.3, 1e-3),
)
sample("_native_batch_norm_legit.no_stats", of(f(2, 3, 4), f(3), f(3), True, 0.1, 1e-5))
sample(
    "scaled_dot_product_attention",
    of(f(2, 2, 3, 4), f(2, 2, 5, 4), f(2, 2, 5, 4)),
    of(f(2, 2, 5, 4), f(2, 2, 5, 4), f(2, 2, 5, 4), None, 0.0, True),
    of(f(2, 2, 3, 4), f(2, 2, 5, 4), f(2, 2, 5, 4), f(2, 1, 3, 5), scale=0.3),
    of(f(3, 4), f(5, 4), f(5, 4)),
    of(f(2, 4, 3, 4), f(2, 2, 5, 4), f(2, 2, 5, 4), enable_gqa=True),
)
sample("dropout feature_dropout alpha_dropout", of(f(2, 3), 0.5, False))
sample("native_dropout", of(f(2, 3), 0.5, False))
sample(
    "nll_loss_forward",
    of(f(3, 4), i(3, low=0, high=4), None, 1, -100),
    of(f(3, 4), np.array([0, 1, 3]), positive(4), 1, 1),
)
S["nll_loss_forward"] += [of(f(3, 4), i(3, low=0, high=4), None, r, -100) for r in (0, 2)]
sample("nll_loss2d_forward", of(f(2, 4, 2, 3), i(2, 2, 3, low=0, high=4), None, 1, -100))
sample("mse_loss smooth_l1_loss huber_loss", of(f(3, 2), f(3, 2)), of(f(3), f(3), 2), of(f(3), f(3), 0))
sample("rrelu", of(f(3, 4)), of(f(3, 4), 0.1, 0.5))
LISTED = np.array([[1, 0, -1, 2], [3, -1, 0, 0], [0, 1, 2, -1]])
sample("multilabel_margin_loss", *[of(f(3, 4), LISTED, reduction) for reduction in (0, 1, 2)])
sample("soft_margin_loss", of(f(3), np.sign(f(3))))
sample("binary_cross_entropy", of(f(4, low=0.1, high=0.9), f(4, low=0, high=1)))
sample("_weight_norm_interface", of(f(3, 4), f(3, 1)))

IMAGES = f(2, 3, 7, 6)
sample("max_pool1d", of(apart(1, 2, 7), [3], [2], [1]))
sample(
    "max_pool2d_with_indices max_pool2d",
    of(apart(1, 2, 7, 6), [2, 2]),
    of(apart(1, 2, 7, 6), [3, 3], [2, 2], [1, 1], [1, 1], True),
    of(apart(2, 7, 6), [2, 3], [1, 2], [0, 1]),
    of(apart(1, 1, 7, 6), [2, 2], [1, 1], [0, 0], [2, 2]),
    of(apart(1, 1, 8, 8), [3, 3], [2, 2], [1, 1], [2, 2], True),
)
sample("max_pool3d_with_indices max_pool3d", of(apart(1, 2, 4, 4, 4), [2, 2, 2]))
sample("avg_pool1d", of(f(1, 2, 7), [3], [2], [1]), of(f(1, 2, 7), [3], [2], [1], True, False))
sample(
    "avg_pool2d",
    of(IMAGES, [2, 2]),
    of(IMAGES, [3, 3], [2, 2], [1, 1], True, False),
    of(IMAGES, [2, 2], [1, 1], [0, 0], False, True, 3),
    of(IMAGES, [3, 3], [2, 2], [1, 1], True, False, 5),
)
sample("avg_pool3d", of(f(1, 2, 4, 4, 4), [2, 2, 2]))
sample("_adaptive_avg_pool2d adaptive_avg_pool2d", of(IMAGES, [3, 2]), of(IMAGES, [1, 1]))
sample("_adaptive_avg_pool3d adaptive_avg_pool3d", of(f(1, 2, 4, 3, 4), [3, 2, 1]))
sample("adaptive_avg_pool1d", of(f(1, 2, 7), [3]))
sample("upsample_linear1d", of(f(1, 2, 5), [8], False, None), of(f(1, 2, 5), [9], True, None))
sample(
    "upsample_bilinear2d",
    of(IMAGES, [14, 12], False, 2.0, 2.0),
    of(IMAGES, [5, 9], True, None, None),
    of(IMAGES, [5, 9], False, None, None),
)
sample("upsample_trilinear3d", of(f(1, 1, 3, 4, 3), [6, 5, 4], False, None, None, None))
sample("upsample_nearest1d", of(f(1, 2, 5), [8], None))
sample("upsample_nearest2d", of(IMAGES, [14, 12], 2.0, 2.0), of(IMAGES, [5, 9], None, None))
sample("upsample_nearest3d", of(f(1, 1, 3, 4, 3), [6, 5, 4], None, None, None))
sample("upsample_bicubic2d", of(IMAGES, [9, 13], False, None, None), of(IMAGES, [9, 13], True, None, None))
for name in ("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"):
    sample(name, *[of(IMAGES, size, c, None, None) for size in ([2, 3], [9, 2], [1, 4]) for c in (False, True)])
sample("linalg_householder_product", of(f(5, 3), f(3)), of(f(2, 4, 4), f(2, 2)))
sample(
    "grid_sampler_2d",
    *[of(IMAGES, f(2, 4, 3, 2, low=-1.3, high=1.3), m, p, k) for m in (0, 2) for p in range(3) for k in (False, True)],
)
S["grid_sampler_2d"] += [of(IMAGES, f(2, 4, 3, 2, low=-1.3, high=1.3), 1, p, False) for p in range(3)]
sample("grid_sampler_3d", *[of(f(2, 2, 3, 4, 5), f(2, 4, 3, 2, 3, low=-1.3, high=1.3), 0, p, False) for p in range(3)])
sample("grid_sampler", of(IMAGES, f(2, 4, 3, 2), 0, 0, False))
sample("im2col", of(IMAGES, [3, 2], [1, 2], [1, 0], [2, 1]))
sample("col2im", of(f(2, 12, 12), [4, 5], [2, 2], [1, 1], [0, 0], [1, 1]))


def weights(gates, inputs, width, ways=1, layers=1):
    made = []
    for layer in range(layers):
        for _ in range(ways):
            made += [f(gates * width, inputs if not layer else ways * width), f(gates * width, width)]
            made += [f(gates * width), f(gates * width)]
    return made


sample(
    "lstm",
    of(f(4, 2, 3), [f(1, 2, 5), f(1, 2, 5)], weights(4, 3, 5), True, 1, 0.0, False, False, False),
    of(f(2, 4, 3), [f(4, 2, 5), f(4, 2, 5)], weights(4, 3, 5, 2, 2), True, 2, 0.0, False, True, True),
)
sample("gru rnn_tanh rnn_relu", of(f(4, 2, 3), f(2, 2, 5), weights(3, 3, 5, 2), True, 1, 0.0, False, True, False))
for name in ("rnn_tanh", "rnn_relu"):
    S[name] = [of(f(4, 2, 3), f(2, 2, 5), weights(1, 3, 5, 1, 2), True, 2, 0.0, False, False, False)]
sample("_int_mm", of(i(32, 16).astype(np.int8), i(16, 8).astype(np.int8)))
sample("fake_quantize_per_tensor_affine_cachemask", of(f(9), 0.1, 3, -8, 7))
sample(
    "fake_quantize_per_channel_affine_cachemask",
    of(f(3, 4), positive(3) * 0.1, np.array([0, 1, 2], np.int32), 0, -8, 7),
)
INT8 = Dtype("int8")
sample("quantize_per_tensor", of(f(9), 0.1, 3, -128, 127, INT8))
sample("dequantize_per_tensor", of(i(9).astype(np.int8), 0.1, 3, -128, 127, INT8))
sample("quantize_per_channel", of(f(3, 4), positive(3), np.zeros(3, np.int64), 0, -128, 127, INT8))
sample("dequantize_per_channel", of(i(3, 4).astype(np.int8), positive(3), np.zeros(3, np.int64), 0, -128, 127, INT8))

FACTORS = scipy.linalg.lu_factor(regular(3) - 3 * np.eye(3, dtype=np.float32))
PLACES = (FACTORS[1] + 1).astype(np.int32)
sample("special_modified_bessel_i0 special_modified_bessel_i1", of(f(5)))
sample("special_bessel_y0 special_bessel_y1 special_modified_bessel_k0 special_modified_bessel_k1", of(positive(5)))
sample("special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1", of(positive(5)))
sample("ldexp", of(f(5), f(5)))
sample("triangular_solve", of(f(3, 2), regular(3)), of(f(3, 2), regular(3), False, True))
sample("linalg_lu_factor_ex linalg_lu", of(regular(3)), of(f(2, 3, 3)))
sample("linalg_lu_solve", *[of(FACTORS[0], PLACES, f(3, 2), adjoint=adjoint) for adjoint in (False, True)])
S["linalg_lu_solve"] += [of(FACTORS[0], PLACES, f(2, 3), left=False)]
sample("linalg_lstsq", of(f(4, 3), f(4, 2)), of(f(4, 3), f(4, 2), driver="gelsd"), of(regular(3), f(3, 2)))
sample("linalg_eig _linalg_eigvals", of(spd(3)))

sample("addbmm", of(f(2, 4), f(3, 2, 5), f(3, 5, 4), beta=0.5, alpha=2), of(f(4), f(3, 2, 5), f(3, 5, 4)))
sample(
    "index_reduce",
    *[
        of(f(3, 4), 1, i(5, low=0, high=4), apart(3, 5), r, include_self=own)
        for r in ("prod", "mean", "amax", "amin")
        for own in (True, False)
    ],
)
sample("put", of(f(2, 3), np.array([1, -1]), f(2)), of(f(2, 3), i(2, 2, low=0, high=6), f(2, 2), True))
sample("mode", of(np.round(f(3, 9))), of(np.round(f(4, 3)), 0, True), of(i(5, 8)))
GAPS = np.array([[3, np.nan, 1, 2, np.nan], [np.nan] * 5, [5, 1, 4, 2, 3]], np.float32)
sample("nanmedian", of(GAPS), of(apart(8)), of(i(9)))
sample("nanmedian.dim", of(GAPS[::2], 1), of(GAPS[::2, :4], 0, True))
S["median"] += [of(np.round(f(9))), of(i(7))]
S["median.dim"] += [of(GAPS, 1)]
S["sign"] += [of(GAPS)]
sample("hann_window blackman_window bartlett_window kaiser_window", of(8), of(1))
sample("hamming_window", of(8), of(8, dtype=Dtype("float64")))
for name in ("hann_window", "blackman_window", "bartlett_window", "kaiser_window", "hamming_window"):
    S[name] += [of(7, False)]
sample("fractional_max_pool2d", of(apart(2, 3, 9, 7), [2, 3], [4, 3], small(2, 3, 2) ** 2))
S["fractional_max_pool2d"] += [of(apart(3, 9, 7), [2, 2], [1, 3], small(1, 3, 2) ** 2)]
sample("fractional_max_pool3d", of(apart(1, 2, 6, 5, 7), [2, 2, 3], [3, 2, 3], small(1, 2, 3) ** 2))
sample(
    "as_strided_scatter", of(i(2, 3), i(2, 2), [2, 2], [1, 3], 1), of(i(3, 2), i(2), [2], [4])
)  # PyTorch's slope of x is wrong
PARTS = np.array([2, 0, 4])
sample(
    "segment_reduce",
    *[of(apart(6, 2), kind, lengths=PARTS, initial=0.3) for kind in ("sum", "mean", "max", "min", "prod")],
    of(f(6), "mean", lengths=PARTS + 1 - np.arange(3)),
    of(f(6, 2), "sum", offsets=np.array([0, 1, 6]), initial=2),
)
sample("as_strided_copy", of(f(2, 3), [3, 2], [1, 2]))
