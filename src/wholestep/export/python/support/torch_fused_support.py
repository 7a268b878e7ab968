"""Functions of tensors that printed sources have in place of several operations: attention, norms, shares, updates."""

import functools

import torch

from wholestep.export.python.support.torch_support import slice_by_slice


def slices_along(x, axes):
    """Views of an array, one for each place on axes of few elements."""
    slices = [x]
    for done, axis in enumerate(axes):
        slices = [part for whole in slices for part in whole.unbind(axis - done)]
    return slices


def split_among_equal(x, shape, y, gy, axes, rectified, in_step, over):
    """gy, split evenly among the elements of x, in a shape, along axes of few elements that are equal to y.

    `rectified`, y is the largest of max(x, 0), and this the gradient of x; `over`, x may be written.
    """
    eager = in_step and not torch.compiler.is_compiling()  # nothing differentiates it, and each line runs by itself
    blocks, tied = x.reshape(shape), 2 * (x.numel() // max(y.numel(), 1)) if rectified else 0
    if axes[-1] == blocks.ndim - 1:
        return split_slice_by_slice(blocks, y, gy, axes, tied, eager).reshape(x.shape)
    repeated = repeated_along if eager else spread_along
    out = (blocks if over else torch.empty_like(blocks)) if eager else None
    hit = hits(blocks, repeated(y, shape, axes), out)
    share = repeated(shares(slice_by_slice(torch.add, hit, axes), y, gy, tied, eager), shape, axes)
    return (hit.mul_(share) if eager else hit * share).reshape(x.shape)


def split_slice_by_slice(x, y, gy, axes, tied, eager):
    """The same where the last axis is a short one, along which nothing runs well."""
    slices, out = slices_along(x, axes), torch.empty_like(x) if eager else None
    places = slices_along(out, axes) if eager else [None] * len(slices)
    parts = [hits(part, y, place) for part, place in zip(slices, places)]
    share = shares(functools.reduce(torch.add, parts), y, gy, tied, eager)
    if eager:
        for part in parts:
            part.mul_(share)
        return out
    parts = [share * part for part in parts]
    for done, axis in reversed(list(enumerate(axes))):
        n = x.shape[axis]
        parts = [torch.stack(parts[i : i + n], axis - done) for i in range(0, len(parts), n)]
    return parts[0]


def hits(x, y, out):
    """1 where x equals y, else 0, written to an array where there is one."""
    return (x == y).to(x.dtype) if out is None else torch.eq(x, y, out=out)


def shares(count, y, gy, tied, eager):
    """gy in equal parts: as many as are counted, and another number of them where y is 0."""
    if tied:
        count = torch.maximum(count, hits(y, 0, torch.empty_like(y) if eager else None) * tied)
    return 1 / count * gy


def spread_along(y, shape, axes):
    """A view of y that has axes of size 1 more."""
    for axis in axes:
        y = y.unsqueeze(axis)
    return y


def repeated_along(y, shape, axes):
    """y with more axes, the first of size 1 and the others repeated, so that libraries run along all behind that."""
    for axis in axes[1:]:
        at, n = axis - 1, shape[axis]
        y = torch.cat([y.flatten(at)] * n, at).unflatten(at, (n, *y.shape[at:]))
    return y.unsqueeze(axes[0])


def normed_groups(x, gain, bias, groups, eps):
    """A norm of groups of channels, the second axis, with the mean and the inverse deviation of each."""
    n, channels, *places = x.shape
    x = x.contiguous(memory_format=order_in_memory(x))
    return torch.native_group_norm(x, gain, bias, n, channels, torch.Size(places).numel(), groups, eps)


def normed_groups_gradients(g, x, mean, inverse, gain, groups, wanted):
    """The gradients of the array, the gain and the bias; the kernel takes g for lying in memory as x does."""
    n, channels, *places = x.shape
    g, x = (v.contiguous(memory_format=order_in_memory(x)) for v in (g, x))
    sizes = (n, channels, torch.Size(places).numel(), groups)
    return torch.ops.aten.native_group_norm_backward(g, x, mean, inverse, gain, *sizes, wanted)


def order_in_memory(x):
    """Channels last where an array lies so for a processor, else the order of its axes."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(x.ndim, torch.contiguous_format)
    lies = x.device.type == "cpu" and not x.is_contiguous() and x.is_contiguous(memory_format=last)
    return last if lies else torch.contiguous_format


def mixed_values(q, k, v, mask, scale, causal):
    """Attention of arrays [batch, heads, time, width], and the logarithm of each row's sum of exponentials."""
    k, v = for_each_query(k, q), for_each_query(v, q)
    if q.device.type != "cpu":
        return mixed_by_formula(q, k, v, mask, scale, causal)
    options = {"attn_mask": added_to_scores(mask, q), "scale": scale}
    return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, **options)


def mixed_by_formula(q, k, v, mask, scale, causal):
    """Attention by an array of all scores; a row that sees no key gives 0, with the logarithm 0."""
    s = scores_seen(q, k, mask, scale, causal)
    lse = torch.logsumexp(s, -1)
    lse = torch.where(lse == -float("inf"), 0, lse)
    return torch.exp(s - lse.unsqueeze(-1)) @ v, lse


def attention_gradients(q, k, v, mask, out, lse, g, scale, causal):
    """The gradients of queries, keys and values."""
    wide = (for_each_query(k, q), for_each_query(v, q))
    if q.device.type != "cpu":
        gq, *rest = attention_gradients_by_formula(q, *wide, mask, out, lse, g, scale, causal)
    else:
        options = {"attn_mask": added_to_scores(mask, q), "scale": scale}
        given = (g, q, *wide, out, lse, 0.0, causal)
        gq, *rest = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(*given, **options)
    return (gq, *[x if k.shape == x.shape else x.unflatten(1, (k.shape[1], -1)).sum(2) for x in rest])


def attention_gradients_by_formula(q, k, v, mask, out, lse, g, scale, causal):
    """The gradients of attention by an array of all scores."""
    p = torch.exp(scores_seen(q, k, mask, scale, causal) - lse.unsqueeze(-1))
    gs = p * (g @ v.mT - (g * out).sum(-1, keepdim=True)) * scale
    return gs @ k, gs.mT @ q, p.mT @ g


def scores_seen(q, k, mask, scale, causal):
    """Products of queries and keys with a mask, -inf where a query does not look, as at later keys."""
    s = q @ k.mT * scale
    s = s if mask is None else s + added_to_scores(mask, q)
    return s.masked_fill(torch.ones(s.shape[-2:], dtype=torch.bool).triu(1), -float("inf")) if causal else s


def for_each_query(x, q):
    """Heads of keys or values, each once for every head of queries that it serves."""
    return x if x.shape[1] == q.shape[1] else x.repeat_interleave(q.shape[1] // x.shape[1], 1)


def added_to_scores(mask, q):
    """A mask as numbers that are added to scores: 0, or -inf where a query does not look."""
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, -float("inf"))


def all_finite(*xs):
    """True where all elements of arrays are finite: the least and the largest are NaN where one of them is."""
    if torch.compiler.is_compiling():  # one reduction for each array, beside the operation that makes it
        return functools.reduce(torch.logical_and, [torch.isfinite(x).all() for x in xs])
    small = [x.reshape(-1) for x in xs if x.numel() <= 1024]
    joined = [torch.cat(small)] if small else []
    ends = [end for x in (*[x for x in xs if x.numel() > 1024], *joined) for end in torch.aminmax(x)]
    return (torch.stack(ends).abs() < float("inf")).all()


def update_by_adam(ps, gs, ms, vs, t, lr, b1, b2, eps, decay, skipped):
    """Parameters and both means after an update of Adam, in the memory of those before it."""
    if torch.compiler.is_compiling() or ps[0].device.type not in ("cpu", "cuda"):
        return update_by_formula(ps, gs, ms, vs, t, lr, b1, b2, eps, decay, skipped)
    ps, gs, ms, vs = ([x.contiguous() for x in xs] for xs in (ps, gs, ms, vs))
    least = max(float(eps), torch.finfo(ps[0].dtype).tiny)  # without an epsilon a mean of 0 divides by this
    numbers = {"lr": float(lr), "beta1": float(b1), "beta2": float(b2), "eps": least}
    numbers |= {"weight_decay": 0.0 if decay is None else float(decay), "amsgrad": False, "maximize": False}
    found = None if skipped is None else skipped.to(torch.float32)
    torch._fused_adamw_(ps, gs, ms, vs, [], [t.to(torch.float32)] * len(ps), found_inf=found, **numbers)
    return (*ps, *ms, *vs)


def update_by_formula(ps, gs, ms, vs, t, lr, b1, b2, eps, decay, skipped):
    """An update of Adam, one operation after another."""
    dtype, tiny = ps[0].dtype, torch.finfo(ps[0].dtype).tiny
    left = 1 if decay is None else (1 - lr * decay).to(dtype)
    keep, take, keep2, take2, eps = [x.to(dtype) for x in (b1, 1 - b1, b2, 1 - b2, eps)]
    powers = lr / (1 - b1**t), 1 / torch.sqrt(1 - b2**t)
    if max(p.numel() for p in ps) > 2048:  # TorchInductor has them for each vector, but for those of an array
        powers = torch.stack(powers).unbind()
    size, shrink = [x.to(dtype) for x in powers]
    for p, g, m, v in zip(ps, gs, ms, vs):
        m1, v1 = keep * m + take * g, keep2 * v + take2 * (g * g)
        p1 = (p if decay is None else p * left) - size * m1 / (torch.sqrt(v1 + tiny) * shrink + eps)
        for old, new in ((p, p1), (m, m1), (v, v1)):
            old.copy_(new if skipped is None else torch.where(skipped, old, new))
    return (*ps, *ms, *vs)
