"""Functions of tensors that printed sources use: loops, orders, unsigned words, operations with NumPy's semantics."""

import functools

import numpy as np
import torch

from wholestep.export.python.support.checkpoint_file import checkpoint_header, read_checkpoint, write_checkpoint


def tensor_in_place(i):
    """An array that the program holds, by its place among these, as a tensor."""
    x = CONSTANTS[i]  # noqa: F821  (the program's own)
    if x.dtype.name == "bfloat16":
        return torch.tensor(x.view(np.int16)).view(torch.bfloat16)
    return torch.tensor(x)


def tensor_maker(i):
    """A function that makes the tensor of an array; `torch.compile` keeps its result as a constant by its name."""

    def made():
        return tensor_in_place(i)

    made.__code__ = made.__code__.replace(co_name=f"tensor_{i}")
    return torch.compiler.assume_constant_result(made)


def on_their_device(f):
    """A function of dictionaries that makes its tensors where the given ones are."""

    @functools.wraps(f)
    def here(*groups):
        tensors = [x for group in groups for x in group.values() if isinstance(x, torch.Tensor)]
        device = tensors[0].device if tensors else torch.device("cpu")
        if device == torch.empty(()).device:  # a device that is set makes each call slower
            return f(*groups)
        with device:
            return f(*groups)

    return here


def on_words(name, x, y):
    """An operation on unsigned integers of 16 bits and more, done on signed ones of 64."""
    dtype = (x if isinstance(x, torch.Tensor) else y).dtype
    full = dtype == torch.uint64
    x, y = (v if isinstance(v, torch.Tensor) else torch.tensor(v, dtype=dtype) for v in (x, y))
    a, b = (v.contiguous().view(torch.int64) if full else v.to(torch.int64) for v in (x, y))
    if name in ("less", "less_equal", "equal", "not_equal"):
        low = -(1 << 63) if full else 0
        return {"less": torch.lt, "less_equal": torch.le, "equal": torch.eq, "not_equal": torch.ne}[name](
            a ^ low, b ^ low
        )
    if name == "right_shift" and full:
        found = torch.where(b == 0, a, (a >> b) & ((1 << (64 - b).clamp(max=63)) - 1))
    else:
        plain = {"right_shift": torch.bitwise_right_shift}
        plain |= {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "left_shift": torch.bitwise_left_shift}
        plain |= {"bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or, "bitwise_xor": torch.bitwise_xor}
        found = plain[name](a, b)
    return found.view(torch.uint64) if full else (found & ((1 << 8 * dtype.itemsize) - 1)).to(dtype)


def sign_or_nan(x):
    """The sign; that of NaN is NaN."""
    return torch.where(torch.isnan(x), x, torch.sgn(x))


def unless_zero(f, x, y):
    """A division of integers, which gives 0 where they are divided by 0."""
    nothing = y == 0
    return f(x, torch.where(nothing, 1, y)).masked_fill(nothing, 0)


def scan_rows(f, fixed, carry, xs, length, reverse, nothing):
    """A loop that hands a carry on and stacks the other results; `nothing` is those of a loop of no steps."""
    rows = []
    for i in reversed(range(length)) if reverse else range(length):
        out = f(*fixed, *carry, *[x[i] for x in xs])
        carry = out[: len(carry)]
        rows.append(out[len(carry) :])
    columns = zip(*(reversed(rows) if reverse else rows))
    return (*carry, *([torch.stack(column) for column in columns] if rows else nothing))


def write_slices(x, u, at):
    """A copy with other values at slices."""
    x = x.clone()
    x[at] = u
    return x


def places_in_line(indices, shape):
    """The places, in an array whose first axes are one, of indices of these axes."""
    sizes = shape[: len(indices)]
    line = torch.arange(sizes.numel(), device=indices[0].device)
    return line.reshape(sizes)[tuple([index.long() for index in indices])]


def written_at(x, u, indices):
    """A copy of x with updates at indices of the first axes, of equal ones the last, as of threads any is."""
    at = places_in_line(indices, x.shape).reshape(-1)
    if not at.numel():
        return x
    held = x.reshape(x.shape[: len(indices)].numel(), *x.shape[len(indices) :])
    count = torch.arange(at.numel(), device=at.device)
    last = torch.full(held.shape[:1], -1, dtype=at.dtype, device=at.device).scatter_reduce(0, at, count, "amax")
    rows = u.reshape(at.numel(), *held.shape[1:])[last.clamp(min=0)]
    return torch.where((last >= 0).reshape(-1, *[1] * (held.ndim - 1)), rows, held).reshape(x.shape)


def extreme_at(x, u, indices, kind):
    """A copy of x with the larger or the smaller of its elements and updates at indices of the first axes."""
    at = places_in_line(indices, x.shape)
    rest = x.shape[len(indices) :]
    held, rows = x.reshape(x.shape[: len(indices)].numel(), *rest), u.reshape(at.numel(), *rest)
    if x.dtype is torch.bool:
        held, rows = held.to(torch.uint8), rows.to(torch.uint8)
    found = held.index_reduce(0, at.reshape(-1), rows, kind) if rows.numel() else x
    return found.reshape(x.shape).to(x.dtype)


def pad_between(x, before, after, interior):
    """Zeros before, after and between elements."""
    spans = [max((n - 1) * (i + 1) + 1, 0) for n, i in zip(x.shape, interior)]
    out = torch.zeros([b + n + a for b, n, a in zip(before, spans, after)], dtype=x.dtype)
    out[tuple(slice(b, b + n, i + 1) for b, n, i in zip(before, spans, interior))] = x
    return out


def windows(x, size, stride, dilation):
    """Sliding windows over the last axes, as views."""
    lead = x.ndim - len(size)
    for i, (m, s, d) in enumerate(zip(size, stride, dilation)):
        x = x.unfold(lead + i, (m - 1) * d + 1, s)[..., ::d]
    return x


def with_channels_last(x):
    """Images that have their channels last in memory, and strides that say so."""
    if x.shape[1] == 1:  # in memory both orders are one, and libraries go by strides
        return x.reshape(x.shape[0], *x.shape[2:], 1).movedim(-1, 1)
    return x.contiguous(memory_format=torch.channels_last if x.ndim == 4 else torch.channels_last_3d)


def kernel_gradient(x, g, shape, stride, padding, dilation, groups):
    """The gradient of a convolution's kernel of some shape, where that of its result is g."""
    like, k = g.new_empty(()).expand(shape), len(stride)
    rest = (stride, padding, dilation, False, (0,) * k, groups, (False, True, False))
    return torch.ops.aten.convolution_backward(g, x, like, None, *rest)[1]


def slice_by_slice(f, x, axes):
    """A reduction over axes of few elements, by a function of pairs of slices."""
    for done, axis in enumerate(sorted(axes)):
        x = functools.reduce(f, x.unbind(axis - done))
    return x


def share_of_larger(x, y):
    """1 where x is larger, 1/2 where both are equal, else 0, NaN for NaN; one of them is a finite number."""
    d = (x if isinstance(y, (int, float)) and y == 0 else x - y).detach()  # its derivative is 0
    most = 1 / torch.finfo(d.dtype).tiny  # twice this times any number but 0 is beyond 1/2
    return (d * most).mul_(most).clamp_(-0.5, 0.5).add_(0.5)


def first_place(x, axis, largest):
    """The first place of the largest or smallest element; NaN counts as both."""
    if x.numel() == 0:
        return torch.zeros(x.shape[:axis] + x.shape[axis + 1 :], dtype=torch.int64)
    wide = x.to(torch.uint8) if x.dtype == torch.bool else x
    best = torch.amax(wide, axis, keepdim=True) if largest else torch.amin(wide, axis, keepdim=True)
    return torch.argmax(((wide == best) | (wide != wide)).to(torch.uint8), axis)


def largest(x, axis, k):
    """The k largest, the first of equal ones first, and where they came from."""
    values, order = torch.sort(x, dim=axis, descending=True, stable=True)
    return values.narrow(axis, 0, k), order.narrow(axis, 0, k)


def running(x, axis, upward):
    """The largest, or smallest, so far, and where it was first; NaN stays."""
    values, places = x, torch.zeros(x.shape, dtype=torch.int64)
    for k in range(1, x.shape[axis]):
        now, before = x.select(axis, k), values.select(axis, k - 1)
        new = (now > before if upward else now < before) | (now != now)
        values = values.select_scatter(torch.where(new, now, before), axis, k)
        places = places.select_scatter(torch.where(new, k, places.select(axis, k - 1)), axis, k)
    return values, places


def solve_triangle(a, b, lower, unit, trans):
    """A triangular solve that reads one triangle of a, without its diagonal where that counts as ones."""
    off = int(unit)
    a = a.tril(-off) if lower else a.triu(off)
    a = a + torch.eye(a.shape[-1], dtype=a.dtype) if unit else a
    a = (a, a.mT, a.mH)[trans]
    return torch.linalg.solve_triangular(a, b, upper=lower == bool(trans), unitriangular=unit)


def on_host(f, kinds, *xs):
    """Tensors from a function of NumPy arrays."""
    found = f(*[x.detach().cpu().resolve_conj().numpy() for x in xs])
    dtype, device = xs[0].dtype, xs[0].device
    if kinds is None:
        return torch.as_tensor(np.asarray(found)).to(device, dtype)
    found = found if isinstance(found, tuple) else (found,)
    made = tuple(torch.as_tensor(np.asarray(y)).to(device, kind) for y, (_, kind) in zip(found, kinds))
    return made[0] if len(made) == 1 else made


def eliminated(x):
    """Elimination with pivots: both triangles in one matrix, the exchanges counted from 0, and the order of rows."""
    packed, pivots, _ = torch.linalg.lu_factor_ex(x)
    order, _, _ = torch.lu_unpack(packed, pivots, unpack_data=False)
    order = order.real.mT.argmax(-1) if x.numel() else torch.arange(x.shape[-2]).expand(x.shape[:-1])
    return packed, pivots - 1, order


def load(path):
    """The state in a checkpoint: tensors by path."""
    header, _, _ = checkpoint_header(path)
    found = {}
    for name, x in read_checkpoint(path).items():
        half = header[name]["dtype"] == "BF16"
        found[name] = torch.tensor(x.view(np.int16)).view(torch.bfloat16) if half else torch.tensor(x)
    return found


def save(path, state, like):
    """Write a state for `step.load` to take back; `like` is the checkpoint that it began with."""
    held = {name: x.detach().cpu() for name, x in state.items()}
    bits = {name: x.view(torch.int16).numpy().view(np.uint16) for name, x in held.items() if x.dtype == torch.bfloat16}
    write_checkpoint(path, {name: x.numpy() for name, x in held.items() if name not in bits} | bits, like)
