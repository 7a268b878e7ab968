"""Splines and lines through points: SciPy's values, derivatives in every number, and its own names in functions."""

import numpy as np
import pytest
import scipy.interpolate as theirs

import wholestep as ws
from wholestep.errors import ConversionError, ParameterError, ShapeError, UnsupportedError
from wholestep.scipy import interpolate as ours

RNG = np.random.default_rng(8)
X = np.cumsum(RNG.uniform(0.3, 1.5, 7))
Y, WIDE = RNG.normal(size=7), RNG.normal(size=(2, 7, 3))
AT = np.concatenate([RNG.uniform(X[0], X[-1], 6), X, [X[0] - 0.7, X[-1] + 0.4]])
INSIDE = RNG.uniform(X[0], X[-1], (2, 3))
CURVES = {
    "not-a-knot": ("CubicSpline", {}),
    "natural": ("CubicSpline", {"bc_type": "natural"}),
    "clamped": ("CubicSpline", {"bc_type": "clamped"}),
    "mixed": ("CubicSpline", {"bc_type": ("natural", "not-a-knot"), "extrapolate": False}),
    "values": ("CubicSpline", {"bc_type": ((1, 0.3), (2, -1.2))}),
    "on and on": ("CubicSpline", {"extrapolate": "periodic"}),
    "pchip": ("PchipInterpolator", {}),
    "akima": ("Akima1DInterpolator", {}),
    "makima": ("Akima1DInterpolator", {"method": "makima"}),
}


def close(found, expected, rtol=1e-12):
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * max(1, np.nanmax(np.abs(expected))))


@pytest.mark.parametrize("name", CURVES)
@pytest.mark.parametrize("count", [2, 3, 4, 7])
def test_curves_are_those_of_scipy(name, count):
    kind, options = CURVES[name]
    made = lambda module, x, y, **more: getattr(module, kind)(x, y, **options, **more)  # noqa: E731
    x, y = X[:count], Y[:count]
    expected = made(theirs, x, y)
    for nu in (0, 1, 2, 3, 4):
        close(made(ours, x, y)(AT, nu), expected(AT, nu))
    close(ws.jit(lambda x, y, at: made(theirs, x, y)(at))(x, y, AT), expected(AT))
    if options.get("extrapolate") != "periodic":
        close(made(ours, x, y).antiderivative(2)(AT), expected.antiderivative(2)(AT))
        close(made(ours, x, y).integrate(x[0], x[-1]), expected.integrate(x[0], x[-1]))
    close(made(ours, x, y).derivative(2)(AT), expected.derivative(2)(AT), 1e-11)
    if name != "values":
        close(made(ours, x, WIDE[:, :count], axis=1)(INSIDE), made(theirs, x, WIDE[:, :count], axis=1)(INSIDE))


def test_a_curve_that_goes_on():
    y = np.concatenate([Y[:-1], Y[:1]])
    for count in (2, 3, 4, 7):
        x, heights = X[:count], np.concatenate([Y[: count - 1], Y[:1]])
        close(
            ours.CubicSpline(x, heights, bc_type="periodic")(AT), theirs.CubicSpline(x, heights, bc_type="periodic")(AT)
        )
    ws.gradcheck(lambda x, y, at: ours.CubicSpline(x, np.append(y, y[0]), bc_type="periodic")(at), X, y[:-1], INSIDE)


def test_complex_values_and_slopes_that_are_given():
    close(ours.CubicSpline(X, Y + 1j * Y[::-1])(AT), theirs.CubicSpline(X, Y + 1j * Y[::-1])(AT))
    close(ours.CubicHermiteSpline(X, Y, Y[::-1])(AT), theirs.CubicHermiteSpline(X, Y, Y[::-1])(AT))


@pytest.mark.parametrize("name", CURVES)
def test_curves_differentiate(name):
    kind, options = CURVES[name]

    def curve(x, y, at):
        return getattr(theirs, kind)(x, y, **options)(at)

    ws.gradcheck(curve, X, Y, INSIDE)
    slope = ws.vmap(ws.grad(lambda at: curve(X, Y, at)))(INSIDE[0])
    close(slope, getattr(theirs, kind)(X, Y, **options)(INSIDE[0], 1), 1e-11)
    rows = np.stack([Y, Y[::-1]])
    close(ws.vmap(lambda y: curve(X, y, INSIDE))(rows), [getattr(theirs, kind)(X, y, **options)(INSIDE) for y in rows])


def test_the_conditions_at_the_ends_differentiate():
    ws.gradcheck(lambda v: ours.CubicSpline(X, Y, bc_type=((1, v[0]), (2, v[1])))(INSIDE), np.array([0.2, -0.4]))


SPLINES = {
    "cubic": theirs.CubicSpline(X, Y),
    "pchip": theirs.PchipInterpolator(X, WIDE, axis=1),
    "slope": theirs.CubicSpline(X, Y).derivative(),
    "basis": theirs.make_interp_spline(X, Y, k=3),
    "through": theirs.InterpolatedUnivariateSpline(X, Y, k=2),
    "smooth": theirs.UnivariateSpline(X, Y, s=0.5),
    "interp1d": theirs.interp1d(X, WIDE, axis=1, fill_value=(1.0, 2.0), bounds_error=False),
    "interp1d of splines": theirs.interp1d(X, WIDE, "quadratic", axis=1, fill_value="extrapolate"),
}


@pytest.mark.parametrize("name", SPLINES)
def test_objects_of_scipy_take_traced_points(name):
    spline = SPLINES[name]
    close(ws.jit(lambda at: spline(at))(AT), spline(AT), 1e-11)
    ws.gradcheck(lambda at: spline(at), INSIDE)


def test_an_object_of_scipys_made_in_a_function_of_plain_numbers():
    def total(at):
        spline = theirs.CubicSpline(X, Y)
        kinds.append(type(spline))
        return spline(at) + spline.derivative()(at) + spline.integrate(X[0], at) + theirs.interp1d(X, Y, "cubic")(X[2])

    kinds, at = [], 0.5 * (X[1] + X[2])
    np.testing.assert_allclose(ws.jit(total)(at), total(at), rtol=1e-12)
    ws.gradcheck(total, at)
    assert {*kinds} == {theirs.CubicSpline}


FILLS = [{}, {"fill_value": 0.5}, {"fill_value": (-1.0, 2.0)}, {"fill_value": "extrapolate"}]


@pytest.mark.parametrize("kind", ["linear", "slinear", "nearest", "nearest-up", "previous", "next", "zero"])
@pytest.mark.parametrize("fill", FILLS, ids=str)
def test_lines_and_steps(kind, fill):
    if kind in ("slinear", "zero") and fill.get("fill_value") == "extrapolate":
        pytest.skip("a spline of SciPy's, which goes on by its last piece")
    bounds = {} if fill.get("fill_value") == "extrapolate" else {"bounds_error": False}
    mixed = RNG.permutation(7)
    halves = np.concatenate([AT, (X[1:] + X[:-1]) / 2])
    for y, axis in ((Y, -1), (WIDE, 1), (np.arange(7), 0)):
        x, heights = X[mixed], np.take(y, mixed, axis=axis)
        expected = theirs.interp1d(x, heights, kind, axis, **fill, **bounds)(halves)
        found = ours.interp1d(x, heights, kind, axis, **fill, **bounds)(halves)
        close(found, expected)
        assert found.dtype == expected.dtype

        def read(x, y, at, axis=axis):
            return theirs.interp1d(x, y, kind, axis, **fill, **bounds)(at)

        close(ws.jit(read)(x, heights, halves), expected)
    ws.gradcheck(lambda x, y, at: ours.interp1d(x, y, kind, **fill, **bounds)(at), X, Y, INSIDE)


def test_points_outside():
    line = ours.interp1d(X, Y)
    with pytest.raises(ParameterError, match="interp1d: a point is outside"):
        line(X[-1] + 1)
    with pytest.raises(ParameterError, match="interp1d: a point is outside"):
        ws.grad(lambda at: line(at))(X[-1] + 1)
    assert np.isnan(ws.jit(lambda at: line(at))(X[-1] + 1)) and ws.jit(lambda at: line(at))(X[-1]) == Y[-1]
    grid = ours.RegularGridInterpolator((X, X), np.outer(Y, Y))
    assert np.isnan(ws.jit(lambda at: grid(at))([X[-1] + 1, X[0]])).all()


PLACES = (X[:4], X[:3], X[:5])


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("bounds", [{}, {"bounds_error": False}, {"bounds_error": False, "fill_value": None}], ids=str)
@pytest.mark.parametrize("beyond", [(), (2,)])
def test_grids(method, bounds, beyond):
    values = RNG.normal(size=(4, 3, 5, *beyond))
    inside = RNG.uniform(X[0], X[2], (6, 3))
    at = inside if not bounds else np.concatenate([inside, inside + 1.7, [[X[1], np.nan, X[0]], [X[3], X[2], X[4]]]])
    expected = theirs.RegularGridInterpolator(PLACES, values, method, **bounds)
    found = ours.RegularGridInterpolator(PLACES, values, method, **bounds)
    close(found(at), expected(at))
    close(ws.jit(lambda at: expected(at))(at), expected(at))
    close(ws.jit(lambda *g: theirs.interpn(g[:3], g[3], g[4], method, **bounds))(*PLACES, values, at), expected(at))
    close(found((X[1], at[:, 1:2] * 0 + X[1], X[:3])), expected((X[1], at[:, 1:2] * 0 + X[1], X[:3])))
    falling = (PLACES[0][::-1], *PLACES[1:])
    close(ours.RegularGridInterpolator(falling, values[::-1], method, **bounds)(at), expected(at))
    # Compiled once, as the check differentiates in every direction, and on few places, as each of them is a direction.
    compiled = ws.jit(lambda v, at, *p: ours.RegularGridInterpolator(p, v, method, **bounds)(at))
    ws.gradcheck(compiled, values[:3, :2, :3], RNG.uniform(X[0], X[1], (2, 3)), X[:3], X[:2], X[:3])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: ours.interp1d(x, x, "cubic"), UnsupportedError, "interp1d: kind='cubic' is not covered"),
        (lambda x: ours.interp1d(x, x[:2]), ShapeError, "interp1d: y of shape"),
        (lambda x: ours.CubicSpline(x[:1], x[:1]), ShapeError, "CubicSpline: x is a vector of two places or more"),
        (lambda x: ours.CubicSpline(X[::-1], x), ParameterError, "CubicSpline: x must be a rising sequence"),
        (lambda x: ours.CubicSpline(x, x, bc_type="smooth"), ParameterError, "CubicSpline: bc_type=smooth"),
        (lambda x: ours.CubicSpline(x, x, bc_type=((3, 0.0), "natural")), ParameterError, "order 1 or 2"),
        (lambda x: ours.CubicSpline(x, x).roots(), UnsupportedError, "PPoly.solve"),
        (lambda x: ours.PchipInterpolator(x, 1j * x), UnsupportedError, "PchipInterpolator: complex values"),
        (lambda x: ours.Akima1DInterpolator(x, x, method="smooth"), ParameterError, "neither 'akima' nor 'makima'"),
        (lambda x: ours.RegularGridInterpolator((X,), x, "cubic"), UnsupportedError, "method='cubic' is not covered"),
        (
            lambda x: ours.RegularGridInterpolator((X,), x)([[0.5, 0.5]]),
            ShapeError,
            "points of 2 numbers on a grid of 1",
        ),
        (lambda x: theirs.make_interp_spline(X, x), ConversionError, "make_interp_spline"),
        (lambda x: theirs.UnivariateSpline(X, x), ConversionError, "UnivariateSpline"),
    ],
)
def test_what_does_not_fit_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        ws.jit(lambda x: np.sum(call(x)(X[1])))(X)


def test_conditions_of_several_curves_may_be_lists():
    ends = ((1, [0.5, 1.0, 2.0]), (2, [0.0, 1.0, -1.0]))
    found = ws.jit(lambda y: theirs.CubicSpline(X, y, bc_type=ends)(AT))(WIDE[0])
    np.testing.assert_allclose(found, theirs.CubicSpline(X, WIDE[0], bc_type=ends)(AT), rtol=1e-11)
