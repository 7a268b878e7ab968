"""Calls of scipy's special functions, distributions, linear algebra, signals and integrals for the coverage tests."""

import numpy as np
import scipy.special
from tests.coverage.cases import Case

from wholestep.scipy import integrate, linalg, signal, special, stats

rng = np.random.default_rng(14)


def real(*shape, low=-2.0, high=2.0, dtype="f8"):
    return np.asarray(rng.uniform(low, high, shape)).astype(dtype)


def cplx(*shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def regular(*shape, of=real):
    return of(*shape) + 3 * np.eye(shape[-1])


def positive(*shape, of=real):
    a = of(*shape)
    return a @ np.conj(np.swapaxes(a, -1, -2)) + 2 * np.eye(shape[-1])


RANGES = {
    (-2.0, 2.0): "erf erfc erfcx expit log_expit ndtr log_ndtr i0 i0e i1 i1e j0 j1 exprel expm1 cosm1 erfi dawsn"
    " exp2 exp10 gammasgn",
    (0.3, 4.0): "gammaln gamma loggamma digamma psi rgamma y0 y1 k0 k1 k0e k1e entr expi exp1 spence cbrt",
    (0.1, 0.9): "logit erfinv ndtri log1p ellipk ellipe",
    (0.2, 1.8): "erfcinv",
    (-3.0, -0.1): "ndtri_exp",
    (-80.0, 80.0): "sindg cosdg tandg",
    (10.0, 80.0): "cotdg",
}
TWO = "beta betaln xlogy rel_entr kl_div poch gammainc gammaincc huber pseudo_huber boxcox inv_boxcox owens_t"
EDGES = {
    "xlogy": ([0.0, 0.0, 0.0, 1.0, np.nan, 0.0], [0.0, 2.0, -1.0, 0.0, 1.0, np.nan]),
    "xlog1py": ([0.0, 0.0, 0.0, 1.0, 0.0], [-1.0, 2.0, -3.0, -1.0, np.nan]),
    "rel_entr": ([0.0, 0.0, 1.0, -1.0, np.nan, 1e300, 1e-300], [0.0, 2.0, 0.0, 1.0, 1.0, 1e-300, 1e300]),
    "kl_div": ([0.0, 0.0, 1.0, -1.0, np.nan], [0.0, 2.0, 0.0, 1.0, 1.0]),
    "boxcox": ([0.0, 0.0, 0.0, 2.0, -1.0, np.inf, np.inf, np.inf], [0.5, 0.0, -1.0, 0.0, 1.0, -2.0, 0.0, 0.5]),
    "boxcox1p": ([-1.0, -1.0, -1.0, 2.0, 0.0], [0.5, 0.0, -1.0, 0.0, 1.0]),
    "inv_boxcox": ([1.0, 0.0, 2.0, -2.0, -2.0], [0.0, 0.5, -0.5, 0.5, 1.0]),
    "huber": ([-1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.5, -3.0]),
    "pseudo_huber": ([-1.0, 0.0, 1.0, 1.0], [1.0, 1.0, 0.0, -3.0]),
    "gammainc": ([1.0, 0.5, 1.0, 2.0], [0.0, 0.0, np.inf, 50.0]),
}
ORDERS = {f: (0, 1, 2, 0.5) for f in ("jv", "yv", "iv", "kv", "ive", "kve")} | {"kn": (0, 1, 3), "yn": (0, 1, 3)}


def ufuncs():
    cases = {}
    for (low, high), names in RANGES.items():
        for name in names.split():
            f = getattr(scipy.special, name)
            x = real(5, low=low, high=high)
            cases[name] = [Case(f, x, rtol=1e-13), Case(f, x.astype("f4"), rtol=1e-5), Case(f, x[0], rtol=1e-13)]
    for name in TWO.split():
        f = getattr(scipy.special, name)
        cases[name] = [Case(f, real(4, low=0.3, high=3.0), real(3, 4, low=0.3, high=3.0), rtol=1e-13)]
    for name, pairs in EDGES.items():
        f = getattr(scipy.special, name)
        cases.setdefault(name, []).append(Case(f, *map(np.array, pairs), grad=False, rtol=1e-13))
    cases["xlog1py"].append(Case(scipy.special.xlog1py, real(4), real(4, low=-0.5)))
    cases["boxcox1p"].append(Case(scipy.special.boxcox1p, real(4, low=0.2), real(4), rtol=1e-13))
    cases["inv_boxcox1p"] = [Case(scipy.special.inv_boxcox1p, real(4, low=0.1), real(4, low=0.1), rtol=1e-13)]
    cases["binom"] = [Case(scipy.special.binom, real(4, low=4.0, high=6.0), real(4, low=1.0, high=2.0), rtol=1e-13)]
    for name, orders in ORDERS.items():
        f = getattr(scipy.special, name)
        cases[name] = [Case(lambda x, f=f, v=v: f(v, x), real(4, low=0.3), rtol=1e-12) for v in orders]
    return {f"scipy.special.{name}": made for name, made in (cases | three() | mixed()).items()}


def three():
    """Functions with parameters that stay plain."""
    share = real(4, low=0.1, high=0.9)
    made = {
        name: [Case(lambda x, name=name: getattr(scipy.special, name)(1.5, 0.7, x), share, rtol=1e-12)]
        for name in ("betainc", "betaincc", "betaincinv", "betainccinv", "hyp1f1")
    }
    made["hyp2f1"] = [Case(lambda x: scipy.special.hyp2f1(1.5, 0.7, 2.2, x), share, rtol=1e-12)]
    made["hyp0f1"] = [Case(lambda x: scipy.special.hyp0f1(1.5, x), share, rtol=1e-12)]
    made["stdtr"] = [Case(lambda x: scipy.special.stdtr(3.5, x), real(4), rtol=1e-12)]
    made["stdtrit"] = [Case(lambda x: scipy.special.stdtrit(3.5, x), share, rtol=1e-10)]
    for name in ("gammaincinv", "gammainccinv"):
        made[name] = [Case(getattr(scipy.special, name), real(4, low=0.5), share, rtol=1e-12)]
    for name in ("pdtr", "pdtrc"):
        f = getattr(scipy.special, name)
        made[name] = [Case(lambda m, f=f: f(np.arange(4.0), m), real(4, low=0.3), rtol=1e-12)]
    for name in ("chdtr", "chdtrc"):
        made[name] = [Case(getattr(scipy.special, name), real(4, low=0.5), real(4, low=0.5), rtol=1e-12)]
    return made


def mixed():
    """The Python functions."""
    x, inf = real(3, 4), np.inf
    return {
        "logsumexp": [
            Case(special.logsumexp, x),
            Case(lambda a: special.logsumexp(a, axis=0), x),
            Case(lambda a: special.logsumexp(a, axis=(0, 1), keepdims=True), x),
            Case(lambda a, b: special.logsumexp(a, b=b, axis=-1), x, real(4, low=0.1)),
            Case(lambda a, b: special.logsumexp(a, b=b, axis=-1, return_sign=True), x, real(4)),
            Case(special.logsumexp, np.array([1000.0, 1001.0, -inf])),
            Case(special.logsumexp, np.array([-inf, -inf]), grad=False),
            Case(special.logsumexp, np.array([inf, 1.0]), grad=False),
            Case(special.logsumexp, np.array([1, 2])),
            Case(special.logsumexp, x + 3j * x[::-1]),
            Case(lambda a: special.logsumexp(a, axis=0, keepdims=True), x + 900 - 2j * x[::-1]),
            Case(special.logsumexp, x.astype("f4")),
        ],
        "softmax": [Case(special.softmax, x), Case(lambda a: special.softmax(a, axis=1), x.astype("f4"))],
        "log_softmax": [Case(special.log_softmax, x), Case(lambda a: special.log_softmax(a, axis=1), x)],
        "multigammaln": [Case(lambda a, d=d: special.multigammaln(a, d), real(3, low=3.0, high=5.0)) for d in (1, 3)],
        "polygamma": [
            *[Case(lambda a, n=n: special.polygamma(n, a), real(3, low=0.5), rtol=1e-13) for n in (0, 1, 2, 3)],
            Case(lambda a: special.polygamma(np.array([[0], [2]]), a), real(3, low=0.5), rtol=1e-13),
        ],
        "zeta": [
            Case(lambda q: special.zeta(2.5, q), real(3, low=0.5), rtol=1e-13),
            Case(lambda s: special.zeta(s, 1.7), real(3, low=1.5), rtol=1e-13),
        ],
        "softplus": [Case(special.softplus, x)] if hasattr(scipy.special, "softplus") else [],
        "sinc": [Case(special.sinc, x)],
    }


SHAPES = {
    "t": [3.5],
    "beta": [2.2, 1.4],
    "gamma": [2.3],
    "chi2": [3.7],
    "lognorm": [0.8],
    "pareto": [3.3],
    "weibull_min": [1.7],
    "weibull_max": [1.7],
    "invgamma": [4.3],
    "f": [3.5, 6.2],
    "gennorm": [1.3],
    "skewnorm": [-1.2],
    "truncnorm": [-0.7, 1.6],
    "vonmises": [2.1],
    "wrapcauchy": [0.4],
}
STARTS = {"pareto": 1.0, "weibull_max": -1.0}
"""The beginning of a support, where it is not 0 or below."""
CONTINUOUS = (
    "norm t beta gamma chi2 uniform expon laplace logistic cauchy lognorm gumbel_l gumbel_r halfnorm pareto".split()
)
CONTINUOUS += (
    "rayleigh weibull_min weibull_max invgamma halfcauchy gennorm skewnorm truncnorm vonmises wrapcauchy".split()
)
CONTINUOUS += ["f"]
REFUSED = dict.fromkeys(["t", "beta", "f"], "ppf isf cdf sf logcdf logsf")
"""Methods without a derivative in the shape parameters, which are then plain."""


def distribution(name):
    d, shapes, cases = getattr(stats, name), SHAPES.get(name, []), {}
    loc, scale = np.float64(0.3), np.float64(1.4)
    start = STARTS.get(name, 0.0)
    inside = loc + scale * (start + real(4, low=0.1, high=0.9))
    share = real(4, low=0.1, high=0.9)
    outside = np.array([-50.0, 0.3, 60.0, np.nan])
    ends = np.array([0.0, 1.0, -0.1, 1.5, np.nan])
    for method in "pdf logpdf cdf sf logcdf logsf ppf isf".split():
        if method not in d.calls:
            continue
        f = getattr(d, method)
        x, strange = (share, ends) if method in ("ppf", "isf") else (inside, outside)
        standard = share if method in ("ppf", "isf") else start + share
        plain = method in REFUSED.get(name, "").split()
        numbers = [np.float64(s) for s in shapes]
        moved = tuple(range(1 + len(shapes), 3 + len(shapes))) if plain else tuple(range(1, 3 + len(shapes)))
        cases[method] = [
            Case(f, x, *numbers, loc, scale, only=(0, *moved), rtol=1e-11),
            Case(lambda x, f=f: f(x, *shapes), standard, rtol=1e-11),
            Case(lambda x, f=f: f(x, *shapes, loc=0.3), strange, grad=False, rtol=1e-11),
            Case(lambda x, f=f: f(x, *shapes, scale=-1.0), x, grad=False, rtol=1e-11),
            Case(lambda x, f=f: f(x, *shapes), x[0].astype("f4"), grad=False, rtol=1e-6),
        ]
    for method in ("entropy", "mean", "var", "std"):
        if method not in d.calls or ("cauchy" in name and method != "entropy"):
            continue
        cases[method] = [Case(getattr(d, method), *map(np.float64, shapes), loc, scale, rtol=1e-12)]
    return {f"scipy.stats.{name}.{method}": made for method, made in cases.items()}


def counts():
    cases = {}
    k = np.array([0.0, 1.0, 2.0, 3.0, 7.0, -1.0, 1.5])
    fixed = {"poisson": ("mu", lambda f: lambda k, mu: f(k, mu, loc=1), 2.3)}
    fixed["binom"] = ("p", lambda f: lambda k, p: f(k, 3, p), 0.35)
    fixed["nbinom"] = ("p", lambda f: lambda k, p: f(k, 2.5, p), 0.35)
    fixed["geom"] = ("p", lambda f: lambda k, p: f(k, p), 0.35)
    fixed["betabinom"] = ("b", lambda f: lambda k, b: f(k, 3, 1.4, b), 0.35)
    fixed["bernoulli"] = ("p", lambda f: lambda k, p: f(k, p), 0.35)
    for name, (_, bind, value) in fixed.items():
        for method in "pmf logpmf cdf sf logcdf logsf".split():
            if method not in getattr(stats, name).calls:
                continue
            f = bind(getattr(getattr(stats, name), method))
            finite = np.array([0.0, 1.0]) if name == "bernoulli" else np.array([1.0, 2.0, 3.0])
            finite = finite[:-1] if method == "logsf" and name in ("binom", "bernoulli") else finite
            cases[f"scipy.stats.{name}.{method}"] = [
                Case(f, finite, np.float64(value), only=(1,), rtol=1e-11),
                Case(f, k, np.float64(value), grad=False, rtol=1e-11),
                *([] if "log" in method else [Case(f, k, np.float64(-1.0), grad=False)]),
            ]
        for method in ("mean", "var", "std"):
            f = getattr(getattr(stats, name), method)
            first = {"binom": (3,), "nbinom": (2.5,), "betabinom": (3, 1.4)}.get(name, ())
            cases[f"scipy.stats.{name}.{method}"] = [
                Case(lambda p, f=f, first=first: f(*first, p), np.float64(value), rtol=1e-12)
            ]
    cases["scipy.stats.bernoulli.entropy"] = [Case(stats.bernoulli.entropy, np.float64(0.35), rtol=1e-12)]
    return cases


def vectors():
    normal, dirichlet = stats.multivariate_normal, stats.dirichlet
    cov, point = positive(3, 3), np.array([0.2, 0.3, 0.5])
    made = {}
    for method in ("logpdf", "pdf"):
        f, g = getattr(normal, method), getattr(dirichlet, method)
        made[f"multivariate_normal.{method}"] = [
            Case(f, real(3), real(3), cov, rtol=1e-11),
            Case(f, real(4, 3), real(3), cov, rtol=1e-11),
            Case(f, real(2, 4, 3), real(3), cov, rtol=1e-11),
            Case(f, real(4), np.float64(0.3), np.float64(1.7), rtol=1e-11),
            Case(lambda x, f=f: f(x, np.zeros(3), np.array([1.0, 2.0, 3.0])), real(4, 3), rtol=1e-11),
            Case(lambda x, f=f: f(x, np.zeros(3)), real(3), rtol=1e-11),
            Case(lambda w, f=f: f(w @ np.array([1.0, 2.0]), None, w @ w.T, True), real(4, 2), rtol=1e-9),
            Case(lambda x, f=f: f(x, None, np.diag([2.0, 1.0, 0.0]), True), real(4, 3), grad=False, rtol=1e-11),
            Case(lambda x, c, f=f: f(x, None, c, True), real(4, 3), cov, rtol=1e-11),
        ]
        made[f"dirichlet.{method}"] = [
            Case(g, point, real(3, low=0.5), only=(1,), rtol=1e-11),
            Case(g, point[:2], real(3, low=0.5), rtol=1e-11),
            Case(g, np.stack([point, point[::-1]], 1), real(3, low=0.5), only=(1,), rtol=1e-11),
        ]
    for method in ("cdf", "logcdf"):
        plane = np.array([[2.0, 0.5], [0.5, 1.0]])
        made[f"multivariate_normal.{method}"] = [Case(getattr(normal, method), real(4, 2), real(2), plane, only=(0, 1))]
    made["multivariate_normal.entropy"] = [Case(normal.entropy, real(3), cov, only=(1,), rtol=1e-12)]
    for method in ("mean", "var", "entropy"):
        made[f"dirichlet.{method}"] = [Case(getattr(dirichlet, method), real(3, low=0.5), rtol=1e-12)]
    counts, shares = np.array([[1, 2, 3], [0, 6, 0], [2, 2, 1], [7, -1, 0]]), np.array([0.2, 0.3, 0.5])
    for method in ("logpmf", "pmf"):
        f = getattr(stats.multinomial, method)
        made[f"multinomial.{method}"] = [
            Case(lambda p, f=f: f(counts[0], 6, p / np.sum(p)), shares, rtol=1e-12),
            Case(lambda p, f=f: f(counts, np.array([6, 6, 5, 6]), p), shares, grad=False, rtol=1e-12),
            Case(lambda p, f=f: f(counts, 6, p), np.array([1.6, -0.3, 0.5]), grad=False, rtol=1e-12),
        ]
    made["multinomial.cov"] = [
        Case(lambda p, n=n: stats.multinomial.cov(n, p / np.sum(p)), shares, rtol=1e-12) for n in (6, [6, 5])
    ]
    return {f"scipy.stats.{name}": cases for name, cases in made.items()}


TURNED = regular(3, 3)[[1, 2, 0]]
A, B, C, P = regular(3, 3), real(3, 2), regular(3, 3, of=cplx), positive(3, 3)
Q = positive(3, 3, of=cplx)
SPREAD = np.diag([1.0, 3.0, 6.0]) + 0.2 * (lambda a: a + a.T)(real(3, 3))
SKEW = np.diag([1.0, 3.0, 6.0]) + 0.2 * (lambda a: a + a.conj().T)(cplx(3, 3))


def solves():
    forms = [{}, {"lower": True}, {"trans": 1}, {"trans": "C", "lower": True}, {"unit_diagonal": True}]
    triangular = [
        Case(lambda a, b, o=o: linalg.solve_triangular(a, b, **o), m, v) for o in forms for m, v in ((A, B), (C, B))
    ]
    general = [{}, {"transposed": True}, {"assume_a": "gen"}]
    solve = [Case(lambda a, b, o=o: linalg.solve(a, b, **o), A, v, rtol=1e-12) for o in general for v in (B, real(3))]
    for kind in ("pos", "sym", "her"):
        for lower in (False, True):
            m = Q if kind == "her" else P
            solve.append(Case(lambda a, b, k=kind, o=lower: linalg.solve(a, b, o, assume_a=k), m, B, rtol=1e-12))
    solve.append(Case(lambda a, b: linalg.solve(a, b, assume_a="upper triangular"), A, B))
    return {
        "solve_triangular": [*triangular, Case(linalg.solve_triangular, A, real(3))],
        "solve": [*solve, Case(linalg.solve, regular(2, 3, 3), real(2, 3, 1), rtol=1e-12)],
        "cho_solve": [
            Case(lambda a, b: linalg.cho_solve(linalg.cho_factor(a), b), P, B),
            Case(lambda a, b: linalg.cho_solve((linalg.cholesky(a, lower=True), True), b), Q, real(3)),
        ],
        "cho_factor": [Case(lambda a: np.triu(linalg.cho_factor(a)[0]), m) for m in (P, Q)],
        "lu_solve": [
            Case(lambda a, b, t=t: linalg.lu_solve(linalg.lu_factor(a), b, t), TURNED, B, rtol=1e-11) for t in (0, 1)
        ]
        + [Case(lambda a, b: linalg.lu_solve(linalg.lu_factor(a), b, 2), TURNED + 0.3j * A, real(3), rtol=1e-11)],
        "solve_banded": [
            Case(
                lambda ab, b: linalg.solve_banded((1, 2), ab, b),
                real(4, 5) + np.array([[0], [0], [5], [0]]),
                real(5),
                rtol=1e-12,
            ),
            Case(
                lambda ab, b: linalg.solve_banded((1, 1), ab, b),
                real(3, 5) + np.array([[0], [5], [0]]),
                real(5, 2),
                rtol=1e-12,
            ),
        ],
        "solve_sylvester": [
            Case(linalg.solve_sylvester, A, regular(2, 2), B, rtol=1e-12),
            Case(linalg.solve_sylvester, C, regular(2, 2, of=cplx), B, rtol=1e-12),
        ],
    }


def gauge_free(*args, **options):
    """Eigenvalues, and the sizes of the vectors' components: SciPy's driver chooses other signs than NumPy's."""
    w, v = linalg.eigh(*args, **options)
    return w, np.abs(v)


def factors():
    return {
        "inv": [Case(linalg.inv, m, rtol=1e-12) for m in (A, C, regular(2, 3, 3))],
        "det": [Case(linalg.det, m, rtol=t) for m, t in ((A, 0.0), (C, 0.0), (A.astype("f4"), 1e-6))],
        "cholesky": [Case(lambda a, o=o: linalg.cholesky(a, lower=o), m) for m in (P, Q) for o in (False, True)],
        "lu_factor": [Case(linalg.lu_factor, m) for m in (TURNED, TURNED + 0.3j * A)],
        "lu": [
            *[Case(linalg.lu, m) for m in (TURNED, TURNED + 0.3j * A, real(4, 2), real(2, 4))],
            Case(lambda a: linalg.lu(a, permute_l=True), TURNED),
            Case(lambda a: linalg.lu(a, p_indices=True), TURNED),
        ],
        "expm": [Case(linalg.expm, m, rtol=1e-12) for m in (A, C, real(2, 3, 3))],
        "sqrtm": [Case(linalg.sqrtm, m, rtol=1e-12) for m in (P, Q)],
        "block_diag": [Case(linalg.block_diag, A, B, real(3)), Case(linalg.block_diag, C, real(1, 2))],
        "toeplitz": [Case(linalg.toeplitz, real(3), real(4)), Case(linalg.toeplitz, cplx(3))],
        "eigh": [
            *[
                Case(lambda a, o=o: gauge_free(a, lower=o), m, rtol=1e-12)
                for m in (SPREAD, SKEW)
                for o in (True, False)
            ],
            Case(gauge_free, SPREAD, P, rtol=1e-12),
            Case(lambda a, b: linalg.eigh(a, b, eigvals_only=True), SPREAD, P, rtol=1e-12),
        ],
        "eigvalsh": [Case(linalg.eigvalsh, m, rtol=1e-12) for m in (SPREAD, SKEW)],
        "svd": [
            Case(linalg.svd, A, rtol=1e-12),
            Case(lambda a: linalg.svd(a, full_matrices=False), real(4, 3), rtol=1e-12),
            Case(lambda a: linalg.svd(a, compute_uv=False), real(4, 3), rtol=1e-12),
        ],
        "svdvals": [Case(linalg.svdvals, real(4, 3), rtol=1e-12)],
        "qr": [
            Case(linalg.qr, A, rtol=1e-12),
            Case(lambda a: linalg.qr(a, mode="economic"), real(4, 3), rtol=1e-12),
            Case(lambda a: linalg.qr(a, mode="r"), A, rtol=1e-12),
            Case(lambda a: linalg.qr(a, mode="r"), A[:, :2], rtol=1e-12),
        ],
    }


def signals():
    pairs = [((5,), (3,)), ((3,), (5,)), ((4, 5), (2, 3)), ((3, 3), (3, 3)), ((1,), (4,))]
    modes = ("full", "same", "valid")
    made = {"convolve": [], "correlate": [], "fftconvolve": []}
    for name, cases in made.items():
        f = getattr(signal, name)
        for m in modes:
            for a, b in pairs:
                cases.append(Case(lambda x, y, f=f, m=m: f(x, y, m), real(*a), real(*b), rtol=1e-12))
            cases.append(Case(lambda x, y, f=f, m=m: f(x, y, m), cplx(5), cplx(3), rtol=1e-12))
    whole = (np.arange(5), np.array([1, 2]))
    made["convolve"] += [Case(lambda x, y: signal.convolve(x, y, method="fft"), real(6), real(4), rtol=1e-12)]
    made["convolve"] += [
        Case(signal.convolve, *whole),
        Case(lambda x, y: signal.convolve(x, y, "same"), real(400), real(300), rtol=1e-12, grad=False),
    ]
    made["correlate"] += [Case(signal.correlate, *whole)]
    made["fftconvolve"] += [Case(lambda x, y: signal.fftconvolve(x, y, axes=1), real(2, 5), real(1, 3), rtol=1e-12)]
    made["lfilter"] = [
        Case(signal.lfilter, real(3), np.array([1.3, 0.4, -0.2]), real(6), rtol=1e-12),
        Case(signal.lfilter, real(2), np.array([1.3, 0.4, -0.2]), real(2, 6), rtol=1e-12),
        Case(lambda b, a, x: signal.lfilter(b, a, x, axis=0), real(3), np.array([1.3]), real(6, 2), rtol=1e-12),
        Case(
            lambda b, a, x, z: signal.lfilter(b, a, x, zi=z),
            real(3),
            np.array([1.3, 0.1]),
            real(6),
            real(2),
            rtol=1e-12,
        ),
        Case(signal.lfilter, real(1), np.array([2.0]), real(4), rtol=1e-12),
        Case(lambda b, x: signal.lfilter(b, 1, x), real(3), real(4), rtol=1e-12),
    ]
    return made


def integrals():
    made = {}
    x = np.sort(real(6))
    for name in ("trapezoid", "simpson", "cumulative_trapezoid"):
        f = getattr(integrate, name)
        made[name] = [
            Case(f, real(6)),
            Case(f, real(5)),
            Case(f, real(3, 6), x, rtol=1e-11, drtol=1e-4),
            Case(lambda y, d, f=f: f(y, dx=d, axis=0), real(5, 2), np.float64(0.3), rtol=1e-12),
            Case(f, real(2)),
        ]
    made["cumulative_trapezoid"].append(Case(lambda y: integrate.cumulative_trapezoid(y, initial=0), real(4, 3)))
    return made


def under(module, cases):
    return {f"scipy.{module}.{name}": made for name, made in cases.items()}


CASES = {
    **ufuncs(),
    **{name: cases for d in CONTINUOUS for name, cases in distribution(d).items()},
    **counts(),
    **vectors(),
    **under("linalg", solves() | factors()),
    **under("signal", signals()),
    **under("integrate", integrals()),
}
