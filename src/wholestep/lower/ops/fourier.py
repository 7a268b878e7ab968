"""Kernels of Fourier transforms: one step of a transform, and the terms of real numbers from those of their pairs."""

from __future__ import annotations

from collections.abc import Callable

from wholestep.ir.graph import Node
from wholestep.kernel.lang import Index
from wholestep.kernel.maths.complex import Complex, conj
from wholestep.kernel.maths.dft import finite_product, small_dft
from wholestep.kernel.maths.float_bits import number
from wholestep.lower.buffers.materialize import Materializer
from wholestep.lower.buffers.tasks import Task
from wholestep.lower.ops.loop_templates import KernelTemplate, axes_of_shape


def dft_step_tasks(low: Materializer, node: Node) -> list[Task]:
    """One kernel that reads the numbers of a transform far from each other, and writes its terms beside each other."""
    (x, turns), (out,) = node.inputs, node.outputs
    *lead, r, m, s = x.shape
    with KernelTemplate(low, "dft") as kernel:
        axes, at = axes_of_shape((*lead, m, s))
        *over, p, q = at
        with kernel.loops(axes):
            found = small_dft([kernel.read(x, (*over, Index(j), p, q)) for j in range(r)], node.params["inverse"])
            if m != 1:
                found[1:] = [finite_product(z, kernel.read(turns, (Index(k), p))) for k, z in enumerate(found[1:], 1)]
            for k, z in enumerate(found):
                kernel.store(out, low.locations[out], (*over, p, Index(k), q), z)
    return [kernel.task()]


def paired_terms_tasks(low: Materializer, node: Node) -> list[Task]:
    """One kernel that writes the terms without a partner, and then two terms at once, those of k and of h - k."""
    (z, turns), (out,), inverse = node.inputs, node.outputs, node.params["inverse"]
    *lead, n, s = z.shape
    half = n - inverse
    with KernelTemplate(low, "paired_terms") as kernel:
        outer, over = axes_of_shape(tuple(lead))
        with kernel.loops(outer):
            behind, (q,) = axes_of_shape((s,), "e")
            with kernel.loops(behind):
                for place, term in unpaired_terms(lambda k: kernel.read(z, (*over, k, q)), half, inverse):
                    kernel.store(out, low.locations[out], (*over, place, q), term)
            paired, (k, q) = axes_of_shape(((half - 1) // 2, s), "k")
            with kernel.loops(paired):
                here, there = k + 1, k * -1 + (half - 1)
                one, other = kernel.read(z, (*over, here, q)), conj(kernel.read(z, (*over, there, q)))
                even, odd = one + other, finite_product(one - other, kernel.read(turns, (here,)))
                even = even if inverse else even * 0.5
                kernel.store(out, low.locations[out], (*over, here, q), even + odd)
                kernel.store(out, low.locations[out], (*over, there, q), conj(even - odd))
    return [kernel.task()]


def unpaired_terms(read: Callable[[Index], Complex], half: int, inverse: bool) -> list[tuple[Index, Complex]]:
    """The first term, and the last or the middle one, which have no partner, at their places."""
    first = read(Index())
    if inverse:
        last = read(Index(half))
        found = [(Index(), Complex(first.re + last.re, first.re - last.re))]
    else:
        zero = number(first.re, 0.0)
        found = [(Index(), Complex(first.re + first.im, zero)), (Index(half), Complex(first.re - first.im, zero))]
    if half % 2 == 0:
        middle = Index(half // 2)
        found.append((middle, conj(read(middle)) * (2.0 if inverse else 1.0)))
    return found
