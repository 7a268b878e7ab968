"""Products and convolutions in PyTorch's words."""

from __future__ import annotations

from wholestep.export.convolutions import ConvolvedProduct
from wholestep.export.python.convolutions import (
    images_as_text,
    kernels_as_text,
    other_as_text,
    result_as_text,
    source_as_text,
)
from wholestep.export.python.vocabulary import Call, as_matrix_product
from wholestep.primitives.contraction import parts


def torch_contracted(c: Call) -> str:
    """A product: of matrices, and of the rows of several axes with one, by `@`, which `einsum` copies arrays for."""
    return as_matrix_product(c, ".mT") or rows_product(c) or f"torch.einsum({c.p['spec']!r}, {c.a[0]}, {c.a[1]})"


def rows_product(c: Call) -> str | None:
    """A product of a matrix with all rows of an array, or of the rows of two arrays; None for another one.

    abi,ij->abj                          x @ w
    abi,abj->ij                          x.flatten(0, 1).mT @ y.flatten(0, 1)
    """
    a, b, out = parts(c.p["spec"])
    x, y = c.a
    if len(out) == 2 and c.out.dtype.kind == "f":
        n = len(a) - 2
        if n > 0 and a[:-1] == b[:-1] and {a[-1], b[-1]} == {*out}:
            x, y = (x, y) if out[0] == a[-1] else (y, x)
            return f"{x}.flatten(0, {n}).mT @ {y}.flatten(0, {n})"
    for u, w, rows, matrix in ((x, y, a, b), (y, x, b, a)):
        k, new = rows[-1:], out[-1:]
        if c.out.dtype.kind == "f" and len(rows) > 2 and len(matrix) == 2 and out[:-1] == rows[:-1]:
            if {k, new} == {*matrix} and k != new:
                return f"{u} @ {w}{'' if matrix[0] == k else '.mT'}"
    return None


def torch_convolved(call: Call, c: ConvolvedProduct) -> str:
    """A convolution, one of an array with zeros between its elements, or the gradient of a kernel."""
    padding, groups, k = c.before, c.count(c.groups), len(c.kernel)
    if c.of_kernel:
        shape = (c.count((*c.groups, *c.features)), c.count(c.rows), *c.shape(c.places))
        gradient = other_as_text(call, c, c.channels, (*c.groups, *c.features))
        image = torch_images(c, source_as_text(call, c, c.channels, (*c.groups, *c.rows)))
        return result_as_text(
            call, c, f"kernel_gradient({image}, {gradient}, {shape}, "
            f"{c.dilations}, {padding}, {c.strides}, {groups})", rows_first=False
        )  # fmt: skip
    images = torch_images(c, images_as_text(call, c))
    if {*c.gaps} == {1}:
        bias = call.a[2] if len(call.a) > 2 else "None"
        rest = f"{c.strides}, {padding}, {c.dilations}, False, {(0,) * k}, {groups}"
        return result_as_text(call, c, f"torch.convolution({images}, {kernels_as_text(call, c)}, {bias}, {rest})")
    around, more = torch_transposed(c)
    kernel = f"torch.flip({kernels_as_text(call, c, turned=True)}, {tuple(range(2, k + 2))})"
    rest = f"{c.gaps}, {around}, {c.dilations}, True, {more}, {groups}"
    return result_as_text(call, c, f"torch.convolution({images}, {kernel}, None, {rest})")


def torch_images(c: ConvolvedProduct, text: str) -> str:
    """Images with channels last in memory, as then are the results, for plain convolutions of two or three axes."""
    return f"with_channels_last({text})" if c.is_plain and len(c.kernel) in (2, 3) else text


def torch_transposed(c: ConvolvedProduct) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding of a transposed convolution, which is cut off, and its output padding at the end."""
    spans = [(c.sizes[q] - 1) * d for q, d in zip(c.kernel, c.dilations, strict=True)]
    around = [span - n for span, n in zip(spans, c.before, strict=True)]
    return tuple(around), tuple([a - b for a, b in zip(c.exact_after, c.before, strict=True)])


def torch_convolves(c: ConvolvedProduct) -> bool:
    """True for dtypes and padding that torch's convolutions have: as much on both sides, or less cut off behind."""
    if c.source.dtype.name not in ("float32", "float64"):
        return False
    if {*c.gaps} == {1}:
        return c.before == c.after and min(c.before) >= 0
    around, more = torch_transposed(c)
    larger = zip(more, c.gaps, c.dilations, strict=True)
    whole = not c.of_kernel and {*c.strides} == {1} and min(around) >= 0
    return whole and all([0 <= n < max(gap, d) for n, gap, d in larger])
