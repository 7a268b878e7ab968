"""scipy.spatial.transform: rotations in space, made of and read as quaternions, matrices, vectors or Euler angles.

In functions that are traced SciPy's own names make these where traced arrays are given, and its rotations of plain
numbers, made anywhere, take traced arrays.

>>> import numpy as np, wholestep as ws
>>> from wholestep.scipy.spatial.transform import Rotation
>>> tip = lambda angle: Rotation.from_euler("z", angle).apply([1.0, 0.0, 0.0])
>>> ws.jacfwd(tip)(0.0).tolist()
[0.0, 1.0, 0.0]
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import scipy.spatial.transform

from wholestep.errors import ParameterError, ShapeError
from wholestep.frontend.dispatch import DECIDING, REPLACED, is_traced
from wholestep.frontend.promotion import lift
from wholestep.frontend.source.fresh import live
from wholestep.ir.build import current
from wholestep.scipy.linalg import polar
from wholestep.scipy.outside import doubles, fallback, np, stands_for
from wholestep.scipy.spatial import quaternions
from wholestep.scipy.spatial.quaternions import nowhere, of_sizes, somewhere, turned_after, unit_quaternion

outside: Any = scipy.spatial.transform

ORTHOGONAL = 1e-12
"""The distance of a matrix's products of rows from 0 and 1 up to which it is a rotation as it is."""


def __getattr__(name: str) -> Any:
    return fallback(outside, name)


class Rotation:
    """Rotations in space, one or an array of them, as `scipy.spatial.transform.Rotation` of traced arrays.

    `from_quat`, `from_matrix`, `from_rotvec`, `from_euler`, `identity` and `concatenate` make one; `as_quat`,
    `as_matrix`, `as_rotvec`, `as_euler` and `magnitude` read it; `p * q` is q and then p, and `r**n`, `inv`, `apply`,
    `mean`, indices and iteration are SciPy's too. Differentiable also at rotations by 0, but for angles of Euler where
    two of their axes are one, and for `magnitude`, whose derivative is 0 there.

    Shapes: quaternions [..., 4], scalar last, matrices [..., 3, 3], vectors [..., 3]; in float64.
    Raises: ShapeError for others; ParameterError for sequences of axes that are none, and for quaternions of 0 and
    matrices with a negative determinant where they are known, which are nan in a compiled program.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.spatial.transform import Rotation
    >>> turned = lambda v: Rotation.from_rotvec(v).apply([0.0, 0.0, 1.0])
    >>> ws.jacrev(turned)(np.zeros(3)).tolist()
    [[0.0, 1.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """

    __array_ufunc__ = None  # an array times a rotation is no array of rotations

    def __init__(self, quat: Any, normalize: bool = True, copy: bool = True, scalar_first: bool = False) -> None:
        given = of_sizes("Rotation", doubles(quat), 4)
        given = np.roll(given, -1, axis=-1) if scalar_first else given
        self.quat: Any = unit_quaternion(given) if normalize else given

    @staticmethod
    def from_quat(quat: Any, *, scalar_first: bool = False) -> Rotation:
        """Rotations of quaternions of any length but 0."""
        return Rotation(quat, scalar_first=scalar_first)

    @staticmethod
    def from_matrix(matrix: Any, *, assume_valid: bool = False) -> Rotation:
        """Rotations of matrices, or the nearest ones to matrices that are not orthogonal."""
        m = of_sizes("from_matrix", doubles(matrix), 3, 3)
        if not assume_valid:
            mirrored = np.linalg.det(m) <= 0
            if somewhere(mirrored):
                raise ParameterError("from_matrix: a determinant is not positive, so that the matrix is no rotation")
            m = np.where(mirrored[..., None, None], np.nan, m)
            off = np.abs(m @ np.swapaxes(m, -1, -2) - np.eye(3)) > ORTHOGONAL
            rough = np.any(off, axis=(-2, -1), keepdims=True)
            if not nowhere(rough):
                m = np.where(rough, polar(np.where(np.isnan(m), np.eye(3), m))[0], m)
        return Rotation(quaternions.of_matrix(m), normalize=False)

    @staticmethod
    def from_rotvec(rotvec: Any, degrees: bool = False) -> Rotation:
        """Rotations of vectors along their axes, as long as the angles."""
        vector = of_sizes("from_rotvec", doubles(rotvec), 3)
        return Rotation(quaternions.of_vector(np.deg2rad(vector) if degrees else vector), normalize=False)

    @staticmethod
    def from_euler(seq: str, angles: Any, degrees: bool = False) -> Rotation:
        """Rotations by angles about axes, those of the body where the letters are upper case."""
        given = np.atleast_1d(doubles(angles))
        return Rotation(quaternions.of_angles(seq, np.deg2rad(given) if degrees else given), normalize=False)

    @staticmethod
    def identity(num: int | None = None, *, shape: Any = None) -> Rotation:
        """The rotation by 0, or an array of them."""
        sizes = shape if shape is not None else () if num is None else num
        return as_ours(outside.Rotation.identity(shape=sizes))

    @staticmethod
    def concatenate(rotations: Any) -> Any:
        """One array of rotations, also of SciPy's rotations of plain numbers."""
        given = [rotations] if isinstance(rotations, (Rotation, outside.Rotation)) else [*rotations]
        if not any([isinstance(one, Rotation) for one in given]):
            return outside.Rotation.concatenate(rotations)
        rows = [np.atleast_2d(as_ours(one).quat) for one in given]
        return Rotation(np.concatenate(rows), normalize=False)

    def as_quat(self, canonical: bool = False, *, scalar_first: bool = False) -> Any:
        """The quaternions."""
        quat = quaternions.canonical(self.quat) if canonical else self.quat
        return np.roll(quat, 1, axis=-1) if scalar_first else quat

    def as_matrix(self) -> Any:
        """The matrices."""
        return quaternions.matrix_of(self.quat)

    def as_rotvec(self, degrees: bool = False) -> Any:
        """The vectors along the axes, as long as the angles."""
        vector = quaternions.rotation_vector(self.quat)
        return np.rad2deg(vector) if degrees else vector

    def as_euler(self, seq: str, degrees: bool = False, *, suppress_warnings: bool = False) -> Any:
        """The angles about three axes."""
        angles = quaternions.angles_of(seq, self.quat)
        return np.rad2deg(angles) if degrees else angles

    def magnitude(self) -> Any:
        """The angles, in [0, pi]."""
        return quaternions.angle_of(self.quat)

    def apply(self, vectors: Any, inverse: bool = False) -> Any:
        """The vectors, rotated."""
        given = of_sizes("apply", doubles(vectors), 3)
        matrix = self.as_matrix()
        return ((np.swapaxes(matrix, -1, -2) if inverse else matrix) @ given[..., None])[..., 0]

    def inv(self) -> Rotation:
        """The rotations back."""
        return Rotation(quaternions.turned_back(self.quat), normalize=False)

    def mean(self, weights: Any = None) -> Rotation:
        """The mean of all rotations: the one of least squared chordal distances."""
        rows = np.reshape(self.quat, (-1, 4))
        weight = np.ones(len(rows)) if weights is None else np.reshape(doubles(weights), (-1,))
        return Rotation(np.linalg.eigh(np.einsum("i,ij,ik->jk", weight, rows, rows))[1][:, -1], normalize=False)

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, (Rotation, outside.Rotation)):
            return NotImplemented
        return Rotation(turned_after(self.quat, as_ours(other).quat))

    def __rmul__(self, other: Any) -> Any:
        return as_ours(other) * self if isinstance(other, outside.Rotation) else NotImplemented

    def __pow__(self, n: Any) -> Rotation:
        return Rotation.from_rotvec(np.asarray(n)[..., None] * self.as_rotvec() if np.ndim(n) else n * self.as_rotvec())

    @property
    def single(self) -> bool:
        """True for one rotation that is no array."""
        return bool(self.quat.ndim == 1)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array of rotations."""
        return tuple(self.quat.shape[:-1])

    def __len__(self) -> int:
        if self.single:
            raise TypeError("one rotation has no length")
        return int(self.quat.shape[0])

    def __bool__(self) -> bool:
        return True

    def __getitem__(self, index: Any) -> Rotation:
        if self.single:
            raise TypeError("one rotation has no parts")
        return Rotation(self.quat[index], normalize=False)

    def __iter__(self) -> Iterator[Rotation]:
        return iter([self[i] for i in range(len(self))])


class Slerp:
    """The rotations between known ones at rising times, at constant rates: `Slerp(times, rotations)(t)`.

    Shapes: times [n], rotations [n]; t [] or [m].
    Raises: ShapeError for others; ParameterError for times that are known not to rise, or to be outside, where results
    are nan in a compiled program.

    >>> import numpy as np, wholestep as ws
    >>> from wholestep.scipy.spatial.transform import Rotation, Slerp
    >>> turn = lambda a: Slerp([0.0, 2.0], Rotation.from_rotvec(a * np.eye(4, 3, k=1)[1:3]))(1.0)
    >>> float(ws.grad(lambda a: turn(a).as_rotvec()[2])(0.3))
    0.5
    """

    def __init__(self, times: Any, rotations: Any) -> None:
        self.times, known = doubles(times), as_ours(rotations)
        if len(known.shape) != 1 or known.shape[0] < 2 or self.times.shape != known.shape:
            raise ShapeError(f"Slerp: takes as many times as rotations, two or more: {self.times.shape}, {known.shape}")
        if somewhere(np.diff(self.times) <= 0):
            raise ParameterError("Slerp: times must be a rising sequence")
        self.rotations = known[:-1]
        self.rotvecs = (self.rotations.inv() * known[1:]).as_rotvec()

    def __call__(self, times: Any) -> Rotation:
        """The rotations at some times."""
        at = doubles(times)
        beyond = (at < self.times[0]) | (at > self.times[-1])
        if somewhere(beyond):
            raise ParameterError("Slerp: a time is outside of those of the known rotations")
        place = np.clip(np.searchsorted(self.times, at) - 1, 0, len(self.rotations) - 1)
        share = (at - self.times[place]) / (self.times[place + 1] - self.times[place])
        part = np.where(beyond, np.nan, share)[..., None] * self.rotvecs[place]
        made: Rotation = self.rotations[place] * Rotation.from_rotvec(part)
        return made


def as_ours(rotation: Any) -> Rotation:
    """Rotations of SciPy's as ours."""
    return rotation if isinstance(rotation, Rotation) else Rotation(indexable(rotation.as_quat()), normalize=False)


def indexable(x: Any) -> Any:
    """A plain array as one that takes traced indices, where there may be some."""
    return x if current() is None else lift(x)


def slerp_as_ours(path: Any) -> Slerp:
    """Rotations of SciPy's at times as ours."""
    made = Slerp.__new__(Slerp)
    made.times, made.rotations, made.rotvecs = indexable(path.times), as_ours(path.rotations), indexable(path.rotvecs)
    return made


def slerp_of(times: Any, rotations: Any) -> Any:
    """Rotations between known ones: ours where they are, or where times are traced, and SciPy's for plain numbers."""
    given = live(times)
    return (Slerp if isinstance(rotations, Rotation) or is_traced(given) else outside.Slerp)(given, rotations)


stands_for(outside.Rotation, Rotation, as_ours)
stands_for(outside.Slerp, Slerp, slerp_as_ours)
REPLACED[outside.Slerp] = slerp_of
for _name in ("from_quat", "from_matrix", "from_rotvec", "from_euler", "concatenate"):
    REPLACED[getattr(outside.Rotation, _name)] = getattr(Rotation, _name)
DECIDING.add(outside.Rotation.concatenate)
