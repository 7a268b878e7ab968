"""Rotations in space beside SciPy's: values, derivatives beside differences, rotations by 0, and what is refused."""

import itertools

import numpy as np
import pytest
from scipy.spatial.transform import Rotation, Slerp

import wholestep as ws
from wholestep.errors import ParameterError, ShapeError
from wholestep.scipy.spatial import transform as ours

RNG = np.random.default_rng(0)
V = RNG.normal(size=(4, 3))
Q = RNG.normal(size=(4, 4))
POINTS = RNG.normal(size=(4, 3))
FIXED = Rotation.from_rotvec([0.3, -0.2, 0.5])
SEQUENCES = ["".join(s) for s in itertools.product("xyz", repeat=3) if s[0] != s[1] != s[2]]

CASES = {
    "quat": (lambda x: Rotation.from_quat(x).as_quat(), Q),
    "constructor": (lambda x: Rotation(x, scalar_first=True).as_quat(scalar_first=True), Q),
    "canonical": (lambda x: Rotation.from_quat(x).as_quat(canonical=True), Q),
    "matrix": (lambda x: Rotation.from_quat(x).as_matrix(), Q),
    "vector": (lambda x: Rotation.from_rotvec(x).as_rotvec(degrees=True), V),
    "one vector": (lambda x: Rotation.from_rotvec(x, degrees=True).as_matrix(), V[0]),
    "rough matrix": (lambda x: Rotation.from_matrix(np.eye(3) + 0.1 * np.outer(x, x[::-1])).as_quat(), V[0]),
    "matrices": (lambda x: Rotation.from_matrix(Rotation.from_quat(x).as_matrix()).as_matrix(), Q),
    "one angle": (lambda x: Rotation.from_euler("y", x[0, 0]).apply([1.0, 0, 2]), V),
    "angles": (lambda x: Rotation.from_euler("ZX", x[:, :2], degrees=True).as_matrix(), V),
    "magnitude": (lambda x: Rotation.from_quat(x).magnitude(), Q),
    "apply": (lambda x: Rotation.from_rotvec(x).apply(POINTS) * Rotation.from_rotvec(x[0]).apply(x, inverse=True), V),
    "product": (lambda x: (Rotation.from_rotvec(x) * FIXED * Rotation.from_rotvec(x[1])).as_quat(), V),
    "plain first": (lambda x: (FIXED * Rotation.from_rotvec(x).inv()).as_rotvec(), V),
    "plain applied": (lambda x: FIXED.apply(x) + FIXED.apply(x[0], inverse=True), V),
    "power": (lambda x: (Rotation.from_rotvec(x) ** 0.4).as_quat() + (Rotation.from_rotvec(x) ** -1).as_quat(), V),
    "parts": (
        lambda x: sum(r.as_matrix() for r in Rotation.from_rotvec(x)) + Rotation.from_rotvec(x)[1].as_matrix(),
        V,
    ),
    "joined": (lambda x: Rotation.concatenate([FIXED, Rotation.from_rotvec(x)]).as_matrix(), V),
    "mean": (lambda x: Rotation.from_rotvec(0.3 * x).mean([1.0, 2, 1, 1]).as_matrix(), V),
    "path": (lambda x: Slerp([0.0, 1, 3, 4], Rotation.from_rotvec(x))([0.0, 0.3, 2.5, 4]).as_matrix(), V),
    "plain path": (lambda x: Slerp([-9.0, 9], Rotation.from_rotvec(V[:2]))(x[0]).as_matrix(), V),
}


@pytest.mark.parametrize("name", CASES)
def test_rotations_are_scipys(name):
    f, x = CASES[name]
    direction = RNG.normal(size=x.shape)
    want, h = f(x), 1e-6
    slope = (f(x + h * direction) - f(x - h * direction)) / (2 * h)
    value, tangent = ws.jvp(f, (x,), (direction,))
    np.testing.assert_allclose(value, want, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(tangent, slope, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(ws.jit(f, device="reference")(x), want, rtol=1e-11, atol=1e-12)
    weights = RNG.normal(size=np.shape(want))
    gradient = ws.jit(ws.grad(lambda x: np.sum(weights * f(x))), device="reference")(x)
    np.testing.assert_allclose(np.sum(gradient * direction), np.sum(weights * slope), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seq", [*SEQUENCES, *map(str.upper, SEQUENCES)])
def test_angles_about_axes_are_scipys(seq):
    made = ws.vmap(lambda x: Rotation.from_quat(x).as_euler(seq))(Q)
    np.testing.assert_allclose(made, Rotation.from_quat(Q).as_euler(seq), rtol=1e-12, atol=1e-13)
    for middle in (0.0, np.pi) if seq[0] == seq[2] else (np.pi / 2, -np.pi / 2):
        locked = np.array([0.3, middle, 0.4])
        want = Rotation.from_euler(seq, locked).as_euler(seq, suppress_warnings=True)
        got = ws.jit(lambda x: Rotation.from_euler(seq, x).as_euler(seq, degrees=True), device="reference")(locked)
        np.testing.assert_allclose(np.deg2rad(got), want, atol=1e-7)
    angles = np.array([0.3, 0.5, -0.4])
    slopes = ws.jacrev(lambda x: Rotation.from_euler(seq, x).as_euler(seq))(angles)
    np.testing.assert_allclose(slopes, np.eye(3), atol=1e-12)


def test_a_rotation_by_nothing_has_derivatives_of_two_orders():
    nothing = np.zeros(3)
    np.testing.assert_allclose(ws.jacrev(lambda v: Rotation.from_rotvec(v).as_rotvec())(nothing), np.eye(3), atol=1e-15)
    bent = ws.hessian(lambda v: Rotation.from_rotvec(v).as_matrix()[0, 0])(nothing)
    np.testing.assert_allclose(bent, np.diag([0.0, -1, -1]), atol=1e-15)
    for size in (1e-9, 0.99e-3, 1.01e-3):
        v = np.array([size, 0.0, 0.0])
        np.testing.assert_allclose(ws.jacfwd(lambda v: Rotation.from_rotvec(v).as_rotvec())(v), np.eye(3), atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: Rotation.from_rotvec(x[:2]), ShapeError, r"from_rotvec: takes .* \(\.\.\., 3\), not \(2,\)"),
        (lambda x: Rotation.from_quat(0 * x), ParameterError, "length 0"),
        (lambda x: Rotation.from_matrix(-np.eye(3) * x[0] ** 2), ParameterError, "determinant is not positive"),
        (lambda x: Rotation.from_euler("xYz", x[:3]), ParameterError, "'xYz' is no sequence of axes"),
        (lambda x: Rotation.from_quat(x).as_euler("xx"), ParameterError, "as_euler: 'xx' is no sequence"),
        (lambda x: Rotation.from_quat(x)[0], TypeError, "no parts"),
        (lambda x: Slerp([0.0, 0.0], Rotation.from_rotvec(x[:3] * np.ones((2, 1)))), ParameterError, "rising"),
        (lambda x: Slerp([0.0, 1.0], Rotation.from_rotvec(x[:3] * np.ones((2, 1))))(2.0), ParameterError, "outside"),
        (lambda x: Slerp([0.0], Rotation.from_rotvec(x[:3])), ShapeError, "as many times as rotations"),
    ],
)
def test_what_is_no_rotation_is_refused(call, error, words):
    with pytest.raises(error, match=words):
        ws.grad(lambda x: np.sum(call(x).as_quat()))(Q[0])


def test_lengths_and_shapes_are_scipys():
    many, one = ours.Rotation.from_rotvec(V), ours.Rotation.identity()
    assert (len(many), many.shape, many.single, one.single, one.shape, bool(one)) == (4, (4,), False, True, (), True)
    assert ours.Rotation.identity(3).as_quat().shape == Rotation.identity(3).as_quat().shape
    with pytest.raises(TypeError, match="no length"):
        len(one)
    with pytest.raises(TypeError):
        2.0 * one
