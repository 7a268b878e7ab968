"""Random programs of views and assignments: NumPy's own aliasing, with and without values, and its derivative."""

import math

import numpy as np
import pytest
from tests.coverage.cases import Case, check_gradient, compare

import wholestep as ws
import wholestep.numpy as wnp
from wholestep.errors import ReadOnlyError, ShapeError, UnsupportedError
from wholestep.frontend.derivatives import vjp
from wholestep.frontend.gradients import grad

PROGRAMS = 260
STEPS = 14


class Draw:
    """One random program, drawn while it runs on plain NumPy, so that every step fits."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.start = self.rng.normal(size=self.choice([(4, 3), (2, 3, 4), (6,), (3, 1, 4), (2, 6)]))
        self.steps = []
        self.lines = []
        self.pool = [self.start * 1.0]
        for _ in range(STEPS):
            getattr(self, self.choice(KINDS))()

    def choice(self, items):
        return items[int(self.rng.integers(len(items)))]

    def integer(self, low, high):
        return int(self.rng.integers(low, high))

    def keep(self, text, step):
        """Run a step on the plain pool and remember it."""
        self.lines.append(text)
        self.steps.append(step)
        step(self.pool)

    def pick(self, test=lambda a: a.size > 0):
        found = [i for i, a in enumerate(self.pool) if test(a)]
        return self.choice(found) if found else None

    def target(self):
        return self.pick(lambda a: a.size > 0 and a.flags.writeable)

    def slice_of(self, n):
        if n == 0:
            return slice(None)
        low, high = sorted((self.integer(0, n), self.integer(0, n)))
        step = self.choice([1, 1, 2, 3])
        if self.rng.random() < 0.4:
            return slice(high, low - 1 if low else None, -step)
        return slice(low, high + 1, step)

    def basic(self, shape):
        """A basic index: slices, integers, new axes, an ellipsis."""
        items = []
        for n in shape[: self.integer(0, len(shape) + 1)]:
            kind = self.rng.random()
            items.append(self.integer(-n, n) if kind < 0.2 and n else self.slice_of(n))
            if kind > 0.9:
                items.append(None)
        return (*items, Ellipsis) if self.rng.random() < 0.5 else tuple(items)

    def view(self):
        i = self.pick()
        a = self.pool[i]
        index, sizes = self.basic(a.shape), self.sizes(a.size)
        order = tuple(self.rng.permutation(a.ndim).tolist())
        axis = self.integer(0, a.ndim) if a.ndim else 0
        options = [(f"p[{i}][{index}]", lambda p: p[i][index])] * 4
        options += [(f"p[{i}].reshape({sizes})", lambda p: p[i].reshape(sizes))] * 3
        options += [
            (f"p[{i}].transpose({order})", lambda p: np.transpose(p[i], order)),
            (f"p[{i}].T.ravel()", lambda p: p[i].T.ravel()),
            (f"ravel(p[{i}], 'K')", lambda p: np.ravel(p[i], "K")),
            (f"p[{i}].reshape({sizes}, order='F')", lambda p: p[i].reshape(sizes, order="F")),
            (f"expand_dims(p[{i}], {axis})", lambda p: np.expand_dims(p[i], axis)),
            (f"squeeze(p[{i}])", lambda p: np.squeeze(p[i])),
            (f"flip(p[{i}])", lambda p: np.flip(p[i])),
            (f"atleast_3d(p[{i}])", lambda p: np.atleast_3d(p[i])),
        ]
        if a.ndim:
            options += [
                (f"moveaxis(p[{i}], {axis}, 0)", lambda p: np.moveaxis(p[i], axis, 0)),
                (f"array_split(p[{i}], 2, {axis})[0]", lambda p: np.array_split(p[i], 2, axis)[0]),
            ]
        if a.ndim > 1:
            options += [
                (f"rot90(p[{i}])", lambda p: np.rot90(p[i])),
                (f"diagonal(p[{i}])", lambda p: np.diagonal(p[i])),
                (f"swapaxes(p[{i}], 0, -1)", lambda p: np.swapaxes(p[i], 0, -1)),
            ]
        text, make = self.choice(options)
        if np.ndim(make(self.pool)) or isinstance(make(self.pool), np.ndarray):
            self.keep(f"p.append({text})", lambda p: p.append(make(p)))

    def sizes(self, n):
        """A shape of n elements."""
        out = []
        while n > 1:
            part = self.choice([k for k in range(2, n + 1) if n % k == 0])
            out.append(part)
            n //= part
        return tuple(out) or ((1,) if n else (0,))

    def value(self, shape):
        """A value to assign to a place of this shape, as text and as a function of the pool."""
        fitting = [i for i, a in enumerate(self.pool) if self.fits(a.shape, shape)]
        scale = round(self.rng.uniform(-1, 1), 2)
        if fitting and self.rng.random() < 0.7:
            j = self.choice(fitting)
            return f"sin(p[{j}]) * {scale}", lambda p: np.sin(p[j]) * scale
        if self.rng.random() < 0.5:
            return str(scale), lambda p: scale
        constant = self.rng.normal(size=shape)
        return f"constant{shape}", lambda p: constant

    @staticmethod
    def fits(own, wanted):
        try:
            return np.broadcast_shapes(own, wanted) == tuple(wanted)
        except ValueError:
            return False

    def assign(self):
        i = self.target()
        if i is None:
            return
        index = self.basic(self.pool[i].shape)
        text, value = self.value(np.shape(self.pool[i][index]))
        self.keep(f"p[{i}][{index}] = {text}", lambda p: p[i].__setitem__(index, value(p)))

    def in_place(self):
        i = self.target()
        if i is None:
            return
        text, value = self.value(self.pool[i].shape)
        kind = self.choice(["+", "-", "*"])

        def step(p):
            if kind == "+":
                p[i] += value(p)
            elif kind == "-":
                p[i] -= value(p)
            else:
                p[i] *= value(p)

        self.keep(f"p[{i}] {kind}= {text}", step)

    def augmented(self):
        i = self.target()
        if i is None:
            return
        index = self.basic(self.pool[i].shape)
        text, value = self.value(np.shape(self.pool[i][index]))

        def step(p):
            p[i][index] += value(p)

        self.keep(f"p[{i}][{index}] += {text}", step)

    def masked(self):
        i = self.target()
        if i is None:
            return
        a = self.pool[i]
        if self.rng.random() < 0.5:
            mask = self.rng.random(a.shape[: self.integer(1, a.ndim + 1)] if a.ndim else ()) < 0.5
            text, value = self.value(())
            self.keep(f"p[{i}][mask{mask.shape}] = {text}", lambda p: p[i].__setitem__(mask, value(p)))
            return
        ordered = np.sort(a.ravel())
        gaps = np.diff(ordered)
        if not len(gaps) or gaps.max() < 0.05:
            return
        at = float(ordered[gaps.argmax()] + gaps.max() / 2)

        def step(p):
            p[i][p[i] > at] *= 0.5

        self.keep(f"p[{i}][p[{i}] > {at:.3}] *= 0.5", step)

    def fancy(self):
        i = self.pick(lambda a: a.ndim > 0 and a.size > 0 and a.flags.writeable)
        if i is None:
            return
        a = self.pool[i]
        axis = self.integer(0, a.ndim)
        rows = self.rng.integers(-a.shape[axis], a.shape[axis], size=self.choice([(2,), (3,), (2, 2)]))
        index = (*[slice(None)] * axis, rows)
        text, value = self.value(a[index].shape)
        kind = self.choice(["set", "add", "at", "put"])
        if kind == "set":
            self.keep(f"p[{i}][{index}] = {text}", lambda p: p[i].__setitem__(index, value(p)))
        elif kind == "at":
            self.keep(f"add.at(p[{i}], {index}, {text})", lambda p: np.add.at(p[i], index, value(p)))
        elif kind == "put":
            where = self.rng.integers(0, a.size, size=3)
            self.keep(f"put(p[{i}], {where}, 0.3)", lambda p: np.put(p[i], where, [0.3, 0.1]))
        else:

            def step(p):
                p[i][index] += value(p)

            self.keep(f"p[{i}][{index}] += {text}", step)

    def out(self):
        i = self.target()
        if i is None:
            return
        shape = self.pool[i].shape
        (one, first), (two, second) = self.value(shape), self.value(shape)
        self.keep(
            f"multiply({one}, {two}, out=p[{i}])", lambda p: np.multiply(first(p) + 0 * p[i], second(p), out=p[i])
        )

    def fresh(self):
        i = self.pick()
        self.keep(f"p.append(p[{i}].copy())", lambda p: p.append((p[i] * 0.7).copy()))

    def whole(self):
        i = self.target()
        if i is None:
            return
        kind = self.choice(["fill", "copyto", "flat", "diagonal"])
        if kind == "fill":
            self.keep(f"p[{i}].fill(0.4)", lambda p: p[i].fill(0.4))
        elif kind == "copyto":
            text, value = self.value(self.pool[i].shape)
            self.keep(f"copyto(p[{i}], {text})", lambda p: np.copyto(p[i], value(p)))
        elif kind == "flat":
            self.keep(f"p[{i}].flat[::2] = 0.2", lambda p: p[i].flat.__setitem__(slice(None, None, 2), 0.2))
        elif self.pool[i].ndim == 2:
            self.keep(f"fill_diagonal(p[{i}], 0.9)", lambda p: np.fill_diagonal(p[i], 0.9))

    def run(self, x):
        """Run the program on an array of any kind."""
        pool = [x * 1.0]
        for step in self.steps:
            step(pool)
        return pool


KINDS = ["view"] * 7 + ["assign"] * 4 + ["in_place", "augmented", "masked", "fancy", "out", "whole"] * 2 + ["fresh"]


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_program(seed):
    drawn = Draw(seed)
    case = Case(drawn.run, drawn.start)
    expected = case.plain()
    try:
        compare(case.eager(), expected, case)
        compare(case.abstract(), expected, case)
        check_gradient(case)
    except Exception:
        print("\n".join(["p = [x * 1.0]", *drawn.lines]))
        raise


READ_ONLY = {
    "diagonal": lambda x: np.diagonal(x),
    "diag": lambda x: np.diag(x),
    "broadcast_to": lambda x: np.broadcast_to(x, (2, 3, 3)),
    "imag": lambda x: np.imag(x),
    "sliding_window_view": lambda x: np.lib.stride_tricks.sliding_window_view(x, 2, axis=0),
}


@pytest.mark.parametrize("name", READ_ONLY)
def test_a_read_only_view_is_read_only(name):
    def f(x):
        READ_ONLY[name](x * 1.0)[0] = 1.0
        return x

    with pytest.raises(ValueError):
        f(np.eye(3))
    with pytest.raises(ReadOnlyError):
        vjp(f, np.eye(3))


def test_a_read_only_view_sees_what_is_written_to_its_base():
    def f(x):
        y = x * 1.0
        seen = np.diagonal(y)
        y[0] = 5.0
        return seen.sum()

    assert grad(f)(np.eye(3)).tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_flat_is_read_as_a_copy_and_written_through():
    def f(x):
        y = (x * 1.0).T
        part = y.flat[0:2]
        part[0] = 7.0
        y.flat[1] = x[0, 0] ** 2
        y.flat = y.flat[::-1] * 2
        return y, np.stack([v for v in y.flat]), len(y.flat)

    x = np.arange(6.0).reshape(2, 3)
    compare(vjp(f, x)[0][:2], f(x)[:2], Case(f, x))


def test_a_gradient_stays_at_the_value_on_entry():
    x = np.array([1.0, 2.0])

    def f(x):
        x[0] = x[1] ** 2
        return x.sum()

    assert grad(f)(x).tolist() == [0.0, 5.0]
    assert x.tolist() == [1.0, 2.0]


def test_a_plain_array_cannot_take_a_traced_value():
    def f(x):
        y = np.zeros(2)
        np.copyto(y, x)
        return y.sum()

    with pytest.raises(UnsupportedError):
        grad(f, rewrite=False)(np.ones(2))
    assert grad(f)(np.ones(2)).tolist() == [1.0, 1.0]


def test_an_array_made_in_a_trace_takes_one():
    def f(x):
        y = wnp.zeros((2, 2))
        y[0] = x
        y[:, 1] *= 3.0
        return (y * y).sum()

    assert grad(f)(np.array([1.0, 2.0])).tolist() == [2.0, 36.0]
    assert math.isclose(f(np.array([1.0, 2.0])), 37.0)


@pytest.mark.parametrize("shape", [(-1, 0), (2, -1, 0), (0, -1)])
def test_a_size_that_is_left_beside_a_size_of_zero_is_refused_as_numpy_refuses_it(shape):
    x = np.zeros((2, 0))
    with pytest.raises(ValueError):
        x.reshape(shape)
    with pytest.raises(ShapeError, match="may be any size"):
        ws.trace(lambda x: x.reshape(shape))(x)


@pytest.mark.parametrize(
    "index",
    [
        (None, np.array([0, 1]), ..., np.array([1, 2])),
        (None, 1, ..., np.array([[3], [-3]])),
        (None, np.array(-1), ..., np.array([True, False, True, True])),
    ],
)
def test_an_ellipsis_of_no_axis_keeps_index_arrays_apart(index):
    x = np.arange(8.0).reshape(2, 4)
    value = np.arange(float(x[index].size)).reshape(x[index].shape)

    def assigned(x):
        made = x.copy()
        made[index] = value
        return made

    for f in (lambda x: x[index], assigned):
        np.testing.assert_array_equal(ws.jit(f)(x), f(x))
        np.testing.assert_array_equal(ws.vmap(f)(x[None]), f(x)[None])
