"""A movement primitive is one class: differentiation, batching, folding, lowering and text follow from it."""

import subprocess
import sys

PROGRAM = '''
import numpy as np
import wholestep as ws
from wholestep.frontend.array import Array
from wholestep.ir.text import parse
from wholestep.kernel.lang import Index
from wholestep.primitives.movement import Movement


class Roll(Movement):
    """The elements `shift` places further along an axis, those at the end first."""

    view = True

    def type(self, x, *, shift, axis):
        return x

    def ref(self, x, *, shift, axis):
        return np.roll(x, shift, axis)

    def transpose(self, gy, node, wrt, *, shift, axis):
        return self(gy, shift=-shift, axis=axis)

    def batch(self, n, xs, on, *, shift, axis):
        return self(xs[0], shift=shift, axis=axis + 1)

    def index_map(self, builder, node, at):
        axis, size = node.params["axis"], node.outputs[0].shape[node.params["axis"]]
        shift = node.params["shift"] % size
        value = builder.index(at[axis])
        moved = builder.index(at[axis] + -shift)
        wrapped = builder.index(at[axis] + (size - shift))
        inside = builder.op("le", builder.size(shift), value)
        return (*at[:axis], Index(0, {builder.op("select", inside, moved, wrapped): 1}), *at[axis + 1 :])

    def permuted(self, params, axes):
        return {**params, "axis": axes[params["axis"]]}, axes


roll = Roll()


def f(x):
    return Array(roll(x.value, shift=2, axis=1)) if isinstance(x, Array) else np.roll(x, 2, 1)


x = np.random.default_rng(0).normal(size=(3, 5))
assert np.array_equal(ws.jit(f)(x), np.roll(x, 2, 1))
assert np.array_equal(ws.jit(lambda a: (f(a * 2) + 1).T)(x), (np.roll(x * 2, 2, 1) + 1).T)
assert np.array_equal(ws.grad(lambda a: (f(a) * x).sum())(x), np.roll(x, -2, 1))
assert np.array_equal(ws.jit(ws.vmap(lambda row: Array(roll(row.value, shift=2, axis=0))))(x), np.roll(x, 2, 1))
ws.gradcheck(lambda a: np.sin(f(a)), x)
graph = ws.jit(f).lower(x)
assert str(parse(str(graph))) == str(graph) and "roll(" in str(graph)
'''


def test_one_class_is_enough() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
