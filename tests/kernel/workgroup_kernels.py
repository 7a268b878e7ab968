"""Kernels of workgroups as golden text, with operands and NumPy's results for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

TRANSPOSE = """\
kernel transpose(x: f32[96], mut y: f32[96]):
    shared t: f32[20]
    for i in 2:
        for j in 3:
            for u in 4 thread:
                for v in 4 thread:
                    v0 = x[48*i + 12*u + 4*j + v]
                    t[5*u + v] = v0
                    barrier
                    v1 = t[5*v + u]
                    y[32*j + 8*u + 4*i + v] = v1
"""
"""A transpose of 8 x 12 elements by tiles of 4 x 4; rows of five keep the columns of a tile in different banks."""

REDUCTION = """\
kernel total(x: f32[64], mut y: f32[4]):
    shared t: f32[16]
    v0 = i64(8)
    v1 = i64(1)
    v2 = i64(0)
    for g in 4:
        for i in 16 thread:
            v3 = x[16*g + i]
            t[i] = v3
            v4 = index(i)
            v5 = v4 == v2
            barrier
            for s in 4 ordered:
                carry v6 from v0
                v7 = v4 < v6
                v8 = t[i]
                v9 = t[i + v6] if v7
                v10 = v8 + v9
                barrier
                t[i] = v10 if v7
                barrier
                v11 = v6 >> v1
                next v6 = v11, after v12
            v13 = t[0]
            y[g] = v13 if v5
"""
"""The sums of four rows, each by a tree over 16 threads."""

PRODUCT = """\
kernel product(a: f32[64], b: f32[64], mut c: f32[64]):
    shared p: f32[16]
    shared q: f32[16]
    private r: f32[1]
    v0 = f32(0.0)
    for i in 2:
        for j in 2:
            for u in 4 thread:
                for v in 4 thread:
                    r[0] = v0
                    for k in 2 ordered:
                        v1 = a[32*i + 8*u + 4*k + v]
                        p[4*u + v] = v1
                        v2 = b[32*k + 8*u + 4*j + v]
                        q[4*u + v] = v2
                        barrier
                        for w in 4:
                            v3 = p[4*u + w]
                            v4 = q[4*w + v]
                            fold v5 = fma(v3, v4) from v0
                        v6 = r[0]
                        v7 = v5 + v6
                        r[0] = v7
                        barrier
                    v8 = r[0]
                    c[32*i + 8*u + 4*j + v] = v8
"""
"""A product of 8 x 8 matrices by tiles of 4 x 4 in shared memory, its sums in private memory."""


def numbers(*shape: int) -> np.ndarray:
    """Small whole numbers, whose sums are exact in any order."""
    return np.random.default_rng(3).integers(-9, 9, shape).astype(np.float32)


CASES: dict[str, tuple[str, list[np.ndarray], Callable[..., Any]]] = {
    "transpose": (TRANSPOSE, [numbers(8, 12)], np.transpose),
    "reduction": (REDUCTION, [numbers(4, 16)], lambda x: x.sum(1)),
    "product": (PRODUCT, [numbers(8, 8), numbers(8, 8)[::-1]], np.matmul),
}
