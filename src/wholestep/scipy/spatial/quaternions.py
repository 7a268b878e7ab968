"""Unit quaternions, scalar last, and what stands for the same rotations: matrices, rotation vectors, Euler angles.

Each branch is computed at a place of its domain where another one is taken, so that derivatives are finite: a rotation
vector of 0 has those of its series.
"""

from __future__ import annotations

import re
from typing import Any

from wholestep.errors import ParameterError, ShapeError
from wholestep.frontend.array import data_of
from wholestep.frontend.promotion import lift
from wholestep.scipy.outside import np

SMALL = 1e-6
"""The square of an angle below which series are used; their next term is below the rounding of doubles."""
LOCKED = 1e-7
"""The distance of a middle angle from its ends at which the two others turn about one axis."""


def of_sizes(name: str, x: Any, *sizes: int) -> Any:
    """An operand whose last axes have these sizes."""
    if x.shape[x.ndim - len(sizes) :] != sizes or x.ndim < len(sizes):
        raise ShapeError(f"{name}: takes an array of shape (..., {', '.join(map(str, sizes))}), not {x.shape}")
    return x


def somewhere(x: Any) -> bool:
    """Test whether a condition is known to hold somewhere."""
    known = data_of(lift(x).value)
    return known is not None and bool(np.any(known))


def nowhere(x: Any) -> bool:
    """Test whether a condition is known to hold nowhere."""
    known = data_of(lift(x).value)
    return known is not None and not np.any(known)


def unit_quaternion(quat: Any) -> Any:
    """A quaternion of length 1 in the direction of another."""
    square = np.sum(quat * quat, axis=-1, keepdims=True)
    if somewhere(square == 0):
        raise ParameterError("Rotation: a quaternion of length 0 is no rotation")
    return quat / np.sqrt(square)


def turned_after(p: Any, q: Any) -> Any:
    """The rotation by q, and then by p."""
    a, b, u, v = p[..., 3:], q[..., 3:], p[..., :3], q[..., :3]
    turned = a * v + b * u + np.cross(u, v)
    return np.concatenate([turned, a * b - np.sum(u * v, axis=-1, keepdims=True)], axis=-1)


def turned_back(quat: Any) -> Any:
    """The rotation back."""
    return quat * np.array([-1.0, -1.0, -1.0, 1.0])


def canonical(quat: Any) -> Any:
    """The one of the two quaternions of a rotation whose last number that is not 0, the scalar first, is positive."""
    x, y, z, w = [quat[..., i] for i in range(4)]
    leading = np.where(w != 0, w, np.where(x != 0, x, np.where(y != 0, y, z)))
    return np.where((leading < 0)[..., None], -quat, quat)


def of_vector(vector: Any) -> Any:
    """The quaternion of a rotation vector: an axis, as long as the angle."""
    square = np.sum(vector * vector, axis=-1, keepdims=True)
    small = square < SMALL
    angle = np.sqrt(np.where(small, 1.0, square))
    near = np.where(small, square, 0.0)
    scale = np.where(small, 0.5 - near / 48 + near**2 / 3840, np.sin(angle / 2) / angle)
    scalar = np.where(small, 1 - near / 8 + near**2 / 384, np.cos(angle / 2))
    return np.concatenate([vector * scale, scalar], axis=-1)


def rotation_vector(quat: Any) -> Any:
    """The rotation vector of a quaternion, of an angle in [0, pi]."""
    short = canonical(quat)
    vector, scalar = short[..., :3], short[..., 3:]
    square = np.sum(vector * vector, axis=-1, keepdims=True)
    small = square < SMALL
    ratio = np.where(small, square, 0.0) / np.where(small, scalar, 1.0) ** 2
    series = 2 * (1 - ratio / 3 + ratio**2 / 5) / np.where(small, scalar, 1.0)
    length = np.sqrt(np.where(small, 1.0, square))
    return vector * np.where(small, series, 2 * np.arctan2(length, scalar) / length)


def angle_of(quat: Any) -> Any:
    """The angle of a rotation, in [0, pi]."""
    return 2 * np.arctan2(np.linalg.norm(quat[..., :3], axis=-1), np.abs(quat[..., 3]))


def matrix_of(quat: Any) -> Any:
    """The matrix of a rotation."""
    x, y, z, w = [quat[..., i] for i in range(4)]
    rows = [
        [x * x - y * y - z * z + w * w, 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), y * y - x * x - z * z + w * w, 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), z * z - x * x - y * y + w * w],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def of_matrix(m: Any) -> Any:
    """The quaternion of an orthogonal matrix, by the largest of its four numbers."""
    diagonal = [m[..., i, i] for i in range(3)]
    trace = sum(diagonal[1:], start=diagonal[0])
    cases = []
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        numbers: list[Any] = [None] * 4
        numbers[i] = 1 - trace + 2 * diagonal[i]
        numbers[j] = m[..., j, i] + m[..., i, j]
        numbers[k] = m[..., k, i] + m[..., i, k]
        numbers[3] = m[..., k, j] - m[..., j, k]
        cases.append(np.stack(numbers, axis=-1))
    turned = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1], 1 + trace]
    cases.append(np.stack(turned, axis=-1))
    largest = np.argmax(np.stack([*diagonal, trace], axis=-1), axis=-1)[..., None, None]
    return unit_quaternion(np.take_along_axis(np.stack(cases, axis=-2), largest, axis=-2)[..., 0, :])


def turning_axes(name: str, seq: str, *counts: int) -> tuple[list[int], bool]:
    """The axes that a sequence of letters names, and whether they turn with the body."""
    if len(seq) not in counts or not re.fullmatch("[XYZ]+|[xyz]+", seq) or any(map(str.__eq__, seq, seq[1:])):
        raise ParameterError(f"{name}: {seq!r} is no sequence of axes, such as 'xyz', or 'ZXZ' for those of the body")
    return ["xyz".index(letter) for letter in seq.lower()], seq.isupper()


def of_angles(seq: str, angles: Any) -> Any:
    """The quaternion of angles about axes."""
    axes, of_body = turning_axes("from_euler", seq, 1, 2, 3)
    of_sizes("from_euler", angles, len(seq))
    made: Any = None
    for i, axis in enumerate(axes):
        one = of_vector(angles[..., i, None] * np.eye(3)[axis])
        made = one if made is None else turned_after(made, one) if of_body else turned_after(one, made)
    return made


def angles_of(seq: str, quat: Any) -> Any:
    """Three angles about axes; where two of the axes are one, the last angle is 0.

    Source: Bernardes, Viollet, "Quaternion to Euler angles conversion", PLoS ONE 17, 2022.
    """
    axes, of_body = turning_axes("as_euler", seq, 3)
    i, j, k = axes[::-1] if of_body else axes
    twice = i == k
    k = 3 - i - j if twice else k
    sign = (i - j) * (j - k) * (k - i) // 2
    w, x, y, z = quat[..., 3], quat[..., i], quat[..., j], quat[..., k] * sign
    a, b, c, d = (w, x, y, z) if twice else (w - y, x + z, y + w, z - x)
    middle = 2 * np.arctan2(np.hypot(c, d), np.hypot(a, b))
    start, end = np.abs(middle) <= LOCKED, np.abs(middle - np.pi) <= LOCKED
    total = np.where(end, 0.0, np.arctan2(np.where(end, 0.0, b), np.where(end, 1.0, a)))
    rest = np.where(start, 0.0, np.arctan2(np.where(start, 0.0, d), np.where(start, 1.0, c)))
    free = ~(start | end)
    locked = np.where(start, 2 * total, 2 * rest * (1 if of_body else -1))
    outer, inner = total - rest, total + rest
    first, third = (inner, outer) if of_body else (outer, inner)
    scale = 1 if twice else sign
    first = np.where(free, first * (scale if of_body else 1), locked * (scale if of_body else 1))
    third = np.where(free, third * (1 if of_body else scale), 0.0)
    made = np.stack([first, middle if twice else middle - np.pi / 2, third], axis=-1)
    return made - 2 * np.pi * (np.where(made > np.pi, 1, 0) - np.where(made < -np.pi, 1, 0))
