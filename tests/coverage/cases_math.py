"""Reductions, statistics, calculus, polynomials and elementwise calls for the coverage tests."""

import functools

import numpy as np
from tests.coverage.cases import Case

import wholestep.numpy.polynomial.polynomial as wpoly
from wholestep.frontend.dispatch import NAMES
from wholestep.numpy.polynomial.linear import LINEAR
from wholestep.numpy.polynomial.series import VALUES

rng = np.random.default_rng(29)
OLD = np.lib.NumpyVersion(np.__version__) < "2.5.0"


def real(*shape, dtype="f8"):
    return np.asarray(rng.normal(size=shape)).astype(dtype)


def cplx(*shape):
    return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape))


A, B, C, V, S = real(3, 4), real(2, 3, 4), cplx(2, 3), real(6), np.float64(0.7)
F4, F2, I8, I2 = A.astype("f4"), A.astype("f2"), rng.integers(-5, 9, (3, 4)), rng.integers(0, 9, (3, 4)).astype("i2")
U1, M = rng.integers(0, 200, (3, 4)).astype("u1"), rng.integers(0, 2, (3, 4)) > 0
M[:, 0] = True
SPREAD = rng.permutation(12).reshape(3, 4) * 0.7 - 3.3
HOLES = SPREAD.copy()
HOLES[0, 1] = HOLES[1, 3] = HOLES[1, 0] = np.nan
EMPTY = np.array([[1.0, np.nan, 3.0], [np.nan, np.nan, np.nan]])
DTYPES = (A, F4, I8, I2, U1, M, C, S, V)


def each(f, *arrays, **options):
    return [Case(f, a, **options) for a in arrays]


def written(call):
    def f(x, *rest):
        y = np.copy(x, order="C")
        call(y, *rest)
        return y

    return f


def reduction(f, *arrays, **options):
    cases = each(f, *arrays, **options)
    for axis in (0, -1, (0, 1)):
        cases.append(Case(lambda x, a=axis: f(x, axis=a), SPREAD, **options))
        cases.append(Case(lambda x, a=axis: f(x, axis=a, keepdims=True), SPREAD, **options))
    return cases


def method(name):
    return [Case(lambda x: getattr(x, name)(), A), Case(lambda x: getattr(x, name)(axis=1), A)]


METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf", "averaged_inverted_cdf", "hazen",
           "weibull", "closest_observation", "interpolated_inverted_cdf", "median_unbiased",
           "normal_unbiased")  # fmt: skip


SHARES = np.array([[0, 1, 2, 0.5], [0.5, 0, 3, 1], [2, 0, 0, 1]])


def weighted(f):
    return functools.partial(f, method="inverted_cdf")


def quantiles(f, scale, of):
    smooth = of is SPREAD
    cases = []
    for m in METHODS:
        q = np.array([0.13, 0.4, 0.77, 1.0, 0.0]) * scale
        cases.append(Case(lambda x, m=m, q=q: f(x, q, axis=1, method=m), of, grad=smooth))
        cases.append(Case(lambda x, m=m: f(x, 0.37 * scale, method=m), of, grad=smooth))
        cases.append(Case(lambda x, m=m: f(x, 0.5 * scale, axis=0, method=m), of, grad=smooth))
        cases.append(Case(lambda x, m=m: f(x, 0.5 * scale, axis=0, method=m), I8))
    return [
        *cases,
        Case(lambda x: f(x, 0.3 * scale, axis=(0, 1), keepdims=True), of, grad=smooth),
        Case(
            lambda x, w: weighted(f)(x, np.array([0.0, 0.31, 1.0]) * scale, axis=1, weights=w), of, SHARES, grad=False
        ),
        Case(lambda x, w: weighted(f)(x, 0.31 * scale, weights=w), of, SHARES, grad=smooth, only=(0,), types=False),
        Case(lambda x: f(x, [0.3 * scale], axis=0), F4),
        Case(lambda x: f(x, 0.3 * scale, axis=0), F4),
        Case(lambda x: f(x, np.float32(0.5) * scale, axis=0), F4),
        Case(lambda x, q: f(x, q), of, np.float64(0.31) * scale, grad=smooth),
        Case(lambda x, q: f(x, q, axis=1), of, np.array([0.31, 0.87]) * scale, grad=smooth),
        Case(lambda x: f(x, 0.5 * scale), np.array([1.0, np.nan, 2.0]), grad=False),
    ]


def comparisons(f):
    return [
        Case(f, A, A + 1e-9, types=False),
        Case(f, A, A + 1e-3, types=False),
        Case(lambda x: f(x, x, equal_nan=True), HOLES, types=False),
    ]


XP, FP = np.array([-1.5, -0.2, 0.4, 1.3]), real(4)
AT = np.array([[-2.0, -0.3, 0.1], [0.9, 1.2, 5.0]])
POINTS = np.sort(real(4)) + np.arange(4)
FREQ, WEIGHT = np.array([1, 2, 1, 3]), np.abs(real(4)) + 0.1
T = np.linspace(0, 12, 9)

CASES = {
    "numpy.sum": [
        *reduction(np.sum, *DTYPES, F2, np.zeros((0, 3))),
        Case(lambda x: np.sum(x, where=M, initial=2.0), A),
        Case(lambda x: np.sum(x, axis=0, dtype="f4"), A, grad=False),
        Case(lambda x: np.sum([x, 2 * x], axis=0) if isinstance(x, float) else x.sum(0), A),
        Case(written(lambda y: np.sum(y, axis=0, out=y[1])), A),
        *method("sum"),
    ],
    "numpy.prod": [
        *reduction(np.prod, *DTYPES),
        Case(lambda x: np.prod(x, axis=1, where=M, initial=3.0), A),
        *method("prod"),
    ],
    "numpy.max": [
        *reduction(np.max, A, F4, I8, U1, M, S),
        *reduction(np.max, C, np.array([[1 + 2j, 1 + 3j, 1 + 3j], [2j, 5j, 1j]]), grad=False),
        *each(np.max, C),
        Case(np.max, np.array([1 + 2j, complex(np.nan, 2), 5j]), grad=False),
        Case(np.max, np.full(257, 1.1 + 2.3j, np.complex64), grad=False),
        Case(np.max, np.full(3, 1.7e308 + 1e308j), grad=False),
        Case(lambda x: np.max(x, initial=0.3), A),
        Case(lambda x: np.max(x, axis=1, where=M, initial=-9.0), A),
        *method("max"),
    ],
    "numpy.min": [
        *reduction(np.min, A, F4, I8, U1, M, S),
        *reduction(np.min, C),
        Case(lambda x: np.min(x, axis=0, initial=0.3), A),
        *method("min"),
    ],
    "numpy.amax": reduction(np.amax, A, I8),
    "numpy.amin": reduction(np.amin, A, I8),
    "numpy.ptp": reduction(np.ptp, A, I8, F4),
    "numpy.any": [*reduction(np.any, A, I8, M, C), Case(lambda x: np.any(x, axis=1, where=M), A), *method("any")],
    "numpy.all": [*reduction(np.all, A, I8, M, C), Case(lambda x: np.all(x, axis=1, where=M), A), *method("all")],
    "numpy.mean": [*reduction(np.mean, *DTYPES, F2), Case(lambda x: np.mean(x, axis=1, where=M), A), *method("mean")],
    "numpy.var": [
        *reduction(np.var, *DTYPES),
        Case(lambda x: np.var(x, axis=1, ddof=1, where=M), A),
        Case(lambda x: np.var(x, correction=1), A),
        Case(lambda x: np.var(x, axis=0, mean=np.mean(x, axis=0, keepdims=True)), A),
        *method("var"),
    ],
    "numpy.std": [*reduction(np.std, *DTYPES[:-2], V), Case(lambda x: np.std(x, axis=1, ddof=1), C), *method("std")],
    "numpy.argmax": [*each(np.argmax, A, I8, M, S), Case(lambda x: np.argmax(x, axis=1), A), *method("argmax")],
    "numpy.argmin": [
        *each(np.argmin, A, I8),
        Case(lambda x: np.argmin(x, axis=0, keepdims=True), A),
        *method("argmin"),
    ],
    "numpy.cumsum": [
        *each(np.cumsum, *DTYPES),
        Case(lambda x: np.cumsum(x, axis=1), A),
        Case(lambda x: np.cumsum(x, axis=1, dtype=bool), I8),
        *method("cumsum"),
    ],
    "numpy.cumprod": [
        *each(np.cumprod, *DTYPES[:-2], V),
        Case(lambda x: np.cumprod(x, axis=0), A),
        Case(lambda x: np.cumprod(x, axis=1, dtype=bool), I8),
        *method("cumprod"),
    ],
    "numpy.cumulative_sum": [
        *each(np.cumulative_sum, V, S),
        Case(lambda x: np.cumulative_sum(x, axis=1, include_initial=True), A),
        Case(lambda x: np.cumulative_sum(x, axis=0, dtype="f8"), I8),
    ],
    "numpy.cumulative_prod": [
        *each(np.cumulative_prod, V),
        Case(lambda x: np.cumulative_prod(x, axis=-1, include_initial=True), A),
    ],
    "numpy.average": [
        *each(np.average, A, I8, S, C),
        Case(lambda x: np.average(x, axis=1, keepdims=True), A),
        Case(lambda x, w: np.average(x, weights=w), A, np.abs(A) + 0.1),
        Case(lambda x, w: np.average(x, axis=1, weights=w), A, WEIGHT),
        Case(lambda x, w: np.average(x, axis=0, weights=w, returned=True), A, WEIGHT[:3]),
        Case(lambda x: np.average(x, axis=0, returned=True), A),
        Case(lambda x: np.average(x, axis=1, weights=[1, 2, 1, 0]), I8),
        Case(lambda x, w: np.average(x, axis=(2, 1), weights=w), B, np.abs(real(4, 3)) + 0.1),
    ],
    "numpy.median": [
        *reduction(np.median, SPREAD, SPREAD[:, :3], F4, I8, U1, S),
        Case(lambda x: np.median(x, axis=1), HOLES, grad=False),
        Case(np.median, np.array([1.0, np.inf, np.inf]), grad=False),
    ],
    "numpy.nanmedian": [
        *reduction(np.nanmedian, SPREAD, I8, F4),
        Case(lambda x: np.nanmedian(x, axis=1), HOLES, grad=False),
        Case(np.nanmedian, HOLES, grad=False),
        Case(lambda x: np.nanmedian(x, axis=1), EMPTY, grad=False),
    ],
    "numpy.quantile": quantiles(np.quantile, 1, SPREAD),
    "numpy.percentile": quantiles(np.percentile, 100, SPREAD),
    "numpy.nanquantile": [*quantiles(np.nanquantile, 1, HOLES), Case(lambda x: np.nanquantile(x, 0.3, axis=1), SPREAD)],
    "numpy.nanpercentile": [*quantiles(np.nanpercentile, 100, HOLES), Case(lambda x: np.nanpercentile(x, 30), SPREAD)],
    "numpy.cov": [
        *each(np.cov, A, V, C, I8, F4),
        Case(np.cov, V, real(6)),
        Case(lambda x: np.cov(x, rowvar=False, bias=True), A),
        Case(lambda x, w: np.cov(x, aweights=w), A, WEIGHT),
        Case(lambda x, w: np.cov(x, fweights=FREQ, aweights=w, ddof=0), A, WEIGHT),
        Case(lambda x: np.cov(x, fweights=FREQ, ddof=2), A),
    ],
    "numpy.corrcoef": [
        *each(np.corrcoef, A, V, C),
        Case(np.corrcoef, V, real(6)),
        Case(lambda x: np.corrcoef(x, rowvar=False), A),
    ],
    "numpy.histogram": [
        *[
            Case(lambda w, o=options: np.histogram(A, weights=w.reshape(3, 4), **o), real(12), rtol=1e-12)
            for options in ({}, {"bins": 4, "range": (-1, 1)}, {"bins": [-1, 0.0, 0.5]}, {"bins": 3, "density": True})
        ],
        Case(lambda a: np.histogram(a), A, rtol=1e-14),
        Case(lambda a: np.histogram(a, 5), F4, rtol=1e-6, grad=False),
        Case(lambda a, w: np.histogram(a, weights=w), A, F4, rtol=1e-6, grad=False),
        Case(lambda a: np.histogram(a, bins=4, range=(-1, 1)), A, grad=False),
        Case(lambda a: np.histogram(a, bins=[-1, 0, 1]), A, grad=False),
        Case(lambda e: np.histogram(A, bins=e), np.array([-1.0, 0.1, 1.5])),
    ],
    **{
        name: [Case(values, *given, rtol=1e-12) for given in ((V, SPREAD[:, 0]), (S, SPREAD))]
        for values in VALUES.values()
        for name in NAMES
        if name.rpartition(".")[2] == values.__name__ != "polyval"
    },
    **{
        name: [case]
        for der, integ, fit in LINEAR.values()
        for function, case in (
            (der, Case(lambda c, f=der: f(c, 2, 1.5, axis=1), real(2, 4), rtol=1e-12)),
            (integ, Case(lambda c, f=integ: f(c, 2, [1.0, 0.5], 0.3, 1.5), real(4, 2), rtol=1e-12)),
            (fit, Case(lambda y, f=fit: f(np.arange(6.0), y, 2, w=np.arange(1, 7)), real(6), rtol=1e-10)),
        )
        for name in NAMES
        if name.startswith("numpy.polynomial") and name.rpartition(".")[2] == function.__name__
    },
    "numpy.polynomial.polynomial.polyval": [
        *[
            Case(lambda x, c, t=t: np.polynomial.polynomial.polyval(x, c, t), x, c, only=only)
            for x, c, t, only in [(A, V, True, (0,)), (V, V, False, (0,)), (np.float64(0.3), V, True, (0,))]
        ],
        *[
            Case(lambda x, c, t=t: wpoly.polyval(x, c, t), x, c)
            for x, c, t in [(A, V, True), (A, B, True), (A[0], A, False)]
        ],
        Case(lambda c: wpoly.polyval(2.0, c), V),
    ],
    "numpy.bincount": [
        Case(lambda w: np.bincount([0, 2, 2, 5, 0, 1], w), V),
        Case(lambda w: np.bincount([0, 1], w, minlength=4), np.array([1, 2])),
        Case(lambda x: np.bincount(x, minlength=3), np.array([0, 2, 2])),
    ],
    "numpy.diff": [
        *each(np.diff, A, I8, M, C, U1),
        Case(lambda x: np.diff(x, 2, axis=0), A),
        Case(lambda x, y: np.diff(x, prepend=y, append=1.5), A, S),
        Case(lambda x, y: np.diff(x, axis=0, append=y), A, real(2, 4)),
        Case(lambda x: np.diff(x, n=9), V),
    ],
    "numpy.ediff1d": [*each(np.ediff1d, A, I8), Case(lambda x, y: np.ediff1d(x, to_end=y, to_begin=[1.0, 2.0]), V, S)],
    "numpy.gradient": [
        *each(np.gradient, A, V, I8, F4, B),
        Case(lambda x: np.gradient(x, 0.3, axis=1), A),
        Case(lambda x, h: np.gradient(x, h), A, S),
        Case(lambda x: np.gradient(x, 2.0, 0.5), A),
        Case(lambda x: np.gradient(x, edge_order=2), A),
        Case(lambda x, t: np.gradient(x, t, axis=1), A, POINTS),
        Case(lambda x, t: np.gradient(x, t, axis=1, edge_order=2), A, POINTS),
        Case(lambda x: np.gradient(x, [0, 1.0, 2.0], [0, 1.0, 3, 3.5]), A),
    ],
    "numpy.trapezoid": [
        *each(np.trapezoid, A, I8, F4, V),
        Case(lambda y, x: np.trapezoid(y, x), A, POINTS),
        Case(lambda y, x: np.trapezoid(y, x, axis=0), A, real(3, 4)),
        Case(lambda y, h: np.trapezoid(y, dx=h, axis=0), A, S),
        Case(lambda y, x: np.trapezoid(y, x), real(2), real(2, 3, 4)),
        Case(lambda y, x: np.trapezoid(y, x), real(4), real(2, 3, 4)),
    ],
    "numpy.interp": [
        Case(np.interp, AT, XP, FP),
        Case(np.interp, S, XP, FP),
        Case(lambda x, f, a, b: np.interp(x, XP, f, a, b), AT, FP, S, np.float64(2.0)),
        Case(lambda x, f: np.interp(x, XP, f, left=-1, right=9), AT, FP),
        Case(lambda x, t, f: np.interp(x, t, f, period=2.5), AT + 0.05, np.array([0.3, -0.9, 3.7]), FP[:3]),
        Case(lambda x: np.interp(x, XP, XP + 1j * XP**2), AT),
        Case(lambda x: np.interp(x, XP, [1, 2, 3, 4]), XP, grad=False),
        Case(lambda x, f: np.interp(x, [0.5], f), AT, FP[:1]),
        Case(lambda x: np.interp(x, [0, 1], [0, 10]), F4),
    ],
    "numpy.unwrap": [
        Case(np.unwrap, T % 5.1),
        Case(lambda x: np.unwrap(x, axis=0), (3 * T.reshape(3, 3)) % 6.2),
        Case(lambda x: np.unwrap(x, period=4), np.array([0, 1, 2, 3, 0, 2, 0, 3])),
        Case(lambda x: np.unwrap(x, discont=4, period=5.0), T % 5.0),
        Case(np.unwrap, (T % 5.1).astype("f4")),
    ],
    "numpy.convolve": [
        *[
            Case(lambda x, y, m=m: np.convolve(x, y, m), V, real(n))
            for m in ("full", "same", "valid")
            for n in (1, 2, 3, 6, 9)
        ],
        Case(np.convolve, cplx(4), cplx(3)),
        Case(np.convolve, np.arange(4), np.arange(3)),
        Case(np.convolve, V, 3),
    ],
    "numpy.correlate": [
        *[
            Case(lambda x, y, m=m: np.correlate(x, y, m), V, real(n))
            for m in ("full", "same", "valid")
            for n in (1, 2, 3, 6, 9, 8)
        ],
        *[Case(lambda x, y, m=m: np.correlate(x, y, m), cplx(4), cplx(n)) for m in ("full", "same") for n in (3, 6)],
    ],
    "numpy.cross": [
        Case(np.cross, real(3), real(3)),
        Case(np.cross, real(2, 3), real(3)),
        Case(lambda x, y: np.cross(x, y, axisa=0, axisc=0), real(3, 4), real(4, 3)),
        Case(lambda x, y: np.cross(x, y, axis=0), real(3, 4), real(3, 4)),
        Case(np.cross, np.arange(3), np.array([3, 1, 2])),
        # NumPy 2.5 takes vectors of three components only.
        *([Case(np.cross, real(2), real(3)), Case(np.cross, real(5, 2), real(2))] if OLD else []),
    ],
    "numpy.polyval": [
        Case(np.polyval, V[:4], A),
        Case(lambda p: np.polyval(p, 2), V),
        Case(np.polyval, V[:3], S),
        Case(np.polyval, np.arange(3), np.arange(4)),
    ],
    "numpy.polyadd": [Case(np.polyadd, V, real(3)), Case(np.polyadd, real(2), V), Case(np.polyadd, V, S)],
    "numpy.polysub": [Case(np.polysub, V, real(3)), Case(np.polysub, np.arange(2), V)],
    "numpy.polymul": [
        Case(np.polymul, V, real(3)),
        Case(np.polymul, np.arange(1, 3), V),
        Case(lambda x: np.polymul(x, ()), V),
    ],
    "numpy.polydiv": [
        Case(np.polydiv, V, real(3), known=True),
        Case(np.polydiv, real(2), V, known=True),
        Case(np.polydiv, np.array([2, 3, 4]), np.array([2, 1]), known=True),
    ],
    "numpy.polyder": [
        *each(np.polyder, V, np.arange(5)),
        Case(lambda p: np.polyder(p, 2), V),
        Case(lambda p: np.polyder(p, 0), V),
    ],
    "numpy.polyint": [
        *each(np.polyint, V, np.arange(5)),
        Case(lambda p, k: np.polyint(p, 2, [k, 3.0]), V, S),
        Case(lambda p: np.polyint(p, 2, 1.0), V),
    ],
    "numpy.polyfit": [
        Case(lambda x, y: np.polyfit(x, y, 2), T[:6], V, rtol=1e-9),
        Case(lambda x, y, w: np.polyfit(x, y, 1, w=w), T[:4], real(4, 2), WEIGHT, rtol=1e-9),
        Case(lambda x, y: np.polyfit(x, y, 2, cov=True), T[:6], V, rtol=1e-9),
        Case(lambda x, y: np.polyfit(x, y, 2, full=True), T[:6], V, rtol=1e-9),
        Case(lambda x, y, w: np.polyfit(x, y, 1, w=w, cov="unscaled"), T[:4], real(4, 2), WEIGHT, rtol=1e-9),
    ],
    "numpy.roots": [
        Case(np.roots, np.array([1.0, -2.0, -5.0, 6.0]), known=True, rtol=1e-12),
        Case(np.roots, np.array([0.0, 2.0, 1.0, 3.0, 0.0]), known=True, rtol=1e-12, grad=False),
        Case(np.roots, np.array([1, 0]), known=True),
    ],
    "numpy.poly": [Case(np.poly, V), Case(np.poly, np.array([1, 2, 2])), Case(np.poly, V.astype(np.float16))],
    "numpy.vander": [
        *each(np.vander, V, np.arange(4), C[0], F4[0]),
        Case(lambda x: np.vander(x, 3, True), V),
        Case(lambda x: np.vander(x, 0), V),
    ],
    "numpy.nansum": [
        *each(np.nansum, I8, C),
        *reduction(np.nansum, SPREAD),
        Case(lambda x: np.nansum(x, axis=1), HOLES, grad=False),
    ],
    "numpy.nanprod": [
        *each(np.nanprod, I8),
        *reduction(np.nanprod, SPREAD),
        Case(lambda x: np.nanprod(x, axis=1), HOLES, grad=False),
    ],
    "numpy.nanmax": [
        *each(np.nanmax, I8),
        *reduction(np.nanmax, SPREAD),
        *each(lambda x: np.nanmax(x, axis=1), HOLES, EMPTY, grad=False),
        Case(lambda x: np.nanmax(x, axis=1), np.where(np.isnan(HOLES), np.nan, HOLES * (1 + 1j)), grad=False),
    ],
    "numpy.nanmin": [
        *each(np.nanmin, I8),
        *reduction(np.nanmin, SPREAD),
        *each(lambda x: np.nanmin(x, axis=1), HOLES, EMPTY, grad=False),
        Case(lambda x: np.nanmin(x, axis=1), np.where(np.isnan(HOLES), np.nan, HOLES * (1 + 1j)), grad=False),
    ],
    "numpy.nanmean": [
        *each(np.nanmean, I8, F4, C),
        *reduction(np.nanmean, SPREAD),
        *each(lambda x: np.nanmean(x, axis=1), HOLES, EMPTY, grad=False),
    ],
    "numpy.nanvar": [
        *each(np.nanvar, I8, F4, C),
        *reduction(np.nanvar, SPREAD),
        *each(lambda x: np.nanvar(x, axis=1, ddof=1), HOLES, EMPTY, grad=False),
    ],
    "numpy.nanstd": [
        *each(np.nanstd, I8, F4),
        *reduction(np.nanstd, SPREAD),
        *each(lambda x: np.nanstd(x, axis=1), HOLES, EMPTY, grad=False),
    ],
    "numpy.nancumsum": [Case(lambda x: np.nancumsum(x, axis=1), HOLES, grad=False), Case(np.nancumsum, A)],
    "numpy.nancumprod": [Case(lambda x: np.nancumprod(x, axis=1), HOLES, grad=False), Case(np.nancumprod, A)],
    "numpy.nanargmax": [
        *each(np.nanargmax, I8, HOLES, grad=False),
        Case(lambda x: np.nanargmax(x, axis=1), HOLES, grad=False),
    ],
    "numpy.nanargmin": [
        *each(np.nanargmin, I8, HOLES, grad=False),
        Case(lambda x: np.nanargmin(x, axis=1), HOLES, grad=False),
    ],
    "numpy.apply_along_axis": [
        Case(lambda x: np.apply_along_axis(np.sum, 1, x), A),
        Case(lambda x: np.apply_along_axis(lambda v: v[::2] * 2, 0, x), A),
        Case(lambda x: np.apply_along_axis(lambda v, k: np.outer(v, v) + k, 1, x, 3.0), B),
    ],
    "numpy.apply_over_axes": [
        Case(lambda x: np.apply_over_axes(np.sum, x, [0, -1]), B),
        Case(lambda x: np.apply_over_axes(np.max, x, 1), A),
    ],
    "numpy.linspace": [
        Case(lambda a, b: np.linspace(a, b, 7), S, np.float64(2.0)),
        Case(lambda a, b: np.linspace(a, b, 5, endpoint=False, axis=-1), V, S),
        Case(lambda a: np.linspace(a, 3, 4, retstep=True), S),
        Case(lambda a: np.linspace(a, 9, 4, dtype=int), S, grad=False),
        Case(lambda a: np.linspace(a, 9, 1), S),
        Case(lambda a: np.linspace(0, a, 3), np.float32(0.3)),
    ],
    "numpy.logspace": [
        Case(lambda a, b: np.logspace(a, b, 5), S, np.float64(2.0)),
        Case(lambda a, b: np.logspace(0, a, 5, base=b), S, np.float64(2.0)),
    ],
    "numpy.geomspace": [
        Case(lambda a, b: np.geomspace(a, b, 5), S, np.float64(9.0), rtol=1e-13),
        Case(lambda a: np.geomspace(-1.0, a, 4, endpoint=False), -np.abs(V) - 0.1, rtol=1e-13),
    ],
}

# Ties of the real parts, equal elements, infinities, and nan in either part.
TIED = np.array([[1 + 2j, 1 + 3j, 1 + 3j, 0j], [2 - 5j, 5j, 2 - 7j, 2 - 5j]])
LOST = np.array([[1, complex(3, np.nan), complex(np.nan, 1)], [complex(-np.inf, -np.inf), complex(-np.inf, 1), np.inf]])
for name in ("argmax", "argmin", "nanargmax", "nanargmin"):
    f = getattr(np, name)
    CASES[f"numpy.{name}"] += [
        Case(lambda x, f=f, a=axis: f(x, axis=a), given, grad=False)
        for axis in (None, 0, 1)
        for given in (TIED, LOST, LOST.astype(np.complex64))
    ]
