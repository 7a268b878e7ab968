"""Scalar code run on arrays: a kernel of one loop around it, in the NumPy interpreter."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tests.kernel.interpret import run_kernel

from wholestep import dtypes
from wholestep.kernel.build import KernelBuilder
from wholestep.kernel.lang import Axis, Index, Kernel
from wholestep.kernel.maths import Complex


def written(code: Callable[..., Any], operands: Sequence[np.dtype], result: np.dtype, n: int, **how: Any) -> Kernel:
    """The kernel; complex arrays are two buffers each."""
    stored, lanes = how.pop("stored", False), how.pop("lanes", 8)
    b = KernelBuilder("elementwise", how.pop("doubles", True))
    with b:
        axis = Axis("i", n, lanes=lanes)
        buffers = [[b.buffer(f"x{k}{j}", part, n) for j, part in enumerate(parts(d))] for k, d in enumerate(operands)]
        outs = [b.buffer(f"y{j}", part, n, True) for j, part in enumerate(parts(result))]
        at = Index(0, {axis: 1})
        with b.loop(axis):
            given = []
            for pieces in buffers:
                values = [b.load(piece, at) for piece in pieces]
                if not stored:
                    values = [b.convert(v, dtypes.compute_dtype(v.dtype)) for v in values]
                given.append(values[0] if len(values) == 1 else Complex(*values))
            made = code(*given, **how)
            for out, value in zip(outs, [made.re, made.im] if isinstance(made, Complex) else [made], strict=True):
                b.store(out, at, b.convert(value, out.dtype))
    return b.kernel()


def parts(dtype: np.dtype) -> list[np.dtype]:
    """The dtypes of the buffers of an array."""
    return [dtypes.real_of(dtype)] * 2 if dtypes.is_complex(dtype) else [dtype]


def evaluate(code: Callable[..., Any], arrays: Sequence[np.ndarray], result: np.dtype, **how: Any) -> np.ndarray:
    """The values of scalar code on arrays of one shape."""
    shape = np.broadcast_shapes(*[a.shape for a in arrays])
    flat = [np.ascontiguousarray(np.broadcast_to(a, shape)).reshape(-1) for a in arrays]
    kernel = written(code, [a.dtype for a in flat], result, flat[0].size, **how)
    given = []
    for a in flat:
        given += [a.real.copy(), a.imag.copy()] if a.dtype.kind == "c" else [a]
    outs = [np.zeros(flat[0].size, part) for part in parts(result)]
    run_kernel(kernel, [*given, *outs])
    if len(outs) == 1:
        return outs[0].reshape(shape)
    made = np.empty(flat[0].size, result)
    made.real, made.imag = outs
    return made.reshape(shape)
